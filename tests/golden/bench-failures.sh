# SPDX-License-Identifier: MIT
# shellcheck shell=sh
title 'each way to fail'
programs
program rmain <<'END'
case "$*" in
"2 4 "*" 0 2") echo out of luck >&2; exit 3 ;;
"2 4 "*" 1000 2") kill -9 $$ ;;
"2 4 "*" 10000 2") echo 'rmain: not enough memory for it' >&2; exit 1 ;;
"2 4 "*" 0 1") echo 1.5 seconds ;;
"8 4 "*" 0 2") ;;
"8 4 "*" 1000 2") echo nan ;;
"8 4 "*" 10000 2") echo 0.000000 ;;
"8 4 "*" 0 1") echo 1.5; echo 2.5 ;;
*) echo 0.5 ;;
esac
END
program lmain <<'END'
case "$*" in
"2 4 "*) echo 1.2.3 ;;
"8 4 "*) echo 1.5; kill -SEGV $$ ;;
*) echo 0.5 ;;
esac
END
rm "$BUILD/lmain.setjmp"
bench --quick --sizes '2 2 10' '2 4 10' '8 4 10'
sed 's/^/bench.sh: /' "$results/failures.txt" | grep -vxFf "$err"
title 'wrong answers, and right ones that are not where they should be'
# The 2000000th pass ends at thread 73.
programs_of ring
while read -r name text; do
	echo "$text" | program "$name"
done <<'END'
bench/ring-rr echo 0.5; echo 7
bench/ring-ll echo 0.5
bench/ring-direct echo 0.5; echo 73; echo 73
peers/macros-ring echo 73; echo 0.5
peers/macros-ring-worst echo 0.5 73
peers/posix-ring echo 0.5; echo 72
peers/go-ring echo nan; echo 73
peers/haskell-ring printf '0.5\n73'
peers/ocaml-ring echo 0.5; echo 73; echo not enough memory >&2; exit 1
peers/erlang-ring echo 0.5; echo; echo 73
peers/luajit-ring echo 0.5; echo 73; kill -9 $$
END
bench --workload ring --quick -n 1 --only \
	U1T,UL1T,UD,MACROS,MACROS-WORST,POSIX,GO,HASKELL,LWT,ERLANG,LUAJIT,PYTHON
title 'a system that can do less is judged by what it was asked to do'
programs_of ring memory
program peers/posix-memory <<'END'
case $* in
30000) echo 0.5; echo 30000 ;;
*) echo 0.5; echo 7 ;;
esac
END
bench --workload ring,memory -n 1 --only POSIX,GO
title 'where others have no program they have not failed, but we have'
programs_of ring pingpong
rm "$BUILD/peers/haskell-ring" "$BUILD/bench/pingpong-ll"
chmod -x "$BUILD/peers/lua-ring"
bench --workload ring,pingpong --quick -n 2 --only U1T,UL1T,HASKELL,LUA,GO
grep ^skipped "$results/machine.txt"
bench --workload ring,pingpong --quick -n 1 --only BOOST,LUA
files "$results"
title 'wrong arguments, and results that exist'
for words in '--only NONE' '-n 0' '--limit 0' '--procs 1,0' '--sizes 2' '--workload none' '--slow'; do
	# shellcheck disable=SC2086 # a word for each
	bench $words
	[ ! -e "$results" ] || fail "$words: made a directory"
done
mkdir "$dir/mine"
echo mine >"$dir/mine/ring.csv"
run ./bench.sh --workload ring --quick -o "$dir/mine"
cat "$dir/mine/ring.csv"
title 'what is short is run in turns until it has taken 50 ms, and its median counts'
programs
program rmain <<'PROGRAM'
echo "$*" >>"$BUILD/calls"
case "$*" in
*" 2") echo 0.0$((10 + 3 * $(grep -c ' 2$' "$BUILD/calls") % 7)) ;;
*) echo 0.030000 ;;
esac
PROGRAM
bench --quick --only U,U1T,UL --sizes '2 2 10'
cat "$results/short.txt" "$BUILD/calls"
