#!/bin/sh
# SPDX-License-Identifier: MIT
#
# test_torture at more optimisation levels than `make check' builds, with other programs.
# Registers and frames differ from level to level.
#
#   MAKE, B, CC, SWITCH    as for make
#   LONG=1                 all levels, with two hundred programs each: minutes
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

levels='-O0 -O3'
count=2
if [ "${LONG-}" ]; then
	levels='-O0 -O1 -O2 -O3 -Os -O2,-flto -O2,-fstack-protector-all'
	count=200
fi
seed=1000

for level in $levels; do
	build=$B/torture/$level
	program=$build/tests/test_torture
	if ! $MAKE -s --no-print-directory "B=$build" "CC=$CC" \
		${SWITCH+"SWITCH=$SWITCH"} "CFLAGS=$(echo "$level" | tr , ' ') -g" "$program"
	then
		die "does not build with $level"
	fi
	if ! USCHED_TEST_SEED=$seed USCHED_TEST_COUNT=$count "$program" >"$dir/log" 2>&1; then
		cat "$dir/log"
		die "$program fails"
	fi
	seed=$((seed + count))
done
note "$((seed - 1000)) programs, at $levels"
