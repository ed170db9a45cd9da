/* SPDX-License-Identifier: MIT */
/*
 * utrace_write.c: what is in the rings of the process, for tools/usched_view/trace.py,
 * which makes JSON trace events of it. Lines of text, and events as they are in memory:
 *
 *	usched trace 1 ORDER TICKS NS       "little" or "big" endian; both clocks now
 *	processor 0.1 TICKS NS LOST COUNT   both clocks at its start; COUNT events follow,
 *	natives 0 0 LOST COUNT              each a struct utrace_event
 *	kind NUMBER IS_NUMBER NAME          of a struct uwait_kind in events
 *	thread ADDRESS NAME                 for those with names
 *	end
 *
 * The rings are copied first: schedulers wait for that, and not for the writes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* clock_gettime() */
#endif
#include "utrace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../arch/arch.h"
#include "../src/base/cancel.h"
#include "../src/base/text.h"
#include "../src/base/when.h"
#include "../uproc.h"
#include "../uwait.h"

enum {
	SCHEDULERS      = 64,           /* more are left out */
	KINDS           = 64,           /* likewise: the library has 20 */
	WRITTEN_AT_ONCE = 4096,         /* characters written at a time */
};

/* A copy of a ring. */
struct part {
	struct utrace_pair   p_start;
	uint64_t             p_lost;
	size_t               p_count;
	struct utrace_event *p_events;
	char                 p_name[24];
};

struct parts {
	struct part *a_parts;
	size_t       a_count;
	size_t       a_events;          /* of all */
};

/* Only its address is used. */
extern const struct usched__layout usched__layout;

/* 0; -ENOMEM. */
static int copy_ring(struct parts *a, const struct utrace_ring *g, const char *name,
		     uint32_t scheduler, unsigned processor)
{
	struct part *p = &a->a_parts[a->a_count++];
	struct text t = TEXT(p->p_name, -1);
	size_t room = 0;

	text_put(&t, name);
	if (processor != UINT32_MAX) {
		text_number(&t, scheduler);
		text_put(&t, ".");
		text_number(&t, processor);
	}
	if (g && __atomic_load_n(&g->g_events, __ATOMIC_ACQUIRE))
		room = (size_t)g->g_size;
	if (room == 0)
		return 0;
	p->p_events = (struct utrace_event *)malloc(room * sizeof *p->p_events);
	if (!p->p_events)
		return -ENOMEM;
	p->p_count = utrace__read(g, p->p_events, room, &p->p_lost);
	p->p_start.p_ticks = __atomic_load_n(&g->g_pairs[0].p_ticks, __ATOMIC_RELAXED);
	p->p_start.p_ns = __atomic_load_n(&g->g_pairs[0].p_ns, __ATOMIC_RELAXED);
	a->a_events += p->p_count;
	return 0;
}

/* The schedulers in the order in which they were created. 0; -ENOMEM. */
static int copy_rings(struct parts *a, struct uprocs **all, size_t n)
{
	size_t count = 1;
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		count += all[i]->r_conf.c_processors;
	a->a_parts = (struct part *)calloc(count, sizeof *a->a_parts);
	if (!a->a_parts)
		return -ENOMEM;
	for (size_t i = n; i-- > 0; )
		for (unsigned k = 0; rc == 0 && k < all[i]->r_conf.c_processors; k++)
			rc = copy_ring(a, __atomic_load_n(&uproc_at(all[i], k)->p_ring,
							  __ATOMIC_ACQUIRE),
				       "processor ", all[i]->r_number, k);
	return rc ? rc : copy_ring(a, __atomic_load_n(&utrace__control.c_native,
						      __ATOMIC_ACQUIRE),
				   "natives", 0, UINT32_MAX);
}

static void write_pair(struct text *t, const struct utrace_pair *pair)
{
	text_put(t, " ");
	text_number(t, pair->p_ticks);
	text_put(t, " ");
	text_number(t, (uint64_t)pair->p_ns);
}

static void write_head(struct text *t)
{
	const uint16_t one = 1;
	const struct utrace_pair pair = { when_ticks(), when_now() };

	text_put(t, "usched trace 1 ");
	text_put(t, *(const uint8_t *)&one ? "little" : "big");
	write_pair(t, &pair);
	text_put(t, "\n");
}

static void write_part(struct text *t, const struct part *p)
{
	text_put(t, p->p_name);
	write_pair(t, &p->p_start);
	text_put(t, " ");
	text_number(t, p->p_lost);
	text_put(t, " ");
	text_number(t, p->p_count);
	text_put(t, "\n");
	text_bytes(t, p->p_events, p->p_count * sizeof *p->p_events);
}

static void write_kinds(struct text *t, const struct parts *a)
{
	int32_t told[KINDS];
	size_t n = 0, i;

	for (const struct part *p = a->a_parts; p < a->a_parts + a->a_count; p++)
		for (size_t k = 0; k < p->p_count; k++) {
			int32_t number = utrace__kind_of(&p->p_events[k]);
			const struct uwait_kind *kind = (const struct uwait_kind *)
				(const void *)((const char *)&usched__layout + number);

			for (i = 0; i < n && told[i] != number; i++)
				;
			if (number == 0 || i < n || n == KINDS)
				continue;
			told[n++] = number;
			text_put(t, "kind ");
			text_number(t, (uint32_t)number);
			text_put(t, kind->k_number ? " 1 " : " 0 ");
			text_put(t, kind->k_name);
			text_put(t, "\n");
		}
}

static int compare_words(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

/* Names that threads have now. 0; -ENOMEM. */
static int write_names(struct text *t, const struct parts *a)
{
	uint64_t *threads = (uint64_t *)malloc((a->a_events + 1) * sizeof *threads);
	uint64_t last = 0;
	char name[USTACK_NAME_MAX];
	size_t n = 0;

	if (!threads)
		return -ENOMEM;
	for (const struct part *p = a->a_parts; p < a->a_parts + a->a_count; p++)
		for (size_t k = 0; k < p->p_count; k++)
			threads[n++] = p->p_events[k].v_thread;
	qsort(threads, n, sizeof *threads, compare_words);
	for (size_t i = 0; i < n; last = threads[i++]) {
		name[0] = '\0';
		if (threads[i] != last)
			uproc__name((const struct ustack *)(uintptr_t)threads[i], name,
				    sizeof name);
		if (!name[0])
			continue;
		text_put(t, "thread ");
		text_hex(t, threads[i]);
		text_put(t, " ");
		text_put(t, name);
		text_put(t, "\n");
	}
	free(threads);
	return 0;
}

static int write_parts(struct text *t, const struct parts *a)
{
	int rc;

	write_head(t);
	for (size_t i = 0; i < a->a_count; i++)
		write_part(t, &a->a_parts[i]);
	write_kinds(t, a);
	rc = write_names(t, a);
	text_put(t, "end\n");
	text_flush(t);
	return rc ? rc : t->t_rc;
}

int utrace_write(int fd)
{
	struct uprocs *all[SCHEDULERS];
	int before = defer_cancel(), rc;
	struct parts a = { 0 };
	char lines[WRITTEN_AT_ONCE];
	struct text t = TEXT(lines, fd);
	size_t n = uprocs__pin(all, SCHEDULERS);

	if (n > SCHEDULERS)
		n = SCHEDULERS;
	rc = copy_rings(&a, all, n);
	for (size_t i = 0; i < n; i++)
		uprocs__unpin(all[i]);
	t.t_wait = -1;
	if (rc == 0)
		rc = write_parts(&t, &a);
	for (size_t i = 0; i < a.a_count; i++)
		free(a.a_parts[i].p_events);
	free(a.a_parts);
	allow_cancel(before);
	return rc;
}
