#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The Makefile for its users: without a target it builds the library and no program, `make
# examples' builds those whose libraries are there and names the others, and `make help'
# names each target and each variable, and no others.
#
#   MAKE    default make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# links TARGET...: the files that a first build of it links or packs.
links() {
	$MAKE -n --no-print-directory "B=$dir/new" "$@" |
		sed -nE "s,^(.* -o|.*ar rcs) $dir/new/([^ ]*\.(a|so\.[0-9.]*)|[a-z1/.-]*) .*,\2,p" |
		grep -v '\.l*o$' | sort -u
}

links >"$dir/default"
links checked >"$dir/checked"
links programs >"$dir/programs"
version=$(version)
for file in ulocks.so libusched.a "libusched.so.$version"; do
	grep -qx "$file" "$dir/default" || fail "make does not build $file"
done
for file in libusched-check.a "libusched-check.so.$version"; do
	grep -qx "$file" "$dir/checked" || fail "make checked does not build $file"
done
if grep '^libusched-check' "$dir/default"; then
	fail 'make builds the library with checks, which takes as long again'
fi
grep -qx rmain "$dir/programs" || fail 'make programs does not build rmain'
if grep -v '^libusched\|^ulocks\.so$' "$dir/default"; then
	fail 'make builds more than the library'
fi

# A compiler that finds all headers, and all libraries but libuv and OpenSSL's second one.
cat >"$dir/cc" <<-END
	#!/bin/sh
	case "\$*" in
	*-dumpmachine* | *--version*) exec $CC "\$@" ;;
	*-luv* | *-lcrypto*) exit 1 ;;
	esac
END
chmod +x "$dir/cc"
$MAKE -n --no-print-directory "B=$dir/new" "CC=$dir/cc" examples >"$dir/make" ||
	fail 'make examples fails without a library'
sed -nE "s,.* -o $dir/new/examples/([^ .]*) .*,\1,p" "$dir/make" | sort >"$dir/built"
for example in examples/*.c examples/*.cc; do
	basename "${example%.*}"
done | grep -v -e 15-libuv -e 10-https | sort | diff - "$dir/built" >&2 ||
	fail 'make examples builds others (>) than those whose libraries are there (<)'
for example in 10-https 15-libuv; do
	grep -q "make examples: without $example: " "$dir/make" ||
		fail "make examples does not name $example"
done

# Targets are the first words behind "make", variables the words before "=".
$MAKE -s --no-print-directory help >"$dir/help" || fail 'make help fails'
sed -n 's/^make \([a-z-]*\) .*/\1/p' "$dir/help" | grep . | sort >"$dir/told"
sed -e :a -e '/\\$/ { N; s/\\\n//; ta' -e '}' Makefile | sed -n 's/^\.PHONY: //p' |
	tr -s ' \t' '\n' | grep -vx -e all -e force | sort >"$dir/targets"
diff "$dir/targets" "$dir/told" >&2 || fail 'the targets (<) are not those of make help (>)'
sed -n '/^Variables/,$p' "$dir/help" | grep -oE '\b[A-Za-z]+=' | tr -d = | sort -u >"$dir/told"
{
	printf 'AR\nCC\n'               # make itself has these
	sed -n 's/^\([A-Za-z]*\) *?=.*/\1/p' Makefile
} | sort >"$dir/variables"
diff "$dir/variables" "$dir/told" >&2 ||
	fail 'the variables (<) are not those of make help (>)'

conclude "$(wc -l <"$dir/targets") targets, $(wc -l <"$dir/variables") variables"
