/* SPDX-License-Identifier: MIT */
/*
 * Writes past the end of what was allocated, before a block.
 *
 * address: heap-buffer-overflow in overflow
 * memcheck: Invalid write of size 1 in overflow
 */
#include "plant.h"

enum { SIZE = 100 };

static __attribute__((noinline)) void overflow(volatile char *array)
{
	for (int n = 0; n < ROUNDS; n++) {
		array[SIZE - 1] = (char)n;
		block();
	}
	array[SIZE - 1 + wrong] = 1;            /* HERE */
}

static void thread(void *arg)
{
	char *array = malloc(SIZE);

	(void)arg;
	if (array)
		overflow(array);
	free(array);
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
