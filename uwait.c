/* SPDX-License-Identifier: MIT */
/*
 * uwait.c: waiters.
 *
 *	IDLE --uwait_begin()--> WAITING --uwait_claim()--> WAKING --uwait_finish()--> IDLE
 *	       the waiter                one of several             the same
 *
 * A waiter goes on, and may end, only when it is IDLE: then no other uses it.
 *
 * Invariants
 *  - A waiter is granted under the lock of a queue it is in, or on its own native
 *    thread (deadline, cancel): so it cannot be granted for a wait that is long over.
 *  - Wakes are counted. A block that another wake has ended is repeated, and the token is
 *    given back. So a program may use wakes beside. A grant whose wake no block took,
 *    since there was no memory to block, leaves w_owed to the next wait.
 *  - The timer stays armed when a wait ends, for the next is likely to end later: then
 *    there is nothing to do. When it expires too early it is armed again.
 *  - In a join with a deadline the scheduler blocks the thread, and w_state stays IDLE.
 *    The timer and a cancel end it by s_interrupt; u_cancelled and w_joins say which.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE         /* CLOCK_MONOTONIC, pthread_condattr_setclock() */
#endif
#include "uwait.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { IDLE, WAITING, WAKING };

enum {
	ROOM   = 128,  /* bytes of frames that uwait_block() may take besides */
	SPINS  = 100,                   /* then the holder may need this CPU */
	SECOND = 1000000000,            /* ns */
	ALIGN  = 64,                    /* bytes: rooms grow by so many */
};

/* The waiter of a native thread. */
struct uwait_native {
	struct uwaiter  n_waiter;
	struct uevents *n_events;       /* or NULL */
	bool            n_polls;        /* waits for these, and not for n_granted */
	pthread_mutex_t n_lock;
	pthread_cond_t  n_granted;
};

/* The key of struct uwait_native. */
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t   key;
static int             key_made;        /* atomic; key_lock */

static struct uwaiter *new_waiter(void);
static struct uwaiter *native_waiter(void);
static bool make_key(void);
static void free_native(void *native);
static int  prepare(struct uwaiter **w, int64_t deadline, bool outside);
static void end(struct ustack_attachment *l);
static int  shielded(const struct ustack_attachment *l);
static void cancel(struct ustack_attachment *l);
static void free_waiter(struct ustack_attachment *l);
static void describe(struct ustack_attachment *l, struct ustack_why *why);
static void expired(struct utimer *t);
static void arm_timer(struct uwaiter *w);
static void count(struct uwaiter *w, int n);
static void block_thread(struct uwaiter *w);
static void block_native(struct uwaiter *w);
static bool sleep_native(struct uwait_native *n, int64_t deadline);
static void relax(unsigned *spins);

static const struct ustack_attachment_ops ops = {
	.a_end = end, .a_shielded = shielded, .a_cancel = cancel, .a_free = free_waiter,
	.a_describe = describe,
};

static struct uwaiter *waiter_of(struct ustack_attachment *l)
{
	return (struct uwaiter *)(void *)l;
}

struct uwaiter *uwait_self(void)
{
	struct ustack *u = ustack_self();

	if (!u)
		return native_waiter();
	return u->u_attached ? waiter_of(u->u_attachment) : new_waiter();
}

uintptr_t uwait_name(void)
{
	struct ustack *u = ustack_self();

	return u ? (uintptr_t)u : (uintptr_t)pthread_self();
}

int uwait_prepare(struct uwaiter **w, int64_t deadline)
{
	return prepare(w, deadline, false);
}

int uwait_prepare_outside(struct uwaiter **w, int64_t deadline)
{
	return prepare(w, deadline, true);
}

int uwait_events(struct uwaiter *w, struct uevents **e)
{
	struct uwait_native *n = w->w_native;
	int rc = 0;

	if (!n) {
		*e = ustack_sched(w->w_thread)->s_events;
		return 0;
	}
	if (!n->n_events)
		rc = uevents_create(&n->n_events);
	n->n_polls = rc == 0;
	*e = n->n_events;
	return rc;
}

void uwait_begin(struct uwaiter *w)
{
	__atomic_store_n(&w->w_state, WAITING, __ATOMIC_RELAXED); /* the lock orders it */
}

void *uwait_room(struct uwaiter *w, size_t size)
{
	void *room;

	if (size <= w->w_size)
		return w->w_room;
	if (size > SIZE_MAX - ALIGN)
		return NULL;
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	room = malloc(size);
	if (!room)
		return NULL;
	free(w->w_room);
	w->w_room = room;
	w->w_size = size;
	return room;
}

UWAIT_CALL int uwait_block(struct uwaiter *w)
{
	if (!w->w_kind)
		w->w_where = __builtin_return_address(0);
	if (w->w_thread)
		block_thread(w);
	else
		block_native(w);
	return w->w_result;
}

bool uwait_withdraw(struct uwaiter *w)
{
	uint32_t state = WAITING;

	return __atomic_compare_exchange_n(&w->w_state, &state, IDLE, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

int uwait_join(struct ustack *u, const void *where, int64_t deadline)
{
	struct usched *s = ustack_sched(u);
	struct uwaiter *w;
	int rc = uwait_prepare(&w, deadline > 0 ? deadline : 1);

	if (rc)
		return rc;
	arm_timer(w);
	count(w, 1);
	w->w_joins = 1;
	rc = s->s_join(s, u, where, USCHED_NEVER);
	if (rc == -EDEADLK && usched__is_cancelled(w->w_thread))
		rc = -ECANCELED;
	else if (rc == -EDEADLK && w->w_joins > 1)
		rc = -ETIMEDOUT;
	w->w_joins = 0;
	count(w, -1);
	return rc;
}

int ustack_shield(int on)
{
	struct uwaiter *w = uwait_self();
	int before;

	if (!w)
		return -ENOMEM;
	before = w->w_shield;
	w->w_shield = on != 0;
	return before;
}

bool uwait_claim(struct uwaiter *w)
{
	uint32_t state = WAITING;

	return __atomic_compare_exchange_n(&w->w_state, &state, WAKING, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void uwait_finish(struct uwaiter *w, int result)
{
	struct uwait_native *n = w->w_native;

	w->w_result = result;
	if (!n) {
		ustack_wake(w->w_thread);
		__atomic_store_n(&w->w_state, IDLE, __ATOMIC_RELEASE);
		return;
	}
	pthread_mutex_lock(&n->n_lock);
	__atomic_store_n(&w->w_state, IDLE, __ATOMIC_RELEASE);
	if (n->n_polls)
		n->n_events->e_interrupt(n->n_events);
	else
		pthread_cond_signal(&n->n_granted);
	pthread_mutex_unlock(&n->n_lock);
}

void uwait_push(struct uwait_queue *q, struct uwait_node *n)
{
	n->n_next = NULL;
	n->n_prev = q->q_last ? q->q_last : n;
	if (q->q_last)
		q->q_last->n_next = n;
	else
		q->q_first = n;
	q->q_last = n;
}

void uwait_remove(struct uwait_queue *q, struct uwait_node *n)
{
	struct uwait_node *prev = n->n_prev == n ? NULL : n->n_prev;

	if (!n->n_prev)
		return;
	if (prev)
		prev->n_next = n->n_next;
	else
		q->q_first = n->n_next;
	if (n->n_next)
		n->n_next->n_prev = prev ? prev : n->n_next;
	else
		q->q_last = prev;
	n->n_prev = NULL;
}

struct uwait_node *uwait_pop(struct uwait_queue *q)
{
	struct uwait_node *n;

	do {
		n = q->q_first;
		if (n)
			uwait_remove(q, n);
	} while (n && !uwait_claim(n->n_waiter));
	return n;
}

void uwait_lock_slow(struct uwait_lock *l)
{
	unsigned spins = 0;

	do {
		while (__atomic_load_n(&l->l_held, __ATOMIC_RELAXED))
			relax(&spins);
	} while (__atomic_exchange_n(&l->l_held, 1, __ATOMIC_ACQUIRE));
}

static struct uwaiter *new_waiter(void)
{
	struct uwaiter *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->w_attachment.a_ops = &ops;
	w->w_thread = ustack_self();
	w->w_name = uwait_name();
	w->w_timer.t_expired = expired;
	w->w_node.n_waiter = w;
	ustack_attach(&w->w_attachment);
	return w;
}

static struct uwaiter *native_waiter(void)
{
	struct uwait_native *n;
	pthread_condattr_t attr;

	if (!__atomic_load_n(&key_made, __ATOMIC_ACQUIRE) && !make_key())
		return NULL;
	n = pthread_getspecific(key);
	if (n)
		return &n->n_waiter;
	n = calloc(1, sizeof *n);
	if (!n || pthread_setspecific(key, n)) {
		free(n);
		return NULL;
	}
	n->n_waiter.w_native = n;
	n->n_waiter.w_name = uwait_name();
	n->n_waiter.w_node.n_waiter = &n->n_waiter;
	pthread_mutex_init(&n->n_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&n->n_granted, &attr);
	pthread_condattr_destroy(&attr);
	return &n->n_waiter;
}

/* False: there is no key left. The next caller tries again. */
static bool make_key(void)
{
	bool made;

	pthread_mutex_lock(&key_lock);
	made = key_made || pthread_key_create(&key, free_native) == 0;
	__atomic_store_n(&key_made, made, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&key_lock);
	return made;
}

/* A native thread ends. */
static void free_native(void *native)
{
	struct uwait_native *n = native;

	pthread_setspecific(key, n);            /* for the destructors of its keys */
	end(&n->n_waiter.w_attachment);
	pthread_setspecific(key, NULL);
	if (n->n_events)
		n->n_events->e_close(n->n_events);
	pthread_cond_destroy(&n->n_granted);
	pthread_mutex_destroy(&n->n_lock);
	free(n->n_waiter.w_values);
	free(n->n_waiter.w_room);
	free(n);
}

static int prepare(struct uwaiter **self, int64_t deadline, bool outside)
{
	struct uevents *e;
	struct uwaiter *w;
	int rc;

	if (deadline <= 0)
		return -ETIMEDOUT;
	w = uwait_self();
	if (!w)
		return -ENOMEM;
	*self = w;
	w->w_deadline = deadline;
	w->w_kind = NULL;
	if (w->w_native)
		w->w_native->n_polls = false;
	if (!w->w_thread)
		return 0;
	if (usched__is_cancelled(w->w_thread))
		return -ECANCELED;
	w->w_counted = outside || deadline != USCHED_NEVER;
	rc = w->w_counted ? uevents_of(ustack_sched(w->w_thread), &e) : 0;
	return rc ? rc : ustack_reserve(ROOM);
}

static void end(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	if (w->w_values)
		w->w_values->v_end(w);
}

static int shielded(const struct ustack_attachment *l)
{
	return ((const struct uwaiter *)(const void *)l)->w_shield;
}

static void cancel(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	if (!w->w_joins && uwait_claim(w))
		uwait_finish(w, -ECANCELED);
}

static void free_waiter(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	if (w->w_joins || w->w_state != IDLE)   /* aborted while it waited */
		count(w, -1);
	if (w->w_timer.t_expiry.x_prev)
		uevents_disarm(ustack_sched(w->w_thread)->s_events, &w->w_timer);
	free(w->w_values);
	free(w->w_room);
	free(w);
}

/* The scheduler describes joins. */
static void describe(struct ustack_attachment *l, struct ustack_why *why)
{
	const struct uwaiter *w = waiter_of(l);
	const struct uwait_kind *kind = w->w_kind;

	if (w->w_joins || __atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAITING)
		return;
	why->y_where = w->w_where;
	if (kind && w->w_object)
		snprintf(why->y_what, sizeof why->y_what, "%s %p", kind->k_name,
			 w->w_object);
	else
		snprintf(why->y_what, sizeof why->y_what, "%s",
			 kind ? kind->k_name : "a grant");
	if (kind && kind->k_tell)
		kind->k_tell(w, why);
}

static void expired(struct utimer *t)
{
	struct uwaiter *w = (struct uwaiter *)(void *)
		((char *)t - offsetof(struct uwaiter, w_timer));
	struct usched *s = ustack_sched(w->w_thread);

	if (!w->w_joins && __atomic_load_n(&w->w_state, __ATOMIC_RELAXED) != WAITING)
		return;
	if (w->w_deadline > t->t_expiry.x_when) {
		arm_timer(w);                   /* it was armed by an earlier wait */
	} else if (w->w_joins) {
		w->w_joins = 2;
		s->s_interrupt(s, w->w_thread);
	} else if (uwait_claim(w)) {
		uwait_finish(w, -ETIMEDOUT);
	}
}

/* Arms the timer for the deadline. If it is armed for an earlier time, expired() will. */
static void arm_timer(struct uwaiter *w)
{
	struct uevents *e = ustack_sched(w->w_thread)->s_events;
	struct utimer *t = &w->w_timer;

	if (w->w_deadline == USCHED_NEVER
	    || (t->t_expiry.x_prev && t->t_expiry.x_when <= w->w_deadline))
		return;
	uevents_disarm(e, t);
	t->t_expiry.x_when = w->w_deadline;
	uevents_arm(e, t);
}

static void count(struct uwaiter *w, int n)
{
	if (w->w_counted)
		uevents_count(ustack_sched(w->w_thread)->s_events, n);
}

static void block_thread(struct uwaiter *w)
{
	int blocks = -w->w_owed;
	unsigned spins = 0;

	arm_timer(w);
	count(w, 1);
	do {
		int rc = ustack_block();

		blocks += !rc;
		/* Only if the frames are deeper than uwait_prepare() reserved for: R4. */
		if (rc && uwait_withdraw(w)) {
			w->w_result = rc;
			blocks++;               /* as if: there will be no wake */
		}
	} while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) == WAITING);
	count(w, -1);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != IDLE)
		relax(&spins);
	for (; blocks > 1; blocks--)
		ustack_wake(w->w_thread);
	w->w_owed = 1 - blocks;
}

/* Until it is IDLE, which is set under n_lock. */
static void block_native(struct uwaiter *w)
{
	struct uwait_native *n = w->w_native;

	pthread_mutex_lock(&n->n_lock);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != IDLE)
		if (!sleep_native(n, w->w_deadline) && uwait_withdraw(w))
			w->w_result = -ETIMEDOUT;
	pthread_mutex_unlock(&n->n_lock);
}

/* Under n_lock, released for the sleep. False: the deadline has come. */
static bool sleep_native(struct uwait_native *n, int64_t deadline)
{
	struct timespec t = { deadline / SECOND, deadline % SECOND };

	if (n->n_polls) {
		pthread_mutex_unlock(&n->n_lock);
		n->n_events->e_poll(n->n_events, deadline);
		pthread_mutex_lock(&n->n_lock);
		return deadline == USCHED_NEVER || uevents_now() < deadline;
	}
	if (deadline == USCHED_NEVER)
		return pthread_cond_wait(&n->n_granted, &n->n_lock) == 0;
	return pthread_cond_timedwait(&n->n_granted, &n->n_lock, &t) != ETIMEDOUT;
}

static void relax(unsigned *spins)
{
	if (++*spins % SPINS == 0)
		sched_yield();
}
