/* SPDX-License-Identifier: MIT */
/*
 * create.c: one thread after the other is created, runs to its first block, where it
 * gives its number, and is dropped: aborted by the dispatcher alone, and over rr and ll
 * woken to its end, and joined. Prints the seconds, and the sum of the numbers.
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
