# SPDX-License-Identifier: MIT
# shellcheck shell=sh
title 'without a client, or with one processor'
export PATIENCE=200
fakes_of http h2load redis
rm "$FAKES/bin/wrk" "$FAKES/bin/redis-cli"
executable "$FAKES/bin/taskset" <<'END'
exit 1
END
mkdir "$dir/minimal"
for name in sh awk basename cat chmod cksum cmp cp cut date dirname env getconf git grep \
	head id ln mkdir mktemp mv nproc printf ps rm sed seq setsid sleep sort tail timeout \
	tr uname wc lscpu uptime; do
	command=$(command -v $name) || continue
	case $command in
	/*) ln -sf "$command" "$dir/minimal" ;;
	esac
done
PATH=$FAKES/bin:$dir/minimal
bench --workload redis,http,h2load --quick --only U
PATH=$old_path
machine | grep -e ^skipped -e ^pinned
files "$results"
title 'an interruption while a client runs'
env --default-signal true 2>/dev/null || {
	echo 'env cannot reset signals'
	echo 'status 77'
	exit
}
fakes_of http
# shellcheck disable=SC2016 # for a client to expand
echo '[ $server != peers/st-http ] || sleep 600; echo Requests/sec: 5' >"$FAKES/wrk"
results=$dir/results.signal
env --default-signal "$here/bench.sh" --quick --limit 300 --workload http -o "$results" \
	>"$out" 2>/dev/null </dev/null &
bench=$!
until [ "$(grep -c ^wrk "$FAKES/calls" 2>/dev/null)" = 3 ]; do
	sleep 0.1
done
kill -s INT $bench
wait $bench 2>/dev/null
echo "status $?"
ends "$FAKES/server" "$FAKES/client"
tr -s ' ' <"$out"
files "$results"
