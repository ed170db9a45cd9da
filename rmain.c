/* SPDX-License-Identifier: MIT */
/* rmain.c: the cycle benchmark over rr. See bench/cycle.h. */
#define USCHED_INLINE_SWITCH
#include "rr.h"

#define CYCLE_PROGRAM "rmain"

static struct uprocs *rr;

static int cycle_create(const struct uprocs_conf *conf)
{
	return rr_create(conf, &rr);
}

static int cycle_destroy(void)
{
	return uprocs_destroy(rr, USCHED_NEVER);
}

static int cycle_start(size_t share, void (*func)(void *), void *arg,
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

static void cycle_stats(struct usched_stats *out)
{
	uprocs_stats(rr, out);
}

#include "bench/cycle.h"
