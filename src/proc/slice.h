/* SPDX-License-Identifier: MIT */
/*
 * slice.h: what upreempt.c (slices of time) shares with upreempt_region.c (regions that a
 * signal interrupts), and with debug/ustall.c, which reports threads that keep their
 * processor. Private.
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
	sigset_t        sl_mask;        /* the signal mask when the region began; before
					   the first region, that of the native thread */
	uint64_t        sl_words;       /* the control words when the region began */

	/* The addresses of the program's code, written when the first region begins. */
	uintptr_t       sl_text, sl_text_end;

	/* Written by the monitor. Without a monitor the dispatcher's native thread writes
	   them. That thread always writes sl_gave and sl_gave_at. */
	uint64_t        sl_seen;        /* the count() of the last look */
	int64_t         sl_since;       /* ns: since then count() has been sl_seen */
	uint64_t        sl_progress;    /* the processor's progress at the last look, and
					   the CPU time in ns. Only the monitor uses */
	int64_t         sl_cpu;         /* these two */
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

/* ---- Reports of stalls ---- */

struct ustall;

/* The processors that a monitor looks at. */
struct upreempt_all {
	char                *ua_first;  /* the first dispatcher */
	size_t               ua_stride; /* bytes from a dispatcher to the next */
	size_t               ua_count;  /* dispatchers */
	upreempt__state_fn  *ua_state;
	upreempt__log_fn    *ua_log;
	int64_t              ua_limit;  /* ns: c_stall */
};

/* upreempt.c calls debug/ustall.c only through this struct, which ustall_install()
   registers. */
struct upreempt_stalls {
	/* Makes *w, which ts_free frees. `all' must outlive *w. Returns 0, -ENOMEM or
	   -EAGAIN. */
	int  (*ts_make)(struct ustall **w, const struct upreempt_all *all);

	/*
	 * ts_stop stops the reporter's native thread, while the native threads of the
	 * processors still exist. ts_free frees the reporter.
	 */
	void (*ts_stop)(struct ustall *w);
	void (*ts_free)(struct ustall *w);

	/* The monitor calls ts_look at each processor i, and ts_looked after the last. */
	void (*ts_look)(struct ustall *w, size_t i);
	void (*ts_looked)(struct ustall *w);

	/* The handler of upreempt__ask() calls this, on the native thread of `s'. */
	void (*ts_answer)(struct ustall *w, const struct usched *s, const void *context);
};

/* Registers the table, before processors are made. */
void upreempt__report(const struct upreempt_stalls *table);

/*
 * Returns the native thread of `s', and stores the clock of that thread's CPU time.
 * 0: the native thread has not begun.
 */
UPREEMPT_PRIVATE pid_t upreempt__native(const struct usched *s, clockid_t *clock);

/* Sends the native thread of `s' the signal whose handler calls ts_answer. */
UPREEMPT_PRIVATE void upreempt__ask(const struct usched *s);

static inline struct usched *upreempt__at(const struct upreempt_all *all, size_t i)
{
	return (struct usched *)(void *)(all->ua_first + i * all->ua_stride);
}

#endif /* USCHED_SLICE_H */
