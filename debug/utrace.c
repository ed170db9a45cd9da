/* SPDX-License-Identifier: MIT */
/*
 * utrace.c: traces of processors, for `uthreads trace': which thread ran where and when,
 * what it waited for, and what woke it. trace.h has the events, and rules for readers.
 *
 * A processor reads tc_asked at its looks. To begin a trace, the processor puts a hook
 * into its dispatcher, and replaces the scheduler's s_next, s_pick, s_ready and s_linger
 * by functions of this file. The dispatcher then tells the hook of all switches. So a
 * trace that is off costs nothing.
 *
 * An inlined ustack_wake() puts a thread into an open slot without a call, so no event
 * would tell of the wake. Therefore during a trace the slot is closed while threads run,
 * and rg_slot has the thread that would be in the slot. While s_next or another call-back
 * of the scheduler runs, the slot is open and rg_open is 1:
 *
 *	          rg_open    s_slot                  p_slot    rg_slot
 *	threads   0         USCHED_CLOSED           0         a thread, or NULL
 *	s_next    1         a thread, or NULL       rg_slots   NULL
 *
 * Only the native thread of a processor writes the processor's ring, and never waits.
 * Native threads that send mail share one ring, under a lock.
 *
 * With USCHED_RECORD in the environment processors trace from the start. Then a record,
 * which is the rings as a text, is written upon a stall, a dump by signal, or a call.
 *
 * No other file needs this file, so a linker leaves it out of a static program, unless
 * the program is linked with -Wl,-u,utrace__control.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* MAP_ANONYMOUS, process_vm_readv() in snap.h */
#endif
#include "trace.h"

#include <pthread.h>
#include <sys/mman.h>

#include "../arch/arch.h"
#include "../src/core/core.h"
#include "../src/core/direction.h"
#include "../src/proc/layout.h"
#include "../src/base/code.h"
#include "../src/base/lock.h"
#include "../src/base/when.h"
#include "../src/core/outside.h"
#include "../src/proc/proc.h"
#include "snap.h"
#include "../uproc.h"
#include "../uwait.h"

enum {
	LOG_MIN = 6,                    /* log2 of the fewest events of a ring */
	LOG_MAX = 26,                   /* log2 of the most events of a ring */
	PACE    = 1 << 20,
	PACE_MAX = 1000,                /* ns a tick, at most */
	PERIOD  = 10000000,             /* ns for which a pace is good */
	READ_IN = 1 << 14,              /* ticks that a read of the clock may take */
	RECORD_LOG = 18,                /* log2 of the events of a ring for records */
	RECORD_BYTES = 64 << 10,        /* bytes written at a time */
	NAMED   = 4096,                 /* addresses that are written once */
	MARGIN  = 8,                    /* events that may be half written: trace.h */
};

#define LOOK_AT(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)

struct utrace_control utrace__control = { .tc_lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Rings ---- */

/* Returns memory of zeros, or NULL if there is none. */
static void *map_zeros(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/*
 * Returns the ring at *at. If the ring is missing, makes it, or returns NULL if there is
 * no memory.
 * Only one native thread at a time may make a ring, while others may read *at.
 */
static struct utrace_ring *make_ring(struct utrace_ring **at, unsigned size_log)
{
	struct utrace_ring *g = *at;
	void *events;

	if (!g) {
		g = (struct utrace_ring *)map_zeros(sizeof *g);
		if (!g)
			return NULL;
		__atomic_store_n(at, g, __ATOMIC_RELEASE);
	}
	if (!g->rg_events) {
		events = map_zeros(sizeof(struct utrace_event) << size_log);
		if (!events)
			return NULL;
		SET(g->rg_size, (uint64_t)1 << size_log);
		__atomic_store_n(&g->rg_events, (struct utrace_event *)events,
				 __ATOMIC_RELEASE);
	}
	return g;
}

/* Reads the clock, and finds the pace of the ticks since the clock was read before. Does
   nothing if the kernel has interrupted the read, since the pace would then be wrong. */
static void read_clock(struct utrace_ring *g)
{
	uint64_t before = usched__ticks(), now = (uint64_t)when_now();
	uint64_t after = usched__ticks();
	uint64_t ns = now - g->rg_read, ticks = after - g->rg_ticks;

	if (SIMULATED || after == before || after - before > READ_IN)
		return;
	if (g->rg_read && ns < UINT64_MAX / PACE && ns / PACE_MAX < ticks)
		g->rg_pace = ns * PACE / ticks;
	else
		g->rg_pace = 0;
	g->rg_read = now;
	g->rg_ticks = after;
}

/* Sets rg_time. Ticks are taken only for a time in which a product cannot overflow. */
static void note_time(struct utrace_ring *g)
{
	uint64_t ticks = usched__ticks() - g->rg_ticks, now;

	if (g->rg_pace && ticks <= UINT32_MAX)
		now = g->rg_read + ticks * g->rg_pace / PACE;
	else
		now = (uint64_t)when_now();
	if (now > g->rg_time)
		g->rg_time = now;
}

/* Sets rg_time, unless neither a call of s_next nor a sleep has begun since that was set
   here. If a thread has run since, `again' must be true. */
static void note_once(struct utrace_ring *g, bool again)
{
	uint64_t parked = GET(g->rg_proc->p_parked);

	if (!again && g->rg_parked == parked)
		return;
	note_time(g);
	g->rg_parked = parked;
}

static inline void put_event(struct utrace_ring *g, enum utrace_kind kind,
			     unsigned why, uintptr_t thread, uintptr_t other,
			     uint32_t number)
{
	struct utrace_event *v = &g->rg_events[g->rg_count & (g->rg_size - 1)];

	SET(v->v_time, g->rg_time);
	SET(v->v_thread, thread);
	SET(v->v_other, other);
	SET(v->v_what, (uint64_t)kind | (uint64_t)why << UTRACE_WHY_AT
	    | (uint64_t)number << UTRACE_NUMBER_AT);
	__atomic_store_n(&g->rg_count, g->rg_count + 1, __ATOMIC_RELEASE);
}

/* ---- Events ---- */

/* Writes that `u' runs, if no event says so yet. That is so if the trace has begun in the
   very call of s_next that chose `u'. */
static void know(struct utrace_ring *g, const struct ustack *u)
{
	uint64_t now = g->rg_time;

	if (g->rg_known)
		return;
	g->rg_time = g->rg_began;
	g->rg_known = true;
	put_event(g, UTRACE_SWITCH, 0, (uintptr_t)u, 0, 0);
	g->rg_time = now;
}

static void trace_wake(struct utrace_ring *g, const struct ustack *u,
		       const struct ustack *by, enum utrace_why why)
{
	if (by)
		know(g, by);
	put_event(g, UTRACE_WAKE, why, (uintptr_t)u, (uintptr_t)by, 0);
}

static enum utrace_why why_blocks(struct utrace_ring *g, const struct ustack *u)
{
	const struct uproc *p = g->rg_proc;
	uint64_t preempted = p->p_sched.s_stats.st_preempted;

	if (p->p_intent == UPROC_YIELD) {
		bool over = preempted != g->rg_preempted;

		g->rg_preempted = preempted;
		return over ? UTRACE_PREEMPTED : UTRACE_YIELDS;
	}
	return u->u_tokens < UPROC_WAITING ? UTRACE_JOINS : UTRACE_WAITS;
}

static void trace_block(struct utrace_ring *g, const struct ustack *u)
{
	enum utrace_why why = why_blocks(g, u);
	const struct uwaiter *w = why == UTRACE_WAITS ? uwait__attached(u) : NULL;
	uintptr_t object = 0, kind = 0;

	know(g, u);
	if (w && !w->w_joins && GET(w->w_state)) {
		why = UTRACE_GRANT;
		object = w->w_kind ? (uintptr_t)w->w_object : 0;
		kind = w->w_kind ? (uintptr_t)w->w_kind - (uintptr_t)&usched__layout : 0;
		if (kind != (uintptr_t)(intptr_t)(int32_t)kind)
			kind = 0;       /* too far from usched__layout for 32 bits */
	}
	put_event(g, UTRACE_BLOCK, why, (uintptr_t)u, object, (uint32_t)kind);
}

static void trace_run(struct utrace_ring *g, const struct ustack *u,
		      const struct ustack *evicted)
{
	const struct usched_stack *k = u->u_stack;
	size_t loaded = 0;

	if (k == &g->rg_proc->p_sched.s_new)
		put_event(g, UTRACE_START, 0, (uintptr_t)u, (uintptr_t)ustack_func(u), 0);
	else if (k->k_resident != u)
		loaded = stack_depth(k->k_bottom, usched__top(u));
	g->rg_known = true;
	put_event(g, UTRACE_SWITCH, 0, (uintptr_t)u, (uintptr_t)evicted,
		  (uint32_t)loaded);
}

/* Writes that mail is about to be sent to `t'. */
static void post(const struct uproc_thread *t, unsigned mail)
{
	struct uproc *self = uproc_self();
	struct utrace_ring *g = LOOK_AT(*(self ? &self->p_ring
					  : &utrace__control.tc_mail));
	const struct ustack *by;

	if (self && g && g->rg_on) {
		by = self->p_sched.s_current;
		know(g, by);
		note_time(g);
		put_event(g, UTRACE_POST, mail < UPROC_MAIL_TOKEN ? UTRACE_BY_EVENT
			  : UTRACE_BY_THREAD, (uintptr_t)t, (uintptr_t)by, mail);
	} else if (!self && g && LOOK_AT(g->rg_events)) {
		lock(&utrace__control.tc_lock);
		note_time(g);
		put_event(g, UTRACE_POST, UTRACE_BY_MAIL, (uintptr_t)t,
			  (uintptr_t)pthread_self(), mail);
		unlock(&utrace__control.tc_lock);
	}
}

/* ---- The slot ---- */

static struct utrace_ring *ring_of(struct usched *s)
{
	return GET(uproc_from(s)->p_ring);
}

static void open_slot(struct utrace_ring *g)
{
	struct uproc *p = g->rg_proc;
	struct usched *s = &p->p_sched;

	s->s_slot = g->rg_slot ? g->rg_slot : USCHED_CLOSED;
	p->p_slot = g->rg_slots;
	if (!p->p_polls)
		uproc__open(p);
	g->rg_slot = NULL;
	g->rg_open = true;
}

static void close_slot(struct utrace_ring *g)
{
	struct usched *s = &g->rg_proc->p_sched;

	if ((uintptr_t)s->s_slot > (uintptr_t)USCHED_CLOSED)
		g->rg_slot = s->s_slot;
	s->s_slot = USCHED_CLOSED;
	g->rg_proc->p_slot = 0;
	g->rg_open = false;
}

/* Calls the scheduler's s_next. The trace may end in that call, and even begin again. */
static struct ustack *next_traced(struct usched *s)
{
	struct utrace_ring *g = ring_of(s);
	struct ustack *u;

	g->rg_parked = UINT64_MAX;
	open_slot(g);
	u = g->rg_calls.s_next(s);
	if (g->rg_on && g->rg_open)
		close_slot(g);
	return u;
}

static struct ustack *pick_traced(struct usched *s, struct ustack *self)
{
	struct utrace_ring *g = ring_of(s);
	struct ustack *u;

	open_slot(g);
	u = g->rg_calls.s_pick(s, self);
	close_slot(g);
	return u;
}

static void ready_traced(struct usched *s, struct ustack *u)
{
	struct utrace_ring *g = ring_of(s);
	struct uproc *p = g->rg_proc;
	bool polls = p->p_polls;

	note_once(g, !g->rg_open);
	trace_wake(g, u, polls ? NULL : s->s_current,
		   polls ? UTRACE_BY_EVENT : UTRACE_BY_THREAD);
	if (g->rg_open) {
		g->rg_calls.s_ready(s, u);
	} else if (g->rg_slots && !polls && !g->rg_slot) {
		g->rg_slot = u;
	} else {
		open_slot(g);
		g->rg_calls.s_ready(s, u);
		close_slot(g);
	}
}

static int linger_traced(struct usched *s, const uint8_t *word, uint8_t value)
{
	struct utrace_ring *g = ring_of(s);

	return g->rg_slot ? 0 : g->rg_linger(s, word, value);
}

/* ---- On and off ---- */

static void trace_told(struct usched_hook *h, enum usched_event event, struct ustack *u,
		       struct ustack *other)
{
	struct utrace_ring *g = (struct utrace_ring *)(void *)h;

	note_once(g, event <= USCHED_BLOCKS || event == USCHED_ENDS
		     || event == USCHED_CREATES);
	switch (event) {
	case USCHED_HANDS_OVER:
		trace_block(g, u);
		trace_run(g, other, NULL);
		break;
	case USCHED_BLOCKS:
		trace_block(g, u);
		break;
	case USCHED_RUNS:
		trace_run(g, u, other);
		break;
	case USCHED_ENDS:
		if (u == g->rg_proc->p_sched.s_current)
			know(g, u);
		put_event(g, UTRACE_END, 0, (uintptr_t)u, 0, 0);
		break;
	case USCHED_CREATES:
		know(g, other);
		put_event(g, UTRACE_CREATE, 0, (uintptr_t)u, (uintptr_t)other, 0);
		break;
	case USCHED_ARRIVES:
		put_event(g, UTRACE_MOVE, 0, (uintptr_t)u, 0, 0);
		break;
	default:
		trace_wake(g, u, NULL, event == USCHED_BY_MAIL ? UTRACE_BY_MAIL
							       : UTRACE_BY_JOIN);
	}
}

static void begin_ring(struct utrace_ring *g)
{
	struct uproc *p = g->rg_proc;
	struct usched *s = &p->p_sched;

	note_time(g);
	read_clock(g);
	g->rg_began = g->rg_time;
	g->rg_known = false;
	SET(g->rg_begin, g->rg_count);
	SET(g->rg_on, 1);
	g->rg_calls = s->s_calls;
	g->rg_linger = s->s_linger;
	g->rg_preempted = s->s_stats.st_preempted;
	if ((uintptr_t)s->s_slot > (uintptr_t)USCHED_CLOSED)
		uproc_push(p, uproc_thread(s->s_slot));
	g->rg_slot = NULL;
	g->rg_slots = p->p_slot;
	g->rg_open = false;
	s->s_slot = USCHED_CLOSED;
	p->p_slot = 0;
	s->s_calls.s_next = next_traced;
	if (g->rg_slots)
		SET(s->s_calls.s_pick, &pick_traced);   /* ustack_init() reads s_pick */
	s->s_calls.s_ready = ready_traced;
	if (s->s_linger)
		s->s_linger = linger_traced;
	g->rg_hook.ho_event = trace_told;
	usched__set_hook(s, &g->rg_hook);
}

static void end_ring(struct utrace_ring *g)
{
	struct usched *s = &g->rg_proc->p_sched;

	note_time(g);
	put_event(g, UTRACE_OFF, 0, 0, 0, 0);
	if (!g->rg_open)
		open_slot(g);
	SET(g->rg_on, 0);
	s->s_calls.s_next = g->rg_calls.s_next;
	SET(s->s_calls.s_pick, g->rg_calls.s_pick);
	s->s_calls.s_ready = g->rg_calls.s_ready;
	s->s_linger = g->rg_linger;
	usched__drop_hook(s, &g->rg_hook);
}

/* Called in a look. If no event has come, the processor may have slept since it began. */
static void keep_time(struct utrace_ring *g)
{
	if (g->rg_time > g->rg_read + PERIOD)
		read_clock(g);
	if (!g->rg_known) {
		note_time(g);
		g->rg_began = g->rg_time;
	}
}

/* Begins or ends the trace of `p' as tc_asked says. Called on the native thread of `p',
   in s_next. If there is no memory for a ring, the next look tries again. */
static void look_at_wish(struct uproc *p)
{
	unsigned asked = GET(utrace__control.tc_asked);
	struct utrace_ring *g = LOOK_AT(p->p_ring);

	if (asked && !(g && g->rg_on)) {
		asked = asked < LOG_MIN ? LOG_MIN : asked > LOG_MAX ? LOG_MAX : asked;
		lock(&utrace__control.tc_lock);
		g = make_ring(&utrace__control.tc_mail, asked);
		unlock(&utrace__control.tc_lock);
		g = g ? make_ring(&p->p_ring, asked) : NULL;
		if (!g)
			return;
		g->rg_proc = p;
		begin_ring(g);
	} else if (!asked && g && g->rg_on) {
		end_ring(g);
	} else if (g && g->rg_on) {
		keep_time(g);
	}
}

/* Frees the ring of `p', which has ended. */
static void free_ring(struct uproc *p)
{
	struct utrace_ring *g = p->p_ring;

	if (g->rg_on)
		end_ring(g);
	if (g->rg_events)
		munmap(g->rg_events, (size_t)g->rg_size * sizeof *g->rg_events);
	munmap(g, sizeof *g);
}

static const struct usched__trace_layout layout = {
	.tl_control = { &utrace__control },
	.tl_name = {
		MEMBER(utrace_control, tc_asked), MEMBER(utrace_control, tc_usual),
		MEMBER(utrace_control, tc_mail),
		SIZE(utrace_ring),
		MEMBER(utrace_ring, rg_count), MEMBER(utrace_ring, rg_events),
		MEMBER(utrace_ring, rg_size), MEMBER(utrace_ring, rg_begin),
		MEMBER(utrace_ring, rg_on), SIZE(utrace_event),
	},
};

/* ---- Records ---- */

struct record {
	struct text rc_text;
	uintptr_t   rc_threads[NAMED], rc_functions[NAMED];       /* those written last */
	char        rc_bytes[RECORD_BYTES];
};

/* Puts an address among those kept. Returns whether it was not there. */
static bool is_news(uintptr_t *kept, uintptr_t address)
{
	uintptr_t *at = &kept[address / 16 % NAMED];
	bool news = *at != address;

	*at = address;
	return news;
}

static void put_function(struct record *c, uintptr_t function)
{
	if (!is_news(c->rc_functions, function))
		return;
	text_put(&c->rc_text, "function ");
	code_add(&c->rc_text, function);
	text_put(&c->rc_text, "\n");
}

/* If `u' has ended, the line may be about the next thread of that record. */
static void record_thread(struct record *c, const struct ustack *u)
{
	uintptr_t function = function_of(u);
	char text[USTACK_NAME_MAX];

	put_function(c, function);
	uproc__name(u, text, sizeof text);
	text_add(&c->rc_text, "thread %p %p %s\n", (const void *)u,
		 (const void *)function, text);
}

static void put_line(struct record *c, const struct utrace_event *v)
{
	uint32_t number = (uint32_t)(v->v_what >> UTRACE_NUMBER_AT);
	unsigned kind = v->v_what & 0xff, why = v->v_what >> UTRACE_WHY_AT & 0xff;
	const struct uwait_kind *k = why == UTRACE_GRANT && number
		? (const struct uwait_kind *)((uintptr_t)&usched__layout
					      + (uintptr_t)(int32_t)number)
		: NULL;

	/* Other kinds may name a thread of a scheduler that is gone. */
	if (kind == UTRACE_SWITCH && is_news(c->rc_threads, (uintptr_t)v->v_thread))
		record_thread(c, (const struct ustack *)(uintptr_t)v->v_thread);
	if (kind == UTRACE_START)
		put_function(c, (uintptr_t)v->v_other);
	text_number(&c->rc_text, v->v_time);
	text_add(&c->rc_text, " %u %u %p %p %u %u %s\n", kind, why,
		 (const void *)(uintptr_t)v->v_thread,
		 (const void *)(uintptr_t)v->v_other, (unsigned)number,
		 k && k->kd_number, k ? k->kd_name : "");
}

/* Writes the events of a ring, except those that the processor overwrites meanwhile. Then
   the end of the trace, up to which the thread runs that is running now. */
static void put_ring(struct record *c, const struct utrace_ring *g)
{
	struct utrace_event off = { .v_what = UTRACE_OFF };
	uint64_t end, n;

	if (!g || !LOOK_AT(g->rg_events))
		return;
	end = LOOK_AT(g->rg_count);
	n = GET(g->rg_begin);
	if (end - n > g->rg_size)
		n = end - g->rg_size;
	for (; n < end; n++) {
		const struct utrace_event *v = &g->rg_events[n & (g->rg_size - 1)];
		const struct utrace_event e = { GET(v->v_time), GET(v->v_thread),
						GET(v->v_other), GET(v->v_what) };

		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (GET(g->rg_count) + MARGIN <= n + g->rg_size)
			put_line(c, &e);
	}
	off.v_time = (uint64_t)when_now();
	put_line(c, &off);
}

static int write_record(int fd)
{
	struct record *c = (struct record *)map_zeros(sizeof *c);
	struct uprocs *r;
	uint32_t number;
	int rc;

	if (!c)
		return -ENOMEM;
	c->rc_text = (struct text)TEXT(c->rc_bytes, fd);
	c->rc_text.t_wait = -1;
	text_put(&c->rc_text, "usched record 1\n");
	put_ring(c, LOOK_AT(utrace__control.tc_mail));
	for (r = uprocs__pin(UINT32_MAX); r; r = uprocs__pin(number)) {
		number = r->r_number;
		for (unsigned i = 0; i < r->r_conf.c_processors; i++) {
			text_add(&c->rc_text, "processor %u.%u\n", number, i);
			put_ring(c, LOOK_AT(uproc_at(r, i)->p_ring));
		}
		uprocs__unpin(r);
	}
	text_flush(&c->rc_text);
	rc = c->rc_text.t_rc;
	munmap(c, sizeof *c);
	return rc;
}

/* Writes to `fd', or if that is -1 to the file of USCHED_RECORD. */
static int record(int fd)
{
	char path[CODE_PATH];
	struct text t = { .t_bytes = path, .t_room = sizeof path - 1, .t_fd = -1 };
	int rc;

	if (!GET(utrace__control.tc_asked) || (fd < 0 && !utrace__control.tc_path))
		return -ENOTSUP;
	if (fd >= 0)
		return write_record(fd);
	text_add(&t, "%s.%u", utrace__control.tc_path, (unsigned)getpid());
	path[t.t_used] = '\0';
	fd = outside_file(path, O_TRUNC);
	rc = fd < 0 ? -errno : write_record(fd);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- The start ---- */

/* The child of a fork, in which no other native thread has the lock. */
static void forget_lock(void)
{
	utrace__control.tc_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Registers the observer at the start, so that any program can be asked for a trace. */
__attribute__((constructor)) static void offer_trace(void)
{
	utrace__control.tc_path = outside_setting("USCHED_RECORD");
	if (utrace__control.tc_path)
		utrace__control.tc_asked = utrace__control.tc_usual = RECORD_LOG;
	pthread_atfork(NULL, NULL, forget_lock);
	uproc__observer.po_record = record;
	uproc__observer.po_look = look_at_wish;
	uproc__observer.po_post = post;
	uproc__observer.po_free = free_ring;
	uproc__observer.po_layout = &layout;
	uproc__observer.po_wanted = &utrace__control.tc_asked;
}
