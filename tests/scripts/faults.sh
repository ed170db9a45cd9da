#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The example servers, where the n-th call fails, for n = 1, 2, 3 ... until no call is left
# that can fail. Calls run out of memory, descriptors or native threads; they report errors
# of connections and disks; they are interrupted; they are short; or forty fail in a row.
#
# A server that cannot start says so and exits with 1. Otherwise at most one client suffers:
# it gets an error or is disconnected. All others get right answers. Afterwards as many
# descriptors are open, and at the end as much memory is left, as without the failure.
# SIGTERM ends the server with 0. No client hangs. Servers that can have several processors
# are tried with one and with two. 10-https is tried from its second client on, with curl:
# see measure_start().
#
#   B      the build directory: the servers are B/examples/NN-name
#   CC     the compiler
#   PORT   servers get ports from this one on
#   LONG   set: every n, and not only every few
# shellcheck shell=bash disable=SC2016	# dollars are of the protocol of Redis
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ -z "${BASH_VERSION-}" ] && command -v bash >/dev/null; then
	exec bash "$0" "$@"
fi
. tests/scripts/test.lib
need bash

if grep -q '^CFLAGS=.*-fsanitize=' "$B/flags"; then
	skip "a sanitizer has calls of its own"
fi
PORT=${PORT:-$((29000 + $$ % 2000))}
backend=''
at_exit() {
	# shellcheck disable=SC2046
	kill $backend $(jobs -p) 2>/dev/null
}
trap '' PIPE                            # clients get an error instead
LATE=600                                # seconds: what takes so long hangs
FEW=12                                  # failures of a kind, in the short form

# Of fault.h.
kinds=(used_up broken interrupted short famine)

# shellcheck disable=SC2086
${CC:-cc} -O1 -g -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -fPIC -shared -DFAULT_PRELOAD \
	tests/help/fault.c -o "$dir/fault.so" -ldl || exit 1

# ---- Clients, by bash's own connections. 0: they were served rightly; 1: not, and were ----
# told so or disconnected; 2: they hang; 3: they got something else.

dial() {		# PORT: sets $fd
	{ exec {fd}<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null
}

hang_up() {
	exec {fd}>&-
}

# The next line must be this.
expect() {		# TEXT
	local line='' status
	IFS= read -r -t $LATE -u "$fd" line 2>/dev/null
	status=$?
	[ $status -le 128 ] || return 2
	[ $status -eq 0 ] || return 1
	case $line in
	"$1")	return 0 ;;
	-OOM* | -ERR*) return 1 ;;
	*)	return 3 ;;
	esac
}

client_of_echo() {
	local line=a
	while [ ${#line} -lt 3000 ]; do
		line=$line$line
	done
	printf 'hello\n' >&"$fd" && expect hello && printf '%s\n' "$line" >&"$fd" && expect "$line"
}

client_of_proxy() {
	client_of_echo
}

# By curl, with a connection of its own: $fd is none. Answers are kept by their paths, and
# here the second path is a new one each time.
client_of_https() {
	local reply status
	slashes=/$slashes
	reply=$(curl -sS -m $LATE --fail-early --cacert "$dir/cert.pem" "https://localhost:$port/file" \
		"https://localhost:$port$slashes/file" -w '%{http_code}' 2>/dev/null)
	status=$?
	case $status:$reply in
	"0:${content}200${content}200") return 0 ;;
	0:*503*) return 1 ;;
	0:*)	return 3 ;;
	28:*)	return 2 ;;
	7:*)	return 4 ;;
	*)	return 1 ;;
	esac
}

client_of_httpd() {
	local reply='' status
	printf 'GET /file HTTP/1.1\r\nHost: a\r\n\r\n%s' \
		$'GET /file HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >&"$fd"
	IFS= read -r -d '' -t $LATE -u "$fd" reply 2>/dev/null
	status=$?
	[ $status -le 128 ] || return 2
	case $reply in
	'HTTP/1.1 200 OK'*"$content"'HTTP/1.1 200 OK'*"$content") return 0 ;;
	*'HTTP/1.1 4'*) return 3 ;;
	*)	return 1 ;;             # 503, or not all of it
	esac
}

# A command in the protocol of Redis, and the lines of its reply.
ask() {			# COMMAND REPLY...
	local word words text
	read -r -a words <<<"$1"
	shift
	text="*${#words[@]}"$'\r\n'
	for word in "${words[@]}"; do
		text+="\$${#word}"$'\r\n'$word$'\r\n'
	done
	printf '%s' "$text" >&"$fd"
	for word; do
		expect "$word"$'\r' || return
	done
}

# What keys there are, if an earlier client was not served to the end, is not known.
clear_kv() {
	local line=''
	ask "DEL a b l n q"
	IFS= read -r -t $LATE -u "$fd" line 2>/dev/null
	[ $? -le 128 ] || return 2
	[[ $line = :* ]]
}

# One waits for what another gives it.
hand_over() {
	local giver=$fd taker status
	dial "$port" || return 1
	taker=$fd
	ask "BLPOP q 100" && fd=$giver && ask "LPUSH q x" :1 && fd=$taker &&
		expect '*2'$'\r' && expect '$1'$'\r' && expect q$'\r' && expect '$1'$'\r' &&
		expect x$'\r'
	status=$?
	fd=$taker
	hang_up
	fd=$giver
	return $status
}

client_of_kv() {
	clear_kv && ask "SET a 1" +OK && ask "GET a" '$1' 1 && ask "MSET a 2 b 3" +OK &&
	ask "MGET a b" '*2' '$1' 2 '$1' 3 && ask "SET a 5 EX 100" +OK && ask "INCR n" :1 &&
	ask "INCR n" :2 && ask "EXPIRE n 100" :1 && ask "LPUSH l 1 2 3" :3 &&
	ask "LPOP l" '$1' 3 && ask "BLPOP l 1" '*2' '$1' l '$1' 2 && hand_over &&
	ask "SET l s" +OK && ask "SUBSCRIBE c" '*3' '$9' subscribe '$1' c :1 &&
	ask "PUBLISH c hi" '*3' '$7' message '$1' c '$2' hi :1
}

# ---- A server, and what became of it: one line, in $said ----

# start KIND FIRST LAST: sets $server, its process, and $out, what it prints. 0: it is ready.
start() {
	local line=''
	: >"$tmp/log"
	(
		trap - PIPE
		exec env LD_PRELOAD="$dir/fault.so" FAULT="$1:$2:$3" FAULT_LOG="$tmp/log" \
			"$program" "$port" "${arguments[@]}" >"$tmp/out" 2>"$tmp/errors"
	) &
	server=$!                       # of <(...) wait does not always know the status
	exec {out}<"$tmp/out"
	IFS= read -r -t $LATE -u "$out" line
	[ "$line" = ready ]
}

failures() {		# how many calls have failed: $failed
	local name
	failed=0
	while read -r name _; do
		[ "$name" = held ] || failed=$((failed + 1))
	done <"$tmp/log"
}

# There is the end of what it prints, if not now, then soon.
has_ended() {
	local line=''
	IFS= read -r -t $LATE -u "$out" line
	[ $? -le 128 ]
}

# Until it has ended by itself: sets $status.
await_end() {
	local line=''
	IFS= read -r -d '' -t $LATE -u "$out" line
	if [ $? -gt 128 ]; then
		kill -KILL "$server" 2>/dev/null
	fi
	exec {out}<&-
	wait "$server"
	status=$?
	server=''
}

count_descriptors() {
	local all=("/proc/$server/fd"/*)
	count=${#all[@]}
}

pause() {		# SECONDS: no process is made for that
	local line=''
	IFS= read -r -t "$1" -u "$out" line
}

# No more than without failures, after a while.
all_closed() {
	local tries
	for ((tries = 0; tries < 50 * LATE; tries++)); do
		count_descriptors
		[ "$count" -gt "$1" ] || return 0
		pause 0.02
	done
	return 1
}

# Clients until two in a row were served rightly. How many were not: $wronged. Those do not
# count that find no listener.
serve_clients() {
	local right=0 rc
	wronged=0
	while [ $right -lt 2 ] && [ $wronged -le 60 ]; do
		if [ "$name" = https ]; then
			client_of_https
			rc=$?
			[ $rc -ne 4 ] || return 1
		else
			dial "$port" || return 1
			"client_of_$name" 2>/dev/null
			rc=$?
			hang_up
		fi
		case $rc in
		0)	right=$((right + 1)) ;;
		1)	right=0 wronged=$((wronged + 1)) ;;
		*)	return $rc ;;
		esac
	done
	[ $right -eq 2 ]
}

# Sets $first, the first call after one client. OpenSSL loads what it needs when it is first
# needed. Without memory for that it loses algorithms, in silence, and refuses all clients.
measure_start() {
	local calls
	start "$1" 1000000 1000000 && client_of_https && end || return
	read -r _ _ calls <"$tmp/log"
	first=$((calls + 1))
}

# measure KIND: sets $open, $left, $calls: descriptors, what is left over in the end, and
# the calls that can fail, without failures. And $port, which must be free.
measure() {
	local last=$((port + 20)) tries
	until start "$1" 1000000 1000000; do
		await_end
		port=$((port + 1))
		[ $port -lt $last ] || return 1
	done
	serve_clients && [ $wronged -eq 0 ] || return 1
	open=1000000
	for ((tries = 0; tries < 10; tries++)); do      # all connections are closed in the end
		pause 0.03
		count_descriptors
		[ "$count" -ge "$open" ] || open=$count
	done
	said='' left=1000000
	end
	[ -z "$said" ] && read -r _ left calls <"$tmp/log"
	[ "$name" != httpd ] || left=$((left + 1))      # libc's, of the pool's native thread
	[ "$name" != https ] || left=$((left + 33))     # and 2 texts of each of 16 errors
}

refused() {		# it has not started: rightly?
	await_end
	failures
	[ "$status" -eq 1 ] && [ -s "$tmp/errors" ] && [ "$failed" -gt 0 ] && return
	said="status $status, says '$(cat "$tmp/errors")'"
	return 1
}

# judge MOST: all were served but a few; how many failures make up for that?
judge() {
	failures
	if [ "$wronged" -gt "$1" ] || { [ "$wronged" -gt 0 ] && [ "$failed" -eq 0 ]; }; then
		said="$wronged clients were not served for $failed failures"
	elif ! all_closed "$open"; then
		said="$count descriptors, not $open"
	fi
}

end() {
	local held=0
	kill -TERM "$server"
	await_end
	read -r _ held _ < <(grep '^held' "$tmp/log")
	if [ "$status" -ne 0 ]; then
		said="status $status after SIGTERM${said:+; $said}; $(cat "$tmp/errors")"
	elif [ "$held" -gt "$left" ]; then
		said="$held is left over, not $left${said:+; $said}"
	fi
	failures
}

# attempt KIND FIRST LAST
attempt() {
	local tries=0
	until start "$@"; do
		said=''
		refused && return
		# If nothing has failed, its port may be in use for now.
		[ "$failed" -eq 0 ] && [ $((tries += 1)) -le 3 ] || return 1
		port=$((port + 1))
	done
	said=''
	serve_clients
	case $? in
	0)	judge $(($3 - $2 + 1)) ;;
	1)	# The one that it had, and one that came while it ended.
		if [ "$wronged" -le 2 ] && has_ended; then
			refused
			return
		fi
		said="no client is served any more" ;;
	2)	said="a client hangs" ;;
	3)	said="a client got something else" ;;
	esac
	end
	[ -z "$said" ]
}

# sweep NAME KIND PORT PROGRAM [ARGUMENT...]: of one server, with calls of one kind that
# fail. It gets the port before its arguments.
sweep() {
	local n kind first=1 width=1 step=1 made=0 bad=0 total=0
	name=$1 what=$2 port=$3 program=$4
	shift 4
	arguments=("$@")
	server='' slashes=''
	trap '[ -z "$server" ] || kill -KILL $server 2>/dev/null' EXIT
	trap 'exit 1' HUP INT TERM
	tmp=$dir/$name.$what.$port
	mkdir "$tmp"
	mkfifo "$tmp/out"
	for ((kind = 0; kind < ${#kinds[@]}; kind++)); do
		[ "${kinds[kind]}" != "$what" ] || break
	done
	if [ "$what" = famine ]; then
		kind=0 width=40
	fi
	measure $kind || {
		note "FAIL: $name does not work without failures" >&2
		return 1
	}
	[ "$name" != https ] || measure_start $kind || return
	[ -n "${LONG-}" ] || step=$(((calls - first) / FEW + 1))
	for ((n = first; n <= calls; n += step)); do
		made=$((made + 1))
		attempt $kind $n $((n + width - 1)) || {
			bad=$((bad + 1))
			note "FAIL: $name ${arguments[*]}, $what, call $n ($(head -n 1 "$tmp/log")): $said" >&2
		}
		total=$((total + failed))
	done
	echo "$made $bad $total"
}

# ---- All of it ----

content=$(for ((i = 0; i < 300; i++)); do echo "line $i"; done)
mkdir "$dir/www"
printf '%s' "$content" >"$dir/www/file"

# The server behind the proxy.
for port in $(seq "$PORT" $((PORT + 19))); do
	exec {ready}< <(trap - PIPE; exec "$B/examples/04-echo" "$port" 1 2>"$dir/errors")
	backend=$!
	IFS= read -r -t $LATE -u "$ready" line && break
done

certify() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 10 \
		-keyout "$dir/key.pem" -out "$dir/cert.pem" -subj /CN=localhost \
		-addext 'subjectAltName=DNS:localhost' 2>/dev/null
}

# all SERVER [ARGUMENT...]: of its port apart.
all() {
	local what program="$B/examples/$1"
	if [ ! -x "$program" ]; then
		note "there is no $program"
		return
	fi
	shift
	servers=$((servers + 1))
	for what in "${kinds[@]}"; do
		next=$((next + 20))
		sweep "${program##*-}" "$what" $next "$program" "$@" >"$dir/count.$next" &
		sweeps="$sweeps $!"
	done
}

servers=0 next=$PORT sweeps=''
all 04-echo 1
all 04-echo 2
all 05-httpd "$dir/www"
all 06-kv
all 07-proxy "127.0.0.1:$port" 1
all 07-proxy "127.0.0.1:$port" 2
if [ -x "$B/examples/10-https" ] && command -v curl >/dev/null && certify; then
	all 10-https "$dir/www" "$dir/cert.pem" "$dir/key.pem"
else
	note "10-https is not tried: it, curl or openssl is not there"
fi
# shellcheck disable=SC2086
wait $sweeps
cat "$dir"/count.* | awk -v servers=$servers -v kinds=${#kinds[@]} '
	{ made += $1; bad += $2; failed += $3 }
	END {
		print "faults: " servers " servers, " made " attempts, " failed " calls failed, " bad " not borne"
		exit !(servers > 0 && failed > 0 && NR == servers * kinds && bad == 0)
	}'
