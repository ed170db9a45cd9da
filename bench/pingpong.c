/* SPDX-License-Identifier: MIT */
/*
 * pingpong.c: a thread is resumed, gives a number (0, 1, 2, ...), and suspends itself,
 * PAIRS times. Prints the seconds, and the sum.
 */
#define BENCH_PROGRAM "pingpong"

#include "thread.h"

static size_t pairs;
static size_t given;
static int over;

static void usage(void)
{
	fprintf(stderr, "usage: %s PAIRS\n", BENCH_PROGRAM);
	exit(2);
}

static void count(void *unused)
{
	size_t n = 0;

	(void)unused;
	bench_hand(bench_main);
	while (!over) {
		given = n++;
		bench_hand(bench_main);
	}
}

static void workload(void)
{
	struct ustack *u = bench_start(count, NULL);
	double seconds;
	size_t sum = 0;

	bench_begin(u);
	seconds = now();
	for (size_t i = 0; i < pairs; i++) {
		bench_hand(u);
		sum += given;
	}
	seconds = now() - seconds;
	over = 1;
	bench_drop(u);
	printf("%f\n%zu\n", seconds, sum);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage();
	pairs = number(argv[1], 1, SIZE_MAX);
	bench_run();
	return 0;
}
