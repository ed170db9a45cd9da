/* SPDX-License-Identifier: MIT */
/*
 * uevents.c: timers and epoll, for one dispatcher.
 *
 * Timers are in a pairing heap (Fredman, Sedgewick, Sleator, Tarjan: The pairing heap,
 * 1986). Its links are in the timers, so arming cannot fail.
 *
 * 	first --child--> a --next--> b --next--> c        no parent is due after its child
 * 	                 |           |
 * 	               child       child
 *
 * t_prev is the previous in a list of children, and the parent of the first child. That
 * of the timer due first is `heap' itself, which marks it as armed.
 *
 * Descriptors are registered for edges, once and for all, so a wait costs no
 * epoll_ctl(2). The eventfd that interrupts a sleep is never read: each write is an edge.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* syscall() */
#endif
#include "uevents.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH    = 256,                 /* events taken at a time */
	LOOK_GAP = 500000,              /* ns: a thousand times what a look costs */
	SECOND   = 1000000000,          /* ns */
	MILLI    = 1000000,             /* ns */
	TICK     = 10000000,            /* of CLOCK_MONOTONIC_COARSE, at most */
};

struct events {
	struct uevents     v_events;    /* first */
	struct utimer      v_heap;      /* t_child: the timer that is due first */
	int64_t            v_looked;    /* when UEVENTS_LOOK last polled */
	int64_t            v_exposed;   /* the time of the timerfd; 0: not set */
	int                v_epoll;
	int                v_interrupt; /* eventfd */
	int                v_timer;     /* timerfd, or -1 */
	bool               v_coarse;    /* the kernel has no epoll_pwait2() */
	struct uinterest   v_nothing;   /* of eventfd and timerfd, which end a sleep */
	struct epoll_event v_batch[BATCH];
};

/* The last e_serial. */
static uint64_t serials;

static int  add(struct events *v, int fd, uint32_t edges, struct uinterest *i);
static void poll_events(struct uevents *e, int64_t until);
static void interrupt(struct uevents *e);
static void close_events(struct uevents *e);
static int  expose(struct uevents *e);
static void arm(struct uevents *e, struct utimer *t);
static void disarm(struct uevents *e, struct utimer *t);
static void nothing(struct uinterest *i, uint32_t events);
static int  sleep_until(struct events *v, int64_t until);
static void expire(struct events *v);
static struct utimer *merge(struct utimer *a, struct utimer *b);
static struct utimer *merge_all(struct utimer *first);
static void become_first(struct events *v, struct utimer *t);

int uevents_of(struct usched *s, struct uevents **e)
{
	int rc = 0;

	*e = s->s_events;
	if (!*e)
		rc = s->s_polls ? uevents_create(e) : -ENOTSUP;
	if (rc == 0)
		__atomic_store_n(&s->s_events, *e, __ATOMIC_RELEASE);
	return rc;
}

int uevents_create(struct uevents **e)
{
	struct events *v = calloc(1, sizeof *v);
	int rc;

	if (!v)
		return -ENOMEM;
	v->v_events = (struct uevents){ .e_poll = poll_events, .e_interrupt = interrupt,
					.e_close = close_events, .e_expose = expose,
					.e_arm = arm, .e_disarm = disarm };
	v->v_events.e_serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	v->v_nothing.i_ready = nothing;
	v->v_timer = -1;
	v->v_epoll = epoll_create1(EPOLL_CLOEXEC);
	v->v_interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = v->v_epoll < 0 || v->v_interrupt < 0 ? -errno
		: add(v, v->v_interrupt, EPOLLIN, &v->v_nothing);
	if (rc)
		close_events(&v->v_events);
	else
		*e = &v->v_events;
	return rc;
}

int uevents_add(struct uevents *e, int fd, struct uinterest *i)
{
	return add((struct events *)(void *)e, fd,
		   EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI, i);
}

static int add(struct events *v, int fd, uint32_t edges, struct uinterest *i)
{
	struct epoll_event event = { .events = edges | EPOLLET, .data.ptr = i };

	if (epoll_ctl(v->v_epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	epoll_ctl(v->v_epoll, EPOLL_CTL_MOD, fd, &event);  /* reports readiness again */
	return -EEXIST;
}

static int64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

int64_t uevents_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t uevents_next_tick(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE) + TICK;
}

static void poll_events(struct uevents *e, int64_t until)
{
	struct events *v = (struct events *)(void *)e;
	int n;

	if (until == UEVENTS_LOOK) {
		int64_t now = uevents_now();

		if (now - v->v_looked < LOOK_GAP)
			return;
		v->v_looked = now;
	}
	n = sleep_until(v, until);
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = v->v_batch[i].data.ptr;

		interest->i_ready(interest, v->v_batch[i].events);
	}
	if (v->v_heap.t_child)
		expire(v);
}

/* From any native thread. */
static void interrupt(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	uint64_t one = 1;

	while (write(v->v_interrupt, &one, sizeof one) < 0 && errno == EINTR)
		;
}

static void close_events(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;

	if (v->v_epoll >= 0)
		close(v->v_epoll);
	if (v->v_interrupt >= 0)
		close(v->v_interrupt);
	if (v->v_timer >= 0)
		close(v->v_timer);
	free(v);
}

/*
 * For a loop of the program: the epoll descriptor, which can be polled. The timer due
 * first is in it as a timerfd.
 */
static int expose(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	int64_t when = v->v_heap.t_child ? v->v_heap.t_child->t_when : 0;
	struct itimerspec spec = { .it_value = { when / SECOND, when % SECOND } };
	int rc;

	if (when == v->v_exposed)
		return v->v_epoll;
	if (v->v_timer < 0) {
		v->v_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (v->v_timer < 0)
			return -errno;
		rc = add(v, v->v_timer, EPOLLIN, &v->v_nothing);
		if (rc) {
			close(v->v_timer);
			v->v_timer = -1;
			return rc;
		}
	}
	timerfd_settime(v->v_timer, TFD_TIMER_ABSTIME, &spec, NULL);
	v->v_exposed = when;
	return v->v_epoll;
}

static void nothing(struct uinterest *i, uint32_t events)
{
	(void)i;
	(void)events;
}

/* The number of events in v_batch. */
static int sleep_until(struct events *v, int64_t until)
{
	const struct utimer *first = v->v_heap.t_child;
	int64_t left = 0;
	int n = -1;

	if (first && until > first->t_when)
		until = first->t_when;
	if (until > 0 && until != USCHED_NEVER) {
		left = until - uevents_now();
		if (left < 0)
			left = 0;
	}
#ifdef SYS_epoll_pwait2
	if (!v->v_coarse) {
		int64_t t[] = { left / SECOND, left % SECOND }; /* of 64 bits always */

		n = (int)syscall(SYS_epoll_pwait2, v->v_epoll, v->v_batch, BATCH,
				 until == USCHED_NEVER ? NULL : t, NULL, (size_t)0);
		v->v_coarse = n < 0 && errno != EINTR;  /* ENOSYS; a sandbox says EPERM */
	}
#else
	v->v_coarse = true;
#endif
	if (v->v_coarse) {
		left = (left + MILLI - 1) / MILLI;
		n = epoll_wait(v->v_epoll, v->v_batch, BATCH, until == USCHED_NEVER ? -1 :
			       left > INT32_MAX ? INT32_MAX : (int)left);
	}
	return n;                               /* -1: EINTR */
}

static void expire(struct events *v)
{
	int64_t now = uevents_now();
	struct utimer *t;

	while ((t = v->v_heap.t_child) && t->t_when <= now) {
		disarm(&v->v_events, t);
		t->t_expired(t);
	}
}

static void arm(struct uevents *e, struct utimer *t)
{
	struct events *v = (struct events *)(void *)e;

	uevents_disarm(e, t);
	t->t_child = t->t_next = NULL;
	become_first(v, v->v_heap.t_child ? merge(v->v_heap.t_child, t) : t);
}

static void disarm(struct uevents *e, struct utimer *t)
{
	struct events *v = (struct events *)(void *)e;
	struct utimer *rest = merge_all(t->t_child);

	if (t == v->v_heap.t_child) {
		become_first(v, rest);
	} else {
		if (t->t_prev->t_child == t)
			t->t_prev->t_child = t->t_next;
		else
			t->t_prev->t_next = t->t_next;
		if (t->t_next)
			t->t_next->t_prev = t->t_prev;
		if (rest)
			become_first(v, merge(v->v_heap.t_child, rest));
	}
	t->t_prev = NULL;
}

static void become_first(struct events *v, struct utimer *t)
{
	v->v_heap.t_child = t;
	if (t)
		t->t_prev = &v->v_heap;
}

/* Merges two heaps: the one due later becomes a child of the other. */
static struct utimer *merge(struct utimer *a, struct utimer *b)
{
	if (b->t_when < a->t_when) {
		struct utimer *t = a;

		a = b;
		b = t;
	}
	b->t_next = a->t_child;
	if (b->t_next)
		b->t_next->t_prev = b;
	b->t_prev = a;
	a->t_child = b;
	a->t_next = NULL;
	return a;
}

/*
 * Merges a list of children: in pairs from the first on, then the pairs from the last
 * back.
 */
static struct utimer *merge_all(struct utimer *first)
{
	struct utimer *pairs = NULL, *all = NULL, *next;

	for (; first; first = next) {
		struct utimer *second = first->t_next;

		next = second ? second->t_next : NULL;
		if (second)
			first = merge(first, second);
		first->t_next = pairs;
		pairs = first;
	}
	for (; pairs; pairs = next) {
		next = pairs->t_next;
		all = all ? merge(all, pairs) : pairs;
	}
	if (all)
		all->t_next = NULL;
	return all;
}
