/* SPDX-License-Identifier: MIT */
/* asan.h: the hooks for AddressSanitizer: see watch.h. */
#include <sanitizer/asan_interface.h>

UNWATCHED static inline volatile char *watch__shadow(const char *p)
{
	size_t scale, offset;

	__asan_get_shadow_mapping(&scale, &offset);
	return (volatile char *)(((uintptr_t)p >> scale) + offset);
}

UNWATCHED static inline size_t watch__deep(const struct ustack *u)
{
	return (size_t)(u->u_stack->k_bottom - usched__top(u));
}

/* Copies the shadow from the image, not by memcpy(), whose accesses are checked. */
UNWATCHED static inline void watch_loaded(const struct ustack *u)
{
	size_t deep = watch__deep(u);
	volatile char *shadow = watch__shadow(usched__top(u));
	const char *image = usched__image(u) + deep;

	for (size_t i = 0; i < deep / 8; i++)
		shadow[i] = image[i];
}

UNWATCHED static inline void watch_evict(const struct ustack *u)
{
	size_t deep = watch__deep(u);
	volatile char *shadow = watch__shadow(usched__top(u));
	char *image = usched__image(u) + deep;

	for (size_t i = 0; i < deep / 8; i++)
		image[i] = shadow[i];
	__asan_unpoison_memory_region(usched__top(u), deep);
}

UNWATCHED static inline void watch_vacate(const struct ustack *u)
{
	__asan_unpoison_memory_region(usched__top(u), watch__deep(u));
}

/* Tells of a switch of fibers. `from' is NULL if the caller's fiber ends. */
UNWATCHED static inline void watch__change(struct usched_fiber *from,
					   struct usched_fiber *to)
{
	__sanitizer_start_switch_fiber(from ? &from->fi_handle : NULL, to->fi_base,
				       to->fi_size);
	__sanitizer_finish_switch_fiber(to->fi_handle, NULL, NULL);
}

/* Gets the range of the native thread's stack, by a switch of fibers. */
UNWATCHED static inline void watch_run(struct usched *s)
{
	struct usched_fiber *home = &s->s_fiber;

	__sanitizer_start_switch_fiber(&home->fi_handle, __builtin_frame_address(0), 1);
	__sanitizer_finish_switch_fiber(home->fi_handle, &home->fi_base, &home->fi_size);
	watch__change(home, home);
	s->s_followed = home;
}

UNWATCHED static inline void watch_launch(struct usched *s, struct ustack *u)
{
	const struct usched_stack *k = u->u_stack;

	u->u_fiber = (struct usched_fiber){ NULL, k->k_bottom - k->k_size, k->k_size };
	if (k == &s->s_native)
		u->u_fiber = (struct usched_fiber){ NULL, s->s_fiber.fi_base,
						   s->s_fiber.fi_size };
}

/* Notes that SP has moved to the stack of s_current. */
UNWATCHED static inline void watch_arrive(struct usched *s)
{
	struct usched_fiber *from = s->s_followed;

	s->s_followed = s->s_current ? &s->s_current->u_fiber : &s->s_fiber;
	if (from != s->s_followed)
		watch__change(from, s->s_followed);
}

/* Notes that `u', which was launched, ends. */
UNWATCHED static inline void watch_release(struct usched *s, struct ustack *u)
{
	const char *low = usched__top(u);
	struct usched_fiber here = { 0 };

	if (s->s_followed == &u->u_fiber) {
		low = __builtin_frame_address(0);
		s->s_followed = NULL;
	} else if (u->u_fiber.fi_handle) { /* a fiber can be ended only while it runs */
		__sanitizer_start_switch_fiber(&here.fi_handle, usched__top(u), 1);
		__sanitizer_finish_switch_fiber(u->u_fiber.fi_handle, &here.fi_base,
						&here.fi_size);
		watch__change(NULL, &here);
	}
	if (u->u_stack->k_resident == u)
		__asan_unpoison_memory_region(low, (size_t)(u->u_stack->k_bottom - low));
}

/* Restores the shadow after longjmp(), which clears the shadow of skipped frames. */
static inline void watch_landed(const struct usched *s)
{
	if (s->s_current && s->s_current->u_deep)
		watch_loaded(s->s_current);
}

