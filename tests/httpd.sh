#!/bin/sh
# SPDX-License-Identifier: MIT
#
# examples/05-httpd.c, as curl, wrk, h2load, socat and ncat find it: what it answers to what
# is right, wrong, slow, early, endless or gone; that it comes back to where it began; and
# that it ends without losing a request.
#
#   B     where examples/05-httpd is; what is missing is skipped
#   PORT  the first of ten to try
#   CONNECTIONS  at a time, 9000 if there are descriptors for them
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
PORT=${PORT:-7300}
httpd=$B/examples/05-httpd
for program in curl wrk h2load socat ncat "$httpd"; do
	if ! command -v "$program" >/dev/null; then
		echo "httpd: no $program"
		exit 77
	fi
done
tmp=$(mktemp -d) || exit 1
dir=$tmp
# shellcheck source=tests/server.lib
. tests/server.lib
trap 'kill $pid $helpers 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
ulimit -n "$(ulimit -Hn)"
most=$(($(ulimit -n) - 200))
CONNECTIONS=${CONNECTIONS:-9000}
[ "$CONNECTIONS" -le "$most" ] || CONNECTIONS=$most
failed=0
checks=0
many=300
pid=
helpers=
cr=$(printf '\r')
host='Host: x\r\n'
close='Host: x\r\nConnection: close\r\n'

fail() {
	echo "httpd: $*"
	failed=1
}

same() {		# WHAT EXPECTED FOUND
	checks=$((checks + 1))
	[ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

has() {			# WHAT PATTERN FILE
	checks=$((checks + 1))
	grep -qi -e "$2" "$3" || fail "$1: no '$2' in: $(head -c 600 "$3" | tr -d '\0')"
}

hasnt() {		# WHAT PATTERN FILE
	checks=$((checks + 1))
	! grep -qi -e "$2" "$3" || fail "$1: '$2' in: $(head -c 600 "$3" | tr -d '\0')"
}

# The server, on the first port that is free.
begin() {
	port=$PORT
	while :; do
		: >"$tmp/out"
		$before "$httpd" "$port" "$tmp/www" >"$tmp/out" 2>"$tmp/err" &
		pid=$!
		until grep -q ready "$tmp/out" || ! kill -0 $pid 2>/dev/null; do
			sleep 0.05
		done
		grep -q ready "$tmp/out" && until_true 600 asleep $pid && break
		port=$((port + 1))
		if [ $port -ge $((PORT + 10)) ] || ! grep -q 'in use' "$tmp/err"; then
			fail "does not start: $(cat "$tmp/err")"
			exit 1
		fi
	done
	url=http://127.0.0.1:$port
}
before=

stop() {		# WHAT
	kill -TERM $pid
	wait $pid
	same "$1: end" 0 $?
	same "$1: standard error" '' "$(sed '/^--/d' "$tmp/err")"
	pid=
}

# One request with curl: head and body in files of these names.
get() {			# STATUS PATH [ARGUMENT...]
	status=$1
	path=$2
	shift 2
	same "$path $*" "$status" "$(curl -s --path-as-is -D "$tmp/head" -o "$tmp/body" \
		-w '%{http_code}' --max-time 600 "$@" "$url$path")"
}

# Bytes as they are, and what comes back until the server closes.
raw() {			# TEXT, as of printf
	# shellcheck disable=SC2059 # it is a format
	printf "$1" | timeout 600 socat -t600 - "TCP:127.0.0.1:$port" >"$tmp/raw"
	tr -d '\r\0' <"$tmp/raw" >"$tmp/text"
}

# A connection that gets what is written to descriptor 8, until that is closed. What comes
# back goes to the file NAME; its process is $!.
hold_open() {		# NAME [OPTIONS of socat]
	mkfifo "$tmp/in.$1"
	socat -t60 - "TCP:127.0.0.1:$port${2-}" <"$tmp/in.$1" >"$tmp/$1" 2>/dev/null &
	exec 8>"$tmp/in.$1"
}

statuses() {		# of the answers in $tmp/text
	sed -n 's/^.*HTTP\/1\.1 \([0-9][0-9]*\) .*/\1/p' "$tmp/text" | paste -sd ' ' -
}

raw_is() {		# WHAT STATUSES TEXT
	raw "$3"
	same "$1" "$2" "$(statuses)"
}

settled() {		# WHAT COUNT: waits until so many descriptors are open
	until_true 600 has_descriptors $pid "$2"
	same "$1: descriptors" "$2" "$(descriptors $pid)"
}

anonymous() {		# KiB of memory in use
	sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status"
}

repeat() {		# COUNT TEXT
	awk -v n="$1" -v text="$2" 'BEGIN { while (n-- > 0) printf "%s", text }'
}

make_files() {
	www=$tmp/www
	mkdir -p "$www/sub" "$www/bare"
	echo one >"$www/1.txt"
	echo two >"$www/2.txt"
	echo '<p>index</p>' >"$www/index.html"
	echo '<p>sub</p>' >"$www/sub/index.html"
	: >"$www/empty"
	echo 'p { }' >"$www/style.css"
	repeat 64 0123456789abcdef >"$www/1k"
	echo space >"$www/with space.txt"
	head -c 65536 /dev/urandom >"$www/64k.png"
	head -c 65537 /dev/urandom >"$www/65k"
	head -c 20000000 /dev/urandom >"$www/big"
	head -c 1200000 /dev/zero >"$tmp/much"
	echo secret >"$tmp/secret"
	echo secret >"$www/locked"
	chmod 000 "$www/locked"
	ln -s ../secret "$www/escape"
	ln -s "$tmp/secret" "$www/absolute"
	ln -s .. "$www/up"
	ln -s 1.txt "$www/inside"
	mkfifo "$www/fifo"
}

test_arguments() {
	for arguments in '' "$port" "x $tmp" "0 $tmp" "99999 $tmp" "$port $tmp 1"; do
		# shellcheck disable=SC2086 # words
		"$httpd" $arguments >"$tmp/text" 2>&1
		same "arguments '$arguments'" 2 $?
		has "arguments '$arguments'" 'usage: ' "$tmp/text"
	done
	"$httpd" "$port" "$tmp/none" >"$tmp/text" 2>&1
	same 'no such directory' 1 $?
	has 'no such directory' 'No such file' "$tmp/text"
	"$httpd" "$port" "$tmp" >"$tmp/text" 2>&1
	same 'port in use' 1 $?
	has 'port in use' 'in use' "$tmp/text"
}

test_files() {
	for file in 1.txt 1k empty 64k.png 65k big index.html; do
		get 200 "/$file"
		cmp -s "$www/$file" "$tmp/body" || fail "/$file is not what was sent"
		has "/$file" "^Content-Length: $(wc -c <"$www/$file")$cr" "$tmp/head"
		get 200 "/$file" -I
		has "/$file, HEAD" "^Content-Length: $(wc -c <"$www/$file")$cr" "$tmp/head"
	done
	for name in Date Last-Modified ETag; do
		has "$name" "^$name: ..*" "$tmp/head"
	done
	has html '^Content-Type: text/html' "$tmp/head"
	get 200 /style.css && has css '^Content-Type: text/css' "$tmp/head"
	get 200 / && has index index "$tmp/body"
	get 200 /sub/ && has 'sub index' sub "$tmp/body"
	get 404 /sub
	get 404 /bare/
	get 404 /none
	get 404 /1.txt/
	get 200 '/1.txt?query'
	get 200 '/%31%2etxt'
	get 200 '/with%20space.txt'
	get 200 ///1.txt
	get 200 /sub/../1.txt
	get 200 /inside
	get 404 /fifo
	[ "$(id -u)" -eq 0 ] || get 404 /locked
	for path in /../secret /%2e%2e/secret /sub/../../secret /..%2fsecret /escape /absolute \
		/up/secret "/$tmp/secret" "//$tmp/secret"; do
		get 404 "$path"
		hasnt "$path" secret "$tmp/body"
	done
	get 404 /%
	get 404 /%zz
	get 404 /1.txt%00.html
	echo changed >"$www/2.txt"
	get 200 /2.txt && has changed changed "$tmp/body"
	echo 'and again' >"$www/2.txt"
	sleep 1.1                       # it is looked at once a second
	get 200 /2.txt && has 'changed again' again "$tmp/body"
	rm "$www/2.txt"
	sleep 1.1
	get 404 /2.txt
}

test_conditions() {
	get 200 /1k
	etag=$(sed -n "s/^ETag: \(.*\)$cr/\1/p" "$tmp/head")
	date=$(sed -n "s/^Last-Modified: \(.*\)$cr/\1/p" "$tmp/head")
	get 304 /1k -H "If-None-Match: $etag"
	has 304 "^ETag: $etag$cr" "$tmp/head"
	get 304 /1k -H "If-None-Match: \"x\", W/$etag"
	get 304 /1k -H 'If-None-Match: *'
	get 200 /1k -H 'If-None-Match: "x"'
	get 304 /1k -H "If-Modified-Since: $date"
	get 200 /1k -H 'If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT'
	get 200 /1k -H 'If-Modified-Since: yesterday'
	get 200 /1k -H 'If-None-Match: "x"' -H "If-Modified-Since: $date"
	for file in 1k 65k; do
		size=$(wc -c <"$www/$file")
		for part in '0-0 0 1' '0-99 0 100' "10- 10 $((size - 10))" \
			"-10 $((size - 10)) 10" "$((size - 1))- $((size - 1)) 1" \
			"5-$((size + 5)) 5 $((size - 5))" "-$((size + 5)) 0 $size"; do
			# shellcheck disable=SC2086 # words
			set -- $part
			get 206 /$file -r "$1"
			tail -c "+$(($2 + 1))" "$www/$file" | head -c "$3" |
				cmp -s - "$tmp/body" || fail "$file, range $1: wrong bytes"
			has "range $1" "^Content-Range: bytes $2-$(($2 + $3 - 1))/$size$cr" \
				"$tmp/head"
		done
		for range in "$size-" "$size-$((size + 1))" 5-4 -0; do
			get 416 /$file -r "$range"
			has "range $range" "^Content-Range: bytes \*/$size$cr" "$tmp/head"
		done
	done
}

test_if_range() {
	get 206 /1k -r 0-9 -H "If-Range: $etag"
	get 200 /1k -r 0-9 -H 'If-Range: "x"'
	get 206 /1k -r 0-9,20-29
	has 'the first range' "^Content-Range: bytes 0-9/" "$tmp/head"
	get 200 /1k -H 'Range: lines=0-9'
	get 200 /1k -I -r 0-9
	get 416 /empty -r 0-0
}

test_requests() {
	for method in POST PUT DELETE OPTIONS PATCH; do
		get 405 /1.txt -X $method -d body
		has $method "^Allow: GET, HEAD$cr" "$tmp/head"
	done
	get 405 / -T "$tmp/secret" -H 'Transfer-Encoding: chunked'
	get 200 /1.txt -X GET -d body
	get 200 /1.txt -X GET -d body -H 'Transfer-Encoding: chunked'
	get 200 /1.txt -0 && has 'HTTP/1.0' '^Connection: close' "$tmp/head"
	get 200 /1.txt -0 -H 'Connection: keep-alive'
	has 'kept alive' "^Connection: keep-alive$cr" "$tmp/head"
	get 200 /1.txt --http2          # an upgrade that it does not know
	raw_is 'no host' 400 'GET /1.txt HTTP/1.1\r\n\r\n'
	raw_is 'wrong version' 400 "GET /1.txt HTTP/x\r\n$host\r\n"
	raw_is 'unknown method' 400 "BREW /1.txt HTTP/1.1\r\n$host\r\n"
	raw_is 'wrong field' 400 "GET /1.txt HTTP/1.1\r\n${host}: c\r\n\r\n"
	raw_is 'wrong length' 400 "POST / HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n"
	raw_is 'two lengths' 400 \
		"POST / HTTP/1.1\r\n${host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
	raw_is 'wrong chunk' 400 \
		"POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nx\r\n"
	raw_is 'other coding' 400 "POST / HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n"
	raw_is garbage 400 '\001\002\003\r\n\r\n'
	raw_is 'half a request' '' 'GET /1.txt HTT'
	raw_is nothing '' ''
	raw_is 'bare line feeds' 200 "GET /1.txt HTTP/1.1\nHost: x\n\n"
	raw_is 'a line that ends in a lone CR' 400 'GET /1.txt\r\nH:\rm\r\nx'
	raw_is 'long URL' 404 "GET /$(repeat 3000 a) HTTP/1.1\r\n$host\r\n"
	raw_is 'long field' 200 "GET / HTTP/1.1\r\n${host}Range: $(repeat 3000 a)\r\n\r\n"
	raw_is 'long field of no use' 200 "GET / HTTP/1.1\r\n${host}Cookie: $(repeat 6000 a)\r\n\r\n"
	raw_is 'long head' 431 "GET / HTTP/1.1\r\n${host}$(repeat 3000 'a: b\\r\\n')\r\n"
	get 413 / -X POST --data-binary "@$tmp/much"
	get 413 / -X POST --data-binary "@$tmp/much" -H 'Transfer-Encoding: chunked'
	get 413 / -X POST --data-binary "@$tmp/much" -H Expect:
}

test_connections() {
	raw_is pipelined '200 200 404 405 206 304 200' "GET /1.txt HTTP/1.1\r\n$host\r\n\
HEAD /1k HTTP/1.1\r\n$host\r\nGET /none HTTP/1.1\r\n$host\r\n\
POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\na: b\r\n\r\n\
GET /1k HTTP/1.1\r\n${host}Range: bytes=-5\r\n\r\nGET /1k HTTP/1.1\r\n${host}If-None-Match: *\r\n\r\n\
GET /index.html HTTP/1.1\r\n$close\r\nGET /1k HTTP/1.1\r\n$host\r\n"
	same 'pipelined answers' 'one bcdef <p>index</p>' \
		"$(grep -o '^one$\|^bcdef\|^<p>.*' "$tmp/text" | paste -sd ' ' -)"
	has 'the last is told' '^Connection: close' "$tmp/text"
	raw "$(repeat $many 'GET /64k.png HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')GET / HTTP/1.1\r\n$close\r\n"
	checks=$((checks + 1))
	[ "$(wc -c <"$tmp/raw")" -gt $((many * 65536)) ] || fail 'pipelined and large: too short'
	same 'pipelined and large' $((many + 1)) "$(grep -ao 'HTTP/1.1 200 OK' "$tmp/raw" | wc -l)"
	same 'two with curl' '1 0' "$(curl -s -o "$tmp/body" -o "$tmp/body" -w '%{num_connects} ' \
		"$url/1k" "$url/1.txt" | sed 's/ $//')"
	printf 'GET /1.txt HTTP/1.1\r\nHost: x\r\n\r\nGET /1k HTTP/1.1\r\nHost: x\r\n\r\n' |
		timeout 600 socat -b1 -t600 - "TCP:127.0.0.1:$port,nodelay" | tr -d '\r' >"$tmp/text"
	same 'byte by byte' '200 200' "$(statuses)"
	printf 'GET /1.txt HTTP/1.1\r\nHost: x\r\n\r\n' |
		timeout 600 ncat 127.0.0.1 "$port" | tr -d '\r' >"$tmp/text"
	same ncat 200 "$(statuses)"
}

# Clients that never read, or go away in the middle, while others are served.
test_bad_clients() {
	# Descriptor 8 is hold_open()'s, who waits for all others to close it.
	(exec 8>&-; printf 'GET /big HTTP/1.1\r\nHost: x\r\n\r\n'; exec sleep 30) |
		ncat 127.0.0.1 "$port" 2>/dev/null 8>&- | (exec 8>&- sleep 30) &
	helpers="$helpers $!"
	for turn in 1 2 3 4 5; do
		curl -s "$url/big" | head -c 100000 >/dev/null
		timeout 0.2 curl -s --limit-rate 10000 "$url/65k" >/dev/null
		printf 'GET /big HTTP/1.1\r\nHost: x\r\n\r\n' |
			socat -u - "TCP:127.0.0.1:$port,linger=0"
		get 200 "/big?$turn"
	done
}

test_load() {
	wrk -t1 -c64 -d2s --timeout 600s "$url/1k" >"$tmp/text"
	hasnt wrk 'Socket errors\|Non-2xx' "$tmp/text"
	has wrk 'requests in' "$tmp/text"
	for file in 1k 65k; do
		h2load --h1 -n 10000 -c 64 -m 4 "$url/$file" >"$tmp/text" 2>&1
		has "h2load $file" '10000 succeeded, 0 failed, 0 errored, 0 timeout' "$tmp/text"
		has "h2load $file" 'status codes: 10000 2xx' "$tmp/text"
	done
	settles=
	for turn in 1 2 3 4 5 6 7 8; do
		h2load --h1 -n $((CONNECTIONS * 2)) -c "$CONNECTIONS" "$url/1k" >"$tmp/text" 2>&1
		has "$CONNECTIONS connections" "$((CONNECTIONS * 2)) succeeded, 0 failed, 0 errored" \
			"$tmp/text"
		settled "$CONNECTIONS connections" "$open"
		memory=$(anonymous)
		[ $turn -le 2 ] || [ "$memory" -gt $((before_load + 1024)) ] || settles=yes
		[ -z "$settles" ] || break
		before_load=$memory
	done
	# A leak goes on. More than ever may be open at once if a turn before was slow.
	[ "$settles" ] || fail "memory: $memory KiB after $turn loads, and still more each time"
}

# Once warm: a read and a write for each request, and hardly anything else.
test_calls() {
	if ! command -v strace >/dev/null || ! strace -qq true 2>/dev/null; then
		echo 'httpd: no strace, or not allowed: system calls are not counted'
		return
	fi
	h2load --h1 -n 64 -c 64 "$url/1k" >"$tmp/text" 2>&1
	strace -f -qq -c -o "$tmp/calls" -p $pid &
	tracer=$!
	until grep -q "^TracerPid:.$tracer" /proc/$pid/status; do
		sleep 0.05
		kill -0 $tracer 2>/dev/null || {        # only who began it may look at it
			echo 'httpd: strace may not attach: system calls are not counted'
			return
		}
	done
	h2load --h1 -n 10000 -c 10 "$url/1k" >"$tmp/text" 2>&1
	kill -INT $tracer
	wait $tracer
	has 'under strace' '10000 succeeded' "$tmp/text"
	# Beside one for each request, two reads that find the end of each connection, and a
	# write that wakes a processor.
	for pattern in 'write|send.*' 'read|recv.*'; do
		calls=$(awk -v p="^($pattern)\$" '$NF ~ p { n += $4 } END { print n + 0 }' \
			"$tmp/calls")
		if [ "$calls" -lt 10000 ] || [ "$calls" -gt 10100 ]; then
			fail "$calls of $pattern for 10000 requests"
		fi
	done
	others=$(awk '$1 ~ /^[0-9]/ && $NF !~ /^(write|send.*|read|recv.*|total|epoll.*)$/ { n += $4 }
		END { print n + 0 }' "$tmp/calls")
	[ "$others" -lt 500 ] || fail "other system calls: $(cat "$tmp/calls")"
}

# Its slots are used up, then its descriptors: those who come later wait, and are served.
test_limits() {
	before=few
	begin
	before=
	h2load --h1 -n 300 -c 300 "$url/1k" >"$tmp/text" 2>&1
	has 'few descriptors' '300 succeeded, 0 failed, 0 errored' "$tmp/text"
	stop 'few descriptors'
}

few() {			# in a shell of its own
	ulimit -n 100
	exec "$@"
}

curls() {		# NAME
	while curl -s -o /dev/null -w '%{http_code} %{exitcode}\n' "$url/1k"; do
		:
	done >"$tmp/curl.$1"
}

has_ended() {		# COMMAND...
	! "$@"
}

# What was received, even in part, is answered; then it ends.
test_end() {
	begin
	wrk -t1 -c64 -d4s --timeout 600s "$url/1k" >"$tmp/wrk" 2>&1 &
	waiting=$!
	for name in 1 2 3 4; do
		curls $name &
		waiting="$waiting $!"
	done
	curl -s --limit-rate 10M -o "$tmp/large" "$url/big" &
	waiting="$waiting $!"
	for file in curl.1 curl.2 curl.3 curl.4 large; do
		until_true 600 test -s "$tmp/$file"
	done
	hold_open half
	waiting="$waiting $!"
	printf 'GET /empty HTTP/1.1\r\nHost: x\r\n\r\nGET /1.txt HTT' >&8
	until_true 600 test -s "$tmp/half"       # so it has the other half as well
	kill -TERM $pid
	until_true 600 has_ended listens "$port"
	printf 'P/1.1\r\nHost: x\r\n\r\n' >&8
	stop 'under load'
	exec 8>&-
	for waited in $waiting; do
		wait "$waited"
	done
	tr -d '\r' <"$tmp/half" >"$tmp/text"
	same 'half a request' '200 200' "$(statuses)"
	has 'half a request' '^Connection: close' "$tmp/half"
	cmp -s "$www/big" "$tmp/large" || fail 'what was on its way was cut off'
	has wrk 'requests in' "$tmp/wrk"
	hasnt wrk 'timeout [1-9]\|Non-2xx' "$tmp/wrk"        # others: nobody listens
	for name in 1 2 3 4; do
		# The last finds nobody who listens, or is reset: it came between the last
		# look for others and the end of that.
		same "curl $name" '000 7' \
			"$(tail -n 1 "$tmp/curl.$name" | sed 's/5[56]$/7/')"
		same "curl $name" 0 "$(sed '$d' "$tmp/curl.$name" | grep -cv '^200 0$')"
		has "curl $name" '^200 0$' "$tmp/curl.$name"
	done
}

has_unread() {		# NUMBER: of connections
	[ "$(established "$port" ':.*[1-9A-F]')" -eq "$1" ]
}

# So is what the system has accepted when the server sees that it is to end.
test_accepted() {
	begin
	kill -STOP $pid
	kill -TERM $pid
	waiting=
	for name in 1 2 3 4 5 6; do
		curl -s -o /dev/null -w '%{http_code} %{exitcode}\n' "$url/1k" \
			>"$tmp/curl.$name" &
		waiting="$waiting $!"
	done
	until_true 600 has_unread 6
	kill -CONT $pid
	for waited in $waiting; do
		wait "$waited"
	done
	for name in 1 2 3 4 5 6; do
		same "accepted, $name" '200 0' "$(cat "$tmp/curl.$name")"
	done
	stop 'with clients that are not looked at yet'
}

# Who does not take his answer is cut off in the end.
test_cut() {
	begin
	mkfifo "$tmp/deaf"
	hold_open deaf ,rcvbuf=65536
	helpers="$helpers $!"
	exec 9<"$tmp/deaf"
	printf 'GET /big HTTP/1.1\r\nHost: x\r\n\r\n' >&8
	head -c 1 <&9 >"$tmp/text"              # it has begun
	kill -INT $pid
	wait $pid
	same 'cut off' 1 $?
	exec 8>&- 9<&-
}

test_valgrind() {
	if ! command -v valgrind >/dev/null || [ ! -f /usr/include/valgrind/memcheck.h ]; then
		echo 'httpd: no valgrind: leaks are not looked for'
		return
	fi
	# Many a valgrind does not know openat2().
	sed 's/syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how)/open(path + 1, O_RDONLY)/' \
		examples/05-httpd.c >"$tmp/httpd.c"
	if cmp -s examples/05-httpd.c "$tmp/httpd.c"; then
		fail 'no openat2() to be replaced'
	fi
	sources=$(sed -n '/^ \*\//q; s/ -o httpd$//; s/ \\$//; s/^ \*   cc [^ ]* //p;
		s/^ \*      \([a-z].* -lhttp_parser\)/\1/p' examples/05-httpd.c)
	# shellcheck disable=SC2086 # words
	if ! ${CC:-cc} -g "$tmp/httpd.c" $sources -o "$tmp/httpd"; then
		fail 'does not compile for valgrind'
		return
	fi
	httpd=$tmp/httpd
	many=30
	before='valgrind -q --leak-check=full --errors-for-leak-kinds=definite
		--show-leak-kinds=definite --error-exitcode=99'
	begin
	before=
	test_conditions
	test_connections
	h2load --h1 -n 300 -c 30 "$url/1k" >"$tmp/text" 2>&1
	has 'under valgrind' '300 succeeded' "$tmp/text"
	get 413 / -X POST --data-binary "@$tmp/much"
	curl -s "$url/big" | head -c 100000 >/dev/null
	stop 'under valgrind'
}

make_files
begin
open=$(descriptors $pid)
hold_open slow
slow=$!
printf 'GET /1.txt HTTP/1.1\r\nHos' >&8
test_arguments
test_files
test_conditions
test_if_range
test_requests
test_connections
test_bad_clients
until_true 600 test -s "$tmp/slow"
exec 8>&-
wait $slow
has 'slow head' '^HTTP/1.1 408' "$tmp/slow"
# shellcheck disable=SC2086 # words
kill $helpers 2>/dev/null
helpers=
settled 'bad clients' "$open"
test_load
test_calls
stop server
patient 05-httpd STALL -lhttp_parser || fail 'no patient one'
httpd=$tmp/05-httpd
test_end
test_accepted
httpd=$B/examples/05-httpd
test_limits
test_cut
test_valgrind
[ $failed -eq 0 ] || exit 1
echo "httpd: $checks checks, up to $CONNECTIONS connections"
