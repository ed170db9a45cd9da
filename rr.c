/* SPDX-License-Identifier: MIT */
/*
 * rr.c: round robin. A runnable thread goes to the end of the processor's queue; the head
 * of the queue runs next.
 */
#include "rr.h"
#include "uproc.h"

static struct ustack *rr_next(struct usched *s)
{
	return uproc_next(uproc_from(s), uproc_pop);
}

static struct ustack *rr_pick(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, uproc_pop);
}

static const struct uproc_policy rr_policy = {
	.y_size  = sizeof(struct uproc),
	.y_next  = rr_next,
	.y_pick  = rr_pick,
	.y_moves = 1,
};

int rr_create(const struct uprocs_conf *conf, struct uprocs **rr)
{
	return uprocs_create(conf, &rr_policy, rr);
}

int rr_start(struct uprocs *rr, void (*func)(void *), void *arg, struct ustack **thread)
{
	return uproc_start(uprocs_place(rr, NULL), NULL, func, arg, thread);
}

int rr_start_with(struct uprocs *rr, const struct ustack_how *how, void (*func)(void *),
		  void *arg, struct ustack **thread)
{
	return uproc_start(uprocs_place(rr, how), how, func, arg, thread);
}
