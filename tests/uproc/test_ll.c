/* SPDX-License-Identifier: MIT */
/*
 * test_ll.c: what ll alone promises: groups, the order of threads, the bound, no atomic
 * instructions inside a group; and rr and ll in one process.
 */
#define _GNU_SOURCE             /* REG_EFL, for step.h */
#include "../../ll.h"
#include "../../rr.h"

#include <pthread.h>
#include <stdbool.h>

#include "../help/procs.h"
#include "../help/step.h"

enum { QUEUED = 20 };

/* Threads of one group are on one processor and share it without locks. */
struct pair {
	struct uprocs     *p_ll;
	struct ustack *p_threads[2];
	size_t         p_dispatches;
	int            p_stop;
	size_t         p_queued;        /* of the queued threads: how many ran, */
	size_t         p_when[QUEUED];  /* and after how many dispatches */
};

/* Wakes the other and waits, again and again: each wake runs its thread next. */
static void hog(struct pair *p, struct ustack *other)
{
	while (!p->p_stop) {
		TEST_EQUAL(ustack_wake(other), 0);
		TEST_EQUAL(ustack_wait(), 0);
		p->p_dispatches++;
	}
	ustack_wake(other);
}

static void hog_first(void *arg)
{
	struct pair *p = arg;

	hog(p, p->p_threads[1]);
}

static void hog_second(void *arg)
{
	struct pair *p = arg;

	TEST_EQUAL(ustack_wait(), 0);
	hog(p, p->p_threads[0]);
}

static void note_dispatch(void *arg)
{
	struct pair *p = arg;

	p->p_when[p->p_queued++] = p->p_dispatches++;
	if (p->p_queued == QUEUED)
		p->p_stop = 1;
}

static void start_pair(void *arg)
{
	struct pair *p = arg;

	TEST_EQUAL(ustack_start(hog_second, p, &p->p_threads[1]), 0);
	TEST_EQUAL(ustack_start(hog_first, p, &p->p_threads[0]), 0);
	for (int i = 0; i < QUEUED; i++)
		TEST_EQUAL(ustack_start(note_dispatch, p, NULL), 0);
}

static void bound(const struct uprocs_conf *conf)
{
	struct pair p = { .p_ll = make_in_order(conf) };

	assert_int_equal(ll_start(ll_group(p.p_ll, 0), start_pair, &p, NULL), 0);
	assert_int_equal(uprocs_destroy(p.p_ll, USCHED_NEVER), 0);
	assert_int_equal(p.p_queued, QUEUED);
	assert_in_range(p.p_when[0], test_is_stressed() ? 0 : LL_BOUND / 2, LL_BOUND + 1);
	for (size_t n = 1; n < QUEUED; n++)
		assert_in_range(p.p_when[n] - p.p_when[n - 1], 1, LL_BOUND + 1);
}

TEST_CASE(test_bound, each_conf, bound)

/* Mail of native threads is not starved: here it ends the pair. */
static void stop_pair(void *arg)
{
	struct pair *p = arg;

	p->p_stop = 1;
}

static void start_hogs(void *arg)
{
	struct pair *p = arg;

	TEST_EQUAL(ustack_start(hog_second, p, &p->p_threads[1]), 0);
	TEST_EQUAL(ustack_start(hog_first, p, &p->p_threads[0]), 0);
}

TEST(test_mail_is_not_starved)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct pair p = { 0 };

	p.p_ll = make(&conf);
	assert_int_equal(ll_start(ll_group(p.p_ll, 0), start_hogs, &p, NULL), 0);
	sleep_ms(10);
	assert_int_equal(ll_start(ll_group(p.p_ll, 0), stop_pair, &p, NULL), 0);
	assert_int_equal(uprocs_destroy(p.p_ll, USCHED_NEVER), 0);
}

static struct ustack *sleepers[3];

/*
 * Q is queued. The last thread to be woken runs next. The other two queue up behind Q in
 * order, and a thread that yields behind them.
 */
static void wake_three(void *ll)
{
	TEST_EQUAL(ll_start(ll_group(ll, USCHED_BESIDE), say_twice, "Q", NULL), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_wake(sleepers[i]), 0);
	say('0');
	TEST_EQUAL(ustack_yield(), 0);
	say('1');
}

static void run_next(const struct uprocs_conf *conf)
{
	static char letters[3][2] = { "A", "B", "C" };
	struct uprocs *ll = make_in_order(conf);
	struct ll_group *g = ll_group(ll, 0);

	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(ll_start(g, wait_and_say, letters[i], &sleepers[i]), 0);
	assert_int_equal(ustack_join(sleepers[0], NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(ll_start(g, wake_three, ll, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(ustack_join(sleepers[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(ll, USCHED_NEVER), 0);
	assert_string_equal(script, "0CQAB1q");
}

TEST_CASE(test_run_next, each_conf, run_next)

/* The native thread on which the threads of a group run. */
struct where {
	struct uprocs   *w_ll;
	struct ll_group *w_group;
	pthread_t        w_native;
	atomic_size_t    w_count;
};

static void stay(void *arg)
{
	struct where *w = arg;

	if (w->w_count++ == 0)
		w->w_native = pthread_self();
	for (int i = 0; i < 5; i++) {
		TEST_TRUE(pthread_equal(pthread_self(), w->w_native));
		TEST_EQUAL(ustack_yield(), 0);
	}
}

static void start_inside(void *arg)
{
	struct where *w = arg;

	stay(w);
	for (int i = 0; i < 10; i++)
		TEST_EQUAL(ustack_start(stay, w, NULL), 0);
}

static void groups(const struct uprocs_conf *conf)
{
	enum { GROUPS = 8 };
	struct uprocs *ll = make(conf);
	struct where where[GROUPS], outside[GROUPS];

	for (size_t i = 0; i < GROUPS; i++) {
		where[i] = (struct where){ .w_ll = ll, .w_group = ll_group(ll, 0) };
		assert_int_equal(ll_start(where[i].w_group, start_inside, &where[i],
					  NULL), 0);
		for (int k = 0; k < 10; k++)
			assert_int_equal(ll_start(where[i].w_group, stay, &where[i],
						  NULL), 0);
		await_count(&where[i].w_count, 1);
	}
	for (size_t i = 0; i < GROUPS; i++) {
		outside[i] = (struct where){ .w_ll = ll };
		assert_int_equal(ll_start(ll_group(ll, 0), start_inside, &outside[i],
					  NULL), 0);
	}
	assert_int_equal(uprocs_destroy(ll, USCHED_NEVER), 0);
	for (size_t i = 0; i < GROUPS; i++) {
		size_t same = 0;

		assert_int_equal(where[i].w_count, 21);
		assert_int_equal(outside[i].w_count, 11);
		for (size_t k = 0; k < GROUPS; k++) {
			same += pthread_equal(outside[i].w_native,
					      outside[k].w_native) != 0;
			if ((i + k) % conf->c_processors == i % conf->c_processors
			    && i + k < GROUPS)
				assert_true(pthread_equal(where[i].w_native,
							  where[i + k].w_native));
		}
		assert_int_equal(same, GROUPS / conf->c_processors);
	}
}

TEST_CASE(test_groups, each_conf, groups)

static void start_beside(void *arg)
{
	struct where *w = arg;

	TEST_TRUE(ll_group(w->w_ll, USCHED_BESIDE) == w->w_group);
}

static void groups_on(const struct uprocs_conf *conf)
{
	struct where w = { .w_ll = make(conf) };
	struct ustack *u;

	assert_null(ll_group(w.w_ll, USCHED_ON(conf->c_processors)));
	assert_null(ll_group(w.w_ll, USCHED_BESIDE));
	for (unsigned i = 0; i < conf->c_processors; i++) {
		assert_true(ll_group(w.w_ll, USCHED_ON(i)) != w.w_group);
		w.w_group = ll_group(w.w_ll, USCHED_ON(i));
		assert_int_equal(ll_start(w.w_group, start_beside, &w, &u), 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	}
	assert_int_equal(uprocs_destroy(w.w_ll, USCHED_NEVER), 0);
}

TEST_CASE(test_groups_on, each_conf, groups_on)

/*
 * Wakes, waits, and switches inside a group, by single instructions. On x86-64 an
 * instruction is atomic if it has the prefix f0, or is an exchange with memory.
 */
static size_t atomic_instructions;
static bool   step_on;

static bool count_atomics(const unsigned char *pc)
{
	bool lock = false;

	while (*pc == 0xf0 || *pc == 0xf2 || *pc == 0xf3 || *pc == 0x66
	       || (*pc & 0xf0) == 0x40) {
		lock = lock || *pc == 0xf0;
		pc++;
	}
	if (lock || ((*pc & 0xfe) == 0x86 && (pc[1] & 0xc0) != 0xc0))
		atomic_instructions++;
	return step_on;
}

enum { ROUNDS = 50, IMAGE = 2048 };

static struct ustack *steppers[2];

static void ping(void *arg)
{
	atomic_size_t *control = arg;

	TEST_EQUAL(ustack_reserve(IMAGE), 0);   /* images are taken under a lock */
	for (int i = 0; i < ROUNDS; i++) {
		if (i == ROUNDS / 2) {          /* symbols are resolved by now */
			step_on = true;
			step(count_atomics);
			atomic_instructions = 0;        /* those of step() itself */
		}
		ustack_wake(steppers[1]);
		ustack_wait();
	}
	step_on = false;
	TEST_EQUAL(atomic_instructions, 0);
	step_on = true;
	step(count_atomics);
	atomic_instructions = 0;
	++*control;
	step_on = false;
	ustack_wake(steppers[1]);
}

static void pong(void *arg)
{
	(void)arg;
	TEST_EQUAL(ustack_reserve(IMAGE), 0);
	for (int i = 0; i < ROUNDS; i++) {
		ustack_wait();
		ustack_wake(steppers[0]);
	}
	ustack_wait();                              /* the end has atomic instructions */
}

static void no_atomics(const struct uprocs_conf *conf)
{
	struct uprocs *ll = make(conf);
	struct ll_group *g = ll_group(ll, 0);
	atomic_size_t control = 0;

	assert_int_equal(ll_start(g, pong, NULL, &steppers[1]), 0);
	assert_int_equal(ll_start(g, ping, &control, &steppers[0]), 0);
	assert_int_equal(ustack_join(steppers[0], NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(steppers[1], NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(ll, USCHED_NEVER), 0);
	if (stepper.s_steps > 0)                        /* of the control */
		assert_int_equal(atomic_instructions, 1);
}

TEST(test_no_atomics)
{
	if (test_is_sanitized() || test_is_stressed() || test_is_counted())
		skip();                 /* their instructions are atomic, too */
	stepper.s_steps = 0;
	each_conf(no_atomics);
	if (stepper.s_steps == 0) {
		print_message("no single steps here\n");
		skip();
	}
}

/* ---- Several schedulers, of both kinds, whose threads wake and join each other ---- */

enum { SCHEDULERS = 3 };

struct mixed {
	struct uprocs     *m_rr[SCHEDULERS];
	struct uprocs     *m_ll[SCHEDULERS];
	struct ustack *m_nodes[2 * SCHEDULERS];
	size_t         m_rounds;
	atomic_size_t  m_joined;
};

struct mixed_node {
	struct mixed *n_mixed;
	size_t        n_index;
};

/* A ring through all schedulers, of both kinds in turn. */
static void relay_mixed(void *arg)
{
	struct mixed_node *n = arg;
	struct mixed *m = n->n_mixed;
	size_t right = (n->n_index + 1) % (2 * SCHEDULERS);

	for (size_t i = 0; i < m->m_rounds; i++) {
		TEST_EQUAL(ustack_wait(), 0);
		if (right != 0 || i + 1 < m->m_rounds)
			TEST_EQUAL(ustack_wake(m->m_nodes[right]), 0);
	}
	if (right != 0) {
		TEST_EQUAL(ustack_join(m->m_nodes[right], NULL, USCHED_NEVER), 0);
		m->m_joined++;
	}
}

static void mixed(const struct uprocs_conf *conf)
{
	struct mixed m = { .m_rounds = test_scale(200, 20) };
	struct mixed_node nodes[2 * SCHEDULERS];
	struct uprocs_conf c = *conf;

	c.c_log = log_line;
	for (size_t i = 0; i < SCHEDULERS; i++) {
		m.m_ll[i] = make(conf);
		assert_int_equal(rr_create(&c, &m.m_rr[i]), 0);
		uprocs_hold(m.m_ll[i], 1);
		uprocs_hold(m.m_rr[i], 1);
	}
	for (size_t i = 2 * SCHEDULERS; i-- > 0; ) {
		nodes[i] = (struct mixed_node){ &m, i };
		assert_int_equal(i % 2 ? ll_start(ll_group(m.m_ll[i / 2], 0), relay_mixed,
						  &nodes[i], &m.m_nodes[i]) :
				 rr_start(m.m_rr[i / 2], relay_mixed, &nodes[i],
					  &m.m_nodes[i]), 0);
	}
	finish(m.m_nodes[0]);
	assert_int_equal(m.m_joined, 2 * SCHEDULERS - 1);
	for (size_t i = 0; i < SCHEDULERS; i++) {
		uprocs_hold(m.m_ll[i], 0);
		uprocs_hold(m.m_rr[i], 0);
		assert_int_equal(uprocs_destroy(m.m_ll[i], USCHED_NEVER), 0);
		assert_int_equal(uprocs_destroy(m.m_rr[i], USCHED_NEVER), 0);
	}
	assert_int_equal(line_count, 0);
}

TEST_CASE(test_mixed, each_conf, mixed)

int main(void)
{
	return over_all(OVER_LL);
}
