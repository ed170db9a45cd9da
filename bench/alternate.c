/* SPDX-License-Identifier: MIT */
/*
 * alternate.c: two tasks yield in turn, YIELDS times each, and end. This is done
 * REPETITIONS times, with new tasks. Each task checks that it is its turn. Prints the
 * seconds, and the turns.
 */
#define BENCH_PROGRAM "alternate"

#include "thread.h"

static size_t repetitions, yields;
static struct ustack *task[2];
static size_t turns;

static void usage(void)
{
	fprintf(stderr, "usage: %s REPETITIONS YIELDS\n", BENCH_PROGRAM);
	exit(2);
}

static void alternate(void *index)
{
	const size_t i = (uintptr_t)index;

	for (size_t n = yields; n > 0; n--) {
		if (turns % 2 != i)
			fail("out of turn", -EPROTO);
		turns++;
		bench_yield(task[1 - i]);
	}
	bench_last(i == 0 ? task[1] : bench_main);
}

static void workload(void)
{
	double seconds = now();

	for (size_t n = repetitions; n > 0; n--) {
		for (size_t i = 0; i < 2; i++)
			task[i] = bench_start(alternate, (void *)(uintptr_t)i);
		bench_begin(task[0]);
		for (size_t i = 0; i < 2; i++)
			bench_done(task[i]);
	}
	seconds = now() - seconds;
	printf("%f\n%zu\n", seconds, turns);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		usage();
	repetitions = number(argv[1], 1, SIZE_MAX);
	yields = number(argv[2], 1, SIZE_MAX);
	bench_run();
	return 0;
}
