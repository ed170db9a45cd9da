/* SPDX-License-Identifier: MIT */
/*
 * test_lifetime.c: threads that are detached, come back as records, start others by the
 * thousands; schedulers that are held, idle, created and destroyed again and again.
 */
#include "../help/procs.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

/* ---- Detach ---- */

static void detach(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1 };
	atomic_size_t count = 0;
	struct ustack *u;

	start_taker(s, &t);
	assert_int_equal(ustack_detach(t.t_thread), 0);
	assert_int_equal(ustack_detach(t.t_thread), -EINVAL);
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EINVAL);
	wake_times(t.t_thread, 1);

	assert_int_equal(over->o_start(s, nothing, NULL, &u), 0);
	await_end(u);
	assert_int_equal(ustack_detach(u), 0);

	assert_int_equal(over->o_start(s, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(over->o_start(s, count_up, &count, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(t.t_got, 1);
	assert_int_equal(count, 1);
}

TEST_CASE(test_detach, each_conf, detach)

/* ---- Records ---- */

static size_t pool_bytes(void *s)
{
	struct uimage_pool *pool = &((struct uprocs *)s)->r_images;
	size_t bytes;

	pthread_mutex_lock(&pool->ip_lock);
	bytes = pool->ip_bytes;
	pthread_mutex_unlock(&pool->ip_lock);
	return bytes;
}

/* Records come back in each way that a thread can end. */
struct returns {
	void         *r_sched;
	size_t        r_rounds;
	atomic_size_t r_started;
	atomic_size_t r_count;
	size_t        r_early;          /* bytes of the pool after some rounds */
};

static void start_and_return(struct returns *r, bool native)
{
	for (size_t i = 0; i < r->r_rounds; i++) {
		struct ustack *t = NULL;

		TEST_EQUAL(over->o_start(r->r_sched, count_up, &r->r_count,
					 i % 3 ? &t : NULL), 0);
		r->r_started++;
		if (i % 3 == 1)
			TEST_EQUAL(ustack_detach(t), 0);
		else if (i % 3 == 2)
			TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
		while (r->r_count + 100 < r->r_started)
			if (native)
				sched_yield();
			else
				TEST_EQUAL(ustack_yield(), 0);
		if (i == r->r_rounds / 10)
			r->r_early = pool_bytes(r->r_sched);
	}
}

static void return_inside(void *arg)
{
	start_and_return(arg, false);
}

TEST(test_records_return)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	struct returns r = { .r_rounds = test_scale(100000, 10000) };

	r.r_sched = make(&conf);
	start_and_return(&r, true);
	assert_in_range(pool_bytes(r.r_sched), r.r_early, r.r_early + (256 << 10));
	run_to_end(r.r_sched, return_inside, &r);
	assert_in_range(pool_bytes(r.r_sched), r.r_early, r.r_early + (256 << 10));
	assert_int_equal(over->o_destroy(r.r_sched), 0);
}

/* ---- Threads that start threads ---- */

struct tree {
	void         *t_sched;
	atomic_size_t t_count;
};

struct branch {
	struct tree *b_tree;
	unsigned     b_depth;
	size_t       b_index;
};

static void sprout(void *arg)
{
	struct branch *b = arg;
	struct ustack *threads[3] = { NULL, NULL, NULL };

	b->b_tree->t_count++;
	for (size_t i = 0; i < 3 && b->b_depth > 0; i++) {
		struct branch *child = malloc(sizeof *child);

		TEST_TRUE(child);
		*child = (struct branch){ b->b_tree, b->b_depth - 1, i };
		TEST_EQUAL(over->o_start(b->b_tree->t_sched, sprout, child,
					 i ? &threads[i] : NULL), 0);
	}
	if (b->b_index == 2)
		TEST_EQUAL(ustack_yield(), 0);
	if (threads[1])
		TEST_EQUAL(ustack_join(threads[1], NULL, USCHED_NEVER), 0);
	if (threads[2])
		TEST_EQUAL(ustack_detach(threads[2]), 0);
	free(b);
}

static void tree(const struct uprocs_conf *conf)
{
	struct tree t = { .t_sched = make(conf) };
	struct branch *b = malloc(sizeof *b);
	unsigned depth = test_scale(100, 1) > 1 ? 9 : 5;
	size_t all = 0, level = 1;
	struct usched_stats stats;

	assert_non_null(b);
	*b = (struct branch){ &t, depth, 0 };
	for (unsigned i = 0; i <= depth; i++, level *= 3)
		all += level;
	assert_int_equal(over->o_start(t.t_sched, sprout, b, NULL), 0);
	await_count(&t.t_count, all);
	over->o_stats(t.t_sched, &stats);
	assert_int_equal(stats.st_launches, all);
	assert_int_equal(over->o_destroy(t.t_sched), 0);
	assert_int_equal(t.t_count, all);
}

TEST_CASE(test_tree, each_conf, tree)

/* ---- Hold ---- */

/* There is no deadlock while a native thread holds the scheduler. */
static void hold(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 2 };
	struct joins j = { .j_sched = s };
	pthread_t native;

	start_taker(s, &t);
	j.j_thread = t.t_thread;
	over->o_hold(s);
	over->o_hold(s);
	assert_int_equal(pthread_create(&native, NULL, join_native, &j), 0);
	await_joiner(t.t_thread);
	wake_times(t.t_thread, 1);
	sleep_ms(10);
	over->o_release(s);
	sleep_ms(10);
	assert_int_equal(j.j_done, 0);
	assert_int_equal(line_count, 0);
	over->o_release(s);
	pthread_join(native, NULL);
	assert_int_equal(j.j_rc, -EDEADLK);
	assert_int_equal(line_count, 2);
	finish(t.t_thread);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_hold, each_conf, hold)

struct holder {
	void         *h_sched;
	size_t        h_spins;
	atomic_size_t h_ready;
	atomic_size_t h_count;
};

static void *hold_and_start(void *arg)
{
	struct holder *h = arg;

	h->h_ready = 1;
	spin(h->h_spins);
	TEST_EQUAL(over->o_start(h->h_sched, count_up, &h->h_count, NULL), 0);
	over->o_release(h->h_sched);
	return NULL;
}

/* A release may be the last use of a scheduler: it may end at that moment. */
TEST(test_hold_and_destroy)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(5000, 100);
	uint32_t seed = 1;

	for (size_t i = 0; i < rounds; i++) {
		struct holder h = {
			.h_sched = make(&conf), .h_spins = test_random(&seed) % 500,
		};
		pthread_t native;

		over->o_hold(h.h_sched);
		assert_int_equal(pthread_create(&native, NULL, hold_and_start, &h), 0);
		await_count(&h.h_ready, 1);
		spin(test_random(&seed) % 500);
		assert_int_equal(over->o_destroy(h.h_sched), 0);
		assert_int_equal(h.h_count, 1);
		pthread_join(native, NULL);
	}
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Without joins, threads that wait are not reported, and the processors sleep. */
TEST(test_idle)
{
	struct uprocs_conf conf = { .c_processors = 4 };
	struct taker takers[100] = { 0 };
	double cpu, wall;
	void *s;

	s = make(&conf);
	for (size_t i = 0; i < 100; i++) {
		takers[i].t_need = 2;
		start_taker(s, &takers[i]);
		wake_times(takers[i].t_thread, 1);
	}
	for (size_t i = 0; i < 100; i++)
		await_count(&takers[i].t_got, 1);
	sleep_ms(20);
	wall = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	sleep_ms(400);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = seconds(CLOCK_MONOTONIC) - wall;
	assert_true(cpu < wall / 4);
	assert_int_equal(line_count, 0);
	for (size_t i = 0; i < 100; i++)
		wake_times(takers[i].t_thread, 1);
	assert_int_equal(over->o_destroy(s), 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
