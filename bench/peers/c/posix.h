/* SPDX-License-Identifier: MIT */
/*
 * posix.h: native threads with the smallest possible stack. They have no guard page, as
 * it would be one mapping more: a process may have 65530 by default.
 */
#ifndef POSIX_H
#define POSIX_H

#include "peer.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
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

/*
 * Keeps all threads on so many processors, if there are as many. One is best where only
 * one thread can run at a time: it saves the wake of another processor, which is most of
 * a switch.
 */
static inline void use_processors(size_t count)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && count-- == 0)
			for (; cpu < CPU_SETSIZE; cpu++)
				CPU_CLR(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
}

/* Waits for a semaphore. A signal may interrupt sem_wait(). */
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
