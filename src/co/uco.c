/* SPDX-License-Identifier: MIT */
/*
 * uco.c: coroutines.
 *
 * THE IDEA. The dispatcher knows frames by the record that describes them: where their
 * top is, on which stack they are, which image they have. A coroutine is a second record
 * that describes frames, c_frames, and no more of it is ever used. To resume is to
 * exchange what the two records describe: afterwards the thread's record describes the
 * frames of the coroutine, and c_frames those of the resumer, which are suspended. To
 * yield is to exchange them again. It is one operation, uco__exchange_frames().
 *
 *	                  thread T     c_frames of A    of B
 *	                  frames of T  A                B
 *	T resumes A       A            T                B
 *	A resumes B       B            T                A
 *	B yields          A            T                B
 *	A yields          T            A                B
 *
 * So the running thread is T throughout: s_current does not change. All that is its
 * identity stays in its record: its function, tokens, attachment, that it was cancelled.
 * Whatever blocks inside blocks T: a wait saves its registers in the record of T, as
 * ever, and that describes the innermost frames. The scheduler, timers, queues of locks
 * and reports see nothing of coroutines.
 *
 * DIRECTLY. What the records say is of no interest before T blocks, and a generator
 * seldom does. So where both sides are in place, on two stacks, a resume saves the
 * registers of the resumer in the record that it has, a yield those of the coroutine, and
 * no record is exchanged. The one of the frames that run has a mark instead of a top,
 * USCHED_DIRECT, and is s_inside. While none runs directly, that is the last that did, or
 * none.
 *
 *	                  thread T     c_frames of A    of B    s_inside
 *	A has yielded     T            A                B       A
 *	T resumes A       T            A, marked        B       A
 *	A resumes B       T            A                B, m.   B
 *	B yields          T            A, marked        B       A
 *	A blocks          A            T                B       none
 *
 * The last line is settle_frames(): now the records are true. What looks at the frames
 * of the running thread comes there first, or asks usched__runs():
 *
 *  - a block compares SP with the stack that the thread's record names (R4). Stacks do
 *    not overlap, so SP is too deep, and make_room() finds that this is another stack. So
 *    threads without coroutines have not one instruction more, and a block may fail for
 *    the resumer's frames. ustack_reserve() and visits come the same way;
 *  - ustack_abort() of the running thread settles, with images for none;
 *  - the handler of stack overflows, usched_onstack() and dumps of stacks ask;
 *  - usched__fits() says no, so that a signal does not interrupt the thread. A region of
 *    ustack_preemptible() begins with ustack_reserve(), anyway;
 *  - others that are resident have true records, and what runs has SP: usched__unused().
 *
 * R4 holds when frames may be evicted: for those of resumers when they are settled, and
 * for a coroutine's when it yields. c_low is how deep that may be without a call.
 *
 * Inline functions do the rest in a statement like that of a hand-over (uswitch.h), which
 * brings the value along. c_thread tells them that the thread was here before, that it
 * resumed the coroutine last, and so that all is in place except for what u_top says. For
 * anything else they ask uco__enter() and uco__leave(). Without such a statement
 * uco__change() does the same.
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
 * THE CHAIN. The waiter of a thread that has run a coroutine has m_inside: the innermost
 * one that does not run directly, and each has c_outer. So uco_yield() needs no argument,
 * and a thread that is aborted finds what is left of its chain: abandon(). Those
 * that run directly are inside of these: from s_inside on, up to one without c_outer.
 * Their c_status is not written where they change by a statement: uco_status() knows.
 *
 * THE END. When the function of a coroutine returns, body() drops the frames, and those
 * of the resumer go on. uco_close() resumes with c_closing set, and yields fail then, so
 * frames always end by returning. To drop them was rejected: what they own would be lost.
 *
 * After a yield nothing is known of the thread, which may be another one: it is looked up
 * again. Floating point control words are the thread's, as is errno.
 */
#include "../../uco.h"

#include <stdbool.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../core/core.h"
#include "../core/dispatch.h"
#include "uco_frames.h"

/* For m_inside: the thread runs no coroutine now. Never changed. */
static const struct uco nothing = { .c_status = UCO_ENDED };

/* For c_low: all yields are below. */
#define ALWAYS ((char *)UINTPTR_MAX)

extern inline struct uco *uco__of(struct ustack *frames);
extern inline int uco_resume(struct uco *co, void *value, void **result);
extern inline int uco_yield(void *value, void **next);

/* Its attachment is no waiter. */
static bool is_foreign(const struct ustack *u)
{
	return u->u_attached && !uwait__attached(u);
}

static bool is_direct(const struct ustack *frames)
{
	return frames->u_top == USCHED_DIRECT;
}

/* The innermost coroutine that `u' does not run directly, or NULL. */
static struct uco *settled(const struct ustack *u)
{
	const struct uwaiter *w = uwait__attached(u);
	struct uco *co = w && w->w_more ? w->w_more->m_inside : NULL;

	return co && co->c_status == UCO_RUNNING ? co : NULL;
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

	if (is_direct(&co->c_frames))
		return UCO_RUNNING;
	if (is_direct(s->s_inside) && settled(s->s_current) == co)
		return UCO_RESUMING;
	return (enum uco_status)co->c_status;
}

/* ---- The chain ---- */

/* Another processor may see that it is none of its threads. */
static void set_thread(struct uco *co, struct ustack *u)
{
	__atomic_store_n(&co->c_thread, u, __ATOMIC_RELAXED);
}

/* No coroutine is, or `co' only. */
static void leave_coroutine(struct usched *s, struct uco *co)
{
	if (s->s_inside == DISPATCH_NONE || (co && s->s_inside != &co->c_frames))
		return;
	set_thread(uco__of(s->s_inside), DISPATCH_NONE);
	s->s_inside = DISPATCH_NONE;
}

/* It is s_inside from now on; where frames change it is written. */
static void enter_coroutine(struct usched *s, struct uco *co)
{
	leave_coroutine(s, NULL);
	set_thread(co, s->s_current);
	s->s_inside = &co->c_frames;
}

static void set_inside(const struct ustack *u, struct uco *co)
{
	struct uwaiter *w = (struct uwaiter *)(void *)u->u_attachment;

	w->w_more->m_inside = co ? co : (struct uco *)(uintptr_t)&nothing;
}

/* It runs, inside of c_outer; and no longer. */
static void push(struct usched *s, struct uco *co)
{
	if (co->c_outer)
		co->c_outer->c_status = UCO_RESUMING;
	co->c_status = UCO_RUNNING;
	set_inside(s->s_current, co);
}

static void pop(struct usched *s, struct uco *co)
{
	if (co->c_outer)
		co->c_outer->c_status = UCO_RUNNING;
	co->c_status = UCO_SUSPENDED;
	set_inside(s->s_current, co->c_outer);
}

/* To the coroutine that has resumed `co'. */
static void step_out(struct usched *s, struct uco *co)
{
	co->c_outer->c_status = UCO_SUSPENDED;
	enter_coroutine(s, co->c_outer);
}

/* c_outer of each points the other way then. */
static struct uco *reverse(struct uco *co)
{
	struct uco *before = NULL, *next;

	for (; co; co = next) {
		next = co->c_outer;
		co->c_outer = before;
		before = co;
	}
	return before;
}

/* Those that are suspended may be evicted from now on (R4). */
static int fit_all(struct usched *s, const struct uco *first)
{
	struct ustack *c = s->s_current;
	int rc = 0;

	for (; first && rc == 0; first = first->c_outer) {
		rc = uco__fit_frames(s, c, c->u_top);
		c = (struct ustack *)(uintptr_t)&first->c_frames;
	}
	return rc;
}

/*
 * In the chain from s_inside on, each record describes frames that it resumed from, but
 * the first: its resumer has the thread's. To exchange that with each in turn makes them
 * true:
 *
 *	         thread T   c_frames of A   of B
 *	direct   T          A               B
 *	         A          T               B
 *	settled  B          T               A
 */
static int settle_frames(struct usched *s, int fits)
{
	struct uco *last = uco__of(s->s_inside), *first = reverse(last), *co, *next;
	struct uco *outer = settled(s->s_current);
	int rc = fits ? fit_all(s, first) : 0;

	if (rc) {
		reverse(first);
		return rc;
	}
	leave_coroutine(s, last);
	for (co = first; co; co = next) {
		next = co->c_outer;
		co->c_outer = outer;
		uco__exchange_frames(s, s->s_current, &co->c_frames);
		push(s, co);
		outer = co;
	}
	return 0;
}

/*
 * The thread `u' has ended inside of coroutines, or beside them: its record has the
 * frames of the innermost, which are dropped as ever, and each coroutine of the chain
 * those of its resumer.
 */
static void abandon(struct uco *inside, struct ustack *u)
{
	struct usched *s = ustack_sched(u);
	struct uco *co = inside->c_status == UCO_RUNNING ? inside : NULL, *outer;

	if (s->s_inside != DISPATCH_NONE && uco__of(s->s_inside)->c_thread == u)
		leave_coroutine(s, NULL);
	for (; co; co = outer) {
		outer = co->c_outer;
		co->c_outer = NULL;
		co->c_status = UCO_ENDED;
		uco__drop_frames(&co->c_frames, u);
	}
}

static const struct usched_coroutines coroutines = { settle_frames, abandon };

/* The running thread has to do with coroutines from now on, and stays. */
static void enlist_coroutines(void)
{
	struct usched *s = usched__here();

	s->s_coroutines = &coroutines;
	usched__runs(s)->u_stack->k_stays |= USCHED_EXCHANGES;
}

/* ---- Resume ---- */

/* Before the first resume of a thread. */
static int begin_coroutines(void)
{
	struct uwaiter *w = uwait_self();

	if (!w || (!w->w_more && !uwait_room(w, 0)))
		return -ENOMEM;
	if (!w->w_more->m_inside) {
		w->w_more->m_inside = (struct uco *)&nothing;
		enlist_coroutines();
	}
	return 0;
}

static int refuse_resume(const struct uco *co, const struct usched *s)
{
	enum uco_status status;

	if (!s->s_current || is_foreign(s->s_current))
		return -EPERM;
	if (ustack_sched(&co->c_frames) != s)
		return -EXDEV;
	status = uco_status(co);
	if (status == UCO_ENDED)
		return -ESRCH;
	return status == UCO_NEW || status == UCO_SUSPENDED ? 0 : -EBUSY;
}

/*
 * 1: the frames of `co' are in place, and not where the running ones are; 0: they cannot
 * be; -ENOMEM. `launch': new ones begin as if they were suspended. What it takes the
 * place of is evicted, and with R4 that must not be a resumer that is not settled.
 */
static int go_directly(struct usched *s, struct uco *co, int launch)
{
	int rc = 0;

	if (usched__has_caught(s))
		return 0;
	if (!((uintptr_t)co->c_frames.u_top & 1))
		return 1;
	if (is_direct(s->s_inside))
		rc = settle_frames(s, 1);
	return rc ? rc : uco__bring(s, &co->c_frames, launch);
}

/* 1: directly; 0: the long way. */
static int prepare_resume(struct usched *s, struct uco *co, void *value, int launch)
{
	int rc = refuse_resume(co, s);

	check(&co->c_value, CHECK_OBJECT, "uco_resume()");
	if (rc == 0)
		rc = begin_coroutines();
	if (rc == 0)
		rc = go_directly(s, co, launch);
	if (rc < 0)
		return rc;
	co->c_value = value;
	if (rc == 0)
		return 0;
	co->c_outer = NULL;
	co->c_low = co->c_frames.u_stack->k_bottom - co->c_frames.u_deep;
	if (co->c_closing)
		co->c_low = ALWAYS;
	if (is_direct(s->s_inside)) {
		co->c_low = ALWAYS;             /* its resumer is not in s_current */
		co->c_outer = uco__of(s->s_inside);
		co->c_outer->c_status = UCO_RESUMING;
	}
	enter_coroutine(s, co);
	co->c_status = UCO_SUSPENDED;
	return 1;
}

static int resume_long(struct usched *s, struct uco *co)
{
	bool begun = co->c_status == UCO_SUSPENDED;
	int rc = is_direct(s->s_inside) ? settle_frames(s, 1) : 0;

	if (rc)
		return rc;
	leave_coroutine(s, co);
	co->c_outer = settled(s->s_current);
	push(s, co);
	rc = uco__exchange(&co->c_frames);
	if (rc) {
		pop(usched__here(), co);
		co->c_status = begun ? UCO_SUSPENDED : UCO_NEW;
	}
	return rc;
}

int uco__resumed(struct uco *co, void **result)
{
	if (result)
		*result = co->c_value;
	return co->c_status == UCO_ENDED;
}

int uco__enter(struct uco *co, void *value)
{
	struct usched *s = usched__here();
	int rc = prepare_resume(s, co, value, 1);

	return rc ? rc : resume_long(s, co);
}

/* It reads c_value, so the next yield is to go through uco__leave(). */
int uco__resume(struct uco *co, void *value, void **result)
{
	struct usched *s = usched__here();
	int rc = prepare_resume(s, co, value, 0);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		rc = resume_long(s, co);
	} else {
		co->c_low = ALWAYS;
		rc = uco__change(co->c_outer ? &co->c_outer->c_frames : s->s_current,
				    &co->c_frames, 0);
	}
	return rc ? rc : uco__resumed(co, result);
}

/* ---- Yield ---- */

/* 1: directly; 0: the long way. */
static int prepare_yield(struct usched *s, struct uco *co, void *value)
{
	if (!co)
		return -EPERM;
	if (co->c_closing)
		return -ECANCELED;
	co->c_value = value;
	return is_direct(s->s_inside) && !usched__has_caught(s);
}

static int yield_long(struct usched *s, struct uco *co)
{
	int rc = is_direct(s->s_inside) ? settle_frames(s, 1) : 0;

	if (rc)
		return rc;
	pop(s, co);
	rc = uco__exchange(&co->c_frames);
	if (rc)
		push(usched__here(), co);
	return rc;
}

struct uco_way uco__leave(void *value)
{
	struct usched *s = usched__here();
	struct uco *co = uco_self();
	struct uco_way way = { NULL, { NULL } };
	int rc = prepare_yield(s, co, value);
	bool directly = rc > 0;

	if (directly)
		rc = uco__fit_frames(s, &co->c_frames,
				     (char *)__builtin_frame_address(0));
	else if (rc == 0)
		rc = yield_long(s, co);
	way.w_rc = rc;
	if (rc || !directly)
		return way;
	co->c_low = co->c_frames.u_stack->k_bottom - co->c_frames.u_deep;
	way.w_to = s->s_current;
	if (co->c_outer) {
		step_out(s, co);
		way.w_to = &co->c_outer->c_frames;
	}
	way.w_sp = way.w_to->u_top;
	if (co->c_outer)
		way.w_to->u_top = USCHED_DIRECT;
	return way;
}

/* Another thread may be running now. */
int uco__yielded(void **next)
{
	const struct uco *co = uco_self();

	if (next)
		*next = co->c_value;
	return co->c_closing ? -ECANCELED : 0;
}

/* Inline functions do not resume what was suspended here: it reads c_value. */
int uco__yield(void *value, void **next)
{
	struct usched *s = usched__here();
	struct uco *co = uco_self();
	int rc = prepare_yield(s, co, value);
	struct uco *outer;

	if (rc < 0)
		return rc;
	if (rc == 0) {
		rc = yield_long(s, co);
	} else {
		outer = co->c_outer;
		leave_coroutine(s, co);
		if (outer)
			step_out(s, co);
		rc = uco__change(&co->c_frames, outer ? &outer->c_frames
				    : s->s_current, 1);
		if (rc && outer)
			outer->c_status = UCO_RESUMING;
		if (rc)
			enter_coroutine(s, co);
	}
	return rc ? rc : uco__yielded(next);
}

/* ---- Begin and end ---- */

/* The first function on the frames of a coroutine, and the last. */
static void body(void *frames)
{
	struct uco *co = uco__of((struct ustack *)frames), *outer;
	struct usched *s;
	void *value = co->c_func(co->c_arg, co->c_value);

	s = usched__here();
	outer = co->c_outer;
	co->c_value = value;
	if (!is_direct(s->s_inside)) {
		pop(s, co);
		co->c_status = UCO_ENDED;
		uco__leave_frames(&co->c_frames);
	}
	co->c_status = UCO_ENDED;
	leave_coroutine(s, co);
	if (outer)
		step_out(s, co);
	co->c_outer = NULL;
	uco__leave_directly(&co->c_frames, outer ? &outer->c_frames : s->s_current);
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
	made = (struct uco *)malloc(offsetof(struct uco, c_frames.u_image) + s->s_room);
	if (!made)
		return -ENOMEM;
	made->c_outer = NULL;
	made->c_thread = DISPATCH_NONE;
	made->c_func = func;
	made->c_arg = arg;
	made->c_status = UCO_NEW;
	made->c_closing = 0;
	ustack_init(s, &made->c_frames, body, NULL);
	made->c_frames.u_tokens = DISPATCH_COROUTINE;
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
		co->c_closing = 1;
		rc = uco__resume(co, NULL, NULL);
		if (rc < 0) {
			co->c_closing = 0;
			return rc;
		}
	}
	free(co);
	return 0;
}
