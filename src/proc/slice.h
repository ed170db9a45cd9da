/* SPDX-License-Identifier: MIT */
/*
 * slice.h: what upreempt.c, slices of time, and upreempt_region.c, regions that a signal
 * interrupts, know of a dispatcher. Private.
 */
#ifndef USCHED_SLICE_H
#define USCHED_SLICE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "../../upreempt.h"
#include "../../arch/arch.h"
#include "../base/lock.h"

/* Not inlined, for the reason in uabi.h. */
#define BY_THREADS __attribute__((noinline))

struct slice {
	struct upreempt l_head;         /* first */
	struct usched   l_blind;        /* the stand-in */
	struct ustack   l_none;         /* its thread, in check builds: it asks s_pick */
	int64_t         l_length;       /* ns; constant, as the next one */
	int             l_signal;       /* 0: none, and no monitor of slices */
	int64_t         l_stall;        /* ns; 0: none is reported; constant */
	int             l_ask;          /* the signal for that; constant */
	struct ustall  *l_reporter;     /* the monitor's, or NULL; constant */
	clockid_t       l_clock;        /* CPU time of its native thread, before l_tid */
	pid_t           l_tid;          /* atomic: of its native thread */

	/* Of the running thread, which is in a region. */
	uint32_t        l_region;       /* atomic: 1: it is */
	sigset_t        l_mask;         /* at the beginning of that, */
	uint64_t        l_words;        /* and the control words */

	/* The program's code, written when the first region begins. */
	uintptr_t       l_text, l_text_end;

	/* The monitor's; without one, of the dispatcher's native thread. */
	uint64_t        l_seen;         /* a count, and the time since when */
	int64_t         l_since;
	int64_t         l_longest;      /* atomic: the longest time seen without change */
	uint64_t        l_over;         /* atomic: the count when the slice was over */
	uint64_t        l_gave;         /* atomic: when a thread gave way last: */
	int64_t         l_gave_at;      /* the count before the next ran, and the time */
	int64_t         l_looked;       /* the last look at the clock, */
	unsigned        l_calls;        /* calls since then, */
	unsigned        l_skip;         /* and how many until the next */
};

#pragma GCC visibility push(hidden)

/* The policy of processors: what the monitor has found still holds. */
int slice__is_over(struct usched *s, struct ustack *u, void *context);

/* Slices for `s', which has none. 0; -ENOMEM. */
int slice__begin(struct usched *s, struct slice **slice);

/* The running thread gives way now. */
void slice__count_given(struct usched *s);

#pragma GCC visibility pop

static inline struct slice *slice_of(const struct usched *s)
{
	return (struct slice *)(void *)s->s_slice;
}

/* Changes with each switch, and with each time that a thread gives way. */
static inline uint64_t count(const struct usched *s)
{
	return GET(s->s_stats.s_switches) + GET(s->s_stats.s_preempted);
}

/* Memcheck does not know the frames of signals. */
static inline bool slice_on_valgrind(void)
{
	enum { ON_VALGRIND = 0x1001 };
	const uintptr_t request[6] = { ON_VALGRIND };

	return usched__valgrind(request) != 0;
}

#endif /* USCHED_SLICE_H */
