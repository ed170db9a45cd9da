/* SPDX-License-Identifier: MIT */
/*
 * uneven.c: how late short requests end, beside long ones.
 *
 *	uneven PERMILLE LOAD CONNECTIONS SECONDS PROCESSORS [SLICE]
 *
 * CONNECTIONS threads of rr on PROCESSORS get requests at random times, in all so many
 * that they compute for LOAD percent of the time of all processors: 95 % of the requests
 * for 20 us, 5 % for 2 ms. A thread sleeps until its next request is due; when it is late
 * it begins at once, and the request counts from the time at which it was due. So it is
 * an open loop. It goes on for SECONDS, of which the first fifth is a warm-up. Prints the
 * delay in us, from due to done, that PERMILLE of 1000 short requests did not exceed.
 * With SLICE threads give way after so many us (c_slice). On standard error it prints the
 * share of the threads that have run on more than one processor.
 *
 * To compute is to run through a chain of numbers. How many take a microsecond is
 * measured when the processor has run for some time, in the best of several tries.
 * Programs of other systems do the same, so all do the same work, also while the
 * processor is given to others.
 */
#include <math.h>

#include "../rr.h"
#include "../ustack.h"
#include "../usync.h"

#define BENCH_PROGRAM "uneven"
#include "bench.h"

enum {
	SHORT = 20,                     /* us: a short request, */
	LONG  = 2000,                   /* a long one */
	LONGS = 5,                      /* percent */
	WARM  = 400,                    /* ms before the calibration */
	TRY   = 20,                     /* ms */
	TRIES = 10,
};

/* Where all chains begin. */
static const uint64_t chain_seed = 88172645463325252;

static double   chain_us = 100;         /* numbers of the chain that take a us */
static uint64_t chain_sink;

enum { PIECE = 64 };                    /* numbers, then a check of the slice */

static void compute(double us)
{
	uint64_t x = chain_seed;

	for (uint64_t n = (uint64_t)(us * chain_us); n > PIECE; n -= PIECE) {
		for (int i = 0; i < PIECE; i++)
			x = next_of(x);
		ustack_check();
	}
	__atomic_store_n(&chain_sink, x, __ATOMIC_RELAXED);
}

static void calibrate(void)
{
	double best = 0, start = now();

	while (now() - start < WARM * 1e-3)
		compute(1000);
	for (int i = 0; i < TRIES; i++) {
		double each;

		start = now();
		compute(TRY * 1000);
		each = TRY * 1e-3 * chain_us / (now() - start);
		if (each > best)
			best = each;
	}
	chain_us = best;
}

/* ns between requests, where they are to take `load' percent of the processors' time. */
static double gap_of(size_t load, size_t processors)
{
	double mean = ((100 - LONGS) * SHORT + LONGS * LONG) * 10.0;

	return mean * 100 / ((double)load * (double)processors);
}

enum {
	FIRST = 50000000,               /* ns from the start to the first request */
	MOST  = 1 << 24,                /* requests */
};

static size_t   connections, processors;
static double   seconds, gap;       /* ns between requests of a connection */
static int64_t  begin, counted, end;
static double  *late;
static size_t   requests;
static size_t   moved;               /* threads; atomic */
static struct uprocs_conf conf;

static void usage(void)
{
	fprintf(stderr, "usage: uneven PERMILLE LOAD CONNECTIONS SECONDS PROCESSORS"
		" [SLICE]\n");
	exit(2);
}

static void serve(void *arg)
{
	uint64_t x = chain_seed ^ ((uintptr_t)arg * 2654435761);
	const struct usched *first = usched__here();
	double due = (double)begin;
	bool seen = false;

	for (int i = 0; i < 10; i++)
		x = next_of(x);
	for (;;) {
		int is_long;

		x = next_of(x);
		due -= log(chance_of(x)) * gap;
		if (due >= (double)end)
			return;
		if ((double)uevents_now() < due)
			check(usync_sleep_until((int64_t)due), "sleep");
		x = next_of(x);
		is_long = x % 100 < LONGS;
		compute(is_long ? LONG : SHORT);
		if (!seen && usched__here() != first) {
			__atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
			seen = true;
		}
		if (!is_long && due >= (double)counted) {
			size_t i = __atomic_fetch_add(&requests, 1, __ATOMIC_RELAXED);

			if (i < MOST)
				late[i] = ((double)uevents_now() - due) / 1000;
		}
	}
}

static void run(void)
{
	struct uprocs *rr;

	check(rr_create(&conf, &rr), "scheduler");
	begin = uevents_now() + FIRST;
	end = begin + (int64_t)(seconds * 1e9);
	counted = begin + (int64_t)(seconds * 2e8);
	for (size_t i = 1; i <= connections; i++)
		check(rr_start(rr, serve, (void *)(uintptr_t)i, NULL), "start");
	check(uprocs_destroy(rr, USCHED_NEVER), "end");
}

int main(int argc, char **argv)
{
	size_t permille, load;

	if (argc < 6 || argc > 7)
		usage();
	permille = number(argv[1], 1, 999);
	load = number(argv[2], 1, 99);
	connections = number(argv[3], 1, 1000000);
	seconds = (double)number(argv[4], 1, 3600);
	processors = number(argv[5], 1, 1024);
	conf.c_processors = (unsigned)processors;
	conf.c_slice = argc > 6 ? 1000 * (unsigned)number(argv[6], 10, 1000000) : 0;
	gap = gap_of(load, processors) * (double)connections;
	late = calloc(MOST, sizeof *late);
	check(late ? 0 : -ENOMEM, "memory");
	calibrate();
	run();
	if (requests > MOST)
		requests = MOST;
	check(requests > 0 ? 0 : -ENODATA, "no requests");
	qsort(late, requests, sizeof *late, compare_doubles);
	printf("%.6f\n", late[requests * permille / 1000]);
	fprintf(stderr, "moved %.3f of the threads\n",
		(double)moved / (double)connections);
	return 0;
}
