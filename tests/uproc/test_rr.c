/* SPDX-License-Identifier: MIT */
/* test_rr.c: what rr alone promises: the order of threads, and how they are spread. */
#include "../../rr.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../help/procs.h"

enum { THREADS = 1000, YIELDS = 5 };

/* The threads of one processor share it without locks. */
struct order {
	size_t         o_next;
	struct ustack *o_threads[THREADS];
	size_t         o_log[THREADS * (YIELDS + 1)];
};

struct ordered {
	struct order *o_order;
	size_t        o_index;
};

static void log_and_yield(void *arg)
{
	struct ordered *me = arg;
	struct order *o = me->o_order;

	TEST_EQUAL(ustack_wait(), 0);
	for (size_t i = 0; i <= YIELDS; i++) {
		o->o_log[o->o_next++] = me->o_index;
		if (i < YIELDS)
			TEST_EQUAL(ustack_yield(), 0);
	}
}

struct opener {
	struct order *o_order;
	size_t        o_stride;
};

/* Makes them ready in another order than that of their starts. */
static void wake_in_order(void *arg)
{
	struct opener *opener = arg;

	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(ustack_wake(opener->o_order->o_threads[
				   i * opener->o_stride % THREADS]), 0);
}

static void fifo(const struct uprocs_conf *conf)
{
	static struct order o;
	static struct ordered threads[THREADS];
	struct opener opener = { &o, 7 };
	struct uprocs *rr = make_in_order(conf);

	o.o_next = 0;
	for (size_t i = 0; i < THREADS; i++) {
		threads[i] = (struct ordered){ &o, i };
		assert_int_equal(rr_start(rr, log_and_yield, &threads[i],
					  &o.o_threads[i]), 0);
	}
	assert_int_equal(ustack_join(o.o_threads[0], NULL, USCHED_NEVER), -EDEADLK);
	run_to_end(rr, wake_in_order, &opener);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(ustack_join(o.o_threads[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(o.o_next, THREADS * (YIELDS + 1));
	for (size_t i = 0; i < THREADS * (YIELDS + 1); i++)
		assert_int_equal(o.o_log[i], i % THREADS * opener.o_stride % THREADS);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

TEST_CASE(test_fifo, each_conf_of_one, fifo)

static struct ustack *sleeper;
static atomic_int     mailed;

static void wake_between(void *rr)
{
	TEST_EQUAL(rr_start(rr, say_twice, "A", NULL), 0);
	TEST_EQUAL(ustack_wake(sleeper), 0);
	TEST_EQUAL(rr_start(rr, say_twice, "B", NULL), 0);
	say('0');
	TEST_EQUAL(ustack_yield(), 0);
	say('1');
}

/* Threads queue up at the end when they are woken, are started, or yield. */
static void queue_up(const struct uprocs_conf *conf)
{
	struct uprocs *rr = make_in_order(conf);

	assert_int_equal(rr_start(rr, wait_and_say, "S", &sleeper), 0);
	assert_int_equal(ustack_join(sleeper, NULL, USCHED_NEVER), -EDEADLK);
	run_to_end(rr, wake_between, rr);
	assert_int_equal(ustack_join(sleeper, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
	assert_string_equal(script, "0ASB1ab");
}

TEST_CASE(test_queue_up, each_conf_of_one, queue_up)

/* Runs until mail has been sent from outside, then yields. */
static void yield_after_mail(void *unused)
{
	(void)unused;
	say('0');
	mailed = -1;
	while (mailed != 1)
		;
	TEST_EQUAL(ustack_yield(), 0);
	say('1');
}

static void mail_before_yield(const struct uprocs_conf *conf)
{
	struct uprocs *rr = make_in_order(conf);
	struct ustack *u;

	mailed = 0;
	assert_int_equal(rr_start(rr, wait_and_say, "S", &sleeper), 0);
	assert_int_equal(ustack_join(sleeper, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(rr_start(rr, yield_after_mail, NULL, &u), 0);
	while (mailed != -1)
		sched_yield();
	assert_int_equal(rr_start(rr, say_twice, "A", NULL), 0);
	assert_int_equal(ustack_wake(sleeper), 0);
	assert_int_equal(rr_start(rr, say_twice, "B", NULL), 0);
	mailed = 1;
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
	assert_string_equal(script, "0ASB1ab");
}

TEST_CASE(test_mail_before_yield, each_conf_of_one, mail_before_yield)

static pthread_t found[3];

static void find(void *at)
{
	*(pthread_t *)at = pthread_self();
}

static void find_fd(int fd, void *at)
{
	TEST_EQUAL(fd, 0);
	find(at);
}

static void find_beside(void *rr)
{
	struct ustack *u;

	find(&found[0]);
	for (size_t i = 1; i < 3; i++) {
		struct ustack_how how = { .h_processor = USCHED_BESIDE };

		if (i == 2)
			how.h_serve = find_fd;
		TEST_EQUAL(rr_start_with(rr, &how, i == 1 ? find : NULL, &found[i], &u),
			   0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		TEST_TRUE(pthread_equal(found[0], found[i]));
	}
}

static void on(const struct uprocs_conf *conf)
{
	struct uprocs *rr = make(conf), *another = make(conf);
	unsigned n = conf->c_processors;
	struct ustack *u;
	struct ustack_how with_fd = { .h_serve = find_fd, .h_processor = USCHED_ON(n) };

	assert_int_equal(rr_start_with(rr, TEST_ON(n), find, found, &u), -EINVAL);
	assert_int_equal(rr_start_with(rr, TEST_HOW(.h_processor = USCHED_BESIDE), find,
				       found, &u), -EINVAL);
	assert_int_equal(rr_start_with(rr, &with_fd, NULL, found, &u), -EINVAL);
	assert_int_equal(rr_start_with(rr, TEST_ON(0), NULL, NULL, &u), -EINVAL);
	run_to_end(rr, find_beside, rr);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(rr_start_with(rr, TEST_ON(i), find, &found[i % 2], &u),
				 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
		with_fd.h_processor = USCHED_ON(i);
		assert_int_equal(rr_start_with(rr, &with_fd, NULL, &found[2], &u), 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
		assert_true(pthread_equal(found[i % 2], found[2]));
		assert_true(i == 0 || !pthread_equal(found[0], found[1]));
	}
	assert_int_equal(uprocs_destroy(another, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

TEST_CASE(test_on, each_conf, on)

/* How many of them are on the processor of `u'. */
static size_t companions(struct ustack *const *threads, size_t n, const struct ustack *u)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ustack_sched(threads[i]) == ustack_sched(u);
	return count;
}

static atomic_int begun;
static atomic_bool idle;

static void yield_until_idle(void *unused)
{
	(void)unused;
	begun++;
	while (!idle)
		TEST_EQUAL(ustack_yield(), 0);
}

static void begin_and_wait(void *unused)
{
	(void)unused;
	begun++;
	TEST_EQUAL(ustack_wait(), 0);
}

/* On that processor, or where rr likes, which then knows that all threads wait. */
static void start_and_await(struct uprocs *rr, unsigned on, void (*func)(void *),
			    struct ustack **u)
{
	int before = begun;

	if (on == USCHED_BESIDE)
		assert_int_equal(rr_start(rr, func, NULL, u), 0);
	else
		assert_int_equal(rr_start_with(rr, TEST_ON(on), func, NULL, u), 0);
	while (begun == before)
		sched_yield();
}

/*
 * Starts go round, by one, then in longer and longer runs, up to 32; each processor has
 * its share.
 */
static void spread(const struct uprocs_conf *conf)
{
	static struct ustack *threads[THREADS];
	struct uprocs *rr = make(conf);
	size_t n = conf->c_processors, adjacent = 0;

	for (size_t i = 0; i < THREADS; i++)
		start_and_await(rr, USCHED_BESIDE, begin_and_wait, &threads[i]);
	for (size_t i = 0; i < 4 * n; i++)
		for (size_t k = 0; k < 4 * n; k++)
			assert_int_equal(i % n == k % n, ustack_sched(threads[i])
					 == ustack_sched(threads[k]));
	for (size_t i = 1; i < THREADS; i++)
		adjacent += ustack_sched(threads[i]) == ustack_sched(threads[i - 1]);
	assert_true(adjacent >= THREADS * 8 / 10);
	for (size_t i = 0; i < n; i++) {
		size_t share = companions(threads, THREADS, threads[i]);

		assert_true(share >= THREADS * 7 / 10 / n);
		assert_true(share <= THREADS * 13 / 10 / n);
	}
	for (size_t i = 0; i < THREADS; i++)
		finish(threads[i]);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

/*
 * Starts go where there is less to do: the threads that are ready count, and not those
 * that wait, of which the last processor has many.
 */
static void least(const struct uprocs_conf *conf)
{
	enum { BUSY = 8, IDLE = 400, NEW = 200 };
	static struct ustack *busy[BUSY], *waiting[IDLE], *new[NEW];
	struct uprocs *rr;

	if (conf->c_processors == 1)
		return;
	rr = make(conf);
	begun = 0;
	idle = false;
	for (size_t i = 0; i < IDLE; i++)
		start_and_await(rr, conf->c_processors - 1, begin_and_wait, &waiting[i]);
	for (size_t i = 0; i < BUSY; i++)
		start_and_await(rr, 0, yield_until_idle, &busy[i]);
	for (size_t i = 0; i < NEW; i++)
		start_and_await(rr, USCHED_BESIDE, begin_and_wait, &new[i]);
	/* The first run may have been chosen before these were busy. */
	assert_true(companions(new, NEW, busy[0]) <= 1);
	idle = true;
	for (size_t i = 0; i < BUSY; i++)
		assert_int_equal(ustack_join(busy[i], NULL, USCHED_NEVER), 0);
	for (size_t i = 0; i < IDLE; i++)
		finish(waiting[i]);
	for (size_t i = 0; i < NEW; i++)
		finish(new[i]);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

TEST(test_spread)
{
	each_conf(spread);
	each_conf(least);
}

int main(void)
{
	return over_all(OVER_RR);
}
