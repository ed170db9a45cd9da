/* SPDX-License-Identifier: MIT */
/*
 * uevents_kqueue.c: the poller over kqueue(2), for the BSDs and macOS: poller.h.
 *
 * A descriptor has an event for each direction, with EV_CLEAR: an edge. The event stays
 * registered until close(2), which goes by the number, so a wait costs no kevent(2).
 *
 * EV_EOF on EVFILT_READ says that the peer writes no more, on EVFILT_WRITE that the peer
 * does not read either. A pipe has only the first, which poll(2) calls POLLHUP: so both
 * are reported as a hang-up, and a thread that waits for one direction looks again.
 * FreeBSD has no event for urgent data.
 *
 * EVFILT_USER interrupts a sleep. A child process does not inherit a kqueue, so the child
 * has nothing to close.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "poller.h"

#ifdef USCHED_KQUEUE

#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/event.h>

#include "../base/cancel.h"
#include "../base/when.h"
#include "../../uevents.h"

struct poller {
	int              pl_kqueue;
	int64_t          pl_exposed;    /* the time of EVFILT_TIMER; 0: not set */
	struct uinterest pl_nothing;    /* of events without a descriptor */
	struct kevent    pl_found[POLLER_BATCH];
};

static void tell_nothing(struct uinterest *i, unsigned ready)
{
	(void)i;
	(void)ready;
}

/* Makes changes, up to the first that fails. 0, or the error of that change. */
static int make_changes(struct poller *p, const struct kevent *changes, int n)
{
	return kevent(p->pl_kqueue, changes, n, NULL, 0, NULL) < 0 ? -errno : 0;
}

/* Sets an event without a descriptor. */
static int set_own(struct poller *p, short filter, unsigned short flags, unsigned notes,
		   int64_t data)
{
	struct kevent own;

	EV_SET(&own, 0, filter, flags, notes, data, &p->pl_nothing);
	return make_changes(p, &own, 1);
}

void uevents__poller_interrupt(struct poller *p)
{
	set_own(p, EVFILT_USER, 0, NOTE_TRIGGER, 0);
}

void uevents__poller_close(struct poller *p)
{
	if (p->pl_kqueue >= 0)
		close_deferred(uevents__disown(p->pl_kqueue));
	free(p);
}

int uevents__poller_open(struct poller **made, bool rung)
{
	struct poller *p = (struct poller *)calloc(1, sizeof *p);
	int rc = 0;

	if (!p)
		return -ENOMEM;
	p->pl_nothing.in_ready = tell_nothing;
	p->pl_kqueue = uevents__own(kqueue());
	if (p->pl_kqueue < 0 || fcntl(p->pl_kqueue, F_SETFD, FD_CLOEXEC) < 0)
		rc = -errno;
	if (rc == 0)
		rc = set_own(p, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0);
	if (rc) {
		uevents__poller_close(p);
		return rc;
	}
	if (rung)
		uevents__poller_interrupt(p);
	*made = p;
	return 0;
}

/*
 * Changes the filters of `fd'. UEVENTS_OUTPUT stands for both filters, as with epoll.
 * EVFILT_WRITE is the first, since only that filter has errors of its own.
 */
static int change_ways(struct poller *p, int fd, unsigned ways, unsigned short flags,
		       struct uinterest *i)
{
	struct kevent both[2];
	bool all = ways & UEVENTS_OUTPUT;

	EV_SET(&both[0], (uintptr_t)fd, EVFILT_WRITE, flags, 0, 0, i);
	EV_SET(&both[1], (uintptr_t)fd, EVFILT_READ, flags, 0, 0, i);
	return make_changes(p, all ? both : &both[1], all ? 2 : 1);
}

/* Registers `fd', or has the kernel look at a registered `fd' again: 0 in both cases. */
int uevents__poller_add(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	return fd < 0 ? -EBADF : change_ways(p, fd, ways, EV_ADD | EV_CLEAR, i);
}

/* Registers `fd', if EV_ENABLE, which changes nothing else, fails with -ENOENT. */
int uevents__poller_again(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	int rc = change_ways(p, fd, ways, EV_ENABLE, i);

	return rc == 0 ? -EEXIST
		: rc == -ENOENT ? uevents__poller_add(p, fd, ways, i) : rc;
}

/* Removes the filters one at a time: either may not be registered. */
void uevents__poller_remove(struct poller *p, int fd)
{
	struct kevent one;

	EV_SET(&one, (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0, NULL);
	make_changes(p, &one, 1);
	EV_SET(&one, (uintptr_t)fd, EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
	make_changes(p, &one, 1);
}

int uevents__poller_sleep(struct poller *p, bool forever, int64_t left)
{
	struct timespec t = when_of(left);
	int n = kevent(p->pl_kqueue, NULL, 0, p->pl_found, POLLER_BATCH,
		       forever ? NULL : &t);

	if (n < 0 && errno == EBADF)
		uevents__lost(p->pl_kqueue);
	return n;
}

/* Returns the bits of uevents.h. With EV_EOF `fflags' is the error of a socket. */
static unsigned ready_of(const struct kevent *found)
{
	bool output = found->filter == EVFILT_WRITE;
	unsigned ready = output ? UEVENTS_OUTPUT : UEVENTS_INPUT;

	if (found->flags & EV_EOF)
		ready |= UEVENTS_HANGUP | (output ? 0u : UEVENTS_PEER_END)
			| (found->fflags ? UEVENTS_ERROR : 0u);
	return ready;
}

void uevents__poller_tell(struct poller *p, int n)
{
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = (struct uinterest *)p->pl_found[i].udata;

		interest->in_ready(interest, ready_of(&p->pl_found[i]));
	}
}

/* Returns the kqueue, which can be polled. `when' is set as an EVFILT_TIMER. */
int uevents__poller_expose(struct poller *p, int64_t when)
{
	int64_t left = when - when_now();
	int rc = 0;

	if (when == p->pl_exposed)
		return p->pl_kqueue;
	if (when)
		rc = set_own(p, EVFILT_TIMER, EV_ADD | EV_ONESHOT, NOTE_NSECONDS,
			     left > 0 ? left : 1);      /* ns; 0 need not come at once */
	else
		set_own(p, EVFILT_TIMER, EV_DELETE, 0, 0);      /* or the time has come */
	if (rc)
		return rc;
	p->pl_exposed = when;
	return p->pl_kqueue;
}

#endif /* USCHED_KQUEUE */
