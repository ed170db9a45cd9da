/* SPDX-License-Identifier: MIT */
/*
 * core.h: what the dispatcher has for the files of the library above it: hooks, the
 * beginning of threads, stacks that move, and forks. Private.
 */
#ifndef USCHED_CORE_H
#define USCHED_CORE_H

#include "../../usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Hooks ---- */

/*
 * Puts the hook first, or takes it out, on the dispatcher's
 * native thread, in s_next or out of usched_run(). A thread that has resumed no coroutine
 * may set one.
 */
void usched__set_hook(struct usched *s, struct usched_hook *h);
void usched__drop_hook(struct usched *s, struct usched_hook *h);

/* For usched__tell(). */
void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other);

/* Tells all hooks, where there are some. */
static inline void usched__tell(struct usched *s, enum usched_event event,
				struct ustack *u, struct ustack *other)
{
	if (__builtin_expect(s->s_hook != NULL, 0))
		usched__tell_all(s, event, u, other);
}

/* ---- Threads ---- */

/*
 * For a function of the library that calls one of the program's in a thread. A
 * thread that is started with usched__wrapped and the address of such a struct calls
 * w_begin with that. Reports name the thread by w_func.
 */
struct usched__wrap {
	void      (*w_begin)(struct usched__wrap *w);
	void      (*w_func)(void *);    /* the program's, cast if its type is another */
	const void *w_where;            /* the return address of the program's call */
};
void usched__wrapped(void *wrap);

/* The struct of a new thread; NULL: the thread was not started so. */
struct usched__wrap *usched__wrap_of(const struct ustack *u);

/*
 * Gives the calling thread an attachment, which stays the caller's until a_free.
 * 0; -EPERM: the caller is no thread; -EBUSY: it has one.
 * Does not switch.
 */
int usched__attach(struct ustack_attachment *l);

/* ---- Stacks ---- */

/*
 * Calls f(low, size, arg) for stack memory of `s' that holds no frames: of each added
 * stack from number `from' on the bytes from its low end to the frames of its resident.
 * `f' may overwrite what it finds there, or give the pages back. Ends early if `f'
 * returns 0. The stack of the caller is left out, and so is the native one.
 * Returns the number to go on with; 0: these were all.
 * From the dispatcher's native thread. Does not switch.
 */
size_t usched__unused(const struct usched *s, size_t from,
		     int (*f)(void *low, size_t size, void *arg), void *arg);

/*
 * Returns 1 if `u', which is runnable, may be given to another dispatcher: it is new; or
 * it blocked by a call, is alone on its stack, and is not s_current. Else 0.
 * From the dispatcher's native thread. Does not switch.
 */
int usched__may_move(const struct ustack *u);

/*
 * Makes `u', for which usched__may_move() is 1, a thread of `to', with its stack. What it
 * keeps of this native thread, such as &errno, is wrong then. The schedulers must have
 * forgotten it here, and know it there.
 * From the dispatcher's native thread; `to' may run meanwhile, but not `u'. Or with `u'
 * between dispatchers: doc/moving.md. Does not switch.
 */
void usched__move(struct ustack *u, struct usched *to);

/*
 * Take a vacant stack out of the use of its dispatcher, and into that of `s'; for a
 * stack that came with a thread and goes back to where it was added. Between the two no
 * frame may be on it: the thread that ended there may have called s_done.
 * From the native thread of its dispatcher, and of `s'. Do not switch.
 */
void usched__drop_stack(struct usched_stack *k);
void usched__take_stack(struct usched *s, struct usched_stack *k);

/*
 * For uproc_alone.c: stacks that threads bring along. usched__make_stack() makes
 * the range one, which belongs to no dispatcher; `s' is where threads will probably use
 * it, and *colour counts such stacks. usched__place_alone() has `u', which is new, begin
 * on it. The thread is alone there, and stays on its processor. When it has ended, before
 * s_done, the stack is in the list that usched__left() returns, and a call of s_done may
 * still run on it. After usched__end_stack() its memory may go.
 */
struct usched_stack *usched__make_stack(const struct usched *s, void *base, size_t size,
					uint16_t *colour);
void usched__place_alone(struct ustack *u, struct usched_stack *k);
void usched__end_stack(const struct usched_stack *k);

static inline struct usched_stack **usched__left(struct usched *s)
{
	return &s->s_new.k_ring;
}

/* ---- Native threads ---- */

/*
 * For posix/, in the child of a fork, whose only native thread is the caller's:
 * the caller is no thread from now on. Likewise others that end with __forked() have what
 * belongs to other native threads be forgotten, and their locks be open. Those that end
 * with __hold() take a lock before the fork, and release it in both processes, where the
 * child is to find whole what it is for. posix/uposix_fork.c has the list of all.
 */
void usched__forked(void);

/* For posix/: returns the control words of the caller; they are *set from now
   on, unless `set' is NULL. */
uint64_t usched__control_words(const uint64_t *set);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_CORE_H */
