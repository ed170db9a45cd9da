/* SPDX-License-Identifier: MIT */
/* The create workload with makecontext(); the stack is kept for the next thread. */
#include "context.h"

static void give(void)
{
	yield(running->number);
}

int main(int argc, char **argv)
{
	size_t threads, sum = 0;
	double start;

	arguments(argc, argv, "THREADS", &threads);
	start = now();
	for (size_t i = 0; i < threads; i++) {
		struct thread *thread = create(give, i);

		sum += resume(thread);
		drop(thread);
	}
	print_seconds(now() - start, sum);
	return 0;
}
