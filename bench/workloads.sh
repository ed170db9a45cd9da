# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154 # it shares variables with bench.sh
#
# workloads.sh: the tables of bench.sh, which reads this file: the workloads, their
# columns (the implementations), their sizes, their programs, and the right answers. A
# column is added only here: its name in columns_of(), which has the order, and its
# program, a path within $BUILD, with arguments, in command_for(). compare.sh calls the
# same programs.
#
# peers/README.md describes the workloads, and the output of the programs. serve.sh has
# those of servers, which it runs together with a client.

servers='http echo redis idle'
workloads='cycle ring counters pingpong create alternate memory blocks'
workloads="$workloads walk threads depth stacks uneven channel $servers"

# Those that have columns on $PROCS processors.
spread='cycle blocks uneven'

parameters_of() {	# WORKLOAD
	case $1 in
	cycle | blocks | threads) echo N R M ;;
	depth)		echo N R M D ;;
	stacks)		echo N R M stacks ;;
	ring)		echo passes ;;
	counters)	echo counters calls ;;
	pingpong)	echo pairs ;;
	create)		echo threads ;;
	walk)		echo nodes ;;
	alternate)	echo repetitions yields ;;
	memory)		echo threads ;;
	uneven)		echo permille load connections ;;
	channel)	echo capacity values ;;
	http | echo | idle) echo connections ;;
	redis)		echo clients command pipeline ;;
	esac
}

# Ours begin with U; doc/benchmarks.md says what the names stand for.
columns_of() {		# WORKLOAD
	case $1 in
	cycle)		echo U U1K U10K U1T U1TS UL UL1T UJ U1TC \
				POSIX POSIX1T GO GO1T TOKIO TOKIO1T RUSTMIN C++1T C++1TL ;;
	ring)		echo U1T UL1T UD MACROS MACROS-WORST \
				POSIX POSIX-SEM GO TOKIO BOOST-FIBER ST PHOTON C++20 HASKELL LWT \
				ERLANG LUA LUAJIT PYTHON GREENLET ;;
	counters)	echo U1T UL1T UD CALLS MACROS C++20 COROSENSEI GENERATOR-RS \
				BOOST COROUTINE2 LUA LUAJIT PYTHON GREENLET ;;
	pingpong)	echo U1T UL1T UD UCO MACROS C++20 C++23 COROSENSEI GENERATOR-RS \
				MINICORO BOOST BOOST-FP COROUTINE2 UCONTEXT GO LUA LUAJIT PYTHON \
				GREENLET ;;
	walk)		echo UCO CALLS C++23 COROSENSEI MINICORO COROUTINE2 ;;
	create)		echo U1T UL1T UD UCO MACROS C++20 C++23 COROSENSEI GENERATOR-RS MINICORO \
				BOOST COROUTINE2 UCONTEXT GO LUA LUAJIT PYTHON GREENLET ;;
	alternate)	echo U1T UL1T UD LISP POSIX ;;
	memory)		echo U1T UL1T UD MACROS C++20 RUSTMIN TOKIO COROSENSEI GENERATOR-RS \
				BOOST BOOST-FIBER ST PHOTON UCONTEXT POSIX GO HASKELL LWT ERLANG \
				ERLANG-HIBERNATE LISP LUA LUAJIT PYTHON GREENLET ;;
	threads)	echo U1T UL1T C++1T C++1TL ;;
	depth | stacks)	echo U1T UL1T ;;
	uneven)		echo U U-SLICE GO ;;
	channel)	echo UL GO ;;
	blocks)		echo U1T U1TS UL1T POSIX POSIX1T TOKIO1T RUSTMIN C++1T C++1TL ;;
	http | idle)	echo U EPOLL ST GO NGINX ;;
	echo)		echo U EPOLL ST GO TOKIO ;;
	redis)		echo U REDIS ;;
	esac
}

# The sizes of a sweep, a line each. In cycle, R cycles of N threads send a fixed number
# of messages in all, but each cycle makes a least number of rounds. The largest of the
# quick sweep, 800,000 threads, fits a small machine. threads, depth and stacks do the work
# of cycle, with one growing parameter. In depth 8 threads have a stack each, most of 4000
# do not, and 200,000 do not fit a cache. In stacks 100 and 1000 threads have one, once
# there are as many.
points_of() {		# WORKLOAD
	case $1.$quick in
	cycle.no)	cycle_points '2 8' 8000000 10 1 2 4 8 16 50 100 500 1000 \
				5000 10000 50000 100000 500000 1000000 ;;
	cycle.yes)	cycle_points 2 2000000 10 1 2 4 100 5000 100000
			cycle_points 8 4000000 10 4 16 100 5000 100000 ;;
	ring.no)	echo 5000000 ;;
	ring.yes)	echo 2000000 ;;
	counters.no)	echo 20000 300 ;;
	counters.yes)	echo 20000 100 ;;
	pingpong.no)	echo 10000000 ;;
	pingpong.yes)	echo 3000000 ;;
	create.no)	echo 1000000 ;;
	create.yes)	echo 500000 ;;
	walk.*)		echo 1000000 ;;
	alternate.no)	printf '%s\n' '10000 3' '1 1000000' ;;
	alternate.yes)	printf '%s\n' '20000 3' '1 500000' ;;
	memory.no)	echo 1000000 ;;
	memory.yes)	echo 100000 ;;
	blocks.no)	printf '%s\n' '2 1000 1000' '8 1000 1000' ;;
	blocks.yes)	printf '%s\n' '2 1000 100' '8 1000 100' ;;
	threads.no)	cycle_points 2 8000000 40 5 10 20 50 100 200 500 1000 2000 \
				5000 10000 20000 50000 100000 200000 500000 1000000 \
				2000000 4000000 ;;
	threads.yes)	cycle_points 2 2000000 10 5 50 500 5000 50000 200000 ;;
	depth.no)	growing_points '2.4.1000000 2.2000.200' \
				0 10 30 100 300 1000 3000 10000 30000 102400
			growing_points 2.100000.20 0 10 30 100 300 1000 3000 10000 ;;
	depth.yes)	growing_points '2.4.200000 2.2000.100 2.100000.10' \
				0 10 100 300 1000 10000 ;;
	stacks.no)	growing_points '2.50.80000 2.500.8000' \
				1 2 4 8 16 32 64 128 256 512 1024 2048 4096 ;;
	stacks.yes)	growing_points '2.50.10000 2.500.1000' 1 8 64 512 4096 ;;
	uneven.no)	growing_points '500.70 990.70 999.70' 8 60 1000 10000 ;;
	uneven.yes)	growing_points 990.70 8 1000 ;;
	channel.no)	printf '%s\n' '0 500000' '1 500000' '128 5000000' ;;
	channel.yes)	printf '%s\n' '0 50000' '1 50000' '128 500000' ;;
	http.no | echo.no) printf '%s\n' 1 16 64 256 1000 ;;
	http.yes | echo.yes) printf '%s\n' 1 64 1000 ;;
	redis.*)	printf '%s\n' '50 GET 1' '50 SET 1' '50 GET 16' '50 SET 16' ;;
	idle.no)	printf '%s\n' 1000 9000 ;;
	idle.yes)	echo 1000 ;;
	esac
}

cycle_points() {	# NS MESSAGES ROUNDS R...
	ns=$1 all=$2 least=$3
	shift 3
	for n in $ns; do
		for r; do
			echo "$n $r $((all / r / n + least))"
		done
	done
}

growing_points() {	# 'N.R.M ...' LAST...
	firsts=$1
	shift
	for first in $firsts; do
		for last; do
			echo "$first.$last"
		done
	done | tr . ' '
}

# The number of runs of a sweep. In each, bench.sh runs what is short several times.
runs_of() {		# WORKLOAD
	case $1.$quick in
	cycle.* | blocks.*) echo 1 ;;
	uneven.yes | http.yes | echo.yes | redis.yes | idle.yes) echo 1 ;;
	*.yes)	echo 3 ;;
	*.no)	echo 5 ;;
	esac
}

# The largest last parameter of a system that would take very long, or cannot have as many
# threads. A message of POSIX takes a us and more.
most_of() {		# WORKLOAD COLUMN ARGUMENT...
	case $1.$2 in
	cycle.POSIX*)	echo $((500000 / ($3 * $4) + 10)) ;;
	ring.POSIX | ring.POSIX-SEM) echo 500000 ;;
	ring.MACROS-WORST)	echo 500000 ;;
	memory.POSIX)	echo $((natives < 30000 ? natives : 30000)) ;;
	memory.COROSENSEI | memory.GENERATOR-RS) echo 30000 ;;
	memory.GREENLET)	echo 100000 ;;
	esac
}

# How many native threads a program has.
native_of() {		# WORKLOAD COLUMN ARGUMENT...
	case $1.$2 in
	cycle.POSIX* | blocks.POSIX*) echo $(($3 * $4)) ;;
	memory.POSIX)	echo "$3" ;;
	*)		echo 0 ;;
	esac
}

# How many native threads one user may have here, without those that there are, and less
# a quarter, so that other programs can still start some.
native_threads() {
	[ -z "${NATIVE_THREADS-}" ] || {
		echo "$NATIVE_THREADS"
		return
	}
	{
		sed -n 's/^Max processes *\([0-9]*\) .*/\1/p' /proc/self/limits
		cat /proc/sys/kernel/threads-max /proc/sys/kernel/pid_max \
			/proc/sys/vm/max_map_count
		group=$(sed -n 's/^[0-9]*:\(pids\)\{0,1\}:\(.*\)/\2/p' /proc/self/cgroup | sed 1q)
		while [ -n "$group" ]; do
			cat "/sys/fs/cgroup$group/pids.max" "/sys/fs/cgroup/pids$group/pids.max"
			group=${group%/*}
		done
		sed 's|.*/\([0-9]*\) .*|there are \1|' /proc/loadavg
	} 2>/dev/null | awk '
		/^there/ { there = $3 }
		/^[0-9]+$/ && (!least || $1 < least) { least = $1 }
		END { print least ? int((least - there) * 3 / 4) : 30000 }'
}

command_for() {		# WORKLOAD COLUMN ARGUMENT...
	load=$1 column=$2
	shift 2
	case $load in
	cycle | blocks | threads) cycle_command "$@" ;;
	stacks)		cycle_command "$1" "$2" "$3" ;;	# environment_of() has the last
	depth)		depth_command "$@" ;;
	uneven)		uneven_command "$@" ;;
	http | echo | redis | idle)
		echo "$(server_of "$load" "$column") $*" ;;
	*)		ours_or_peer "$@" ;;
	esac
}

cycle_command() {	# N R M
	case $column in
	U)	echo "rmain $* 0 $PROCS" ;;
	U1K)	echo "rmain $* 1000 $PROCS" ;;
	U10K)	echo "rmain $* 10000 $PROCS" ;;
	U1T)	echo "rmain $* 0 1" ;;
	U1TS)	echo "rmain.1t $* 0 1" ;;
	UL)	echo "lmain $* 0 $PROCS" ;;
	UL1T)	echo "lmain $* 0 1" ;;
	UJ)	echo "lmain.setjmp $* 0 1" ;;
	U1TC)	echo "rmain.readme $* 0 1" ;;
	POSIX)	echo "peers/posix-cycle $* $PROCS" ;;
	POSIX1T) echo "peers/posix-cycle $* 1" ;;
	GO)	echo "peers/go-cycle $* $PROCS" ;;
	GO1T)	echo "peers/go-cycle $* 1" ;;
	TOKIO)	echo "peers/tokio-cycle $* $PROCS" ;;
	TOKIO1T) echo "peers/tokio-cycle $* 1" ;;
	RUSTMIN) echo "peers/rustmin-cycle $*" ;;
	C++1T)	echo "peers/cxx20-cycle-fifo $*" ;;
	C++1TL)	echo "peers/cxx20-cycle-lifo $*" ;;
	esac
}

depth_command() {	# N R M D
	case $column in
	U1T)	echo "rmain $* 1" ;;
	UL1T)	echo "lmain $* 1" ;;
	esac
}

# With the seconds that it takes.
uneven_command() {	# PERMILLE LOAD CONNECTIONS
	case $column in
	U)	echo "bench/uneven $* $(duration) $PROCS" ;;
	U-SLICE) echo "bench/uneven $* $(duration) $PROCS 250" ;;
	GO)	echo "peers/go-uneven $* $(duration) $PROCS" ;;
	esac
}

ours_or_peer() {	# ARGUMENT...
	case $column in
	U1T)	echo "bench/$load-rr $*" ;;
	UL1T)	echo "bench/$load-ll $*" ;;
	UL)	echo "bench/$load $*" ;;
	UCO)	echo "bench/$load-co $*" ;;
	UD)	echo "bench/$load-direct $*" ;;
	*)	echo "peers/$(peer_of "$load" "$column") $*" ;;
	esac
}

peer_of() {		# WORKLOAD COLUMN
	case $2 in
	MACROS-WORST)	echo "macros-$1-worst" ;;
	POSIX-SEM)	echo "posix-$1-semaphores" ;;
	BOOST-FP)	echo "boost-$1-fp" ;;
	BOOST-FIBER)	echo "fiber-$1" ;;
	GENERATOR-RS)	echo "generator-$1" ;;
	ERLANG-HIBERNATE) echo "erlang-$1-hibernate" ;;
	C++20)		echo "cxx20-$1" ;;
	C++23)		echo "cxx23-$1" ;;
	LWT)		echo "ocaml-$1" ;;
	*)		echo "$(echo "$2" | tr '[:upper:]' '[:lower:]')-$1" ;;
	esac
}

# The protocol of a workload's servers; empty without servers.
kind_of() {		# WORKLOAD
	case $1 in
	http | idle) echo http ;;
	echo | redis)	echo "$1" ;;
	esac
}

# A server gets its port, and serve.sh the workload.
server_of() {		# WORKLOAD COLUMN
	kind=$(kind_of "$1")
	case $kind.$2 in
	http.U)		echo examples/05-httpd ;;
	echo.U)		echo examples/04-echo ;;
	redis.U)	echo examples/06-kv ;;
	*)		echo "peers/$(echo "$2" | tr '[:upper:]' '[:lower:]')-$kind" ;;
	esac
}

# The commands of other packages that measure servers.
needs_of() {		# WORKLOAD
	case $1 in
	http)		echo curl wrk ;;
	redis)		echo redis-cli redis-benchmark ;;
	esac
}

# Additions to the environment of a program: NAME=VALUE, or nothing.
environment_of() {	# WORKLOAD ARGUMENT...
	case $1 in
	blocks)	echo BLOCKS=1 ;;
	stacks)	echo "USCHED_STACKS=$5" ;;
	http | echo | redis) echo "DURATION=$(duration)" ;;
	esac
}

duration() {		# seconds that a server is measured, or uneven runs
	case ${quick-yes} in
	yes)	echo 1 ;;
	no)	echo 5 ;;
	esac
}

# The answer that a program prints behind the seconds; empty if it has none.
answer_of() {		# WORKLOAD ARGUMENT...
	case $1 in
	ring)		echo $(($2 % 503 + 1)) ;;
	counters)	echo $(($2 * $3 * ($2 + $3 - 2) / 2)) ;;
	pingpong | create | walk) echo $(($2 * ($2 - 1) / 2)) ;;
	alternate)	echo $((2 * $2 * $3)) ;;
	memory)		echo "$2" ;;
	channel)	echo $(($3 * ($3 - 1) / 2)) ;;
	esac
}
