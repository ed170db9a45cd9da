/* SPDX-License-Identifier: MIT */
/*
 * test_dispatch.c: the contract of the calls of usched.h: init, stacks, run, switch,
 * abort, wake, unused memory. The Makefile has usched__go() come here.
 */
#include <pthread.h>

#include "../../arch/arch.h"
#include "../../src/core/core.h"
#include "../help/plain.h"

/* ---- Dispatchers ---- */

static void undo_nothing(struct usched *s)
{
	(void)s;
}

TEST(init_wants_call_backs)
{
	struct usched_calls calls = { .s_next = mini_next, .s_alloc = mini_alloc };
	struct usched s;

	assert_int_equal(usched_init(&s, &calls), -EINVAL);
	calls.s_free = mini_free;
	calls.s_alloc = NULL;
	assert_int_equal(usched_init(&s, &calls), -EINVAL);
	calls.s_alloc = mini_alloc;
	calls.s_next = NULL;
	assert_int_equal(usched_init(&s, &calls), -EINVAL);
	calls.s_next = mini_next;
	calls.s_unpick = undo_nothing;
	assert_int_equal(usched_init(&s, &calls), -EINVAL);
	calls.s_unpick = NULL;
	assert_int_equal(usched_init(&s, &calls), 0);
	assert_int_equal(ustack_init(&s, &thread[0], NULL, NULL), -EINVAL);
	assert_int_equal(usched_fini(&s), 0);
	calls.s_record = (size_t)USCHED_IMAGE_MAX + sizeof(struct ustack);
	assert_int_equal(usched_init(&s, &calls), -EINVAL);
}

TEST(lend_wants_a_stack)
{
	static char memory[PLAIN_STACK];
	struct usched *s = &plain.p_sched;

	setup(0, 1, stopper);
	rounds = 1;
	if (!test_has_stacks()) {
		assert_int_equal(usched_add_stack(s, memory, sizeof memory), -ENOTSUP);
	} else {
		run();                          /* it lives on the native stack now */
		assert_int_equal(usched_add_stack(s, memory, sizeof memory), -EBUSY);
		assert_int_equal(usched_add_stack(s, memory, 8191), -EINVAL);
		assert_int_equal(usched_add_stack(s, memory, (size_t)1 << 31), -EINVAL);
	}
	while (!plain.p_dones)
		run();
	mini_fini(&plain);
}

/* ---- usched_run() from another depth, on another native thread, in itself ---- */

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

TEST(run_again_on_lent_stacks)
{
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

TEST(run_again_on_the_native_stack)
{
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
	/* Without threads on it, any native stack will do. */
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

TEST(busy_while_running)
{
	rounds = 1;
	setup(0, 1, run_itself);
	mini_start(&plain, &thread[1], stopper, NULL);
	run();
	assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
	while (plain.p_dones < 2)
		run();
	mini_fini(&plain);
}

/* ---- A dispatcher inside a thread ---- */

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

TEST(dispatchers_nest)
{
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

/* ---- ustack_switch() ---- */

static void hand_over(void *next)
{
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		TEST_EQUAL(ustack_switch(next), 0);
	}
	if (next != &thread[0])                 /* which was the first to end */
		mini_push(&plain, next);
}

TEST(switch_asks_no_call_back)
{
	rounds = 100;
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		setup(stacks, 0, NULL);
		for (int i = 0; i < 3; i++)
			assert_int_equal(ustack_init(&plain.p_sched, &thread[i],
				hand_over, &thread[(i + 1) % 3]), 0);
		mini_push(&plain, &thread[0]);
		run();
		assert_int_equal(steps, 3 * rounds);
		assert_int_equal(plain.p_dones, 3);
		assert_int_equal(plain.p_nexts, 1 + 3);
		mini_fini(&plain);
	}
}

/* arch/ calls it where it has no shorter way. */
static unsigned goes;
struct arch_jump __real_usched__go(struct ustack *u, struct usched *s);
struct arch_jump __wrap_usched__go(struct ustack *u, struct usched *s);

struct arch_jump __wrap_usched__go(struct ustack *u, struct usched *s)
{
	goes++;
	return __real_usched__go(u, s);
}

/* With a stack for each of three threads, only launches by a thread take the long way. */
TEST(switch_between_residents_is_short)
{
	rounds = 100;
	for (unsigned stacks = 1; stacks <= 3; stacks += 2) {
		setup(stacks, 0, NULL);
		goes = 0;
		for (int i = 0; i < 3; i++)
			assert_int_equal(ustack_init(&plain.p_sched, &thread[i],
				hand_over, &thread[(i + 1) % 3]), 0);
		mini_push(&plain, &thread[0]);
		run();
		mini_fini(&plain);
		if (!test_has_stacks() || plain.p_sched.s_caught->cg_uncaught)
			skip();         /* this build has no short way */
		assert_int_equal(goes, stacks == 1 ? 3 * rounds : 2);
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

TEST(switch_wants_a_thread)
{
	setup(0, 1, once);
	mini_init(&inner, 0, 0);
	assert_int_equal(ustack_init(&inner.p_sched, &inner_thread[0], once, NULL), 0);
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

/* ---- ustack_abort() ---- */

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

TEST(abort_in_every_state)
{
	rounds = 10;
	for (unsigned stacks = 0; stacks < 3; stacks++) {
		setup(stacks, 1, abort_self);
		run();
		assert_int_equal(steps, 1);
		assert_int_equal(plain.p_dones, 1);

		/* Resident with two stacks, else evicted. */
		mini_start(&plain, &thread[0], blocker, NULL);
		mini_start(&plain, &thread[1], abort_others, NULL);
		assert_int_equal(ustack_init(&plain.p_sched, &thread[2], once, NULL), 0);
		run();
		assert_int_equal(plain.p_dones, 4);

		/* Between two calls of usched_run(). */
		mini_start(&plain, &thread[0], stopper, NULL);
		mini_start(&plain, &thread[1], once, NULL);
		run();
		assert_int_equal(usched_fini(&plain.p_sched), -EBUSY);
		assert_int_equal(ustack_abort(&thread[0]), 0);
		plain.p_tail--;                 /* its place in the ring */
		run();
		assert_int_equal(plain.p_dones, 6);
		mini_fini(&plain);
	}
}

/* A call-back at the end of a thread aborts it again. */
static void free_and_abort(struct usched *s, struct ustack *u, void *image, size_t size)
{
	TEST_EQUAL(ustack_abort(u), -EINVAL);
	mini_free(s, u, image, size);
}

TEST(abort_while_ending)
{
	rounds = 3;
	setup(0, 1, blocker);
	mini_start(&plain, &thread[1], stopper, NULL);
	plain.p_sched.s_calls.s_free = free_and_abort;
	run();
	assert_int_equal(ustack_abort(&thread[0]), 0);
	assert_int_equal(ustack_abort(&thread[1]), 0);
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

/* ---- s_wake ---- */

static int count_wake(struct usched *s, struct ustack *u)
{
	assert_ptr_equal(s, ustack_sched(u));
	return (int)++steps;
}

TEST(wake_is_the_scheduler_s)
{
	setup(0, 1, once);
	assert_int_equal(ustack_wake(&thread[0]), -ENOTSUP);
	plain.p_sched.s_calls.s_wake = count_wake;
	assert_int_equal(ustack_wake(&thread[0]), 1);
	assert_int_equal(ustack_wake(&thread[0]), 2);
	run();
	mini_fini(&plain);
}

/* ---- Memory of stacks ---- */

static size_t ranges;

static int overwrite(void *low, size_t size, void *one_only)
{
	TEST_TRUE((uintptr_t)low > (uintptr_t)__builtin_frame_address(0)
		  || (uintptr_t)low + size < (uintptr_t)__builtin_frame_address(0));
	if (!test_is_sanitized() && !test_on_valgrind())
		memset(low, 0x77, size);
	ranges++;
	return !one_only;
}

/* Between the blocks of five threads: none loses a byte of its frames. */
static void overwrite_unused(void *number)
{
	volatile char locals[3000];
	const struct usched *s = &plain.p_sched;
	bool lends = thread[0].u_stack != &s->s_native;

	for (size_t i = 0; i < sizeof locals; i++)
		locals[i] = (char)(uintptr_t)number;
	for (int round = 0; round < 5; round++) {
		size_t all, at = 0, n = 0;

		ranges = 0;
		TEST_EQUAL(usched__unused(s, 0, overwrite, NULL), 0);
		all = ranges;
		TEST_EQUAL(all, lends ? plain.p_stacks - 1 : 0);
		do {
			at = usched__unused(s, at, overwrite, &plain);
			n++;
		} while (at > 0);
		TEST_EQUAL(ranges, 2 * all);
		TEST_TRUE(n == all || n == all + 1);
		TEST_EQUAL(block_below(1000, ustack_block), 0);
	}
	for (size_t i = 0; i < sizeof locals; i++)
		TEST_EQUAL(locals[i], (char)(uintptr_t)number);
}

TEST(unused_has_no_frames)
{
	run_five(overwrite_unused);
}

int main(void)
{
	return test_run_all();
}
