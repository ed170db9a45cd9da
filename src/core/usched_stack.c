/* SPDX-License-Identifier: MIT */
/*
 * usched_stack.c: added stacks; own stacks, which threads bring along; and unshared
 * stacks that move with a thread to another dispatcher. The memory is the scheduler's.
 *
 * A stack is used by one dispatcher, k_sched. If a stack has left with a thread, k_sched
 * is not the dispatcher where the stack was added, but the stack is still in s_unshared
 * of that dispatcher. An own stack is in the list of s_new while its thread lives. Then
 * it is in the list of usched__left(). It is never in a list of vacant stacks.
 */
#include "dispatch.h"

enum {
	COLOUR_STEP  = 256,             /* bytes by which neighbours' bottoms differ */
	PAGE         = 4096,            /* bytes after which the sets of an L1 repeat */
	COLOURS      = PAGE / COLOUR_STEP,
	COLOURED     = 256,             /* stacks that get all colours; more do not fit
					   into an L1 */
	COLOURS_FEW  = COLOURS / 2,     /* colours of further stacks, so that frames of
					   2 KiB fit into the first page */
	HOT_SCHED    = 128,             /* bytes that a switch writes in a dispatcher */
	HOT_AFTER    = 80,              /* bytes from s_current to the end of HOT_SCHED */
	HOT_FRAMES   = 256,             /* bytes that a switch writes below the bottom */
	HOT_HEAD     = 24,              /* bytes that a switch writes above the bottom */
	SHARED_STACKS = 64,             /* number of shared stacks: the first ones */
	RED_ZONE     = 256,             /* bytes below a top that a function may use */
};

/*
 * Returns the bottom of a stack that ends at `end'. The struct usched_stack begins there.
 * Neighbours' bottoms differ modulo a page, so that stacks do not fight for the same sets
 * of a cache. If the hot bytes of a stack and of the dispatcher had the same low 12 bits
 * of addresses, 4 KiB aliasing would stall loads and double the time of a switch. So a
 * bottom is skipped if its hot bytes and the dispatcher's overlap modulo a page:
 *
 *        | HOT_FRAMES  bottom  HOT_HEAD |     | HOT_SCHED  hot |
 */
static struct usched_stack *place_bottom(const struct usched *s, uintptr_t end,
					 uint16_t *colour)
{
	uintptr_t hot = (uintptr_t)&s->s_current + HOT_AFTER, bottom;
	unsigned colours = *colour < COLOURED ? COLOURS : COLOURS_FEW;

	do {
		bottom = end - sizeof(struct usched_stack);
		bottom -= (*colour)++ % colours * COLOUR_STEP;
		bottom &= -(uintptr_t)DISPATCH_BOTTOM_ALIGN;
	} while ((hot - (bottom - HOT_FRAMES)) % PAGE
		 < HOT_FRAMES + HOT_HEAD + HOT_SCHED);
	return (struct usched_stack *)(void *)bottom;
}

struct usched_stack *usched__make_stack(const struct usched *s, void *base, size_t size,
					uint16_t *colour)
{
	struct usched_stack *k = place_bottom(s, (uintptr_t)base + size, colour);

	*k = (struct usched_stack){ .k_bottom = (char *)k };
	k->k_size = (uint32_t)(k->k_bottom - (char *)base);
	watch_stack(k);
	return k;
}

/*
 *  base                                                        base + size
 *   | frames grow down to here ...      bottom | usched_stack | colour |
 */
int usched_add_stack(struct usched *s, void *base, size_t size)
{
	struct usched_stack *k;

	if (usched__probe() == 0)
		return -ENOTSUP;
	if (size < USCHED_STACK_MIN || size > USCHED_STACK_MAX)
		return -EINVAL;
	if (s->s_native.k_threads > 0)
		return -EBUSY;
	k = usched__make_stack(s, base, size, &s->s_colour);
	k->k_sched = s;
	k->k_number = s->s_number;
	s->s_stacks++;
	k->k_shared = s->s_stacks <= SHARED_STACKS || DISPATCH_STRESS(s);
	if (usched__on_native(s)) {
		usched__unlink(&s->s_native);
		k->k_ring = s->s_victim = k;
	} else if (k->k_shared) {
		k->k_ring = s->s_victim->k_ring;
		s->s_victim->k_ring = k;
	} else {
		k->k_ring = s->s_unshared;
		s->s_unshared = k;
	}
	usched__vacate(s, k);
	return 0;
}

void usched__place_alone(struct ustack *u, struct usched_stack *k)
{
	k->k_stays = USCHED_ALONE;
	u->u_top = (char *)k + DISPATCH_AWAY;
}

/* Signal handlers may write below SP while f runs. Nothing reads these bytes later. */
BY_THREADS size_t usched__unused(const struct usched *s, size_t from,
				int (*f)(void *low, size_t size, void *arg), void *arg)
{
	const char *here = (const char *)__builtin_frame_address(0);
	struct usched_stack *k = usched__on_native(s) ? NULL : s->s_victim;
	size_t i = 0;

	for (; k; k = usched__next_stack(s, k), i++) {
		char *low = k->k_bottom - k->k_size, *top = k->k_bottom;
		const struct ustack *u;

		if (i < from || GET(k->k_sched) != s)   /* k has left with a thread */
			continue;
		u = k->k_resident;
		if ((u && u == s->s_current)
		    || stack_depth(k->k_bottom, here) <= k->k_size)
			continue;
		if (u)
			top = usched__top(u) - RED_ZONE;
		if (top > low && !f(low, (size_t)(top - low), arg))
			return i + 1;
	}
	return 0;
}

int usched__may_move(const struct ustack *u)
{
	const struct usched_stack *k = u->u_stack;
	const struct usched *s = k->k_sched;

	return u != s->s_current && (k == &s->s_new
		|| (!k->k_shared && !(k->k_stays & ~USCHED_ALONE)));
}

/* An own stack is in no list between two dispatchers. */
void usched__move(struct ustack *u, struct usched *to)
{
	struct usched_stack *k = u->u_stack;

	if (k == &k->k_sched->s_new) {
		__atomic_store_n(&u->u_stack, &to->s_new, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&k->k_sched, to, __ATOMIC_RELAXED);
	if (!(k->k_stays & USCHED_ALONE))
		return;
	if (k->k_prev)
		usched__unlink(k);
	else
		usched__list_alone(to, k);
}

void usched__take_stack(struct usched *s, struct usched_stack *k)
{
	__atomic_store_n(&k->k_sched, s, __ATOMIC_RELAXED);
	usched__vacate(s, k);
}
