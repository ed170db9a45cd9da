# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# All of compare.sh without servers: the table, the calls and what is kept. No two rows that
# are about different programs have the same ratio.
compare_programs <<'END'
lmain\ *\ 0\ 1) echo 2.2 ;;
lmain\ *\ 0\ 2) echo 1.1 ;;
rmain\ *\ 0\ 1) echo 3.0 ;;
rmain\ *\ 0\ 2) echo 2.7 ;;
rmain.1t\ *\ 0\ 1) echo 2.5 ;;
rmain.1t\ *\ 10000\ 1) echo 2.6 ;;
lmain.setjmp\ *) echo 13.3 ;;
peers/cxx20-cycle-fifo*) echo 1.25 ;;
peers/cxx20-cycle-lifo*) echo 2 ;;
peers/cxx20-cycle-pool*) echo 2.5 ;;
peers/go-cycle\ *\ 1) echo 40 ;;
peers/go-cycle\ *\ 2) echo 30 ;;
peers/rust-cycle-tokio\ *\ 1) echo 20 ;;
peers/rust-cycle-tokio\ *\ 2) echo 1.8 ;;
bench/pingpong*) echo 3 ;;
peers/boost-pingpong*) echo 10 ;;
peers/rust-pingpong*) echo 1 ;;
bench/create*) echo 7 ;;
peers/cxx20-create*) echo 5 ;;
bench/counters*) echo 6 ;;
peers/rust-counters*) echo 15 ;;
peers/cxx20-counters*) echo 1 ;;
peers/minicoro-pingpong*) echo 12 ;;
bench/walk-co*) echo 8 ;;
peers/c-walk-calls*) echo 2 ;;
bench/clone-co*) echo 6 ;;
peers/chez-clone*) echo 5 ;;
bench/ring*) echo 8 ;;
peers/c-ring-best*) echo 5 ;;
peers/c-ring-worst*) echo 200 ;;
bench/memory-ll\ 1000000) echo 225 ;;
bench/memory-ll\ 10000000) echo 250 ;;
END
mkdir "$dir/kept"
echo old >"$dir/kept/compare.csv"
parts='cycle depth processors pingpong create counters coroutines ring memory'
# shellcheck disable=SC2086 # a word for each
PROCS=7 compare -n 2 -o "$dir/kept" $parts
calls >"$dir/calls"
paste -d '|' "$dir/calls" "$dir/kept/compare.csv"
(cd "$dir" && CPU=0 compare -n 2 -o new/kept memory create memory)
calls
PINNED='' compare -n 1 processors create
calls | grep -c ' on 1$'
compare create
calls
compare -n 1 | grep -c '^|'
