# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# How servers and clients fail: WORKLOAD|FILE of fakes|its text. A server's failure counts
# more than its client's. Clients say `ended' to wait until serve.sh can know that the
# server has.
export DURATION=1 PEAK=1000 PATIENCE=300
# shellcheck disable=SC2016 # for the client to expand
ended='until [ -e "$TMPDIR"/*/status ]; do sleep 0.1; done'
while IFS='|' read -r command file text; do
	fake
	fake_server peers/c-server
	title "$file: $text"
	echo "$text" | sed "s|; ended;|; $ended;|" >"$FAKES/$file"
	# shellcheck disable=SC2086 # the words of the command
	serve $command
	for left in "$FAKES/server" "$FAKES/client"; do
		[ ! -e "$left" ] || ends "$left"
	done
	no_rest
done <<'END'
http 1|serve|echo out of luck >&2; exit 3
http 1|serve|exit 0
http 1|serve|kill -SEGV $$
http 1|serve|trap "kill \$!; echo ouch >&2; exit 5" TERM
http 1|wrk|kill -9 $(cat "$FAKES/server"); ended; echo Requests/sec: 5
http 1|wrk|kill $(cat "$FAKES/server"); ended; echo Requests/sec: 5
http 1|wrk|echo Requests/sec: 5; exit 1
http 1|wrk|kill -9 $$
http 1|wrk|echo Requests/sec: nan
http 1|wrk|exit 0
http 1|wrk|echo " Socket errors: read 1"; echo Requests/sec: 5
http 1|wrk|echo " Non-2xx or 3xx responses: 7"; echo Requests/sec: 5
http 1|curl|echo x >"$4"
http 1|curl|echo 404 >&2; exit 22
idle 1|idle-load|echo bytes_per_connection=5 connections=2
idle 1|idle-load|echo bytes_per_connection=-5 connections=1
idle 1|idle-load|echo idle-load: lost >&2; exit 1
echo 1|echo-load|echo round_trips_per_s=5 p50_us=1 errors=1
echo 1|echo-load|echo round_trips_per_s= p50_us=1 errors=0
requests 9 9 9|requests-load|echo us=5 rate=5 wanted=
requests 9 9 9|requests-load|echo us=5 rate=97.9 wanted=100
redis 1 GET 1|redis-cli|echo nonsense
redis 1 GET 1|redis-benchmark|echo Error from server >&2; exit 1
redis 1 GET 1|redis-benchmark|echo '"PING_INLINE","5"'
h2load 1|h2load|echo 'requests: 9 total, 1 failed, 0 errored, 0 timeout'
h2load 1|h2load|echo 'finished in 1.00s, 5 req/s'
latency 1 50|value|echo 489
latency 1 50|value|echo 490
END
title 'without a peak'
fake
fake_server peers/c-server
PEAK='' serve latency 1 50
title 'another program gets the port before the server does, or all ports'
fake
fake_server peers/c-server
echo 'echo "bind: Address already in use" >&2; exit 1' >"$FAKES/serve"
PORTS=21990-21999 serve http 1
fake
fake_server peers/c-server
cat >"$FAKES/serve" <<'END'
[ -e "$FAKES/lost" ] || { : >"$FAKES/lost"; echo address already in use >&2; exit 1; }
END
serve http 1
grep -c '^peers/c-server PORT' "$FAKES/calls"
title 'a port in use'
python3 -c '
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True); __import__("time").sleep(600)' >"$dir/port" &
wait_for "$dir/port"
port=$(cat "$dir/port")
fake
fake_server peers/c-server
PORTS=$port-$port serve http 1 | sed "s/$port/PORT/g"
kill $!
[ ! -e "$FAKES/calls" ] || fail 'it was run with a port in use'
