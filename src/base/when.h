/* SPDX-License-Identifier: MIT */
/*
 * when.h: times in ns, mostly of CLOCK_MONOTONIC, and their form in libc. Private. Where
 * time_t has 32 bits, as on most machines with 32 bits, a time that does not fit becomes
 * the last time that fits, which is 68 years after the boot.
 */
#ifndef USCHED_WHEN_H
#define USCHED_WHEN_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "../../arch/arch.h"
#include "sim.h"

static inline struct timespec when_of(int64_t ns)
{
	int64_t seconds = ns / 1000000000;
	struct timespec t;

	if (sizeof t.tv_sec == sizeof(int32_t) && seconds > INT32_MAX)
		seconds = INT32_MAX;
	t.tv_sec = (time_t)seconds;
	t.tv_nsec = (long)(ns % 1000000000);
	return t;
}

static inline int64_t when_by(clockid_t clock)
{
	struct timespec t = { 0 };

	if (SIMULATED)
		return sim__time(clock);
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t when_now(void)
{
	return when_by(CLOCK_MONOTONIC);
}

/* Initializes a condition variable whose timed waits take what when_of() returns. */
static inline void when_init_cond(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

#endif /* USCHED_WHEN_H */
