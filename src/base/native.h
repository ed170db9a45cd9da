/* SPDX-License-Identifier: MIT */
/* native.h: starts and names native threads of the library. Private. */
#ifndef USCHED_NATIVE_H
#define USCHED_NATIVE_H

#include <pthread.h>
#include <signal.h>

/* Names the calling native thread, for debuggers and ps: up to 15 characters. */
static inline void name_native(const char *name)
{
#ifdef __linux__
	pthread_setname_np(pthread_self(), name);
#else
	(void)name;
#endif
}

/*
 * Starts a native thread that handles no signals, because signals are for the native
 * threads of the program. Returns 0, or -EAGAIN if the system allows no more.
 */
static inline int start_native(pthread_t *native, void *(*func)(void *), void *arg)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(native, NULL, func, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

#endif /* USCHED_NATIVE_H */
