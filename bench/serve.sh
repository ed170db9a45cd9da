#!/bin/sh
# SPDX-License-Identifier: MIT
#
# serve.sh: measures a server. Starts it on one processor and a client on another, ends
# the server, and prints a number; or `fail:reason', with a line on standard error and
# status 1. It leaves nothing running.
#
# usage: bench/serve.sh WORKLOAD PROGRAM ARGUMENT...
#        bench/serve.sh --about
#        bench/serve.sh --table RUNS [NAME]...
#
#   http CONNECTIONS     GET of a file of 1024 bytes, requests per second: by wrk
#   echo CONNECTIONS     round trips of 64 bytes per second, by $BUILD/bench/load
#   redis CLIENTS COMMAND PIPELINE   GET or SET, PIPELINE requests sent at a time:
#                        requests per second, by redis-benchmark
#   idle CONNECTIONS     bytes of memory for each, by $BUILD/bench/load
#   answer KIND          KIND is http, echo or redis: 1, if the answers are right
#   --about              processors and versions of clients, a line each
#   --table              rows of doc/servers.md, natively and by usched-run in turns:
#                        tests/servers/servers.py
#
#   BUILD     the directory of bench/load (build)
#   DURATION  the seconds to measure (5)
#   PORTS     FIRST-LAST: the range of free ports (21000-21999)
#   PATIENCE  the seconds for a server to begin, to answer and to end, and for a client to
#             end after DURATION (20)
#
# A server is run as PROGRAM PORT [DIR], and prints `ready' when it listens on
# 127.0.0.1:PORT; DIR, for HTTP, has the file 1k. It ends, with status 0, upon SIGTERM.
# 04-echo is told that it has one processor, which then runs in main(): else it has a
# native thread more.
#
# Reasons: ready (not ready in time), exit-STATUS and killed-SIGNAL (of a server), end
# (not ended by SIGTERM), content (a wrong answer), errors (of the client), client (it
# failed), timeout (it hung).
#
# wrk, load and redis-benchmark are closed loops: a connection sends the next request after
# its answer, so they measure a rate and no latency.
set -fu
LC_ALL=C
no_proxy='*'		# clients talk to our server only
export LC_ALL no_proxy
BUILD=${BUILD:-build}
DURATION=${DURATION:-5}
PORTS=${PORTS:-21000-21999}
PATIENCE=${PATIENCE:-20}
tmp='' server='' client='' on_server='' on_client='' starting='' stopped='' looked=0

say() {			# the first line of standard input, or `unknown'
	sed -n 1p | cut -c 1-200 | grep . || echo unknown
}

fail() {		# REASON MESSAGE
	echo "fail:$1"
	echo "$2" >&2
	exit 1
}

# Sets the commands that pin a program to one of the first two allowed processors.
pin() {
	# shellcheck disable=SC2046 # a word for each
	set -- $(sed -n 's/^Cpus_allowed_list://p' /proc/self/status 2>/dev/null | tr ',' '\n' |
		awk -F - '{ for (i = $1 + 0; i <= $NF; i++) print i }')
	if [ $# -lt 2 ]; then
		pinned='no: there is one processor'
	elif ! taskset -c "$1" taskset -c "$2" true 2>/dev/null; then
		pinned='no: taskset does not do it'
	else
		on_server="taskset -c $1" on_client="taskset -c $2"
		pinned="server on processor $1, client on $2"
	fi
}

about() {
	echo "pinned: $pinned"
	{
		wrk -v 2>&1 | sed -n '1s/ *Copyright.*//p'
		redis-benchmark --version
	} 2>/dev/null | sed 's/^/client: /'
}

# Server and client each have a session, and with it a process group. The server's group
# has a second to end and to clean up; then it is killed.
clean() {
	trap '' HUP INT TERM			# once is enough
	[ -z "$client" ] || kill -s KILL -- "-$client"
	if [ -n "$server" ]; then
		kill "$server"
		tried=0
		while kill -s 0 -- "-$server" && [ $((tried += 1)) -le 10 ]; do
			sleep 0.1
		done
		kill -s KILL -- "-$server"
	fi
	wait
	[ -z "$tmp" ] || rm -rf "$tmp"
} 2>/dev/null

# At a signal. A server that is being started has no process number yet.
stop() {		# STATUS
	stopped=$1
	[ -n "$starting" ] || exit "$stopped"
}

# The file is readable for all: a server may have dropped its privileges.
prepare() {
	tmp=$(mktemp -d) && chmod 755 "$tmp" && mkdir "$tmp/files" || exit 1
	printf '%1019shello' '' >"$tmp/files/1k" || exit 1
	# shellcheck disable=SC3045 # the shells of Linux have it
	ulimit -S -n "$(ulimit -H -n)"
}

# Sets `port' to the next free one. Each process begins elsewhere, as others may search.
find_port() {
	first=${PORTS%-*} last=${PORTS#*-}
	count=$((last - first + 1))
	while [ $((looked += 1)) -le $count ]; do
		port=$((first + ($$ + looked) % count)) url=http://127.0.0.1:$port/1k
		grep -qs "^ *[0-9]*: [0-9A-F]*:$(printf %04X $port) " \
			/proc/net/tcp /proc/net/tcp6 || return 0
	done
	fail port "no port of $PORTS is free"
}

# Runs the server as a child of this function's process, which gets its status, and must
# not end before it.
run_server() {
	trap : HUP INT TERM
	second=
	case $workload in
	redis | 'answer redis') ;;
	echo | 'answer echo') [ "${program##*/}" != 04-echo ] || second=1 ;;
	*) second=$tmp/files ;;
	esac
	# shellcheck disable=SC2086 # the words of a command
	setsid $on_server "$program" "$port" ${second:+"$second"} \
		</dev/null >"$tmp/out" 2>"$tmp/err" &
	echo $! >"$tmp/pid"
	while wait $!; status=$?; kill -0 $!; do
		:	# a signal has ended the wait, not the server
	done
	echo $status >"$tmp/status.new"
	mv "$tmp/status.new" "$tmp/status"
}

start_server() {
	find_port
	rm -f "$tmp/pid" "$tmp/status"
	: >"$tmp/out"
	starting=yes server=
	run_server 2>/dev/null &
	until [ -s "$tmp/pid" ]; do
		sleep 0.01
	done
	server=$(cat "$tmp/pid") starting='' tried=0
	[ -z "$stopped" ] || exit "$stopped"
	until grep -qx ready "$tmp/out"; do
		! lost_port || { start_server; return; }
		check_server
		[ $((tried += 1)) -le $((PATIENCE * 50)) ] ||
			fail ready 'the server is not ready'
		sleep 0.02
	done
}

# Has another process taken the port since it was found?
lost_port() {
	[ -e "$tmp/status" ] && grep -qi 'address already in use' "$tmp/err"
}

# The server must not have ended.
check_server() {
	[ -e "$tmp/status" ] || return 0
	status=$(cat "$tmp/status")
	if [ "$status" -gt 128 ]; then
		fail "killed-$((status - 128))" "the server has ended: $(say <"$tmp/err")"
	fi
	fail "exit-$status" "the server has ended: $(say <"$tmp/err")"
}

end_server() {
	check_server
	kill "$server"
	tried=0
	until [ -e "$tmp/status" ]; do
		[ $((tried += 1)) -le $((PATIENCE * 50)) ] ||
			fail end 'the server is still there after SIGTERM'
		sleep 0.02
	done
	status=$(cat "$tmp/status")
	[ "$status" = 0 ] || fail end "status $status after SIGTERM: $(say <"$tmp/err")"
}

# Runs a client; its output goes to $tmp/said.
run_client() {		# SECONDS-AT-MOST COMMAND...
	most=$1
	shift
	# shellcheck disable=SC2086 # the words of a command
	setsid timeout -v -k 1 "$most" $on_client "$@" \
		</dev/null >"$tmp/said" 2>"$tmp/client" &
	client=$!
	wait $client 2>/dev/null
	status=$?
	client=
	check_server
	[ $status -ne 0 ] || return 0
	! grep -aq '^timeout: .*TERM' "$tmp/client" || fail timeout "$1 took $most seconds"
	fail client "$1: status $status: $(cat "$tmp/client" "$tmp/said" | say)"
}

# Sets `value' to what sed finds in the output of the client.
take() {		# SED-EXPRESSION
	value=$(sed -nE "$1" "$tmp/said")
	[ -n "$value" ] || fail client "what is this: $(say <"$tmp/said")"
}

check_http() {
	run_client "$PATIENCE" curl -sS -f -o "$tmp/got" "$url"
	cmp -s "$tmp/got" "$tmp/files/1k" || fail content "/1k: $(say <"$tmp/got")"
}

check_echo() {
	run_client "$PATIENCE" "$BUILD/bench/load" run -k 1 "$port"
}

check_redis() {
	for asked in 'PING PONG' 'SET usched 1k OK' 'GET usched 1k' 'DEL usched 1'; do
		# shellcheck disable=SC2086 # the words of a command
		run_client "$PATIENCE" redis-cli -p "$port" ${asked% *}
		[ "$(cat "$tmp/said")" = "${asked##* }" ] ||
			fail content "${asked% *}: $(say <"$tmp/said")"
	done
}

measure_answer() {	# KIND
	"check_$1"
	value=1
}

measure_http() {	# CONNECTIONS
	check_http
	run_client $((DURATION + PATIENCE)) wrk -t1 -c"$1" -d"${DURATION}s" "$url"
	if grep -e 'Socket errors' -e 'Non-2xx' "$tmp/said" >"$tmp/errors"; then
		fail errors "wrk: $(say <"$tmp/errors")"
	fi
	take 's/^Requests\/sec: *([0-9.]+)$/\1/p'
}

measure_echo() {	# CONNECTIONS
	run_client $((DURATION + PATIENCE)) "$BUILD/bench/load" run -n "$1" -m 64 \
		-s "$DURATION" "$port"
	take 's/.* rate ([0-9.]+) .* errors 0$/\1/p'
}

# Commands that are not measured must work, too. The number of requests is what a good
# server answers in the time. Those of GET find a value.
measure_redis() {	# CLIENTS COMMAND PIPELINE
	check_redis
	redis_benchmark 1000 "$1" 1 ping,set,get,incr,lpush,lpop
	for command in PING_INLINE PING_MBULK SET GET INCR LPUSH LPOP; do
		grep -q "^\"$command\"," "$tmp/said" || fail client "redis-benchmark: no $command"
	done
	requests=$((DURATION * ($3 > 1 ? 1000000 : 100000)))
	redis_benchmark $requests "$1" "$3" "$(echo "$2" | tr '[:upper:]' '[:lower:]')"
	take "s/^\"$2\",\"([0-9.]+)\".*/\1/p"
}

redis_benchmark() {	# REQUESTS CLIENTS PIPELINE COMMANDS
	run_client $((DURATION * 10 + PATIENCE)) redis-benchmark -h 127.0.0.1 -p "$port" \
		-n "$1" -c "$2" -P "$3" -t "$4" -q --csv
}

# The serving process may be a child of the started one, as in nginx. Other children may
# be those of a shell.
measure_idle() {	# CONNECTIONS
	serving=$server
	for each in $(pgrep -P "$server"); do
		[ "$(readlink "/proc/$each/exe")" != "$(readlink "/proc/$server/exe")" ] ||
			serving=$each
	done
	check_http		# what the first request takes does not count
	run_client 120 "$BUILD/bench/load" run -p http -u /1k -n "$1" -i 0.5 -s 0.1 \
		-w "$serving" "$port"
	take "s/^connections $1 .* user ([0-9.]+) .* errors 0\$/\1/p"
	value=$(echo "$value" | awk '{ printf "%.0f\n", $1 * 1024 }')
}

pin
if [ "$*" = --about ]; then
	about
	exit 0
fi
if [ "${1-}" = --table ]; then
	shift
	exec env "B=$BUILD" python3 "${0%/*}/../tests/servers/servers.py" --measure "$@"
fi
[ $# -ge 3 ] || {
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
}
trap clean EXIT
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM
workload=$1 program=$2
shift 2
[ "$workload" != answer ] || workload="answer $1"
prepare
start_server
"measure_${workload% *}" "$@"
end_server
echo "$value"
