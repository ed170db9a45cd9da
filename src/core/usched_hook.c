/* SPDX-License-Identifier: MIT */
/*
 * usched_hook.c: hooks, which are told of each switch. While a dispatcher has a hook,
 * s_caught makes all switches go the long way. The long way then calls go_told() instead
 * of usched__go().
 */
#include "dispatch.h"

/* Returns a thread that usched__run(s, u) will evict, or NULL. */
static struct ustack *evicted_for(struct usched *s, const struct ustack *u)
{
	struct usched_stack *k = u->u_stack;
	struct ustack *self = s->s_current;

	if (DISPATCH_STRESS(s) && self && self != u && self->u_stack->k_shared)
		return self;
	if (k == &s->s_new && usched__brought(u)) {
		k = usched__brought(u);
	} else if (k == &s->s_new) {
		k = usched__vacant_stack(s);
		if (k == &s->s_vacant)
			k = s->s_victim;
	}
	return k->k_resident == u ? NULL : k->k_resident;
}

static struct arch_jump go_told(struct usched *s, struct ustack *u)
{
	struct ustack *self = s->s_current;

	if (u && u->u_stack->k_resident == u && !DISPATCH_STRESS(s)) {
		usched__tell_all(s, USCHED_HANDS_OVER, self, u);
		return usched__run(s, u);
	}
	if (self)
		usched__tell_all(s, USCHED_BLOCKS, self, NULL);
	if (!u)
		u = s->s_calls.s_next(s);
	if (u)
		usched__tell_all(s, USCHED_RUNS, u, evicted_for(s, u));
	return usched__run(s, u);
}

void usched__set_hook(struct usched *s, struct usched_hook *h)
{
	h->ho_next = s->s_hook;
	s->s_hook = h;
	s->s_go_told = go_told;
	s->s_owns |= USCHED_TOLD;
	s->s_caught = usched__look_at(s);
}

void usched__drop_hook(struct usched *s, struct usched_hook *h)
{
	struct usched_hook **at = &s->s_hook;

	while (*at != h)
		at = &(*at)->ho_next;
	*at = h->ho_next;
	if (s->s_hook)
		return;
	s->s_owns &= ~USCHED_TOLD;
	/* Otherwise usched_run() or usched__share_control() will set s_caught. */
	if (usched__current == s && !(s->s_owns & USCHED_OWNS))
		s->s_caught = usched__look_at(s);
}
