#!/bin/sh
# SPDX-License-Identifier: MIT
#
# EVENTS=kqueue on Linux: the tests of descriptors, in their shortest form, over the
# stand-in of tests/kqueue, and over libkqueue where pkg-config finds that. make matrix has
# a row with all tests.
#
#   MAKE, B, CC, SWITCH    as for make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

[ "$(uname -s)" = Linux ] || skip 'this system has its own kqueue(2)'
export USCHED_TEST_SCALE=100
tests=$(basename -s .c tests/unet/test_*.c tests/uevents/test_event.c \
	tests/ubuf/test_ubuf.c tests/uproc/test_embed*.c)

# run_over WHAT VARIABLE=VALUE...
run_over() {
	what=$1 build=$B/kqueue-$1
	shift
	# shellcheck disable=SC2046,SC2086
	$MAKE -s --no-print-directory "B=$build" "CC=$CC" ${SWITCH+"SWITCH=$SWITCH"} "$@" \
		EVENTS=kqueue $(printf "$build/tests/%s " $tests) || die "$what: does not build"
	for test in $tests; do
		count=$((count + 1))
		limited "$build/tests/$test" >"$dir/log" 2>&1 && continue
		fail "$test over $what: $(grep -a -E 'rror: |is not|FAILED' "$dir/log" | head -n 3)"
	done
}

run_over stand-in STAND_IN=1
if pkg-config --exists libkqueue 2>/dev/null; then
	run_over libkqueue STAND_IN=
fi
conclude "$count programs"
