/* SPDX-License-Identifier: MIT */
#include "plain.h"

struct mini plain;
struct ustack thread[PLAIN_THREADS];
unsigned rounds, steps;

void blocker(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		TEST_EQUAL(ustack_block(), 0);
	}
}

void stopper(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < rounds; i++) {
		steps++;
		mini_self()->p_stop = true;
		TEST_EQUAL(ustack_block(), 0);
	}
}

void once(void *unused)
{
	(void)unused;
	steps++;
}

void setup(unsigned stacks, unsigned n, void (*func)(void *))
{
	test_timeout(20);
	steps = 0;
	mini_init(&plain, stacks, PLAIN_STACK);
	for (unsigned i = 0; i < n; i++)
		mini_start(&plain, &thread[i], func, NULL);
}

__attribute__((noinline)) void run(void)
{
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

int hand_off(void)
{
	mini_push(&plain, ustack_self());
	return ustack_switch(plain.p_ring[plain.p_head++ % MINI_RING]);
}

int resume_self(void)
{
	int rc;

	plain.p_self = true;
	rc = ustack_block();
	plain.p_self = false;
	return rc;
}

int (*const ways[WAYS])(void) = { ustack_block, hand_off, resume_self };

__attribute__((noinline)) int block_below(size_t size, int (*way)(void))
{
	volatile char frame[size];
	int rc;

	frame[0] = frame[size - 1] = 1;
	rc = way();
	TEST_TRUE(frame[0] == 1 && frame[size - 1] == 1);
	return rc;
}

int block_deep(size_t size)
{
	return block_below(size, ustack_block);
}

const unsigned lent[LENTS] = { 0, 1, 2, FIVE };

void run_five(void (*func)(void *))
{
	test_timeout(60);
	for (size_t i = 0; i < LENTS; i++) {
		mini_init(&plain, lent[i], FIVE_STACK);
		for (uintptr_t k = 0; k < FIVE; k++)
			mini_start(&plain, &thread[k], func, (void *)(k + 1));
		run();
		TEST_EQUAL(plain.p_dones, FIVE);
		mini_fini(&plain);
	}
}

int (*volatile block)(void);

void run_five_by_each(void (*func)(void *))
{
	block = ustack_block;
	run_five(func);
	block = hand_off;
	run_five(func);
}
