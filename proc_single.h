/* SPDX-License-Identifier: MIT */
/*
 * proc_single.h: the end of proc.c with SINGLE_THREAD. The one processor runs on
 * the native thread that joins, for as long as it joins, so nobody ever parks:
 * when nothing is runnable usched_run() returns.
 */

static int start_natives(struct procs *r)
{
	(void)r;
	return 0;
}

static void stop_natives(struct procs *r, size_t n)
{
	(void)r;
	(void)n;
}

static void unpark(struct proc *p)
{
	(void)p;
}

/* Has usched_run() return, into await(). */
static bool tell_native(struct procs *r, struct proc_thread *t)
{
	t->t_joiner = TAKEN;
	r->r_stop = 1;
	return true;
}

struct ustack *proc_park(struct proc *p)
{
	(void)p;
	return NULL;
}

void proc_hold(struct procs *r)
{
	(void)r;
}

void proc_release(struct procs *r)
{
	(void)r;
}

/* Runs the threads until `t' has ended, and frees it; or with NULL all. */
static int await(struct procs *r, struct proc_thread *t)
{
	struct proc *p = proc_at(r, 0);
	int rc = t ? claim(t, NATIVE) : 0;

	while (rc == 0) {
		rc = usched_run(&p->p_sched);
		r->r_stop = 0;
		if (rc)
			break;
		if (t ? t->t_joiner == TAKEN : p->p_count == 0)
			rc = 1;
		else if (!report_stuck(r))
			rc = -EDEADLK;
	}
	if (rc > 0 && t)
		free_record(t);
	else if (rc < 0 && t && t->t_joiner == NATIVE)
		t->t_joiner = NULL;
	return rc < 0 ? rc : 0;
}
