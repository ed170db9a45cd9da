#!/bin/sh
# SPDX-License-Identifier: MIT
#
# graph.py, and scripts/report.py and report.sh: runs test_graph.py and test_report.py.
# Without matplotlib only tables are tested. PYTHON says which Python.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ -z "${PYTHON-}" ]; then
	PYTHON=python3
	[ ! -x .venv/bin/python3 ] || PYTHON=$PWD/.venv/bin/python3
fi
command -v "$PYTHON" >/dev/null || {
	echo "graph: skipped, there is no $PYTHON"
	exit 77
}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# The user's directory may not be there, or not be writable, which is told then; and at
# its first start matplotlib may tell that it looks for fonts.
MPLCONFIGDIR=$tmp PYTHONDONTWRITEBYTECODE=1
export MPLCONFIGDIR PYTHONDONTWRITEBYTECODE
"$PYTHON" -c 'import matplotlib.font_manager' >/dev/null 2>&1

PYTHONPATH=tests "$PYTHON" -m unittest -b test_graph test_report >"$tmp/out" 2>&1 || {
	cat "$tmp/out"
	exit 1
}
tests=$(sed -n 's/^Ran \([0-9]* tests\) .*/\1/p' "$tmp/out")
"$PYTHON" -c 'import matplotlib' >/dev/null 2>&1 || {
	echo "graph: $tests; those of pictures skipped, there is no matplotlib"
	exit 77
}
echo "graph: $tests of tables, pictures and pages, with results that are made up"
