/* SPDX-License-Identifier: MIT */
/*
 * deep.c: fails in one order only, in which two threads take turns, each at a place of
 * its own. It is compiled with -fsanitize=thread, for the strategy "depth".
 */
#include <stdint.h>

#include "check.h"

static volatile int asked, answered;

#define ASK(i)								\
	asked = i;							\
	if (answered != i)						\
		return unused;

#define ANSWER(i)							\
	if (asked != i)							\
		return unused;						\
	answered = i;

static void *ask(void *unused)
{
	ASK(1) ASK(2) ASK(3) ASK(4) ASK(5) ASK(6)
	abort();
}

static void *answer(void *unused)
{
	ANSWER(1) ANSWER(2) ANSWER(3) ANSWER(4) ANSWER(5) ANSWER(6)
	return unused;
}

int main(void)
{
	pthread_t one = started(ask, NULL), other = started(answer, NULL);

	CHECK(pthread_join(one, NULL) == 0);
	CHECK(pthread_join(other, NULL) == 0);
	return 0;
}
