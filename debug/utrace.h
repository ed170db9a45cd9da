/* SPDX-License-Identifier: MIT */
/*
 * utrace.h: traces of processors (uproc.h): which thread ran where and when, for what it
 * waited, what woke it.
 *
 *	utrace_start(0);
 *	...
 *	utrace_stop();
 *	utrace_write(fd);       for `uthreads trace FILE', and then ui.perfetto.dev or
 *	                        chrome://tracing
 *
 * Off it costs a switch nothing. On, each switch goes the long way, and a ring of each
 * processor gets an event for each
 *
 *	switch   to which thread
 *	block    what the thread waits for
 *	wake     of a thread that waited, and by what
 *	evict, load
 *	create, start, end
 *	move     from another processor
 *
 * Each processor begins and ends at its next look, which comes after 64 dispatches or
 * half a millisecond at most; one that is parked does so when it is unparked. Threads
 * that began before are seen from their next switch on. A wake of a thread that does not
 * wait is no event.
 *
 * The same events are USDT probes for perf and bpftrace, of the provider "usched", with
 * one semaphore: tracing is on while one of them is attached.
 *
 *	switch(thread, last)    block(thread, why, object)    wake(thread, by, why)
 *	start(thread, function) end(thread) evict(thread, bytes) load(thread, bytes)
 *
 * A program that is linked with libusched.a and calls nothing of this file cannot be
 * traced; -uutrace_start has the linker take it in.
 */
#ifndef USCHED_TRACE_H
#define USCHED_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "../usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Has all processors of the process trace, also those that are created later. `events'
 * is the number that a ring has room for, rounded up to a power of two; 0: 65,536. Each
 * is 32 bytes, of address space until it is written; the oldest are overwritten. A
 * processor keeps its first ring, and that size, until its scheduler is destroyed.
 * A processor that has no memory for its ring tries again at its next look.
 * 0; -EINVAL: more than UTRACE_EVENTS_MAX.
 * From any native thread, or a thread. Does not switch.
 */
int utrace_start(size_t events);

enum { UTRACE_EVENTS_MAX = 1 << 26 };

/*
 * Ends what utrace_start() began.
 * 0.
 * From any native thread, or a thread. Does not switch.
 */
int utrace_stop(void);

/*
 * Writes what is in the rings since the last start to the descriptor `fd', which waits
 * natively, as a file that `uthreads trace FILE' makes JSON trace events of: with a track
 * for each thread and each processor, and arrows from wakes to runs. Names are those that
 * threads have now. Also while processors trace.
 * 0; -ENOMEM: no memory; or an error of write(2).
 * From any native thread, or a thread. Does not switch.
 */
int utrace_write(int fd);

/*
 * Keeps beside the record of each thread when and where it was started and since when it
 * is blocked, or with `on' 0 no longer: for uinspect_dump() and uthreads(1). And, for
 * uinspect_metrics(), how long threads take from runnable to running. Begins and ends as
 * a trace does. Of threads from before, the creation is not known, and the last block
 * once they block again. It takes 2 ms to begin, 160 MiB of address space, and 80 bytes
 * of memory for a thread; 4 million threads at most. Switches cost more than in a trace
 * without it.
 * 1: it was on; 0: it was off; -ENOMEM: no memory.
 * From any native thread, or a thread. Does not switch.
 */
int utrace_keep(int on);

/* Kinds of events. */
enum utrace_kind {
	UTRACE_ON = 1,          /* the processor begins; `other' is the time in ns */
	UTRACE_OFF,
	UTRACE_SWITCH,          /* the thread runs now; `other': the last one, or 0 */
	UTRACE_BLOCK,           /* `why'; `other' is an object, `number' its kind */
	UTRACE_WAKE,            /* it can run now; `other' is the thread that did it */
	UTRACE_POST,            /* mail for it; `other' is the thread or native thread */
	UTRACE_EVICT,           /* to the image `other', `number' bytes */
	UTRACE_LOAD,            /* from there */
	UTRACE_CREATE,          /* by the thread `other' */
	UTRACE_START,           /* it runs first; `other' is its function */
	UTRACE_END,
	UTRACE_MOVE,            /* it has come to this processor */
};

enum utrace_why {
	/* A block. */
	UTRACE_WAITS = 1,       /* for a token */
	UTRACE_GRANT,           /* for an object; `number' is the address of a struct
				   uwait_kind less that of usched__layout, or 0 */
	UTRACE_JOINS,
	UTRACE_YIELDS,
	UTRACE_PREEMPTED,
	/* A wake, or mail. */
	UTRACE_BY_THREAD,
	UTRACE_BY_EVENT,        /* a timer, a descriptor, or a cancel */
	UTRACE_BY_MAIL,         /* see the last UTRACE_POST of the thread */
	UTRACE_BY_JOIN,         /* the thread that it joins has ended */
};

/* An event, in a ring. */
struct utrace_event {
	uint64_t v_time;                /* ticks */
	uint64_t v_thread;              /* address of its record, or 0 */
	uint64_t v_other;
	uint64_t v_what;                /* kind; from bit 8 on why; from bit 32 number */
};

enum { UTRACE_WHY_AT = 8, UTRACE_NUMBER_AT = 32 };

/* Private from here on, except for readers of the memory: src/proc/layout.h. */

#define UTRACE_PRIVATE __attribute__((visibility("hidden")))

struct uproc;
struct uproc_thread;
struct utrace_ring;
struct utrace_kept;

/* The same time by two clocks. */
struct utrace_pair {
	uint64_t p_ticks;
	int64_t  p_ns;                  /* of CLOCK_MONOTONIC */
};

/* What is wanted, in the first four words, which processors look at. */
struct utrace_control {
	uint32_t c_semaphore;           /* of the probes, which count in 16 bits of it */
	uint32_t c_asked;               /* atomic: written from outside: log2 of the
					   events of a ring, 6 to 26; or 0 */
	uint32_t c_wish;                /* atomic: likewise, of utrace_start() */
	uint32_t c_keep;                /* atomic: utrace_keep() */
	struct utrace_kept *c_table;    /* atomic; of UTRACE_KEPT entries */
	struct utrace_ring *c_native;   /* atomic: of native threads */
	uint64_t c_epoch;               /* atomic, ticks: earlier times are not known */
	uint64_t c_scale;               /* atomic: ns in 2^32 ticks */
	uint32_t c_users;               /* atomic: processors that are on */
	uint32_t c_lock;                /* of c_native */
};

/*
 * What is kept of a thread: at (address >> 6) % UTRACE_KEPT, or among the next
 * UTRACE_PROBES - 1, before an entry of zeros. Ticks, all atomic.
 */
struct utrace_kept {
	uint64_t k_thread;
	uint64_t k_started;
	uint64_t k_where;               /* the address behind the call that started it */
	uint64_t k_since;               /* it blocked last */
	uint64_t k_ready;               /* it was woken, or queued up; 0: it ran since */
};

enum { UTRACE_KEPT = 1 << 22, UTRACE_PROBES = 32, UTRACE_DELAYS = 25 };

extern struct utrace_control utrace__control UTRACE_PRIVATE;

/*
 * Up to n events, the oldest first: those of the last start that are still there. The
 * ring's processor may go on. *lost is the number of those that were overwritten.
 */
UTRACE_PRIVATE size_t utrace__read(const struct utrace_ring *g,
				   struct utrace_event *events, size_t n, uint64_t *lost);

/*
 * Ages in ns of what is kept of `u'; -1: not known; and the address behind the call that
 * started it, or 0.
 */
UTRACE_PRIVATE void utrace__ages(const struct ustack *u, int64_t *started,
				 uintptr_t *where, int64_t *since);

/*
 * Delays from runnable to running: delays[i] is the number of those up to 2^i us that are
 * longer than the one before; the last are longer. False: none were ever measured.
 */
UTRACE_PRIVATE int utrace__delays(const struct uproc *p, uint64_t delays[UTRACE_DELAYS],
				  uint64_t *sum_ns);

/* What the thread waits for in a block, as `number' has it; or 0. */
static inline int32_t utrace__kind_of(const struct utrace_event *v)
{
	const uint64_t block = UTRACE_BLOCK | UTRACE_GRANT << UTRACE_WHY_AT;

	return (v->v_what & 0xffff) == block ? (int32_t)(v->v_what >> UTRACE_NUMBER_AT)
		: 0;
}

/* For the layout. */
struct utrace_ring {
	struct usched_hook   g_hook;    /* first */

	/* Read from outside. */
	uint64_t             g_count;   /* atomic: events ever written */
	struct utrace_event *g_events;  /* atomic; or NULL */
	uint64_t             g_size;    /* of them: a power of two */
	uint64_t             g_begin;   /* atomic: g_count at the last start */
	uint32_t             g_mode;    /* atomic: bits 1 traces, 2 keeps */
	uint32_t             g_last;    /* atomic: the valid one of g_pairs, 1 or 2; first
					   is that of the start */
	struct utrace_pair   g_pairs[3];
	uint64_t             g_delays[UTRACE_DELAYS];   /* atomic, as the next one */
	uint64_t             g_sum;     /* ns */

	/* Of the processor's native thread. */
	struct uproc        *g_proc;
	struct ustack       *g_slot;    /* what is in the slot, except s_next */
	uint64_t             g_time;    /* of the last event, */
	uint64_t             g_began;   /* and of the last start */
	uint64_t             g_preempted;
	uint8_t              g_slots;   /* p_slot without a trace */
	uint8_t              g_open;    /* the slot is in place */
	uint8_t              g_known;   /* which thread runs */
	struct usched_calls  g_calls;   /* the scheduler's, as g_linger */
	int (*g_linger)(struct usched *s, const uint8_t *word, uint8_t value);
};

#ifdef __cplusplus
}
#endif

#endif /* USCHED_TRACE_H */
