# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# How servers and clients fail. A fake server or client does what the file of its name in
# $FAKES says, `serve' for the server; else it succeeds.
fake() {
	BUILD=$(mktemp -d "$dir/build.XXXXXX")
	FAKES=$BUILD/fakes
	mkdir "$BUILD/bench" "$BUILD/peers" "$FAKES" "$FAKES/bin"
	PATH=$FAKES/bin:$old_path
	export BUILD FAKES PATH
	program peers/c-server <<-'END'
	echo "$2" >"$FAKES/directory"
	echo "$1" >>"$FAKES/calls"
	echo $$ >"$FAKES/server"
	trap 'kill $!; wait; exit 0' TERM
	if [ -e "$FAKES/serve" ]; then
		. "$FAKES/serve"
	fi
	sleep 600 &
	until [ "$(cat /proc/$!/comm)" = sleep ]; do	# no shell like its parent any more
		sleep 0.02
	done
	echo ready
	wait $!
	END
	program fakes/bin/wrk <<-'END'
	name=${0##*/}
	echo $$ >"$FAKES/client"
	if [ -e "$FAKES/$name" ]; then
		. "$FAKES/$name"
		exit
	fi
	case "$name $*" in
	*\ -v | *\ --version) echo "$name 1.2" ;;
	wrk*) echo Requests/sec: 1000 ;;
	curl*) cp "$(cat "$FAKES/directory")/1k" "$4" ;;
	*PING) echo PONG ;;
	*SET*1k) echo OK ;;
	*GET*usched) echo 1k ;;
	*DEL*) echo 1 ;;
	esac
	END
	for name in redis-cli redis-benchmark curl; do
		ln "$FAKES/bin/wrk" "$FAKES/bin/$name"
	done
	ln "$FAKES/bin/wrk" "$BUILD/bench/load"
}

# In a line, what serve.sh prints and says of it.
serve() {		# WORKLOAD ARGUMENT...
	load=$1
	shift
	"$here/bench/serve.sh" "$load" "$BUILD/peers/c-server" "$@" >"$out" 2>"$err" </dev/null
	echo "status $?: $(cat "$out"): $(sed "$of_shells" "$err")"
}

# WORKLOAD|FILE of fakes|its text. A server's failure counts more than its client's. Clients
# say `ended' to wait until serve.sh can know that the server has.
old_path=$PATH
export DURATION=1 PATIENCE=300
# shellcheck disable=SC2016 # for the client to expand
ended='until [ -e "$TMPDIR"/*/status ]; do sleep 0.1; done'
while IFS='|' read -r command file text; do
	fake
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
http 1|serve|kill -SEGV $$
http 1|serve|trap "kill \$!; echo ouch >&2; exit 5" TERM
http 1|wrk|kill -9 $(cat "$FAKES/server"); ended; echo Requests/sec: 5
http 1|wrk|kill $(cat "$FAKES/server"); ended; echo Requests/sec: 5
http 1|wrk|echo Requests/sec: 5; exit 1
http 1|wrk|echo Requests/sec: nan
http 1|wrk|echo " Socket errors: read 1"; echo Requests/sec: 5
http 1|curl|echo x >"$4"
idle 1|load|echo connections 2 opened 2 user 0.01 rate 5 errors 0
idle 1|load|echo connections 1 opened 1 user 0.01 rate 5 errors 0
idle 1|load|echo load: lost >&2; exit 1
echo 1|load|echo connections 1 opened 1 rate 5 errors 1
redis 1 GET 1|redis-cli|echo nonsense
redis 1 GET 1|redis-benchmark|echo Error from server >&2; exit 1
END
title 'another program gets the port before the server does, or all ports'
fake
echo 'echo "bind: Address already in use" >&2; exit 1' >"$FAKES/serve"
PORTS=21990-21999 serve http 1
fake
cat >"$FAKES/serve" <<'END'
[ -e "$FAKES/lost" ] || { : >"$FAKES/lost"; echo address already in use >&2; exit 1; }
END
serve http 1
wc -l <"$FAKES/calls"
