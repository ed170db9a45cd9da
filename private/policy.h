/* SPDX-License-Identifier: MIT */
/*
 * policy.h: where threads are placed, and how many move to which processor. The numbers
 * come from the caller, so bench/simulate.c runs these functions for more processors than
 * a machine has. doc/moving.md has the protocol.
 *
 * Work is what a processor has to do now: the threads in its run queue, and the one that
 * it runs. Threads that wait do not count.
 */
#ifndef USCHED_POLICY_H
#define USCHED_POLICY_H

#include <stddef.h>
#include <stdint.h>

enum {
	POLICY_RUN    = 32,     /* starts in a row: enough to share a cache */
	POLICY_LOOKS  = 16,     /* processors that one that asks looks at */
	POLICY_PLACES = 16,     /* threads that an idle processor has room for */
	POLICY_AGAIN  = 10000,  /* ns between searches of one that does not sleep yet */
};

/*
 * The processor of the next run of starts, of two in turn with this work: 0 or 1. Two are
 * enough: with one the longest queue of n processors grows as log n, with two as log log
 * n.
 */
static inline unsigned policy_place(uint32_t work, uint32_t other)
{
	return other < work;
}

/*
 * The starts of a run on a processor with so many threads, waiting ones as well. Threads
 * that are started in a row often work together, which costs least on one processor. With
 * a quarter of these a processor gets little more than its share; beyond POLICY_RUN it
 * would get too much to do at a time.
 */
static inline uint32_t policy_run(uint32_t threads)
{
	uint32_t run = threads / 4;

	return run < 1 ? 1 : run > POLICY_RUN ? POLICY_RUN : run;
}

/* The processors that one of `all' looks at to find one to ask. */
static inline size_t policy_looks(size_t all)
{
	return all - 1 < POLICY_LOOKS ? all - 1 : POLICY_LOOKS;
}

/*
 * The i-th of these, from 0; `turn' counts the searches of processor `self'. Others that
 * search at the same time begin elsewhere.
 */
static inline size_t policy_look(size_t self, size_t all, size_t turn, size_t i)
{
	return (self + 1 + (turn * POLICY_LOOKS + i) % (all - 1)) % all;
}

/* Whether to ask a processor with `ready' threads in its queue, not one with `best'. */
static inline int policy_asks(uint32_t ready, uint32_t best)
{
	return ready > best;
}

/*
 * The threads that a processor with `ready' ones in its queue, and none running, gives to
 * one of `asking' processors that have asked. Each gets the same, and one thread stays.
 */
static inline uint32_t policy_share(uint32_t ready, uint32_t asking)
{
	uint32_t share;

	if (ready < 2 || asking == 0)
		return 0;
	share = ready / (asking + 1);
	return share < 1 ? 1 : share > POLICY_PLACES ? POLICY_PLACES : share;
}

/*
 * Whether a thread that never ran may move to a processor with `theirs' threads, from one
 * with `ours'; waiting ones count here. It cannot come back once it has run. Without this
 * bound the connections of a server gather where it was calm when they came: simulated,
 * one of 16 processors got 1.46 times its share, for good.
 */
static inline int policy_may_move(uint32_t ours, uint32_t theirs)
{
	return theirs < ours;
}

#endif /* USCHED_POLICY_H */
