#!/bin/sh
# SPDX-License-Identifier: MIT
#
# compare.sh: the aims of usched, as ratios to other systems and to itself. The programs
# of an aim run in turns, TURNS times, under the same conditions. The ratio is that of the
# medians; the spread is the least and the most of the ratios of single turns. Prints a
# table in Markdown, a row for each aim. The measurements go to DIR/compare.csv, failures
# to standard error. Takes some six minutes, and ten more for servers. Exit status: 0 if
# every aim was reached, 1 if not, 2 if a program failed. workloads.sh has the columns.
#
# usage: bench/compare.sh [-n TURNS] [-o DIR] [PART...]
#
#   TURNS  5 by default
#   PART   of: cycle depth processors pingpong create counters coroutines ring memory
#          servers, which are the default
#
#   BUILD  the directory of the programs (build), of `make programs' and `make peers'
#   CPU    the processor for programs that use one (1: some machines are busy on 0);
#          serve.sh chooses those for servers
# shellcheck disable=SC2317 # parts are called by their names
set -u
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd) || exit 2
BUILD=${BUILD:-$root/build}
export BUILD
CPU=${CPU:-1}
# shellcheck disable=SC2034 # for workloads.sh
PROCS=2			# of the columns that use several
quick=no
# shellcheck source=bench/workloads.sh
. "$root/bench/workloads.sh" || exit 2
turns=5
dir=
served=			# the workload of serve.sh, if it is one
parts='cycle depth processors pingpong create counters coroutines ring memory servers'
# These take twenty times as long as the others, and are as far from their aims: every
# other turn is enough.
slow='GO1T TOKIO1T'
tmp=$(mktemp -d) && mkdir "$tmp/values" || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 2' HUP INT TERM
status=0

usage() {
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
}

arguments() {		# ARGUMENT...
	while getopts n:o: option; do
		case $option in
		n) turns=$OPTARG ;;
		o) dir=$OPTARG ;;
		*) usage ;;
		esac
	done
	shift $((OPTIND - 1))
	case $turns in
	'' | *[!0-9]* | 0*) usage ;;
	esac
	for part; do
		case " $parts " in
		*" $part "*) ;;
		*) usage ;;
		esac
	done
	[ $# -eq 0 ] || parts=$(printf '%s\n' "$@" | awk '!seen[$0]++')
}

# Tells of a missing program, once, and what makes it.
tell_missing() {	# PROGRAM
	! grep -qxF "$1" "$tmp/missing" 2>/dev/null || return 0
	echo "$1" >>"$tmp/missing"
	case ${1#"$BUILD"/} in
	examples/*)	target=examples ;;
	peers/*)	target=peers ;;
	*)		target=programs ;;
	esac
	echo "compare.sh: there is no $1: make $target builds it, or says why not" >&2
}

# Sets $value to the first line of its output, or to `fail'. Programs that use one processor
# always get the same.
run_program() {		# ARGUMENT...
	# shellcheck disable=SC2086 # nothing or a command
	timeout -k 5 120 $pinned ${served:+"$root/bench/serve.sh" "$served"} "$program" "$@" \
		</dev/null >"$tmp/out" 2>"$tmp/error"
	ended=$?
	value=$(head -n 1 "$tmp/out" | tr '\0' '?' |
		grep -xE '[0-9]+(\.[0-9]+)?' | grep '[1-9]')
	if [ "$ended" -ne 0 ] || [ -z "$value" ]; then
		echo "compare.sh: $program $*: status $ended:" \
			"$(cat "$tmp/error" "$tmp/out" | head -n 1)" >&2
		value=fail status=2
	fi
}

# Runs a program, and notes its number for LABEL.
measure() {		# LABEL COMMAND...
	label=$1 program=$BUILD/$2
	shift 2
	if [ -x "$program" ]; then
		run_program "$@"
	else
		tell_missing "$program"
		value=fail status=2
	fi
	echo "$value" >>"$values/$label"
	[ -z "$dir" ] ||
		echo "$label, ${served:+$served }${program#"$BUILD"/} $*, $value" \
			>>"$dir/compare.csv"
}

# Prints COLUMN COMMAND for some columns of a workload.
commands() {		# WORKLOAD ARGUMENTS COLUMN...
	of=$1 arguments=$2
	shift 2
	for name; do
		# shellcheck disable=SC2086 # one word for each parameter
		echo "$name $(command_for "$of" "$name" $arguments)"
	done
}

# Runs the commands of standard input, lines of LABEL COMMAND, in turns. Their output goes
# to $values, a file for each command, a line for each turn, `-' if it was left out.
series() {		# NAME
	values=$tmp/values/$1
	mkdir "$values" || exit 2
	cat >"$tmp/commands"
	turn=0
	while [ $((turn += 1)) -le "$repeat" ]; do
		while read -r label command; do
			case "$served$((turn % 2)): $slow " in
			0:*" $label "*)
				echo - >>"$values/$label"
				;;
			*)
				# shellcheck disable=SC2086 # the words of the command
				measure "$label" $command
				;;
			esac
		done <"$tmp/commands"
	done
}

# Prints median, least and most of the ratios of A to B, or `fail' if one has failed. The
# fastest of several B counts; B may be a number. Appends the same to the file of ratios.
ratio() {		# A B...
	a=$1
	shift
	for b; do
		if [ -e "$values/$b" ]; then
			paste "$values/$a" "$values/$b"
		else
			sed "s/\$/ $b/" "$values/$a"
		fi
		echo
	done | awk '
	function median(x, n,   i, j, t) {
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && x[j - 1] > x[j]; j--) {
				t = x[j]; x[j] = x[j - 1]; x[j - 1] = t
			}
		return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2
	}
	NF < 2 {
		if (!best || median(b, n) < best) {
			best = median(b, n)
			ratio = median(a, n) / best
			least = low; most = high
		}
		n = 0
		next
	}
	/fail/ { failed = 1; $1 = $2 = 1 }
	$1 != "-" && $2 != "-" {
		a[++n] = $1 + 0; b[n] = $2 + 0
		if (n == 1 || $1 / $2 < low) low = $1 / $2
		if (n == 1 || $1 / $2 > high) high = $1 / $2
	}
	END {
		if (failed)
			print "fail"
		else
			print ratio, least, most
	}' | tee -a "$tmp/ratios"
}

# aim WHAT AT-MOST A B...: a row of the table.
aim() {
	what=$1 most=$2
	shift 2
	row "$what" "<= $most" "$(ratio "$@")"
}

aim_least() {		# WHAT AT-LEAST A B
	row "$1" ">= $2" "$(ratio "$3" "$4")"
}

row() {			# WHAT "<=|>= LIMIT" "RATIO LEAST MOST"
	verdict=$(echo "$2 $3" | awk '{
		good = $1 == "<=" ? $3 <= $2 : $3 >= $2
		print $3 == "fail" ? "not measured" : good ? "reached" : "missed" }')
	[ "$verdict" != missed ] || [ "$status" -eq 2 ] || status=1
	echo "$2 $3" | awk -v what="$1" -v verdict="$verdict" '
	function digits(x) { return sprintf(x < 1000 ? "%.3g" : "%.0f", x) }
	{
		printf "| %s | %s %.4g | ", what, $1, $2
		if ($3 == "fail")
			printf "- | -"
		else
			printf "%s | %s to %s", digits($3), digits($4), digits($5)
		print " | " verdict " |" }'
}

# means WHAT AT-MOST: the geometric mean of the ratios since begin_means.
begin_means() {
	: >"$tmp/ratios"
}

means() {
	row "$1" "<= $2" "$(awk '
		/fail/ { failed = 1; next }
		{
			sum += log($1)
			if (NR == 1 || $1 < low) low = $1
			if (NR == 1 || $1 > high) high = $1
		}
		END {
			if (failed)
				print "fail"
			else
				print exp(sum / NR), low, high
		}' "$tmp/ratios")"
}

# The seconds of the cycle workload at a point are kept for all rows.
part_cycle() {
	points='2.4.1000000 2.100000.40 2.1000000.10 8.2.500000 8.1000.1000 8.100000.10'
	for point in $points; do
		series "$point" <<-END
		$(commands cycle "$(echo "$point" | tr . ' ')" \
			UL1T C++1T C++1TL U1TS U1T UJ GO1T TOKIO1T)
		END
	done
	at_points 'UL1T / C++1T or C++1TL' 1.5 1.15 UL1T C++1T C++1TL
	at_points 'U1TS / C++1T' 2.5 1.6 U1TS C++1T
	at_points 'U1T / U1TS' 1.3 '' U1T U1TS
	at_points 'UL1T / GO1T' 0.05 '' UL1T GO1T
	at_points 'UL1T / TOKIO1T' 0.2 '' UL1T TOKIO1T
	at_points 'UJ / UL1T' 6 '' UJ UL1T
}

at_points() {		# WHAT AT-MOST MEAN-AT-MOST A B...
	title=$1 each=$2 mean=$3
	shift 3
	begin_means
	for point in $points; do
		values=$tmp/values/$point
		aim "$title at $(echo "$point" | tr . ' ')" "$each" "$@"
	done
	[ -z "$mean" ] || means "$title, geometric mean" "$mean"
}

part_depth() {
	for point in '2 4 1000000' '8 2 500000'; do
		series "depth $point" <<-END
		deep rmain.1t $point 10000 1
		$(commands cycle "$point" U1TS)
		END
		aim "U1TS with 10,000 bytes of stack / without, at $point" 1.2 deep U1TS
	done
	point='2 100000 20'
	series "depth $point" <<-END
	$(for bytes in 0 10 100 300 1000 10000; do
		echo "U1T-$bytes rmain $point $bytes 1"
		echo "UL1T-$bytes lmain $point $bytes 1"
	done)
	END
	while read -r column bytes at_most; do
		aim "$column with $bytes bytes of stack / without, at $point" "$at_most" \
			"$column-$bytes" "$column-0"
	done <<-END
	U1T 10 1.3
	U1T 100 2.5
	U1T 300 3.5
	U1T 1000 8
	U1T 10000 60
	UL1T 10 1.3
	UL1T 100 1.3
	UL1T 300 1.5
	UL1T 1000 3
	UL1T 10000 12
	END
}

# Few threads that talk: a second processor should gain where it can, and cost little where
# it cannot. Then many threads.
part_processors() {
	pinned=
	for point in '2 1 250000' '2 2 250000' '2 16 125000' '8 2 62500' '8 4 62500' \
		'8 16 62500'; do
		series "processors $point" <<-END
		$(commands cycle "$point" UL UL1T U U1T GO TOKIO)
		END
		case $point in
		*' 1 '*) at_most=1.1 ;;
		*' 16 '*) at_most=0.65 ;;
		*) at_most=0.75 ;;
		esac
		aim "UL on two processors / on one, at $point" $at_most UL UL1T
		aim "U on two processors / on one, at $point" $at_most U U1T
		aim "U / UL on two processors, at $point" 1.25 U UL
		for other in GO TOKIO; do
			aim "U / $other on two processors, at $point" 1 U $other
		done
	done
	for point in '2 100000 40' '2 1000000 10' '8 1000 1000' '8 100000 10'; do
		series "processors $point" <<-END
		$(commands cycle "$point" UL UL1T U U1T)
		END
		aim "UL on two processors / on one, at $point" 0.55 UL UL1T
		aim "U on two processors / on one, at $point" 0.65 U U1T
	done
}

part_pingpong() {
	series pingpong <<-END
	$(commands pingpong 10000000 UD BOOST COROSENSEI)
	END
	aim 'pingpong: UD / Boost.Context' 0.5 UD BOOST
	aim 'pingpong: UD / corosensei' 1.9 UD COROSENSEI
}

part_create() {
	series create <<-END
	$(commands create 3000000 UD C++20)
	END
	aim 'create: UD / C++20' 1.3 UD C++20
}

part_counters() {
	series counters <<-END
	$(commands counters '20000 300' UD COROSENSEI C++20)
	END
	aim 'counters: UD / corosensei' 1 UD COROSENSEI
	aim 'counters: UD / C++20' 6 UD C++20
}

part_coroutines() {
	series 'pingpong with values' <<-END
	$(commands pingpong 10000000 UCO COROSENSEI MINICORO COROUTINE2)
	END
	aim 'coroutines, pingpong: UCO / corosensei' 1.5 UCO COROSENSEI
	aim 'coroutines, pingpong: UCO / minicoro' 0.3 UCO MINICORO
	aim 'coroutines, pingpong: UCO / Boost.Coroutine2' 0.2 UCO COROUTINE2
	series walk <<-END
	$(commands walk 1000000 UCO CALLS)
	END
	aim 'walk of a million nodes: UCO / CALLS' 4 UCO CALLS
}

part_ring() {
	series ring <<-END
	$(commands ring 5000000 UD MACROS)
	END
	aim 'ring: UD / MACROS' 2.5 UD MACROS
	series 'ring worst' <<-END
	$(commands ring 500000 UD MACROS-WORST)
	END
	aim 'ring: UD / MACROS-WORST' 0.02 UD MACROS-WORST
}

part_memory() {
	repeat=1
	series memory <<-END
	$(commands memory 1000000 UL1T)
	END
	aim 'bytes per blocked thread of a million' 200 UL1T 1
	series 'memory many' <<-END
	$(commands memory 10000000 UL1T)
	END
	aim 'GB of ten million blocked threads' 3 UL1T 100
}

# Measures some columns by serve.sh.
serve() {		# WORKLOAD ARGUMENTS COLUMN...
	served=$1 arguments=$2
	shift 2
	series "$served $arguments" <<-END
	$(commands "$served" "$arguments" "$@")
	END
}

part_servers() {
	pinned=
	serve http 64 U EPOLL GO NGINX
	aim_least 'httpd / epoll, requests per second' 0.95 U EPOLL
	aim_least 'httpd / Go' 2 U GO
	aim_least 'httpd / nginx' 0.9 U NGINX
	serve echo 64 U ST TOKIO
	aim_least 'echo / State Threads, round trips per second' 1.1 U ST
	aim_least 'echo / tokio' 1.1 U TOKIO
	for point in 'GET 1' 'SET 1' 'GET 16' 'SET 16'; do
		serve redis "50 $point" U REDIS
		aim_least "kv / redis-server, ${point% *}, ${point#* } at a time" 1 U REDIS
	done
	serve idle 9000 U ST GO
	aim 'httpd: bytes per idle connection' 800 U 1
	aim 'idle: httpd / State Threads' 0.25 U ST
	aim 'idle: httpd / Go' 0.25 U GO
	served=
}

# The machine: aims are reached on one make and missed on another.
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -d '|')
cpu=${cpu:-$(uname -m)}

arguments "$@"
if [ -n "$dir" ]; then
	mkdir -p "$dir" && : >"$dir/compare.csv" || exit 2
fi
echo "| measure, on $cpu | aim | reached | spread | |"
echo '|---|---|---|---|---|'
for part in $parts; do
	pinned="taskset -c $CPU" repeat=$turns
	"part_$part"
done
exit $status
