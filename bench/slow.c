/* SPDX-License-Identifier: MIT */
/*
 * slow.c: how long a thread that computes delays the others.
 *
 *	slow COMPUTATION THREADS SECONDS [PROCESSORS]
 *
 * THREADS threads sleep a millisecond at a time and note how late they run. Meanwhile one
 * thread computes for COMPUTATION milliseconds and sleeps as long, again and again (0:
 * there is none). Prints the median, the 99th percentile, and the largest delay in
 * microseconds. Without preemption the largest delay is one computation, and not more.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "../rr.h"
#include "../usync.h"

#define BENCH_PROGRAM "slow"
#include "bench.h"

enum {
	MICRO   = 1000,                 /* ns */
	MILLI   = 1000000,              /* ns */
	BUCKETS = 1000000,              /* us: the last counts all above */
};

static int64_t        end;
static size_t         computation;      /* ms */
static atomic_ulong   late[BUCKETS];    /* counts, by us */

static void usage(void)
{
	fprintf(stderr, "usage: slow COMPUTATION THREADS SECONDS [PROCESSORS]\n");
	exit(2);
}

static void compute(void *unused)
{
	(void)unused;
	while (uevents_now() < end) {
		int64_t until = uevents_now() + (int64_t)computation * MILLI;

		spin_until(until);
		check(usync_sleep_until(until + (int64_t)computation * MILLI), "sleep");
	}
}

static void tick(void *unused)
{
	int64_t due = uevents_now();

	(void)unused;
	while (due < end) {
		int64_t us;

		due += MILLI;
		check(usync_sleep_until(due), "sleep");
		us = (uevents_now() - due) / MICRO;
		late[us < BUCKETS ? us : BUCKETS - 1]++;
		due += us / MICRO * MILLI;      /* missed ones are left out */
	}
}

/* The delay, in us, that a part of all did not exceed. */
static int percentile(double part)
{
	unsigned long all = 0, sum = 0;
	int us;

	for (us = 0; us < BUCKETS; us++)
		all += late[us];
	for (us = 0; us < BUCKETS - 1; us++) {
		sum += late[us];
		if ((double)sum >= (double)all * part)
			break;
	}
	return us;
}

int main(int argc, char **argv)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct rr *rr;
	size_t threads;

	if (argc < 4 || argc > 5)
		usage();
	computation = number(argv[1], 0, 1000);
	threads = number(argv[2], 1, 1000000);
	if (argc > 4)
		conf.c_processors = (unsigned)number(argv[4], 1, 1024);
	end = uevents_now() + (int64_t)number(argv[3], 1, 3600) * 1000 * MILLI;
	check(rr_create(&conf, &rr), "scheduler");
	if (computation > 0)
		check(rr_start(rr, compute, NULL, NULL), "start");
	for (size_t i = 0; i < threads; i++)
		check(rr_start(rr, tick, NULL, NULL), "start");
	check(rr_destroy(rr), "end");
	printf("p50_us=%d p99_us=%d max_us=%d\n", percentile(0.5), percentile(0.99),
	       percentile(1));
	return 0;
}
