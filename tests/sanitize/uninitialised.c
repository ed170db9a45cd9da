/* SPDX-License-Identifier: MIT */
/*
 * Decides on a local that was not initialised, though others have written to the same
 * place, since it was moved out and in.
 *
 * memory: use-of-uninitialized-value in decide
 * memcheck: Conditional jump or move depends on uninitialised value in decide
 */
#include "plant.h"

static __attribute__((noinline)) void decide(void)
{
	volatile int local[10];

	local[0] = 0;
	for (int n = 0; n < ROUNDS; n++)
		block();
	if (local[wrong])                       /* HERE */
		puts("not zero");
}

static void thread(void *arg)
{
	(void)arg;
	decide();
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
