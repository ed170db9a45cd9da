/* SPDX-License-Identifier: MIT */
/*
 * test_evict.c: images for eviction: R4 of usched.c, what is reserved, which images are
 * given, refused or exchanged, and how depths are counted.
 */
#include <alloca.h>

#include "../help/plain.h"

#include "../../src/core/direction.h"

/* ---- R4 ---- */

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
	TEST_EQUAL(mini_stats(&plain).st_images, 0);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_reserve(SIZE_MAX), -ENOMEM);
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = true;               /* it has an image by now */
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = false;
}

TEST(r4_failure_changes_nothing)
{
	rounds = 3;
	setup(0, 1, block_without_memory);
	mini_start(&plain, &thread[1], blocker, NULL);
	run();
	assert_int_equal(nexts_asked, 0);
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

static void reserve_then_block(void *unused)
{
	(void)unused;
	for (size_t room = 64; room < PLAIN_STACK / 2; room *= 2) {
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(0), 0);
		plain.p_no_memory = true;
		TEST_EQUAL(ustack_block(), 0);
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(0), 0);
		plain.p_no_memory = true;
		mini_push(&plain, ustack_self());
		plain.p_head++;                 /* the place of the other thread */
		TEST_EQUAL(ustack_switch(&thread[1]), 0);
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_reserve(room + 256), 0);
		plain.p_no_memory = true;
		TEST_EQUAL(block_deep(room), 0);
	}
	plain.p_no_memory = false;
}

TEST(r4_reserved_block_cannot_fail)
{
	rounds = 200;
	setup(0, 0, NULL);
	mini_start(&plain, &thread[1], blocker, NULL);  /* gets its image first */
	mini_start(&plain, &thread[0], reserve_then_block, NULL);
	run();
	assert_int_equal(plain.p_dones, 2);
	mini_fini(&plain);
}

static void reserve_again(void *unused)
{
	const void *image;

	(void)unused;
	TEST_EQUAL(ustack_reserve(0), 0);
	image = usched__image(ustack_self());
	TEST_EQUAL(ustack_reserve(0), 0);
	TEST_EQUAL(usched__image(ustack_self()) != image, test_is_stressed());
}

TEST(r4_an_image_that_is_reserved_stays)
{
	setup(0, 1, reserve_again);
	run();
	mini_fini(&plain);
}

/*
 * A reserved image has a margin, as the frames of compilers differ; also at depths near
 * that of an earlier block, where there may be nothing to do.
 */
enum { DEPTH = 8192, SPARE = 40 };      /* bytes; frames take some of the margin */

static __attribute__((noinline)) void reserve_at(size_t frame, size_t room)
{
	const struct ustack *u = ustack_self();
	volatile char *deep = alloca(frame);

	deep[0] = deep[frame - 1] = 1;
	TEST_EQUAL(ustack_reserve(room), 0);
	plain.p_no_memory = true;
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = false;
	TEST_TRUE(stack_depth(u->u_stack->k_bottom, u->u_top) + room + SPARE
		  <= u->u_image.i_size);
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

TEST(r4_what_is_reserved_has_a_margin)
{
	setup(0, 1, reserve_around);
	run();
	mini_fini(&plain);
}

/* ---- Images ---- */

TEST(never_blocks_no_image)
{
	setup(0, 10, once);
	run();
	assert_int_equal(steps, 10);
	assert_int_equal(plain.p_allocs, 0);
	assert_int_equal(plain.p_frees, 0);
	assert_int_equal(mini_stats(&plain).st_bytes, 0);
	mini_fini(&plain);
}

/* An image that is smaller than asked for is refused. */
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
	TEST_EQUAL(mini_stats(&plain).st_images, 0);
}

TEST(small_images_are_refused)
{
	setup(0, 1, block_without_image);
	plain.p_sched.s_calls.s_alloc = alloc_too_small;
	run();
	assert_int_equal(plain.p_frees, 1);
	mini_fini(&plain);
}

/* Records with room for frames, and a canary behind. */
static struct wide {
	struct ustack w_thread;
	unsigned char w_more[8192];
	unsigned char w_canary[MINI_CANARIES];
} wide[2];

enum { WIDE_ROOM = offsetof(struct wide, w_canary) - offsetof(struct ustack, u_image) };

/* Frames that fit the record need no other image. */
TEST(first_image_is_used)
{
	rounds = 10;
	setup(0, 0, NULL);
	plain.p_sched.s_room = WIDE_ROOM;
	for (int i = 0; i < 2; i++) {
		memset(wide[i].w_canary, MINI_CANARY, MINI_CANARIES);
		mini_start(&plain, &wide[i].w_thread, blocker, NULL);
	}
	run();
	if (!test_is_stressed())
		assert_int_equal(plain.p_allocs, 0);
	assert_true(mini_stats(&plain).st_loads > 0);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < MINI_CANARIES; k++)
			assert_int_equal(wide[i].w_canary[k], MINI_CANARY);
	mini_fini(&plain);
}

/* Deeper ones get another, and go back when they are shallow. */
static unsigned outside;

static void deep_and_back(void *unused)
{
	const struct ustack *self = ustack_self();

	(void)unused;
	TEST_EQUAL(ustack_block(), 0);
	outside += self->u_outside;
	TEST_EQUAL(block_deep(16 * WIDE_ROOM), 0);
	outside += 2 * self->u_outside;
	TEST_EQUAL(ustack_block(), 0);          /* evicted there */
	outside += 4 * self->u_outside;
	TEST_EQUAL(ustack_block(), 0);
}

TEST(first_image_is_used_again)
{
	rounds = 10;
	outside = 0;
	setup(0, 0, NULL);
	plain.p_sched.s_room = WIDE_ROOM;
	mini_start(&plain, &wide[0].w_thread, deep_and_back, NULL);
	mini_start(&plain, &wide[1].w_thread, blocker, NULL);
	run();
	assert_int_equal(outside, test_is_stressed() ? 7 : 2);
	mini_fini(&plain);
}

static __attribute__((noinline)) void block_full(size_t size)
{
	volatile unsigned char frame[size];

	for (size_t i = 0; i < size; i++)
		frame[i] = (unsigned char)(i * 7 + i / 256);
	TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(frame[i], (unsigned char)(i * 7 + i / 256));
}

/* With an image from s_alloc, the record keeps a part of the frames, and no byte more. */
enum { BELOW = 4096, ABOVE = 256, UNIT = 8 };   /* bytes around WIDE_ROOM */

static void around_the_room(void *unused)
{
	const struct ustack *self = ustack_self();
	const size_t near = usched__near_room(&plain.p_sched);

	(void)unused;
	for (size_t size = WIDE_ROOM - BELOW; size < WIDE_ROOM + ABOVE; size += UNIT) {
		block_full(size);
		if (self->u_outside && near > 0)
			TEST_TRUE(self->u_image.i_size < near);
		outside += self->u_outside;
	}
	block_full(WIDE_ROOM / 2);              /* all in the record */
	TEST_EQUAL(self->u_outside, 1);
}

TEST(record_keeps_a_part)
{
	rounds = 1000;
	outside = 0;
	setup(0, 0, NULL);
	plain.p_sched.s_room = WIDE_ROOM;
	memset(wide[0].w_canary, MINI_CANARY, MINI_CANARIES);
	mini_start(&plain, &wide[0].w_thread, around_the_room, NULL);
	mini_start(&plain, &wide[1].w_thread, blocker, NULL);
	run();
	assert_int_equal(plain.p_dones, 2);
	if (!test_is_stressed())
		assert_in_range(outside, 1, (BELOW + ABOVE) / UNIT - 1);
	for (int k = 0; k < MINI_CANARIES; k++)
		assert_int_equal(wide[0].w_canary[k], MINI_CANARY);
	mini_fini(&plain);
}

static size_t size_deep, size_shallow;

static void deep_then_shallow(void *unused)
{
	(void)unused;
	TEST_EQUAL(block_deep(16384), 0);
	size_deep = ustack_self()->u_image.i_size;
	plain.p_no_memory = true;               /* then the old image stays */
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_self()->u_image.i_size, size_deep);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_block(), 0);
	size_shallow = ustack_self()->u_image.i_size;
}

/* Large images are exchanged when another thread evicts. */
TEST(large_images_are_exchanged)
{
	rounds = 10;
	setup(1, 1, deep_then_shallow);
	mini_start(&plain, &thread[1], blocker, NULL);
	run();
	assert_true(size_deep >= 16384);
	assert_true(size_shallow < size_deep / 4);
	mini_fini(&plain);
}

TEST(deepest_is_counted)
{
	struct usched_stats s;

	setup(0, 1, deep_then_shallow);
	run();
	s = mini_stats(&plain);
	assert_true(s.st_deepest >= 16384 && s.st_deepest < 16384 + 4096);
	assert_int_equal(s.st_launches, 1);
	mini_fini(&plain);
}

/* A thread that never outgrew its image is counted when it is evicted. */
TEST(deepest_is_counted_of_the_evicted)
{
	struct usched_stats s;

	rounds = 1;
	setup(1, 0, NULL);
	plain.p_sched.s_room = WIDE_ROOM;
	mini_start(&plain, &wide[0].w_thread, blocker, NULL);
	mini_start(&plain, &wide[1].w_thread, once, NULL);
	run();
	s = mini_stats(&plain);
	assert_true(s.st_deepest > 0);
	assert_int_equal(s.st_evictions, 1);
	assert_int_equal(s.st_bytes, 2 * s.st_deepest);
	mini_fini(&plain);
}

int main(void)
{
	return test_run_all();
}
