#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Test programs whose native threads are stopped at random, by delays.c: no test takes for
# granted that one of them gets a processor in time. What is wrong with a test, or here, on
# a busy machine once in a thousand runs shows at once.
#
#   MAKE, B, CC   as for make
#   LONG=1        all programs, with those of POSIX threads if `make posix-tests' has built
#                 them: with many short stops and with few long ones; and those of threads
#                 that move between processors
#
# "delays.sh STOP RATE PROGRAM" runs one program.
set -u
cd "$(dirname "$0")/../.." || exit 1

# Their native threads' own stops are what these measure: few for them.
few='test_stall test_preempt'

if [ $# -eq 3 ]; then
	log=$delays_dir/${3##*/}.$1${USCHED_TEST_SLICE+.slice}
	timeout 1800 "$delays_dir/delays" "$@" >"$log" 2>&1 </dev/null && exit 0
	echo "delays $*: exit status $?"
	grep -v '^\[ *\(OK\|RUN\) ' "$log" | tail -n 40
	exit 1
fi

. tests/scripts/test.lib
# shellcheck disable=SC2034,SC2154
logs=$dir
. scripts/lib.sh
[ "${LONG-}" ] && scale=40 || scale=100
export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-$scale}" delays_dir="$dir"
$CC -std=c11 -O2 -o "$dir/delays" tests/help/delays.c || die "does not build"
"$dir/delays" 1000 1 true >"$dir/log" 2>&1 || skip "$(head -n 1 "$dir/log")"

# under STOP RATE PROGRAM...: runs them, several at once.
under() {
	stop=$1 rate=$2
	shift 2
	for program; do
		case " $few " in
		*" $program "*) [ "$stop" -gt 20000 ] || continue ;;
		esac
		echo "$stop $rate $B/tests/$program"
	done >"$dir/jobs"
	count=$((count + $(wc -l <"$dir/jobs")))
	xargs -L 1 -P 6 "$0" <"$dir/jobs" || fail "programs fail where threads are stopped"
}

if [ "${LONG-}" ]; then
	all=$(basename -s .c tests/*/test_*.c | tr '\n' ' ')
	for program in "$B"/posix/test_uposix_threads "$B"/posix/test_uposix_io \
		"$B"/posix/test_uposix_futex; do
		[ ! -x "$program" ] || all="$all ../posix/${program##*/}"
	done
	# shellcheck disable=SC2086
	under 20000 100 $all
	# shellcheck disable=SC2086
	under 300000 3 $all
	export USCHED_TEST_SLICE=1
	# shellcheck disable=SC2086,SC2154
	under 20000 100 $slice_tests
else
	under 20000 100 test_net_select test_sync_chan test_wake
fi
stops=$(awk '/^delays: [0-9]+ stops$/ { n += $2 } END { print n + 0 }' "$dir"/test_*)
[ "$stops" -gt 0 ] || fail 'no thread was stopped'
conclude "$count runs, $stops stops"
