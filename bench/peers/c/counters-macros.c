/* SPDX-License-Identifier: MIT */
/* The counters workload: each counter is a task of macros.h. */
#include "macros.h"
#include "peer.h"

struct counter {
	struct task task;
	size_t number, given;
};

__attribute__((noinline)) static int count(struct counter *c)
{
	TASK_BEGIN(&c->task);
	TASK_YIELD(&c->task);
	for (;; c->number++) {
		c->given = c->number;
		TASK_YIELD(&c->task);
	}
	TASK_END(&c->task);
}

int main(int argc, char **argv)
{
	size_t value[2], counters, calls, sum = 0;
	struct counter *all;
	double start;

	arguments(argc, argv, "COUNTERS CALLS", value);
	counters = value[0];
	calls = value[1];
	need_memory(counters, sizeof *all);
	all = calloc(counters, sizeof *all);
	if (!all)
		fail("not enough memory");
	for (size_t i = 0; i < counters; i++) {
		all[i].number = i;
		count(&all[i]);
	}
	start = now();
	for (size_t call = 0; call < calls; call++)
		for (size_t i = 0; i < counters; i++) {
			count(&all[i]);
			sum += all[i].given;
		}
	print_seconds(now() - start, sum);
	free(all);
	return 0;
}
