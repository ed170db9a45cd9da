/* SPDX-License-Identifier: MIT */
/*
 * wait.h: what uwait.c, uwait_native.c and uwait_scope.c share. Private. The states are
 * drawn in uwait.c.
 */
#ifndef USCHED_PRIVATE_WAIT_H
#define USCHED_PRIVATE_WAIT_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "../../uwait.h"
#include "../base/sim.h"

#define WAIT_PRIVATE __attribute__((visibility("hidden")))

enum { IDLE, WAITING, WAKING, AWAKE, GIVING, LOOKED };

enum { SPINS = 100 };                   /* then the holder may need this CPU */

/* In a simulation it is a thread that waits for another one. */
static inline void relax(unsigned *spins)
{
	if (SIMULATED)
		sim__spins(__func__);
	else if (++*spins % SPINS == 0)
		sched_yield();
}

/* uwait.c */
WAIT_PRIVATE int uwait__late(const struct uwaiter *w);
WAIT_PRIVATE int uwait__outcome(struct uwaiter *w, struct uwait_lock *lock,
				struct uwait_queue *q);
WAIT_PRIVATE void uwait__free_more(struct uwaiter *w);

/* uwait_native.c: the waiters of native threads. */
struct uwait_native {
	struct uwaiter  n_waiter;       /* first */
	struct uevents *n_events;       /* or NULL */
	bool            n_polls;        /* waits for these, and not for n_granted */
	pthread_mutex_t n_lock;
	pthread_cond_t  n_granted;
};

static inline struct uwait_native *native_of(struct uwaiter *w)
{
	return (struct uwait_native *)(void *)w;
}

/* The caller's, made by its first wait; NULL: no memory. */
WAIT_PRIVATE struct uwaiter *uwait__native(void);

WAIT_PRIVATE int uwait__block_natively(struct uwaiter *w, struct uwait_lock *lock,
				       struct uwait_queue *q);

/* uwait_scope.c */
WAIT_PRIVATE int uwait__look_around(struct uwaiter *w);
WAIT_PRIVATE int uwait__end_of(const struct uwaiter *w);
WAIT_PRIVATE bool uwait__has_ended(const struct uwaiter *w);
WAIT_PRIVATE void uwait__look_back(struct uwaiter *w);
WAIT_PRIVATE void uwait__leave_scopes(struct uwaiter *w);

#endif /* USCHED_PRIVATE_WAIT_H */
