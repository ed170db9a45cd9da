/* SPDX-License-Identifier: MIT */
/*
 * uproc_join.c: the end of threads, and joins by threads and by native threads. A native
 * thread waits, or runs the processor itself. This file neither starts threads nor
 * chooses which thread runs.
 *
 * Invariants
 *  - re_joiner changes by compare-and-swap. From NATIVE it changes only under r_lock:
 *
 *	OPEN   -> joiner      a thread joins or, with NATIVE, a native thread
 *	OPEN   -> DETACHED
 *	OPEN   -> ENDED       the thread ends without a joiner
 *	joiner -> TAKEN       the thread ends, and its joiner is told
 *	ENDED  -> TAKEN       a join or a detach comes after the end
 *	joiner -> OPEN        the joiner gives up: deadlock, deadline or cancel
 *
 *    The record is freed by the joiner that was told, or by the caller that replaced
 *    ENDED by TAKEN. A detached thread is freed at its end. While a record is free
 *    re_joiner is DETACHED, so a thread without a handle starts and ends without a store
 *    to re_joiner. TAKEN differs from ENDED, because a second join must fail even while
 *    the first joiner has not run yet. A joiner that gives up and finds TAKEN waits for
 *    UPROC_JOINED, which must not come in the middle of a later wait.
 *  - r_joining counts the native threads whose join is not over. The end of the joined
 *    thread reduces the count; the native thread does not. While the count is not zero
 *    and all processors are parked, threads are stuck, unless a thread waits for an
 *    event or a native thread has announced a wake. uprocs_hold() announces a wake, and
 *    so does a join (not a destroy) with a deadline.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include "../base/cancel.h"
#include "proc.h"
#include "../base/sim.h"
#include "../base/when.h"

enum {
	TURN      = 1000000,            /* ns that threads run in a uprocs_run() */
	PARKS     = 1000000,            /* ns between checks that all are parked */
};

/* ---- The end of a thread ---- */

/*
 * Makes `joiner' the joiner of `t'; `joiner' may be the mark DETACHED.
 * Returns 0; 1 if `t' has ended: the caller must then free `t'; -EINVAL if `t' is joined
 * already, or detached.
 */
static int claim(struct uproc_thread *t, struct uproc_thread *joiner)
{
	struct uproc_thread *now = OPEN;

	if (CAS(&uproc_rest(t)->re_joiner, &now, joiner))
		return 0;
	if (now == ENDED && CAS(&uproc_rest(t)->re_joiner, &now, TAKEN))
		return 1;
	return -EINVAL;
}

/* Frees `t', which was joined. Stores its value in *value, unless `value' is NULL. */
static void put_joined(struct uproc_thread *t, void **value)
{
	if (value)
		*value = ustack_value(&t->th_stack);
	uproc__put_record(uproc_of(&t->th_stack), t);
}

void uproc__done(struct usched *s, struct ustack *u)
{
	struct uproc *p = uproc_from(s);
	struct uproc_thread *t = uproc_thread(u);
	uint32_t mail = GET(u->u_mail);

	SET(u->u_tokens, UPROC_ENDED);
	if (SIMULATED)
		sim__ended(t);
	if (p->p_sched.s_moves)
		uproc__leave_stack(p, u);
	uproc__take_left(p);
	__atomic_store_n(&p->p_ended, p->p_ended + 1, __ATOMIC_RELEASE);
	/* From its first handle on, a record keeps UPROC_MAIL_KNOWN. Without that bit
	   there is no handle of this thread, or of an earlier thread with this record. */
	if (mail == (UPROC_MAIL_UNJOINED | UPROC_MAIL_LIVE)) {
		__atomic_store_n(&u->u_mail, 0, __ATOMIC_RELEASE);
		uimage_record_free(&p->p_images, t);
		return;
	}
	mail = FETCH_AND(&u->u_mail, ~(uint32_t)UPROC_MAIL_LIVE);
	if (mail & UPROC_MAIL_NAMED)
		uproc__forget_name(u);
	if (mail & ~(uint32_t)UPROC_MAIL_NONE)
		return;                         /* uproc_drain() settles `t' */
	if (mail & UPROC_MAIL_UNJOINED)
		uimage_record_free(&p->p_images, t);
	else
		uproc__settle_thread(p, t);
}

int uproc__detach(struct usched *s, struct ustack *u)
{
	int rc = claim(uproc_thread(u), DETACHED);

	if (rc > 0)
		uproc__put_record(uproc_from(s), uproc_thread(u));
	return rc < 0 ? rc : 0;
}

/* ---- Joins by threads ---- */

/* A join with the deadline 0: joins `t' if it has ended. Returns as ustack_join(). */
static int join_ended(const struct uproc_thread *me, struct uproc_thread *t)
{
	struct uproc_thread *now = ENDED;

	if (t == me)
		return -EDEADLK;
	if (CAS(&uproc_rest(t)->re_joiner, &now, TAKEN))
		return 0;
	return now == OPEN ? -ETIMEDOUT : -EINVAL;
}

/*
 * Yields while UPROC_MAIL_DEADLOCK is on its way, so that news for an earlier join do
 * not come during the new join. Returns whether there was such mail. It may be for
 * either join.
 */
static bool take_late_news(struct uproc_thread *me)
{
	bool some = false;

	while (LOAD(me->th_stack.u_mail) & UPROC_MAIL_DEADLOCK) {
		some = true;
		uproc_of(&me->th_stack)->p_intent = UPROC_YIELD;
		ustack_block();                 /* cannot fail: reserved */ /* R4 */
	}
	return some;
}

static int join_by_thread(struct uproc_thread *me, struct uproc_thread *t)
{
	int32_t *tokens = &me->th_stack.u_tokens, had, news;
	struct uproc_thread *joiner;
	int rc = usched__reserve();
	struct uproc *p;
	bool gave_up;

	if (t == me)
		rc = -EDEADLK;
	if (rc == 0)
		rc = take_late_news(me) ? -EAGAIN : claim(t, me);
	if (rc)
		return rc < 0 ? rc : 0;
	p = uproc_of(&me->th_stack);            /* a thread that joins stays */
	had = *tokens;
	do {
		SET(*tokens, UPROC_JOINING);
		p->p_intent = UPROC_WAIT;
		ustack_block();                 /* cannot fail: reserved */ /* R4 */
		news = *tokens;
		SET(*tokens, had);
		uproc__add_tokens(tokens, (uint32_t)news & UPROC_TOKENS);
		had = *tokens;
		joiner = me;
		gave_up = !(news & UPROC_JOINED)
			&& CAS(&uproc_rest(t)->re_joiner, &joiner, OPEN);
	} while (!gave_up && !(news & UPROC_JOINED));   /* JOINED is on its way */
	return gave_up ? -EDEADLK : 0;
}

/* ---- Native threads ---- */

/* Keeps r_lock to the end: after the last release `r' may be destroyed. */
void uprocs_hold(struct uprocs *r, int on)
{
	lock(&r->r_lock);
	if (on)
		r->r_held++;
	else
		r->r_held--;
	if (r->r_held == 0 && r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	if (!on && r->r_conf.c_embed)
		uproc__unpark(uproc_at(r, 0));
	unlock(&r->r_lock);
}

/* Waits for r_changed, under r_lock. Returns false at the deadline. */
static bool wait_change(struct uprocs *r, int64_t deadline)
{
	struct timespec t = when_of(deadline);

	if (deadline == INT64_MAX)
		return pthread_cond_wait(&r->r_changed, &r->r_lock) == 0;
	return pthread_cond_timedwait(&r->r_changed, &r->r_lock, &t) != ETIMEDOUT;
}

/* Waits under r_lock until `t' has ended; if `t' is NULL, until all threads have ended.
   Returns 1 on success, otherwise -EDEADLK or -ETIMEDOUT. */
static int wait_locked(struct uprocs *r, struct uproc_thread *t, int64_t deadline)
{
	unsigned seen = r->r_deadlocks;
	bool timely = true, quiet = false;

	r->r_joining++;
	for (;;) {
		if (t && LOAD(uproc_rest(t)->re_joiner) == TAKEN)
			return 1;               /* the end of `t' has reduced r_joining */
		if (r->r_deadlocks == seen && timely)
			quiet = uproc__detect_end(r);
		if (r->r_deadlocks != seen || (!t && quiet) || !timely)
			break;
		timely = wait_change(r, deadline);
		if (!t && !timely && r->r_held == 0 && uproc__threads(r) == 0) {
			deadline = when_now() + PARKS;
			timely = true;
		}
	}
	r->r_joining--;
	if (!t && quiet)
		return 1;
	if (t)
		__atomic_store_n(&uproc_rest(t)->re_joiner, OPEN, __ATOMIC_SEQ_CST);
	return r->r_deadlocks != seen ? -EDEADLK : -ETIMEDOUT;
}

/* Does uproc__await() for processors with native threads of their own. */
static int await_change(struct uprocs *r, struct uproc_thread *t, void **value,
			int64_t deadline)
{
	/* The caller may wake threads after this join, so the join counts as a hold. */
	bool returns = t && deadline != INT64_MAX;
	int rc;

	lock(&r->r_lock);
	if (t)
		rc = claim(t, NATIVE);
	else
		rc = r->r_inside > 0 ? -EPERM : 0;
	r->r_inside++;
	r->r_held += returns;
	if (rc == 0)
		rc = wait_locked(r, t, deadline);
	if (rc > 0 && t)
		put_joined(t, value);
	r->r_held -= returns;
	if (returns && r->r_held == 0 && r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	r->r_inside--;
	unlock(&r->r_lock);
	return rc < 0 ? rc : 0;
}

/* Does uproc__await() for a driven processor. The processor runs on the calling native
   thread meanwhile. */
static int drive(struct uprocs *r, struct uproc_thread *t, void **value, int64_t deadline)
{
	struct uproc *p = uproc_at(r, 0);
	int rc = p->p_sched.s_home ? -EBUSY : t ? claim(t, NATIVE) : 0;

	if (rc < 0)
		return rc;
	r->r_deadline = deadline;
	r->r_returns = t && deadline != INT64_MAX;      /* as in await_change() */
	while (rc == 0) {
		uproc__unmark(p);
		rc = usched_run(&p->p_sched);
		r->r_stop = 0;
		if (rc)
			break;
		if (t ? uproc_rest(t)->re_joiner == TAKEN : uproc_count(p) == 0)
			rc = 1;
		else if (when_now() >= deadline
			 && (t || LOAD(p->p_inbox) != PARKED || !uproc__is_stuck(p)))
			rc = -ETIMEDOUT;
		else if (LOAD(p->p_inbox) == PARKED     /* so no mail has come */
			 && !(SIMULATED && sim__pass(INT64_MAX))) {
			if (SIMULATED)          /* has a report of its own */
				sim__stuck();
			rc = uproc__report_stuck(r) ? 0 : -EDEADLK;
		}
	}
	r->r_returns = 0;
	r->r_deadline = INT64_MAX;
	if (rc > 0 && t)
		put_joined(t, value);
	else if (rc < 0 && t && uproc_rest(t)->re_joiner == NATIVE)
		uproc_rest(t)->re_joiner = OPEN;
	return rc < 0 ? rc : 0;
}

int uproc__await(struct uprocs *r, struct uproc_thread *t, void **value, int64_t deadline)
{
	int before = defer_cancel(), rc;

	rc = uproc__is_driven(r) ? drive(r, t, value, deadline)
		: await_change(r, t, value, deadline);
	allow_cancel(before);
	return rc;
}

int uprocs_run(struct uprocs *r)
{
	struct uproc *p = uproc_at(r, 0);
	int rc, before;

	if (!r->r_conf.c_embed)
		return -EINVAL;
	if (p->p_sched.s_home)
		return -EBUSY;
	r->r_leave = 1;
	r->r_deadline = when_now() + TURN;
	uproc__unmark(p);
	before = defer_cancel();
	rc = usched_run(&p->p_sched);
	allow_cancel(before);
	if (when_now() >= r->r_deadline)
		uevents_interrupt(&p->p_sched);         /* threads may be ready */
	r->r_leave = 0;
	r->r_deadline = INT64_MAX;
	return rc ? rc : p->p_sched.s_events->e_expose(p->p_sched.s_events);
}

int uproc__join(struct usched *s, struct ustack *u, void **value, int64_t deadline)
{
	struct uproc *self = uproc_self(), *p = uproc_from(s);
	struct uproc_thread *t = uproc_thread(u);
	struct uproc_thread *me;
	int rc;

	if (!self)
		return uproc__await(p->p_procs, t, value, deadline);
	me = uproc_thread(ustack_self());       /* sets KNOWN, since `t' sends mail */
	rc = deadline == 0 ? join_ended(me, t) : join_by_thread(me, t);
	if (rc == 0)
		put_joined(t, value);
	return rc;
}
