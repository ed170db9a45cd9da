#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh, with programs that take no time, fail, hang, or print nonsense. What a row
# calls is spelled out in expected(), once more, to compare bench/workloads.sh with.
# workloads.sh has the workloads of servers.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib
here=$PWD
runs=0
all='cycle ring counters pingpong create alternate memory blocks walk clone threads depth stacks uneven channel'
servers='http h2load latency echo redis idle requests'

# WORKLOAD COLUMN COMMAND, with @ for the arguments of the row, and @MOST if the last is
# no more than that; % for all but the last of them, and $ for the last. With three
# processors.
expected() {
	cat <<-'END'
	cycle U rmain @ 0 3
	cycle U1K rmain @ 1000 3
	cycle U10K rmain @ 10000 3
	cycle U1T rmain @ 0 1
	cycle U1TS rmain.1t @ 0 1
	cycle UL lmain @ 0 3
	cycle UL1T lmain @ 0 1
	cycle UJ lmain.setjmp @ 0 1
	cycle U1TC rmain.readme @ 0 1
	cycle POSIX peers/pthreads-cycle @ 3
	cycle POSIX1T peers/pthreads-cycle @ 1
	cycle GO peers/go-cycle @ 3
	cycle GO1T peers/go-cycle @ 1
	cycle RUST peers/rust-cycle-async-std @ 3
	cycle TOKIO peers/rust-cycle-tokio @
	cycle RUSTMIN peers/rust-cycle-min @
	cycle C++ peers/cxx20-cycle-pool @ 3
	cycle C++1T peers/cxx20-cycle-fifo @
	cycle C++1TL peers/cxx20-cycle-lifo @
	cycle BOOST peers/boost-cycle @
	ring U1T bench/ring-rr @
	ring UL1T bench/ring-ll @
	ring UD bench/ring-direct @
	ring MACROS peers/c-ring-best @
	ring MACROS-WORST peers/c-ring-worst @500000
	ring POSIX peers/pthreads-ring @500000
	ring POSIX-SEM peers/pthreads-ring-semaphores @500000
	ring GO peers/go-ring @
	ring TOKIO peers/rust-ring-tokio @
	ring BOOST-FIBER peers/boost-ring @
	ring ST peers/st-ring @
	ring C++20 peers/cxx20-ring @
	ring HASKELL peers/haskell-ring @
	ring LWT peers/ocaml-ring @
	ring ERLANG peers/erlang-ring @
	ring LUA peers/lua-ring @
	ring LUAJIT peers/luajit-ring @
	ring PYTHON peers/python-ring @
	ring GREENLET peers/greenlet-ring @
	counters U1T bench/counters-rr @
	counters UL1T bench/counters-ll @
	counters UD bench/counters-direct @
	counters CALLS peers/c-counters-calls @
	counters MACROS peers/c-counters-macros @
	counters C++20 peers/cxx20-counters @
	counters COROSENSEI peers/rust-counters-corosensei @
	counters GENERATOR-RS peers/rust-counters-generator @
	counters BOOST peers/boost-counters-context @
	counters COROUTINE2 peers/boost-counters @
	counters LUA peers/lua-counters @
	counters LUAJIT peers/luajit-counters @
	counters PYTHON peers/python-counters @
	counters GREENLET peers/greenlet-counters @
	pingpong U1T bench/pingpong-rr @
	pingpong UL1T bench/pingpong-ll @
	pingpong UD bench/pingpong-direct @
	pingpong UCO bench/pingpong-co @
	pingpong MACROS peers/c-pingpong-macros @
	pingpong C++20 peers/cxx20-pingpong @
	pingpong C++23 peers/cxx23-pingpong @
	pingpong COROSENSEI peers/rust-pingpong-corosensei @
	pingpong GENERATOR-RS peers/rust-pingpong-generator @
	pingpong MINICORO peers/minicoro-pingpong @
	pingpong BOOST peers/boost-pingpong-same @
	pingpong BOOST-FP peers/boost-pingpong-differ @
	pingpong COROUTINE2 peers/boost-pingpong-coroutine2 @
	pingpong UCONTEXT peers/ucontext-pingpong @
	pingpong GO peers/go-pingpong @
	pingpong LUA peers/lua-pingpong @
	pingpong LUAJIT peers/luajit-pingpong @
	pingpong PYTHON peers/python-pingpong @
	pingpong GREENLET peers/greenlet-pingpong @
	create U1T bench/create-rr @
	create UL1T bench/create-ll @
	create UD bench/create-direct @
	create UCO bench/create-co @
	create MACROS peers/c-create-macros @
	create C++20 peers/cxx20-create @
	create C++23 peers/cxx23-create @
	create COROSENSEI peers/rust-create-corosensei @
	create GENERATOR-RS peers/rust-create-generator @
	create MINICORO peers/minicoro-create @
	create BOOST peers/boost-create @
	create COROUTINE2 peers/boost-create-coroutine2 @
	create UCONTEXT peers/ucontext-create @
	create GO peers/go-create @
	create LUA peers/lua-create @
	create LUAJIT peers/luajit-create @
	create PYTHON peers/python-create @
	create GREENLET peers/greenlet-create @
	walk UCO bench/walk-co @
	walk CALLS peers/c-walk-calls @
	walk C++23 peers/cxx23-walk @
	walk COROSENSEI peers/rust-walk-corosensei @
	walk MINICORO peers/minicoro-walk @
	walk COROUTINE2 peers/boost-walk @
	walk GO peers/go-walk @
	walk LUA peers/lua-walk @
	walk LUAJIT peers/luajit-walk @
	clone UCO bench/clone-co @
	clone CHEZ peers/chez-clone @
	clone GUILE peers/guile-clone @
	alternate U1T bench/alternate-rr @
	alternate UL1T bench/alternate-ll @
	alternate UD bench/alternate-direct @
	alternate LISP peers/lisp-alternate @
	alternate POSIX peers/pthreads-alternate @
	memory U1T bench/memory-rr @
	memory UL1T bench/memory-ll @
	memory UD bench/memory-direct @
	memory MACROS peers/c-memory-macros @
	memory C++20 peers/cxx20-memory @
	memory RUSTMIN peers/rust-memory-min @
	memory TOKIO peers/rust-memory-tokio @
	memory RUST peers/rust-memory-async-std @
	memory COROSENSEI peers/rust-memory-corosensei @30000
	memory GENERATOR-RS peers/rust-memory-generator @30000
	memory BOOST peers/boost-memory-context @
	memory BOOST-FIBER peers/boost-memory @
	memory ST peers/st-memory @
	memory UCONTEXT peers/ucontext-memory @
	memory POSIX peers/pthreads-memory @30000
	memory GO peers/go-memory @
	memory HASKELL peers/haskell-memory @
	memory LWT peers/ocaml-memory @
	memory ERLANG peers/erlang-memory @
	memory ERLANG-HIBERNATE peers/erlang-memory-hibernate @
	memory LISP peers/lisp-memory @
	memory LUA peers/lua-memory @
	memory LUAJIT peers/luajit-memory @
	memory PYTHON peers/python-memory @
	memory GREENLET peers/greenlet-memory @100000
	blocks U1T rmain @ 0 1 BLOCKS=1
	blocks U1TS rmain.1t @ 0 1 BLOCKS=1
	blocks UL1T lmain @ 0 1 BLOCKS=1
	blocks POSIX peers/pthreads-cycle @ 3 BLOCKS=1
	blocks POSIX1T peers/pthreads-cycle @ 1 BLOCKS=1
	blocks RUST peers/rust-cycle-async-std @ 3 BLOCKS=1
	blocks TOKIO peers/rust-cycle-tokio @ BLOCKS=1
	blocks RUSTMIN peers/rust-cycle-min @ BLOCKS=1
	blocks C++ peers/cxx20-cycle-pool @ 3 BLOCKS=1
	blocks C++1T peers/cxx20-cycle-fifo @ BLOCKS=1
	blocks C++1TL peers/cxx20-cycle-lifo @ BLOCKS=1
	blocks BOOST peers/boost-cycle @ BLOCKS=1
	threads U1T rmain @ 0 1
	threads UL1T lmain @ 0 1
	threads C++1T peers/cxx20-cycle-fifo @
	threads C++1TL peers/cxx20-cycle-lifo @
	uneven U bench/uneven @ SECONDS 3
	uneven U-STEAL bench/uneven @ SECONDS 3 1
	uneven U-SLICE bench/uneven @ SECONDS 3 1 250
	uneven GO peers/go-uneven @ SECONDS 3
	uneven TOKIO peers/rust-uneven-tokio @ SECONDS 3
	channel UL bench/channel @
	channel GO peers/go-channel @
	depth U1T rmain @ 1
	depth UL1T lmain @ 1
	stacks U1T rmain % 0 1 USCHED_STACKS=$
	stacks UL1T lmain % 0 1 USCHED_STACKS=$
	END
}

# COLUMN @SIZE COMMAND for each column of a row, or @ if it is run at full size.
row_of() {		# WORKLOAD ARGUMENT...
	expected | awk -v row="$*" -v seconds="${seconds-}" '
	BEGIN {
		n = split(row, word, " ")
		for (i = 2; i < n; i++)
			others = others word[i] " "
	}
	$1 == word[1] {
		size = "@"
		last = word[n]
		most = substr($4, 2)
		if (most != "" && most + 0 < last + 0) {
			size = $4
			last = most
		}
		column = $2
		if ($4 == "%")
			$4 = substr(others, 1, length(others) - 1)
		else
			$4 = others last
		sub(/\$$/, last)
		sub(/SECONDS/, seconds)
		sub(/^[^ ]* [^ ]* /, "")
		print column, size, $0
	}'
}

columns_of() {		# WORKLOAD
	expected | sed -n "s/^$1 \([^ ]*\) .*/\1/p" | tr '\n' ' '
}

program() {		# NAME, its text on standard input
	{ echo '#!/bin/sh'; cat; } >"$BUILD/$1"
	chmod +x "$BUILD/$1"
}

# What a program does to note what bench.sh may have put in its environment.
# shellcheck disable=SC2016 # for the program to expand
note_environment='environment=${BLOCKS+ BLOCKS=$BLOCKS}
environment=$environment${USCHED_STACKS+ USCHED_STACKS=$USCHED_STACKS}'

# A new directory of programs, our own of cycle, which note their arguments, and succeed.
programs() {
	BUILD=$(mktemp -d "$dir/build.XXXXXX")
	export BUILD
	mkdir "$BUILD/bench" "$BUILD/peers"
	for name in rmain rmain.1t rmain.readme lmain lmain.setjmp; do
		program "$name" <<-END
		$note_environment
		echo "$name \$*\$environment" >>"$BUILD/calls"
		echo 0.250000
		END
	done
}

# Besides, all programs of some workloads, which answer rightly.
programs_of() {		# WORKLOAD...
	programs
	for load; do
		answer=$(answer_of "$load")
		for name in $(expected | sed -n "s/^$load [^ ]* \([^ ]*\) .*/\1/p"); do
			program "$name" <<-END
			$note_environment
			echo "$name \$*\$environment" >>"$BUILD/calls"
			echo 0.250000
			$answer
			END
		done
	done
}

# What a program does to answer.
# shellcheck disable=SC2016 # for the program to expand
answer_of() {		# WORKLOAD
	case $1 in
	ring)	echo 'echo $(($1 % 503 + 1))' ;;
	counters) echo 'echo $(($1 * $2 * ($1 + $2 - 2) / 2))' ;;
	clone) echo 'echo $(($1 * ($1 + 1) / 2))' ;;
	pingpong | create | walk) echo 'echo $(($1 * ($1 - 1) / 2))' ;;
	alternate) echo 'echo $(($1 * $2 * 2))' ;;
	memory)	echo 'echo $1' ;;
	channel) echo 'echo $(($2 * ($2 - 1) / 2))' ;;
	esac
}

# Runs bench.sh; leaves $status, $out, $err and $results. What does not hang has $limit.
limit=300
bench() {		# ARGUMENTS
	runs=$((runs + 1))
	out=$dir/out.$runs err=$dir/err.$runs results=$dir/results.$runs
	# shellcheck disable=SC2086 # nothing or two words
	"$here/bench.sh" -o "$results" ${limit:+--limit $limit} "$@" >"$out" 2>"$err" </dev/null
	status=$?
}

cell() {		# N R NUMBER-OF-COLUMN: what is in it
	sed -n "s/^ *$1, *$2, //p" "$out" | cut -d , -f $(($3 + 1)) | tr -d ' '
}

# A line of standard output, or of another file, without spaces.
line() {		# NUMBER [FILE]
	sed -n "${1}p" "${2-$out}" | tr -d ' '
}

# A cell of DIR/WORKLOAD.csv.
found() {		# WORKLOAD COLUMN [ROW]
	tr -d ' ' <"$results/$1.csv" | awk -F , -v column="$2" -v row="${3-1}" '
	NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i }
	NR == row + 1 { print $c }'
}

# The process that wrote its number to FILE must be gone, or be just going: who does
# not listen is killed ten seconds later.
gone() {		# FILE
	i=0
	while [ $((i += 1)) -le 3000 ]; do
		kill -0 "$(cat "$1")" 2>/dev/null || return 0
		sleep 0.2
	done
	fail "process $(cat "$1") of ${1##*/} is left behind"
}

wait_for() {		# FILE
	i=0
	while [ $((i += 1)) -le 3000 ]; do
		[ ! -s "$1" ] || return 0
		sleep 0.2
	done
	fail "${1##*/} did not appear after $i tries"
}

test_shape() {
	programs
	export PROCS=3
	bench
	same status 0 $status
	cmp -s "$out" "$results/cycle.csv" || fail "cycle.csv is not what was printed"
	same 'rows of N = 2' 13 "$(grep -c '^ *2,' "$out")"
	same 'rows of N = 8' 13 "$(grep -c '^ *8,' "$out")"
	same 'lines for the plot of N = 2' 15 "$(grep -h -c '^ *[2N],' "$out")"
	same 'lines for the plot of N = 8' 15 "$(grep -h -c '^ *[8N],' "$out")"
	same header N,R,M,U,U1K,U10K,U1T,U1TS,UL,UL1T,UJ,U1TC "$(line 1)"
	same 'a row' "8,1000,1010$(printf ',0.250000%.0s' 1 2 3 4 5 6 7 8 9)" \
		"$(grep '^ *8, *1000,' "$out" | tr -d ' ')"
	same 'M of the last row' 11 "$(tail -n 1 "$out" | cut -d , -f 3 | tr -d ' ')"
	same R '2 4 8 50 100 500 1000 5000 10000 50000 100000 500000 1000000 ' \
		"$(grep '^ *8,' "$out" | cut -d , -f 2 | tr -d ' ' | tr '\n' ' ')"
	same 'lengths of lines' 1 "$(awk '{ print length }' "$out" | sort -u | wc -l)"
	row_of cycle 2 2 2000010 | sed -n 's/^U[^ ]* @ //p' >"$dir/want"
	same 'the commands of a row' "$(cat "$dir/want")" "$(head -n 9 "$BUILD/calls")"
	same 'all commands' 234 "$(wc -l <"$BUILD/calls")"
	same 'results noted' "bench.sh: results in $results" "$(sed -n '$p' "$err")"
	same 'lines on standard error' 2 "$(wc -l <"$err")"
	unset PROCS
}

# All columns of all workloads: commands, environment, sizes and cells.
test_rows() {
	export PROCS=3 BLOCKS=1
	rows cycle N,R,M 2.4.250010 --quick
	rows ring passes 500000 --quick
	rows ring passes 5000000
	rows counters counters,calls 20000.30 --quick
	rows counters counters,calls 20000.300
	rows pingpong pairs 1000000 --quick
	rows pingpong pairs 10000000
	rows create threads 100000 --quick
	rows create threads 1000000
	rows walk nodes 100000 --quick
	rows walk nodes 1000000
	rows clone clones 100000 --quick
	rows clone clones 1000000
	rows alternate repetitions,yields 1000.3/1.100000 --quick
	rows alternate repetitions,yields 10000.3/1.1000000
	rows memory threads 100000 --quick
	rows memory threads 1000000
	rows blocks N,R,M 2.1000.100/8.1000.100 --quick
	rows blocks N,R,M 2.1000.1000/8.1000.1000
	rows threads N,R,M "$(sizes 2 5.200010 50.20010 500.2010 5000.210 50000.30 \
		200000.15)" --quick
	rows threads N,R,M "$(sizes 2 5.800040 10.400040 20.200040 50.80040 100.40040 \
		200.20040 500.8040 1000.4040 2000.2040 5000.840 10000.440 20000.240 \
		50000.120 100000.80 200000.60 500000.48 1000000.44 2000000.42 4000000.41)"
	rows depth N,R,M,D "$(sizes 2.4.100000 0 200 2000 20000 102400)$(
		sizes 2.2000.20 0 200 2000 20000 102400)" --quick
	set -- 0 50 100 200 500 1000 2000 5000 10000 20000 50000 102400
	rows depth N,R,M,D "$(sizes 2.4.1000000 "$@")$(sizes 2.2000.100 "$@")"
	rows stacks N,R,M,stacks "$(sizes 2.50.10000 1 8 64 512 4096)$(
		sizes 2.500.1000 1 8 64 512 4096)" --quick
	set -- 1 2 4 8 16 32 64 128 256 512 1024 2048 4096
	rows stacks N,R,M,stacks "$(sizes 2.50.80000 "$@")$(sizes 2.500.8000 "$@")"
	seconds=1
	rows uneven permille,load,connections "$(sizes 990.70 8 1000)" --quick
	seconds=5
	set -- 8 60 1000 10000
	rows uneven permille,load,connections "$(sizes 500.70 "$@")$(sizes 990.70 "$@")$(
		sizes 999.70 "$@")"
	rows channel capacity,values 0.50000/1.50000/128.500000 --quick
	rows channel capacity,values 0.500000/1.500000/128.5000000
	unset PROCS BLOCKS
}

sizes() {		# FIRST LAST...: /FIRST.LAST for each
	first=$1
	shift
	printf "/$first.%s" "$@"
}

rows() {		# WORKLOAD PARAMETERS SIZE[/SIZE] OPTION
	load=$1
	programs_of "$load"
	prefix=$load,
	[ "$load" != cycle ] || prefix=
	echo "$prefix$2,$(columns_of "$load" | tr ' ' ,)" | sed 's/,$//' >"$dir/csv"
	: >"$dir/calls"
	for size in $(echo "$3" | tr / ' '); do
		# shellcheck disable=SC2046 # a word for each parameter
		row_of "$load" $(echo "$size" | tr . ' ') >"$dir/row"
		sed 's/^[^ ]* [^ ]* //' "$dir/row" >>"$dir/calls"
		cells=$(sed 's/^[^ ]* \(@[0-9]*\) .*/,0.250000\1/; s/@$//' "$dir/row" |
			tr -d '\n')
		echo "$prefix$(echo "$size" | tr . ,)$cells" >>"$dir/csv"
	done
	shift 3
	bench --workload "$load" -n 1 "$@"
	same "status of $load $*" 0 $status
	same "standard error of $load $*" "bench.sh: results in $results" "$(cat "$err")"
	cmp -s "$out" "$results/$load.csv" || fail "$load.csv is not what was printed"
	if [ "$load" = cycle ]; then	# here all but the first row are for test_shape()
		sed -i 2q "$out"
		sed -i "$(wc -l <"$dir/calls")q" "$BUILD/calls"
	fi
	same "commands of $load $*" "$(cat "$dir/calls")" "$(cat "$BUILD/calls")"
	same "results of $load $*" "$(cat "$dir/csv")" "$(tr -d ' ' <"$out")"
}

test_machine() {
	programs
	printf '%s\n' CC=cc 'CFLAGS=-O2 -DX=1' CPPFLAGS= SWITCH=setjmp \
		'VERSION=Compiler 1.2 (a=b)' >"$BUILD/flags"
	printf '%s\n' 'go: go 1.2' 'lua: Lua 5' >"$BUILD/peers/versions"
	echo 'haskell (ring): install ghc' >"$BUILD/peers/skipped"
	export PROCS=5
	limit='' bench --quick --only U,UL,GO1T
	limit=300
	unset PROCS
	for line in 'CC: cc' 'CFLAGS: -O2 -DX=1' 'SWITCH: setjmp' 'PROCS: 5' \
		'compiler: Compiler 1.2 (a=b)' 'CPPFLAGS: $' \
		'workloads: cycle$' 'quick: yes' 'limit: 30 s' 'peer: go: go 1.2' \
		'peer: lua: Lua 5' 'skipped: haskell (ring): install ghc' \
		'skipped of cycle: GO1T$' \
		"kernel: $(uname -sr)" "machine: $(uname -m)" 'usched: [0-9.]\{5\}' \
		'cpu: .' 'cores: [1-9][0-9]*' 'memory: .' 'commit: .' 'load at start: .' \
		'date: 2[0-9]*-[0-9]*-[0-9]* ' 'end: .*, complete'; do
		has "^$line" "$results/machine.txt"
	done
	[ ! -e "$results/failures.txt" ] || fail "failures.txt, but nothing failed"
	rm "$BUILD/peers"/*
	bench --quick --only UL --workload=ring,cycle
	has '^workloads: ring cycle$' "$results/machine.txt"
	same 'peers in machine.txt' 0 "$(grep -c '^peer' "$results/machine.txt")"
}

# Where results go by default, and what is said of the version.
test_tree() {
	programs
	tree=$dir/outer/tree
	mkdir -p "$tree/bench"
	cp "$here/bench.sh" "$here/usched.h" "$tree"
	cp "$here/bench/workloads.sh" "$tree/bench"
	git="git -c user.name=x -c user.email=x@example.org -C"
	if command -v git >/dev/null; then	# a history that is not ours
		$git "$dir/outer" init -q
		$git "$dir/outer" commit -q --allow-empty -m x
	fi
	"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
	"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
	host=$(uname -n | tr -c 'A-Za-z0-9.\n' -)
	same 'directories of two sweeps' 2 "$(find "$tree/results" -type f \
		-path "*/results/20*-$host*/cycle.csv" | wc -l)"
	cat "$tree/results"/*/machine.txt >"$dir/tree.txt"
	same 'unknown commits' 2 "$(grep -c '^commit: unknown$' "$dir/tree.txt")"
	same 'unknown compilers' 2 "$(grep -c '^compiler: unknown$' "$dir/tree.txt")"
	command -v git >/dev/null || return 0
	$git "$tree" init -q
	$git "$tree" add bench.sh
	$git "$tree" commit -q -m x
	commit=$($git "$tree" rev-parse HEAD)
	"$tree/bench.sh" --quick --only UL -o "$dir/clean" >/dev/null 2>&1
	has "^commit: $commit\$" "$dir/clean/machine.txt"
	echo '# changed' >>"$tree/bench.sh"
	"$tree/bench.sh" --quick --only UL -o "$dir/dirty" >/dev/null 2>&1
	has "^commit: $commit-dirty\$" "$dir/dirty/machine.txt"
}

test_options() {
	programs
	bench --quick --only=UL,U -n 2
	same 'header of --only' N,R,M,U,UL "$(line 1)"
	same 'rows of -n 2 --quick' 16 "$(grep -c '^ *[28],' "$out")"
	same 'headers of -n 2 --quick' 4 "$(grep -c '^ *N,' "$out")"
	same 'R of --quick' '4 100 5000 100000 ' \
		"$(grep '^ *8,' "$out" | head -n 4 | cut -d , -f 2 | tr -d ' ' | tr '\n' ' ')"
	same 'M of --quick' 62510 "$(grep '^ *8, *4,' "$out" | head -n 1 |
		cut -d , -f 3 | tr -d ' ')"
	before=$(cat "$out")
	"$here/bench.sh" --quick -o "$results" >"$dir/again" 2>&1
	same 'status when results exist' 1 $?
	same 'results that exist' "$before" "$(cat "$results/cycle.csv")"
	has "^bench.sh: '.*/cycle.csv' exists" "$dir/again"
	"$here/bench.sh" --help >"$dir/help" 2>&1
	same 'status of --help' 0 $?
	has '^usage: ' "$dir/help"
	has " $(echo "$all $servers" | tr ' ' ,)\$" "$dir/help"
	"$here/bench.sh" --columns >"$dir/columns" 2>&1
	same 'status of --columns' 0 $?
	for load in $servers; do
		sed -i "/^$load: /d" "$dir/columns"
	done
	for load in $all; do
		echo "$load: $(columns_of "$load")"
	done | sed 's/ $//' >"$dir/want"
	same --columns "$(cat "$dir/want")" "$(cat "$dir/columns")"
}

# How often each workload is run if -n does not say it.
test_runs() {
	# shellcheck disable=SC2086 # a word for each workload
	programs_of $all
	bench --workload all --quick --only U1T,UCO
	for load in ${all% uneven channel}; do
		echo "$load $(grep -c 0.250000 "$results/$load.csv")"
	done >"$dir/rows"
	same 'rows of --quick' "cycle 8,ring 3,counters 3,pingpong 3,create 3,alternate 6,$(
		)memory 3,blocks 2,walk 3,clone 3,threads 18,depth 30,stacks 30," \
		"$(tr '\n' , <"$dir/rows")"
	same 'headers of ring' 3 "$(grep -c passes "$results/ring.csv")"
	bench --workload memory,blocks,threads,depth,stacks --only UL1T
	same 'rows of memory' 5 "$(grep -c 0.250000 "$results/memory.csv")"
	same 'rows of blocks' 2 "$(grep -c 0.250000 "$results/blocks.csv")"
	same 'rows of threads' 95 "$(grep -c 0.250000 "$results/threads.csv")"
	same 'rows of depth' 120 "$(grep -c 0.250000 "$results/depth.csv")"
	same 'rows of stacks' 130 "$(grep -c 0.250000 "$results/stacks.csv")"
	bench --workload memory,blocks --only UL1T -n 2
	same 'rows of memory, -n 2' 2 "$(grep -c 0.250000 "$results/memory.csv")"
	same 'rows of blocks, -n 2' 4 "$(grep -c 0.250000 "$results/blocks.csv")"
}

# A short run of the quick cycle counts as the median of three, but for one that fails.
test_short() {
	programs
	program rmain <<-END
	of=\$*
	echo "\$of" >>"$BUILD/calls"
	case \$of in
	"2 4 "*" 0 1") set -- 0.100000 0.900000 0.150000 ;;
	"2 4 "*" 1000 2") set -- 0.010000 fail ;;
	"2 4 "*" 10000 2") set -- 0.000009 1.500000 0.030000 ;;
	*) echo 0.200000; exit ;;
	esac
	shift \$((\$(grep -cx "\$of" "$BUILD/calls") - 1))
	echo \$1
	[ \$1 != fail ] || exit 3
	END
	export PROCS=2
	bench --quick --only U,U1K,U10K,U1T
	same 'a long run' 0.200000 "$(cell 2 4 1)"
	same 'a short run that fails' fail:exit-3 "$(cell 2 4 2)"
	same 'a median' 0.030000 "$(cell 2 4 3)"
	same 'another median' 0.150000 "$(cell 2 4 4)"
	same 'runs of a row' 9 "$(grep -c '^2 4 ' "$BUILD/calls")"
	same 'runs of another' 4 "$(grep -c '^2 100 ' "$BUILD/calls")"
	printf '%s\n' 'cycle: U10K N=2 R=4 M=250010: 0.000009 1.500000 0.030000' \
		'cycle: U1T N=2 R=4 M=250010: 0.100000 0.900000 0.150000' >"$dir/want"
	same 'all times' "$(cat "$dir/want")" "$(cat "$results/short.txt")"
	rm "$BUILD/calls"
	bench --only U1T
	same 'a short run of the full cycle' 0.100000 "$(cell 2 4 1)"
	unset PROCS
}

# Several workloads go to a file each, in the order in which they are named. BLOCKS is
# for that workload only, even if it is in the environment.
test_several() {
	programs_of ring alternate counters
	export BLOCKS=7 PROCS=3
	bench --workload blocks,ring,alternate,cycle -n 1 --quick --only U1T,LISP,GO
	unset BLOCKS PROCS
	same 'status of several' 0 $status
	same 'results of several' "alternate.csv blocks.csv cycle.csv machine.txt ring.csv" \
		"$(cd "$results" && echo *)"
	for load in blocks ring alternate cycle; do
		cat "$results/$load.csv"
	done >"$dir/want"
	cmp -s "$dir/want" "$out" || fail 'several: the files are not what was printed'
	same 'columns of blocks' blocks,N,R,M,U1T "$(line 1 "$results/blocks.csv")"
	same 'columns of ring' ring,passes,U1T,GO "$(line 1 "$results/ring.csv")"
	same 'columns of cycle' N,R,M,U1T "$(line 1 "$results/cycle.csv")"
	same 'columns of alternate' alternate,repetitions,yields,U1T,LISP \
		"$(line 1 "$results/alternate.csv")"
	same 'the commands of several' \
"rmain 2 1000 100 0 1 BLOCKS=1
rmain 8 1000 100 0 1 BLOCKS=1
bench/ring-rr 500000
peers/go-ring 500000
bench/alternate-rr 1000 3
peers/lisp-alternate 1000 3
bench/alternate-rr 1 100000
peers/lisp-alternate 1 100000
rmain 2 4 250010 0 1" "$(head -n 9 "$BUILD/calls")"
	bench --workload ring,alternate -n 1 --quick --only LISP
	same 'results of no column' "alternate.csv machine.txt" "$(cd "$results" && echo *)"
	same 'rows of one column' 2 "$(grep -c 0.250000 "$out")"
}

# No file is written over, and none is begun if there is one that would be.
test_exists() {
	programs_of ring counters
	for load in ring counters; do
		rm -f "$BUILD/calls"
		mkdir "$dir/exists.$load"
		echo mine >"$dir/exists.$load/$load.csv"
		"$here/bench.sh" --workload ring,counters --quick -o "$dir/exists.$load" \
			>"$dir/again" 2>"$dir/said"
		same "status when $load.csv exists" 1 $?
		has "^bench.sh: '.*/$load.csv' exists" "$dir/said"
		same "a $load.csv that exists" mine "$(cat "$dir/exists.$load/$load.csv")"
		same "beside a $load.csv that exists" $load.csv "$(ls "$dir/exists.$load")"
		[ ! -s "$dir/again" ] || fail "$load.csv exists: output"
		[ ! -e "$BUILD/calls" ] || fail "$load.csv exists: something was run"
	done
	echo 'usched: mine' >"$dir/exists.ring/machine.txt"
	"$here/bench.sh" --workload counters --quick -n 1 -o "$dir/exists.ring" \
		>/dev/null 2>&1
	same 'status when another.csv exists' 0 $?
	same 'results of another workload' mine "$(cat "$dir/exists.ring/ring.csv")"
	same 'machines noted' 2 "$(grep -c ^usched: "$dir/exists.ring/machine.txt")"
}

wrong() {		# ARGUMENTS
	bench "$@"
	same "status of $*" 2 $status
	[ -s "$err" ] || fail "$*: no message"
	[ ! -s "$out" ] || fail "$*: output"
	[ ! -e "$results" ] || fail "$*: made a directory"
}

test_usage() {
	programs
	wrong --only NONE
	has "NONE.*U10K" "$err"
	wrong --only ''
	wrong --only ,
	wrong --only ,,
	wrong --only '*'
	has "no column '[*]'" "$err"
	wrong --only u
	wrong --only
	wrong -n
	wrong -n 0
	wrong -n 1x
	wrong -n -1
	wrong --limit 0
	wrong --limit=1.5
	wrong --workload
	wrong --workload ''
	wrong --workload ,
	wrong --workload none
	has 'none.*ring' "$err"
	wrong --workload ring,none
	wrong --workload all,none
	wrong --workload '*'
	wrong --workload ring --only BOOST-FP
	has "no column 'BOOST-FP'.* MACROS-WORST " "$err"
	wrong --workload ring,counters --only HASKELL,CALLS,LISP
	has "no column 'LISP'" "$err"
	wrong --only U1T,HASKELL
	wrong --slow
	wrong more
	export PROCS=none
	wrong --quick
	unset PROCS
	rm "$BUILD"/[rl]*
	bench --quick
	same 'status without programs' 1 $status
	has 'make' "$err"
	[ ! -e "$results" ] || fail 'without programs: made a directory'
	programs
	bench --quick --only GO,BOOST
	same 'status without peers' 1 $status
	[ ! -e "$results" ] || fail 'without peers: made a directory'
	bench --quick --workload ring
	same 'status without programs of ring' 1 $status
}

# Each way to fail at R = 4, where N = 2, or 8; all is well in the other rows.
test_failures() {
	programs
	program rmain <<-'END'
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
	program lmain <<-'END'
	case "$*" in
	"2 4 "*) echo 1.2.3 ;;
	"8 4 "*) echo 1.5; kill -SEGV $$ ;;
	*) echo 0.5 ;;
	esac
	END
	rm "$BUILD/rmain.1t" "$BUILD/lmain.setjmp"
	export PROCS=2
	bench --quick
	unset PROCS
	same 'status with failures' 0 $status
	i=0
	for reason in exit-3 killed-9 memory output missing output output missing; do
		i=$((i + 1))
		same "N = 2, column $i" fail:$reason "$(cell 2 4 $i)"
	done
	i=0
	for reason in output output output output missing killed-11 killed-11 missing; do
		i=$((i + 1))
		same "N = 8, column $i" fail:$reason "$(cell 8 4 $i)"
	done
	same 'other rows' 6 "$(grep -c \
		' 0.5, .* fail:missing, * 0.5, * 0.5, * fail:missing, * 0.250000$' "$out")"
	has '^cycle: U N=2 R=4 M=250010: fail:exit-3: out of luck$' "$results/failures.txt"
	has '^bench.sh: cycle: U N=2 R=4 M=250010: fail:exit-3: out of luck' "$err"
	has "^cycle: UJ N=8 R=4 M=62510: fail:missing: $BUILD/lmain.setjmp\$" \
		"$results/failures.txt"
	same 'failures noted' 28 "$(wc -l <"$results/failures.txt")"
}

# Wrong answers, and right ones that are not where they should be. The 500000th pass
# ends at thread 19.
test_answers() {
	programs_of ring
	program bench/ring-rr <<-'END'
	echo 0.5; echo 7
	END
	program bench/ring-ll <<-'END'
	echo 0.5
	END
	program bench/ring-direct <<-'END'
	echo 0.5; echo 19; echo 19
	END
	program peers/c-ring-best <<-'END'
	echo 19; echo 0.5
	END
	program peers/c-ring-worst <<-'END'
	echo 0.5 19
	END
	program peers/pthreads-ring <<-'END'
	echo 0.5; echo 18
	END
	program peers/go-ring <<-'END'
	echo nan; echo 19
	END
	program peers/haskell-ring <<-'END'
	printf '0.5\n19'
	END
	program peers/ocaml-ring <<-'END'
	echo 0.5; echo 19; echo not enough memory >&2; exit 1
	END
	program peers/erlang-ring <<-'END'
	echo 0.5; echo; echo 19
	END
	program peers/lua-ring <<-'END'
	[ -e "$0.run" ] || { echo >"$0.run"; exec sleep 900; }
	echo 0.5; echo 19
	END
	program peers/luajit-ring <<-'END'
	echo 0.5; echo 19; kill -9 $$
	END
	columns=U1T,UL1T,UD,MACROS,MACROS-WORST,POSIX,GO,HASKELL,LWT,ERLANG,LUAJIT,PYTHON
	bench --workload ring --quick -n 2 --only $columns
	same 'status with wrong answers' 0 $status
	same 'rows with wrong answers' "ring,500000$(printf ',fail:%s' answer answer answer \
		answer output answer output),0.5,$(printf 'fail:%s,' memory answer \
		killed-9)0.250000" "$(line 2)"
	same 'wrong answers noted' 20 "$(wc -l <"$results/failures.txt")"
	failures_noted 'U1T passes=500000: fail:answer: 0.5 7 $' \
		'UL1T passes=500000: fail:answer: 0.5 $' \
		'POSIX passes=500000: fail:answer: 0.5 18 $' \
		'LWT passes=500000: fail:memory: not enough memory$' \
		'LUAJIT passes=500000: fail:killed-9$'
	for seconds in 15 60 300; do            # more, if that was not enough for the second
		rm -f "$BUILD/peers/lua-ring.run"
		bench --workload ring --quick -n 2 --limit $seconds --only LUA
		[ "$(found ring LUA 3)" != 0.5 ] || break
	done
	same 'a run that hangs' fail:timeout "$(found ring LUA)"
	same 'the next run' 0.5 "$(found ring LUA 3)"
	failures_noted 'LUA passes=500000: fail:timeout$'
}

failures_noted() {	# PATTERN...
	for line; do
		has "^ring: $line" "$results/failures.txt"
		has "^bench.sh: ring: $line" "$err"
	done
}

# A system that can do less is judged by what it was asked to do.
test_shrunk() {
	programs_of ring memory
	program peers/pthreads-memory <<-'END'
	case $* in
	30000) echo 0.5; echo 30000 ;;
	*) echo 0.5; echo 7 ;;
	esac
	END
	bench --workload ring,memory -n 1
	same 'a smaller size' 0.250000@500000 "$(found ring POSIX)"
	same 'the answer of a smaller size' 0.5@30000 "$(found memory POSIX)"
	same 'the full size' 0.250000 "$(found ring GO)"
	bench --workload ring,memory -n 1 --quick
	same 'a quick size, smaller' 0.5@30000 "$(found memory POSIX)"
	same 'a quick size, as large' 0.250000 "$(found ring MACROS-WORST)"
	bench --workload ring -n 1 --only POSIX
	same 'a smaller size alone' 0.250000@500000 "$(found ring POSIX)"
}

# Other systems of which there is no program are no failures, but our own are.
test_absent() {
	programs_of ring pingpong
	rm "$BUILD/peers/haskell-ring" "$BUILD/bench/pingpong-ll"
	chmod -x "$BUILD/peers/lua-ring"
	bench --workload ring,pingpong --quick -n 2 --only U1T,UL1T,HASKELL,LUA,GO
	same 'status with absent ones' 0 $status
	same 'columns of those present' ring,passes,U1T,UL1T,GO "$(line 1)"
	same 'absent ones noted' 'skipped of ring: HASKELL LUA' \
		"$(grep '^skipped' "$results/machine.txt")"
	same 'absent ones told' 1 "$(grep -c '^bench.sh: ring: skipped HASKELL LUA: ' "$err")"
	has "'make peers'" "$err"
	same 'one of ours' fail:missing "$(found pingpong UL1T)"
	same 'failures noted' 2 "$(wc -l <"$results/failures.txt")"
	has "^pingpong: UL1T pairs=1000000: fail:missing: $BUILD/bench/pingpong-ll\$" \
		"$results/failures.txt"
	same 'lines told' 4 "$(wc -l <"$err")"
	bench --workload ring,pingpong --quick -n 1 --only UL1T,HASKELL
	same 'only an absent one' 'skipped of ring: HASKELL' \
		"$(grep '^skipped' "$results/machine.txt")"
	same 'columns beside it' ring,passes,UL1T "$(line 1)"
	bench --workload ring,pingpong --quick -n 1 --only BOOST,LUA
	same 'a workload with nothing but absent ones' 'machine.txt pingpong.csv' \
		"$(cd "$results" && echo *)"
	same 'noted all the same' 'skipped of ring: LUA' \
		"$(grep '^skipped' "$results/machine.txt")"
}

# A program that hangs, one that will not listen either, and what they started.
test_timeout() {
	programs
	program rmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	sleep 600 &
	echo \$! >"$dir/hung"
	wait
	END
	program lmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	trap '' TERM
	echo \$\$ >"$dir/deaf"
	for i in \$(seq 600); do sleep 1; done
	END
	program rmain.1t <<-'END'
	exit 124
	END
	bench --quick --only U,UL --limit 5
	same 'status with time-outs' 0 $status
	same 'a program that hangs' fail:timeout "$(cell 2 4 1)"
	same 'a program that does not listen' fail:timeout "$(cell 2 4 2)"
	same 'all rows' 8 "$(grep -c '^ *[28],' "$out")"
	gone "$dir/hung"
	gone "$dir/deaf"
	bench --quick --only U1TS
	same 'a program that fails like one that hangs' fail:exit-124 "$(cell 2 4 1)"
}

# Runs bench.sh until PROGRAM, made to hang, gets arguments that begin so; then signals it.
interrupt() {		# SIGNAL PROGRAM ARGUMENTS OPTION...
	signal=$1
	rm -f "$dir/pid"
	program "$2" <<-END
	case "\$* " in
	"$3 "*) ;;
	*) echo 0.5; $answer; exit ;;
	esac
	echo \$\$ >"$dir/pid"
	sleep 600
	: >"$dir/slept"
	END
	shift 3
	runs=$((runs + 1))
	out=$dir/out.$runs results=$dir/results.$runs
	# A shell has what it starts with & ignore SIGINT, and nohup SIGHUP.
	env --default-signal \
		"$here/bench.sh" --quick --limit 300 -o "$results" "$@" \
			>"$out" 2>/dev/null </dev/null &
	bench=$!
	wait_for "$dir/pid"
	kill -s "$signal" $bench
	wait $bench 2>/dev/null
	status=$?
	[ ! -e "$dir/slept" ] || fail "$signal: not at once"
	gone "$dir/pid"
	has "^end: .*, $signal\$" "$results/machine.txt"
	[ ! -e "$results/failures.txt" ] || fail "$signal: an interruption is no failure"
}

test_interrupt() {
	env --default-signal true 2>/dev/null || {
		note 'no interruptions tried, env cannot reset signals'
		return
	}
	answer=:
	programs
	interrupt INT lmain '2 100'
	cmp -s "$out" "$results/cycle.csv" || fail "INT: cycle.csv is not what was printed"
	same 'status of SIGINT' 130 $status
	same 'rows kept' 2 "$(grep -c '^ *2,' "$out")"
	same 'first row, column 6' 0.5 "$(cell 2 4 6)"
	same 'last row, column 5' 0.250000 "$(cell 2 100 5)"
	same 'last row, column 6' fail:interrupted "$(cell 2 100 6)"
	same 'last row, column 7' fail:interrupted "$(cell 2 100 7)"
	programs
	interrupt TERM rmain.1t '2 100'
	same 'status of SIGTERM' 143 $status
	same 'last row, column 4' 0.250000 "$(cell 2 100 4)"
	same 'last row, column 5' fail:interrupted "$(cell 2 100 5)"
	same 'last row, column 6' fail:interrupted "$(cell 2 100 6)"
	programs
	interrupt HUP rmain '2 100'
	same 'a row of which nothing was measured' '' "$(grep '^ *2, *100,' "$out")"
	same 'rows kept' 1 "$(grep -c '^ *2,' "$out")"
	interrupt_second
}

# In the second row of the second of three workloads.
interrupt_second() {
	programs_of ring alternate counters
	answer=$(answer_of alternate)
	interrupt TERM bench/alternate-ll '1 100000' --workload ring,alternate,counters
	same 'status in the second workload' 143 $status
	cat "$results/ring.csv" "$results/alternate.csv" >"$dir/want"
	cmp -s "$dir/want" "$out" || fail 'interrupted: the files are not what was printed'
	same 'rows of the first workload' 3 "$(grep -c '^ *ring, *500000, .* 0.250000$' "$out")"
	same 'rows of the second' alternate,1000,3,0.250000,0.5,0.250000,0.250000,0.250000 \
		"$(line 2 "$results/alternate.csv")"
	same 'the row of the signal' "alternate,1,100000,0.250000$(
		printf ',fail:interrupted%.0s' 1 2 3 4)" "$(line 3 "$results/alternate.csv")"
	same 'lines of the second' 3 "$(wc -l <"$results/alternate.csv")"
	[ ! -e "$results/counters.csv" ] || fail 'interrupted: the third was begun'
	! grep -q counters "$BUILD/calls" || fail 'interrupted: the third was run'
}

# Standard output that closes, or is full, ends the sweep; what it got is kept. The first
# program ends when nobody reads any more.
test_no_reader() {
	programs
	program rmain <<-END
	until [ -e "$dir/closed" ]; do sleep 0.1; done
	echo 0.5
	END
	results=$dir/results.reader
	"$here/bench.sh" -o "$results" 2>/dev/null | {
		head -n 1 >/dev/null
		exec <&-
		: >"$dir/closed"
	}
	same 'lines without a reader' 2 "$(wc -l <"$results/cycle.csv")"
	[ -w /dev/full ] || return 0
	"$here/bench.sh" -o "$results.full" >/dev/full 2>/dev/null
	same 'status when the disk is full' 1 $?
	same 'lines when the disk is full' 1 "$(wc -l <"$results.full/cycle.csv")"
	programs_of ring create
	"$here/bench.sh" --workload ring,create -o "$results.two" >/dev/full 2>/dev/null
	same 'status when the disk is full at once' 1 $?
	[ ! -e "$results.two/create.csv" ] || fail 'the next workload was begun without space'
}

# The progress is for terminals (test_shape() sees that others get none).
test_progress() {
	programs
	script -qec true /dev/null >/dev/null 2>&1 || return 0
	script -qec "'$here/bench.sh' --quick --only UL -o '$dir/results.tty' >'$dir/csv'" \
		/dev/null >"$dir/tty" </dev/null
	has 'cycle, run 1 of 1, N=2 R=4 M=250010, UL: 0% done, time left unknown yet' "$dir/tty"
	has 'N=8 R=100000 M=12, UL: 87% done, about [0-9]* min' "$dir/tty"
	has '^ *2, *4, *250010, *0.250000$' "$dir/csv"
	programs_of ring memory
	script -qec "'$here/bench.sh' --workload ring,memory --quick --only UL1T,GO \
		-o '$dir/results.tty2' >'$dir/csv'" /dev/null >"$dir/tty" </dev/null
	has 'ring, run 1 of 3, passes=500000, GO: 8% done, about' "$dir/tty"
	has 'ring, run 2 of 3, passes=500000, UL1T: 16% done, about' "$dir/tty"
	has 'memory, run 3 of 3, threads=100000, GO: 91% done, about' "$dir/tty"
}

# What waits for limits does so beside the others.
beside() {		# TEST NUMBER-OF-ITS-FIRST-RUN
	runs=$2
	"$1"
	exit $failed
}

# After all the others.
test_no_rest() {
	same 'temporary files' '' "$(ls "$TMPDIR")"
}

need timeout
unset PROCS BLOCKS USCHED_STACKS
# shellcheck disable=SC2046 # a word for each; what git is to do is not for the user to say
unset $(git rev-parse --local-env-vars 2>/dev/null)
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
TMPDIR=$dir/tmp
export TMPDIR
mkdir "$TMPDIR"
beside test_answers 1000 &
beside_it=$!
beside test_timeout 2000 &
beside_it="$beside_it $!"
test_shape
test_rows
test_machine
test_tree
test_options
test_runs
test_short
test_several
test_exists
test_usage
test_failures
test_shrunk
test_absent
test_interrupt
test_no_reader
test_progress
for test in $beside_it; do
	wait "$test" || failed=1
done
test_no_rest
conclude 'runs, failures and interrupts, with programs that are made up'
