/* SPDX-License-Identifier: MIT */
/*
 * uframes.c: the owner of an address, and the frames of blocked threads. Shared parts are
 * in private/check.h and private/where.h.
 */
#include "uframes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "private/check.h"
#include "private/where.h"

/* Not inlined: its frame is below its caller's. */
__attribute__((noinline))
enum usched_place usched_onstack(const void *address, struct ustack **whose)
{
	return usched__onstack(address, whose, __builtin_frame_address(0));
}

static bool is_running(const struct ustack *u)
{
	return u == ustack_sched(u)->s_current;
}

int ustack_peek(const struct ustack *u, const void *address, void *buffer, size_t n)
{
	char *at;
	int rc = is_running(u) ? -EBUSY : usched__frames(u, (uintptr_t)address, n, &at);

	if (rc == 0)
		memcpy(buffer, at, n);
	return rc;
}

int ustack_poke(struct ustack *u, void *address, const void *buffer, size_t n)
{
	char *at;
	int rc = is_running(u) ? -EBUSY : usched__frames(u, (uintptr_t)address, n, &at);

	if (rc == 0)
		memcpy(at, buffer, n);
	return rc;
}

const void *ustack_where(const struct ustack *u)
{
	return is_running(u) ? NULL : usched__where(u);
}
