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
 * A thread, the resumer, runs the coroutine, and goes on when the coroutine yields or
 * ends. Meanwhile the coroutine is the thread: ustack_self(), keys, tokens, locks, names,
 * errno and the floating point control words are the thread's, and cancelling the thread
 * ends waits of the coroutine. If the coroutine waits, in ustack_wait(), usync.h or
 * unet.h, the resumer waits. Exceptions of C++ that are being handled belong to one side.
 *
 * A coroutine belongs to the processor of the thread that made it. Several threads of
 * that processor may resume a coroutine in turn, and a coroutine may resume others.
 * Threads that have to do with coroutines stay on their processor. If a thread is aborted
 * in a coroutine, the frames of all coroutines that ran in the thread are dropped,
 * without clean-up.
 *
 * The rule of ustack.h is about frames, and holds between a coroutine and the resumer:
 * neither follows a pointer into the other's frames. Values are words, or point to the
 * heap.
 *
 * All calls are for threads, over any scheduler, or over the dispatcher alone. Regions
 * of ustack_preemptible() must not make them. With USCHED_INLINE_SWITCH defined before
 * the header, uco_resume() and uco_yield() save only what is live; see usched.h.
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
 * The function of a coroutine. The arguments are that of uco_create() and the value of
 * the first uco_resume(). The result is the last value that the coroutine gives.
 */
typedef void *uco_fn(void *arg, void *value);

/* The status of a coroutine. */
enum uco_status {
	UCO_NEW,                /* the function was not called yet */
	UCO_SUSPENDED,          /* the coroutine has yielded */
	UCO_RUNNING,            /* a thread runs the coroutine */
	UCO_RESUMING,           /* and the coroutine has resumed another coroutine */
	UCO_ENDED,              /* the function has returned */
};

/* Private to uco.c and the inline functions. */
struct uco {
	void          *co_value;        /* on its way */
	uint8_t        co_status;       /* enum uco_status, except where the mark says */
	uint8_t        co_closing;
	char          *co_low;          /* inline functions do not yield with SP below */
	struct ustack *co_thread;       /* while s_inside: the last resumer */
	struct uco    *co_outer;        /* running: the coroutine that resumed, or NULL */
	uco_fn        *co_func;         /* constant, as the next */
	void          *co_arg;
	/* The suspended frames: the coroutine's, or the resumer's while the coroutine
	   runs. Last: the first image is behind. */
	struct ustack  co_frames __attribute__((aligned(16)));
};

/* Private: the calls below, without inline functions. */
int uco__resume(struct uco *co, void *value, void **result);
int uco__yield(void *value, void **next);

/*
 * Private: called first by the inline functions if anything is unusual. Return 1: the
 * caller must still execute the statement; 0: the exchange was done the long way, and the
 * caller was resumed since; an error.
 */
int uco__enter(struct uco *co, void *value);
int uco__leave(void *value);

/* Private: the offset of co_low from a record, for the statement. */
#define UCO__LOW [low] "i"((intptr_t)offsetof(struct uco, co_low) \
			   - (intptr_t)offsetof(struct uco, co_frames))

/* Private: the end of the inline functions, if the other side used no statement. */
int uco__resumed(struct uco *co, void **result);
int uco__yielded(void **next);

/*
 * Makes a coroutine in *co. This takes only memory. The first uco_resume() calls the
 * function, on a stack of c_stack_size from the thread's scheduler, even if the thread
 * has an own stack. *co must be closed before the scheduler is destroyed. 0; -EINVAL:
 * `func' is NULL; -EPERM: the caller is no thread, or has an attachment of its own
 * (usched__attach()); -ENOMEM: no memory. Does not switch.
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
 * Ends and frees `co'. If `co' has yielded, `co' is resumed, and uco_yield() there
 * returns the error -ECANCELED, as does each later uco_yield(), at once. The function
 * cleans up and returns, and may wait meanwhile. uco.hh has exceptions for that. After an
 * error nothing has changed.
 * 0; -EBUSY: `co' is running; -EPERM, -EXDEV, -ENOMEM, -EFAULT: if `co' has yielded, as
 * uco_resume().
 * Switches.
 */
int uco_close(struct uco *co);

USCHED_INLINE struct uco *uco__of(struct ustack *frames)
{
	return (struct uco *)(void *)((char *)frames - offsetof(struct uco, co_frames));
}

/*
 * Runs `co' until `co' yields or the function returns. uco_yield() of `co' gets `value';
 * at first the function gets `value'. Sets *result, unless NULL, to the value that `co'
 * gives. After an error nothing has changed.
 * 0: `co' has yielded; 1: the function has returned; -EPERM as uco_create(); -EXDEV: `co'
 * belongs to another processor or scheduler; -EBUSY: `co' is running, here or in another
 * thread; -ESRCH: `co' has ended; -ENOMEM, -EFAULT as ustack_block().
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
	to = &co->co_frames;
	if (__builtin_expect(__atomic_load_n(&co->co_thread, __ATOMIC_RELAXED) != from
			     || (uintptr_t)(sp = to->u_top) & 1
			     || !usched__has_none(s->s_caught), 0)) {
		rc = uco__enter(co, value);
		if (rc < 0)
			return rc;
		by = !co->co_closing;
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
