/* SPDX-License-Identifier: MIT */
/*
 * uwait_native.c: the waiters of native threads. From its first wait to its end a native
 * thread has a waiter, which is the value of a key. The thread waits for the condition
 * wn_granted or, if wn_polls is set, sleeps in the poller of wn_events. A granter sets
 * w_state to WAIT_IDLE under wn_lock, and wakes the thread.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include <stdlib.h>

#include "../base/cancel.h"
#include "wait.h"
#include "../base/when.h"

/* The key whose value is the struct uwait_native of a native thread. */
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t   native_key;
static int             key_made;        /* atomic; written under key_lock */

/* Frees the waiter of a native thread that ends. */
static void free_native(void *native)
{
	struct uwait_native *n = (struct uwait_native *)native;

	pthread_setspecific(native_key, n);     /* so that destructors find it */
	uwait__ops.ao_end(&n->wn_waiter.w_attachment);
	pthread_setspecific(native_key, NULL);
	if (n->wn_events)
		n->wn_events->e_close(n->wn_events);
	pthread_cond_destroy(&n->wn_granted);
	pthread_mutex_destroy(&n->wn_lock);
	uwait__free_more(&n->wn_waiter);
	free(n);
}

/* Makes the key, unless the key exists. Returns false if the process has no key left.
   Then the next caller tries again. */
static bool make_key(void)
{
	bool made;

	pthread_mutex_lock(&key_lock);
	made = key_made || pthread_key_create(&native_key, free_native) == 0;
	__atomic_store_n(&key_made, made, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&key_lock);
	return made;
}

struct uwaiter *uwait__native(void)
{
	struct uwait_native *n;

	if (!__atomic_load_n(&key_made, __ATOMIC_ACQUIRE) && !make_key())
		return NULL;
	n = (struct uwait_native *)pthread_getspecific(native_key);
	if (n)
		return &n->wn_waiter;
	n = (struct uwait_native *)calloc(1, sizeof *n);
	if (!n || pthread_setspecific(native_key, n)) {
		free(n);
		return NULL;
	}
	n->wn_waiter.w_outside = true;
	n->wn_waiter.w_name = uwait_name();
	pthread_mutex_init(&n->wn_lock, NULL);
	when_init_cond(&n->wn_granted);
	return &n->wn_waiter;
}

/* In the child of a fork, closes the caller's poller, which the parent uses, too. */
void uwait__forked(void)
{
	struct uwait_native *n = key_made
		? (struct uwait_native *)pthread_getspecific(native_key) : NULL;

	key_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (n && n->wn_events)
		n->wn_events->e_close(n->wn_events);
	if (n)
		n->wn_events = NULL;
}

/* Sleeps, and releases wn_lock meanwhile. Returns false if the deadline has come. */
static bool sleep_native(struct uwait_native *n, int64_t deadline)
{
	struct timespec t = when_of(deadline);

	if (n->wn_polls) {
		pthread_mutex_unlock(&n->wn_lock);
		n->wn_events->e_poll(n->wn_events, deadline);
		pthread_mutex_lock(&n->wn_lock);
		return deadline == USCHED_NEVER || uevents_now() < deadline;
	}
	if (deadline == USCHED_NEVER)
		return pthread_cond_wait(&n->wn_granted, &n->wn_lock) == 0;
	return pthread_cond_timedwait(&n->wn_granted, &n->wn_lock, &t) != ETIMEDOUT;
}

/* Blocks until a granter, under wn_lock, sets w_state to WAIT_IDLE, or the deadline. */
int uwait__block_natively(struct uwaiter *w, struct uwait_lock *lock,
			struct uwait_queue *q)
{
	struct uwait_native *n = native_of(w);
	int before = defer_cancel();

	if (w->w_scoped)
		uwait__look_back(w);
	pthread_mutex_lock(&n->wn_lock);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE)
		if (!sleep_native(n, w->w_deadline) && uwait_withdraw(w))
			w->w_result = uwait__late(w);
	pthread_mutex_unlock(&n->wn_lock);
	allow_cancel(before);
	return uwait__outcome(w, lock, q);
}
