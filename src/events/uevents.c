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
 * The poller is epoll(7), which finds which descriptors are ready. A descriptor stays
 * registered, for edges, so that a wait needs no epoll_ctl(2). The eventfd that ends a
 * sleep need not be read, since each write is an edge.
 *
 * The poller needs a few descriptors itself. If the process has no descriptors left,
 * timers still work: sleeps wait for the condition ve_bell, and each uevents_add() tries
 * again to open the poller. The poller is opened under ve_lock, and stays open.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* F_DUPFD_CLOEXEC, syscall() */
#endif
#include "../../uevents.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "../base/cancel.h"
#include "../base/sim.h"
#include "../base/when.h"

#ifndef CLOCK_MONOTONIC_COARSE
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 (-1)           /* a call that fails with ENOSYS */
#endif

enum {
	FOUND       = 64,               /* events of one sleep: few enough to stay in
					   the cache until their threads run */
	AHEAD       = 4,                /* events between a prefetch and its use */
	EDGES_IN    = EPOLLIN | EPOLLRDHUP | EPOLLPRI,
	EDGES_ALL   = EDGES_IN | EPOLLOUT,
	SECOND      = 1000000000,       /* ns */
	EXPIRIES    = 64,               /* the most timers that a look expires */
	LOOK_GAP    = SIMULATED ? 0     /* a simulation is to see every order */
		: 500000,               /* ns: a look costs a thousandth of this */
	COARSE_TICK = 10000000,         /* of CLOCK_MONOTONIC_COARSE, at most */
	OWN_TOP     = 1024,             /* own descriptors are below, for select(2), and
					   since fork(2) copies numbers up to the last */
	OWN_MAX     = 65536,            /* own_numbers has no higher numbers */
};

/* The UEVENTS_ bits are those of epoll, so that no code translates events. */
_Static_assert((unsigned)EPOLLIN == UEVENTS_INPUT
	       && (unsigned)EPOLLPRI == UEVENTS_URGENT
	       && (unsigned)EPOLLOUT == UEVENTS_OUTPUT
	       && (unsigned)EPOLLERR == UEVENTS_ERROR
	       && (unsigned)EPOLLHUP == UEVENTS_HANGUP
	       && (unsigned)EPOLLRDHUP == UEVENTS_PEER_END, "the bits are epoll's");

struct events {
	struct uevents     ve_events;   /* first */
	struct uexpiry     ve_heap;     /* x_child: the expiry due first */
	uint32_t           ve_armed;    /* calls of e_arm, mod 2^32 */
	uexpired_fn       *ve_expired;  /* the function of all expiries */
	int64_t            ve_looked;   /* time of the last poll for UEVENTS_LOOK */
	bool               ve_rung;     /* under ve_lock: interrupted without a poller */
	pthread_mutex_t    ve_lock;
	pthread_cond_t     ve_bell;     /* signalled when ve_rung or ve_epoll is set */
	struct events     *ve_other;    /* the next in `pollers'; under pollers_lock */
	int                ve_epoll;    /* atomic; -1: not open yet */
	int                ve_interrupt;        /* eventfd, or -1 */
	int                ve_timer;    /* timerfd, or -1 */
	int64_t            ve_exposed;  /* the time of the timerfd; 0: not set */
	struct uinterest   ve_nothing;  /* for eventfd and timerfd, which end a sleep */
	struct epoll_event ve_found[FOUND];
};

/* The e_serial that was given last. */
static uint64_t serials;

/* The list of events that have a poller. */
static struct events *pollers;
static pthread_mutex_t pollers_lock = PTHREAD_MUTEX_INITIALIZER;

/* 1 for each number that is a descriptor of the library; atomic. */
static uint8_t own_numbers[OWN_MAX];

static bool no_pwait2;                  /* atomic: epoll_pwait2(2) has failed before */

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

	if (fd < 0)
		return fd;
	top = top < 0 || top > OWN_TOP ? OWN_TOP : top;
	moved = SIMULATED ? sim__own(fd)
		: fcntl(fd, F_DUPFD_CLOEXEC, (int)(top - top / 4));
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

/* Reports that the program has closed or replaced a descriptor of a poller. Waits a
   second before the abort, since the program may have closed all descriptors because it
   calls exec(3) next. */
static _Noreturn void lost(int fd)
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

static bool is_open(const struct events *v)
{
	return __atomic_load_n(&v->ve_epoll, __ATOMIC_ACQUIRE) >= 0;
}

/* Sleeps without a poller until the time `until', an interrupt, or a new poller. */
static void sleep_bare(struct events *v, int64_t until)
{
	struct timespec t = when_of(until);
	int rc = until > 0 ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&v->ve_lock);
	while (rc == 0 && !v->ve_rung && v->ve_epoll < 0)
		rc = until == USCHED_NEVER
			? pthread_cond_wait(&v->ve_bell, &v->ve_lock)
			: pthread_cond_timedwait(&v->ve_bell, &v->ve_lock, &t);
	v->ve_rung = false;
	pthread_mutex_unlock(&v->ve_lock);
}

/* Returns the timeout of epoll_wait(2), rounded up so that no sleep ends too early. */
static int milliseconds(bool forever, int64_t left)
{
	const int64_t milli = 1000000;          /* ns */

	left = (left + milli - 1) / milli;
	return forever ? -1 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Sleeps by the poller for `left' ns at most, or without limit if `forever'. Returns how
   many descriptors were found ready; or -1 if a signal came. */
static int sleep_polling(struct events *v, bool forever, int64_t left)
{
	int n;

	if (!__atomic_load_n(&no_pwait2, __ATOMIC_RELAXED)) {
		int64_t t[] = { left / SECOND, left % SECOND }; /* timespec of 64 bits */

		n = (int)syscall(SYS_epoll_pwait2, v->ve_epoll, v->ve_found, FOUND,
				 forever ? NULL : t, NULL, (size_t)0);
		if (n >= 0 || errno == EINTR)
			return n;
		__atomic_store_n(&no_pwait2, true, __ATOMIC_RELAXED); /* ENOSYS, EPERM */
	}
	n = epoll_wait(v->ve_epoll, v->ve_found, FOUND, milliseconds(forever, left));
	if (n < 0 && errno != EINTR)
		lost(v->ve_epoll);
	return n;
}

/* Sleeps, and returns how many descriptors the poller has found ready. */
static int sleep_until(struct events *v, int64_t until)
{
	int64_t first = first_due(v), left = 0;
	int n;

	if (until > first)
		until = first;
	if (!is_open(v)) {
		sleep_bare(v, until);
		return 0;
	}
	if (SIMULATED) {                /* the simulated clock jumps instead */
		while ((n = epoll_wait(v->ve_epoll, v->ve_found, FOUND, 0)) == 0
		       && sim__now() < until)
			if (!sim__pass(until)) {
				sim__stuck();
				break;
			}
		return n;
	}
	if (until > 0 && until != USCHED_NEVER) {
		left = until - uevents_now();
		if (left < 0)
			left = 0;
	}
	return sleep_polling(v, until == USCHED_NEVER, left);
}

/* Calls in_ready for the n descriptors that the last sleep has found. */
static void tell_ready(struct events *v, int n)
{
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = (struct uinterest *)v->ve_found[i].data.ptr;

		if (i + AHEAD < n)
			__builtin_prefetch(v->ve_found[i + AHEAD].data.ptr);
		interest->in_ready(interest, v->ve_found[i].events);
	}
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

/* Merges a list of children: in pairs, from the first child to the last; then the pairs,
   from the last pair to the first. */
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
		tell_ready(v, n);
	}
	if (v->ve_heap.x_child)
		expire(v);
	if (SIMULATED)
		sim__looked(n == FOUND ? 0 : first_due(v));
}

/* Ends a sleep of the poller. Reads the eventfd if its sum is full, since a write then
   fails and makes no edge. */
static void ring(struct events *v)
{
	uint64_t one = 1, sum;

	while (write(v->ve_interrupt, &one, sizeof one) < 0)
		if (errno == EAGAIN)
			(void)!read(v->ve_interrupt, &sum, sizeof sum);
		else if (errno != EINTR)
			lost(v->ve_interrupt);
}

/* This function is the e_interrupt of the events. From any native thread. */
static void interrupt_sleep(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	bool open = is_open(v);
	int before = defer_cancel();

	if (!open) {
		pthread_mutex_lock(&v->ve_lock);
		open = is_open(v);              /* opened meanwhile: interrupt it, too */
		v->ve_rung = true;
		pthread_cond_signal(&v->ve_bell);
		pthread_mutex_unlock(&v->ve_lock);
	}
	if (open)
		ring(v);
	allow_cancel(before);
}

static void close_own(int fd)
{
	if (fd >= 0)
		close_deferred(uevents__disown(fd));
}

/* Closes the descriptors. Makes no other system call, since the parent may use them. */
static void close_poller(struct events *v)
{
	close_own(v->ve_epoll);
	close_own(v->ve_interrupt);
	close_own(v->ve_timer);
}

static void close_events(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e, **at;

	if (is_open(v)) {
		pthread_mutex_lock(&pollers_lock);
		for (at = &pollers; *at != v; at = &(*at)->ve_other)
			;
		*at = v->ve_other;
		close_poller(v);
		pthread_mutex_unlock(&pollers_lock);
	}
	pthread_cond_destroy(&v->ve_bell);
	pthread_mutex_destroy(&v->ve_lock);
	free(v);
}

static void on_bell(struct uinterest *i, unsigned ready)
{
	(void)i;
	(void)ready;
}

/* Registers a descriptor. For epoll that is a number together with its open file. */
static int add_new(int epoll, int fd, uint32_t edges, struct uinterest *i)
{
	struct epoll_event event = { .events = edges | EPOLLET, .data = { .ptr = i } };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Opens the poller, under ve_lock. If ve_rung is set, the first sleep ends at once. The
   caller has pollers_lock, too, so that a fork finds every poller listed. */
static int open_listed(struct events *v)
{
	int epoll = uevents__own(epoll_create1(EPOLL_CLOEXEC)), bell = -1, rc;

	if (epoll >= 0)
		bell = uevents__own(eventfd(v->ve_rung, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = bell < 0 ? -errno : add_new(epoll, bell, EPOLLIN, &v->ve_nothing);
	if (rc) {
		close_own(bell);
		close_own(epoll);
		return rc;
	}
	v->ve_interrupt = bell;
	__atomic_store_n(&v->ve_epoll, epoll, __ATOMIC_RELEASE);
	v->ve_other = pollers;
	pollers = v;
	pthread_cond_signal(&v->ve_bell);
	return 0;
}

/* Opens the poller, unless it is open. That ends a sleep without a poller. */
static int open_poller(struct events *v)
{
	int rc = 0;

	if (is_open(v))
		return 0;
	pthread_mutex_lock(&v->ve_lock);
	pthread_mutex_lock(&pollers_lock);
	if (!is_open(v))
		rc = open_listed(v);
	pthread_mutex_unlock(&pollers_lock);
	pthread_mutex_unlock(&v->ve_lock);
	return rc;
}

/* Returns the descriptor of epoll, for which a loop of the program may wait. Sets the
   time of the expiry due first in a timerfd, and registers the timerfd with epoll. */
static int expose(struct uevents *e)
{
	struct events *v = (struct events *)(void *)e;
	int64_t due = first_due(v), when = due == USCHED_NEVER ? 0 : due;
	struct itimerspec spec = { .it_value = when_of(when) };
	int timer, rc = open_poller(v);

	if (rc)
		return rc;
	if (SIMULATED)                  /* no call waits in a simulation */
		return -ENOTSUP;
	if (when == v->ve_exposed)
		return v->ve_epoll;
	if (v->ve_timer < 0) {
		timer = uevents__own(timerfd_create(CLOCK_MONOTONIC,
						    TFD_CLOEXEC | TFD_NONBLOCK));
		rc = timer < 0 ? -errno
			: add_new(v->ve_epoll, timer, EPOLLIN, &v->ve_nothing);
		if (rc) {
			close_own(timer);
			return rc;
		}
		v->ve_timer = timer;
	}
	timerfd_settime(v->ve_timer, TFD_TIMER_ABSTIME, &spec, NULL);
	v->ve_exposed = when;
	return v->ve_epoll;
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
	if (SIMULATED)
		sim__due(x->x_when);
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
	v->ve_epoll = v->ve_interrupt = v->ve_timer = -1;
	v->ve_nothing.in_ready = on_bell;
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

int uevents__again(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
{
	struct events *v = (struct events *)(void *)e;
	int rc = open_poller(v);

	return rc ? rc : add_new(v->ve_epoll, fd,
				 ways & UEVENTS_OUTPUT ? EDGES_ALL : EDGES_IN, i);
}

int uevents_add(struct uevents *e, int fd, unsigned ways, struct uinterest *i)
{
	struct epoll_event event = { (uint32_t)EPOLLET | EDGES_ALL, { .ptr = i } };
	int rc = uevents__again(e, fd, ways, i);

	if (rc == -EEXIST)              /* another thread may wait to write */
		epoll_ctl(((struct events *)(void *)e)->ve_epoll, EPOLL_CTL_MOD, fd,
			  &event);      /* reports fd again */
	return rc;
}

void uevents_remove(struct uevents *e, int fd)
{
	struct events *v = (struct events *)(void *)e;
	struct epoll_event none = { 0 };        /* Linux before 2.6.9 refuses NULL */

	if (is_open(v))
		epoll_ctl(v->ve_epoll, EPOLL_CTL_DEL, fd, &none);
}

void uevents_forget(int fd)
{
	pthread_mutex_lock(&pollers_lock);
	for (struct events *v = pollers; v; v = v->ve_other)
		uevents_remove(&v->ve_events, fd);
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
		close_poller(v);
		v->ve_epoll = v->ve_interrupt = v->ve_timer = -1;
	}
	for (int fd = 0; fd < OWN_MAX; fd++)
		if (own_numbers[fd])    /* the child may close such an fd */
			note_own(fd, 0);
}

int64_t uevents_next_tick(void)
{
	return when_by(CLOCK_MONOTONIC_COARSE) + COARSE_TICK;
}
