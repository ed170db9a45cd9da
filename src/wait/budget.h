/* SPDX-License-Identifier: MIT */
/*
 * budget.h: when a thread yields whose calls never have to wait, as each finds something
 * to do. Private.
 *
 * A spell is what a thread does between two switches. The dispatcher has one spell for
 * all calls that need not wait, whatever their kinds and objects. Calls look at the clock
 * now and then. A call that finds the spell BUDGET_SPELL ns old yields.
 *
 * A call that makes a system call, or takes as long, looks each time, which takes a tenth
 * of the call's time: usched__is_tired(). The first BUDGET_CALLS_FREE calls of a spell do
 * not look: a thread that waits between its requests makes no more. After
 * BUDGET_CALLS_MAX calls the thread yields.
 *
 * A call for a channel or a buffer takes no longer than a look. A struct budget, one for
 * each object and direction, counts the calls and paces the looks: about one look in a
 * us, and one in BUDGET_MAX calls at least. If a call has taken some us, the next call
 * looks.
 *
 * A free lock takes less time than a look, so one lock in BUDGET_LOCKS looks, counted
 * over all threads of the dispatcher. Calls that never switch, such as a post, do not
 * count.
 */
#ifndef USCHED_BUDGET_H
#define USCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ustack.h"

enum {
	BUDGET_SPELL       = 1000000,   /* ns */
	BUDGET_SPELL_OVER  = INT32_MAX, /* a look has found the end of the spell */
	BUDGET_PACE_SHORT  = 1000,      /* ns: less from look to look doubles the pace */
	BUDGET_PACE_LONG   = 8000,      /* ns: more from look to look: each call looks */
	BUDGET_PACE_MAX    = 32,        /* the most calls from a look to the next */
	BUDGET_MAX         = 128,       /* calls of a budget: then the thread yields */
	BUDGET_CALLS_FREE  = 3,         /* calls: a read, a write, a read of nothing */
	BUDGET_CALLS_MAX   = 64,
	BUDGET_LOCKS       = 32,        /* locks: the look costs each of them 1 ns */
	BUDGET_LOCKS_LONG  = 32000,     /* ns for so many: the next lock looks if more */
};

/* A budget of zeros is new. */
struct budget {
	uint8_t bu_calls;               /* calls since the last wait */
	uint8_t bu_next;                /* number of the next call that looks */
	uint8_t bu_pace;                /* calls from a look to the next */
	uint8_t bu_looked;              /* number of the last call that looked */
};

/* Counts a call that makes a system call. True: the thread is to yield before it. */
bool usched__is_tired(void);

/* Looks, and paces the next looks. True: the thread is to yield before this call. */
bool usched__tires(struct budget *b);

/* Looks, for budget_lock(). True: the thread is to yield before this lock. */
bool usched__is_over(void);

/*
 * Yields, also if the thread was cancelled. The thread's next call looks, as one call may
 * take 1 ms.
 * 0: the call goes on; -ECANCELED: the thread was cancelled, and `deadline' lets the call
 * wait.
 */
int usched__yield_tired(int64_t deadline);

/* Before a call that makes a system call. */
static inline int budget_give_way(int64_t deadline)
{
	return usched__is_tired() ? usched__yield_tired(deadline) : 0;
}

/* Counts a lock or the like. True: the thread is to yield before the lock. */
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

/* Begins anew, after a wait. The second call looks. */
static inline void budget_renew(struct budget *b)
{
	b->bu_calls = b->bu_looked = 0;
	b->bu_next = b->bu_pace < 2 ? 2 : b->bu_pace;
}

/* Counts a call. True: the caller asks usched__tires(), unless the call has to wait. */
static inline bool budget_counts(struct budget *b)
{
	return __builtin_expect(++b->bu_calls >= b->bu_next, 0);
}

#endif /* USCHED_BUDGET_H */
