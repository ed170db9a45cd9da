#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The echo server and the proxy of examples/, with clients that nobody here wrote: socat,
# ncat, curl, and bash's own connections. Whatever they do, what was sent must come back,
# nobody else may suffer, and the server's descriptors must be as many as before.
#
#   B         the build directory: the servers are B/examples/NN-name
#   CC, CFLAGS, SWITCH   as for make: for copies of the servers with short deadlines
#   PORT      servers get the first free ports after this one
# shellcheck disable=SC2016	# what is in single quotes is for other shells
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
CC=${CC:-cc}

skip() {
	echo "servers: skipped, $*"
	exit 77
}

for client in socat ncat curl bash timeout; do
	command -v $client >/dev/null || skip "there is no $client"
done
for server in 04-echo 07-proxy; do
	[ -x "$B/examples/$server" ] || skip "there is no $B/examples/$server"
done

dir=$(mktemp -d) || exit 1
PORT=${PORT:-$((24000 + $$ % 900))}
# shellcheck source=tests/server.lib
. tests/server.lib
jobs=			# process ids of clients that were not waited for
trap 'kill_servers; kill_jobs; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
count=0

fail() {
	echo "servers: $*" >&2
	failed=$((failed + 1))
}

kill_jobs() {
	# shellcheck disable=SC2086
	[ -z "$jobs" ] || kill $jobs 2>/dev/null
}

# For clients that would wait for ever if something were wrong.
long() {
	timeout 600 "$@"
}

# check WORDS COMMAND...: one test.
check() {
	what=$1
	shift
	count=$((count + 1))
	"$@" || fail "$name: $what"
}

# As many descriptors as when it was started.
all_closed() {
	until_true 600 has_descriptors "$server" "$opened" ||
		fail "$name, after $1: $(descriptors "$server") descriptors, not $opened"
}

# begin NAME PROGRAM [ARGUMENT...]
begin() {
	name=$1
	shift
	start "$@" || {
		fail "$name: does not get ready"
		return 1
	}
	opened=$(descriptors "$server")
}

# end: SIGTERM, and it exits with 0.
end() {
	stop "$server"
	status=$?
	[ $status -eq 0 ] || fail "$name: status $status after SIGTERM"
	# Valgrind's remarks on system calls that it does not know are no errors.
	! grep -v '^--[0-9]*-- ' "$dir/errors.$server" >"$dir/err" ||
		fail "$name says $(head -n 20 "$dir/err")"
}

# Both directions at once.
echoes() {		# FILE
	long socat -t 600 - "TCP:127.0.0.1:$port" <"$1" >"$dir/out" && cmp "$1" "$dir/out"
}

echoes_to_ncat() {	# FILE
	long ncat 127.0.0.1 "$port" <"$1" >"$dir/out" && cmp "$1" "$dir/out"
}

# A hundred clients at the same time, each with something else to say.
hundred_clients() {
	clients=
	for i in $(seq 100); do
		seq "$i" 2000 >"$dir/in.$i"
		long socat -t 600 - "TCP:127.0.0.1:$port" <"$dir/in.$i" >"$dir/out.$i" &
		clients="$clients $!"
	done
	for client in $clients; do
		wait "$client" || return 1
	done
	for i in $(seq 100); do
		cmp "$dir/in.$i" "$dir/out.$i" || return 1
	done
}

# Many connections, all open; each says something, and then each gets it back.
many_open() {		# NUMBER
	long bash -c '
		for ((i = 0; i < $2; i++)); do
			exec {fd[i]}<>"/dev/tcp/127.0.0.1/$1" || exit 1
			echo "this is $i" >&"${fd[i]}"
		done
		for ((i = 0; i < $2; i++)); do
			read -r line <&"${fd[i]}" && [ "$line" = "this is $i" ] || exit 1
		done' bash "$port" "$1"
}

# Ends its connection with a reset, in the middle of what comes back.
resets() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		long socat -u "$dir/300000" \
			"TCP:127.0.0.1:$port,linger=0,shut-close" 2>/dev/null
	done
	echoes "$dir/1000"
}

# A byte at a time.
dribbles() {		# BYTES PAUSE
	head -c "$1" "$dir/1048576" | dribble "$2" 1 |
		long socat -t 600 - "TCP:127.0.0.1:$port" >"$dir/out"
	head -c "$1" "$dir/1048576" | cmp - "$dir/out"
}

# Two who send and never read, and others meanwhile.
never_reads() {
	timeout 600 socat -u /dev/zero "TCP:127.0.0.1:$port" 2>/dev/null &
	one=$!
	timeout 600 socat -u /dev/zero "TCP:127.0.0.1:$port" 2>/dev/null &
	two=$!
	jobs="$jobs $one $two"
	echoes "$dir/1048576"
	never_status=$?
	kill $one $two
	wait $one $two
	return $never_status
}

# How many bytes the server has received from its client, and the client has not read yet,
# but for what is in the server itself: both queues of its end, and one of the client's.
received() {
	hex=$(printf %04X "$port") sum=0
	while read -r _ from to state queues _; do
		tx=0x${queues%:*} rx=0x${queues#*:}
		case $from-$to-$state in
		*:"$hex"-*-01) sum=$((sum + tx + rx)) ;;
		*-*:"$hex"-01) sum=$((sum + rx)) ;;
		esac
	done </proc/net/tcp
	echo $sum
}

# Until it does not change any more: the client sends all that it can.
all_received() {
	before=$last_received
	last_received=$(received)
	sleep 0.1
	[ "$last_received" -gt 100000 ] && [ "$last_received" -eq "$before" ]
}

# The client sends until it has to wait, and does not read before the server was told to
# end: so the server waits, too, and has more to read. All of that must come.
ends_in_the_middle() {
	mkfifo "$dir/go"
	long bash -c '
		exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
		cat "$2/flood" >&3 2>/dev/null &
		read -r line <"$2/go"
		cat <&3 >"$2/out" 2>/dev/null
		kill $! 2>/dev/null' bash "$port" "$dir" &
	client=$!
	last_received=0
	until_true 600 all_received
	kill -TERM "$server"
	echo go >"$dir/go"
	wait $client
	rm -f "$dir/go"
	size=$(wc -c <"$dir/out")
	if [ "$size" -lt "$last_received" ]; then
		echo "servers: $size bytes came, $last_received or more were received" >&2
		return 1
	fi
	cmp -n "$size" "$dir/flood" "$dir/out"
}

# The same with a client that goes on sending, as fast as it can.
ends_under_a_flood() {
	rm -f "$dir/out"
	long socat -t 600 - "TCP:127.0.0.1:$port" <"$dir/flood" >"$dir/out" 2>/dev/null &
	client=$!
	until_true 600 test -s "$dir/out"
	kill -TERM "$server"
	wait $client
	size=$(wc -c <"$dir/out")
	[ "$size" -gt 0 ] && cmp -n "$size" "$dir/flood" "$dir/out"
}

# usage PROGRAM ARGUMENT...: status 2, a usage on standard error, and nothing else.
usage() {
	count=$((count + 1))
	timeout 600 "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	[ $status -eq 2 ] || fail "$*: not status 2 but $status"
	[ ! -s "$dir/out" ] || fail "$*: prints $(head -n 1 "$dir/out")"
	grep -q '^usage: ' "$dir/err" || fail "$*: no usage on standard error"
}

usages() {		# PROGRAM [ARGUMENT]
	usage "$1"
	usage "$@" ''
	for wrong in 0 -1 x 7x 65536 99999999999999999999 ''; do
		usage "$1" "$wrong" ${2+"$2"}
		usage "$1" 7000 ${2+"$2"} "$wrong"
	done
	usage "$1" 7000 ${2+"$2"} 1 1
}

# What echo must do, and the proxy in front of it.
all_clients() {
	for size in 1 2 1000 16383 16384 16385 300000 1048576 10485760; do
		check "$size bytes and socat" echoes "$dir/$size"
	done
	for size in 1 1000 300000; do
		check "$size bytes and ncat" echoes_to_ncat "$dir/$size"
	done
	all_closed "transfers"
	check "a hundred clients" hundred_clients
	check "500 open connections" many_open 500
	all_closed "many connections"
	check "resets" resets
	all_closed "resets"
	check "a byte at a time" dribbles 100 0.01
	check "clients that never read" never_reads
	all_closed "clients that never read"
}

# library NAME [OPTION...]: its objects, in $dir/NAME.
library() {
	objects=$dir/$1
	shift
	switch=${SWITCH:-$(uname -m)}
	sources=$PWD/arch/$switch.S
	[ -f "$sources" ] || sources=$PWD/arch/setjmp.c
	for module in usched uimage uproc rr uevents uwait usync unet uoffload; do
		sources="$sources $PWD/$module.c"
	done
	mkdir "$objects"
	# shellcheck disable=SC2086
	(cd "$objects" && $CC -I"$OLDPWD" ${CFLAGS--O2 -g} "$@" -pthread -c $sources) ||
		fail "$objects: does not compile"
}

# edited NAME FILE LIBRARY [EXPRESSION]: $dir/NAME is that server, edited by sed.
edited() {
	sed "${4-}" "$2" >"$dir/$1.c"
	[ $# -lt 4 ] || ! cmp -s "$2" "$dir/$1.c" || fail "$2: nothing to edit by $4"
	# shellcheck disable=SC2086
	$CC -I. ${CFLAGS--O2 -g} "$dir/$1.c" "$dir/$3"/*.o -pthread -lm -o "$dir/$1" ||
		fail "$1: does not compile"
}

# Each of these ends only because the server ends it.
deadlines() {
	check "an idle client" long socat -u "TCP:127.0.0.1:$port" "$dir/out"
	count=$((count + 1))
	long socat -u /dev/zero "TCP:127.0.0.1:$port" 2>/dev/null
	[ $? -ne 124 ] || fail "$name: a client that never reads is never given up"
	all_closed "deadlines"
	check "a client that is slow, but not idle" sometimes dribbles 8 0.4
}

# Where nothing comes about for two seconds, who is slow is idle.
sometimes() {		# COMMAND...
	for _ in $(seq 30); do
		! "$@" || return 0
	done
	return 1
}

# Of five, the fifth has to wait until the first has gone.
limit() {
	long bash -c '
		for i in 1 2 3 4 5; do
			exec {fd[i]}<>"/dev/tcp/127.0.0.1/$1" || exit 1
		done
		for i in 1 2 3 4; do
			echo "$i" >&"${fd[i]}"
			read -r line <&"${fd[i]}" && [ "$line" = "$i" ] || exit 1
		done
		echo 5 >&"${fd[5]}"
		! read -r -t 0.3 line <&"${fd[5]}" || exit 1
		exec {fd[1]}>&-
		read -r line <&"${fd[5]}" && [ "$line" = 5 ]' bash "$port"
}

# More connections than the server has descriptors for: the last ones wait, and are served
# when the first have gone.
exhausted() {
	long bash -c '
		for ((i = 0; i < 60; i++)); do
			exec {fd[i]}<>"/dev/tcp/127.0.0.1/$1" || exit 1
			echo "this is $i" >&"${fd[i]}"
		done
		for ((i = 0; i < 60; i++)); do
			read -r line <&"${fd[i]}" && [ "$line" = "this is $i" ] || exit 1
			exec {fd[i]}>&-
		done' bash "$port"
}

# The server is the one that says first that it has no more to send.
other_way_first() {
	rm -f "$dir/got"
	echo "done" >"$dir/done"
	long socat -t 600 "TCP-LISTEN:$target,bind=127.0.0.1,reuseaddr" \
		"$dir/done!!CREATE:$dir/got" &
	listener=$!
	until_true 600 listens "$target"
	long bash -c '
		exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
		[ "$(cat <&3)" = done ] || exit 1
		cat "$2/1048576" >&3' bash "$port" "$dir" || return 1
	wait $listener
	cmp "$dir/1048576" "$dir/got"
}

# A reset is passed on as one. From the server:
server_resets() {
	long socat -U "TCP-LISTEN:$target,bind=127.0.0.1,reuseaddr,linger=0,shut-close" \
		SYSTEM:'echo abc; sleep 0.1' &
	listener=$!
	until_true 600 listens "$target"
	long bash -c '
		exec 3<>"/dev/tcp/127.0.0.1/$1" && echo hello >&3 &&
			cat <&3 >/dev/null' bash "$port" 2>"$dir/err"
	wait $listener
	grep -qi 'reset' "$dir/err"
}

# And from the client:
client_resets() {
	long socat -d -u "TCP-LISTEN:$target,bind=127.0.0.1,reuseaddr" "CREATE:$dir/got" \
		2>"$dir/err" &
	listener=$!
	until_true 600 listens "$target"
	echo hello | long socat -u - "TCP:127.0.0.1:$port,linger=0,shut-close"
	wait $listener
	grep -qi 'reset' "$dir/err"
}

# Nobody is behind it: the client is not left waiting, nor told that the answer is empty.
dead_target() {
	for _ in 1 2 3; do
		curl -s -m 600 "http://127.0.0.1:$port/" >"$dir/out"
		status=$?
		# It could not connect, or was reset later: how fast is the reset?
		case $status in
		7 | 55 | 56) ;;
		*)	echo "curl: status $status" >&2
			return 1 ;;
		esac
	done
}

gets() {		# URL-PATH FILE
	curl -s -S -m 600 "http://127.0.0.1:$port/$1" -o "$dir/out" && cmp "$2" "$dir/out"
}

two_on_one() {		# one connection, kept alive
	curl -s -S -m 600 "http://127.0.0.1:$port/1000" "http://127.0.0.1:$port/300000" \
		>"$dir/out" && cat "$dir/1000" "$dir/300000" | cmp - "$dir/out"
}

test_proxy_of_httpd() {
	[ -x "$B/examples/05-httpd" ] || {
		echo "servers: no $B/examples/05-httpd: no proxy in front of it"
		return
	}
	start "$B/examples/05-httpd" "$dir/files" || {
		fail "05-httpd: does not get ready"
		return
	}
	httpd=$server
	begin "proxy of httpd" "$B/examples/07-proxy" "127.0.0.1:$port" || return
	for size in 1 1000 1048576 10485760; do
		check "a file of $size bytes" gets $size "$dir/$size"
	done
	check "two requests" two_on_one
	all_closed "requests"
	end
	stop "$httpd" || fail "05-httpd: not status 0 after SIGTERM"
}

test_proxy_alone() {
	port=$((port + 1))
	target=$port
	begin "proxy" "$B/examples/07-proxy" "$localhost:$target" || return
	check "nobody behind it" dead_target
	all_closed "nobody behind it"
	grep -q 'Connection refused' "$dir/errors.$server" ||
		fail "$name: does not say that the connection was refused"
	check "a server that ends first" other_way_first
	check "a server that resets" server_resets
	check "a client that resets" client_resets
	all_closed "resets"
	: >"$dir/errors.$server"
	end
}

test_memory() {
	command -v valgrind >/dev/null || {
		echo "servers: no valgrind"
		return
	}
	grep -q . /usr/include/valgrind/memcheck.h 2>/dev/null || return
	library for_valgrind -gdwarf-4
	edited echo.valgrind examples/04-echo.c for_valgrind
	edited proxy.valgrind examples/07-proxy.c for_valgrind
	# What is still reachable are tables that are never freed.
	EMULATOR='valgrind -q --error-exitcode=99 --leak-check=full --fair-sched=yes'
	begin "echo under valgrind" "$dir/echo.valgrind" 2 || return
	echo=$server
	begin "proxy under valgrind" "$dir/proxy.valgrind" "127.0.0.1:$port" 2 || return
	unset EMULATOR
	for size in 1 16385 1048576; do
		check "$size bytes" echoes "$dir/$size"
	done
	check "resets" resets
	end
	server=$echo name="echo under valgrind"
	end
}

for size in 1 2 1000 16383 16384 16385 300000 1048576 10485760; do
	head -c $size /dev/urandom >"$dir/$size"
done
for _ in 1 2 3 4 5 6 7 8; do
	cat "$dir/10485760"
done >"$dir/flood"
mkdir "$dir/files"
ln "$dir/1" "$dir/1000" "$dir/300000" "$dir/1048576" "$dir/10485760" "$dir/files"

name_localhost
usages "$B/examples/04-echo"
usages "$B/examples/07-proxy" 127.0.0.1:7000
usage "$B/examples/07-proxy" 7000 nothing

patient 04-echo 'STALL|GRACE' || fail "04-echo: no patient one"
for processors in 1 2; do
	begin "echo, $processors" "$B/examples/04-echo" $processors || break
	echo=$server echo_port=$port
	all_clients
	begin "proxy, $processors" "$B/examples/07-proxy" "$localhost:$port" $processors ||
		break
	all_clients
	end
	name="echo, $processors" server=$echo port=$echo_port
	end
	begin "echo, $processors" "$dir/04-echo" $processors || break
	check "SIGTERM in the middle" ends_in_the_middle
	end
	begin "echo, $processors" "$dir/04-echo" $processors || break
	check "SIGTERM under a flood" ends_under_a_flood
	end
done

library plain
short='s/^\(#define [A-Z]* *\)([0-9]* \* USYNC_SECOND)/\1(2 * USYNC_SECOND)/'
few='s/^\(	CONNECTIONS *= \)[0-9]*/\14/'
edited echo.short examples/04-echo.c plain "$short"
edited proxy.short examples/07-proxy.c plain "$short"
edited echo.few examples/04-echo.c plain "$few"
edited proxy.few examples/07-proxy.c plain "$few"
begin "echo, short deadlines" "$dir/echo.short" 1 && {
	deadlines
	end
}
begin "echo, few connections" "$dir/echo.few" 1 && {
	check "the limit of connections" limit
	end
}
begin "echo" "$B/examples/04-echo" 1 && {
	echo=$server echo_port=$port
	begin "proxy, short deadlines" "$dir/proxy.short" "127.0.0.1:$port" 1 && {
		deadlines
		end
	}
	begin "proxy, few connections" "$dir/proxy.few" "127.0.0.1:$echo_port" 1 && {
		check "the limit of connections" limit
		end
	}
	server=$echo name=echo
	end
}

# With fewer descriptors than clients.
printf '%s\n' 'ulimit -n 40' 'exec "$@"' >"$dir/few"
EMULATOR="sh $dir/few"
begin "echo with 40 descriptors" "$B/examples/04-echo" 1 && {
	check "60 clients" exhausted
	all_closed "60 clients"
	end
}
unset EMULATOR

# One that never reads does not keep the server from ending.
begin "echo, short deadlines" "$dir/echo.short" 1 && {
	timeout 600 socat -u /dev/zero "TCP:127.0.0.1:$port" 2>/dev/null &
	jobs="$jobs $!"
	until_true 600 has_descriptors "$server" $((opened + 1))
	end
}

test_proxy_alone
test_proxy_of_httpd
test_memory

[ $failed -eq 0 ] || exit 1
echo "servers: $count checks of the echo server and the proxy$unnamed"
