#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench/serve.sh, with made-up servers and clients: see fakes. Checks its calls for each
# workload, how servers and clients fail, and that no process and no file is left.
#
#   B      where examples/04-echo is: it takes a port
#   PORT   the first port for that one
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib
here=$PWD
PORT=${PORT:-$((25000 + $$ % 900))}
# shellcheck source=tests/server.lib
. tests/server.lib
runs=0
# shellcheck source=tests/fakes
. tests/fakes

begin() {
	fake
	fake_server peers/c-server
}

# Runs serve.sh; leaves $status, and what it printed, in $out and $err.
serve() {		# WORKLOAD ARGUMENT...
	load=$1
	shift
	runs=$((runs + 1))
	out=$FAKES/out err=$FAKES/err
	"$here/bench/serve.sh" "$load" "$BUILD/peers/c-server" "$@" >"$out" 2>"$err" </dev/null
	status=$?
}

nothing_left() {	# WHAT
	for file in "$FAKES/server" "$FAKES/client"; do
		[ ! -e "$file" ] || gone "$file"
	done
	same "temporary files of $1" '' "$(ls "$TMPDIR")"
}

# WORKLOAD ARGUMENTS|SAYS|what the client is called with behind what looks whether the
# server answers right
values() {
	cat <<-'END'
	http 64|1234.56|curl;wrk -t1 -c64 -d2s URL
	http 1|0.5|curl;wrk -t1 -c1 -d2s URL
	h2load 16|123456|curl;h2load --h1 -c16 -D 2 --warm-up-time=1 URL
	latency 64 80|4001|curl;h2load --h1 -c64 -D 2 --warm-up-time=1 --log-file=LOG --rps=62.5 URL
	latency 10 50|2500|curl;h2load --h1 -c10 -D 2 --warm-up-time=1 --log-file=LOG --rps=250 URL
	echo 1000|77|echo-load PORT 1000 2
	redis 50 GET 1|99.99|redis;redis-benchmark -h 127.0.0.1 -p PORT -n 200000 -c 50 -P 1 -t get -q --csv
	redis 7 SET 16|5|redis;redis-benchmark -h 127.0.0.1 -p PORT -n 2000000 -c 7 -P 16 -t set -q --csv
	requests 990 70 60|123.4|requests-load PORT 990 70 60 2 3
	idle 9000|1024.5|idle-load PORT 9000 PID /1k
	answer http|1|curl
	answer redis|1|redis-cli
	answer echo|1|echo-load PORT 1 1
	answer requests|1|requests-load PORT 500 10 1 1 1
	END
}

# The calls that FIRST;CALL of values() stands for.
calls() {		# CALLS CLIENTS
	echo "$1" | tr ';' '\n' | sed 's|URL|http://127.0.0.1:PORT/1k|' | while read -r call; do
		case $call in
		curl)	echo 'curl -sS -f -o GOT http://127.0.0.1:PORT/1k' ;;
		redis*[!kdi]*\ *) echo "$call" ;;
		redis | redis-cli)
			echo 'redis-cli -p PORT PING'
			echo 'redis-cli -p PORT SET usched 1k'
			echo 'redis-cli -p PORT GET usched'
			echo 'redis-cli -p PORT DEL usched'
			[ "$call" = redis-cli ] || echo 'redis-benchmark -h 127.0.0.1 -p PORT' \
				"-n 1000 -c $2 -P 1 -t ping,set,get,incr,lpush,lpop -q --csv"
			;;
		*)	echo "$call" ;;
		esac
	done
}

# Numbers, commands and processors; and the server ends.
test_values() {
	pinned=$("$here/bench/serve.sh" --about | sed -n 's/^pinned: //p')
	on_server=$(echo "$pinned" | sed -n 's/server on processor \([0-9]*\),.*/ on \1/p')
	on_client=$(echo "$pinned" | sed -n 's/.*, client on \([0-9]*\)$/ on \1/p')
	[ -z "$on_server" ] || [ "$on_server" != "$on_client" ] || fail 'one processor for both'
	export DURATION=2 PEAK=5000 PROCS=3
	values >"$dir/values"
	while IFS='|' read -r command value calls; do
		begin
		echo "echo $value" >"$FAKES/value"
		# shellcheck disable=SC2086 # the words of the command
		serve $command
		same "status of $command" 0 $status
		same "$command" "$value" "$(cat "$out")"
		same "complaints about $command" '' "$(cat "$err")"
		directory=' DIR' server_on=$on_server client_on=$on_client
		case $command in
		*requests*) server_on='' client_on='' ;;
		echo* | redis* | answer\ [er]*) directory='' ;;
		esac
		{
			echo "peers/c-server PORT$directory$server_on"
			calls "$calls" "$(echo "$command" | cut -d ' ' -f 2)" |
				sed "s/\$/$client_on/"
			echo 'peers/c-server ends'
		} >"$dir/want"
		diff "$dir/want" "$FAKES/calls" >&2 || fail "calls of $command"
		nothing_left "$command"
	done <"$dir/values"
	unset DURATION PEAK PROCS
}

# WORKLOAD|FILE|its text|the line printed|PATTERN of the complaint. `_' is no file.
failures() {
	cat <<-'END'
	http 1|serve|echo out of luck >&2; exit 3|fail:exit-3|the server has ended: out of luck$
	http 1|serve|exit 0|fail:exit-0|the server has ended
	http 1|serve|kill -SEGV $$|fail:killed-11|the server has ended
	http 1|serve|trap "kill \$!; echo ouch >&2; exit 5" TERM|fail:end|status 5 after SIGTERM: ouch$
	http 1|wrk|kill -9 $(cat "$FAKES/server"); ended; echo Requests/sec: 5|fail:killed-9|ended
	http 1|wrk|kill $(cat "$FAKES/server"); ended; echo Requests/sec: 5|fail:exit-0|ended
	http 1|wrk|echo Requests/sec: 5; exit 1|fail:client|wrk: status 1: Requests/sec: 5$
	http 1|wrk|kill -9 $$|fail:client|wrk: status 137
	http 1|wrk|echo Requests/sec: nan|fail:client|what is this: Requests/sec: nan$
	http 1|wrk|exit 0|fail:client|what is this: unknown$
	http 1|wrk|echo " Socket errors: read 1"; echo Requests/sec: 5|fail:errors|Socket errors: read 1$
	http 1|wrk|echo " Non-2xx or 3xx responses: 7"; echo Requests/sec: 5|fail:errors|responses: 7$
	http 1|curl|echo x >"$4"|fail:content|/1k: x$
	http 1|curl|echo 404 >&2; exit 22|fail:client|curl: status 22: 404$
	idle 1|idle-load|echo bytes_per_connection=5 connections=2|fail:client|what is this: bytes
	idle 1|idle-load|echo bytes_per_connection=-5 connections=1|fail:client|what is this: bytes
	idle 1|idle-load|echo idle-load: lost >&2; exit 1|fail:client|status 1: idle-load: lost$
	echo 1|echo-load|echo round_trips_per_s=5 p50_us=1 errors=1|fail:client|what is this: round
	echo 1|echo-load|echo round_trips_per_s= p50_us=1 errors=0|fail:client|what is this: round
	requests 9 9 9|requests-load|echo us=5 requests=|fail:client|what is this: us=5
	redis 1 GET 1|redis-cli|echo nonsense|fail:content|PING: nonsense$
	redis 1 GET 1|redis-benchmark|echo Error from server >&2; exit 1|fail:client|Error from server$
	redis 1 GET 1|redis-benchmark|echo '"PING_INLINE","5"'|fail:client|no PING_MBULK$
	h2load 1|h2load|echo 'requests: 9 total, 1 failed, 0 errored, 0 timeout'|fail:errors|1 failed
	h2load 1|h2load|echo 'finished in 1.00s, 5 req/s'|fail:errors|h2load: unknown$
	latency 1 50|value|echo 489|fail:rate|^489 requests per second instead of 500$
	latency 1 50|value|echo 490|490|
	END
}

# How servers and clients fail. A server's failure counts more than its client's. Clients
# say `ended' to wait until serve.sh can know that the server has.
test_failures() {
	export DURATION=1 PEAK=1000
	# shellcheck disable=SC2016 # for the client to expand
	ended='until [ -e "$TMPDIR"/*/status ]; do sleep 0.1; done'
	failures | sed "s|; ended;|; $ended;|" >"$dir/failures"
	while IFS='|' read -r command file text said pattern; do
		begin
		echo "$text" >"$FAKES/$file"
		# shellcheck disable=SC2086 # the words of the command
		serve $command
		case $said in
		fail:*) same "status where $file does '$text'" 1 $status ;;
		esac
		same "where $file does '$text'" "$said" "$(cat "$out")"
		grep -q -e "$pattern" "$err" || [ -z "$pattern" ] ||
			fail "where $file does '$text': no '$pattern' in '$(cat "$err")'"
		nothing_left "$text"
	done <"$dir/failures"
	begin
	PEAK='' serve latency 1 50
	same 'without a peak' fail:reference "$(cat "$out")"
	unset DURATION PEAK
}

# Tests that wait until the patience of serve.sh ends run beside the others.
beside() {		# TEST
	export TMPDIR="$dir/$1"
	mkdir "$TMPDIR"
	"$1"
	nothing_left "$1"
	exit $failed
}

# hangs WHAT EXPECTED FILE: a server or client that has its text on standard input. With
# more patience, if it was not enough for what does not hang.
hangs() {
	cat >"$dir/$3"
	for PATIENCE in 15 60 300; do
		begin
		cp "$dir/$3" "$FAKES/$3"
		serve http 1
		[ "$(cat "$out")" != "$2" ] || break
	done
	same "$1" "$2" "$(cat "$out")"
}

test_hanging_client() {
	hangs 'a client that hangs' fail:timeout curl <<-'END'
	trap "" TERM
	sleep 600
	END
}

test_never_ready() {
	begin
	echo 'sleep 600' >"$FAKES/serve"
	PATIENCE=2 serve http 1
	same 'a server that does not get ready' fail:ready "$(cat "$out")"
}

# A server that has to be killed takes its children along.
test_never_ends() {
	hangs 'a server with a child' fail:end serve <<-'END'
	trap '' TERM
	sleep 600 &
	echo $! >"$FAKES/child"
	END
	grep -q 'still there after SIGTERM' "$err" ||
		fail "a server with a child: $(cat "$err")"
	gone "$FAKES/child"
}

# The memory of a server is that of its child, if that runs the same program.
test_worker() {
	cat >"$dir/idle-load" <<-'END'
	echo "$3" >"$FAKES/measured"
	echo bytes_per_connection=5 connections=1
	END
	begin
	cp "$dir/idle-load" "$FAKES/idle-load"
	serve idle 1
	same 'the process of a server' "$(cat "$FAKES/server")" "$(cat "$FAKES/measured")"
	begin
	cp "$dir/idle-load" "$FAKES/idle-load"
	cat >"$FAKES/serve" <<-'END'
	sh -c 'echo $$ >"$FAKES/worker"; trap "exit 0" TERM; while :; do sleep 0.1; done' &
	worker=$!
	trap 'kill $! $worker; exit 0' TERM
	until [ -s "$FAKES/worker" ]; do
		sleep 0.02
	done
	END
	serve idle 1
	same 'the process of a worker' "$(cat "$FAKES/worker")" "$(cat "$FAKES/measured")"
	gone "$FAKES/worker"
}

wait_for() {		# FILE
	i=0
	until [ -s "$1" ]; do
		[ $((i += 1)) -le 6000 ] || { fail "${1##*/} did not appear"; return; }
		sleep 0.1
	done
}

# A signal while the client runs, or before the server is ready: only to serve.sh.
test_signals() {
	env --default-signal true 2>/dev/null || {
		note 'no signals tried, env cannot reset them'
		return
	}
	for signal in HUP INT TERM; do
		for file in wrk serve; do
			begin
			echo "trap '' TERM; echo x >'$FAKES/there'; sleep 600" >"$FAKES/$file"
			env --default-signal "$here/bench/serve.sh" http \
				"$BUILD/peers/c-server" 1 >"$FAKES/out" 2>/dev/null </dev/null &
			pid=$!
			wait_for "$FAKES/there"
			kill -s $signal $pid
			sleep 0.2			# bench.sh sends it twice
			kill -s $signal $pid 2>/dev/null
			wait $pid
			same "status of $signal" "$(kill -l $? 2>/dev/null)" $signal
			same "what it says to $signal" '' "$(cat "$FAKES/out")"
			nothing_left $signal
		done
	done
}

# Another program gets the port before the server does; or all ports.
test_lost_ports() {
	begin
	echo 'echo "bind: Address already in use" >&2; exit 1' >"$FAKES/serve"
	PORTS=21990-21999 serve http 1
	same 'ports that are all lost' fail:port "$(cat "$out")"
	begin
	cat >"$FAKES/serve" <<-'END'
	[ -e "$FAKES/lost" ] || { : >"$FAKES/lost"; echo address already in use >&2; exit 1; }
	END
	serve http 1
	same 'after a port that is lost' 1000 "$(cat "$out")"
	same 'servers begun' 2 "$(grep -c '^peers/c-server PORT' "$FAKES/calls")"
	nothing_left 'a port that is lost'
}

# A port of another program is left alone. Without taskset commands run anywhere.
test_surroundings() {
	begin
	executable "$FAKES/bin/taskset" <<-'END'
	exit 1
	END
	serve http 1
	same 'without processors' 1000 "$(cat "$out")"
	same 'calls without processors' 'peers/c-server PORT DIR' "$(head -n 1 "$FAKES/calls")"
	"$here/bench/serve.sh" --about >"$FAKES/about"
	grep -q '^pinned: no: ' "$FAKES/about" || fail 'about: processors where there are none'
	for client in wrk h2load redis-benchmark; do
		grep -qx "client: $client 1.2.*" "$FAKES/about" ||
			fail "about: no $client in '$(cat "$FAKES/about")'"
	done
	for wrong in '' http 'http x'; do
		# shellcheck disable=SC2086 # words
		"$here/bench/serve.sh" $wrong >"$FAKES/out" 2>"$FAKES/err"
		same "status of '$wrong'" 2 $?
		grep -q '^usage: ' "$FAKES/err" || fail "'$wrong': no usage"
	done
	[ -x "$B/examples/04-echo" ] || {
		note "no port in use tried, no $B/examples/04-echo"
		return
	}
	start "$B/examples/04-echo" 1 || fail 'the other program gets no port'
	begin
	PORTS=$port-$port serve http 1
	same 'a port in use' fail:port "$(cat "$out")"
	[ ! -e "$FAKES/calls" ] || fail 'it was run with a port in use'
	stop "$server"
}

need timeout setsid pgrep
unset DURATION PEAK PINNED PATIENCE
TMPDIR=$dir/tmp
export TMPDIR
mkdir "$TMPDIR"
export PATIENCE=300
beside test_hanging_client &
beside_it=$!
beside test_never_ends &
beside_it="$beside_it $!"
beside test_never_ready &
beside_it="$beside_it $!"
test_values
test_failures
test_worker
test_signals
test_lost_ports
test_surroundings
for test in $beside_it; do
	wait "$test" || failed=1
done
conclude "$runs runs"
