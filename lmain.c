/* SPDX-License-Identifier: MIT */
/*
 * lmain.c: the cycle benchmark over ll. The threads of a share are a group, so no more
 * processors work than there are cycles. See bench/cycle.h.
 */
#define USCHED_INLINE_SWITCH
#include "ll.h"

#define CYCLE_PROGRAM "lmain"

static struct uprocs *ll;

static int cycle_create(const struct uprocs_conf *conf)
{
	return ll_create(conf, &ll);
}

static int cycle_destroy(void)
{
	return uprocs_destroy(ll, USCHED_NEVER);
}

static int cycle_start(size_t share, void (*func)(void *), void *arg,
		       struct ustack **thread)
{
	return ll_start(ll_group(ll, (unsigned)share + 1), func, arg, thread);
}

static unsigned cycle_processors(unsigned p, size_t r)
{
	return p < r ? p : (unsigned)r;
}

static void cycle_stats(struct usched_stats *out)
{
	uprocs_stats(ll, out);
}

#include "bench/cycle.h"
