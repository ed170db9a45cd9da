/* SPDX-License-Identifier: MIT */
/*
 * uco_frames.h: how uco.c exchanges frames: uco_frames.c. Private; uco.c says what a
 * record describes, and when.
 */
#ifndef USCHED_CO_FRAMES_H
#define USCHED_CO_FRAMES_H

#include "../../usched.h"

#pragma GCC visibility push(hidden)

/*
 * The long way: exchanges the frames of the running thread with those of `c', and returns
 * when they are resumed. 0; as ustack_block().
 */
int uco__exchange(struct ustack *c);

/* Exchanges what the records of the running thread and `c' say of frames. */
void uco__exchange_frames(struct usched *s, struct ustack *u, struct ustack *c);

/* The end of a coroutine, whose resumer's frames `c' has: these go on. */
void uco__leave_frames(struct ustack *c);

/*
 * Brings the frames of `c', or gives it a stack if it is new, where they begin as if they
 * were suspended. 1; 0: they belong where the running thread is.
 */
int uco__bring(struct usched *s, struct ustack *c);

/* Reserves an image for the suspended frames of `c' (R4). 0; -ENOMEM; -EFAULT. */
int uco__fit_frames(struct usched *s, struct ustack *c, char *top);

/* Drops the frames of `c', which may have images of `u'. */
void uco__drop_frames(struct ustack *c, struct ustack *u);

#pragma GCC visibility pop

#endif /* USCHED_CO_FRAMES_H */
