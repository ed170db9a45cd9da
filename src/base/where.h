/* SPDX-License-Identifier: MIT */
/*
 * where.h: finds the frames of a blocked thread, and the place in the program where the
 * thread has blocked. Private to uinspect.c and uproc_report.c.
 */
#ifndef USCHED_WHERE_H
#define USCHED_WHERE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "../../arch/arch.h"
#include "../../usched.h"
#include "../core/direction.h"

/*
 * Sets *at to where the bytes [address, address + n) of a blocked thread's frames are
 * now, on the stack or in the image. In s_next `u' may be the thread that blocks.
 * Returns 0; -EINVAL if `u' is new or has ended; -EFAULT if bytes are not in the frames.
 */
static inline int usched__frames(const struct ustack *u, uintptr_t address, size_t n,
				 char **at)
{
	const struct usched *s = ustack_sched(u);
	const struct usched_stack *k = u->u_stack;
	const char *top = usched__top(u);
	size_t deep, offset, near;
	char *low;

	if (!u->u_func || k == &s->s_new)
		return -EINVAL;
	deep = stack_depth(k->k_bottom, top);
	low = stack_low(k->k_bottom, top);
	offset = address - (uintptr_t)low;
	if (offset > deep || n > deep - offset)
		return -EFAULT;
	near = u->u_outside ? usched__near_room(s) : 0;
	if (k->k_resident == u)
		*at = low + offset;
	else if (offset < near)
		*at = usched__near(u) + offset;
	else
		*at = usched__image(u) + (offset - near);
	return 0;
}

/* For functions that read frames. MemorySanitizer does not see what switches write. */
#if USCHED_HAS(memory_sanitizer)
#define WHERE_UNSEEN __attribute__((no_sanitize("memory")))
#else
#define WHERE_UNSEEN
#endif

/*
 * Returns the address where a blocked thread goes on, or the return address of the
 * function of arch/ in which the thread has blocked. Returns NULL if the thread is new or
 * has ended, and always with the portable switch. On AArch64 a saved address may have a
 * signature, which is above the 48 bits of an address and is cut off.
 */
WHERE_UNSEEN static inline const void *usched__where(const struct ustack *u)
{
	const uintptr_t bits = sizeof bits > 4
		? ((uintptr_t)1 << 32 << 16) - 1 : UINTPTR_MAX;
	uintptr_t code, top = (uintptr_t)usched__top(u);
	char *at;

	if (usched__frames(u, top, 0, &at))
		return NULL;
	if (u->u_pc != (const void *)(uintptr_t)usched__resumed)
		return u->u_pc;
	if (usched__return_at < 0
	    || usched__frames(u, top + (uintptr_t)usched__return_at, sizeof code, &at))
		return NULL;
	code = *(const uintptr_t *)(const void *)at;
	return (const void *)(code & bits);
}

#endif /* USCHED_WHERE_H */
