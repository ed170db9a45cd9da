#!/bin/sh
# SPDX-License-Identifier: MIT
#
# adopt.sh: programs and libraries of others, natively and over usched by
# libusched-posix.so, in tables: memory of an idle connection, processor time of a message,
# messages a second; seconds of many threads that call a library.
#
#   bench/adopt/adopt.sh [PROGRAM]...
#
#   PROGRAM   microsocks tinyproxy stunnel httpd, and the modes of clients.c: pq redis curl
#             ssl sqlite zlib; default: all. Those that are not there are left out
#   COLUMNS   default: native preload shared, see tests/scripts/adopt.lib; linked: clients.c linked
#             with libusched-posix.so before other libraries; compiled: compiled with
#             uposix.h, for the modes that wait in no library
#   IDLE      numbers of idle connections; default "1000 5000"
#   REST      seconds from the last message to the look at the memory; default 10
#   BUSY      of busy ones; default 200
#   SECONDS_  of a measurement; default 3
#   RUNS      each measurement is made so often, in turns; the tables have medians;
#             default 5
#   THREADS   of a library's callers; default 200
#   RAW       a file for all single values
#
# A server has the first processor, its clients and what is behind it the others; the
# callers of libraries have all of them.
set -u
cd "$(dirname "$0")/../.." || exit 1
PORT=${PORT:-29000}
# shellcheck source=tests/scripts/adopt.lib
. tests/scripts/adopt.lib
# shellcheck source=bench/medians.lib
. bench/medians.lib
columns=${COLUMNS:-native preload shared linked compiled}
STACKS=${STACKS:-6000}
need_posix
runs=${RUNS:-5}
threads=${THREADS:-200}
raw=${RAW:-$dir/raw}
wanted=${*:-microsocks tinyproxy stunnel httpd pq redis curl ssl sqlite zlib}
servers_pinned= others_pinned=
if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
	servers_pinned='taskset -c 0' others_pinned="taskset -c 1-$(($(nproc) - 1))"
fi
: >"$raw"
ulimit -n "$(ulimit -H -n)"

# is NAME PROGRAM: wanted, and there.
is() {
	case " $wanted " in *" $1 "*) command -v "$2" >/dev/null ;; *) false ;; esac
}

# record PROGRAM MEASURE VALUE
record() {
	echo "$1 $2 $column ${3:-fail}" | tee -a "$raw" >&2
}

# value NAME: of the last line of load.c or clients.c.
value() {
	sed -n "s/.*\\<$1 \\([-0-9.]*\\).*/\\1/p" "$dir/loaded"
}

# loads OPTION...
loads() {
	: >"$dir/loaded"
	timeout -k 5 300 $others_pinned "$dir/load" run -t 60 "$@" >"$dir/loaded" 2>"$dir/errors" ||
		{ : >"$dir/loaded"; note "$column: load $*: $(head -n 3 "$dir/errors")" >&2; }
}

# measure NAME BEGIN "OPTION...": a server, begun anew for each measurement: memory depends
# on what was before. BEGIN sets $at, its port, and $watched, what load.c watches.
measure() {
	for connections in ${IDLE:-1000 5000}; do
		"$2" || return
		# shellcheck disable=SC2086
		loads $3 -n "$connections" -i "${REST:-10}" $watched "$at"
		record "$1" "kB-$connections" "$(value kb)"
		record "$1" "user-$connections" "$(value user)"
		stop_all
	done
	"$2" || return
	# shellcheck disable=SC2086
	loads $3 -n "${BUSY:-200}" -s "${SECONDS_:-3}" $watched "$at"
	record "$1" us "$(value cpu_us)"
	record "$1" rate "$(value rate)"
	stop_all
}

stop_all() {
	for process in $watched; do
		[ "$process" = -w ] || quit "$process" TERM 2>/dev/null
	done
}

begin_microsocks() {
	free_port
	begin microsocks -i 127.0.0.1 -p "$port" && at=$port watched="-w $server"
}

begin_proxy() {
	begin_tinyproxy && at=$port watched="-w $server"
}

begin_pair() {
	certify && stunnel_server "$echo" && stunnel_client && at=$plain \
		watched="-w $plain_server -w $tls_server"
}

begin_httpd() {
	[ -x "$dir/httpd" ] || $CC -O2 tests/help/adopt_httpd.c -lmicrohttpd -o "$dir/httpd" \
		-pthread 2>"$dir/errors" || return
	free_port
	begin "$dir/httpd" "$port" "$dir/large" && at=$port watched="-w $server"
}

# calls MODE ROUNDS [FILE]: of clients.c.
calls() {
	mode=$1
	shift
	: >"$dir/loaded"
	# shellcheck disable=SC2086
	timeout -k 5 300 $over "$dir/clients$kind" "$mode" "$threads" "$1" "$at" ${2-} \
		>"$dir/loaded" 2>"$dir/errors" ||
		{ : >"$dir/loaded"; note "$column: $mode: $(head -n 3 "$dir/errors")" >&2; }
	record "$mode" seconds "$(value seconds)"
	record "$mode" cpu "$(value cpu)"
}

# wants MODE: of clients.c.
wants() {
	case " $wanted " in *" $1 "*) ;; *) false ;; esac
}

try_servers() {
	for _ in $(seq "$runs"); do
		for column in $columns; do
			case $column in linked | compiled) continue ;; esac
			choose "$column"
			over="$servers_pinned $over"
			is microsocks microsocks &&
				measure microsocks begin_microsocks "-p socks -b $echo"
			is tinyproxy tinyproxy && measure tinyproxy begin_proxy "-p connect -b $echo"
			is stunnel stunnel4 && IDLE=${IDLE_TLS:-500} measure stunnel begin_pair ''
			is httpd true && measure httpd begin_httpd '-p http'
		done
	done
}

# each_column MODE ROUNDS [FILE]
each_column() {
	for _ in $(seq "$runs"); do
		for column in $columns; do
			! choose_clients "$column" "$1" || calls "$@"
		done
	done
}

$CC -O2 bench/load.c -o "$dir/load" || die 'load.c does not build'
build_clients || note "clients.c does not build: $(head -n 3 "$dir/errors")"
mkdir "$dir/web"
printf hello >"$dir/web/small"
seq 30000 >"$dir/large"
cp "$dir/large" "$dir/web/large"
column=native
free_port
begin_as "$others_pinned" "$dir/load" serve "$port" || die 'no echo server'
echo=$port
begin_web
try_servers
[ ! -x "$dir/clients" ] || each_library each_column
medians "$raw" "$columns" program measure
