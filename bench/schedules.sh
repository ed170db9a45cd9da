#!/bin/sh
# SPDX-License-Identifier: MIT
#
# How many runs a simulation takes to find the bug of small programs of POSIX threads: the
# mean over RUNS searches of LIMIT runs at most, for each strategy. A directory has the
# programs: those named *_bad.c have a bug each, *_ok.c none.
#
#	bench/schedules.sh DIRECTORY [PROGRAM...]
#
# Each is compiled with -fsanitize=thread, and linked with libusched-sim. A line has the
# program, and for each strategy the mean, with the number of searches that found it in
# brackets if not all did; `-' if none did. Of a program without a bug it has the runs that
# passed. The last lines have the runs a second of one process, and how many were found.
#
#   STRATEGIES='mix site surw pos pct random'   with bounds: pct:3
#   RUNS=20, LIMIT=10000, CC=cc, CFLAGS='-O1 -g', B=build
set -u
[ $# -gt 0 ] && [ -d "$1" ] || {
	echo "usage: $0 DIRECTORY [PROGRAM...]" >&2
	exit 2
}
programs=$1
shift
cd "$(dirname "$0")/.." || exit 1

B=${B:-build}
RUNS=${RUNS:-20}
LIMIT=${LIMIT:-10000}
STRATEGIES=${STRATEGIES:-mix site surw pos pct random}
library=$(cd "$B" && pwd) || exit 1
export LD_LIBRARY_PATH="$library" USCHED_SIM_LIBRARY="$library/libusched-sim.so"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# compile PROGRAM
compile() {
	${CC:-cc} -w ${CFLAGS:--O1 -g} -fsanitize=thread -c -o "$dir/o" "$programs/$1.c" &&
		${CC:-cc} -o "$dir/$1" "$dir/o" -L"$library" -lusched-sim -pthread
}

# searches PROGRAM STRATEGY RUNS: a line for each, of the runs made, and `found' or `passed'
searches() {
	i=0
	while [ $i -lt "$3" ]; do
		first=$((i * LIMIT + 1))
		posix/usched-run --sim --seeds $first-$((first + LIMIT - 1)) --strategy "$2" \
			"$dir/$1" 2>&1 >/dev/null </dev/null |
			awk -v first=$first '
				/^usched-run: seed [0-9]+:/ { print $3 - first + 1, "found" }
				/^usched-run: [0-9]+ runs? passed/ { print $2, "passed" }
				/before the first seed/ { print 0, "found" }'
		i=$((i + 1))
	done
}

[ $# -gt 0 ] || set -- $(cd "$programs" && ls -- *_bad.c *_ok.c | sed 's/\.c$//')
began=$(date +%s)
printf '%-24s' program
printf ' %12s' $STRATEGIES
echo
for program; do
	compile "$program" || exit 1
	printf '%-24s' "$program"
	for strategy in $STRATEGIES; do
		n=$RUNS
		case $program in *_ok) n=1 ;; esac
		searches "$program" "$strategy" "$n" >"$dir/lines"
		echo "$strategy" | cat - "$dir/lines" >>"$dir/all"
		awk -v n="$n" '
			{ runs += $1; found += $2 == "found"; sum += $2 == "found" ? $1 : 0 }
			END {
				text = found ? sprintf("%.0f", sum / found) : n == 1 ? runs : "-"
				if (n > 1 && found > 0 && found < n)
					text = text " (" found ")"
				printf " %12s", text
			}' "$dir/lines"
	done
	echo
done
awk -v began="$began" -v now="$(date +%s)" '
	NF == 2 { runs += $1 }
	END { if (now > began) printf "%d runs, %d a second\n", runs, runs / (now - began) }
' "$dir/all"
