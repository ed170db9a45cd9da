/* SPDX-License-Identifier: MIT */
/*
 * uco.h: coroutines: functions that give a value and take one in the middle, at any
 * depth of calls, and go on later.
 *
 *	void *count(void *arg, void *value)
 *	{
 *		for (uintptr_t i = 0; uco_yield((void *)i, NULL) == 0; i++)
 *			;
 *		return NULL;
 *	}
 *
 *	uco_create(count, NULL, &co);
 *	while (uco_resume(co, NULL, &value) == 0)
 *		use(value);
 *	uco_close(co);
 *
 * A coroutine has frames of its own and nothing else: no place in a queue, no identity.
 * A thread runs it, its resumer, which goes on when the coroutine yields or ends.
 * Meanwhile the coroutine is the thread: ustack_self(), keys, tokens, locks, names,
 * errno and the floating point control words are the thread's, and cancelling the thread
 * ends waits of the coroutine. If the coroutine waits, in ustack_wait(), usync.h or
 * unet.h, its resumer waits. Exceptions of C++ that are being handled belong to one
 * side.
 *
 * A coroutine belongs to the processor of the thread that made it. Several threads of
 * that processor may resume it in turn, and it may resume other coroutines. Threads that
 * have to do with coroutines stay on their processor. If a thread is aborted in a
 * coroutine, the frames of all coroutines that it ran are dropped, without clean-up.
 *
 * The rule of ustack.h is about frames, so it holds between a coroutine and its resumer,
 * too: neither follows a pointer into the other's frames. Values are words, or point to
 * the heap.
 *
 * All calls are for threads, over any scheduler, or over the dispatcher alone. None is
 * for regions of ustack_preemptible(). With USCHED_INLINE_SWITCH defined before the
 * header, uco_resume() and uco_yield() save only what is live; see usched.h.
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
 * The function of a coroutine. It gets the argument of uco_create() and the value of the
 * first uco_resume(). What it returns is the last value that it gives.
 */
typedef void *uco_fn(void *arg, void *value);

/* What a coroutine does. */
enum uco_status {
	UCO_NEW,                /* its function was not called yet */
	UCO_SUSPENDED,          /* it has yielded */
	UCO_RUNNING,            /* a thread runs it */
	UCO_RESUMING,           /* and it has resumed another one */
	UCO_ENDED,              /* its function has returned */
};

/* Private to uco.c and the inline functions. */
struct uco {
	void          *c_value;         /* on its way */
	uint8_t        c_status;        /* enum uco_status, except where the mark says */
	uint8_t        c_closing;
	char          *c_low;           /* inline functions do not yield with SP below */
	struct ustack *c_thread;        /* it is s_inside: its last resumer's */
	struct uco    *c_outer;         /* it runs: that which has resumed it, or NULL */
	uco_fn        *c_func;          /* constant, as the next */
	void          *c_arg;
	/* The frames that are suspended: its own, or its resumer's while it runs.
	   Last: its first image is behind it. */
	struct ustack  c_frames __attribute__((aligned(16)));
};

/* Private: the calls below, without inline functions. */
int uco__resume(struct uco *co, void *value, void **result);
int uco__yield(void *value, void **next);

/*
 * Private: what the inline functions call first if anything is unusual. 1: the statement
 * is to follow; 0: all was done the long way, and this side goes on; or an error.
 */
int uco__enter(struct uco *co, void *value);
int uco__leave(void *value);

/* Private: for the statement, c_low of a record. */
#define UCO__LOW [low] "i"((intptr_t)offsetof(struct uco, c_low) \
			   - (intptr_t)offsetof(struct uco, c_frames))

/* Private: how they end if the other side did not come by the statement. */
int uco__resumed(struct uco *co, void **result);
int uco__yielded(void **next);

/*
 * Makes a coroutine in *co, which takes memory only. Its function is called by the first
 * uco_resume(), on a stack of the thread's scheduler, of c_stack_size, also where the
 * thread has a stack of its own. It is closed before the scheduler is destroyed.
 * 0; -EINVAL: `func' is NULL; -EPERM: the caller is no thread, or has an attachment of
 * its own (usched__attach()); -ENOMEM: no memory.
 * Does not switch.
 */
int uco_create(uco_fn *func, void *arg, struct uco **co);

/*
 * Returns the innermost coroutine that the calling thread runs, or NULL. Does not
 * switch.
 */
struct uco *uco_self(void);

/*
 * Returns the status of `co'.
 * From threads that may resume it. Does not switch.
 */
enum uco_status uco_status(const struct uco *co);

/*
 * Ends and frees `co'. If it has yielded it is resumed, and its uco_yield() returns the
 * error -ECANCELED; so does each later one, at once. Its function cleans up and returns;
 * meanwhile it may wait. uco.hh has exceptions for that. After an error nothing has
 * changed.
 * 0; -EBUSY: it is running; -EPERM, -EXDEV, -ENOMEM, -EFAULT: if it has yielded, as
 * uco_resume().
 * Switches.
 */
int uco_close(struct uco *co);

USCHED_INLINE struct uco *uco__of(struct ustack *frames)
{
	return (struct uco *)(void *)((char *)frames - offsetof(struct uco, c_frames));
}

/*
 * Runs `co' until it yields or its function returns. Its uco_yield() gives it `value';
 * at first that is an argument. *result, unless NULL, gets what it gives. After an error
 * nothing has changed.
 * 0: it has yielded; 1: its function has returned; -EPERM as uco_create(); -EXDEV: it
 * belongs to another processor or scheduler; -EBUSY: it is running, here or in another
 * thread; -ESRCH: it has ended; -ENOMEM, -EFAULT as ustack_block().
 * Switches.
 */
USCHED_SWITCHES int uco_resume(struct uco *co, void *value, void **result)
{
#ifdef USCHED__CHANGE
	const struct usched *s = usched__here();
	struct ustack *from = s->s_current, *to;
	uintptr_t by = 1;
	int rc = 1;
	char *sp;

	__asm__("" : "+r"(co));         /* so that `to' is not kept in memory */
	to = &co->c_frames;
	if (__builtin_expect(__atomic_load_n(&co->c_thread, __ATOMIC_RELAXED) != from
			     || (uintptr_t)(sp = to->u_top) & 1
			     || !usched__has_none(s->s_caught), 0)) {
		rc = uco__enter(co, value);
		if (rc < 0)
			return rc;
		by = !co->c_closing;
		sp = to->u_top;
	}
	if (__builtin_expect(rc == 1, 1)) {
		to->u_top = USCHED_DIRECT;
		USCHED__CHANGE("", from, to, sp, value, by, [low] "i"(0));
		if (__builtin_expect(by != 0, 1)) {
			if (result)
				*result = value;
			return 0;
		}
	}
	rc = uco__resumed(co, result);
	__asm__ volatile("" : "+r"(rc));        /* no tail call: see uswitch.h */
	return rc;
#else
	return uco__resume(co, value, result);
#endif
}

/*
 * Gives `value' to the resumer of the innermost coroutine that the caller runs, and
 * returns when that coroutine is resumed. *next, unless NULL, gets the value of that.
 * 0; -ECANCELED: the coroutine is being closed, and has to return; -EPERM: the caller
 * runs no coroutine; -ENOMEM, -EFAULT as ustack_block(), with nothing changed.
 * Switches.
 */
USCHED_SWITCHES int uco_yield(void *value, void **next)
{
#ifdef USCHED__CHANGE
	const struct usched *s = usched__here();
	struct ustack *from = s->s_inside, *to = s->s_current;
	uintptr_t by = 2;
	char *sp = NULL;
	void *given;
	int rc;

	if (__builtin_expect(from->u_top == USCHED_DIRECT
			     && usched__has_none(s->s_caught), 1)) {
		sp = to->u_top;
		by = 1;
	}
	for (;;) {
		given = value;
		if (__builtin_expect(by == 1, 1))
			USCHED__CHANGE(USCHED__LOW_TEXT, from, to, sp, given, by,
				       UCO__LOW);
		if (__builtin_expect(by < 2, 1))
			break;
		rc = uco__leave(value);
		if (rc < 0)
			return rc;
		s = usched__here();
		from = s->s_inside;
		to = s->s_current;
		sp = to->u_top;
		by = (uintptr_t)rc;
	}
	if (__builtin_expect(by == 1, 1)) {
		if (next)
			*next = given;
		return 0;
	}
	rc = uco__yielded(next);
	__asm__ volatile("" : "+r"(rc));        /* no tail call: see uswitch.h */
	return rc;
#else
	return uco__yield(value, next);
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* USCHED_CO_H */
