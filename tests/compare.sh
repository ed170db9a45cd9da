#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench/compare.sh, with made-up programs that print what a test says; servers and clients
# are those of fakes. The calls and the results of each part are spelled out here once more.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib
here=$PWD
runs=0
parts='cycle depth processors pingpong create counters coroutines ring memory'
points='2.4.1000000 2.100000.40 2.1000000.10 8.2.500000 8.1000.1000 8.100000.10'
programs='rmain rmain.1t lmain lmain.setjmp bench/pingpong-direct bench/create-direct
bench/counters-direct bench/ring-direct bench/memory-ll peers/cxx20-cycle-fifo
peers/cxx20-cycle-lifo peers/go-cycle peers/rust-cycle-tokio peers/boost-pingpong-same
peers/rust-pingpong-corosensei peers/cxx20-create peers/rust-counters-corosensei
peers/cxx20-counters bench/pingpong-co bench/walk-co bench/clone-co
peers/minicoro-pingpong peers/boost-pingpong-coroutine2 peers/c-walk-calls
peers/chez-clone peers/c-ring-best peers/c-ring-worst bench/measure bench/uneven
peers/go-uneven bench/channel peers/go-channel bench/simulate'
# shellcheck source=tests/fakes
. tests/fakes

# A new directory of programs, which note their arguments and where they are kept. What
# they print is a function of these, $command, and of how often it was called, $turn: on
# standard input.
# shellcheck disable=SC2120 # nothing, where standard input says all
says() {
	BUILD=$(mktemp -d "$dir/build.XXXXXX")
	export BUILD
	mkdir "$BUILD/bench" "$BUILD/peers"
	{
		cat <<-END
		command="\${0#"$BUILD"/} \$*"
		echo "\$command\${PINNED:+ on \$PINNED}" >>"$BUILD/calls"
		turn=\$(grep -c "^\$command\\( on\\|\$\\)" "$BUILD/calls")
		case \$command in
		END
		cat
		cat <<-'END'
		*) echo 1.000000 ;;
		esac
		echo 4711
		END
	} | executable "$BUILD/rmain"
	for name in $programs; do
		[ "$name" = rmain ] || ln "$BUILD/rmain" "$BUILD/$name"
	done
}

# Runs compare.sh; leaves $status, $out, $err, and the rows of the table in $rows.
compare() {		# ARGUMENTS
	runs=$((runs + 1))
	out=$dir/out.$runs err=$dir/err.$runs rows=$dir/rows.$runs
	"$here/bench/compare.sh" "$@" >"$out" 2>"$err" </dev/null
	status=$?
	sed 1,2d "$out" >"$rows"
}

# The row that begins so must be the only one, and go on so.
row() {			# WHAT REST
	same "the row '$1'" "| $1 | <= $2 |" "$(grep -F "| $1 |" "$rows")"
}

# What every program says in test_all(): no two rows that are about different programs
# have the same ratio.
all_say() {
	says <<-'END'
	lmain\ *\ 0\ 1) echo 2.2 ;;
	lmain\ *\ 0\ 2) echo 1.1 ;;
	rmain\ *\ 0\ 1) echo 3.0 ;;
	rmain\ *\ 0\ 2) echo 2.7 ;;
	rmain.1t\ *\ 0\ 1) echo 2.5 ;;
	rmain.1t\ *\ 10000\ 1) echo 2.6 ;;
	lmain.setjmp\ *) echo 13.3 ;;
	peers/cxx20-cycle-fifo*) echo 1.25 ;;
	peers/cxx20-cycle-lifo*) echo 2 ;;
	peers/go-cycle*) echo 40 ;;
	peers/rust-cycle-tokio*) echo 20 ;;
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
}

# The table of that.
table() {
	for row in 'UL1T / C++1T or C++1TL|1.5|1.76|missed|1.15' \
		'U1TS / C++1T|2.5|2|reached|1.6' \
		'U1T / U1TS|1.3|1.2|reached' 'UL1T / GO1T|0.05|0.055|missed' \
		'UL1T / TOKIO|0.2|0.11|reached' 'UJ / UL1T|6|6.05|missed'; do
		for point in $points; do
			echo "$row" | awk -F '|' -v point="$(echo "$point" | tr . ' ')" '{
				printf "| %s at %s | <= %s | %s | %s to %s | %s |\n",
					$1, point, $2, $3, $3, $3, $4 }'
		done
		echo "$row" | awk -F '|' 'NF == 5 {
			printf "| %s, geometric mean | <= %s | %s | %s to %s | missed |\n",
				$1, $5, $3, $3, $3 }'
	done
	for point in '2 4 1000000' '8 2 500000'; do
		echo "| U1TS with 10,000 bytes of stack / without, at $point" \
			'| <= 1.2 | 1.04 | 1.04 to 1.04 | reached |'
	done
	for point in '2 100000 40' '2 1000000 10' '8 1000 1000' '8 100000 10'; do
		echo "| UL on two processors / on one, at $point" \
			'| <= 0.55 | 0.5 | 0.5 to 0.5 | reached |'
		echo "| U on two processors / on one, at $point" \
			'| <= 0.65 | 0.9 | 0.9 to 0.9 | missed |'
	done
	cat <<-'END'
	| pingpong: UD / Boost.Context | <= 0.5 | 0.3 | 0.3 to 0.3 | reached |
	| pingpong: UD / corosensei | <= 1.9 | 3 | 3 to 3 | missed |
	| create: UD / C++20 | <= 1.3 | 1.4 | 1.4 to 1.4 | missed |
	| counters: UD / corosensei | <= 1 | 0.4 | 0.4 to 0.4 | reached |
	| counters: UD / C++20 | <= 6 | 6 | 6 to 6 | reached |
	| coroutines, pingpong: UCO / corosensei | <= 1.5 | 3 | 3 to 3 | missed |
	| coroutines, pingpong: UCO / minicoro | <= 0.3 | 0.25 | 0.25 to 0.25 | reached |
	| coroutines, pingpong: UCO / Boost.Coroutine2 | <= 0.2 | 0.3 | 0.3 to 0.3 | missed |
	| walk of a million nodes: UCO / CALLS | <= 4 | 4 | 4 to 4 | reached |
	| clone: UCO / call/cc of Chez | <= 1 | 1.2 | 1.2 to 1.2 | missed |
	| ring: UD / MACROS | <= 2.5 | 1.6 | 1.6 to 1.6 | reached |
	| ring: UD / MACROS-WORST | <= 0.02 | 0.04 | 0.04 to 0.04 | missed |
	| bytes per blocked thread of a million | <= 200 | 225 | 225 to 225 | missed |
	| GB of ten million blocked threads | <= 3 | 2.5 | 2.5 to 2.5 | reached |
	END
}

# Lines of LABEL COMMAND for -n TURNS, in the order of the calls.
calls() {		# TURNS
	for point in $points; do
		turns "$1" "$(echo "$point" | tr . ' ')" <<-'END'
		UL1T lmain @ 0 1
		C++1T peers/cxx20-cycle-fifo @
		C++1TL peers/cxx20-cycle-lifo @
		U1TS rmain.1t @ 0 1
		U1T rmain @ 0 1
		UJ lmain.setjmp @ 0 1
		GO1T peers/go-cycle @ 1
		TOKIO peers/rust-cycle-tokio @
		END
	done
	for point in '2 4 1000000' '8 2 500000'; do
		turns "$1" "$point" <<-'END'
		deep rmain.1t @ 10000 1
		U1TS rmain.1t @ 0 1
		END
	done
	for point in '2 100000 40' '2 1000000 10' '8 1000 1000' '8 100000 10'; do
		turns "$1" "$point" <<-'END'
		UL lmain @ 0 2
		UL1T lmain @ 0 1
		U rmain @ 0 2
		U1T rmain @ 0 1
		END
	done | sed 's/$/ free/'
	turns "$1" 10000000 <<-'END'
	UD bench/pingpong-direct @
	BOOST peers/boost-pingpong-same @
	COROSENSEI peers/rust-pingpong-corosensei @
	END
	turns "$1" 3000000 <<-'END'
	UD bench/create-direct @
	C++20 peers/cxx20-create @
	END
	turns "$1" '20000 300' <<-'END'
	UD bench/counters-direct @
	COROSENSEI peers/rust-counters-corosensei @
	C++20 peers/cxx20-counters @
	END
	turns "$1" 10000000 <<-'END'
	UCO bench/pingpong-co @
	COROSENSEI peers/rust-pingpong-corosensei @
	MINICORO peers/minicoro-pingpong @
	COROUTINE2 peers/boost-pingpong-coroutine2 @
	END
	turns "$1" 1000000 <<-'END'
	UCO bench/walk-co @
	CALLS peers/c-walk-calls @
	END
	turns "$1" 1000000 <<-'END'
	UCO bench/clone-co @
	CHEZ peers/chez-clone @
	END
	turns "$1" 5000000 <<-'END'
	UD bench/ring-direct @
	MACROS peers/c-ring-best @
	END
	turns "$1" 500000 <<-'END'
	UD bench/ring-direct @
	MACROS-WORST peers/c-ring-worst @
	END
	echo UL1T bench/memory-ll 1000000
	echo UL1T bench/memory-ll 10000000
}

# Standard input so often, with the arguments for @; the slow ones in every other turn.
turns() {		# TURNS ARGUMENTS
	sed "s/@/$2/" >"$dir/turn"
	for turn in $(seq "$1"); do
		if [ $((turn % 2)) = 1 ]; then
			cat "$dir/turn"
		else
			grep -v -e ^GO -e ^TOKIO "$dir/turn"
		fi
	done
}

# All of it: the table, the calls and what is kept.
test_all() {
	all_say
	mkdir -p "$dir/new/kept"
	echo old >"$dir/new/kept/compare.csv"
	# shellcheck disable=SC2086 # a word for each
	PROCS=7 compare -o "$dir/new/kept" $parts
	same 'status of all' 1 $status
	same 'standard error of all' '' "$(cat "$err")"
	# On what the tests run differs.
	same 'heading' '| measure, on CPU | aim | reached | spread | |
|---|---|---|---|---|' "$(head -n 2 "$out" | sed '1s/, on [^|]*[^| ] |/, on CPU |/')"
	table >"$dir/want"
	diff "$dir/want" "$rows" >&2 || fail 'the table (>) is not what was expected (<)'
	calls 5 | sed 's/ free$//; t; s/$/ on 1/' | cut -d ' ' -f 2- >"$dir/want"
	diff "$dir/want" "$BUILD/calls" >&2 || fail 'calls (>) are not those expected (<)'
	calls 5 | sed 's/ free$//; s/ /, /' >"$dir/want"
	sed 's/, [0-9.]*$//' "$dir/new/kept/compare.csv" | diff "$dir/want" - >&2 ||
		fail 'compare.csv (>) is not what was expected (<)'
	has '^deep, rmain.1t 8 2 500000 10000 1, 2.6$' "$dir/new/kept/compare.csv"
	has '^C++20, peers/cxx20-counters 20000 300, 1$' "$dir/new/kept/compare.csv"
}

# One part or some, in the order given, once each. One turn for memory is for memory only.
test_parts() {
	all_say
	for part in cycle depth processors pingpong create counters coroutines ring memory
	do
		compare -n 1 "$part"
		cat "$rows"
	done >"$dir/parts"
	table | diff - "$dir/parts" >&2 || fail 'the parts are not the whole'
	rm "$BUILD/calls"
	(cd "$dir" && CPU=0 "$here/bench/compare.sh" -n 2 -o kept memory create memory) \
		>"$dir/out"
	same 'status of two parts' 1 $?
	same 'rows of two parts' 5 "$(wc -l <"$dir/out")"
	same 'calls of two parts' "bench/memory-ll 1000000 on 0
bench/memory-ll 10000000 on 0
bench/create-direct 3000000 on 0
peers/cxx20-create 3000000 on 0
bench/create-direct 3000000 on 0
peers/cxx20-create 3000000 on 0" "$(cat "$BUILD/calls")"
	same 'what two parts keep' 6 "$(wc -l <"$dir/kept/compare.csv")"
	PINNED='' compare -n 1 processors create
	same 'those that are kept on a processor' 2 \
		"$(tail -n 18 "$BUILD/calls" | grep -c ' on 1$')"
}

# The ratio of the medians, 5 / 4, and not the median of the ratios, 2; and neither of
# the means, 24 / 11.6. Numbers, not words: 30 is more than 5.
test_median() {
	says <<-'END'
	bench/create*) set -- 30 5 8 3 4; shift $((turn - 1)); echo $1 ;;
	peers/cxx20-create*) set -- 40 2.5 4 10 2; shift $((turn - 1)); echo $1 ;;
	END
	compare create
	row 'create: UD / C++20' '1.3 | 1.25 | 0.3 to 2 | reached'
	same 'status of a median' 0 $status
	rm "$BUILD/calls"
	compare -n 4 create	# 6.5 / 7
	row 'create: UD / C++20' '1.3 | 0.929 | 0.3 to 2 | reached'
	rm "$BUILD/calls"
	compare -n 2 create	# 17.5 / 21.25
	row 'create: UD / C++20' '1.3 | 0.824 | 0.75 to 2 | reached'
}

# What is at the limit has reached it; a median counts, not the spread.
test_limits() {
	says <<-'END'
	bench/create*) set -- 1.3 1.4 1.2; shift $((turn - 1)); echo $1 ;;
	bench/ring*) echo 2.51 ;;
	peers/c-ring-worst*) echo 1000 ;;
	END
	compare -n 3 create
	row 'create: UD / C++20' '1.3 | 1.3 | 1.2 to 1.4 | reached'
	same 'status of a limit that is kept' 0 $status
	compare -n 1 ring
	row 'ring: UD / MACROS' '2.5 | 2.51 | 2.51 to 2.51 | missed'
	row 'ring: UD / MACROS-WORST' '0.02 | 0.00251 | 0.00251 to 0.00251 | reached'
	same 'status of a limit that is not' 1 $status
	rm "$BUILD/calls"
	compare -n 3 ring create
	same 'status of a limit that is kept after one that is not' 1 $status
}

# At one point another is the fastest, by its median; at another in one turn only.
test_fastest() {
	says <<-'END'
	lmain\ *) echo 4 ;;
	*-lifo\ 2\ 4\ *) set -- 2 8 3; shift $((turn - 1)); echo $1 ;;
	*-fifo\ 2\ 4\ *) set -- 4 5 6; shift $((turn - 1)); echo $1 ;;
	*-lifo\ 8\ 2\ *) set -- 1 8 8; shift $((turn - 1)); echo $1 ;;
	*-fifo\ 8\ 2\ *) echo 4 ;;
	*-fifo*) echo 2 ;;
	*-lifo*) echo 4 ;;
	END
	compare -n 3 cycle
	what='UL1T / C++1T or C++1TL'
	row "$what at 2 4 1000000" '1.5 | 1.33 | 0.5 to 2 | reached'
	row "$what at 8 2 500000" '1.5 | 1 | 1 to 1 | reached'
	row "$what at 8 1000 1000" '1.5 | 2 | 2 to 2 | missed'
	row "$what, geometric mean" '1.15 | 1.67 | 1 to 2 | missed'	# (4/3 * 16)^(1/6)
}

# What has half of the turns is compared in these.
test_slow() {
	says <<-'END'
	lmain\ *) set -- 1 100 1 100 7; shift $((turn - 1)); echo $1 ;;
	*go-cycle*) set -- 20 30 25; shift $((turn - 1)); echo $1 ;;
	END
	compare cycle
	row 'UL1T / GO1T at 2 4 1000000' '0.05 | 0.04 | 0.0333 to 0.28 | reached'
	row 'UL1T / C++1T or C++1TL at 2 4 1000000' '1.5 | 7 | 1 to 100 | missed'
}

# Each way to fail, in one turn of three: the rows concerned say so, the others do not.
test_failures() {
	while IFS='|' read -r action message; do
		says <<-END
		*-corosensei*) [ \$turn != 2 ] || { $action; exit; }; echo 0.5 ;;
		END
		rm -rf "$dir/kept"
		compare -n 3 -o "$dir/kept/new" counters
		same "status of '$action'" 2 $status
		row 'counters: UD / corosensei' '1 | - | - | not measured'
		row 'counters: UD / C++20' '6 | 1 | 1 to 1 | reached'
		same "what '$action' keeps" '0.5 fail 0.5 ' \
			"$(sed -n 's/^COROS.*, //p' "$dir/kept/new/compare.csv" | tr '\n' ' ')"
		same "lines about '$action'" 1 "$(wc -l <"$err")"
		program=$BUILD/peers/rust-counters-corosensei
		has "^compare.sh: $program 20000 300: $message" "$err"
	done <<-'END'
	echo 0.5; echo out of luck >&2; exit 3|status 3: out of luck$
	echo 0.5; kill -9 $$|status 137: 
	exit 0|status 0: $
	echo|status 0: $
	echo; echo 0.5|status 0: 
	echo nan|status 0: nan$
	echo inf|status 0: inf$
	echo -1.5|status 0: -1.5$
	echo 1.2.3|status 0: 1.2.3$
	echo 1.|status 0: 1.$
	echo .|status 0: .$
	echo 0.000000|status 0: 0.000000$
	echo 0|status 0: 0$
	echo fail|status 0: fail$
	echo 1.5 seconds|status 0: 1.5 seconds$
	printf '1\0002\n'|status 0: 1
	END
}

# What the servers and their clients say, so that no two rows have the same ratio.
servers_say() {
	fake
	for name in examples/04-echo examples/05-httpd examples/06-kv peers/c-epoll-http \
		peers/go-http peers/nginx-http peers/st-http peers/st-echo peers/tokio-echo \
		peers/redis-redis; do
		fake_server "$name"
	done
	cat >"$FAKES/value" <<-'END'
	case "$name $server $*" in
	wrk\ examples*) echo 900 ;;
	wrk\ *epoll*) echo 1000 ;;
	wrk\ *go*) echo 400 ;;
	wrk\ *nginx*) echo 1200 ;;
	echo*\ examples*) echo 230 ;;
	echo*\ *st-*) echo 200 ;;
	echo*) echo 300 ;;
	redis*\ examples*1\ -t\ get*) echo 100 ;;
	redis*\ examples*1\ -t\ set*) echo 110 ;;
	redis*\ examples*16\ -t\ get*) echo 120 ;;
	redis*\ examples*16\ -t\ set*) echo 90 ;;
	redis*) echo 100 ;;
	idle*\ examples*) echo 1600 ;;
	idle*\ *st-*) echo 4000 ;;
	idle*) echo 20000 ;;
	h2load\ examples*) echo 900 ;;
	h2load\ *) echo 1000 ;;
	esac
	END
}

# The rows, those of at least as those of at most; and the calls, run by run.
test_servers() {
	servers_say
	compare -n 2 -o "$dir/kept/servers" servers
	same 'status of servers' 1 $status
	same 'standard error of servers' '' "$(cat "$err")"
	diff - "$rows" >&2 <<-'END' || fail 'the rows of servers (>)'
	| httpd / epoll, requests per second | >= 0.95 | 0.9 | 0.9 to 0.9 | missed |
	| httpd / Go | >= 2 | 2.25 | 2.25 to 2.25 | reached |
	| httpd / nginx | >= 0.9 | 0.75 | 0.75 to 0.75 | missed |
	| echo / State Threads, round trips per second | >= 1.1 | 1.15 | 1.15 to 1.15 | reached |
	| echo / tokio | >= 1.1 | 0.767 | 0.767 to 0.767 | missed |
	| kv / redis-server, GET, 1 at a time | >= 1 | 1 | 1 to 1 | reached |
	| kv / redis-server, SET, 1 at a time | >= 1 | 1.1 | 1.1 to 1.1 | reached |
	| kv / redis-server, GET, 16 at a time | >= 1 | 1.2 | 1.2 to 1.2 | reached |
	| kv / redis-server, SET, 16 at a time | >= 1 | 0.9 | 0.9 to 0.9 | missed |
	| httpd: bytes per idle connection | <= 800 | 1600 | 1600 to 1600 | missed |
	| idle: httpd / State Threads | <= 0.25 | 0.4 | 0.4 to 0.4 | missed |
	| idle: httpd / Go | <= 0.25 | 0.08 | 0.08 to 0.08 | reached |
	| 99th percentile at 80 % of the peak: httpd / epoll | <= 1.2 | 0.9 | 0.9 to 0.9 | reached |
	END
	{
		twice U http examples/05-httpd 64, EPOLL http peers/c-epoll-http 64, \
			GO http peers/go-http 64, NGINX http peers/nginx-http 64
		twice U echo examples/04-echo 64, ST echo peers/st-echo 64, \
			TOKIO echo peers/tokio-echo 64
		for point in 'GET 1' 'SET 1' 'GET 16' 'SET 16'; do
			twice "U redis examples/06-kv 50 $point, REDIS redis peers/redis-redis 50 $point"
		done
		twice U idle examples/05-httpd 9000, ST idle peers/st-http 9000, \
			GO idle peers/go-http 9000
		echo EPOLL h2load peers/c-epoll-http 64
		twice U latency examples/05-httpd 64 80, EPOLL latency peers/c-epoll-http 64 80
	} >"$dir/want"
	tr -d , <"$dir/kept/servers/compare.csv" | sed 's/ [0-9.]*$//' |
		diff "$dir/want" - >&2 || fail 'compare.csv of servers (>)'
	same 'rates' 4 "$(grep -c -e '--rps=12.5 ' "$FAKES/calls")"
}

twice() {		# COMMAND, COMMAND...
	for turn in 1 2; do
		echo "$*" | sed 's/, */\n/g'
	done
}

# A server that fails is not measured; without the peak there is no latency.
test_server_failures() {
	servers_say
	rm "$BUILD/peers/c-epoll-http"
	cat >"$FAKES/serve" <<-'END'
	case $name in
	*tokio*) exit 3 ;;
	esac
	END
	compare -n 1 servers
	same 'status of servers that fail' 2 $status
	row 'idle: httpd / Go' '0.25 | 0.08 | 0.08 to 0.08 | reached'
	row '99th percentile at 80 % of the peak: httpd / epoll' '1.2 | - | - | not measured'
	same 'rows that are not measured' 3 "$(grep -c 'not measured |$' "$rows")"
	has "tokio-echo 64: status 1: the server has ended" "$err"
	has "there is no $BUILD/peers/c-epoll-http: make peers builds it" "$err"
	rm "$BUILD/examples/05-httpd"
	compare -n 2 servers
	same 'lines about a missing example' 1 "$(grep -c '/05-httpd' "$err")"
	has "there is no $BUILD/examples/05-httpd: make examples builds it" "$err"
}

# What is missing, in both places of a ratio, and in a mean; a program that several rows
# are about, and one that is the only one without a peer.
test_missing() {
	says </dev/null
	rm "$BUILD/peers/cxx20-cycle-lifo" "$BUILD/lmain.setjmp"
	compare -n 2 cycle
	same 'status of what is missing' 2 $status
	same 'rows' 38 "$(wc -l <"$rows")"
	same 'rows not measured' 13 "$(grep -c ' | - | - | not measured |$' "$rows")"
	row 'UL1T / C++1T or C++1TL, geometric mean' '1.15 | - | - | not measured'
	row 'UJ / UL1T at 8 100000 10' '6 | - | - | not measured'
	row 'U1TS / C++1T, geometric mean' '1.6 | 1 | 1 to 1 | reached'
	row 'UL1T / TOKIO at 8 100000 10' '0.2 | 1 | 1 to 1 | missed'
	same 'what is told of missing programs' \
		"compare.sh: there is no $BUILD/lmain.setjmp: make programs builds it, or says why not
compare.sh: there is no $BUILD/peers/cxx20-cycle-lifo: make peers builds it, or says why not" \
		"$(sort "$err")"
	rm "$BUILD/bench/memory-ll"
	compare memory
	row 'GB of ten million blocked threads' '3 | - | - | not measured'
	same 'status of memory without its program' 2 $status
	chmod -x "$BUILD/bench/ring-direct"	# all are one file
	compare -n 1 ring create
	same 'rows without any program' 3 "$(grep -c 'not measured |$' "$rows")"
	rm -r "$BUILD"
	compare -n 1 ring create
	same 'status without any program' 2 $status
}

# A failure counts more than what was missed, before it or after.
test_status() {
	says <<-'END'
	bench/create*) echo 100 ;;
	peers/boost*) echo none ;;
	END
	compare -n 1 create pingpong
	same 'status of a failure after a miss' 2 $status
	compare -n 1 pingpong create
	same 'status of a failure before a miss' 2 $status
	compare -n 1 create
	same 'status of a miss' 1 $status
	compare -n 1 create
	same 'status of an aim that was missed' 1 $status
	row 'create: UD / C++20' '1.3 | 100 | 100 to 100 | missed'
}

# The servers of requests, beside the programs that says() has made.
requests_say() {
	said=$BUILD
	fake
	ln "$BUILD/bench/requests-load" "$said/bench/requests-load"
	BUILD=$said
	for name in bench/requests-steal bench/requests-slice peers/go-requests \
		peers/tokio-requests; do
		fake_server "$name"
	done
	cat >"$FAKES/value" <<-'END'
	case "$server $*" in
	bench*\ 990\ 70\ 8\ 5\ 2) echo 300 ;;
	bench*) echo 900 ;;
	*go*\ 990\ 70\ 8\ 5\ 2) echo 600 ;;
	*go*) echo 1500 ;;
	*tokio*\ 990\ 70\ 8\ 5\ 2) echo 200 ;;
	*) echo 500 ;;
	esac
	END
}

# A part that is run by name only.
test_even() {
	says <<-'END'
	bench/measure\ late\ 500*) echo 5 ;;
	bench/measure\ late\ 990*) echo 13 ;;
	bench/uneven*\ 250) echo 300 ;;
	bench/uneven\ 990\ 70\ 8\ *) echo 1400 ;;
	bench/uneven*) echo 700 ;;
	peers/go-uneven*) echo 1000 ;;
	bench/measure\ contend\ usync\ 0*) echo 10 ;;
	bench/measure\ contend\ usync\ 200*) echo 95 ;;
	bench/measure\ contend*) echo 100 ;;
	bench/channel\ 0*) echo 3 ;;
	bench/simulate*) echo 673 ;;
	bench/measure\ after\ 10\ 4000\ *) echo 2 ;;
	END
	requests_say
	compare -n 1 even
	same 'status of even' 1 $status
	diff - "$rows" >&2 <<-'END' || fail 'the rows of even (>)'
	| timer beside four threads that compute 1 ms: ms late, median | <= 6 | 5 | 5 to 5 | reached |
	| timer beside four threads that compute 1 ms: ms late, 99 % | <= 12 | 13 | 13 to 13 | missed |
	| uneven, 8 connections, 99 %: rr, c_steal / Go | <= 0.8 | 1.4 | 1.4 to 1.4 | missed |
	| uneven, 8 connections, 99 %: and c_slice / Go | <= 0.35 | 0.3 | 0.3 to 0.3 | reached |
	| uneven, 60 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.7 | 0.7 to 0.7 | reached |
	| uneven, 60 connections, 99 %: and c_slice / Go | <= 0.35 | 0.3 | 0.3 to 0.3 | reached |
	| uneven, 1000 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.7 | 0.7 to 0.7 | reached |
	| uneven, 1000 connections, 99 %: and c_slice / Go | <= 0.35 | 0.3 | 0.3 to 0.3 | reached |
	| requests, 8 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.5 | 0.5 to 0.5 | reached |
	| requests, 8 connections, 99 %: and c_slice / Go | <= 0.35 | 0.5 | 0.5 to 0.5 | missed |
	| requests, 8 connections, 99 %: and / tokio | <= 0.8 | 1.5 | 1.5 to 1.5 | missed |
	| requests, 60 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.6 | 0.6 to 0.6 | reached |
	| requests, 60 connections, 99 %: and c_slice / Go | <= 0.35 | 0.6 | 0.6 to 0.6 | missed |
	| requests, 60 connections, 99 %: and / tokio | <= 0.8 | 1.8 | 1.8 to 1.8 | missed |
	| requests, 1000 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.6 | 0.6 to 0.6 | reached |
	| requests, 1000 connections, 99 %: and c_slice / Go | <= 0.35 | 0.6 | 0.6 to 0.6 | missed |
	| requests, 1000 connections, 99 %: and / tokio | <= 0.8 | 1.8 | 1.8 to 1.8 | missed |
	| requests, 10000 connections, 99 %: rr, c_steal / Go | <= 0.8 | 0.6 | 0.6 to 0.6 | reached |
	| requests, 10000 connections, 99 %: and c_slice / Go | <= 0.35 | 0.6 | 0.6 to 0.6 | missed |
	| requests, 10000 connections, 99 %: and / tokio | <= 0.8 | 1.8 | 1.8 to 1.8 | missed |
	| mutex, not held: locks of usync / pthread | >= 0.5 | 0.1 | 0.1 to 0.1 | missed |
	| mutex, held for 200 ns: locks of usync / pthread | >= 0.9 | 0.95 | 0.95 to 0.95 | reached |
	| channel of capacity 0: UL / Go | <= 1.5 | 3 | 3 to 3 | missed |
	| channel of capacity 1: UL / Go | <= 1.5 | 1 | 1 to 1 | reached |
	| simulated, 16 processors: us, 99 % | <= 700 | 673 | 673 to 673 | reached |
	| memory after 1,000,000 threads of 1 KiB / before | <= 1.3 | 1 | 1 to 1 | reached |
	| memory after 4,000 threads of 64 KiB / before | <= 1.3 | 2 | 2 to 2 | missed |
	| memory after one and then the other / before | <= 1.3 | 1 | 1 to 1 | reached |
	END
	has '^bench/uneven 990 70 1000 5 2 1$' "$BUILD/calls"
	has '^bench/channel 1 100000$' "$BUILD/calls"
	same 'calls of even' 23 "$(wc -l <"$BUILD/calls")"
}

wrong() {		# ARGUMENTS
	compare "$@"
	same "status of '$*'" 2 $status
	has '^usage: ' "$err"
	[ ! -s "$out" ] || fail "'$*': output"
	[ ! -e "$BUILD/calls" ] || fail "'$*': something was run"
}

# All parts are the default, servers the last.
test_default() {
	all_say
	compare -n 1
	same 'rows of all' 75 "$(wc -l <"$rows")"
	same 'the last row' '| 99th' "$(tail -n 1 "$rows" | cut -c 1-6)"
}

test_usage() {
	says </dev/null
	wrong -n 0
	wrong -n 05
	wrong -n 1x
	wrong -n -1
	wrong -n ''
	wrong -n
	wrong -o
	wrong -x
	wrong --help
	wrong none
	wrong create none
	wrong ''
	wrong '*'
	wrong 'create ring'
	wrong Cycle
	compare -n 1 -o /dev/null/kept create
	same 'status of a directory that cannot be' 2 $status
	[ ! -e "$BUILD/calls" ] || fail 'nothing can be kept, but something was run'
}

# Where programs are kept is not for the machine to say here.
mkdir "$dir/bin" "$dir/tmp"
executable "$dir/bin/taskset" <<'END'
[ "$1" = -c ] || exit 2
export PINNED="$2"
shift 2
exec "$@"
END
PATH=$dir/bin:$PATH TMPDIR=$dir/tmp
export PATH TMPDIR
unset CPU PROCS PINNED
need timeout
test_all
test_parts
test_median
test_limits
test_fastest
test_slow
test_failures
test_missing
test_status
test_servers
test_server_failures
test_default
test_even
test_usage
same 'temporary files' '' "$(ls "$TMPDIR")"
conclude 'tables, aims and failures, with programs that are made up'
