/* SPDX-License-Identifier: MIT */
/*
 * test_uposix.h: times, for the tests of posix/. It comes after the headers of libc.
 */
#ifndef USCHED_TEST_UPOSIX_H
#define USCHED_TEST_UPOSIX_H

#include <time.h>

#define MS 1000000L

static inline struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * MS;
	if (t.tv_nsec >= 1000 * MS) {
		t.tv_sec++;
		t.tv_nsec -= 1000 * MS;
	}
	return t;
}

static inline long ms_since(const struct timespec *from)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec - from->tv_sec) * 1000 + (t.tv_nsec - from->tv_nsec) / MS;
}

#endif /* USCHED_TEST_UPOSIX_H */
