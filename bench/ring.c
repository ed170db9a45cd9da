/* SPDX-License-Identifier: MIT */
/*
 * ring.c: thread-ring. 503 threads in a ring pass on a token with a number, and each
 * subtracts one. The thread that gets 0 ends the run. Prints the seconds, and the number
 * of that thread, counted from 1.
 */
#define BENCH_PROGRAM "ring"

#include "thread.h"

enum { THREADS = 503 };

static size_t passes;
static struct ustack *ring[THREADS];
static size_t token[THREADS];           /* the number that each gets */
static size_t last;
static int over;

static void usage(void)
{
	fprintf(stderr, "usage: %s PASSES\n", BENCH_PROGRAM);
	exit(2);
}

static void member(void *index)
{
	const size_t i = (uintptr_t)index, right = (i + 1) % THREADS;
	struct ustack *const next = ring[right];

	bench_hand(bench_main);
	while (!over) {
		if (token[i] > 0) {
			token[right] = token[i] - 1;
			bench_hand(next);
		} else {
			last = i + 1;
			bench_hand(bench_main);
		}
	}
}

static void workload(void)
{
	double seconds;

	for (size_t i = THREADS; i-- > 0; )
		ring[i] = bench_start(member, (void *)(uintptr_t)i);
	for (size_t i = 0; i < THREADS; i++)
		bench_begin(ring[i]);
	seconds = now();
	token[0] = passes;
	bench_hand(ring[0]);
	seconds = now() - seconds;
	over = 1;
	for (size_t i = 0; i < THREADS; i++)
		bench_drop(ring[i]);
	printf("%f\n%zu\n", seconds, last);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage();
	passes = number(argv[1], 1, SIZE_MAX);
	bench_run();
	return 0;
}
