/* SPDX-License-Identifier: MIT */
/*
 * test_usched.c: the rules R1 to R7 of usched.c, one by one, by addresses and by
 * the counters, and the contract of each function of usched.h. What must survive
 * a switch, R5 among it, is in test_switch.c.
 */
#include <alloca.h>
#include <pthread.h>

#include "../arch/arch.h"
#include "mini.h"

enum { STACK = 64 << 10 };

static struct mini plain;
static unsigned rounds, steps;
static struct ustack thread[16];

static void blocker(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		TEST_EQUAL(ustack_block(), 0);
	}
}

/* Has usched_run() return at each of its blocks. */
static void stopper(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		mini_self()->p_stop = true;
		TEST_EQUAL(ustack_block(), 0);
	}
}

static void once(void *unused)
{
	(void)unused;
	steps++;
}

static void setup(unsigned stacks, unsigned n, void (*func)(void *))
{
	test_timeout(20);
	steps = 0;
	mini_init(&plain, stacks, STACK);
	for (unsigned i = 0; i < n; i++)
		mini_start(&plain, &thread[i], func, NULL);
}

static __attribute__((noinline)) void run(void)
{
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

/* R1 */

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

static void r1_same_addresses(void **state)
{
	static struct place place[7];           /* not on a stack that they share */
	static const unsigned stacks[] = { 0, 1, 3 };

	(void)state;
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

/* R2 */

static void r2_alone_nothing_is_copied(void **state)
{
	(void)state;
	rounds = 1000;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, blocker);
		run();
		assert_int_equal(steps, rounds);
		assert_int_equal(mini_stats(&plain).s_evictions, 0);
		assert_int_equal(mini_stats(&plain).s_loads, 0);
		assert_int_equal(mini_stats(&plain).s_bytes, 0);
		mini_fini(&plain);
	}
}

static void r2_two_on_one_stack_one_each_a_switch(void **state)
{
	(void)state;
	rounds = 1000;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		struct usched_stats s;

		setup(stacks, 2, blocker);
		run();
		s = mini_stats(&plain);
		assert_int_equal(s.s_launches, 2);
		assert_int_equal(s.s_switches, 2 + 2 * rounds);
		assert_int_equal(s.s_evictions, 2 * rounds);
		assert_int_equal(s.s_loads, 2 * rounds);
		assert_int_equal(s.s_bytes, (2 * rounds + 2 * rounds) * s.s_deepest);
		mini_fini(&plain);
	}
}

/* Others run meanwhile, on other stacks: still nobody writes to the images. */
static void r2_images_of_residents_are_untouched(void **state)
{
	(void)state;
	if (test_is_harsh())
		skip();
	if (!test_has_stacks())
		skip();
	rounds = 10;
	setup(2, 1, blocker);
	mini_start(&plain, &thread[1], stopper, NULL);
	for (int i = 0; i < 5; i++) {
		run();
		for (int k = 0; k < 2; k++)
			for (uint32_t b = 0; b < thread[k].u_size; b++)
				assert_int_equal(((unsigned char *)
						 thread[k].u_image)[b], 0xa5);
	}
	while (plain.p_dones < 2)
		run();
	assert_int_equal(mini_stats(&plain).s_bytes, 0);
	mini_fini(&plain);
}

/* When usched_run() returns, the native stack is its caller's. */
static void clobber(void)
{
	char below[8192];

	memset(below, 0xee, sizeof below);
	TEST_EQUAL(((volatile char *)below)[sizeof below - 1], (char)0xee);
}

static void r2_native_resident_is_saved_on_return(void **state)
{
	(void)state;
	rounds = 10;
	setup(0, 1, stopper);
	for (unsigned i = 0; i <= rounds; i++) {
		run();                          /* all from this depth */
		clobber();
		assert_int_equal(plain.p_dones, i == rounds);
		assert_int_equal(mini_stats(&plain).s_loads, i);
		assert_int_equal(mini_stats(&plain).s_evictions,
				 i < rounds ? i + 1 : i);
	}
	assert_int_equal(steps, rounds);
	mini_fini(&plain);
}

/* R3 */

static void check_next_frame(void *unused)
{
	struct ustack *self = ustack_self();

	(void)unused;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(ustack_block(), 0);
		TEST_TRUE(plain.p_next_frame < (uintptr_t)self->u_top);
		TEST_TRUE((uintptr_t)self->u_top - plain.p_next_frame < STACK);
	}
}

static void r3_next_runs_below_the_top(void **state)
{
	(void)state;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, check_next_frame);
		run();
		assert_int_equal(plain.p_dones, 1);
		mini_fini(&plain);
	}
}

static void resume_self(void *unused)
{
	struct usched_stats before = mini_stats(&plain), after;

	(void)unused;
	plain.p_self = true;
	for (int i = 0; i < 100; i++)
		TEST_EQUAL(ustack_block(), 0);
	plain.p_self = false;
	after = mini_stats(&plain);
	TEST_EQUAL(after.s_switches, before.s_switches);
	TEST_EQUAL(after.s_evictions, before.s_evictions);
	TEST_EQUAL(after.s_loads, before.s_loads);
}

static void r3_self_resume_moves_nothing(void **state)
{
	(void)state;
	setup(0, 3, resume_self);
	run();
	assert_int_equal(plain.p_nexts, 1 + 3 * 100 + 3);
	mini_fini(&plain);
}

/* R4 */

static unsigned nexts_asked;

static void block_without_memory(void *unused)
{
	unsigned nexts = plain.p_nexts;

	(void)unused;
	plain.p_no_memory = true;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(ustack_block(), -ENOMEM);
		TEST_EQUAL(ustack_switch(&thread[1]), -ENOMEM);
		TEST_EQUAL(ustack_reserve(0), -ENOMEM);
		TEST_EQUAL(ustack_reserve(SIZE_MAX), -ENOMEM);
	}
	nexts_asked = plain.p_nexts - nexts;
	TEST_EQUAL(mini_stats(&plain).s_images, 0);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_reserve(SIZE_MAX), -ENOMEM);
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = true;               /* it has its image by now */
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = false;
}

static void r4_failure_changes_nothing(void **state)
{
	(void)state;
	rounds = 3;
	setup(0, 1, block_without_memory);
	mini_start(&plain, &thread[1], blocker, NULL);
	run();
	assert_int_equal(nexts_asked, 0);
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

static __attribute__((noinline)) int block_deep(size_t size)
{
	volatile char deep[size];
	int rc;

	deep[0] = deep[size - 1] = 1;
	rc = ustack_block();
	TEST_EQUAL(deep[0] + deep[size - 1], 2);
	return rc;
}

static void reserve_then_block(void *unused)
{
	(void)unused;
	for (size_t room = 64; room < STACK / 2; room *= 2) {
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(0), 0);
		plain.p_no_memory = true;
		TEST_EQUAL(ustack_block(), 0);
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(0), 0);
		plain.p_no_memory = true;
		mini_push(&plain, ustack_self());
		plain.p_head++;                 /* the other thread's place */
		TEST_EQUAL(ustack_switch(&thread[1]), 0);
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(room + 256), 0);
		plain.p_no_memory = true;
		TEST_EQUAL(block_deep(room), 0);
	}
	plain.p_no_memory = false;
}

static void give_image(struct ustack *u)
{
	enum { SIZE = 4096 };

	u->u_image = malloc(SIZE + MINI_CANARIES);
	memset((char *)u->u_image + SIZE, MINI_CANARY, MINI_CANARIES);
	u->u_size = SIZE;
	plain.p_bytes += SIZE;
}

static void r4_reserved_block_cannot_fail(void **state)
{
	(void)state;
	rounds = 200;
	setup(0, 1, reserve_then_block);
	mini_start(&plain, &thread[1], blocker, NULL);
	give_image(&thread[1]);                 /* needs no more */
	run();
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

static void reserve_again(void *unused)
{
	const void *image;

	(void)unused;
	TEST_EQUAL(ustack_reserve(0), 0);
	image = ustack_self()->u_image;
	TEST_EQUAL(ustack_reserve(0), 0);
	TEST_EQUAL(ustack_self()->u_image != image, test_is_harsh());
}

static void r4_an_image_that_is_reserved_stays(void **state)
{
	(void)state;
	setup(0, 1, reserve_again);
	run();
	mini_fini(&plain);
}

/*
 * What is reserved has room to spare, as compilers' frames differ: at each depth around that
 * of an earlier block, where it may be that nothing has to be done.
 */
enum { DEPTH = 8192, SPARE = 40 };      /* bytes; a margin is larger, and frames take of it */

static __attribute__((noinline)) void reserve_at(size_t frame, size_t room)
{
	const struct ustack *u = ustack_self();
	volatile char *deep = alloca(frame);

	deep[0] = deep[frame - 1] = 1;
	TEST_EQUAL(ustack_reserve(room), 0);
	plain.p_no_memory = true;
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = false;
	TEST_TRUE((size_t)(u->u_stack->k_bottom - u->u_top) + room + SPARE <= u->u_size);
	TEST_EQUAL(deep[0] + deep[frame - 1], 2);
}

static void reserve_around(void *unused)
{
	(void)unused;
	for (size_t room = 0; room <= DEPTH / 2; room += DEPTH / 8) {
		TEST_EQUAL(block_deep(DEPTH), 0);
		for (size_t frame = DEPTH - 1536; frame < DEPTH + 64; frame += 16)
			reserve_at(frame - room, room);
	}
}

static void r4_what_is_reserved_has_a_margin(void **state)
{
	(void)state;
	setup(0, 1, reserve_around);
	run();
	mini_fini(&plain);
}

/* R6 */

static void r6_ended_threads_are_not_evicted(void **state)
{
	(void)state;
	rounds = 1;
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, blocker);
		for (unsigned i = 1; i < 16; i++)
			mini_start(&plain, &thread[i], once, NULL);
		run();
		assert_int_equal(plain.p_dones, 16);
		/* The blocker, once, for the first of the others. */
		assert_int_equal(mini_stats(&plain).s_evictions, 1);
		assert_int_equal(mini_stats(&plain).s_loads, 1);
		mini_fini(&plain);
	}
}

/* s_done frees the thread, and its memory is used again at once. */
static void free_thread(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	memset(u, 0xdd, sizeof *u);
	free(u);
}

static void r6_done_may_free_the_thread(void **state)
{
	(void)state;
	rounds = 2;
	setup(1, 0, NULL);
	plain.p_sched.s_done = free_thread;
	for (unsigned i = 0; i < 100; i++)
		mini_start(&plain, malloc(sizeof(struct ustack)),
			    i % 3 ? blocker : once, NULL);
	run();
	assert_int_equal(plain.p_dones, 100);
	mini_fini(&plain);
}

/* R7 */

static void r7_threads_that_fit_do_not_copy(void **state)
{
	enum { STACKS = 5 };

	(void)state;
	if (test_is_harsh())
		skip();
	if (!test_has_stacks())
		skip();
	rounds = 100;
	setup(STACKS, STACKS, blocker);
	run();
	for (unsigned i = 0; i < 2 * STACKS; i++)       /* again, with two waves */
		mini_start(&plain, &thread[i], i < STACKS ? once : blocker, NULL);
	run();
	assert_int_equal(plain.p_dones, 3 * STACKS);
	assert_int_equal(mini_stats(&plain).s_bytes, 0);
	for (unsigned i = 0; i < STACKS + 1; i++)
		mini_start(&plain, &thread[i], blocker, NULL);
	run();
	assert_true(mini_stats(&plain).s_bytes > 0);
	mini_fini(&plain);
}

/*
 * Of two vacant stacks, the one where no thread lives is taken, though the other
 * became vacant later. The third thread shares a stack with one of the first two:
 * that one stays, evicted, and the others end.
 */
static void r7_prefers_a_stack_without_threads(void **state)
{
	int stays;

	(void)state;
	if (test_is_harsh())
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
	assert_int_equal(mini_stats(&plain).s_evictions, 1);
	assert_int_equal(ustack_abort(&thread[2]), 0);
	assert_int_equal(ustack_abort(&thread[stays]), 0);
	mini_fini(&plain);
}

/* The bottoms of 16 stacks of whole pages fall on different parts of a page. */
static void r7_bottoms_are_spread(void **state)
{
	static _Alignas(4096) char memory[16][STACK];
	struct usched s = {
		.s_next = mini_next, .s_alloc = mini_alloc, .s_free = mini_free,
	};
	const struct usched_stack *k;
	int seen[4096 / 64] = { 0 };

	(void)state;
	if (!test_has_stacks())
		skip();
	assert_int_equal(usched_init(&s), 0);
	for (size_t i = 0; i < 16; i++)         /* ends need not be aligned */
		assert_int_equal(usched_add_stack(&s, memory[i], STACK - i % 8), 0);
	k = s.s_victim;
	for (int i = 0; i < 16; i++, k = k->k_ring) {
		size_t part = (uintptr_t)k->k_bottom % 4096 / 64;
		uintptr_t hot = ((uintptr_t)&s.s_current - (uintptr_t)k->k_bottom) % 4096;

		assert_int_equal((uintptr_t)k->k_bottom % 64, 0);
		assert_in_range(seen[part]++, 0, 1);    /* a few places are left out */
		assert_in_range(hot, 64, 4096 - 192);
	}
	assert_int_equal(usched_fini(&s), 0);
}

/* The contract, function by function. */

static void never_blocks_no_image(void **state)
{
	(void)state;
	setup(0, 10, once);
	run();
	assert_int_equal(steps, 10);
	assert_int_equal(plain.p_allocs, 0);
	assert_int_equal(plain.p_frees, 0);
	assert_int_equal(mini_stats(&plain).s_bytes, 0);
	mini_fini(&plain);
}

static void init_wants_call_backs(void **state)
{
	struct usched s = { .s_next = mini_next, .s_alloc = mini_alloc };

	(void)state;
	assert_int_equal(usched_init(&s), -EINVAL);
	s.s_free = mini_free;
	s.s_alloc = NULL;
	assert_int_equal(usched_init(&s), -EINVAL);
	s.s_alloc = mini_alloc;
	s.s_next = NULL;
	assert_int_equal(usched_init(&s), -EINVAL);
	s.s_next = mini_next;
	assert_int_equal(usched_init(&s), 0);
	assert_int_equal(ustack_init(&s, &thread[0], NULL, NULL, NULL, 0), -EINVAL);
#if SIZE_MAX > UINT32_MAX
	assert_int_equal(ustack_init(&s, &thread[0], once, NULL, &s,
				     (size_t)UINT32_MAX + 1), -EINVAL);
#endif
	assert_int_equal(usched_fini(&s), 0);
}

static void lend_wants_a_stack(void **state)
{
	static char memory[STACK];

	(void)state;
	setup(0, 1, stopper);
	rounds = 1;
	if (!test_has_stacks()) {
		assert_int_equal(usched_add_stack(&plain.p_sched, memory, STACK), -ENOTSUP);
	} else {
		run();                          /* it lives on the native stack now */
		assert_int_equal(usched_add_stack(&plain.p_sched, memory, STACK), -EBUSY);
		assert_int_equal(usched_add_stack(&plain.p_sched, memory, 8191), -EINVAL);
		assert_int_equal(usched_add_stack(&plain.p_sched, memory,
					     (size_t)1 << 31), -EINVAL);
	}
	while (!plain.p_dones)
		run();
	mini_fini(&plain);
}

/* usched_run() from another depth, on another native thread, and in itself. */

static __attribute__((noinline)) int run_deeper(void)
{
	volatile size_t size = 1000;            /* unknown to the compiler */
	volatile char deeper[size];
	int rc;

	deeper[0] = 1;
	rc = usched_run(&plain.p_sched);
	return deeper[0] == 1 ? rc : -1;
}

static void *run_elsewhere(void *rc)
{
	*(int *)rc = usched_run(&plain.p_sched);
	return NULL;
}

static int run_native(void)
{
	pthread_t native;
	int rc = 1;

	TEST_EQUAL(pthread_create(&native, NULL, run_elsewhere, &rc), 0);
	pthread_join(native, NULL);
	return rc;
}

static void run_again_on_lent_stacks(void **state)
{
	(void)state;
	if (!test_has_stacks())
		skip();
	rounds = 3;
	setup(1, 2, stopper);
	for (unsigned i = 0; i < 2; i++) {
		run();
		assert_int_equal(run_deeper(), 0);
		assert_int_equal(run_native(), 0);
		assert_int_equal(steps, 3 * (i + 1));
	}
	while (plain.p_dones < 2)
		run();
	mini_fini(&plain);
}

static void run_again_on_the_native_stack(void **state)
{
	(void)state;
	rounds = 3;
	setup(0, 2, stopper);
	for (unsigned i = 0; i < 2 * rounds; i++) {
		run();
		assert_int_equal(steps, i + 1);
		assert_int_equal(run_deeper(), -EINVAL);
		assert_int_equal(run_native(), -EINVAL);
		assert_int_equal(steps, i + 1);
		assert_null(ustack_self());
	}
	while (plain.p_dones < 2)
		run();
	/* Without threads on it, the native stack is anybody's again. */
	mini_start(&plain, &thread[0], once, NULL);
	assert_int_equal(run_deeper(), 0);
	mini_start(&plain, &thread[0], once, NULL);
	assert_int_equal(run_native(), 0);
	mini_fini(&plain);
}

static void run_itself(void *unused)
{
	(void)unused;
	TEST_EQUAL(usched_run(&plain.p_sched), -EBUSY);
	TEST_EQUAL(usched_fini(&plain.p_sched), -EBUSY);
	TEST_EQUAL(ustack_block(), 0);
	TEST_TRUE(ustack_self() == &thread[0]);
}

static void busy_while_running(void **state)
{
	(void)state;
	rounds = 1;
	setup(0, 1, run_itself);
	mini_start(&plain, &thread[1], stopper, NULL);
	run();
	assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
	while (plain.p_dones < 2)
		run();
	mini_fini(&plain);
}

/* A thread runs another dispatcher, at two depths, whose threads block. */

static struct mini inner;
static struct ustack inner_thread[4];
static struct ustack *outer_thread;

static void inner_blocker(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < rounds; i++) {
		TEST_TRUE(ustack_sched(ustack_self()) == &inner.p_sched);
		TEST_EQUAL(ustack_abort(outer_thread), -EBUSY);
		TEST_EQUAL(ustack_switch(outer_thread), -EINVAL);
		TEST_EQUAL(ustack_block(), 0);
	}
	steps++;
}

static void run_inner(void *unused)
{
	(void)unused;
	outer_thread = ustack_self();
	mini_init(&inner, 0, 0);
	for (int i = 0; i < 4; i++)
		mini_start(&inner, &inner_thread[i], inner_blocker, NULL);
	TEST_EQUAL(usched_run(&inner.p_sched), 0);
	TEST_EQUAL(inner.p_dones, 4);
	TEST_TRUE(ustack_self() == outer_thread);
	TEST_EQUAL(ustack_block(), 0);
	mini_fini(&inner);
}

static void dispatchers_nest(void **state)
{
	(void)state;
	rounds = 20;
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		setup(stacks, 1, run_inner);
		mini_start(&plain, &thread[1], blocker, NULL);
		run();
		assert_int_equal(plain.p_dones, 2);
		assert_int_equal(steps, 4 + rounds);
		mini_fini(&plain);
	}
}

/* Direct hand-off. */

static void hand_over(void *next)
{
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		TEST_EQUAL(ustack_switch(next), 0);
	}
	if (next != &thread[0])                 /* that was the first to end */
		mini_push(&plain, next);
}

static void switch_asks_nobody(void **state)
{
	(void)state;
	rounds = 100;
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		setup(stacks, 0, NULL);
		for (int i = 0; i < 3; i++)
			assert_int_equal(ustack_init(&plain.p_sched, &thread[i],
				hand_over, &thread[(i + 1) % 3], NULL, 0), 0);
		mini_push(&plain, &thread[0]);
		run();
		assert_int_equal(steps, 3 * rounds);
		assert_int_equal(plain.p_dones, 3);
		assert_int_equal(plain.p_nexts, 1 + 3);
		mini_fini(&plain);
	}
}

/* What arch/ calls where it has no shorter way. The Makefile has it come here. */
static unsigned handover_slows;
arch_next_fn __real_usched__handover_slow, __wrap_usched__handover_slow;

struct arch_jump __wrap_usched__handover_slow(char *top, void *arg)
{
	handover_slows++;
	return __real_usched__handover_slow(top, arg);
}

/* Three threads with a stack for each are launched, and for their first blocks looked at. */
static void switch_between_residents_is_short(void **state)
{
	(void)state;
	rounds = 100;
	for (unsigned stacks = 1; stacks <= 3; stacks += 2) {
		setup(stacks, 0, NULL);
		handover_slows = 0;
		for (int i = 0; i < 3; i++)
			assert_int_equal(ustack_init(&plain.p_sched, &thread[i],
				hand_over, &thread[(i + 1) % 3], NULL, 0), 0);
		mini_push(&plain, &thread[0]);
		run();
		mini_fini(&plain);
		if (!test_has_stacks() || plain.p_sched.s_caught->c_uncaught)
			skip();         /* this build has no short way */
		assert_int_equal(handover_slows, stacks == 1 ? 3 * rounds : 3);
	}
}

static void switch_errors(void *other)
{
	struct ustack *self = ustack_self();
	unsigned nexts = plain.p_nexts;

	TEST_EQUAL(ustack_switch(self), 0);
	TEST_EQUAL(ustack_switch(NULL), -EINVAL);
	TEST_EQUAL(ustack_switch(&inner_thread[0]), -EINVAL);
	TEST_EQUAL(ustack_switch(other), -EINVAL);      /* it has ended */
	TEST_EQUAL(plain.p_nexts, nexts);
}

static void switch_wants_a_thread(void **state)
{
	(void)state;
	setup(0, 1, once);
	mini_init(&inner, 0, 0);
	assert_int_equal(ustack_init(&inner.p_sched, &inner_thread[0], once, NULL,
				     NULL, 0), 0);
	mini_start(&plain, &thread[1], switch_errors, &thread[0]);
	run();
	assert_int_equal(plain.p_dones, 2);
	assert_int_equal(ustack_switch(&thread[0]), -EPERM);
	assert_int_equal(ustack_block(), -EPERM);
	assert_int_equal(ustack_reserve(0), -EPERM);
	assert_null(ustack_self());
	mini_fini(&plain);
	mini_fini(&inner);
}

/* Abort, in each state. */

static void abort_self(void *unused)
{
	(void)unused;
	steps++;
	TEST_EQUAL(ustack_block(), 0);
	ustack_abort(ustack_self());
	steps += 1000;                          /* not reached */
}

static void abort_others(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_abort(&thread[0]), 0);        /* blocked */
	TEST_TRUE(plain.p_done == &thread[0]);
	TEST_EQUAL(ustack_abort(&thread[2]), 0);        /* new */
	TEST_TRUE(plain.p_done == &thread[2]);
	TEST_EQUAL(ustack_abort(&thread[2]), -EINVAL);  /* ended */
	plain.p_head = plain.p_tail;
}

static void abort_in_every_state(void **state)
{
	(void)state;
	rounds = 10;
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		setup(stacks, 1, abort_self);
		run();
		assert_int_equal(steps, 1);
		assert_int_equal(plain.p_dones, 1);

		/* Resident where there are two stacks, else evicted. */
		mini_start(&plain, &thread[0], blocker, NULL);
		mini_start(&plain, &thread[1], abort_others, NULL);
		assert_int_equal(ustack_init(&plain.p_sched, &thread[2], once, NULL,
					     malloc(64 + MINI_CANARIES), 64), 0);
		memset((char *)thread[2].u_image + 64, MINI_CANARY, MINI_CANARIES);
		plain.p_bytes += 64;
		run();
		assert_int_equal(plain.p_dones, 4);

		/* Between two calls of usched_run(). */
		mini_start(&plain, &thread[0], stopper, NULL);
		mini_start(&plain, &thread[1], once, NULL);
		run();
		assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
		assert_int_equal(ustack_abort(&thread[0]), 0);
		plain.p_tail--;                 /* where it was put */
		run();
		assert_int_equal(plain.p_dones, 6);
		mini_fini(&plain);
	}
}

/* A call-back of an end aborts the thread again. */
static void free_and_abort(struct usched *s, struct ustack *u, void *image, size_t size)
{
	TEST_EQUAL(ustack_abort(u), -EINVAL);
	mini_free(s, u, image, size);
}

static void abort_while_ending(void **state)
{
	(void)state;
	rounds = 3;
	setup(0, 1, blocker);
	mini_start(&plain, &thread[1], stopper, NULL);
	plain.p_sched.s_free = free_and_abort;
	run();
	assert_int_equal(ustack_abort(&thread[0]), 0);
	assert_int_equal(ustack_abort(&thread[1]), 0);
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

/* An image smaller than asked for is none. */
static void *alloc_too_small(struct usched *s, struct ustack *u, size_t *size)
{
	void *image = mini_alloc(s, u, size);

	plain.p_bytes--;
	(*size)--;
	((char *)image)[*size] = MINI_CANARY;
	return image;
}

static void block_without_image(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_block(), -ENOMEM);
	TEST_EQUAL(mini_stats(&plain).s_images, 0);
}

static void small_images_are_refused(void **state)
{
	(void)state;
	setup(0, 1, block_without_image);
	plain.p_sched.s_alloc = alloc_too_small;
	run();
	assert_int_equal(plain.p_frees, 1);
	mini_fini(&plain);
}

/* Images: given ones are used, large ones are exchanged unless kept. */

static void given_image_is_used(void **state)
{
	enum { SIZE = 8192 };

	(void)state;
	rounds = 10;
	setup(0, 1, blocker);
	assert_int_equal(ustack_init(&plain.p_sched, &thread[1], blocker, NULL,
				     malloc(SIZE + MINI_CANARIES), SIZE), 0);
	memset((char *)thread[1].u_image + SIZE, MINI_CANARY, MINI_CANARIES);
	plain.p_bytes += SIZE;
	mini_push(&plain, &thread[1]);
	run();
	assert_int_equal(plain.p_allocs, 1);    /* for the other thread */
	assert_int_equal(plain.p_frees, 2);
	mini_fini(&plain);
}

static uint32_t size_deep, size_shallow;

static void deep_then_shallow(void *unused)
{
	(void)unused;
	TEST_EQUAL(block_deep(16384), 0);
	size_deep = ustack_self()->u_size;
	plain.p_no_memory = true;               /* to exchange is no must */
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_self()->u_size, size_deep);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_block(), 0);
	size_shallow = ustack_self()->u_size;
}

/* More stacks than are shared: who has one of its own needs no image and is never evicted. */

static int alone;

static void block_deep_alone(void *unused)
{
	(void)unused;
	TEST_EQUAL(block_deep(4096), 0);
	if (!ustack_self()->u_stack->k_shared) {
		alone++;
		TEST_TRUE(!ustack_self()->u_image);
	}
	TEST_EQUAL(block_deep(4096), 0);
}

static void r7_few_stacks_are_shared(void **state)
{
	enum { SHARED = 64, OWN = 16, ALL = 2 * (SHARED + OWN) };
	static struct ustack many[ALL];

	(void)state;
	if (test_is_harsh())
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
	assert_in_range(mini_stats(&plain).s_evictions, ALL - SHARED - OWN, 3 * ALL);
	mini_fini(&plain);
	rounds = 1;
	setup(SHARED + 1, 0, NULL);             /* the last that was lent is the first used */
	mini_start(&plain, &many[0], stopper, NULL);
	run();
	assert_false(many[0].u_stack->k_shared);
	assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
	assert_int_equal(ustack_abort(&many[0]), 0);
	mini_fini(&plain);
}

/* When they are needed, which is when another thread evicts. */
static void large_images_are_exchanged(void **state)
{
	(void)state;
	rounds = 10;
	for (int keep = 0; keep < 2; keep++) {
		setup(1, 1, deep_then_shallow);
		mini_start(&plain, &thread[1], blocker, NULL);
		plain.p_sched.s_keep = keep;
		run();
		assert_true(size_deep >= 16384);
		if (keep)
			assert_int_equal(size_shallow, size_deep);
		else
			assert_true(size_shallow < size_deep / 4);
		mini_fini(&plain);
	}
}

static void deepest_is_counted(void **state)
{
	struct usched_stats s;

	(void)state;
	setup(0, 1, deep_then_shallow);
	run();
	s = mini_stats(&plain);
	assert_true(s.s_deepest >= 16384 && s.s_deepest < 16384 + 4096);
	assert_int_equal(s.s_launches, 1);
	mini_fini(&plain);
}

/* One that is not as deep as its image is for has to be counted when it is evicted. */
static void deepest_is_counted_of_the_evicted(void **state)
{
	struct usched_stats s;

	(void)state;
	rounds = 1;
	setup(1, 1, blocker);
	give_image(&thread[0]);
	mini_start(&plain, &thread[1], once, NULL);
	run();
	s = mini_stats(&plain);
	assert_true(s.s_deepest > 0);
	assert_int_equal(s.s_evictions, 1);
	assert_int_equal(s.s_bytes, 2 * s.s_deepest);
	mini_fini(&plain);
}

/* s_wake */

static int count_wake(struct usched *s, struct ustack *u)
{
	assert_ptr_equal(s, ustack_sched(u));
	return (int)++steps;
}

static void wake_is_the_scheduler_s(void **state)
{
	(void)state;
	setup(0, 1, once);
	assert_int_equal(ustack_wake(&thread[0]), -ENOTSUP);
	plain.p_sched.s_wake = count_wake;
	assert_int_equal(ustack_wake(&thread[0]), 1);
	assert_int_equal(ustack_wake(&thread[0]), 2);
	run();
	mini_fini(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(r1_same_addresses),
		cmocka_unit_test(r2_alone_nothing_is_copied),
		cmocka_unit_test(r2_two_on_one_stack_one_each_a_switch),
		cmocka_unit_test(r2_images_of_residents_are_untouched),
		cmocka_unit_test(r2_native_resident_is_saved_on_return),
		cmocka_unit_test(r3_next_runs_below_the_top),
		cmocka_unit_test(r3_self_resume_moves_nothing),
		cmocka_unit_test(r4_failure_changes_nothing),
		cmocka_unit_test(r4_reserved_block_cannot_fail),
		cmocka_unit_test(r4_an_image_that_is_reserved_stays),
		cmocka_unit_test(r4_what_is_reserved_has_a_margin),
		cmocka_unit_test(r6_ended_threads_are_not_evicted),
		cmocka_unit_test(r6_done_may_free_the_thread),
		cmocka_unit_test(r7_threads_that_fit_do_not_copy),
		cmocka_unit_test(r7_prefers_a_stack_without_threads),
		cmocka_unit_test(r7_bottoms_are_spread),
		cmocka_unit_test(never_blocks_no_image),
		cmocka_unit_test(init_wants_call_backs),
		cmocka_unit_test(lend_wants_a_stack),
		cmocka_unit_test(run_again_on_lent_stacks),
		cmocka_unit_test(run_again_on_the_native_stack),
		cmocka_unit_test(busy_while_running),
		cmocka_unit_test(dispatchers_nest),
		cmocka_unit_test(switch_asks_nobody),
		cmocka_unit_test(switch_between_residents_is_short),
		cmocka_unit_test(switch_wants_a_thread),
		cmocka_unit_test(abort_in_every_state),
		cmocka_unit_test(abort_while_ending),
		cmocka_unit_test(small_images_are_refused),
		cmocka_unit_test(given_image_is_used),
		cmocka_unit_test(large_images_are_exchanged),
		cmocka_unit_test(r7_few_stacks_are_shared),
		cmocka_unit_test(deepest_is_counted),
		cmocka_unit_test(deepest_is_counted_of_the_evicted),
		cmocka_unit_test(wake_is_the_scheduler_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
