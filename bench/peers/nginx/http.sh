#!/bin/sh
# SPDX-License-Identifier: MIT
#
# http.sh PORT DIR: nginx, in one process, so that one process has all its memory.
# shellcheck disable=SC2034,SC2154,SC3045 # for and from server.sh
set -u
me=nginx-http
names='PORT DIR'
count=2
server=${NGINX_PROGRAM:-nginx}		# nginx itself reads NGINX
# shellcheck source=bench/peers/server.sh
. "${0%/*}/../server.sh"

[ -r "$2/1k" ] || fail "cannot read $2/1k"
prepare
cat >"$tmp/nginx.conf" <<END || fail 'cannot write what configures nginx'
daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile $(ulimit -n);
pid nginx.pid;
error_log stderr;

events {
	use epoll;
	multi_accept on;
	worker_connections $(least "$(ulimit -n)" 65536);
}

http {
	access_log off;
	default_type application/octet-stream;
	keepalive_requests 1000000000;
	keepalive_timeout 1h;
	sendfile off;			# for 1 KB a read and one writev are faster
	tcp_nodelay on;
	open_file_cache max=16 inactive=1h;
	open_file_cache_valid 1h;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;

	server {
		listen 127.0.0.1:$1 backlog=4096;
		root "$(cd "$2" && pwd)";
	}
}
END
exec "$server" -p "$tmp" -c "$tmp/nginx.conf" -e stderr
