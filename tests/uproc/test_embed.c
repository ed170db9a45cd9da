/* SPDX-License-Identifier: MIT */
/*
 * test_embed.c: schedulers inside an event loop that is not theirs: timers, sockets,
 * other native threads, and the loop itself.
 */
#include "../help/embed.h"

#include <errno.h>

#include "../../uoffload.h"

/* ---- Time ---- */

/* A turn for each sleep and each look at nothing, with some to spare. */
static void sleeps(void)
{
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(over->o_start(embedded, sleep_often, NULL, NULL), 0);
	TEST_TRUE(loop(3) >= 0);
	TEST_TRUE(turns <= 3 * SLEEPS * 4);
	finish();
}

static void sleep_long(void *arg)
{
	*(int *)arg = usync_sleep_until(usync_after(3600 * USYNC_SECOND));
	done++;
}

/* The next timer is far away, then near, then disarmed. */
static void timers(void)
{
	static int rc;
	struct ustack *u;
	int fd;

	u = go(sleep_long, &rc);
	fd = loop(0);
	TEST_TRUE(fd >= 0);
	TEST_EQUAL(over->o_start(embedded, sleep_often, NULL, NULL), 0);
	TEST_EQUAL(loop(1), fd);
	TEST_EQUAL(ustack_cancel(u), 0);
	TEST_EQUAL(loop(2), fd);
	TEST_EQUAL(rc, -ECANCELED);
	TEST_EQUAL(ustack_detach(u), 0);
	finish();
}

/* A native thread joins for a time, and sleeps as no event comes. */
static void late(void)
{
	static int rc;
	struct ustack *u = go(sleep_long, &rc);

	TEST_EQUAL(ustack_join(u, NULL, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(ustack_cancel(u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(rc, -ECANCELED);
	finish();
}

static void yield_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < SLEEPS; i++)
		TEST_EQUAL(ustack_yield(), 0);
	done++;
}

/* One call runs all that is ready, unless its millisecond is over. */
static void yields(void)
{
	int64_t began = uevents_now();

	for (int i = 0; i < 3; i++)
		TEST_EQUAL(over->o_start(embedded, yield_often, NULL, NULL), 0);
	TEST_TRUE(loop(3) >= 0);
	TEST_TRUE(turns == 0 || uevents_now() >= began + MILLI);
	finish();
}

TEST_CASE(test_sleeps, each, sleeps)
TEST_CASE(test_timers, each, timers)
TEST_CASE(test_late, each, late)
TEST_CASE(test_yields, each, yields)

/* ---- Sockets ---- */

/* The loop's descriptor is readable when a socket is. */
static void sockets(void)
{
	pthread_t native;

	TEST_EQUAL(ustack_detach(go_echo(&native)), 0);
	TEST_TRUE(loop(1) >= 0);
	TEST_TRUE(turns <= 27 * 4);
	pthread_join(native, NULL);
	finish();
}

TEST_CASE(test_sockets, each, sockets)

/* ---- Other native threads ---- */

static void *wake_often(void *arg)
{
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(ustack_wake(arg), 0);
		if (i % 3 == 0)
			sleep_native(1);
	}
	return NULL;
}

static void *start_often(void *unused)
{
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(over->o_start(embedded, once, NULL, NULL), 0);
		if (i % 3 == 0)
			sleep_native(1);
	}
	return unused;
}

static void *post_often(void *arg)
{
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(usync_sem_post(arg), 0);
		if (i % 3 == 0)
			sleep_native(1);
	}
	return NULL;
}

static void take_often(void *arg)
{
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(usync_sem_wait(arg, USCHED_NEVER), 0);
	done++;
}

static void call_pool(void *arg)
{
	int n = 0;

	(void)arg;
	for (int i = 0; i < 5; i++)
		TEST_EQUAL(uoffload(once, NULL, &n, sizeof n, USCHED_NEVER), 0);
	done++;
}

static void from_outside(void)
{
	static struct usync_sem sem;
	pthread_t natives[3];
	struct ustack *u;

	sem = (struct usync_sem){ 0 };
	u = go(wait_often, NULL);
	TEST_EQUAL(over->o_start(embedded, take_often, &sem, NULL), 0);
	TEST_EQUAL(over->o_start(embedded, call_pool, NULL, NULL), 0);
	assert_int_equal(pthread_create(&natives[0], NULL, wake_often, u), 0);
	assert_int_equal(pthread_create(&natives[1], NULL, start_often, NULL), 0);
	assert_int_equal(pthread_create(&natives[2], NULL, post_often, &sem), 0);
	TEST_TRUE(loop(WAKES + 3 + 5) >= 0);
	TEST_TRUE(turns <= 4 * (3 * WAKES + 5));
	for (int i = 0; i < 3; i++)
		pthread_join(natives[i], NULL);
	TEST_EQUAL(ustack_detach(u), 0);
	uoffload_drain(USCHED_NEVER);
	finish();
}

TEST_CASE(test_from_outside, each, from_outside)

/* Threads that the loop itself wakes or starts run in the next call. */
static void by_loop(void)
{
	struct ustack *u;
	int fd;

	u = go(wait_often, NULL);
	fd = loop(0);
	TEST_TRUE(fd >= 0);
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(done, 0);
		TEST_EQUAL(ustack_wake(u), 0);
		TEST_EQUAL(loop(0), fd);
	}
	TEST_EQUAL(done, 1);
	TEST_EQUAL(ustack_detach(u), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(over->o_start(embedded, once, NULL, NULL), 0);
	TEST_EQUAL(loop(0), fd);
	TEST_EQUAL(done, 4);
	finish();
}

/* Native threads may run the loop in turn, where threads are on added stacks. */
static void *loop_elsewhere(void *unused)
{
	loop(done + 1);
	return unused;
}

static void takes_turns(void)
{
	pthread_t native;
	struct ustack *u;

	if (on_native) {
		finish();
		return;
	}
	u = go(wait_often, NULL);
	for (int i = 0; i < 5; i++) {
		TEST_EQUAL(ustack_detach(go(i % 2 ? once : sleep_often, NULL)), 0);
		if (i % 2) {
			loop(done + 1);
			continue;
		}
		assert_int_equal(pthread_create(&native, NULL, loop_elsewhere, NULL), 0);
		pthread_join(native, NULL);
	}
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(done, 6);
	finish();
}

TEST_CASE(test_by_loop, each, by_loop)
TEST_CASE(test_takes_turns, each, takes_turns)

int main(void)
{
	return over_all(OVER_PROCS);
}
