/* SPDX-License-Identifier: MIT */
/*
 * slice.c: how long one thread runs while others are ready, and what slices cost.
 *
 *	slice COMPUTATION THREADS SECONDS SLICE
 *
 * THREADS threads of one processor compute for COMPUTATION milliseconds each and yield,
 * again and again: without slices, with ustack_check() in each round of their loops, and
 * in a region of ustack_preemptible(). SLICE is in microseconds. These take turns, each
 * for SECONDS in all. Prints for each how long a thread ran before another one did, in
 * microseconds of the clock and of CPU time, how often threads gave way before they were
 * done, and the CPU time of the same work, the monitor's included, beside that without
 * slices (the median of the turns). At last, what one ustack_check() takes.
 */
#include <stdlib.h>

#include "../rr.h"

#define BENCH_PROGRAM "slice"
#include "bench.h"

enum {
	MICRO   = 1000,                 /* ns */
	MILLI   = 1000000,              /* ns */
	TURNS   = 9,                    /* of each mode */
	ROUNDS  = 5000,                 /* of a loop, between looks at what runs: 10 us */
	BUCKET  = 10,                   /* us */
	BUCKETS = 100000,               /* the last counts all above */
	CALLS   = 100000000,
};

enum mode { NONE, CHECK, REGION, MODES };

static const char *const names[MODES] = { "none", "check", "region" };

static enum mode  mode;
static int64_t    end;
static int64_t    computation;          /* chunks */
static size_t     threads;
static unsigned   slice;                /* ns */
static uint64_t   value = 88172645463325252u;

/* The thread that runs, and since when. */
static volatile uintptr_t running;
static volatile int64_t   since, cpu_since;
static volatile uint64_t  chunks;       /* computed */

static struct result {
	unsigned long r_clock[BUCKETS], r_cpu[BUCKETS];
	uint64_t r_preempted;
	double   r_cost[TURNS];         /* ns of CPU time for a chunk */
} results[MODES];

static void usage(void)
{
	fprintf(stderr, "usage: slice COMPUTATION THREADS SECONDS SLICE\n");
	exit(2);
}

__attribute__((noinline)) static uint64_t plain(uint64_t x, long n)
{
	while (n-- > 0)
		x = next_of(x);
	return x;
}

__attribute__((noinline)) static uint64_t checking(uint64_t x, long n)
{
	while (n-- > 0) {
		x = next_of(x);
		ustack_check();
	}
	return x;
}

static void note(unsigned long *counts, int64_t ns)
{
	int64_t i = ns / MICRO / BUCKET;

	if (ns >= 0)
		counts[i < BUCKETS ? i : BUCKETS - 1]++;
}

/* Notes how long the thread that ran before did. */
static void look(uintptr_t me)
{
	int64_t t, cpu;

	if (running == me)
		return;
	t = clock_of(CLOCK_MONOTONIC);
	cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	if (running) {
		note(results[mode].r_clock, t - since);
		note(results[mode].r_cpu, cpu - cpu_since);
	}
	since = t;
	cpu_since = cpu;
	running = me;
}

static void compute(void *me)
{
	uint64_t x = value;

	while (clock_of(CLOCK_MONOTONIC) < end) {
		int before = mode == REGION ? ustack_preemptible(1) : 0;

		for (int64_t i = 0; i < computation; i++) {
			look((uintptr_t)me);
			x = mode == CHECK ? checking(x, ROUNDS) : plain(x, ROUNDS);
			chunks++;
		}
		if (mode == REGION)
			ustack_preemptible(before);
		if (before < 0)
			fail("region", before);
		check(ustack_yield(), "yield");
	}
	value ^= x;
}

static void run(size_t which, int64_t ns)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct result *r = &results[mode];
	struct usched_stats stats;
	struct rr *rr;
	int64_t cpu;

	conf.c_slice = mode == NONE ? 0 : slice;
	check(rr_create(&conf, &rr), "scheduler");
	rr_hold(rr);
	running = 0;
	chunks = 0;
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	end = clock_of(CLOCK_MONOTONIC) + ns;
	for (uintptr_t i = 1; i <= threads; i++) {
		struct ustack *u;

		check(rr_start(rr, compute, (void *)i, &u), "start");
		check(ustack_detach(u), "detach");
	}
	while (clock_of(CLOCK_MONOTONIC) < end)
		nanosleep(&(struct timespec){ .tv_nsec = MILLI }, NULL);
	rr_release(rr);
	rr_stats(rr, &stats);
	check(rr_destroy(rr), "end");
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	r->r_preempted += stats.s_preempted;
	r->r_cost[which] = (double)cpu / (double)chunks;
}

static long percentile(const unsigned long *counts, double part)
{
	unsigned long all = 0, sum = 0;
	long i;

	for (i = 0; i < BUCKETS; i++)
		all += counts[i];
	for (i = 0; i < BUCKETS - 1; i++) {
		sum += counts[i];
		if ((double)sum >= (double)all * part)
			break;
	}
	return (i + 1) * BUCKET;
}

static double median(double *values)
{
	qsort(values, TURNS, sizeof *values, compare_doubles);
	return values[TURNS / 2];
}

static void print(enum mode m)
{
	struct result *r = &results[m];
	double ratios[TURNS];

	for (int i = 0; i < TURNS; i++)
		ratios[i] = r->r_cost[i] / results[NONE].r_cost[i];
	printf("%-6s p50_us=%ld p99_us=%ld max_us=%ld cpu_p99_us=%ld preempted=%llu "
	       "cost=%.4f\n", names[m], percentile(r->r_clock, 0.5),
	       percentile(r->r_clock, 0.99), percentile(r->r_clock, 1),
	       percentile(r->r_cpu, 0.99), (unsigned long long)r->r_preempted,
	       median(ratios));
}

/* ns of CPU time that ustack_check() adds to a round of the loop. */
static double check_cost(void)
{
	double costs[TURNS];

	for (int i = 0; i < TURNS; i++) {
		int64_t a = clock_of(CLOCK_PROCESS_CPUTIME_ID), b;

		value = plain(value, CALLS / TURNS);
		b = clock_of(CLOCK_PROCESS_CPUTIME_ID);
		value = checking(value, CALLS / TURNS);
		costs[i] = (double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - 2 * b + a)
			/ (CALLS / TURNS);
	}
	return median(costs);
}

/* How many chunks are `ms' milliseconds. */
static int64_t calibrate(size_t ms)
{
	int64_t ns = 0, n = 0, began = clock_of(CLOCK_THREAD_CPUTIME_ID);

	for (; ns < 100 * MILLI; n++) {
		value = plain(value, ROUNDS);
		ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - began;
	}
	return (int64_t)ms * MILLI * n / ns;
}

int main(int argc, char **argv)
{
	int64_t ns;

	if (argc != 5)
		usage();
	threads = number(argv[2], 2, 1000);
	ns = (int64_t)number(argv[3], 1, 3600) * 1000 * MILLI / TURNS;
	slice = (unsigned)number(argv[4], 10, 1000000) * MICRO;
	computation = calibrate(number(argv[1], 1, 1000));
	for (size_t i = 0; i < TURNS; i++)
		for (mode = 0; mode < MODES; mode++)
			run(i, ns);
	for (mode = 0; mode < MODES; mode++)
		print(mode);
	printf("check_ns=%.3f value=%llu\n", check_cost(), (unsigned long long)value);
	return 0;
}
