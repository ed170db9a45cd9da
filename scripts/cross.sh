#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cross.sh DIRECTORY CC: cmocka, built with the compiler CC for the machine or the libc
# that it is for. Prints a directory with cmocka in include/ and lib/, a static library.
# For musl-gcc, lib/ has unwind.o, too, which programs link: see unwind.c.
#
# The source is the distribution's: see source.sh. DIRECTORY has all the rest, too.
set -eu
scripts=$(cd "$(dirname "$0")" && pwd)
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

# Its one file. Its own build asks for these things with cmake.
build() {
	rm -rf "$dir/$name.new"
	mkdir -p "$dir/$name.new/include" "$dir/$name.new/lib"
	cp "$dir"/cmocka/include/cmocka*.h "$dir/$name.new/include"
	set -- -DHAVE_MALLOC_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H -DHAVE_STRINGS_H \
		-DHAVE_GCC_THREAD_LOCAL_STORAGE -DHAVE_CLOCK_REALTIME \
		-DHAVE_STRUCT_TIMESPEC -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL \
		-DWORDS_SIZEOF_VOID_P=__SIZEOF_POINTER__
	if $cc -dM -E -x c /dev/null | grep -q '__BYTE_ORDER__ __ORDER_BIG'; then
		set -- "$@" -DWORDS_BIGENDIAN
	fi
	# shellcheck disable=SC2086
	$cc -std=gnu99 -O2 -g "$@" -I"$dir/cmocka/include" -c "$dir/cmocka/src/cmocka.c" \
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
"$scripts/source.sh" "$dir" cmocka || fail "no source of cmocka"
[ -e "$dir/$name/lib/libcmocka.a" ] || build
echo "$dir/$name"
