#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The benchmark programs of other systems that are built, and ours over rr, ll and the
# dispatcher alone, at tiny sizes: what they print, how they end, what they say to wrong
# arguments, and how often their threads block. Servers are to answer right once and
# to end when told so. Without a toolchain a peer.mk skips its programs and says what to
# install. Nothing is built here: see `make peers'. The tables of bench/workloads.sh say
# what is run, and bench/peers/README.md has the contract.
#
# Some failures are not the fault of a program of another system: it lacks memory or native
# threads, it is killed, or it does not start any more. The line before the last names it.
#
#   B       where the programs are
#   PORTS   as for bench/serve.sh
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
programs=0
runs=0
excuses=
PROCS=2
# shellcheck source=bench/workloads.sh
. bench/workloads.sh || exit 1
unset BLOCKS

complain() {		# of the program; only the first is printed
	complaints=$((complaints + 1))
	[ $complaints -gt 1 ] || first=$(echo "$*" | tr '\n' ' ')
}

# The sizes at which programs are run, the least of them first. Servers have none.
tiny_points_of() {	# WORKLOAD
	case $1 in
	cycle)		printf '%s\n' '2 1 1' '2 3 10' '3 5 7' '8 50 20' ;;
	ring)		printf '%s\n' 1 503 10007 ;;
	counters)	printf '%s\n' '1 1' '7 500' '100 11' ;;
	pingpong)	printf '%s\n' 1 10007 ;;
	create)		printf '%s\n' 1 2003 ;;
	walk)		printf '%s\n' 1 2 2003 ;;
	alternate)	printf '%s\n' '1 1' '300 2' '1 1000' ;;
	memory)		printf '%s\n' 1 1000 ;;
	blocks)		echo 8 10 100 ;;
	uneven)		echo 9 5 8 ;;
	channel)	printf '%s\n' '1 1' '2 100' '7 1000' ;;
	esac
}

# PROGRAM WORKLOAD ARGUMENT... for all columns. The cycle programs of ours are for
# cycle.sh, but when they count.
runs_of_columns() {
	for load in $workloads; do
		for PROCS in 1 2; do
			runs_of_workload "$load"
		done
	done | grep -e '^peers/' -e '^bench/' -e ' blocks ' | sort -u
}

runs_of_workload() {	# WORKLOAD
	for column in $(columns_of "$1"); do
		tiny_points_of "$1" | while read -r point; do
			# shellcheck disable=SC2086 # one word for each parameter
			command=$(command_for "$1" "$column" $point)
			echo "${command%% *} $1 ${command#* }"
		done
	done
}

# The same for the programs that no column uses, by their names.
runs_of_others() {
	for file in "$B"/peers/*-*; do
		name=peers/${file##*/}
		load=${name#*-}
		load=${load%%-*}
		[ -f "$file" ] || continue
		[ "$load" != chat ] || continue         # check_chats
		! grep -q "^$name " "$dir/columns" || continue
		case " $workloads " in
		*" $load "*) tiny_points_of "$load" | sed "s|^|$name $load |" ;;
		*" ${name##*-} "*) ;;		# of a server
		*) fail "$name: there is no workload $load" >&2 ;;
		esac
	done
}

# Sets `status', and `over' when there is no use in trying again. What takes so long hangs.
run() {			# ARGUMENT...
	runs=$((runs + 1))
	timeout 300 "$B/$program" "$@" </dev/null >"$dir/out" 2>"$dir/err"
	status=$?
	[ $status -ne 124 ] || over=yes
}

# Is it no fault of the program that a run ended with $status, as the head says?
excused() {
	case $program.$status in
	peers/*.126 | peers/*.127 | peers/*.137) ;;
	peers/*) grep -q 'not enough memory' "$dir/err" ;;
	*) false ;;
	esac
}

# Of a run that has failed.
tell_failure() {	# WHAT
	if excused; then
		over=yes excuses="$excuses ${program#peers/} (status $status)"
	else
		complain "$1: status $status, $(head -c 200 "$dir/err" | head -n 1)"
	fi
}

# A good run: the number, and the answer. Any number is good: at these sizes work can take
# less than a microsecond, and no memory is more than a runtime can give back meanwhile.
check_run() {		# WORKLOAD ARGUMENT...
	load=$1
	shift
	if [ "$load" = blocks ]; then
		check_blocks "$@"
		return
	fi
	run "$@"
	[ $status -eq 0 ] || {
		tell_failure "$*"
		return
	}
	want=$(answer_of "$load" "$@")
	found=$(cat "$dir/out")
	number=$(sed -n 1p "$dir/out")
	case $number in
	'' | .* | *. | *[!0-9.]* | *.*.*) complain "$*: not a number but '$number'" ;;
	*.??????) ;;
	*)	[ "$load" = memory ] ||
			complain "$*: not six digits behind the point: '$number'" ;;
	esac
	[ "$found" = "$number${want:+
}$want" ] || complain "$*: not the answer '$want' but '$(sed 1d "$dir/out")'"
}

# Each round, a message goes out and its sender has to wait for it, so N threads on fewer
# processors block once in each round of a cycle. And for each message that a thread gets it
# blocks no more than once, and once to begin with. But where the kernel preempts threads,
# messages come meanwhile, and it counts as a block that it stops a process.
check_blocks() {	# N R M ARGUMENT...
	export BLOCKS=1
	run "$@"
	unset BLOCKS
	[ $status -eq 0 ] || {
		tell_failure "BLOCKS=1, $*"
		return
	}
	number=$(cat "$dir/out") least=$(($2 * $3)) most=$(($1 * $2 * ($3 + 1)))
	case $program in
	*/posix-*) least=1 most=$number ;;
	esac
	case $number in
	'' | *[!0-9]*) complain "BLOCKS=1, $*: not a whole number but '$number'" ;;
	*)	[ "$number" -lt $least ] || [ "$number" -gt "$most" ] || return 0
		complain "BLOCKS=1, $*: cannot have blocked $number times" ;;
	esac
}

check_usage() {		# ARGUMENT...
	[ $over = no ] || return 0
	run "$@"
	if [ $status -ne 2 ]; then
		complain "'$*': not status 2 but $status"
	elif [ -s "$dir/out" ]; then
		complain "'$*': prints $(head -n 1 "$dir/out")"
	elif [ ! -s "$dir/err" ]; then
		complain "'$*': no usage on standard error"
	fi
}

# The arguments are those of the least size. Each wrong one is tried as the first and, if
# there are several, as the last.
check_usages() {	# WORKLOAD ARGUMENT...
	of=$1
	check_usage
	[ "$1" != cycle ] || check_usage 1 "$3" "$4" ${5+"$5"}
	shift
	case $program in
	bench/uneven)	check_usage "$@" 10 1 ;;        # one more is allowed
	*)		check_usage "$@" 1 ;;
	esac
	good=$*		# each has one digit
	[ $# -eq 1 ] || check_usage "$1"
	for wrong in 0 -1 x 99999999999999999999; do
		[ "$of$wrong" != channel0 ] || continue         # a capacity
		# shellcheck disable=SC2086 # one word for each
		check_usage $wrong ${good#?}
		# shellcheck disable=SC2086 # one word for each
		[ $# -eq 1 ] || check_usage ${good%?} $wrong
	done
}

check_program() {	# reads its runs
	complaints=0
	usage_of=
	over=no
	while [ $over = no ] && read -r _ load arguments; do
		# shellcheck disable=SC2086 # one word for each
		check_run "$load" $arguments
		[ "$load" = blocks ] || usage_of=${usage_of:-$load $arguments}
	done <"$dir/runs"
	# shellcheck disable=SC2086 # one word for each
	[ -z "$usage_of" ] || check_usages $usage_of
	tell_complaints
}

tell_complaints() {
	case $complaints in
	0) ;;
	1) fail "$program: $first" ;;
	*) fail "$program: $first; and $((complaints - 1)) more" ;;
	esac
}

check_programs() {
	absent=
	for program in $(cut -d ' ' -f 1 "$dir/all" | uniq); do
		if [ -x "$B/$program" ]; then
			programs=$((programs + 1))
			grep "^$program " "$dir/all" >"$dir/runs"
			check_program
			continue
		fi
		case $program in
		peers/*) absent="$absent ${program#peers/}" ;;
		*) fail "$program: there is no such program" ;;
		esac
	done
}

# PROGRAM KIND of all servers: of columns, and others that are there.
servers_there() {
	for load in $servers; do
		for column in $(columns_of "$load"); do
			echo "$(server_of "$load" "$column") $(kind_of "$load")"
		done
	done
	for kind in http echo redis; do
		for file in "$B"/peers/*-"$kind"; do
			[ ! -f "$file" ] || echo "peers/${file##*/} $kind"
		done
	done
}

# What is needed to look whether a server answers right.
answers_need() {	# KIND
	case $1 in
	http)	echo curl ;;
	echo)	echo "$B/bench/load" ;;
	redis)	echo redis-cli ;;
	esac
}

# It answers, and ends with 0 upon SIGTERM: serve.sh looks for that.
check_answer() {	# KIND
	need=$(answers_need "$1")
	command -v "$need" >/dev/null || {
		note "$program: whether it answers right was not tried, no ${need##*/}"
		return
	}
	runs=$((runs + 1))
	BUILD=$B PATIENCE=100 timeout -k 5 900 bench/serve.sh answer "$B/$program" "$1" \
		</dev/null >"$dir/out" 2>"$dir/err"
	status=$(sed -n 's/^fail:exit-//p; s/^fail:killed-9$/137/p' "$dir/out")
	if excused; then
		over=yes excuses="$excuses ${program#peers/} (status $status)"
	elif [ "$(cat "$dir/out")" != 1 ]; then
		complain "answers: $(cat "$dir/out"), $(head -n 1 "$dir/err")"
	fi
}

# A good port behind, or in front of, what is wrong; HTTP wants a directory besides.
check_server_usages() {	# KIND
	directory=
	[ "$1" != http ] || directory=$dir/files
	check_usage
	# shellcheck disable=SC2086 # nothing or one word
	for wrong in 0 -1 x 65536 80x ''; do
		check_usage "$wrong" $directory
	done
	# shellcheck disable=SC2086 # nothing or one word
	check_usage 7199 $directory more
	[ "$1" != http ] || check_usage 7199
}

check_servers() {
	mkdir "$dir/files" && printf %1024s '' >"$dir/files/1k"
	servers_there | sort -u >"$dir/servers"
	while read -r program kind; do
		if [ ! -x "$B/$program" ]; then
			case $program in
			peers/*) absent="$absent ${program#peers/}" ;;
			*) fail "$program: there is no such program" ;;
			esac
			continue
		fi
		programs=$((programs + 1)) complaints=0 over=no
		check_answer "$kind"
		check_server_usages "$kind"
		tell_complaints
	done <"$dir/servers"
}

is_ready_or_ended() {	# PROCESS
	grep -q ready "$dir/out" || ! kill -0 "$1" 2>/dev/null
}

# Servers for bench/chat-load: what is said comes to all, and SIGTERM ends them.
check_chats() {
	for file in "$B"/examples/09-chat "$B"/peers/*-chat; do
		[ -x "$file" ] && [ -x "$B/bench/chat-load" ] || continue
		programs=$((programs + 1)) runs=$((runs + 1))
		for port in 27951 27952 27953 27954; do
			"$file" $port >"$dir/out" 2>"$dir/err" &
			chat=$!
			until_true 600 is_ready_or_ended $chat
			! grep -q ready "$dir/out" || break
			kill $chat 2>/dev/null
			wait $chat
		done
		for _ in 1 2 3; do      # a client may be in its room too late
			limited "$B/bench/chat-load" $port $chat 20 5 100 1 >"$dir/out" \
				2>"$dir/err" && break
		done || fail "$file: chat-load: $(cat "$dir/out" "$dir/err")"
		kill $chat
		wait $chat || fail "$file: status $? after SIGTERM"
	done
}

# What the peer.mk files offer where there is no toolchain: the variables that
# they use for one, and the compilers, name a program that does not exist.
check_offers() {
	none=$(sed -n 's/^\([A-Z0-9_]*\) *?=.*/\1=no-such-program/p' bench/peers/*/peer.mk)
	# shellcheck disable=SC2086 # one word for each
	${MAKE:-make} -s -C bench/peers "B=$dir/none" CC=no-such-program \
		CXX=no-such-program $none report >"$dir/report" 2>&1
	status=$?
	skipped=$dir/none/peers/skipped
	if [ -s "$dir/none/peers/versions" ]; then
		fail "offered without a toolchain: $(cut -d : -f 1 \
			"$dir/none/peers/versions" | tr '\n' ' ')"
		return
	fi
	[ $status -eq 0 ] || fail "make report: $(grep -v ': skipped ' "$dir/report" | sed 1q)"
	for system in $(sed -n 's/.*(call offer,\([^,]*\),.*/\1/p' bench/peers/*/peer.mk); do
		grep -q "^$system (" "$skipped" || fail "$system: not named where it is skipped"
	done
	sed 's/ (/ /; s/).*//' "$skipped" | while read -r system offered; do
		for program in $offered; do
			echo "peers/$system-$program"
		done
	done | sort >"$dir/offered"
	cut -d ' ' -f 1 "$dir/columns" "$dir/servers" | grep '^peers/' | sort -u >"$dir/wanted"
	lacking=$(comm -13 "$dir/offered" "$dir/wanted" | tr '\n' ' ')
	[ -z "$lacking" ] || fail "no peer.mk offers $lacking"
	unused=$(comm -23 "$dir/offered" "$dir/wanted" | tr '\n' ' ')
	[ -z "$unused" ] || note "no column uses $unused"
	check_packages
}

# What is to be installed: packages, or `System 1.2 or newer'; with remarks in
# parentheses.
check_packages() {
	while IFS= read -r line; do
		packages=${line#*: install }
		case $packages in
		"$line" | '') fail "skipped without a package: $line" ;;
		*' or newer') continue ;;
		esac
		for package in $(echo "$packages" | sed 's/(.*)//; s/ and / /g'); do
			grep -qx -e "$package" bench/peers/packages ||
				fail "bench/peers/packages lacks $package: $line"
		done
	done <"$skipped"
}

need timeout
runs_of_columns >"$dir/columns"
{ cat "$dir/columns"; runs_of_others; } >"$dir/all"
check_programs
check_servers
check_chats
[ -z "$absent" ] || note "not built:$absent"
[ -z "$excuses" ] || note "cannot be run here:$excuses"
[ $programs -gt 0 ] || skip "there are no programs in $B"
check_offers
conclude "$programs programs, $runs runs"
