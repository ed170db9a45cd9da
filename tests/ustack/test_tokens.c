/* SPDX-License-Identifier: MIT */
/*
 * test_tokens.c: tokens of threads on processors: none is lost, none is invented, up to
 * their limits, in joins, and when a wait fails; and what a wait hands over to.
 */
#include "../help/procs.h"

#include <sched.h>
#include <signal.h>

static void wake_other(void *arg)
{
	struct taker *t = arg;

	wake_times(t->t_thread, 100);
}

static void tokens(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1000 };
	struct ustack *waker[2];

	start_taker(s, &t);
	wake_times(t.t_thread, 300);
	for (int i = 0; i < 2; i++)
		assert_int_equal(over->o_start(s, wake_other, &t, &waker[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ustack_join(waker[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_got, 500);
	wake_times(t.t_thread, 499);
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_got, 999);
	finish(t.t_thread);
	assert_int_equal(t.t_got, 1000);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_tokens, each_conf, tokens)

struct gate {
	atomic_int    g_open;
	atomic_size_t g_passed;
};

/* The wakes come before the wait, while the thread runs. */
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

static void wake_first(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct gate g = { 0 };
	struct ustack *t;

	assert_int_equal(over->o_start(s, pass_gate, &g, &t), 0);
	wake_times(t, 3);
	g.g_open = 1;
	assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(g.g_passed, 5);
	finish(t);
	assert_int_equal(g.g_passed, 6);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_wake_before_wait, each_conf, wake_first)

static void join_then_take(void *arg)
{
	struct joins *j = arg;

	TEST_EQUAL(ustack_join(j->j_thread, NULL, USCHED_NEVER), 0);
	for (int i = 0; i < 3; i++, j->j_done++)
		TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void tokens_and_join(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct taker t = { .t_need = 1 };
	struct joins j = { .j_sched = s };
	struct ustack *joiner;

	start_taker(s, &t);
	j.j_thread = t.t_thread;
	assert_int_equal(over->o_start(s, join_then_take, &j, &joiner), 0);
	await_joiner(t.t_thread);
	wake_times(joiner, 3);
	wake_times(t.t_thread, 1);
	assert_int_equal(ustack_join(joiner, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(j.j_done, 3);
	finish(joiner);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_tokens_survive_join, each_conf, tokens_and_join)

/* ---- Hand-over ---- */

/* Of two threads that wake each other, a wait rarely asks s_next. */
static struct handover {
	void           *h_sched;
	struct ustack  *h_one;
	struct ustack  *h_other;
	struct usched_calls h_calls;
	size_t          h_asked;
	size_t          h_rounds;
} handover;

static struct ustack *count_next(struct usched *s)
{
	handover.h_asked++;
	return handover.h_calls.s_next(s);
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

	h->h_calls = s->s_calls;
	s->s_calls.s_next = count_next;
	for (size_t i = 0; i < h->h_rounds; i++) {
		TEST_EQUAL(ustack_wake(h->h_other), 0);
		TEST_EQUAL(ustack_wait(), 0);
	}
	s->s_calls = h->h_calls;
}

TEST(test_waits_hand_over)
{
	struct uprocs_conf conf = { .c_processors = 1 };
	struct handover *h = &handover;

	*h = (struct handover){ .h_rounds = test_scale(10000, 1000) };
	h->h_sched = make(&conf);
	assert_int_equal(over->o_start(h->h_sched, hand_back, h, &h->h_other), 0);
	assert_int_equal(over->o_start(h->h_sched, hand_over, h, &h->h_one), 0);
	assert_int_equal(ustack_join(h->h_one, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(h->h_other, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(h->h_sched), 0);
	assert_in_range(h->h_asked, 1, h->h_rounds / 8);
}

/* ---- Errors ---- */

/* A wait or yield that failed has changed no intent and no token, and lost no thread. */
struct refused {
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

static void be_refused(void *s)
{
	static char memory[1 << 16];
	stack_t alternate = { .ss_sp = memory, .ss_size = sizeof memory }, old;
	struct ustack *self = ustack_self();

	TEST_EQUAL(sigaltstack(&alternate, &old), 0);
	for (int n = 0; n < 6; n++) {
		int others = n / 2;

		refused.r_others = 0;
		for (int i = 0; i < others; i++)
			TEST_EQUAL(over->o_start(s, count_other, NULL, NULL), 0);
		block_on_alternate_stack(n % 2);
		TEST_EQUAL(refused.r_others, 0);
		TEST_EQUAL(ustack_wake(self), 0);
		TEST_EQUAL(ustack_block(), 0);  /* takes the token */
		TEST_EQUAL(self->u_tokens, 0);
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(refused.r_others, others);
	}
	TEST_EQUAL(sigaltstack(&old, NULL), 0);
	wait_once(NULL);
}

static void refuse(const struct uprocs_conf *conf)
{
	void *s = make(conf);
	struct ustack *u;

	assert_int_equal(over->o_start(s, be_refused, s, &u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
	finish(u);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_refused_wait)
{
	struct sigaction act = {
		.sa_handler = block_elsewhere, .sa_flags = SA_ONSTACK,
	}, old;

	if (test_is_stressed())
		skip();
	sigaction(SIGUSR1, &act, &old);
	each_conf_of_one(refuse);
	sigaction(SIGUSR1, &old, NULL);
}

/* ---- Limits ---- */

/* Limits of tokens: of a thread in a join, of a thread outside of one, and of mail. */
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
	struct ustack *self = ustack_self(), *filler;

	self->u_tokens = 7;                     /* before the join */
	TEST_EQUAL(over->o_start(arg, fill_up, self, &filler), 0);
	TEST_EQUAL(ustack_join(filler, NULL, USCHED_NEVER), 0);
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

static void tokens_up_to_the_limit(const struct uprocs_conf *conf)
{
	void *s = make(conf);

	run_to_end(s, join_full, s);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_token_limits, each_conf_of_one, tokens_up_to_the_limit)

int main(void)
{
	return over_all(OVER_PROCS);
}
