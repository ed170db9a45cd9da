/* SPDX-License-Identifier: MIT */
/*
 * test_deadlock.c: deadlocks: native and joining threads get -EDEADLK, the threads are
 * reported, and destroy frees them.
 */
#include "../help/procs.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "../../usync.h"

/* ---- Told to native threads, and to threads ---- */

static void deadlock_native(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1 }, u = { .t_need = 1 };
	char text[40];

	start_taker(s, &t);
	start_taker(s, &u);
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 3);
	assert_int_equal(lines_with("can wake: 2"), 1);
	snprintf(text, sizeof text, "thread %p,", (void *)t.t_thread);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "thread %p,", (void *)u.t_thread);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "function %p (", (void *)(uintptr_t)take);
	assert_int_equal(lines_with(text), 2);
	assert_int_equal(lines_with("waits for a wake"), 2);

	finish(t.t_thread);
	assert_int_equal(line_count, 3);
	assert_int_equal(ustack_join(u.t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 5);
	assert_int_equal(lines_with(text), 3);
	finish(u.t_thread);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(line_count, 5);
}

TEST_CASE(test_deadlock_native, each_conf, deadlock_native)

/* Joins in vain, and then wakes the thread. */
static void join_in_vain(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, NULL, USCHED_NEVER), -EDEADLK);
	wake_times(j->j_thread, 1);
	TEST_EQUAL(ustack_join(j->j_thread, NULL, USCHED_NEVER), 0);
	j->j_done++;
}

static void deadlock_thread(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1 };
	struct joins j = { .j_sched = s };
	struct ustack *joiner;
	char text[80];

	start_taker(s, &t);
	j.j_thread = t.t_thread;
	assert_int_equal(over->o_start(s, join_in_vain, &j, &joiner), 0);
	assert_int_equal(ustack_join(joiner, NULL, USCHED_NEVER), 0);
	assert_int_equal(j.j_done, 1);
	assert_int_equal(line_count, 3);
	snprintf(text, sizeof text, "thread %p, function %p (", (void *)joiner,
		 (void *)(uintptr_t)join_in_vain);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "), joins thread %p", (void *)t.t_thread);
	assert_int_equal(lines_with(text), 1);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_deadlock_thread, each_conf, deadlock_thread)

static void join_mate(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_wait(), 0);
	j->j_rc = ustack_join(j->j_thread, NULL, USCHED_NEVER);
	j->j_done++;
}

/*
 * Two threads join each other. Both joins end. If the first thread ends before the
 * second has run, the join of the second succeeds.
 */
static void deadlock_cycle(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct joins a = { .j_sched = s }, b = { .j_sched = s };

	assert_int_equal(over->o_start(s, join_mate, &a, &b.j_thread), 0);
	assert_int_equal(over->o_start(s, join_mate, &b, &a.j_thread), 0);
	wake_times(a.j_thread, 1);
	wake_times(b.j_thread, 1);
	await_joiner(a.j_thread);
	await_joiner(b.j_thread);
	assert_int_equal(line_count, 0);                /* no native thread asks */
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(line_count, 3);
	assert_int_equal(a.j_done + b.j_done, 2);
	assert_true(a.j_rc == -EDEADLK || b.j_rc == -EDEADLK);
	assert_true(a.j_rc == 0 || a.j_rc == -EDEADLK);
	assert_true(b.j_rc == 0 || b.j_rc == -EDEADLK);
}

TEST_CASE(test_deadlock_cycle, each_conf, deadlock_cycle)

/* ---- Destroy ---- */

static void join_then_stay(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, NULL, USCHED_NEVER), -EDEADLK);
	j->j_done++;
	ustack_wait();
	TEST_TRUE(0);
}

/* Destroy frees threads that wait at all depths: joinable, detached, after -EDEADLK. */
static void deadlock_destroy(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker takers[30] = { 0 };
	struct joins j = { .j_sched = s };

	for (size_t i = 0; i < 30; i++) {
		takers[i].t_need = 1;
		takers[i].t_depth = i * i * 100;
		start_taker(s, &takers[i]);
		if (i % 3 == 0)
			assert_int_equal(ustack_detach(takers[i].t_thread), 0);
	}
	j.j_thread = takers[1].t_thread;
	assert_int_equal(over->o_start(s, join_then_stay, &j, NULL), 0);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
	assert_int_equal(j.j_done, 1);
	assert_int_equal(line_count, 2 * (1 + 20 + 1));
	assert_int_equal(lines_with("can wake: 31"), 2);
	assert_int_equal(lines_with("and 11 more"), 2);
	for (size_t i = 0; i < 30; i++)
		assert_int_equal(takers[i].t_got, 0);
}

TEST_CASE(test_deadlock_destroy, each_conf, deadlock_destroy)

/*
 * At the deadline threads go on. A deadlock is found although the deadline is far; not
 * while a native thread holds the scheduler. A deadline in the past does if all is over.
 */
static void deadlock_deadline(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1 };

	start_taker(s, &t);
	over->o_hold(s);
	assert_int_equal(uprocs_destroy(s, usync_after(5000000)), -ETIMEDOUT);
	assert_int_equal(uprocs_destroy(s, 0), -ETIMEDOUT);
	assert_int_equal(line_count, 0);
	over->o_release(s);
	assert_int_equal(uprocs_destroy(s, usync_after(3600 * USYNC_SECOND)), -EDEADLK);
	assert_int_equal(lines_with("can wake: 1"), 1);

	s = make(conf);
	t = (struct taker){ .t_need = 1 };
	start_taker(s, &t);
	finish(t.t_thread);
	assert_int_equal(uprocs_destroy(s, 0), 0);
	assert_int_equal(line_count, 0);
}

TEST_CASE(test_deadlock_deadline, each_conf, deadlock_deadline)

/* The report works on the smallest stacks. */
TEST(test_deadlock_small_stacks)
{
	struct uprocs_conf conf = {
		.c_processors = 1, .c_stacks = 16, .c_stack_size = 8192,
	};
	struct taker takers[40] = { 0 };
	int copy = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
	void *s = NULL;

	assert_int_equal(over->o_create(&conf, &s), 0);
	for (size_t i = 0; i < 40; i++) {
		takers[i].t_need = 1;
		start_taker(s, &takers[i]);
	}
	dup2(null, STDERR_FILENO);
	assert_int_equal(ustack_join(takers[3].t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
	dup2(copy, STDERR_FILENO);
	close(copy);
	close(null);
}

/* ---- News for several threads ---- */

/*
 * A and D join threads that wait. A gets -EDEADLK and has D go on at once, to join a
 * thread that runs, which is no deadlock. Many records lie between those of D and A, so
 * a walk of the records takes long enough to meet that join.
 */
static struct together {
	void           *t_sched;
	struct ustack  *t_first, *t_stuck, *t_late;
	struct ustack **t_between;
	size_t          t_count;
	int             t_rc;
} together;

/* As long as a walk of the records could take. */
static void run_a_while(void *unused)
{
	struct timespec begun, now;

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		ustack_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begun.tv_sec) * 1000
		 + (now.tv_nsec - begun.tv_nsec) / 1000000 < 100);
}

static void join_late(void *arg)
{
	struct together *t = arg;
	struct ustack *runs;

	TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(over->o_start(t->t_sched, run_a_while, NULL, &runs), 0);
	t->t_rc = ustack_join(runs, NULL, USCHED_NEVER);
}

static void join_first(void *arg)
{
	struct together *t = arg;

	TEST_EQUAL(ustack_join(t->t_stuck, NULL, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(ustack_wake(t->t_late), 0);
	TEST_EQUAL(ustack_wake(t->t_stuck), 0);
	TEST_EQUAL(ustack_join(t->t_stuck, NULL, USCHED_NEVER), 0);
	for (size_t i = 0; i < t->t_count; i++)
		TEST_EQUAL(ustack_wake(t->t_between[i]), 0);
}

TEST(test_deadlock_told_together)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	struct together *t = &together;

	*t = (struct together){ .t_sched = make(&conf) };
	t->t_count = test_scale(200000, 100);
	t->t_between = calloc(t->t_count, sizeof *t->t_between);
	assert_non_null(t->t_between);
	over->o_hold(t->t_sched);
	assert_int_equal(over->o_start(t->t_sched, join_late, t, &t->t_late), 0);
	start_waiter(t->t_sched, &t->t_stuck);
	for (size_t i = 0; i < t->t_count; i++)
		start_waiter(t->t_sched, &t->t_between[i]);
	assert_int_equal(over->o_start(t->t_sched, join_first, t, &t->t_first), 0);
	over->o_release(t->t_sched);
	assert_int_equal(ustack_join(t->t_late, NULL, USCHED_NEVER), 0);
	assert_int_equal(t->t_rc, 0);
	assert_int_equal(ustack_join(t->t_first, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(t->t_sched), 0);
	free(t->t_between);
}

/*
 * B joins a thread that waits, and A joins B. Both get news of the deadlock, B long
 * before A because of many other threads. B ends, so A goes on and joins a thread that
 * runs. Then the news arrive that were for its first join.
 */
static struct told_late {
	void           *t_sched;
	struct ustack  *t_stuck, *t_b, *t_a;
	struct ustack **t_others;
	size_t          t_count;
	int             t_rc;
} told_late;

static void join_stuck(void *arg)
{
	struct told_late *t = arg;

	TEST_EQUAL(ustack_join(t->t_stuck, NULL, USCHED_NEVER), -EDEADLK);
}

static void join_other(void *thread)
{
	struct ustack **other = thread;

	TEST_EQUAL(ustack_join(*other, NULL, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(ustack_wake(*other), 0);
	TEST_EQUAL(ustack_detach(*other), 0);
}

static void join_twice(void *arg)
{
	struct told_late *t = arg;
	struct ustack *runs;
	int rc = ustack_join(t->t_b, NULL, USCHED_NEVER);

	if (rc == -EDEADLK)                     /* in another order of threads */
		rc = ustack_join(t->t_b, NULL, USCHED_NEVER);
	TEST_EQUAL(rc, 0);
	TEST_EQUAL(over->o_start(t->t_sched, run_a_while, NULL, &runs), 0);
	t->t_rc = ustack_join(runs, NULL, USCHED_NEVER);
	TEST_EQUAL(ustack_wake(t->t_stuck), 0);
	TEST_EQUAL(ustack_join(t->t_stuck, NULL, USCHED_NEVER), 0);
}

TEST(test_deadlock_told_late)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct told_late *t = &told_late;
	void *s;

	s = make(&conf);
	*t = (struct told_late){ .t_sched = s };
	t->t_count = test_scale(100000, 100);
	t->t_others = calloc(t->t_count, sizeof *t->t_others);
	assert_non_null(t->t_others);
	over->o_hold(t->t_sched);
	start_waiter(t->t_sched, &t->t_stuck);
	assert_int_equal(over->o_start(t->t_sched, join_stuck, t, &t->t_b), 0);
	for (size_t i = 0; i < t->t_count; i++)
		start_waiter(t->t_sched, &t->t_others[i]);
	for (size_t i = 0; i < t->t_count; i++)
		TEST_EQUAL(over->o_start(s, join_other, &t->t_others[i], NULL), 0);
	assert_int_equal(over->o_start(t->t_sched, join_twice, t, &t->t_a), 0);
	over->o_release(t->t_sched);
	assert_int_equal(ustack_join(t->t_a, NULL, USCHED_NEVER), 0);
	assert_int_equal(t->t_rc, 0);
	assert_int_equal(over->o_destroy(t->t_sched), 0);
	free(t->t_others);
}

/*
 * News of a deadlock arrive after the join has succeeded: the thread that got the news
 * first has ended before the mail of the others was sent.
 */
struct late {
	void  *l_sched;
	size_t l_runs;
};

static void get_late_news(void *arg)
{
	struct late *l = arg;
	struct ustack *self = ustack_self();

	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(uproc_post(uproc_thread(self), UPROC_MAIL_DEADLOCK), 0);
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(self->u_tokens, 0);
		l->l_runs++;
	}
	TEST_EQUAL(uproc_post(uproc_thread(self), UPROC_MAIL_DEADLOCK), 0);
	TEST_EQUAL(ustack_wait(), 0);           /* until one wake */
	l->l_runs++;
}

static void late_news(const struct uprocs_conf *conf)
{
	struct late l = { .l_sched = make(conf) };
	struct ustack *u;

	assert_int_equal(over->o_start(l.l_sched, get_late_news, &l, &u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(l.l_runs, 3);
	finish(u);
	assert_int_equal(l.l_runs, 4);
	assert_int_equal(over->o_destroy(l.l_sched), 0);
}

TEST_CASE(test_late_news, each_conf, late_news)

int main(void)
{
	return over_all(OVER_PROCS);
}
