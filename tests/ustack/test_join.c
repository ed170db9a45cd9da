/* SPDX-License-Identifier: MIT */
/*
 * test_join.c: joins: by threads and native threads, before and after the end, twice,
 * and as late as can be.
 */
#define _GNU_SOURCE             /* REG_EFL, for step.h */
#include "../help/procs.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "../help/step.h"

static void detach_it(void *arg)
{
	struct joins *j = arg;

	j->j_rc = ustack_detach(j->j_thread);
	j->j_done++;
}

static void join_all_ways(void *arg)
{
	struct joins *j = arg;
	struct ustack *u;

	TEST_EQUAL(ustack_join(ustack_self(), NULL, USCHED_NEVER), -EDEADLK);
	for (int i = 0; i < 20; i++) {                  /* before the end or after */
		TEST_EQUAL(over->o_start(j->j_sched, nothing, NULL, &u), 0);
		for (int k = 0; k < i % 4; k++)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	}
	TEST_EQUAL(over->o_start(j->j_sched, nothing, NULL, &u), 0);
	while (ustack_wake(u) == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);    /* after */
	j->j_done++;
}

static void join(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct joins j = { .j_sched = s }, k = { .j_sched = s };
	struct taker t = { .t_need = 1 };
	struct ustack *u, *joiner;

	run_to_end(s, join_all_ways, &j);
	assert_int_equal(j.j_done, 1);

	/* By a native thread: before the end, after it. */
	run_to_end(s, nothing, NULL);
	assert_int_equal(over->o_start(s, nothing, NULL, &u), 0);
	await_end(u);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);

	/* Twice. */
	start_taker(s, &t);
	k.j_thread = t.t_thread;
	assert_int_equal(over->o_start(s, join_it, &k, &joiner), 0);
	await_joiner(t.t_thread);
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EINVAL);
	assert_int_equal(ustack_detach(t.t_thread), -EINVAL);
	j = (struct joins){ .j_thread = t.t_thread };
	run_to_end(s, join_it, &j);
	assert_int_equal(j.j_rc, -EINVAL);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(joiner, NULL, USCHED_NEVER), 0);
	assert_int_equal(k.j_rc, 0);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(line_count, 0);
}

TEST_CASE(test_join, each_conf, join)

/*
 * On one processor: a thread has ended, and its joiner is runnable but has not run; then
 * another thread joins or detaches the same thread.
 */
struct in_flight {
	void          *f_sched;
	struct ustack *f_thread;
	struct ustack *f_second_thread;
	struct joins   f_second;
	void         (*f_func)(void *);
};

static void end_and_try(void *arg)
{
	struct in_flight *f = arg;

	wake_times(f->f_thread, 1);
	TEST_EQUAL(over->o_start(f->f_sched, f->f_func, &f->f_second,
				 &f->f_second_thread), 0);
}

static void join_in_flight(void (*func)(void *))
{
	struct uprocs_conf conf = { .c_processors = 1 };
	void *s = make(&conf);
	struct taker t = { .t_need = 1 };
	struct joins first = { .j_sched = s };
	struct in_flight f = { .f_sched = s, .f_func = func };
	struct ustack *joiner;

	start_taker(s, &t);
	f.f_thread = first.j_thread = f.f_second.j_thread = t.t_thread;
	assert_int_equal(over->o_start(s, join_it, &first, &joiner), 0);
	await_joiner(t.t_thread);
	run_to_end(s, end_and_try, &f);
	assert_int_equal(ustack_join(f.f_second_thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(joiner, NULL, USCHED_NEVER), 0);
	assert_int_equal(first.j_rc, 0);
	assert_int_equal(f.f_second.j_rc, -EINVAL);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_join_in_flight)
{
	join_in_flight(join_it);
	join_in_flight(detach_it);
}

enum { JOINERS = 8 };

static void join_by_natives(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker takers[JOINERS] = { 0 };
	struct joins joins[JOINERS] = { 0 };
	pthread_t natives[JOINERS];

	over->o_hold(s);
	for (size_t i = 0; i < JOINERS; i++) {
		takers[i].t_need = 1;
		start_taker(s, &takers[i]);
		joins[i].j_thread = takers[i].t_thread;
		pthread_create(&natives[i], NULL, join_native, &joins[i]);
	}
	for (size_t i = 0; i < JOINERS; i++)
		await_joiner(takers[i].t_thread);
	assert_int_equal(over->o_destroy(s), -EPERM);
	assert_int_equal(ustack_join(takers[0].t_thread, NULL, USCHED_NEVER), -EINVAL);
	assert_int_equal(ustack_detach(takers[0].t_thread), -EINVAL);
	for (size_t i = JOINERS; i-- > 0; ) {
		wake_times(takers[i].t_thread, 1);
		await_count(&joins[i].j_done, 1);
		assert_int_equal(joins[i].j_rc, 0);
		for (size_t k = 0; k < i; k++)
			assert_int_equal(joins[k].j_done, 0);
	}
	over->o_release(s);
	for (size_t i = 0; i < JOINERS; i++)
		pthread_join(natives[i], NULL);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(line_count, 0);
}

TEST_CASE(test_join_by_natives, each_conf, join_by_natives)

/*
 * A thread on another processor ends when its joiner is known and has not yet blocked.
 * The next wait of the joiner must be a wait for a token.
 */
static struct overtaken {
	void           *o_sched;
	struct ustack  *o_self;
	struct ustack  *o_thread;
	atomic_size_t   o_running;
	atomic_size_t   o_go;
} overtaken;

static void end_when_told(void *arg)
{
	struct overtaken *o = arg;

	o->o_running = 1;
	await_count(&o->o_go, 1);
}

static void wake_self(void *arg)
{
	struct overtaken *o = arg;

	TEST_EQUAL(ustack_wake(o->o_self), 0);
}

/* After the first instruction that makes the joiner known, waits for the mail. */
static bool overtake(const unsigned char *pc)
{
	struct uproc *p = uproc_from(ustack_sched(overtaken.o_self));
	struct uproc_thread *t = uproc_thread(overtaken.o_thread);

	(void)pc;
	if (__atomic_load_n(&uproc_rest(t)->re_joiner, __ATOMIC_SEQ_CST) == UPROC_OPEN)
		return true;
	overtaken.o_go = 1;
	while (!__atomic_load_n(&p->p_inbox, __ATOMIC_SEQ_CST))
		sched_yield();
	return false;
}

static void join_then_wait(void *arg)
{
	struct overtaken *o = arg;

	TEST_EQUAL(over->o_start(o->o_sched, end_when_told, o, &o->o_thread), 0);
	await_count(&o->o_running, 1);
	step(overtake);
	if (stepper.s_steps == 0)
		o->o_go = 1;
	TEST_EQUAL(ustack_join(o->o_thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_start(o->o_sched, wake_self, o, NULL), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

TEST(test_join_overtaken)
{
	struct uprocs_conf conf = { .c_processors = 2 };

	if (test_is_sanitized() || test_is_stressed())
		skip();                 /* their instructions would be stepped, too */
	overtaken = (struct overtaken){ .o_sched = make(&conf) };
	assert_int_equal(over->o_start(overtaken.o_sched, join_then_wait, &overtaken,
				       &overtaken.o_self), 0);
	assert_int_equal(ustack_join(overtaken.o_self, NULL, USCHED_NEVER), 0);
	assert_int_equal(line_count, 0);
	assert_int_equal(over->o_destroy(overtaken.o_sched), 0);
	if (stepper.s_steps == 0) {
		print_message("no single steps here\n");
		skip();
	}
}

/* A native thread may destroy the scheduler right after it joined the last thread. */
struct brief {
	size_t        b_spins;
	atomic_size_t b_ready;
};

static void be_brief(void *arg)
{
	struct brief *b = arg;

	b->b_ready = 1;
	spin(b->b_spins);
}

TEST(test_join_then_destroy)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(10000, 100);
	uint32_t seed = 1;

	for (size_t i = 0; i < rounds; i++) {
		struct brief b = { .b_spins = test_random(&seed) % 200 };
		void *s = make(&conf);
		struct ustack *t;

		assert_int_equal(over->o_start(s, be_brief, &b, &t), 0);
		while (i % 2 && !b.b_ready)
			;
		spin(test_random(&seed) % 200);
		assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
		assert_int_equal(over->o_destroy(s), 0);
	}
}

/* The scheduler cannot be destroyed before a native thread has left its join. */
TEST(test_destroy_while_joined)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(2000, 50);

	for (size_t i = 0; i < rounds; i++) {
		struct taker t = { .t_need = 1 };
		struct joins j = { 0 };
		void *s = make(&conf);
		pthread_t native;
		int rc;

		start_taker(s, &t);
		j.j_thread = t.t_thread;
		over->o_hold(s);
		assert_int_equal(pthread_create(&native, NULL, join_native, &j), 0);
		await_joiner(t.t_thread);
		wake_times(t.t_thread, 1);
		over->o_release(s);
		while ((rc = over->o_destroy(s)) == -EPERM)
			sched_yield();
		assert_int_equal(rc, 0);
		pthread_join(native, NULL);
		assert_int_equal(j.j_rc, 0);
	}
}

int main(void)
{
	return over_all(OVER_PROCS);
}
