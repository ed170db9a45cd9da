# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# All of cycle: its sizes, headers, the width of its lines, and the calls of a row.
programs
PROCS=3 run "$here/bench.sh" -o "$dir/results" >/dev/null
cat "$out" "$err"
cmp "$out" "$dir/results/cycle.csv"
files "$dir/results"
head -n 9 "$BUILD/calls"
wc -l <"$BUILD/calls"
