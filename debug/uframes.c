/* SPDX-License-Identifier: MIT */
/*
 * uframes.c: the owner of an address, and the frames of blocked threads. What checks and
 * reports need, too, is in src/base/check.h and src/base/where.h.
 */
#include "uframes.h"

#include <errno.h>
#include <stdbool.h>

#include "../src/base/check.h"
#include "../src/core/direction.h"
#include "../src/base/where.h"

/* Not inlined: the frame of usched_onstack() must be below the frame of the caller. */
__attribute__((noinline))
enum usched_place usched_onstack(const void *address, struct ustack **whose)
{
	return usched__onstack(address, whose, __builtin_frame_address(0));
}

static bool is_running(const struct ustack *u)
{
	return u == ustack_sched(u)->s_current;
}

int ustack_visit(struct ustack *u, void (*f)(void *), void *arg)
{
	struct usched *s = usched__here();
	const struct usched_stack *k = u->u_stack;
	size_t deep;

	if (!s->s_current)
		return -EPERM;
	if (!u->u_func || k->k_sched != s || k == &s->s_new)
		return -EINVAL;
	if (is_running(u))
		return -EBUSY;
	deep = stack_depth(k->k_bottom, usched__top(u));
	if (k->k_size - deep < USTACK_VISIT_ROOM)
		return -ENOSPC;
	return usched__visit(u, f, arg);
}

const void *ustack_where(const struct ustack *u)
{
	return is_running(u) ? NULL : usched__where(u);
}
