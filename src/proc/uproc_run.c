/* SPDX-License-Identifier: MIT */
/*
 * uproc_run.c: what a processor does between threads: looks for events, and yields. This
 * file decides how often a processor looks. The policy chooses the next thread. If there
 * is none, the processor sleeps in uproc_park.c.
 */
#include "policy.h"
#include "proc.h"
#include "../base/when.h"

enum {
	LOOK_TIME = 500000,             /* ns from a look for events to the next */
};

/*
 * Decides when the next look for events is due. If each thread computed for a
 * millisecond, a timer could be late by UPROC_LOOK milliseconds. So the interval from
 * look to look, in dispatches, shrinks if the last interval took longer than LOOK_TIME.
 * Otherwise it doubles.
 */
static void set_turn(struct uproc *p)
{
	int64_t interval = UPROC_LOOK, looked = p->p_looked;

	if (p->p_sched.s_events || p->p_moves) {
		p->p_looked = when_now();
		policy_measure(&p->p_load, p->p_looked,
			       p->p_sched.s_stats.st_switches);
		interval = 2 * p->p_interval;
		if (looked && p->p_looked - looked > LOOK_TIME)
			interval = p->p_interval * LOOK_TIME / (p->p_looked - looked);
		if (interval > UPROC_LOOK)
			interval = UPROC_LOOK;
		if (interval == 0)
			interval = 1;
	}
	p->p_interval = p->p_left = (uint8_t)interval;
	p->p_sched.s_turn = p->p_sched.s_stats.st_switches + (uint64_t)interval;
}

/* Looks for events while threads are ready. Returns whether usched_run() is to return. */
bool uproc_look(struct uproc *p)
{
	const struct uprocs *r = p->p_procs;

	set_turn(p);
	uproc__look_at_observer(p);
	UPROC_COUNT(p->p_looked_for, 1);
	uproc_poll(p, UEVENTS_LOOK);
	p->p_barren = 0;
	uproc__return_stacks(p);
	uproc__take_left(p);
	uproc__share(p);
	p->p_waits = p->p_tail;
	uproc__tidy(p);
	return LOAD(r->r_stop)
		|| (r->r_deadline != INT64_MAX && when_now() >= r->r_deadline);
}

int uproc__yield(struct usched *s)
{
	struct uproc *p = uproc_from(s);
	int rc;

	p->p_intent = UPROC_YIELD;
	if (s->s_events || uproc__is_wanted(p))
		p->p_left = 1;                  /* so that uproc_looks() is true */
	rc = ustack_block();
	if (rc)
		p->p_intent = UPROC_BLOCK;
	return rc;
}
