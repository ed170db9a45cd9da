#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Which lines of the library the test programs run, all builds taken together: with the
# machine's switch, with the portable one, with what USCHED_CHECK and USCHED_STRESS add,
# and what is compiled without locks. 95 % at least, and those that are not run are in
# functions which ../doc/coverage.md names, with the reason. Assembly is not counted.
#
#   LONG       1: else it is skipped, for it takes minutes
#   CC         a gcc that has gcov beside it; default gcc
#   GCOV       default gcov
#   SWITCH, MAKE   as for make
set -u
cd "$(dirname "$0")/.." || exit 1

if [ "${LONG-}" != 1 ]; then
	echo "coverage: skipped: takes minutes; with LONG=1 it is done"
	exit 77
fi
MAKE=${MAKE:-make}
CC=${CC:-gcc}
GCOV=${GCOV:-gcov}
if ! command -v "$GCOV" >/dev/null ||
	! $CC --version 2>/dev/null | grep -q 'Free Software'
then
	echo "coverage: skipped: '$CC' is no gcc, or there is no $GCOV"
	exit 77
fi
least=95                                        # per cent
list=doc/coverage.md
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
dying="$dir/dying.o -Wl,--wrap=abort,--wrap=raise,--wrap=_exit"
$CC -std=c11 -O2 -c -o "$dir/dying.o" tests/coverage.c || exit 1
export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-40}"
modules=$(sed -n 's/^modules := //p' Makefile)

# measure NAME OPTIONS SWITCH: builds, and runs all tests. Counts must be exact, so they are
# atomic: gcov takes those of some lines for the difference of others, and where additions
# of several native threads were lost, what few tests run came out as less than nothing.
measure() {
	B=$dir/$1
	$MAKE -s --no-print-directory -j2 "B=$B" "CC=$CC" "LDFLAGS=$dying" \
		"CFLAGS=-O0 -g --coverage -fprofile-update=atomic $2" \
		${3:+"SWITCH=$3"} tests "$B/rmain.1t" || exit 1
	for test in tests/test_*.c; do
		program=$B/tests/$(basename "$test" .c)
		timeout -k 5 "${CHECK_TIMEOUT:-3600}" "$program" >"$dir/log" 2>&1 || {
			cat "$dir/log"
			echo "coverage: $1: $program failed" >&2
			exit 1
		}
	done
	"$B/rmain.1t" 8 50 100 1000 2 >/dev/null || exit 1
	for module in $modules; do
		count "$B" "$module.c"
	done
	for module in usched uimage uproc rr; do
		count "$B/1t" "$module.c"
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
measure plain '' "${SWITCH-}"
measure setjmp '' setjmp
measure stress '-DUSCHED_CHECK -DUSCHED_STRESS' "${SWITCH-}"
summarize >"$dir/functions"

failed=0
awk 'NF > 4' "$dir/functions" >"$dir/missed"
while read -r file function _ _ lines; do
	echo "$file: $function: not run: $lines"
	if ! grep -q "^| \`$file\` .*\`$function\`" "$list"; then
		echo "coverage: $file: $function() is not in $list" >&2
		failed=1
	fi
done <"$dir/missed"
text=$(awk -v least=$least '{ lines += $3; runs += $4 } END {
	printf "%d of %d lines run, %.1f %%", runs, lines, 100 * runs / lines
	exit runs * 100 < lines * least || lines == 0
}' "$dir/functions") || failed=1
if [ "$failed" -gt 0 ]; then
	echo "coverage: $text" >&2
	exit 1
fi
echo "coverage: $text; $(wc -l <"$dir/missed") functions have others"
