# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Servers, of which no two rows have the same ratio; those that fail; and the part even.
servers_say() {
	fake
	for name in examples/04-echo examples/05-httpd examples/06-kv peers/c-epoll-http \
		peers/go-http peers/nginx-http peers/st-http peers/st-echo peers/tokio-echo \
		peers/redis-redis; do
		fake_server "$name"
	done
	cat >"$FAKES/value" <<-'END'
	case "$name $server $*" in
	wrk\ examples*) echo 900 ;;
	wrk\ *epoll*) echo 1000 ;;
	wrk\ *go*) echo 400 ;;
	wrk\ *nginx*) echo 1200 ;;
	echo*\ examples*) echo 230 ;;
	echo*\ *st-*) echo 200 ;;
	echo*) echo 300 ;;
	redis*\ examples*1\ -t\ get*) echo 100 ;;
	redis*\ examples*1\ -t\ set*) echo 110 ;;
	redis*\ examples*16\ -t\ get*) echo 120 ;;
	redis*\ examples*16\ -t\ set*) echo 90 ;;
	redis*) echo 100 ;;
	idle*\ examples*) echo 1600 ;;
	idle*\ *st-*) echo 4000 ;;
	idle*) echo 20000 ;;
	h2load\ examples*) echo 900 ;;
	h2load\ *) echo 1000 ;;
	esac
	END
}

servers_say
compare -n 2 -o "$dir/kept" servers
cat "$dir/kept/compare.csv"
grep -c -e '--rps=12.5 ' "$FAKES/calls"
servers_say
rm "$BUILD/peers/c-epoll-http"
cat >"$FAKES/serve" <<'END'
case $name in
*tokio*) exit 3 ;;
esac
END
compare -n 1 servers
rm "$BUILD/examples/05-httpd"
compare -n 2 servers | grep '^!'
compare_programs <<'END'
bench/measure\ late\ 500*) echo 5 ;;
bench/measure\ late\ 990*) echo 13 ;;
bench/uneven*\ 250) echo 300 ;;
bench/uneven\ 990\ 70\ 8\ *) echo 1400 ;;
bench/uneven*) echo 700 ;;
peers/go-uneven*) echo 1000 ;;
bench/measure\ contend\ usync\ 0*) echo 10 ;;
bench/measure\ contend\ usync\ 200*) echo 95 ;;
bench/measure\ contend*) echo 100 ;;
bench/channel\ 0*) echo 3 ;;
bench/measure\ after\ 10\ 4000\ *) echo 2 ;;
END
said=$BUILD
fake
ln "$BUILD/bench/requests-load" "$said/bench/requests-load"
BUILD=$said
for name in bench/requests bench/requests-slice peers/go-requests peers/tokio-requests; do
	fake_server "$name"
done
cat >"$FAKES/value" <<'END'
case "$server $*" in
bench*\ 990\ 40\ 1000\ 5) echo 300 ;;
bench*) echo 900 ;;
*go*\ 990\ 40\ 1000\ 5) echo 600 ;;
*go*) echo 1500 ;;
*tokio*\ 990\ 40\ 1000\ 5) echo 200 ;;
*) echo 500 ;;
esac
END
compare -n 1 even
calls
