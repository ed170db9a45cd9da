/* SPDX-License-Identifier: MIT */
/*
 * uco.c: coroutines.
 *
 * THE IDEA. For frames the dispatcher has a record (struct ustack), which describes the
 * top, the stack and the image of the frames. A coroutine has a record, too: co_frames.
 * co_frames is used only for this description. A resume exchanges the descriptions in the
 * records of the thread and of the coroutine: afterwards the thread's record describes
 * the frames of the coroutine, and co_frames describes the frames of the resumer, which
 * are suspended. A yield exchanges the descriptions again. Both do so in
 * exchange_frames(). The table shows whose frames a record describes:
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
 * always, and that record describes the innermost frames. The scheduler, timers, reports
 * and the queues of locks see nothing of coroutines.
 *
 * DIRECTLY. Nothing reads the descriptions before T blocks, and a generator seldom
 * blocks. So if the frames of both sides are in place, on two stacks, no descriptions are
 * exchanged: a resume saves the registers of the resumer in the thread's record, and a
 * yield saves the registers of the coroutine in co_frames. The record of a coroutine that
 * runs directly is s_inside, and has a mark (*) in place of a top: USCHED_DIRECT. While
 * no coroutine runs directly, s_inside is the last coroutine that ran directly, or none.
 *
 *	                  thread T     co_frames of A    of B    s_inside
 *	A has yielded     T            A                B       A
 *	T resumes A       T            A *              B       A
 *	A resumes B       A            T                B *     B
 *	B yields          A            T                B       B
 *	B blocks inside   B            T                A       none
 *
 * Before A resumes B, and before a block, settle_frames() exchanges the descriptions, so
 * that the records are true. So at most one coroutine runs directly. The thread's record
 * then describes the frames of the resumer. Code that looks at the frames of the running
 * thread calls settle_frames() first, or usched__runs(), which returns the record in use:
 *
 *  - a block compares SP with the stack that the thread's record names (R4). SP is on
 *    another stack, so SP seems too deep, and make_room() settles. So threads without
 *    coroutines need no extra instruction. But a block fails if the resumer's frames get
 *    no image. ustack_reserve() and visits call make_room(), too;
 *  - ustack_abort() of the running thread settles, without an image for the resumer;
 *  - the handler of stack overflows, usched__onstack() and dumps call usched__runs();
 *  - usched__fits() returns 0, so that a signal does not interrupt the thread. A region
 *    of ustack_preemptible() begins with ustack_reserve(), which settles;
 *  - usched__unused() needs neither call: the function leaves out the stack that has SP,
 *    and the records of other resident threads are true.
 *
 * R4 must hold once frames may be evicted. The resumer's frames may be evicted after
 * settle_frames(), and a coroutine's frames after a yield. So a yield with SP below
 * co_low calls uco__leave(), which reserves an image.
 *
 * A direct switch is a statement (asm), like a hand-over (uswitch.h). The statement also
 * passes the value. If co_thread is the running thread, that thread resumed the coroutine
 * last. Then all is in place, and the inline functions look only at u_top and s_caught.
 * Otherwise they call uco__enter() and uco__leave(). Machines without the statement go
 * the long way only: on these a direct switch by a function took as long.
 *
 * THE LONG WAY. switch_long() exchanges the records in these cases:
 *
 *  - C++ exceptions are being handled: each side keeps its own;
 *  - there are hooks, or the build watches switches: these know only of exchanges;
 *  - the frames of both sides belong on one stack: the native stack or a shared stack;
 *  - a coroutine yields after settle_frames().
 *
 * An exchange changes the k_resident of each stack, and images go with the frames.
 *
 * A coroutine belongs to the dispatcher of the thread that made it, since its frames are
 * on a stack of that dispatcher. k_stays marks the stacks of coroutines, and the stacks
 * of threads that make or resume coroutines, so that these threads stay with the
 * dispatcher, too.
 *
 * THE CHAIN. If a thread has run a coroutine, the mr_inside of its waiter is the
 * innermost coroutine that does not run directly. The co_outer of a coroutine is the next
 * outer coroutine. A coroutine that runs directly is inside of all these. So uco_yield()
 * needs no argument, and abandon() finds the coroutines of an aborted thread. The
 * statement does not write co_status, so uco_status() looks at the mark.
 *
 * THE END. When the function of a coroutine returns, body() drops the frames, and the
 * resumer goes on. After a direct switch the thread's record describes the resumer's
 * frames, so nothing is exchanged. uco_close() resumes with co_open 0, so that yields
 * fail and the function returns. Dropping the frames instead was rejected, since what the
 * frames own would be lost.
 *
 * After a yield another thread may be running, so the thread is looked up again. Floating
 * point control words and errno belong to the thread.
 */
#define USCHED_INLINE_SWITCH    /* for uco__resume() and uco__yield() */
#include "../../uco.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../core/dispatch.h"

/* The mr_inside of a thread that runs no coroutine now. Never changed. */
static const struct uco nothing = { .co_status = UCO_ENDED };

/* A co_low above the frames of all yields, so that each yield calls uco__leave(). */
#define ALWAYS ((char *)UINTPTR_MAX)

/* The address where new frames begin after a direct switch; NULL: no direct switches. */
#ifdef USCHED__BEGINS
#define BEGIN ((const void *)(uintptr_t)usched__begin)
#else
#define BEGIN NULL
#endif

#define EXCHANGE(a, b)                          \
	do {                                    \
		__typeof__(a) a_ = (a);         \
						\
		(a) = (b);                      \
		(b) = a_;                       \
	} while (0)

#ifdef USCHED__CHANGE
enum { HAS_STATEMENT = 1 };
#else
enum { HAS_STATEMENT = 0 };
#endif

/* Returns whether `u' has an attachment that is no waiter. */
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

/* ---- Frames ---- */

/* Reserves an image for the suspended frames of `c', which reach down to `top' (R4).
   Returns 0; -ENOMEM: no memory; -EFAULT: `top' is not on the stack of `c'. */
static int fit_frames(struct usched *s, struct ustack *c, char *top)
{
	size_t deep = stack_depth(c->u_stack->k_bottom, top);
	size_t need = (deep + DISPATCH_DEEP_UNIT - 1) & -(size_t)DISPATCH_DEEP_UNIT;

	if (deep > c->u_stack->k_size)
		return -EFAULT;
	if (deep <= c->u_deep)
		return 0;
	if (c->u_stack->k_shared && !usched__has_room(s, c, need)
	    && usched__exchange_image(s, c, s->s_current, need))
		return -ENOMEM;
	usched__set_deep(c, deep);
	usched__count_depth(s, deep);
	return 0;
}

/* Drops the frames of `c', whose image may have been allocated for the thread `u'. */
static void drop_suspended(struct ustack *c, struct ustack *u)
{
	struct usched *s = ustack_sched(c);

	c->u_func = NULL;
	usched__drop_frames(s, c, u);
	__atomic_store_n(&c->u_stack, &s->s_new, __ATOMIC_RELEASE);     /* still of `s' */
}

/*
 * Exchanges the descriptions of frames in `u', the running thread, and in `c'. The record
 * of `u' keeps its function, tokens and cancellation. Images are exchanged, too. Only
 * what the record of `c' has of the frames is copied. `u' runs, so its image holds no
 * frames.
 */
static void exchange_frames(struct usched *s, struct ustack *u, struct ustack *c)
{
	struct usched_stack *k = c->u_stack;
	bool in_place = k->k_resident == c;
	const bool away = k != &s->s_new && !in_place, outside = c->u_outside;
	const size_t deep = away ? watch_image(usched__depth(c)) : 0;
	const size_t bytes = outside ? usched__near_part(s, deep) : deep;
	const char *frames = outside ? usched__near(c) : usched__image(c);
	struct usched_image image = u->u_image;
	const bool has_image = u->u_outside;
	const uint32_t deep8 = u->u_deep8;

	u->u_image = c->u_image;
	u->u_outside = c->u_outside;
	memcpy(outside ? usched__near(u) : usched__image(u), frames, bytes);
	c->u_image = image;
	c->u_outside = has_image;
	u->u_deep8 = c->u_deep8;
	c->u_deep8 = deep8 & DISPATCH_DEEP_UNITS;
	EXCHANGE(u->u_top, c->u_top);
	EXCHANGE(u->u_pc, c->u_pc);
	EXCHANGE(u->u_fp, c->u_fp);
	EXCHANGE(u->u_bp, c->u_bp);
	u->u_stack->k_resident = c;
	if (in_place)
		k->k_resident = u;
	__atomic_store_n(&c->u_stack, u->u_stack, __ATOMIC_RELEASE);
	__atomic_store_n(&u->u_stack, k, __ATOMIC_RELEASE);
	watch_exchange(s, u, c);
}

UNWATCHED static void begin_watched(void *c)
{
	watch_arrive(usched__current);
	((const struct ustack *)c)->u_func(c);
}

/* Returns the way to the frames that the running thread `u' has just got from `c'. */
static struct arch_jump go_on(struct usched *s, struct ustack *u, struct ustack *c)
{
	struct usched_stack *k = u->u_stack;

	usched__validate(s);
	if (k->k_resident == u)
		return (struct arch_jump){ u, DISPATCH_RESIDENT };
	if (k != &s->s_new)
		return usched__fetch(s, u);
	usched__place(s, u, usched__vacant_stack(s));
	u->u_stack->k_stays |= USCHED_EXCHANGES;
	s->s_func = WATCHED ? begin_watched : c->u_func;
	s->s_arg = c;
	return (struct arch_jump){ u, ARCH_LAUNCH };
}

/*
 * Resumes or yields, which is the same: exchanges the frames of the running thread with
 * the suspended frames that `c' describes.
 */
static struct arch_jump exchange(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current, *c = (struct ustack *)arg;
	int rc = usched__stop(s, top);

	if (rc)
		return (struct arch_jump){ top, rc };
	exchange_frames(s, u, c);
	if (DISPATCH_STRESS(s))
		usched__evict_blocked(s, c);
	return go_on(s, u, c);
}

/*
 * Switches the long way. Returns 0 when the caller's frames are resumed, or an error as
 * ustack_block(). Keeps the C++ exceptions of each side, as switch_caught() does. Control
 * words and errno stay as they are, because both sides belong to the same thread.
 */
BY_THREADS static int switch_long(struct ustack *c)
{
	struct usched_caught *all_caught = usched__caught(), mine = { NULL, 0 };
	int rc;

	if (!all_caught)
		return usched__switch(exchange, c);
	mine = *all_caught;
	*all_caught = (struct usched_caught){ NULL, 0 };
	rc = usched__switch(exchange, c);
	all_caught = usched__caught();
	if (all_caught)
		*all_caught = mine;
	return rc;
}

/* Drops the frames of a coroutine that has ended, and goes on with the resumer. After a
   direct switch the record of the running thread describes the resumer's frames. */
static struct arch_jump leave_frames(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current, *c = (struct ustack *)arg;

	if (c->u_top == USCHED_DIRECT) {
		c->u_top = top;
	} else {
		u->u_top = top;
		exchange_frames(s, u, c);
	}
	drop_suspended(c, u);
	return go_on(s, u, c);
}

/*
 * Loads the frames of `c'. If `c' is new, gives `c' a stack, on which frames begin as if
 * they had been suspended. Returns 1; 0: the frames belong on the running thread's stack,
 * which has SP, so they must not be copied (R5).
 */
static int bring(struct usched *s, struct ustack *c)
{
	struct usched_stack *k = c->u_stack;

	if (k == &s->s_new) {
		k = usched__vacant_stack(s);
		if (k == &s->s_vacant && s->s_victim->k_resident == s->s_current)
			return 0;
		usched__place(s, c, k);
		c->u_stack->k_stays |= USCHED_EXCHANGES;
		c->u_top = c->u_stack->k_bottom;
		c->u_pc = BEGIN;
		c->u_fp = NULL;
		c->u_bp = c;
	} else if (k->k_resident != c) {
		if (k->k_resident == s->s_current)
			return 0;
		usched__fetch(s, c);
		usched__load_frames(s, c);
	}
	return 1;
}

/* ---- The chain ---- */

/* Sets co_thread. A thread on another processor may read co_thread at the same time. */
static void set_thread(struct uco *co, struct ustack *u)
{
	__atomic_store_n(&co->co_thread, u, __ATOMIC_RELAXED);
}

/* If `co' is NULL or s_inside is `co', sets s_inside to no coroutine. */
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

/* Notes that `co' is the innermost coroutine now, and runs. pop() undoes this. */
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
 * Exchanges the descriptions in the records of the running thread and of the coroutine
 * that runs directly. From then on the frames of the resumer may be evicted (R4). If
 * `fits', first reserves an image for them. Returns 0, or an error of fit_frames().
 */
static int settle_frames(struct usched *s, int fits)
{
	struct ustack *u = s->s_current;
	struct uco *co = uco__of(s->s_inside);
	int rc = fits ? fit_frames(s, u, u->u_top) : 0;

	if (rc)
		return rc;
	leave_coroutine(s, co);
	push(s, co);
	exchange_frames(s, u, &co->co_frames);
	return 0;
}

/*
 * Called when the thread `u' has ended. Ends the coroutines that `u' was running. The
 * record of `u' describes the frames of the innermost coroutine; the dispatcher drops
 * these. co_frames of each coroutine in the chain describes the frames of the resumer;
 * this function drops these.
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
		drop_suspended(&co->co_frames, u);
	}
}

static void free_spare(struct usched *s)
{
	free(s->s_spare);
	s->s_spare = NULL;
}

static const struct usched_coroutines coroutines = { settle_frames, abandon, free_spare };

/* Notes that the running thread uses coroutines from now on, and has to stay. */
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

/* Prepares a direct switch: brings the frames of `co' in place, on another stack than SP.
   Returns 1; 0: a direct switch is not possible. */
static int is_in_place(struct usched *s, struct uco *co)
{
	if (!HAS_STATEMENT || usched__has_caught(s))
		return 0;
	return !((uintptr_t)co->co_frames.u_top & 1) || bring(s, &co->co_frames);
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
	rc = switch_long(&co->co_frames);
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
	co->co_low = co->co_open ? low_of(co) : ALWAYS;
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
	rc = switch_long(&co->co_frames);
	if (rc)
		push(usched__here(), co);
	return rc;
}

/* Measures the depth at the frame of this function. The caller, whose frame is above, has
   the statement that compares SP with co_low. */
BY_THREADS int uco__leave(void *value)
{
	struct usched *s = usched__here();
	struct uco *co = uco_self();
	int rc;

	if (!co)
		return -EPERM;
	if (!co->co_open)
		return -ECANCELED;
	co->co_value = value;
	if (!is_direct(s->s_inside) || usched__has_caught(s))
		return yield_long(s, co);
	rc = fit_frames(s, &co->co_frames, (char *)__builtin_frame_address(0));
	co->co_low = low_of(co);
	return rc ? rc : 1;
}

/* Ends a yield. Another thread than before may be running. */
int uco__yielded(void **next)
{
	const struct uco *co = uco_self();

	if (next)
		*next = co->co_value;
	return co->co_open ? 0 : -ECANCELED;
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

/* ---- Creation and end ---- */

/* The outermost function of the frames of a coroutine. */
static void body(void *frames)
{
	struct uco *co = uco__of((struct ustack *)frames);
	void *value = co->co_func(co->co_arg, co->co_value);
	struct usched *s = usched__here();

	co->co_value = value;
	if (is_direct(s->s_inside))
		leave_coroutine(s, co);
	else
		pop(s, co);
	co->co_status = UCO_ENDED;
	usched__switch(leave_frames, &co->co_frames);
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
	made = s->s_spare;
	s->s_spare = NULL;
	if (!made)
		made = (struct uco *)malloc(offsetof(struct uco, co_frames.u_image)
					    + s->s_room);
	if (!made)
		return -ENOMEM;
	made->co_outer = NULL;
	made->co_thread = DISPATCH_NONE;
	made->co_func = func;
	made->co_arg = arg;
	made->co_status = UCO_NEW;
	made->co_open = 1;
	ustack_init(s, &made->co_frames, body, NULL);
	made->co_frames.u_tokens = DISPATCH_COROUTINE;
	enlist_coroutines();
	*co = made;
	return 0;
}

/* Keeps the memory of `co', which is closed, for the next coroutine of this dispatcher.
   Frees the memory if there is no use for it, and in builds that look for later uses. */
static void keep(struct uco *co)
{
	struct usched *s = usched__here();

	if (s->s_spare || WATCHED || IS_CHECKED || ustack_sched(&co->co_frames) != s)
		free(co);
	else
		s->s_spare = co;
}

int uco_close(struct uco *co)
{
	enum uco_status status = uco_status(co);
	int rc;

	if (status == UCO_RUNNING || status == UCO_RESUMING)
		return -EBUSY;
	if (status == UCO_SUSPENDED) {
		co->co_open = 0;
		co->co_low = ALWAYS;                    /* for a direct switch */
		rc = uco__run(co, NULL, NULL, 0);
		if (rc < 0) {
			co->co_open = 1;
			return rc;
		}
	}
	keep(co);
	return 0;
}
