#!/bin/sh
# SPDX-License-Identifier: MIT
#
# report.sh: make bench. Runs the benchmarks of WORKLOAD in their quick form, keeps the
# numbers and what they were measured on in results/<date>-<host>/, and draws each:
# WORKLOAD.svg, .png and .md beside them, and for cycle c2 and c8, of cycles of two and
# of eight threads. Prints the tables.
#
#   WORKLOAD  as for bench.sh --workload, such as http,echo; default: cycle
#   FULL      1: the full form, which takes long
#   DIR       where to keep all of it instead
#   B         where the programs are
#   PYTHON    what runs graph.py; default: that of .venv, if it is there, or the system's
set -eu
B=${B:-build}
if [ -z "${PYTHON-}" ]; then
	PYTHON=python3
	if [ -x .venv/bin/python3 ]; then
		PYTHON=.venv/bin/python3
	fi
fi
quick=--quick
if [ "${FULL:-0}" != 0 ]; then
	quick=
fi
dir=${DIR:-results/$(date +%Y-%m-%d-%H%M%S)-$(uname -n | tr -c 'A-Za-z0-9.\n' -)}

status=0

# draw NAME: a picture and a table of what is on standard input.
draw() {
	if "$PYTHON" graph.py "$dir/$1.svg" "$dir/$1.png" >"$dir/$1.md"; then
		printf '\n%s:\n\n' "$1"
		cat "$dir/$1.md"
	else
		echo "there is no picture of $1" >&2
		rm -f "$dir/$1.md"
		status=1
	fi
}

# shellcheck disable=SC2086 # nothing or --quick
BUILD=$B ./bench.sh $quick --workload "${WORKLOAD:-cycle}" -o "$dir" >/dev/null
for csv in "$dir"/*.csv; do
	[ -e "$csv" ] || continue               # all was skipped
	name=$(basename "$csv" .csv)
	if [ "$name" = cycle ]; then
		for n in 2 8; do
			grep -h "^ *[${n}N]," "$csv" >"$dir/part"
			draw c$n <"$dir/part"
		done
		rm "$dir/part"
	else
		draw "$name" <"$csv"
	fi
done
printf '\nNumbers, tables and pictures: %s\n' "$dir"
exit $status
