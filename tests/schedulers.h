/* SPDX-License-Identifier: MIT */
/*
 * schedulers.h: the tests that rr and ll have in common. To be included once by
 * a test program that defines
 *
 *   _GNU_SOURCE                    before all else: for REG_EFL
 *   SCHED                          rr or ll
 *   START(s, func, arg, thread)    starts a thread on the next processor in turn
 *
 * Where it can, a test asks for a count by waiting for one token more than
 * were sent: the join that then returns -EDEADLK proves that nothing was lost and
 * nothing was invented, and that all is asleep. And it looks into uproc.h's
 * structures only to know when a thread has got into a join.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../uproc.h"
#include "step.h"

#define JOIN_NAMES(a, b) a##b
#define NAME(a, b)       JOIN_NAMES(a, b)
#define S(name)          NAME(SCHED, _##name)

typedef struct SCHED sched;

enum { LINES = 64, LINE_SIZE = 1024 };

/* What was reported: c_log is called by one native thread at a time. */
static char lines[LINES][LINE_SIZE];
static atomic_uint line_count;

static void log_line(const char *line)
{
	unsigned i = line_count;

	if (i < LINES)
		snprintf(lines[i], LINE_SIZE, "%s", line);
	line_count = i + 1;
}

/* How many of the lines contain `text'. */
static unsigned lines_with(const char *text)
{
	unsigned n = 0;

	for (unsigned i = 0; i < LINES && i < line_count; i++)
		n += strstr(lines[i], text) != NULL;
	return n;
}

static sched *make(const struct usched_conf *conf)
{
	struct usched_conf c = conf ? *conf : (struct usched_conf){ 0 };
	sched *s = NULL;

	if (!c.c_log)
		c.c_log = log_line;
	line_count = 0;
	assert_int_equal(S(create)(&c, &s), 0);
	return s;
}

/*
 * Runs `test' with few and many processors, stacks, and bytes in the record. Under a
 * sanitizer, where a start takes a millisecond, with each two of these, not each three.
 */
static void each_conf(void (*test)(const struct usched_conf *conf))
{
	static const unsigned processors[] = { 1, 2, 4 };
	static const unsigned stacks[] = { USCHED_NATIVE, 1, 0 };
	static const size_t images[] = { 1, 0, 4096 };
	size_t kinds = test_has_stacks() ? 3 : 1;

	for (size_t p = 0; p < 3; p++)
		for (size_t k = 0; k < kinds; k++)
			for (size_t i = 0; i < 3; i++) {
				struct usched_conf conf = {
					.c_processors = processors[p],
					.c_stacks     = stacks[k],
					.c_image      = images[i],
				};

				if (!test_is_sanitized() || (p + k + i) % 3 == 0)
					test(&conf);
			}
}

static size_t processors_of(const struct usched_conf *conf)
{
	return conf->c_processors;
}

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void await_count(atomic_size_t *count, size_t value)
{
	while (*count < value)
		sched_yield();
}

/* Until somebody is in the join of `u', and not only about to be. */
static void await_joiner(struct ustack *u)
{
	struct uproc_thread *t = uproc_thread(u);

	while (!__atomic_load_n(&t->t_joiner, __ATOMIC_SEQ_CST))
		sched_yield();
}

/* Calls f(arg) below `size' bytes of frame, and checks that they stay. */
static __attribute__((noinline)) void below(size_t size, void (*f)(void *),
					    void *arg)
{
	volatile unsigned char room[size];
	unsigned char mark = (unsigned char)((uintptr_t)arg >> 4);

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)(mark + i);
	f(arg);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)(mark + i));
}

/* A thread that takes some tokens and ends. */
struct taker {
	struct ustack *t_thread;
	size_t         t_need;
	atomic_size_t  t_got;
	size_t         t_depth;         /* bytes of frame where it waits */
};

static void take_one(void *arg)
{
	struct taker *t = arg;

	TEST_EQUAL(ustack_wait(), 0);
	t->t_got++;
}

static void take(void *arg)
{
	struct taker *t = arg;

	while (t->t_got < t->t_need)
		below(t->t_depth + 1, take_one, t);
}

static void spin(size_t n)
{
	for (volatile size_t i = 0; i < n; i++)
		;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void count_up(void *arg)
{
	atomic_size_t *count = arg;

	++*count;
}

static void wake_times(struct ustack *u, size_t n)
{
	while (n-- > 0)
		TEST_EQUAL(ustack_wake(u), 0);
}

/* ---- Tokens ---- */

struct gate {
	atomic_int     g_open;
	atomic_size_t  g_passed;
	struct ustack *g_other;
};

static void wake_other(void *arg)
{
	struct taker *t = arg;

	wake_times(t->t_thread, 100);
}

static void tokens(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 1000 };
	struct ustack *waker[2];

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	wake_times(t.t_thread, 300);
	for (int i = 0; i < 2; i++)
		assert_int_equal(START(s, wake_other, &t, &waker[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ustack_join(waker[i], USCHED_NEVER), 0);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_got, 500);
	wake_times(t.t_thread, 499);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_got, 999);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), 0);
	assert_int_equal(t.t_got, 1000);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_tokens(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tokens);
}

/* It is awake, and has not waited yet, while the wakes come. */
static void pass_gate(void *arg)
{
	struct gate *g = arg;

	while (!g->g_open)
		sched_yield();
	for (int i = 0; i < 3; i++, g->g_passed++)
		TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_wake(ustack_self()), 0);
	TEST_EQUAL(ustack_wake(ustack_self()), 0);
	for (int i = 0; i < 2; i++, g->g_passed++)
		TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_wait(), 0);
	g->g_passed++;
}

static void wake_first(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct gate g = { 0 };
	struct ustack *t;

	assert_int_equal(START(s, pass_gate, &g, &t), 0);
	wake_times(t, 3);
	g.g_open = 1;
	assert_int_equal(ustack_join(t, USCHED_NEVER), -EDEADLK);
	assert_int_equal(g.g_passed, 5);
	wake_times(t, 1);
	assert_int_equal(ustack_join(t, USCHED_NEVER), 0);
	assert_int_equal(g.g_passed, 6);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_wake_before_wait(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(wake_first);
}

/* Until a wake of `u' finds it ended: at once when nobody reuses its record. */
static void await_end(struct ustack *u)
{
	int rc;

	while ((rc = ustack_wake(u)) == 0)
		sched_yield();
	TEST_EQUAL(rc, -ESRCH);
}

static void wake_ended(void *arg)
{
	struct gate *g = arg;

	TEST_EQUAL(ustack_wake(g->g_other), -ESRCH);
	g->g_passed++;
}

static void wake_after_end(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct gate g = { 0 };
	struct ustack *t, *u;

	assert_int_equal(START(s, nothing, NULL, &t), 0);
	await_end(t);
	g.g_other = t;
	for (size_t i = 0; i < processors_of(conf); i++) {
		assert_int_equal(START(s, wake_ended, &g, &u), 0);
		assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	}
	assert_int_equal(g.g_passed, processors_of(conf));
	assert_int_equal(ustack_wake(t), -ESRCH);
	assert_int_equal(ustack_join(t, USCHED_NEVER), 0);

	assert_int_equal(START(s, nothing, NULL, &t), 0);
	assert_int_equal(ustack_detach(t), 0);
	await_end(t);
	assert_int_equal(ustack_wake(t), -ESRCH);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_wake_after_end(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(wake_after_end);
}

/*
 * A handle of a detached thread that has ended may be in use by mistake while
 * its record becomes that of a new thread: one or the other gets the wake, and
 * nothing breaks.
 */
struct stale {
	sched                 *s_sched;
	struct ustack *_Atomic s_thread;
	atomic_int             s_stop;
};

static void *wake_stale(void *arg)
{
	struct stale *stale = arg;

	while (!stale->s_stop)
		if (stale->s_thread)
			ustack_wake(stale->s_thread);
	S(release)(stale->s_sched);
	return NULL;
}

static void test_wake_stale(void **state)
{
	struct usched_conf conf = { .c_processors = 2 };
	size_t rounds = test_scale(100000, 1000);
	struct stale stale = { NULL, NULL, 0 };
	atomic_size_t count = 0;
	pthread_t native;
	sched *s;

	(void)state;
	test_timeout(60);
	s = stale.s_sched = make(&conf);
	S(hold)(s);
	assert_int_equal(pthread_create(&native, NULL, wake_stale, &stale), 0);
	for (size_t i = 0; i < rounds; i++) {
		struct ustack *t;

		assert_int_equal(START(s, count_up, &count, &t), 0);
		stale.s_thread = t;
		if (i % 2)
			assert_int_equal(ustack_join(t, USCHED_NEVER), 0);
		else
			assert_int_equal(ustack_detach(t), 0);
	}
	stale.s_stop = 1;
	pthread_join(native, NULL);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(count, rounds);
}

/* ---- Wakes from native threads that are no processors ---- */

enum { TARGETS = 48, NATIVES = 4 };

struct flood {
	sched        *f_sched;
	struct taker *f_takers;
	size_t        f_rounds;
};

static void *flood(void *arg)
{
	struct flood *f = arg;

	for (size_t i = 0; i < f->f_rounds; i++)
		for (size_t k = 0; k < TARGETS; k++)
			TEST_EQUAL(ustack_wake(f->f_takers[k].t_thread), 0);
	S(release)(f->f_sched);
	return NULL;
}

static void foreign_wakes(const struct usched_conf *conf, size_t wakes)
{
	sched *s = make(conf);
	struct taker takers[TARGETS] = { 0 };
	struct flood f = { s, takers, wakes / TARGETS / NATIVES + 1 };
	pthread_t natives[NATIVES];

	for (size_t i = 0; i < TARGETS; i++) {
		takers[i].t_need = f.f_rounds * NATIVES + 1;
		takers[i].t_depth = i * i;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
	}
	for (size_t i = 0; i < NATIVES; i++) {
		S(hold)(s);
		assert_int_equal(pthread_create(&natives[i], NULL, flood, &f), 0);
	}
	assert_int_equal(ustack_join(takers[0].t_thread, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < NATIVES; i++)
		pthread_join(natives[i], NULL);
	for (size_t i = 0; i < TARGETS; i++) {
		assert_int_equal(takers[i].t_got, f.f_rounds * NATIVES);
		wake_times(takers[i].t_thread, 1);
		assert_int_equal(ustack_join(takers[i].t_thread, USCHED_NEVER), 0);
	}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_foreign_wakes(void **state)
{
	static const struct usched_conf confs[] = {
		{ .c_processors = 1 },
		{ .c_processors = 2 },
		{ .c_processors = 4, .c_image = 4096 },
		{ .c_processors = 2, .c_stacks = 1, .c_image = 1 },
		{ .c_processors = 2, .c_stacks = USCHED_NATIVE },
	};
	size_t wakes = test_scale(10000000, 10000);

	(void)state;
	test_timeout(300);
	for (size_t i = 0; i < sizeof confs / sizeof *confs; i++)
		foreign_wakes(&confs[i], wakes / 5);
}

/* ---- Wakes between processors ---- */

enum { NODES = 24 };

struct node {
	struct ustack *n_thread;
	struct node   *n_nodes;         /* all of them */
	size_t         n_rounds;
	atomic_size_t  n_got;
};

/* One token goes round; the last node keeps it in the end. */
static void relay(void *arg)
{
	struct node *n = arg, *last = n->n_nodes + NODES - 1;
	struct node *right = n == last ? n->n_nodes : n + 1;

	for (size_t i = 0; i < n->n_rounds; i++) {
		TEST_EQUAL(ustack_wait(), 0);
		n->n_got++;
		if (n != last || i + 1 < n->n_rounds)
			TEST_EQUAL(ustack_wake(right->n_thread), 0);
	}
}

/* Each wakes each, in an order of its own, with pauses of each kind. */
static void mingle(void *arg)
{
	struct node *n = arg;
	uint32_t seed = (uint32_t)(n - n->n_nodes) + 1;

	TEST_EQUAL(ustack_wait(), 0);
	for (size_t i = 0; i < n->n_rounds; i++) {
		uint32_t first = test_random(&seed) % NODES;

		for (size_t k = 0; k < NODES; k++)
			TEST_EQUAL(ustack_wake(n->n_nodes[(first + k) % NODES].n_thread), 0);
		if (first % 3 == 0)
			TEST_EQUAL(ustack_yield(), 0);
		for (size_t k = 0; k < NODES; k++, n->n_got++)
			TEST_EQUAL(ustack_wait(), 0);
	}
	TEST_EQUAL(ustack_wait(), 0);
}

static void start_nodes(sched *s, struct node *nodes, void (*func)(void *),
			size_t rounds)
{
	for (size_t i = 0; i < NODES; i++) {
		nodes[i] = (struct node){ .n_nodes = nodes, .n_rounds = rounds };
		assert_int_equal(START(s, func, &nodes[i], &nodes[i].n_thread), 0);
	}
}

static void between(const struct usched_conf *conf)
{
	sched *s = make(conf);
	size_t rounds = test_scale(400, 20);
	struct node nodes[NODES];

	start_nodes(s, nodes, relay, rounds);
	wake_times(nodes[0].n_thread, 1);
	for (size_t i = 0; i < NODES; i++) {
		assert_int_equal(ustack_join(nodes[i].n_thread, USCHED_NEVER), 0);
		assert_int_equal(nodes[i].n_got, rounds);
	}
	start_nodes(s, nodes, mingle, rounds / 10);
	for (size_t i = 0; i < NODES; i++)
		wake_times(nodes[i].n_thread, 1);
	assert_int_equal(ustack_join(nodes[0].n_thread, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < NODES; i++) {
		assert_int_equal(nodes[i].n_got, rounds / 10 * NODES);
		wake_times(nodes[i].n_thread, 1);
	}
	for (size_t i = 0; i < NODES; i++)
		assert_int_equal(ustack_join(nodes[i].n_thread, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_wakes_between(void **state)
{
	(void)state;
	test_timeout(120);
	each_conf(between);
}

/* ---- Join and detach ---- */

struct joins {
	sched         *j_sched;
	struct ustack *j_thread;
	atomic_size_t  j_done;
	int            j_rc;
};

static void join_it(void *arg)
{
	struct joins *j = arg;

	j->j_rc = ustack_join(j->j_thread, USCHED_NEVER);
	j->j_done++;
}

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

	TEST_EQUAL(ustack_join(ustack_self(), USCHED_NEVER), -EDEADLK);
	for (int i = 0; i < 20; i++) {                  /* before its end or after */
		TEST_EQUAL(START(j->j_sched, nothing, NULL, &u), 0);
		for (int k = 0; k < i % 4; k++)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
	}
	TEST_EQUAL(START(j->j_sched, nothing, NULL, &u), 0);
	while (ustack_wake(u) == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);                      /* after */
	j->j_done++;
}

static void join(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct joins j = { .j_sched = s }, k = { .j_sched = s };
	struct taker t = { .t_need = 1 };
	struct ustack *u, *joiner;

	assert_int_equal(START(s, join_all_ways, &j, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(j.j_done, 1);

	/* By a native thread: before the end, after it. */
	assert_int_equal(START(s, nothing, NULL, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(START(s, nothing, NULL, &u), 0);
	await_end(u);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);

	/* Twice. */
	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	k.j_thread = t.t_thread;
	assert_int_equal(START(s, join_it, &k, &joiner), 0);
	await_joiner(t.t_thread);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EINVAL);
	assert_int_equal(ustack_detach(t.t_thread), -EINVAL);
	j = (struct joins){ .j_thread = t.t_thread };
	assert_int_equal(START(s, join_it, &j, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(j.j_rc, -EINVAL);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(joiner, USCHED_NEVER), 0);
	assert_int_equal(k.j_rc, 0);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(line_count, 0);
}

static void test_join(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(join);
}

/*
 * On one processor: a thread has ended and who joins it was told but has not run,
 * when another joins it, or detaches it.
 */
struct in_flight {
	sched         *f_sched;
	struct ustack *f_thread;
	struct ustack *f_second_thread;
	struct joins   f_second;
	void         (*f_func)(void *);
};

static void end_and_try(void *arg)
{
	struct in_flight *f = arg;

	wake_times(f->f_thread, 1);
	TEST_EQUAL(START(f->f_sched, f->f_func, &f->f_second, &f->f_second_thread), 0);
}

static void join_in_flight(void (*func)(void *))
{
	struct usched_conf conf = { .c_processors = 1 };
	sched *s = make(&conf);
	struct taker t = { .t_need = 1 };
	struct joins first = { .j_sched = s };
	struct in_flight f = { .f_sched = s, .f_func = func };
	struct ustack *joiner, *u;

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	f.f_thread = first.j_thread = f.f_second.j_thread = t.t_thread;
	assert_int_equal(START(s, join_it, &first, &joiner), 0);
	await_joiner(t.t_thread);
	assert_int_equal(START(s, end_and_try, &f, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(f.f_second_thread, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(joiner, USCHED_NEVER), 0);
	assert_int_equal(first.j_rc, 0);
	assert_int_equal(f.f_second.j_rc, -EINVAL);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_join_in_flight(void **state)
{
	(void)state;
	test_timeout(20);
	join_in_flight(join_it);
	join_in_flight(detach_it);
}

static void *join_native(void *arg)
{
	struct joins *j = arg;

	j->j_rc = ustack_join(j->j_thread, USCHED_NEVER);
	j->j_done++;
	return NULL;
}

enum { JOINERS = 8 };

static void join_by_natives(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker takers[JOINERS] = { 0 };
	struct joins joins[JOINERS] = { 0 };
	pthread_t natives[JOINERS];

	S(hold)(s);
	for (size_t i = 0; i < JOINERS; i++) {
		takers[i].t_need = 1;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
		joins[i].j_thread = takers[i].t_thread;
		pthread_create(&natives[i], NULL, join_native, &joins[i]);
	}
	for (size_t i = 0; i < JOINERS; i++)
		await_joiner(takers[i].t_thread);
	assert_int_equal(S(destroy)(s), -EPERM);
	assert_int_equal(ustack_join(takers[0].t_thread, USCHED_NEVER), -EINVAL);
	assert_int_equal(ustack_detach(takers[0].t_thread), -EINVAL);
	for (size_t i = JOINERS; i-- > 0; ) {
		wake_times(takers[i].t_thread, 1);
		await_count(&joins[i].j_done, 1);
		assert_int_equal(joins[i].j_rc, 0);
		for (size_t k = 0; k < i; k++)
			assert_int_equal(joins[k].j_done, 0);
	}
	S(release)(s);
	for (size_t i = 0; i < JOINERS; i++)
		pthread_join(natives[i], NULL);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(line_count, 0);
}

static void test_join_by_natives(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(join_by_natives);
}

/*
 * A thread on another processor ends after somebody has decided to join it, and
 * before that one blocks. The wait that follows must be a wait for a token.
 */
static struct overtaken {
	sched          *o_sched;
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

/* The first instruction after which the joiner is known: wait for the mail. */
static bool overtake(const unsigned char *pc)
{
	struct uproc *p = (struct uproc *)(void *)ustack_sched(overtaken.o_self);
	struct uproc_thread *t = uproc_thread(overtaken.o_thread);

	(void)pc;
	if (!__atomic_load_n(&t->t_joiner, __ATOMIC_SEQ_CST))
		return true;
	overtaken.o_go = 1;
	while (!__atomic_load_n(&p->p_inbox, __ATOMIC_SEQ_CST))
		sched_yield();
	return false;
}

static void join_then_wait(void *arg)
{
	struct overtaken *o = arg;

	TEST_EQUAL(START(o->o_sched, end_when_told, o, &o->o_thread), 0);
	await_count(&o->o_running, 1);
	step(overtake);
	if (stepper.s_steps == 0)
		o->o_go = 1;
	TEST_EQUAL(ustack_join(o->o_thread, USCHED_NEVER), 0);
	TEST_EQUAL(START(o->o_sched, wake_self, o, NULL), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void test_join_overtaken(void **state)
{
	struct usched_conf conf = { .c_processors = 2 };

	(void)state;
	if (test_is_sanitized() || test_is_harsh())
		skip();                 /* what they add would be stepped through as well */
	test_timeout(20);
	overtaken = (struct overtaken){ .o_sched = make(&conf) };
	assert_int_equal(START(overtaken.o_sched, join_then_wait, &overtaken,
			       &overtaken.o_self), 0);
	assert_int_equal(ustack_join(overtaken.o_self, USCHED_NEVER), 0);
	assert_int_equal(line_count, 0);
	assert_int_equal(S(destroy)(overtaken.o_sched), 0);
	if (stepper.s_steps == 0) {
		print_message("no single steps here\n");
		skip();
	}
}

/* The native thread that has joined the last thread may destroy at once. */
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

static void test_join_then_destroy(void **state)
{
	struct usched_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(10000, 100);
	uint32_t seed = 1;

	(void)state;
	test_timeout(120);
	for (size_t i = 0; i < rounds; i++) {
		struct brief b = { .b_spins = test_random(&seed) % 200 };
		sched *s = make(&conf);
		struct ustack *t;

		assert_int_equal(START(s, be_brief, &b, &t), 0);
		while (i % 2 && !b.b_ready)
			;
		spin(test_random(&seed) % 200);
		assert_int_equal(ustack_join(t, USCHED_NEVER), 0);
		assert_int_equal(S(destroy)(s), 0);
	}
}

/* Until the native thread in a join has left it, the scheduler stays. */
static void test_destroy_while_joined(void **state)
{
	struct usched_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(2000, 50);

	(void)state;
	test_timeout(60);
	for (size_t i = 0; i < rounds; i++) {
		struct taker t = { .t_need = 1 };
		struct joins j = { 0 };
		sched *s = make(&conf);
		pthread_t native;
		int rc;

		assert_int_equal(START(s, take, &t, &t.t_thread), 0);
		j.j_thread = t.t_thread;
		S(hold)(s);
		assert_int_equal(pthread_create(&native, NULL, join_native, &j), 0);
		await_joiner(t.t_thread);
		wake_times(t.t_thread, 1);
		S(release)(s);
		while ((rc = S(destroy)(s)) == -EPERM)
			sched_yield();
		assert_int_equal(rc, 0);
		pthread_join(native, NULL);
		assert_int_equal(j.j_rc, 0);
	}
}

static void join_then_take(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, USCHED_NEVER), 0);
	for (int i = 0; i < 3; i++, j->j_done++)
		TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void tokens_and_join(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 1 };
	struct joins j = { .j_sched = s };
	struct ustack *joiner;

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	j.j_thread = t.t_thread;
	assert_int_equal(START(s, join_then_take, &j, &joiner), 0);
	await_joiner(t.t_thread);
	wake_times(joiner, 3);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(joiner, USCHED_NEVER), -EDEADLK);
	assert_int_equal(j.j_done, 3);
	wake_times(joiner, 1);
	assert_int_equal(ustack_join(joiner, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_tokens_survive_join(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tokens_and_join);
}

static void detach(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 1 };
	atomic_size_t count = 0;
	struct ustack *u;

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	assert_int_equal(ustack_detach(t.t_thread), 0);
	assert_int_equal(ustack_detach(t.t_thread), -EINVAL);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EINVAL);
	wake_times(t.t_thread, 1);

	assert_int_equal(START(s, nothing, NULL, &u), 0);
	await_end(u);
	assert_int_equal(ustack_detach(u), 0);

	assert_int_equal(START(s, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(START(s, count_up, &count, NULL), 0);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(t.t_got, 1);
	assert_int_equal(count, 1);
}

static void test_detach(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(detach);
}

static size_t pool_bytes(sched *s)
{
	return uimage_pool_bytes(&((struct uprocs *)(void *)s)->r_images);
}

/* Every way in which a record may come back; it must. */
struct returns {
	sched        *r_sched;
	size_t        r_rounds;
	atomic_size_t r_started;
	atomic_size_t r_count;
	size_t        r_early;          /* bytes of the pool after some rounds */
};

static void start_and_return(struct returns *r, bool native)
{
	for (size_t i = 0; i < r->r_rounds; i++) {
		struct ustack *t = NULL;

		TEST_EQUAL(START(r->r_sched, count_up, &r->r_count, i % 3 ? &t : NULL), 0);
		r->r_started++;
		if (i % 3 == 1)
			TEST_EQUAL(ustack_detach(t), 0);
		else if (i % 3 == 2)
			TEST_EQUAL(ustack_join(t, USCHED_NEVER), 0);
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

static void test_records_return(void **state)
{
	struct usched_conf conf = { .c_processors = 2 };
	struct returns r = { .r_rounds = test_scale(100000, 10000) };
	struct ustack *t;

	(void)state;
	test_timeout(60);
	r.r_sched = make(&conf);
	start_and_return(&r, true);
	assert_in_range(pool_bytes(r.r_sched), r.r_early, r.r_early + (256 << 10));
	assert_int_equal(START(r.r_sched, return_inside, &r, &t), 0);
	assert_int_equal(ustack_join(t, USCHED_NEVER), 0);
	assert_in_range(pool_bytes(r.r_sched), r.r_early, r.r_early + (256 << 10));
	assert_int_equal(S(destroy)(r.r_sched), 0);
}

/* ---- Threads that start threads ---- */

struct tree {
	sched        *t_sched;
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
		TEST_EQUAL(START(b->b_tree->t_sched, sprout, child,
				 i ? &threads[i] : NULL), 0);
	}
	if (b->b_index == 2)
		TEST_EQUAL(ustack_yield(), 0);
	if (threads[1])
		TEST_EQUAL(ustack_join(threads[1], USCHED_NEVER), 0);
	if (threads[2])
		TEST_EQUAL(ustack_detach(threads[2]), 0);
	free(b);
}

static void tree(const struct usched_conf *conf)
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
	assert_int_equal(START(t.t_sched, sprout, b, NULL), 0);
	await_count(&t.t_count, all);
	S(stats)(t.t_sched, &stats);
	assert_int_equal(stats.s_launches, all);
	assert_int_equal(S(destroy)(t.t_sched), 0);
	assert_int_equal(t.t_count, all);
}

static void test_tree(void **state)
{
	(void)state;
	test_timeout(120);
	each_conf(tree);
}

/* ---- Deadlock ---- */

static void deadlock_native(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 1 }, u = { .t_need = 1 };
	char text[40];

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	assert_int_equal(START(s, take, &u, &u.t_thread), 0);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 3);
	assert_int_equal(lines_with("can wake: 2"), 1);
	snprintf(text, sizeof text, "thread %p,", (void *)t.t_thread);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "thread %p,", (void *)u.t_thread);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "function %p ", (void *)(uintptr_t)take);
	assert_int_equal(lines_with(text), 2);
	assert_int_equal(lines_with("waits for a wake"), 2);

	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), 0);
	assert_int_equal(line_count, 3);
	assert_int_equal(ustack_join(u.t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 5);
	wake_times(u.t_thread, 1);
	assert_int_equal(ustack_join(u.t_thread, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(line_count, 5);
}

static void test_deadlock_native(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(deadlock_native);
}

/* Joins in vain, and then helps itself. */
static void join_in_vain(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, USCHED_NEVER), -EDEADLK);
	wake_times(j->j_thread, 1);
	TEST_EQUAL(ustack_join(j->j_thread, USCHED_NEVER), 0);
	j->j_done++;
}

static void deadlock_thread(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 1 };
	struct joins j = { .j_sched = s };
	struct ustack *joiner;
	char text[80];

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	j.j_thread = t.t_thread;
	assert_int_equal(START(s, join_in_vain, &j, &joiner), 0);
	assert_int_equal(ustack_join(joiner, USCHED_NEVER), 0);
	assert_int_equal(j.j_done, 1);
	assert_int_equal(line_count, 3);
	snprintf(text, sizeof text, "thread %p, function %p ", (void *)joiner,
		 (void *)(uintptr_t)join_in_vain);
	assert_int_equal(lines_with(text), 1);
	snprintf(text, sizeof text, "), joins thread %p", (void *)t.t_thread);
	assert_int_equal(lines_with(text), 1);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_deadlock_thread(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(deadlock_thread);
}

static void join_mate(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_wait(), 0);
	j->j_rc = ustack_join(j->j_thread, USCHED_NEVER);
	j->j_done++;
}

/*
 * Two that join each other are told both. If one then ends before the other has
 * run, the other's join has succeeded after all.
 */
static void deadlock_cycle(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct joins a = { .j_sched = s }, b = { .j_sched = s };

	assert_int_equal(START(s, join_mate, &a, &b.j_thread), 0);
	assert_int_equal(START(s, join_mate, &b, &a.j_thread), 0);
	wake_times(a.j_thread, 1);
	wake_times(b.j_thread, 1);
	await_joiner(a.j_thread);
	await_joiner(b.j_thread);
	assert_int_equal(line_count, 0);                /* nobody asks */
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(line_count, 4);
	assert_int_equal(lines_with("cycle of 2 threads: "), 1);
	assert_int_equal(a.j_done + b.j_done, 2);
	assert_true(a.j_rc == -EDEADLK || b.j_rc == -EDEADLK);
	assert_true(a.j_rc == 0 || a.j_rc == -EDEADLK);
	assert_true(b.j_rc == 0 || b.j_rc == -EDEADLK);
}

static void test_deadlock_cycle(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(deadlock_cycle);
}

static void join_then_stay(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, USCHED_NEVER), -EDEADLK);
	j->j_done++;
	ustack_wait();
	TEST_TRUE(0);
}

/* Frees threads that wait at all depths, joinable, detached, or told before. */
static void deadlock_destroy(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker takers[30] = { 0 };
	struct joins j = { .j_sched = s };

	for (size_t i = 0; i < 30; i++) {
		takers[i].t_need = 1;
		takers[i].t_depth = i * i * 100;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
		if (i % 3 == 0)
			assert_int_equal(ustack_detach(takers[i].t_thread), 0);
	}
	j.j_thread = takers[1].t_thread;
	assert_int_equal(START(s, join_then_stay, &j, NULL), 0);
	assert_int_equal(S(destroy)(s), -EDEADLK);
	assert_int_equal(j.j_done, 1);
	assert_int_equal(line_count, 2 * (1 + 20 + 1));
	assert_int_equal(lines_with("can wake: 31"), 2);
	assert_int_equal(lines_with("and 11 more"), 2);
	for (size_t i = 0; i < 30; i++)
		assert_int_equal(takers[i].t_got, 0);
}

/*
 * A and D join threads that wait. A is told, and sees to it that D goes on at once,
 * to join a thread that runs: that is no deadlock. Between the records of D and A
 * are many, so that there is time if the records are walked meanwhile.
 */
static struct together {
	sched          *t_sched;
	struct ustack  *t_first, *t_stuck, *t_late;
	struct ustack **t_between;
	size_t          t_count;
	int             t_rc;
} together;

/* As long as such a walk could take. */
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
	TEST_EQUAL(START(t->t_sched, run_a_while, NULL, &runs), 0);
	t->t_rc = ustack_join(runs, USCHED_NEVER);
}

static void wait_once(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
}

static void join_first(void *arg)
{
	struct together *t = arg;

	TEST_EQUAL(ustack_join(t->t_stuck, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(ustack_wake(t->t_late), 0);
	TEST_EQUAL(ustack_wake(t->t_stuck), 0);
	TEST_EQUAL(ustack_join(t->t_stuck, USCHED_NEVER), 0);
	for (size_t i = 0; i < t->t_count; i++)
		TEST_EQUAL(ustack_wake(t->t_between[i]), 0);
}

static void test_deadlock_told_together(void **state)
{
	struct usched_conf conf = { .c_processors = 2 };
	struct together *t = &together;

	(void)state;
	test_timeout(60);
	*t = (struct together){ .t_sched = make(&conf) };
	t->t_count = test_scale(200000, 100);
	t->t_between = calloc(t->t_count, sizeof *t->t_between);
	assert_non_null(t->t_between);
	S(hold)(t->t_sched);
	assert_int_equal(START(t->t_sched, join_late, t, &t->t_late), 0);
	assert_int_equal(START(t->t_sched, wait_once, NULL, &t->t_stuck), 0);
	for (size_t i = 0; i < t->t_count; i++)
		assert_int_equal(START(t->t_sched, wait_once, NULL,
				       &t->t_between[i]), 0);
	assert_int_equal(START(t->t_sched, join_first, t, &t->t_first), 0);
	S(release)(t->t_sched);
	assert_int_equal(ustack_join(t->t_late, USCHED_NEVER), 0);
	assert_int_equal(t->t_rc, 0);
	assert_int_equal(ustack_join(t->t_first, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(t->t_sched), 0);
	free(t->t_between);
}

/*
 * B joins a thread that waits, and A joins B. Both are told of the deadlock, B long before
 * A, for there are many others. B ends, so A goes on, and joins a thread that runs: then
 * the news come which were for the join before.
 */
static struct told_late {
	sched          *t_sched;
	struct ustack  *t_stuck, *t_b, *t_a;
	struct ustack **t_others;
	size_t          t_count;
	int             t_rc;
} told_late;

static void join_stuck(void *arg)
{
	struct told_late *t = arg;

	TEST_EQUAL(ustack_join(t->t_stuck, USCHED_NEVER), -EDEADLK);
}

static void join_other(void *thread)
{
	struct ustack **other = thread;

	TEST_EQUAL(ustack_join(*other, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(ustack_wake(*other), 0);
	TEST_EQUAL(ustack_detach(*other), 0);
}

static void join_twice(void *arg)
{
	struct told_late *t = arg;
	struct ustack *runs;
	int rc = ustack_join(t->t_b, USCHED_NEVER);

	if (rc == -EDEADLK)                     /* told in time, in another order of threads */
		rc = ustack_join(t->t_b, USCHED_NEVER);
	TEST_EQUAL(rc, 0);
	TEST_EQUAL(START(t->t_sched, run_a_while, NULL, &runs), 0);
	t->t_rc = ustack_join(runs, USCHED_NEVER);
	TEST_EQUAL(ustack_wake(t->t_stuck), 0);
	TEST_EQUAL(ustack_join(t->t_stuck, USCHED_NEVER), 0);
}

static void test_deadlock_told_late(void **state)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct told_late *t = &told_late;

	(void)state;
	test_timeout(60);
	*t = (struct told_late){ .t_sched = make(&conf) };
	t->t_count = test_scale(100000, 100);
	t->t_others = calloc(t->t_count, sizeof *t->t_others);
	assert_non_null(t->t_others);
	S(hold)(t->t_sched);
	assert_int_equal(START(t->t_sched, wait_once, NULL, &t->t_stuck), 0);
	assert_int_equal(START(t->t_sched, join_stuck, t, &t->t_b), 0);
	for (size_t i = 0; i < t->t_count; i++)
		assert_int_equal(START(t->t_sched, wait_once, NULL, &t->t_others[i]), 0);
	for (size_t i = 0; i < t->t_count; i++)
		assert_int_equal(START(t->t_sched, join_other, &t->t_others[i], NULL), 0);
	assert_int_equal(START(t->t_sched, join_twice, t, &t->t_a), 0);
	S(release)(t->t_sched);
	assert_int_equal(ustack_join(t->t_a, USCHED_NEVER), 0);
	assert_int_equal(t->t_rc, 0);
	assert_int_equal(S(destroy)(t->t_sched), 0);
	free(t->t_others);
}

static void test_deadlock_destroy(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(deadlock_destroy);
}

/* The report must get by with the smallest stacks there are. */
static void test_deadlock_small_stacks(void **state)
{
	struct usched_conf conf = {
		.c_processors = 1, .c_stacks = 16, .c_stack_size = 8192,
	};
	struct taker takers[40] = { 0 };
	int copy = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
	sched *s = NULL;

	(void)state;
	test_timeout(20);
	assert_int_equal(S(create)(&conf, &s), 0);
	for (size_t i = 0; i < 40; i++) {
		takers[i].t_need = 1;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
	}
	dup2(null, STDERR_FILENO);
	assert_int_equal(ustack_join(takers[3].t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(S(destroy)(s), -EDEADLK);
	dup2(copy, STDERR_FILENO);
	close(copy);
	close(null);
}

/* ---- Handing over ---- */

/*
 * Of two threads that wake each other, who waits hands over to the other without asking
 * s_next, but for once in a while.
 */
static struct handover {
	sched          *h_sched;
	struct ustack  *h_one;
	struct ustack  *h_other;
	usched_next_fn *h_next;
	size_t          h_asked;
	size_t          h_rounds;
} handover;

static struct ustack *count_next(struct usched *s)
{
	handover.h_asked++;
	return handover.h_next(s);
}

static void hand_back(void *arg)
{
	struct handover *h = arg;

	for (size_t i = 0; i < h->h_rounds; i++) {
		TEST_EQUAL(ustack_wait(), 0);
		TEST_EQUAL(ustack_wake(h->h_one), 0);
	}
}

static void hand_over(void *arg)
{
	struct handover *h = arg;
	struct usched *s = ustack_sched(h->h_one);

	h->h_next = s->s_next;
	s->s_next = count_next;
	for (size_t i = 0; i < h->h_rounds; i++) {
		TEST_EQUAL(ustack_wake(h->h_other), 0);
		TEST_EQUAL(ustack_wait(), 0);
	}
	s->s_next = h->h_next;
}

static void test_waits_hand_over(void **state)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct handover *h = &handover;

	(void)state;
	test_timeout(20);
	*h = (struct handover){ .h_sched = make(&conf), .h_rounds = test_scale(10000, 1000) };
	assert_int_equal(START(h->h_sched, hand_back, h, &h->h_other), 0);
	assert_int_equal(START(h->h_sched, hand_over, h, &h->h_one), 0);
	assert_int_equal(ustack_join(h->h_one, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(h->h_other, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(h->h_sched), 0);
	assert_in_range(h->h_asked, 1, h->h_rounds / 8);
}

/* ---- Holding ---- */

/* What waits while somebody holds is not deadlocked. */
static void hold(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker t = { .t_need = 2 };
	struct joins j = { .j_sched = s };
	pthread_t native;

	assert_int_equal(START(s, take, &t, &t.t_thread), 0);
	j.j_thread = t.t_thread;
	S(hold)(s);
	S(hold)(s);
	assert_int_equal(pthread_create(&native, NULL, join_native, &j), 0);
	await_joiner(t.t_thread);
	wake_times(t.t_thread, 1);
	sleep_ms(10);
	S(release)(s);
	sleep_ms(10);
	assert_int_equal(j.j_done, 0);
	assert_int_equal(line_count, 0);
	S(release)(s);
	pthread_join(native, NULL);
	assert_int_equal(j.j_rc, -EDEADLK);
	assert_int_equal(line_count, 2);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_hold(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(hold);
}

struct holder {
	sched        *h_sched;
	size_t        h_spins;
	atomic_size_t h_ready;
	atomic_size_t h_count;
};

static void *hold_and_start(void *arg)
{
	struct holder *h = arg;

	h->h_ready = 1;
	spin(h->h_spins);
	TEST_EQUAL(START(h->h_sched, count_up, &h->h_count, NULL), 0);
	S(release)(h->h_sched);
	return NULL;
}

/* The release is the holder's last use; the scheduler may end in that moment. */
static void test_hold_and_destroy(void **state)
{
	struct usched_conf conf = { .c_processors = 1, .c_stacks = 1 };
	size_t rounds = test_scale(5000, 100);
	uint32_t seed = 1;

	(void)state;
	test_timeout(120);
	for (size_t i = 0; i < rounds; i++) {
		struct holder h = {
			.h_sched = make(&conf), .h_spins = test_random(&seed) % 500,
		};
		pthread_t native;

		S(hold)(h.h_sched);
		assert_int_equal(pthread_create(&native, NULL, hold_and_start, &h), 0);
		await_count(&h.h_ready, 1);
		spin(test_random(&seed) % 500);
		assert_int_equal(S(destroy)(h.h_sched), 0);
		assert_int_equal(h.h_count, 1);
		pthread_join(native, NULL);
	}
}

/* Nobody joins: nothing is said, and nobody uses the processor. */
static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_idle(void **state)
{
	struct usched_conf conf = { .c_processors = 4 };
	struct taker takers[100] = { 0 };
	double cpu, wall;
	sched *s;

	(void)state;
	test_timeout(60);
	s = make(&conf);
	for (size_t i = 0; i < 100; i++) {
		takers[i].t_need = 2;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
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
	assert_int_equal(S(destroy)(s), 0);
}

/* ---- The object ---- */

/* Valgrind and emulators have mappings of their own, and not as many. */
static bool scaled_down(void)
{
	return test_scale(2, 1) == 1;
}

static size_t count_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	size_t n = 0;
	int c;

	assert_non_null(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static size_t count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void come_and_go(size_t i)
{
	struct usched_conf conf = {
		.c_processors = 1 + (unsigned)i % 4,
		.c_stacks = i % 3 ? (unsigned)(i % 3) * 8 : USCHED_NATIVE,
	};
	struct taker takers[20] = { 0 };
	sched *s = make(&conf);

	for (size_t k = 0; k < 20; k++) {
		takers[k].t_need = 1;
		takers[k].t_depth = k == i % 20 ? 60000 : k * k * k;
		assert_int_equal(START(s, take, &takers[k], &takers[k].t_thread), 0);
		assert_int_equal(ustack_detach(takers[k].t_thread), 0);
	}
	if (i % 2)
		for (size_t k = 0; k < 20; k++)
			wake_times(takers[k].t_thread, 1);
	assert_int_equal(S(destroy)(s), i % 2 ? 0 : -EDEADLK);
}

static void test_create_destroy(void **state)
{
	size_t rounds = test_scale(1000, 20), mappings, descriptors;

	(void)state;
	test_timeout(120);
	for (size_t i = 0; i < rounds / 10; i++)        /* libc has its caches */
		come_and_go(i);
	mappings = count_mappings();
	descriptors = count_descriptors();
	for (size_t i = 0; i < rounds; i++)
		come_and_go(i);
	if (!scaled_down())
		assert_in_range(count_mappings(), 0, mappings + 12);
	assert_int_equal(count_descriptors(), descriptors);
}

static void test_create_errors(void **state)
{
	struct usched_conf tiny  = { .c_processors = 1, .c_stack_size = 4096 };
	struct usched_conf huge  = { .c_processors = 1, .c_stacks = 1,
				   .c_stack_size = (size_t)3 << 30 };
	struct usched_conf image = { .c_processors = 1, .c_image = 65537 };
	struct usched_conf many  = { .c_processors = 2, .c_stacks = 200000000 };
	struct usched_conf most  = { .c_processors = 2, .c_image = 65535 };
	size_t mappings;
	sched *s = NULL;

	(void)state;
	test_timeout(60);
	mappings = count_mappings();
	assert_int_equal(S(create)(&image, &s), -EINVAL);
	if (test_has_stacks()) {
		assert_int_equal(S(create)(&tiny, &s), -EINVAL);
		assert_int_equal(S(create)(&huge, &s), -EINVAL);
		for (size_t n = 100; n <= (scaled_down() ? 1000 : 1000000); n *= 10) {
			struct usched_conf some = {
				.c_processors = 2, .c_stacks = (unsigned)n,
			};

			if (S(create)(&some, &s) == 0)
				assert_int_equal(S(destroy)(s), 0);
		}
		if (!scaled_down())
			assert_int_equal(S(create)(&many, &s), -ENOMEM);
	}
	if (!scaled_down())
		assert_in_range(count_mappings(), 0, mappings + 12);
	assert_int_equal(S(create)(&most, &s), 0);
	assert_int_equal(START(s, nothing, NULL, NULL), 0);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(S(create)(NULL, &s), 0);
	assert_int_equal(START(s, nothing, NULL, NULL), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void destroy_inside(void *arg)
{
	TEST_EQUAL(S(destroy)(arg), -EPERM);
}

static void test_outside(void **state)
{
	sched *s;

	(void)state;
	test_timeout(20);
	s = make(NULL);
	assert_int_equal(ustack_yield(), -EPERM);
	assert_int_equal(ustack_wait(), -EPERM);
	assert_int_equal(START(s, destroy_inside, s, NULL), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void stats(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct taker takers[50] = { 0 };
	struct usched_stats st;

	for (size_t i = 0; i < 50; i++) {
		takers[i].t_need = 4;
		takers[i].t_depth = i * 300;
		assert_int_equal(START(s, take, &takers[i], &takers[i].t_thread), 0);
	}
	for (size_t k = 0; k < 4; k++) {
		assert_int_equal(ustack_join(takers[0].t_thread, USCHED_NEVER), -EDEADLK);
		S(stats)(s, &st);
		assert_int_equal(st.s_launches, 50);
		assert_in_range(st.s_switches, 50, 50 * (k + 1));
		assert_int_equal(st.s_images, 50);
		assert_true(st.s_image_bytes >= 50 * 49 / 2 * 300);
		assert_in_range(st.s_deepest, 49 * 300, 49 * 300 + 4096);
		for (size_t i = 0; i < 50; i++)
			wake_times(takers[i].t_thread, 1);
	}
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(ustack_join(takers[i].t_thread, USCHED_NEVER), 0);
	S(stats)(s, &st);
	assert_int_equal(st.s_launches, 50);
	assert_in_range(st.s_switches, 50, 50 * 5);
	assert_int_equal(st.s_evictions, st.s_loads);
	assert_int_equal(st.s_images, 0);
	assert_int_equal(st.s_image_bytes, 0);
	if (conf->c_stacks == 0 && conf->c_processors > 1 && test_has_stacks() && !test_is_harsh())
		assert_int_equal(st.s_bytes, 0);        /* R7: all fit */
	else if (conf->c_stacks == 1 && conf->c_processors == 1)
		assert_true(st.s_bytes >= 2 * 50 * 49 / 2 * 300);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_stats(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(stats);
}

static void take_when_told(void *arg)
{
	(void)arg;
	TEST_EQUAL(ustack_wait(), 0);
}

/*
 * R7: stacks come with the threads, until each of 1024 has its own, and where others must
 * share some, it is the first 64, and those who have one keep it.
 */
static void grow_stacks(size_t n)
{
	struct usched_conf conf = { .c_processors = 1 };
	struct ustack **threads = calloc(n, sizeof(struct ustack *));
	sched *s = make(&conf);
	size_t shared = 0;
	struct usched_stats st;

	TEST_TRUE(threads);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(START(s, take_when_told, NULL, &threads[i]), 0);
	assert_int_equal(ustack_join(threads[0], USCHED_NEVER), -EDEADLK);        /* all wait */
	for (size_t i = 0; i < n; i++) {
		const struct usched_stack *k = threads[i]->u_stack;

		assert_true(k->k_threads == 1 || k->k_shared);
		shared += k->k_threads > 1;
	}
	S(stats)(s, &st);
	if (n <= 1024) {
		assert_int_equal(shared, 0);
		assert_int_equal(st.s_evictions, 0);
	} else {
		assert_int_equal(shared, n - (1024 - 64));
		assert_true(st.s_evictions >= n - 1024);
	}
	for (size_t i = 0; i < n; i++)
		wake_times(threads[i], 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ustack_join(threads[i], USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
	free(threads);
}

static void test_stacks_grow(void **state)
{
	(void)state;
	if (test_is_harsh())
		skip();
	test_timeout(60);
	if (!test_has_stacks())
		skip();
	grow_stacks(65);
	grow_stacks(1024);
	if (!scaled_down())
		grow_stacks(3000);
}

static void deep_then_shallow(void *arg)
{
	struct taker *t = arg;

	below(30000, take_one, t);
	take_one(t);
	below(30000, take_one, t);
	take_one(t);
}

/* Has so many threads run that nobody is resident any more who was. */
static void evict_all(sched *s, const struct usched_conf *conf)
{
	size_t stacks = conf->c_stacks == USCHED_NATIVE ? 1 : conf->c_stacks;
	size_t n = 4 * processors_of(conf) * stacks;
	struct ustack **filler = calloc(n, sizeof(struct ustack *));

	TEST_TRUE(filler);
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(START(s, take_when_told, NULL, &filler[i]), 0);
	TEST_EQUAL(ustack_join(filler[0], USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < n; i++)
		wake_times(filler[i], 1);
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(ustack_join(filler[i], USCHED_NEVER), 0);
	free(filler);
}

/* The image follows the depth, up at once and down when it is needed, unless it shall not. */
static void exchange(const struct usched_conf *conf)
{
	for (unsigned keep = 0; keep < 2; keep++) {
		struct usched_conf c = *conf;
		struct taker t = { 0 };
		struct usched_stats st;
		sched *s;

		c.c_keep = keep;
		if (c.c_stacks == 0)
			c.c_stacks = 4;
		s = make(&c);
		assert_int_equal(START(s, deep_then_shallow, &t, &t.t_thread), 0);
		for (size_t i = 0; i < 4; i++) {
			assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EDEADLK);
			assert_int_equal(t.t_got, i);
			evict_all(s, &c);
			S(stats)(s, &st);
			assert_int_equal(st.s_images, 1);
			if (i % 2 == 0 || keep)
				assert_in_range(st.s_image_bytes, 30000, 45000);
			else
				assert_in_range(st.s_image_bytes, 64, 5000);
			wake_times(t.t_thread, 1);
		}
		assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), 0);
		assert_int_equal(S(destroy)(s), 0);
	}
}

static void test_exchange(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(exchange);
}

/* The calls for threads are for any dispatcher's, but for what its scheduler has not. */
static struct ustack foreign;

static struct ustack *foreign_next(struct usched *s)
{
	(void)s;
	return foreign.u_func ? &foreign : NULL;
}

static void *foreign_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	return malloc(*size);
}

static void foreign_free(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

static void try_all(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);           /* s_next returns the same */
	TEST_EQUAL(ustack_wake(&foreign), -ENOTSUP);
	TEST_EQUAL(foreign.u_tokens, INT32_MIN);
	TEST_EQUAL(ustack_yield(), -ENOTSUP);
	TEST_EQUAL(ustack_cancel(&foreign), -ENOTSUP);
	TEST_EQUAL(ustack_detach(&foreign), -ENOTSUP);
	TEST_EQUAL(ustack_join(&foreign, USCHED_NEVER), -ENOTSUP);
	TEST_EQUAL(ustack_name(&foreign, "foreign"), -ENOTSUP);
}

static void test_foreign_thread(void **state)
{
	struct usched s = {
		.s_next = foreign_next, .s_alloc = foreign_alloc, .s_free = foreign_free,
	};

	(void)state;
	test_timeout(10);
	assert_int_equal(usched_init(&s), 0);
	assert_int_equal(ustack_init(&s, &foreign, try_all, NULL, NULL, 0), 0);
	assert_int_equal(usched_run(&s), 0);
	assert_int_equal(usched_fini(&s), 0);
}

/*
 * News of a deadlock that come when the join they were for has succeeded: who was told
 * first has ended before the mail of the others was pushed.
 */
struct late {
	sched *l_sched;
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
	TEST_EQUAL(ustack_wait(), 0);               /* until it is woken, and once */
	l->l_runs++;
}

static void late_news(const struct usched_conf *conf)
{
	struct late l = { .l_sched = make(conf) };
	struct ustack *u;

	assert_int_equal(START(l.l_sched, get_late_news, &l, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), -EDEADLK);
	assert_int_equal(l.l_runs, 3);
	assert_int_equal(ustack_wake(u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(l.l_runs, 4);
	assert_int_equal(S(destroy)(l.l_sched), 0);
}

static void test_late_news(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(late_news);
}

/* A wait or yield that failed has changed nothing: no intent, no token, nobody lost. */
struct refused {
	sched       *r_sched;
	int          r_yield;
	volatile int r_rc;              /* raise() is a leaf to the compiler */
	size_t       r_others;
};

static struct refused refused;

static void block_elsewhere(int signal)
{
	(void)signal;
	refused.r_rc = refused.r_yield ? ustack_yield() : ustack_wait();
}

static void block_on_alternate_stack(int yield)
{
	refused.r_yield = yield;
	refused.r_rc = 0;
	raise(SIGUSR1);
	TEST_EQUAL(refused.r_rc, -EFAULT);
	TEST_EQUAL(ustack_self()->u_tokens, 0);
}

static void count_other(void *unused)
{
	(void)unused;
	refused.r_others++;
}

static void be_refused(void *unused)
{
	static char memory[1 << 16];
	stack_t alternate = { .ss_sp = memory, .ss_size = sizeof memory }, old;
	struct ustack *self = ustack_self();

	(void)unused;
	TEST_EQUAL(sigaltstack(&alternate, &old), 0);
	for (int n = 0; n < 6; n++) {
		int others = n / 2;

		refused.r_others = 0;
		for (int i = 0; i < others; i++)
			TEST_EQUAL(START(refused.r_sched, count_other, NULL, NULL), 0);
		block_on_alternate_stack(n % 2);
		TEST_EQUAL(refused.r_others, 0);
		TEST_EQUAL(ustack_wake(self), 0);
		TEST_EQUAL(ustack_block(), 0);  /* uses up the token, as ever */
		TEST_EQUAL(self->u_tokens, 0);
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(refused.r_others, others);
	}
	TEST_EQUAL(sigaltstack(&old, NULL), 0);
	wait_once(NULL);
}

static void refuse(const struct usched_conf *conf)
{
	struct ustack *u;

	if (conf->c_processors > 1)
		return;
	refused.r_sched = make(conf);
	assert_int_equal(START(refused.r_sched, be_refused, NULL, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), -EDEADLK);
	assert_int_equal(ustack_wake(u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(refused.r_sched), 0);
}

static void test_refused_wait(void **state)
{
	struct sigaction act = {
		.sa_handler = block_elsewhere, .sa_flags = SA_ONSTACK,
	}, old;

	(void)state;
	if (test_is_harsh())
		skip();
	test_timeout(60);
	sigaction(SIGUSR1, &act, &old);
	each_conf(refuse);
	sigaction(SIGUSR1, &old, NULL);
}

/* Tokens to their limits: of one that joins, of one that does not, and of mail. */
static void fill_up(void *arg)
{
	struct ustack *joiner = arg;

	await_joiner(ustack_self());
	joiner->u_tokens |= UPROC_TOKENS - 1;
	TEST_EQUAL(ustack_wake(joiner), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(ustack_wake(joiner), -EOVERFLOW);
	for (int i = 0; i < 5; i++)             /* by mail: dropped */
		TEST_EQUAL(uproc_post(uproc_thread(joiner), UPROC_MAIL_TOKEN), 0);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(joiner->u_tokens, UPROC_JOINING | UPROC_TOKENS);
}

static void join_full(void *arg)
{
	sched *s = arg;
	struct ustack *self = ustack_self(), *filler;

	self->u_tokens = 7;                     /* before the join */
	TEST_EQUAL(START(s, fill_up, self, &filler), 0);
	TEST_EQUAL(ustack_join(filler, USCHED_NEVER), 0);
	TEST_EQUAL(self->u_tokens, UPROC_TOKENS + 7);
	self->u_tokens = INT32_MAX - 1;
	TEST_EQUAL(ustack_wake(self), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(ustack_wake(self), -EOVERFLOW);
	TEST_EQUAL(uproc_post(uproc_thread(self), UPROC_MAIL_TOKEN), 0);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(self->u_tokens, INT32_MAX);
	self->u_tokens = 0;
	TEST_EQUAL(uproc_post(uproc_thread(self), UINT32_MAX / UPROC_MAIL_TOKEN
			      * UPROC_MAIL_TOKEN), 0);
	TEST_EQUAL(uproc_post(uproc_thread(self), UPROC_MAIL_TOKEN), -EOVERFLOW);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(self->u_tokens, UINT32_MAX / UPROC_MAIL_TOKEN);
	self->u_tokens = 0;
}

static void tokens_up_to_the_limit(const struct usched_conf *conf)
{
	struct ustack *u;
	sched *s;

	if (conf->c_processors > 1)
		return;
	s = make(conf);
	assert_int_equal(START(s, join_full, s, &u), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_token_limits(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tokens_up_to_the_limit);
}

#define COMMON_TESTS                                            \
	cmocka_unit_test(test_tokens),                          \
	cmocka_unit_test(test_waits_hand_over),                 \
	cmocka_unit_test(test_wake_before_wait),                \
	cmocka_unit_test(test_wake_after_end),                  \
	cmocka_unit_test(test_wakes_between),                   \
	cmocka_unit_test(test_join),                            \
	cmocka_unit_test(test_join_by_natives),                 \
	cmocka_unit_test(test_join_in_flight),                  \
	cmocka_unit_test(test_join_overtaken),                  \
	cmocka_unit_test(test_join_then_destroy),               \
	cmocka_unit_test(test_destroy_while_joined),            \
	cmocka_unit_test(test_tokens_survive_join),             \
	cmocka_unit_test(test_detach),                          \
	cmocka_unit_test(test_records_return),                  \
	cmocka_unit_test(test_tree),                            \
	cmocka_unit_test(test_deadlock_native),                 \
	cmocka_unit_test(test_deadlock_thread),                 \
	cmocka_unit_test(test_deadlock_cycle),                  \
	cmocka_unit_test(test_deadlock_told_late),              \
	cmocka_unit_test(test_deadlock_told_together),          \
	cmocka_unit_test(test_deadlock_destroy),                \
	cmocka_unit_test(test_deadlock_small_stacks),           \
	cmocka_unit_test(test_hold),                            \
	cmocka_unit_test(test_hold_and_destroy),                \
	cmocka_unit_test(test_idle),                            \
	cmocka_unit_test(test_create_destroy),                  \
	cmocka_unit_test(test_create_errors),                   \
	cmocka_unit_test(test_outside),                         \
	cmocka_unit_test(test_stats),                           \
	cmocka_unit_test(test_exchange),                        \
	cmocka_unit_test(test_stacks_grow),                     \
	cmocka_unit_test(test_foreign_thread),                  \
	cmocka_unit_test(test_late_news),                       \
	cmocka_unit_test(test_refused_wait),                    \
	cmocka_unit_test(test_token_limits),                    \
	cmocka_unit_test(test_wake_stale),                      \
	cmocka_unit_test(test_foreign_wakes)
