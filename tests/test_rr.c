/* SPDX-License-Identifier: MIT */
/* test_rr.c: what rr promises beyond schedulers.h: order, and spreading. */
#define _GNU_SOURCE             /* for schedulers.h */
#include "../rr.h"

#define SCHED rr
#define START(s, func, arg, thread) rr_start(s, func, arg, thread)
#include "schedulers.h"

enum { THREADS = 1000, YIELDS = 5 };

/* One processor's threads may share it without locks. */
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

	TEST_EQUAL(rr_wait(), 0);
	for (size_t i = 0; i <= YIELDS; i++) {
		o->o_log[o->o_next++] = me->o_index;
		if (i < YIELDS)
			TEST_EQUAL(rr_yield(), 0);
	}
}

struct opener {
	struct order *o_order;
	size_t        o_stride;
};

/* Makes them ready in an order that is not that of their starts. */
static void wake_in_order(void *arg)
{
	struct opener *opener = arg;

	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(rr_wake(opener->o_order->o_threads[
				   i * opener->o_stride % THREADS]), 0);
}

static void fifo(const struct usched_conf *conf)
{
	static struct order o;
	static struct ordered threads[THREADS];
	struct opener opener = { &o, 7 };
	struct ustack *u;
	struct rr *rr;

	if (conf->c_processors > 1)
		return;
	rr = make(conf);
	o.o_next = 0;
	for (size_t i = 0; i < THREADS; i++) {
		threads[i] = (struct ordered){ &o, i };
		assert_int_equal(rr_start(rr, log_and_yield, &threads[i],
					  &o.o_threads[i]), 0);
	}
	assert_int_equal(rr_join(o.o_threads[0]), -EDEADLK);
	assert_int_equal(rr_start(rr, wake_in_order, &opener, &u), 0);
	assert_int_equal(rr_join(u), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(rr_join(o.o_threads[i]), 0);
	assert_int_equal(o.o_next, THREADS * (YIELDS + 1));
	for (size_t i = 0; i < THREADS * (YIELDS + 1); i++)
		assert_int_equal(o.o_log[i], i % THREADS * opener.o_stride % THREADS);
	assert_int_equal(rr_destroy(rr), 0);
}

static void test_fifo(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(fifo);
}

/* A log of letters: who ran when. */
struct script {
	struct rr     *s_rr;
	struct ustack *s_sleeper;
	char           s_log[32];
	size_t         s_length;
	atomic_int     s_mailed;
};

static void say(struct script *s, char c)
{
	s->s_log[s->s_length++] = c;
}

static void say_sleeper(void *arg)
{
	TEST_EQUAL(rr_wait(), 0);
	say(arg, 'S');
}

static void say_a(void *arg)
{
	say(arg, 'A');
	TEST_EQUAL(rr_yield(), 0);
	say(arg, 'a');
}

static void say_b(void *arg)
{
	say(arg, 'B');
	TEST_EQUAL(rr_yield(), 0);
	say(arg, 'b');
}

static void wake_between(void *arg)
{
	struct script *s = arg;

	TEST_EQUAL(rr_start(s->s_rr, say_a, s, NULL), 0);
	TEST_EQUAL(rr_wake(s->s_sleeper), 0);
	TEST_EQUAL(rr_start(s->s_rr, say_b, s, NULL), 0);
	say(s, '0');
	TEST_EQUAL(rr_yield(), 0);
	say(s, '1');
}

/* Woken, started, yielding: all queue up at the end. */
static void queue_up(const struct usched_conf *conf)
{
	struct script s = { 0 };
	struct ustack *u;

	if (conf->c_processors > 1)
		return;
	s.s_rr = make(conf);
	assert_int_equal(rr_start(s.s_rr, say_sleeper, &s, &s.s_sleeper), 0);
	assert_int_equal(rr_join(s.s_sleeper), -EDEADLK);
	assert_int_equal(rr_start(s.s_rr, wake_between, &s, &u), 0);
	assert_int_equal(rr_join(u), 0);
	assert_int_equal(rr_join(s.s_sleeper), 0);
	assert_int_equal(rr_destroy(s.s_rr), 0);
	assert_string_equal(s.s_log, "0ASB1ab");
}

static void test_queue_up(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(queue_up);
}

/* Runs until mail has been sent from outside, and only then yields. */
static void yield_after_mail(void *arg)
{
	struct script *s = arg;

	say(s, '0');
	s->s_mailed = -1;
	while (s->s_mailed != 1)
		;
	TEST_EQUAL(rr_yield(), 0);
	say(s, '1');
}

static void mail_before_yield(const struct usched_conf *conf)
{
	struct script s = { 0 };
	struct ustack *u;

	if (conf->c_processors > 1)
		return;
	s.s_rr = make(conf);
	assert_int_equal(rr_start(s.s_rr, say_sleeper, &s, &s.s_sleeper), 0);
	assert_int_equal(rr_join(s.s_sleeper), -EDEADLK);
	assert_int_equal(rr_start(s.s_rr, yield_after_mail, &s, &u), 0);
	while (s.s_mailed != -1)
		sched_yield();
	assert_int_equal(rr_start(s.s_rr, say_a, &s, NULL), 0);
	assert_int_equal(rr_wake(s.s_sleeper), 0);
	assert_int_equal(rr_start(s.s_rr, say_b, &s, NULL), 0);
	s.s_mailed = 1;
	assert_int_equal(rr_join(u), 0);
	assert_int_equal(rr_destroy(s.s_rr), 0);
	assert_string_equal(s.s_log, "0ASB1ab");
}

static void test_mail_before_yield(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(mail_before_yield);
}

struct where {
	pthread_t     w_native[64];
	atomic_size_t w_count;
};

static void note_native(void *arg)
{
	struct where *w = arg;

	w->w_native[w->w_count++] = pthread_self();
}

static void spread(const struct usched_conf *conf)
{
	struct where w = { 0 };
	struct rr *rr = make(conf);
	size_t n = conf->c_processors;

	for (size_t i = 0; i < 64; i++)
		assert_int_equal(rr_start(rr, note_native, &w, NULL), 0);
	assert_int_equal(rr_destroy(rr), 0);
	assert_int_equal(w.w_count, 64);
	for (size_t i = 0; i < 64; i++) {
		size_t same = 0;

		for (size_t k = 0; k < 64; k++)
			same += pthread_equal(w.w_native[i], w.w_native[k]) != 0;
		assert_int_equal(same, 64 / n);
	}
}

static void test_spread(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(spread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_queue_up),
		cmocka_unit_test(test_mail_before_yield),
		cmocka_unit_test(test_spread),
		COMMON_TESTS,
	};

	return cmocka_run_group_tests_name("rr", tests, NULL, NULL);
}
