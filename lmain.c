/* SPDX-License-Identifier: MIT */
/*
 * lmain.c: the cycle benchmark over ll. The threads of a share are a group, so no more
 * processors work than there are cycles. See bench/cycle.h.
 */
#define USCHED_INLINE_SWITCH
#include "ll.h"

#define CYCLE_PROGRAM "lmain"
#define CYCLE_CREATE  ll_create

static int cycle_start(struct uprocs *ll, size_t share, void (*func)(void *), void *arg,
		       struct ustack **thread)
{
	return ll_start(ll_group(ll, (unsigned)share + 1), func, arg, thread);
}

static unsigned cycle_processors(unsigned p, size_t r)
{
	return p < r ? p : (unsigned)r;
}

#include "bench/cycle.h"
