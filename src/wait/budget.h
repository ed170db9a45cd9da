/* SPDX-License-Identifier: MIT */
/*
 * budget.h: when calls that need not wait yield. Without this, a thread whose calls
 * always find something to do would not let other threads run. Private.
 *
 * A spell is the run of a thread between two switches. All calls that need not wait are
 * calls of the spell, whatever their kinds and objects. A call looks now and then: it
 * reads the clock, and yields if the spell is BUDGET_SPELL ns old.
 *
 * A call that makes a system call, or takes as long, looks each time
 * (usched__is_tired()): a look takes a tenth of the call's time. But the first
 * BUDGET_CALLS_FREE calls of a spell do not look: a thread that waits between its
 * requests makes no more calls in a spell. After BUDGET_CALLS_MAX calls the thread
 * yields.
 *
 * A call for a channel or a buffer takes no longer than a look. So each object has a
 * struct budget for each direction, which counts the calls and keeps the pace: how many
 * calls are made from a look to the next. There is about one look in a microsecond, and
 * at least one look in BUDGET_MAX calls. If a call has taken some microseconds, the next
 * call looks.
 *
 * A call that takes a free lock needs less time than a look. So only one lock in
 * BUDGET_LOCKS looks, counted over all threads of the dispatcher. Calls that never
 * switch, such as a post, do not count.
 */
#ifndef USCHED_BUDGET_H
#define USCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ustack.h"

enum {
	BUDGET_SPELL       = 1000000,   /* ns: the age of a spell when a call yields */
	BUDGET_SPELL_OVER  = INT32_MAX, /* result of a look when the spell is over */
	BUDGET_PACE_SHORT  = 1000,      /* ns: if a pace took less, the pace doubles */
	BUDGET_PACE_LONG   = 8000,      /* ns: if a pace took more, the pace becomes 1 */
	BUDGET_PACE_MAX    = 32,        /* the longest pace */
	BUDGET_MAX         = 128,       /* calls of a budget before the thread yields */
	BUDGET_CALLS_FREE  = 3,         /* free: read, write, read that finds nothing */
	BUDGET_CALLS_MAX   = 64,        /* calls of a spell before the thread yields */
	BUDGET_LOCKS       = 32,        /* one look in so many locks: 1 ns for a lock */
	BUDGET_LOCKS_LONG  = 32000,     /* ns: if they take longer, the next lock looks */
};

/* The budget of an object for one direction. Zeros are a new budget. */
struct budget {
	uint8_t bu_calls;               /* calls since the last wait */
	uint8_t bu_next;                /* number of the next call that looks */
	uint8_t bu_pace;                /* calls from a look to the next */
	uint8_t bu_looked;              /* number of the last call that looked */
};

/* Counts a call that makes a system call. Returns whether to yield before the call. */
bool usched__is_tired(void);

/* Looks, and sets the pace of `b'. Returns whether to yield before this call. */
bool usched__tires(struct budget *b);

/* Looks, for budget_lock(). Returns whether to yield before this lock. */
bool usched__is_over(void);

/*
 * Yields, even if the thread was cancelled. The thread's next call will look, since one
 * call may take 1 ms.
 * Returns 0: the call goes on; -ECANCELED: the thread was cancelled, and `deadline' is
 * above 0, so the call has to end.
 */
int usched__yield_tired(int64_t deadline);

/* Counts a call that makes a system call, and yields if due. Returns 0 or -ECANCELED. */
static inline int budget_give_way(int64_t deadline)
{
	return usched__is_tired() ? usched__yield_tired(deadline) : 0;
}

/* Counts a lock or the like. Returns whether to yield before the lock. */
static inline bool budget_lock(void)
{
	struct usched *s = usched__here();

	return s->s_current && __builtin_expect(--s->s_spell.sp_left < 0, 0)
		&& usched__is_over();
}

/* Counts a lock or the like, and yields if due. A cancel does not end the call. */
static inline void budget_rest(void)
{
	if (budget_lock())
		usched__yield_tired(0);
}

/* Begins a new budget after a wait. The first call does not look. */
static inline void budget_renew(struct budget *b)
{
	b->bu_calls = b->bu_looked = 0;
	b->bu_next = b->bu_pace < 2 ? 2 : b->bu_pace;
}

/* Counts a call. If true, call usched__tires(), unless the counted call has to wait. */
static inline bool budget_counts(struct budget *b)
{
	return __builtin_expect(++b->bu_calls >= b->bu_next, 0);
}

#endif /* USCHED_BUDGET_H */
