/* SPDX-License-Identifier: MIT */
/*
 * uposix_poll.c: poll, select, epoll_wait, io_getevents. A thread waits in unet_poll(),
 * and then asks poll(2) what is ready.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "../src/base/sim.h"
#include "uposix_io.h"

#include <linux/aio_abi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST    = 65536,                /* the most descriptors of one unet_poll() */
	NUMBERS = 1 << 22,              /* limit of descriptors, as in unet.c */
};

/*
 * Makes a call that does not wait. In a thread, only the signal that ends slices can
 * interrupt the call, unless the call unblocks signals. Then the call is repeated.
 */
#define LOOK(rc, call, mask) do							\
	(rc) = (uposix__pace(), (call));					\
while ((rc) < 0 && errno == EINTR && !(mask) && uposix__in_thread())

/* poll. */

/* Waits, and returns the result of poll(). */
static int wait_and_look(struct pollfd *fds, size_t n, int64_t deadline)
{
	int rc;

	UPOSIX_WAIT(rc, false, uposix__wait_ready(fds, n, deadline));
	if (rc != -ETIMEDOUT)
		return (int)uposix__answer(rc);
	for (size_t i = 0; i < n; i++)
		fds[i].revents = 0;
	return 0;
}

int uposix_poll(struct pollfd *fds, nfds_t n, int ms)
{
	int rc;

	if (ms == 0 || !uposix__in_thread() || n > MOST) {
		LOOK(rc, poll(fds, n, ms), NULL);
		return rc;
	}
	if (!uposix__begins(false))
		return -1;
	return wait_and_look(fds, n, ms < 0 ? USCHED_NEVER
			     : usync_after((int64_t)ms * 1000000));
}

static bool is_time(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < USYNC_SECOND;
}

/* Returns a deadline that is greater than 0, without overflow. */
static int64_t deadline_of(const struct timespec *t)
{
	if (!t || t->tv_sec >= INT32_MAX)
		return USCHED_NEVER;
	return usync_after((int64_t)t->tv_sec * USYNC_SECOND + t->tv_nsec);
}

/*
 * Sets the signal mask for a call. If the handler of a pending signal has run, sets errno
 * to EINTR and returns -1, and the call ends. Otherwise returns 0.
 */
static int begin_mask(const sigset_t *mask, sigset_t *before)
{
	const struct uposix_thread *me = uposix__me();
	uint32_t handled = me->p_handled;

	if (mask)
		uposix_pthread_sigmask(SIG_SETMASK, mask, before);
	if (me->p_handled == handled)
		return 0;
	errno = EINTR;
	return -1;
}

static void end_mask(const sigset_t *mask, const sigset_t *before)
{
	int error = errno;

	if (mask)
		uposix_pthread_sigmask(SIG_SETMASK, before, NULL);
	errno = error;
}

/*
 * Returns true if the call does not wait. In a simulation each call counts as a wait, so
 * that each call is a step.
 */
static bool is_none(const struct timespec *t)
{
	return !SIMULATED && t && t->tv_sec == 0 && t->tv_nsec == 0;
}

int uposix_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit,
		 const sigset_t *mask)
{
	sigset_t before;
	int rc;

	if (!uposix__in_thread() || (limit && !is_time(limit)) || is_none(limit)
	    || n > MOST) {
		LOOK(rc, ppoll(fds, n, limit, mask), mask);
		return rc;
	}
	if (!uposix__begins(false))
		return -1;
	rc = begin_mask(mask, &before);
	if (rc == 0)
		rc = wait_and_look(fds, n, deadline_of(limit));
	end_mask(mask, &before);
	return rc;
}

/* select. Sets may be larger than fd_set. */

enum { BITS = 8 * sizeof(fd_mask) };

static const short ways[3] = { POLLIN | POLLRDBAND, POLLOUT | POLLWRBAND, POLLPRI };
static const short found[3] = { POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
				POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR, POLLPRI };

static fd_mask *word_of(fd_set *set, int fd)
{
	return (fd_mask *)(void *)set + fd / BITS;
}

static bool is_in(fd_set *set, int fd)
{
	return set && *word_of(set, fd) & (fd_mask)(1ul << fd % BITS);
}

static size_t collect(int n, fd_set *sets[3], struct pollfd *fds)
{
	size_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = 0;

		for (int i = 0; i < 3; i++)
			if (is_in(sets[i], fd))
				events |= ways[i];
		if (events)
			fds[count++] = (struct pollfd){ fd, events, 0 };
	}
	return count;
}

/*
 * Returns false if some set asks for one of the results. Otherwise drops the results,
 * such as POLLHUP of a descriptor that is only in `except', and makes poll() ignore the
 * descriptors that had results. Then returns true, so that the caller waits again.
 */
static bool take_out(struct pollfd *fds, size_t count, fd_set *sets[3])
{
	for (size_t k = 0; k < count; k++)
		for (int i = 0; fds[k].revents && i < 3; i++)
			if (fds[k].revents & POLLNVAL
			    || (is_in(sets[i], fds[k].fd) && fds[k].revents & found[i]))
				return false;
	for (size_t k = 0; k < count; k++)
		if (fds[k].revents) {
			fds[k].fd = ~fds[k].fd;
			fds[k].revents = 0;
		}
	return true;
}

static int give_back(struct pollfd *fds, size_t count, fd_set *sets[3])
{
	int n = 0;

	for (size_t k = 0; k < count; k++)
		if (fds[k].fd < 0)
			fds[k].fd = ~fds[k].fd;
	for (size_t k = 0; k < count; k++)
		if (fds[k].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	for (size_t k = 0; k < count; k++)
		for (int i = 0; i < 3; i++) {
			if (!is_in(sets[i], fds[k].fd))
				continue;
			if (fds[k].revents & found[i])
				n++;
			else
				*word_of(sets[i], fds[k].fd) &=
					(fd_mask)~(1ul << fds[k].fd % BITS);
		}
	return n;
}

static int select_until(int n, fd_set *sets[3], int64_t deadline)
{
	CLEANUP(uposix__free_it) struct pollfd *fds = n > 0
		? calloc((size_t)n, sizeof *fds) : NULL;
	size_t count;
	int rc;

	if (n < 0 || (n > 0 && !fds)) {
		errno = n < 0 ? EINVAL : ENOMEM;
		return -1;
	}
	count = collect(n, sets, fds);
	do
		rc = wait_and_look(fds, count, deadline);
	while (rc > 0 && take_out(fds, count, sets));
	return rc < 0 ? rc : give_back(fds, count, sets);
}

int uposix_select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *limit)
{
	fd_set *sets[3] = { in, out, except };
	int64_t deadline = USCHED_NEVER, left;
	int rc;

	if (!uposix__in_thread() || (limit && (limit->tv_sec < 0 || limit->tv_usec < 0
			|| (!SIMULATED && limit->tv_sec + limit->tv_usec == 0)))) {
		LOOK(rc, select(n, in, out, except, limit), NULL);
		return rc;
	}
	if (!uposix__begins(false))
		return -1;
	if (limit && limit->tv_sec < INT32_MAX)
		deadline = usync_after(limit->tv_sec * USYNC_SECOND
				       + limit->tv_usec * 1000l);
	rc = select_until(n < NUMBERS ? n : NUMBERS, sets, deadline);
	if (limit && deadline != USCHED_NEVER) {        /* returns the time that is
							   left, as on Linux */
		left = deadline - usync_after(0);
		left = left > 0 ? left : 0;
		limit->tv_sec = left / USYNC_SECOND;
		limit->tv_usec = left % USYNC_SECOND / 1000;
	}
	return rc;
}

int uposix_pselect(int n, fd_set *in, fd_set *out, fd_set *except,
		   const struct timespec *limit, const sigset_t *mask)
{
	fd_set *sets[3] = { in, out, except };
	sigset_t before;
	int rc;

	if (!uposix__in_thread() || (limit && !is_time(limit)) || is_none(limit)) {
		LOOK(rc, pselect(n, in, out, except, limit, mask), mask);
		return rc;
	}
	if (!uposix__begins(false))
		return -1;
	rc = begin_mask(mask, &before);
	if (rc == 0)
		rc = select_until(n < NUMBERS ? n : NUMBERS, sets, deadline_of(limit));
	end_mask(mask, &before);
	return rc;
}

/* epoll. A thread waits until the epoll instance itself is readable. */

static int wait_events(int fd, struct epoll_event *events, int max, int64_t deadline)
{
	int n = (uposix__pace(), epoll_wait(fd, events, max, 0)), rc = 0;

	if (n != 0)
		return n;
	uposix__kind(fd);
	if (uposix__known(fd))
		uposix__adopt(fd, uposix__known(fd));
	while (n == 0 && rc == 0) {
		UPOSIX_WAIT(rc, false, unet_wait(fd, POLLIN, deadline));
		if (rc == 0)
			n = epoll_wait(fd, events, max, 0);
	}
	return rc == -ETIMEDOUT ? 0 : rc < 0 ? (int)uposix__answer(rc) : n;
}

int uposix_epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
	if (ms == 0 || !uposix__in_thread())
		return uposix__pace(), epoll_wait(fd, events, max, ms);
	if (!uposix__begins(false))
		return -1;
	return wait_events(fd, events, max, ms < 0 ? USCHED_NEVER
			   : usync_after((int64_t)ms * 1000000));
}

int uposix_epoll_pwait(int fd, struct epoll_event *events, int max, int ms,
		       const sigset_t *mask)
{
	sigset_t before;
	int rc;

	if ((!SIMULATED && ms == 0) || !uposix__in_thread())
		return uposix__pace(), epoll_pwait(fd, events, max, ms, mask);
	rc = begin_mask(mask, &before);
	if (rc == 0)
		rc = uposix_epoll_wait(fd, events, max, ms);
	end_mask(mask, &before);
	return rc;
}

int uposix_epoll_pwait2(int fd, struct epoll_event *events, int max,
			const struct timespec *limit, const sigset_t *mask)
{
	sigset_t before;
	int rc;

	if (!uposix__in_thread() || (limit && !is_time(limit)) || is_none(limit))
		return uposix__pace(), epoll_pwait2(fd, events, max, limit, mask);
	if (!uposix__begins(false))
		return -1;
	rc = begin_mask(mask, &before);
	if (rc == 0)
		rc = wait_events(fd, events, max, deadline_of(limit));
	end_mask(mask, &before);
	return rc;
}

/* A queue of the kernel's aio has no descriptor, so a thread looks from time to time. */
long uposix__get_events(long number, const long *a, const sigset_t *mask)
{
	static const struct timespec none = { 0, 0 };
	int64_t deadline = deadline_of((const void *)a[4]);
	long done = 0, n;
	sigset_t before;

	if (!uposix__in_thread())
		return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	n = begin_mask(mask, &before);
	while (n == 0) {
		n = syscall(SYS_io_getevents, a[0], a[1] - done, a[2] - done,
			    (struct io_event *)a[3] + done, &none);
		done += n > 0 ? n : 0;
		if (n < 0 || done >= a[1] || usync_after(0) >= deadline)
			break;
		n = uposix__look_later() ? 0 : -1;
	}
	end_mask(mask, &before);
	return done ? done : n;
}

/* The variants that _FORTIFY_SOURCE calls. */

int uposix___poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room)
{
	return room / sizeof *fds < n ? (abort(), -1) : uposix_poll(fds, n, ms);
}

int uposix___ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit,
		       const sigset_t *mask, size_t room)
{
	return room / sizeof *fds < n ? (abort(), -1) : uposix_ppoll(fds, n, limit, mask);
}
