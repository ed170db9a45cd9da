/* SPDX-License-Identifier: MIT */
/*
 * uevents.c: timers and descriptors, for one dispatcher.
 *
 * Expiries are in a pairing heap (Fredman, Sedgewick, Sleator, Tarjan: The pairing heap,
 * 1986). The links are in the expiries, so arming cannot fail. All expiries have the same
 * function, that of uwait.c, so they need no pointer to a function.
 *
 * 	first --child--> a --next--> b --next--> c        no parent is due after its child
 * 	                 |           |
 * 	               child       child
 *
 * x_prev is the previous expiry in a list of children. For the first child, x_prev is the
 * parent. For the expiry due first, x_prev is the heap itself. So x_prev is never NULL
 * while the expiry is armed.
 *
 * If a million deadlines were armed in order, the first would have a million children,
 * and the end of the first would merge all of them at once. So the newest children are
 * merged as a binary counter carries: at every second e_arm the last two, at every fourth
 * e_arm the last four, and so on. The first then has about twenty children. For the same
 * reason a look expires at most EXPIRIES timers, and leaves the rest to the next looks.
 *
 * The poller (src/events/poller.h) finds which descriptors are ready. The poller needs a
 * few descriptors itself. If the process has no descriptors left, timers still work:
 * sleeps wait for the condition ve_bell, and each uevents_add() tries again to open the
 * poller. The poller is opened under ve_lock, and stays open.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* CLOCK_MONOTONIC_COARSE */
#endif
#include "../../uevents.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/cancel.h"
#include "poller.h"
#include "../base/sim.h"
#include "../base/when.h"

#ifndef CLOCK_MONOTONIC_COARSE
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif

enum {
	EXPIRIES    = 64,               /* the most timers that a look expires */
	LOOK_GAP    = SIMULATED ? 0     /* a simulation is to see every order */
		: 500000,               /* ns: a look costs a thousandth of this */
	COARSE_TICK = 10000000,         /* of CLOCK_MONOTONIC_COARSE, at most */
	OWN_TOP     = 1024,             /* own descriptors are below, for select(2), and
					   since fork(2) copies numbers up to the last */
	OWN_MAX     = 65536,            /* own_numbers has no higher numbers */
};

struct events {
	struct uevents     ve_events;   /* first */
	struct uexpiry     ve_heap;     /* x_child: the expiry due first */
	uint32_t           ve_armed;    /* calls of e_arm, mod 2^32 */
	uexpired_fn       *ve_expired;  /* the function of all expiries */
	int64_t            ve_looked;   /* time of the last poll for UEVENTS_LOOK */
	bool               ve_rung;     /* under ve_lock: interrupted without a poller */
	pthread_mutex_t    ve_lock;
	pthread_cond_t     ve_bell;     /* signalled when ve_rung or ve_poller is set */
	struct poller     *ve_poller;   /* atomic; NULL: not open yet */
	struct events     *ve_other;    /* the next in `pollers'; under pollers_lock */
};

/* The e_serial that was given last. */
static uint64_t serials;

/* The list of events that have a poller. */
static struct events *pollers;
static pthread_mutex_t pollers_lock = PTHREAD_MUTEX_INITIALIZER;

/* 1 for each number that is a descriptor of the library; atomic. */
static uint8_t own_numbers[OWN_MAX];

int64_t uevents_now(void)
{
	return when_now();
}

/* Notes whether a number is a descriptor of the library. */

static void note_own(int fd, uint8_t own)
{
	if (fd >= 0 && fd < OWN_MAX)
		__atomic_store_n(&own_numbers[fd], own, __ATOMIC_RELAXED);
}

/* Moves `fd' to a number that programs seldom use, in the top quarter below OWN_TOP. */
int uevents__own(int fd)
{
	long top = sysconf(_SC_OPEN_MAX);
	int moved;

	if (SIMULATED || fd < 0)
		return fd;
	top = top < 0 || top > OWN_TOP ? OWN_TOP : top;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, (int)(top - top / 4));
	if (moved < 0)
		moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (moved >= 0) {
		close_deferred(fd);
		fd = moved;
	}
	note_own(fd, 1);
	return fd;
}

int uevents__disown(int fd)
{
	note_own(fd, 0);
	return fd;
}

int uevents__next_own(unsigned first, unsigned last)
{
	for (; first <= last && first < OWN_MAX; first++)
		if (__atomic_load_n(&own_numbers[first], __ATOMIC_RELAXED))
			return (int)first;
	return -1;
}

/* Waits a second before the abort, since the program may have closed all descriptors
   because it calls exec(3) next. */
void uevents__lost(int fd)
{
	defer_cancel();
	sleep(1);
	fprintf(stderr, "usched: descriptor %d, by which the library waits, was closed "
		"or is another file: close only what you have opened\n", fd);
	abort();
}

/* Returns the time of the expiry due first, or USCHED_NEVER if no expiry is armed. */
static int64_t first_due(const struct events *v)
{
	return v->ve_heap.x_child ? v->ve_heap.x_child->x_when : USCHED_NEVER;
}

static struct poller *poller_of(const struct events *v)
{
	return __atomic_load_n(&v->ve_poller, __ATOMIC_ACQUIRE);
}

/* Sleeps without a poller until the time `until', an interrupt, or a new poller. */
static void sleep_bare(struct events *v, int64_t until)
{
	struct timespec t = when_of(until);
	int rc = until > 0 ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&v->ve_lock);
	while (rc == 0 && !v->ve_rung && !v->ve_poller)
		rc = until == USCHED_NEVER
			? pthread_cond_wait(&v->ve_bell, &v->ve_lock)
			: pthread_cond_timedwait(&v->ve_bell, &v->ve_lock, &t);
	v->ve_rung = false;
	pthread_mutex_unlock(&v->ve_lock);
}

/* Sleeps, and returns how many descriptors the poller has found ready. */
static int sleep_until(struct events *v, int64_t until)
{
	int64_t first = first_due(v), left = 0;

	if (until > first)
		until = first;
	if (!poller_of(v)) {
		sleep_bare(v, until);
		return 0;
	}
	if (until > 0 && until != USCHED_NEVER) {
		left = until - uevents_now();
		if (left < 0)
			left = 0;
	}
	return uevents__poller_sleep(v->ve_poller, until == USCHED_NEVER, left);
}

/* Adds to a counter that any native thread may read. */
static void count_events(uint64_t *counter, int n)
{
	__atomic_store_n(counter, *counter + (uint64_t)n, __ATOMIC_RELAXED);
}

/* Merges two heaps: the heap due later becomes a child of the other. */
static struct uexpiry *merge(struct uexpiry *a, struct uexpiry *b)
{
	if (b->x_when < a->x_when) {
		struct uexpiry *x = a;

		a = b;
		b = x;
	}
	b->x_next = a->x_child;
	if (b->x_next)
		b->x_next->x_prev = b;
	b->x_prev = a;
	a->x_child = b;
	a->x_next = NULL;
	return a;
}

/*
 * Merges a list of children: in pairs, from the first child to the last; then the pairs,
 * from the last pair to the first.
 */
static struct uexpiry *merge_all(struct uexpiry *first)
{
	struct uexpiry *pairs = NULL, *all = NULL, *next;

	for (; first; first = next) {
		struct uexpiry *second = first->x_next;

		next = second ? second->x_next : NULL;
		if (second)
			first = merge(first, second);
		first->x_next = pairs;
		pairs = first;
	}
	for (; pairs; pairs = next) {
		next = pairs->x_next;
		all = all ? merge(all, pairs) : pairs;
	}
	if (all)
		all->x_next = NULL;
	return all;
}

/* Takes `x' out of the heap. The children of `x' are merged and take its place. */
static void disarm_expiry(struct uevents *e, struct uexpiry *x)
{
	struct uexpiry *rest = merge_all(x->x_child), *prev = x->x_prev;

	(void)e;
	if (!rest) {
		rest = x->x_next;
	} else {
		rest->x_next = x->x_next;
		if (rest->x_next)
			rest->x_next->x_prev = rest;
	}
	if (prev->x_child == x)
		prev->x_child = rest;
	else
		prev->x_next = rest;
	if (rest)
		rest->x_prev = prev;
	x->x_prev = NULL;
}

/* Expires due timers, EXPIRIES at most. If more are due, the next look polls at once. */
static void expire(struct events *v)
{
	int64_t now = uevents_now();
	struct uexpiry *x;
	int n = 0;

	while ((x = v->ve_heap.x_child) && x->x_when <= now) {
		if (n == EXPIRIES) {
			v->ve_looked = 0;
			break;
		}
		n++;
		disarm_expiry(&v->ve_events, x);
		v->ve_expired(x);
	}
	if (n > 0)
		count_events(&v->ve_events.e_expired, n);
}

static void poll_events(struct uevents *e, int64_t until)
{
	struct events *v = (struct events *)(void *)e;
	int n;

	if (until == UEVENTS_LOOK) {
		int64_t now = uevents_now();

		if (now - v->ve_looked < LOOK_GAP)
			return;
		v->ve_looked = now;
	}
	n = sleep_until(v, until);
	if (n > 0) {
		count_events(&e->e_ready, n);
		uevents__poller_tell(v->ve_poller, n);
	}
	if (v->ve_heap.x_child)
		expire(v);
}

/* This function is the e_interrupt of the events. From any native thread. */
static void interrupt_sleep(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	struct poller *p = poller_of(v);
	int before = defer_cancel();

	if (!p) {
		pthread_mutex_lock(&v->ve_lock);
		p = v->ve_poller;               /* opened meanwhile: interrupt it, too */
		v->ve_rung = true;
		pthread_cond_signal(&v->ve_bell);
		pthread_mutex_unlock(&v->ve_lock);
	}
	if (p)
		uevents__poller_interrupt(p);
	allow_cancel(before);
}

static void close_events(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e, **at;

	if (v->ve_poller) {
		pthread_mutex_lock(&pollers_lock);
		for (at = &pollers; *at != v; at = &(*at)->ve_other)
			;
		*at = v->ve_other;
		uevents__poller_close(v->ve_poller);
		pthread_mutex_unlock(&pollers_lock);
	}
	pthread_cond_destroy(&v->ve_bell);
	pthread_mutex_destroy(&v->ve_lock);
	free(v);
}

/* Opens the poller, unless it is open. That ends a sleep without a poller. */
static int open_poller(struct events *v)
{
	struct poller *p = NULL;
	int rc = 0;

	if (poller_of(v))
		return 0;
	pthread_mutex_lock(&v->ve_lock);
	pthread_mutex_lock(&pollers_lock);      /* a fork finds every poller listed */
	if (!v->ve_poller)
		rc = uevents__poller_open(&p, v->ve_rung);
	if (p) {
		__atomic_store_n(&v->ve_poller, p, __ATOMIC_RELEASE);
		v->ve_other = pollers;
		pollers = v;
		pthread_cond_signal(&v->ve_bell);
	}
	pthread_mutex_unlock(&pollers_lock);
	pthread_mutex_unlock(&v->ve_lock);
	return rc;
}

/* Returns a descriptor that a loop of the program may wait for. */
static int expose(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	int64_t due = first_due(v);
	int rc = open_poller(v);

	return rc ? rc
		: uevents__poller_expose(v->ve_poller, due == USCHED_NEVER ? 0 : due);
}

static void become_first(struct uexpiry *heap, struct uexpiry *x)
{
	heap->x_child = x;
	x->x_prev = heap;
}

/* Merges the two newest children once for each binary zero at the end of `count'. */
static void carry(struct uexpiry *first, uint32_t count)
{
	struct uexpiry *a = first->x_child, *b;

	for (; a && (b = a->x_next) && count % 2 == 0; count /= 2) {
		struct uexpiry *rest = b->x_next;

		a = merge(a, b);
		a->x_next = rest;
		if (rest)
			rest->x_prev = a;
		become_first(first, a);
	}
}

static void arm_expiry(struct uevents *e, struct uexpiry *x, uexpired_fn *expired)
{
	struct events *v = (struct events *)(void *)e;
	struct uexpiry *first;

	if (x->x_prev)
		disarm_expiry(e, x);
	v->ve_expired = expired;
	first = v->ve_heap.x_child;
	x->x_child = x->x_next = NULL;
	become_first(&v->ve_heap, first ? merge(first, x) : x);
	carry(v->ve_heap.x_child, ++v->ve_armed);
}

int uevents_create(struct uevents **e)
{
	struct events *v = (struct events *)calloc(1, sizeof *v);

	if (!v)
		return -ENOMEM;
	v->ve_events = (struct uevents){ .e_poll = poll_events,
					.e_interrupt = interrupt_sleep,
					.e_close = close_events, .e_expose = expose,
					.e_arm = arm_expiry, .e_disarm = disarm_expiry };
	v->ve_events.e_serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	pthread_mutex_init(&v->ve_lock, NULL);
	when_init_cond(&v->ve_bell);
	open_poller(v);                         /* if not, uevents_add() tries again */
	*e = &v->ve_events;
	return 0;
}

int uevents_of(struct usched *s, struct uevents **e)
{
	int rc = 0;

	*e = s->s_events;
	if (!*e)
		rc = s->s_calls.s_polls ? uevents_create(e) : -ENOTSUP;
	if (rc == 0)
		__atomic_store_n(&s->s_events, *e, __ATOMIC_RELEASE);
	return rc;
}

int uevents_add(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
{
	struct events *v = (struct events *)(void *)e;
	int rc = open_poller(v);

	return rc ? rc : uevents__poller_add(v->ve_poller, fd, ways, i);
}

int uevents__again(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
{
	struct events *v = (struct events *)(void *)e;
	int rc = open_poller(v);

	return rc ? rc : uevents__poller_again(v->ve_poller, fd, ways, i);
}

void uevents_remove(struct uevents *e, int fd)
{
	struct events *v = (struct events *)(void *)e;

	if (poller_of(v))
		uevents__poller_remove(v->ve_poller, fd);
}

void uevents_forget(int fd)
{
	pthread_mutex_lock(&pollers_lock);
	for (struct events *v = pollers; v; v = v->ve_other)
		uevents__poller_remove(v->ve_poller, fd);
	pthread_mutex_unlock(&pollers_lock);
}

void uevents__hold(int on)
{
	(on ? pthread_mutex_lock : pthread_mutex_unlock)(&pollers_lock);
}

/* In the child of a fork, closes the pollers. The parent still waits by them. */
void uevents__forked(void)
{
	struct events *v;

	while ((v = pollers)) {
		pollers = v->ve_other;
		uevents__poller_close(v->ve_poller);
		v->ve_poller = NULL;
	}
	for (int fd = 0; fd < OWN_MAX; fd++)
		if (own_numbers[fd])    /* the child may close such an fd */
			note_own(fd, 0);
}

int64_t uevents_next_tick(void)
{
	return when_by(CLOCK_MONOTONIC_COARSE) + COARSE_TICK;
}
