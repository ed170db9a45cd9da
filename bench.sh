#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh: runs the benchmark programs over a sweep of sizes. The seconds they
# measure go to standard output as comma-separated values, a row for each size
# and a column for each implementation, and to a directory of results, beside a
# description of the machine. graph.py makes pictures and tables of them. See
# usage() for the options.
#
# Nothing that was measured is lost: a program that fails leaves `fail:reason' in
# its cell and the sweep goes on; a row is written as soon as it is complete; and
# if the sweep is interrupted, the row it was at is completed with
# `fail:interrupted'. At most one program runs at a time, and none is left behind.

set -fu			# no file names come from patterns here
LC_ALL=C		# a point in 0.123456, whatever the user's language
export LC_ALL
me=${0##*/}
root=$(cd "$(dirname "$0")" && pwd) || exit 1
BUILD=${BUILD:-$root/build}
PROCS=${PROCS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}
workload=cycle

# The implementations. This is the place, and the only one, to add a column: its
# name in `columns', which is also their order, and in command_for() its program,
# a path within $BUILD, with arguments. The programs of other systems (POSIX, GO,
# GO1T, RUST, C++, C++1T) go here. A program prints the seconds and nothing else.
columns='U U1K U10K U1T U1TS UL'

command_for() {		# COLUMN N R M
	case $1 in
	U)	echo "rmain $2 $3 $4 0 $PROCS" ;;
	U1K)	echo "rmain $2 $3 $4 1000 $PROCS" ;;
	U10K)	echo "rmain $2 $3 $4 10000 $PROCS" ;;
	U1T)	echo "rmain $2 $3 $4 0 1" ;;
	U1TS)	echo "rmain.1t $2 $3 $4 0 1" ;;
	UL)	echo "lmain $2 $3 $4 0 $PROCS" ;;
	esac
}

# The sweep: R cycles of N threads that send `messages' in all, but each cycle
# makes at least `least' rounds. The quick one takes every third R from the second
# on, so that its largest, 800,000 threads, is no burden for a small machine.
lengths='2 8'
sizes='2 4 8 50 100 500 1000 5000 10000 50000 100000 500000 1000000'
messages=8000000
least=100
limit=			# seconds a program may take
quick_sizes='4 100 5000 100000'
quick_messages=2000000
quick_least=10

rounds() {		# N R
	echo $((messages / $1 / $2 + least))
}

usage() {
	cat <<-END
	usage: $me [--quick] [--only COLUMNS] [-n RUNS] [--limit SECONDS] [-o DIR]

	Runs the $workload benchmark and prints the seconds that it took.

	  --quick          a third of the sizes and less work: under two minutes
	  --only COLUMNS   only these, separated by commas, of
	                   $(echo "$columns" | tr ' ' ,)
	  -n RUNS          repeat the whole sweep RUNS times (1)
	  --limit SECONDS  stop a program that takes longer (300; quick: 30)
	  -o DIR           keep the results in DIR (results/<date>-<host>)
	  -h, --help       print this

	Results: DIR/$workload.csv, what is printed; DIR/machine.txt, where and how it
	was measured; DIR/failures.txt, what programs that failed had to say.

	A cell is the seconds, or fail:missing (there is no such program),
	fail:exit-STATUS, fail:killed-SIGNAL, fail:memory, fail:timeout,
	fail:output (not a number of seconds) or fail:interrupted.

	Environment: BUILD, the directory of the programs (build);
	PROCS, the processors for U, U1K, U10K and UL (those there are).
	END
}

usage_error() {		# MESSAGE
	echo "$me: $1" >&2
	echo "Try '$me --help'." >&2
	exit 2
}

fatal() {		# MESSAGE
	echo "$me: $1" >&2
	exit 1
}

need_number() {		# WHAT VALUE
	case $2 in
	'' | *[!0-9]* | 0* | ??????????*)
		usage_error "$1 must be a whole number from 1 on, not '$2'" ;;
	esac
}

# The names of the list $only, in the order of the table, to `chosen'.
choose() {
	chosen=
	for column in $columns; do
		case ",$only," in
		*",$column,"*) chosen="$chosen $column" ;;
		esac
	done
	for column in $(echo "$only" | tr , ' '); do
		case " $columns " in
		*" $column "*) ;;
		*) usage_error "no column '$column'; there are: $columns" ;;
		esac
	done
	[ -n "$chosen" ] || usage_error "--only wants at least one of: $columns"
}

options() {		# ARGUMENTS
	quick=no only=$(echo "$columns" | tr ' ' ,) runs=1 dir=
	while [ $# -gt 0 ]; do
		case $1 in
		--only=* | --limit=*)
			option=${1%%=*} value=${1#*=}
			shift
			set -- "$option" "$value" "$@"
			;;
		--only | --limit | -n | -o)
			[ $# -gt 1 ] || usage_error "$1 wants a value"
			;;
		esac
		case $1 in
		--quick) quick=yes ;;
		--only) only=$2; shift ;;
		--limit) limit=$2; need_number "$1" "$2"; shift ;;
		-n) runs=$2; need_number "$1" "$2"; shift ;;
		-o) dir=$2; [ -n "$dir" ] || usage_error "-o wants a name"; shift ;;
		-h | --help) usage; exit 0 ;;
		*) usage_error "what is '$1'?" ;;
		esac
		shift
	done
	choose
	need_number PROCS "$PROCS"
	if [ $quick = yes ]; then
		sizes=$quick_sizes messages=$quick_messages least=$quick_least
		limit=${limit:-30}
	fi
	limit=${limit:-300}
}

# A sweep of nothing but fail:missing helps nobody: it is a build that was forgotten.
check_programs() {
	for column in $chosen; do
		program=$(command_for "$column" 2 2 1)
		[ ! -x "$BUILD/${program%% *}" ] || return 0
	done
	fatal "no program to run in '$BUILD': run 'make' first, or set BUILD"
}

# Never writes over results. Sets `dir', makes it, and what is temporary.
make_directories() {
	if [ -n "$dir" ]; then
		mkdir -p -- "$dir" || exit 1
		[ ! -e "$dir/$workload.csv" ] || fatal "'$dir/$workload.csv' exists"
	else
		mkdir -p -- "$root/results" || exit 1
		host=$(uname -n | tr -c 'A-Za-z0-9.\n' -)
		base=$root/results/$(date +%Y-%m-%d-%H%M%S)-$host
		dir=$base again=1
		until mkdir -- "$dir" 2>/dev/null; do
			[ -e "$dir" ] || fatal "cannot make '$dir'"
			again=$((again + 1))
			dir=$base-$again
		done
	fi
	tmp=$(mktemp -d) || exit 1
}

known() {		# the first line of standard input, or `unknown'
	sed -n 1p | grep . || echo unknown
}

cpu_model() {
	{
		sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo
		lscpu | sed -n 's/^ *Model name: *//p'
		sysctl -n machdep.cpu.brand_string
	} 2>/dev/null | known
}

memory() {
	{
		sed -n 's/^MemTotal: *//p' /proc/meminfo
		sysctl -n hw.memsize
	} 2>/dev/null | known
}

load_average() {
	{
		cut -d ' ' -f 1-3 /proc/loadavg
		uptime | sed 's/.*: //'
	} 2>/dev/null | known
}

# A copy without history can lie within somebody else's repository: ask only ours.
commit() {
	{
		[ -e "$root/.git" ] && git -C "$root" describe --always --abbrev=40 \
			--exclude '*' --dirty
	} 2>/dev/null | known
}

version() {
	sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p' "$root/usched.h" | known
}

# The compiler and its flags, which make keeps as lines NAME=value.
built_with() {
	sed 's/^VERSION=/compiler=/; s/=/: /' "$BUILD/flags" 2>/dev/null ||
		echo 'compiler: unknown'
}

machine() {
	cat <<-END
	date: $(date '+%Y-%m-%d %H:%M:%S %z')
	host: $(uname -n)
	machine: $(uname -m)
	cpu: $(cpu_model)
	cores: $(getconf _NPROCESSORS_ONLN)
	memory: $(memory)
	kernel: $(uname -sr)
	$(built_with)
	usched: $(version)
	commit: $(commit)
	workload: $workload
	columns:$chosen
	runs: $runs
	quick: $quick
	limit: $limit s
	PROCS: $PROCS
	load at start: $(load_average)
	END
}

count_work() {
	all=0 sent=0
	for n in $lengths; do
		for r in $sizes; do
			all=$((all + n * r * $(rounds "$n" "$r")))
		done
	done
	# shellcheck disable=SC2086 # one word for each column
	set -- $chosen
	all=$((all * $# * runs))
}

# The time left supposes that a message takes as long as those sent so far.
progress() {
	[ -t 2 ] || return 0
	if [ $sent -gt 0 ]; then
		left=$(($(date +%s) - started))
		left=$((left * (all - sent) / sent))
		left="about $((left / 60)) min $((left % 60)) s left"
	else
		left='time left unknown yet'
	fi
	clear_progress
	printf '%s' "run $run of $runs, N $n, R $r, $column: " \
		"$((sent * 100 / all))% done, $left" >&2
}

clear_progress() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# Called at a signal, between any two commands. A program is stopped at once; the
# rest is for the sweep, which looks at `stopped'.
stop() {		# SIGNAL
	stopped=$1
	[ -z "$child" ] || stop_child
}

# A program that was just started may still be a copy of this shell, and lose the
# first signal together with the traps.
stop_child() {
	kill "$child"
	sleep 0.2 || sleep 1
	kill "$child"
} 2>/dev/null

# Runs a column's program; seconds or fail:reason to `cell'. The command timeout
# kills also a program that has stopped listening, and what it has started. And if we
# are killed, without a chance to stop it, the program ends at its limit.
measure() {		# COLUMN N R M
	size="N=$2 R=$3 M=$4"
	# shellcheck disable=SC2046 # the words of the command
	set -- $(command_for "$@")
	program=$BUILD/$1
	shift
	: >"$tmp/err"
	if [ ! -f "$program" ] || [ ! -x "$program" ]; then
		cell=fail:missing
	else
		begun=$(date +%s)
		timeout -k 2 "$limit" "$program" "$@" \
			</dev/null >"$tmp/out" 2>"$tmp/err" &
		child=$!
		[ -z "$stopped" ] || stop_child
		while wait "$child"; status=$?; kill -0 "$child" 2>/dev/null; do
			:	# a signal has ended the wait, not the program
		done
		child=
		judge $status $(($(date +%s) - begun))
	fi
	case $cell in
	fail:interrupted) ;;
	fail:*) explain ;;
	esac
}

judge() {		# STATUS ELAPSED
	if [ -n "$stopped" ]; then
		cell=fail:interrupted
	elif [ "$1" -eq 0 ]; then
		check_seconds
	elif [ "$2" -ge "$limit" ] && { [ "$1" -eq 124 ] || [ "$1" -gt 128 ]; }; then
		cell=fail:timeout
	elif [ "$1" -gt 128 ]; then
		cell=fail:killed-$(($1 - 128))
	elif grep -q 'not enough memory' "$tmp/err"; then
		cell=fail:memory
	else
		cell=fail:exit-$1
	fi
}

check_seconds() {
	cell=$(head -c 100 "$tmp/out" | tr '\0' '?')
	case $cell in
	*[!0-9.]* | *.*.* | .* | *.) cell=fail:output ;;
	*[1-9]*) ;;
	*) cell=fail:output ;;
	esac
}

explain() {
	line="$column $size: $cell"
	if [ "$cell" = fail:missing ]; then
		line="$line: $program"
	elif [ "$cell" = fail:output ]; then
		line="$line: $(head -c 100 "$tmp/out" | head -n 1 | tr -cd ' -~')"
	elif [ -s "$tmp/err" ]; then
		line="$line: $(head -c 1000 "$tmp/err" | head -n 1)"
	fi
	printf '%s\n' "$line" >>"$dir/failures.txt"
	clear_progress
	printf '%s: %s\n' "$me" "$line" >&2
}

# A line of the results; to the file first, for who reads standard output may be gone.
csv() {			# N R M CELL...
	line=$(printf '%7s, %7s, %7s' "$1" "$2" "$3")
	shift 3
	line=$line$(printf ', %12s' "$@")
	clear_progress
	printf '%s\n' "$line" >>"$dir/$workload.csv" &&
		printf '%s\n' "$line" || stopped=${stopped:-cannot write}
}

# One row. Nothing is written if not a single cell could be measured.
row() {
	m=$(rounds "$n" "$r")
	cells='' some=no
	for column in $chosen; do
		if [ -n "$stopped" ]; then
			cell=fail:interrupted
		else
			progress
			measure "$column" "$n" "$r" "$m"
			sent=$((sent + n * r * m))
		fi
		[ "$cell" = fail:interrupted ] || some=yes
		cells="$cells $cell"
	done
	# shellcheck disable=SC2086 # one word for each cell
	[ $some = no ] || csv "$n" "$r" "$m" $cells
}

sweep() {
	for n in $lengths; do
		[ -z "$stopped" ] || return 0
		# shellcheck disable=SC2086 # one word for each column
		csv N R M $chosen
		for r in $sizes; do
			[ -z "$stopped" ] || return 0
			row
		done
	done
}

# What called us must learn of a signal, to stop as well: end by it.
finish() {
	clear_progress
	rm -rf -- "$tmp"
	cat >>"$dir/machine.txt" <<-END
	load at end: $(load_average)
	end: $(date '+%Y-%m-%d %H:%M:%S %z'), ${stopped:-complete}
	END
	echo "$me: results in $dir" >&2
	case $stopped in
	'') exit 0 ;;
	'cannot write') exit 1 ;;
	esac
	trap - "$stopped"
	kill -s "$stopped" $$
}

options "$@"
command -v timeout >/dev/null || fatal "needs the command timeout, of GNU coreutils"
check_programs
child='' stopped=''
for signal in HUP INT PIPE TERM; do
	# shellcheck disable=SC2064 # the signal of now
	trap "stop $signal" $signal
done
make_directories
machine >"$dir/machine.txt"
count_work
started=$(date +%s)
run=1
while [ $run -le "$runs" ] && [ -z "$stopped" ]; do
	sweep
	run=$((run + 1))
done
finish
