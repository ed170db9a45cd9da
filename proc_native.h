/* SPDX-License-Identifier: MIT */
/*
 * proc_native.h: the end of proc.c without SINGLE_THREAD: the native threads of
 * processors, how they park, and how native threads wait for the end of
 * threads.
 */

static void *run(void *arg)
{
	struct proc *p = arg;

	usched_run(&p->p_sched);
	return NULL;
}

static int start_natives(struct procs *r)
{
	pthread_attr_t attr;
	size_t n;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	if (proc_at(r, 0)->p_stacks.k_count == 0) {     /* threads run on it */
		size_t size = r->r_conf.c_stack_size;

		rc = pthread_attr_setstacksize(&attr, size < DEFAULT_NATIVE_STACK ?
					       DEFAULT_NATIVE_STACK : size);
	}
	for (n = 0; rc == 0 && n < r->r_conf.c_processors; n += rc == 0) {
		struct proc *p = proc_at(r, n);

		rc = pthread_create(&p->p_native, &attr, run, p);
	}
	pthread_attr_destroy(&attr);
	if (rc) {
		r->r_conf.c_processors = (unsigned)n;
		stop_natives(r);
	}
	return -rc;
}

/* Ends the processors. None has anything to run, but one may be about to park. */
static void stop_natives(struct procs *r)
{
	FETCH_OR(&r->r_stop, 1);
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		struct proc *p = proc_at(r, i);

		if (SWAP(&p->p_inbox, STOPPED) == PARKED)
			unpark(p);
		pthread_join(p->p_native, NULL);
	}
}

/*
 * Under r_lock: if nobody can wake anybody, says so to who waits for the end.
 * That is so if all processors were parked at one time. Inboxes can only be
 * looked at one after the other, and a processor that had mail when we began may
 * since have woken, sent mail to one we saw parked before, and parked again: then
 * it has counted an unpark.
 */
static void detect_end(struct procs *r)
{
	uint32_t unparks = LOAD(r->r_unparks), count = 0;

	if (r->r_joining == 0 || LOAD(r->r_held) > 0
	    || LOAD(r->r_parks) - unparks != r->r_conf.c_processors)
		return;
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		struct proc *p = proc_at(r, i);

		if (LOAD(p->p_inbox) != PARKED)
			return;
		count += LOAD(p->p_count);
	}
	if (LOAD(r->r_unparks) != unparks)
		return;
	if (count == 0)
		r->r_quiet = true;
	else if (!report_stuck(r))
		r->r_deadlocks++;
	pthread_cond_broadcast(&r->r_changed);
}

static void detect_end_locked(struct procs *r)
{
	lock(&r->r_lock);
	detect_end(r);
	unlock(&r->r_lock);
}

static void unpark(struct proc *p)
{
	lock(&p->p_lock);
	pthread_cond_signal(&p->p_unparked);
	unlock(&p->p_lock);
}

struct ustack *proc_park(struct proc *p)
{
	struct procs *r = p->p_procs;
	struct proc_thread *t = NULL;

	while (!t && !LOAD(r->r_stop)) {
		if (CAS(&p->p_inbox, &t, PARKED)) {
			if (FETCH_ADD(&r->r_parks, 1) + 1 - LOAD(r->r_unparks)
			    == r->r_conf.c_processors)
				detect_end_locked(r);
			lock(&p->p_lock);
			while (LOAD(p->p_inbox) == PARKED)
				pthread_cond_wait(&p->p_unparked, &p->p_lock);
			unlock(&p->p_lock);
			FETCH_ADD(&r->r_unparks, 1);
		}
		proc_drain(p);
		t = proc_pop(p);
	}
	return t ? &t->t_stack : NULL;
}

void proc_hold(struct procs *r)
{
	FETCH_ADD(&r->r_held, 1);
}

void proc_release(struct procs *r)
{
	if (FETCH_ADD(&r->r_held, (uint32_t)-1) == 1)
		detect_end_locked(r);
}

/* The thread that a native thread joins has ended. */
static void tell_native(struct procs *r)
{
	lock(&r->r_lock);
	r->r_joining--;
	pthread_cond_broadcast(&r->r_changed);
	unlock(&r->r_lock);
}

/* Waits until `t' has ended, or with NULL all threads have. */
static int await(struct procs *r, struct proc_thread *t)
{
	struct proc_thread *joiner = NULL;
	unsigned seen;
	int rc = 0;

	lock(&r->r_lock);
	if (t && !CAS(&t->t_joiner, &joiner, NATIVE)) {
		rc = joiner == ENDED ? 0 : -EINVAL;
		goto out;
	}
	if (!t && r->r_joining > 0) {
		rc = -EPERM;
		goto out;
	}
	r->r_joining++;
	seen = r->r_deadlocks;
	detect_end(r);
	while (t ? LOAD(t->t_joiner) != ENDED : !r->r_quiet) {
		if (r->r_deadlocks != seen) {
			rc = -EDEADLK;
			break;
		}
		pthread_cond_wait(&r->r_changed, &r->r_lock);
	}
	joiner = NATIVE;
	if (t && rc && !CAS(&t->t_joiner, &joiner, NULL))
		rc = 0;                         /* it has ended after all */
	else if (!t || rc)
		r->r_joining--;
out:
	unlock(&r->r_lock);
	return rc;
}
