/* SPDX-License-Identifier: MIT */
/*
 * wait.h: what the files of src/wait/ share with each other, and with those primitives
 * that are part of the library. Private. The states are drawn in uwait.c.
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

enum { WAIT_SPINS = 100 };              /* one sched_yield() in so many relax() calls */

/* Waits a moment for another thread; in a simulation, until that thread has run. */
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

/* Undoes uevents_count() for a wait that is over, or that never began. */
static inline void uncount(struct uwaiter *w)
{
	if (!w->w_counted)
		return;
	w->w_counted = false;
	uevents_count(usched__of(w->w_thread)->s_events, -1);
}

/*
 * Called in place of uwait_begin() if another processor is likely to end the wait soon.
 * After the unlock the caller calls uwait__linger().
 */
WAIT_PRIVATE void uwait__begin_awake(struct uwaiter *w);

/*
 * Waits for some microseconds without a block, if the scheduler has nothing else to do.
 * A grant in that time needs no wake.
 * Returns true: the wait is over, and w_result is the result; false: the wait goes on as
 * after uwait_begin(), and the caller calls uwait_block().
 */
WAIT_PRIVATE bool uwait__linger(struct uwaiter *w);

/* The caller has claimed `w'. Returns whether the thread of `w' is on another processor
   or is a native thread. */
WAIT_PRIVATE bool uwait__is_far(const struct uwaiter *w);

/* As uwait_pop(), for a queue of places. Returns the place, or NULL. */
WAIT_PRIVATE struct uwait_place *uwait__pop_place(struct uwait_queue *q);

/*
 * Sets *e to the events that will end a wait. `outside' was set in uwait_prepare(). A
 * thread uses the events of the dispatcher. A native thread has events of its own, which
 * the first such wait makes. Returns 0; -ENOMEM: no memory.
 */
WAIT_PRIVATE int uwait__events(struct uwaiter *w, struct uevents **e);

/* uwait_native.c: the waiters of native threads. */
struct uwait_native {
	struct uwaiter  wn_waiter;      /* first */
	struct uevents *wn_events;      /* NULL before the first wait for a descriptor */
	bool            wn_polls;       /* the thread sleeps in wn_events */
	pthread_mutex_t wn_lock;
	pthread_cond_t  wn_granted;
};

static inline struct uwait_native *native_of(struct uwaiter *w)
{
	return (struct uwait_native *)(void *)w;
}

/* Returns the waiter of the calling native thread. The first call makes the waiter. NULL:
   no memory. */
WAIT_PRIVATE struct uwaiter *uwait__native(void);

WAIT_PRIVATE int uwait__block_natively(struct uwaiter *w, struct uwait_lock *lock,
				       struct uwait_queue *q);

/* Waits as uwait_queue_up() does, but in front of all other waiters of the queue. */
WAIT_PRIVATE int uwait__queue_first(struct uwaiter *w, struct uwait_lock *lock,
				    struct uwait_queue *q);

/* ---- uwait_scope.c ---- */

/* The part of a scope that ends the waits of its threads and native threads. */
struct uwait_scope {
	struct uwait_lock  ws_lock;
	struct uwait_queue ws_members;  /* members, until they are told of the end */
	int64_t            ws_deadline; /* constant */
	int64_t            ws_ended;    /* atomic: time of the cancel; or USCHED_NEVER */
	void             (*ws_left)(struct uwait_member *m);    /* frees the member */
};

/* A thread or native thread in a scope. On the heap. */
struct uwait_member {
	struct uwait_node    wm_node;   /* first; in ws_members */
	struct uwait_scope  *wm_scope;
	struct uwaiter      *wm_waiter;
	struct uwait_member *wm_outer;  /* for the scope entered before; or NULL */
	int64_t              wm_deadline;       /* earliest of this and outer scopes */
	bool                 wm_shield; /* under ws_lock: the thread is shielded */
};

/*
 * The caller enters `p' as `m'. Returns 0; -ENOMEM: no memory; -ENOTSUP: `p' has a
 * deadline and the scheduler has no timers.
 */
WAIT_PRIVATE int uwait__enter(struct uwait_scope *p, struct uwait_member *m);

/* The caller leaves the scope entered last. Returns 0; -EPERM: there is no scope. */
WAIT_PRIVATE int uwait__leave(void);

/*
 * The caller has set ws_ended. Ends the waits of up to `n' members. Returns whether there
 * may be more members.
 */
WAIT_PRIVATE bool uwait__end_some(struct uwait_scope *p, unsigned n);

/* Returns why `p' has ended, -ECANCELED or -ETIMEDOUT; 0: it has not ended. */
WAIT_PRIVATE int uwait__scope_error(const struct uwait_scope *p);

WAIT_PRIVATE int uwait__look_around(struct uwaiter *w);
WAIT_PRIVATE int uwait__end_of(const struct uwaiter *w);
WAIT_PRIVATE bool uwait__has_ended(const struct uwaiter *w);
WAIT_PRIVATE void uwait__look_back(struct uwaiter *w);
WAIT_PRIVATE void uwait__leave_scopes(struct uwaiter *w);

#endif /* USCHED_PRIVATE_WAIT_H */
