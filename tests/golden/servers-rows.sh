# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# bench.sh with all columns of the servers, at the sizes of --quick; ours at all sizes; runs.
export PATIENCE=200
of_shells="$of_shells; /run wherever they like/d"
machine_of_servers() {
	machine | grep -e ^pinned -e ^client -e ^reference -e ^skipped
}

servers=http,h2load,latency,echo,redis,idle
fakes_of http h2load latency echo redis idle
# shellcheck disable=SC2016 # for a client to expand
echo 'case $name in h2load) echo 4000 ;; *) echo 2500.5 ;; esac' >"$FAKES/value"
bench --workload $servers --quick
machine_of_servers | sort -u
client_calls
bench --workload $servers --only U -n 1
client_calls
bench --workload latency --only U,EPOLL --quick -n 2
machine_of_servers | grep ^reference
client_calls
bench --workload redis --only U >"$dir/redis"
grep -c 2500.5 "$dir/redis"
title 'a server that dies, and clients that say what is no number'
fakes_of http
cat >"$FAKES/serve" <<'END'
case $name in
*05-httpd) echo out of luck >&2; exit 3 ;;
esac
END
cat >"$FAKES/value" <<'END'
case $server in
peers/st*) echo nan ;;
*nginx*) echo 0.00 ;;
*) echo 2500.5 ;;
esac
END
rm "$BUILD/peers/uv-http"
bench --workload http -n 1 --quick
machine_of_servers | grep skipped
ends "$FAKES/server"
title 'a rate that is not reached, and none that latency could refer to'
fakes_of latency redis
# shellcheck disable=SC2016 # for a client to expand
echo 'case $server in *go*) echo 100 ;; *) echo 200 ;; esac' >"$FAKES/value"
bench --workload latency --quick
rm "$BUILD/peers/c-epoll-http"
bench --workload latency --quick
title 'what only looks like a reason'
executable "$BUILD/examples/06-kv" <<'END'
echo fail:made-up
sleep 600
END
bench --workload redis --quick --limit 2 --only U
executable "$BUILD/rmain" <<'END'
echo fail:made-up
exit 1
END
bench --workload blocks --quick --only U1T
title 'a server that does not end, once'
for PATIENCE in 15 60 200; do
	fakes_of http
	cat >"$FAKES/serve" <<-'END'
	[ -e "$FAKES/deaf" ] || trap '' TERM
	: >"$FAKES/deaf"
	END
	bench --workload http -n 1 --quick --only GO >"$dir/deaf"
	[ "$(grep -c ', fail:' "$dir/deaf")" != 1 ] || break
done
grep -e '^ *http,' "$dir/deaf"
ends "$FAKES/server"
title 'what a client says besides'
fakes_of requests
bench --workload requests --quick
cat "$results/notes.txt"
client_calls
