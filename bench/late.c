/* SPDX-License-Identifier: MIT */
/*
 * late.c: how late a timer is beside threads that compute and yield.
 *
 *	late PERMILLE THREADS COMPUTATION [TIMES]
 *
 * On one processor of rr, THREADS threads compute for COMPUTATION us and yield, again and
 * again. Another one sleeps for 5 ms, TIMES times (200). Prints the ms that PERMILLE of
 * 1000 of these sleeps ended late at most. A fair queue has a delay of THREADS times
 * COMPUTATION.
 */
#include <stdbool.h>

#include "../rr.h"
#include "../usync.h"

#define BENCH_PROGRAM "late"
#include "bench.h"

enum {
	SLEEP = 5000000,                /* ns */
	MOST  = 100000,                 /* sleeps */
};

static double  late[MOST];              /* ms */
static size_t  times = 200;
static int64_t computation;             /* ns */
static bool    over;

static void usage(void)
{
	fprintf(stderr, "usage: late PERMILLE THREADS COMPUTATION [TIMES]\n");
	exit(2);
}

static void compute(void *unused)
{
	(void)unused;
	while (!over) {
		spin_until(uevents_now() + computation);
		check(ustack_yield(), "yield");
	}
}

static void sleep_often(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < times; i++) {
		int64_t due = usync_after(SLEEP);

		check(usync_sleep_until(due), "sleep");
		late[i] = (double)(uevents_now() - due) / 1e6;
	}
	over = true;
}

int main(int argc, char **argv)
{
	struct usched_conf conf = { .c_processors = 1 };
	size_t permille, threads;
	struct rr *rr;

	if (argc < 4 || argc > 5)
		usage();
	permille = number(argv[1], 1, 999);
	threads = number(argv[2], 1, 1000);
	computation = (int64_t)number(argv[3], 1, 1000000) * 1000;
	if (argc > 4)
		times = number(argv[4], 1, MOST);
	check(rr_create(&conf, &rr), "scheduler");
	check(rr_start(rr, sleep_often, NULL, NULL), "start");
	for (size_t i = 0; i < threads; i++)
		check(rr_start(rr, compute, NULL, NULL), "start");
	check(rr_destroy(rr), "end");
	qsort(late, times, sizeof *late, compare_doubles);
	printf("%.6f\n", late[times * permille / 1000]);
	return 0;
}
