/* SPDX-License-Identifier: MIT */
/*
 * uproc_report.c: the report of a deadlock. Every processor is parked meanwhile, so
 * threads do not move.
 *
 *	usched: deadlock: threads that wait and that nothing can wake: 3
 *	usched:   thread A, function F, waits for mutex M, held by thread B, at W
 *	usched:   thread B "name", function F, joins thread A
 *	usched:   thread C, function F, waits for a wake, at W
 *
 * A holder may be an outsider: a native thread, or a thread of another scheduler.
 * Functions and places are addresses for addr2line: in memory, and then in the file, with
 * the function's name if the file's symbol table has that. The place is the last byte of
 * the call in which the thread waits.
 *
 * In builds with USCHED_CHECK this file also reports changed control words:
 *
 *	usched: thread A "name", function F, has changed MXCSR from 0x1f80 to 0x5f80, ...
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* for Dl_info */
#endif
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../uwait.h"
#include "../base/code.h"
#include "proc.h"
#include "../base/sim.h"
#include "../base/where.h"

enum {
	REPORT_MAX = 20,                /* threads that are listed */
	REPORT_LINE = 640,              /* characters in a line; the rest is cut off */
	WHO        = CODE + 96,         /* characters of a text of introduce() */
};

/* The result of walks over the records. */
struct report {
	struct uprocs       *rp_procs;
	unsigned             rp_waiting; /* threads that wait */
	unsigned             rp_joining; /* how many of these join a thread */
	struct uproc_thread *rp_told;   /* joiners to be told, linked by re_next */
	uintptr_t            rp_sought; /* what find_record() looks for */
	const struct uproc_thread *rp_found;    /* what find_record() found, or NULL */
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

	/* ISO C has no cast from a function's address to a pointer to data. */
	code(function, (const void *)(uintptr_t)ustack_func(u));
	snprintf(text, WHO, "thread %p%s, function %s", (const void *)u,
		 uproc__quote_name(u, name), function);
	return text;
}

void uproc__print(const struct uprocs *r, const char *format, ...)
{
	char line[REPORT_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (r->r_conf.c_log)
		r->r_conf.c_log(line);
	else
		fprintf(stderr, "%s\n", line);
}

static bool joins(const struct uproc_thread *t)
{
	int32_t tokens = t->th_stack.u_tokens;

	return t->th_stack.u_func && tokens >= UPROC_JOINING && tokens < UPROC_WAITING
		&& !(tokens & UPROC_NEWS);
}

static bool waits(const struct uproc_thread *t)
{
	return !(SIMULATED && sim__is_dead(t))
		&& (joins(t)
		    || (t->th_stack.u_func && t->th_stack.u_tokens == UPROC_WAITING));
}

/* Makes the attachment of `t' describe the wait. Without one the wait is for a wake. */
static void ask_attachment(const struct uproc_thread *t, struct ustack_why *why)
{
	struct ustack_attachment *l = t->th_stack.u_attached
		? t->th_stack.u_attachment : NULL;

	*why = (struct ustack_why){ .wy_kind = "a wake", .wy_how = "" };
	if (l && l->a_ops->ao_describe)
		l->a_ops->ao_describe(l, why);
}

/* Looks for mail last, since a grant sends mail before the wait ends. */
enum uproc_state uproc__state(const struct uproc_thread *t, struct ustack_why *why)
{
	const struct ustack *u = &t->th_stack;

	if (u->u_stack == &uproc_of(u)->p_sched.s_new)
		return UPROC_IS_NEW;
	if (!waits(t))
		return UPROC_IS_READY;
	ask_attachment(t, why);
	if (why->wy_woken || LOAD(u->u_mail) & ~(uint32_t)UPROC_MAIL_NONE)
		return UPROC_IS_WOKEN;
	return joins(t) ? UPROC_JOINS : UPROC_WAITS;
}

static void count_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = (const struct uproc_thread *)record;
	struct report *report = (struct report *)arg;

	report->rp_waiting += waits(t);
	report->rp_joining += joins(t);
}

static const char *in_words(const struct ustack_why *why, char text[CODE])
{
	char object[32] = "";

	if (why->wy_number)
		snprintf(object, sizeof object, " %" PRIdPTR, (intptr_t)why->wy_object);
	else if (why->wy_object)
		snprintf(object, sizeof object, " %p", why->wy_object);
	snprintf(text, CODE, "%s%s%s%s", why->wy_kind, object, why->wy_how, why->wy_more);
	return text;
}

static void match_thread(void *record, void *arg)
{
	struct report *report = (struct report *)arg;

	if ((uintptr_t)record == report->rp_sought)
		report->rp_found = (const struct uproc_thread *)record;
}

static void match_joined(void *record, void *arg)
{
	const struct uproc_thread *t = (const struct uproc_thread *)record;
	struct report *report = (struct report *)arg;

	if (t->th_stack.u_func
	    && (uintptr_t)LOAD(uproc_rest(t)->re_joiner) == report->rp_sought)
		report->rp_found = t;
}

/* Returns the record for which `match' sets rp_found; or NULL. */
static const struct uproc_thread *find_record(struct report *report,
					      void (*match)(void *record, void *arg),
					      uintptr_t sought)
{
	report->rp_sought = sought;
	report->rp_found = NULL;
	uimage_pool_walk(&report->rp_procs->r_images, match, report);
	return report->rp_found;
}

static const char *holder(struct report *report, uintptr_t name, char text[CODE])
{
	const struct uproc_thread *t;

	text[0] = '\0';
	if (name == 0)
		return text;
	t = find_record(report, match_thread, name);
	snprintf(text, CODE, ", held by %s 0x%" PRIxPTR "%s",
		 t ? "thread" : "an outsider,", name,
		 t && !t->th_stack.u_func ? ", which has ended" : "");
	return text;
}

static void list_stuck(void *record, void *arg)
{
	const struct uproc_thread *t = (const struct uproc_thread *)record;
	struct report *report = (struct report *)arg;
	struct ustack_why why;
	char who[WHO], where[CODE], held[CODE], what[CODE];

	if (!waits(t) || ++report->rp_waiting > REPORT_MAX)
		return;
	ask_attachment(t, &why);
	if (joins(t)) {
		why.wy_kind = "thread";
		why.wy_object = find_record(report, match_joined, (uintptr_t)t);
		why.wy_where = NULL;            /* the library does not note the place */
	} else if (!why.wy_where) {
		why.wy_where = usched__where(&t->th_stack);
	}
	if (why.wy_where)
		code(where, (const char *)why.wy_where - 1);
	uproc__print(report->rp_procs, "usched:   %s, %s %s%s%s%s",
		     introduce(&t->th_stack, who), joins(t) ? "joins" : "waits for",
		     in_words(&why, what), holder(report, why.wy_holder, held),
		     why.wy_where ? ", at " : "", why.wy_where ? where : "");
}

/*
 * Sends mail to a thread that joins, and lists the thread in rp_told if u_mail was empty.
 * The thread is pushed to an inbox only when all mail is sent, because after the first
 * push a processor runs, and records change.
 */
static void mail_joiner(void *record, void *arg)
{
	struct uproc_thread *t = (struct uproc_thread *)record;
	struct report *report = (struct report *)arg;

	if (joins(t) && !(FETCH_OR(&t->th_stack.u_mail, UPROC_MAIL_DEADLOCK)
			   & ~(uint32_t)UPROC_MAIL_NONE)) {
		uproc_rest(t)->re_next = report->rp_told;
		report->rp_told = t;
	}
}

/* Threads that join are told before native threads. The threads can then go on, and
   perhaps bring about what the native threads wait for. */
bool uproc__report_stuck(struct uprocs *r)
{
	struct report report = { .rp_procs = r };
	struct uproc_thread *t, *next;

	uimage_pool_walk(&r->r_images, count_stuck, &report);
	uproc__print(r, "usched: deadlock: threads that wait and that nothing can wake: "
		     "%u", report.rp_waiting);
	report.rp_waiting = 0;
	uimage_pool_walk(&r->r_images, list_stuck, &report);
	if (report.rp_waiting > REPORT_MAX)
		uproc__print(r, "usched:   and %u more", report.rp_waiting - REPORT_MAX);
	uimage_pool_walk(&r->r_images, mail_joiner, &report);
	for (t = report.rp_told; t; t = next) {
		next = uproc_rest(t)->re_next;
		uproc__push_inbox(uproc_of(&t->th_stack), t);
	}
	return report.rp_joining > 0;
}

uint32_t uproc__threads(const struct uprocs *r)
{
	uint32_t count = 0;

	for (size_t i = 0; i < r->r_conf.c_processors; i++)
		count += uproc_count(uproc_at(r, i));
	return count;
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

	usched__set_control(s->s_first);        /* so that printf() raises no traps */
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
