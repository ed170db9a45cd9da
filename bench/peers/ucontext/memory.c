/* SPDX-License-Identifier: MIT */
/*
 * The memory workload with makecontext(): a thread takes the one page of its stack that
 * it uses. Guard pages would limit the threads to some 32,000, as each makes a mapping of
 * its stack.
 */
#include "context.h"

static void give(void)
{
	yield(running->number);
	running->ended = 1;
}

int main(int argc, char **argv)
{
	size_t threads, before, after, ended = 0;
	struct thread **all;

	arguments(argc, argv, "THREADS", &threads);
	need_memory(threads, (size_t)sysconf(_SC_PAGESIZE) + sizeof *all);
	before = resident();
	all = malloc(threads * sizeof *all);
	if (!all)
		fail("not enough memory");
	for (size_t i = 0; i < threads; i++) {
		all[i] = create(give, i);
		if (resume(all[i]) != i)
			fail("a thread has given another number");
	}
	after = resident();
	for (size_t i = 0; i < threads; i++) {
		resume(all[i]);
		ended += (size_t)all[i]->ended;
	}
	if (ended != threads)
		fail("a thread has not ended");
	print_memory(before, after, ended);
	free(all);
	return 0;
}
