#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Programs with regions of ustack_preemptible(), linked in all ways: with the static and
# the shared library, from the sources, with and without -flto and position independent
# code. Threads are interrupted, or that is refused with -ENOTSUP: in static programs, and
# with SINGLE_THREAD. The sums are right in each. ustack_check() works in all.
#
#   CC, SWITCH   as for make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

switch=${SWITCH:-$(sed -n 's/^SWITCH=//p' "$B/flags" 2>/dev/null)}
[ "$switch" != setjmp ] || skip "the portable switch has no such regions"
sources="$(sources) arch/$switch.S"

cat >"$dir/prog.c" <<'END'
#include <stdio.h>
#include "rr.h"

enum { THREADS = 3, ENOUGH = 20 };

static double sums[2][THREADS];
static struct uprocs *rr;
static int entered;

__attribute__((noinline)) static double sum(long n, double seed)
{
	double a = seed, b = 1 / seed;

	for (long i = 0; i < n; i++) {
		a = a * 0.999999 + b * 1e-6;
		b = b * 0.999998 + a * 1e-6;
	}
	return a + b;
}

static uint64_t given(void)
{
	struct usched_stats stats;

	uprocs_stats(rr, &stats);
	return stats.st_preempted;
}

/* Till then; at most a minute or so, as the monitor has to get a CPU, too. */
static void compute(void *arg)
{
	int me = (int)(size_t)arg, before;
	uint64_t until = given() + ENOUGH;

	for (int i = 0; i < 100000 && given() < until; i++) {
		before = ustack_preemptible(1);
		entered = before;
		sums[1][me] = sum(100000, me + 2);
		ustack_preemptible(before);
		if (sums[1][me] != sums[0][me])
			return;
		if (before < 0)
			ustack_check();
	}
}

int main(void)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1, .c_slice = 100000 };
	struct ustack *u[THREADS];
	int wrong = 0, rc = rr_create(&conf, &rr);
	uint64_t n;

	for (int i = 0; i < THREADS; i++)
		sums[0][i] = sum(100000, i + 2);
	for (size_t i = 0; rc == 0 && i < THREADS; i++)
		rc = rr_start(rr, compute, (void *)i, &u[i]);
	for (int i = 0; rc == 0 && i < THREADS; i++)
		rc = ustack_join(u[i], NULL, USCHED_NEVER);
	if (rc)
		return 1;
	n = given();
	uprocs_destroy(rr, USCHED_NEVER);
	for (int i = 0; i < THREADS; i++)
		wrong += sums[0][i] != sums[1][i];
	printf("%s %s %s\n", entered == -ENOTSUP ? "refused" : entered ? "error" : "entered",
	       n >= ENOUGH ? "often" : "seldom", wrong ? "wrong" : "right");
	fprintf(stderr, "gave way %llu times\n", (unsigned long long)n);
	return 0;
}
END

# try EXPECTED OPTION...: what the program says, built so.
try() {
	want=$1
	shift
	# shellcheck disable=SC2086
	if ! ${CC:-cc} -O2 -I. "$@" -pthread -o "$dir/prog" >"$dir/log" 2>&1; then
		case $* in
		*static* | *flto*)
			note "$*: not built"
			return
			;;
		esac
		fail "$*: $(cat "$dir/log")"
		return
	fi
	same "$*" "$want" "$(LD_LIBRARY_PATH=$dir limited "$dir/prog" 2>"$dir/err")"
	note "$*: $(cat "$dir/err")"
}

ok='entered often right'
# shellcheck disable=SC2086
{
	try "$ok" "$dir/prog.c" $sources
	try "$ok" -fno-pie -no-pie "$dir/prog.c" $sources
	try "$ok" -fPIE -pie "$dir/prog.c" $sources
	try "$ok" -flto "$dir/prog.c" $sources
	try "$ok" -DUSCHED_INLINE_SWITCH "$dir/prog.c" $sources
	try 'refused often right' -static "$dir/prog.c" $sources
	try 'refused often right' -static-pie "$dir/prog.c" $sources
	try 'refused often right' -DSINGLE_THREAD "$dir/prog.c" $sources
}
if grep -q -e -fsanitize "$B/flags" 2>/dev/null; then
	note "the libraries have a sanitizer: not tested"
elif [ -f "$B/libusched.a" ]; then
	try "$ok" "$dir/prog.c" "$B/libusched.a"
	shared=$B/libusched.so.$(version)
	if [ -e "$shared" ]; then
		soname=$(readelf -d "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
		cp "$shared" "$dir/$soname"
		try "$ok" "$dir/prog.c" "$dir/$soname"
	fi
fi
conclude "$count programs"
