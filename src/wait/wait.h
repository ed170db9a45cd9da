/* SPDX-License-Identifier: MIT */
/*
 * wait.h: what uwait.c, uwait_native.c, uwait_scope.c and ustack_join.c share. Private.
 * The states are drawn in uwait.c.
 */
#ifndef USCHED_PRIVATE_WAIT_H
#define USCHED_PRIVATE_WAIT_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "../../uwait.h"
#include "../base/sim.h"

#define WAIT_PRIVATE __attribute__((visibility("hidden")))

enum { WAIT_IDLE, WAIT_WAITING, WAIT_WAKING, WAIT_AWAKE, WAIT_GIVING, WAIT_LOOKED };

enum { WAIT_SPINS = 100 };              /* then the holder may need this CPU */

/* In a simulation it is a thread that waits for another one. */
static inline void relax(unsigned *spins)
{
	if (SIMULATED)
		sim__spins(__func__);
	else if (++*spins % WAIT_SPINS == 0)
		sched_yield();
}

/* uwait.c */
WAIT_PRIVATE int uwait__late(const struct uwaiter *w);
WAIT_PRIVATE int uwait__outcome(struct uwaiter *w, struct uwait_lock *lock,
				struct uwait_queue *q);
WAIT_PRIVATE void uwait__free_more(struct uwaiter *w);
WAIT_PRIVATE void uwait__expect(struct uwaiter *w);

/* The wait is over, or never began. */
static inline void uncount(struct uwaiter *w)
{
	if (!w->w_counted)
		return;
	w->w_counted = false;
	uevents_count(usched__of(w->w_thread)->s_events, -1);
}

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
