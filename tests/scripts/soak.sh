#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The four servers of examples/ under everything at once: wrk, redis-benchmark, curl,
# socat, and clients that dribble, reset, and never read, directly and through the proxy.
# No client may see an error. Memory must not grow after a warm-up. In the end each server
# must have as many descriptors as in the beginning, and end with status 0.
#
#   B              the build directory: the servers are B/examples/NN-name
#   SOAK_SECONDS   how long after each client has been called once; default 8; 3600 is
#                  what is meant
#   PORT           servers get the first free ports after this one
#
# Memory is what is resident, each second. The first third is the warm-up. In the last
# third the mean may be a MiB and an eighth higher than the most in the second: a leak goes
# on, and gets beyond that bound if this runs for long enough. A slow machine may warm up
# later, so all of it goes on, some times, for as long again if memory has grown.
# shellcheck disable=SC2016	# what is in single quotes is Redis protocol
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
seconds=${SOAK_SECONDS:-8}

need wrk redis-benchmark redis-cli curl socat timeout
for server in 04-echo 05-httpd 06-kv 07-proxy; do
	[ -x "$B/examples/$server" ] || skip "there is no $B/examples/$server"
done

PORT=${PORT:-$((23000 + $$ % 900))}
# shellcheck source=tests/scripts/server.lib
. tests/scripts/server.lib
clients=
loads=
sampler=
: >"$dir/failures"

fail() {
	note "FAIL: $*" >>"$dir/failures"
}

at_exit() {
	kill_servers
	# shellcheck disable=SC2086
	[ -z "$clients$sampler" ] || kill $clients $sampler 2>/dev/null
}

# launch NAME PROGRAM [ARGUMENT...]: sets server_NAME and port_NAME.
launch() {
	launched=$1
	shift
	start "$@" || die "$launched does not get ready"
	names="$names $launched"
	eval "server_$launched=$server port_$launched=$port"
	eval "opened_$launched=$(descriptors "$server")"
}

value_of() {		# PREFIX NAME
	eval "echo \$$1_$2"
}

# Clients. Each is called again and again. If one fails, its output is shown.

uses_wrk() {		# PORT
	limited wrk -t1 -c16 -d2s --timeout 600s "http://127.0.0.1:$1/1000" || return 1
}

# wrk ends with 0 whatever happens.
said_errors() {
	grep -iE 'error|non-2xx|unable|could not|timeout' "$1"
}

uses_redis_benchmark() {	# PORT
	limited redis-benchmark -p "$1" -t ping,set,get,incr,lpush,lpop -c 16 \
		-n 2000 -q &&
		limited redis-benchmark -p "$1" -t set,get -P 16 -c 16 -n 20000 -q
}

uses_curl() {		# PORT
	limited curl -s -S "http://127.0.0.1:$1/1000000" >"$out" &&
		cmp "$dir/1000000" "$out"
}

uses_socat() {		# PORT
	limited socat -t 600 - "TCP:127.0.0.1:$1" <"$dir/1000000" >"$out" &&
		cmp "$dir/1000000" "$out"
}

dribbles_http() {	# PORT
	printf 'GET /1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' |
		dribble 0.01 4 |
		limited socat -t 600 - "TCP:127.0.0.1:$1" >"$out"
	tail -c 1000 "$out" | cmp - "$dir/1000"
}

dribbles_redis() {	# PORT
	printf '*1\r\n$4\r\nPING\r\n' | dribble 0.01 4 |
		limited socat -t 600 - "TCP:127.0.0.1:$1" >"$out"
	printf '+PONG\r\n' | cmp - "$out"
}

dribbles_echo() {	# PORT
	printf 'byte by byte' | dribble 0.01 4 |
		limited socat -t 600 - "TCP:127.0.0.1:$1" >"$out"
	printf 'byte by byte' | cmp - "$out"
}

# These cannot fail: they disturb the others.
resets() {		# PORT
	printf 'GET /1000000 HTTP/1.1\r\nHost: x\r\n\r\n' |
		limited socat -u - "TCP:127.0.0.1:$1,linger=0,shut-close" 2>/dev/null
	sleep 0.05
}

never_reads() {		# PORT
	yes 'GET /1000000 HTTP/1.1' |
		timeout 3 socat -u - "TCP:127.0.0.1:$1,linger=0,shut-close" 2>/dev/null
	sleep 0.5
}

# again NAME COMMAND...: until the time is over, or three errors.
again() {
	out=$dir/out.$1
	log=$dir/log.$1
	name=$1
	shift
	errors=0 rounds=0
	while [ ! -e "$dir/end" ] && [ $errors -lt 3 ]; do
		rounds=$((rounds + 1))
		"$@" >"$log" 2>&1
		status=$?
		if [ $status -ne 0 ] || said_errors "$log" >/dev/null; then
			errors=$((errors + 1))
			fail "$name, round $rounds: status $status, $(tail -n 3 "$log")"
		fi
		echo $rounds >"$dir/rounds.$name"
	done
}

all_called() {
	for name in $loads; do
		[ -s "$dir/rounds.$name" ] || return 1
	done
}

load() {		# NAME COMMAND...
	again "$@" &
	clients="$clients $!"
	loads="$loads $1"
}

sample() {
	while :; do
		for name in $names; do
			sampled=$(value_of server "$name")
			awk '/^VmRSS:/ { print $2 }' "/proc/$sampled/status" \
				>>"$dir/memory.$name" 2>/dev/null
		done
		sleep 1
	done
}

# check_memory NAME: has it not grown? In KiB; what it says is in $dir/grown.NAME.
check_memory() {
	awk -v name="$1" '
		{ sample[NR] = $1 }
		END {
			third = int(NR / 3)
			for (i = third + 1; i <= 2 * third; i++) {
				second += sample[i]
				if (sample[i] > most)
					most = sample[i]
			}
			for (i = NR - third + 1; i <= NR; i++)
				last += sample[i]
			if (third == 0)
				print name ": too short a time to say anything of memory"
			if (third == 0)
				exit 1
			second /= third
			last /= third
			bound = most + most / 8 + 1024
			printf "%s: %d KiB resident, then %d; bound %d\n", name, second,
				last, bound
			exit last > bound
		}' "$dir/memory.$1" >"$dir/grown.$1"
}

# The samples of all are read, also those that have not grown.
has_grown() {
	grown=
	for name in $names; do
		check_memory "$name" || grown="$grown $name"
	done
	[ -n "$grown" ]
}

check_end() {		# NAME
	server=$(value_of server "$1")
	opened=$(value_of opened "$1")
	until_true 600 has_descriptors "$server" "$opened" ||
		fail "$1: $(descriptors "$server") descriptors, not $opened"
}

names=
mkdir "$dir/files"
for size in 1000 1000000; do
	head -c $size /dev/urandom >"$dir/$size"
	ln "$dir/$size" "$dir/files/$size"
done
launch echo "$B/examples/04-echo" 1
patient 05-httpd STALL -lhttp_parser || exit 1  # with clients that dribble
patient 07-proxy CONNECT || exit 1
launch httpd "$dir/05-httpd" "$dir/files"
launch kv "$B/examples/06-kv"
name_localhost
for name in echo httpd kv; do
	launch "proxy_of_$name" "$dir/07-proxy" "$localhost:$(value_of port $name)"
done

for name in httpd proxy_of_httpd; do
	to=$(value_of port $name)
	load "wrk.$name" uses_wrk "$to"
	load "curl.$name" uses_curl "$to"
	load "dribble.$name" dribbles_http "$to"
done
for name in kv proxy_of_kv; do
	to=$(value_of port $name)
	load "redis.$name" uses_redis_benchmark "$to"
	load "dribble.$name" dribbles_redis "$to"
done
for name in echo proxy_of_echo; do
	to=$(value_of port $name)
	load "socat.$name" uses_socat "$to"
	load "dribble.$name" dribbles_echo "$to"
done
# shellcheck disable=SC2086
for name in $names; do
	to=$(value_of port "$name")
	load "reset.$name" resets "$to"
	load "never.$name" never_reads "$to"
done
until_true 600 all_called || fail "not every client comes to an end"
sample &
sampler=$!
for _ in 1 2 3 4 5; do
	sleep "$seconds"
	has_grown || break
done
: >"$dir/end"
# shellcheck disable=SC2086
wait $clients
clients=
kill $sampler
sampler=

rounds=0
for file in "$dir"/rounds.*; do
	read -r n <"$file"
	rounds=$((rounds + n))
done
for name in $names; do
	cat "$dir/grown.$name"
	check_end "$name"
done
for name in $grown; do
	fail "memory: $(cat "$dir/grown.$name")"
done
[ "$(redis-cli -p "$(value_of port kv)" ping)" = PONG ] || fail "kv: no answer in the end"
for name in proxy_of_echo proxy_of_httpd proxy_of_kv echo httpd kv; do
	server=$(value_of server $name)
	stop "$server" || fail "$name: status $stop_status after SIGTERM"
done
if [ -s "$dir/failures" ]; then
	cat "$dir/failures" >&2
	exit 1
fi
n=$(find "$dir" -name 'rounds.*' | wc -l)
note "$seconds s, $rounds rounds of $n clients, no error$unnamed"
