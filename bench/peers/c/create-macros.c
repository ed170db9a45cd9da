/* SPDX-License-Identifier: MIT */
/*
 * The create workload: malloc() makes a task of macros.h, which runs until it yields, and
 * is freed.
 */
#include "macros.h"
#include "peer.h"

struct giver {
	struct task task;
	size_t number, given;
};

__attribute__((noinline)) static int give(struct giver *g)
{
	TASK_BEGIN(&g->task);
	g->given = g->number;
	TASK_YIELD(&g->task);
	TASK_END(&g->task);
}

__attribute__((noinline)) static struct giver *create(size_t number)
{
	struct giver *g = malloc(sizeof *g);

	if (!g)
		fail("not enough memory");
	*g = (struct giver){ .number = number };
	return g;
}

int main(int argc, char **argv)
{
	size_t threads, sum = 0;
	double start;

	arguments(argc, argv, "THREADS", &threads);
	start = now();
	for (size_t i = 0; i < threads; i++) {
		struct giver *g = create(i);

		give(g);
		sum += g->given;
		free(g);
	}
	print_seconds(now() - start, sum);
	return 0;
}
