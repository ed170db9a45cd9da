/* SPDX-License-Identifier: MIT */
/*
 * budget.h: when a thread gives way whose calls find something each time, and so never
 * wait. Private.
 *
 * A spell is what a thread does between two switches. Calls that did not have to wait
 * look at the clock: one that finds the spell SPELL ns old ends it, and its thread
 * yields. The first such calls of a spell need not look, and a thread that waits between
 * its requests never comes to more.
 *
 * A call that makes a system call looks each time, which takes a tenth of that. Others
 * take no longer than a look does. These count their calls in a struct budget, one for
 * each thing that they find, and pace their looks: one in about a us, but after so many
 * calls at most. A call that takes longer than a few us is followed by a look.
 */
#ifndef USCHED_BUDGET_H
#define USCHED_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../ustack.h"

enum {
	SPELL       = 1000000,          /* ns */
	SPELL_OVER  = INT32_MAX,        /* of usched__spell() */
	PACE_SHORT  = 1000,             /* ns from look to look: fewer are enough, */
	PACE_LONG   = 8000,             /* and each call is to look */
	PACE_MAX    = 32,               /* calls */
	BUDGET_MAX  = 128,              /* calls: then there is a look, too */
};

/* It may be zeros at first. */
struct budget {
	uint8_t b_calls;                /* since the last wait */
	uint8_t b_next;                 /* the call that looks */
	uint8_t b_pace;                 /* calls from a look to the next */
	uint8_t b_looked;               /* the call that has looked last */
};

/*
 * Looks at the clock, in a thread: ns since the last look in this spell, at least 1; 0:
 * there was none; SPELL_OVER: the thread is to yield, and a new spell begins. is_free:
 * the first call of a spell does not look. Elsewhere it returns 0.
 */
int32_t usched__spell(bool is_free);

/* Looks, and paces the next looks. True: the thread is to yield before this call. */
bool usched__tires(struct budget *b);

/* The calling thread begins a spell, which is measured from now. */
void usched__begin_spell(void);

/* Yields, as one that is to. The thread's next call looks, so that one may take 1 ms. */
static inline int budget_yield(void)
{
	int rc = ustack_yield();

	usched__begin_spell();
	return rc;
}

/* After a wait. The second call is the first to look. */
static inline void budget_renew(struct budget *b)
{
	b->b_calls = b->b_looked = 0;
	b->b_next = b->b_pace < 2 ? 2 : b->b_pace;
}

/* Counts a call. True: unless it has to wait, the caller asks usched__tires(). */
static inline bool budget_counts(struct budget *b)
{
	return __builtin_expect(++b->b_calls >= b->b_next, 0);
}

#endif /* USCHED_BUDGET_H */
