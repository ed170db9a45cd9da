/* SPDX-License-Identifier: MIT */
/*
 * calls.h: the calls that a thread is in, as it finds them itself and as a visitor does.
 */
#ifndef USCHED_TEST_CALLS_H
#define USCHED_TEST_CALLS_H

#include "where.h"

#if defined(__GLIBC__)
#include <execinfo.h>
#else
/* No unwinder: nothing is found. */
static inline int backtrace(void **frames, int n)
{
	(void)frames;
	(void)n;
	return 0;
}
#endif

struct calls {
	void *c_frames[64];
	int   c_count;
};

/* Those of the caller, from itself or a function that it has called. */
static inline void test_take_calls(struct calls *calls)
{
	calls->c_count = backtrace(calls->c_frames, 64);
}

/*
 * What a visitor has seen ends with the thread's `own' calls, from the function that has
 * blocked. It is between `start' and `stop'. Sanitizers have a backtrace() of their own.
 */
static inline void test_same_calls(const struct calls *own, const struct calls *seen,
				   const char *start, const char *stop)
{
	int first = 0, above;

	if (own->c_count < 3)
		return;                         /* no unwinder here */
	while ((char *)own->c_frames[first] < start
	       || (char *)own->c_frames[first] > stop)
		TEST_TRUE(++first < own->c_count);
	above = seen->c_count - (own->c_count - first);
	TEST_TRUE(above > 0);
	TEST_TRUE(((char *)seen->c_frames[above] - 1 >= start
		   && (char *)seen->c_frames[above] - 1 <= stop) || !test_tail_calls());
	while (++first < own->c_count)
		TEST_TRUE(seen->c_frames[++above] == own->c_frames[first]);
}

#endif /* USCHED_TEST_CALLS_H */
