/* SPDX-License-Identifier: MIT */
/*
 * uposix_way.c: how a call on a descriptor waits: in unet, in an epoll instance, or in
 * libc's call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * ms between two looks at a full UNIX socket, which has no event when its output is shut
 * down
 */
enum { LOOK = 100 };

int64_t uposix__until(uint32_t ms)
{
	return ms == 0 ? USCHED_NEVER : usync_after((int64_t)ms * 1000000);
}

ssize_t uposix__answer(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = n == -ETIMEDOUT ? EAGAIN : n == -ETIME ? ETIMEDOUT : (int)-n;
	return -1;
}

/* Has unet adopt the descriptors. Returns false if unet cannot use some of them. */
static bool adopt_all(const struct pollfd *fds, size_t n)
{
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		int kind = fds[i].fd < 0 ? UNKNOWN : uposix__kind(fds[i].fd);

		if (kind == FOREIGN || kind == PLAIN)
			all = false;
		else if (kind != UNKNOWN)
			uposix__adopt(fds[i].fd, uposix__known(fds[i].fd));
	}
	return all;
}

/* Calls poll(2) without waiting, so that a signal never ends the call. */
static int look(struct pollfd *fds, size_t n)
{
	int rc;

	do
		rc = poll(fds, n, 0);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : rc;
}

static uint32_t polled_events(short events)
{
	return (uint32_t)events & (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP
				   | EPOLLRDNORM | EPOLLRDBAND
				   | EPOLLWRNORM | EPOLLWRBAND);
}

static bool replace(struct pollfd *one)
{
	struct epoll_event e = { .events = polled_events(one->events) };
	int fd, kind = uposix__kind(one->fd);

	if (kind != FOREIGN && kind != PLAIN)
		return true;
	fd = uevents__own(epoll_create1(EPOLL_CLOEXEC));
	if (fd < 0)
		return false;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, one->fd, &e)) {
		close(uevents__disown(fd));
		fd = -1;                        /* EPERM means a file, which never
						   waits */
	}
	one->fd = fd;
	one->events = POLLIN;
	return true;
}

/*
 * Waits as poll() does, with an epoll instance in place of each FOREIGN descriptor.
 * Regular files, and numbers without a descriptor, are always ready, so this first looks
 * whether a wait is needed.
 */
static int poll_foreign(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct pollfd *all = NULL;
	int rc = (uposix__pace(), look(fds, n));
	size_t done = 0;

	if (rc != 0)
		return rc;
	all = malloc(n * sizeof *all);
	if (!all)
		return -ENOMEM;
	for (; rc == 0 && done < n; done++) {
		all[done] = fds[done];
		rc = all[done].fd < 0 || replace(&all[done]) ? 0 : -errno;
	}
	while (rc == 0) {
		rc = unet_poll(all, n, deadline);
		if (rc > 0)                     /* 0 if another process was faster */
			rc = look(fds, n);
	}
	while (done-- > 0)
		if (all[done].fd >= 0 && all[done].fd != fds[done].fd)
			uposix__close_it(&all[done].fd);
	free(all);
	return rc;
}

int uposix__wait_ready(struct pollfd *fds, size_t n, int64_t deadline)
{
	int rc;

	if (n == 0) {
		rc = usync_sleep_until(deadline);
		return rc ? rc : -ETIMEDOUT;
	}
	return adopt_all(fds, n) ? unet_poll(fds, n, deadline)
				 : poll_foreign(fds, n, deadline);
}

static int await_foreign(int fd, short events, struct uposix_fd *f)
{
	struct pollfd one = { fd, events, 0 };
	int64_t deadline = uposix__until(events & POLLIN ? f->f_receive : f->f_send);
	int rc;

	UPOSIX_WAIT(rc, deadline == USCHED_NEVER, uposix__wait_ready(&one, 1, deadline));

	if (rc > 0)
		return WAY_PLAIN;
	uposix__answer(rc);
	return WAY_FAILED;
}

int uposix__way(int fd, short events, struct uposix_fd **f)
{
	bool plain;

	if (!uposix__in_thread())
		return WAY_PLAIN;
	if (!uposix__begins(true))
		return WAY_FAILED;
	*f = uposix__classified(fd);
	plain = !*f || GET((*f)->f_flags) & FD_NONBLOCK;
	if (!plain && GET((*f)->f_kind) < FOREIGN) {
		uposix__adopt(fd, *f);
		return WAY_UNET;
	}
	uposix__pace();
	return plain || GET((*f)->f_kind) == PLAIN ? WAY_PLAIN
		: await_foreign(fd, events, *f);
}

/* Called by native threads. Each call starts the time-out anew. */
bool uposix__repeat(ssize_t *result, int fd, short events)
{
	const struct uposix_fd *f = errno == EAGAIN ? uposix__known(fd) : NULL;
	struct pollfd one = { fd, events, 0 };
	uint32_t ms;
	int n;

	if (!f || (GET(f->f_flags) & (FD_OURS | FD_NONBLOCK)) != FD_OURS)
		return false;
	if (events & POLLIN && unet__is_shut(fd)) {
		*result = 0;
		errno = EINVAL;
		return false;
	}
	ms = events & POLLIN ? GET(f->f_receive) : GET(f->f_send);
	n = poll(&one, 1, ms > INT32_MAX ? INT32_MAX : ms > 0 ? (int)ms
		 : result && events & POLLOUT ? LOOK : -1);
	if (n == 0)
		errno = EAGAIN;
	return n > 0 || (n == 0 && ms == 0);
}

/* Sends SIGPIPE to the calling thread, as the system does after a native write. */
void uposix__broken(void)
{
	struct sigaction now;

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
		return;
	uposix_pthread_kill(uposix_pthread_self(), SIGPIPE);
}
