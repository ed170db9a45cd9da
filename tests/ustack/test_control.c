/* SPDX-License-Identifier: MIT */
/*
 * test_control.c: floating point control words over schedulers: a thread that called
 * ustack_control(1) keeps its own in every wait, others share those of their processor;
 * c_control; and the report of builds with USCHED_CHECK. test_float.c is about the
 * dispatcher alone.
 */
#include <fenv.h>
#include <stdio.h>

#include "../help/child.h"
#include "../help/mini.h"
#include "../help/over.h"

#include "../../ll.h"
#include "../../rr.h"
#include "../../usync.h"

enum { ROUNDS = 20, PAIRS = 6, STACK = 64 << 10 };

#ifdef USCHED_CHECK
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

static const struct uprocs_conf confs[] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
	{ .c_processors = 1, .c_stacks = 1, .c_stack_size = STACK },
	{ .c_processors = 2, .c_stacks = 2, .c_stack_size = STACK },
	{ .c_processors = 2 },
};

enum { CONFS = sizeof confs / sizeof *confs };

static void *scheduler;

/* Two threads that wait for each other. */
struct pair {
	struct ustack     *p_thread[2];
	struct usync_sem  *p_sem[2];
	struct usync_chan *p_chan;
	int                p_ready;
};

static struct pair pairs[PAIRS];
static unsigned numbers[2 * PAIRS];

static void look_and_yield(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_control(0), 0);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
}

/* ---- Each way to wait ---- */

static void by_yield(struct pair *p, unsigned me)
{
	(void)p;
	(void)me;
	TEST_EQUAL(ustack_yield(), 0);
}

static void by_token(struct pair *p, unsigned me)
{
	TEST_EQUAL(ustack_wake(p->p_thread[!me]), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void by_join(struct pair *p, unsigned me)
{
	struct ustack *u = NULL;

	(void)p;
	(void)me;
	TEST_EQUAL(over->o_start(scheduler, look_and_yield, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

static void by_join_until(struct pair *p, unsigned me)
{
	struct ustack *u = NULL;

	(void)p;
	(void)me;
	TEST_EQUAL(over->o_start(scheduler, look_and_yield, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, usync_after(INT64_C(1000000000) * 60)), 0);
}

static void by_sem(struct pair *p, unsigned me)
{
	TEST_EQUAL(usync_sem_post(p->p_sem[!me]), 0);
	TEST_EQUAL(usync_sem_wait(p->p_sem[me], USCHED_NEVER), 0);
}

static void by_chan(struct pair *p, unsigned me)
{
	int value = 1;

	if (me)
		TEST_EQUAL(usync_chan_send(p->p_chan, &value, USCHED_NEVER), 0);
	else
		TEST_EQUAL(usync_chan_recv(p->p_chan, &value, USCHED_NEVER), 0);
}

static void by_sleep(struct pair *p, unsigned me)
{
	(void)p;
	(void)me;
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

static void (*const waits[])(struct pair *p, unsigned me) = {
	by_yield, by_token, by_join, by_join_until, by_sem, by_chan, by_sleep,
};

enum { WAITS = sizeof waits / sizeof *waits };

/* Odd ones of a pair, and all of each third pair, have their own words. */
static void wait_in_each_way(void *arg)
{
	unsigned number = *(const unsigned *)arg;
	struct pair *p = &pairs[number / 2];
	bool owns = number % 2 || number / 2 % 3 == 0;
	int own = owns ? rounding[number % 4] : FE_TONEAREST;

	while (__atomic_load_n(&p->p_ready, __ATOMIC_ACQUIRE) < 1)
		TEST_EQUAL(ustack_yield(), 0);
	if (owns)
		TEST_EQUAL(ustack_control(1), 0);
	TEST_EQUAL(fesetround(own), 0);
	for (unsigned n = 0; n < test_scale(ROUNDS, 2); n++)
		for (size_t way = 0; way < WAITS; way++) {
			waits[way](p, number % 2);
			TEST_EQUAL(fegetround(), own);
		}
	TEST_EQUAL(ustack_control(0), owns);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
}

static void start_pair(unsigned n)
{
	struct pair *p = &pairs[n];

	*p = (struct pair){ .p_ready = 0 };
	for (unsigned i = 0; i < 2; i++) {
		p->p_sem[i] = calloc(1, sizeof *p->p_sem[i]);
		TEST_TRUE(p->p_sem[i]);
	}
	TEST_EQUAL(usync_chan_create(sizeof(int), 0, &p->p_chan), 0);
	for (unsigned i = 0; i < 2; i++) {
		numbers[2 * n + i] = 2 * n + i;
		TEST_EQUAL(over->o_start(scheduler, wait_in_each_way, &numbers[2 * n + i],
					 &p->p_thread[i]), 0);
	}
	__atomic_store_n(&p->p_ready, 1, __ATOMIC_RELEASE);
}

static void end_pair(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++)
		TEST_EQUAL(ustack_join(p->p_thread[i], NULL, USCHED_NEVER), 0);
	for (unsigned i = 0; i < 2; i++)
		free(p->p_sem[i]);
	usync_chan_destroy(p->p_chan);
}

TEST(own_words_are_kept_in_each_wait)
{
	for (size_t k = 0; k < CONFS; k++) {
		test_timeout(60);
		assert_int_equal(over->o_create(&confs[k], &scheduler), 0);
		over->o_hold(scheduler);
		for (unsigned n = 0; n < PAIRS; n++)
			start_pair(n);
		for (unsigned n = 0; n < PAIRS; n++)
			end_pair(&pairs[n]);
		over->o_release(scheduler);
		assert_int_equal(over->o_destroy(scheduler), 0);
		assert_int_equal(fegetround(), FE_TONEAREST);
	}
}

/* ---- Words that are shared ---- */

/* By all of one processor: each finds what the last one set. */
static int shared;

static void change_shared(void *arg)
{
	unsigned number = *(const unsigned *)arg;

	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(fegetround(), shared);
		shared = rounding[(n + number) % 4];
		TEST_EQUAL(fesetround(shared), 0);
		TEST_EQUAL(ustack_yield(), 0);
	}
}

/* Threads with their own, of which none sees that. */
static void keep_own(void *arg)
{
	unsigned number = *(const unsigned *)arg;
	int own = rounding[number % 4];

	TEST_EQUAL(fegetround(), shared);
	TEST_EQUAL(ustack_control(1), 0);
	TEST_EQUAL(fesetround(own), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(fegetround(), own);
	}
}

static void start_all(void *unused)
{
	struct ustack *u[2 * PAIRS];

	(void)unused;
	for (unsigned i = 0; i < 2 * PAIRS; i++) {
		numbers[i] = i;
		TEST_EQUAL(over->o_start(scheduler, i % 2 ? keep_own : change_shared,
					 &numbers[i], &u[i]), 0);
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
}

/* Runs func(NULL) as the first thread. */
static void run_first(const struct uprocs_conf *conf, void (*func)(void *))
{
	struct ustack *u = NULL;

	test_timeout(60);
	TEST_EQUAL(over->o_create(conf, &scheduler), 0);
	TEST_EQUAL(over->o_start(scheduler, func, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
}

TEST(others_share)
{
	if (CHECKED)
		skip();                         /* it reports that */
	for (size_t k = 0; k < 2; k++) {
		shared = FE_TONEAREST;
		run_first(&confs[k], start_all);
	}
	assert_int_equal(fegetround(), FE_TONEAREST);
}

/* ---- c_control ---- */

static void begin_anew(void *arg)
{
	unsigned number = *(const unsigned *)arg;
	int own = rounding[number % 4];

	TEST_EQUAL(fegetround(), FE_TONEAREST);
	TEST_EQUAL(fesetround(own), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(fegetround(), own);
	}
	if (number > 0) {
		struct ustack *u = NULL;

		number--;
		TEST_EQUAL(over->o_start(scheduler, begin_anew, &numbers[number], &u), 0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		TEST_EQUAL(fegetround(), own);
	}
	TEST_EQUAL(ustack_control(0), 1);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
}

static void begin_tree(void *unused)
{
	struct ustack *u[2 * PAIRS];

	(void)unused;
	TEST_EQUAL(fesetround(FE_TOWARDZERO), 0);
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		numbers[i] = i;
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		TEST_EQUAL(over->o_start(scheduler, begin_anew, &numbers[i], &u[i]), 0);
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(fegetround(), FE_TOWARDZERO);
}

TEST(each_may_have_its_own)
{
	for (size_t k = 0; k < CONFS; k++) {
		struct uprocs_conf conf = confs[k];

		conf.c_control = 1;
		run_first(&conf, begin_tree);
	}
}

/* In a loop of the program they begin with that one's. */
static int ran;

static void begin_with_loops(void *arg)
{
	TEST_EQUAL(fegetround(), FE_UPWARD);
	TEST_EQUAL(fesetround(*(const unsigned *)arg ? FE_DOWNWARD : FE_TOWARDZERO), 0);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(fegetround(), *(const unsigned *)arg ? FE_DOWNWARD : FE_TOWARDZERO);
	ran++;
}

TEST(embedded_begin_with_the_loops)
{
	struct uprocs_conf conf = { .c_embed = 1, .c_control = 1 };

	assert_int_equal(over->o_create(&conf, &scheduler), 0);
	ran = 0;
	fesetround(FE_UPWARD);
	for (unsigned i = 0; i < 2; i++) {
		numbers[i] = i;
		TEST_EQUAL(over->o_start(scheduler, begin_with_loops, &numbers[i],
					 NULL), 0);
	}
	while (ran < 2) {
		TEST_TRUE(over->o_run(scheduler) >= 0);
		assert_int_equal(fegetround(), FE_UPWARD);
	}
	assert_int_equal(over->o_destroy(scheduler), 0);
	fesetround(FE_TONEAREST);
}

/* ---- The report ---- */

static void change_and(void (*then)(void))
{
	TEST_EQUAL(ustack_name(ustack_self(), "rounder"), 0);
	TEST_EQUAL(fesetround(FE_UPWARD), 0);
	then();
}

static void wait_for_token(void)
{
	TEST_EQUAL(ustack_wake(ustack_self()), 0);
	TEST_EQUAL(ustack_wait(), 0);           /* has one: does not block */
	fprintf(stderr, "now\n");
	TEST_EQUAL(ustack_wait(), 0);
}

static void yield_once(void)
{
	TEST_EQUAL(ustack_yield(), 0);
}

static void return_at_once(void)
{
}

/* Too late: others share what it has set. */
static void have_own_words(void)
{
	TEST_EQUAL(ustack_control(1), 0);
}

static void sleep_once(void)
{
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

static void restore(void)
{
	TEST_EQUAL(fesetround(FE_TONEAREST), 0);
	TEST_EQUAL(ustack_yield(), 0);
	have_own_words();
	TEST_EQUAL(fesetround(FE_UPWARD), 0);
	TEST_EQUAL(ustack_yield(), 0);
}

static void changes(void *then)
{
	change_and(*(void (**)(void))then);
}

static void run_changes(void *then)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct ustack *u = NULL;

	TEST_EQUAL(over->o_create(&conf, &scheduler), 0);
	TEST_EQUAL(over->o_start(scheduler, changes, then, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
}

static void assert_reported(void (*then)(void))
{
	assert_killed(in_child(run_changes, &then), SIGABRT);
	assert_said("usched: thread 0x");
	assert_said(" \"rounder\", function 0x");
	assert_said("test_control");            /* the file of the function */
	assert_said(", has changed ");
	if (!test_has_stacks())
		assert_said("the rounding direction from 0x0 to 0x");
#if defined(__x86_64__)
	else
		assert_said("MXCSR from 0x1f80 to 0x5f80 and the x87 control word from "
			    "0x37f to 0xb7f: threads share that, see ustack_control()\n");
#elif defined(__aarch64__)
	else
		assert_said("FPCR from 0x0 to 0x400000: threads share");
#endif
}

TEST(changes_are_reported)
{
	void (*right)(void) = restore;

	child_begin();
	assert_survived(in_child(run_changes, &right));
	if (!CHECKED)
		skip();
	assert_reported(wait_for_token);
	assert_said("now\n");
	assert_reported(yield_once);
	assert_reported(sleep_once);
	assert_reported(return_at_once);
	assert_reported(have_own_words);
}

/* A dispatcher without s_changed has an assertion. */
static void change_and_block(void *unused)
{
	(void)unused;
	TEST_EQUAL(fesetround(FE_UPWARD), 0);
	TEST_EQUAL(ustack_block(), 0);
}

static void run_plain(void *unused)
{
	static struct mini plain;
	static struct ustack u;

	(void)unused;
	mini_init(&plain, 1, STACK);
	mini_start(&plain, &u, change_and_block, NULL);
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

TEST(changes_are_found)
{
	if (!CHECKED)
		skip();
	child_begin();
	assert_killed(in_child(run_plain, NULL), SIGABRT);
	assert_said("s_changed");
}

int main(void)
{
	return over_all(OVER_PROCS);
}
