#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh, bench/compare.sh, bench/serve.sh and tables of graph.py, with programs and
# results that are made up. Each golden/NAME.sh is run by golden/run, and must print what
# golden/NAME.out has.
#
#   tests/scripts/golden.sh [--renew] [NAME...]
#
#   --renew   writes the .out files anew, for git diff to show what has changed
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
renew=no
if [ "${1-}" = --renew ]; then
	renew=yes
	shift
fi
[ $# -gt 0 ] || set -- $(basename -s .sh tests/golden/*.sh)
need timeout setsid python3
printf '%s\n' "$@" | xargs -n 1 -P 5 tests/golden/run "$dir"
for name; do
	found=$dir/$name.out want=tests/golden/$name.out
	count=$((count + 1))
	if [ $renew = yes ]; then
		cp "$found" "$want"
	else
		diff -u "$want" "$found" >&2 || fail "$name: this is not golden/$name.out"
	fi
done
conclude "$count files"
