/* SPDX-License-Identifier: MIT */
/*
 * The counters workload with function calls: an object for each counter, and a function
 * that takes it. There are no threads. It is the limit for threads.
 */
#include "peer.h"

struct counter {
	size_t number;
};

__attribute__((noinline)) static size_t next(struct counter *c)
{
	return c->number++;
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
	for (size_t i = 0; i < counters; i++)
		all[i].number = i;
	start = now();
	for (size_t call = 0; call < calls; call++)
		for (size_t i = 0; i < counters; i++)
			sum += next(&all[i]);
	print_seconds(now() - start, sum);
	free(all);
	return 0;
}
