/* SPDX-License-Identifier: MIT */
/*
 * utoken.h: the short ways of wait and wake, which rr.h and ll.h inline into the programs
 * that use them: most of what threads tell each other is said with them alone. Private
 * to these, and to other schedulers over uproc.h.
 *
 * Only a thread's own processor touches u_tokens, so a token costs an addition. Below
 * zero there is more to do: uproc.h says what.
 */
#ifndef USCHED_TOKEN_H
#define USCHED_TOKEN_H

#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes a token of `self'. 0: there was none, or self is NULL. */
USCHED_INLINE int utoken_take(struct ustack *self)
{
	if (!self || self->u_tokens <= 0)
		return 0;
	self->u_tokens--;
	return 1;
}

/*
 * Gives a token to `u', which is of this processor. 0: uproc_wake() has to do the rest,
 * as u_tokens was below zero, or would be too large.
 */
USCHED_INLINE int utoken_give(struct ustack *u)
{
	if (u->u_tokens < 0 || u->u_tokens == INT32_MAX)
		return 0;
	u->u_tokens++;
	return 1;
}

/* Gives a token to a thread of another processor, or from elsewhere. As rr_wake(). */
int utoken_send(struct ustack *u);

/* After the long way of wait has failed: the calling thread does not wait. Returns rc. */
int utoken_stay(int rc);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_TOKEN_H */
