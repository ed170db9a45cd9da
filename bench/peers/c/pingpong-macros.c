/* SPDX-License-Identifier: MIT */
/* The pingpong workload: a task of macros.h is called, and yields. */
#include "macros.h"
#include "peer.h"

struct counter {
	struct task task;
	size_t number;
};

__attribute__((noinline)) static int count(struct counter *c)
{
	TASK_BEGIN(&c->task);
	TASK_YIELD(&c->task);
	for (c->number = 0;; c->number++)
		TASK_YIELD(&c->task);
	TASK_END(&c->task);
}

int main(int argc, char **argv)
{
	struct counter thread = { .number = 0 };
	size_t pairs, sum = 0;
	double start;

	arguments(argc, argv, "PAIRS", &pairs);
	count(&thread);
	start = now();
	for (size_t i = 0; i < pairs; i++) {
		count(&thread);
		sum += thread.number;
	}
	print_seconds(now() - start, sum);
	return 0;
}
