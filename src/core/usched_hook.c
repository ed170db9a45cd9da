/* SPDX-License-Identifier: MIT */
/*
 * usched_hook.c: hooks, which are told of each switch. While a dispatcher has a hook,
 * s_caught makes all switches go the long way. The long way then calls go_told() instead
 * of usched__go(). Hooks are told of evictions and loads before usched__run() does these.
 */
#include "dispatch.h"

/* Tells the hooks which threads usched__run(s, u) will evict, load or launch. */
static void tell_changes(struct usched *s, struct ustack *u)
{
	struct usched_stack *k = u ? u->u_stack : &s->s_native;
	struct ustack *self = s->s_current, *out;

	if (k == &s->s_new && usched__brought(u)) {
		k = usched__brought(u);
	} else if (k == &s->s_new) {
		k = usched__vacant_stack(s);
		if (k == &s->s_vacant)
			k = s->s_victim;
	}
	out = k->k_resident;
	if (DISPATCH_STRESS(s) && self && self != u && self->u_stack->k_shared) {
		usched__tell_all(s, USCHED_EVICTS, self, NULL);
		out = out == self ? NULL : out;
	}
	if (out && out != u)
		usched__tell_all(s, USCHED_EVICTS, out, NULL);
	if (u && u->u_stack == &s->s_new)
		usched__tell_all(s, USCHED_STARTS, u, NULL);
	else if (u && k->k_resident != u)
		usched__tell_all(s, USCHED_LOADS, u, NULL);
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
	tell_changes(s, u);
	if (u)
		usched__tell_all(s, USCHED_RUNS, u, self);
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
