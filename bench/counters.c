/* SPDX-License-Identifier: MIT */
/*
 * counters.c: each counter is a thread. The i-th counts in a local variable, from i on,
 * and gives one number at each call. All are called in turn. Prints the seconds, and the
 * sum of all numbers.
 */
#define BENCH_PROGRAM "counters"

#include "thread.h"

static size_t counters, calls;
static struct ustack **counter;
static size_t given;
static int over;

static void usage(void)
{
	fprintf(stderr, "usage: %s COUNTERS CALLS\n", BENCH_PROGRAM);
	exit(2);
}

static void count(void *first)
{
	size_t n = (uintptr_t)first;

	bench_hand(bench_main);
	while (!over) {
		given = n++;
		bench_hand(bench_main);
	}
}

static void workload(void)
{
	double seconds;
	size_t sum = 0;

	for (size_t i = 0; i < counters; i++) {
		counter[i] = bench_start(count, (void *)(uintptr_t)i);
		bench_begin(counter[i]);
	}
	seconds = now();
	for (size_t call = 0; call < calls; call++) {
		for (size_t i = 0; i < counters; i++) {
			bench_hand(counter[i]);
			sum += given;
		}
	}
	seconds = now() - seconds;
	over = 1;
	for (size_t i = 0; i < counters; i++)
		bench_drop(counter[i]);
	printf("%f\n%zu\n", seconds, sum);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		usage();
	counters = number(argv[1], 1, SIZE_MAX / sizeof *counter);
	calls = number(argv[2], 1, SIZE_MAX);
	counter = malloc(counters * sizeof *counter);
	if (!counter)
		fail("counters", -ENOMEM);
	bench_run();
	free(counter);
	return 0;
}
