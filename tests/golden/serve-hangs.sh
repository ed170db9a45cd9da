# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# hangs FAILURE FILE: a server or client that has its text on standard input. With more
# patience, if it was not enough for what does not hang.
hangs() {
	cat >"$dir/$2"
	for PATIENCE in 5 60 300; do
		export PATIENCE
		fake
		fake_server peers/c-server
		cp "$dir/$2" "$FAKES/$2"
		serve http 1 >"$dir/said"
		! grep -qx "$1" "$dir/said" || break
	done
	sed 's/took [0-9]* seconds/took ... seconds/' "$dir/said"
	[ ! -e "$FAKES/child" ] || ends "$FAKES/child"
	no_rest
}

export DURATION=1
hangs fail:timeout curl <<'END'
trap "" TERM
sleep 600
END
hangs fail:ready serve <<'END'
sleep 600
END
hangs fail:end serve <<'END'
trap '' TERM
sleep 600 &
echo $! >"$FAKES/child"
END
title 'the memory of a server is that of its child, if that runs the same program'
export PATIENCE=300
for server in alone worker; do
	fake
	fake_server peers/c-server
	cat >"$FAKES/idle-load" <<-'END'
	echo "$3" >"$FAKES/measured"
	echo bytes_per_connection=5 connections=1
	END
	[ $server = alone ] || cat >"$FAKES/serve" <<-'END'
	sh -c 'echo $$ >"$FAKES/worker"; trap "exit 0" TERM; while :; do sleep 0.1; done' &
	worker=$!
	trap 'kill $! $worker; exit 0' TERM
	until [ -s "$FAKES/worker" ]; do
		sleep 0.02
	done
	END
	serve idle 1
	[ $server = alone ] || mv "$FAKES/worker" "$FAKES/server"
	cmp "$FAKES/server" "$FAKES/measured"
	ends "$FAKES/server"
done
title 'a signal while the client runs, or before the server is ready: only to serve.sh'
env --default-signal true 2>/dev/null || {
	echo 'env cannot reset signals'
	echo 'status 77'
	exit
}
for signal in HUP INT TERM; do
	for file in wrk serve; do
		fake
		fake_server peers/c-server
		echo "trap '' TERM; echo x >'$FAKES/there'; sleep 600" >"$FAKES/$file"
		env --default-signal "$here/bench/serve.sh" http "$BUILD/peers/c-server" 1 \
			>"$out" 2>/dev/null </dev/null &
		pid=$!
		wait_for "$FAKES/there"
		kill -s $signal $pid
		sleep 0.2			# bench.sh sends it twice
		kill -s $signal $pid 2>/dev/null
		wait $pid
		echo "$file: status $?"
		cat "$out"
		ends "$FAKES/server"
		no_rest
	done
done
