#!/bin/sh
# SPDX-License-Identifier: MIT
#
# test_torture at more optimisation levels than `make check' builds, with programs that
# it does not run there: what a compiler keeps in registers and where it puts its frames
# is another thing at each level.
#
#   MAKE, B, CC, SWITCH    as for make
#   LONG=1                 all levels, with two hundred programs each: minutes
set -u
cd "$(dirname "$0")/.." || exit 1

MAKE=${MAKE:-make}
B=${B:-build}
levels='-O0 -O3'
count=2
if [ "${LONG-}" ]; then
	levels='-O0 -O1 -O2 -O3 -Os -O2,-flto -O2,-fstack-protector-all'
	count=200
fi
seed=1000
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

for level in $levels; do
	dir=$B/torture/$level
	program=$dir/tests/test_torture
	if ! $MAKE -s --no-print-directory "B=$dir" ${CC+"CC=$CC"} \
		${SWITCH+"SWITCH=$SWITCH"} "CFLAGS=$(echo "$level" | tr , ' ') -g" "$program"
	then
		echo "torture: does not build with $level" >&2
		exit 1
	fi
	if ! USCHED_TEST_SEED=$seed USCHED_TEST_COUNT=$count "$program" >"$log" 2>&1; then
		cat "$log"
		echo "torture: $program fails" >&2
		exit 1
	fi
	seed=$((seed + count))
done
echo "torture: $((seed - 1000)) programs, at $levels"
