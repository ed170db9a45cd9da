/* SPDX-License-Identifier: MIT */
/*
 * utrace.c: traces, and times that are kept beside the records of threads.
 *
 * utrace__control says what is wanted. Each processor compares it at its looks. To begin
 * it puts a hook into its dispatcher, which then tells of all switches, and has itself
 * called in place of the scheduler's s_next, s_pick, s_ready and s_linger. So nothing of
 * it is in the code while it is off.
 *
 * An inlined ustack_wake() puts a thread into an open slot without a call. So the slot is
 * closed while threads run, and what belongs there is in g_slot. It is in place while the
 * scheduler's call-backs run:
 *
 *	          g_open    s_slot                  p_slot    g_slot
 *	threads   0         USCHED_CLOSED           0         a thread, or NULL
 *	s_next    1         a thread, or NULL       g_slots   NULL
 *
 * A ring is written by its processor's native thread alone. It never waits: the oldest
 * events are overwritten, and g_count says so to readers. They copy, read it again, and
 * leave out what was overwritten meanwhile, and MARGIN more.
 *
 * Native threads that send mail share one ring, under a lock.
 *
 * The table of what is kept has an entry for each record that was in use, which stays:
 * records keep their addresses. Times before c_epoch are of an earlier use.
 *
 * What readers from outside go by, besides src/proc/layout.h. utrace.h has the structs. A
 * reader that writes to c_asked the log2 of a number of events, 6 to 26, has processors
 * trace from their next looks on, and 0 ends it. (The word is of all readers: the last
 * writer counts.) p_ring of a processor is NULL until then, and g_events. Bit 0 of
 * g_mode: it traces. Event number n is in g_events at n % g_size, and is valid from
 * g_begin on and while n + g_size - 8 >= g_count, read after it. The three of g_pairs are
 * ticks and ns of CLOCK_MONOTONIC, of the beginning and, at g_last, of the last look:
 * read that again afterwards. c_native is a ring for mail of native threads. With
 * c_keep, entries of c_table are where utrace.h says; times up to c_epoch are not known.
 * c_scale is the number of ns in 2^32 ticks.
 *
 * Nothing else needs this file, so programs may leave it out.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* MAP_ANONYMOUS, MAP_NORESERVE */
#endif
#include "utrace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../arch/arch.h"
#include "../src/core/core.h"
#include "../src/proc/layout.h"
#include "../src/base/lock.h"
#include "../src/base/when.h"
#include "probe.h"
#include "../uproc.h"
#include "../uwait.h"

enum {
	TRACES      = 1,                /* bits of g_mode */
	KEEPS       = 2,
	LOG_MIN     = 6,                /* log2 of the events of a ring */
	LOG_DEFAULT = 16,
	LOG_MAX     = 26,
	MARGIN      = 8,                /* events that may be half written */
	SETTLE      = 2000000,          /* ns in which the rate of ticks is measured */
	KEPT_LINE   = 64,               /* bytes: no two records begin in so many */
};

#define LOOK_AT(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)

/* False: it was not `old', which is its value now. */
#define REPLACE(x, old, new) __atomic_compare_exchange_n(&(x), &(old), new, 0, \
		__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Named by the notes of the probes, and in a section of files as that of others is. */
__attribute__((used, section(".probes"))) struct utrace_control utrace__control = {
	.c_semaphore = 0,
};

/* ---- Rings ---- */

/* Zeros. NULL: no memory. */
static void *map_zeros(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * Returns the ring at *at, with events if `mode' traces; makes what is missing. NULL: no
 * memory. One native thread at a time makes a ring, and others may read *at.
 */
static struct utrace_ring *make_ring(struct utrace_ring **at, unsigned mode,
				     unsigned size_log)
{
	struct utrace_ring *g = *at;
	void *events;

	if (!g) {
		g = (struct utrace_ring *)map_zeros(sizeof *g);
		if (!g)
			return NULL;
		__atomic_store_n(at, g, __ATOMIC_RELEASE);
	}
	if (mode & TRACES && !g->g_events) {
		events = map_zeros(sizeof(struct utrace_event) << size_log);
		if (!events)
			return NULL;
		SET(g->g_size, (uint64_t)1 << size_log);
		__atomic_store_n(&g->g_events, (struct utrace_event *)events,
				 __ATOMIC_RELEASE);
	}
	return g;
}

/* Locks the ring of native threads, which any native thread may make and write. */
static struct utrace_control *lock_native(void)
{
	while (__atomic_exchange_n(&utrace__control.c_lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
	return &utrace__control;
}

static void unlock_native(struct utrace_control *c)
{
	__atomic_store_n(&c->c_lock, 0, __ATOMIC_RELEASE);
}

/* Returns the ring of `p'; for a trace the ring of native threads exists, too. NULL: no
   memory. */
static struct utrace_ring *prepare_rings(struct uproc *p, unsigned mode,
					 unsigned size_log)
{
	struct utrace_ring *o;
	struct utrace_control *c;

	if (mode & TRACES) {
		c = lock_native();
		o = make_ring(&c->c_native, mode, size_log);
		unlock_native(c);
		if (!o)
			return NULL;
	}
	return make_ring(&p->p_ring, mode, size_log);
}

/* The same time by two clocks. */
static void pair(struct utrace_ring *g, unsigned i)
{
	SET(g->g_pairs[i].p_ticks, when_ticks());
	SET(g->g_pairs[i].p_ns, when_now());
	__atomic_store_n(&g->g_last, i, __ATOMIC_RELEASE);
}

static inline void put_event(struct utrace_ring *g, enum utrace_kind kind,
			     unsigned why, uintptr_t thread, uintptr_t other,
			     uint32_t number)
{
	struct utrace_event *v = &g->g_events[g->g_count & (g->g_size - 1)];

	SET(v->v_time, g->g_time);
	SET(v->v_thread, thread);
	SET(v->v_other, other);
	SET(v->v_what, (uint64_t)kind | (uint64_t)why << UTRACE_WHY_AT
	    | (uint64_t)number << UTRACE_NUMBER_AT);
	__atomic_store_n(&g->g_count, g->g_count + 1, __ATOMIC_RELEASE);
}

size_t utrace__read(const struct utrace_ring *g, struct utrace_event *events, size_t n,
		    uint64_t *lost)
{
	uint64_t end = LOOK_AT(g->g_count), from = GET(g->g_begin), first = from;
	uint64_t room, at;
	const struct utrace_event *ring = LOOK_AT(g->g_events);

	*lost = 0;
	if (!ring)
		return 0;
	room = GET(g->g_size) - MARGIN;
	if (room > n)
		room = n;
	if (end - from > room)
		from = end - room;
	for (at = from; at != end; at++) {
		const struct utrace_event *v = &ring[at & (g->g_size - 1)];

		events[at - from] = (struct utrace_event){
			LOOK_AT(v->v_time), LOOK_AT(v->v_thread), LOOK_AT(v->v_other),
			LOOK_AT(v->v_what),
		};
	}
	at = LOOK_AT(g->g_count);               /* overwritten meanwhile: */
	room = GET(g->g_size) - MARGIN;
	at = at - from > room ? at - room : from;
	if (at > end)
		at = end;
	memmove(events, events + (at - from), (size_t)(end - at) * sizeof *events);
	*lost = at - first;
	return (size_t)(end - at);
}

/* ---- What is kept ---- */

/* NULL: there is none, or too many are near it. */
static struct utrace_kept *kept_of(const struct ustack *u, bool make)
{
	struct utrace_kept *table = LOOK_AT(utrace__control.c_table);
	uint64_t key = (uintptr_t)u, at = key / KEPT_LINE;

	for (unsigned i = 0; table && i < UTRACE_PROBES; i++) {
		struct utrace_kept *k = &table[(at + i) % UTRACE_KEPT];
		uint64_t found = GET(k->k_thread);

		if (found == 0 && !make)
			return NULL;
		if (found == 0)
			REPLACE(k->k_thread, found, key);
		if (found == 0 || found == key)
			return k;
	}
	return NULL;
}

/* Mail may have noted the time when it was sent. */
static void keep_wake(struct utrace_ring *g, const struct ustack *u)
{
	struct utrace_kept *k = kept_of(u, false);

	if (k && GET(k->k_ready) <= GET(k->k_since))
		SET(k->k_ready, g->g_time);
}

static void keep_block(struct utrace_ring *g, const struct ustack *u)
{
	struct utrace_kept *k = kept_of(u, true);

	if (!k)
		return;
	SET(k->k_since, g->g_time);
	if (g->g_proc->p_intent == UPROC_YIELD)
		SET(k->k_ready, g->g_time);
}

static void keep_run(struct utrace_ring *g, const struct ustack *u)
{
	struct utrace_kept *k = kept_of(u, false);
	uint64_t from, ns, i = 0;

	if (!k)
		return;
	from = GET(k->k_ready);
	SET(k->k_ready, 0);
	if (from <= GET(utrace__control.c_epoch) || from > g->g_time)
		return;
	if (from < GET(k->k_since))
		from = GET(k->k_since);
	ns = (uint64_t)((double)(g->g_time - from)
			* ((double)GET(utrace__control.c_scale) / 4294967296.0));
	while (i < UTRACE_DELAYS - 1 && ns > (uint64_t)1000 << i)
		i++;
	SET(g->g_delays[i], g->g_delays[i] + 1);
	SET(g->g_sum, g->g_sum + ns);
}

/* Native threads create some, which is seen when these start. */
static void keep_life(struct utrace_ring *g, enum usched_event event,
		      const struct ustack *u)
{
	struct utrace_kept *k = kept_of(u, event != USCHED_ENDS);

	if (!k)
		return;
	if (event == USCHED_ENDS) {
		SET(k->k_started, 0);
		SET(k->k_where, 0);
	} else if (event == USCHED_CREATES) {
		SET(k->k_started, g->g_time);
		SET(k->k_where, (uintptr_t)u->u_pc);
		SET(k->k_since, 0);
		SET(k->k_ready, g->g_time);
	} else if (GET(k->k_started) <= GET(utrace__control.c_epoch)) {
		SET(k->k_started, g->g_time);
	}
}

static void keep_event(struct utrace_ring *g, enum usched_event event,
		       const struct ustack *u, const struct ustack *other)
{
	switch (event) {
	case USCHED_HANDS_OVER:
		keep_block(g, u);
		keep_run(g, other);
		break;
	case USCHED_BLOCKS:
		keep_block(g, u);
		break;
	case USCHED_RUNS:
		keep_run(g, u);
		break;
	case USCHED_BY_MAIL:
	case USCHED_BY_JOIN:
		keep_wake(g, u);
		break;
	case USCHED_CREATES:
	case USCHED_STARTS:
	case USCHED_ENDS:
		keep_life(g, event, u);
		break;
	default:
		break;
	}
}

void utrace__ages(const struct ustack *u, int64_t *started, uintptr_t *where,
		  int64_t *since)
{
	const struct utrace_control *c = &utrace__control;
	const struct utrace_kept *k = GET(c->c_keep) ? kept_of(u, false) : NULL;
	double scale = (double)GET(c->c_scale) / 4294967296.0;
	uint64_t now = when_ticks(), at;

	*started = *since = -1;
	*where = 0;
	if (!k)
		return;
	at = GET(k->k_started);
	if (at > GET(c->c_epoch) && at <= now) {
		*started = (int64_t)((double)(now - at) * scale);
		*where = (uintptr_t)GET(k->k_where);
	}
	at = GET(k->k_since);
	if (at > GET(c->c_epoch) && at <= now)
		*since = (int64_t)((double)(now - at) * scale);
}

int utrace__delays(const struct uproc *p, uint64_t delays[UTRACE_DELAYS],
		   uint64_t *sum_ns)
{
	const struct utrace_ring *g = LOOK_AT(p->p_ring);
	uint64_t all = 0;

	if (!g)
		return 0;
	for (size_t i = 0; i < UTRACE_DELAYS; i++) {
		delays[i] = GET(g->g_delays[i]);
		all += delays[i];
	}
	*sum_ns = GET(g->g_sum);
	return all > 0 || GET(g->g_mode) & KEEPS;
}

/* ---- Events ---- */

static void trace_switch(struct utrace_ring *g, const struct ustack *u,
			 const struct ustack *last)
{
	g->g_known = 1;
	put_event(g, UTRACE_SWITCH, 0, (uintptr_t)u, (uintptr_t)last, 0);
	PROBE2("switch", (uintptr_t)u, (uintptr_t)last);
}

/* `u' runs. The trace may have begun in the s_next that has chosen it. */
static void know(struct utrace_ring *g, const struct ustack *u)
{
	uint64_t now = g->g_time;

	if (g->g_known)
		return;
	g->g_time = g->g_began;
	trace_switch(g, u, NULL);
	g->g_time = now;
}

static void trace_wake(struct utrace_ring *g, const struct ustack *u,
		       const struct ustack *by, enum utrace_why why)
{
	if (by)
		know(g, by);
	put_event(g, UTRACE_WAKE, why, (uintptr_t)u, (uintptr_t)by, 0);
	PROBE3("wake", (uintptr_t)u, (uintptr_t)by, why);
}

static enum utrace_why why_blocks(struct utrace_ring *g, const struct ustack *u)
{
	const struct uproc *p = g->g_proc;
	uint64_t preempted = p->p_sched.s_stats.s_preempted;

	if (p->p_intent == UPROC_YIELD) {
		bool over = preempted != g->g_preempted;

		g->g_preempted = preempted;
		return over ? UTRACE_PREEMPTED : UTRACE_YIELDS;
	}
	return u->u_tokens < UPROC_WAITING ? UTRACE_JOINS : UTRACE_WAITS;
}

/* What the thread waits for, if it waits by uwait.h. */
static const struct uwaiter *wait_of(const struct ustack *u)
{
	const struct uwaiter *w = uwait__attached(u);

	return !w || w->w_joins || !GET(w->w_state) ? NULL : w;
}

static void trace_block(struct utrace_ring *g, const struct ustack *u)
{
	enum utrace_why why = why_blocks(g, u);
	const struct uwaiter *w = why == UTRACE_WAITS ? wait_of(u) : NULL;
	uintptr_t object = 0, kind = 0;

	know(g, u);
	if (w) {
		why = UTRACE_GRANT;
		object = w->w_kind ? (uintptr_t)w->w_object : 0;
		kind = w->w_kind ? (uintptr_t)w->w_kind - (uintptr_t)&usched__layout : 0;
		if (kind != (uintptr_t)(intptr_t)(int32_t)kind)
			kind = 0;               /* it is of another module, far away */
	}
	put_event(g, UTRACE_BLOCK, why, (uintptr_t)u, object, (uint32_t)kind);
	PROBE3("block", (uintptr_t)u, why, object);
}

/* Bytes of the frames of a blocked thread. */
static uint32_t depth(const struct ustack *u)
{
	return (uint32_t)((uintptr_t)u->u_stack->k_bottom - (uintptr_t)usched__top(u));
}

static void trace_copy(struct utrace_ring *g, const struct ustack *u, bool out)
{
	put_event(g, out ? UTRACE_EVICT : UTRACE_LOAD, 0, (uintptr_t)u,
		  (uintptr_t)usched__image(u), depth(u));
	if (out)
		PROBE2("evict", (uintptr_t)u, depth(u));
	else
		PROBE2("load", (uintptr_t)u, depth(u));
}

static void trace_life(struct utrace_ring *g, enum usched_event event,
		       const struct ustack *u, const struct ustack *other)
{
	if (event == USCHED_STARTS) {
		uintptr_t func = (uintptr_t)ustack_func(u);

		put_event(g, UTRACE_START, 0, (uintptr_t)u, func, 0);
		PROBE2("start", (uintptr_t)u, func);
	} else if (event == USCHED_ENDS) {
		if (u == g->g_proc->p_sched.s_current)
			know(g, u);
		put_event(g, UTRACE_END, 0, (uintptr_t)u, 0, 0);
		PROBE1("end", (uintptr_t)u);
	} else if (event == USCHED_CREATES) {
		know(g, other);
		put_event(g, UTRACE_CREATE, 0, (uintptr_t)u, (uintptr_t)other, 0);
	} else {
		put_event(g, UTRACE_MOVE, 0, (uintptr_t)u, 0, 0);
	}
}

static void trace_event(struct utrace_ring *g, enum usched_event event, struct ustack *u,
			struct ustack *other)
{
	switch (event) {
	case USCHED_HANDS_OVER:
		trace_block(g, u);
		trace_switch(g, other, u);
		break;
	case USCHED_BLOCKS:
		trace_block(g, u);
		break;
	case USCHED_RUNS:
		trace_switch(g, u, other);
		break;
	case USCHED_EVICTS:
	case USCHED_LOADS:
		trace_copy(g, u, event == USCHED_EVICTS);
		break;
	case USCHED_BY_MAIL:
		trace_wake(g, u, NULL, UTRACE_BY_MAIL);
		break;
	case USCHED_BY_JOIN:
		trace_wake(g, u, NULL, UTRACE_BY_JOIN);
		break;
	default:
		trace_life(g, event, u, other);
	}
}

/* Mail will be sent to `t'. */
static void post(const struct uproc_thread *t, unsigned mail)
{
	struct uproc *self = uproc_self();
	struct utrace_ring *g = LOOK_AT(*(self ? &self->p_ring
					  : &utrace__control.c_native));
	struct utrace_control *c;
	const struct ustack *by = NULL;

	if (GET(utrace__control.c_keep)) {
		struct utrace_kept *k = kept_of(&t->t_stack, false);

		if (k)
			SET(k->k_ready, when_ticks());
	}
	if (self && g && g->g_mode & TRACES) {
		by = self->p_sched.s_current;
		know(g, by);
		g->g_time = when_ticks();
		put_event(g, UTRACE_POST, mail < UPROC_MAIL_TOKEN ? UTRACE_BY_EVENT
			  : UTRACE_BY_THREAD, (uintptr_t)t, (uintptr_t)by, mail);
	} else if (!self && g && LOOK_AT(g->g_events)) {
		c = lock_native();
		g->g_time = when_ticks();
		put_event(g, UTRACE_POST, UTRACE_BY_MAIL, (uintptr_t)t,
			  (uintptr_t)pthread_self(), mail);
		unlock_native(c);
	}
}

/* ---- The slot ---- */

static struct utrace_ring *ring_of(struct usched *s)
{
	return GET(uproc_from(s)->p_ring);
}

static void open_slot(struct utrace_ring *g)
{
	struct uproc *p = g->g_proc;
	struct usched *s = &p->p_sched;

	s->s_slot = g->g_slot ? g->g_slot : USCHED_CLOSED;
	p->p_slot = g->g_slots;
	if (!p->p_polls)
		uproc__open(p);
	g->g_slot = NULL;
	g->g_open = 1;
}

static void close_slot(struct utrace_ring *g)
{
	struct usched *s = &g->g_proc->p_sched;

	if ((uintptr_t)s->s_slot > (uintptr_t)USCHED_CLOSED)
		g->g_slot = s->s_slot;
	s->s_slot = USCHED_CLOSED;
	g->g_proc->p_slot = 0;
	g->g_open = 0;
}

/* In the call the trace may end, and begin again. */
static struct ustack *next_traced(struct usched *s)
{
	struct utrace_ring *g = ring_of(s);
	struct ustack *u;

	open_slot(g);
	u = g->g_calls.s_next(s);
	if (g->g_mode && g->g_open)
		close_slot(g);
	return u;
}

static struct ustack *pick_traced(struct usched *s, struct ustack *self)
{
	struct utrace_ring *g = ring_of(s);
	struct ustack *u;

	open_slot(g);
	u = g->g_calls.s_pick(s, self);
	close_slot(g);
	return u;
}

static void ready_traced(struct usched *s, struct ustack *u)
{
	struct utrace_ring *g = ring_of(s);
	struct uproc *p = g->g_proc;
	bool polls = p->p_polls;

	g->g_time = when_ticks();
	if (g->g_mode & TRACES)
		trace_wake(g, u, polls ? NULL : s->s_current,
			   polls ? UTRACE_BY_EVENT : UTRACE_BY_THREAD);
	if (g->g_mode & KEEPS)
		keep_wake(g, u);
	if (g->g_open) {
		g->g_calls.s_ready(s, u);
	} else if (g->g_slots && !polls && !g->g_slot) {
		g->g_slot = u;
	} else {
		open_slot(g);
		g->g_calls.s_ready(s, u);
		close_slot(g);
	}
}

static int linger_traced(struct usched *s, const uint8_t *word, uint8_t value)
{
	struct utrace_ring *g = ring_of(s);

	return g->g_slot ? 0 : g->g_linger(s, word, value);
}

/* ---- On and off ---- */

static void trace_told(struct usched_hook *h, enum usched_event event, struct ustack *u,
		       struct ustack *other)
{
	struct utrace_ring *g = (struct utrace_ring *)(void *)h;

	g->g_time = when_ticks();
	if (g->g_mode & TRACES)
		trace_event(g, event, u, other);
	if (g->g_mode & KEEPS)
		keep_event(g, event, u, other);
}

static void begin_ring(struct utrace_ring *g)
{
	struct uproc *p = g->g_proc;
	struct usched *s = &p->p_sched;

	g->g_calls = s->s_calls;
	g->g_linger = s->s_linger;
	g->g_preempted = s->s_stats.s_preempted;
	if ((uintptr_t)s->s_slot > (uintptr_t)USCHED_CLOSED)
		uproc_push(p, uproc_thread(s->s_slot));
	g->g_slot = NULL;
	g->g_slots = p->p_slot;
	g->g_open = 0;
	s->s_slot = USCHED_CLOSED;
	p->p_slot = 0;
	s->s_calls.s_next = next_traced;
	SET(s->s_calls.s_pick, &pick_traced);   /* ustack_init() looks at it */
	s->s_calls.s_ready = ready_traced;
	if (s->s_linger)
		s->s_linger = linger_traced;
	g->g_hook.h_event = trace_told;
	usched__set_hook(s, &g->g_hook);
}

static void end_ring(struct utrace_ring *g)
{
	struct usched *s = &g->g_proc->p_sched;

	if (!g->g_open)
		open_slot(g);
	SET(g->g_mode, 0);
	s->s_calls.s_next = g->g_calls.s_next;
	SET(s->s_calls.s_pick, g->g_calls.s_pick);
	s->s_calls.s_ready = g->g_calls.s_ready;
	s->s_linger = g->g_linger;
	usched__drop_hook(s, &g->g_hook);
	__atomic_fetch_sub(&utrace__control.c_users, 1, __ATOMIC_ACQ_REL);
}

/* A mode. */
static unsigned wanted(unsigned *size_log)
{
	const struct utrace_control *c = &utrace__control;
	unsigned asked = GET(c->c_asked), wish = GET(c->c_wish), mode = 0;

	*size_log = asked > wish ? asked : wish;
	if (*size_log || GET(c->c_semaphore))
		mode |= TRACES;
	if (*size_log == 0)
		*size_log = LOG_DEFAULT;
	if (*size_log < LOG_MIN)
		*size_log = LOG_MIN;
	if (*size_log > LOG_MAX)
		*size_log = LOG_MAX;
	if (GET(c->c_keep))
		mode |= KEEPS;
	return mode;
}

static void change_mode(struct utrace_ring *g, unsigned mode)
{
	unsigned before = g->g_mode;
	struct utrace_control *c = &utrace__control;

	if (!before) {
		pair(g, 0);
		pair(g, 1);
		if (__atomic_fetch_add(&c->c_users, 1, __ATOMIC_ACQ_REL) == 0)
			SET(c->c_epoch, when_ticks());
	}
	g->g_time = when_ticks();
	if (before & TRACES && !(mode & TRACES))
		put_event(g, UTRACE_OFF, 0, 0, 0, 0);
	SET(g->g_mode, mode);
	if (!before)
		begin_ring(g);
	if (mode & TRACES && !(before & TRACES)) {
		g->g_began = g->g_time;
		g->g_known = false;
		SET(g->g_begin, g->g_count);
		put_event(g, UTRACE_ON, 0, 0, (uintptr_t)when_now(), 0);
	}
	if (!mode)
		end_ring(g);
}

/* On the native thread of `p', in s_next: begins or ends. */
static void look_at_wish(struct uproc *p)
{
	unsigned size_log, mode = wanted(&size_log);
	struct utrace_ring *g = LOOK_AT(p->p_ring);

	if (mode && (!g || mode & ~g->g_mode))
		g = prepare_rings(p, mode, size_log);
	if (!g)
		return;                         /* no memory: again at the next look */
	g->g_proc = p;
	if (mode != g->g_mode)
		change_mode(g, mode);
	if (g->g_mode)
		pair(g, 3 - g->g_last);
}

/* The processor has ended. */
static void free_ring(struct uproc *p)
{
	struct utrace_ring *g = p->p_ring;

	if (g->g_mode)
		end_ring(g);
	if (g->g_events)
		munmap(g->g_events, (size_t)g->g_size * sizeof *g->g_events);
	munmap(g, sizeof *g);
}

int utrace_start(size_t events)
{
	unsigned size_log = events ? LOG_MIN : LOG_DEFAULT;

	if (events > UTRACE_EVENTS_MAX)
		return -EINVAL;
	while (events > (size_t)1 << size_log)
		size_log++;
	SET(utrace__control.c_wish, size_log);
	return 0;
}

int utrace_stop(void)
{
	SET(utrace__control.c_wish, 0);
	return 0;
}

int utrace_keep(int on)
{
	static const struct timespec settle = { 0, SETTLE };
	struct utrace_pair a, b;
	struct utrace_kept *table = NULL, *none = NULL;

	if (on && !LOOK_AT(utrace__control.c_table)) {
		table = (struct utrace_kept *)map_zeros(UTRACE_KEPT * sizeof *table);
		if (!table)
			return -ENOMEM;
		if (!REPLACE(utrace__control.c_table, none, table))
			munmap(table, UTRACE_KEPT * sizeof *table);
	}
	if (on && !GET(utrace__control.c_scale)) {
		a = (struct utrace_pair){ when_ticks(), when_now() };
		nanosleep(&settle, NULL);
		b = (struct utrace_pair){ when_ticks(), when_now() };
		SET(utrace__control.c_scale, (uint64_t)((double)(b.p_ns - a.p_ns)
			/ (double)(b.p_ticks - a.p_ticks + 1) * 4294967296.0));
	}
	return __atomic_exchange_n(&utrace__control.c_keep, on != 0, __ATOMIC_ACQ_REL)
		!= 0;
}

/* ---- What processors know of it ---- */

static const struct usched__trace_layout layout = {
	.t_control = { &utrace__control },
	.t_name = {
		MEMBER(utrace_control, c_asked), MEMBER(utrace_control, c_keep),
		MEMBER(utrace_control, c_table), MEMBER(utrace_control, c_native),
		MEMBER(utrace_control, c_epoch), MEMBER(utrace_control, c_scale),
		SIZE(utrace_kept), NUMBER(UTRACE_KEPT), NUMBER(UTRACE_PROBES),
		MEMBER(utrace_kept, k_thread), MEMBER(utrace_kept, k_started),
		MEMBER(utrace_kept, k_since), MEMBER(utrace_kept, k_where),
		SIZE(utrace_ring),
		MEMBER(utrace_ring, g_count), MEMBER(utrace_ring, g_events),
		MEMBER(utrace_ring, g_size), MEMBER(utrace_ring, g_begin),
		MEMBER(utrace_ring, g_mode), MEMBER(utrace_ring, g_last),
		MEMBER(utrace_ring, g_pairs), SIZE(utrace_event),
	},
};

static const struct uproc_observer trace_observer = {
	.o_wanted = (const uint32_t *)(const void *)&utrace__control,
	.o_look   = look_at_wish,
	.o_post   = post,
	.o_free   = free_ring,
	.o_layout = &layout,
};

/* A reader from outside, or a probe, may want a trace in a program that calls nothing. */
__attribute__((constructor)) static void offer_trace(void)
{
	uproc__observe(&trace_observer);
}
