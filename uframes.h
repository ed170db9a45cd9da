/* SPDX-License-Identifier: MIT */
/*
 * uframes.h: whose an address on a stack is, and how to reach the frames of threads that are
 * blocked: for debuggers, collectors of garbage, checks of one's own. Programs that follow
 * the rule of usched.h need none of it.
 *
 * In builds of the library with -DUSCHED_CHECK or -DUSCHED_STRESS the calls of usync.h,
 * unet.h and uoffload.h look at what they are given: an object that is shared, such as a
 * mutex, must not be on a stack on which threads run, and a buffer must not be in another
 * thread's frames or where nobody's are. Otherwise they say so on standard error, and
 * abort the program.
 *
 * All are for the dispatcher's native thread, and none switches.
 */
#ifndef USCHED_FRAMES_H
#define USCHED_FRAMES_H

#include <stddef.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

enum usched_place {
	USCHED_ELSEWHERE,       /* on none of the stacks */
	USCHED_MINE,            /* in the frames of the thread that runs */
	USCHED_THEIRS,          /* in those of one that is blocked, and resident */
	USCHED_NOBODYS,         /* on a stack, but nothing there is alive: a thread was evicted
				   from there, or has returned from there, or ended */
	USCHED_REMOTE,          /* on a stack of another processor of rr or ll */
};

/*
 * Where an address is among the stacks of the dispatcher that runs on this native thread,
 * of several the innermost; outside of usched_run(), USCHED_ELSEWHERE. `whose', unless
 * NULL, gets the thread if it is MINE or THEIRS, else NULL. Below what threads on the native
 * stack have reached when they blocked is ELSEWHERE, but for the frames of the one that
 * runs, and so are the native stacks of other processors. Not for signal handlers.
 */
enum usched_place usched_onstack(const void *address, struct ustack **whose);

/*
 * Copies n bytes from the frames of a blocked thread, where `address' is what it was for
 * the thread, or to them. They are found where they are now: in place or in its image.
 * 0; with nothing copied -EFAULT: some are not in its frames; -EBUSY: it is running, or in
 * s_next; -EINVAL: it has not begun to run, or has ended.
 */
int ustack_peek(const struct ustack *u, const void *address, void *buffer, size_t n);
int ustack_poke(struct ustack *u, void *address, const void *buffer, size_t n);

/*
 * The address to which the call that blocked a thread will return. In builds without
 * optimization (gcc: below -O2), or for size, that is in the library: in ustack_block(),
 * or in the rest of ustack_wait() and the like. With it, it is in the program, unless the
 * thread waits in usync.h, unet.h or a join, or has exceptions of C++ in flight.
 * NULL: it is running, is new, has ended; or with the portable switch, always.
 */
const void *ustack_where(const struct ustack *u);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_FRAMES_H */
