#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make deb: the packages of the tree as it is build, lintian finds no error and no warning,
# and the files are in the packages that they belong to. Nothing is installed.
#
#   MAKE    default make
#   LONG=1  in a minimal root besides, with what debian/control names and nothing else: the
#           packages build there, are installed, and pass their own tests by autopkgtest
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

need git dh dpkg-buildpackage lintian
(cd packaging && dpkg-checkbuilddeps) 2>"$dir/log" || skip "$(tail -n 1 "$dir/log")"
. tests/scripts/checkout.lib
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
	'lib/.*/cmake/usched/usched-config\.cmake'
! grep -E 'tls|usched-run' "$dir/files" || fail 'libusched-dev has what is not its own'
has usched-examples libexec/usched/04-echo libexec/usched/10-https \
	share/doc/usched-examples/examples/01-hello.c
has "libusched-tls$abi" "lib/.*/libusched-tls\\.so\\.$abi"
has libusched-tls-dev include/usched/tls/utls.h 'lib/.*/libusched-tls\.a' \
	'lib/.*/pkgconfig/usched-tls\.pc' share/man/man3/utls.3.gz
case $(dpkg --print-architecture) in
amd64 | arm64)
	has "libusched-posix$abi" "lib/.*/libusched-posix\\.so\\.$abi"
	has "libusched-sim$abi" "lib/.*/libusched-sim\\.so\\.$abi"
	has usched-run bin/usched-run share/man/man1/usched-run.1.gz
	;;
esac

# The tests of the packages are those of debian/tests, in the root and nowhere else.
in_a_root() {
	(cd "$dir/tree" && scripts/root.sh "set -e
		export DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=noautodbgsym
		apt-get -q update
		apt-get -q install -y --no-install-recommends debhelper dpkg-dev
		apt-get -q build-dep -y --no-install-recommends ./packaging
		make deb
		apt-get -q install -y --no-install-recommends autopkgtest lintian
		lintian --allow-root --fail-on error,warning build/deb/*.changes
		autopkgtest --apt-upgrade build/deb/*.deb build/deb/*.dsc -- null") \
		>"$dir/log" 2>&1
}
how=
if [ "${LONG-}" = 1 ]; then
	in_a_root
	status=$?
	if [ $status -eq 77 ]; then
		note "not in a root: $(grep 'root.sh: no root' "$dir/log")"
	elif [ $status -ne 0 ]; then
		fail "in a root: $(tail -n 40 "$dir/log")"
	else
		how=", in a root $(grep ' PASS$' "$dir/log" | sort -u | wc -l) tests of the packages"
	fi
fi

conclude "$(find "$debs" -name '*.deb' | wc -l) packages," \
	"$(lintian --version | tr '\n' ' ')finds nothing$how"
