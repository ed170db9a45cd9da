/* SPDX-License-Identifier: MIT */
/*
 * ring.c: thread-ring. 503 threads in a ring pass on a token with a number, each less
 * by one than it was; who gets 0 ends it. Prints the seconds, and who that was,
 * counting from 1.
 */
#define BENCH_PROGRAM "ring"

#include "thread.h"

enum { THREADS = 503 };

static size_t passes;           /* the token: how many are left */
static struct ustack *ring[THREADS];
static size_t last;

static void usage(void)
{
	fprintf(stderr, "usage: %s PASSES\n", BENCH_PROGRAM);
	exit(2);
}

static void member(void *index)
{
	const size_t i = (uintptr_t)index;
	struct ustack *const next = ring[(i + 1) % THREADS];

	bench_hand(bench_main);
	while (passes > 0) {
		passes--;
		bench_hand(next);
	}
	if (last == 0) {
		last = i + 1;
		bench_hand(bench_main);
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
	bench_hand(ring[0]);
	seconds = now() - seconds;
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
