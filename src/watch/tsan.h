/* SPDX-License-Identifier: MIT */
/* tsan.h: the hooks for ThreadSanitizer: see watch.h. */
#include <sanitizer/tsan_interface.h>

UNWATCHED static inline void watch_run(struct usched *s)
{
	s->s_fiber.fi_handle = __tsan_get_current_fiber();
	s->s_followed = &s->s_fiber;
	s->s_ended = NULL;
}

UNWATCHED static inline void watch_launch(struct usched *s, struct ustack *u)
{
	(void)s;
	u->u_fiber.fi_handle = __tsan_create_fiber(0);
}

UNWATCHED static inline void watch__change(struct usched *s, struct usched_fiber *to)
{
	if (s->s_followed == to)
		return;
	s->s_followed = to;
	__tsan_switch_to_fiber(to->fi_handle, 0);
	if (s->s_ended)
		__tsan_destroy_fiber(s->s_ended);
	s->s_ended = NULL;
}

/* Notes that SP has moved to the stack of s_current. */
UNWATCHED static inline void watch_arrive(struct usched *s)
{
	watch__change(s, s->s_current ? &s->s_current->u_fiber : &s->s_fiber);
}

/* Notes that `u', which was launched, ends. */
UNWATCHED static inline void watch_release(struct usched *s, struct ustack *u)
{
	if (s->s_followed == &u->u_fiber) {
		s->s_ended = u->u_fiber.fi_handle;
		s->s_followed = NULL;
	} else {
		__tsan_destroy_fiber(u->u_fiber.fi_handle);
	}
}
