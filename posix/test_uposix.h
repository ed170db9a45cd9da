/* SPDX-License-Identifier: MIT */
/*
 * test_uposix.h: times and threads, for the tests of posix/. It comes after the headers
 * of libc.
 */
#ifndef USCHED_TEST_UPOSIX_H
#define USCHED_TEST_UPOSIX_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "../tests/help/test.h"

#define MS 1000000L

#define ok(call) assert_int_equal(call, 0)

/* Machines may be busy. */
#define UNTIL(what) do {				\
	bool is_ = what;				\
	for (int i_ = 0; i_ < 60000 && !is_; i_++) {	\
		nap(1);					\
		is_ = what;				\
	}						\
	assert_true(is_);				\
} while (0)

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

static inline void nap(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * MS }, NULL);
}

static inline pthread_t start(void *(*func)(void *), void *arg)
{
	pthread_t t;

	ok(pthread_create(&t, NULL, func, arg));
	return t;
}

#endif /* USCHED_TEST_UPOSIX_H */
