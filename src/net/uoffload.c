/* SPDX-License-Identifier: MIT */
/*
 * uoffload.c: a pool of native threads. Jobs are described in src/net/offload.h.
 *
 * Each job and each native thread belongs to a class. A class has a queue of its own, and
 * up to o_limit native threads, so no class waits for another.
 *
 * While a native thread performs a job, the job is in the list o_going. So
 * uoffload_drain() can name the function, and leak checkers find the job if the process
 * exits meanwhile.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dladdr() */
#endif
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../base/cancel.h"
#include "../base/check.h"
#include "../base/code.h"
#include "../base/native.h"
#include "../base/sim.h"
#include "../base/when.h"
#include "offload.h"

enum {
	IDLE_SECONDS = 10,              /* seconds until an idle native thread ends */
	MOMENT       = 1000000,         /* ns between two checks if all have ended */
	BLOCK_ROOM   = 256,             /* bytes that uwait_block() needs, at -O0 */
};

struct crew {
	pthread_cond_t  cr_work;        /* signalled for jobs, or if threads must end */
	struct job     *cr_first;
	struct job    **cr_end;
	unsigned        cr_queued;
	unsigned        cr_threads;
	unsigned        cr_idle;
};

static struct {
	pthread_mutex_t o_lock;         /* protects all members below */
	pthread_cond_t  o_quiet;        /* signalled when the last native thread ends */
	struct crew     o_crews[OFFLOAD_CLASSES];
	struct job     *o_going;        /* jobs that native threads perform now */
	unsigned        o_limit;        /* the most native threads of a class */
	unsigned        o_threads;      /* native threads of all classes */
	unsigned        o_draining;     /* callers of uoffload_drain() */
	bool            o_one_ended;    /* o_ended has to be joined */
	pthread_t       o_ended;
} offload = {
	.o_lock  = PTHREAD_MUTEX_INITIALIZER,
	.o_quiet = PTHREAD_COND_INITIALIZER,
	.o_crews = {
		[OFFLOAD_CALLS] = { .cr_work = PTHREAD_COND_INITIALIZER },
		[OFFLOAD_FILES] = { .cr_work = PTHREAD_COND_INITIALIZER },
		[OFFLOAD_NAMES] = { .cr_work = PTHREAD_COND_INITIALIZER },
	},
	.o_limit = UOFFLOAD_THREADS,
};

/* What the caller of a job waits for, in reports. */
static const struct uwait_kind in_pool = { .kd_name = "the pool of native threads" };

struct job *uoffload__new_job(enum job_kind kind, void (*func)(void *data),
			      void (*drop)(void *data), size_t size)
{
	struct job *job = size < SIZE_MAX - sizeof *job
		? (struct job *)malloc(sizeof *job + size) : NULL;

	if (job)
		*job = (struct job){ .j_kind = kind, .j_func = func, .j_drop = drop };
	return job;
}

/* Waits for jobs, and takes the first. Returns false if this native thread must end. */
static bool dequeue(struct crew *c, struct job **job)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	while (!c->cr_first && rc == 0 && !offload.o_draining
	       && c->cr_threads <= offload.o_limit) {
		c->cr_idle++;
		rc = pthread_cond_timedwait(&c->cr_work, &offload.o_lock, &until);
		c->cr_idle--;
	}
	*job = c->cr_first;
	if (!*job || c->cr_threads > offload.o_limit)
		return false;
	c->cr_first = (*job)->j_next;
	c->cr_queued--;
	return true;
}

static void drop_job(struct job *job)
{
	if (job->j_drop)
		job->j_drop(job->j_data);
	free(job);
}

/* Calls the function of a job. Called under o_lock, which is released meanwhile. */
static void perform_job(struct job *job)
{
	struct uwaiter *w;
	struct job **at;
	bool skip = job->j_skip && !job->j_waiter;

	job->j_next = offload.o_going;
	offload.o_going = job;
	pthread_mutex_unlock(&offload.o_lock);
	if (!skip)
		job->j_func(job->j_data);
	pthread_mutex_lock(&offload.o_lock);
	for (at = &offload.o_going; *at != job; at = &(*at)->j_next)
		;
	*at = job->j_next;
	w = job->j_waiter;
	job->j_done = true;
	if (w && uwait_claim(w)) {
		uwait_finish(w, 0);
	} else if (!w) {
		pthread_mutex_unlock(&offload.o_lock);
		drop_job(job);
		pthread_mutex_lock(&offload.o_lock);
	}
}

/* Joins the native thread that has ended last, if any. If `ends' is set, the caller ends,
   too, and the next call joins the caller. Called under o_lock, which is released. */
static void join_worker(bool ends)
{
	bool one = offload.o_one_ended;
	pthread_t ended = offload.o_ended;

	offload.o_one_ended = ends;
	offload.o_ended = pthread_self();
	pthread_mutex_unlock(&offload.o_lock);
	if (one)
		pthread_join(ended, NULL);
}

static void *work(void *crew)
{
	struct crew *c = (struct crew *)crew;
	struct job *job;

	name_native("usched pool");
	pthread_mutex_lock(&offload.o_lock);
	while (dequeue(c, &job))
		perform_job(job);
	c->cr_threads--;
	if (--offload.o_threads == 0)
		pthread_cond_broadcast(&offload.o_quiet);
	join_worker(true);
	return NULL;
}

/* Starts a native thread, if the system can. Called under o_lock. */
APART static void add_native(struct crew *c)
{
	sigset_t all, old;
	pthread_t native;
	bool added;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	added = pthread_create(&native, NULL, work, c) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->cr_threads += added;
	offload.o_threads += added;
}

/* Queues the job, and begins the wait. Returns 0, or -EAGAIN if the class has no native
   thread. */
static int enqueue(struct job *job)
{
	struct crew *c = &offload.o_crews[job->j_kind];
	int rc;

	pthread_mutex_lock(&offload.o_lock);
	if (c->cr_idle <= c->cr_queued && c->cr_threads < offload.o_limit)
		add_native(c);
	rc = c->cr_threads > 0 ? 0 : -EAGAIN;
	if (rc == 0) {
		uwait_begin(job->j_waiter);
		*(c->cr_first ? c->cr_end : &c->cr_first) = job;
		c->cr_end = &job->j_next;
		c->cr_queued++;
		pthread_cond_signal(&c->cr_work);
	}
	pthread_mutex_unlock(&offload.o_lock);
	return rc;
}

int uoffload__begin(struct job *job, int64_t deadline, struct uwaiter **w,
		    const void *where)
{
	int rc;

	if (SIMULATED && ustack_self()) {       /* a simulation has no native threads */
		ustack_yield();
		job->j_func(job->j_data);
		return 0;
	}
	*w = uwait_prepare(deadline, true);
	rc = uwait_error(*w);
	if (rc == 0 && !(*w)->w_outside)
		rc = ustack_reserve(BLOCK_ROOM);        /* -ENOMEM: `func' will not run */
	if (rc == 0) {
		job->j_waiter = *w;
		uwait_note(*w, &in_pool, NULL, where);
		rc = enqueue(job);
	}
	if (rc == 0)
		return OFFLOAD_WAITS;
	drop_job(job);
	return rc;
}

int uoffload__give_up(struct job *job, int rc)
{
	pthread_mutex_lock(&offload.o_lock);
	job->j_waiter = NULL;
	if (job->j_done)                        /* the job was done meanwhile */
		rc = 0;
	pthread_mutex_unlock(&offload.o_lock);
	return rc;
}

/* Runs a job on a copy of the argument, and copies the argument back. Inlined, so that a
   report shows the place in the program. */
__attribute__((always_inline))
static inline int offload_as(enum job_kind kind, void (*func)(void *argument),
		      void (*drop)(void *argument), void *argument, size_t size,
		      int64_t deadline)
{
	struct job *job = uoffload__new_job(kind, func, drop, size);
	int rc;

	if (!job && drop)
		drop(argument);
	if (!job)
		return -ENOMEM;
	if (size > 0)
		memcpy(job->j_data, argument, size);
	rc = offload_run(job, deadline);
	if (rc)
		return rc;
	if (size > 0)
		memcpy(argument, job->j_data, size);
	free(job);
	return 0;
}

int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline)
{
	check(size ? argument : NULL, CHECK_BUFFER, __func__);
	check_inside(argument, size, __func__, __builtin_return_address(0));
	return offload_as(OFFLOAD_CALLS, func, drop, argument, size, deadline);
}

int uoffload__apart(bool disk, void (*func)(void *argument), void *argument,
		    size_t size)
{
	enum job_kind kind = disk ? OFFLOAD_FILES : OFFLOAD_NAMES;

	return offload_as(kind, func, NULL, argument, size, USCHED_NEVER);
}

/* Wakes idle native threads, which then check if they must end. Called under o_lock. */
static void wake_all(void)
{
	for (int i = 0; i < OFFLOAD_CLASSES; i++)
		pthread_cond_broadcast(&offload.o_crews[i].cr_work);
}

int uoffload_limit(unsigned threads)
{
	if (threads == 0)
		return -EINVAL;
	pthread_mutex_lock(&offload.o_lock);
	offload.o_limit = threads;
	wake_all();
	pthread_mutex_unlock(&offload.o_lock);
	return 0;
}

/* Reports once each function that native threads perform. Called under o_lock. */
static void report_going(unsigned queued)
{
	const struct job *i, *j;
	char function[CODE];
	unsigned n;

	fprintf(stderr, "usched: uoffload_drain: calls that go on at the deadline:\n");
	for (j = offload.o_going; j; j = j->j_next) {
		for (i = offload.o_going; i->j_func != j->j_func; i = i->j_next)
			;
		if (i != j)
			continue;
		for (n = 0; i; i = i->j_next)
			n += i->j_func == j->j_func;
		fprintf(stderr, "usched:   function %s, calls: %u\n",
			code(function, (const void *)(uintptr_t)j->j_func), n);
	}
	if (queued > 0)
		fprintf(stderr, "usched:   that wait for a native thread: %u\n", queued);
}

/* Waits for o_quiet, under o_lock. Returns -ETIMEDOUT, or 0 if the caller is to look
   again. The wait uses the clock of the day, so it may end at a wrong time. */
static int wait_quiet(int64_t deadline)
{
	int64_t now = when_now(), left = deadline > now ? deadline - now : MOMENT;
	struct timespec until;
	unsigned queued = 0;

	if (deadline == USCHED_NEVER)
		return -pthread_cond_wait(&offload.o_quiet, &offload.o_lock);
	for (int i = 0; i < OFFLOAD_CLASSES; i++)
		queued += offload.o_crews[i].cr_queued;
	if (deadline <= now && (offload.o_going || queued > 0)) {
		report_going(queued);
		return -ETIMEDOUT;
	}
	if (left > INT64_MAX / 2)
		left = INT64_MAX / 2;           /* so that the sum does not overflow */
	until = when_of(when_by(CLOCK_REALTIME) + left);
	pthread_cond_timedwait(&offload.o_quiet, &offload.o_lock, &until);
	return 0;
}

int uoffload_drain(int64_t deadline)
{
	int before = defer_cancel(), rc = 0;

	pthread_mutex_lock(&offload.o_lock);
	offload.o_draining++;
	wake_all();
	while (offload.o_threads > 0 && rc == 0)
		rc = wait_quiet(deadline);
	offload.o_draining--;
	join_worker(false);
	allow_cancel(before);
	return rc;
}

/* Forgets the parent's native threads, and the locks that these held. */
void uoffload__forked(void)
{
	offload.o_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	offload.o_quiet = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (int i = 0; i < OFFLOAD_CLASSES; i++)
		offload.o_crews[i] = (struct crew){ .cr_work = PTHREAD_COND_INITIALIZER };
	offload.o_going = NULL;
	offload.o_threads = 0;
	offload.o_draining = 0;
	offload.o_one_ended = false;
}
