/* SPDX-License-Identifier: MIT */
/*
 * rr.c: round robin. A runnable thread goes to the end of its processor's queue; the head
 * runs next.
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

static struct ustack *pick_next(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, uproc_pop);
}

static void ready(struct usched *s, struct ustack *u)
{
	uproc_push((struct uproc *)(void *)s, uproc_thread(u));
}

static const struct uproc_policy policy = {
	.y_size  = sizeof(struct uproc),
	.y_next  = next,
	.y_pick  = pick_next,
	.y_ready = ready,
	.y_moves = 1,
};

int rr_create(const struct usched_conf *conf, struct rr **rr)
{
	struct rr *new = malloc(sizeof *new);
	int rc;

	*rr = NULL;
	if (!new)
		return -ENOMEM;
	rc = uprocs_init(&new->rr_procs, conf, &policy);
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

static struct uproc_place anywhere(struct rr *rr)
{
	return (struct uproc_place){ uprocs_place(&rr->rr_procs), false };
}

int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread)
{
	return uproc_start(anywhere(rr), func, arg, thread);
}

int rr_start_alone(struct rr *rr, size_t stack, void (*func)(void *), void *arg,
		   struct ustack **thread)
{
	return uproc_start_alone(anywhere(rr), stack, func, arg, thread);
}

int rr_start_fd(struct rr *rr, void (*func)(int fd, void *arg), int fd, void *arg,
		struct ustack **thread)
{
	return uproc_start_fd(anywhere(rr), func, fd, arg, thread);
}

int rr_start_on(struct rr *rr, unsigned on, void (*func)(void *), void *arg,
		struct ustack **thread)
{
	struct uproc_place place = { uprocs_on(&rr->rr_procs, on), true };

	return place.w_proc ? uproc_start(place, func, arg, thread) : -EINVAL;
}

int rr_start_fd_on(struct rr *rr, unsigned on, void (*func)(int fd, void *arg), int fd,
		   void *arg, struct ustack **thread)
{
	struct uproc_place place = { uprocs_on(&rr->rr_procs, on), true };

	return place.w_proc ? uproc_start_fd(place, func, fd, arg, thread) : -EINVAL;
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

void rr_trim(struct rr *rr)
{
	uprocs_trim(&rr->rr_procs);
}
