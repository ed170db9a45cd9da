# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Standard output that closes, or is full, ends the sweep; what it got is kept. The first
# program ends when nothing reads any more.
programs
program rmain <<END
until [ -e "$dir/closed" ]; do sleep 0.1; done
echo 0.5
END
"$here/bench.sh" -o "$dir/closing" 2>/dev/null | {
	head -n 1 >/dev/null
	exec <&-
	: >"$dir/closed"
}
wc -l <"$dir/closing/cycle.csv"
programs_of ring create
"$here/bench.sh" --workload ring,create -o "$dir/full" >/dev/full 2>/dev/null
echo "status $?, $(files "$dir/full")"
wc -l <"$dir/full/ring.csv"
# The progress is for terminals.
programs_of ring memory
script -qec "'$here/bench.sh' --workload ring,memory,cycle --quick --only UL1T,GO \
	-o '$dir/tty' >'$dir/csv'" /dev/null </dev/null | tr '\r' '\n' | tr -d '\033' |
	sed -n 's/about .* left/about ... left/; s/^\[K\([a-z]*, run\)/\1/p'
tr -s ' ' <"$dir/csv"
