/* SPDX-License-Identifier: MIT */
/*
 * Reads a number from an odd address. Not a volatile one, which clang does not look at.
 *
 * undefined: load of misaligned address
 */
#include "plant.h"

static void thread(void *arg)
{
	int array[4] = { 0 };
	int *p = (void *)((char *)array + wrong);

	(void)arg;
	for (int n = 0; n < ROUNDS; n++)
		block();
	if (*p)                                 /* HERE */
		puts("not zero");
}

int main(int argc, char **argv)
{
	return plant(argc, argv, thread);
}
