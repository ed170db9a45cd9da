/* SPDX-License-Identifier: MIT */
/*
 * policy.h: where threads are placed, and how many move to which processor. The numbers
 * and the time come from the caller, so these functions can be simulated for more
 * processors than a machine has: doc/moving.md has results, and the protocol.
 *
 * Work is what a processor has to do now: the threads in its run queue, and the one that
 * it runs. Threads that wait do not count.
 */
#ifndef USCHED_POLICY_H
#define USCHED_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../uproc.h"

enum {
	POLICY_RUN    = 32,     /* starts in a row: enough to share a cache, */
	POLICY_RUNS   = 1024,   /* and at most, where there are very many */
	POLICY_LOOKS  = 16,     /* processors that one that asks looks at */
	POLICY_PLACES = 16,     /* threads that have run, for an idle processor */
	POLICY_AGAIN  = 10000,  /* ns between searches of one that does not sleep yet */
	POLICY_NOTICE = 64,     /* wakes of other processors, of which one draws */
	POLICY_SPAN   = 50000,  /* ns, at least, over which a processor is measured */
	POLICY_HOP    = 500,    /* ns: about what a wake of another processor takes */
	POLICY_LIGHT  = 240,    /* 256ths of a processor: work that fits on one. With
				   more than 256 the stages of a pipeline, of which the
				   slowest keeps the others waiting, would all gather */
	POLICY_GAIN   = 1000000,        /* ns that threads keep busy a processor to which
					   they have moved, if it was not in vain */
	POLICY_HOLD   = 64000000,       /* ns without asking, at most, after that */
};

/*
 * The starts of a run on a processor with so many threads, waiting ones as well. Threads
 * that are started in a row often work together, which costs least on one processor. With
 * a quarter of these a processor gets little more than its share; beyond POLICY_RUN it
 * would get too much to do at a time, unless that is a small part of what it has.
 */
static inline uint32_t policy_run(uint32_t threads)
{
	uint32_t run = threads / 4;

	if (run > POLICY_RUN)
		run = threads / 64 > POLICY_RUN ? threads / 64 : POLICY_RUN;
	return run < 1 ? 1 : run > POLICY_RUNS ? POLICY_RUNS : run;
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
	return share < 1 ? 1 : share;
}

/*
 * How many, if they never ran, from a processor with `ours' threads to one with `theirs';
 * waiting ones count here. On a shared stack they cannot come back once they have run.
 * Without this bound the connections of a server gather where it was calm when they came:
 * simulated, one of 16 processors got 1.46 times its share, for good. They go in a row,
 * for those that were started in a row belong together; and no fewer than that, unless
 * they have `waited' from a look to the next: so threads that begin, and block at once,
 * stay where they are, whatever many are started.
 */
static inline uint32_t policy_new(uint32_t share, uint32_t ours, uint32_t theirs,
				  int waited)
{
	uint32_t even = theirs < ours ? (ours - theirs + 1) / 2 : 0;

	if (!waited && share < policy_run(theirs))
		return 0;
	share = share < even ? share : even;
	return share < POLICY_RUNS ? share : POLICY_RUNS;
}

/* ---- Threads that follow others: the load of a processor ---- */

/* `thread' has come from elsewhere, and has run there. */
static inline void policy_arrive(struct uproc_load *l, const void *thread)
{
	l->l_new[l->l_came++ % UPROC_NEW] = thread;
}

/* Whether it has, and has drawn none since. */
static inline bool policy_is_fresh(struct uproc_load *l, const void *thread)
{
	for (unsigned i = 0; i < UPROC_NEW; i++)
		if (l->l_new[i] == thread) {
			l->l_new[i] = NULL;
			return true;
		}
	return false;
}

/*
 * At time `now', after so many switches: what the processor did since the last call, if
 * that is long enough. A run ends at a switch. So that a thread which wakes others and
 * never waits counts as well, a run ends at each such wake, if these are more. The
 * shorter one of two spans counts: in one of them the CPU may have been another's.
 */
static inline void policy_measure(struct uproc_load *l, int64_t now, uint64_t switches)
{
	int64_t span = now - l->l_from, busy = span - l->l_idle;
	uint64_t runs = switches - l->l_ran;
	uint32_t run;

	if (span < POLICY_SPAN)
		return;
	busy = busy < 0 ? 0 : busy < INT32_MAX ? busy : INT32_MAX;
	runs = runs > l->l_woken ? runs : l->l_woken;
	run = (uint32_t)busy / (uint32_t)(runs > 0 ? runs : 1);
	__atomic_store_n(&l->l_run, run < l->l_last_run ? run : l->l_last_run,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&l->l_share, (uint32_t)(busy * 256 / span), __ATOMIC_RELAXED);
	l->l_last_run = run;
	l->l_ran = switches;
	l->l_from = now;
	l->l_idle = 0;
	l->l_woken = 0;
}

/* Why a wake of a thread of another processor may draw it. */
enum { POLICY_FRESH = 1, POLICY_DUE = 2 };

/*
 * `waker' wakes one. Returns reasons: it has just come, or wakes between processors have
 * been so many, or have gone on for so long. Then the processor measures itself.
 */
static inline unsigned policy_cross(struct uproc_load *l, const void *waker)
{
	unsigned why = policy_is_fresh(l, waker) ? POLICY_FRESH : 0;

	l->l_woken++;
	if (++l->l_crossed < POLICY_NOTICE
	    && l->l_woke - l->l_noticed < POLICY_NOTICE * POLICY_HOP)
		return why;
	l->l_crossed = 0;
	return why | POLICY_DUE;
}

/*
 * Decides which of two processors draws threads when either could, so that threads do not
 * pass each other. True: the processor of `l', with `ready' threads in its queue. If the
 * other processor has threads queued, the one with the shorter queue draws; otherwise the
 * one where most of the group is; `first' decides between equals.
 */
static inline bool policy_gathers(const struct uproc_load *l, uint32_t ready,
				  const struct uproc_load *other, uint32_t other_ready,
				  bool first)
{
	uint32_t share = __atomic_load_n(&other->l_share, __ATOMIC_RELAXED);

	if (other_ready > 0 && ready != other_ready)
		return ready < other_ready;
	return l->l_share != share ? l->l_share > share : first;
}

/*
 * Whether a thread of the other one that is woken here comes. Apart, each wake takes a
 * hop: too long, if the threads run for less between their wakes. Where all fits on one
 * processor, they gain nothing by two.
 */
static inline bool policy_draws(const struct uproc_load *l,
				const struct uproc_load *other)
{
	uint32_t share = l->l_share + __atomic_load_n(&other->l_share, __ATOMIC_RELAXED);
	uint32_t run = __atomic_load_n(&other->l_run, __ATOMIC_RELAXED);

	if (run < l->l_run)
		run = l->l_run;
	return run < POLICY_HOP || (run < 16 * POLICY_HOP && share < POLICY_LIGHT);
}

/*
 * What the processor was given kept it busy for so long, and has drawn so many threads
 * after it, or was drawn away: if that was short, and one of two processors is left idle,
 * it was in vain, and it asks for none for some time, each time longer.
 */
static inline void policy_hold(struct uproc_load *l, int64_t now, int64_t busy,
			       uint32_t drew)
{
	if (busy >= POLICY_GAIN || drew == 0)
		l->l_held = 0;
	else if (l->l_held == 0)
		l->l_held = POLICY_GAIN;
	else
		l->l_held = 2 * l->l_held < POLICY_HOLD ? 2 * l->l_held : POLICY_HOLD;
	l->l_hold = now + l->l_held;
}

/* The processor was given some threads. */
static inline void policy_get(struct uproc_load *l, int64_t now)
{
	l->l_given = now;
	l->l_drew = 0;
}

/* The processor has nothing to run: how long it got by with what it was given. */
static inline void policy_judge(struct uproc_load *l, int64_t now)
{
	int64_t busy = now - l->l_given;

	if (l->l_given != 0 && (l->l_drew > 0 || busy >= POLICY_GAIN))
		policy_hold(l, now, busy, l->l_drew);
	l->l_given = 0;
}

/* It has lost a thread, and has no other: it had better not ask for one soon. */
static inline void policy_lose(struct uproc_load *l, int64_t now)
{
	if (now < l->l_hold)
		return;
	policy_hold(l, now, 0, 1);
	l->l_given = 0;
}

#endif /* USCHED_POLICY_H */
