/* SPDX-License-Identifier: MIT */
/*
 * ll.c: local. Each processor has one place besides the queue, for the thread to run
 * next. A wake puts the woken thread there; the thread that was there goes to the end of
 * the queue. (The schedulers of Go and tokio have such a slot, too. They bound its use,
 * so that threads in the queue do not starve.)
 *
 * A group is a processor: all threads of the group run there.
 */
#include "ll.h"
#include "uproc.h"

/* The queue has its turn after so many intervals, each from one look for events to the
   next. An interval is about half a millisecond, and UPROC_LOOK dispatches at most. So at
   most LL_BOUND dispatches in a row are from the slot. */
enum { GROUP_LOOKS = (int)LL_BOUND / UPROC_LOOK - 1 };

struct ll_group {
	struct uproc         lg_proc;
	uint64_t             lg_served;  /* st_switches at the last turn of the queue */
};

/* Takes the thread in the slot. If the slot is empty, or the turn of the queue has come,
   takes the oldest thread in the queue. */
static inline struct uproc_thread *pick_slot(struct uproc *p)
{
	struct ll_group *group = (struct ll_group *)(void *)p;
	uint64_t switches = p->p_sched.s_stats.st_switches;
	struct ustack *u = p->p_sched.s_slot;

	if ((uintptr_t)u <= (uintptr_t)USCHED_CLOSED)
		return uproc_pop(p);
	p->p_sched.s_slot = NULL;
	if (__builtin_expect(switches - group->lg_served
			     >= GROUP_LOOKS * p->p_interval, 0)) {
		group->lg_served = switches;
		uproc_push(p, uproc_thread(u));
		return uproc_pop(p);
	}
	return uproc_thread(u);
}

/*
 * Puts `u' into the slot, and the thread that was there into the queue. While events
 * wake threads the slot is closed, and `u' goes into the queue. Threads that are woken
 * by mail go into the queue, too, without a call of this function.
 */
static void ll_ready(struct usched *s, struct ustack *u)
{
	struct uproc *p = uproc_from(s);
	struct ustack *later = u;

	if (p->p_slot && !p->p_polls) {
		later = s->s_slot;
		s->s_slot = u;
	}
	uproc_push(p, uproc_thread(later));
}

static struct ustack *ll_next(struct usched *s)
{
	return uproc_next(uproc_from(s), pick_slot);
}

static struct ustack *ll_pick(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, pick_slot);
}

static const struct uproc_policy ll_policy = {
	.y_size  = sizeof(struct ll_group),
	.y_next  = ll_next,
	.y_pick  = ll_pick,
	.y_ready = ll_ready,
	.y_slot  = 1,
};

int ll_create(const struct uprocs_conf *conf, struct uprocs **ll)
{
	return uprocs_create(conf, &ll_policy, ll);
}

struct ll_group *ll_group(struct uprocs *ll, unsigned processor)
{
	return (struct ll_group *)(void *)uprocs_on(ll, processor);
}

int ll_start(struct ll_group *group, void (*func)(void *), void *arg,
	     struct ustack **thread)
{
	return uproc_start((struct uproc_place){ &group->lg_proc, true }, NULL, func, arg,
			   thread);
}

int ll_start_with(struct ll_group *group, const struct ustack_how *how,
		  void (*func)(void *), void *arg, struct ustack **thread)
{
	struct uproc *p = how && how->h_processor ? NULL : &group->lg_proc;

	return uproc_start((struct uproc_place){ p, true }, how, func, arg, thread);
}
