/* SPDX-License-Identifier: MIT */
/*
 * select.h: what usync_select.c shares with channels and with descriptors: the results of
 * an attempt, and the place of a thread in the queue of a descriptor, with which a place
 * in the queue of a channel begins. Private. usync_select.c is above, in src/net.
 */
#ifndef USCHED_SELECT_H
#define USCHED_SELECT_H

#include "../../uwait.h"

/* A place in the queue of a descriptor. */
struct net_place {
	struct uwait_place np_base;     /* first */
	unsigned           np_ways;     /* events that end the wait, of uevents.h */
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

#endif /* USCHED_SELECT_H */
