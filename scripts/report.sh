#!/bin/sh
# SPDX-License-Identifier: MIT
#
# report.sh: make bench. Runs the benchmarks of WORKLOAD in their quick form. The numbers
# and the machine's description go to runs/<date>-<host>/. There report.py writes
# tables, pictures, and one page with all of these: report.md and report.html.
#
#   WORKLOAD  as for bench.sh --workload, such as http,echo; default: cycle
#   FULL      1: the full form, which takes long
#   DIR       the directory of the results
#   B         the directory of the programs
#   PYTHON    runs report.py; default: that of .venv, if it exists, or the system's
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
dir=${DIR:-runs/$(date +%Y-%m-%d-%H%M%S)-$(uname -n | tr -c 'A-Za-z0-9.\n' -)}

# shellcheck disable=SC2086 # nothing or --quick
BUILD=$B ./bench.sh $quick --workload "${WORKLOAD:-cycle}" -o "$dir" >/dev/null
"$PYTHON" scripts/report.py "$dir" && status=0 || status=$?
printf '\nNumbers, tables and pictures: %s, all of it in %s\n' "$dir" "$dir/report.html"
exit "$status"
