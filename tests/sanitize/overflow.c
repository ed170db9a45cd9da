/* SPDX-License-Identifier: MIT */
/*
 * Writes past the end of an array in a frame that was moved out and in.
 *
 * address: stack-buffer-overflow in overflow
 */
#include "plant.h"

enum { SIZE = 100 };

static __attribute__((noinline)) void overflow(void)
{
	volatile char array[SIZE], *volatile last = &array[SIZE - 1];

	for (int n = 0; n < ROUNDS; n++) {
		for (int i = 0; i < SIZE; i++)
			array[i] = (char)n;
		block();
		EXPECT(array[SIZE / 2] == n);
	}
	last[wrong] = 1;                        /* HERE */
}

static void thread(void *arg)
{
	(void)arg;
	overflow();
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
