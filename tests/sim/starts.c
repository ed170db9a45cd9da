/* SPDX-License-Identifier: MIT */
/*
 * A start of a thread is no step, and a thread that makes many calls without a wait does
 * not yield: so a hundred threads can be at one place before the first of them goes on.
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
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		threads[i] = started(begin, NULL);
	CHECK(begun == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	return begun != THREADS;
}
