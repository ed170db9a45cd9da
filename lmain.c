/* SPDX-License-Identifier: MIT */
/*
 * lmain.c: the cycle benchmark over ll. The threads of a cycle are a group, so no more
 * processors work than there are cycles. See bench/cycle.h.
 */
#include "ll.h"

#define CYCLE_PROGRAM "lmain"
#define CYCLE_SCHED   struct ll
#define CYCLE_(name)  ll_##name

static int cycle_start(size_t cycle, void (*func)(void *), void *arg,
		       struct ustack **thread);
static unsigned cycle_processors(unsigned p, size_t r);

#include "bench/cycle.h"

static int cycle_start(size_t cycle, void (*func)(void *), void *func_arg,
		       struct ustack **handle)
{
	static struct ll_group *group;
	static size_t of;

	if (!group || cycle != of)
		group = ll_group(sched);
	of = cycle;
	return ll_start(sched, group, func, func_arg, handle);
}

static unsigned cycle_processors(unsigned p, size_t r)
{
	return p < r ? p : (unsigned)r;
}
