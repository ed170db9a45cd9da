#!/bin/sh
# SPDX-License-Identifier: MIT
#
# https.sh: examples/10-https.c beside nginx over TLS, with one native thread each and the
# same certificate, in a table of medians: processor time of a request for 1 KiB and of a
# connection with one request, their rates, memory of an idle connection.
#
#   bench/https/https.sh [COLUMN]...
#
#   COLUMN    https, which keeps answers with small files for a second; nginx with
#             open_file_cache, which keeps files open; https-opens and nginx-opens, which
#             open, read and close the file for each request. Default: all
#   BUSY      numbers of connections that go round; default "64 5000"
#   IDLE      of idle ones; default "1000 5000"
#   SECONDS_  of a measurement; default 3
#   RUNS      each measurement is made so often, in turns; default 5
#   RAW       a file for all single values
#   B, CC     the build directory, which has libusched.a; the compiler
#
# Rows: us-N, the processor time in us of a request with N connections (load.c), and
# wall-N, requests a second meanwhile; us-wrk and wall-wrk, the same of 64 connections by
# wrk, if it is there; us-new and wall-new, of connections that are opened, 64 at a time,
# asked once and closed; kB-N, the anonymous resident KiB for each of N idle ones. The
# server has the first processor, and clients the others. Where a client takes more time
# than the server, wall-N is the client's; requests a second that the server's processor
# can serve are 1,000,000 / us.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
PORT=${PORT:-27000}
# shellcheck source=tests/scripts/server.lib
. tests/scripts/server.lib
# shellcheck source=bench/medians.lib
. bench/medians.lib
need nginx openssl taskset
runs=${RUNS:-5}
seconds=${SECONDS_:-3}
raw=${RAW:-$dir/raw}
columns=${*:-https nginx https-opens nginx-opens}
on_server='' on_client=''
if [ "$(nproc)" -gt 1 ]; then
	on_server='taskset -c 0' on_client="taskset -c 1-$(($(nproc) - 1))"
fi
: >"$raw"
ulimit -n "$(ulimit -H -n)"

# compile NAME OPTION...: 10-https.c.
compile() {
	name=$1
	shift
	$CC -O2 -DUSCHED_TLS "$@" -I. examples/10-https.c tls/utls.c tls/utls_context.c "$B/libusched.a" \
		-pthread -lssl -lcrypto -o "$dir/$name" || die "10-https.c does not build"
}

# configure NAME LINE...: for nginx, except for its port.
configure() {
	name=$1
	shift
	mkdir -p "$dir/$name"
	cat >"$dir/$name/conf" <<-END
		daemon off;
		master_process off;
		worker_processes 1;
		worker_rlimit_nofile $(ulimit -n);
		pid nginx.pid;
		error_log stderr crit;
		events {
			use epoll;
			multi_accept on;
			worker_connections 16384;
		}
		http {
			access_log off;
			default_type application/octet-stream;
			keepalive_requests 1000000000;
			keepalive_timeout 1h;
			sendfile off;
			tcp_nodelay on;
			$*
			client_body_temp_path body;
			proxy_temp_path proxy;
			fastcgi_temp_path fastcgi;
			uwsgi_temp_path uwsgi;
			scgi_temp_path scgi;
			ssl_certificate $dir/cert.pem;
			ssl_certificate_key $dir/key.pem;
			ssl_protocols TLSv1.3;
			ssl_prefer_server_ciphers on;
			server {
				listen 127.0.0.1:PORT ssl backlog=4096;
				root $dir/www;
			}
		}
	END
}

answers() {
	curl -sk "https://127.0.0.1:$port/1k" | cmp -s - "$dir/www/1k"
}

# begin COLUMN: sets $server.
begin() {
	port=$((port + 1))
	case $1 in
	https*)
		$on_server "$dir/$1" "$port" "$dir/www" "$dir/cert.pem" "$dir/key.pem" \
			>/dev/null 2>"$dir/errors" & ;;
	*)
		sed "s/:PORT/:$port/" "$dir/$1/conf" >"$dir/$1/now"
		$on_server nginx -p "$dir/$1" -c "$dir/$1/now" -e stderr 2>"$dir/errors" & ;;
	esac
	server=$!
	servers="$servers $server"
	until_true 20 answers || die "$1 does not answer: $(head -n 3 "$dir/errors")"
}

end() {
	kill -TERM "$server"
	wait "$server"
	forget "$server"
}

# record MEASURE VALUE
record() {
	echo "$1 $column ${2:-fail}" | tee -a "$raw" >&2
}

# value NAME: of the last line of load.c.
value() {
	sed -n "s/.*\\<$1 \\([-0-9.]*\\).*/\\1/p" "$dir/loaded"
}

# loads ROW MODE CONNECTIONS: a server, begun anew for each measurement.
loads() {
	begin "$column"
	timeout -k 5 300 $on_client "$dir/load" "$2" "$port" "$server" "$3" "$seconds" \
		>"$dir/loaded" 2>"$dir/errors" ||
		note "$column: load $2 $3: $(head -n 3 "$dir/errors")" >&2
	if [ "$2" = idle ]; then
		record "kB-$1" "$(value kb)"
	else
		record "us-$1" "$(value cpu_us)"
		record "wall-$1" "$(value rate)"
	fi
	end
}

# The processor's time so far, in ms.
used() {
	sed 's/.*) //' "/proc/$server/stat" |
		awk -v ticks="$(getconf CLK_TCK)" '{ print ($12 + $13) * 1000 / ticks }'
}

wrk_loads() {
	begin "$column"
	before=$(used)
	timeout -k 5 300 $on_client wrk -t1 -c64 -d"${seconds}s" \
		"https://127.0.0.1:$port/1k" >"$dir/loaded" 2>&1
	after=$(used)
	! grep -e 'Socket errors' -e 'Non-2xx' "$dir/loaded" >&2 || : >"$dir/loaded"
	record us-wrk "$(awk -v us="$(echo "$before $after" |
		awk '{ print ($2 - $1) * 1000 }')" '/requests in/ { print us / $1 }' "$dir/loaded")"
	record wall-wrk "$(awk '/^Requests\/sec/ { print $2 }' "$dir/loaded")"
	end
}

measure() {
	for connections in ${BUSY:-64 5000}; do
		loads "$connections" busy "$connections"
	done
	! command -v wrk >/dev/null || wrk_loads
	case $column in *-opens) return ;; esac
	loads new new 64
	for connections in ${IDLE:-1000 5000}; do
		loads "$connections" idle "$connections"
	done
}

[ -f "$B/libusched.a" ] || die "there is no $B/libusched.a"
$CC -O2 bench/https/load.c -o "$dir/load" -lssl -lcrypto || die 'load.c does not build'
compile https
compile https-opens -DKEEP=0
chmod 755 "$dir"
mkdir "$dir/www"
printf %1024s '' | tr ' ' u >"$dir/www/1k"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 10 \
	-keyout "$dir/key.pem" -out "$dir/cert.pem" -subj /CN=localhost \
	-addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' 2>"$dir/errors" ||
	die "openssl: $(cat "$dir/errors")"
configure nginx 'open_file_cache max=16 inactive=1h; open_file_cache_valid 1h;'
configure nginx-opens
for _ in $(seq "$runs"); do
	for column in $columns; do
		measure
	done
done
medians "$raw" "$columns" ""
