# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Of each workload of serve.sh the number, the calls, and that the server ends. Server and
# client are kept on two processors, where there are two; not those of requests.
pinned=$("$here/bench/serve.sh" --about | sed -n 's/^pinned: //p')
server=$(echo "$pinned" | sed -n 's/server on processor \([0-9]*\),.*/ on \1/p')
client=$(echo "$pinned" | sed -n 's/.*, client on \([0-9]*\)$/ on \1/p')
[ -z "$server" ] || [ "$server" != "$client" ] || fail 'one processor for both'
export DURATION=2 PEAK=5000 PROCS=3 PATIENCE=300
while IFS='|' read -r command value; do
	fake
	fake_server peers/c-server
	echo "echo $value" >"$FAKES/value"
	# shellcheck disable=SC2086 # the words of the command
	serve $command
	awk -v server="$server" -v client="$client" -v load="$command" '
	/ ends$/ { next }
	{
		found = match($0, / on [0-9]+$/) ? substr($0, RSTART) : ""
		want = load ~ /requests/ ? "" : /^peers/ ? server : client
		if (found != want)
			print "FAIL: kept" found " and not" want ": " $0
	}' "$FAKES/calls"
	sed 's/ on [0-9]*$//' "$FAKES/calls"
	ends "$FAKES/server" "$FAKES/client"
	no_rest
done <<'END'
http 64|1234.56
http 1|0.5
h2load 16|123456
latency 64 80|4001
latency 10 50|2500
echo 1000|77
redis 50 GET 1|99.99
redis 7 SET 16|5
requests 990 70 60|123.4
idle 9000|1024.5
answer http|1
answer redis|1
answer echo|1
answer requests|1
END
title 'without processors, and wrong arguments'
fake
fake_server peers/c-server
executable "$FAKES/bin/taskset" <<'END'
exit 1
END
serve http 1
head -n 1 "$FAKES/calls"
run "$here/bench/serve.sh" --about
run "$here/bench/serve.sh" ''
run "$here/bench/serve.sh" http
run "$here/bench/serve.sh" http x
