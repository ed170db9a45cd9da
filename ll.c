/* SPDX-License-Identifier: MIT */
/*
 * ll.c: local. Each processor has one place besides the queue, for the thread to run
 * next. A wake puts its thread there; the thread that was there goes to the end of the
 * queue. (The schedulers of Go and tokio have such a slot, and the bound it needs.)
 *
 * A group is a name for the processor it lives on.
 */
#include "ll.h"

#include <stdlib.h>

#include "uproc.h"

struct ll {
	struct uprocs ll_procs;
};

/* From a dispatch of the queue's to the next: in the slot are LL_BOUND at most. */
enum { LOOKS = LL_BOUND / UPROC_LOOK - 1 };

struct ll_group {
	struct uproc         g_proc;
	uint64_t             g_served;   /* switches when it was the queue's dispatch */
};

static struct uproc_place place(struct ll *ll, struct ll_group *group);

/*
 * The queue's turn comes with the looks for events, which come after half a millisecond
 * or so, and after UPROC_LOOK dispatches at the latest.
 */
static inline struct uproc_thread *pick(struct uproc *p)
{
	struct ll_group *group = (struct ll_group *)(void *)p;
	uint64_t switches = p->p_sched.s_stats.s_switches;
	struct ustack *u = p->p_sched.s_slot;

	if ((uintptr_t)u <= (uintptr_t)USCHED_CLOSED)
		return uproc_pop(p);
	p->p_sched.s_slot = NULL;
	if (__builtin_expect(switches - group->g_served >= LOOKS * p->p_interval, 0)) {
		group->g_served = switches;
		uproc_push(p, uproc_thread(u));
		return uproc_pop(p);
	}
	return uproc_thread(u);
}

/*
 * The slot is taken, or closed: threads that are woken by events queue up, as with mail.
 */
static void ready(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)(void *)s;
	struct ustack *later = u;

	if (p->p_slot && !p->p_polls) {
		later = s->s_slot;
		s->s_slot = u;
	}
	uproc_push(p, uproc_thread(later));
}

static struct ustack *next(struct usched *s)
{
	return uproc_next((struct uproc *)(void *)s, pick);
}

static struct ustack *pick_next(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, pick);
}

static const struct uproc_policy policy = {
	.y_size  = sizeof(struct ll_group),
	.y_next  = next,
	.y_pick  = pick_next,
	.y_ready = ready,
	.y_slot  = 1,
};

int ll_create(const struct usched_conf *conf, struct ll **ll)
{
	struct ll *new = malloc(sizeof *new);
	int rc;

	*ll = NULL;
	if (!new)
		return -ENOMEM;
	rc = uprocs_init(&new->ll_procs, conf, &policy);
	if (rc)
		free(new);
	else
		*ll = new;
	return rc;
}

int ll_destroy(struct ll *ll)
{
	int rc = uprocs_fini(&ll->ll_procs);

	if (rc == 0 || rc == -EDEADLK)
		free(ll);
	return rc;
}

struct ll_group *ll_group(struct ll *ll)
{
	return (struct ll_group *)(void *)uprocs_next(&ll->ll_procs);
}

struct ll_group *ll_group_on(struct ll *ll, unsigned on)
{
	return (struct ll_group *)(void *)uprocs_on(&ll->ll_procs, on);
}

int ll_start(struct ll *ll, struct ll_group *group, void (*func)(void *),
	     void *arg, struct ustack **thread)
{
	return uproc_start(place(ll, group), func, arg, thread);
}

int ll_start_alone(struct ll *ll, struct ll_group *group, size_t stack,
		   void (*func)(void *), void *arg,
		   struct ustack **thread)
{
	return uproc_start_alone(place(ll, group), stack, func, arg, thread);
}

int ll_start_fd(struct ll *ll, struct ll_group *group, void (*func)(int fd, void *arg),
		int fd, void *arg, struct ustack **thread)
{
	return uproc_start_fd(place(ll, group), func, fd, arg, thread);
}

static struct uproc_place place(struct ll *ll, struct ll_group *group)
{
	struct uproc *p = uproc_self();

	if (group)
		p = &group->g_proc;
	else if (!p || p->p_procs != &ll->ll_procs)
		p = uprocs_next(&ll->ll_procs);
	return (struct uproc_place){ p, true };
}

void ll_hold(struct ll *ll)
{
	uproc_hold(&ll->ll_procs);
}

void ll_release(struct ll *ll)
{
	uproc_release(&ll->ll_procs);
}

int ll_run(struct ll *ll)
{
	return uprocs_run(&ll->ll_procs);
}

void ll_stats(struct ll *ll, struct usched_stats *out)
{
	uprocs_stats(&ll->ll_procs, out);
}

void ll_trim(struct ll *ll)
{
	uprocs_trim(&ll->ll_procs);
}
