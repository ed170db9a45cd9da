/* SPDX-License-Identifier: MIT */
/*
 * uinspect_show.c: the text of a dump. uinspect.h has an example.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* Dl_info in src/base/code.h */
#endif
#include "uinspect.h"

#include <errno.h>
#include <stdlib.h>

#include "../src/base/code.h"
#include "../src/base/text.h"
#include "dump.h"

enum {
	SHOWN_AT_ONCE = 64 << 10,       /* bytes written at a time */
	CODES         = 256,            /* texts of addresses that are kept */
};

/* The text of an address. A look into a symbol table takes long, and threads have few
   different addresses. */
struct kept {
	uintptr_t k_address;
	char      k_text[CODE];         /* empty: there is no address yet */
};

struct view {
	struct dump   *v_dump;
	struct text    v_text;
	struct group **v_groups;        /* the largest first */
	struct kept    v_codes[CODES];
	char           v_bytes[SHOWN_AT_ONCE];
};

static const char *const states[] = {
	[UPROC_IS_NEW] = "new", [UPROC_IS_READY] = "ready", [UPROC_IS_WOKEN] = "woken",
	[UPROC_WAITS] = "waits", [UPROC_JOINS] = "joins",
};

/* Orders the largest group first, and of groups of one size the lowest function. */
static int compare_groups(const void *a, const void *b)
{
	const struct group *one = *(struct group *const *)a;
	const struct group *other = *(struct group *const *)b;
	uintptr_t x = one->g_key.e_func, y = other->g_key.e_func;

	if (one->g_count != other->g_count)
		return one->g_count < other->g_count ? 1 : -1;
	return (x > y) - (x < y);
}

/* Fills in v_groups. 0; -ENOMEM. */
static int sort_groups(struct view *v)
{
	const struct dump *d = v->v_dump;
	size_t n = 0;

	v->v_groups = (struct group **)malloc((d->d_groups + 1) * sizeof(struct group *));
	if (!v->v_groups)
		return -ENOMEM;
	for (struct group *g = d->d_newest; g; g = g->g_older)
		v->v_groups[n++] = g;
	qsort(v->v_groups, n, sizeof(struct group *), compare_groups);
	return 0;
}

static const char *text_of_code(struct view *v, uintptr_t address)
{
	struct kept *k = &v->v_codes[address / 16 % CODES];

	if (k->k_address != address || !k->k_text[0]) {
		k->k_address = address;
		code(k->k_text, (const void *)address);
	}
	return k->k_text;
}

static void put_code(struct view *v, uintptr_t address)
{
	text_put(&v->v_text, text_of_code(v, address));
}

static void put_processor(struct text *o, const struct task *k)
{
	text_put(o, "processor ");
	text_number(o, k->k_scheduler);
	text_put(o, ".");
	text_number(o, k->k_number);
}

/* Adds what runs on a processor that does not answer. */
static void text_runs(struct view *v, const struct task *k)
{
	struct text *o = &v->v_text;

	if (k->k_runs) {
		text_put(o, ", runs ");
		text_thread(o, (const void *)k->k_runs, k->k_runs_name);
		text_put(o, ", function ");
		put_code(v, k->k_runs_func);
	}
	text_put(o, k->k_runs_depth > 0 ? ", at:" : "");
	for (size_t i = 0; i < k->k_runs_depth; i++) {
		text_put(o, "\n\t");
		put_code(v, k->k_frames[i] - 1);
	}
}

static void text_processors(struct view *v)
{
	struct text *o = &v->v_text;

	for (size_t i = 0; i < v->v_dump->d_count; i++) {
		const struct task *k = v->v_dump->d_tasks[i];

		put_processor(o, k);
		text_put(o, ": threads: ");
		text_number(o, k->k_state == TASK_DONE ? k->k_threads : k->k_all);
		if (k->k_state == TASK_REFUSED)
			text_put(o, ", not shown: no memory");
		if (k->k_state == TASK_GONE) {
			text_put(o, ", does not answer, shown: ");
			text_number(o, k->k_threads);
		}
		text_runs(v, k);
		text_put(o, "\n");
	}
}

static void text_group(struct view *v, const struct group *g)
{
	const struct group_key *e = &g->g_key;
	bool one = g->g_count == 1;
	struct text *o = &v->v_text;

	text_put(o, "\n");
	text_number(o, g->g_count);
	text_put(o, one ? " thread, function " : " threads, function ");
	put_code(v, e->e_func);
	text_put(o, ", ");
	if (e->e_state == UPROC_WAITS) {
		text_put(o, one ? "waits for " : "wait for ");
		text_put(o, e->e_kind);
		text_put(o, e->e_how);
	} else {
		text_put(o, !one && e->e_state == UPROC_JOINS ? "join"
							      : states[e->e_state]);
	}
	text_put(o, e->e_depth > 0 ? ", at:\n" : "\n");
	for (size_t i = 0; i < e->e_depth; i++) {
		text_put(o, "\t");
		put_code(v, g->g_frames[i] - 1);        /* in the call */
		text_put(o, "\n");
	}
}

static void text_member(struct text *o, const struct group *g, const struct member *m)
{
	const struct group_key *e = &g->g_key;

	text_thread(o, (const void *)m->m_thread, m->m_name);
	text_put(o, ", ");
	put_processor(o, m->m_task);
	if (m->m_object || e->e_number) {
		text_put(o, ", ");
		text_put(o, e->e_kind);
		text_put(o, " ");
		if (e->e_number)
			text_number(o, (uintptr_t)m->m_object);
		else
			text_hex(o, (uintptr_t)m->m_object);
	}
	if (m->m_more)
		text_put(o, m->m_more);
	if (m->m_holder) {
		text_put(o, ", held by ");
		text_hex(o, m->m_holder);
	}
	if (m->m_joiner) {
		text_put(o, ", joined by ");
		text_hex(o, m->m_joiner);
	}
	text_put(o, "\n");
}

static void show_text(struct view *v)
{
	const struct dump *d = v->v_dump;
	struct text *o = &v->v_text;
	size_t threads = 0;

	for (size_t i = 0; i < d->d_count; i++)
		threads += d->d_tasks[i]->k_threads;
	text_put(o, "threads: ");
	text_number(o, threads);
	text_put(o, ", schedulers: ");
	text_number(o, d->d_pins.n_count);
	if (d->d_lost > 0) {
		text_put(o, ", not shown for want of memory: ");
		text_number(o, d->d_lost);
	}
	text_put(o, "\n");
	text_processors(v);
	for (size_t i = 0; i < d->d_groups; i++) {
		text_group(v, v->v_groups[i]);
		for (const struct member *m = v->v_groups[i]->g_first; m; m = m->m_next)
			text_member(o, v->v_groups[i], m);
	}
	text_flush(o);
}

int uinspect__show(struct dump *d)
{
	struct view *v = (struct view *)calloc(1, sizeof *v);
	int rc;

	if (!v)
		return -ENOMEM;
	v->v_dump = d;
	v->v_text = (struct text)TEXT(v->v_bytes, d->d_fd);
	v->v_text.t_wait = -1;
	rc = sort_groups(v);
	if (rc == 0) {
		show_text(v);
		rc = v->v_text.t_rc;
	}
	if (rc == 0 && d->d_lost > 0)
		rc = -ENOMEM;
	free(v->v_groups);
	free(v);
	return rc;
}
