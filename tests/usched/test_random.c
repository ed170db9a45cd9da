/* SPDX-License-Identifier: MIT */
/*
 * test_random.c: seeded random programs over the dispatcher alone. Threads
 * recurse with frames full of canaries, block, hand over, reserve, start and abort
 * each other, and end, on a random number of stacks, with an allocator that
 * fails now and then and a scheduler that takes anybody. The seed is printed
 * when something is wrong, and USCHED_TEST_SEED sets the first.
 */
#include <stdio.h>

#include "../help/mini.h"

enum {
	THREADS  = 64,
	STACK    = 128 << 10,
	DEPTH    = 48 << 10,    /* bytes of frames of one thread, at most */
	FRAME    = 4 << 10,     /* bytes of one, at most */
	STEPS    = 4000,        /* in one program */
	PROGRAMS = 400,
};

static struct mini plain;
static uint32_t seed;
static size_t steps;

/* Off all stacks, for they are looked at by others. */
static struct {
	struct ustack u;
	bool          alive;
	bool          runnable;         /* blocked or new */
} slot[THREADS];

static void live(void *arg);

static uint32_t any(uint32_t n)
{
	return test_random(&seed) % n;
}

static size_t number(const struct ustack *u)
{
	for (size_t i = 0; i < THREADS; i++)
		if (u == &slot[i].u)
			return i;
	return THREADS;
}

/* A runnable thread, from a random place on; or NULL. */
static struct ustack *anybody(void)
{
	size_t first = any(THREADS);

	for (size_t i = 0; i < THREADS; i++) {
		size_t k = (first + i) % THREADS;

		if (slot[k].alive && slot[k].runnable)
			return &slot[k].u;
	}
	return NULL;
}

static struct ustack *next(struct usched *s)
{
	struct ustack *self = ustack_self(), *u;

	(void)s;
	if (self)
		slot[number(self)].runnable = true;
	u = any(50) ? anybody() : NULL;         /* sometimes to usched_run() */
	if (u)
		slot[number(u)].runnable = false;
	return u;
}

static void *alloc(struct usched *s, struct ustack *u, size_t *size)
{
	plain.p_no_memory = any(8) == 0;
	*size += any(512);
	return mini_alloc(s, u, size);
}

static void done(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	TEST_TRUE(slot[number(u)].alive);
	slot[number(u)].alive = false;
}

static void start_one(void)
{
	for (size_t i = 0; i < THREADS; i++) {
		if (slot[i].alive)
			continue;
		plain.p_no_memory = false;
		TEST_EQUAL(ustack_init(&plain.p_sched, &slot[i].u, live, NULL), 0);
		slot[i].alive = slot[i].runnable = true;
		return;
	}
}

static void abort_one(void)
{
	struct ustack *u = anybody();

	if (u)
		TEST_EQUAL(ustack_abort(u), 0);
}

static void hand_over(void)
{
	struct ustack *self = ustack_self(), *u = anybody();
	int rc;

	if (!u)
		return;
	slot[number(self)].runnable = true;
	slot[number(u)].runnable = false;
	rc = ustack_switch(u);
	if (rc) {
		TEST_EQUAL(rc, -ENOMEM);
		slot[number(u)].runnable = true;
		slot[number(self)].runnable = false;
	}
}

static void reserve_and_block(void)
{
	if (ustack_reserve(any(2048)) == 0)
		TEST_EQUAL(ustack_block(), 0);
}

static void act(size_t depth)
{
	struct usched_stats s = mini_stats(&plain);
	int rc;

	TEST_TRUE(s.st_evictions <= s.st_switches);             /* R7 */
	TEST_TRUE(s.st_loads <= s.st_switches - s.st_launches);
	TEST_TRUE(s.st_deepest <= depth + 4096 || depth < DEPTH);
	steps++;
	switch (any(12)) {
	case 0:
		start_one();
		break;
	case 1:
		if (any(4) == 0)
			abort_one();
		break;
	case 2:
		hand_over();
		break;
	case 3:
		reserve_and_block();
		break;
	default:
		rc = ustack_block();
		TEST_TRUE(rc == 0 || rc == -ENOMEM);
	}
}

static __attribute__((noinline)) void recurse(size_t depth, uint32_t own)
{
	size_t size = 1 + any(any(4) ? 128 : FRAME);
	volatile unsigned char frame[size];
	struct ustack *self = ustack_self();
	uint32_t s = own;

	for (size_t i = 0; i < size; i++)
		frame[i] = (unsigned char)test_random(&s);
	while (steps < STEPS && any(6)) {
		act(depth);
		if (any(3) == 0 && depth + size + FRAME < DEPTH)
			recurse(depth + size + 256, own + 1);
	}
	TEST_TRUE(self == ustack_self());
	s = own;
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(frame[i], (unsigned char)test_random(&s));
}

static void live(void *arg)
{
	(void)arg;
	recurse(0, 1 + any(1000000));
}

static __attribute__((noinline)) void run(void)
{
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

static void one_program(uint32_t first)
{
	seed = first;
	steps = 0;
	mini_init(&plain, any(3) ? any(8) : 0, STACK);
	plain.p_sched.s_calls.s_next = next;
	plain.p_sched.s_calls.s_alloc = alloc;
	plain.p_sched.s_calls.s_done = done;
	while (steps < STEPS) {
		start_one();
		run();
		if (any(4) == 0)
			abort_one();            /* between two runs */
	}
	for (size_t i = 0; i < THREADS; i++)
		if (slot[i].alive)
			TEST_EQUAL(ustack_abort(&slot[i].u), 0);
	mini_fini(&plain);
}

TEST(random_programs)
{
	const char *text = getenv("USCHED_TEST_SEED");
	uint32_t first = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
	size_t n = test_scale(PROGRAMS, 3);

	for (uint32_t i = 0; i < n; i++) {
		test_seed = first + i;
		one_program(first + i);
	}
}

int main(void)
{
	return test_run_all();
}
