/* SPDX-License-Identifier: MIT */
/*
 * A start of a thread is no step, and a thread that makes many calls without a wait does
 * not yield: so a hundred threads can be at one place before the first of them goes on.
 * One of them has a stack of the program.
 */
#include "check.h"

enum { THREADS = 100 };

static int begun;

static void *begin(void *unused)
{
	begun++;
	return unused;
}

int main(void)
{
	static char stack[1 << 16];
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, sizeof stack);
	CHECK(pthread_create(&threads[0], &attr, begin, NULL) == 0);
	for (int i = 1; i < THREADS; i++)
		threads[i] = started(begin, NULL);
	CHECK(begun == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return begun != THREADS;
}
