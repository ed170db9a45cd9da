#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The key-value server of the examples, driven by Redis' own clients: each command and
# each error, pipelines, blocked clients, subscribers, expiry, limits, garbage, clients
# that die, SIGTERM under load. And that it has as many descriptors at the end as at the
# start, and under valgrind no leak.
#
#   B          where examples/06-kv is
#   PORT       the first port to try
#   VALGRIND   how to run a program under valgrind; empty: not
#   CC         the compiler for that, for which the server is compiled once more
# shellcheck disable=SC2016 # dollars are of the protocol
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
PORT=${PORT:-7400}
VALGRIND=${VALGRIND-valgrind -q --leak-check=full --errors-for-leak-kinds=definite \
	--error-exitcode=9}
kv=$B/examples/06-kv
tmp=$(mktemp -d) || exit 1
dir=$tmp
# shellcheck source=tests/server.lib
. tests/server.lib
server=
trap 'kill -9 $server $clients 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
clients=
failed=0
checks=0

for client in redis-cli redis-benchmark socat timeout; do
	command -v $client >/dev/null || {
		echo "kv: skipped: no $client (redis-tools, socat)"
		exit 77
	}
done
if [ ! -x "$kv" ]; then
	echo "kv: nothing in $B: run make first" >&2
	exit 1
fi

fail() {
	echo "kv: $*" >&2
	failed=$((failed + 1))
}

same() {		# WHAT EXPECTED FOUND
	checks=$((checks + 1))
	[ "$2" = "$3" ] || fail "$1: not '$2' but '$3'"
}

# What redis-cli prints for a command, in one line.
cli() {			# ARGUMENT...
	timeout 600 redis-cli -p "$port" --no-raw "$@" 2>&1 | tr -s '\n' ' ' |
		sed 's/ *$//'
}

reply() {		# EXPECTED ARGUMENT...
	expected=$1
	shift
	same "$*" "$expected" "$(cli "$@")"
}

refused() {		# EXPECTED ARGUMENT...: with an error
	expected=$1
	shift
	same "$*" "(error) $expected" "$(cli "$@")"
}

# What comes back for what is piped into it, until the server closes.
talk() {
	timeout 600 socat -t 20 - "TCP:127.0.0.1:$port" 2>/dev/null
}

words() {
	tr -d '\r' | tr '\n' ' ' | sed 's/ $//'
}

content() {		# FILE
	words <"$tmp/$1"
}

# What comes back for bytes as printf has them, in one line.
raw() {			# FORMAT
	# shellcheck disable=SC2059 # it is a format
	printf "$1" | talk | words
}

# Until a command prints this, or many minutes have passed.
await() {		# EXPECTED COMMAND...
	expected=$1
	shift
	tries=0
	while [ "$("$@")" != "$expected" ] && [ $tries -lt 6000 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	same "in the end $*" "$expected" "$("$@")"
}

number_of() {		# FIELD: of INFO
	timeout 600 redis-cli -p "$port" info | tr -d '\r' | sed -n "s/^$1://p"
}

# On the first port that is free.
start() {		# COMMAND...
	for port in $(seq "$PORT" $((PORT + 19))); do
		: >"$tmp/ready"
		"$@" "$port" >"$tmp/ready" 2>"$tmp/errors" &
		server=$!
		tries=0
		while [ ! -s "$tmp/ready" ] && kill -0 $server 2>/dev/null &&
			[ $tries -lt 6000 ]; do
			sleep 0.1
			tries=$((tries + 1))
		done
		[ ! -s "$tmp/ready" ] || break
		kill -9 $server 2>/dev/null
	done
	same 'what it prints' ready "$(cat "$tmp/ready")"
}

# Ends by itself when told to, with 0, and has not complained.
stop() {		# SIGNAL
	kill -"$1" $server
	wait $server
	same "status after SIG$1" 0 $?
	same 'standard error' '' "$(grep -v '^--' "$tmp/errors" | head -n 5)"
	server=
}

# What a client prints goes to a file. Its process is $client.
behind() {		# FILE ARGUMENT...
	file=$1
	shift
	redis-cli -p "$port" "$@" >"$tmp/$file" 2>&1 &
	client=$!
	clients="$clients $client"
}

test_arguments() {
	for arguments in '' x 70000 -1 7400x "$PORT $PORT"; do
		# shellcheck disable=SC2086 # they are words
		"$kv" $arguments >"$tmp/out" 2>"$tmp/err"
		same "status for '$arguments'" 2 $?
		same "output for '$arguments'" '' "$(cat "$tmp/out")"
		grep -q '^usage: ' "$tmp/err" || fail "no usage for '$arguments'"
	done
	timeout 600 "$kv" "$port" >/dev/null 2>"$tmp/err"
	same 'status when the port is taken' 1 $?
	grep -q . "$tmp/err" || fail 'no message when the port is taken'
}

test_strings() {
	reply PONG ping
	reply '"hello there"' ping 'hello there'
	reply '"x"' EcHo x
	reply OK set a 1
	reply '"1"' GET a
	reply '(nil)' get none
	reply OK set a 'two words'
	reply '"two words"' get a
	reply OK set a 3
	reply OK set b 4
	reply '1) "3" 2) (nil) 3) "4"' mget a none b
	reply OK mset a 5 c 6
	reply '1) "5" 2) "6"' mget a c
	reply '(integer) 3' exists a b none a
	reply '(integer) 2' del a b none
	reply '(integer) 0' exists a b
	reply OK set empty ''
	reply '""' get empty
	reply '(integer) 1' incr counter
	reply '(integer) 2' incr counter
	reply OK set counter -5
	reply '(integer) -4' incr counter
	reply OK set counter 9223372036854775806
	reply '(integer) 9223372036854775807' incr counter
	refused 'ERR value is not an integer or out of range' incr counter
	for text in 9223372036854775808 1x ' 1' '1 ' 01 +1 -0 '' x 1.0; do
		reply OK set counter "$text"
		refused 'ERR value is not an integer or out of range' incr counter
	done
}

test_binary() {
	printf 'a\000b\r\nc\377' >"$tmp/binary"
	same 'a binary value' OK "$(redis-cli -p "$port" -x set bin <"$tmp/binary")"
	redis-cli -p "$port" get bin | head -c 7 | cmp -s - "$tmp/binary" ||
		fail 'a binary value came back otherwise'
	raw '*3\r\n$3\r\nSET\r\n$3\r\nk\0001\r\n$1\r\nx\r\n' >"$tmp/out"
	same 'a binary key' '$1 x' "$(raw '*2\r\n$3\r\nget\r\n$3\r\nk\0001\r\n')"
	same 'another binary key' '$-1' "$(raw '*2\r\n$3\r\nget\r\n$3\r\nk\0002\r\n')"
	head -c 20000000 /dev/urandom >"$tmp/large"
	same 'a large value' OK "$(redis-cli -p "$port" -x set large <"$tmp/large")"
	redis-cli -p "$port" get large | head -c 20000000 | cmp -s - "$tmp/large" ||
		fail 'a large value came back otherwise'
	same 'several large replies' 160000104 \
		"$(yes 'GET large' | head -n 8 | talk | wc -c)"
	same 'a value beyond the limit' '-ERR Protocol error' "$(
		{	printf '*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$70000000\r\n'
			head -c 70000000 /dev/zero
		} | talk | words)"
	reply '(integer) 1' del large
}

test_expiry() {
	reply '(integer) -2' ttl none
	reply OK set e 1
	reply '(integer) -1' ttl e
	reply '(integer) 1' expire e 1000
	case $(cli ttl e) in
	'(integer) 1000' | '(integer) '[1-9]??) ;;
	*) fail "ttl after expire: $(cli ttl e)" ;;
	esac
	reply OK set e 2
	reply '(integer) -1' ttl e
	reply '(integer) 0' expire none 10
	reply '(integer) 1' expire e -1
	reply '(nil)' get e
	reply OK set e 3 PX 1
	await '(nil)' cli get e
	range='ERR value is not an integer or out of range'
	refused "$range" set e 1 ex 0
	refused "$range" set e 1 px -1
	refused "$range" expire e 9223372036854775807
	refused "$range" set e 1 ex 1x
	refused "$range" expire e x
	for words in ex 'ex 1 px 1' keep 'keep 1'; do
		# shellcheck disable=SC2086 # they are words
		refused 'ERR syntax error' set e 1 $words
	done
	# Nobody looks at these, and yet they go.
	before_keys=$(number_of keys)
	seq 5000 | sed 's/.*/SET gone:& 1 PX 200/' | redis-cli -p "$port" >"$tmp/out"
	same 'keys set' 5000 "$(grep -c OK "$tmp/out")"
	await "$before_keys" number_of keys
}

test_lists() {
	reply '(integer) 2' lpush l 1 2
	reply '(integer) 3' lpush l 3
	reply '"3"' lpop l
	reply '"2"' lpop l
	reply '"1"' lpop l
	reply '(nil)' lpop l
	reply '(integer) 0' exists l
	reply '(integer) 1' lpush l x
	reply '1) "l" 2) "x"' blpop none l 0
	reply '(nil)' blpop none other 0.05
	refused 'ERR timeout is not a float or out of range' blpop l -1
	refused 'ERR timeout is not a float or out of range' blpop l x
	refused 'ERR timeout is not a float or out of range' blpop l 1x
	refused 'ERR timeout is not a float or out of range' blpop l nan
	reply OK set s 1
	reply '(integer) 1' lpush l 1
	wrong='WRONGTYPE Operation against a key holding the wrong kind of value'
	for words in 'lpush s 1' 'lpop s' 'blpop none s 0' 'get l' 'incr l'; do
		# shellcheck disable=SC2086 # they are words
		refused "$wrong" $words
	done
	reply '1) (nil) 2) "1"' mget l s
	reply OK set l string
	reply '"string"' get l
}

# Each gets one element, first come, first served.
test_blocked() {
	for i in $(seq 50); do
		behind "blocked.$i" blpop "only.$i" queue queue 0
		await "$i" number_of blocked_clients
	done
	for i in $(seq 40); do
		reply '(integer) 1' lpush queue "$i"
	done
	reply '(integer) 12' lpush queue 52 51 50 49 48 47 46 45 44 43 42 41
	for i in $(seq 50); do
		await "queue $i" content "blocked.$i"
	done
	clients=
	reply '"51"' lpop queue
	reply '"52"' lpop queue
	reply '(integer) 0' exists queue
	same 'clients that are blocked' 0 "$(number_of blocked_clients)"
	# What is before and behind it in a pipeline; and deadlines. Who ends while it is
	# blocked is gone.
	: >"$tmp/pipeline"
	# shellcheck disable=SC2094 # it waits for the other end
	{
		printf 'PING\r\nBLPOP q 0.1\r\nLPUSH q x\r\nBLPOP q 0\r\nPING\r\n'
		await 2 grep -c PONG "$tmp/pipeline"
	} | talk >"$tmp/pipeline"
	same 'BLPOP in a pipeline' '+PONG *-1 :1 *2 $1 q $1 x +PONG' "$(content pipeline)"
}


test_dead() {
	behind dead blpop queue 0
	first=$client
	await 1 number_of blocked_clients
	behind alive blpop queue 0
	await 2 number_of blocked_clients
	kill -9 "$first"
	wait "$first" 2>/dev/null
	await 1 established "$port"
	reply '(integer) 1' lpush queue one
	await 'queue one' content alive
	await 0 number_of blocked_clients
	behind dead blpop queue 0
	await 1 number_of blocked_clients
	kill -9 "$client"
	wait "$client" 2>/dev/null
	await 0 established "$port"
	reply '(integer) 1' lpush queue two
	reply '"two"' lpop queue
	await 0 number_of blocked_clients
}

test_channels() {
	reply '(integer) 0' publish news nobody
	for i in 1 2 3; do
		behind "sub.$i" subscribe news "other.$i"
	done
	for i in 1 2 3; do
		await 1 grep -c "^other.$i\$" "$tmp/sub.$i"
		reply '(integer) 1' publish "other.$i" a
	done
	reply '(integer) 3' publish news 'first message'
	reply '(integer) 3' publish news second
	for i in 1 2 3; do
		await 1 grep -c '^second$' "$tmp/sub.$i"
		expected="subscribe news 1 subscribe other.$i 2 message other.$i a"
		expected="$expected message news first message message news second"
		same "subscriber $i" "$expected" "$(content "sub.$i")"
	done
	kill "$client"
	await '(integer) 2' cli publish news third
	same subscribed '*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *2 $4 pong $0' \
		"$(raw 'SUBSCRIBE a b\r\nPING\r\n' | sed 's/ $//')"
	left='*3 $11 unsubscribe'
	same unsubscribed \
		"$left \$1 a :1 $left \$4 none :1 $left \$1 b :0 $left \$-1 :0 +PONG" "$(
		{	printf 'SUBSCRIBE a b\r\nUNSUBSCRIBE a none\r\n'
			printf 'UNSUBSCRIBE\r\nUNSUBSCRIBE\r\nPING\r\n'
		} | talk | words | sed 's/.* :2 //')"
}

# One that does not read is thrown out, in the end; others do not notice.
test_slow_subscriber() {
	mkfifo "$tmp/pipe"
	socat - "TCP:127.0.0.1:$port" <"$tmp/pipe" >"$tmp/slow" 2>&1 &
	slow=$!
	clients="$clients $slow"
	exec 9>"$tmp/pipe"
	printf 'SUBSCRIBE flood\r\n' >&9
	await 1 grep -c flood "$tmp/slow"
	kill -STOP $slow
	head -c 1000000 /dev/zero | tr '\0' x >"$tmp/message"
	for i in $(seq 100); do
		redis-cli -p "$port" -x publish flood <"$tmp/message"
	done >"$tmp/out"
	same 'messages published' 100 "$(wc -l <"$tmp/out")"
	reply '(integer) 0' publish flood a
	memory=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$server/status)
	checks=$((checks + 1))
	[ "$memory" -lt 100000 ] || fail "$memory kB are used after a flood"
	kill -9 $slow
	exec 9>&-
}

test_errors() {
	refused 'ERR unknown command' mad a b
	for words in get 'get a b' set 'set a' incr 'incr a b' del exists mget mset \
		'mset a' echo 'echo a b' expire 'expire a' ttl lpush 'lpush a' lpop \
		'lpop a 1' blpop 'blpop a' publish 'publish a'; do
		# shellcheck disable=SC2086 # they are words
		refused "ERR wrong number of arguments for '${words%% *}' command" $words
	done
	refused 'ERR syntax error' mset a 1 b
	reply OK set a 1
	same 'commands in COMMAND' 21 "$(redis-cli -p "$port" command | grep -c '^[a-z]')"
	case $(cli info) in
	*redis_version:*keys:[1-9]*connected_clients:[1-9]*) ;;
	*)	fail "info: $(cli info)" ;;
	esac
	same QUIT +OK "$(raw 'QUIT\r\nPING\r\n')"
	same 'lines of words' '+OK $5 two w +PONG' \
		"$(raw 'SET k "two w"\nGET k\r\n\r\n  PING  \r\n')"
	same 'a long line' '-ERR Protocol error' \
		"$(head -c 200000 /dev/zero | tr '\0' x | talk | words)"
	same 'quotes that do not match' +PONG "$(raw 'PING\r\nSET k "two\r\nPING\r\n')"
	refuses '*1\r\n:5\r\nPING\r\n'
	refuses '*2\r\n$4\r\nPING\r\n*1\r\n$1\r\na\r\n'
	refuses '*2\r\nxyz\r\n'
	refuses '*1\r\n$x\r\n'
	refuses '*1\r\n$-1\r\n'
	refuses '*x\r\n'
	refuses '*1048577\r\n'
	same 'empty commands' +PONG "$(raw '*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n')"
}

# And closes: what is behind is not answered.
refuses() {		# FORMAT
	same "to $1" '-ERR Protocol error' "$(raw "$1")"
}

test_pipelines() {
	seq 20000 | awk '{
		k = "pipe:" $1
		printf "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n", length(k), k
		printf "$%d\r\n%s\r\n", length($1), $1
	}' >"$tmp/commands"
	timeout 600 redis-cli -p "$port" --pipe <"$tmp/commands" >"$tmp/out" 2>&1
	same 'redis-cli --pipe' 'errors: 0, replies: 20000' "$(tail -n 1 "$tmp/out")"
	reply '"17321"' get pipe:17321
	same 'half a command' '+PONG $5 17321' "$(
		raw 'PING\r\nGET pipe:17321\r\n*2\r\n$3\r\nGET\r\n$4\r\nab')"
	same 'byte by byte' '+PONG $5 17321 +PONG' "$(
		for byte in '*' 1 '\r' '\n' '$' 4 '\r' '\n' P I N G '\r' '\n' \
			'*' 2 '\r' '\n' '$' 3 '\r' '\n' G E T '\r' '\n' \
			'$' 1 0 '\r' '\n' p i p e : 1 7 3 2 1 '\r' '\n' \
			p i n g '\r' '\n'; do
			# shellcheck disable=SC2059 # it is a format
			printf "$byte"
			sleep 0.005
		done | talk | words)"
	for i in $(seq 20); do
		head -c 50000 /dev/urandom | talk
		printf '*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nxyz' |
			socat -t 0 - "TCP:127.0.0.1:$port,linger=0"
	done >/dev/null 2>&1
	reply PONG ping
}

test_benchmark() {
	for depth in 1 16; do
		timeout 600 redis-benchmark -p "$port" -n 20000 -P $depth -q \
			-t ping,set,get,incr,lpush,lpop >"$tmp/out" 2>&1
		same "redis-benchmark -P $depth" 0 $?
		same "lines of redis-benchmark -P $depth" 7 \
			"$(tr '\r' '\n' <"$tmp/out" | grep -c 'requests per second')"
		! grep -v 'Could not fetch server CONFIG' "$tmp/out" |
			grep -i -e error -e warning ||
			fail "redis-benchmark -P $depth complains"
	done
	reply '"40000"' get counter:__rand_int__
	reply '(integer) 0' exists mylist
}

# redis-benchmark, 50 connections, does not bear that one is never accepted.
loaded() {
	[ "0$(number_of connected_clients)" -lt 53 ] || echo yes
}

# What was answered is all that was done, without a gap.
test_end_under_load() {
	timeout 600 redis-benchmark -p "$port" -t set -n 100000000 -P 16 -q \
		>"$tmp/out" 2>&1 &
	behind blocked blpop nothing 0
	await 1 number_of blocked_clients
	behind subscribed subscribe news
	await 1 grep -c news "$tmp/subscribed"
	await yes loaded
	yes 'INCR load' | talk >"$tmp/load" &
	await 1 grep -c '^:1000.$' "$tmp/load"
	stop TERM
	wait
	clients=
	same 'replies under load' '' "$(tr -d ':\r' <"$tmp/load" |
		awk '$1 != NR { print NR ": " $1; exit }')"
	same 'the last byte' '0a' "$(tail -c 1 "$tmp/load" | od -An -tx1 | tr -d ' ')"
	[ -s "$tmp/load" ] || fail 'there was no load'
	grep -q -i -e 'ERR' -e closed "$tmp/blocked" ||
		fail "the blocked client: $(cat "$tmp/blocked")"
}

test_valgrind() {
	command -v "${VALGRIND%% *}" >/dev/null || return 1
	command=$(sed -n '/^ \*\//q; /^ \*   cc /,/ -o /p' examples/06-kv.c |
		sed 's/^ \* *//; s/^cc //; s/\\$//; s/ -o .*//' | tr '\n' ' ')
	[ -f "arch/$(uname -m).S" ] || return 1
	command=$(echo "$command" | sed "s/x86_64/$(uname -m)/")
	# shellcheck disable=SC2086 # they are words
	${CC:-cc} -g -O1 $command -o "$tmp/kv" || return 1
	# shellcheck disable=SC2086 # they are words
	start $VALGRIND "$tmp/kv"
	reply OK set a 1
	reply OK set a 2 ex 100
	reply OK mset b 3 c 4
	reply '(integer) 2' lpush l 1 2
	reply '(integer) 1' lpush l2 1
	reply '1) "l" 2) "2"' blpop l 0
	reply '(nil)' blpop none 0.01
	behind blocked blpop a1 a2 0
	await 1 number_of blocked_clients
	reply '(integer) 1' lpush a2 x
	behind blocked blpop a1 a2 0
	behind subscribed subscribe c1 c2
	await '(integer) 1' cli publish c2 x
	raw '*3\r\n$3\r\nSET\r\n$100\r\nabc' >/dev/null
	raw 'SUBSCRIBE x y z\r\nUNSUBSCRIBE y\r\n' >/dev/null
	raw '*1\r\n:5\r\n' >/dev/null
	timeout 600 redis-benchmark -p "$port" -n 1000 -P 16 -q \
		-t ping,set,get,incr,lpush,lpop >"$tmp/out" 2>&1
	same 'redis-benchmark under valgrind' 0 $?
	stop TERM
	wait
	clients=
}

start "$kv"
reply PONG ping
await 1 number_of connected_clients
before=$(descriptors "$server")
test_arguments
test_strings
test_binary
test_expiry
test_lists
test_blocked
test_dead
test_channels
test_slow_subscriber
test_errors
test_pipelines
test_benchmark
# shellcheck disable=SC2086 # they are words
kill $clients 2>/dev/null
clients=
await 1 number_of connected_clients
await "$before" descriptors "$server"
stop INT
start "$kv"
test_end_under_load
with=', valgrind'
test_valgrind || with=', without valgrind'
if [ $failed -gt 0 ]; then
	exit 1
fi
echo "kv: $checks checks$with"
