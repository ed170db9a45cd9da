/* SPDX-License-Identifier: MIT */
/*
 * test_torture.c: the random programs of torture.h, each run by a plain call, and then
 * many as threads: over the dispatcher alone, over rr and over ll; on the native stack,
 * on one, on some, on enough for all. Each program computes the same each time.
 * USCHED_TEST_SEED is the first seed, USCHED_TEST_COUNT the number of seeds.
 */
#include <fenv.h>

#include "../../ll.h"
#include "../help/over.h"
#include "../help/torture.h"

enum { LIVES = KINDS, PROGRAMS = 6, STACK = 1 << 20 };

static struct life life[LIVES];
static uint64_t alone_sum[LIVES];
static void *scheduler;
static const struct way alone;

/* A thread's function, or called alone. */
static void whole_life(void *arg)
{
	struct life *l = arg;
	int before = fegetround();

	if (l->l_way == &alone)
		TEST_EQUAL(fesetround(l->l_shared), 0);
	else if (!l->l_shares)
		TEST_EQUAL(ustack_control(1), 0);
	TEST_EQUAL(fegetround(), l->l_shared);
	l->l_round = l->l_shared;
	set_round(l, FE_TONEAREST);
	live(l);
	if (l->l_way == &alone)
		TEST_EQUAL(fesetround(before), 0);
}

/* ---- Without threads ---- */

static void alone_pause(struct life *l)
{
	(void)l;
}

static void alone_start(struct life *l)
{
	whole_life(l);
}

static void alone_join(struct life *l)
{
	(void)l;
}

static const struct way alone = { alone_pause, alone_start, alone_join };

/* ---- Over the dispatcher alone ---- */

static void hand_over(struct mini *p)
{
	mini_push(p, ustack_self());
	TEST_EQUAL(ustack_switch(p->p_ring[p->p_head++ % MINI_RING]), 0);
}

static void mini_pause(struct life *l)
{
	switch (luck(l, 6)) {
	case 0:
		return;
	case 1:
		mini_self()->p_stop = luck(l, 8) == 0;
		break;
	case 2:
		TEST_EQUAL(ustack_reserve(luck(l, 2048)), 0);
		break;
	case 3:
		hand_over(mini_self());
		return;
	}
	TEST_EQUAL(ustack_block(), 0);
}

static void mini_begin(struct life *l)
{
	mini_start(mini_self(), &l->l_thread, whole_life, l);
}

static void mini_join(struct life *l)
{
	while (!l->l_ended)
		TEST_EQUAL(ustack_block(), 0);
}

static const struct way over_plain = { mini_pause, mini_begin, mini_join };

static void ended(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	((struct life *)(void *)u)->l_ended = true;
}

/* Runs n lives to their ends, inside `l', which pauses when usched_run() returns. */
static __attribute__((noinline)) void run_plain(unsigned stacks, struct life **lives,
						unsigned n, struct life *l)
{
	struct mini *p = malloc(sizeof *p);

	TEST_TRUE(p);
	mini_init(p, stacks, STACK);
	p->p_sched.s_calls.s_done = ended;
	for (unsigned i = 0; i < n; i++) {
		lives[i]->l_way = &over_plain;
		mini_start(p, &lives[i]->l_thread, whole_life, lives[i]);
	}
	for (unsigned i = 0; i < n; i++)
		while (!lives[i]->l_ended) {
			TEST_EQUAL(usched_run(&p->p_sched), 0);
			if (l)
				pause_here(l);
		}
	TEST_TRUE(l || mini_stats(p).st_switches > n * ACTS);
	mini_fini(p);
	free(p);
}

void nested_lives(struct life *l, struct life **child, unsigned n)
{
	if (l->l_way != &alone)
		run_plain(luck(l, 3), child, n, l);
	else
		for (unsigned i = 0; i < n; i++)
			whole_life(child[i]);
}

/* ---- Over rr and ll ---- */

static void over_pause(struct life *l)
{
	if (luck(l, 6))
		TEST_EQUAL(ustack_yield(), 0);
}

/* With ll also in the group of the starter. */
static void over_begin(struct life *l)
{
	struct ll_group *mine = NULL;

	if (over == &over_ll && luck(l, 2))
		mine = ll_group(scheduler, USCHED_BESIDE);
	if (mine)
		TEST_EQUAL(ll_start(mine, whole_life, l, &l->l_handle), 0);
	else
		TEST_EQUAL(over->o_start(scheduler, whole_life, l, &l->l_handle), 0);
}

static void over_end(struct life *l)
{
	TEST_EQUAL(ustack_join(l->l_handle, NULL, USCHED_NEVER), 0);
}

static const struct way over_scheduler = { over_pause, over_begin, over_end };

static void run_over(const struct way *way)
{
	for (unsigned i = 0; i < LIVES; i++) {
		life[i].l_way = way;
		way->w_start(&life[i]);
	}
	for (unsigned i = 0; i < LIVES; i++)
		way->w_join(&life[i]);
}

/* ---- Comparing them ---- */

/* The same programs each time, with other pauses. */
static void new_lives(unsigned time)
{
	for (unsigned i = 0; i < LIVES; i++)
		life[i] = (struct life){
			.l_seed = test_seed * LIVES + i + 1, .l_first = i, .l_acts = ACTS,
			.l_luck = (test_seed + time) * LIVES + i + 1,
			.l_shared = FE_TONEAREST, .l_shares = i % SHARES == 0,
		};
}

static void compare(void)
{
	for (unsigned i = 0; i < LIVES; i++) {
		TEST_EQUAL(life[i].l_acts, 0);
		TEST_EQUAL(life[i].l_sum, alone_sum[i]);
	}
}

static void each_program(void (*run)(void))
{
	const char *first = getenv("USCHED_TEST_SEED");
	const char *count = getenv("USCHED_TEST_COUNT");
	uint32_t seed = first ? (uint32_t)strtoul(first, NULL, 10) : 1;
	size_t n = count ? strtoul(count, NULL, 10) : test_scale(PROGRAMS, 1);

	TEST_TRUE(n > 0);
	for (; n > 0; n--, seed++) {
		test_timeout(60);
		test_seed = seed;
		new_lives(0);
		run_over(&alone);
		for (unsigned i = 0; i < LIVES; i++)
			alone_sum[i] = life[i].l_sum;
		run();
	}
}

static void dispatcher(void)
{
	static const unsigned stacks[] = { 0, 1, 3, MINI_STACKS };

	for (unsigned k = 0; k < sizeof stacks / sizeof *stacks; k++) {
		struct life *lives[LIVES];

		new_lives(k);
		for (unsigned i = 0; i < LIVES; i++)
			lives[i] = &life[i];
		run_plain(stacks[k], lives, LIVES, NULL);
		compare();
	}
}

static const struct uprocs_conf confs[] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
	{ .c_processors = 1, .c_stacks = 1, .c_stack_size = STACK },
	{ .c_processors = 2, .c_stacks = 2, .c_stack_size = STACK },
	{ .c_processors = 2, .c_stack_size = STACK },
};

enum { CONFS = sizeof confs / sizeof *confs };

static void each_conf(void)
{
	for (unsigned k = 0; k < CONFS; k++) {
		new_lives(k);
		TEST_EQUAL(over->o_create(&confs[k], &scheduler), 0);
		run_over(&over_scheduler);
		TEST_EQUAL(over->o_destroy(scheduler), 0);
		compare();
	}
}

TEST_ONCE(over_the_dispatcher)
{
	each_program(dispatcher);
}

TEST_CASE(over_processors, each_program, each_conf)

int main(void)
{
	return over_all(OVER_PROCS);
}
