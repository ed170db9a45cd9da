/* SPDX-License-Identifier: MIT */
/*
 * uco_frames.h: the functions of uco_frames.c, with which uco.c exchanges frames.
 * Private. uco.c says what a record describes, and when.
 */
#ifndef USCHED_CO_FRAMES_H
#define USCHED_CO_FRAMES_H

#include "../../usched.h"

#pragma GCC visibility push(hidden)

/*
 * Switches the long way: exchanges the frames of the running thread with those of `c'.
 * Returns 0 when the caller's frames are resumed, or an error as ustack_block().
 */
int uco__exchange(struct ustack *c);

/* Exchanges the descriptions of frames in `u', the running thread, and in `c'. */
void uco__exchange_frames(struct usched *s, struct ustack *u, struct ustack *c);

/* Drops the running frames of a coroutine that has ended, and goes on with the resumer's
   frames, which `c' describes. */
void uco__leave_frames(struct ustack *c);

/*
 * Loads the frames of `c'. If `c' is new, gives `c' a stack, on which frames begin as if
 * they had been suspended. Returns 1; 0: the frames belong on the running thread's stack.
 */
int uco__bring(struct usched *s, struct ustack *c);

/* Reserves an image for the suspended frames of `c', which reach down to `top' (R4).
   Returns 0; -ENOMEM: no memory; -EFAULT: `top' is not on the stack of `c'. */
int uco__fit_frames(struct usched *s, struct ustack *c, char *top);

/* Drops the frames of `c', whose image may have been allocated for the thread `u'. */
void uco__drop_frames(struct ustack *c, struct ustack *u);

#pragma GCC visibility pop

#endif /* USCHED_CO_FRAMES_H */
