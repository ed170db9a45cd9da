#!/bin/sh
# SPDX-License-Identifier: MIT
#
# compare.sh: the figures that usched aims at, as ratios to other systems and to itself.
# What is compared runs in turns, each so often, so that it meets the same machine; the
# ratio is that of the medians, and the spread goes from the least to the most of what
# the turns give one by one. Prints a table in Markdown, a row for each aim; what was
# measured goes to DIR/compare.csv. Takes some minutes. Exit status: 0 if every aim was
# reached, 1 if not, 2 if something could not be measured.
#
# usage: bench/compare.sh [-n TURNS] [-o DIR] [PART...]
#
#   TURNS  5 by default
#   PART   of: cycle depth processors pingpong create counters ring memory; all by default
#
#   BUILD  the directory of the programs (build), where `make' and `make peers' were run
# shellcheck disable=SC2317 # parts are called by their names
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
turns=5
dir=
parts='cycle depth processors pingpong create counters ring memory'
tmp=$(mktemp -d) || exit 2
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
	[ $# -eq 0 ] || parts=$*
}

# The first line of what a program prints, to the end of the file of LABEL. One that uses
# one processor always gets the same.
measure() {		# LABEL COMMAND...
	label=$1
	shift
	program=$BUILD/$1
	shift
	[ -x "$program" ] || program="missing:$program"
	# shellcheck disable=SC2086 # nothing or a command
	value=$(timeout 120 $pinned "$program" "$@" 2>"$tmp/error" | head -n 1)
	case $value in
	'' | *[!0-9.]*)
		echo "compare.sh: $program $*: $(head -n 1 "$tmp/error")" >&2
		status=2
		value=nan
		;;
	esac
	echo "$value" >>"$tmp/$label"
	[ -z "$dir" ] || echo "$label, $program $*, $value" >>"$dir/compare.csv"
}

# Runs the commands of standard input, lines of LABEL COMMAND, in turns.
series() {
	rm -f "$tmp"/value.*
	cat >"$tmp/commands"
	turn=0
	while [ $((turn += 1)) -le "$turns" ]; do
		while read -r label command; do
			# shellcheck disable=SC2086 # the words of the command
			measure "value.$label" $command </dev/null
		done <"$tmp/commands"
	done
}

# Prints median, least and most of the ratios of A to B, where B may be several, of which
# the fastest counts, or a number; and appends the median to the file of ratios.
ratio() {		# A B...
	a=$1
	shift
	for b; do
		if [ -e "$tmp/value.$b" ]; then
			paste "$tmp/value.$a" "$tmp/value.$b"
		else
			sed "s/\$/ $b/" "$tmp/value.$a"
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
	{
		a[++n] = $1; b[n] = $2
		if (n == 1 || $1 / $2 < low) low = $1 / $2
		if (n == 1 || $1 / $2 > high) high = $1 / $2
	}
	END { print ratio, least, most }' | tee -a "$tmp/ratios"
}

# aim WHAT AT-MOST A B...: a row of the table.
aim() {
	what=$1 most=$2
	shift 2
	row "$what" "$most" "$(ratio "$@")"
}

row() {			# WHAT AT-MOST "RATIO LEAST MOST"
	verdict=$(echo "$3" "$2" | awk '{
		print $1 ~ /nan/ || NF < 4 ? "?" : ($1 <= $4 ? "reached" : "missed") }')
	[ "$verdict" = reached ] || [ "$status" -eq 2 ] || status=1
	echo "$3" | awk -v what="$1" -v most="$2" -v verdict="$verdict" '{
		printf "| %s | %.4g | %.3g | %.3g to %.3g | %s |\n",
			what, most, $1, $2, $3, verdict }'
}

# means WHAT AT-MOST: the geometric mean of the ratios since begin_means.
begin_means() {
	: >"$tmp/ratios"
}

means() {
	row "$1" "$2" "$(awk '
		{ sum += log($1); if (!NR || $1 < low || NR == 1) low = $1; if ($1 > high) high = $1 }
		END { print exp(sum / NR), low, high }' "$tmp/ratios")"
}

# Seconds of the cycle workload at one point, to files that are kept for all rows.
part_cycle() {
	points='2.4.1000000 2.100000.40 2.1000000.10 8.2.500000 8.1000.1000 8.100000.10'
	for point in $points; do
		nrm=$(echo "$point" | tr . ' ')
		series <<-END
		UL lmain $nrm 0 1
		C++1T peers/cxx20-cycle-fifo $nrm
		C++1TL peers/cxx20-cycle-lifo $nrm
		U1TS rmain.1t $nrm 0 1
		U1T rmain $nrm 0 1
		UJ lmain.setjmp $nrm 0 1
		GO peers/go-cycle $nrm 1
		TOKIO peers/rust-cycle-tokio $nrm
		END
		mkdir "$tmp/$point" && mv "$tmp"/value.* "$tmp/$point"
	done
	at_points 'UL / C++1T or C++1TL' 1.15 1.0 UL C++1T C++1TL
	at_points 'U1TS / C++1T' 2.0 1.3 U1TS C++1T
	at_points 'U1T / U1TS' 1.3 '' U1T U1TS
	at_points 'UL / GO1T' 0.05 '' UL GO
	at_points 'UL / TOKIO' 0.2 '' UL TOKIO
	at_points 'UJ / UL' 6 '' UJ UL
}

at_points() {		# WHAT AT-MOST MEAN-AT-MOST A B...
	title=$1 each=$2 mean=$3
	shift 3
	begin_means
	for point in $points; do
		cp "$tmp/$point"/value.* "$tmp"
		aim "$title at $(echo "$point" | tr . ' ')" "$each" "$@"
	done
	[ -z "$mean" ] || means "$title, geometric mean" "$mean"
	rm -f "$tmp"/value.*
}

part_depth() {
	for point in '2 4 1000000' '8 2 500000'; do
		series <<-END
		deep rmain.1t $point 10000 1
		flat rmain.1t $point 0 1
		END
		aim "U1TS with 10,000 bytes of stack / without, at $point" 1.2 deep flat
	done
}

part_processors() {
	pinned=
	for point in '2 100000 40' '2 1000000 10' '8 1000 1000' '8 100000 10'; do
		series <<-END
		l2 lmain $point 0 2
		l1 lmain $point 0 1
		r2 rmain $point 0 2
		r1 rmain $point 0 1
		END
		aim "UL on two processors / on one, at $point" 0.55 l2 l1
		aim "U on two processors / on one, at $point" 0.65 r2 r1
	done
}

part_pingpong() {
	series <<-END
	UD bench/pingpong-direct 10000000
	BOOST peers/boost-pingpong-same 10000000
	COROSENSEI peers/rust-pingpong-corosensei 10000000
	END
	aim 'pingpong: UD / Boost.Context' 0.5 UD BOOST
	aim 'pingpong: UD / corosensei' 2.5 UD COROSENSEI
}

part_create() {
	series <<-END
	UD bench/create-direct 3000000
	C++20 peers/cxx20-create 3000000
	END
	aim 'create: UD / C++20' 1.5 UD C++20
}

part_counters() {
	series <<-END
	UD bench/counters-direct 20000 300
	COROSENSEI peers/rust-counters-corosensei 20000 300
	C++20 peers/cxx20-counters 20000 300
	END
	aim 'counters: UD / corosensei' 0.5 UD COROSENSEI
	aim 'counters: UD / C++20' 5 UD C++20
}

part_ring() {
	series <<-END
	UD bench/ring-direct 5000000
	best peers/c-ring-best 5000000
	END
	aim 'ring: UD / MACROS' 3 UD best
	series <<-END
	UD bench/ring-direct 500000
	worst peers/c-ring-worst 500000
	END
	aim 'ring: UD / MACROS-WORST' 0.02 UD worst
}

part_memory() {
	turns=1
	series <<-END
	million bench/memory-ll 1000000
	many bench/memory-ll 10000000
	END
	aim 'bytes per blocked thread of a million' 224 million 1
	aim 'GB of ten million blocked threads' 3 many 100
}

arguments "$@"
if [ -n "$dir" ]; then
	mkdir -p "$dir" && : >"$dir/compare.csv" || exit 2
fi
echo '| measure | at most | reached | spread | |'
echo '|---|---|---|---|---|'
for part in $parts; do
	pinned='taskset -c 1'
	"part_$part"
done
exit $status
