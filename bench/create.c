/* SPDX-License-Identifier: MIT */
/*
 * create.c: threads are created one after the other. Each runs to its first block, gives
 * its number there, and is dropped: the dispatcher alone aborts it; over rr and ll it is
 * woken, ends, and is joined. Prints the seconds, and the sum of the numbers.
 */
#define BENCH_PROGRAM "create"

#include "thread.h"

static size_t threads;
static size_t given;

static void usage(void)
{
	fprintf(stderr, "usage: %s THREADS\n", BENCH_PROGRAM);
	exit(2);
}

static void give(void *n)
{
	given = (uintptr_t)n;
	bench_hand(bench_main);
}

static void workload(void)
{
	double seconds = now();
	size_t sum = 0;

	for (size_t i = 0; i < threads; i++) {
		struct ustack *u = bench_start(give, (void *)(uintptr_t)i);

		bench_begin(u);
		sum += given;
		bench_drop(u);
	}
	seconds = now() - seconds;
	printf("%f\n%zu\n", seconds, sum);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage();
	threads = number(argv[1], 1, SIZE_MAX);
	bench_run();
	return 0;
}
