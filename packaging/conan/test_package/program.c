/* SPDX-License-Identifier: MIT */
/* program.c: two threads run, and the second one is joined by the first. */
#include <usched/rr.h>

static int runs;

static void second(void *unused)
{
	(void)unused;
	runs++;
}

static void first(void *unused)
{
	struct ustack *u;

	(void)unused;
	if (ustack_start(second, NULL, &u) == 0
	    && ustack_join(u, NULL, USCHED_NEVER) == 0)
		runs++;
}

int main(void)
{
	struct uprocs *rr;

	if (rr_create(NULL, &rr) || rr_start(rr, first, NULL, NULL)
	    || uprocs_destroy(rr, USCHED_NEVER))
		return 1;
	return runs != 2;
}
