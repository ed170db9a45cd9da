/* SPDX-License-Identifier: MIT */
/*
 * The memory workload: tasks of macros.h that have yielded once. All are of one kind, so
 * an array holds them, as is usual for such tasks.
 */
#include "macros.h"
#include "peer.h"

struct giver {
	struct task task;
	size_t number;
};

__attribute__((noinline)) static int give(struct giver *g, size_t number)
{
	TASK_BEGIN(&g->task);
	g->number = number;
	TASK_YIELD(&g->task);
	TASK_END(&g->task);
}

int main(int argc, char **argv)
{
	size_t threads, before, after, ended = 0;
	struct giver *all;

	arguments(argc, argv, "THREADS", &threads);
	need_memory(threads, sizeof *all);
	before = resident();
	all = calloc(threads, sizeof *all);
	if (!all)
		fail("not enough memory");
	for (size_t i = 0; i < threads; i++)
		give(&all[i], i);
	after = resident();
	for (size_t i = 0; i < threads; i++)
		ended += give(&all[i], 0) == TASK_ENDED && all[i].number == i;
	if (ended != threads)
		fail("a thread has not ended");
	print_memory(before, after, ended);
	free(all);
	return 0;
}
