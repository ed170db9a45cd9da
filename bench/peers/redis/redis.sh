#!/bin/sh
# SPDX-License-Identifier: MIT
#
# redis.sh PORT: redis-server, without files.
# shellcheck disable=SC2034,SC2154 # for and from server.sh
set -u
me=redis-redis
names=PORT
count=1
server=${REDIS_SERVER:-redis-server}
# shellcheck source=bench/peers/server.sh
. "${0%/*}/../server.sh"

prepare
exec "$server" --bind 127.0.0.1 --port "$1" --tcp-backlog 4096 --maxclients 10000 \
	--daemonize no --save '' --appendonly no --dir "$tmp" --loglevel warning 1>&2
