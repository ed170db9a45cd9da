#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Programs of others that were written for threads of libc, as the distribution has them:
# microsocks, tinyproxy, a pair of stunnel, and tests/help/adopt_httpd.c over libmicrohttpd.
# Each is run natively, with libusched-posix.so preloaded, and so with shared stacks. Their
# clients are bench/load.c, which compares each byte, and curl, wrk, ncat, openssl.
# Libraries are called by many threads, with bench/adopt/clients.c: preloaded, linked with
# libusched-posix.so before libc, and compiled with uposix.h. What is not there is left out,
# and said so.
#
#   LONG=1   more clients and bytes; and the clients themselves are preloaded, redis-cli
#            and psql among them, with servers of their own behind the proxies; libpq,
#            hiredis, libcurl and OpenSSL as well as SQLite and zlib, by 200 threads
#   COLUMNS  default: preload, and with LONG=1 "native preload shared"
set -u
cd "$(dirname "$0")/../.." || exit 1
PORT=${PORT:-$((28000 + $$ % 900))}
# shellcheck source=tests/scripts/adopt.lib
. tests/scripts/adopt.lib
if [ -n "${LONG-}" ]; then
	columns=${COLUMNS:-native preload shared} clients=500 bytes=100000 rounds=20
else
	columns=${COLUMNS:-preload} clients=50 bytes=20000 rounds=10
fi
need openssl timeout
case $columns in
*preload* | *shared*) need_posix ;;
esac
programs=                       # that were tried, for the last line
FEW=12                          # native threads of a process over usched

# in_time COMMAND...: with a limit. What hangs is a failure, not a test that hangs.
in_time() {
	timeout -k 5 "${LIMIT:-600}" "$@"
}

# ---- Servers ----

has_ended() {		# SERVER
	! kill -0 "$1" 2>/dev/null
}

# ends SERVER NAME STATUS: upon SIGTERM.
ends() {
	kill -TERM "$1"
	if ! until_true 600 has_ended "$1"; then
		fail "$column: $2 does not end upon SIGTERM"
		kill -KILL "$1"
	fi
	wait "$1"
	same "$column: exit status of $2" "$3" $?
	forget "$1"
	# Libraries with thread-local variables are told at load; and a busy machine may be
	# slow. That is all it may say.
	grep -iE 'usched|uposix|deadlock|assert' "$dir/said.$1" |
		grep -v 'thread-local variables\|: its other threads wait' >"$dir/bad" &&
		fail "$column: $2 says $(head -n 5 "$dir/bad")"
}

# ---- Clients ----

# asks WHAT EXPECTED COMMAND...: what a command prints, and its exit status.
asks() {
	what=$1 expected=$2
	shift 2
	same "$column: $what" "$expected" "$(in_time "$@" 2>"$dir/errors"; echo ":$?")"
}

# loads WHAT OPTION...: connections by load.c; what it prints is in $dir/load.
loads() {
	what=$1
	shift
	count=$((count + 1))
	in_time "$dir/load" run -t 300 "$@" >"$dir/loaded" 2>&1 ||
		fail "$column: $what: load $*: $(tail -n 5 "$dir/loaded")"
}

at_most() {		# SERVER NUMBER
	[ "$(descriptors "$1")" -le "$2" ]
}

# returns_after NAME SERVER COMMAND...: to its descriptors. If a processor has got its own
# meanwhile, the command comes again; a leak goes on.
returns_after() {
	returning=$1 process=$2
	shift 2
	for _ in 1 2 3; do
		until_true 600 asleep "$process"
		opened=$(descriptors "$process")
		"$@"
		until_true 60 at_most "$process" "$opened" && return
	done
	fail "$column: $returning has $(descriptors "$process") descriptors, not $opened"
}

# talks NAME SERVER OPTION...: all that load.c can do through a server. Its threads are
# usched's, or libc's; in the end it has the descriptors that it had.
talks() {
	name=$1 watched=$2
	shift 2
	loads "$name, first clients" -n 50 -k 3 "$@"    # processors have their descriptors now
	returns_after "$name" "$watched" talk "$@"
}

talk() {		# OPTION...: as of talks()
	loads "$name, messages" -n $clients -k $rounds -m $bytes -v "$@"
	loads "$name, large ones" -n 10 -k 3 -m 1000000 "$@"
	loads "$name, clients come and go" -n 20 -k 2 -r $rounds "$@"
	loads "$name, clients come and go, closed by the server" -n 20 -k 2 -e -r $rounds "$@"
	loads "$name, idle" -n $clients -i 0.5 -w "$watched" "$@"
	threads=$(sed -n 's/.* threads \([-0-9]*\) .*/\1/p' "$dir/loaded")
	case $column in
	native)	[ "${threads:-0}" -ge $((clients / 2)) ] ;;
	*)	[ "${threads:-999}" -lt $FEW ] ;;
	esac || fail "$column: $name has ${threads-no} native threads more for $clients clients"
}

# fetches NAME HOST CURL-ARGUMENT...: files, one after the other and several at a time.
fetches() {
	name=$1 host=$2
	shift 2
	asks "$name, curl" 'hello:0' curl -sS "$@" "http://$host:$web/small"
	rm -f "$dir"/got.*
	asks "$name, curl, files" ':0' curl -sS -Z --parallel-max 20 "$@" \
		-o "$dir/got.#1" "http://127.0.0.1:$web/large?[1-20]"
	for i in 1 5 20; do
		cmp -s "$dir/large" "$dir/got.$i" || fail "$column: $name: file $i is another one"
	done
}

# ---- The programs ----

# tried NAME PROGRAM: if it is there.
tried() {
	case " $programs " in *" $1 "*) ;; *)
		if command -v "$2" >/dev/null; then
			programs="$programs $1"
		else
			note "without $1: there is no $2"
			return 1
		fi ;;
	esac
}

# socks_host: sets $host to $localhost if microsocks itself, natively, reaches a server at
# 127.0.0.1 by that name. It tries the first address only, which may be ::1.
socks_host() {
	host=$localhost
	free_port
	begin_as env microsocks -i 127.0.0.1 -p "$port" || return
	if ! in_time curl -sS -o "$dir/got" --noproxy "" \
		--proxy "socks5h://127.0.0.1:$port" "http://$host:$web/small" 2>"$dir/errors"
	then
		host=127.0.0.1
		unnamed="; microsocks none by name, natively neither: $(tail -n 1 "$dir/errors")"
	fi
	ends "$server" microsocks 143
}

try_microsocks() {
	tried microsocks microsocks || return
	host=
	[ -z "$web" ] || ! command -v curl >/dev/null || socks_host
	free_port
	begin microsocks -i 127.0.0.1 -p "$port" || return
	talks microsocks "$server" -p socks -b "$echo" "$port"
	if [ -n "$host" ]; then
		fetches microsocks "$host" --noproxy "" --proxy "socks5h://127.0.0.1:$port"
		asks 'microsocks, a name that is none' ':97' curl -sS \
			--noproxy "" --proxy "socks5h://127.0.0.1:$port" http://none.invalid/
	fi
	asks 'microsocks, nothing listens there' ':97' curl -sS \
		--noproxy "" --proxy "socks5://127.0.0.1:$port" http://127.0.0.1:1/
	if [ -n "${LONG-}" ] && command -v ncat >/dev/null; then
		asks 'microsocks, ncat' 'hello:0' sh -c "printf hello | ncat --no-shutdown --proxy-type socks5 \
			--proxy 127.0.0.1:$port --proxy-dns none -i 10 127.0.0.1 $echo; true"
	fi
	ends "$server" microsocks 143
}

try_tinyproxy() {
	tried tinyproxy tinyproxy || return
	begin_tinyproxy || return
	talks tinyproxy "$server" -p connect -b "$echo" "$port"
	if [ -n "$web" ] && command -v curl >/dev/null; then
		fetches tinyproxy "$localhost" --noproxy "" --proxy "http://127.0.0.1:$port"
		asks 'tinyproxy, no such file' '404:0' curl -sS -o /dev/null -w '%{http_code}' \
			--noproxy "" --proxy "http://127.0.0.1:$port" "http://127.0.0.1:$web/none"
		asks 'tinyproxy, nothing listens there' '500:0' curl -sS -o /dev/null \
			-w '%{http_code}' --noproxy "" --proxy "http://127.0.0.1:$port" http://127.0.0.1:1/
		by_wrk tinyproxy "http://127.0.0.1:$port" "http://127.0.0.1:$web/small"
	fi
	ends "$server" tinyproxy 0
}

# by_wrk NAME URL [PATH]: requests of many connections, each answered by 200. With a path it
# is asked of the server at the URL, a proxy; tinyproxy closes after each answer without
# saying so before, which wrk calls an error of read.
by_wrk() {
	[ -n "${LONG-}" ] && command -v wrk >/dev/null || return
	also=e.read
	[ -z "${3-}" ] || also=0
	cat >"$dir/wrk.lua" <<-END
		request = function() return wrk.format("GET", "${3-}") end
		done = function(summary)
			local e = summary.errors
			print("bad", e.connect + e.status + e.timeout + $also, summary.requests > 0)
		end
	END
	[ -n "${3-}" ] || sed -i 1d "$dir/wrk.lua"
	in_time wrk -t 2 -c 100 -d 2 --timeout 600s -s "$dir/wrk.lua" "$2" >"$dir/wrk" 2>&1
	same "$column: $1, wrk" 'bad 0 true' "$(grep '^bad' "$dir/wrk" | tr '\t' ' ')"
}

# Its input ends when the echo has come.
talk_tls() {
	rm -f "$dir/ended"
	: >"$dir/echo"
	{
		printf hello
		until grep -q hello "$dir/echo" || [ -e "$dir/ended" ]; do
			sleep 0.1
		done
	} | {
		in_time openssl s_client -quiet -verify_quiet -verify_return_error \
			-CAfile "$dir/cert.pem" -no_ign_eof -connect "127.0.0.1:$tls" \
			>"$dir/echo" 2>"$dir/errors"
		echo ":$?" >"$dir/ended"
	}
	same "$column: stunnel, s_client" 'hello:0' "$(cat "$dir/echo" "$dir/ended")"
}

try_stunnel() {
	tried stunnel stunnel4 || return
	certify
	stunnel_server "$echo" && stunnel_client || return
	talks 'stunnel, client' "$plain_server" "$plain"
	talk_tls
	end_stunnel
	[ -n "$web" ] && command -v curl >/dev/null || return
	stunnel_server "$web" || return
	asks 'stunnel, curl' 'hello:0' curl -sS --cacert "$dir/cert.pem" \
		"https://localhost:$tls/small"
	asks 'stunnel, curl, a file' ':0' curl -sS --cacert "$dir/cert.pem" -o "$dir/got" \
		"https://localhost:$tls/large"
	cmp -s "$dir/large" "$dir/got" || fail "$column: stunnel: the file is another one"
	ends "$tls_server" 'stunnel, server' 0
}

try_httpd() {
	[ -n "${LONG-}" ] || return
	if [ ! -x "$dir/httpd" ]; then
		if ! $CC -O2 tests/help/adopt_httpd.c -lmicrohttpd -o "$dir/httpd" -pthread 2>"$dir/errors"
		then
			note "without libmicrohttpd: $(grep -m 1 error "$dir/errors")"
			return
		fi
		programs="$programs libmicrohttpd"
	fi
	free_port
	begin "$dir/httpd" "$port" "$dir/large" || return
	asks 'libmicrohttpd, curl' 'hello:0' curl -sS "http://127.0.0.1:$port/small"
	asks 'libmicrohttpd, curl, two of one connection' 'helloslow
:0' curl -sS "http://127.0.0.1:$port/small" "http://127.0.0.1:$port/slow/100"
	returns_after libmicrohttpd "$server" ask_httpd
	ends "$server" libmicrohttpd 0
}

ask_httpd() {
	asks 'libmicrohttpd, curl, a file' ':0' curl -sS -o "$dir/got" "http://127.0.0.1:$port/file"
	cmp -s "$dir/large" "$dir/got" || fail "$column: libmicrohttpd: the file is another one"
	asks 'libmicrohttpd, curl, a file that comes back' ':0' curl -sS -o "$dir/got" \
		--data-binary "@$dir/large" "http://127.0.0.1:$port/echo"
	cmp -s "$dir/large" "$dir/got" || fail "$column: libmicrohttpd: another file comes back"
	asks 'libmicrohttpd, slow ones' ":0" curl -sS -Z --parallel-max 100 -o /dev/null \
		"http://127.0.0.1:$port/slow/[200-300]"
	by_wrk libmicrohttpd "http://127.0.0.1:$port/small"
}

# Programs that are clients, in this column themselves; native servers.
try_clients() {
	[ -n "${LONG-}" ] || return
	if [ -n "$web" ] && command -v curl >/dev/null; then
		asks 'curl itself' 'hello:0' $over curl -sS "http://$localhost:$web/small"
		asks 'curl itself, files' ':0' $over curl -sS -Z --parallel-max 20 -o "$dir/got.#1" \
			"http://$localhost:$web/large?[1-20]"
		if command -v wrk >/dev/null; then
			# Not $dir/wrk.lua, which asks a proxy.
			in_time $over wrk -t 2 -c 100 -d 2 --timeout 600s \
				"http://127.0.0.1:$web/small" >"$dir/wrk" 2>&1
			same "$column: exit status of wrk itself" 0 $?
			has 'requests in' "$dir/wrk"
			same "$column: wrk itself" '' "$(grep -E 'Non-2xx|Socket errors' "$dir/wrk")"
		fi
	fi
	try_redis
	try_postgres
}

# redis-cli and psql themselves, and through a pair of stunnel.
try_redis() {
	command -v redis-cli >/dev/null && begin_redis || return
	redis=$server
	asks 'redis-cli itself' "$(printf 'OK\nvalue\n:0')" $over redis-cli -p "$port" <<-END
		set key value
		get key
	END
	asks 'redis-benchmark itself' "$(printf '3\n:0')" sh -c "$over redis-benchmark --csv \
		-p $port -n 2000 -c 50 -t set,get --threads 2 | wc -l"
	stunnel_server "$port" && stunnel_client && {
		asks 'redis-cli through stunnel' "$(printf 'value\n:0')" \
			redis-cli -p "$plain" get key
		end_stunnel
	}
	quit "$redis" TERM
}

try_postgres() {
	command -v psql >/dev/null && begin_postgres || return
	postgres=$server
	export PGCONNECT_TIMEOUT=600 PGUSER=postgres PGSSLMODE=disable
	sum='select sum(length(repeat(i::text, 1000))) from generate_series(1, 10000) i'
	asks 'psql itself' "$(printf '38894000\n:0')" $over psql -X -A -t -h 127.0.0.1 \
		-p "$port" -c "$sum"
	stunnel_server "$port" && stunnel_client && {
		asks 'psql through stunnel' "$(printf '38894000\n:0')" psql -X -A -t \
			-h 127.0.0.1 -p "$plain" -c "$sum"
		asks 'psql through stunnel, many bytes' "$(printf '1000000\n:0')" sh -c "psql -X \
			-A -t -h 127.0.0.1 -p $plain -c \
			\"select repeat('x', 1000) from generate_series(1, 1000)\" | tr -cd x | wc -c"
		end_stunnel
	}
	quit "$postgres" INT
}

end_stunnel() {
	ends "$plain_server" 'stunnel, client' 0
	ends "$tls_server" 'stunnel, server' 0
}

# wants MODE: of clients.c. Those with servers take longer.
wants() {
	case ${LONG:+long}:$1 in long:* | :sqlite | :zlib) ;; *) false ;; esac
}

# calls MODE ROUNDS [FILE]: many threads call a library, and check what they get.
calls() {
	mode=$1 rounds=$2 file=${3-}
	for column in $columns linked compiled; do
		choose_clients "$column" "$mode" || continue
		count=$((count + 1))
		# shellcheck disable=SC2086
		LIMIT=300 in_time $over "$dir/clients$kind" "$mode" "$threads" "$rounds" "$at" \
			$file >"$dir/loaded" 2>"$dir/errors" ||
			fail "$column: $mode: $(tail -n 3 "$dir/loaded" "$dir/errors")"
	done
}

try_libraries() {
	if ! build_clients; then
		note "without libraries: $(grep -m 1 -e fatal -e 'cannot find' "$dir/errors")"
		return
	fi
	threads=${LONG:+200}
	threads=${threads:-40}
	each_library calls
	programs="$programs libraries"
}

try_all() {
	column=native
	free_port
	begin_as env "$dir/load" serve "$port" || die 'no echo server'
	echo=$port
	begin_web
	for column in $columns; do
		choose "$column"
		try_microsocks
		try_tinyproxy
		try_stunnel
		try_httpd
		try_clients
	done
	try_libraries
}

$CC -O2 bench/load.c -o "$dir/load" || die 'load.c does not build'
mkdir "$dir/web"
printf hello >"$dir/web/small"
seq 300000 >"$dir/large"
cp "$dir/large" "$dir/web/large"
name_localhost
ulimit -n "$(ulimit -H -n)"
try_all
[ -n "$programs" ] || skip 'none of these programs is there'
conclude "$count checks, $columns:$programs$unnamed"
