/* SPDX-License-Identifier: MIT */
/*
 * Threads, one after the other, of which half are aborted while they are blocked. Each is
 * a fiber with kilobytes of its own to a sanitizer, which must not be left behind. There
 * is no bug in this one.
 */
#include <sys/resource.h>

#include "plant.h"

enum { SCHEDULERS = 50, BATCHES = 10, BATCH = 10, LEFT_BEHIND = 48 << 10 };    /* KiB */

static void thread(void *arg)
{
	volatile char frame[100];

	(void)arg;
	frame[0] = 1;
	block();
	EXPECT(frame[0] == 1);
}

static void wait_for_ever(void *arg)
{
	(void)arg;
	check(ustack_wait());
}

static void ignore(const char *line)
{
	(void)line;
}

static long resident_set(void)
{
	struct rusage usage;

	EXPECT(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_maxrss;
}

/* What those leave that end is taken by the next. */
static void run_batch(struct uprocs *rr)
{
	struct ustack *u[BATCH];

	for (int i = 0; i < BATCH; i++) {
		check(rr_start(rr, thread, NULL, &u[i]));
		check(rr_start(rr, wait_for_ever, NULL, NULL));
	}
	for (int i = 0; i < BATCH; i++)
		check(ustack_join(u[i], NULL, USCHED_NEVER));
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = configure(argc, argv);
	struct uprocs *rr;
	long before = 0;

	conf.c_log = ignore;
	if (conf.c_stacks == 1)
		conf.c_stacks = 3;      /* frames are moved on another stack than SP's */
	for (int n = 0; n < SCHEDULERS; n++) {
		if (n == SCHEDULERS / 10)
			before = resident_set();
		check(rr_create(&conf, &rr));
		for (int k = 0; k < BATCHES; k++)
			run_batch(rr);
		EXPECT(uprocs_destroy(rr, USCHED_NEVER) == -EDEADLK);
	}
	EXPECT(resident_set() - before < LEFT_BEHIND);
	return 0;
}
