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

/* The text of an address. Texts are kept, because a look into a symbol table takes long,
   and the threads have few different addresses. */
struct kept {
	uintptr_t kp_address;
	char      kp_text[CODE];        /* empty: the place is free */
};

struct view {
	struct dump   *vw_dump;
	struct text    vw_text;
	struct group **vw_groups;       /* the largest first */
	struct kept    vw_codes[CODES];
	char           vw_bytes[SHOWN_AT_ONCE];
};

static const char *const states[] = {
	[UPROC_IS_NEW] = "new", [UPROC_IS_READY] = "ready", [UPROC_IS_WOKEN] = "woken",
	[UPROC_WAITS] = "waits", [UPROC_JOINS] = "joins",
};

/* Orders groups by size, the largest first, and then by the address of the function. */
static int compare_groups(const void *a, const void *b)
{
	const struct group *one = *(struct group *const *)a;
	const struct group *other = *(struct group *const *)b;
	uintptr_t x = one->gr_key.gk_func, y = other->gr_key.gk_func;

	if (one->gr_count != other->gr_count)
		return one->gr_count < other->gr_count ? 1 : -1;
	return (x > y) - (x < y);
}

/* Fills in vw_groups. Returns 0 or -ENOMEM. */
static int sort_groups(struct view *v)
{
	const struct dump *d = v->vw_dump;
	size_t n = 0;

	v->vw_groups = (struct group **)malloc((d->du_groups + 1)
					       * sizeof(struct group *));
	if (!v->vw_groups)
		return -ENOMEM;
	for (struct group *g = d->du_newest; g; g = g->gr_older)
		v->vw_groups[n++] = g;
	qsort(v->vw_groups, n, sizeof(struct group *), compare_groups);
	return 0;
}

static const char *text_of_code(struct view *v, uintptr_t address)
{
	struct kept *k = &v->vw_codes[address / 16 % CODES];

	if (k->kp_address != address || !k->kp_text[0]) {
		k->kp_address = address;
		code(k->kp_text, (const void *)address);
	}
	return k->kp_text;
}

static void put_processor(struct text *o, const struct task *k)
{
	text_add(o, "processor %u.%u", k->tk_scheduler, k->tk_number);
}

/* Adds what runs on a processor that does not answer. */
static void text_runs(struct view *v, const struct task *k)
{
	struct text *o = &v->vw_text;

	if (k->tk_runs) {
		text_put(o, ", runs ");
		text_thread(o, (const void *)k->tk_runs,
			    k->tk_runs_name ? k->tk_runs_name : "");
		text_add(o, ", function %s", text_of_code(v, k->tk_runs_func));
	}
	text_put(o, k->tk_runs_depth > 0 ? ", at:" : "");
	for (size_t i = 0; i < k->tk_runs_depth; i++)
		text_add(o, "\n\t%s", text_of_code(v, k->tk_frames[i] - 1));
}

static void text_processors(struct view *v)
{
	struct text *o = &v->vw_text;

	for (size_t i = 0; i < v->vw_dump->du_count; i++) {
		const struct task *k = v->vw_dump->du_tasks[i];

		put_processor(o, k);
		text_add(o, ": threads: %zu",
			 k->tk_state == TASK_DONE ? k->tk_threads : k->tk_all);
		if (k->tk_state == TASK_REFUSED)
			text_put(o, ", not shown: no memory");
		if (k->tk_state == TASK_GONE)
			text_add(o, ", does not answer, shown: %zu", k->tk_threads);
		text_runs(v, k);
		text_put(o, "\n");
	}
}

static void text_group(struct view *v, const struct group *g)
{
	const struct group_key *e = &g->gr_key;
	bool one = g->gr_count == 1;
	struct text *o = &v->vw_text;

	text_add(o, "\n%zu thread%s, function %s, ", g->gr_count, one ? "" : "s",
		 text_of_code(v, e->gk_func));
	if (e->gk_state == UPROC_WAITS)
		text_add(o, "wait%s for %s%s", one ? "s" : "", e->gk_kind, e->gk_how);
	else
		text_put(o, !one && e->gk_state == UPROC_JOINS ? "join"
							      : states[e->gk_state]);
	text_put(o, e->gk_depth > 0 ? ", at:\n" : "\n");
	for (size_t i = 0; i < e->gk_depth; i++)        /* the last byte of the call */
		text_add(o, "\t%s\n", text_of_code(v, g->gr_frames[i] - 1));
}

static void text_member(struct text *o, const struct group *g, const struct member *m)
{
	const struct group_key *e = &g->gr_key;

	text_thread(o, (const void *)m->dm_thread, m->dm_name ? m->dm_name : "");
	text_put(o, ", ");
	put_processor(o, m->dm_task);
	if (e->gk_number)
		text_add(o, ", %s %zu", e->gk_kind, (size_t)m->dm_object);
	else if (m->dm_object)
		text_add(o, ", %s %p", e->gk_kind, m->dm_object);
	if (m->dm_more)
		text_put(o, m->dm_more);
	if (m->dm_holder)
		text_add(o, ", held by %p", (const void *)m->dm_holder);
	if (m->dm_joiner)
		text_add(o, ", joined by %p", (const void *)m->dm_joiner);
	text_put(o, "\n");
}

static void show_text(struct view *v)
{
	const struct dump *d = v->vw_dump;
	struct text *o = &v->vw_text;
	size_t threads = 0;

	for (size_t i = 0; i < d->du_count; i++)
		threads += d->du_tasks[i]->tk_threads;
	text_add(o, "threads: %zu, schedulers: %zu", threads, d->du_pins.pn_count);
	if (d->du_lost > 0)
		text_add(o, ", not shown for want of memory: %zu", d->du_lost);
	text_put(o, "\n");
	text_processors(v);
	for (size_t i = 0; i < d->du_groups; i++) {
		text_group(v, v->vw_groups[i]);
		for (const struct member *m = v->vw_groups[i]->gr_first; m;
		     m = m->dm_next)
			text_member(o, v->vw_groups[i], m);
	}
	text_flush(o);
}

int uinspect__show(struct dump *d)
{
	struct view *v = (struct view *)calloc(1, sizeof *v);
	int rc;

	if (!v)
		return -ENOMEM;
	v->vw_dump = d;
	v->vw_text = (struct text)TEXT(v->vw_bytes, d->du_fd);
	v->vw_text.t_wait = -1;
	rc = sort_groups(v);
	if (rc == 0) {
		show_text(v);
		rc = v->vw_text.t_rc;
	}
	if (rc == 0 && d->du_lost > 0)
		rc = -ENOMEM;
	free(v->vw_groups);
	free(v);
	return rc;
}
