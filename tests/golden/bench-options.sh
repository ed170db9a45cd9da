# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Options; several workloads; results that exist; wrong arguments, and too few programs.
run ./bench.sh --help
run ./bench.sh --columns
programs
bench --quick --only=UL,U -n 2
run ./bench.sh --quick -o "$results"
cmp "$dir/out" "$results/cycle.csv" >/dev/null && fail 'results were written over'
programs_of ring alternate counters
BLOCKS=7 PROCS=3 bench --workload blocks,ring,alternate,cycle -n 1 --quick --only U1T,LISP,GO
files "$results"
(cd "$results" && cat blocks.csv ring.csv alternate.csv cycle.csv) | cmp - "$out"
calls
bench --workload ring,alternate -n 1 --quick --only LISP
files "$results"
calls
for load in ring counters; do
	mkdir "$dir/$load"
	echo mine >"$dir/$load/$load.csv"
	run ./bench.sh --workload ring,counters --quick -o "$dir/$load"
	files "$dir/$load"
	cat "$dir/$load/$load.csv"
done
calls
echo 'usched: mine' >"$dir/ring/machine.txt"
run ./bench.sh --workload counters --quick -n 1 --only U1T -o "$dir/ring"
cat "$dir/ring/ring.csv"
grep -c ^usched: "$dir/ring/machine.txt"
programs_of cycle depth
bench --quick --only U,U1T,POSIX --procs 1,3 --sizes '2 4 10' '8 5 20'
calls
bench --workload ring,blocks -n 1 --quick --procs=3,1 --only UL1T
NATIVE_THREADS=99 bench --only POSIX1T,GO --sizes '2 49 9' --sizes='2 50 9'
bench --quick -n 1 --only U1T --sizes '2 4 10 0' '2,4,10,500'

wrong() {
	bench "$@"
	[ ! -e "$results" ] || fail "$*: made a directory"
}
programs
while read -r words; do
	eval "wrong $words"
done <<'END'
--only NONE
--only ''
--only ,
--only ,,
--only '*'
--only u
--only
-n
-n 0
-n 1x
-n -1
--limit 0
--procs 1,0
--procs ,
--sizes
--sizes ''
--sizes '2 4'
--sizes '2 4 0'
--sizes '2 4 x'
--sizes '2 4 10 0 5'
--workload ring,cycle --sizes '2 4 10'
--limit=1.5
--workload
--workload ''
--workload ,
--workload none
--workload ring,none
--workload all,none
--workload '*'
--workload ring --only BOOST-FP
--workload ring,counters --only HASKELL,CALLS,LISP
--only U1T,HASKELL
--slow
more
-o ''
END
PROCS=none wrong --quick
wrong --quick --only GO,BOOST
wrong --quick --workload ring
rm "$BUILD"/[rl]*
wrong --quick
