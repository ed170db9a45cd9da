/* SPDX-License-Identifier: MIT */
/*
 * usync_scope.c: the tree of scopes, and the start of threads in a scope. uwait_scope.c
 * has the way in which a scope ends the waits of its threads, and doc/tried.md the reason
 * why a scope has no timer.
 *
 * When a scope ends, the scopes within end, too, without recursion. The caller that sets
 * ws_ended of a scope ends the waits of the scope's members. Then the caller takes the
 * scopes within out of sc_inner. If such a scope has not ended, the caller sets its
 * ws_ended, and puts the scope on a list (sc_work), to treat the scope in the same way.
 * At most one lock is held at a time, for at most TOLD_AT_ONCE members. A thread that
 * later enters the scope, or creates a scope within, takes ws_lock after the caller, and
 * so finds ws_ended set.
 */
#include "../../usync.h"

#include <limits.h>
#include <stdlib.h>

#include "../wait/budget.h"
#include "../wait/wait.h"
#include "../core/core.h"
#include "../base/check.h"

/* The most members whose waits are ended before the lock is released. */
enum { TOLD_AT_ONCE = 16 };

struct usync_scope {
	struct usync_group  sc_group;   /* threads of usync_scope_start(); first, so that
					   reports name the scope */
	struct uwait_scope  sc_waits;   /* ws_lock is also the lock of sc_inner */
	uint32_t            sc_holds;   /* atomic; at 0 the scope is freed */
	int32_t             sc_error;   /* atomic: error of usync_scope_cancel(); or 0 */
	struct usync_scope *sc_outer;   /* the scope around, held; or NULL */
	struct uwait_node   sc_node;    /* in sc_inner of sc_outer */
	struct uwait_queue  sc_inner;   /* the scopes within that have not ended */
	struct usync_scope *sc_work;    /* the next scope in the list of work */
	struct usched      *sc_on;      /* where native threads start members, or NULL */
	bool                sc_limited; /* constant */
	struct usync_sem    sc_room;    /* if sc_limited: how many more may start */
};

/* A thread in a scope. From mb_wrap on: only for threads that the scope starts. */
struct scope_member {
	struct uwait_member mb_base;    /* first */
	struct usched__wrap mb_wrap;    /* wr_begin is NULL after usync_scope_enter() */
	int               (*mb_func)(void *arg);
	/* Called in place of mb_func, if not NULL. */
	void              (*mb_serve)(int fd, void *arg);
	int                 mb_fd;
	void               *mb_arg;
};

static struct usync_scope *scope_of(struct uwait_scope *p)
{
	return (struct usync_scope *)(void *)
		((char *)p - offsetof(struct usync_scope, sc_waits));
}

static struct usync_scope *scope_at(struct uwait_node *n)
{
	return (struct usync_scope *)(void *)
		((char *)n - offsetof(struct usync_scope, sc_node));
}

void usync_scope_release(struct usync_scope *scope)
{
	struct usync_scope *outer;

	while (scope && __atomic_sub_fetch(&scope->sc_holds, 1, __ATOMIC_ACQ_REL) == 0) {
		outer = scope->sc_outer;
		if (outer) {
			uwait_lock(&outer->sc_waits.ws_lock);
			uwait_remove(&outer->sc_inner, &scope->sc_node);
			uwait_unlock(&outer->sc_waits.ws_lock);
		}
		free(scope);
		scope = outer;
	}
}

/* The ws_left of scopes: frees a member that has left its scope. */
static void left(struct uwait_member *m)
{
	struct usync_scope *c = scope_of(m->wm_scope);
	struct scope_member *b = (struct scope_member *)(void *)m;

	if (b->mb_wrap.wr_begin) {
		if (c->sc_limited)
			usync_sem_post(&c->sc_room);
		usync_group_done(&c->sc_group);
	}
	free(b);
	usync_scope_release(c);
}

struct usync_scope *usync_scope_hold(struct usync_scope *scope)
{
	__atomic_fetch_add(&scope->sc_holds, 1, __ATOMIC_RELAXED);
	return scope;
}

int usync_scope_create(const struct usync_scope_how *how, struct usync_scope **scope,
		       int64_t deadline)
{
	struct usync_scope_how in = how ? *how : (struct usync_scope_how){ 0 };
	struct usync_scope *c, *parent = in.sh_parent;

	uwait__check_deadline(deadline);
	*scope = NULL;
	budget_give_way(0);
	if (deadline <= 0)
		return -ETIMEDOUT;
	c = (struct usync_scope *)calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	c->sc_holds = 1;
	c->sc_on = in.sh_on;
	c->sc_limited = in.sh_limit > 0;
	c->sc_room.sm_count = in.sh_limit;
	c->sc_waits.ws_left = left;
	c->sc_waits.ws_deadline = deadline;
	c->sc_waits.ws_ended = USCHED_NEVER;
	if (parent) {
		c->sc_outer = usync_scope_hold(parent);
		if (parent->sc_waits.ws_deadline < deadline)
			c->sc_waits.ws_deadline = parent->sc_waits.ws_deadline;
		uwait_lock(&parent->sc_waits.ws_lock);
		uwait_push(&parent->sc_inner, &c->sc_node);
		c->sc_waits.ws_ended = __atomic_load_n(&parent->sc_waits.ws_ended,
						       __ATOMIC_ACQUIRE);
		uwait_unlock(&parent->sc_waits.ws_lock);
	}
	*scope = c;
	return 0;
}

int usync_scope_enter(struct usync_scope *scope)
{
	struct scope_member *b = (struct scope_member *)calloc(1, sizeof *b);
	int rc;

	if (!b)
		return -ENOMEM;
	rc = uwait__enter(&scope->sc_waits, &b->mb_base);
	if (rc)
		free(b);
	else
		usync_scope_hold(scope);
	return rc;
}

int usync_scope_leave(void)
{
	return uwait__leave();
}

/* Ends `c' at the time `when'. Returns false if `c' had ended before, or if the deadline
   of `c' has come. After the deadline the timers of the waits end the waits. */
static bool end_scope(struct usync_scope *c, int64_t when)
{
	int64_t never = USCHED_NEVER;

	return when < c->sc_waits.ws_deadline
		&& __atomic_compare_exchange_n(&c->sc_waits.ws_ended, &never, when, 0,
					       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Holds `c'. Returns false if another thread is about to free `c'. */
static bool hold_live(struct usync_scope *c)
{
	uint32_t holds = __atomic_load_n(&c->sc_holds, __ATOMIC_RELAXED);

	while (holds > 0)
		if (__atomic_compare_exchange_n(&c->sc_holds, &holds, holds + 1, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Takes a scope out of sc_inner of `c', holds and returns it. NULL: sc_inner is empty. */
static struct usync_scope *take_inner(struct usync_scope *c)
{
	struct usync_scope *inner = NULL;

	uwait_lock(&c->sc_waits.ws_lock);
	while (!inner && c->sc_inner.q_first) {
		inner = scope_at(c->sc_inner.q_first);
		uwait_remove(&c->sc_inner, &inner->sc_node);
		if (!hold_live(inner))
			inner = NULL;
	}
	uwait_unlock(&c->sc_waits.ws_lock);
	return inner;
}

/* The caller has ended `c', and holds `c'. Ends the waits in `c' and the scopes within,
   and releases `c'. */
static void spread_end(struct usync_scope *c, int64_t when)
{
	struct usync_scope *work, *inner;

	c->sc_work = NULL;
	for (; c; c = work) {
		work = c->sc_work;
		while (uwait__end_some(&c->sc_waits, TOLD_AT_ONCE))
			;
		while ((inner = take_inner(c))) {
			if (end_scope(inner, when)) {
				inner->sc_work = work;
				work = inner;
			} else {
				usync_scope_release(inner);
			}
		}
		usync_scope_release(c);
	}
}

void usync_scope_cancel(struct usync_scope *scope, int error)
{
	int64_t when = uevents_now();
	int none = 0;

	if (uwait__scope_error(&scope->sc_waits) == 0)
		__atomic_compare_exchange_n(&scope->sc_error, &none, error, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	if (end_scope(scope, when))
		spread_end(usync_scope_hold(scope), when);
}

/* The wr_begin of a thread that a scope has started. */
static void run_member(struct usched__wrap *w)
{
	struct scope_member *b = (struct scope_member *)(void *)
		((char *)w - offsetof(struct scope_member, mb_wrap));
	struct uwait_member *m = &b->mb_base;
	struct usync_scope *c = scope_of(m->wm_scope);
	int rc = uwait__enter(m->wm_scope, m);
	bool in = rc == 0;

	if (b->mb_serve)        /* even if not `in', since mb_serve closes mb_fd */
		b->mb_serve(b->mb_fd, b->mb_arg);
	else if (in)
		rc = b->mb_func(b->mb_arg);
	if (rc < 0 && !b->mb_serve)
		usync_scope_cancel(c, rc);
	if (in)
		uwait__leave();
	else
		left(m);
}

/* Makes a member for a thread to be started. `where' is the return address in the
   program. Returns NULL if there is no memory. */
static struct scope_member *new_member(struct usync_scope *scope,
				       const struct ustack_how *how,
				       int (*func)(void *arg), void *arg,
				       const void *where)
{
	struct scope_member *b = (struct scope_member *)calloc(1, sizeof *b);
	void (*runs)(void) = how->h_serve ? (void (*)(void))how->h_serve
		: (void (*)(void))func;

	if (b)
		*b = (struct scope_member){
			.mb_base = { .wm_scope = &usync_scope_hold(scope)->sc_waits },
			.mb_wrap = { run_member, (void (*)(void *))runs, where },
			.mb_func = func, .mb_serve = how->h_serve, .mb_fd = how->h_fd,
			.mb_arg = arg,
		};
	return b;
}

static int start_member(struct usync_scope *scope, const struct ustack_how *how,
			int (*func)(void *arg), void *arg, struct ustack **thread,
			const void *where)
{
	struct ustack_how in = how ? *how : (struct ustack_how){ 0 };
	struct usched *on = usched__here()->s_current ? NULL : scope->sc_on;
	struct scope_member *b;
	int rc = 0;

	check_inside(arg, CHECK_ITS_BLOCK, "usync_scope_start", where);
	if (in.h_serve ? func || in.h_fd < 0 || in.h_fd == INT_MAX : !func)
		return -EINVAL;
	if (scope->sc_limited)
		rc = usync_sem_wait(&scope->sc_room, scope->sc_waits.ws_deadline);
	if (rc)
		return rc;
	b = new_member(scope, &in, func, arg, where);
	rc = !b ? -ENOMEM : scope->sc_limited ? usync_scope_error(scope) : 0;
	in.h_serve = NULL;
	if (rc == 0)
		rc = usync_group_add(&scope->sc_group, 1);
	if (rc == 0) {
		rc = on ? on->s_calls.s_start(on, &in, usched__wrapped, &b->mb_wrap,
					      thread)
			: ustack_start_with(&in, usched__wrapped, &b->mb_wrap, thread);
		if (rc)
			usync_group_done(&scope->sc_group);
	}
	if (rc) {
		if (scope->sc_limited)
			usync_sem_post(&scope->sc_room);
		usync_scope_release(b ? scope : NULL);
		free(b);
	}
	return rc;
}

UWAIT_CALL int usync_scope_start(struct usync_scope *scope, int (*func)(void *arg),
				 void *arg, struct ustack **thread)
{
	check(arg, CHECK_ARGUMENT, __func__);
	return start_member(scope, NULL, func, arg, thread, __builtin_return_address(0));
}

UWAIT_CALL int usync_scope_start_with(struct usync_scope *scope,
				      const struct ustack_how *how,
				      int (*func)(void *arg), void *arg,
				      struct ustack **thread)
{
	check(arg, CHECK_ARGUMENT, __func__);
	return start_member(scope, how, func, arg, thread, __builtin_return_address(0));
}

UWAIT_CALL int usync_scope_wait(struct usync_scope *scope, int64_t deadline)
{
	const struct uwaiter *w = uwait_self();
	struct uwait_member *m = w && w->w_scoped ? w->w_more->mr_inner : NULL;

	check(scope, CHECK_OBJECT, __func__);
	for (; m; m = m->wm_outer)
		if (scope_of(m->wm_scope) == scope
		    && ((struct scope_member *)(void *)m)->mb_wrap.wr_begin)
			return -EDEADLK;
	return usync__scope_wait(&scope->sc_group, __builtin_return_address(0), deadline);
}

int usync_scope_error(const struct usync_scope *scope)
{
	int error = __atomic_load_n(&scope->sc_error, __ATOMIC_ACQUIRE);

	return error ? error : uwait__scope_error(&scope->sc_waits);
}
