/* SPDX-License-Identifier: MIT */
/*
 * uevents.c: timers and epoll, for one dispatcher.
 *
 * Expiries are in a pairing heap (Fredman, Sedgewick, Sleator, Tarjan: The pairing heap,
 * 1986). Its links are in the expiries, so arming cannot fail. Timers have one heap, and
 * waiters another: so waiters need no pointer to the function that all of them have.
 *
 * 	first --child--> a --next--> b --next--> c        no parent is due after its child
 * 	                 |           |
 * 	               child       child
 *
 * x_prev is the previous in a list of children, and the parent of the first child. That
 * of the expiry due first is the heap itself, which marks it as armed.
 *
 * A million deadlines armed in their order would be a million children of the first, and
 * its end would merge them all at once. So the newest children are merged as a binary
 * counter carries: every second time that one is armed the last two, every fourth time
 * these with the two before them, and so on. The first then has about twenty. For the
 * same reason a look expires a batch at most, and the next looks the rest.
 *
 * Descriptors are registered for edges, and stay so, and a wait costs no
 * epoll_ctl(2). The eventfd that interrupts a sleep is never read: each write is an edge.
 *
 * Timers need no descriptor. Where the process has none left for epoll and eventfd,
 * sleeps wait for a condition, and each add() tries again to open the two. v_epoll is set
 * last, under v_lock, and never changes again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* syscall() */
#endif
#include "uevents.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "private/cancel.h"

enum {
	BATCH    = 64,                  /* events taken at a time: when their threads run,
					   what they touch is still in the cache */
	AHEAD    = 4,                   /* events from a prefetch to its use */
	EXPIRIES = 64,                  /* of a look: not more than run until the next */
	LOOK_GAP = 500000,              /* ns: a thousand times what a look costs */
	SECOND   = 1000000000,          /* ns */
	MILLI    = 1000000,             /* ns */
	TICK     = 10000000,            /* of CLOCK_MONOTONIC_COARSE, at most */
};

enum { TIMERS, WAITERS, HEAPS };

struct events {
	struct uevents     v_events;    /* first */
	struct uexpiry     v_heap[HEAPS];       /* x_child: due first */
	uint32_t           v_armed[HEAPS];      /* how many were, mod 2^32 */
	uexpired_fn       *v_expired;   /* for WAITERS */
	int64_t            v_looked;    /* when UEVENTS_LOOK last polled */
	int64_t            v_exposed;   /* the time of the timerfd; 0: not set */
	int                v_epoll;     /* -1: there is no descriptor yet; atomic */
	int                v_interrupt; /* eventfd */
	int                v_timer;     /* timerfd, or -1 */
	bool               v_rung;      /* interrupted, without descriptors; v_lock */
	pthread_mutex_t    v_lock;
	pthread_cond_t     v_bell;      /* for v_rung, and for descriptors */
	bool               v_coarse;    /* the kernel has no epoll_pwait2() */
	struct uinterest   v_nothing;   /* of eventfd and timerfd, which end a sleep */
	struct epoll_event v_batch[BATCH];
};

enum {
	INPUT = EPOLLIN | EPOLLRDHUP | EPOLLPRI,
	ALL   = INPUT | EPOLLOUT,
};

/* The last e_serial. */
static uint64_t serials;

static int  epoll_of(struct events *v);
static int  open_descriptors(struct events *v);
static void close_if(int fd);
static int  add(struct events *v, int fd, uint32_t edges, struct uinterest *i);
static void poll_events(struct uevents *e, int64_t until);
static void interrupt(struct uevents *e);
static void close_events(struct uevents *e);
static int  expose(struct uevents *e);
static void arm(struct uevents *e, struct uexpiry *x, uexpired_fn *expired);
static void disarm(struct uevents *e, struct uexpiry *x);
static void nothing(struct uinterest *i, uint32_t events);
static int  sleep_until(struct events *v, int64_t until);
static void sleep_bare(struct events *v, int64_t until);
static void count(uint64_t *counter, int n);
static void expire(struct events *v);
static int64_t first_due(const struct events *v);
static void carry(struct uexpiry *first, uint32_t count);
static struct uexpiry *merge(struct uexpiry *a, struct uexpiry *b);
static struct uexpiry *merge_all(struct uexpiry *first);
static void become_first(struct uexpiry *heap, struct uexpiry *x);

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
	pthread_condattr_t attr;

	if (!v)
		return -ENOMEM;
	v->v_events = (struct uevents){ .e_poll = poll_events, .e_interrupt = interrupt,
					.e_close = close_events, .e_expose = expose,
					.e_arm = arm, .e_disarm = disarm };
	v->v_events.e_serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	v->v_nothing.i_ready = nothing;
	v->v_epoll = v->v_interrupt = v->v_timer = -1;
	pthread_mutex_init(&v->v_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&v->v_bell, &attr);
	pthread_condattr_destroy(&attr);
	epoll_of(v);                            /* or later */
	*e = &v->v_events;
	return 0;
}

/* The descriptor, which is opened if there is none; or an error. */
static int epoll_of(struct events *v)
{
	int fd = __atomic_load_n(&v->v_epoll, __ATOMIC_ACQUIRE);

	if (fd >= 0)
		return fd;
	pthread_mutex_lock(&v->v_lock);
	fd = v->v_epoll < 0 ? open_descriptors(v) : v->v_epoll;
	pthread_mutex_unlock(&v->v_lock);
	return fd;
}

/* Under v_lock. The sleep, if there is one, goes on with them. */
static int open_descriptors(struct events *v)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET,
				     .data.ptr = &v->v_nothing };
	int fd = epoll_create1(EPOLL_CLOEXEC);
	int bell = fd < 0 ? -1 : eventfd(v->v_rung, EFD_CLOEXEC | EFD_NONBLOCK);

	if (bell < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, bell, &event)) {
		int rc = -errno;

		close_if(bell);
		close_if(fd);
		return rc;
	}
	v->v_interrupt = bell;
	__atomic_store_n(&v->v_epoll, fd, __ATOMIC_RELEASE);
	pthread_cond_signal(&v->v_bell);
	return fd;
}

static void close_if(int fd)
{
	int before = defer_cancel();

	if (fd >= 0)
		close(fd);
	allow_cancel(before);
}

int uevents_add(struct uevents *e, int fd, struct uinterest *i)
{
	return add((struct events *)(void *)e, fd, ALL, i);
}

int uevents_add_input(struct uevents *e, int fd, struct uinterest *i)
{
	return add((struct events *)(void *)e, fd, INPUT, i);
}

void uevents_remove(struct uevents *e, int fd)
{
	struct epoll_event none = { 0 };        /* before Linux 2.6.9 not NULL */
	struct events *v = (struct events *)(void *)e;

	epoll_ctl(__atomic_load_n(&v->v_epoll, __ATOMIC_ACQUIRE), EPOLL_CTL_DEL, fd,
		  &none);
}

static int add(struct events *v, int fd, uint32_t edges, struct uinterest *i)
{
	struct epoll_event event = { .events = edges | EPOLLET, .data.ptr = i };
	int epoll = epoll_of(v);

	if (epoll < 0)
		return epoll;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	event.events = ALL | EPOLLET;           /* a thread may wait to write */
	epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);    /* reports readiness again */
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
	if (n > 0)
		count(&e->e_ready, n);
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = v->v_batch[i].data.ptr;

		if (i + AHEAD < n)
			__builtin_prefetch(v->v_batch[i + AHEAD].data.ptr);
		interest->i_ready(interest, v->v_batch[i].events);
	}
	if (v->v_heap[TIMERS].x_child || v->v_heap[WAITERS].x_child)
		expire(v);
}

/* From any native thread. */
static void interrupt(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	bool open = __atomic_load_n(&v->v_epoll, __ATOMIC_ACQUIRE) >= 0;
	int before = defer_cancel();
	uint64_t one = 1;

	if (!open) {
		pthread_mutex_lock(&v->v_lock);
		open = v->v_epoll >= 0;         /* since then: they do not know v_rung */
		v->v_rung = true;
		pthread_cond_signal(&v->v_bell);
		pthread_mutex_unlock(&v->v_lock);
	}
	while (open && write(v->v_interrupt, &one, sizeof one) < 0 && errno == EINTR)
		;
	allow_cancel(before);
}

static void close_events(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;

	close_if(v->v_epoll);
	close_if(v->v_interrupt);
	close_if(v->v_timer);
	pthread_cond_destroy(&v->v_bell);
	pthread_mutex_destroy(&v->v_lock);
	free(v);
}

/*
 * For a loop of the program: the epoll descriptor, which can be polled. The timer due
 * first is in it as a timerfd.
 */
static int expose(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	int64_t due = first_due(v), when = due == USCHED_NEVER ? 0 : due;
	struct itimerspec spec = { .it_value = { when / SECOND, when % SECOND } };
	int rc, epoll = epoll_of(v);

	if (epoll < 0 || when == v->v_exposed)
		return epoll;
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
	return epoll;
}

static void nothing(struct uinterest *i, uint32_t events)
{
	(void)i;
	(void)events;
}

/* The number of events in v_batch. */
static int sleep_until(struct events *v, int64_t until)
{
	int64_t first = first_due(v), left = 0;
	int n = -1;

	if (until > first)
		until = first;
	if (__atomic_load_n(&v->v_epoll, __ATOMIC_ACQUIRE) < 0) {
		sleep_bare(v, until);
		return 0;
	}
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

/* Without descriptors. Once there are some, the next sleep is with them. */
static void sleep_bare(struct events *v, int64_t until)
{
	struct timespec t = { until / SECOND, until % SECOND };
	int rc = until > 0 ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&v->v_lock);
	while (rc == 0 && !v->v_rung && v->v_epoll < 0)
		rc = until == USCHED_NEVER
			? pthread_cond_wait(&v->v_bell, &v->v_lock)
			: pthread_cond_timedwait(&v->v_bell, &v->v_lock, &t);
	v->v_rung = false;
	pthread_mutex_unlock(&v->v_lock);
}

/* USCHED_NEVER: nothing is armed. */
static int64_t first_due(const struct events *v)
{
	int64_t due = USCHED_NEVER;

	for (int i = 0; i < HEAPS; i++) {
		const struct uexpiry *x = v->v_heap[i].x_child;

		if (x && x->x_when < due)
			due = x->x_when;
	}
	return due;
}

/* Others may read it. */
static void count(uint64_t *counter, int n)
{
	__atomic_store_n(counter, *counter + (uint64_t)n, __ATOMIC_RELAXED);
}

/* What is due, the two heaps in turn; what is left after that many is looked at next. */
static void expire(struct events *v)
{
	int64_t now = uevents_now();

	for (int i = 0; i < HEAPS; i++) {
		int left = EXPIRIES;
		struct uexpiry *x;

		while ((x = v->v_heap[i].x_child) && x->x_when <= now) {
			struct utimer *t = (struct utimer *)(void *)x;

			if (left == 0) {
				v->v_looked = 0;
				break;
			}
			left--;
			disarm(&v->v_events, x);
			if (i == WAITERS)
				v->v_expired(x);
			else
				t->t_expired(t);
		}
		if (left < EXPIRIES)
			count(&v->v_events.e_expired, EXPIRIES - left);
	}
}

/* expired: NULL for the expiry of a timer. */
static void arm(struct uevents *e, struct uexpiry *x, uexpired_fn *expired)
{
	struct events *v = (struct events *)(void *)e;
	int which = expired ? WAITERS : TIMERS;
	struct uexpiry *heap = &v->v_heap[which];

	if (x->x_prev)
		disarm(e, x);
	if (expired)
		v->v_expired = expired;
	x->x_child = x->x_next = NULL;
	become_first(heap, heap->x_child ? merge(heap->x_child, x) : x);
	carry(heap->x_child, ++v->v_armed[which]);
}

/* Merges the newest children for the zeros at the end of the count. */
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

/* Its children, as one heap, take its place: wherever that is, they are due later. */
static void disarm(struct uevents *e, struct uexpiry *x)
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

static void become_first(struct uexpiry *heap, struct uexpiry *x)
{
	heap->x_child = x;
	x->x_prev = heap;
}

/* Merges two heaps: the one due later becomes a child of the other. */
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
 * Merges a list of children: in pairs from the first on, then the pairs from the last
 * back.
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
