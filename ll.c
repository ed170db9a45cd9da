/* SPDX-License-Identifier: MIT */
/*
 * ll.c: local. On each processor there is one place besides the queue, for the
 * thread to run next. Who wakes puts the thread there, and who was there goes to
 * the end of the queue. (A slot like that, and the bound it needs, are in
 * the schedulers of Go and tokio.)
 *
 * A group is a name for the processor it lives on.
 */
#include "ll.h"

#include <stdlib.h>

struct ll {
	struct procs ll_procs;
};

struct ll_group {
	struct proc         g_proc;     /* first */
	struct proc_thread *g_next;     /* runs next, or NULL */
	unsigned            g_streak;   /* dispatches in a row that were g_next */
};

static struct proc_thread *pick(struct proc *p)
{
	struct ll_group *g = (struct ll_group *)(void *)p;
	struct proc_thread *t = g->g_next;

	if (t && g->g_streak < LL_BOUND) {
		g->g_next = NULL;
		g->g_streak++;
		return t;
	}
	g->g_streak = 0;
	if (t) {
		g->g_next = NULL;
		proc_push(p, t);
	}
	return proc_pop(p);
}

static void run_next(struct proc *p, struct proc_thread *t)
{
	struct ll_group *g = (struct ll_group *)(void *)p;

	if (g->g_next)
		proc_push(p, g->g_next);
	g->g_next = t;
}

static struct ustack *next(struct usched *s)
{
	return proc_next((struct proc *)(void *)s, pick);
}

static int wake(struct usched *s, struct ustack *u)
{
	(void)s;
	return ll_wake(u);
}

int ll_create(struct ll **ll, const struct proc_conf *conf)
{
	struct ll *new = malloc(sizeof *new);
	int rc;

	if (!new)
		return -ENOMEM;
	rc = procs_init(&new->ll_procs, conf, sizeof(struct ll_group), next, wake);
	if (rc)
		free(new);
	else
		*ll = new;
	return rc;
}

int ll_destroy(struct ll *ll)
{
	int rc = procs_fini(&ll->ll_procs);

	if (rc == 0 || rc == -EDEADLK)
		free(ll);
	return rc;
}

struct ll_group *ll_group(struct ll *ll)
{
	return (struct ll_group *)(void *)procs_next(&ll->ll_procs);
}

int ll_start(struct ll *ll, struct ll_group *group, void (*func)(void *),
	     void *arg, struct ustack **thread)
{
	struct proc *p = proc_self();

	if (group)
		p = &group->g_proc;
	else if (!p || p->p_procs != &ll->ll_procs)
		p = procs_next(&ll->ll_procs);
	return proc_start(p, func, arg, thread);
}

int ll_wait(void)
{
	return proc_wait();
}

int ll_wake(struct ustack *thread)
{
	return proc_wake(thread, run_next);
}

void ll_hold(struct ll *ll)
{
	proc_hold(&ll->ll_procs);
}

void ll_release(struct ll *ll)
{
	proc_release(&ll->ll_procs);
}

void ll_stats(struct ll *ll, struct usched_stats *out)
{
	procs_stats(&ll->ll_procs, out);
}
