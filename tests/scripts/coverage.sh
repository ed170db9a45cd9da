#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Which lines of the library the test programs run. The builds count together: with the
# switch of the machine, with the portable one, with USCHED_CHECK and USCHED_STRESS, and
# without locks. At least 95 % must run; functions with others are printed, and
# doc/coverage.md has the reasons. Assembly is not counted.
#
#   LONG       1: else it is skipped, for it takes minutes
#   CC         a gcc that has gcov beside it; default gcc
#   GCOV       default gcov
#   SWITCH, MAKE   as for make
set -u
cd "$(dirname "$0")/../.." || exit 1
CC=${CC:-gcc}
. tests/scripts/test.lib

[ "${LONG-}" = 1 ] || skip "takes minutes; with LONG=1 it is done"
GCOV=${GCOV:-gcov}
if ! command -v "$GCOV" >/dev/null ||
	! $CC --version 2>/dev/null | grep -q 'Free Software'
then
	skip "'$CC' is no gcc, or there is no $GCOV"
fi
least=95                                        # per cent
dying="$dir/dying.o -Wl,--wrap=abort,--wrap=raise,--wrap=_exit"
$CC -std=c11 -O2 -c -o "$dir/dying.o" tests/help/coverage.c || exit 1
export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-40}"
modules=$(of_make modules)

# measure NAME OPTIONS SWITCH: builds, and runs all tests. Counters are atomic: gcov derives
# the count of some lines from others, and lost additions would make it negative.
measure() {
	B=$dir/$1
	$MAKE -s --no-print-directory -j2 "B=$B" "CC=$CC" "LDFLAGS=$dying" \
		"CFLAGS=-O0 -g --coverage -fprofile-update=atomic $2" \
		${3:+"SWITCH=$3"} tests "$B/rmain.1t" || exit 1
	for test in tests/*/test_*.c; do
		program=$B/tests/$(basename "$test" .c)
		timeout -k 5 "${CHECK_TIMEOUT:-3600}" "$program" >"$dir/log" 2>&1 || {
			cat "$dir/log"
			die "$1: $program failed"
		}
	done
	"$B/rmain.1t" 8 50 100 1000 2 >/dev/null || exit 1
	for module in $modules; do
		count "$B/$(dirname "$module")" "$module.c"
	done
	for module in $(of_make core); do
		count "$B/1t/$(dirname "$module")" "$module.c"
	done
	[ ! -f "$B/arch/setjmp.gcno" ] || count "$B/arch" arch/setjmp.c
}

# count DIRECTORY FILE: what gcov makes of it, and of the headers in it, for summarize.
count() {
	"$GCOV" -t -r -o "$1" "$2" 2>/dev/null >>"$dir/counts"
}

# "file function lines run missed", where missed are numbers of lines.
summarize() {
	awk '
	/^ *-: *0:Source:/ { file = $0; sub(/.*Source:/, "", file); next }
	/^ *-: *0:/        { next }
	{
		count = $0; sub(/:.*/, "", count); gsub(/[ *]/, "", count)
		text = $0; sub(/^[^:]*:/, "", text)
		line = text + 0; sub(/^[^:]*:/, "", text)
		if (text ~ /^[A-Za-z].*\(/ && text !~ /;$/) {
			name = text; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
		}
		if (count == "-")
			next
		where[file, line] = file " " name
		if (count !~ /^[#=]/)
			ran[file, line] = 1
	}
	END {
		for (at in where) {
			split(at, part, SUBSEP)
			lines[where[at]]++
			if (at in ran)
				runs[where[at]]++
			else
				missed[where[at]] = missed[where[at]] " " part[2]
		}
		for (f in lines)
			print f, lines[f], runs[f] + 0 missed[f]
	}' "$dir/counts" | sort
}

: >"$dir/counts"
measure default '' "${SWITCH-}"
measure setjmp '' setjmp
USCHED_STRESS=1 measure stress -DUSCHED_CHECK "${SWITCH-}"
summarize >"$dir/functions"

awk 'NF > 4' "$dir/functions" >"$dir/missed"
while read -r file function _ _ lines; do
	echo "$file: $function: not run: $lines"
done <"$dir/missed"
text=$(awk -v least=$least '{ lines += $3; runs += $4 } END {
	printf "%d of %d lines run, %.1f %%", runs, lines, 100 * runs / lines
	exit runs * 100 < lines * least || lines == 0
}' "$dir/functions") || failed=1
[ "$failed" -eq 0 ] || die "$text"
note "$text; $(wc -l <"$dir/missed") functions have others"
