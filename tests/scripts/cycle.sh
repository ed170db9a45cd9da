#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The benchmark programs, as a user calls them: output and status for good and for bad
# arguments. Their counters show that threads are not copied if there are enough stacks, and
# that two threads on one stack cost an eviction and a load for each switch.
#
#   B   where the programs are
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# expect STATUS WORDS PROGRAM ARGUMENTS...: with that in what it says on standard error;
# and on standard output seconds if STATUS is 0, else nothing.
expect() {
	status=$1 words=$2 program=$3
	shift 3
	count=$((count + 1))
	"$B/$program" "$@" >"$dir/out" 2>"$dir/err"
	[ $? -eq "$status" ] || fail "$program $*: not exit status $status"
	case $(cat "$dir/err") in
	*"$words"*) ;;
	*) fail "$program $*: no '$words' but: $(cat "$dir/err")" ;;
	esac
	seconds=$(grep -cx '[0-9]*\.[0-9]\{6\}' "$dir/out")
	if [ "$status" -ne 0 ]; then
		[ ! -s "$dir/out" ] || fail "$program $*: printed $(cat "$dir/out")"
	elif [ "$seconds" -ne 1 ] || [ "$(wc -l <"$dir/out")" -ne 1 ]; then
		fail "$program $*: no seconds but: $(cat "$dir/out")"
	fi
}

# counter NAME: of the last program.
counter() {
	tr , '\n' <"$dir/err" | sed -n "s/^ *$1 //p"
}

for program in rmain lmain rmain.1t; do
	expect 0 '' "$program" 2 1 1 0 1
	expect 0 '' "$program" 3 5 7 0 2
	expect 0 '' "$program" 8 50 20 0 1
	expect 0 '' "$program" 2 10 50 10000 3
	expect 0 '' "$program" 5 7 1 1 7
	expect 2 usage "$program"
	expect 2 usage "$program" 2 4 10 0
	expect 2 usage "$program" 2 4 10 0 1 1
	expect 2 usage "$program" 1 4 10 0 1
	expect 2 usage "$program" 0 4 10 0 1
	expect 2 usage "$program" 2 0 10 0 1
	expect 2 usage "$program" 2 4 0 0 1
	expect 2 usage "$program" 2 4 10 0 0
	expect 2 usage "$program" 2 4 10 -1 1
	expect 2 usage "$program" 2 4 10 0 x
	expect 2 usage "$program" 2 4 10 0 ''
	expect 2 usage "$program" 2 4x 10 0 1
	expect 2 usage "$program" 2 99999999999999999999999 10 0 1
	expect 1 'not enough memory' "$program" 2 1000000000000 1 0 1
	expect 1 'not enough memory' "$program" 4294967296 4294967296 1 0 1
	expect 1 'not enough memory' "$program" 2 10000000 1 1000000 1
done

export USCHED_STATS=1
if ! grep -qx 'SWITCH=setjmp' "$B/flags"; then
	expect 0 switches lmain 2 4 1000000 0 1
	[ "$(counter launches)" -eq 9 ] || fail "not nine launches"
	[ "$(counter switches)" -ge 4000000 ] || fail "not four million switches"
	[ "$(counter evictions)" -eq 0 ] || fail "residents were evicted"
	[ "$(counter loads)" -eq 0 ] || fail "residents were loaded"
	[ "$(counter 'bytes copied')" -eq 0 ] || fail "residents were copied"
fi

# A few switches more come before the cycle and after it.
export USCHED_STACKS=1
for program in rmain lmain rmain.1t; do
	expect 0 switches "$program" 2 1 100000 0 1
	switches=$(counter switches)
	[ "$switches" -ge 100000 ] || fail "$program: $switches switches"
	for copied in evictions loads; do
		n=$(counter $copied)
		if [ "$n" -gt "$switches" ] || [ "$n" -lt $((switches - 6)) ]; then
			fail "$program: $n $copied in $switches switches"
		fi
	done
done

conclude "$count runs"
