/* SPDX-License-Identifier: MIT */
/*
 * threads.h: native threads with the smallest stack there may be. They have no guard page:
 * each would be one mapping more, of which a process may have 65530 by default.
 */
#ifndef THREADS_H
#define THREADS_H

#include "../c/peer.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

static inline void check(int error, const char *what)
{
	if (error == EAGAIN || error == ENOMEM)
		fail("not enough memory for so many native threads");
	if (error)
		fail(what);
}

static inline void small_stacks(pthread_attr_t *attr)
{
	check(pthread_attr_init(attr), "pthread_attr_init");
	check(pthread_attr_setstacksize(attr, (size_t)PTHREAD_STACK_MIN), "stack size");
	check(pthread_attr_setguardsize(attr, 0), "guard size");
}

/* Waits for a semaphore; a signal may interrupt that. */
static inline void down(sem_t *sem)
{
	while (sem_wait(sem))
		if (errno != EINTR)
			fail("sem_wait");
}

static inline void up(sem_t *sem)
{
	if (sem_post(sem))
		fail("sem_post");
}

#endif
