/* SPDX-License-Identifier: MIT */
/*
 * Adds to the largest number there is.
 *
 * undefined: signed integer overflow
 */
#include <limits.h>

#include "plant.h"

static void thread(void *arg)
{
	volatile int n = INT_MAX - 1 + wrong;

	(void)arg;
	for (int i = 0; i < ROUNDS; i++)
		block();
	n = n + 1;                              /* HERE */
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
