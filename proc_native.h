/* SPDX-License-Identifier: MIT */
/*
 * proc_native.h: the end of proc.c without SINGLE_THREAD: the native threads of
 * processors, how they park, and how native threads wait for the end of
 * threads.
 */

static void *run(void *arg)
{
	struct uproc *p = arg;

	if (p->p_alternate)
		uoverflow__adopt(p->p_alternate);
	usched_run(&p->p_sched);
	if (p->p_alternate)
		uoverflow__leave();
	return NULL;
}

static int map_alternates(struct uprocs *r)
{
	for (size_t i = 0; uoverflow__map && i < r->r_conf.c_processors; i++) {
		struct uproc *p = uproc_at(r, i);

		p->p_alternate = uoverflow__map();
		if (!p->p_alternate)
			return -ENOMEM;
	}
	return 0;
}

static int start_natives(struct uprocs *r)
{
	unsigned processors = r->r_conf.c_processors;
	pthread_attr_t attr;
	size_t n;
	int rc;

	if (r->r_conf.c_embed)
		return 0;
	if (processors > 1 && processors <= processors_on_line())
		r->r_patience = PATIENCE;
	rc = map_alternates(r);
	if (rc)
		return rc;
	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	if (uproc_at(r, 0)->p_steps == 0) {     /* threads run on it */
		size_t size = r->r_conf.c_stack_size;

		if (size < DEFAULT_NATIVE_STACK)
			size = DEFAULT_NATIVE_STACK;
		rc = pthread_attr_setstacksize(&attr, size + UIMAGE_GUARD);
		if (rc == 0)            /* glibc takes it out of that size */
			rc = pthread_attr_setguardsize(&attr, UIMAGE_GUARD);
	}
	for (n = 0; rc == 0 && n < processors; n += rc == 0) {
		struct uproc *p = uproc_at(r, n);

		rc = pthread_create(&p->p_native, &attr, run, p);
	}
	pthread_attr_destroy(&attr);
	if (rc)
		stop_natives(r, n);
	return -rc;
}

/* Ends the first n. None has anything to run, but one may be about to park. */
static void stop_natives(struct uprocs *r, size_t n)
{
	FETCH_OR(&r->r_stop, 1);
	for (size_t i = 0; i < n; i++) {
		struct uproc *p = uproc_at(r, i);

		if (SWAP(&p->p_inbox, STOPPED) == PARKED)
			unpark(p);
		pthread_join(p->p_native, NULL);
	}
}

/*
 * Under r_lock, by a native thread that waits for the end of one thread or of all:
 * looks whether nobody can wake anybody. True: all threads have ended; if some
 * wait, r_deadlocks tells the native threads, or mail the threads that join.
 * Nobody can if all processors were parked at one time, with no thread that waits for
 * an event: one that did counts as such until it runs. Inboxes can only be
 * looked at one after the other, and a processor that had mail when we began may
 * since have woken, sent mail to one we saw parked before, and parked again: then
 * it has counted an unpark.
 */
static bool look_for_end(struct uprocs *r)
{
	uint32_t unparks = LOAD(r->r_unparks), count = 0;

	if (r->r_held > 0 || LOAD(r->r_parks) - unparks != r->r_conf.c_processors)
		return false;
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		struct uproc *p = uproc_at(r, i);

		if (LOAD(p->p_inbox) != PARKED || uevents_waited(&p->p_sched))
			return false;
		count += uproc_count(p);
	}
	if (LOAD(r->r_unparks) != unparks)
		return false;
	if (count > 0 && !report_stuck(r)) {
		r->r_deadlocks++;
		pthread_cond_broadcast(&r->r_changed);
	}
	return count == 0;
}

/*
 * What is found must not change while it is reported, whatever native threads do that had
 * better called uproc_hold(): a processor that is unparked meanwhile waits.
 */
static bool detect_end(struct uprocs *r)
{
	bool quiet;

	SWAP(&r->r_looking, 1);
	quiet = look_for_end(r);
	SWAP(&r->r_looking, 0);
	return quiet;
}

/*
 * Has the native threads that wait call detect_end(). A processor does not do it
 * itself: it would be on the stack of a thread, which need not have the space
 * that a report takes.
 */
static void suggest_end(struct uprocs *r)
{
	lock(&r->r_lock);
	if (r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	unlock(&r->r_lock);
}

static void unpark(struct uproc *p)
{
	if (uevents_interrupt(&p->p_sched))
		return;
	lock(&p->p_lock);
	pthread_cond_signal(&p->p_unparked);
	unlock(&p->p_lock);
}

/*
 * Before it parks, a processor looks for mail for as long as it would take to sleep and
 * be woken: so it never takes more than twice the best that could be done, and two that
 * send to each other stay awake. Others who want the CPU get it.
 */
static struct uproc_thread *watch_inbox(struct uproc *p, uproc_pick_fn *pick)
{
	int64_t end = now() + p->p_procs->r_patience;
	struct uproc_thread *t = NULL;

	do {
		for (int i = 0; i < LOOKS; i++)
			if (__atomic_load_n(&p->p_inbox, __ATOMIC_RELAXED))
				return NULL;
		if (uproc_poll(p, UEVENTS_RUN))
			t = pick(p);
		else
			sched_yield();
	} while (!t && now() < end);
	return t;
}

/* The inbox is marked: until somebody unparks it, or something happens. */
static void sleep_parked(struct uproc *p, int64_t until)
{
	struct uprocs *r = p->p_procs;

	if (FETCH_ADD(&r->r_parks, 1) + 1 - LOAD(r->r_unparks) == r->r_conf.c_processors
	    && !uevents_waited(&p->p_sched))
		suggest_end(r);
	if (!uproc_poll(p, until)) {
		lock(&p->p_lock);
		while (LOAD(p->p_inbox) == PARKED)
			pthread_cond_wait(&p->p_unparked, &p->p_lock);
		unlock(&p->p_lock);
	}
	unmark(p);
	FETCH_ADD(&r->r_unparks, 1);
	if (LOAD(r->r_looking)) {
		lock(&r->r_lock);
		unlock(&r->r_lock);
	}
}

/*
 * Under nobody's lock: whether no event can come any more, and nobody who holds the
 * scheduler.
 */
static bool is_stuck(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	bool held;

	if (uevents_waited(&p->p_sched) || r->r_deadline != INT64_MAX)
		return false;
	lock(&r->r_lock);
	held = r->r_held > 0;
	unlock(&r->r_lock);
	return !held;
}

/*
 * On the native thread of somebody who has more to do, or joins: it may leave the mark.
 */
static struct uproc_thread *park_embedded(struct uproc *p, uproc_pick_fn *pick)
{
	struct uprocs *r = p->p_procs;

	while (!LOAD(r->r_stop)) {
		struct uproc_thread *t = NULL;

		if (r->r_leave)
			uproc_poll(p, UEVENTS_RUN);
		uproc_drain(p);
		t = pick(p);
		if (t)
			return t;
		if (!r->r_leave && r->r_deadline != INT64_MAX && now() >= r->r_deadline)
			break;
		if (!CAS(&p->p_inbox, &t, PARKED))
			continue;
		if (r->r_leave || is_stuck(p))
			break;
		sleep_parked(p, r->r_deadline);
	}
	return NULL;
}

struct ustack *uproc_park(struct uproc *p, uproc_pick_fn *pick)
{
	struct uprocs *r = p->p_procs;
	struct uproc_thread *t = NULL;

	if (r->r_conf.c_embed) {
		t = park_embedded(p, pick);
		return t ? &t->t_stack : NULL;
	}
	while (!t && !LOAD(r->r_stop)) {
		if (r->r_patience > 0)
			t = watch_inbox(p, pick);
		if (t)
			break;
		if (CAS(&p->p_inbox, &t, PARKED))
			sleep_parked(p, UEVENTS_NEVER);
		uproc_drain(p);
		t = pick(p);
	}
	return t ? &t->t_stack : NULL;
}

void uproc_hold(struct uprocs *r)
{
	lock(&r->r_lock);
	r->r_held++;
	unlock(&r->r_lock);
}

/* All under the lock: once it is not held `r' may be destroyed. */
void uproc_release(struct uprocs *r)
{
	lock(&r->r_lock);
	if (--r->r_held == 0 && r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	if (r->r_conf.c_embed)
		unpark(uproc_at(r, 0));
	unlock(&r->r_lock);
}

/* `t', which a native thread joins, has ended. False: it does not any more. */
static bool tell_native(struct uprocs *r, struct uproc_thread *t)
{
	struct uproc_thread *joiner = NATIVE;
	bool told;

	if (r->r_conf.c_embed) {                /* has usched_run() return, into drive() */
		t->t_joiner = TAKEN;
		r->r_stop = 1;
		return true;
	}
	lock(&r->r_lock);
	told = CAS(&t->t_joiner, &joiner, TAKEN);
	if (told) {
		r->r_joining--;
		pthread_cond_broadcast(&r->r_changed);
	}
	unlock(&r->r_lock);
	return told;
}

/* Until something has changed; false: the deadline has come. */
static bool wait_change(struct uprocs *r, int64_t deadline)
{
	struct timespec t = { deadline / 1000000000, deadline % 1000000000 };

	if (deadline == INT64_MAX)
		return pthread_cond_wait(&r->r_changed, &r->r_lock) == 0;
	return pthread_cond_timedwait(&r->r_changed, &r->r_lock, &t) != ETIMEDOUT;
}

/* 1: `t' has ended, or with NULL all threads have; -EDEADLK; -ETIMEDOUT. Under r_lock. */
static int wait_locked(struct uprocs *r, struct uproc_thread *t, int64_t deadline)
{
	unsigned seen = r->r_deadlocks;
	bool timely = true, quiet = false;

	r->r_joining++;
	for (;;) {
		if (t && LOAD(t->t_joiner) == TAKEN)
			return 1;               /* and is not counted any more */
		if (r->r_deadlocks == seen && timely)
			quiet = detect_end(r);
		if (r->r_deadlocks != seen || (!t && quiet) || !timely)
			break;
		timely = wait_change(r, deadline);
	}
	r->r_joining--;
	if (!t && quiet)
		return 1;
	if (t)
		__atomic_store_n(&t->t_joiner, NULL, __ATOMIC_SEQ_CST);
	return r->r_deadlocks != seen ? -EDEADLK : -ETIMEDOUT;
}

/*
 * Waits, as a native thread, until `t' has ended, and frees it; or with NULL until
 * all threads have ended, if no other native thread waits here.
 */
static int await(struct uprocs *r, struct uproc_thread *t, int64_t deadline)
{
	bool returns = deadline != INT64_MAX;   /* and may wake somebody then: as uproc_hold() */
	int rc;

	if (r->r_conf.c_embed)
		return drive(r, t, deadline);
	lock(&r->r_lock);
	if (t)
		rc = claim(t, NATIVE);
	else
		rc = r->r_inside > 0 ? -EPERM : 0;
	r->r_inside++;
	r->r_held += returns;
	if (rc == 0)
		rc = wait_locked(r, t, deadline);
	if (rc > 0 && t)
		put_record(uproc_of(&t->t_stack), t);
	r->r_held -= returns;
	if (returns && r->r_held == 0 && r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	r->r_inside--;
	unlock(&r->r_lock);
	return rc < 0 ? rc : 0;
}
