/* SPDX-License-Identifier: MIT */
/*
 * rr.c: round robin. The policy is the absence of one: whoever becomes
 * runnable goes to the end of its processor's queue, and the head runs.
 */
#include "rr.h"

#include <stdlib.h>

#include "uproc.h"

struct rr {
	struct uprocs rr_procs;
};

static struct ustack *next(struct usched *s)
{
	return uproc_next((struct uproc *)(void *)s, uproc_pop);
}

static int wake(struct usched *s, struct ustack *u)
{
	(void)s;
	return rr_wake(u);
}

int rr_create(struct rr **rr, const struct usched_conf *conf)
{
	struct rr *new = malloc(sizeof *new);
	int rc;

	if (!new)
		return -ENOMEM;
	rc = uprocs_init(&new->rr_procs, conf, sizeof(struct uproc), next, wake);
	if (rc)
		free(new);
	else
		*rr = new;
	return rc;
}

int rr_destroy(struct rr *rr)
{
	int rc = uprocs_fini(&rr->rr_procs);

	if (rc == 0 || rc == -EDEADLK)
		free(rr);
	return rc;
}

int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread)
{
	return uproc_start(uprocs_place(&rr->rr_procs), func, arg, thread);
}

int rr_join(struct ustack *thread)
{
	return uproc_join(thread);
}

int rr_detach(struct ustack *thread)
{
	return uproc_detach(thread);
}

extern inline int rr_wait(void);
extern inline int rr_wake(struct ustack *thread);

int rr__wait(struct ustack *self)
{
	return uproc_wait(self, uproc_pop);
}

int rr__wake(struct ustack *thread)
{
	return uproc_wake(thread, uproc_push);
}

int rr_yield(void)
{
	return uproc_yield();
}

void rr_hold(struct rr *rr)
{
	uproc_hold(&rr->rr_procs);
}

void rr_release(struct rr *rr)
{
	uproc_release(&rr->rr_procs);
}

int rr_run(struct rr *rr)
{
	return uprocs_run(&rr->rr_procs);
}

void rr_stats(struct rr *rr, struct usched_stats *out)
{
	uprocs_stats(&rr->rr_procs, out);
}
