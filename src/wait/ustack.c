/* SPDX-License-Identifier: MIT */
/*
 * ustack.c: the calls of ustack.h. A call finds the dispatcher of the calling thread, or
 * of the thread that is passed, and calls a call-back of the dispatcher's scheduler. If
 * there is no such call-back, the call returns -ENOTSUP. Joins, which use waiters, are in
 * ustack_join.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* strerror_r() with a constant text */
#endif
#include <limits.h>
#include <string.h>

#include "../base/sim.h"
#include "../core/dispatch.h"

extern inline int ustack_wait(void);
extern inline int ustack_wake(struct ustack *u);

BY_THREADS int usched__stay(int rc)
{
	struct usched *s = usched__current;

	if (s->s_current && s->s_calls.s_unpick)
		s->s_calls.s_unpick(s);
	return rc;
}

BY_THREADS int ustack_yield(void)
{
	struct usched *s = usched__current;
	int rc;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	rc = usched__error(s->s_current);
	if (rc)
		return rc;
	if (SIMULATED)
		sim__yields(__builtin_return_address(0));
	return s->s_calls.s_yield ? s->s_calls.s_yield(s) : -ENOTSUP;
}

BY_THREADS int usched__give_way(void)
{
	struct usched *s = usched__current;

	if (!s->s_current)
		return 0;
	if (s->s_slice)
		return OBSERVER(ob_give_way)(s);
	__atomic_store_n(&s->s_over, 0, __ATOMIC_RELAXED);
	DISPATCH_ADD(s->s_stats.st_preempted, 1);
	return ustack_yield();
}

BY_THREADS int ustack_start(void (*func)(void *), void *arg, struct ustack **thread)
{
	return ustack_start_with(NULL, func, arg, thread);
}

BY_THREADS int ustack_start_with(const struct ustack_how *how, void (*func)(void *),
				 void *arg, struct ustack **thread)
{
	struct usched *s = usched__current;

	CALLED("ustack_start()");
	if (!s->s_current)
		return -EPERM;
	return s->s_calls.s_start ? s->s_calls.s_start(s, how, func, arg, thread)
		: -ENOTSUP;
}

BY_THREADS int ustack_control(int own)
{
	struct usched *s = usched__current;
	int before = (s->s_owns & (USCHED_OWNS | USCHED_EACH)) != 0;

	CALLED(__func__);
	if (!s->s_current)
		return -EPERM;
	usched__check_control(s);
	if (own && !before)
		usched__own_control(s, usched__control());
	else if (!own && before)
		usched__share_control(s);
	return before;
}

uint64_t usched__control_words(const uint64_t *set)
{
	uint64_t words = usched__control();

	if (set && *set != words)
		usched__set_control(*set);
	return words;
}

int usched__attach(struct ustack_attachment *l)
{
	struct ustack *u = usched__current->s_current;

	CALLED(__func__);
	if (!u)
		return -EPERM;
	if (u->u_attached)
		return -EBUSY;
	l->a_func = u->u_func;
	u->u_attachment = l;
	u->u_attached = 1;
	return 0;
}

/* ---- Cancel ---- */

int ustack_cancel(struct ustack *u)
{
	struct usched *s = ustack_sched(u);

	CALLED(__func__);
	return s->s_calls.s_cancel ? s->s_calls.s_cancel(s, u)
		: s == usched__gone() ? -ESRCH  /* the record's memory was given back */
		: -ENOTSUP;
}

void ustack_cancel_here(struct ustack *u)
{
	struct usched *s = usched__of(u);

	u->u_cancelled = 1;
	if (u->u_attached)
		u->u_attachment->a_ops->ao_cancel(u->u_attachment);
	if (s->s_calls.s_interrupt && usched__error(u))
		s->s_calls.s_interrupt(s, u);
}

BY_THREADS int ustack_cancelled(void)
{
	const struct ustack *u = usched__current->s_current;

	CALLED(__func__);
	if (!u || !u->u_cancelled)
		return 0;
	return u->u_attached ? u->u_attachment->a_ops->ao_cancelled(u->u_attachment) : 1;
}

/* ---- Exit ---- */

/*
 * u_value is in the place of the image, which a running thread does not need. The mark
 * DISPATCH_EXITED in u_top says that there is a value. The mark is set last, since a
 * block in a destructor of a key would overwrite u_top.
 */
BY_THREADS int ustack_exit(void *value)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current;

	CALLED(__func__);
	if (!u)
		return -EPERM;
	if (OBSERVER(ob_leave))
		OBSERVER(ob_leave)();
	if (u->u_attached)
		u->u_attachment->a_ops->ao_end(u->u_attachment);
	s = usched__current;                    /* these may have switched */
	if (usched__runs(s) != u)
		s->s_coroutines->cc_settle(s, 0);
	usched__drop_image(s, u, u);
	u->u_value = value;
	u->u_top = (char *)(uintptr_t)DISPATCH_EXITED;
	usched__quit();
}

void *ustack_value(const struct ustack *u)
{
	return u->u_top == (char *)(uintptr_t)DISPATCH_EXITED ? u->u_value : NULL;
}

/* ---- Errors ---- */

/* Returns the system's text for a positive errno value. */
static const char *system_text(int error)
{
	static const char unknown[] = "unknown error";
#ifdef __GLIBC__
	char buffer[64];
	const char *text = strerror_r(error, buffer, sizeof buffer);

	return text == buffer ? unknown : text;
#else
	const char *text = strerror(error);     /* musl's texts are constant */

	return text ? text : unknown;
#endif
}

const char *ustack_error(int rc)
{
	switch (rc) {
	case -ETIMEDOUT:
		return "the deadline has passed";
	case -ECANCELED:
		return "the thread or its scope was cancelled";
	case -EPIPE:
		return "end of input, or the channel or connection is closed";
	case -EDEADLK:
		return "deadlock: the caller has the lock, or joins itself; or all "
		       "threads wait, and the report on standard error says for what";
	case -EINVAL:
		return "not valid: an address that is not numeric (unet_resolve() looks "
		       "up names), a NULL function, a thread that is joined or detached";
	case -EOVERFLOW:
		return "a counter, as of tokens, is at its limit";
	case -ESRCH:
		return "the thread or coroutine has ended";
	case -EBADF:
		return "the descriptor is not open, or its use has ended";
	case -ETIME:
		return "the connection timed out";
	case -EMSGSIZE:
		return "the line or message is too long";
	case -EXDEV:
		return "it belongs to another processor";
	case -EFAULT:
		return "the caller cannot block here, or the address is bad";
	case -EPERM:
		return "not permitted: wait and start in a thread, destroy outside of "
		       "threads, unlock or leave what the caller has; or the system "
		       "refuses";
	default:
		return rc < 0 ? system_text(rc == INT_MIN ? INT_MAX : -rc) : "no error";
	}
}
