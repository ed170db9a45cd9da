/* SPDX-License-Identifier: MIT */
/*
 * test_look.c: timers come in time though threads compute: two wake each other after a
 * millisecond each, and a third sleeps. Counts dispatches, not time.
 */
#include "../../uprocs.h"
#include "../../uevents.h"
#include "../../usync.h"
#include "../help/over.h"

#include <stdbool.h>

enum {
	MILLI  = 1000000,               /* ns */
	SLEEP  = 5,                     /* milliseconds, and so dispatches */
	SLEEPS = 12,
	FIRST  = 4,                     /* sleeps until looks have found their time */
	SPARE  = 20,                    /* dispatches: by these alone it would be 64 */
};

static struct ustack *pair[2];
static unsigned dispatches, worst;
static bool stop;

static void compute(void *other)
{
	struct ustack **right = other;

	while (!stop) {
		int64_t end = uevents_now() + MILLI;

		while (uevents_now() < end)
			;
		dispatches++;
		TEST_EQUAL(ustack_wake(*right), 0);
		TEST_EQUAL(ustack_wait(), 0);
	}
	ustack_wake(*right);
}

static void sleep_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < SLEEPS; i++) {
		unsigned before = dispatches;

		TEST_EQUAL(usync_sleep_until(usync_after(SLEEP * MILLI)), 0);
		if (i >= FIRST && dispatches - before > worst)
			worst = dispatches - before;
	}
	stop = true;
}

static void start_all(void *s)
{
	TEST_EQUAL(over->o_start(s, compute, &pair[1], &pair[0]), 0);
	TEST_EQUAL(over->o_start(s, compute, &pair[0], &pair[1]), 0);
	TEST_EQUAL(over->o_start(s, sleep_often, NULL, NULL), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(ustack_join(pair[i], NULL, USCHED_NEVER), 0);
}

TEST(test_timely)
{
	static const struct uprocs_conf conf = { .c_processors = 1 };
	void *s;

	stop = false;
	dispatches = worst = 0;
	assert_int_equal(over->o_create(&conf, &s), 0);
	assert_int_equal(over->o_start(s, start_all, s, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
	assert_in_range(worst, 1, SLEEP + SPARE);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
