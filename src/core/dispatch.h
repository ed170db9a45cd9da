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
	DISPATCH_DEEP_UNIT    = 8,      /* bytes: of u_deep8, */
	DISPATCH_DEEP_UNITS   = (1 << 29) - 1,  /* and so many at most */
};

#ifdef USCHED_CHECK
#define DISPATCH_CHECK(condition) assert(condition)
#else
#define DISPATCH_CHECK(condition) ((void)0)
#endif

/* See stress.h. */
#define DISPATCH_STRESS(s) (IS_CHECKED && (s)->s_stress)

/* Called by threads, and not inlined, for the reason in uabi.h. */
#define BY_THREADS __attribute__((noinline))

/* Not inlined into callers that call it last, so they save no registers for it. */
#define APART __attribute__((noinline))

/* The j_op for a resident thread. */
#define DISPATCH_RESIDENT (WATCHED ? ARCH_LOAD : ARCH_RESUME)

/* Counters: written by one native thread, read by any. */
#define DISPATCH_ADD(counter, n) \
	__atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)      /* as in lock.h */

/* Bytes of the frames of a blocked thread. */
static inline size_t usched__depth(const struct ustack *u)
{
	return stack_depth(u->u_stack->k_bottom, usched__top(u));
}

/* Blocks of `u' up to that depth need no check. */
static inline void usched__set_deep(struct ustack *u, size_t deep)
{
	u->u_deep8 = (uint32_t)(deep + DISPATCH_DEEP_UNIT - 1) / DISPATCH_DEEP_UNIT
		& DISPATCH_DEEP_UNITS;
}

/* The stack that `u', which is new, has brought along, or NULL. */
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

/* Threads run on the native stack: none was added. */
static inline bool usched__on_native(const struct usched *s)
{
	return s->s_victim == &s->s_native;
}

/* Switches go the long way. */
static inline bool usched__has_caught(const struct usched *s)
{
	return s->s_caught->c_caught || s->s_caught->c_uncaught;
}

/* In u_tokens of the record of a coroutine, which is none of the scheduler. */
#define DISPATCH_COROUTINE (INT32_MIN + 1)

#pragma GCC visibility push(hidden)

/* The s_inside of threads that run no coroutine directly. Never changed. */
extern const struct ustack usched__none;
#define DISPATCH_NONE ((struct ustack *)(uintptr_t)&usched__none)

/* C++'s exceptions in flight on this native thread; NULL: the program has no C++. */
struct usched_caught *usched__caught(void);

/* Forgets these, and leaves the thread, whose frames are dropped. */
_Noreturn void usched__quit(void);

/* The running thread has control words of its own from now on; no longer. */
void usched__own_control(struct usched *s, uint64_t words);
void usched__share_control(struct usched *s);
void usched__check_control(const struct usched *s);

/* The s_caught of a thread that shares control words. */
const struct usched_caught *usched__look_at(const struct usched *s);

/* Into the list, without a resident. */
void usched__vacate(struct usched *s, struct usched_stack *k);

/* Puts `u' on the vacant stack `k'; if that is s_vacant, there is none (R7). */
void usched__place(struct usched *s, struct ustack *u, struct usched_stack *k);

/* Copies the frames of the resident of `k' to its image. */
void usched__evict(struct usched *s, struct usched_stack *k);

/* Evicts what is in the place of `u', and returns the way there. */
struct arch_jump usched__fetch(struct usched *s, struct ustack *u);

/* Copies the frames of `u' to their place. SP is at their top, or below (R5). */
void usched__load_frames(struct usched *s, struct ustack *u);

/* With s_stress: evicts the blocked thread at once. SP is below its top. */
void usched__evict_blocked(struct usched *s, struct ustack *u);

/*
 * An image of `u' for `deep' bytes of frames in place of the one that it has: that holds
 * none. `whose': the thread to the scheduler.
 * 0; -ENOMEM.
 */
int usched__exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			   size_t deep);

/* Bytes of the image of `u'; and whether a depth of `need' can be noted with it. */
size_t usched__capacity(const struct usched *s, const struct ustack *u);
bool usched__has_room(const struct usched *s, const struct ustack *u, size_t need);

/* `u', which has another one, goes back to its first image. */
void usched__free_image(struct usched *s, struct ustack *u, struct ustack *whose);

/* Drops the frames of `u' and their image. */
void usched__drop_frames(struct usched *s, struct ustack *u, struct ustack *whose);

/* Notes a depth for s_deepest. */
void usched__count_depth(struct usched *s, size_t deep);

/* The running thread blocks, with that top. 0; as ustack_block(). */
int usched__stop(struct usched *s, char *top);

/* Makes `u' the running thread, or none with NULL, and returns the way there. */
struct arch_jump usched__run(struct usched *s, struct ustack *u);

#pragma GCC visibility pop

static inline struct usched_stack *usched__first_vacant(const struct usched *s)
{
	struct usched_stack *k = s->s_vacant_unshared.k_next;

	return k == &s->s_vacant_unshared ? s->s_vacant.k_next : k;
}

/*
 * The stack for a new thread, or s_vacant: there is none. Before threads share one, more
 * are added, if there are more.
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

/* Back to the first image. */
static inline void usched__drop_image(struct usched *s, struct ustack *u,
				      struct ustack *whose)
{
	if (u->u_outside)
		usched__free_image(s, u, whose);
}

#ifdef USCHED_CHECK
/* The stacks in the list. */
static inline size_t usched__validate_vacant(const struct usched_stack *list)
{
	const struct usched_stack *k;
	size_t listed = 0;
	bool behind = false;            /* among those with threads */

	for (k = list->k_next; k != list; k = k->k_next) {
		DISPATCH_CHECK(!k->k_resident && k->k_next->k_prev == k);
		DISPATCH_CHECK(!behind || k->k_threads > 0);
		behind = k->k_threads > 0;
		listed++;
	}
	return listed;
}

/*
 * Validates every stack and the lists of vacant ones. Those that have left with a thread
 * are another dispatcher's.
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
