/* SPDX-License-Identifier: MIT */
/* The pingpong workload with swapcontext(). */
#include "context.h"

static void count(void)
{
	yield(0);
	for (size_t number = 0;; number++)
		yield(number);
}

int main(int argc, char **argv)
{
	size_t pairs, sum = 0;
	struct thread *thread;
	double start;

	arguments(argc, argv, "PAIRS", &pairs);
	thread = create(count, 0);
	resume(thread);
	start = now();
	for (size_t i = 0; i < pairs; i++)
		sum += resume(thread);
	print_seconds(now() - start, sum);
	return 0;
}
