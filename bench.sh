#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh: runs the benchmark programs. The results go to standard output as
# comma-separated values, a row for each size and run and a column for each
# implementation, and to a directory, with a description of the machine. graph.py makes
# pictures and tables of them. See usage() for the options, and bench/workloads.sh for the
# workloads.
#
# No result is lost: a program that fails leaves `fail:reason' in its cell, and the sweep
# goes on; a row is written as soon as it is complete; an interrupted row is completed
# with `fail:interrupted'. At most one program runs at a time, and none is left behind.

set -fu			# no file names come from patterns here
LC_ALL=C		# a point in 0.123456, whatever the user's language
export LC_ALL
me=${0##*/}
root=$(cd "$(dirname "$0")" && pwd) || exit 1
given=${BUILD-}
BUILD=${BUILD:-$root/build}
PROCS=${PROCS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}
# shellcheck source=bench/workloads.sh
. "$root/bench/workloads.sh" || exit 1

usage() {
	cat <<-END
	usage: $me [--workload NAMES] [--quick] [--only COLUMNS] [-n RUNS]
	                [--procs COUNTS] [--sizes 'N R M'...] [--limit SECONDS] [-o DIR]

	Runs benchmarks and prints the seconds that they took.

	  --workload NAMES one or several (cycle), separated by commas, of
	                   $(echo "$workloads" | tr ' ' ,)
	                   or all
	  --quick          fewer sizes and less work: cycle in under two minutes, of a
	                   server some seconds
	  --only COLUMNS   only these implementations, separated by commas
	  -n RUNS          repeat each workload RUNS times (cycle, blocks: 1; the others
	                   5, quick: 3, of servers 1)
	  --procs COUNTS   likewise for each of these numbers of processors, such as 1,2,4
	  --sizes POINT... these sizes only: 'N R M' of cycle, 'N R M D' of depth, or as
	                   many numbers as the workload has parameters
	  --limit SECONDS  stop a program that takes longer (300; quick: 30)
	  -o DIR           keep the results in DIR (runs/<date>-<host>)
	  --columns        print the columns of each workload, and end
	  -h, --help       print this

	Results: DIR/WORKLOAD.csv, what is printed; DIR/machine.txt, where and how it
	was measured; DIR/failures.txt, the messages of programs that failed; DIR/short.txt,
	all times of cells that were run several times.

	A row has the parameters; of workloads with columns that use several processors P,
	their number; the machine; and the cells. A cell is the seconds (memory: bytes per
	thread; blocks: how often threads have blocked; http, echo, redis: requests
	per second; uneven: us; idle: bytes per connection), followed by
	@SIZE if the last parameter was smaller than that of the row; or fail:missing (no
	such program; other systems are skipped), fail:exit-STATUS, fail:killed-SIGNAL,
	fail:memory, fail:threads (more native threads than one user may have, less a
	margin), fail:timeout, fail:output (not a number), fail:answer (a wrong one) or
	fail:interrupted. Of servers also fail:ready, fail:end, fail:content, fail:errors,
	fail:client, for which see bench/serve.sh.

	Environment: BUILD, the directory of the programs (build);
	PROCS, the default of --procs (those there are), for U, U1K, U10K, UL, POSIX, GO
	and TOKIO;
	NATIVE_THREADS, how many POSIX may have;
	PORTS, FIRST-LAST, where servers are to listen (21000-21999).
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

# member WORD LIST: is the word in the list?
member() {
	case " $2 " in
	*" $1 "*) ;;
	*) false ;;
	esac
}

words() {		# WORD,WORD...
	echo "$1" | tr -s , ' ' | sed 's/^ //; s/ $//'
}

choose_workloads() {
	[ -n "${loads+x}" ] || case ${sizes%%"$newline"*} in
	*' '*' '*' '*) loads=depth ;;
	*) loads=cycle ;;
	esac
	[ "$loads" != all ] || loads=$workloads
	loads=$(words "$loads")
	for load in $loads; do
		member "$load" "$workloads" ||
			usage_error "no workload '$load'; there are: $workloads"
	done
	[ -n "$loads" ] || usage_error "--workload wants at least one of: $workloads"
}

check_sizes() {
	echo "$sizes" | while read -r point; do
		for load in $loads; do
			left=$point
			for name in $(parameters_of "$load"); do
				value=${left%% *} left=${left#"$value"} left=${left# }
				case $name.$value in
				D.0 | capacity.0 | command.GET | command.SET) ;;
				*) need_number "$name of $load in --sizes" "$value" ;;
				esac
			done
			[ -z "$left" ] || usage_error \
				"--sizes '$point': the parameters of $load are $(parameters_of "$load")"
		done
	done || exit
}

check_columns() {
	all=
	for load in $loads; do
		all="$all $(columns_of "$load")"
	done
	for column in $only; do
		member "$column" "$all" ||
			usage_error "no column '$column'; there are:$all"
	done
}

# Sets `chosen' to the columns of a workload that are run, in the order of the table, and
# `absent' to other systems that have no program.
choose() {		# WORKLOAD
	chosen='' absent=''
	for column in $(columns_of "$1"); do
		[ -z "$only" ] || member "$column" "$only" || continue
		program=$(command_for "$1" "$column" 2 2 1)
		program=${program%% *}
		case $program in
		peers/*)
			[ -x "$BUILD/$program" ] || {
				absent="$absent $column"
				continue
			}
			;;
		esac
		chosen="$chosen $column"
	done
}

options() {		# ARGUMENTS
	quick=no only='' runs='' limit='' dir='' procs=$PROCS sizes=''
	unset loads
	while [ $# -gt 0 ]; do
		case $1 in
		--workload=* | --only=* | --limit=* | --procs=* | --sizes=*)
			option=${1%%=*} value=${1#*=}
			shift
			set -- "$option" "$value" "$@"
			;;
		--workload | --only | --limit | --procs | --sizes | -n | -o)
			[ $# -gt 1 ] || usage_error "$1 wants a value"
			;;
		esac
		case $1 in
		--workload) loads=$2; shift ;;
		--quick) quick=yes ;;
		--only)
			only=$(words "$2")
			[ -n "$only" ] || usage_error "--only wants at least one column"
			shift
			;;
		--procs)
			procs=$(words "$2")
			[ -n "$procs" ] || usage_error "--procs wants at least one number"
			shift
			;;
		--sizes)
			sizes=$sizes${sizes:+$newline}$(words "$2")
			[ -n "$sizes" ] || usage_error "--sizes wants at least one point"
			shift
			case ${2-} in
			[0-9]*)		# one more
				shift
				set -- --sizes "$@"
				continue
				;;
			esac
			;;
		--limit) limit=$2; need_number "$1" "$2"; shift ;;
		-n) runs=$2; need_number "$1" "$2"; shift ;;
		-o) dir=$2; [ -n "$dir" ] || usage_error "-o wants a name"; shift ;;
		--columns) print_columns; exit 0 ;;
		-h | --help) usage; exit 0 ;;
		*) usage_error "what is '$1'?" ;;
		esac
		shift
	done
	choose_workloads
	check_columns
	[ -z "$sizes" ] || check_sizes
	for count in $procs; do
		need_number 'the number of processors' "$count"
	done
	[ $quick = no ] || limit=${limit:-30}
	limit=${limit:-300}
}

is_server() {		# WORKLOAD
	member "$1" "$servers"
}

print_columns() {
	for load in $workloads; do
		echo "$load: $(columns_of "$load")"
	done
}

has_programs() {
	for load in $loads; do
		choose "$load"
		for column in $chosen; do
			program=$(command_for "$load" "$column" 2 2 1)
			[ ! -x "$BUILD/${program%% *}" ] || return 0
		done
	done
	false
}

# A sweep of fail:missing only is useless: the build was forgotten.
check_programs() {
	! has_programs || return 0
	[ -n "$given" ] || make -C "$root" -s programs >&2
	has_programs || fatal "no program to run in '$BUILD': run 'make programs' first, or set BUILD"
}

# Sets and makes `dir' and `tmp'. Never overwrites results. `results' is a name for users.
make_directories() {
	if [ -n "$dir" ]; then
		mkdir -p -- "$dir" || exit 1
		for load in $loads; do
			[ ! -e "$dir/$load.csv" ] || fatal "'$dir/$load.csv' exists"
		done
	else
		mkdir -p -- "$root/runs" || exit 1
		host=$(uname -n | tr -c 'A-Za-z0-9.\n' -)
		base=$root/runs/$(date +%Y-%m-%d-%H%M%S)-$host
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

# The cell that keeps results of two machines apart.
machine_name() {
	echo "$(uname -n)/$(cpu_model)-x$(getconf _NPROCESSORS_ONLN)" |
		tr -sc 'A-Za-z0-9./\n' -
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

# A copy without history may be inside another repository: ask ours only.
commit() {
	{
		[ -e "$root/.git" ] && git -C "$root" describe --always --abbrev=40 \
			--exclude '*' --dirty
	} 2>/dev/null | known
}

version() {
	sed -n 's/^#define USCHED_VERSION "\(.*\)"/\1/p' "$root/usched.h" | known
}

# The compiler and its flags, from lines NAME=value that make has written.
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
	workloads: $loads
	quick: $quick
	limit: $limit s
	PROCS: $procs
	native threads: $natives
	load at start: $(load_average)
	END
	sed 's/^/peer: /' "$BUILD/peers/versions" 2>/dev/null
	sed 's/^/skipped: /' "$BUILD/peers/skipped" 2>/dev/null
	for load in $loads; do
		! is_server "$load" || {
			"$root/bench/serve.sh" --about
			break
		}
	done
}

points() {		# WORKLOAD
	if [ -n "$sizes" ]; then echo "$sizes"; else points_of "$1"; fi
}

# The numbers of processors that a workload is run with.
procs_of() {		# WORKLOAD
	if member "$1" "$spread"; then echo "$procs"; else echo "${procs%% *}"; fi
}

count_cells() {
	cells=0 done=0
	for load in $loads; do
		choose "$load"
		# shellcheck disable=SC2086 # one word for each column
		set -- $chosen
		points=$(points "$load" | wc -l)
		counts=$(procs_of "$load" | wc -w)
		cells=$((cells + $# * points * counts * ${runs:-$(runs_of "$load")}))
	done
}

# The estimate takes the mean time of the cells so far.
progress() {
	[ -t 2 ] || return 0
	if [ $done -gt 0 ]; then
		left=$(($(date +%s) - started))
		left=$((left * (cells - done) / done))
		left="about $((left / 60)) min $((left % 60)) s left"
	else
		left='time left unknown yet'
	fi
	clear_progress
	printf '%s' "$workload, run $run of $repeat, $size, $column: " \
		"$((done * 100 / cells))% done, $left" >&2
}

clear_progress() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# Called at a signal, between any two commands. Stops the program at once. The sweep ends
# when it sees `stopped'.
stop() {		# SIGNAL
	stopped=$1
	[ -z "$child" ] || stop_child
}

# A program that was just started may still be a copy of this shell, and lose the first
# signal with the traps.
stop_child() {
	kill "$child"
	sleep 0.2 || sleep 1
	kill "$child"
} 2>/dev/null

# Runs a column's program, and sets `cell' to its result or fail:reason. timeout(1) also
# kills a program that ignores SIGTERM, and its children. If this script is killed, the
# program ends at its limit.
measure() {		# COLUMN ARGUMENT...
	column=$1
	shift
	shrink "$@"
	# shellcheck disable=SC2086 # the words of the arguments
	answer=$(answer_of "$workload" $arguments)
	# shellcheck disable=SC2086
	environment=$(environment_of "$workload" $arguments)
	# shellcheck disable=SC2046,SC2086 # the words of the command
	set -- $(command_for "$workload" "$column" $arguments)
	program=$BUILD/$1
	shift
	set -- "$program" "$@"
	! is_server "$workload" || set -- "$root/bench/serve.sh" "$workload" "$@"
	: >"$tmp/err"
	if [ ! -f "$program" ] || [ ! -x "$program" ]; then
		cell=fail:missing
	# shellcheck disable=SC2086
	elif [ "$(native_of "$workload" "$column" $arguments)" -gt "$natives" ]; then
		cell=fail:threads
	else
		# shellcheck disable=SC2086 # a word for each variable
		timeout -v -k 10 "$limit" env $environment "$@" \
			</dev/null >"$tmp/out" 2>"$tmp/err" &
		child=$!
		[ -z "$stopped" ] || stop_child
		while wait "$child"; status=$?; kill -0 "$child" 2>/dev/null; do
			:	# a signal has ended the wait, not the program
		done
		child=
		judge $status
	fi
	case $cell in
	fail:interrupted) ;;
	fail:*) explain ;;
	*) cell=$cell$shrunk ;;
	esac
}

# Sets `arguments', the last one limited to the largest for the system.
shrink() {		# ARGUMENT...
	arguments=$* shrunk=
	most=$(most_of "$workload" "$column" "$@")
	last=${arguments##* }
	[ -n "$most" ] && [ "$most" -lt "$last" ] || return 0
	arguments="${arguments%"$last"}$most" shrunk=@$most
}

# The status of a time-out may also be that of a program that exits with 124 or is killed.
# timeout reports its signals on standard error.
judge() {		# STATUS
	if [ -n "$stopped" ]; then
		cell=fail:interrupted
	elif [ "$1" -eq 0 ]; then
		check_output
	elif grep -aq '^timeout: .*TERM' "$tmp/err"; then
		cell=fail:timeout
	elif [ "$1" -gt 128 ]; then
		cell=fail:killed-$(($1 - 128))
	elif is_server "$workload" && grep -qx 'fail:[a-z0-9-]*' "$tmp/out"; then
		cell=$(cat "$tmp/out")
	elif grep -q 'not enough memory' "$tmp/err"; then
		cell=fail:memory
	else
		cell=fail:exit-$1
	fi
}

# Checks for a positive number on the first line, and the answer, if any, on another.
check_output() {
	cell=$(head -c 100 "$tmp/out" | tr '\0' '?')
	case $cell in
	*"$newline"*) found=${cell#*"$newline"} cell=${cell%%"$newline"*} ;;
	*) found= ;;
	esac
	case $cell in
	*[!0-9.]* | *.*.* | .* | *.) cell=fail:output ;;
	*[1-9]*) [ "$found" = "$answer" ] || cell=fail:answer ;;
	*) cell=fail:output ;;
	esac
	[ "$cell" != fail:answer ] || [ -n "$answer" ] || cell=fail:output
}

explain() {
	line="$workload: $column $size: $cell"
	case $cell in
	fail:missing) line="$line: $program" ;;
	fail:threads) line="$line: a user may have $natives here, less a margin" ;;
	fail:output | fail:answer)
		line="$line: $(head -c 100 "$tmp/out" | tr '\n' ' ' | tr -cd ' -~')" ;;
	*)	said=$(head -c 1000 "$tmp/err" | grep -av '^timeout: .*\(TERM\|KILL\)' | head -n 1)
		line=$line${said:+: $said} ;;
	esac
	printf '%s\n' "$line" >>"$dir/failures.txt"
	clear_progress
	printf '%s: %s\n' "$me" "$line" >&2
}

tell_absent() {
	echo "skipped of $workload:$absent" >>"$dir/machine.txt"
	clear_progress
	echo "$me: $workload: skipped$absent: 'make peers' builds those that it can," \
		"and says what to install" >&2
}

# Writes a line of the results: to the file first, as the reader of standard output may be
# gone. It begins with the workload, except in cycle, whose form is older.
csv() {			# CELLS-OF-PARAMETERS P MACHINE CELL...
	# shellcheck disable=SC2086 # one word for each parameter
	if [ "$workload" = cycle ]; then
		line=$(printf '%7s, ' $1)
		width=12
	else
		line=$(printf '%9s, ' "$workload"; printf '%11s, ' $1)
		width=16
	fi
	shift
	! member "$workload" "$spread" || line=$line$(printf '%2s, ' "$1")
	line="$line$2, "
	shift 2
	line=$line$(printf "%${width}s, " "$@")
	line=${line%, }
	clear_progress
	printf '%s\n' "$line" >>"$dir/$workload.csv" &&
		printf '%s\n' "$line" || stopped=${stopped:-cannot write}
}

# Sets `size' to the name of a size: N=2 R=4 M=100.
describe() {		# ARGUMENT...
	size=
	for name in $(parameters_of "$workload"); do
		size="$size${size:+ }$name=$1"
		shift
	done
	[ "$PROCS" = "$(procs_of "$workload")" ] || size="$size P=$PROCS"
}

# Has a column enough times? Short runs differ much: until they have taken 0.25 s in all,
# there are five, and more until they have taken 50 ms, but 31 at most. The number is odd.
enough() {		# FILE
	awk '{ all += $1 } /fail/ { failed = 1 }
		END { exit !(failed || NR % 2 &&
			(NR == 31 || all >= (NR < 5 ? 0.25 : 0.05))) }' "$1"
}

# Runs columns in turns until each has enough times, in $tmp/times, which has a file for
# each column.
take_turns() {		# ARGUMENT...
	todo=$chosen
	while [ -n "$todo" ]; do
		rest=
		for column in $todo; do
			cell=fail:interrupted
			[ -n "$stopped" ] || {
				progress
				measure "$column" "$@"
			}
			echo "$cell" >>"$tmp/times/$column"
			if enough "$tmp/times/$column"; then
				done=$((done + 1))
			else
				rest="$rest $column"
			fi
		done
		todo=$rest
	done
}

# Sets `cell' to the failure of a column, or to the median of its times.
choose_cell() {		# FILE
	count=$(wc -l <"$1")
	cell=$(grep fail "$1") || cell=$(sort -n "$1" | sed -n $(((count + 1) / 2))p)
	[ "$count" -eq 1 ] ||
		echo "$workload: $column $size: $(tr '\n' ' ' <"$1")" >>"$dir/short.txt"
}

# Measures a row. Writes nothing if it was interrupted before the first result.
row() {			# ARGUMENT...
	row='' some=no
	describe "$@"
	rm -rf "$tmp/times"
	mkdir "$tmp/times"
	take_turns "$@"
	for column in $chosen; do
		choose_cell "$tmp/times/$column"
		[ "$cell" = fail:interrupted ] || some=yes
		row="$row $cell"
	done
	# shellcheck disable=SC2086 # one word for each cell
	[ $some = no ] || csv "$*" "$PROCS" "$machine" $row
}

# Measures all sizes, with a header before the first and, in cycle, before each new N.
sweep() {
	before=none
	for point in $(points "$workload" | tr ' ' .); do
		[ -z "$stopped" ] || return 0
		# shellcheck disable=SC2046 # one word for each parameter
		set -- $(echo "$point" | tr . ' ')
		heading=$([ "$workload" != cycle ] || echo "$1")
		# shellcheck disable=SC2086 # one word for each column
		[ "$heading" = "$before" ] || csv "$(parameters_of "$workload")" P machine $chosen
		before=$heading
		[ -z "$stopped" ] || return 0
		row "$@"
	done
}

# The missing commands of a workload.
lacks() {		# WORKLOAD
	for need in $(needs_of "$1"); do
		command -v "$need" >/dev/null || echo "$need"
	done
}

tell_lack() {
	line="$workload: skipped, there is no $(echo "$lack" | tr '\n' ' ')"
	echo "skipped: ${line% }" >>"$dir/machine.txt"
	clear_progress
	echo "$me: ${line% }" >&2
}

tell_unpinned() {
	line=$(sed -n 's/^pinned: no: //p' "$dir/machine.txt")
	[ -z "$line" ] || echo "$me: servers and clients run wherever they like: $line" >&2
}

run_workload() {	# NAME
	workload=$1
	choose "$workload"
	[ -z "$absent" ] || tell_absent
	[ -n "$chosen" ] || return 0
	lack=$(lacks "$workload")
	[ -z "$lack" ] || {
		tell_lack
		return 0
	}
	repeat=${runs:-$(runs_of "$workload")} run=1
	while [ $run -le "$repeat" ] && [ -z "$stopped" ]; do
		for PROCS in $(procs_of "$workload"); do
			sweep
		done
		run=$((run + 1))
	done
}

# Ends by the same signal, so that the caller stops as well.
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

newline='
'
options "$@"
PROCS=${procs%% *}
machine=$(machine_name)
natives=$(native_threads)
command -v timeout >/dev/null || fatal "needs the command timeout, of GNU coreutils"
check_programs
child='' stopped=''
unset BLOCKS		# workloads.sh sets the environment of programs
export BUILD
for signal in HUP INT PIPE TERM; do
	# shellcheck disable=SC2064 # the signal of now
	trap "stop $signal" $signal
done
make_directories
machine >>"$dir/machine.txt"
tell_unpinned
count_cells
started=$(date +%s)
for load in $loads; do
	run_workload "$load"
done
finish
