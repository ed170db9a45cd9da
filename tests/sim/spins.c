/* SPDX-License-Identifier: MIT */
/*
 * spins.c: Peterson's lock, whose threads spin on memory. It is compiled with
 * -fsanitize=thread: no strategy lets one spin for ever.
 */
#include <stdatomic.h>

#include "check.h"

atomic_int turn;                        /* clang 14 makes a static one a local one */
static atomic_int wants[2];
static int counter;

static void *count(void *arg)
{
	int me = (int)(intptr_t)arg;

	for (int i = 0; i < 2; i++) {
		int before;

		atomic_store(&wants[me], 1);
		atomic_store(&turn, 1 - me);
		while (atomic_load(&wants[1 - me]) && atomic_load(&turn) == 1 - me)
			;
		before = counter;
		counter = before + 1;
		atomic_store(&wants[me], 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t one = started(count, (void *)0), other = started(count, (void *)1);

	CHECK(pthread_join(one, NULL) == 0);
	CHECK(pthread_join(other, NULL) == 0);
	CHECK(counter == 4);
	return 0;
}
