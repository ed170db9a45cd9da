/* SPDX-License-Identifier: MIT */
/*
 * uwait_native.c: the waiters of native threads. A native thread has one from its first
 * wait to its end, as the value of a key. The thread sleeps by a condition, or, in a
 * wait for descriptors, in the poller. A granter sets IDLE under n_lock, and ends the
 * sleep that n_polls names.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE         /* CLOCK_MONOTONIC, pthread_condattr_setclock() */
#endif
#include <stdlib.h>

#include "../base/cancel.h"
#include "wait.h"
#include "../base/when.h"

/* The key of struct uwait_native. */
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t   native_key;
static int             key_made;        /* atomic; key_lock */

/* Frees the waiter of a native thread that ends. */
static void free_native(void *native)
{
	struct uwait_native *n = (struct uwait_native *)native;

	pthread_setspecific(native_key, n);     /* for destructors of keys */
	uwait__ops.a_end(&n->n_waiter.w_attachment);
	pthread_setspecific(native_key, NULL);
	if (n->n_events)
		n->n_events->e_close(n->n_events);
	pthread_cond_destroy(&n->n_granted);
	pthread_mutex_destroy(&n->n_lock);
	uwait__free_more(&n->n_waiter);
	free(n);
}

/* Makes the key. False: the process has no key left; the next caller tries again. */
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
		return &n->n_waiter;
	n = (struct uwait_native *)calloc(1, sizeof *n);
	if (!n || pthread_setspecific(native_key, n)) {
		free(n);
		return NULL;
	}
	n->n_waiter.w_outside = true;
	n->n_waiter.w_name = uwait_name();
	pthread_mutex_init(&n->n_lock, NULL);
	when_init_cond(&n->n_granted);
	return &n->n_waiter;
}

/* Closes, in the child of a fork, the poller that the parent uses, too. */
void uwait__forked(void)
{
	struct uwait_native *n = key_made
		? (struct uwait_native *)pthread_getspecific(native_key) : NULL;

	key_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (n && n->n_events)
		n->n_events->e_close(n->n_events);
	if (n)
		n->n_events = NULL;
}

/* Sleeps, with n_lock released meanwhile. False: the deadline has come. */
static bool sleep_native(struct uwait_native *n, int64_t deadline)
{
	struct timespec t = when_of(deadline);

	if (n->n_polls) {
		pthread_mutex_unlock(&n->n_lock);
		n->n_events->e_poll(n->n_events, deadline);
		pthread_mutex_lock(&n->n_lock);
		return deadline == USCHED_NEVER || uevents_now() < deadline;
	}
	if (deadline == USCHED_NEVER)
		return pthread_cond_wait(&n->n_granted, &n->n_lock) == 0;
	return pthread_cond_timedwait(&n->n_granted, &n->n_lock, &t) != ETIMEDOUT;
}

/* Blocks until w_state is IDLE, which is set under n_lock. */
int uwait__block_natively(struct uwaiter *w, struct uwait_lock *lock,
			struct uwait_queue *q)
{
	struct uwait_native *n = native_of(w);
	int before = defer_cancel();

	if (w->w_scoped)
		uwait__look_back(w);
	pthread_mutex_lock(&n->n_lock);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE)
		if (!sleep_native(n, w->w_deadline) && uwait_withdraw(w))
			w->w_result = uwait__late(w);
	pthread_mutex_unlock(&n->n_lock);
	allow_cancel(before);
	return uwait__outcome(w, lock, q);
}
