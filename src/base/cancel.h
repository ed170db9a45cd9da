/* SPDX-License-Identifier: MIT */
/*
 * cancel.h: pthread_cancel(). No call of the library is a cancellation point: if a native
 * thread ended there, locks would stay held, and waiters would stay in queues. So
 * cancellation is disabled around system calls that are cancellation points, and around
 * native waits. The native threads of processors are never cancelled.
 *
 * Whether cancellation is disabled is a state of the native thread. So no thread may
 * block while cancellation is disabled.
 */
#ifndef USCHED_CANCEL_H
#define USCHED_CANCEL_H

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* Disables cancellation. Returns the previous state, for allow_cancel(). */
static inline int defer_cancel(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void allow_cancel(int before)
{
	pthread_setcancelstate(before, NULL);
}

/* Closes a descriptor by close(2). Returns 0, or a negative errno value. */
static inline int close_deferred(int fd)
{
	int before = defer_cancel(), rc = close(fd) ? -errno : 0;

	allow_cancel(before);
	return rc;
}

#endif /* USCHED_CANCEL_H */
