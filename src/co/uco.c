/* SPDX-License-Identifier: MIT */
/*
 * uco.c: coroutines.
 *
 * THE IDEA. The dispatcher knows frames by the record that describes them: their top,
 * their stack, their image. A coroutine has a second record, co_frames, of which only
 * this description is used. A resume exchanges the descriptions in the two records:
 * afterwards the thread's record describes the frames of the coroutine, and co_frames
 * describes the frames of the resumer, which are suspended. A yield exchanges the
 * descriptions again, by the same function, uco__exchange_frames().
 *
 *	                  thread T     co_frames of A    of B
 *	                  frames of T  A                B
 *	T resumes A       A            T                B
 *	A resumes B       B            T                A
 *	B yields          A            T                B
 *	A yields          T            A                B
 *
 * So the running thread is T throughout, and s_current does not change. The record of T
 * keeps the identity of T: function, tokens, attachment, whether T was cancelled. A wait
 * inside a coroutine blocks T: the wait saves the registers in the record of T, as
 * always, and that record describes the innermost frames. The scheduler, timers, queues
 * of locks and reports see nothing of coroutines.
 *
 * DIRECTLY. Nothing reads the descriptions before T blocks, and a generator seldom
 * blocks. So if both sides are in place, on two stacks, a resume saves the registers of
 * the resumer in the thread's record, a yield saves the registers of the coroutine in
 * co_frames, and no descriptions are exchanged. The record of a coroutine that runs
 * directly has a mark in place of a top, USCHED_DIRECT, and is s_inside. While no
 * coroutine runs directly, s_inside is the last coroutine that did, or none.
 *
 *	                  thread T     co_frames of A    of B    s_inside
 *	A has yielded     T            A                B       A
 *	T resumes A       T            A, marked        B       A
 *	A resumes B       A            T                B, m.   B
 *	B yields          A            T                B       B
 *	B blocks inside   B            T                A       none
 *
 * Before A resumes B, and before a block, settle_frames() makes the records true. So at
 * most one coroutine runs directly, and the thread's record describes its resumer. Code
 * that looks at the frames of the running thread calls settle_frames() first, or asks
 * usched__runs():
 *
 *  - a block compares SP with the stack that the thread's record names (R4). Stacks do
 *    not overlap, so SP is too deep, and make_room() finds that this is another stack. So
 *    threads without coroutines have not one instruction more, and a block may fail for
 *    the resumer's frames. ustack_reserve() and visits come the same way;
 *  - ustack_abort() of the running thread settles, without an image for the resumer, and
 *    so does the end of a coroutine;
 *  - the handler of stack overflows, usched__onstack() and dumps of stacks ask;
 *  - usched__fits() says no, so that a signal does not interrupt the thread. A region of
 *    ustack_preemptible() begins with ustack_reserve(), anyway;
 *  - other threads that are resident have true records, and what runs has SP:
 *    usched__unused().
 *
 * R4 holds when frames may be evicted: for the resumer's when they are settled, and for a
 * coroutine's when it yields. co_low is how deep that may be without a call.
 *
 * A direct switch is a statement like that of a hand-over (uswitch.h), which brings the
 * value along. co_thread tells the inline functions that the thread was here before, that
 * it resumed the coroutine last, and so that all is in place except for what u_top says.
 * Otherwise they ask uco__enter() and uco__leave(). Machines without the statement go the
 * long way only: to switch directly by a function took as long.
 *
 * THE LONG WAY. Exceptions of C++ that are being handled stay with their side, hooks and
 * the builds that look at each switch know of exchanges only, and a side may be where the
 * other runs: on the native stack, or on the same shared one. Then records are exchanged,
 * by uco__exchange(), as when a coroutine yields after it was settled. Each stack's
 * k_resident changes with that, and images go with the frames.
 *
 * A coroutine belongs to the dispatcher of the thread that made it, since its frames are
 * on a stack of that. Stacks of coroutines, and those of threads that make or resume one,
 * are marked in k_stays, so that their threads stay, too.
 *
 * THE CHAIN. The waiter of a thread that has run a coroutine has mr_inside: the innermost
 * one that does not run directly, and each has co_outer. So uco_yield() needs no
 * argument, and a thread that is aborted finds what is left of its chain: abandon(). A
 * coroutine that runs directly is inside of these. The statement does not write
 * co_status: uco_status() looks at the mark.
 *
 * THE END. When the function of a coroutine returns, body() drops the frames, and those
 * of the resumer go on. uco_close() resumes with co_closing set, and yields fail then, so
 * frames always end by returning. To drop them was rejected: what they own would be lost.
 *
 * After a yield nothing is known of the thread, which may be another one: it is looked up
 * again. Floating point control words are the thread's, as is errno.
 */
#define USCHED_INLINE_SWITCH    /* for files of programs without the statement */
#include "../../uco.h"

#include <stdbool.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../core/core.h"
#include "../core/dispatch.h"
#include "uco_frames.h"

/* Stands in mr_inside of a thread that runs no coroutine. Never changed. */
static const struct uco nothing = { .co_status = UCO_ENDED };

/* A value of co_low above the frames of all yields. */
#define ALWAYS ((char *)UINTPTR_MAX)

#ifdef USCHED__CHANGE
enum { HAS_STATEMENT = 1 };
#else
enum { HAS_STATEMENT = 0 };
#endif

/* Returns whether the attachment of `u' is no waiter. */
static bool is_foreign(const struct ustack *u)
{
	return u->u_attached && !uwait__attached(u);
}

static bool is_direct(const struct ustack *frames)
{
	return frames->u_top == USCHED_DIRECT;
}

/* Returns the innermost coroutine that `u' does not run directly, or NULL. */
static struct uco *settled(const struct ustack *u)
{
	const struct uwaiter *w = uwait__attached(u);
	struct uco *co = w && w->w_more ? w->w_more->mr_inside : NULL;

	return co && co->co_status == UCO_RUNNING ? co : NULL;
}

struct uco *uco_self(void)
{
	const struct usched *s = usched__here();

	if (is_direct(s->s_inside))
		return uco__of(s->s_inside);
	return s->s_current ? settled(s->s_current) : NULL;
}

enum uco_status uco_status(const struct uco *co)
{
	const struct usched *s = usched__here();

	if (is_direct(&co->co_frames))
		return UCO_RUNNING;
	if (is_direct(s->s_inside) && settled(s->s_current) == co)
		return UCO_RESUMING;
	return (enum uco_status)co->co_status;
}

/* ---- The chain ---- */

/* Sets co_thread, which a thread on another processor may compare with itself. */
static void set_thread(struct uco *co, struct ustack *u)
{
	__atomic_store_n(&co->co_thread, u, __ATOMIC_RELAXED);
}

/* Sets s_inside to no coroutine; if `co' is not NULL, only where s_inside is `co'. */
static void leave_coroutine(struct usched *s, struct uco *co)
{
	if (s->s_inside == DISPATCH_NONE || (co && s->s_inside != &co->co_frames))
		return;
	set_thread(uco__of(s->s_inside), DISPATCH_NONE);
	s->s_inside = DISPATCH_NONE;
}

/* Sets s_inside to `co'. The caller writes u_top of the record. */
static void enter_coroutine(struct usched *s, struct uco *co)
{
	leave_coroutine(s, NULL);
	set_thread(co, s->s_current);
	s->s_inside = &co->co_frames;
}

static void set_inside(const struct ustack *u, struct uco *co)
{
	struct uwaiter *w = (struct uwaiter *)(void *)u->u_attachment;

	w->w_more->mr_inside = co ? co : (struct uco *)(uintptr_t)&nothing;
}

/* Notes that `co' runs, inside of co_outer; pop() ends that. */
static void push(struct usched *s, struct uco *co)
{
	co->co_outer = settled(s->s_current);
	if (co->co_outer)
		co->co_outer->co_status = UCO_RESUMING;
	co->co_status = UCO_RUNNING;
	set_inside(s->s_current, co);
}

static void pop(struct usched *s, struct uco *co)
{
	if (co->co_outer)
		co->co_outer->co_status = UCO_RUNNING;
	co->co_status = UCO_SUSPENDED;
	set_inside(s->s_current, co->co_outer);
}

/*
 * Makes the records true: the record of the coroutine that runs directly then describes
 * the resumer, which may be evicted from now on (R4), if `fits'.
 */
static int settle_frames(struct usched *s, int fits)
{
	struct ustack *u = s->s_current;
	struct uco *co = uco__of(s->s_inside);
	int rc = fits ? uco__fit_frames(s, u, u->u_top) : 0;

	if (rc)
		return rc;
	leave_coroutine(s, co);
	push(s, co);
	uco__exchange_frames(s, u, &co->co_frames);
	return 0;
}

/*
 * Drops the frames of coroutines, as the thread `u' has ended inside of or beside them.
 * The record of `u' has the frames of the innermost coroutine, which the dispatcher
 * drops; each coroutine of the chain has the frames of the resumer.
 */
static void abandon(struct uco *inside, struct ustack *u)
{
	struct usched *s = ustack_sched(u);
	struct uco *co = inside->co_status == UCO_RUNNING ? inside : NULL, *outer;

	if (s->s_inside != DISPATCH_NONE && uco__of(s->s_inside)->co_thread == u)
		leave_coroutine(s, NULL);
	for (; co; co = outer) {
		outer = co->co_outer;
		co->co_outer = NULL;
		co->co_status = UCO_ENDED;
		uco__drop_frames(&co->co_frames, u);
	}
}

static const struct usched_coroutines coroutines = { settle_frames, abandon };

/* Notes that the running thread has to do with coroutines from now on, and stays. */
static void enlist_coroutines(void)
{
	struct usched *s = usched__here();

	s->s_coroutines = &coroutines;
	usched__runs(s)->u_stack->k_stays |= USCHED_EXCHANGES;
}

/* ---- Resume ---- */

/* Prepares the calling thread for the first resume. */
static int begin_coroutines(void)
{
	struct uwaiter *w = uwait_self();

	if (!w || (!w->w_more && !uwait_room(w, 0)))
		return -ENOMEM;
	if (!w->w_more->mr_inside) {
		w->w_more->mr_inside = (struct uco *)&nothing;
		enlist_coroutines();
	}
	return 0;
}

static int refuse_resume(const struct uco *co, const struct usched *s)
{
	enum uco_status status;

	if (!s->s_current || is_foreign(s->s_current))
		return -EPERM;
	if (ustack_sched(&co->co_frames) != s)
		return -EXDEV;
	status = uco_status(co);
	if (status == UCO_ENDED)
		return -ESRCH;
	return status == UCO_NEW || status == UCO_SUSPENDED ? 0 : -EBUSY;
}

/* Returns 1 if the frames of `co' are now in place, on another stack than SP; 0: they
   cannot be. */
static int is_in_place(struct usched *s, struct uco *co)
{
	if (!HAS_STATEMENT || usched__has_caught(s))
		return 0;
	return !((uintptr_t)co->co_frames.u_top & 1) || uco__bring(s, &co->co_frames);
}

static char *low_of(const struct uco *co)
{
	return co->co_frames.u_stack->k_bottom - co->co_frames.u_deep;
}

static int resume_long(struct usched *s, struct uco *co)
{
	enum uco_status before = (enum uco_status)co->co_status;
	int rc;

	leave_coroutine(s, co);
	push(s, co);
	rc = uco__exchange(&co->co_frames);
	if (rc) {
		pop(usched__here(), co);
		co->co_status = (uint8_t)before;
	}
	return rc;
}

BY_THREADS int uco__enter(struct uco *co, void *value)
{
	struct usched *s = usched__here();
	int rc = refuse_resume(co, s);

	check(&co->co_value, CHECK_OBJECT, "uco_resume()");
	if (rc == 0)
		rc = begin_coroutines();
	if (rc == 0 && is_direct(s->s_inside))
		rc = settle_frames(s, 1);
	if (rc)
		return rc;
	co->co_value = value;
	if (!is_in_place(s, co))
		return resume_long(s, co);
	enter_coroutine(s, co);
	co->co_low = co->co_closing ? ALWAYS : low_of(co);
	co->co_status = UCO_SUSPENDED;
	return 1;
}

int uco__resumed(struct uco *co, void **result)
{
	if (result)
		*result = co->co_value;
	return co->co_status == UCO_ENDED;
}

int uco__resume(struct uco *co, void *value, void **result)
{
#ifdef USCHED__CHANGE
	return uco_resume(co, value, result);
#else
	int rc = uco__enter(co, value);

	return rc ? rc : uco__resumed(co, result);
#endif
}

/* ---- Yield ---- */

static int yield_long(struct usched *s, struct uco *co)
{
	int rc = is_direct(s->s_inside) ? settle_frames(s, 1) : 0;

	if (rc)
		return rc;
	pop(s, co);
	rc = uco__exchange(&co->co_frames);
	if (rc)
		push(usched__here(), co);
	return rc;
}

/* The frame of this is below that of the statement, which is compared with co_low. */
BY_THREADS int uco__leave(void *value)
{
	struct usched *s = usched__here();
	struct uco *co = uco_self();
	int rc;

	if (!co)
		return -EPERM;
	if (co->co_closing)
		return -ECANCELED;
	co->co_value = value;
	if (!is_direct(s->s_inside) || usched__has_caught(s))
		return yield_long(s, co);
	rc = uco__fit_frames(s, &co->co_frames, (char *)__builtin_frame_address(0));
	co->co_low = low_of(co);
	return rc ? rc : 1;
}

/* Ends a yield. Another thread than before may be running. */
int uco__yielded(void **next)
{
	const struct uco *co = uco_self();

	if (next)
		*next = co->co_value;
	return co->co_closing ? -ECANCELED : 0;
}

int uco__yield(void *value, void **next)
{
#ifdef USCHED__CHANGE
	return uco_yield(value, next);
#else
	int rc = uco__leave(value);

	return rc ? rc : uco__yielded(next);
#endif
}

/* ---- Begin and end ---- */

/* The outermost function on the frames of a coroutine. */
static void body(void *frames)
{
	struct uco *co = uco__of((struct ustack *)frames);
	void *value = co->co_func(co->co_arg, co->co_value);
	struct usched *s = usched__here();

	co->co_value = value;
	if (is_direct(s->s_inside))
		settle_frames(s, 0);
	pop(s, co);
	co->co_status = UCO_ENDED;
	uco__leave_frames(&co->co_frames);
}

int uco_create(uco_fn *func, void *arg, struct uco **co)
{
	struct ustack *u = ustack_self();
	struct usched *s;
	struct uco *made;

	*co = NULL;
	if (!u || is_foreign(u))
		return -EPERM;
	if (!func)
		return -EINVAL;
	s = ustack_sched(u);
	made = (struct uco *)malloc(offsetof(struct uco, co_frames.u_image) + s->s_room);
	if (!made)
		return -ENOMEM;
	made->co_outer = NULL;
	made->co_thread = DISPATCH_NONE;
	made->co_func = func;
	made->co_arg = arg;
	made->co_status = UCO_NEW;
	made->co_closing = 0;
	ustack_init(s, &made->co_frames, body, NULL);
	made->co_frames.u_tokens = DISPATCH_COROUTINE;
	enlist_coroutines();
	*co = made;
	return 0;
}

int uco_close(struct uco *co)
{
	enum uco_status status = uco_status(co);
	int rc;

	if (status == UCO_RUNNING || status == UCO_RESUMING)
		return -EBUSY;
	if (status == UCO_SUSPENDED) {
		co->co_closing = 1;
		set_thread(co, DISPATCH_NONE);          /* the yield reads co_closing */
		rc = uco__resume(co, NULL, NULL);
		if (rc < 0) {
			co->co_closing = 0;
			return rc;
		}
	}
	free(co);
	return 0;
}
