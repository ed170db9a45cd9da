/* SPDX-License-Identifier: MIT */
/* rmain.c: the cycle benchmark over rr. See bench/cycle.h. */
#include "rr.h"

#define CYCLE_PROGRAM "rmain"
#define CYCLE_SCHED   struct rr
#define CYCLE_(name)  rr_##name

static int cycle_start(size_t cycle, void (*func)(void *), void *arg,
		       struct ustack **thread);
static unsigned cycle_processors(unsigned p, size_t r);

#include "bench/cycle.h"

static int cycle_start(size_t cycle, void (*func)(void *), void *func_arg,
		       struct ustack **handle)
{
	(void)cycle;
	return rr_start(sched, func, func_arg, handle);
}

static unsigned cycle_processors(unsigned p, size_t r)
{
	(void)r;
	return p;
}
