/* SPDX-License-Identifier: MIT */
/*
 * when.h: a time in ns as libc has it. Private. Where its time_t has 32 bits, as on most
 * machines with 32 bits, later times than it can count become the last one: 68 years
 * after the boot.
 */
#ifndef USCHED_WHEN_H
#define USCHED_WHEN_H

#include <stdint.h>
#include <time.h>

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

#endif /* USCHED_WHEN_H */
