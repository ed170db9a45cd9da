#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cross.sh DIRECTORY CC: cmocka, built with the compiler CC for the machine or the libc
# that it is for. Prints a directory with cmocka in include/ and lib/, a static library.
# For musl-gcc, lib/ has unwind.o, too, which programs link: see unwind.c.
#
# The source is the distribution's, by apt, with lists of its own in DIRECTORY, which also
# has all the rest. So it needs no privilege and does not change the system. Without apt,
# or if apt does not offer the source, it fails with a message.
set -eu
dir=$1
cc=$2
name=$(basename "${cc%% *}")
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

fail() {
	echo "cross.sh: $1: cannot build cmocka for $cc" >&2
	exit 1
}

# The system's entries for binary packages, as ones for sources.
lists_of_sources() {
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file"
	done >"$dir/apt/sources.list"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" \
			>"$dir/apt/parts/$(basename "$file")"
	done
}

fetch() {
	if ! command -v apt-get >/dev/null || ! command -v xz >/dev/null; then
		fail "no apt or xz"
	fi
	rm -rf "$dir/apt"
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache" "$dir/apt/parts" "$dir/apt/source"
	lists_of_sources
	apt() {
		(cd "$dir/apt/source" && apt-get -q -o APT::Sandbox::User= \
			-o Dir::Etc::sourcelist="$dir/apt/sources.list" \
			-o Dir::Etc::sourceparts="$dir/apt/parts" \
			-o Dir::State::lists="$dir/apt/lists" \
			-o Dir::Cache="$dir/apt/cache" "$@" >&2)
	}
	if ! apt update || ! apt source --download-only cmocka; then
		fail "no source of cmocka"
	fi
	rm -rf "$dir/source.new"
	mkdir "$dir/source.new"
	tar -xf "$dir"/apt/source/cmocka_*.orig.tar.xz -C "$dir/source.new" \
		--strip-components=1
	rm -rf "$dir/apt"
	mv "$dir/source.new" "$dir/source"
}

# Its one file. Its own build asks for these things with cmake.
build() {
	rm -rf "$dir/$name.new"
	mkdir -p "$dir/$name.new/include" "$dir/$name.new/lib"
	cp "$dir"/source/include/cmocka*.h "$dir/$name.new/include"
	set -- -DHAVE_MALLOC_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H -DHAVE_STRINGS_H \
		-DHAVE_GCC_THREAD_LOCAL_STORAGE -DHAVE_CLOCK_REALTIME \
		-DHAVE_STRUCT_TIMESPEC -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL \
		-DWORDS_SIZEOF_VOID_P=__SIZEOF_POINTER__
	if $cc -dM -E -x c /dev/null | grep -q '__BYTE_ORDER__ __ORDER_BIG'; then
		set -- "$@" -DWORDS_BIGENDIAN
	fi
	# shellcheck disable=SC2086
	$cc -std=gnu99 -O2 -g "$@" -I"$dir/source/include" -c "$dir/source/src/cmocka.c" \
		-o "$dir/$name.new/cmocka.o" >&2 || fail "errors"
	"$($cc -print-prog-name=ar)" rcs "$dir/$name.new/lib/libcmocka.a" "$dir/$name.new/cmocka.o"
	if [ "$name" = musl-gcc ]; then
		# shellcheck disable=SC2086
		$cc -O2 -fPIC -c "$scripts/unwind.c" -o "$dir/$name.new/lib/unwind.o" >&2 ||
			fail "errors"
	fi
	rm -rf "${dir:?}/$name"
	mv "$dir/$name.new" "$dir/$name"
}

exec 9>"$dir/lock"
flock 9                                         # rows run in parallel
[ -d "$dir/source" ] || fetch
[ -e "$dir/$name/lib/libcmocka.a" ] || build
echo "$dir/$name"
