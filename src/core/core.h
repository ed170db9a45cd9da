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
 * Add a hook, as the first, and remove a hook. From the dispatcher's native thread, in
 * s_next or out of usched_run(); or from a thread that has resumed no coroutine.
 */
void usched__set_hook(struct usched *s, struct usched_hook *h);
void usched__drop_hook(struct usched *s, struct usched_hook *h);

/* Tells all hooks of an event; for usched__tell(). */
void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other);

/* Tells all hooks of an event, if there are hooks. */
static inline void usched__tell(struct usched *s, enum usched_event event,
				struct ustack *u, struct ustack *other)
{
	if (__builtin_expect(s->s_hook != NULL, 0))
		usched__tell_all(s, event, u, other);
}

/* ---- Threads ---- */

/*
 * The start of a thread by a function of the library, which then calls a function of the
 * program. A thread with the function usched__wrapped and the address of such a struct as
 * the argument calls wr_begin(w). Reports name the thread by wr_func.
 */
struct usched__wrap {
	void      (*wr_begin)(struct usched__wrap *w);
	void      (*wr_func)(void *);   /* the program's, possibly cast */
	const void *wr_where;           /* the return address of the program's call */
};
void usched__wrapped(void *wrap);

/* Returns the struct of a new thread; NULL: the thread has another function. */
struct usched__wrap *usched__wrap_of(const struct ustack *u);

/*
 * Gives the calling thread an attachment, which stays the caller's until ao_free.
 * 0; -EPERM: the caller is no thread; -EBUSY: the thread has an attachment.
 * Does not switch.
 */
int usched__attach(struct ustack_attachment *l);

/* ---- Stacks ---- */

/*
 * Calls f(low, size, arg) for stack memory of `s' that holds no frames: of each added
 * stack from number `from' on the bytes from its low end to the frames of its resident.
 * `f' may overwrite the bytes, or give the pages back. Ends early if `f' returns 0.
 * The caller's stack and the native stack are left out.
 * Returns the number to go on with; 0: all stacks are done.
 * From the dispatcher's native thread. Does not switch.
 */
size_t usched__unused(const struct usched *s, size_t from,
		     int (*f)(void *low, size_t size, void *arg), void *arg);

/*
 * Returns 1 if `u', which is runnable, may be given to another dispatcher: `u' is new; or
 * blocked by a call, alone on a stack, and is not s_current. Else 0.
 * From the dispatcher's native thread. Does not switch.
 */
int usched__may_move(const struct ustack *u);

/*
 * Makes `u', for which usched__may_move() is 1, a thread of `to', with the stack.
 * What `u' keeps of this native thread, such as &errno, is wrong then. The scheduler here
 * must have forgotten `u', and the scheduler of `to' must know `u'.
 * From the dispatcher's native thread; `to' may run meanwhile, but not `u'. Or with `u'
 * between dispatchers: doc/moving.md. Does not switch.
 */
void usched__move(struct ustack *u, struct usched *to);

/*
 * Take a vacant stack from a dispatcher, and give the stack to `s': for stacks that came
 * with a thread and go back to where they were added. Between the two calls no frame may
 * be on the stack: the thread that ended there may have called s_done.
 * From the native thread of the dispatcher, and of `s'. Do not switch.
 */
void usched__drop_stack(struct usched_stack *k);
void usched__take_stack(struct usched *s, struct usched_stack *k);

/*
 * For uproc_alone.c: own stacks, which threads bring along. usched__make_stack() makes a
 * range an own stack that belongs to no dispatcher; threads will probably run there in
 * `s', and *colour counts own stacks. usched__place_alone() has `u', which is new, begin
 * on an own stack, alone and without moving. When `u' has ended, before s_done, the stack
 * is in the list that usched__left() returns, and a call of s_done may still run on that
 * stack. After usched__end_stack() the memory may be freed.
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
 * Makes the caller no thread: for posix/, in the child of a fork, where only the caller's
 * native thread exists. Other functions named *__forked() forget what belonged to other
 * native threads, and open the locks of these. Functions named *__hold() take a lock
 * before the fork and release the lock in both processes, so that the child finds the
 * protected data whole. posix/uposix_fork.c has the list.
 */
void usched__forked(void);

/* For posix/: returns the control words of the caller, and sets them to *set unless `set'
   is NULL. */
uint64_t usched__control_words(const uint64_t *set);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_CORE_H */
