/* SPDX-License-Identifier: MIT */
/*
 * uevents_epoll.c: the poller over epoll: src/events/poller.h.
 *
 * A descriptor stays registered, for edges, so that a wait needs no epoll_ctl(2). The
 * eventfd that interrupts a sleep need not be read, since each write is an edge.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* syscall() */
#endif
#include "poller.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "../base/cancel.h"
#include "../base/sim.h"
#include "../base/when.h"
#include "../../uevents.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 (-1)           /* a call that fails with ENOSYS */
#endif

struct poller {
	int                pl_epoll;
	int                pl_interrupt; /* eventfd */
	int                pl_timer;    /* timerfd, or -1 */
	int64_t            pl_exposed;  /* the time of the timerfd; 0: not set */
	struct uinterest   pl_nothing;  /* for eventfd and timerfd, which end a sleep */
	struct epoll_event pl_found[POLLER_BATCH];
};

enum {
	AHEAD     = 4,                  /* events between a prefetch and its use */
	SECOND    = 1000000000,         /* ns */
	EDGES_IN  = EPOLLIN | EPOLLRDHUP | EPOLLPRI,
	EDGES_ALL = EDGES_IN | EPOLLOUT,
};

/* The UEVENTS_ bits are those of epoll, so that no code translates events. */
_Static_assert((unsigned)EPOLLIN == UEVENTS_INPUT
	       && (unsigned)EPOLLPRI == UEVENTS_URGENT
	       && (unsigned)EPOLLOUT == UEVENTS_OUTPUT
	       && (unsigned)EPOLLERR == UEVENTS_ERROR
	       && (unsigned)EPOLLHUP == UEVENTS_HANGUP
	       && (unsigned)EPOLLRDHUP == UEVENTS_PEER_END, "the bits are epoll's");

static bool no_pwait2;                  /* atomic: epoll_pwait2(2) has failed before */

static void on_bell(struct uinterest *i, unsigned ready)
{
	(void)i;
	(void)ready;
}

void uevents__poller_close(struct poller *p)
{
	const int fds[] = { p->pl_epoll, p->pl_interrupt, p->pl_timer };

	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close_deferred(uevents__disown(fds[i]));
	free(p);
}

/* Registers a descriptor. For epoll that is a number together with its open file. */
static int add_new(struct poller *p, int fd, uint32_t edges, struct uinterest *i)
{
	struct epoll_event event = { .events = edges | EPOLLET, .data = { .ptr = i } };

	return epoll_ctl(p->pl_epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int uevents__poller_open(struct poller **made, bool rung)
{
	struct poller *p = (struct poller *)calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -ENOMEM;
	p->pl_nothing.in_ready = on_bell;
	p->pl_interrupt = p->pl_timer = -1;
	p->pl_epoll = uevents__own(epoll_create1(EPOLL_CLOEXEC));
	if (p->pl_epoll >= 0)
		p->pl_interrupt = uevents__own(eventfd(rung, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = p->pl_interrupt < 0 ? -errno
		: add_new(p, p->pl_interrupt, EPOLLIN, &p->pl_nothing);
	if (rc) {
		uevents__poller_close(p);
		return rc;
	}
	*made = p;
	return 0;
}

int uevents__poller_again(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	return add_new(p, fd, ways & UEVENTS_OUTPUT ? EDGES_ALL : EDGES_IN, i);
}

int uevents__poller_add(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	struct epoll_event event = { (uint32_t)EPOLLET | EDGES_ALL, { .ptr = i } };
	int rc = uevents__poller_again(p, fd, ways, i);

	if (rc == -EEXIST)              /* another thread may wait to write */
		epoll_ctl(p->pl_epoll, EPOLL_CTL_MOD, fd, &event); /* reports fd again */
	return rc;
}

void uevents__poller_remove(struct poller *p, int fd)
{
	struct epoll_event none = { 0 };        /* Linux before 2.6.9 refuses NULL */

	epoll_ctl(p->pl_epoll, EPOLL_CTL_DEL, fd, &none);
}

/* Reads the eventfd if its sum is full, since a write then fails and makes no edge. */
void uevents__poller_interrupt(struct poller *p)
{
	uint64_t one = 1, sum;

	while (write(p->pl_interrupt, &one, sizeof one) < 0)
		if (errno == EAGAIN)
			(void)!read(p->pl_interrupt, &sum, sizeof sum);
		else if (errno != EINTR)
			uevents__lost(p->pl_interrupt);
}

/* Returns the timeout of epoll_wait(2), rounded up so that no sleep ends too early. */
static int milliseconds(bool forever, int64_t left)
{
	const int64_t milli = 1000000;          /* ns */

	left = (left + milli - 1) / milli;
	return forever ? -1 : left > INT32_MAX ? INT32_MAX : (int)left;
}

int uevents__poller_sleep(struct poller *p, bool forever, int64_t left)
{
	int n = -1;

	if (SIMULATED) {                /* the simulated clock jumps instead */
		int64_t until = forever ? INT64_MAX : sim__now() + left;

		while ((n = epoll_wait(p->pl_epoll, p->pl_found, POLLER_BATCH, 0)) == 0
		       && sim__now() < until)
			if (!sim__pass(until)) {
				sim__stuck();
				break;
			}
		return n;
	}
	if (!__atomic_load_n(&no_pwait2, __ATOMIC_RELAXED)) {
		int64_t t[] = { left / SECOND, left % SECOND }; /* timespec of 64 bits */

		n = (int)syscall(SYS_epoll_pwait2, p->pl_epoll, p->pl_found, POLLER_BATCH,
				 forever ? NULL : t, NULL, (size_t)0);
		if (n >= 0 || errno == EINTR)
			return n;
		__atomic_store_n(&no_pwait2, true, __ATOMIC_RELAXED); /* ENOSYS, EPERM */
	}
	n = epoll_wait(p->pl_epoll, p->pl_found, POLLER_BATCH,
		       milliseconds(forever, left));
	if (n < 0 && errno != EINTR)
		uevents__lost(p->pl_epoll);
	return n;
}

void uevents__poller_tell(struct poller *p, int n)
{
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = (struct uinterest *)p->pl_found[i].data.ptr;

		if (i + AHEAD < n)
			__builtin_prefetch(p->pl_found[i + AHEAD].data.ptr);
		interest->in_ready(interest, p->pl_found[i].events);
	}
}

/* Returns the descriptor of epoll, which can be polled. Sets the time `when' in a
   timerfd, and registers the timerfd with epoll. */
int uevents__poller_expose(struct poller *p, int64_t when)
{
	struct itimerspec spec = { .it_value = when_of(when) };
	int rc;

	if (SIMULATED)                  /* no call waits in a simulation */
		return -ENOTSUP;
	if (when == p->pl_exposed)
		return p->pl_epoll;
	if (p->pl_timer < 0) {
		p->pl_timer = uevents__own(timerfd_create(CLOCK_MONOTONIC,
							  TFD_CLOEXEC | TFD_NONBLOCK));
		if (p->pl_timer < 0)
			return -errno;
		rc = add_new(p, p->pl_timer, EPOLLIN, &p->pl_nothing);
		if (rc) {
			close(uevents__disown(p->pl_timer));
			p->pl_timer = -1;
			return rc;
		}
	}
	timerfd_settime(p->pl_timer, TFD_TIMER_ABSTIME, &spec, NULL);
	p->pl_exposed = when;
	return p->pl_epoll;
}
