#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check.sh: make check. Builds and runs every test: with the settings given, with the
# portable switch, with the invariants checked, and under valgrind; then the scripts.
# Ends with the number of test cases that passed, failed and were skipped, on a line.
#
#   MAKE, B          as in the Makefile, which sets them
#   CHECK_TIMEOUT    seconds for one program; default 240. Under valgrind twice that
#
# The large counts of the tests belong to the first of these builds; in the others they
# are divided, see USCHED_TEST_SCALE in tests/README.md.
set -u
MAKE=${MAKE:-make}
B=${B:-build}
timeout=${CHECK_TIMEOUT:-240}
logs=$B/check/logs
mkdir -p "$logs" || exit 1
. scripts/lib.sh

# build_tests LABEL VARIABLE=VALUE...: nothing can be tested that does not build.
build_tests() {
	label=$1
	shift
	if ! build "$@" programs tests; then
		began=$(date +%s) p=0 f=1 s=0 status=2
		line "$label" build "does not build"
		return 1
	fi
}

run_tests() {
	label=$1 seconds=$2 dir=$3
	for test in tests/test_*.c; do
		run "$label" "$seconds" "$dir/tests/$(basename "$test" .c)"
	done
}

top=$B
build "B=$top" all examples || exit 1
switch=$(setting SWITCH)
cflags=$(setting CFLAGS)
CC=$(setting CC)
echo "$CC, $(setting VERSION)"
echo "CFLAGS=$cflags SWITCH=$switch"

# What takes the time goes in two lanes, which have their settings and counts each in a shell
# of its own.
plain_and_others() {
	if build_tests "$switch" "B=$top"; then
		run_tests "$switch" "$timeout" "$top"
		cycles "$switch"
	fi
	export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-10}"
	B=$top/setjmp
	if [ "$switch" != setjmp ] && build_tests setjmp "B=$B" SWITCH=setjmp; then
		run_tests setjmp "$timeout" "$B"
		cycles setjmp
	fi
	B=$top/checked
	if build_tests checked "B=$B" "CFLAGS=$cflags -DUSCHED_CHECK"; then
		run_tests checked "$timeout" "$B"
	fi
}

under_valgrind() {
	B=$top/valgrind
	export USCHED_TEST_SCALE=100
	if ! command -v valgrind >/dev/null; then
		echo "valgrind is not installed: nothing is run under it"
	# -gdwarf-4: valgrind 3.19 gives up on what clang 14 writes as version 5.
	elif build_tests valgrind "B=$B" "CFLAGS=$cflags -gdwarf-4"; then
		EMULATOR=$valgrind
		run_tests valgrind $((2 * timeout)) "$B"
	fi
}

# Every other one, from the first or the second on.
scripts() {
	export B CC MAKE SWITCH="$switch"
	other=$1
	for script in tests/*.sh; do
		if [ $((other += 1)) -gt 1 ]; then
			run_script script "$timeout" "$script"
			other=0
		fi
	done
}

# lane NUMBER COMMAND...
lane() {
	counts=$logs/lane$1
	rm -f "$counts"
	shift
	(
		"$@"
		echo "$passed $failed $skipped" >"$counts"
	)
}

# Both at a time where there are two processors.
lanes() {		# COMMAND COMMAND, of several words
	# shellcheck disable=SC2086
	if [ "$cores" -gt 1 ]; then
		lane 1 $1 &
		lane 2 $2
		wait
	else
		lane 1 $1
		lane 2 $2
	fi
	for number in 1 2; do
		p=0 f=1 s=0             # it has not come to its end
		[ -f "$logs/lane$number" ] && read -r p f s <"$logs/lane$number"
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	done
}

lanes plain_and_others under_valgrind
unset USCHED_TEST_SCALE
lanes 'scripts 0' 'scripts 1'
summary
