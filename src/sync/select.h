/* SPDX-License-Identifier: MIT */
/*
 * select.h: what usync_select.c asks of unet_poll.c for the descriptors of a select.
 * Private. Directions: 0 to read, 1 to write.
 */
#ifndef USCHED_SELECT_H
#define USCHED_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../uwait.h"

/* A place in the queue of a descriptor. */
struct net_place {
	struct uwait_place p_base;      /* first */
	unsigned           p_ways;      /* events that end the wait, of uevents.h */
};

/* Results of an attempt, beside 0 and errors. */
enum {
	SELECT_BUSY  = 1,               /* the case has to wait */
	SELECT_TIRED = 2,               /* other threads have to run first */
};

/* What ends a wait in the queue of a descriptor; a channel's results are above. */
enum {
	SELECT_READY   = 0,
	SELECT_CLOSED  = 1,
	SELECT_RESULTS = 2,
};

#define SELECT_PRIVATE __attribute__((visibility("hidden")))

/* Sets the generation that the select keeps to. 0; -ENOMEM. */
SELECT_PRIVATE int unet__select_begin(int fd, uint32_t *generation);

/*
 * 0: it is ready; -EBADF: it was closed; SELECT_BUSY; SELECT_TIRED, if this counts; an
 * error. Asks the system only if that may be so, or the deadline is 0.
 */
SELECT_PRIVATE int unet__select_try(struct uwaiter *w, int fd, int direction,
				    uint32_t generation, int64_t deadline, bool counts);

/* Enters the queue. -EAGAIN: it may be ready; -EBADF; an error. */
SELECT_PRIVATE int unet__select_enter(struct net_place *p, int fd, int direction,
				      uint32_t generation);

/* Leaves the queue, if it is there. */
SELECT_PRIVATE void unet__select_leave(struct net_place *p, int fd, int direction);

#endif /* USCHED_SELECT_H */
