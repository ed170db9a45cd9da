/* SPDX-License-Identifier: MIT */
/*
 * test_embed_end.c: join and destroy of schedulers inside an event loop that is not
 * theirs, and errors: calls from other depths, and no descriptors.
 */
#include "../help/embed.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Join and destroy run the threads ---- */

static void finds_busy(void *arg)
{
	(void)arg;
	TEST_EQUAL(over->o_run(embedded), -EBUSY);
	done++;
}

static void joins(void)
{
	pthread_t native;
	struct ustack *u;

	assert_int_equal(ustack_join(go(sleep_often, NULL), NULL, USCHED_NEVER), 0);
	assert_int_equal(done, 1);
	assert_int_equal(ustack_join(go(finds_busy, NULL), NULL, USCHED_NEVER), 0);
	assert_int_equal(done, 2);
	u = go_echo(&native);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(done, 3);
	pthread_join(native, NULL);
	TEST_EQUAL(over->o_start(embedded, sleep_often, NULL, NULL), 0);
	TEST_EQUAL(over->o_start(embedded, once, NULL, NULL), 0);
	finish();                               /* waits for both */
	assert_int_equal(done, 5);
}

/* A deadlock is found as without c_embed. */
static void deadlocks(void)
{
	struct ustack *u;

	u = go(wait_often, NULL);
	for (int i = 0; i < WAKES; i++) {
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
		assert_int_equal(ustack_wake(u), 0);
	}
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(done, 1);
	assert_true(lines > 0);
	if (!on_native)
		TEST_EQUAL(over->o_start(embedded, wait_often, NULL, NULL), 0);
	assert_int_equal(over->o_destroy(embedded), on_native ? 0 : -EDEADLK);
	assert_int_equal(done, 1);
}

static void *release_later(void *unused)
{
	sleep_native(1);
	over->o_release(embedded);
	return unused;
}

/* While another native thread holds the scheduler none is found; then at once. */
static void held(void)
{
	pthread_t native;
	struct ustack *u;

	u = go(wait_often, NULL);
	over->o_hold(embedded);
	assert_int_equal(pthread_create(&native, NULL, release_later, NULL), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
	pthread_join(native, NULL);
	assert_true(lines > 0);
	for (int i = 0; i < WAKES; i++)
		assert_int_equal(ustack_wake(u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(embedded), 0);
}

static void sleep_long(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(3600 * USYNC_SECOND)), -ECANCELED);
}

/* Destroy with a deadline: what is left goes on. A deadlock is found before it. */
static void bounded(void)
{
	struct ustack *u, *v;

	if (on_native) {                        /* joins would be at another depth */
		finish();
		return;
	}
	u = go(sleep_long, NULL);
	v = go(wait_often, NULL);
	assert_int_equal(uprocs_destroy(embedded, usync_after(5 * MILLI)), -ETIMEDOUT);
	assert_int_equal(lines, 0);
	assert_int_equal(uprocs_destroy(embedded, 0), -ETIMEDOUT);
	assert_int_equal(ustack_cancel(u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	for (int i = 0; i < WAKES; i++)
		assert_int_equal(ustack_wake(v), 0);
	assert_int_equal(ustack_join(v, NULL, usync_after(3600 * USYNC_SECOND)), 0);
	v = go(wait_often, NULL);
	over->o_hold(embedded);
	assert_int_equal(uprocs_destroy(embedded, usync_after(MILLI)), -ETIMEDOUT);
	over->o_release(embedded);
	assert_int_equal(uprocs_destroy(embedded, usync_after(3600 * USYNC_SECOND)),
			 -EDEADLK);
}

static void cancel_ended(void *unused)
{
	struct ustack *u = go(once, NULL);

	(void)unused;
	while (done == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_cancel(u), -ESRCH);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

static void cancels(void)
{
	assert_int_equal(ustack_join(go(cancel_ended, NULL), NULL, USCHED_NEVER), 0);
	finish();
}

TEST_CASE(test_joins, each, joins)
TEST_CASE(test_deadlocks, each, deadlocks)
TEST_CASE(test_held, each, held)
TEST_CASE(test_bounded, each, bounded)
TEST_CASE(test_cancels, each, cancels)

/* ---- Errors ---- */

TEST(test_not_embedded)
{
	static const struct uprocs_conf conf = { .c_processors = 1, .c_log = count_line };

	assert_int_equal(over->o_create(&conf, &embedded), 0);
	assert_int_equal(over->o_run(embedded), -EINVAL);
	assert_int_equal(over->o_destroy(embedded), 0);
}

/* A compiler that knew the size would leave out what is not used. */
static __attribute__((noinline)) int run_below(volatile size_t size)
{
	volatile char room[size];
	int rc;

	room[0] = 1;
	rc = over->o_run(embedded);
	return room[0] == 1 ? rc : 0;
}

/* On the native stack, frames of threads need their addresses free. */
static void depths(void)
{
	struct ustack *u;
	int fd;

	u = go(wait_often, NULL);
	fd = loop(0);
	TEST_EQUAL(run_below(10000), on_native ? -EINVAL : fd);
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(loop(1), fd);
	TEST_EQUAL(ustack_detach(u), 0);
	finish();
}

TEST_CASE(test_depths, each, depths)

static struct rlimit limit_before;

/* No descriptor is left. */
static void exhaust(void)
{
	int lowest = dup(0);
	struct rlimit limit;

	TEST_TRUE(lowest >= 0);
	close(lowest);
	TEST_EQUAL(getrlimit(RLIMIT_NOFILE, &limit_before), 0);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)lowest;
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void restore_limit(void)
{
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit_before), 0);
}

/* Longer than any machine is slow. */
static void sleep_for_an_hour(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(INT64_C(3600000) * MILLI)), -ECANCELED);
	done++;
}

/* None for the timer: what is ready runs all the same. The next call arms the timer. */
static void exhausted(void)
{
	struct ustack *u;
	int fd;

	u = go(sleep_for_an_hour, NULL);
	TEST_EQUAL(over->o_start(embedded, once, NULL, NULL), 0);
	exhaust();
	fd = loop(1);
	restore_limit();
	TEST_EQUAL(fd, -EMFILE);
	TEST_EQUAL(done, 1);
	TEST_TRUE(loop(1) >= 0);
	TEST_EQUAL(ustack_cancel(u), 0);
	TEST_TRUE(loop(2) >= 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	finish();
}

TEST(test_exhausted)
{
	static const struct uprocs_conf conf = { .c_embed = 1 };
	size_t before = test_descriptors();
	int rc;

	each(exhausted);
	exhaust();
	rc = over->o_create(&conf, &embedded);
	restore_limit();
	assert_int_equal(rc, -EMFILE);
	assert_int_equal(test_descriptors(), before);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
