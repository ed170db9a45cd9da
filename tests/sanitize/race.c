/* SPDX-License-Identifier: MIT */
/*
 * Two threads write to the same number, in no order: on two processors
 * that is a race. On one they take turns. Others are blocked meanwhile, deeper than
 * these.
 *
 * thread: data race in touch
 */
#include <sched.h>

#include "plant.h"

static int number;

/*
 * Two threads go on when both have come. Relaxed, it orders nothing.
 * Those that go wrong, on two processors, do not block here: dispatchers would say so.
 */
static void meet(void)
{
	static unsigned come;
	unsigned both = (__atomic_fetch_add(&come, 1, __ATOMIC_RELAXED) | 1) + 1;

	while (__atomic_load_n(&come, __ATOMIC_RELAXED) < both)
		if (wrong)
			sched_yield();
		else
			block();
}

static __attribute__((noinline)) void touch(int by)
{
	number += by;                           /* HERE */
}

static void thread(void *arg)
{
	for (int n = 0; n < ROUNDS; n++) {
		if (n % 4 == 0)
			block();
		meet();
		touch(*(const int *)arg);
	}
}

int main(int argc, char **argv)
{
	static const int by[] = { 1, 100 };
	struct uprocs_conf conf = configure(argc, argv);
	struct ustack *writer[2], *beside[2];
	struct uprocs *rr;

	conf.c_processors = wrong ? 2 : 1;
	check(rr_create(&conf, &rr));
	for (unsigned i = 0; i < 2; i++) {
		/* On one processor, a thread in meet() would wait for ever. */
		struct ustack_how how = { .h_processor = USCHED_ON(wrong ? i : 0) };

		check(rr_start_with(rr, &how, thread, (void *)(uintptr_t)&by[i],
				    &writer[i]));
	}
	for (int i = 0; i < 2; i++)
		check(rr_start(rr, bystander, NULL, &beside[i]));
	for (int i = 0; i < 2; i++) {
		check(ustack_join(writer[i], NULL, USCHED_NEVER));
		check(ustack_join(beside[i], NULL, USCHED_NEVER));
	}
	check(uprocs_destroy(rr, USCHED_NEVER));
	EXPECT(wrong || number == ROUNDS * 101);
	return 0;
}
