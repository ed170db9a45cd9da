#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make deb: the packages of the tree as it is build, lintian finds no error and no warning,
# and the files are in the packages that they belong to. Nothing is installed.
#
#   MAKE    default make
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

need git dh dpkg-buildpackage lintian
(cd packaging && dpkg-checkbuilddeps) 2>"$dir/log" || skip "$(tail -n 1 "$dir/log")"
. tests/checkout.lib
make_checkout || exit 1

export DEB_BUILD_OPTIONS=noautodbgsym
$MAKE -s --no-print-directory -C "$dir/tree" B=build deb >"$dir/log" 2>&1 ||
	die "make deb fails: $(tail -n 40 "$dir/log")"
debs=$dir/tree/build/deb
lintian --allow-root --fail-on error,warning "$debs"/*.changes >"$dir/log" 2>&1 ||
	fail "lintian: $(cat "$dir/log")"

# has PACKAGE PATTERN...: files, as tar lists them.
has() {
	package=$1
	shift
	dpkg-deb -c "$debs/${package}"_*.deb >"$dir/files" || fail "there is no $package"
	for pattern; do
		grep -Eq " \./usr/$pattern( -> .*)?\$" "$dir/files" ||
			fail "$package has no $pattern"
	done
}

version=$(version)
abi=${version%.*}
has "libusched$abi" "lib/.*/libusched\\.so\\.$abi" "lib/.*/libusched\\.so\\.$version"
! grep -E 'check|\.so$|\.h$' "$dir/files" || fail 'the library is not alone in its package'
has "libusched-check$abi" "lib/.*/libusched-check\\.so\\.$abi"
has libusched-dev include/usched/rr.h 'lib/.*/libusched\.a' 'lib/.*/libusched-check\.so' \
	'lib/.*/pkgconfig/usched-check\.pc' 'lib/.*/usched/ulocks\.so' share/man/man3/unet_read.3.gz \
	bin/uthreads share/usched/usched_view/main.py share/man/man1/uthreads.1.gz \
	'share/gdb/auto-load/usr/lib/.*/libusched\.so\..*-gdb\.py' \
	share/doc/libusched-dev/examples/01-hello.c

conclude "$(find "$debs" -name '*.deb' | wc -l) packages," \
	"$(lintian --version | tr '\n' ' ')finds nothing"
