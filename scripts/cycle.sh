#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cycle.sh: make bench. Runs the quick cycle benchmark, keeps the numbers and what they
# were measured on in results/<date>-<host>/, and draws them: results/c2.svg, .png and
# .md for cycles of two threads, and c8 for cycles of eight. Prints the tables.
#
#   B        where the programs are
#   PYTHON   what runs graph.py; default: that of .venv, if it is there, or the system's
set -eu
B=${B:-build}
if [ -z "${PYTHON-}" ]; then
	PYTHON=python3
	if [ -x .venv/bin/python3 ]; then
		PYTHON=.venv/bin/python3
	fi
fi
dir=results/$(date +%Y-%m-%d-%H%M%S)-$(uname -n)
BUILD=$B ./bench.sh --quick -o "$dir"
for n in 2 8; do
	picture=results/c$n
	grep -h "^ *[${n}N]," "$dir/cycle.csv" |
		"$PYTHON" graph.py "$picture.svg" "$picture.png" >"$picture.md"
done
for n in 2 8; do
	printf '\nCycles of %d threads, million operations per second:\n\n' $n
	cat results/c$n.md
done
printf '\nNumbers: %s/cycle.csv\nPictures: results/c2.svg, c2.png, c8.svg, c8.png\n' "$dir"
