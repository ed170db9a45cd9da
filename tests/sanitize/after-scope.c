/* SPDX-License-Identifier: MIT */
/*
 * Follows a pointer to a local whose block has ended. It blocked in that, and after it.
 *
 * address: stack-use-after-scope in follow
 */
#include "plant.h"

static __attribute__((noinline)) void follow(void)
{
	volatile int outer[10] = { 0 }, *volatile kept = outer;

	for (int n = 0; n < ROUNDS; n++) {
		volatile int inner[10] = { n };

		kept = wrong ? inner : outer;
		block();
		kept[1] = inner[0];
		block();
	}
	block();
	kept[1] = 1;                            /* HERE */
}

static void thread(void *arg)
{
	(void)arg;
	follow();
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
