/* SPDX-License-Identifier: MIT */
/*
 * slice.h: the state of a dispatcher that upreempt.c (slices of time) shares with
 * upreempt_region.c (regions that a signal interrupts). Private.
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

struct slice {
	struct upreempt sl_head;        /* first */
	struct usched   sl_blind;       /* the stand-in: usched__current in a region */
	struct ustack   sl_none;        /* in check builds the stand-in's thread, so that
					   a wait calls s_pick, which reports it */
	int64_t         sl_length;      /* ns of a slice; constant */
	bool            sl_monitored;   /* a monitor ends slices; constant */
	int64_t         sl_stall;       /* ns: the stall to report; 0: none; constant */
	struct ustall  *sl_reporter;    /* the monitor's reporter of stalls, or NULL;
					   constant */
	clockid_t       sl_clock;       /* measures the CPU time of the native thread;
					   written before sl_tid */
	pid_t           sl_tid;         /* atomic: the dispatcher's native thread */

	/* The region that the running thread is in. */
	uint32_t        sl_region;      /* atomic: 1: the thread is in a region */
	sigset_t        sl_mask;        /* the signal mask when the region began */
	uint64_t        sl_words;       /* the control words when the region began */

	/* The addresses of the program's code, written when the first region begins. */
	uintptr_t       sl_text, sl_text_end;

	/* Written by the monitor. Without a monitor the dispatcher's native thread writes
	   them. That thread always writes sl_gave and sl_gave_at. */
	uint64_t        sl_seen;        /* the count() of the last look */
	int64_t         sl_since;       /* ns: since then count() has been sl_seen */
	int64_t         sl_longest;     /* atomic, ns: the longest time of one count() */
	uint64_t        sl_over;        /* atomic: the count() when the slice was over */
	uint64_t        sl_gave;        /* atomic: the count() when a thread gave way */
	int64_t         sl_gave_at;     /* ns: the time when that thread gave way */
	int64_t         sl_looked;      /* ns: the last look at the clock */
	unsigned        sl_calls;       /* calls of ustack_check() since sl_looked */
	unsigned        sl_skip;        /* calls from a look at the clock to the next */
};

#pragma GCC visibility push(hidden)

/* The s_preempt of processors: returns whether `u' is still in the slice that is over. */
int slice__is_over(struct usched *s, struct ustack *u, void *context);

/* Makes a struct slice for `s', which has none. Returns 0 or -ENOMEM. */
int slice__begin(struct usched *s, struct slice **slice);

/* Counts that the running thread gives way, and notes the time. */
void slice__count_given(struct usched *s);

#pragma GCC visibility pop

static inline struct slice *slice_of(const struct usched *s)
{
	return (struct slice *)(void *)s->s_slice;
}

/* Returns how many switches there were, plus how many times a thread gave way. */
static inline uint64_t count(const struct usched *s)
{
	return GET(s->s_stats.st_switches) + GET(s->s_stats.st_preempted);
}

/* Returns whether the program runs under Valgrind, which does not know signal frames. */
static inline bool slice_on_valgrind(void)
{
	enum { ON_VALGRIND = 0x1001 };
	const uintptr_t request[6] = { ON_VALGRIND };

	return usched__valgrind(request) != 0;
}

#endif /* USCHED_SLICE_H */
