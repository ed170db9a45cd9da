#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check.sh: make check. Builds and runs every test: with the given settings, with the
# portable switch, under stress, some under valgrind, and the scripts. Under stress
# invariants are checked, and threads evicted at each block. The last lines name the tests
# that failed, each with what failed first, and the very last has the numbers of test cases
# that passed, failed and were skipped.
#
#   MAKE, B            as in the Makefile, which sets them
#   QUICK              1: the test programs alone, in their shortest form, as make quick
#   ONLY               scripts of tests/: "peers serve" runs these two and nothing else
#   CHECK_TIMEOUT      seconds for one program; default 3600. Under valgrind twice that
#   CHECK_AT_ONCE      programs; default: four more than there are processors, as scripts
#                      wait for others much of the time
#   USCHED_TEST_SCALE  the tests' large counts are divided by it, see tests/README.md;
#                      default 4, 40 after the first build, 100 under valgrind, and
#                      there over rr only: make matrix has a row with all
#
# The output of a program is in $B/check/logs. "check.sh LABEL PROGRAM" runs one program.
set -u
MAKE=${MAKE:-make}
B=${B:-build}
timeout=${CHECK_TIMEOUT:-3600}
top=$B
counts=$top/check/counts
logs=$top/check/logs
failures=$top/check/failures
mkdir -p "$logs" "$counts" || exit 1
. scripts/lib.sh

# Under valgrind a program takes 50 times as long: these are short, and see most of the
# code.
memchecked='test_usched test_evict test_dispatch test_switch test_float test_random
	test_torture test_image test_guard test_event test_embed test_embed_end
	test_frames test_frames_check'
memchecked="$memchecked $(basename -s .c tests/usync/test_sync_*.c tests/unet/test_net_*.c | tr '
' ' ')"

# run_one LABEL PROGRAM: runs it, and writes its counts to a file.
run_one() {
	name=$(basename "$2")
	case $1 in
	script)
		export B CC MAKE SWITCH
		run_script script "$timeout" "$2"
		;;
	python)
		export B CC MAKE SWITCH
		run_python python "$timeout" "$2"
		;;
	cycles)
		cycles cycles
		;;
	slice)
		export USCHED_TEST_SLICE=1 USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-40}"
		run slice "$timeout" "$top/tests/$name"
		;;
	setjmp | stress)
		[ "$1" = setjmp ] || export USCHED_STRESS=1
		export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-40}"
		run "$1" "$timeout" "$top/$1/tests/$name"
		;;
	valgrind)
		export USCHED_TEST_SCALE=100 USCHED_TEST_OVER=rr
		EMULATOR=$valgrind
		run valgrind $((2 * timeout)) "$memcheck_dir/tests/$name"
		;;
	*)
		export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-4}"
		run "$1" "$timeout" "$top/tests/$name"
		;;
	esac
	echo "$passed $failed $skipped" >"$counts/$1-$name"
}

if [ $# -eq 2 ]; then
	unset ONLY              # some scripts have an ONLY of their own
	run_one "$1" "$2"
	exit 0
fi

rm -rf "$counts" "$failures"
mkdir -p "$counts"
targets='all checked programs examples tests'
[ -z "${ONLY-}" ] || targets='all checked programs examples'
if [ "${QUICK-}" = 1 ]; then
	targets=tests
	export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-100}"
fi
# shellcheck disable=SC2086
build "B=$top" $targets || exit 1
SWITCH=$(setting SWITCH)
cflags=$(setting CFLAGS)
CC=$(setting CC)
# Several scripts need or install these, and run at once: they must not build them at once.
machine=$($CC -dumpmachine | sed 's/-.*//')
case $cflags:${QUICK-} in
*-fsanitize=* | *:1) ;;
*) [ ! -f "posix/$machine.S" ] || build "B=$top" posix sim sim-tests over-sim ;;
esac
[ "${QUICK-}" = 1 ] || build "B=$top" pages
memcheck_dir=$top
export MAKE B CC SWITCH memcheck_dir
echo "$CC, $(setting VERSION)"
echo "CFLAGS=$cflags SWITCH=$SWITCH"

# build_tests LABEL VARIABLE=VALUE...: builds the tests. An error is a failed case.
build_tests() {
	label=$1
	shift
	build "$@" tests && return
	began=$(date +%s) p=0 f=1 s=0 status=2 log=
	line "$label" build "does not build"
	return 1
}

# programs LABEL: prints a job for each program. Those of processors and descriptors come
# first, as they take longest.
programs() {
	for test in tests/uproc/test_*.c tests/unet/test_*.c tests/*/test_*.c; do
		echo "$1 $(basename "$test" .c)"
	done | awk '!seen[$0]++'
}

# Scripts come first, as some are the longest jobs.
list_jobs() {
	if [ "${QUICK-}" = 1 ]; then
		programs "$SWITCH"
		return
	fi
	if [ -n "${ONLY-}" ]; then
		for script in $ONLY; do
			echo "script tests/scripts/$script.sh"
		done
		return
	fi
	for test in tests/scripts/test_*.py; do
		echo "python $test"
	done
	for script in tests/scripts/*.sh; do
		echo "script $script"
	done
	echo 'cycles cycles'
	programs "$SWITCH"
	if [ "$SWITCH" != setjmp ]; then
		for test in $slice_tests; do
			echo "slice $test"
		done
	fi
	if [ "$SWITCH" != setjmp ] && build_tests setjmp "B=$top/setjmp" SWITCH=setjmp >&2; then
		programs setjmp
	fi
	if build_tests stress "B=$top/stress" "CFLAGS=$cflags -DUSCHED_CHECK" >&2; then
		programs stress
	fi
	for test in $memchecked; do
		echo "valgrind $test"
	done
}

case $CC in
*clang*)        # valgrind 3.19 gives up on what clang 14 writes as version 5
	memcheck_dir=$top/valgrind
	build_tests valgrind "B=$memcheck_dir" "CFLAGS=$cflags -gdwarf-4"
	;;
esac
list_jobs >"$top/check/jobs"
if ! command -v valgrind >/dev/null; then
	echo "valgrind is not installed: nothing is run under it"
	sed -i '/^valgrind /d' "$top/check/jobs"
fi
xargs -L 1 -P "${CHECK_AT_ONCE:-$((cores + 4))}" "$0" <"$top/check/jobs"

while read -r label job; do
	name=$(basename "$job")
	[ -e "$counts/$label-$name" ] || echo "$label $name: did not end" >>"$failures"
done <"$top/check/jobs"
expected=$(wc -l <"$top/check/jobs")
cat "$counts"/* >"$top/check/sums"
while read -r p f s; do
	expected=$((expected - 1))
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done <"$top/check/sums"
failed=$((failed + expected))           # those that did not end
if [ -z "${ONLY-}${QUICK-}" ]; then
	moved=$(counted "$logs"/*.log)
	echo "threads $moved times"
	case $SWITCH$moved in
	setjmp*)	;;
	*' 0'*)		echo 'all tests: no thread moved, or none was preempted' >>"$failures"
			failed=$((failed + 1)) ;;
	esac
fi
if [ -s "$failures" ]; then
	echo 'failed:'
	sort "$failures" | sed 's/^/	/'
fi
summary
