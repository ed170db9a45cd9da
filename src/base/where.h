/* SPDX-License-Identifier: MIT */
/*
 * where.h: the place of a blocked thread's frames, and of its call. Private to
 * uinspect.c and uproc_report.c.
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
 * Sets *at to the bytes [address, address + n) of a blocked thread's frames, on the stack
 * or in the image; also of the thread that blocks, in s_next.
 * 0; -EINVAL: the thread is new or has ended; -EFAULT: some bytes are not in the frames.
 */
static inline int usched__frames(const struct ustack *u, uintptr_t address, size_t n,
				 char **at)
{
	const struct usched *s = ustack_sched(u);
	const struct usched_stack *k = u->u_stack;
	const char *top = usched__top(u);
	size_t deep, offset;
	char *low;

	if (!u->u_func || k == &s->s_new)
		return -EINVAL;
	deep = stack_depth(k->k_bottom, top);
	low = stack_low(k->k_bottom, top);
	offset = address - (uintptr_t)low;
	if (offset > deep || n > deep - offset)
		return -EFAULT;
	*at = (k->k_resident == u ? low : usched__image(u)) + offset;
	return 0;
}

/* For functions that read frames: MemorySanitizer does not see what the switch writes. */
#if USCHED_HAS(memory_sanitizer)
#define WHERE_UNSEEN __attribute__((no_sanitize("memory")))
#else
#define WHERE_UNSEEN
#endif

/*
 * Returns where a blocked thread goes on, or the return address of the function in which
 * the thread has blocked. NULL: the thread is new or has ended; or, with the portable
 * switch, always. AArch64 may save addresses with a
 * signature, which is above the 48 bits of an address.
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
