/* SPDX-License-Identifier: MIT */
/*
 * test_embed.c: rr and ll inside an event loop that is not theirs: this one calls poll(2). A
 * descriptor that is not readable when it should be hangs the loop, and time is up; one that is
 * readable for nothing keeps it turning, and the turns are counted.
 */
#define _GNU_SOURCE
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../ll.h"
#include "../unet.h"
#include "../uoffload.h"
#include "../rr.h"
#include "../usync.h"

enum { MILLI = 1000000 };               /* ns */

/* ---- The schedulers, as one ---- */

struct kind {
	int (*k_create)(const struct usched_conf *conf);
	int (*k_destroy)(void);
	int (*k_start)(void (*func)(void *), void *arg, struct ustack **thread);
	int (*k_run)(void);
	void (*k_hold)(void);
	void (*k_release)(void);
};

static struct rr *rr;
static struct ll *ll;

static int create_rr(const struct usched_conf *conf)
{
	return rr_create(conf, &rr);
}

static int destroy_rr(void)
{
	return rr_destroy(rr);
}

static int start_rr(void (*func)(void *), void *arg, struct ustack **thread)
{
	return rr_start(rr, func, arg, thread);
}

static int run_rr(void)
{
	return rr_run(rr);
}

static void hold_rr(void)
{
	rr_hold(rr);
}

static void release_rr(void)
{
	rr_release(rr);
}

static int create_ll(const struct usched_conf *conf)
{
	return ll_create(conf, &ll);
}

static int destroy_ll(void)
{
	return ll_destroy(ll);
}

static int start_ll(void (*func)(void *), void *arg, struct ustack **thread)
{
	return ll_start(ll, NULL, func, arg, thread);
}

static int run_ll(void)
{
	return ll_run(ll);
}

static void hold_ll(void)
{
	ll_hold(ll);
}

static void release_ll(void)
{
	ll_release(ll);
}

static const struct kind kinds[] = {
	{ create_rr, destroy_rr, start_rr, run_rr, hold_rr, release_rr },
	{ create_ll, destroy_ll, start_ll, run_ll, hold_ll, release_ll },
};

static const struct kind *sched;        /* of the test that runs */
static atomic_int        lines;

static void no_log(const char *line)
{
	(void)line;
	lines++;
}

static struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(sched->k_start(func, arg, &u), 0);
	return u;
}

static size_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	TEST_TRUE(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool on_native;                  /* threads are on the native stack of the loop */

/* With stacks and without. */
static void each(void (*test)(void))
{
	static const struct usched_conf confs[] = {
		{ .c_embed = 1, .c_log = no_log },
		{ .c_embed = 1, .c_log = no_log, .c_stacks = 1 },
		{ .c_embed = 1, .c_log = no_log, .c_stacks = USCHED_NATIVE },
	};

	for (size_t k = 0; k < 2; k++)
		for (size_t i = test_has_stacks() ? 0 : 2; i < 3; i++) {
			size_t before = descriptors();

			sched = &kinds[k];
			on_native = i == 2;
			lines = 0;
			assert_int_equal(sched->k_create(&confs[i]), 0);
			test();
			assert_int_equal(descriptors(), before);
		}
}

static void sleep_native(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MILLI };

	nanosleep(&t, NULL);
}

/* ---- The loop ---- */

static atomic_int done;
static size_t     turns;

static bool is_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) != 0;
}

/*
 * Until so many threads have said that they are done, and then until there is nothing to do,
 * which must be soon. How often it was readable before in `turns'. All calls are from here,
 * for on the native stack they have to be from one depth.
 */
static __attribute__((noinline)) int loop(int n)
{
	int fd = sched->k_run();

	turns = 0;
	if (fd < 0)
		return fd;
	while (done < n) {
		struct pollfd p = { fd, POLLIN, 0 };

		TEST_EQUAL(poll(&p, 1, -1), 1);
		TEST_EQUAL(p.revents, POLLIN);
		TEST_EQUAL(sched->k_run(), fd);
		turns++;
	}
	for (int i = 0; i < 10 && is_readable(fd); i++)
		TEST_EQUAL(sched->k_run(), fd);
	TEST_TRUE(!is_readable(fd));
	return fd;
}

static void finish(void)
{
	assert_int_equal(sched->k_destroy(), 0);
	assert_int_equal(lines, 0);
}

/* ---- What threads wait for ---- */

enum { SLEEPS = 20 };

static void sleep_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < SLEEPS; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	done++;
}

/* One turn for each sleep and each look at nothing, with some to spare. */
static void sleeps(void)
{
	done = 0;
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(sched->k_start(sleep_often, NULL, NULL), 0);
	TEST_TRUE(loop(3) >= 0);
	TEST_TRUE(turns <= 3 * SLEEPS * 4);
	finish();
}

static void sleep_long(void *arg)
{
	*(int *)arg = usync_sleep_until(usync_after(3600 * USYNC_SECOND));
	done++;
}

/* A timer that is far away, and then nearer, and one that is taken back. */
static void timers(void)
{
	static int rc;
	struct ustack *u;
	int fd;

	done = 0;
	u = go(sleep_long, &rc);
	fd = loop(0);
	TEST_TRUE(fd >= 0);
	TEST_EQUAL(sched->k_start(sleep_often, NULL, NULL), 0);
	TEST_EQUAL(loop(1), fd);
	TEST_EQUAL(ustack_cancel(u), 0);
	TEST_EQUAL(loop(2), fd);
	TEST_EQUAL(rc, -ECANCELED);
	TEST_EQUAL(ustack_detach(u), 0);            /* the same in ll */
	finish();
}

static void yield_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < SLEEPS; i++)
		TEST_EQUAL(ustack_yield(), 0);
	done++;
}

/* What is ready is run in one call. */
static void yields(void)
{
	done = 0;
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(sched->k_start(yield_often, NULL, NULL), 0);
	TEST_TRUE(sched->k_run() >= 0);
	TEST_EQUAL(done, 3);
	finish();
}

static void test_time(void **state)
{
	(void)state;
	test_timeout(60);
	each(sleeps);
	each(timers);
	each(yields);
}

static int pair[2];

static void echo(void *arg)
{
	char data[64];
	ssize_t n;

	(void)arg;
	while ((n = unet_read(pair[0], data, sizeof data, USCHED_NEVER)) > 0)
		TEST_EQUAL(unet_write_all(pair[0], data, (size_t)n, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(n, 0);
	TEST_EQUAL(unet_close(pair[0]), 0);
	done++;
}

static void *talk(void *unused)
{
	char c;

	for (char i = 'a'; i <= 'z'; i++) {
		TEST_EQUAL(write(pair[1], &i, 1), 1);
		TEST_EQUAL(read(pair[1], &c, 1), 1);
		TEST_EQUAL(c, i);
	}
	close(pair[1]);
	return unused;
}

/* The loop's own descriptor tells of the sockets. */
static void sockets(void)
{
	pthread_t native;

	done = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	TEST_EQUAL(sched->k_start(echo, NULL, NULL), 0);
	assert_int_equal(pthread_create(&native, NULL, talk, NULL), 0);
	TEST_TRUE(loop(1) >= 0);
	TEST_TRUE(turns <= 27 * 4);
	pthread_join(native, NULL);
	finish();
}

static void test_sockets(void **state)
{
	(void)state;
	test_timeout(60);
	each(sockets);
}

/* ---- Other native threads ---- */

enum { WAKES = 30 };

static void wait_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wait(), 0);               /* the same in ll */
	done++;
}

static void *wake_often(void *arg)
{
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(ustack_wake(arg), 0);
		if (i % 3 == 0)
			sleep_native(1);
	}
	return NULL;
}

static void once(void *arg)
{
	(void)arg;
	done++;
}

static void *start_often(void *unused)
{
	for (int i = 0; i < WAKES; i++) {
		TEST_EQUAL(sched->k_start(once, NULL, NULL), 0);
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

	done = 0;
	sem = (struct usync_sem){ 0 };
	u = go(wait_often, NULL);
	TEST_EQUAL(sched->k_start(take_often, &sem, NULL), 0);
	TEST_EQUAL(sched->k_start(call_pool, NULL, NULL), 0);
	assert_int_equal(pthread_create(&natives[0], NULL, wake_often, u), 0);
	assert_int_equal(pthread_create(&natives[1], NULL, start_often, NULL), 0);
	assert_int_equal(pthread_create(&natives[2], NULL, post_often, &sem), 0);
	TEST_TRUE(loop(WAKES + 3 + 5) >= 0);
	TEST_TRUE(turns <= 4 * (3 * WAKES + 5));
	for (int i = 0; i < 3; i++)
		pthread_join(natives[i], NULL);
	TEST_EQUAL(ustack_detach(u), 0);            /* the same in ll */
	uoffload_drain();
	finish();
}

static void test_from_outside(void **state)
{
	(void)state;
	test_timeout(60);
	each(from_outside);
}

/* What the loop itself does is run by the next call. */
static void by_loop(void)
{
	struct ustack *u;
	int fd;

	done = 0;
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
		TEST_EQUAL(sched->k_start(once, NULL, NULL), 0);
	TEST_EQUAL(loop(0), fd);
	TEST_EQUAL(done, 4);
	finish();
}

/* Native threads in turn may be the loop, where threads have stacks of their own. */
static void *loop_elsewhere(void *unused)
{
	loop(done + 1);
	return unused;
}

static void takes_turns(void)
{
	pthread_t native;
	struct ustack *u;

	done = 0;
	u = go(wait_often, NULL);
	for (int i = 0; i < 5; i++) {
		TEST_EQUAL(sched->k_start(i % 2 ? once : sleep_often, NULL, NULL), 0);
		if (i % 2) {
			loop(done + 1);
			continue;
		}
		assert_int_equal(pthread_create(&native, NULL, loop_elsewhere, NULL), 0);
		pthread_join(native, NULL);
	}
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
	TEST_EQUAL(done, 6);
	finish();
}

static void test_loop(void **state)
{
	(void)state;
	test_timeout(60);
	each(by_loop);
	if (test_has_stacks()) {
		static const struct usched_conf conf = { .c_embed = 1, .c_log = no_log };

		for (size_t k = 0; k < 2; k++) {
			sched = &kinds[k];
			lines = 0;
			assert_int_equal(sched->k_create(&conf), 0);
			takes_turns();
		}
	}
}

/* ---- Join and destroy drive it themselves ---- */

static void finds_busy(void *arg)
{
	(void)arg;
	TEST_EQUAL(sched->k_run(), -EBUSY);
	done++;
}

static void joins(void)
{
	pthread_t native;
	struct ustack *u;

	done = 0;
	assert_int_equal(ustack_join(go(sleep_often, NULL), USCHED_NEVER), 0);
	assert_int_equal(done, 1);
	assert_int_equal(ustack_join(go(finds_busy, NULL), USCHED_NEVER), 0);
	assert_int_equal(done, 2);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	u = go(echo, NULL);
	assert_int_equal(pthread_create(&native, NULL, talk, NULL), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(done, 3);
	pthread_join(native, NULL);
	TEST_EQUAL(sched->k_start(sleep_often, NULL, NULL), 0);
	TEST_EQUAL(sched->k_start(once, NULL, NULL), 0);
	finish();                               /* waits for both */
	assert_int_equal(done, 5);
}

/* Nobody can wake them: that is found, as it is elsewhere. */
static void deadlocks(void)
{
	struct ustack *u;

	done = 0;
	u = go(wait_often, NULL);
	for (int i = 0; i < WAKES; i++) {
		assert_int_equal(ustack_join(u, USCHED_NEVER), -EDEADLK);
		assert_int_equal(ustack_wake(u), 0);
	}
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(done, 1);
	assert_true(lines > 0);
	if (!on_native)
		TEST_EQUAL(sched->k_start(wait_often, NULL, NULL), 0);
	assert_int_equal(sched->k_destroy(), on_native ? 0 : -EDEADLK);
	assert_int_equal(done, 1);
}

static void *release_later(void *unused)
{
	sleep_native(1);
	sched->k_release();
	return unused;
}

/* As long as another native thread might wake somebody, none is found; then at once. */
static void held(void)
{
	pthread_t native;
	struct ustack *u;

	done = 0;
	u = go(wait_often, NULL);
	sched->k_hold();
	assert_int_equal(pthread_create(&native, NULL, release_later, NULL), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), -EDEADLK);
	pthread_join(native, NULL);
	assert_true(lines > 0);
	for (int i = 0; i < WAKES; i++)
		assert_int_equal(ustack_wake(u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(sched->k_destroy(), 0);
}

static void cancel_ended(void *unused)
{
	struct ustack *u = go(once, NULL);

	(void)unused;
	while (done == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_cancel(u), -ESRCH);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
}

static void cancels(void)
{
	done = 0;
	assert_int_equal(ustack_join(go(cancel_ended, NULL), USCHED_NEVER), 0);
	finish();
}

static void test_ends(void **state)
{
	(void)state;
	test_timeout(60);
	each(joins);
	each(deadlocks);
	each(held);
	each(cancels);
}

/* ---- Errors ---- */

static void test_not_embedded(void **state)
{
	static const struct usched_conf conf = { .c_processors = 1, .c_log = no_log };

	(void)state;
	test_timeout(20);
	for (size_t k = 0; k < 2; k++) {
		sched = &kinds[k];
		assert_int_equal(sched->k_create(&conf), 0);
		assert_int_equal(sched->k_run(), -EINVAL);
		assert_int_equal(sched->k_destroy(), 0);
	}
}

/* A compiler that knew the size would leave out what is not used. */
static __attribute__((noinline)) int run_below(volatile size_t size)
{
	volatile char room[size];
	int rc;

	room[0] = 1;
	rc = sched->k_run();
	return room[0] == 1 ? rc : 0;
}

/* On the native stack threads are at addresses that have to be free. */
static void depths(void)
{
	struct ustack *u;
	int fd;

	done = 0;
	u = go(wait_often, NULL);
	fd = loop(0);
	TEST_EQUAL(run_below(10000), on_native ? -EINVAL : fd);
	for (int i = 0; i < WAKES; i++)
		TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(loop(1), fd);
	TEST_EQUAL(ustack_detach(u), 0);
	finish();
}

static void test_depths(void **state)
{
	(void)state;
	test_timeout(20);
	each(depths);
}

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

/* None for the timer: what is ready is run all the same; the next call makes up for it. */
static void exhausted(void)
{
	int fd;

	done = 0;
	TEST_EQUAL(sched->k_start(sleep_often, NULL, NULL), 0);
	TEST_EQUAL(sched->k_start(once, NULL, NULL), 0);
	exhaust();
	fd = loop(1);
	restore_limit();
	TEST_EQUAL(fd, -EMFILE);
	TEST_EQUAL(done, 1);
	TEST_TRUE(loop(2) >= 0);
	finish();
}

static void test_exhausted(void **state)
{
	static const struct usched_conf conf = { .c_embed = 1 };

	(void)state;
	test_timeout(60);
	each(exhausted);
	for (size_t k = 0; k < 2; k++) {
		size_t before = descriptors();
		int rc;

		exhaust();
		rc = kinds[k].k_create(&conf);
		restore_limit();
		assert_int_equal(rc, -EMFILE);
		assert_int_equal(descriptors(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_from_outside),
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_not_embedded),
		cmocka_unit_test(test_depths),
		cmocka_unit_test(test_exhausted),
	};

	return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
