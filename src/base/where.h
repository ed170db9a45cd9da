/* SPDX-License-Identifier: MIT */
/*
 * where.h: finds the place in the program where a thread has blocked. Private to
 * uinspect.c and uproc_report.c.
 */
#ifndef USCHED_WHERE_H
#define USCHED_WHERE_H

#include <stddef.h>
#include <stdint.h>

#include "../../arch/arch.h"
#include "../../usched.h"
#include "../core/direction.h"

/* For a function that reads frames. MemorySanitizer does not see what switches write. */
#if USCHED_HAS(memory_sanitizer)
#define WHERE_UNSEEN __attribute__((no_sanitize("memory")))
#else
#define WHERE_UNSEEN
#endif

/*
 * Returns the address where a blocked thread goes on, or the return address of the
 * function of arch/ in which the thread has blocked. In s_next `u' may be the thread that
 * blocks. Returns NULL if the thread is new or has ended, and always with the portable
 * switch. On AArch64 a saved address may have a signature, which is above the 48 bits of
 * an address and is cut off.
 */
WHERE_UNSEEN static inline const void *usched__where(const struct ustack *u)
{
	const uintptr_t bits = sizeof bits > 4
		? ((uintptr_t)1 << 32 << 16) - 1 : UINTPTR_MAX;
	const struct usched *s = ustack_sched(u);
	size_t at = (size_t)usched__return_at;
	size_t near = u->u_outside ? usched__near_room(s) : 0;
	const char *frames = usched__top(u);

	if (!u->u_func || u->u_stack == &s->s_new)
		return NULL;
	if (u->u_pc != (const void *)(uintptr_t)usched__resumed)
		return u->u_pc;
	if (usched__return_at < 0)
		return NULL;
	if (u->u_stack->k_resident != u)
		frames = at < near ? usched__near(u) : usched__image(u) - near;
	return (const void *)(*(const uintptr_t *)(const void *)(frames + at) & bits);
}

#endif /* USCHED_WHERE_H */
