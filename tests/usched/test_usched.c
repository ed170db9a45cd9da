/* SPDX-License-Identifier: MIT */
/*
 * test_usched.c: the rules R1 to R3, R6 and R7 of usched.c, one by one, by addresses and
 * counters. test_evict.c is about R4, test_switch.c about R5.
 */
#include "../help/plain.h"

#include "../../src/core/direction.h"

/* ---- R1 ---- */

struct place {
	const void *p_frame;
	const void *p_stack;
};

static void same_place(void *arg)
{
	struct place *place = arg;
	volatile char local = 0;

	place->p_frame = __builtin_frame_address(0);
	place->p_stack = ustack_self()->u_stack;
	for (int i = 0; i < 100; i++) {
		TEST_EQUAL(ustack_block(), 0);
		TEST_TRUE(place->p_frame == __builtin_frame_address(0));
		TEST_TRUE(place->p_stack == ustack_self()->u_stack);
		TEST_EQUAL(local++, i);
	}
}

TEST(r1_same_addresses)
{
	static struct place place[7];           /* not on a shared stack */
	static const unsigned stacks[] = { 0, 1, 3 };

	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
		setup(stacks[i], 0, NULL);
		for (int k = 0; k < 7; k++)
			mini_start(&plain, &thread[k], same_place, &place[k]);
		run();
		assert_int_equal(plain.p_dones, 7);
		for (int k = 0; k < 7 && plain.p_stacks < 2; k++)
			assert_true(place[k].p_frame == place[0].p_frame);
		mini_fini(&plain);
	}
}

/* ---- R2 ---- */

TEST(r2_alone_nothing_is_copied)
{
	rounds = 1000;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, blocker);
		run();
		assert_int_equal(steps, rounds);
		assert_int_equal(mini_stats(&plain).st_evictions, 0);
		assert_int_equal(mini_stats(&plain).st_loads, 0);
		assert_int_equal(mini_stats(&plain).st_bytes, 0);
		mini_fini(&plain);
	}
}

TEST(r2_two_on_one_stack_one_each_a_switch)
{
	rounds = 1000;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		struct usched_stats s;

		setup(stacks, 2, blocker);
		run();
		s = mini_stats(&plain);
		assert_int_equal(s.st_launches, 2);
		assert_int_equal(s.st_switches, 2 + 2 * rounds);
		assert_int_equal(s.st_evictions, 2 * rounds);
		assert_int_equal(s.st_loads, 2 * rounds);
		assert_int_equal(s.st_bytes, (2 * rounds + 2 * rounds) * s.st_deepest);
		mini_fini(&plain);
	}
}

/* Threads on other stacks run meanwhile: the images stay as they are. */
TEST(r2_images_of_residents_are_untouched)
{
	if (test_is_stressed())
		skip();
	if (!test_has_stacks())
		skip();
	rounds = 10;
	setup(2, 1, blocker);
	mini_start(&plain, &thread[1], stopper, NULL);
	for (int i = 0; i < 5; i++) {
		run();
		for (int k = 0; k < 2; k++)
			for (size_t b = 0; thread[k].u_outside
			     && b < thread[k].u_image.i_size; b++)
				assert_int_equal(((unsigned char *)
						 thread[k].u_image.i_frames)[b], 0xa5);
	}
	assert_true(thread[0].u_outside);
	while (plain.p_dones < 2)
		run();
	assert_int_equal(mini_stats(&plain).st_bytes, 0);
	mini_fini(&plain);
}

/* When usched_run() returns, its caller has the native stack. */
static void clobber(void)
{
	char below[8192];

	memset(below, 0xee, sizeof below);
	TEST_EQUAL(((volatile char *)below)[sizeof below - 1], (char)0xee);
}

TEST(r2_native_resident_is_saved_on_return)
{
	rounds = 10;
	setup(0, 1, stopper);
	for (unsigned i = 0; i <= rounds; i++) {
		run();                          /* all from this depth */
		clobber();
		assert_int_equal(plain.p_dones, i == rounds);
		assert_int_equal(mini_stats(&plain).st_loads, i);
		assert_int_equal(mini_stats(&plain).st_evictions,
				 i < rounds ? i + 1 : i);
	}
	assert_int_equal(steps, rounds);
	mini_fini(&plain);
}

/* ---- R3 ---- */

static void check_next_frame(void *unused)
{
	struct ustack *self = ustack_self();

	(void)unused;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(ustack_block(), 0);
		TEST_TRUE(stack_is_deeper(plain.p_next_frame, self->u_top));
		TEST_TRUE(stack_depth(self->u_top, plain.p_next_frame) < PLAIN_STACK);
	}
}

TEST(r3_next_runs_below_the_top)
{
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, check_next_frame);
		run();
		assert_int_equal(plain.p_dones, 1);
		mini_fini(&plain);
	}
}

static void resume_often(void *unused)
{
	struct usched_stats before = mini_stats(&plain), after;

	(void)unused;
	plain.p_self = true;
	for (int i = 0; i < 100; i++)
		TEST_EQUAL(ustack_block(), 0);
	plain.p_self = false;
	after = mini_stats(&plain);
	TEST_EQUAL(after.st_switches, before.st_switches);
	TEST_EQUAL(after.st_evictions, before.st_evictions);
	TEST_EQUAL(after.st_loads, before.st_loads);
}

TEST(r3_self_resume_moves_nothing)
{
	setup(0, 3, resume_often);
	run();
	assert_int_equal(plain.p_nexts, 1 + 3 * 100 + 3);
	mini_fini(&plain);
}

/* ---- R6 ---- */

TEST(r6_ended_threads_are_not_evicted)
{
	rounds = 1;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, blocker);
		for (unsigned i = 1; i < 16; i++)
			mini_start(&plain, &thread[i], once, NULL);
		run();
		assert_int_equal(plain.p_dones, 16);
		/* The blocker, once, for the first of the others. */
		assert_int_equal(mini_stats(&plain).st_evictions, 1);
		assert_int_equal(mini_stats(&plain).st_loads, 1);
		mini_fini(&plain);
	}
}

/* s_done frees the thread, and its memory is overwritten at once. */
static void free_thread(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	memset(u, 0xdd, sizeof *u);
	free(u);
}

TEST(r6_done_may_free_the_thread)
{
	rounds = 2;
	setup(1, 0, NULL);
	plain.p_sched.s_calls.s_done = free_thread;
	for (unsigned i = 0; i < 100; i++)
		mini_start(&plain, malloc(sizeof(struct ustack)),
			    i % 3 ? blocker : once, NULL);
	run();
	assert_int_equal(plain.p_dones, 100);
	mini_fini(&plain);
}

/* ---- R7 ---- */

TEST(r7_threads_that_fit_do_not_copy)
{
	enum { STACKS = 5 };

	if (test_is_stressed())
		skip();
	if (!test_has_stacks())
		skip();
	rounds = 100;
	setup(STACKS, STACKS, blocker);
	run();
	for (unsigned i = 0; i < 2 * STACKS; i++)       /* again, in two waves */
		mini_start(&plain, &thread[i], i < STACKS ? once : blocker, NULL);
	run();
	assert_int_equal(plain.p_dones, 3 * STACKS);
	assert_int_equal(mini_stats(&plain).st_bytes, 0);
	for (unsigned i = 0; i < STACKS + 1; i++)
		mini_start(&plain, &thread[i], blocker, NULL);
	run();
	assert_true(mini_stats(&plain).st_bytes > 0);
	mini_fini(&plain);
}

/*
 * Of two vacant stacks, the one without threads is taken, although the other became
 * vacant later. The third thread shares a stack with one of the first two. That one
 * stays, evicted, and the others end.
 */
TEST(r7_prefers_a_stack_without_threads)
{
	int stays;

	if (test_is_stressed())
		skip();
	if (!test_has_stacks())
		skip();
	rounds = 1000;
	setup(2, 0, NULL);
	for (int i = 0; i < 3; i++) {
		plain.p_head = plain.p_tail;
		mini_start(&plain, &thread[i], stopper, NULL);
		run();
	}
	stays = thread[2].u_stack == thread[1].u_stack;
	assert_ptr_not_equal(thread[0].u_stack, thread[1].u_stack);
	assert_ptr_equal(thread[2].u_stack, thread[stays].u_stack);
	assert_int_equal(ustack_abort(&thread[!stays]), 0);
	assert_int_equal(ustack_abort(&thread[2]), 0);
	plain.p_head = plain.p_tail;
	mini_start(&plain, &thread[2], stopper, NULL);
	run();
	assert_ptr_not_equal(thread[2].u_stack, thread[stays].u_stack);
	assert_int_equal(mini_stats(&plain).st_evictions, 1);
	assert_int_equal(ustack_abort(&thread[2]), 0);
	assert_int_equal(ustack_abort(&thread[stays]), 0);
	mini_fini(&plain);
}

/* The bottoms of 16 stacks of whole pages fall on different parts of a page. */
TEST(r7_bottoms_are_spread)
{
	static _Alignas(4096) char memory[16][PLAIN_STACK];
	struct usched s;
	const struct usched_stack *k;
	int seen[4096 / 64] = { 0 };

	if (!test_has_stacks())
		skip();
	assert_int_equal(usched_init(&s, &mini_calls), 0);
	for (size_t i = 0; i < 16; i++)         /* ends need not be aligned */
		assert_int_equal(usched_add_stack(&s, memory[i], PLAIN_STACK - i % 8), 0);
	k = s.s_victim;
	for (int i = 0; i < 16; i++, k = k->k_ring) {
		size_t part = (uintptr_t)k->k_bottom % 4096 / 64;
		uintptr_t hot = ((uintptr_t)&s.s_current - (uintptr_t)k->k_bottom) % 4096;

		assert_int_equal((uintptr_t)k->k_bottom % 64, 0);
		assert_in_range(seen[part]++, 0, 1);    /* a few parts are left out */
		assert_in_range(hot, 64, 4096 - 192);
	}
	assert_int_equal(usched_fini(&s), 0);
}

/* With many stacks, a thread on an unshared one needs no image and is never evicted. */
static int alone;

static void block_deep_alone(void *unused)
{
	(void)unused;
	TEST_EQUAL(block_deep(4096), 0);
	if (!ustack_self()->u_stack->k_shared) {
		alone++;
		TEST_TRUE(!ustack_self()->u_outside);
	}
	TEST_EQUAL(block_deep(4096), 0);
}

TEST(r7_few_stacks_are_shared)
{
	enum { SHARED = 64, OWN = 16, ALL = 2 * (SHARED + OWN) };
	static struct ustack many[ALL];

	if (test_is_stressed())
		skip();
	if (!test_has_stacks())
		skip();
	alone = 0;
	setup(SHARED + OWN, 0, NULL);
	for (size_t i = 0; i < ALL; i++)
		mini_start(&plain, &many[i], block_deep_alone, NULL);
	run();
	assert_int_equal(plain.p_dones, ALL);
	assert_in_range(alone, OWN, ALL - SHARED);
	assert_in_range(mini_stats(&plain).st_evictions, ALL - SHARED - OWN, 3 * ALL);
	mini_fini(&plain);
	rounds = 1;
	setup(SHARED + 1, 0, NULL);             /* the last lent is the first used */
	mini_start(&plain, &many[0], stopper, NULL);
	run();
	assert_false(many[0].u_stack->k_shared);
	assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
	assert_int_equal(ustack_abort(&many[0]), 0);
	mini_fini(&plain);
}

int main(void)
{
	return test_run_all();
}
