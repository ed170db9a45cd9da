/* SPDX-License-Identifier: MIT */
/*
 * Follows a pointer to a local of a function that has returned. It blocked there, and
 * does so after.
 *
 * returns: stack-use-after-return in follow
 */
#include "plant.h"

static int keep = 1;
static int *volatile kept;

static __attribute__((noinline)) void give_away(void)
{
	volatile int local[10] = { 1 };

	kept = wrong ? (int *)&local[5] : &keep;
	block();
	local[5] = 1;
	block();
}

static __attribute__((noinline)) void follow(void)
{
	block();
	*kept = 2;                              /* HERE */
	block();
}

static void thread(void *arg)
{
	(void)arg;
	for (int n = 0; n < ROUNDS; n++) {
		give_away();
		follow();
	}
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
