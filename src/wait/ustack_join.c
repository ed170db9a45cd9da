/* SPDX-License-Identifier: MIT */
/*
 * ustack_join.c: joins. The scheduler's s_join blocks the thread that joins. If there is
 * a deadline, or the thread is in a scope or was cancelled, the join also uses the
 * thread's waiter, so that the timer, the end of the scope or the cancel can interrupt
 * the join.
 */
#include "../core/dispatch.h"
#include "budget.h"
#include "wait.h"

/* Joins `u' with a deadline, or for a thread that is in a scope or was cancelled. */
APART static int join_until(struct ustack *u, void **value, int64_t deadline)
{
	struct usched *s = ustack_sched(u);
	struct uwaiter *w = uwait_prepare(deadline, false);
	int rc = uwait_error(w), error;

	if (rc)
		return rc;
	w->w_late = false;
	__atomic_store_n(&w->w_joins, true, __ATOMIC_RELAXED);
	if (w->w_counts)
		uwait__expect(w);
	do
		if ((w->w_scoped && uwait__has_ended(w)) || usched__error(w->w_thread)
		    || w->w_late)
			rc = -EDEADLK;
		else
			rc = s->s_calls.s_join(s, u, value, USCHED_NEVER);
	while (rc == -EAGAIN);
	__atomic_store_n(&w->w_joins, false, __ATOMIC_RELAXED);
	uncount(w);
	error = usched__error(w->w_thread);
	if (rc == -EDEADLK && (error || w->w_late))
		rc = error ? error : -ETIMEDOUT;
	return rc;
}

/* Returns the error of a call that `s' has no call-back for: `ended' if the memory of the
   thread was given back, otherwise -ENOTSUP. */
static int refuse_thread(const struct usched *s, int ended)
{
	return s == usched__gone() ? ended : -ENOTSUP;
}

BY_THREADS int ustack_join(struct ustack *u, void **value, int64_t deadline)
{
	const struct ustack *self = usched__current->s_current;
	struct usched *s = ustack_sched(u);
	int rc, error;

	CALLED(__func__);
	if (!s->s_calls.s_join
	    || (self && usched__current->s_calls.s_join != s->s_calls.s_join))
		return refuse_thread(s, -EINVAL);
	if (!self || deadline <= 0)
		return budget_give_way(0),
			s->s_calls.s_join(s, u, value, deadline > 0 ? deadline : 0);
	do {
		if (deadline != USCHED_NEVER || (self->u_cancelled && self->u_attached))
			return join_until(u, value, deadline);
		if (self->u_cancelled)
			return -ECANCELED;
		rc = s->s_calls.s_join(s, u, value, USCHED_NEVER);
	} while (rc == -EAGAIN);
	error = usched__error(self);
	return rc == -EDEADLK && error ? error : rc;
}

int ustack_detach(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	return s->s_calls.s_detach ? s->s_calls.s_detach(s, u)
		: refuse_thread(s, -EINVAL);
}
