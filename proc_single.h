/* SPDX-License-Identifier: MIT */
/*
 * proc_single.h: the end of proc.c with SINGLE_THREAD. The one processor runs on
 * the native thread that joins, for as long as it joins, so nobody ever parks: when
 * nothing is runnable it sleeps until an event, and if none can come usched_run() returns.
 */

static int start_natives(struct uprocs *r)
{
	(void)r;
	return 0;
}

static void stop_natives(struct uprocs *r, size_t n)
{
	(void)r;
	(void)n;
}

static void unpark(struct uproc *p)
{
	(void)p;
}

/* Has usched_run() return, into await(). */
static bool tell_native(struct uprocs *r, struct uproc_thread *t)
{
	t->t_joiner = TAKEN;
	r->r_stop = 1;
	return true;
}

struct ustack *uproc_park(struct uproc *p, uproc_pick_fn *pick)
{
	struct uprocs *r = p->p_procs;
	int64_t until = r->r_leave ? UEVENTS_RUN : r->r_deadline;
	struct uproc_thread *t = NULL;

	while (!t && !r->r_stop && (r->r_leave || uevents_waited(&p->p_sched))) {
		uproc_poll(p, until);
		uproc_drain(p);
		t = pick(p);
		if (!t && (r->r_leave || (until != INT64_MAX && now() >= until)))
			break;
	}
	return t ? &t->t_stack : NULL;
}

void uproc_hold(struct uprocs *r)
{
	(void)r;
}

void uproc_release(struct uprocs *r)
{
	(void)r;
}

static int await(struct uprocs *r, struct uproc_thread *t, int64_t deadline)
{
	return drive(r, t, deadline);
}
