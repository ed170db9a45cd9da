/* SPDX-License-Identifier: MIT */
/*
 * uproc_report.c: reports. That of a deadlock runs while every processor is parked, so
 * threads do not move.
 *
 *	usched: deadlock: threads that wait and that nothing can wake: 3
 *	usched:   thread A, function F, waits for mutex M, held by thread B, at W
 *	usched:   thread B "name", function F, joins thread A, at W
 *	usched:   thread C, function F, waits for a wake, at W
 *	usched:   cycle of 2 threads: A, B
 *
 * Each thread of the cycle waits for the next, and the last for the first. A holder may
 * be an outsider: a native thread, or a thread of another scheduler. Functions and places
 * are addresses for addr2line: in memory, and then in the file, with the function if its
 * symbol table has that. The place is the last byte of the call.
 *
 * Joins fail one after the other, and each has a report. Of what the last one has said,
 * the next says no more than
 *
 *	usched:   and 2 as before
 *
 * The report of threads that uprocs_destroy() leaves has the same lines, and more states.
 * Processors stand still meanwhile, at a look; of the threads of one that does not give
 * way only what runs is known:
 *
 *	usched: uprocs_destroy: threads that are left at the deadline: 4, holds: 0
 *	usched:   thread D, function F, is ready
 *	usched:   processor 1 does not give way: of 2 threads it runs thread E, function F
 *
 * In builds with USCHED_CHECK, that of changed control words, by the thread itself:
 *
 *	usched: thread A "name", function F, has changed MXCSR from 0x1f80 to 0x5f80, ...
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* Dl_info */
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../uwait.h"
#include "../base/code.h"
#include "proc.h"
#include "../base/sim.h"
#include "../base/when.h"
#include "../base/where.h"

enum {
	REPORT_MAX = 20,                /* threads, and cycles, that are listed */
	CYCLE_MAX  = 8,                 /* threads of a cycle */
	LINE       = 640,               /* characters in a line; the rest is cut off */
	WHO        = CODE + 96,         /* characters of a thread */
	GIVE_WAY   = 100000000,         /* ns that a processor has for a look, */
	LOOK_AGAIN = 100000,            /* looked at so often */
};

_Static_assert(UPROC_SAID == 2 * REPORT_MAX, "a place for each line");

/* The constants of the hash FNV-1a. */
static const uint64_t FNV_FIRST = UINT64_C(0xcbf29ce484222325);
static const uint64_t FNV_PRIME = UINT64_C(0x100000001b3);

/* A thread, and the holder of what it waits for. */
struct edge {
	uintptr_t e_from;
	uintptr_t e_to;
	size_t    e_walk;               /* the last walk that passed; 0: no walk */
};

/* The result of a walk over the records. */
struct report {
	struct uprocs       *r_procs;
	bool                 r_left;    /* of all threads, not of those that are stuck */
	unsigned             r_waiting; /* threads */
	unsigned             r_joining; /* of these, in a join */
	unsigned             r_before;  /* of those listed, as in the last report */
	uint64_t             r_said[UPROC_SAID];        /* as in struct uprocs */
	size_t               r_lines;   /* of these */
	struct uproc_thread *r_told;    /* joining threads to be told, by t_next */
	struct edge         *r_edges;   /* sorted; NULL: there is no memory for them */
	size_t               r_count;
	size_t               r_room;
	uintptr_t            r_sought;
	const struct uproc_thread *r_found;
};

const char *uproc__quote_name(const struct ustack *u, char text[USTACK_NAME_MAX + 4])
{
	char name[USTACK_NAME_MAX];

	text[0] = '\0';
	if (ustack_get_name(u, name, sizeof name) == 0)
		snprintf(text, USTACK_NAME_MAX + 4, " \"%s\"", name);
	return text;
}

static const char *introduce(const struct ustack *u, char text[WHO])
{
	char function[CODE], name[USTACK_NAME_MAX + 4];

	/* ISO C lets a function's address go through an integer only. */
	code(function, (const void *)(uintptr_t)ustack_func(u));
	snprintf(text, WHO, "thread %p%s, function %s", (const void *)u,
		 uproc__quote_name(u, name), function);
	return text;
}

void uproc__print(const struct uprocs *r, const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (r->r_conf.c_log)
		r->r_conf.c_log(line);
	else
		fprintf(stderr, "%s\n", line);
}

/* Prints a line, unless the last report has the line. False: nothing was printed. */
__attribute__((format(printf, 2, 3)))
static bool tell(struct report *report, const char *format, ...)
{
	uint64_t hash = FNV_FIRST;
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	for (const char *at = line; *at; at++)
		hash = (hash ^ (unsigned char)*at) * FNV_PRIME;
	report->r_said[report->r_lines++] = hash;
	for (size_t i = 0; i < UPROC_SAID; i++)
		if (report->r_procs->r_said[i] == hash)
			return false;
	uproc__print(report->r_procs, "%s", line);
	return true;
}

static bool joins(const struct uproc_thread *t)
{
	int32_t tokens = t->t_stack.u_tokens;

	return t->t_stack.u_func && tokens >= UPROC_JOINING && tokens < UPROC_WAITING
		&& !(tokens & UPROC_NEWS);
}

static bool waits(const struct uproc_thread *t)
{
	return !(SIMULATED && sim__is_dead(t))
		&& (joins(t)
		    || (t->t_stack.u_func && t->t_stack.u_tokens == UPROC_WAITING));
}

static bool has_mail(const struct uproc_thread *t)
{
	return LOAD(t->t_stack.u_mail) & ~(uint32_t)UPROC_MAIL_NONE;
}

/* Has the attachment describe the wait; without one the thread waits for a wake. */
static void ask_attachment(const struct uproc_thread *t, struct ustack_why *why)
{
	struct ustack_attachment *l = t->t_stack.u_attached
		? t->t_stack.u_attachment : NULL;

	*why = (struct ustack_why){ .y_kind = "a wake", .y_how = "" };
	if (l && l->a_ops->a_describe)
		l->a_ops->a_describe(l, why);
}

/* The last step looks for mail, as a grant sends mail before the wait ends. */
enum uproc_state uproc__state(const struct uproc_thread *t, struct ustack_why *why)
{
	const struct ustack *u = &t->t_stack;

	if (u->u_stack == &uproc_of(u)->p_sched.s_new)
		return UPROC_IS_NEW;
	if (!waits(t))
		return UPROC_IS_READY;
	ask_attachment(t, why);
	if (why->y_woken || has_mail(t))
		return UPROC_IS_WOKEN;
	return joins(t) ? UPROC_JOINS : UPROC_WAITS;
}

static const void *find_join(const struct uproc_thread *t)
{
	const struct uproc *p = uproc_of(&t->t_stack);

	for (size_t i = 1; i < p->p_join_room; i++)
		if (p->p_joins[i].j_thread == t)
			return p->p_joins[i].j_where;
	return NULL;
}

static void explain(const struct uproc_thread *t, struct ustack_why *why)
{
	ask_attachment(t, why);
	if (!why->y_where && joins(t))
		why->y_where = find_join(t);
	if (!why->y_where)
		why->y_where = usched__where(&t->t_stack);
}

/* Whether the report has a line for `t'. */
static bool belongs(const struct report *report, const struct uproc_thread *t)
{
	const struct uproc *p;

	if (!report->r_left)
		return waits(t);
	if (!(GET(t->t_stack.u_mail) & UPROC_MAIL_LIVE))
		return false;
	p = uproc_from(ustack_sched(&t->t_stack));
	return p->p_still && uproc__has(p, t);
}

static void count_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = (const struct uproc_thread *)record;
	struct report *report = (struct report *)arg;

	if (belongs(report, t)) {
		report->r_waiting++;
		report->r_joining += joins(t);
		report->r_room += joins(t) || t->t_stack.u_attached;
	}
}

/*
 * Adds edges from the joiner to the thread, and from the thread to the holder of what the
 * thread waits for.
 */
static void add_edge(void *record, void *arg)
{
	struct uproc_thread *t = (struct uproc_thread *)record;
	struct uproc_thread *joiner = LOAD(uproc_rest(t)->t_joiner);
	struct report *report = (struct report *)arg;
	struct ustack_why why;

	/* joins() is false for the other marks. */
	if (t->t_stack.u_func && joiner && joiner != OPEN && joins(joiner)
	    && report->r_count < report->r_room)
		report->r_edges[report->r_count++] =
			(struct edge){ (uintptr_t)joiner, (uintptr_t)t, 0 };
	if (!belongs(report, t) || !waits(t) || joins(t))
		return;
	explain(t, &why);
	if (why.y_holder && report->r_count < report->r_room)
		report->r_edges[report->r_count++] =
			(struct edge){ (uintptr_t)t, why.y_holder, 0 };
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *one = (const struct edge *)a, *other = (const struct edge *)b;

	return (one->e_from > other->e_from) - (one->e_from < other->e_from);
}

static struct edge *find_edge(const struct report *report, uintptr_t from)
{
	const struct edge key = { .e_from = from };

	if (report->r_count == 0)
		return NULL;
	return (struct edge *)bsearch(&key, report->r_edges, report->r_count, sizeof key,
				      compare_edges);
}

static const char *in_words(const struct ustack_why *why, char text[CODE])
{
	char object[32] = "";

	if (why->y_number)
		snprintf(object, sizeof object, " %" PRIdPTR, (intptr_t)why->y_object);
	else if (why->y_object)
		snprintf(object, sizeof object, " %p", why->y_object);
	snprintf(text, CODE, "%s%s%s%s", why->y_kind, object, why->y_how, why->y_more);
	return text;
}

static void match_thread(void *record, void *arg)
{
	struct report *report = (struct report *)arg;

	if ((uintptr_t)record == report->r_sought)
		report->r_found = (const struct uproc_thread *)record;
}

static const char *holder(struct report *report, uintptr_t name, char text[CODE])
{
	text[0] = '\0';
	report->r_sought = name;
	report->r_found = NULL;
	if (name == 0)
		return text;
	uimage_pool_walk(&report->r_procs->r_images, match_thread, report);
	snprintf(text, CODE, ", held by %s 0x%" PRIxPTR "%s",
		 report->r_found ? "thread" : "an outsider,", name,
		 report->r_found && !report->r_found->t_stack.u_func
			 ? ", which has ended" : "");
	return text;
}

static void list_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = (const struct uproc_thread *)record;
	struct report *report = (struct report *)arg;
	const struct edge *e;
	struct ustack_why why;
	enum uproc_state state;
	char who[WHO], where[CODE], held[CODE], what[CODE];

	if (!belongs(report, t) || ++report->r_waiting > REPORT_MAX)
		return;
	state = report->r_left ? uproc__state(t, &why) : UPROC_WAITS;
	if (state >= UPROC_WAITS)
		explain(t, &why);
	else
		why = (struct ustack_why){ .y_kind = state ? "ready" : "new",
					   .y_how = "" };
	if (why.y_where)
		code(where, (const char *)why.y_where - 1);
	if (joins(t)) {
		e = find_edge(report, (uintptr_t)t);
		why.y_kind = "thread";
		why.y_object = e ? (const void *)e->e_to : NULL;
	}
	if (!tell(report, "usched:   %s, %s %s%s%s%s", introduce(&t->t_stack, who),
		  state < UPROC_WAITS ? "is" : joins(t) ? "joins" : "waits for",
		  in_words(&why, what), holder(report, why.y_holder, held),
		  why.y_where ? ", at " : "", why.y_where ? where : ""))
		report->r_before++;
}

/* Lists the cycle that `e' is a part of, from the lowest address on. */
static void list_cycle(struct report *report, const struct edge *e)
{
	const struct edge *first = e, *at;
	char text[LINE / 2] = "";
	unsigned count = 0;
	size_t n = 0;

	for (at = find_edge(report, e->e_to); at != e; at = find_edge(report, at->e_to))
		if (at->e_from < first->e_from)
			first = at;
	at = first;
	do {
		if (count++ < CYCLE_MAX)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s0x%" PRIxPTR,
					      count > 1 ? ", " : "", at->e_from);
		at = find_edge(report, at->e_to);
	} while (at != first);
	tell(report, "usched:   cycle of %u threads: %s%s", count, text,
	     count > CYCLE_MAX ? ", ..." : "");
}

/* Walks from each thread along the edges, until they end or meet an earlier walk. */
static void list_cycles(struct report *report)
{
	unsigned listed = 0;

	for (size_t i = 0; i < report->r_count && listed < REPORT_MAX; i++) {
		struct edge *e = &report->r_edges[i];

		for (; e && e->e_walk == 0; e = find_edge(report, e->e_to))
			e->e_walk = i + 1;
		if (!e || e->e_walk != i + 1)
			continue;
		list_cycle(report, e);
		listed++;
	}
}

/*
 * Sends mail to a thread that joins, and lists the thread if u_mail was empty. The pushes
 * to inboxes come after all mail: after the first push a processor runs, and records
 * change.
 */
static void mail_joiner(void *record, void *arg)
{
	struct uproc_thread *t = (struct uproc_thread *)record;
	struct report *report = (struct report *)arg;

	if (joins(t) && !(FETCH_OR(&t->t_stack.u_mail, UPROC_MAIL_DEADLOCK)
			   & ~(uint32_t)UPROC_MAIL_NONE)) {
		uproc_rest(t)->t_next = report->r_told;
		report->r_told = t;
	}
}

/* Prints the lines of threads, and of cycles. */
static void list_all(struct report *report)
{
	struct uprocs *r = report->r_procs;

	report->r_edges = (struct edge *)calloc(report->r_room, sizeof *report->r_edges);
	if (report->r_edges) {
		uimage_pool_walk(&r->r_images, add_edge, report);
		qsort(report->r_edges, report->r_count, sizeof *report->r_edges,
		      compare_edges);
	}
	report->r_waiting = 0;
	uimage_pool_walk(&r->r_images, list_stuck, report);
	if (report->r_before > 0)
		uproc__print(r, "usched:   and %u as before", report->r_before);
	if (report->r_waiting > REPORT_MAX)
		uproc__print(r, "usched:   and %u more", report->r_waiting - REPORT_MAX);
	list_cycles(report);
	free(report->r_edges);
	memcpy(r->r_said, report->r_said, sizeof r->r_said);
}

/*
 * Threads that join are told before native threads, since they can go on, and perhaps end
 * what native threads wait for.
 */
bool uproc__report_stuck(struct uprocs *r)
{
	struct report report = { .r_procs = r };
	struct uproc_thread *t, *next;

	uimage_pool_walk(&r->r_images, count_stuck, &report);
	uproc__print(r, "usched: deadlock: threads that wait and that nothing can wake: "
		     "%u", report.r_waiting);
	list_all(&report);
	uimage_pool_walk(&r->r_images, mail_joiner, &report);
	for (t = report.r_told; t; t = next) {
		next = uproc_rest(t)->t_next;
		uproc__push_inbox(uproc_of(&t->t_stack), t);
	}
	return report.r_joining > 0;
}

uint32_t uproc__threads(const struct uprocs *r)
{
	uint32_t count = 0;

	for (size_t i = 0; i < r->r_conf.c_processors; i++)
		count += uproc_count(uproc_at(r, i));
	return count;
}

/* No thread of `p' runs, until r_lock is free. */
static bool stands(const struct uproc *p)
{
	return uproc__is_driven(p->p_procs) || LOAD(p->p_inbox) == PARKED
		|| LOAD(p->p_stands);
}

/* Reports what `p' runs. `p' goes on, so the notes of the dispatcher may change. */
static void tell_busy(const struct uproc *p)
{
	const struct ustack *u = GET(p->p_sched.s_current);
	char who[WHO];

	uproc__print(p->p_procs, "usched:   processor %u does not give way: of %u "
		     "threads it runs %s", (unsigned)uproc__index(p),
		     (unsigned)uproc_count(p), u ? introduce(u, who) : "no thread");
}

void uproc__report_left(struct uprocs *r)
{
	const struct timespec pause = { .tv_nsec = LOOK_AGAIN };
	struct report report = { .r_procs = r, .r_left = true };
	int64_t end = when_now() + GIVE_WAY;
	struct uproc *p;

	SWAP(&r->r_looking, 1);
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		p = uproc_at(r, i);
		while (!(p->p_still = stands(p)) && when_now() < end)
			nanosleep(&pause, NULL);
	}
	uimage_pool_walk(&r->r_images, count_stuck, &report);
	uproc__print(r, "usched: uprocs_destroy: threads that are left at the "
		     "deadline: %u, holds: %u", (unsigned)uproc__threads(r), r->r_held);
	list_all(&report);
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		p = uproc_at(r, i);
		if (!p->p_still)
			tell_busy(p);
	}
	SWAP(&r->r_looking, 0);
}

#ifdef USCHED_CHECK
void uproc__introduce(const struct ustack *u)
{
	char who[WHO];

	fprintf(stderr, "%s", introduce(u, who));
}

void uproc__report_changed(const struct usched *s, const struct ustack *u)
{
	static const char *const half[] = { usched__control_low, usched__control_high };
	uint64_t words = usched__control();
	const char *between = "";

	usched__set_control(s->s_first);        /* nothing traps below */
	fprintf(stderr, "usched: ");
	uproc__introduce(u);
	fprintf(stderr, ", has changed ");
	for (int i = 0; i < 2; i++) {
		uint32_t was = (uint32_t)(s->s_first >> 32 * i);
		uint32_t is = (uint32_t)(words >> 32 * i);

		if (is == was)
			continue;
		fprintf(stderr, "%s%s from 0x%" PRIx32 " to 0x%" PRIx32, between, half[i],
			was, is);
		between = " and ";
	}
	fprintf(stderr, ": threads share that, see ustack_control()\n");
	abort();
}
#endif
