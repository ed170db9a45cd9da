/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h: what the files of the dispatcher share: usched.c, usched_stack.c,
 * usched_hook.c, ustack.c and uco_frames.c. Private. usched.c has the rules, and refers
 * to none of the others.
 *
 * INVARIANTS, between two steps of the dispatcher; usched__validate() looks:
 *
 *  - A stack is in a list of vacant ones, those without threads first, if and only if it
 *    has no resident. With s_moves, those that are not shared are in s_vacant_unshared.
 *  - A resident was launched there, has not ended, and bit 0 of its u_top is clear. The
 *    u_top of the running thread means nothing.
 *  - A stack that is not shared has one thread at most.
 *  - u_deep of a thread on a shared stack is not more than its image has room for (R4).
 */
#ifndef USCHED_DISPATCH_H
#define USCHED_DISPATCH_H

#include "../../ustack.h"

#ifdef USCHED_CHECK
#undef NDEBUG
#endif
#include <assert.h>
#include <stdbool.h>

#include "../../arch/arch.h"
#include "../watch/watch.h"
#include "direction.h"
#include "observer.h"

enum {
	DISPATCH_BOTTOM_ALIGN = 64,     /* the strictest alignment of a local */
	DISPATCH_AWAY         = 1,      /* in u_top: new, or its frames are elsewhere */
	DISPATCH_EXITED       = 2,      /* in u_top: ended, with a value in u_image */
	DISPATCH_DEEP_UNIT    = 8,      /* bytes: the unit of u_deep8 */
	DISPATCH_DEEP_UNITS   = (1 << 29) - 1,  /* the most units in u_deep8 */
};

#ifdef USCHED_CHECK
#define DISPATCH_CHECK(condition) assert(condition)
#else
#define DISPATCH_CHECK(condition) ((void)0)
#endif

/* See stress.h. */
#define DISPATCH_STRESS(s) (IS_CHECKED && (s)->s_stress)

/* For functions that threads call: not inlined, for the reason in uabi.h. */
#define BY_THREADS __attribute__((noinline))

/* For functions that are called last, and are not inlined: so callers save no registers.
   */
#define APART __attribute__((noinline))

/* The aj_op for a resident thread. */
#define DISPATCH_RESIDENT (WATCHED ? ARCH_LOAD : ARCH_RESUME)

/* Counters: written by one native thread, read by any. */
#define DISPATCH_ADD(counter, n) \
	__atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)      /* as in lock.h */

/* Returns the bytes of a blocked thread's frames. */
static inline size_t usched__depth(const struct ustack *u)
{
	return stack_depth(u->u_stack->k_bottom, usched__top(u));
}

/* Sets the depth up to which blocks of `u' need no check. */
static inline void usched__set_deep(struct ustack *u, size_t deep)
{
	u->u_deep8 = (uint32_t)(deep + DISPATCH_DEEP_UNIT - 1) / DISPATCH_DEEP_UNIT
		& DISPATCH_DEEP_UNITS;
}

/* Returns the stack that `u', which is new, has brought along, or NULL. */
static inline struct usched_stack *usched__brought(const struct ustack *u)
{
	return (struct usched_stack *)((uintptr_t)u->u_top - DISPATCH_AWAY);
}

/* Takes a stack out of its list of vacant ones. */
static inline void usched__unlink(struct usched_stack *k)
{
	k->k_prev->k_next = k->k_next;
	k->k_next->k_prev = k->k_prev;
}

/* Returns whether threads run on the native stack, as no stack was added. */
static inline bool usched__on_native(const struct usched *s)
{
	return s->s_victim == &s->s_native;
}

/* Returns whether switches go the long way. */
static inline bool usched__has_caught(const struct usched *s)
{
	return s->s_caught->cg_caught || s->s_caught->cg_uncaught;
}

/* The u_tokens of a coroutine's record, which is no record of the scheduler. */
#define DISPATCH_COROUTINE (INT32_MIN + 1)

#pragma GCC visibility push(hidden)

/* The s_inside of threads that run no coroutine directly. Never changed. */
extern const struct ustack usched__none;
#define DISPATCH_NONE ((struct ustack *)(uintptr_t)&usched__none)

/* Returns C++'s exceptions in flight on this native thread; NULL: no C++ is linked. */
struct usched_caught *usched__caught(void);

/* Forgets the exceptions, and leaves the running thread, whose frames are dropped. */
_Noreturn void usched__quit(void);

/* Give the running thread control words of its own; and end that. usched.c has the check.
   */
void usched__own_control(struct usched *s, uint64_t words);
void usched__share_control(struct usched *s);
void usched__check_control(const struct usched *s);

/* Returns the s_caught for a thread that shares control words. */
const struct usched_caught *usched__look_at(const struct usched *s);

/* Puts a stack into the list of vacant stacks, without a resident. */
void usched__vacate(struct usched *s, struct usched_stack *k);

/* Puts `u' on the vacant stack `k'. s_vacant as `k': no stack is vacant (R7). */
void usched__place(struct usched *s, struct ustack *u, struct usched_stack *k);

/* Copies the frames of the resident of `k' to its image. */
void usched__evict(struct usched *s, struct usched_stack *k);

/* Evicts the resident of the stack of `u', and returns the way to `u'. */
struct arch_jump usched__fetch(struct usched *s, struct ustack *u);

/* Copies the frames of `u' to the stack. SP is at the top of `u', or below (R5). */
void usched__load_frames(struct usched *s, struct ustack *u);

/* With s_stress: evicts the blocked thread at once. SP is below its top. */
void usched__evict_blocked(struct usched *s, struct ustack *u);

/*
 * Gives `u' an image for `deep' bytes of frames. The old image holds no frames. `whose'
 * is the thread as the scheduler knows it.
 * 0; -ENOMEM.
 */
int usched__exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			   size_t deep);

/* Return the bytes of the image of `u'; and whether `need' bytes of frames fit there. */
size_t usched__capacity(const struct usched *s, const struct ustack *u);
bool usched__has_room(const struct usched *s, const struct ustack *u, size_t need);

/* Frees the image from s_alloc of `u', which then has the first image again. */
void usched__free_image(struct usched *s, struct ustack *u, struct ustack *whose);

/* Drops the frames of `u' and their image. */
void usched__drop_frames(struct usched *s, struct ustack *u, struct ustack *whose);

/* Notes a depth for st_deepest. */
void usched__count_depth(struct usched *s, size_t deep);

/* Notes that the running thread blocks at `top'. Returns as ustack_block(). */
int usched__stop(struct usched *s, char *top);

/* Makes `u' the running thread, and returns the way there; NULL: to usched_run(). */
struct arch_jump usched__run(struct usched *s, struct ustack *u);

#pragma GCC visibility pop

static inline struct usched_stack *usched__first_vacant(const struct usched *s)
{
	struct usched_stack *k = s->s_vacant_unshared.k_next;

	return k == &s->s_vacant_unshared ? s->s_vacant.k_next : k;
}

/*
 * Returns the stack for a new thread; s_vacant: no stack is vacant. The scheduler may add
 * stacks before threads have to share a stack.
 */
static inline struct usched_stack *usched__vacant_stack(struct usched *s)
{
	struct usched_stack *k = usched__first_vacant(s);

	if (s->s_grow && (k == &s->s_vacant || k->k_threads > 0
			   || (s->s_moves && k->k_shared && !DISPATCH_STRESS(s)))) {
		s->s_grow(s);
		k = usched__first_vacant(s);
	}
	return k;
}

/* Gives `u' the first image again. */
static inline void usched__drop_image(struct usched *s, struct ustack *u,
				      struct ustack *whose)
{
	if (u->u_outside)
		usched__free_image(s, u, whose);
}

#ifdef USCHED_CHECK
/* Returns how many stacks are in a list of vacant stacks. */
static inline size_t usched__validate_vacant(const struct usched_stack *list)
{
	const struct usched_stack *k;
	size_t listed = 0;
	bool behind = false;            /* past the stacks without threads */

	for (k = list->k_next; k != list; k = k->k_next) {
		DISPATCH_CHECK(!k->k_resident && k->k_next->k_prev == k);
		DISPATCH_CHECK(!behind || k->k_threads > 0);
		behind = k->k_threads > 0;
		listed++;
	}
	return listed;
}

/*
 * Validates every stack and the lists of vacant stacks, except stacks that have left with
 * a thread: these are another dispatcher's.
 */
static inline void usched__validate(const struct usched *s)
{
	const struct usched_stack *k = s->s_victim;
	size_t vacant = 0, listed;

	for (; k; k = usched__next_stack(s, k)) {
		const struct ustack *u;

		if (GET(k->k_sched) != s)
			continue;
		u = k->k_resident;
		vacant += !u;
		DISPATCH_CHECK(!u || (u->u_stack == k && u->u_func && k->k_threads > 0));
		DISPATCH_CHECK(!u || u == s->s_current
			       || !stack_is_deeper(k->k_bottom, u->u_top));
		DISPATCH_CHECK(!u || u == s->s_current || u->u_top == usched__top(u));
		DISPATCH_CHECK(k->k_shared || k->k_threads <= 1);
	}
	listed = usched__validate_vacant(&s->s_vacant)
		+ usched__validate_vacant(&s->s_vacant_unshared);
	DISPATCH_CHECK(vacant == listed);
}
#else
static inline void usched__validate(const struct usched *s)
{
	(void)s;
}
#endif

#endif /* USCHED_DISPATCH_H */
