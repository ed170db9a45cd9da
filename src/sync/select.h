/* SPDX-License-Identifier: MIT */
/*
 * select.h: what usync_select.c, in src/net, shares with channels and with descriptors:
 * the results of an attempt and of a wait, and the place of a thread in the queue of a
 * descriptor. Private. The place in the queue of a channel begins with the same struct.
 */
#ifndef USCHED_SELECT_H
#define USCHED_SELECT_H

#include "../../uwait.h"

/* A place in the queue of a descriptor. */
struct net_place {
	struct uwait_place np_base;     /* first */
	unsigned           np_ways;     /* UEVENTS_INPUT etc. that end the wait */
};

/* Results of an attempt that are neither 0 nor errors. */
enum {
	SELECT_BUSY  = 1,               /* the case has to wait */
	SELECT_TIRED = 2,               /* other threads have to run first */
};

/* Results of a wait. If a channel ends the wait by case i: SELECT_RESULTS + i. */
enum {
	SELECT_READY   = 0,             /* a descriptor is ready */
	SELECT_CLOSED  = 1,             /* a descriptor was closed */
	SELECT_RESULTS = 2,
};

#endif /* USCHED_SELECT_H */
