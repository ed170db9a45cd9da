#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cmocka.sh DIRECTORY COMPILER OPTION...: cmocka compiled like that, for sanitizers that
# must know of everything which is written. Prints a directory that has it in include/ and
# lib/.
#
# It is the source package of the distribution, unpacked and compiled in DIRECTORY; apt
# reads its lists of sources into DIRECTORY, too. So it takes no privilege and leaves the
# system as it is. Fails, saying why, where there is no apt or it does not offer sources.
set -eu
dir=$1
shift

if ! command -v apt-get >/dev/null; then
	echo "cmocka.sh: no apt: cannot fetch cmocka's source" >&2
	exit 1
fi
if [ ! -e "$dir/lib/libcmocka.a" ]; then
	rm -rf "$dir"
	mkdir -p "$dir/lists/partial" "$dir/cache" "$dir/parts" "$dir/include" "$dir/lib"
	full=$(cd "$dir" && pwd)
	# The same sources as those of the system, of either format, for what was compiled.
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -f "$file" ] ||
			sed 's/^Types:.*/Types: deb-src/' "$file" >"$dir/parts/${file##*/}"
	done
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -f "$file" ] ||
			sed -n 's/^deb /deb-src /p' "$file" >"$dir/parts/${file##*/}.list"
	done
	apt() {
		apt-get -q -o APT::Sandbox::User= -o Dir::State::lists="$full/lists" \
			-o Dir::Cache="$full/cache" -o Dir::Etc::SourceList=/dev/null \
			-o Dir::Etc::SourceParts="$full/parts" "$@" >&2
	}
	apt update || echo 'cmocka.sh: not all lists could be read' >&2
	(cd "$dir" && apt source --download-only cmocka)
	mkdir "$dir/source"
	rm -f "$dir"/*.asc                      # a signature; apt has checked its own
	tar -xf "$dir"/cmocka_*.orig.tar.* --strip-components 1 -C "$dir/source"
	"$@" -DHAVE_SIGNAL_H -DHAVE_INTTYPES_H -DHAVE_MALLOC_H -DHAVE_STRINGS_H \
		-DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_REALTIME -DHAVE_GCC_THREAD_LOCAL_STORAGE \
		-DHAVE_STRSIGNAL -D_GNU_SOURCE -I"$dir/source/include" \
		-c "$dir/source/src/cmocka.c" -o "$dir/cmocka.o" >&2
	cp "$dir"/source/include/cmocka*.h "$dir/include"
	rm -rf "$dir/lists" "$dir/cache"
	# Last, for it says that all is there.
	ar rcs "$dir/lib/libcmocka.a" "$dir/cmocka.o"
fi
cd "$dir" && pwd
