/* SPDX-License-Identifier: MIT */
/*
 * uproc_name.c: the names of threads. Few threads have a name, so names are in a hash
 * table beside the records. A bit in u_mail says that a thread is in the table. So at
 * the end of a thread without a name the table is not searched.
 *
 * names_lock is taken last, and only libc's functions are called under the lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"
#include "../base/text.h"

enum { RECORD_LINE = 64 };              /* bytes; records are further apart */

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
struct uproc_name *uproc__names[UPROC_NAME_LISTS];      /* under names_lock */

/* Returns the pointer to the entry of `u', or to NULL at the end of its list. */
static struct uproc_name **find_name(const struct ustack *u)
{
	struct uproc_name **at = &uproc__names[(uintptr_t)u / RECORD_LINE
					       % UPROC_NAME_LISTS];

	while (*at && (*at)->nm_thread != u)
		at = &(*at)->nm_next;
	return at;
}

/* Drops the name of `u', if any, under names_lock. */
static void drop_name(const struct ustack *u)
{
	struct uproc_name **at = find_name(u), *name = *at;

	if (!name)
		return;
	*at = name->nm_next;
	free(name);
}

/* Names `u', under names_lock. Returns 0 or -ENOMEM. */
static int set_name(const struct ustack *u, const char *text)
{
	struct uproc_name **at = find_name(u), *name = *at;

	if (!name)
		name = (struct uproc_name *)calloc(1, sizeof *name);
	if (!name)
		return -ENOMEM;
	name->nm_thread = u;
	text_copy(name->nm_text, sizeof name->nm_text, text);
	*at = name;
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
	name = *find_name(u);
	if (size > 0)
		snprintf(buffer, size, "%s", name ? name->nm_text : "");
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
	memset(uproc__names, 0, sizeof uproc__names);
}
