/* SPDX-License-Identifier: MIT */
/*
 * uproc_name.c: the names of threads. Few threads have a name, so names are in a table
 * beside the records, a tree of libc's (tsearch). A bit in u_mail says that a thread is
 * in the table, so the end of a thread without a name does not search. libc does not
 * document the layout of the tree. So names are in a list as well, for readers from
 * outside of the process.
 *
 * names_lock is taken last, and only libc's functions are called under the lock.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

#include "proc.h"
#include "../base/text.h"

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static void           *names;           /* names_lock, as uproc__names */
struct uproc_name *uproc__names;

static int compare_names(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct uproc_name *)a)->n_thread;
	uintptr_t y = (uintptr_t)((const struct uproc_name *)b)->n_thread;

	return (x > y) - (x < y);
}

/* Returns the entry of `u', under names_lock. NULL: `u' has no name. */
static struct uproc_name *find_name(const struct ustack *u)
{
	const struct uproc_name key = { .n_thread = u };
	struct uproc_name **node;

	node = (struct uproc_name **)tfind(&key, &names, compare_names);
	return node ? *node : NULL;
}

/* Drops the name of `u', if any, under names_lock. */
static void drop_name(const struct ustack *u)
{
	struct uproc_name *name = find_name(u);

	if (!name)
		return;
	tdelete(name, &names, compare_names);
	if (name->n_next)
		name->n_next->n_prev = name->n_prev;
	if (name->n_prev)
		name->n_prev->n_next = name->n_next;
	else
		uproc__names = name->n_next;
	free(name);
}

/* Returns the entry of `u', old or new, under names_lock. NULL: no memory. */
static struct uproc_name *make_name(const struct ustack *u)
{
	struct uproc_name *name = find_name(u);

	if (name)
		return name;
	name = (struct uproc_name *)calloc(1, sizeof *name);
	if (!name)
		return NULL;
	name->n_thread = u;
	if (!tsearch(name, &names, compare_names)) {
		free(name);
		return NULL;
	}
	name->n_next = uproc__names;
	if (uproc__names)
		uproc__names->n_prev = name;
	uproc__names = name;
	return name;
}

/* Names `u', under names_lock. 0; -ENOMEM. */
static int set_name(const struct ustack *u, const char *text)
{
	struct uproc_name *name = make_name(u);

	if (!name)
		return -ENOMEM;
	text_copy(name->n_text, sizeof name->n_text, text);
	return 0;
}

int uproc__begin_name(const struct ustack *u, const char *text)
{
	int rc;

	if (!*text)
		return 0;
	lock(&names_lock);
	rc = set_name(u, text);
	unlock(&names_lock);
	return rc;
}

void uproc__forget_name(const struct ustack *u)
{
	lock(&names_lock);
	drop_name(u);
	unlock(&names_lock);
}

int uproc__name(const struct ustack *u, char *buffer, size_t size)
{
	const struct uproc_name *name;

	lock(&names_lock);
	name = find_name(u);
	if (size > 0)
		snprintf(buffer, size, "%s", name ? name->n_text : "");
	unlock(&names_lock);
	return name ? 0 : -ENOENT;
}

static bool has_names(const struct ustack *u)
{
	const struct usched *s = ustack_sched(u);

	return s->s_proc || s == usched__gone();
}

int ustack_name(struct ustack *u, const char *text)
{
	int rc = 0;

	if (!has_names(u))
		return -ENOTSUP;
	lock(&names_lock);
	if (text && *text)
		rc = set_name(u, text);
	else
		drop_name(u);
	if (text && *text && rc == 0
	    && !(FETCH_OR(&u->u_mail, UPROC_MAIL_NAMED) & UPROC_MAIL_LIVE)) {
		drop_name(u);                   /* `u' has ended */
		rc = -ESRCH;
	}
	unlock(&names_lock);
	return rc;
}

int ustack_get_name(const struct ustack *u, char *buffer, size_t size)
{
	return has_names(u) ? uproc__name(u, buffer, size) : -ENOTSUP;
}

void uproc__forget_names(void)
{
	names_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	names = NULL;
	uproc__names = NULL;
}
