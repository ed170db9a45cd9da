/* SPDX-License-Identifier: MIT */
/*
 * test_frames.c: the owner of an address, over one stack, several, and the native one;
 * the address where a thread blocks.
 *
 * The data is from alloca(), of an unknown size: sanitizers may put locals elsewhere.
 */
#include <alloca.h>
#include <stdio.h>

#include "../help/mini.h"
#include "../help/where.h"

#include "../../src/core/direction.h"
#include "../../rr.h"
#include "../../src/base/check.h"
#include "../../src/base/where.h"

enum {
	STACK   = 64 << 10,
	SIZE    = 256,
	DEEP    = 8192,
	RUBBISH = 0xdb,         /* USCHED_STRESS fills stacks with it */
};

static struct mini plain;
static struct ustack thread[4];

static size_t unknown(size_t size)
{
	volatile size_t n = size;

	return n;
}

static void run(void)
{
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

/* With 0, 1 and 3 added stacks, as far as there can be any. */
static void each_count(void (*test)(unsigned stacks))
{
	static const unsigned counts[] = { 0, 1, 3 };

	for (size_t i = 0; i < 3 && (i == 0 || test_has_stacks()); i++) {
		mini_init(&plain, counts[i], STACK);
		test(counts[i]);
		mini_fini(&plain);
	}
}

/* ---- Owners ---- */

static char *deep, *shallow;

/* Not inlined, so the frame is below the frames of all callers. */
__attribute__((noinline)) static enum usched_place onstack(const void *address,
							   struct ustack **whose)
{
	return usched__onstack(address, whose, __builtin_frame_address(0));
}

static void expect(const void *address, enum usched_place place,
		   const struct ustack *owner)
{
	struct ustack *found = &thread[3];

	TEST_EQUAL(onstack(address, &found), place);
	TEST_TRUE(found == owner);
	TEST_EQUAL(onstack(address, NULL), place);
}

/* The byte of a stack with n between it and the bottom. */
static char *byte(const struct usched_stack *k, size_t n)
{
	return stack_deeper(k->k_bottom, n + !STACK_GROWS_UP);
}

static __attribute__((noinline)) void block_deep(void)
{
	char *block = alloca(unknown(DEEP));

	memset(block, 1, DEEP);
	deep = stack_last(block, DEEP, 1);
	expect(deep, USCHED_MINE, &thread[0]);
	expect(stack_first(block, DEEP, 1), USCHED_MINE, &thread[0]);
	TEST_EQUAL(ustack_block(), 0);
	expect(deep, USCHED_MINE, &thread[0]);
}

static void be_deep_then_shallow(void *unused)
{
	const struct usched_stack *k = ustack_self()->u_stack;

	(void)unused;
	shallow = alloca(unknown(SIZE));
	memset(shallow, 1, SIZE);
	expect(shallow, USCHED_MINE, &thread[0]);
	expect(byte(k, 0), USCHED_MINE, &thread[0]);
	expect(byte(k, (size_t)-1), USCHED_ELSEWHERE, NULL);
	block_deep();
	expect(deep, USCHED_STALE, NULL);
	TEST_EQUAL(ustack_block(), 0);
}

/* With several stacks it is on another; with USCHED_STRESS it was evicted. */
static void expect_shallow(bool two, enum usched_place place, const struct ustack *owner)
{
	if (!two)
		expect(shallow, USCHED_MINE, &thread[1]);
	else if (test_is_stressed())
		expect(shallow, USCHED_STALE, NULL);
	else
		expect(shallow, place, owner);
}

static void look_at_other(void *stacks)
{
	bool both = *(const unsigned *)stacks > 1 && !test_is_stressed();
	char *middle = alloca(unknown(DEEP / 2));       /* to be deeper than `shallow' */
	void *data = malloc(SIZE);

	memset(middle, 1, DEEP / 2);
	expect(middle, USCHED_MINE, &thread[1]);
	expect(deep, both ? USCHED_THEIRS : USCHED_STALE, both ? &thread[0] : NULL);
	expect_shallow(*(const unsigned *)stacks > 1, USCHED_THEIRS, &thread[0]);
	if (*(const unsigned *)stacks > 1 && test_is_stressed())
		TEST_EQUAL((unsigned char)deep[0], RUBBISH);
	TEST_EQUAL(ustack_block(), 0);
	expect(deep, USCHED_STALE, NULL);             /* it has returned from there */
	TEST_EQUAL(ustack_block(), 0);
	TEST_TRUE(!ustack_func(&thread[0]));
	expect(deep, USCHED_STALE, NULL);
	expect_shallow(*(const unsigned *)stacks > 1, USCHED_STALE, NULL);
	expect(&plain, USCHED_ELSEWHERE, NULL);
	expect(data, USCHED_ELSEWHERE, NULL);
	expect(NULL, USCHED_ELSEWHERE, NULL);
	expect((void *)UINTPTR_MAX, USCHED_ELSEWHERE, NULL);
	if (*(const unsigned *)stacks == 0)             /* deeper than any thread was */
		expect(stack_deeper(middle, 1 << 20), USCHED_ELSEWHERE, NULL);
	expect(stacks, USCHED_ELSEWHERE, NULL);         /* above usched_run() */
	free(data);
}

static void owners(unsigned stacks)
{
	mini_start(&plain, &thread[0], be_deep_then_shallow, NULL);
	mini_start(&plain, &thread[1], look_at_other, &stacks);
	run();
	assert_int_equal(plain.p_dones, 2);
	expect(deep, USCHED_ELSEWHERE, NULL);           /* nothing runs here */
}

TEST_CASE(test_owners, each_count, owners)

/* Of another processor only the extent of its stacks is known. */
static char *_Atomic remote;

static void show(void *thread_of_other)
{
	char *local = alloca(unknown(SIZE));

	remote = local;
	TEST_EQUAL(ustack_wait(), 0);
	(void)thread_of_other;
}

static void see(void *unused)
{
	struct ustack *owner = &thread[0];

	(void)unused;
	while (!remote)
		;
	TEST_EQUAL(onstack(remote, &owner), USCHED_REMOTE);
	TEST_TRUE(!owner);
	TEST_EQUAL(onstack(&plain, NULL), USCHED_ELSEWHERE);
	TEST_EQUAL(onstack(ustack_self()->u_stack, NULL), USCHED_ELSEWHERE);
}

TEST(test_remote)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	struct ustack *shows, *sees;
	struct uprocs *rr = NULL;

	if (!test_has_stacks())
		skip();                         /* native stacks have no known end */
	assert_int_equal(rr_create(&conf, &rr), 0);
	assert_int_equal(rr_start(rr, show, NULL, &shows), 0);
	assert_int_equal(rr_start(rr, see, NULL, &sees), 0);
	assert_int_equal(ustack_join(sees, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_wake(shows), 0);
	assert_int_equal(ustack_join(shows, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

/* ---- Where ---- */

IN(block_here) static void block_here(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_switch(&thread[1]), 0);
	TEST_TRUE(ustack_self());
}
EXTENT(block_here)

static void check_where(void)
{
	const void *where = usched__where(&thread[0]);

	if (test_has_stacks()) {
		TEST_TRUE(where);
		TEST_TRUE(IS_IN(block_here, where) || !test_tail_calls());
	} else {
		TEST_TRUE(!where);
	}
}

static void look_where(void *unused)
{
	(void)unused;
	TEST_TRUE(!usched__where(&thread[2]));           /* new */
	check_where();
	TEST_EQUAL(ustack_block(), 0);
	check_where();                                  /* it is in ustack_switch() now */
	TEST_EQUAL(ustack_switch(&thread[0]), 0);
}

static void where(unsigned stacks)
{
	(void)stacks;
	mini_start(&plain, &thread[0], block_here, NULL);
	mini_start(&plain, &thread[1], look_where, NULL);
	TEST_EQUAL(ustack_init(&plain.p_sched, &thread[2], look_where, NULL), 0);
	run();
	assert_int_equal(plain.p_dones, 2);
	assert_null(usched__where(&thread[0]));
}

TEST_CASE(test_where, each_count, where)

int main(void)
{
	return test_run_all();
}
