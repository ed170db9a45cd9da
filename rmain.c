/* SPDX-License-Identifier: MIT */
/* rmain.c: the cycle benchmark over rr. See bench/cycle.h. */
#define USCHED_INLINE_SWITCH
#include "rr.h"

#define CYCLE_PROGRAM "rmain"
#define CYCLE_CREATE  rr_create

static int cycle_start(struct uprocs *rr, size_t share, void (*func)(void *), void *arg,
		       struct ustack **thread)
{
	(void)share;
	return rr_start(rr, func, arg, thread);
}

static unsigned cycle_processors(unsigned p, size_t r)
{
	(void)r;
	return p;
}

#include "bench/cycle.h"
