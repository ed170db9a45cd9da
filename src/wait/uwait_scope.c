/* SPDX-License-Identifier: MIT */
/*
 * uwait_scope.c: how scopes end waits. usync_scope.c has the tree of scopes, and the
 * calls for programs.
 *
 * A scope has a queue of the threads in the scope, and ends their waits under the lock of
 * the queue. A thread that ends a scope writes ws_ended first, and then reads w_state. A
 * waiter in scopes writes w_state first, and then reads ws_ended. So at least one of the
 * two sees what the other wrote. A waiter that is AWAKE reads ws_ended before the thread
 * blocks.
 *
 * A thread may be in several scopes, and may be cancelled, too. Waits of the thread
 * return the error of what came first.
 */
#include "wait.h"

/* Returns the time at which `p' ended; or USCHED_NEVER. */
static int64_t end_of_scope(const struct uwait_scope *p)
{
	int64_t ended = __atomic_load_n(&p->ws_ended, __ATOMIC_ACQUIRE);

	if (p->ws_deadline < ended && uevents_now() >= p->ws_deadline)
		return p->ws_deadline;
	return ended;
}

/* If `w' was cancelled or scopes of `w' have ended, returns the error for waits: the
   error of what came first. Returns 0 if `w' may wait. */
int uwait__end_of(const struct uwaiter *w)
{
	const struct uwait_member *m = w->w_scoped ? w->w_more->mr_inner : NULL;
	int64_t first = !w->w_cancelled ? USCHED_NEVER
			: w->w_more ? w->w_more->mr_when : 0;
	int rc = w->w_cancelled ? -ECANCELED : 0;

	if (w->w_shield)
		return 0;
	for (; m; m = m->wm_outer) {
		int64_t when = end_of_scope(m->wm_scope);

		if (when < first) {
			first = when;
			rc = when == m->wm_scope->ws_deadline ? -ETIMEDOUT : -ECANCELED;
		}
	}
	return rc;
}

/* Called before a wait if `w' was cancelled or is in scopes. Returns the error of the
   wait; 0: the wait may begin, and the deadline of a scope may now be in w_deadline. */
int uwait__look_around(struct uwaiter *w)
{
	int rc = uwait__end_of(w);

	if (rc == 0 && w->w_scoped && !w->w_shield
	    && w->w_more->mr_inner->wm_deadline < w->w_deadline) {
		w->w_deadline = w->w_more->mr_inner->wm_deadline;
		w->w_clipped = true;
	}
	return rc;
}

int uwait__scope_error(const struct uwait_scope *p)
{
	int64_t when = end_of_scope(p);

	if (when == USCHED_NEVER)
		return 0;
	return when == p->ws_deadline ? -ETIMEDOUT : -ECANCELED;
}

int uwait__enter(struct uwait_scope *p, struct uwait_member *m)
{
	struct uwaiter *w = uwait_self();
	struct uevents *e;
	int rc;

	if (!w || (!w->w_more && !uwait_room(w, 0)))
		return -ENOMEM;
	if (!w->w_outside && p->ws_deadline != USCHED_NEVER) {
		rc = uevents_of(usched__of(w->w_thread), &e);
		if (rc)
			return rc;
	}
	m->wm_scope = p;
	m->wm_waiter = w;
	m->wm_outer = w->w_more->mr_inner;
	m->wm_deadline = p->ws_deadline;
	if (m->wm_outer && m->wm_outer->wm_deadline < m->wm_deadline)
		m->wm_deadline = m->wm_outer->wm_deadline;
	w->w_more->mr_inner = m;
	w->w_scoped = true;
	if (!w->w_outside)
		w->w_thread->u_cancelled = 1;
	uwait_lock(&p->ws_lock);
	m->wm_shield = w->w_shield;
	uwait_push(&p->ws_members, &m->wm_node);
	uwait_unlock(&p->ws_lock);
	return 0;
}

/* The running thread, whose waiter is `w', leaves the scope that was entered last. */
static void leave_scope(struct uwaiter *w)
{
	struct uwait_member *m = w->w_more->mr_inner;
	struct uwait_scope *p = m->wm_scope;

	w->w_more->mr_inner = m->wm_outer;
	if (!m->wm_outer) {
		w->w_scoped = false;
		if (!w->w_outside)
			w->w_thread->u_cancelled = w->w_cancelled;
	}
	uwait_lock(&p->ws_lock);
	uwait_remove(&p->ws_members, &m->wm_node);
	uwait_unlock(&p->ws_lock);
	p->ws_left(m);
}

int uwait__leave(void)
{
	struct uwaiter *w = uwait_self();

	if (!w || !w->w_scoped)
		return -EPERM;
	leave_scope(w);
	return 0;
}

void uwait__leave_scopes(struct uwaiter *w)
{
	while (w->w_scoped)
		leave_scope(w);
}

/*
 * Ends the wait of `w', if there is one. The caller holds ws_lock of a scope of `w', so
 * that the waiter is not freed meanwhile. If the wait begins later, or `w' is AWAKE, the
 * thread reads ws_ended before a block.
 */
static void end_wait(struct uwaiter *w)
{
	uint8_t state = WAIT_WAITING;
	unsigned spins = 0;
	struct usched *s;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!w->w_outside && __atomic_load_n(&w->w_joins, __ATOMIC_RELAXED)) {
		s = ustack_sched(w->w_thread);
		s->s_calls.s_interrupt(s, w->w_thread);
		return;
	}
	while (!__atomic_compare_exchange_n(&w->w_state, &state, WAIT_WAKING, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		if (state != WAIT_LOOKED)
			return;
		relax(&spins);
		state = WAIT_WAITING;
	}
	uwait_finish(w, -ECANCELED);
}

bool uwait__end_some(struct uwait_scope *p, unsigned n)
{
	struct uwait_member *m;

	uwait_lock(&p->ws_lock);
	do {
		m = (struct uwait_member *)(void *)p->ws_members.q_first;
		if (m) {
			uwait_remove(&p->ws_members, &m->wm_node);
			if (!m->wm_shield)
				end_wait(m->wm_waiter);
		}
	} while (m && --n > 0);
	uwait_unlock(&p->ws_lock);
	return m;
}

/* Returns whether a scope of `w' has ended. Called after a wait has begun, and before a
   join begins. */
bool uwait__has_ended(const struct uwaiter *w)
{
	const struct uwait_member *m = w->w_more->mr_inner;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (; m && !w->w_shield; m = m->wm_outer)
		if (__atomic_load_n(&m->wm_scope->ws_ended, __ATOMIC_ACQUIRE)
		    != USCHED_NEVER)
			return true;
	return false;
}

void uwait__look_back(struct uwaiter *w)
{
	if (uwait__has_ended(w) && uwait_claim(w))
		uwait_finish(w, -ECANCELED);
}
