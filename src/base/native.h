/* SPDX-License-Identifier: MIT */
/* native.h: native threads of the library. Private. */
#ifndef USCHED_NATIVE_H
#define USCHED_NATIVE_H

#include <pthread.h>
#include <signal.h>

/* The calling one's, for debuggers and ps: up to 15 characters. */
static inline void name_native(const char *name)
{
#ifdef __linux__
	pthread_setname_np(pthread_self(), name);
#else
	(void)name;
#endif
}

/*
 * Starts one that handles no signals: these are for native threads of the program.
 * 0; -EAGAIN: no more of them.
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
