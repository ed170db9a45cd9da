/* SPDX-License-Identifier: MIT */
/* uposix_fd.c: calls that make, copy, close and change descriptors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE                  /* else read() here becomes __read_chk() */
#include "uposix_io.h"

#include "../src/base/sim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Calls that make descriptors. */

static int kind_of(int type)
{
	return (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM ? STREAM : PACKET;
}

int uposix_socket(int family, int type, int protocol)
{
	return uposix__made(socket(family, type, protocol), kind_of(type),
			    type & SOCK_NONBLOCK);
}

int uposix_socketpair(int family, int type, int protocol, int fds[2])
{
	if (socketpair(family, type, protocol, fds))
		return -1;
	for (int i = 0; i < 2; i++)
		uposix__made(fds[i], kind_of(type), type & SOCK_NONBLOCK);
	return 0;
}

int uposix_pipe2(int fds[2], int flags)
{
	if (pipe2(fds, flags))
		return -1;
	for (int i = 0; i < 2; i++)
		uposix__made(fds[i], PIPE, flags & O_NONBLOCK);
	return 0;
}

int uposix_pipe(int fds[2])
{
	return uposix_pipe2(fds, 0);
}

int uposix_eventfd(unsigned n, int flags)
{
	return uposix__made(eventfd(n, flags), OTHER, flags & EFD_NONBLOCK);
}

int uposix_timerfd_create(int clock, int flags)
{
	return uposix__made(timerfd_create(clock, flags), OTHER, flags & TFD_NONBLOCK);
}

int uposix_signalfd(int fd, const sigset_t *set, int flags)
{
	int new = signalfd(fd, set, flags);

	return fd >= 0 ? new : uposix__made(new, OTHER, flags & SFD_NONBLOCK);
}

int uposix_inotify_init1(int flags)
{
	return uposix__made(inotify_init1(flags), OTHER, flags & IN_NONBLOCK);
}

int uposix_inotify_init(void)
{
	return uposix_inotify_init1(0);
}

int uposix_epoll_create1(int flags)
{
	return uposix__made(epoll_create1(flags), OTHER, false);
}

int uposix_epoll_create(int size)
{
	return size > 0 ? uposix_epoll_create1(0) : epoll_create(size);
}

/* Copies. */

/*
 * Returns true if the child of a fork makes `copy' standard input, output or error of a
 * program that the child will execute. Such a program expects read(2) to block, so
 * O_NONBLOCK is cleared.
 */
static bool for_program(int fd, int copy)
{
	const struct uposix_fd *f = uposix__known(fd);

	if (!uposix__child || copy < 0 || copy > STDERR_FILENO || !f
	    || (GET(f->f_flags) & (FD_OURS | FD_NONBLOCK)) != FD_OURS)
		return false;
	return fcntl(copy, F_SETFL, fcntl(copy, F_GETFL) & ~O_NONBLOCK) == 0;
}

int uposix_dup(int fd)
{
	return uposix__copied(fd, dup(fd));
}

/*
 * Returns true if `fd' is a descriptor of the library. To the program such descriptors
 * look closed.
 */
static bool is_own(int fd)
{
	bool own = fd >= 0 && uevents__next_own((unsigned)fd, (unsigned)fd) >= 0;

	if (own)
		errno = EBADF;
	return own;
}

/*
 * A copy of the descriptor of a socket with SO_LINGER. Closing the last descriptor of the
 * socket waits for the peer, so a native thread does that.
 */
struct lingering {
	struct uposix_job l_job;
	int               l_fd;
};

static long close_last(void *job)
{
	struct lingering *l = job;
	int fd = uevents__disown(l->l_fd);

	l->l_fd = -1;
	return close(fd);
}

/*
 * Returns -1 if close(fd) does not wait. Otherwise returns a copy of `fd', so that
 * close(fd) does not wait either. After close(fd) the caller passes the copy to
 * end_linger().
 */
static int begin_linger(int fd)
{
	const struct uposix_fd *f = SIMULATED ? NULL : uposix__known(fd);
	struct linger l = { 0, 0 };
	socklen_t size = sizeof l;

	return f && GET(f->f_kind) <= PACKET && uposix__in_thread()
		&& getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &size) == 0
		&& l.l_onoff && l.l_linger > 0
		? uevents__own(fcntl(fd, F_DUPFD_CLOEXEC, 0)) : -1;
}

/*
 * Closes a copy that begin_linger() has returned. A native thread closes the copy, while
 * the calling thread waits. If no native thread can be started, the calling thread closes
 * the copy, and blocks its processor meanwhile. Does nothing if `copy' is -1.
 */
static void end_linger(int copy)
{
	struct lingering l = { .l_job.j_call = close_last, .l_fd = copy };
	int before = errno;

	if (copy >= 0)
		uposix__apart(&l.l_job, sizeof l, APART_NOTHING);
	if (l.l_fd >= 0)
		close_last(&l);
	errno = before;
}

static int copy_to(int fd, int copy, int flags, bool by_dup2)
{
	int last = -1;

	uposix__pace();
	if (is_own(copy)) {             /* a processor may sleep in epoll_wait() on
					   this descriptor */
		UPOSIX_TELL_ONCE("descriptor %d is the library's own: no other file can "
				 "have that number", copy);
		return -1;
	}
	if (fd != copy && fcntl(fd, F_GETFD) >= 0 && (flags & ~O_CLOEXEC) == 0) {
		last = begin_linger(copy);
		uposix__release(copy);
	}
	copy = by_dup2 ? dup2(fd, copy) : dup3(fd, copy, flags);
	end_linger(last);
	return for_program(fd, copy) ? copy : uposix__copied(fd, copy);
}

int uposix_dup2(int fd, int copy)
{
	return copy_to(fd, copy, 0, true);
}

int uposix_dup3(int fd, int copy, int flags)
{
	return copy_to(fd, copy, flags, false);
}

/* Calls that close descriptors. */

int uposix_close(int fd)
{
	int last, rc;

	uposix__pace();
	if (is_own(fd))
		return -1;
	last = begin_linger(fd);
	rc = uposix__forget(fd) & FD_UNET ? (int)uposix__answer(unet_close(fd))
		: close(fd);
	end_linger(last);
	return rc;
}

int uposix_shutdown(int fd, int how)
{
	return (int)uposix__answer(unet_shutdown(fd, how));
}

int uposix_close_range(unsigned first, unsigned last, int flags)
{
	int own, rc = 0;

	if (first > last || flags & (int)CLOSE_RANGE_CLOEXEC)
		return close_range(first, last, flags);
	uposix__forget_range(first, last);
	while (rc == 0 && (own = uevents__next_own(first, last)) >= 0) {
		if ((unsigned)own > first)
			rc = close_range(first, (unsigned)own - 1, flags);
		first = (unsigned)own + 1;
	}
	return rc || first > last ? rc : close_range(first, last, flags);
}

void uposix_closefrom(int first)
{
	int own;

	first = first < 0 ? 0 : first;
	uposix__forget_range((unsigned)first, UINT32_MAX);
	for (; (own = uevents__next_own((unsigned)first, UINT32_MAX)) >= 0; first++)
		while (first < own)
			close(first++);
	closefrom(first);
}

/* Calls that change descriptors. */

static int control(int fd, int command, long argument)
{
	switch (command) {
	case F_GETFL:
		return uposix__see_flags(fd);
	case F_SETFL:
		return uposix__change_flags(fd, argument);
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return uposix__copied(fd, fcntl(fd, command, argument));
	case F_SETLKW:
	case F_OFD_SETLKW:
		return uposix__lock_file(fd, command, (struct flock *)argument);
	default:
		return fcntl(fd, command, argument);
	}
}

int uposix_fcntl(int fd, int command, ...)
{
	va_list list;
	long argument;

	va_start(list, command);
	argument = va_arg(list, long);
	va_end(list);
	uposix__pace();
	return control(fd, command, argument);
}

/* With an off_t of 64 bits, fcntl64() is the same function as fcntl(). */
int uposix_fcntl64(int fd, int command, ...) UPOSIX_ALIAS(fcntl);

int uposix_ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;
	int flags;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	uposix__pace();
	if (request != FIONBIO || !uposix__known(fd))
		return ioctl(fd, request, argument);
	flags = uposix__see_flags(fd);
	if (flags < 0)
		return -1;
	return uposix__change_flags(fd, *(int *)argument ? flags | O_NONBLOCK
						 : flags & ~O_NONBLOCK);
}

int uposix_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	int rc = (uposix__pace(), setsockopt(fd, level, name, value, size));

	if (rc == 0 && level == SOL_SOCKET
	    && (name == SO_RCVTIMEO || name == SO_SNDTIMEO || name == SO_RCVLOWAT))
		uposix__set_option(fd, name);
	return rc;
}
