/* SPDX-License-Identifier: MIT */
/*
 * A processor looks for the unused part of its stacks, of which some have left with
 * threads. On another processor these make coroutines, which is noted in the head of the
 * stack. There is no bug in this one.
 */
#include <sched.h>

#include "../../uco.h"
#include "../../uproc.h"
#include "../../usync.h"
#include "plant.h"

enum { THREADS = 8, MOVES = 60, TRIES = 20000, WALKS = 300, NAP = 100000 };

static struct uprocs *rr;

static uint64_t count_moves(void)
{
	struct usched_stats stats;

	uprocs_stats(rr, &stats);
	return stats.st_moves;
}

static void *return_at_once(void *arg, void *value)
{
	(void)arg;
	return value;
}

static void end_at_once(void *unused)
{
	(void)unused;
}

static void make_coroutine(void)
{
	struct uco *co;

	check(uco_create(return_at_once, NULL, &co));
	check(uco_close(co));
}

/* Threads move while one processor is idle; those that have made a coroutine stay. */
static __attribute__((noinline)) void go(void *arg)
{
	for (int n = 0; n < TRIES && count_moves() < MOVES; n++) {
		block();
		if (n % 4 == 0)
			check(usync_sleep_until(usync_after(NAP)));
	}
	for (int n = 0; n < WALKS; n++) {
		if (arg)                        /* the walk follows launches */
			check(rr_start(rr, end_at_once, NULL, NULL));
		make_coroutine();
		block();
		sched_yield();
	}
}

#if defined __SANITIZE_ADDRESS__ || USCHED_HAS(address_sanitizer)
#define BARE __attribute__((noinline, no_sanitize_address))
#else
#define BARE __attribute__((noinline))
#endif

static BARE void clear(int depth)
{
	volatile char below[512];

	for (size_t i = 0; i < sizeof below; i++)
		below[i] = 0;
	if (depth > 0)
		clear(depth - 1);
}

/*
 * As the thread begins, functions of sanitizers leave addresses on its stack. In holes of
 * its frames these would keep it where it is. Here are none, and below all is cleared.
 */
static BARE void thread(void *arg)
{
	volatile char above[512];

	for (size_t i = 0; i < sizeof above; i++)
		above[i] = 0;
	clear(3);
	go(arg);
	above[0] = 1;
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = configure(argc, argv);
	struct ustack *threads[THREADS];

	conf.c_processors = 2;
	check(rr_create(&conf, &rr));
	rr->r_unused = 1;
	for (size_t i = 0; i < THREADS; i++)
		check(rr_start(rr, thread, i == 0 ? &conf : NULL, &threads[i]));
	for (size_t i = 0; i < THREADS; i++)
		check(ustack_join(threads[i], NULL, USCHED_NEVER));
	EXPECT(conf.c_stacks || count_moves() >= MOVES);
	check(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}
