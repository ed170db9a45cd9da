/* SPDX-License-Identifier: MIT */
/*
 * trace.h: events of processors, in rings. utrace.c writes the rings. A reader outside of
 * the process, tools/usched_view/trace.py, reads them. Private.
 *
 * A reader finds the structs by src/proc/layout.h. To begin a trace, the reader writes to
 * tc_asked the log2 of a number of events, from 6 to 26. Then each processor traces from
 * its next look on, into a ring of that many events. To end the trace, the reader writes
 * tc_usual, which is 0 unless the program records. If there are several readers, the last
 * value written counts. p_ring of a processor, and rg_events, are NULL until the first
 * trace.
 *
 * Event n of a ring is in rg_events at n % rg_size. The processor goes on while events
 * are read, and overwrites the oldest. So the event is valid if n >= rg_begin, and if
 * rg_count, read after the event, is at most n + rg_size - 8.
 */
#ifndef USCHED_TRACE_H
#define USCHED_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../usched.h"

/* Kinds of events. The thread is v_thread, `other' is v_other; v_what has `number'. */
enum utrace_kind {
	UTRACE_OFF = 1,         /* the trace of the processor ends */
	UTRACE_SWITCH,          /* the thread runs, after `number' bytes of frames were
				   loaded; `other' was evicted before that, or is 0 */
	UTRACE_BLOCK,           /* the thread blocks: see enum utrace_why */
	UTRACE_WAKE,            /* the thread can run; `other' is the waker, or 0 */
	UTRACE_POST,            /* `other', a thread or native thread, sends mail */
	UTRACE_CREATE,          /* the thread `other' has made the thread */
	UTRACE_START,           /* the thread begins to run the function `other' */
	UTRACE_END,
	UTRACE_MOVE,            /* the thread has come to this processor */
};

enum utrace_why {
	/* Why a thread blocks. */
	UTRACE_WAITS = 1,       /* the thread waits for a token */
	UTRACE_GRANT,           /* it waits for the object `other'; `number' is 0, or
				   the address of the object's struct uwait_kind, less
				   the address of usched__layout */
	UTRACE_JOINS,
	UTRACE_YIELDS,
	UTRACE_PREEMPTED,
	/* What wakes a thread. */
	UTRACE_BY_THREAD,
	UTRACE_BY_EVENT,        /* a timer, a descriptor, or a cancel */
	UTRACE_BY_MAIL,         /* the mail of the last UTRACE_POST for the thread */
	UTRACE_BY_JOIN,         /* the end of the thread that it joins */
};

struct utrace_event {
	uint64_t v_time;                /* ns of CLOCK_MONOTONIC */
	uint64_t v_thread;              /* address of the thread's record, or 0 */
	uint64_t v_other;
	uint64_t v_what;                /* bits 0-7: kind; from 8: why; from 32: number */
};

enum { UTRACE_WHY_AT = 8, UTRACE_NUMBER_AT = 32 };

struct utrace_control {
	uint32_t            tc_asked;   /* atomic: what the reader asks for */
	uint32_t            tc_usual;   /* constant: tc_asked at the start */
	struct utrace_ring *tc_mail;    /* atomic: the ring for mail of native threads */
	pthread_mutex_t     tc_lock;    /* protects *tc_mail */
	const char         *tc_path;    /* of records, or NULL */
};

extern struct utrace_control utrace__control __attribute__((visibility("hidden")));

struct utrace_ring {
	struct usched_hook   rg_hook;   /* must be the first member */

	/* The reader reads these. */
	uint64_t             rg_count;  /* atomic: events written so far */
	struct utrace_event *rg_events; /* atomic: NULL before the first trace */
	uint64_t             rg_size;   /* places in rg_events: a power of two */
	uint64_t             rg_begin;  /* atomic: rg_count when the trace began */
	uint32_t             rg_on;     /* atomic: 1 while the processor traces */

	/* Only the processor's native thread uses these. */
	struct uproc        *rg_proc;
	struct ustack       *rg_slot;   /* the thread of the slot while that is closed */
	uint64_t             rg_time;   /* ns: the time of the last event */
	uint64_t             rg_read;   /* ns: when a clock was read last */
	uint64_t             rg_ticks;  /* usched__ticks() at that time */
	uint64_t             rg_pace;   /* ns a tick, times PACE; 0: unknown */
	uint64_t             rg_parked; /* p_parked when rg_time was set; or UINT64_MAX */
	uint64_t             rg_began;  /* ns: the time when the trace began */
	uint64_t             rg_preempted;
	uint8_t              rg_slots;  /* p_slot as it is without a trace */
	bool                 rg_open;   /* the slot is open: see utrace.c */
	bool                 rg_known;  /* the ring shows which thread runs */
	struct usched_calls  rg_calls;  /* the scheduler's own calls, as is rg_linger */
	int (*rg_linger)(struct usched *s, const uint8_t *word, uint8_t value);
};

#endif /* USCHED_TRACE_H */
