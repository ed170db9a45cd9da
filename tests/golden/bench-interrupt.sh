# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A signal while PROGRAM, made to hang, has arguments that begin so.
interrupt() {		# SIGNAL PROGRAM ARGUMENTS WORKLOADS
	title "$*"
	rm -f "$dir/pid"
	program "$2" <<-END
	case "\$* " in
	"$3 "*) ;;
	*) echo 0.5; $answer; exit ;;
	esac
	echo \$\$ >"$dir/pid"
	sleep 600
	: >"$dir/slept"
	END
	results=$dir/$1
	# A shell has what it starts with & ignore SIGINT, and nohup SIGHUP.
	PROCS=2 env --default-signal "$here/bench.sh" --quick --limit 300 -o "$results" \
		--workload "$4" >"$out" 2>/dev/null </dev/null &
	bench=$!
	wait_for "$dir/pid"
	kill -s "$1" $bench
	wait $bench 2>/dev/null
	echo "status $?"
	[ ! -e "$dir/slept" ] || fail 'not at once'
	ends "$dir/pid"
	tr -s ' ' <"$out"
	machine | grep ^end:
	files "$results"
}

env --default-signal true 2>/dev/null || {
	echo 'env cannot reset signals'
	echo 'status 77'
	exit
}
answer=:
programs
interrupt INT lmain '2 100' cycle
cmp "$out" "$results/cycle.csv"
programs
interrupt TERM rmain.1t '2 100' cycle
programs
interrupt HUP rmain '2 100' cycle	# nothing was measured of that row
programs_of ring alternate counters
answer=$(answer_to alternate)
interrupt TERM bench/alternate-ll '1 100000' ring,alternate,counters
cat "$results/ring.csv" "$results/alternate.csv" | cmp - "$out"
grep counters "$BUILD/calls"
