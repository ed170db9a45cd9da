/* SPDX-License-Identifier: MIT */
/* test_sync_join.c: joins with deadlines and cancels, by threads and native threads. */
#include "../help/sync.h"

#include <errno.h>
#include <sched.h>

struct ending {
	void            *e_sched;
	struct usync_sem e_sem;
	struct usync_sem e_detached;
	struct ustack   *e_thread;
};

static void start_ending(struct ending *e)
{
	TEST_EQUAL(over->o_start(e->e_sched, wait_for_sem, &e->e_sem, &e->e_thread), 0);
}

static void join_in_all_ways(struct worker *w)
{
	struct ending *e = w->w_shared;

	for (int i = 0; i < 2; i++) {
		start_ending(e);
		TEST_EQUAL(ustack_join(e->e_thread, NULL, 0), -ETIMEDOUT);
		TEST_EQUAL(ustack_join(e->e_thread, NULL, usync_after(1000000)),
			   -ETIMEDOUT);
		TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
		if (i == 0)
			TEST_EQUAL(ustack_join(e->e_thread, NULL, USCHED_NEVER), 0);
		else
			TEST_EQUAL(ustack_join(e->e_thread, NULL,
					      usync_after(1000 * USYNC_SECOND)), 0);
	}
	for (int64_t deadline = 0; deadline < 2; deadline++) {
		start_ending(e);
		TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
		while (ustack_join(e->e_thread, NULL, deadline) == -ETIMEDOUT)
			TEST_EQUAL(test_give_way(), 0);
	}
	TEST_EQUAL(over->o_start(e->e_sched, wait_for_sem, &e->e_detached,
				 &e->e_thread), 0);
	TEST_EQUAL(ustack_detach(e->e_thread), 0);
	TEST_EQUAL(ustack_join(e->e_thread, NULL, 0), -EINVAL);
	TEST_EQUAL(ustack_join(e->e_thread, NULL, USCHED_NEVER), -EINVAL);
	TEST_EQUAL(usync_sem_post(&e->e_detached), 0);
	if (w->w_thread)
		TEST_EQUAL(ustack_join(w->w_thread, NULL, USCHED_NEVER), -EDEADLK);
	w->w_count = 1;
}

/* The tester tries, too, and sees by -EINVAL that another joins. */
static int join_for_ever(struct ustack *u)
{
	int rc;

	while ((rc = ustack_join(u, NULL, USCHED_NEVER)) == -EINVAL)
		TEST_EQUAL(test_give_way(), 0);
	return rc;
}

static void join_only(struct worker *w)
{
	struct ending *e = w->w_shared;

	w->w_rc = join_for_ever(e->e_thread);
}

/* The tester comes back, so this is no deadlock. */
static void await_joiner(struct ending *e)
{
	int rc;

	over->o_hold(e->e_sched);
	while ((rc = ustack_join(e->e_thread, NULL, 0)) == -ETIMEDOUT)
		sched_yield();
	TEST_EQUAL(rc, -EINVAL);
	over->o_release(e->e_sched);
}

static void joins(void *s)
{
	static struct ending e;         /* its detached threads may be left */
	struct worker w;

	e = (struct ending){ .e_sched = s };
	for (int native = 0; native < 2; native++) {
		start_worker(&w, e.e_sched, native, 0, join_in_all_ways, &e);
		end_worker(&w);
		assert_int_equal(w.w_count, 1);
		start_ending(&e);
		start_worker(&w, e.e_sched, native, 0, join_only, &e);
		await_joiner(&e);
		assert_int_equal(ustack_detach(e.e_thread), -EINVAL);
		assert_int_equal(usync_sem_post(&e.e_sem), 0);
		end_worker(&w);
		assert_int_equal(w.w_rc, 0);
	}
}

/* It is cancelled while it joins, and joins with a shield then. */
static void join_cancelled(struct worker *w)
{
	struct ending *e = w->w_shared;

	TEST_EQUAL(join_for_ever(e->e_thread), -ECANCELED);
	TEST_EQUAL(ustack_join(e->e_thread, NULL, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
	TEST_EQUAL(ustack_join(e->e_thread, NULL, USCHED_NEVER), 0);
	w->w_count = 1;
}

static void cancel_joins(void *s)
{
	struct ending e = { .e_sched = s };
	struct worker w;

	start_ending(&e);
	start_worker(&w, e.e_sched, false, 0, join_cancelled, &e);
	await_joiner(&e);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	end_worker(&w);
	assert_int_equal(w.w_count, 1);
}

TEST_CASE(test_joins, each_scheduler, joins)
TEST_CASE(test_cancel_joins, each_scheduler, cancel_joins)

/* While a native thread joins until a deadline there is no deadlock. */
static void join_and_come_back(void *s)
{
	struct ending e = { .e_sched = s };

	start_ending(&e);
	assert_int_equal(ustack_join(e.e_thread, NULL, 0), -ETIMEDOUT);
	assert_int_equal(ustack_join(e.e_thread, NULL, usync_after(MILLISECOND)),
			 -ETIMEDOUT);
	assert_int_equal(ustack_join(e.e_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(usync_sem_post(&e.e_sem), 0);
	assert_int_equal(ustack_join(e.e_thread, NULL, usync_after(1000 * USYNC_SECOND)),
			 0);
}

TEST_CASE(test_join_and_come_back, each_scheduler, join_and_come_back)

/* ---- Storm ---- */

/* Threads end beside deadlines and cancels. Each is joined once, and freed. */
struct storm {
	void         *s_sched;
	size_t        s_rounds;
	atomic_size_t s_done;
	struct worker s_workers[STORMERS];
};

static void end_soon(void *arg)
{
	int64_t n = (int64_t)(uintptr_t)arg;

	if (n % 3)
		TEST_EQUAL(usync_sleep_until(usync_after(n * 7919 % 50000)), 0);
}

static void join_soon(struct worker *w)
{
	struct storm *s = w->w_shared;
	int rc;

	for (size_t i = 0; i < s->s_rounds; i++) {
		void *when = (void *)(uintptr_t)any(w, 1000);
		struct ustack *u;

		TEST_EQUAL(over->o_start(s->s_sched, end_soon, when, &u), 0);
		while ((rc = ustack_join(u, NULL, any_deadline(w)))) {
			TEST_TRUE(rc == -ETIMEDOUT || rc == -ECANCELED);
			if (rc == -ECANCELED)
				ustack_shield(1);
		}
		ustack_shield(0);
		s->s_done++;
	}
}

static void join_storm(void *s)
{
	static struct storm storm;

	storm = (struct storm){ .s_sched = s, .s_rounds = test_scale(40, 4) };
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&storm.s_workers[i], s, i >= STORM_THREADS, i, join_soon,
			     &storm);
	cancel_some(storm.s_workers, STORM_THREADS);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&storm.s_workers[i]);
	assert_int_equal(storm.s_done, STORMERS * storm.s_rounds);
}

TEST_CASE(test_join_storm, each_scheduler, join_storm)

int main(void)
{
	return over_all(OVER_ALL);
}
