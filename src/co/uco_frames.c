/* SPDX-License-Identifier: MIT */
/*
 * uco_frames.c: the frames of coroutines. uco.c has the idea: two records exchange the
 * descriptions of frames, or one side is suspended in place ("directly").
 */
#include "../../uco.h"
#include "../core/dispatch.h"

#include <errno.h>
#include <string.h>

#include "uco_frames.h"

/* External definitions of inline functions, here without the statement: see uco.c. */
extern inline struct uco *uco__of(struct ustack *frames);
extern inline int uco__run(struct uco *co, void *value, void **result, uintptr_t by);
extern inline int uco_resume(struct uco *co, void *value, void **result);
extern inline int uco_yield(void *value, void **next);

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

int uco__fit_frames(struct usched *s, struct ustack *c, char *top)
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

void uco__drop_frames(struct ustack *c, struct ustack *u)
{
	struct usched *s = ustack_sched(c);

	c->u_func = NULL;
	usched__drop_frames(s, c, u);
	__atomic_store_n(&c->u_stack, &s->s_new, __ATOMIC_RELEASE);     /* still of `s' */
}

/* ---- The long way ---- */

/*
 * The record of the thread keeps its function, tokens and cancellation. Images are
 * exchanged, too. Only what the record of `c' has of the frames is copied. The thread `u'
 * runs, so the image of `u' holds no frames.
 */
void uco__exchange_frames(struct usched *s, struct ustack *u, struct ustack *c)
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
 * the suspended frames that `c' describes. See uco.c.
 */
static struct arch_jump exchange(char *top, void *arg)
{
	struct usched *s = usched__current;
	struct ustack *u = s->s_current, *c = (struct ustack *)arg;
	int rc = usched__stop(s, top);

	if (rc)
		return (struct arch_jump){ top, rc };
	uco__exchange_frames(s, u, c);
	if (DISPATCH_STRESS(s))
		usched__evict_blocked(s, c);
	return go_on(s, u, c);
}

/*
 * Keeps the C++ exceptions of each side, as switch_caught() does. Control words and errno
 * stay as they are, because both sides belong to the same thread.
 */
BY_THREADS int uco__exchange(struct ustack *c)
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
		uco__exchange_frames(s, u, c);
	}
	uco__drop_frames(c, u);
	return go_on(s, u, c);
}

void uco__leave_frames(struct ustack *c)
{
	usched__switch(leave_frames, c);
}

/* ---- Directly ---- */

/* Frames must not be copied from or to the stack that SP is on (R5). */
int uco__bring(struct usched *s, struct ustack *c)
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
