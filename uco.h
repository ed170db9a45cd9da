/* SPDX-License-Identifier: MIT */
/*
 * uco.h: coroutines. A coroutine is a function that can stop at any depth of calls, and
 * can go on later. When the function stops, it gives a value; when it goes on, it gets a
 * value.
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
 * A coroutine has frames of its own, but no place in a queue and no identity. A thread
 * resumes the coroutine. This thread, the resumer, goes on when the coroutine yields or
 * ends. Until then the coroutine acts as the thread: ustack_self(), keys, tokens, locks,
 * names, errno and the floating point control words are those of the thread. If the
 * thread is cancelled, waits of the coroutine end. If the coroutine waits in
 * ustack_wait() or in a call of usync.h or unet.h, the resumer waits. Each side has its
 * own C++ exceptions that are being handled.
 *
 * A coroutine belongs to the processor of the thread that made it. Several threads of
 * that processor may resume a coroutine in turn, and a coroutine may resume others. A
 * thread that has made or resumed a coroutine stays on its processor. If a thread is
 * aborted while it runs coroutines, their frames are dropped without clean-up.
 *
 * The rule of ustack.h for pointers to a stack also holds between a coroutine and the
 * resumer: neither may follow a pointer into frames of the other. So a value has to be a
 * word, or point to the heap.
 *
 * Only threads may make these calls: threads of any scheduler, or threads over the
 * dispatcher alone. A region of ustack_preemptible() must not make these calls. If a
 * program defines USCHED_INLINE_SWITCH and then includes this header, uco_resume() and
 * uco_yield() save only the registers that are in use: see usched.h.
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
 * The function of a coroutine. The arguments are the `arg' of uco_create() and the value
 * of the first uco_resume(). The result is the last value that the coroutine gives.
 */
typedef void *uco_fn(void *arg, void *value);

/* The status of a coroutine. */
enum uco_status {
	UCO_NEW,                /* the function was not called yet */
	UCO_SUSPENDED,          /* the coroutine has yielded */
	UCO_RUNNING,            /* a thread runs the coroutine */
	UCO_RESUMING,           /* the coroutine has resumed another coroutine */
	UCO_ENDED,              /* the function has returned */
};

/* Private to uco.c and the inline functions. */
struct uco {
	void          *co_value;        /* the value that is being given */
	uint8_t        co_status;       /* enum uco_status; see uco_status() */
	uint8_t        co_open;         /* 0: uco_close() resumes the coroutine; else 1 */
	char          *co_low;          /* a yield with SP below calls uco__leave() */
	struct ustack *co_thread;       /* last resumer; DISPATCH_NONE if not s_inside */
	struct uco    *co_outer;        /* the coroutine that has resumed this, or NULL */
	uco_fn        *co_func;         /* constant, and so is co_arg */
	void          *co_arg;
	/* While the coroutine runs, but not directly (uco.c), the frames of the resumer;
	   otherwise the frames of the coroutine. The last member, since the first image
	   is behind this struct. */
	struct ustack  co_frames __attribute__((aligned(16)));
};

/* Private: uco_resume() and uco_yield(), but not inlined. */
int uco__resume(struct uco *co, void *value, void **result);
int uco__yield(void *value, void **next);

/*
 * Private: if anything is unusual, the inline functions first call these.
 * Return 1: the caller has to execute the statement; 0: the frames were exchanged without
 * the statement, and the caller has been resumed since; or an error.
 */
int uco__enter(struct uco *co, void *value);
int uco__leave(void *value);

/* Private: the offset of co_low from co_frames, for the statement. */
#define UCO__LOW [low] "i"((intptr_t)offsetof(struct uco, co_low) \
			   - (intptr_t)offsetof(struct uco, co_frames))

/* Private: if the other side has not used the statement, these end the inline
   functions. */
int uco__resumed(struct uco *co, void **result);
int uco__yielded(void **next);

/*
 * Makes a coroutine, and sets *co to it. Only memory is allocated. The first uco_resume()
 * calls the function. The function runs on a stack of c_stack_size from the thread's
 * scheduler, even if the thread has a stack of its own. Close *co before the scheduler is
 * destroyed. 0; -EINVAL: `func' is NULL; -EPERM: the caller is no thread, or has an
 * attachment of its own (usched__attach()); -ENOMEM: no memory. Does not switch.
 */
int uco_create(uco_fn *func, void *arg, struct uco **co);

/*
 * Returns the innermost coroutine that the calling thread runs, or NULL. Does not
 * switch.
 */
struct uco *uco_self(void);

/*
 * Returns the status of `co'.
 * From threads that may resume `co'. Does not switch.
 */
enum uco_status uco_status(const struct uco *co);

/*
 * Ends and frees `co'. If `co' has yielded, the call resumes `co', and the uco_yield() in
 * which `co' has stopped returns -ECANCELED. Each later uco_yield() of `co' returns
 * -ECANCELED at once. The function of `co' has to clean up and return, and may wait
 * meanwhile. In uco.hh the yield throws an exception instead. After an error nothing has
 * changed.
 * 0; -EBUSY: `co' is running; if `co' has yielded, also -EPERM, -EXDEV, -ENOMEM and
 * -EFAULT as uco_resume().
 * Switches.
 */
int uco_close(struct uco *co);

USCHED_INLINE struct uco *uco__of(struct ustack *frames)
{
	return (struct uco *)(void *)((char *)frames - offsetof(struct uco, co_frames));
}

/* Private: uco_resume(), with `by' 1; and the resume of uco_close(), with `by' 0. */
USCHED_SWITCHES int uco__run(struct uco *co, void *value, void **result, uintptr_t by)
{
#ifdef USCHED__CHANGE
	const struct usched *s = usched__here();
	struct ustack *from = s->s_current, *to;
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
	(void)by;
	return uco__resume(co, value, result);
#endif
}

/*
 * Runs `co' until `co' yields or the function returns. `value' goes to the function the
 * first time, and later to the uco_yield() in which `co' has stopped. Sets *result,
 * unless `result' is NULL, to what `co' gives. After an error nothing has changed.
 * 0: `co' has yielded; 1: the function has returned; -EPERM as uco_create(); -EXDEV: `co'
 * belongs to another processor or scheduler; -EBUSY: `co' is running, here or in another
 * thread; -ESRCH: `co' has ended; -ENOMEM, -EFAULT as ustack_block().
 * Switches.
 */
USCHED_SWITCHES int uco_resume(struct uco *co, void *value, void **result)
{
	return uco__run(co, value, result, 1);
}

/*
 * Gives `value' to the resumer of the innermost coroutine that the caller runs, and
 * returns when that coroutine is resumed again. Sets *next, unless `next' is NULL, to the
 * value that the uco_resume() passes.
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
