/* SPDX-License-Identifier: MIT */
/*
 * uproc_park.c: the native threads of processors, how they park, and when all are stuck.
 * The policy chooses the next thread. Native threads that wait for the end of threads
 * are in uproc_join.c, which asks here whether the end can still come.
 *
 * To park, a processor replaces its empty inbox by PARKED and sleeps. A push that finds
 * the mark unparks the processor. No mail is missed, because mail that comes before the
 * mark makes the compare-and-swap fail, and mail that comes later finds the mark. At the
 * end of a scheduler the mark STOPPED in each inbox keeps the processors from parking,
 * and parked processors are unparked.
 *
 * Threads are stuck if all processors were parked at one time, no thread waited for an
 * event, and no native thread holds the scheduler. Inboxes are read one after the other,
 * and a processor that was seen parked may run again meanwhile. So r_parks counts how
 * often a mark was set, and r_unparks how often a sleep ended. look_for_end()
 *
 *  1. reads r_unparks, and goes on only if r_parks exceeds it by the number of
 *     processors;
 *  2. looks at each inbox, which must hold the mark;
 *  3. reads r_unparks again, which must be the same.
 *
 * The parks of a processor exceed its unparks by one at most. So step 1 shows that each
 * processor has counted its last park, and has not yet counted the end of that sleep.
 * Step 3 shows that this is still so: from 1 to 3 no processor ran or sent mail. Mail
 * that was sent before step 1 has replaced the mark in an inbox, and step 2 finds that.
 * Native threads may still send mail, and announce that by uprocs_hold(). A thread that
 * waits for an event is counted by uevents_waited() until the thread runs.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* for pthread_setname_np() */
#endif
#include <sched.h>
#include <stdio.h>

#include "../base/cancel.h"
#include "../base/native.h"
#include "policy.h"
#include "proc.h"
#include "../base/when.h"
#include "../../upreempt.h"

enum {
	LOOKS       = 300,              /* looks at an inbox between two system calls */
	LINGER      = 3000,             /* ns to linger: several times the cost of mail */
	LINGER_REST = 64,               /* waits without lingering, after a failure */
	QUICK       = 2,                /* an idle time < QUICK * r_patience is short */
	QUICK_MAX   = 8,                /* the largest p_quick and p_linger */
};

static void *run_native(void *arg)
{
	struct uproc *p = (struct uproc *)arg;
	struct uprocs *r = p->p_procs;
	char name[16];

	defer_cancel();
	snprintf(name, sizeof name, "usched %u", (unsigned)uproc__index(p));
	name_native(name);
	if (p->p_alternate)
		uproc__observer.po_adopt(p->p_alternate);
	if (p->p_sched.s_slice)
		upreempt__adopt(&p->p_sched);
	do {                                    /* see uproc__is_in_the_way() */
		usched_run(&p->p_sched);
		if (GET(r->r_due) != INT64_MAX)
			r->r_follow(p);
		if (uproc__rests(p))
			p->p_left = 1;          /* a look gives threads away */
	} while (!LOAD(r->r_stop));
	if (p->p_alternate)
		uproc__observer.po_leave();
	return NULL;
}

/*
 * The upreempt__state_fn of processors. *progress is made of the numbers of switches,
 * parks, looks for events and calls of s_next. The switches are not enough, since a
 * thread that follows itself makes no switch. A waiting thread is s_current until the
 * next thread is found, so u_tokens says whether s_current runs.
 */
static enum upreempt_state state_of(const struct usched *s, uint64_t *progress)
{
	const struct uproc *p = (const struct uproc *)(const void *)s;
	const struct ustack *u = GET(s->s_current);
	uint64_t runs = GET(s->s_stats.st_switches) + GET(p->p_parked);

	*progress = runs << 32;
	*progress += GET(p->p_looked_for) << 8 | GET(p->p_left);
	if (LOAD(p->p_inbox) == PARKED)
		return UPREEMPT_IDLE;
	return u && GET(u->u_tokens) >= 0 ? UPREEMPT_RUNS : UPREEMPT_BETWEEN;
}

static int start_monitor(struct uprocs *r)
{
	struct upreempt_monitor *m = NULL;
	int rc;

	if (r->r_conf.c_slice == 0 && r->r_conf.c_stall == 0)
		return 0;
	rc = upreempt__watch(&m, (char *)r->r_proc, r->r_stride,
			     r->r_conf.c_processors, state_of, r->r_conf.c_log);
	__atomic_store_n(&r->r_monitor, m, __ATOMIC_SEQ_CST);
	return rc;
}

/* A native thread may still start another, and has then counted it before its end. */
void uproc__stop_natives(struct uprocs *r)
{
	int before = defer_cancel();
	struct upreempt_monitor *m = LOAD(r->r_monitor);

	if (m)
		upreempt__stop(m);
	FETCH_OR(&r->r_stop, 1);
	for (size_t i = 0; i < LOAD(r->r_made) && !uproc__is_driven(r); i++) {
		struct uproc *p = uproc_at(r, i);

		if (SWAP(&p->p_inbox, STOPPED) == PARKED)
			uproc__unpark(p);
		pthread_join(p->p_native, NULL);
	}
	if (m)
		upreempt__unwatch(m);
	allow_cancel(before);
}

static int create_native(struct uproc *p)
{
	const struct uprocs *r = p->p_procs;
	pthread_attr_t attr;
	int rc = pthread_attr_init(&attr);

	if (rc)
		return -rc;
	if (p->p_steps == 0) {                  /* threads run on the native stack */
		size_t size = r->r_conf.c_stack_size;

		if (size < UPROC_NATIVE_STACK)
			size = UPROC_NATIVE_STACK;
		rc = pthread_attr_setstacksize(&attr, size + UIMAGE_GUARD);
		if (rc == 0)            /* glibc takes the guard out of the size */
			rc = pthread_attr_setguardsize(&attr, UIMAGE_GUARD);
	}
	if (rc == 0)
		rc = pthread_create(&p->p_native, &attr, run_native, p);
	pthread_attr_destroy(&attr);
	return -rc;
}

int uproc__start_native(struct uprocs *r)
{
	struct uproc *p = uproc_at(r, r->r_made);
	int rc;

	if (uproc__observer.po_map && !p->p_alternate) {
		p->p_alternate = uproc__observer.po_map();
		if (!p->p_alternate)
			return -ENOMEM;
	}
	uproc__unmark(p);
	FETCH_ADD(&r->r_unparks, 1);
	rc = create_native(p);
	if (rc == 0) {
		FETCH_ADD(&r->r_made, 1);
	} else {
		__atomic_store_n(&p->p_inbox, PARKED, __ATOMIC_SEQ_CST);
		FETCH_ADD(&r->r_parks, 1);
	}
	return rc;
}

int uproc__start_natives(struct uprocs *r)
{
	int rc = 0;

	if (uproc__is_driven(r)) {
		r->r_made = 1;
		return 0;
	}
	while (rc == 0 && r->r_made < r->r_limit)
		rc = uproc__start_native(r);
	if (rc == 0)
		rc = start_monitor(r);
	if (rc)
		uproc__stop_natives(r);
	return rc;
}

/*
 * Looks for the end of all threads, or a deadlock. Returns whether all threads have
 * ended. In a deadlock the threads that join are told by mail. If no thread joins,
 * native threads are told by r_deadlocks. Called under r_lock, by a native thread that
 * waits.
 */
static bool look_for_end(struct uprocs *r)
{
	uint32_t unparks = LOAD(r->r_unparks), count;

	if (r->r_held > 0 || LOAD(r->r_parks) - unparks != r->r_conf.c_processors)
		return false;
	for (size_t i = 0; i < r->r_conf.c_processors; i++) {
		struct uproc *p = uproc_at(r, i);

		if (LOAD(p->p_inbox) != PARKED || uevents_waited(&p->p_sched))
			return false;
	}
	count = uproc__threads(r);
	if (LOAD(r->r_unparks) != unparks)
		return false;
	if (count > 0 && !uproc__report_stuck(r)) {
		r->r_deadlocks++;
		pthread_cond_broadcast(&r->r_changed);
	}
	return count == 0;
}

/*
 * Threads must not move while they are reported. A native thread may wake a thread
 * without a call of uprocs_hold(). So an unparked processor waits in stand() while
 * r_looking is 1.
 */
bool uproc__detect_end(struct uprocs *r)
{
	bool quiet;

	SWAP(&r->r_looking, 1);
	quiet = look_for_end(r);
	SWAP(&r->r_looking, 0);
	return quiet;
}

/* Makes the waiting native threads call uproc__detect_end(). A processor does not call
   that function itself, since the stack of a thread may have no room for a report. */
static void suggest_end(struct uprocs *r)
{
	lock(&r->r_lock);
	if (r->r_joining > 0)
		pthread_cond_broadcast(&r->r_changed);
	unlock(&r->r_lock);
}

/*
 * Looks for mail, before the processor parks, for as long as a sleep and a wake would
 * take. So a wait for mail takes at most twice the least time possible, and two
 * processors that send to each other stay awake. sched_yield() gives the CPU to other
 * native threads. Mail that comes during a system call waits for the end of the call, so
 * most of the time goes to looks at the inbox. Descriptors are only polled if a thread
 * here waits for a descriptor.
 *
 * The looks are in vain where mail comes seldom. So p_quick grows with each idle time
 * that was about as short as the looks, and shrinks with each longer idle time. While
 * p_quick is 0 the processor sleeps at once.
 */
static struct uproc_thread *watch_inbox(struct uproc *p, uproc_pick_fn *pick)
{
	int64_t time = when_now(), again = time + POLICY_AGAIN;
	int64_t end = time + GET(p->p_procs->r_patience);
	struct uproc_thread *t = NULL;

	do {
		for (int i = 0; i < LOOKS; i++)
			if (GET(p->p_inbox))
				return NULL;
		if (uevents_waited(&p->p_sched) && uproc_poll(p, UEVENTS_RUN))
			t = pick(p);
		else
			sched_yield();
		time = when_now();
		if (time >= again && time >= p->p_load.ld_hold) {
			uproc__ask(p);
			again = time + POLICY_AGAIN;
		}
	} while (!t && time < end);
	return t;
}

/* Sleeps until an unpark or the time `until', in a processor without events. */
static void wait_unparked(struct uproc *p, int64_t until)
{
	struct timespec t = when_of(until);
	int rc = 0;

	lock(&p->p_lock);
	while (rc == 0 && LOAD(p->p_inbox) == PARKED)
		rc = until == USCHED_NEVER
			? pthread_cond_wait(&p->p_unparked, &p->p_lock)
			: pthread_cond_timedwait(&p->p_unparked, &p->p_lock, &t);
	unlock(&p->p_lock);
}

/* Waits while threads are reported. Reports are made under r_lock. */
static void stand(struct uprocs *r)
{
	if (LOAD(r->r_looking)) {
		lock(&r->r_lock);
		unlock(&r->r_lock);
	}
}

bool uproc__unmark(struct uproc *p)
{
	struct uproc_thread *mark = PARKED;

	return CAS(&p->p_inbox, &mark, NULL);
}

/* Sleeps, with the mark in the inbox, until an unpark or an event. */
static void sleep_parked(struct uproc *p, int64_t until)
{
	struct uprocs *r = p->p_procs;

	if (FETCH_ADD(&r->r_parks, 1) + 1 - LOAD(r->r_unparks) == r->r_conf.c_processors
	    && !uevents_waited(&p->p_sched))
		suggest_end(r);
	UPROC_COUNT(p->p_parked, 1);
	do {
		int64_t due = uproc__tidy_time(p);

		if (due > until)
			due = until;
		if (!uproc_poll(p, due))
			wait_unparked(p, due);
	} while (LOAD(p->p_inbox) == PARKED && uproc__tidy_idle(p));
	uproc__unmark(p);
	FETCH_ADD(&r->r_unparks, 1);
	if (LOAD(r->r_monitor))
		upreempt__wake(r->r_monitor);
	stand(r);
	uproc__look_at_observer(p);
}

bool uproc__is_stuck(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	bool held;

	if (uevents_waited(&p->p_sched))
		return false;
	if (ONE_NATIVE)                         /* no other native thread can send mail */
		return true;
	if (r->r_returns)
		return false;
	lock(&r->r_lock);
	held = r->r_held > 0;
	unlock(&r->r_lock);
	return !held;
}

/* Parks a driven processor, on the native thread of its driver. Afterwards PARKED may
   still be in the inbox. */
static struct uproc_thread *park_driven(struct uproc *p, uproc_pick_fn *pick)
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
		if (!CAS(&p->p_inbox, &t, PARKED))
			continue;
		if (r->r_leave || uproc__is_stuck(p)) {
			uproc__tidy_idle(p);
			break;
		}
		if (r->r_deadline != INT64_MAX && when_now() >= r->r_deadline)
			break;
		sleep_parked(p, r->r_deadline);
	}
	return NULL;
}

static void count_quick(struct uproc *p, bool quick)
{
	if (quick && p->p_quick < QUICK_MAX)
		p->p_quick++;
	else if (!quick && p->p_quick > 0)
		p->p_quick--;
}

static void count_linger(struct uproc *p, bool gained)
{
	if (gained && p->p_linger < QUICK_MAX)
		p->p_linger++;
	else if (!gained && --p->p_linger < 0)
		p->p_linger = -LINGER_REST;
}

/*
 * Watches *word for LINGER ns if no thread is ready. Returns 1 as soon as *word is not
 * `value'. Instead of lingering, watch_inbox() would look for as long, so no thread is
 * held up. Lingering is in vain if the native thread that would change *word has no CPU.
 * Then p_linger switches lingering off for some waits. A successful call counts as a
 * call of s_next, so each p_interval-th wait blocks, and the processor looks for events.
 */
int uproc__linger(struct usched *s, const uint8_t *word, uint8_t value)
{
	struct uproc *p = uproc_from(s);
	int64_t end;

	if (p->p_quick == 0 || p->p_left <= 1 || p->p_head != p->p_tail
	    || (uintptr_t)s->s_slot > (uintptr_t)USCHED_CLOSED)
		return 0;
	if (p->p_linger < 0) {
		p->p_linger++;
		return 0;
	}
	end = when_now() + LINGER;
	do
		for (int i = 0; i < LOOKS; i++) {
			if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
				p->p_left--;
				count_quick(p, true);
				count_linger(p, true);
				return 1;
			}
			if (GET(p->p_inbox))
				return 0;
		}
	while (when_now() < end);
	count_linger(p, false);
	return 0;
}

static struct uproc_thread *park(struct uproc *p, uproc_pick_fn *pick)
{
	struct uproc_load *l = &p->p_load;
	struct uprocs *r = p->p_procs;
	struct uproc_thread *t = NULL;
	int64_t began = when_now(), now = began;

	policy_measure(l, began, p->p_sched.s_stats.st_switches);
	policy_judge(l, began);
	while (!t && !LOAD(r->r_stop) && began < GET(r->r_due)) {
		if (p->p_quick > 0 && !uproc__rests(p))
			t = watch_inbox(p, pick);
		if (t)
			break;
		if (now >= l->ld_hold)
			uproc__ask(p);
		if (CAS(&p->p_inbox, &t, PARKED))
			sleep_parked(p, now < l->ld_hold ? l->ld_hold : USCHED_NEVER);
		uproc_drain(p);
		t = pick(p);
		now = when_now();
	}
	now = when_now();
	uproc__stop_asking(p, now);
	l->ld_idle += now - began;
	l->ld_woke = now;
	count_quick(p, now - began < QUICK * (int64_t)GET(r->r_patience));
	return t;
}

struct ustack *uproc_park(struct uproc *p, uproc_pick_fn *pick)
{
	struct uproc_thread *t;

	if (uproc__is_in_the_way(p))
		return NULL;                    /* to run_native() */
	uproc__take_left(p);
	t = uproc__is_driven(p->p_procs) ? park_driven(p, pick) : park(p, pick);
	p->p_looked = 0;
	return t ? &t->th_stack : NULL;
}
