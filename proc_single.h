/* SPDX-License-Identifier: MIT */
/*
 * proc_single.h: the end of proc.c with SINGLE_THREAD. The one processor runs on
 * the native thread that joins, for as long as it joins, so nobody ever parks:
 * when nothing is runnable usched_run() returns.
 */

static int start_natives(struct uprocs *r)
{
	(void)r;
	return 0;
}

static void stop_natives(struct uprocs *r, size_t n)
{
	(void)r;
	(void)n;
}

static void unpark(struct uproc *p)
{
	(void)p;
}

/* Has usched_run() return, into await(). */
static bool tell_native(struct uprocs *r, struct uproc_thread *t)
{
	t->t_joiner = TAKEN;
	r->r_stop = 1;
	return true;
}

struct ustack *uproc_park(struct uproc *p)
{
	(void)p;
	return NULL;
}

void uproc_hold(struct uprocs *r)
{
	(void)r;
}

void uproc_release(struct uprocs *r)
{
	(void)r;
}

/* Runs the threads until `t' has ended, and frees it; or with NULL all. */
static int await(struct uprocs *r, struct uproc_thread *t)
{
	struct uproc *p = uproc_at(r, 0);
	int rc = t ? claim(t, NATIVE) : 0;

	while (rc == 0) {
		rc = usched_run(&p->p_sched);
		r->r_stop = 0;
		if (rc)
			break;
		if (t ? t->t_joiner == TAKEN : uproc_count(p) == 0)
			rc = 1;
		else if (!report_stuck(r))
			rc = -EDEADLK;
	}
	if (rc > 0 && t)
		put_record(uproc_of(&t->t_stack), t);
	else if (rc < 0 && t && t->t_joiner == NATIVE)
		t->t_joiner = NULL;
	return rc < 0 ? rc : 0;
}
