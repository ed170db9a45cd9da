/* SPDX-License-Identifier: MIT */
/*
 * memory.c: THREADS threads block at a shallow depth, all at a time. Prints the growth of
 * the process's resident memory, in bytes per thread (0 if there is none). Then each is
 * resumed and ends; prints how many did.
 */
#define BENCH_PROGRAM "memory"


#include "thread.h"

static size_t threads;
static size_t ended;

static void usage(void)
{
	fprintf(stderr, "usage: %s THREADS\n", BENCH_PROGRAM);
	exit(2);
}

static void block(void *unused)
{
	(void)unused;
	bench_hand(bench_main);
	ended++;
	bench_last(bench_main);
}

static void workload(void)
{
	double bytes = resident();
	struct ustack **thread = malloc(threads * sizeof *thread);

	if (!thread)
		fail("threads", -ENOMEM);
	for (size_t i = 0; i < threads; i++) {
		thread[i] = bench_start(block, NULL);
		bench_begin(thread[i]);
	}
	bytes = resident() - bytes;
	for (size_t i = 0; i < threads; i++) {
		bench_hand(thread[i]);
		bench_done(thread[i]);
	}
	free(thread);
	printf("%f\n%zu\n", bytes > 0 ? bytes / (double)threads : 0, ended);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		usage();
	threads = number(argv[1], 1, SIZE_MAX / sizeof(struct ustack *));
	bench_run();
	return 0;
}
