#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh with the workloads of servers. Servers and clients are made up: see fakes. The
# calls of each row, and their order, are spelled out here once more.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib
here=$PWD
runs=0
servers='http h2load latency echo redis idle'
# shellcheck source=tests/fakes
. tests/fakes

# Without arguments: these are PORT and, but for echo and redis, DIR.
expected() {
	for load in http h2load; do
		sed "s/^/$load /" <<-'END'
		U examples/05-httpd
		EPOLL peers/c-epoll-http
		ST peers/st-http
		UV peers/uv-http
		GO peers/go-http
		NGINX peers/nginx-http
		END
	done
	cat <<-'END'
	latency U examples/05-httpd
	latency EPOLL peers/c-epoll-http
	latency GO peers/go-http
	latency NGINX peers/nginx-http
	echo U examples/04-echo
	echo EPOLL peers/c-epoll-echo
	echo ST peers/st-echo
	echo UV peers/uv-echo
	echo GO peers/go-echo
	echo TOKIO peers/tokio-echo
	redis U examples/06-kv
	redis REDIS peers/redis-redis
	idle U examples/05-httpd
	idle EPOLL peers/c-epoll-http
	idle ST peers/st-http
	idle GO peers/go-http
	idle NGINX peers/nginx-http
	END
}

columns_of() {		# WORKLOAD
	expected | sed -n "s/^$1 \([^ ]*\) .*/\1/p" | paste -s -d ,
}

# Runs bench.sh; leaves $status, $out, $err and $results.
bench() {		# ARGUMENTS
	runs=$((runs + 1))
	out=$dir/out.$runs err=$dir/err.$runs results=$dir/results.$runs
	"$here/bench.sh" -o "$results" --limit 300 "$@" >"$out" 2>"$err" </dev/null
	status=$?
}

line() {		# NUMBER: of standard output, without spaces
	sed -n "${1}p" "$out" | tr -d ' '
}

test_columns() {
	for load in $servers; do
		echo "$load: $(columns_of "$load" | tr , ' ')"
	done >"$dir/want"
	"$here/bench.sh" --columns | grep -E "^($(echo "$servers" | tr ' ' '|')):" | diff "$dir/want" - >&2 || fail --columns
}

# Servers of these workloads, with their clients.
fakes_of() {		# WORKLOAD...
	fake
	for load; do
		for name in $(expected | sed -n "s/^$load [^ ]* //p"); do
			fake_server "$name"
		done
	done
}

# What was called but to look whether a server answers right, and on which processors.
calls() {
	sed 's/ on [0-9]*$//' "$FAKES/calls" |
		grep -v -e ' ends$' -e ^curl -e ^redis-cli -e ' -t ping'
}

# All columns of the servers, at the sizes of --quick.
test_servers() {
	fakes_of http h2load latency echo redis idle
	# shellcheck disable=SC2016 # for a client to expand
	echo 'case $name in h2load) echo 4000 ;; *) echo 2500.5 ;; esac' >"$FAKES/value"
	bench --workload "$(echo "$servers" | tr ' ' ,)" --quick
	same 'status of servers' 0 $status
	same 'standard error of servers' "bench.sh: results in $results" \
		"$(grep -v ': servers and clients run wherever' "$err")"
	has '^pinned: ' "$results/machine.txt"
	has '^client: wrk ' "$results/machine.txt"
	has '^reference of latency, run 1: h2load EPOLL connections=64: 4000$' "$results/machine.txt"
	for load in $servers; do
		points_of "$load" yes | while read -r point; do
			# shellcheck disable=SC2046,SC2086 # words
			server_calls "$load" 1 $point
		done
	done >"$dir/want"
	calls >"$dir/found"
	diff "$dir/want" "$dir/found" >&2 || fail 'calls of servers'
	for load in $servers; do
		columns=$(columns_of "$load")
		echo "$load,$(parameters_of "$load"),$columns"
		cell=2500.5
		case $load in h2load | latency) cell=4000 ;; esac
		points_of "$load" yes | while read -r point; do
			echo "$load,$point,$(echo "$columns" | sed "s/[^,]*/$cell/g")" |
				tr ' ' ,
		done
	done >"$dir/want"
	tr -d ' ' <"$out" | diff "$dir/want" - >&2 || fail 'results of servers'
}

parameters_of() {	# WORKLOAD
	case $1 in
	latency) echo connections,percent ;;
	redis)	echo clients,command,pipeline ;;
	*)	echo connections ;;
	esac
}

points_of() {	# WORKLOAD QUICK
	case $1.$2 in
	http.yes | echo.yes) printf '%s\n' 1 64 1000 ;;
	http.no | echo.no) printf '%s\n' 1 16 64 256 1000 ;;
	h2load.yes) echo 64 ;;
	h2load.no) printf '%s\n' 16 64 256 ;;
	latency.*) echo 64 80 ;;
	redis.*) printf '%s\n' '50 GET 1' '50 SET 1' '50 GET 16' '50 SET 16' ;;
	idle.yes) echo 1000 ;;
	idle.no) printf '%s\n' 1000 9000 ;;
	esac
}

# What a row calls, of all columns or of these.
server_calls() {	# WORKLOAD SECONDS ARGUMENT...
	url=http://127.0.0.1:PORT/1k arguments='PORT DIR'
	h2load="h2load --h1 -c$3 -D $2 --warm-up-time=1"
	case $1 in
	http)	client="wrk -t1 -c$3 -d${2}s $url" ;;
	h2load)	client="$h2load $url" ;;
	latency)
		echo "peers/c-epoll-http $arguments"
		echo "$h2load $url"
		client="$h2load --log-file=LOG --rps=50 $url"
		;;
	echo)	client="echo-load PORT $3 $2" arguments=PORT ;;
	idle)	client="idle-load PORT $3 PID /1k" ;;
	redis)
		requests=$2$([ "$5" = 1 ] || echo 0)00000
		command=$([ "$4" = GET ] && echo get || echo set)
		client="redis-benchmark -h 127.0.0.1 -p PORT -n $requests -c $3 -P $5"
		client="$client -t $command -q --csv" arguments=PORT
		;;
	esac
	expected | sed -n "s/^$1 ${only-.*} //p" | while read -r program; do
		echo "$program $arguments"
		echo "$client"
	done
}

# Ours, at all sizes; run by run.
test_server_runs() {
	fakes_of http h2load echo redis idle
	fake_server peers/c-epoll-http
	# shellcheck disable=SC2016 # for a client to expand
	echo 'case $name in h2load) echo 4000 ;; *) echo 2500.5 ;; esac' >"$FAKES/value"
	bench --workload "$(echo "$servers" | tr ' ' ,)" --only U -n 1
	same 'status of our servers' 0 $status
	only=U
	for load in $servers; do
		points_of "$load" no | while read -r point; do
			# shellcheck disable=SC2046,SC2086 # words
			server_calls "$load" 5 $point
		done
	done >"$dir/want"
	unset only
	calls >"$dir/found"
	diff "$dir/want" "$dir/found" >&2 || fail 'calls of our servers'
	rm "$FAKES/calls"
	bench --workload latency --only U,EPOLL --quick -n 2
	{
		only='\(U\|EPOLL\)'
		server_calls latency 1 64 80
		server_calls latency 1 64 80
		unset only
	} >"$dir/want"
	calls >"$dir/found"
	diff "$dir/want" "$dir/found" >&2 || fail 'calls of two runs'
	same 'references of two runs' 2 "$(grep -c '^reference' "$results/machine.txt")"
	bench --workload redis --only U
	same 'runs of redis' 20 "$(grep -c 2500.5 "$out")"
}

# A server that dies, clients that say what is no number.
test_server_failures() {
	fakes_of http
	cat >"$FAKES/serve" <<-'END'
	case $name in
	*05-httpd) echo out of luck >&2; exit 3 ;;
	esac
	END
	cat >"$FAKES/value" <<-'END'
	case $server in
	peers/st*) echo nan ;;
	*nginx*) echo 0.00 ;;
	*) echo 2500.5 ;;
	esac
	END
	rm "$BUILD/peers/uv-http"
	bench --workload http -n 1 --quick
	same 'cells of servers that fail' \
		http,1,fail:exit-3,2500.5,fail:client,2500.5,fail:output "$(line 2)"
	has '^http: U connections=1: fail:exit-3: the server has ended: out of luck$' \
		"$results/failures.txt"
	has '^bench.sh: http: ST connections=1: fail:client: ' "$err"
	same 'a server that is absent' 'skipped of http: UV' \
		"$(grep '^skipped of' "$results/machine.txt")"
	gone "$FAKES/server"
}

# A server that does not end, once: it takes the time that is patience. With more of it, if
# it was not enough for clients that do not hang. Beside the other tests.
test_server_deaf() {
	TMPDIR=$dir/tmp.deaf runs=1000
	mkdir "$TMPDIR"
	for PATIENCE in 15 60 200; do
		fakes_of http
		cat >"$FAKES/serve" <<-'END'
		[ -e "$FAKES/deaf" ] || trap '' TERM
		: >"$FAKES/deaf"
		END
		bench --workload http -n 1 --quick --only GO
		case $(line 2),$(line 3) in
		http,1,fail:end,http,64,1000) break ;;
		esac
	done
	same 'a server that does not end' http,1,fail:end "$(line 2)"
	same 'the next one' http,64,1000 "$(line 3)"
	has '^http: GO connections=1: fail:end: ' "$results/failures.txt"
	gone "$FAKES/server"
	same 'temporary files of one that does not end' '' "$(ls "$TMPDIR")"
	exit $failed
}

# A rate that is not reached, and none that latency could refer to; what only looks like a
# reason.
test_server_rates() {
	fakes_of latency redis
	# shellcheck disable=SC2016 # for a client to expand
	echo 'case $server in *go*) echo 100 ;; *) echo 200 ;; esac' >"$FAKES/value"
	bench --workload latency --quick
	same 'a rate that is not reached' latency,64,80,200,200,fail:rate,200 "$(line 2)"
	rm "$BUILD/peers/c-epoll-http"
	bench --workload latency --quick
	same 'nothing to refer to' "latency,64,80$(printf ',fail:reference%.0s' 1 2 3)" \
		"$(line 2)"
	has '^bench.sh: h2load: EPOLL connections=64: fail:missing: .*c-epoll-http$' "$err"
	executable "$BUILD/examples/06-kv" <<-'END'
	echo fail:made-up
	sleep 600
	END
	bench --workload redis --quick --limit 2 --only U
	same 'a server that is never ready' redis,50,GET,1,fail:timeout "$(line 2)"
	has 'redis: U clients=50 command=GET pipeline=1: fail:timeout' "$err"
	executable "$BUILD/rmain" <<-'END'
	echo fail:made-up
	exit 1
	END
	bench --workload blocks --quick --only U1T
	same 'a program that is no server' blocks,2,1000,100,fail:exit-1 "$(line 2)"
}

# Without a client, or with one processor.
test_server_lacks() {
	fakes_of http redis
	rm "$FAKES/bin/wrk" "$FAKES/bin/redis-cli"
	executable "$FAKES/bin/taskset" <<-'END'
	exit 1
	END
	PATH=$FAKES/bin:$(minimal_path)
	bench --workload redis,http,h2load --quick --only U
	PATH=$old_path
	same 'status without clients' 0 $status
	has '^bench.sh: http: skipped, there is no wrk$' "$err"
	has '^bench.sh: redis: skipped, there is no redis-cli$' "$err"
	has '^skipped: http: skipped, there is no wrk$' "$results/machine.txt"
	has '^bench.sh: servers and clients run wherever they like: ' "$err"
	has '^pinned: no: ' "$results/machine.txt"
	same 'results without clients' 'h2load.csv machine.txt' "$(cd "$results" && echo *)"
	same 'a result without clients' h2load,64,1000 "$(line 2)"
}

# A directory with the commands that are needed, but for clients.
minimal_path() {
	mkdir -p "$dir/minimal"
	for name in sh awk basename cat chmod cksum cmp cp cut date dirname env getconf git \
		grep head id ln mkdir mktemp mv nproc printf ps rm sed seq setsid sleep sort \
		tail timeout tr uname wc lscpu uptime; do
		command=$(command -v $name) || continue
		case $command in
		/*) ln -sf "$command" "$dir/minimal" ;;
		esac
	done
	echo "$dir/minimal"
}

# An interruption while a client runs: neither it nor its server is left.
test_server_interrupt() {
	env --default-signal true 2>/dev/null || return 0
	fakes_of http
	# shellcheck disable=SC2016 # for a client to expand
	echo '[ $server != peers/st-http ] || sleep 600; echo Requests/sec: 5' >"$FAKES/wrk"
	rm -f "$FAKES/client"
	runs=$((runs + 1))
	out=$dir/out.$runs results=$dir/results.$runs
	env --default-signal "$here/bench.sh" --quick --limit 300 --workload http \
		-o "$results" >"$out" 2>/dev/null </dev/null &
	bench=$!
	i=0
	until [ "$(grep -c ^wrk "$FAKES/calls" 2>/dev/null)" = 3 ]; do
		[ $((i += 1)) -le 6000 ] || break
		sleep 0.1
	done
	kill -s INT $bench
	wait $bench 2>/dev/null
	same 'status of SIGINT' 130 $?
	gone "$FAKES/server"
	gone "$FAKES/client"
	same 'the row of the signal' "http,1,5,5$(printf ',fail:interrupted%.0s' 1 2 3 4)" \
		"$(line 2)"
	[ ! -e "$results/failures.txt" ] || fail 'workloads: an interruption is no failure'
}

need timeout setsid pgrep
unset PROCS BLOCKS USCHED_STACKS PEAK DURATION PINNED PATIENCE
TMPDIR=$dir/tmp PATIENCE=200
export TMPDIR PATIENCE
mkdir "$TMPDIR"
test_server_deaf &
deaf=$!
test_columns
test_servers
test_server_runs
test_server_failures
test_server_rates
test_server_lacks
test_server_interrupt
wait "$deaf" || failed=1
same 'temporary files' '' "$(ls "$TMPDIR")"
conclude "$runs runs"
