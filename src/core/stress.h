/* SPDX-License-Identifier: MIT */
/*
 * stress.h: whether rare things are to happen each time, to find mistakes in programs.
 * Then a thread is evicted whenever another thread runs, gets a new image each time, and
 * has the vacated frames overwritten. Any runnable thread may be next. Builds with
 * USCHED_CHECK do so if USCHED_STRESS is in the environment and does not begin with 0.
 * Private.
 */
#ifndef USCHED_STRESS_H
#define USCHED_STRESS_H

#ifdef USCHED_CHECK
#include "outside.h"

static inline int stressed(void)
{
	const char *given = outside_setting("USCHED_STRESS");

	return given && given[0] && given[0] != '0';
}
#else
#define stressed() 0
#endif

#endif /* USCHED_STRESS_H */
