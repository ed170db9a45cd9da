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

/* Threads were started at few places, and each look into a symbol table takes long. */
struct kept {
	uintptr_t k_address;
	char      k_text[CODE];         /* empty: it has no address yet */
};

/* Groups that are equal on several processors: so many from this one on in the array. */
struct shown {
	struct group **h_groups;
	size_t         h_count;
	size_t         h_threads;
};

/* Holders, and what is joined, by address. */
struct held_object {
	uintptr_t   h_key;              /* 0: free */
	bool        h_is_thread;
	const char *h_name;             /* or NULL */
	uintptr_t   h_joined;           /* the key is a joiner's: what it joins; or 0 */
};

struct view {
	struct dump   *v_dump;
	struct text    v_text;
	struct group **v_groups;
	struct shown  *v_shown;
	size_t         v_count;         /* of v_shown */
	size_t         v_threads;
	size_t         v_lost;
	struct held_object *v_holders;
	size_t         v_mask;
	struct kept    v_codes[CODES];
	char           v_bytes[SHOWN_AT_ONCE];
};

static const char *const states[] = {
	[UPROC_IS_NEW] = "new", [UPROC_IS_READY] = "ready", [UPROC_IS_WOKEN] = "woken",
	[UPROC_WAITS] = "waits", [UPROC_JOINS] = "joins",
};

static int compare_groups(const void *a, const void *b)
{
	const struct group *one = *(struct group *const *)a;
	const struct group *other = *(struct group *const *)b;

	return (one->g_hash > other->g_hash) - (one->g_hash < other->g_hash);
}

/* The largest first; of equal ones that of the lowest function. */
static int compare_shown(const void *a, const void *b)
{
	const struct shown *one = (const struct shown *)a;
	const struct shown *other = (const struct shown *)b;
	uintptr_t x = one->h_groups[0]->g_key.e_func;
	uintptr_t y = other->h_groups[0]->g_key.e_func;

	if (one->h_threads != other->h_threads)
		return one->h_threads < other->h_threads ? 1 : -1;
	return (x > y) - (x < y);
}

static void merge_groups(struct view *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct group *g = v->v_groups[i], *last = i > 0 ? v->v_groups[i - 1] : g;
		struct shown *h = &v->v_shown[v->v_count];

		if (i > 0 && g->g_hash == last->g_hash
		    && dump_same(&g->g_key, g->g_frames, &last->g_key, last->g_frames))
			h--;
		else
			*h = (struct shown){ .h_groups = &v->v_groups[i] };
		h->h_count++;
		h->h_threads += g->g_count;
		v->v_count = (size_t)(h - v->v_shown) + 1;
	}
}

static int gather_groups(struct view *v)
{
	size_t n = 0, at = 0;

	for (size_t i = 0; i < v->v_dump->d_count; i++)
		n += v->v_dump->d_tasks[i]->k_count;
	v->v_groups = (struct group **)malloc((n + 1) * sizeof(struct group *));
	v->v_shown = (struct shown *)malloc((n + 1) * sizeof *v->v_shown);
	if (!v->v_groups || !v->v_shown)
		return -ENOMEM;
	for (size_t i = 0; i < v->v_dump->d_count; i++)
		for (struct group *g = v->v_dump->d_tasks[i]->k_newest; g; g = g->g_older)
			v->v_groups[at++] = g;
	qsort(v->v_groups, n, sizeof(struct group *), compare_groups);
	merge_groups(v, n);
	qsort(v->v_shown, v->v_count, sizeof *v->v_shown, compare_shown);
	return 0;
}

static void each_member(struct view *v, void (*f)(struct view *v, struct member *m))
{
	for (size_t i = 0; i < v->v_count; i++)
		for (size_t j = 0; j < v->v_shown[i].h_count; j++)
			for (struct member *m = v->v_shown[i].h_groups[j]->g_first; m;
			     m = m->m_next)
				f(v, m);
}

static struct held_object *find_holder(const struct view *v, uintptr_t key)
{
	size_t i = (size_t)dump_mix(0, key) >> 16 & v->v_mask;

	while (v->v_holders[i].h_key && v->v_holders[i].h_key != key)
		i = (i + 1) & v->v_mask;
	return &v->v_holders[i];
}

static struct held_object *add_holder(struct view *v, uintptr_t key)
{
	struct held_object *h = find_holder(v, key);

	h->h_key = key;
	return h;
}

static void note_holder(struct view *v, struct member *m)
{
	if (m->m_holder)
		add_holder(v, m->m_holder);
}

static void name_holder(struct view *v, struct member *m)
{
	struct held_object *h = find_holder(v, m->m_thread);

	if (h->h_key) {
		h->h_is_thread = true;
		h->h_name = m->m_name;
	}
}

/* In a table that is at most half full. */
static int gather_holders(struct view *v)
{
	size_t size = 16, n = 0;

	for (size_t i = 0; i < v->v_dump->d_count; i++)
		n += v->v_dump->d_tasks[i]->k_holders;
	while (size < 2 * n)
		size *= 2;
	v->v_mask = size - 1;
	v->v_holders = (struct held_object *)calloc(size, sizeof *v->v_holders);
	if (!v->v_holders)
		return -ENOMEM;
	each_member(v, note_holder);
	for (size_t i = 0; i < v->v_dump->d_count; i++)
		for (struct link *l = v->v_dump->d_tasks[i]->k_joins; l; l = l->l_next) {
			add_holder(v, l->l_joined);
			add_holder(v, l->l_joiner)->h_joined = l->l_joined;
		}
	each_member(v, name_holder);
	return 0;
}

/* ---- Output ---- */

static const char *text_of_code(struct view *v, uintptr_t address)
{
	struct kept *k = &v->v_codes[(size_t)dump_mix(0, address) >> 16 & (CODES - 1)];

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

/* Seconds, unless it is -1. */
static void put_age(struct text *o, const char *before, int64_t ns, const char *after)
{
	if (ns < 0)
		return;
	text_put(o, before);
	text_seconds(o, (uint64_t)ns, 6);
	text_put(o, after);
}

static void put_processor(struct text *o, const struct task *k)
{
	text_put(o, "processor ");
	text_number(o, k->k_scheduler);
	text_put(o, ".");
	text_number(o, k->k_number);
}

static void text_holder(struct view *v, uintptr_t key)
{
	const struct held_object *h = find_holder(v, key);

	if (h->h_is_thread) {
		text_thread(&v->v_text, (const void *)key, h->h_name);
	} else {
		text_put(&v->v_text, "an outsider, ");
		text_hex(&v->v_text, key);
	}
}

/* What a processor runs that does not answer. */
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

static void text_group(struct view *v, const struct shown *h)
{
	const struct group *g = h->h_groups[0];
	const struct group_key *e = &g->g_key;
	bool one = h->h_threads == 1;
	struct text *o = &v->v_text;

	text_put(o, "\n");
	text_number(o, h->h_threads);
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

static void text_member(struct view *v, const struct group *g, const struct member *m)
{
	const struct group_key *e = &g->g_key;
	struct text *o = &v->v_text;

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
		text_holder(v, m->m_holder);
	}
	if (e->e_state == UPROC_JOINS && find_holder(v, m->m_thread)->h_joined) {
		text_put(o, ", joins ");
		text_holder(v, find_holder(v, m->m_thread)->h_joined);
	}
	put_age(o, ", started ", m->m_started, " s ago");
	if (m->m_where) {
		text_put(o, " at ");
		put_code(v, m->m_where - 1);
	}
	put_age(o, ", blocked for ", m->m_blocked, " s");
	text_put(o, "\n");
}

static void show_text(struct view *v)
{
	struct text *o = &v->v_text;

	text_put(o, "threads: ");
	text_number(o, v->v_threads);
	text_put(o, ", schedulers: ");
	text_number(o, v->v_dump->d_pins.n_count);
	if (v->v_lost > 0) {
		text_put(o, ", not shown for want of memory: ");
		text_number(o, v->v_lost);
	}
	text_put(o, "\n");
	text_processors(v);
	for (size_t i = 0; i < v->v_count; i++) {
		text_group(v, &v->v_shown[i]);
		for (size_t j = 0; j < v->v_shown[i].h_count; j++) {
			const struct group *g = v->v_shown[i].h_groups[j];

			for (const struct member *m = g->g_first; m; m = m->m_next)
				text_member(v, g, m);
		}
	}
}

/* 0; -ENOMEM. */
static int make_view(struct view *v)
{
	int rc;

	v->v_text = (struct text)TEXT(v->v_bytes, v->v_dump->d_fd);
	v->v_text.t_wait = -1;
	for (size_t i = 0; i < v->v_dump->d_count; i++) {
		v->v_threads += v->v_dump->d_tasks[i]->k_threads;
		v->v_lost += v->v_dump->d_tasks[i]->k_lost;
	}
	rc = gather_groups(v);
	return rc ? rc : gather_holders(v);
}

int uinspect__show(struct dump *d)
{
	struct view *v = (struct view *)calloc(1, sizeof *v);
	int rc;

	if (!v)
		return -ENOMEM;
	v->v_dump = d;
	rc = make_view(v);
	if (rc == 0) {
		show_text(v);
		text_flush(&v->v_text);
		rc = v->v_text.t_rc;
		if (rc == 0 && v->v_lost > 0)
			rc = -ENOMEM;
	}
	free(v->v_groups);
	free(v->v_shown);
	free(v->v_holders);
	free(v);
	return rc;
}
