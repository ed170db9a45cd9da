/* SPDX-License-Identifier: MIT */
/*
 * dispatch.h: what the files of the dispatcher share: usched.c, usched_stack.c,
 * usched_hook.c, ustack.c and uco.c. Private. usched.c has the rules, and refers to none
 * of the other files.
 *
 * INVARIANTS hold between two steps of the dispatcher. usched__validate() checks them:
 *
 *  - A stack is in a list of vacant stacks if and only if the stack has no resident. In a
 *    list, stacks without threads come first. With s_moves, vacant unshared stacks are in
 *    s_vacant_unshared; all other vacant stacks are in s_vacant.
 *  - The resident of a stack was launched there, has not ended, and bit 0 of its u_top is
 *    clear. The u_top of the running thread means nothing.
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
#include "core.h"
#include "direction.h"

enum {
	DISPATCH_BOTTOM_ALIGN = 64,     /* bytes: the strictest alignment of a local */
	DISPATCH_AWAY         = 1,      /* in u_top: new, or frames are not in place */
	DISPATCH_EXITED       = 2,      /* in u_top: ended, with a value in u_value */
	DISPATCH_DEEP_UNIT    = 8,      /* bytes: the unit of u_deep8 */
	DISPATCH_DEEP_UNITS   = (1 << 29) - 1,  /* the most units in u_deep8 */
};

#ifdef USCHED_CHECK
#define DISPATCH_CHECK(condition) assert(condition)
#else
#define DISPATCH_CHECK(condition) ((void)0)
#endif

/* Whether `s' makes rare things happen each time; see stress.h. */
#define DISPATCH_STRESS(s) (IS_CHECKED && (s)->s_stress)

/* The aj_op for a resident thread. */
#define DISPATCH_RESIDENT (WATCHED ? ARCH_LOAD : ARCH_RESUME)

/* Adds to a counter. Only one native thread may write the counter; any may read it. */
#define DISPATCH_ADD(counter, n) \
	__atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)      /* as in lock.h */

/* Returns how many bytes the frames of a blocked thread have. */
static inline size_t usched__depth(const struct ustack *u)
{
	return stack_depth(u->u_stack->k_bottom, usched__top(u));
}

/* Returns how many of `deep' bytes of frames are in the record of a thread with an image
   from s_alloc. */
static inline size_t usched__near_part(const struct usched *s, size_t deep)
{
	size_t room = usched__near_room(s);

	return room < deep ? room : deep;
}

/* Sets u_deep of `u'. If `u' blocks no deeper than that, nothing is checked. */
static inline void usched__set_deep(struct ustack *u, size_t deep)
{
	u->u_deep8 = (uint32_t)(deep + DISPATCH_DEEP_UNIT - 1) / DISPATCH_DEEP_UNIT
		& DISPATCH_DEEP_UNITS;
}

/* Returns the own stack that the new thread `u' has brought along; or NULL. */
static inline struct usched_stack *usched__brought(const struct ustack *u)
{
	return (struct usched_stack *)((uintptr_t)u->u_top - DISPATCH_AWAY);
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

/* The value of u_tokens in the record of a coroutine, which no scheduler knows. */
#define DISPATCH_COROUTINE (INT32_MIN + 1)

#pragma GCC visibility push(hidden)

/* The value of s_inside that stands for no coroutine. The record never changes. */
extern const struct ustack usched__none;
#define DISPATCH_NONE ((struct ustack *)(uintptr_t)&usched__none)

/* Returns C++'s exceptions in flight on this native thread; NULL: there is no C++. */
struct usched_caught *usched__caught(void);

/* Ends the running thread here: forgets its exceptions in flight and drops its frames. */
_Noreturn void usched__quit(void);

/* The first gives the running thread control words of its own. The second makes the
   thread share words again. The third is described in usched.c. */
void usched__own_control(struct usched *s, uint64_t words);
void usched__share_control(struct usched *s);
void usched__check_control(const struct usched *s);

/* Returns the value of s_caught for a thread that shares control words. */
const struct usched_caught *usched__look_at(const struct usched *s);

/* Makes `k' a stack without a resident, and puts `k' into a list of vacant stacks: in
   front if no thread lives on `k', else at the rear. */
void usched__vacate(struct usched *s, struct usched_stack *k);

/* Makes `u', which is new, the resident of the vacant stack `k'. If `k' is s_vacant, no
   stack is vacant, and another thread is evicted (R7). */
void usched__place(struct usched *s, struct ustack *u, struct usched_stack *k);

/* Evicts the resident of the stack of `u', and returns the way to `u'. */
struct arch_jump usched__fetch(struct usched *s, struct ustack *u);

/* Copies the frames of `u' from the image to the stack. SP is at the top of `u', or below
   (R5). */
void usched__load_frames(struct usched *s, struct ustack *u);

/* With s_stress: evicts `u', which has just blocked. SP is below the top of `u'. */
void usched__evict_blocked(struct usched *s, struct ustack *u);

/*
 * Gives `u' an image for `deep' bytes of frames, and frees the old image, which must hold
 * no frames. `whose' is the thread for s_alloc and s_free. It is `u'; but if `u' is the
 * record of a coroutine, it is the thread that runs the coroutine.
 * Returns 0, or -ENOMEM with nothing changed.
 */
int usched__exchange_image(struct usched *s, struct ustack *u, struct ustack *whose,
			   size_t deep);

/* Returns whether `need' bytes of frames fit into the image of `u'. */
bool usched__has_room(const struct usched *s, const struct ustack *u, size_t need);

/* Frees the image that `u' has from s_alloc, so that `u' has the first image again. */
void usched__free_image(struct usched *s, struct ustack *u, struct ustack *whose);

/* Drops the frames of `u' and their image. */
void usched__drop_frames(struct usched *s, struct ustack *u, struct ustack *whose);

/* Raises st_deepest to `deep', if that is more. */
void usched__count_depth(struct usched *s, size_t deep);

/* Notes that the running thread blocks at `top'. Returns 0, or an error that
   ustack_block() returns, too. */
int usched__stop(struct usched *s, char *top);

/* Makes `u' the running thread, and returns the way there; if `u' is NULL, the way to
   usched_run(). */
struct arch_jump usched__run(struct usched *s, struct ustack *u);

#pragma GCC visibility pop

static inline struct usched_stack *usched__first_vacant(const struct usched *s)
{
	struct usched_stack *k = s->s_vacant_unshared.k_next;

	return k == &s->s_vacant_unshared ? s->s_vacant.k_next : k;
}

/*
 * Returns a vacant stack for a new thread, or &s_vacant if no stack is vacant. Asks the
 * scheduler for more stacks (s_grow) before threads have to share a stack.
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

/* Frees the image that `u' may have from s_alloc. */
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
	bool behind = false;            /* a stack with threads was seen */

	for (k = list->k_next; k != list; k = k->k_next) {
		DISPATCH_CHECK(!k->k_resident && k->k_next->k_prev == k);
		DISPATCH_CHECK(!behind || k->k_threads > 0);
		behind = k->k_threads > 0;
		listed++;
	}
	return listed;
}

/*
 * Checks the invariants of each stack and of the lists of vacant stacks. Stacks that have
 * left with a thread are skipped, because they belong to another dispatcher now.
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
#define usched__validate(s) ((void)(s))
#endif

#endif /* USCHED_DISPATCH_H */
