/* SPDX-License-Identifier: MIT */
/*
 * foreign.h: a scheduler as a user might write it, over usched.h and uevents.h alone:
 * usync.h and unet.h must need no more than these promise. One dispatcher on a native
 * thread of its own, runnable threads first in first out, one lock for everything.
 *
 * Its functions are called as those of rr.h, and do the same, except for a deadlock:
 * only native threads that join are told, and nothing is reported.
 */
#ifndef USCHED_TEST_FOREIGN_H
#define USCHED_TEST_FOREIGN_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "../../uprocs.h"
#include "../../uevents.h"
#include "../../src/base/when.h"
#include "../../ustack.h"
#include "test.h"

enum {
	FOREIGN_STACKS     = 3,                 /* unless c_stacks says otherwise */
	FOREIGN_MOST       = 64,
	FOREIGN_STACK_SIZE = 256 << 10,         /* bytes */
	FOREIGN_NATIVE     = 8 << 20,           /* bytes */
};

/* Why the running thread blocks. */
enum foreign_intent { FOREIGN_BLOCK, FOREIGN_YIELD, FOREIGN_JOIN };

/* All under f_lock, except for the first. */
struct foreign_thread {
	struct ustack          t_ustack;        /* first */
	struct foreign_thread *t_ready;         /* the next in f_ready, */
	struct foreign_thread *t_cancel;        /* in f_cancels, */
	struct foreign_thread *t_next;          /* and in f_threads */
	struct foreign_thread *t_prev;
	struct foreign_thread *t_joiner;        /* a thread, or NULL */
	unsigned               t_tokens;
	unsigned               t_allocs;        /* of images and its waiter */
	int                    t_news;          /* what its join returns */
	bool                   t_waits;         /* for a token */
	bool                   t_joins;         /* waits for news */
	bool                   t_cancelled;     /* in f_cancels */
	bool                   t_claimed;       /* by a joiner */
	bool                   t_detached;
	bool                   t_ended;
};

struct foreign {
	struct usched          f_sched;         /* first */
	enum foreign_intent    f_intent;        /* the dispatcher's */
	pthread_t              f_native;
	void                  *f_stacks[FOREIGN_MOST];
	unsigned               f_count;         /* of them */
	int                    f_rc;            /* what foreign_destroy() returns */

	pthread_mutex_t        f_lock;
	pthread_cond_t         f_wake;          /* the dispatcher has no events */
	pthread_cond_t         f_changed;       /* a thread ended, or all wait */
	struct foreign_thread *f_ready;         /* the first of a list, */
	struct foreign_thread *f_last;          /* and the last */
	struct foreign_thread *f_cancels;       /* to be told of a cancel */
	struct foreign_thread *f_threads;       /* that were not freed */
	unsigned               f_alive;         /* threads that have not ended */
	unsigned               f_held;
	bool                   f_asleep;
	bool                   f_stop;
};

static inline struct foreign_thread *foreign_thread(struct ustack *u)
{
	return (struct foreign_thread *)(void *)u;
}

/* ---- Under f_lock ---- */

static inline void foreign_rouse(struct foreign *f)
{
	if (!f->f_asleep)
		return;
	f->f_asleep = false;
	if (!uevents_interrupt(&f->f_sched))
		pthread_cond_signal(&f->f_wake);
}

static inline void foreign_push(struct foreign *f, struct foreign_thread *t)
{
	t->t_ready = NULL;
	if (f->f_ready)
		f->f_last->t_ready = t;
	else
		f->f_ready = t;
	f->f_last = t;
	foreign_rouse(f);
}

static inline struct foreign_thread *foreign_pop(struct foreign *f)
{
	struct foreign_thread *t = f->f_ready;

	if (t)
		f->f_ready = t->t_ready;
	return t;
}

/* Ends a join. */
static inline void foreign_tell(struct foreign *f, struct foreign_thread *t, int news)
{
	if (!t->t_joins)
		return;
	t->t_joins = false;
	t->t_news = news;
	foreign_push(f, t);
}

static inline void foreign_put(struct foreign *f, struct foreign_thread *t)
{
	if (t->t_prev)
		t->t_prev->t_next = t->t_next;
	else
		f->f_threads = t->t_next;
	if (t->t_next)
		t->t_next->t_prev = t->t_prev;
	free(t);
}

/* Whether nothing can make a thread runnable any more. */
static inline bool foreign_stuck(const struct foreign *f)
{
	return f->f_asleep && f->f_held == 0 && !uevents_waited(&f->f_sched);
}

/* Its record may be freed from now on. */
static inline void foreign_forget(struct foreign *f, struct foreign_thread *t)
{
	struct foreign_thread **link = &f->f_cancels;

	if (!t->t_cancelled)
		return;
	while (*link != t)
		link = &(*link)->t_cancel;
	*link = t->t_cancel;
}

/* The lock is open while the threads are told, for that may wake them. */
static inline void foreign_tell_cancelled(struct foreign *f)
{
	struct foreign_thread *t;

	while ((t = f->f_cancels)) {
		f->f_cancels = t->t_cancel;
		t->t_cancelled = false;
		pthread_mutex_unlock(&f->f_lock);
		ustack_cancel_here(&t->t_ustack);
		pthread_mutex_lock(&f->f_lock);
	}
}

/* True: the thread that blocks goes on at once. */
static inline bool foreign_goes_on(struct foreign *f, struct foreign_thread *t)
{
	enum foreign_intent intent = f->f_intent;

	f->f_intent = FOREIGN_BLOCK;
	if (intent == FOREIGN_YIELD)
		foreign_push(f, t);
	if (intent != FOREIGN_BLOCK)
		return false;
	t->t_waits = t->t_tokens == 0;
	if (!t->t_waits)
		t->t_tokens--;
	return !t->t_waits;
}

static inline void foreign_sleep(struct foreign *f)
{
	f->f_asleep = true;
	pthread_cond_broadcast(&f->f_changed);
	if (!f->f_sched.s_events) {
		while (f->f_asleep)
			pthread_cond_wait(&f->f_wake, &f->f_lock);
		return;
	}
	pthread_mutex_unlock(&f->f_lock);
	uevents_sleep(&f->f_sched, USCHED_NEVER);
	pthread_mutex_lock(&f->f_lock);
	f->f_asleep = false;
}

/* ---- Call-backs ---- */

static inline struct ustack *foreign_next(struct usched *s)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct ustack *self = ustack_self();
	struct foreign_thread *t;

	pthread_mutex_lock(&f->f_lock);
	foreign_tell_cancelled(f);
	if (self && foreign_goes_on(f, foreign_thread(self))) {
		pthread_mutex_unlock(&f->f_lock);
		return self;
	}
	pthread_mutex_unlock(&f->f_lock);
	uevents_look(s);                        /* it wakes threads: with the lock open */
	pthread_mutex_lock(&f->f_lock);
	foreign_tell_cancelled(f);
	while (!(t = foreign_pop(f)) && !f->f_stop) {
		foreign_sleep(f);
		foreign_tell_cancelled(f);
	}
	pthread_mutex_unlock(&f->f_lock);
	return t ? &t->t_ustack : NULL;
}

static inline void *foreign_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	foreign_thread(u)->t_allocs++;
	return malloc(*size);
}

static inline void foreign_free(struct usched *s, struct ustack *u, void *image,
				size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

static inline void foreign_done(struct usched *s, struct ustack *u)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct foreign_thread *t = foreign_thread(u);

	pthread_mutex_lock(&f->f_lock);
	t->t_ended = true;
	f->f_alive--;
	if (t->t_joiner)
		foreign_tell(f, t->t_joiner, 0);
	foreign_forget(f, t);
	if (t->t_detached)
		foreign_put(f, t);
	pthread_cond_broadcast(&f->f_changed);
	pthread_mutex_unlock(&f->f_lock);
}

static inline int foreign_wake(struct usched *s, struct ustack *u)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct foreign_thread *t = foreign_thread(u);
	int rc = 0;

	pthread_mutex_lock(&f->f_lock);
	if (t->t_ended) {
		rc = -ESRCH;
	} else if (t->t_waits) {
		t->t_waits = false;
		foreign_push(f, t);
	} else {
		t->t_tokens++;
	}
	pthread_mutex_unlock(&f->f_lock);
	return rc;
}

static inline int foreign_cancel(struct usched *s, struct ustack *u)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct foreign_thread *t = foreign_thread(u);
	int rc = 0;

	pthread_mutex_lock(&f->f_lock);
	if (t->t_ended) {
		rc = -ESRCH;
	} else if (!t->t_cancelled) {
		t->t_cancelled = true;
		t->t_cancel = f->f_cancels;
		f->f_cancels = t;
		foreign_rouse(f);
	}
	pthread_mutex_unlock(&f->f_lock);
	return rc;
}

static inline void foreign_interrupt(struct usched *s, struct ustack *u)
{
	struct foreign *f = (struct foreign *)(void *)s;

	pthread_mutex_lock(&f->f_lock);
	foreign_tell(f, foreign_thread(u), -EDEADLK);
	pthread_mutex_unlock(&f->f_lock);
}

/* ---- Join ---- */

/* Frees `t', which has ended and was joined, for its value. */
static inline void foreign_take(struct foreign *f, struct foreign_thread *t, void **value)
{
	if (value)
		*value = ustack_value(&t->t_ustack);
	foreign_put(f, t);
}

/* Under f_lock: 1: `t' has ended, and was freed. */
static inline int foreign_claim(struct foreign *f, struct foreign_thread *t, void **value)
{
	if (t->t_claimed || t->t_detached)
		return -EINVAL;
	t->t_claimed = true;
	if (!t->t_ended)
		return 0;
	foreign_take(f, t, value);
	return 1;
}

/* Under f_lock: the joiner of `t' goes on, with `rc' unless `t' has ended after all. */
static inline int foreign_joined(struct foreign *f, struct foreign_thread *t,
				 void **value, int rc)
{
	t->t_joiner = NULL;
	if (!t->t_ended) {
		t->t_claimed = false;
		return rc;
	}
	foreign_take(f, t, value);
	return 0;
}

static inline int foreign_join_by_native(struct foreign *f, struct foreign_thread *t,
					 void **value, int64_t deadline)
{
	struct timespec until = when_of(deadline);
	int rc;

	pthread_mutex_lock(&f->f_lock);
	rc = foreign_claim(f, t, value);
	if (rc) {
		pthread_mutex_unlock(&f->f_lock);
		return rc < 0 ? rc : 0;
	}
	f->f_held += deadline != USCHED_NEVER; /* it will come back */
	while (rc == 0 && !t->t_ended) {
		if (foreign_stuck(f))
			rc = -EDEADLK;
		else if (deadline == USCHED_NEVER)
			pthread_cond_wait(&f->f_changed, &f->f_lock);
		else
			rc = -pthread_cond_timedwait(&f->f_changed, &f->f_lock, &until);
	}
	f->f_held -= deadline != USCHED_NEVER;
	pthread_cond_broadcast(&f->f_changed);
	rc = foreign_joined(f, t, value, rc);
	pthread_mutex_unlock(&f->f_lock);
	return rc;
}

/* Until the end of `t', or foreign_interrupt(). */
static inline int foreign_join_by_thread(struct foreign *f, struct foreign_thread *t,
					 void **value, int64_t deadline)
{
	struct foreign_thread *me = foreign_thread(ustack_self());
	int rc = t == me ? -EDEADLK : ustack_reserve(0);

	if (rc)
		return rc;
	pthread_mutex_lock(&f->f_lock);
	rc = foreign_claim(f, t, value);
	if (rc == 0 && deadline == 0) {
		t->t_claimed = false;
		rc = -ETIMEDOUT;
	}
	if (rc == 0) {
		t->t_joiner = me;
		me->t_joins = true;
		f->f_intent = FOREIGN_JOIN;
		pthread_mutex_unlock(&f->f_lock);
		ustack_block();                 /* cannot fail: reserved */
		pthread_mutex_lock(&f->f_lock);
		rc = foreign_joined(f, t, value, me->t_news);
	}
	pthread_mutex_unlock(&f->f_lock);
	return rc < 0 ? rc : 0;
}

/* Threads of other dispatchers cannot: they would block their own. */
static inline int foreign_join(struct usched *s, struct ustack *u, void **value,
			       int64_t deadline)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct ustack *self = ustack_self();


	if (!self)
		return foreign_join_by_native(f, foreign_thread(u), value, deadline);
	if (ustack_sched(self) != s)
		return -EPERM;
	return foreign_join_by_thread(f, foreign_thread(u), value, deadline);
}

static inline int foreign_detach(struct usched *s, struct ustack *u)
{
	struct foreign *f = (struct foreign *)(void *)s;
	struct foreign_thread *t = foreign_thread(u);
	int rc;

	pthread_mutex_lock(&f->f_lock);
	rc = foreign_claim(f, t, NULL);
	if (rc == 0)
		t->t_detached = true;
	pthread_mutex_unlock(&f->f_lock);
	return rc < 0 ? rc : 0;
}

static inline int foreign_yield(struct usched *s)
{
	struct foreign *f = (struct foreign *)(void *)s;
	int rc;

	f->f_intent = FOREIGN_YIELD;
	rc = ustack_block();
	if (rc)
		f->f_intent = FOREIGN_BLOCK;
	return rc;
}

/* ---- As in rr.h ---- */

/* Ends when it is told to: then what is left can only be aborted. */
static inline void *foreign_run(void *arg)
{
	struct foreign *f = arg;
	struct foreign_thread *t;

	TEST_EQUAL(usched_run(&f->f_sched), 0);
	for (t = f->f_threads; t; t = t->t_next)
		t->t_joiner = NULL;
	while ((t = f->f_threads)) {
		t->t_detached = true;
		if (t->t_ended)
			foreign_put(f, t);
		else
			TEST_EQUAL(ustack_abort(&t->t_ustack), 0);
	}
	uevents_close(&f->f_sched);
	return NULL;
}

static inline void foreign_add_stacks(struct foreign *f, const struct uprocs_conf *conf)
{
	unsigned n = conf && conf->c_stacks ? conf->c_stacks : FOREIGN_STACKS;

	if (n == USCHED_NATIVE || !test_has_stacks())
		return;
	for (; f->f_count < n && f->f_count < FOREIGN_MOST; f->f_count++) {
		void *stack = malloc(FOREIGN_STACK_SIZE);

		TEST_TRUE(stack);
		f->f_stacks[f->f_count] = stack;
		TEST_EQUAL(usched_add_stack(&f->f_sched, stack, FOREIGN_STACK_SIZE), 0);
	}
}

static const struct usched_calls foreign_calls = {
	.s_polls = 1, .s_next = foreign_next, .s_alloc = foreign_alloc,
	.s_free = foreign_free, .s_done = foreign_done, .s_wake = foreign_wake,
	.s_yield = foreign_yield, .s_detach = foreign_detach, .s_cancel = foreign_cancel,
	.s_join = foreign_join, .s_interrupt = foreign_interrupt,
};

static inline int foreign_create(const struct uprocs_conf *conf, struct foreign **out)
{
	struct foreign *f = calloc(1, sizeof *f);
	pthread_condattr_t monotonic;
	pthread_attr_t attr;

	TEST_TRUE(f);
	TEST_EQUAL(usched_init(&f->f_sched, &foreign_calls), 0);
	foreign_add_stacks(f, conf);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&f->f_lock, NULL);
	pthread_cond_init(&f->f_wake, NULL);
	pthread_cond_init(&f->f_changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, FOREIGN_NATIVE);
	TEST_EQUAL(pthread_create(&f->f_native, &attr, foreign_run, f), 0);
	pthread_attr_destroy(&attr);
	*out = f;
	return 0;
}

static inline int foreign_destroy(struct foreign *f)
{
	int rc;

	pthread_mutex_lock(&f->f_lock);
	while (f->f_alive > 0 && !foreign_stuck(f))
		pthread_cond_wait(&f->f_changed, &f->f_lock);
	rc = f->f_alive > 0 ? -EDEADLK : 0;
	f->f_stop = true;
	foreign_rouse(f);
	pthread_mutex_unlock(&f->f_lock);
	pthread_join(f->f_native, NULL);
	TEST_EQUAL(usched_fini(&f->f_sched), 0);
	while (f->f_count > 0)
		free(f->f_stacks[--f->f_count]);
	pthread_mutex_destroy(&f->f_lock);
	pthread_cond_destroy(&f->f_wake);
	pthread_cond_destroy(&f->f_changed);
	free(f);
	return rc;
}

static inline struct foreign_thread *foreign_new(struct ustack **thread)
{
	struct foreign_thread *t = calloc(1, sizeof *t);

	TEST_TRUE(t);
	t->t_detached = !thread;
	if (thread)
		*thread = &t->t_ustack;
	return t;
}

static inline void foreign_launch(struct foreign *f, struct foreign_thread *t)
{
	pthread_mutex_lock(&f->f_lock);
	t->t_next = f->f_threads;
	if (t->t_next)
		t->t_next->t_prev = t;
	f->f_threads = t;
	f->f_alive++;
	foreign_push(f, t);
	pthread_mutex_unlock(&f->f_lock);
}

/* Of `how' it has descriptors. */
static inline int foreign_start_with(struct foreign *f, const struct ustack_how *how,
				     void (*func)(void *), void *arg,
				     struct ustack **thread)
{
	struct foreign_thread *t;

	if (how && (how->h_stack || how->h_processor || how->h_detached || how->h_name))
		return -ENOTSUP;
	t = foreign_new(thread);
	if (how && how->h_serve)
		TEST_EQUAL(ustack_init_fd(&f->f_sched, &t->t_ustack, how->h_serve,
					  how->h_fd, arg), 0);
	else
		TEST_EQUAL(ustack_init(&f->f_sched, &t->t_ustack, func, arg), 0);
	foreign_launch(f, t);
	return 0;
}

static inline int foreign_start(struct foreign *f, void (*func)(void *), void *arg,
				struct ustack **thread)
{
	return foreign_start_with(f, NULL, func, arg, thread);
}

static inline void foreign_hold(struct foreign *f)
{
	pthread_mutex_lock(&f->f_lock);
	f->f_held++;
	pthread_mutex_unlock(&f->f_lock);
}

static inline void foreign_release(struct foreign *f)
{
	pthread_mutex_lock(&f->f_lock);
	f->f_held--;
	pthread_cond_broadcast(&f->f_changed);
	pthread_mutex_unlock(&f->f_lock);
}

static inline void foreign_stats(struct foreign *f, struct usched_stats *out)
{
	usched_stats(&f->f_sched, out);
}

#endif /* USCHED_TEST_FOREIGN_H */
