/* SPDX-License-Identifier: MIT */
/*
 * test_visit.c: a visit of a blocked thread finds the frames that the thread found itself
 * before it blocked: at random depths, in place and evicted, over the native stack, one
 * and several; and leaves all as it was.
 */
#define USCHED_INLINE_SWITCH
#include <alloca.h>
#include <stdio.h>

#include "../help/calls.h"
#include "../help/mini.h"

#include "../../arch/arch.h"

enum {
	THREADS = 8,
	ROUNDS  = 30,
	DEPTH   = 12,                   /* calls, at most */
	LOCAL   = 700,                  /* bytes of a call's frame, at most */
	STACK   = 160 << 10,
};

static struct mini plain;
static uint32_t seed = 1;

/* A thread, and the calls that it was in when it blocked. */
static struct one {
	struct ustack o_thread;         /* a mini's record ends with it */
	struct calls  o_calls;
	int           o_error;          /* errno, when it blocked */
	bool          o_wait;           /* blocks in the statement of uswitch.h */
	bool          o_end;
} one[THREADS];

/* What a visit found. On the heap: the visitor's frames move. */
static struct seen {
	struct one  *s_one;
	struct calls s_calls;
	unsigned     s_visits;
} *seen;

IN(block_there) static void block_there(void *arg)
{
	struct one *o = arg;

	test_take_calls(&o->o_calls);
	errno = o->o_error = (int)(o - one) + 1;
	if (o->o_wait)
		TEST_EQUAL(ustack_wait(), 0);
	else
		TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(errno, o->o_error);
}
EXTENT(block_there)

static void go_down(void *arg)
{
	struct one *o = arg;

	while (!o->o_end) {
		o->o_wait = test_random(&seed) % 2;
		test_descend(&seed, test_random(&seed) % DEPTH, LOCAL, block_there, o);
	}
}

static void look(void *unused)
{
	(void)unused;
	TEST_TRUE(ustack_self() == &seen->s_one->o_thread);
	seen->s_visits++;
	errno = 1000;
	test_take_calls(&seen->s_calls);
}

static void compare(const struct one *o)
{
	test_same_calls(&o->o_calls, &seen->s_calls, __start_in_block_there,
			__stop_in_block_there);
}

static void visit(struct one *o)
{
	unsigned calls = seen->s_visits;

	seen->s_one = o;
	errno = 77;
	TEST_EQUAL(usched__visit(&o->o_thread, look, NULL), 0);
	TEST_EQUAL(errno, 77);
	TEST_EQUAL(seen->s_visits, calls + 1);
	compare(o);
}

static void visit_all(void *arg)
{
	char local[100];

	(void)arg;
	memset(local, 'v', sizeof local);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < THREADS; i++)
			visit(&one[test_random(&seed) % THREADS]);
		visit(&one[0]);
		visit(&one[0]);                 /* perhaps in place now */
		TEST_EQUAL(ustack_block(), 0);
	}
	for (int i = 0; i < THREADS; i++)
		one[i].o_end = true;
	for (size_t i = 0; i < sizeof local; i++)
		TEST_EQUAL(local[i], 'v');
}

static void frames(unsigned stacks)
{
	struct ustack visitor;

	mini_init(&plain, stacks, STACK);
	memset(one, 0, sizeof one);
	for (int i = 0; i < THREADS; i++)
		mini_start(&plain, &one[i].o_thread, go_down, &one[i]);
	mini_start(&plain, &visitor, visit_all, NULL);
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
	assert_int_equal(plain.p_dones, THREADS + 1);
	mini_fini(&plain);
}

static void each_count(void (*test)(unsigned stacks))
{
	static const unsigned counts[] = { 0, 1, 3, THREADS + 4 };
	void *first[4];

	backtrace(first, 4);                    /* loads the unwinder, on this stack */
	seen = calloc(1, sizeof *seen);
	for (size_t i = 0; i < 4 && (i == 0 || test_has_stacks()); i++)
		test(counts[i]);
	free(seen);
}

TEST_CASE(test_visit_finds_frames, each_count, frames)

/* ---- Without memory ---- */

static void count_call(void *unused)
{
	(void)unused;
	seen->s_visits++;
}

static void be_shallow(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_block(), 0);
}

/* The visitor has no image for its frames, so it does not block. */
static void run_out(void *unused)
{
	unsigned calls = seen->s_visits;
	int rc;

	(void)unused;
	plain.p_no_memory = true;
	rc = usched__visit(&one[0].o_thread, count_call, NULL);
	plain.p_no_memory = false;
	TEST_TRUE(rc == -ENOMEM || rc == 0);    /* or its frames are in the record */
	TEST_EQUAL(seen->s_visits, calls + (rc == 0));
	TEST_EQUAL(usched__visit(&one[0].o_thread, count_call, NULL), 0);
}

TEST(test_no_memory)
{
	struct ustack visitor;

	seen = calloc(1, sizeof *seen);
	mini_init(&plain, 1, STACK);
	mini_start(&plain, &one[0].o_thread, be_shallow, NULL);
	mini_start(&plain, &visitor, run_out, NULL);
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
	free(seen);
}

int main(void)
{
	return test_run_all();
}
