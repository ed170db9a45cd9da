/* SPDX-License-Identifier: MIT */
/*
 * trace.h: events of processors in rings, which utrace.c writes and a reader from outside
 * of the process, tools/usched_view/trace.py, reads. Private.
 *
 * A reader finds the structs by src/proc/layout.h. It writes to tc_asked the log2 of a
 * number of events, 6 to 26: then processors trace from their next looks on, into rings
 * of so many events; 0 ends the trace. If there are several readers, the last writer
 * counts. p_ring of a processor and rg_events are NULL until the first trace.
 *
 * Event n of a ring is in rg_events at n % rg_size. It is valid if n >= rg_begin, and if
 * rg_count, read after the event, is at most n + rg_size - 8: the processor goes on, and
 * overwrites the oldest events.
 */
#ifndef USCHED_TRACE_H
#define USCHED_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "../usched.h"

/* Kinds of events. */
enum utrace_kind {
	UTRACE_OFF = 1,         /* the trace of the processor ends */
	UTRACE_SWITCH,          /* the thread runs; `other': the thread before, or 0 */
	UTRACE_BLOCK,           /* `why'; `other' is an object, `number' its kind */
	UTRACE_WAKE,            /* the thread can run; `other' has woken it, or 0 */
	UTRACE_POST,            /* mail is sent; `other' is the thread or native thread */
	UTRACE_EVICT,           /* frames go to the image `other', `number' bytes */
	UTRACE_LOAD,            /* frames come from the image `other' */
	UTRACE_CREATE,          /* the thread `other' has made the thread */
	UTRACE_START,           /* the thread runs first; `other' is its function */
	UTRACE_END,
	UTRACE_MOVE,            /* the thread has come to this processor */
};

enum utrace_why {
	/* Why a thread blocks. */
	UTRACE_WAITS = 1,       /* the thread waits for a token */
	UTRACE_GRANT,           /* for an object; `number' is the address of a struct
				   uwait_kind less that of usched__layout, or 0 */
	UTRACE_JOINS,
	UTRACE_YIELDS,
	UTRACE_PREEMPTED,
	/* What wakes a thread. */
	UTRACE_BY_THREAD,
	UTRACE_BY_EVENT,        /* a timer, a descriptor, or a cancel */
	UTRACE_BY_MAIL,         /* the last UTRACE_POST of the thread */
	UTRACE_BY_JOIN,         /* the end of the thread that it joins */
};

struct utrace_event {
	uint64_t v_time;                /* ns of CLOCK_MONOTONIC */
	uint64_t v_thread;              /* address of the thread's record, or 0 */
	uint64_t v_other;
	uint64_t v_what;                /* kind; from bit 8 on why; from bit 32 number */
};

enum { UTRACE_WHY_AT = 8, UTRACE_NUMBER_AT = 32 };

struct utrace_control {
	uint32_t            tc_asked;   /* atomic: what the reader writes */
	uint32_t            tc_lock;    /* protects tc_mail */
	struct utrace_ring *tc_mail;   /* atomic: the ring of native threads, for mail */
};

extern struct utrace_control utrace__control __attribute__((visibility("hidden")));

struct utrace_ring {
	struct usched_hook   rg_hook;   /* first */

	/* For the reader. */
	uint64_t             rg_count;  /* atomic: events written so far */
	struct utrace_event *rg_events; /* atomic; or NULL */
	uint64_t             rg_size;   /* places in rg_events: a power of two */
	uint64_t             rg_begin;  /* atomic: rg_count when the trace began */
	uint32_t             rg_on;     /* atomic: 1: the processor traces */

	/* For the processor's native thread. */
	struct uproc        *rg_proc;
	struct ustack       *rg_slot;   /* the thread in the slot, except in s_next */
	uint64_t             rg_time;   /* ns: the time of the last event */
	uint64_t             rg_began;  /* ns: the time of the beginning */
	uint64_t             rg_preempted;
	uint8_t              rg_slots;  /* p_slot as it is without a trace */
	bool                 rg_open;   /* the slot is in place */
	bool                 rg_known;  /* the ring shows which thread runs */
	struct usched_calls  rg_calls;  /* the scheduler's call-backs, and rg_linger */
	int (*rg_linger)(struct usched *s, const uint8_t *word, uint8_t value);
};

#endif /* USCHED_TRACE_H */
