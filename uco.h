/* SPDX-License-Identifier: MIT */
/*
 * uco.h: coroutines: functions that give a value and take one in the middle, and go on
 * later.
 *
 *	void *count(void *arg, void *value)
 *	{
 *		for (uintptr_t i = 0; uco_yield((void *)i, NULL) == 0; i++)
 *			;
 *		return NULL;
 *	}
 *
 *	uco_create(&co, count, NULL);
 *	while (uco_resume(co, NULL, &value) == 0)
 *		use(value);
 *	uco_close(co);
 *
 * A coroutine has frames of its own and nothing else: no place in a queue, no identity.
 * A thread runs it, its resumer, which goes on when the coroutine yields or ends.
 * Meanwhile the coroutine is the thread: ustack_self(), keys, tokens, locks, names and
 * errno are the thread's, and cancelling the thread ends waits of the coroutine. If the
 * coroutine waits, in ustack_wait(), usync.h or unet.h, its resumer waits. Several
 * threads of one processor may resume a coroutine in turn, and it may resume others.
 *
 * The rule of ustack.h is about frames, so it holds between a coroutine and its resumer,
 * too: neither follows a pointer into the other's frames. Values are words, or point to
 * the heap.
 *
 * All calls are for threads. None is for regions of ustack_preemptible().
 */
#ifndef USCHED_CO_H
#define USCHED_CO_H

#include <errno.h>
#include <stddef.h>

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The function of a coroutine: with the argument of uco_create() and the value of the
 * first uco_resume(). What it returns is the last value that it gives.
 */
typedef void *uco_fn(void *arg, void *value);

enum uco_status {
	UCO_NEW,                /* its function was not called yet */
	UCO_SUSPENDED,          /* it has yielded */
	UCO_RUNNING,            /* a thread runs it */
	UCO_RESUMING,           /* and it has resumed another one */
	UCO_ENDED,              /* its function has returned */
};

/* Private to uco.c and the inline functions. */
struct uco {
	void                *c_value;   /* on its way */
	uint8_t              c_status;  /* enum uco_status */
	uint8_t              c_closing;
	struct uco          *c_outer;   /* it runs: that which has resumed it, or NULL */
	struct uco_root     *c_root;    /* of which it is r_inside, or NULL */
	struct usched_stack *c_stack;   /* where its own frames are */
	uco_fn              *c_func;    /* constant, as the next */
	void                *c_arg;
	/* The frames that are suspended: its own, or its resumer's while it runs.
	   Last: its first image is behind it. */
	struct ustack c_frames __attribute__((aligned(16)));
};

/* Private: what the calls below seldom need; see uco.c. */
int  uco__enter(struct uco *co);
void uco__refused(struct uco *co);
int  uco__find(void);
void uco__pop(struct uco *co);
void uco__stay(struct uco *co);

/*
 * Makes a coroutine, which takes memory only: its function is called by the first
 * uco_resume(), on a stack of the thread's scheduler. It is closed before the scheduler
 * is destroyed.
 * 0; -EINVAL: func is NULL; -EPERM: the caller is no thread, or has an attachment of its
 * own (ustack_attach()); -ENOMEM.
 * Does not switch.
 */
int uco_create(struct uco **co, uco_fn *func, void *arg);

/*
 * As uco_create(), for a coroutine that may be cloned: it always shares its stack, so its
 * frames are copied to and fro.
 */
int uco_create_clonable(struct uco **co, uco_fn *func, void *arg);

/*
 * Makes a copy of `co', which has yielded, or is new: as `co' it goes on with a
 * uco_resume() of its own, and it can be cloned again. Its frames are a copy of bytes. So
 * what they own is owned by both: where one frees memory or closes a descriptor, the
 * other must not. Locals that C++ would copy by a constructor, and handles of the
 * coroutine itself (ask uco_self() again), do not belong there. Nor do locks that it
 * holds and scopes that it has entered: the check build ends the program if it has one.
 * 0; -EBUSY: it is running; -ESRCH: it has ended; -ENOTSUP: it was not made to be cloned,
 * or handles an exception of C++, or ThreadSanitizer or fake stacks of AddressSanitizer
 * are in use; -EPERM, -EXDEV as uco_resume(); -ENOMEM.
 * Does not switch.
 */
int uco_clone(struct uco *co, struct uco **clone);

/* The innermost coroutine that the calling thread runs, or NULL. Does not switch. */
struct uco *uco_self(void);

/* Its status. From threads that may resume it. Does not switch. */
enum uco_status uco_status(const struct uco *co);

/*
 * Ends and frees `co'. If it has yielded, that uco_yield() returns -ECANCELED, and so
 * does each later one, at once: its function cleans up and returns. It may wait then.
 * uco.hh has exceptions for that.
 * 0; with nothing changed: -EBUSY: it is running; as uco_resume(), if it yielded.
 * Switches.
 */
int uco_close(struct uco *co);

/* For warnings: it is one, and *result, which it leaves, might be set. */
USCHED_INLINE int uco__error(int rc, void **result)
{
	__asm__ volatile("" : : "r"(result) : "memory");
	return rc < 0 ? rc : -EPERM;
}

USCHED_INLINE struct uco *uco__of(struct ustack *frames)
{
	return (struct uco *)(void *)((char *)frames - offsetof(struct uco, c_frames));
}

/*
 * Runs `co' until it yields or its function returns. Its uco_yield() gives it `value', at
 * first it is an argument; *result, unless NULL, gets what it gives.
 * 0: it has yielded; 1: its function has returned; with nothing changed: -EPERM: as
 * uco_create(); -EXDEV: it belongs to another processor or scheduler; -EBUSY: it
 * is running; -ESRCH: it has ended; -ENOMEM; -EFAULT as ustack_block().
 * Switches.
 */
USCHED_SWITCHES int uco_resume(struct uco *co, void *value, void **result)
{
	struct usched *s = usched__here();
	struct ustack *u = s->s_current;
	const struct uco_root *root = s->s_root;
	struct usched__sides sides;
	int rc;

	if (__builtin_expect(root->r_thread != u || root->r_inside != co
			     || co->c_status != UCO_SUSPENDED, 0)) {
		rc = uco__enter(co);
		if (rc)
			return uco__error(rc, result);
		root = s->s_root;
	}
	co->c_value = value;
	co->c_status = UCO_RUNNING;
	sides.c = &co->c_frames;
	sides.from = root->r_stack;
	sides.to = co->c_stack;
	rc = usched__exchange_with(&sides, u, s);
	if (__builtin_expect(rc, 0)) {
		uco__refused(co);
		return uco__error(rc, result);
	}
	if (result)
		*result = co->c_value;
	return co->c_status == UCO_ENDED;
}

/*
 * Gives `value' to the resumer of the running coroutine, which goes on; returns when the
 * coroutine is resumed. *next, unless NULL, gets the value of that.
 * 0; -ECANCELED: the coroutine is being closed; with nothing changed: -EPERM: the caller
 * runs no coroutine; -ENOMEM, -EFAULT as ustack_block().
 * Switches.
 */
USCHED_SWITCHES int uco_yield(void *value, void **next)
{
	struct usched *s = usched__here();
	struct ustack *u = s->s_current;
	struct uco *co = s->s_root->r_inside;
	struct usched__sides sides;
	int rc;

	/* Atomic: loads of both bytes at once would wait for the store of one. */
	if (__builtin_expect(s->s_root->r_thread != u
			     || __atomic_load_n(&co->c_status, __ATOMIC_RELAXED)
				!= UCO_RUNNING || co->c_closing, 0)) {
		rc = uco__find();
		if (rc)
			return uco__error(rc, next);
		co = s->s_root->r_inside;
	}
	if (__builtin_expect(co->c_outer != NULL, 0))
		uco__pop(co);
	co->c_status = UCO_SUSPENDED;
	co->c_value = value;
	sides.c = &co->c_frames;
	sides.from = co->c_stack;
	sides.to = co->c_frames.u_stack;
	rc = usched__exchange_with(&sides, u, s);
	if (__builtin_expect(rc, 0)) {
		uco__stay(co);
		return uco__error(rc, next);
	}
	co = __builtin_expect(sides.c != NULL, 1) ? uco__of(sides.c) : uco_self();
	if (next)
		*next = co->c_value;
	return co->c_closing ? -ECANCELED : 0;
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_CO_H */
