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

static void stop_natives(struct procs *r)
{
	(void)r;
}

static void unpark(struct proc *p)
{
	(void)p;
}

/* Has usched_run() return, into await(). */
static void tell_native(struct procs *r)
{
	r->r_stop = 1;
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

/* Runs the threads until `t' has ended, or with NULL all. */
static int await(struct procs *r, struct proc_thread *t)
{
	struct proc *p = proc_at(r, 0);
	struct proc_thread *joiner = NULL;
	int rc;

	if (t && !CAS(&t->t_joiner, &joiner, NATIVE))
		return joiner == ENDED ? 0 : -EINVAL;
	for (;;) {
		rc = usched_run(&p->p_sched);
		r->r_stop = 0;
		if (rc || (t ? t->t_joiner == ENDED : p->p_count == 0))
			break;
		if (!report_stuck(r)) {
			rc = -EDEADLK;
			break;
		}
	}
	if (rc && t)
		t->t_joiner = NULL;
	return rc;
}
