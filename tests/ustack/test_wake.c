/* SPDX-License-Identifier: MIT */
/*
 * test_wake.c: wakes from everywhere: of ended threads, by handles used too late, from
 * native threads, between processors.
 */
#define _GNU_SOURCE             /* REG_EFL, for step.h */
#include "../help/procs.h"

#include <pthread.h>
#include <sched.h>

#include "../../ll.h"
#include "../../rr.h"
#include "../help/step.h"

/* ---- Handles that are used too late ---- */

struct ended {
	struct ustack *e_thread;
	size_t         e_tried;
};

static void wake_ended(void *arg)
{
	struct ended *e = arg;

	TEST_EQUAL(ustack_wake(e->e_thread), -ESRCH);
	e->e_tried++;
}

static void wake_after_end(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct ended e = { 0 };
	struct ustack *t;

	assert_int_equal(over->o_start(s, nothing, NULL, &t), 0);
	await_end(t);
	e.e_thread = t;
	for (size_t i = 0; i < conf->c_processors; i++)
		run_to_end(s, wake_ended, &e);
	assert_int_equal(e.e_tried, conf->c_processors);
	assert_int_equal(ustack_wake(t), -ESRCH);
	assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);

	assert_int_equal(over->o_start(s, nothing, NULL, &t), 0);
	assert_int_equal(ustack_detach(t), 0);
	await_end(t);
	assert_int_equal(ustack_wake(t), -ESRCH);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_wake_after_end, each_conf, wake_after_end)

/*
 * A program may wake a detached thread that has ended, by mistake, while a new thread
 * gets the record. The wake is an error or finds the new thread.
 */
struct stale {
	void                  *s_sched;
	struct ustack *_Atomic s_thread;
	atomic_int             s_stop;
	atomic_size_t          s_count;
	size_t                 s_rounds;
};

static void *wake_stale(void *arg)
{
	struct stale *stale = arg;

	while (!stale->s_stop)
		if (stale->s_thread)
			ustack_wake(stale->s_thread);
	over->o_release(stale->s_sched);
	return NULL;
}

TEST(test_wake_stale)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	size_t rounds = test_scale(100000, 1000);
	struct stale stale = { 0 };
	atomic_size_t count = 0;
	pthread_t native;
	void *s;

	s = stale.s_sched = make(&conf);
	over->o_hold(s);
	assert_int_equal(pthread_create(&native, NULL, wake_stale, &stale), 0);
	for (size_t i = 0; i < rounds; i++) {
		struct ustack *t;

		assert_int_equal(over->o_start(s, count_up, &count, &t), 0);
		stale.s_thread = t;
		if (i % 2)
			assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
		else
			assert_int_equal(ustack_detach(t), 0);
	}
	stale.s_stop = 1;
	pthread_join(native, NULL);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(count, rounds);
}

/*
 * Threads that are started without a handle, on their processor. Some of them tell their
 * address, and get wakes from elsewhere while they end; the others end without an atomic
 * instruction, and use the same records.
 */
#define LOAD_MAIL(u) __atomic_load_n(&(u)->u_mail, __ATOMIC_RELAXED)

static void tell_self(void *arg)
{
	struct stale *stale = arg;

	stale->s_thread = ustack_self();
	TEST_TRUE(LOAD_MAIL(stale->s_thread) & USTACK_KNOWN);
	stale->s_count++;
}

static void start_untold(void *arg)
{
	struct stale *stale = arg;
	void *s = stale->s_sched;

	for (size_t i = 0; i < stale->s_rounds; i++) {
		TEST_EQUAL(over->o_start(s, tell_self, stale, NULL), 0);
		for (size_t k = 0; k < i % 4; k++)
			TEST_EQUAL(over->o_start(s, count_up, &stale->s_count, NULL), 0);
		if (i % 8 == 0)
			TEST_EQUAL(ustack_yield(), 0);
	}
}

TEST(test_wake_untold)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct stale stale = { .s_rounds = test_scale(100000, 1000) };
	struct ustack *t;
	pthread_t native;

	stale.s_sched = make(&conf);
	over->o_hold(stale.s_sched);
	assert_int_equal(pthread_create(&native, NULL, wake_stale, &stale), 0);
	assert_int_equal(over->o_start(stale.s_sched, start_untold, &stale, &t), 0);
	assert_true(LOAD_MAIL(t) & USTACK_KNOWN);
	assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
	stale.s_stop = 1;
	pthread_join(native, NULL);
	assert_int_equal(over->o_destroy(stale.s_sched), 0);
	assert_int_equal(stale.s_count, stale.s_rounds + stale.s_rounds / 4 * 6);
}

/*
 * A call with the handle of a joined thread stops after any instruction, while a keeper
 * on the other processor makes the record a thread there, which waits. After some
 * instructions more, that thread ends, and the record becomes a new thread of the
 * caller's processor. The call may wake or cancel either; each runs where it belongs,
 * once.
 */
enum stage { BEGUN, JOINED, NEXT_WANTED, NEXT_WAITS, LAST_WANTED, LAST_STARTED };

static struct reused {
	int          (*r_call)(struct ustack *u);
	struct ustack *r_old;
	struct ustack *_Atomic r_next;
	struct uproc  *r_home;          /* of the caller */
	atomic_int     r_stage;         /* enum stage */
	atomic_size_t  r_waits, r_last;
	size_t         r_stops[2];      /* after so many instructions */
	size_t         r_steps;
	volatile bool  r_calls, r_over;
} reused;

static void await_stage(int stage)
{
	while (reused.r_stage < stage)
		sched_yield();
}

static void want(int stage)
{
	if (reused.r_stage < stage)
		reused.r_stage = stage;
	await_stage(stage + 1);
}

static bool stop_in_call(const unsigned char *pc)
{
	(void)pc;
	if (!reused.r_calls || reused.r_over)
		return !reused.r_over;
	if (reused.r_steps == reused.r_stops[0])
		want(NEXT_WANTED);
	if (reused.r_steps == reused.r_stops[1])
		want(LAST_WANTED);
	return reused.r_steps++ < reused.r_stops[1];
}

static void be_next(void *unused)
{
	struct uproc *home = uproc_self();

	(void)unused;
	reused.r_next = ustack_self();
	reused.r_waits++;
	TEST_EQUAL(ustack_wait(), 0);
	TEST_TRUE(uproc_self() == home && home != reused.r_home);
}

static void be_last(void *unused)
{
	(void)unused;
	TEST_TRUE(ustack_self() == reused.r_old);
	TEST_TRUE(ustack_self()->u_tokens <= 1);
	TEST_TRUE(uproc_self() == reused.r_home);
	reused.r_last++;
}

static void keep(void *unused)
{
	struct ustack_how beside = { .h_processor = USCHED_BESIDE };
	struct ustack_how other = { .h_processor = USCHED_ON(0), .h_detached = 1 };
	struct ustack *next, *last;
	int rc;

	(void)unused;
	TEST_EQUAL(ustack_join(reused.r_old, NULL, USCHED_NEVER), 0);
	reused.r_stage = JOINED;
	while (reused.r_stage < NEXT_WANTED)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_start_with(&beside, be_next, NULL, &next), 0);
	while (reused.r_waits == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_TRUE(next == reused.r_old && next == reused.r_next);
	reused.r_stage = NEXT_WAITS;
	while (reused.r_stage < LAST_WANTED)
		TEST_EQUAL(ustack_yield(), 0);
	rc = ustack_wake(next);
	TEST_TRUE(rc == 0 || rc == -ESRCH);     /* the call has woken it */
	TEST_EQUAL(ustack_join(next, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_start_with(&other, be_last, NULL, &last), 0);
	reused.r_stage = LAST_STARTED;
}

static void call_late(void *unused)
{
	int rc;

	(void)unused;
	reused.r_home = uproc_self();
	await_stage(JOINED);
	step(stop_in_call);
	reused.r_calls = true;
	rc = reused.r_call(reused.r_old);
	reused.r_over = true;
	TEST_TRUE(rc == 0 || rc == -ESRCH);
	want(NEXT_WANTED);
	want(LAST_WANTED);
}

/* On processor `n', which with ll is that of a group. */
static void start_on(void *s, unsigned n, void (*func)(void *), struct ustack **thread)
{
	struct ustack_how how = { .h_processor = USCHED_ON(n) };
	int rc = over == &over_rr ? rr_start_with(s, &how, func, NULL, thread)
		: ll_start(ll_group(s, USCHED_ON(n)), func, NULL, thread);

	assert_int_equal(rc, 0);
}

/* How many instructions the call took. */
static size_t call_reused(void *s, int (*call)(struct ustack *u), size_t first,
			  size_t second)
{
	struct ustack *keeper, *caller;

	reused = (struct reused){ .r_call = call, .r_stops = { first, second } };
	start_on(s, 0, nothing, &reused.r_old);
	await_end(reused.r_old);
	start_on(s, 1, keep, &keeper);
	start_on(s, 0, call_late, &caller);
	assert_int_equal(ustack_join(caller, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(keeper, NULL, USCHED_NEVER), 0);
	await_count(&reused.r_last, 1);
	assert_int_equal(reused.r_last, 1);
	return reused.r_steps;
}

TEST(test_wake_reused)
{
	static int (*const calls[])(struct ustack *) = { ustack_wake, ustack_cancel };
	struct uprocs_conf conf = { .c_processors = 2 };
	void *s;

	if (test_is_sanitized() || test_is_stressed())
		skip();                 /* their instructions would be stepped, too */
	s = make(&conf);
	for (size_t i = 0; i < 2; i++) {
		size_t all = call_reused(s, calls[i], SIZE_MAX, SIZE_MAX);

		for (size_t n = 0; n < all; n++)
			for (size_t more = 1; more < 4; more++)
				call_reused(s, calls[i], n, n + more);
	}
	assert_int_equal(over->o_destroy(s), 0);
	if (stepper.s_steps == 0) {
		print_message("no single steps here\n");
		skip();
	}
}

/* ---- Wakes from native threads outside of processors ---- */

enum { TARGETS = 48, NATIVES = 4 };

struct flood {
	void         *f_sched;
	struct taker *f_takers;
	size_t        f_rounds;
};

static void *flood(void *arg)
{
	struct flood *f = arg;

	for (size_t i = 0; i < f->f_rounds; i++)
		for (size_t k = 0; k < TARGETS; k++)
			TEST_EQUAL(ustack_wake(f->f_takers[k].t_thread), 0);
	over->o_release(f->f_sched);
	return NULL;
}

static void foreign_wakes(const struct uprocs_conf *conf, size_t wakes)
{
	void *s = make(conf);
	struct taker takers[TARGETS] = { 0 };
	struct flood f = { s, takers, wakes / TARGETS / NATIVES + 1 };
	pthread_t natives[NATIVES];

	for (size_t i = 0; i < TARGETS; i++) {
		takers[i].t_need = f.f_rounds * NATIVES + 1;
		takers[i].t_depth = i * i;
		start_taker(s, &takers[i]);
	}
	for (size_t i = 0; i < NATIVES; i++) {
		over->o_hold(s);
		assert_int_equal(pthread_create(&natives[i], NULL, flood, &f), 0);
	}
	assert_int_equal(ustack_join(takers[0].t_thread, NULL, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < NATIVES; i++)
		pthread_join(natives[i], NULL);
	for (size_t i = 0; i < TARGETS; i++) {
		assert_int_equal(takers[i].t_got, f.f_rounds * NATIVES);
		finish(takers[i].t_thread);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_foreign_wakes)
{
	static const struct uprocs_conf confs[] = {
		{ .c_processors = 1 },
		{ .c_processors = 2 },
		{ .c_processors = 4, .c_image = 4096 },
		{ .c_processors = 2, .c_stacks = 1, .c_image = 1 },
		{ .c_processors = 2, .c_stacks = USCHED_NATIVE },
	};
	size_t wakes = test_scale(10000000, 10000);

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

/* One token goes round; the last node keeps it. */
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

/* Each node wakes all nodes in a random order, and yields now and then. */
static void mingle(void *arg)
{
	struct node *n = arg;
	uint32_t seed = (uint32_t)(n - n->n_nodes) + 1;

	TEST_EQUAL(ustack_wait(), 0);
	for (size_t i = 0; i < n->n_rounds; i++) {
		uint32_t first = test_random(&seed) % NODES;

		for (size_t k = 0; k < NODES; k++)
			wake_times(n->n_nodes[(first + k) % NODES].n_thread, 1);
		if (first % 3 == 0)
			TEST_EQUAL(ustack_yield(), 0);
		for (size_t k = 0; k < NODES; k++, n->n_got++)
			TEST_EQUAL(ustack_wait(), 0);
	}
	TEST_EQUAL(ustack_wait(), 0);
}

static void start_nodes(void *s, struct node *nodes, void (*func)(void *),
			size_t rounds)
{
	for (size_t i = 0; i < NODES; i++) {
		nodes[i] = (struct node){ .n_nodes = nodes, .n_rounds = rounds };
		TEST_EQUAL(over->o_start(s, func, &nodes[i], &nodes[i].n_thread), 0);
	}
}

static void between(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	size_t rounds = test_scale(400, 20);
	struct node nodes[NODES];

	start_nodes(s, nodes, relay, rounds);
	wake_times(nodes[0].n_thread, 1);
	for (size_t i = 0; i < NODES; i++) {
		assert_int_equal(ustack_join(nodes[i].n_thread, NULL, USCHED_NEVER), 0);
		assert_int_equal(nodes[i].n_got, rounds);
	}
	start_nodes(s, nodes, mingle, rounds / 10);
	for (size_t i = 0; i < NODES; i++)
		wake_times(nodes[i].n_thread, 1);
	assert_int_equal(ustack_join(nodes[0].n_thread, NULL, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < NODES; i++) {
		assert_int_equal(nodes[i].n_got, rounds / 10 * NODES);
		wake_times(nodes[i].n_thread, 1);
	}
	for (size_t i = 0; i < NODES; i++)
		assert_int_equal(ustack_join(nodes[i].n_thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_wakes_between, each_conf, between)

int main(void)
{
	return over_all(OVER_PROCS);
}
