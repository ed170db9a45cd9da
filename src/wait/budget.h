/* SPDX-License-Identifier: MIT */
/*
 * budget.h: when a thread gives way whose calls find something each time, and so never
 * wait. Private.
 *
 * A spell is what a thread does between two switches. It belongs to the dispatcher: all
 * calls that need not wait are of one spell, whatever their kinds and objects. They look
 * at the clock. A thread whose call finds the spell BUDGET_SPELL ns old yields.
 *
 * A call that makes a system call, or takes as long, looks each time, which takes a tenth
 * of that: usched__is_tired(). The first BUDGET_CALLS_FREE of a spell do not look, and a
 * thread that waits between its requests comes to no more. After BUDGET_CALLS_MAX the
 * thread yields.
 *
 * Channels and buffers take no longer than a look does. They count calls in a struct
 * budget, one for each object and way, and pace their looks: one in about a us, but after
 * so many calls at most. A call that takes longer than a few us is followed by a look.
 *
 * A free lock takes less. One in BUDGET_LOCKS looks, counted over all threads of the
 * dispatcher. Calls that never switch, such as a post, need not count: others of a loop
 * do.
 */
#ifndef USCHED_BUDGET_H
#define USCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../../ustack.h"

enum {
	BUDGET_SPELL       = 1000000,   /* ns */
	BUDGET_SPELL_OVER  = INT32_MAX, /* of a look */
	BUDGET_PACE_SHORT  = 1000,      /* ns from look to look: fewer are enough, */
	BUDGET_PACE_LONG   = 8000,      /* and each call is to look */
	BUDGET_PACE_MAX    = 32,        /* calls */
	BUDGET_MAX         = 128,       /* calls: then there is a look, too */
	BUDGET_CALLS_FREE  = 3,         /* to read, to write, and to find nothing more */
	BUDGET_CALLS_MAX   = 64,
	BUDGET_LOCKS       = 32,        /* so a look takes a ns of each */
	BUDGET_LOCKS_LONG  = 32000,     /* ns for so many: more, and each is to look */
};

/* It may be zeros at first. */
struct budget {
	uint8_t bu_calls;               /* since the last wait */
	uint8_t bu_next;                /* the call that looks */
	uint8_t bu_pace;                /* calls from a look to the next */
	uint8_t bu_looked;              /* the call that has looked last */
};

/* Counts a call that makes a system call. True: the thread is to yield before it. */
bool usched__is_tired(void);

/* Looks, and paces the next looks. True: the thread is to yield before this call. */
bool usched__tires(struct budget *b);

/* Of budget_lock(), when it looks. */
bool usched__is_over(void);

/*
 * Yields, as a thread that is to, also if it was cancelled. The thread's next call looks,
 * so that one may take 1 ms. 0; -ECANCELED: it was, and the call may wait; other errors
 * do not matter, since no wait is needed.
 */
int usched__yield_tired(int64_t deadline);

/* Before a call that makes a system call. */
static inline int budget_give_way(int64_t deadline)
{
	return usched__is_tired() ? usched__yield_tired(deadline) : 0;
}

/* Counts a lock, or a thing like that. True: the thread is to yield before it. */
static inline bool budget_lock(void)
{
	struct usched *s = usched__here();

	return s->s_current && __builtin_expect(--s->s_spell.sp_left < 0, 0)
		&& usched__is_over();
}

/* The same, and yields. A cancel does not end the call. */
static inline void budget_rest(void)
{
	if (budget_lock())
		usched__yield_tired(0);
}

/* After a wait. The second call is the first to look. */
static inline void budget_renew(struct budget *b)
{
	b->bu_calls = b->bu_looked = 0;
	b->bu_next = b->bu_pace < 2 ? 2 : b->bu_pace;
}

/* Counts a call. True: unless it has to wait, the caller asks usched__tires(). */
static inline bool budget_counts(struct budget *b)
{
	return __builtin_expect(++b->bu_calls >= b->bu_next, 0);
}

#endif /* USCHED_BUDGET_H */
