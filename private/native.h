/* SPDX-License-Identifier: MIT */
/* native.h: names of native threads, for debuggers and ps. Private. */
#ifndef USCHED_NATIVE_H
#define USCHED_NATIVE_H

#include <pthread.h>

/* The calling one's: up to 15 characters. */
static inline void name_native(const char *name)
{
#ifdef __linux__
	pthread_setname_np(pthread_self(), name);
#else
	(void)name;
#endif
}

#endif /* USCHED_NATIVE_H */
