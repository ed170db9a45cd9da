#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The ABI of libusched.so, by libabigail: the functions, and the structs of public headers,
# are those of packaging/abi, except for new functions. A dump in which a function has
# another name, or a member another place, is not taken for the same.
#
#   B         the build directory, where the library has its symbols: -g
#   --renew   writes the dump. CONTRIBUTING.md says when
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

need abidw abidiff xz
machine=$($CC -dumpmachine | sed 's/-.*//')
dump=packaging/abi/$machine.abi.xz
library=$B/libusched.so.$(version)
[ -f "$dump" ] || [ "${1-}" = --renew ] || skip "packaging/abi has no dump of $machine"
[ -f "$library" ] || die "there is no $library: run make first"
case $CC in *clang*) skip 'the dump is as gcc describes types' ;; esac
case $(sed -n 's/^CFLAGS=//p' "$B/flags") in
*-flto* | *-fsanitize=* | *-m32* | *-DUSCHED_CHECK* | *-DSINGLE_THREAD*)
	skip 'these options make another ABI, or another description of it' ;;
*-g*) ;;
*)      skip "$library was built without -g" ;;
esac

# Types of other headers are opaque for programs.
for header in $(of_make headers); do
	mkdir -p "$dir/include/$(dirname "$header")"
	cp "$header" "$dir/include/$header"
done

# dump_abi LIBRARY: whether a function is inlined as well depends on the compiler.
dump_abi() {
	abidw --headers-dir "$dir/include" --drop-private-types --drop-undefined-syms \
		--no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
		--no-parameter-names --no-write-default-sizes "$1" |
		sed "s/ declared-inline='yes'//"
}

dump_abi "$library" >"$dir/built"
grep -q '<class-decl' "$dir/built" || die 'abidw finds no struct'
if [ "${1-}" = --renew ]; then
	xz -9e <"$dir/built" >"$dump"
	note "$dump is new"
	exit 0
fi

# compare DUMP: what differs is in $dir/log.
compare() {
	limited abidiff --no-added-syms --harmless "$1" "$dir/built" >"$dir/log" 2>&1
}

xz -dc "$dump" >"$dir/abi" || die "$dump is damaged"
compare "$dir/abi" || fail "not the ABI of $dump: $(cat "$dir/log")"

# planted WHAT WORDS EXPRESSION: sed makes a dump of another ABI.
planted() {
	sed "$3" "$dir/abi" >"$dir/other"
	! cmp -s "$dir/abi" "$dir/other" || die "$1: not planted"
	! compare "$dir/other" || fail "$1 is not found"
	has "$2" "$dir/log"
}
planted 'a function that is gone' '1 Removed' 's/unet_read\>/unet_gone/g'
planted 'a member that has moved' 'h_fd' \
	"/layout-offset-in-bits/ { N; /name='h_fd'/ s/bits='[0-9]*'/bits='8'/; }"
conclude "$(grep -c '<function-decl' "$dir/abi") functions, $(grep -c '<class-decl' "$dir/abi") structs"
