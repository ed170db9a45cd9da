/* SPDX-License-Identifier: MIT */
/*
 * rr.c: round robin. The policy is the absence of one: whoever becomes
 * runnable goes to the end of its processor's queue, and the head runs.
 */
#include "rr.h"

#include <stdlib.h>

struct rr {
	struct procs rr_procs;
};

static struct ustack *next(struct usched *s)
{
	return proc_next((struct proc *)(void *)s, proc_pop);
}

static int wake(struct usched *s, struct ustack *u)
{
	(void)s;
	return rr_wake(u);
}

int rr_create(struct rr **rr, const struct proc_conf *conf)
{
	struct rr *new = malloc(sizeof *new);
	int rc;

	if (!new)
		return -ENOMEM;
	rc = procs_init(&new->rr_procs, conf, sizeof(struct proc), next, wake);
	if (rc)
		free(new);
	else
		*rr = new;
	return rc;
}

int rr_destroy(struct rr *rr)
{
	int rc = procs_fini(&rr->rr_procs);

	if (rc == 0 || rc == -EDEADLK)
		free(rr);
	return rc;
}

int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread)
{
	return proc_start(procs_next(&rr->rr_procs), func, arg, thread);
}

int rr_wait(void)
{
	return proc_wait();
}

int rr_wake(struct ustack *thread)
{
	return proc_wake(thread, proc_push);
}

void rr_hold(struct rr *rr)
{
	proc_hold(&rr->rr_procs);
}

void rr_release(struct rr *rr)
{
	proc_release(&rr->rr_procs);
}

void rr_stats(struct rr *rr, struct usched_stats *out)
{
	procs_stats(&rr->rr_procs, out);
}
