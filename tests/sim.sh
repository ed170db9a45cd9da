#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Programs in a simulation: tests/sim/*.c, each under 30 seeds, twice each. Those with a bug
# must fail, and with the same choices again; their twins must not, under 210 seeds.
#
#   LONG   1: ten times as many
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

machine=$($CC -dumpmachine | sed 's/-.*//')
[ -f "posix/$machine.S" ] || skip "posix/ has no $machine.S"
cflags=$(sed -n 's/^CFLAGS=//p' "$B/flags" 2>/dev/null)
case $cflags in *-fsanitize=*) skip 'threads of sanitizers are those of libc' ;; esac
$MAKE -s --no-print-directory "B=$B" "CC=$CC" sim-tests >"$dir/make" 2>&1 ||
	die "the simulation does not build: $(tail -n 20 "$dir/make")"

library=$(cd "$B" && pwd)/libusched-sim.so
seeds=$([ "${LONG-}" = 1 ] && echo 300 || echo 30)

# Seeds, a program and its argument. The last line has a hash.
passes()
{
	range=$1
	shift
	USCHED_SIM=$range USCHED_SIM_TWICE=1 timeout 600 "$B/sim_$@" >"$dir/out" 2>&1 ||
		fail "$*: $(tail -n 5 "$dir/out")"
	grep -q 'runs* passed,' "$dir/out" || fail "$*: it has run natively"
}

# What the report of the failure has, a program and its argument.
fails()
{
	words=$1
	shift
	USCHED_SIM=1-300 USCHED_SIM_SHRINK=$dir/choices "$B/sim_$@" >"$dir/out" 2>&1 &&
		fail "$*: it has passed"
	grep -q "$words" "$dir/out" || fail "$*: $(tail -n 5 "$dir/out")"
	[ -f "$dir/choices" ] || return
	USCHED_SIM=1 USCHED_SIM_REPLAY=$dir/choices USCHED_SIM_TRACE=$dir/trace \
		"$B/sim_$@" >"$dir/out" 2>&1
	grep -q "choices: .*$words" "$dir/out" || fail "$*, again: $(tail -n 5 "$dir/out")"
	tail -n 1 "$dir/trace" | grep -q ",end,.*$words" || fail "$*: no end of its trace"
	rm -f "$dir/choices"
}

for program in tests/sim/*.c; do
	program=$(basename "$program" .c)
	case $program in
	test_* | escape | part | replace | wal | kv | httpd | proxy | chat) ;;
	*) passes 1-$seeds "$program" ;;
	esac
done
for server in proxy chat kv:hiredis/hiredis.h httpd:http_parser.h; do
	program=${server%:*}
	case $server in
	*:*) echo "#include <${server#*:}>" | $CC -E - >/dev/null 2>&1 || continue ;;
	esac
	$MAKE -s --no-print-directory "B=$B" "CC=$CC" "$B/sim_$program" >"$dir/make" 2>&1 ||
		die "$program does not build: $(tail -n 20 "$dir/make")"
	passes 1-$seeds "$program"
	passes 1-$((seeds / 6)) "$program" all
	passes 1-$((seeds / 6)) "$program" none
done
passes 1-$((7 * seeds)) wal
passes 1-$((seeds / 6)) log 5
passes 1-$((7 * seeds)) replace
fails 'exit status 1' part
fails 'signal 6' orders sleep

# What is left at the end.
USCHED_SIM=1-20 USCHED_SIM_LEAKS=1 "$B/sim_leaks" >"$dir/out" 2>&1 ||
	fail "leaks: $(tail -n 5 "$dir/out")"
for left in thread descriptor; do
	USCHED_SIM=1 USCHED_SIM_LEAKS=1 "$B/sim_leaks" $left 2>&1 |
		grep -q "1 ${left}s are left" || fail "a $left that is left is not found"
done

# Three threads have six orders. Each is another output, and none comes twice.
USCHED_SIM=1 USCHED_SIM_STRATEGY=all "$B/sim_orders" 2>&1 |
	grep -q 'all orders passed: 6,' || fail "three threads have not six orders"

# A seed gives the same run with any compiler.
for compiler in "$CC" gcc clang; do
	for level in -O0 -O3; do
		# shellcheck disable=SC2086
		${compiler%% *} $level -o "$dir/orders" tests/sim/orders.c -pthread \
			2>/dev/null || continue
		for strategy in mix random pct delay; do
			echo "$strategy $(USCHED_SIM=1-100 USCHED_SIM_STRATEGY=$strategy \
				LD_PRELOAD="$library" "$dir/orders" 2>&1 |
				tail -n 1)"
		done
	done
done | sort -u >"$dir/hashes"
[ "$(wc -l <"$dir/hashes")" -eq 4 ] || fail "compilers differ: $(cat "$dir/hashes")"
grep -vq '100 runs passed' "$dir/hashes" && fail "orders: $(cat "$dir/hashes")"
fails 'was acknowledged' wal lost
fails 'was acknowledged' wal lies
fails 'was acknowledged' wal again
fails 'are in one file\|lines are left' replace file
fails 'was saved' replace dir
for call in fork system alarm link rmdir; do
	fails "$call() cannot be simulated" escape "$call"
done
fails 'syscall() of this number' escape syscall
fails 'a real FIFO, socket or device' escape device
# A trace changes nothing of the run.
USCHED_SIM=7 "$B/sim_echo" >"$dir/out" 2>&1
USCHED_SIM=7 USCHED_SIM_TRACE=$dir/trace "$B/sim_echo" >"$dir/out2" 2>&1
cmp "$dir/out" "$dir/out2" && grep -q ',send,' "$dir/trace" && grep -q ',receive,' "$dir/trace" ||
	fail "echo: not the same with a trace, or no messages in it"
USCHED_SIM=1-2 USCHED_SIM_TRACE=$dir/trace "$B/sim_echo" 2>&1 | grep -q 'of one run' ||
	fail "several runs have one trace"
for name in /tmp/usched-sim* /var/tmp/usched-sim*; do
	[ -e "$name" ] && fail "$name is on the disk"
done
conclude "connections work, and what is synced outlasts crashes, and what is not synced is found"
