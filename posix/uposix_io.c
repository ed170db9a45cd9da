/* SPDX-License-Identifier: MIT */
/*
 * uposix_io.c: transfers, such as read, write, recv and send.
 *
 * A blocking write to a stream socket or pipe transfers all bytes. If an error or a
 * time-out comes first, the result is the number of bytes written. On all other
 * descriptors one call transfers one message.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "../src/base/sim.h"
#include "uposix_io.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/*
 * Makes a call of unet that transfers bytes. If a signal or a cancel comes after the
 * first byte, the transfer ends, and its result is the number of bytes transferred so
 * far.
 */
#define TRANSFER(n, done, call) do {						\
	if ((done) > 0)								\
		(n) = (call);							\
	else									\
		WAIT(n, (done) > 0 ? 0 : (ssize_t)(call));			\
} while (0)

/* Waits until `deadline', which is a variable of the calling function. */
#define WAIT(n, call) UPOSIX_WAIT(n, deadline == USCHED_NEVER, call)

/* MSG_NOSIGNAL needs no work, since unet always sets that flag. */
enum { KNOWN = MSG_NOSIGNAL, NO_WAIT = MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB };

/* read and write. */

/*
 * Does what uposix__way() does, for a call that needs a socket. If `fd' is no socket,
 * returns WAY_PLAIN, so that libc's call fails with ENOTSOCK.
 */
static int socket_way(int fd, short events, struct uposix_fd **f)
{
	int way = uposix__way(fd, events, f);

	return way == WAY_UNET && (*f)->f_kind != STREAM && (*f)->f_kind != PACKET
		? WAY_PLAIN : way;
}

/* Returns the least number of bytes that a read must receive before the read ends. */
static size_t least_of(size_t size, int flags, const struct uposix_fd *f)
{
	size_t least = flags & MSG_WAITALL ? size : GET(f->f_least);

	return flags & MSG_PEEK || f->f_kind != STREAM ? 0 : least < size ? least : size;
}

static ssize_t receive(int fd, char *buffer, size_t size, int flags,
		       struct unet_addr *from, const struct uposix_fd *f)
{
	int64_t deadline = uposix__until(f->f_receive);
	size_t least = least_of(size, flags, f);
	size_t got = 0;
	ssize_t n;

	do {
		struct iovec part = { buffer + got, size - got };
		struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1,
				    .msg_name = from ? &from->ad_sockaddr : NULL,
				    .msg_namelen = from ? sizeof from->ad_sockaddr : 0 };

		TRANSFER(n, got, unet_recvmsg(fd, &m, flags & ~MSG_WAITALL, deadline));
		if (from)
			from->ad_size = m.msg_namelen;
		got += n > 0 ? (size_t)n : 0;
	} while (n > 0 && got < least);
	return got > 0 ? (ssize_t)got : uposix__answer(n);
}

static ssize_t read_way(int fd, void *buffer, size_t size, const struct uposix_fd *f)
{
	int64_t deadline = uposix__until(f->f_receive);
	ssize_t n;

	if (GET(f->f_least) > 0)
		return receive(fd, buffer, size, 0, NULL, f);
	WAIT(n, unet_read(fd, buffer, size, deadline));
	return uposix__answer(n);
}

ssize_t uposix_read(int fd, void *buffer, size_t size)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLIN, &f);
	ssize_t n;

	if (way == WAY_UNET)
		return read_way(fd, buffer, size, f);
	if (way == WAY_FAILED)
		return -1;
	do
		n = read(fd, buffer, size);
	while (n < 0 && uposix__repeat(&n, fd, POLLIN));
	return n;
}

static size_t bytes_of(const struct iovec *iov, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += iov[i].iov_len;
	return size;
}

ssize_t uposix_readv(int fd, const struct iovec *iov, int count)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLIN, &f);
	ssize_t n;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET && count > 0 && count <= IOV_MAX
	    && bytes_of(iov, (size_t)count) > 0) {
		int64_t deadline = uposix__until(f->f_receive);
		struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				    .msg_iovlen = (size_t)count };

		if (GET(f->f_least) > 0)
			return uposix_recvmsg(fd, &m, 0);
		WAIT(n, unet_recvmsg(fd, &m, 0, deadline));
		return uposix__answer(n);
	}
	do
		n = readv(fd, iov, count);
	while (n < 0 && uposix__repeat(&n, fd, POLLIN));
	return n;
}

static bool is_full(const struct uposix_fd *f)
{
	return f->f_kind == STREAM || f->f_kind == PIPE;
}

/* Returns the result of a write. `done' bytes have been written; n is unet's result. */
static ssize_t written(const struct uposix_fd *f, ssize_t n, size_t done, int flags)
{
	if (done > 0)
		return (ssize_t)done;
	if (n == -EPIPE && !(flags & MSG_NOSIGNAL)
	    && (f->f_kind == STREAM || f->f_kind == PIPE))
		uposix__broken();
	return uposix__answer(n);
}

static ssize_t write_way(int fd, const void *data, size_t size, int flags,
			 struct uposix_fd *f)
{
	int64_t deadline = uposix__until(f->f_send);
	size_t done = 0;
	ssize_t n;

	if (is_full(f) && size > 0)
		TRANSFER(n, done, unet_write_all(fd, data, size, &done, deadline));
	else
		WAIT(n, unet_write(fd, data, size, deadline));
	return written(f, n, done, flags);
}

/*
 * Called when a native thread has transferred less than asked. Returns true if the
 * transfer is to go on, because this library and not the program has set O_NONBLOCK.
 */
static bool goes_on(int fd)
{
	const struct uposix_fd *f = uposix__known(fd);

	return f && (f->f_flags & (FD_OURS | FD_NONBLOCK)) == FD_OURS;
}

/*
 * Writes by calls of libc, for a native thread or to a descriptor that is FOREIGN or
 * PLAIN. A thread that writes more than PIPE_BUF bytes to a foreign pipe waits for
 * room before each part.
 */
static ssize_t write_plain(int fd, const char *data, size_t size)
{
	bool parts = uposix__in_thread() && size > PIPE_BUF
		&& uposix__kind(fd) == FOREIGN;
	size_t done = 0;
	struct uposix_fd *f;
	ssize_t n;

	do {
		size_t left = size - done;

		if (done > 0 && parts && uposix__way(fd, POLLOUT, &f) == WAY_FAILED)
			break;
		n = write(fd, data + done, parts && left > PIPE_BUF ? PIPE_BUF : left);
		done += n > 0 ? (size_t)n : 0;
	} while (n < 0 ? uposix__repeat(&n, fd, POLLOUT)
		 : n > 0 && done < size && (parts || goes_on(fd)));
	return done > 0 ? (ssize_t)done : n;
}

ssize_t uposix_write(int fd, const void *data, size_t size)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLOUT, &f);

	if (way == WAY_UNET && (size > 0 || f->f_kind == PACKET))
		return write_way(fd, data, size, 0, f);
	return way == WAY_FAILED ? -1 : write_plain(fd, data, size);
}

/*
 * Returns a copy of the buffers without the first `skip' bytes. The caller frees the
 * copy.
 */
static struct iovec *rest_of(const struct iovec *iov, size_t n, size_t skip, int *left)
{
	struct iovec *rest;

	while (n > 0 && skip >= iov->iov_len) {
		skip -= iov->iov_len;
		iov++;
		n--;
	}
	rest = n > 0 ? malloc(n * sizeof *rest) : NULL;
	if (!rest)
		return NULL;
	memcpy(rest, iov, n * sizeof *rest);
	rest->iov_base = (char *)rest->iov_base + skip;
	rest->iov_len -= skip;
	*left = (int)n;
	return rest;
}

/*
 * Writes, for a native thread, what follows the first `put' bytes. `flags' are those of
 * sendmsg(), or -1 for writev().
 */
static ssize_t write_rest(int fd, const struct iovec *iov, size_t count, ssize_t put,
			  int flags)
{
	ssize_t n = 1;

	while ((n > 0 || (n < 0 && uposix__repeat(&n, fd, POLLOUT)))
	       && goes_on(fd) && (size_t)put < bytes_of(iov, count)) {
		int left = 0;
		struct iovec *rest = rest_of(iov, count, (size_t)put, &left);
		struct msghdr m = { .msg_iov = rest, .msg_iovlen = (size_t)left };

		if (!rest)
			break;
		n = flags < 0 ? writev(fd, rest, left) : sendmsg(fd, &m, flags);
		put += n > 0 ? n : 0;
		free(rest);
	}
	return put;
}

ssize_t uposix_writev(int fd, const struct iovec *iov, int count)
{
	struct uposix_fd *f;
	int way = uposix__way(fd, POLLOUT, &f);
	size_t done = 0;
	ssize_t n;

	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET && count > 0 && count <= IOV_MAX
	    && bytes_of(iov, (size_t)count) > 0) {
		int64_t deadline = uposix__until(f->f_send);
		struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				    .msg_iovlen = (size_t)count };

		if (is_full(f))
			TRANSFER(n, done, unet_writev_all(fd, iov, count, &done,
							  deadline));
		else
			WAIT(n, unet_sendmsg(fd, &m, 0, deadline));
		return written(f, n, done, 0);
	}
	do
		n = writev(fd, iov, count);
	while (n < 0 && uposix__repeat(&n, fd, POLLOUT));
	return n > 0 ? write_rest(fd, iov, (size_t)count, n, -1) : n;
}

/* recv. */

/* Receives by libc's recv() or recvfrom(), mostly for native threads. */
static ssize_t receive_plain(int fd, char *buffer, size_t size, int flags,
			     __SOCKADDR_ARG from, socklen_t *from_size)
{
	bool all = flags & MSG_WAITALL && !(flags & MSG_PEEK);
	size_t got = 0;
	ssize_t n;

	do {
		n = recvfrom(fd, buffer + got, size - got, flags, from, from_size);
		got += n > 0 ? (size_t)n : 0;
		all = all && uposix__kind(fd) == STREAM;
	} while (n < 0 ? uposix__repeat(&n, fd, POLLIN)
		 : n > 0 && all && got < size && goes_on(fd));
	return got > 0 ? (ssize_t)got : n;
}

ssize_t uposix_recv(int fd, void *buffer, size_t size, int flags)
{
	struct uposix_fd *f;
	int way;

	if (flags & NO_WAIT)
		return uposix__pace(), recv(fd, buffer, size, flags);
	way = socket_way(fd, POLLIN, &f);
	if (way == WAY_UNET && flags == 0 && f->f_kind == STREAM && size > 0)
		return read_way(fd, buffer, size, f);
	if (way == WAY_UNET)
		return receive(fd, buffer, size, flags, NULL, f);
	if (way == WAY_FAILED)
		return -1;
	return receive_plain(fd, buffer, size, flags, (__SOCKADDR_ARG){ NULL }, NULL);
}

static void give_address(const struct unet_addr *a, struct sockaddr *to, socklen_t *size)
{
	if (!to || !size)
		return;
	memcpy(to, &a->ad_sockaddr, *size < a->ad_size ? *size : a->ad_size);
	*size = a->ad_size;
}

ssize_t uposix_recvfrom(int fd, void *buffer, size_t size, int flags,
			__SOCKADDR_ARG from, socklen_t *from_size)
{
	struct sockaddr *to = from.__sockaddr__;
	struct unet_addr a = { .ad_size = 0 };
	struct uposix_fd *f;
	int way;
	ssize_t n;

	if (flags & NO_WAIT)
		return uposix__pace(), recvfrom(fd, buffer, size, flags, from, from_size);
	way = socket_way(fd, POLLIN, &f);
	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET && !(to && from_size && (int)*from_size < 0)) {
		n = receive(fd, buffer, size, flags, to ? &a : NULL, f);
		if (n >= 0)
			give_address(&a, to, from_size);
		return n;
	}
	return receive_plain(fd, buffer, size, flags, from, from_size);
}

/*
 * `got' bytes have been received. Receives more, until there are `size' bytes in all. For
 * a native thread the deadline is 0.
 */
static ssize_t receive_all(int fd, struct msghdr *m, ssize_t got, size_t size,
			   int64_t deadline)
{
	ssize_t n = 1;

	while (n > 0 && (size_t)got < size) {
		int left = 0;
		struct msghdr more = { .msg_iov = rest_of(m->msg_iov, m->msg_iovlen,
							  (size_t)got, &left) };
		struct iovec *rest = more.msg_iov;

		more.msg_iovlen = (size_t)left;
		n = !rest ? -ENOMEM : deadline ? unet_recvmsg(fd, &more, 0, deadline)
			: uposix_readv(fd, rest, left);
		got += n > 0 ? n : 0;
		free(rest);
	}
	return got;
}

/* Calls func for each descriptor that a message passes by SCM_RIGHTS. */
static void each_passed(const struct msghdr *m, void (*func)(int fd))
{
	struct msghdr all = *m;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&all); c; c = CMSG_NXTHDR(&all, c)) {
		size_t n = c->cmsg_len >= CMSG_LEN(0)
			? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			func(fd);
		}
	}
}

ssize_t uposix_recvmsg(int fd, struct msghdr *m, int flags)
{
	struct uposix_fd *f;
	int way;
	ssize_t n;

	if (flags & NO_WAIT) {
		uposix__pace();
		n = recvmsg(fd, m, flags);
	} else if ((way = socket_way(fd, POLLIN, &f)) == WAY_FAILED) {
		return -1;
	} else if (way == WAY_UNET) {
		int64_t deadline = uposix__until(f->f_receive);

		WAIT(n, unet_recvmsg(fd, m, flags & ~MSG_WAITALL, deadline));
		if (n > 0)
			n = receive_all(fd, m, n, least_of(bytes_of(m->msg_iov,
							m->msg_iovlen), flags, f),
					deadline);
		n = uposix__answer(n);
	} else {
		do
			n = recvmsg(fd, m, flags);
		while (n < 0 && uposix__repeat(&n, fd, POLLIN));
		if (n > 0 && flags & MSG_WAITALL && !(flags & MSG_PEEK)
		    && uposix__kind(fd) == STREAM && goes_on(fd))
			n = receive_all(fd, m, n, bytes_of(m->msg_iov, m->msg_iovlen), 0);
	}
	if (n >= 0 && m->msg_controllen > 0)
		each_passed(m, uposix__received);
	return n;
}

static int receive_several(int fd, struct mmsghdr *messages, unsigned n, int flags,
			   struct timespec *limit)
{
	int got = recvmmsg(fd, messages, n, flags, limit);

	for (int i = 0; i < got; i++)
		if (messages[i].msg_hdr.msg_controllen > 0)
			each_passed(&messages[i].msg_hdr, uposix__received);
	return got;
}

int uposix_recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags,
		    struct timespec *limit)
{
	int64_t end = limit && limit->tv_sec < INT32_MAX
		? usync_after(limit->tv_sec * USYNC_SECOND + limit->tv_nsec)
		: USCHED_NEVER;
	unsigned i = 0;

	if (flags & NO_WAIT || n == 0 || !(uposix__in_thread() || goes_on(fd))
	    || (limit && (limit->tv_sec < 0 || !uposix__is_time(limit))))
		return uposix__pace(), receive_several(fd, messages, n, flags, limit);
	for (; i < n && (i == 0 || end == USCHED_NEVER || usync_after(0) < end); i++) {
		ssize_t got = uposix_recvmsg(fd, &messages[i].msg_hdr,
					     flags & ~MSG_WAITFORONE);

		if (got < 0)
			break;
		messages[i].msg_len = (unsigned)got;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	return i > 0 ? (int)i : -1;
}

/* send. */

static ssize_t write_some(int fd, const char *data, size_t size, int flags,
			  struct uposix_fd *f)
{
	int64_t deadline = uposix__until(f->f_send);
	size_t done = 0;
	ssize_t n;

	do {
		struct iovec part = { (void *)(uintptr_t)(data + done), size - done };
		struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

		TRANSFER(n, done, unet_sendmsg(fd, &m, flags, deadline));
		done += n > 0 ? (size_t)n : 0;
	} while (is_full(f) && n > 0 && done < size);
	return done > 0 ? (ssize_t)done : written(f, n, 0, flags);
}

/* Sends by libc's send() or sendto(), mostly for native threads. */
static ssize_t send_plain(int fd, const char *data, size_t size, int flags,
			  __CONST_SOCKADDR_ARG to, socklen_t to_size)
{
	size_t done = 0;
	ssize_t n;

	do {
		n = sendto(fd, data + done, size - done, flags, to, to_size);
		done += n > 0 ? (size_t)n : 0;
	} while (n < 0 ? uposix__repeat(&n, fd, POLLOUT)
		 : n > 0 && done < size && goes_on(fd));
	return done > 0 ? (ssize_t)done : n;
}

ssize_t uposix_send(int fd, const void *data, size_t size, int flags)
{
	struct uposix_fd *f;
	int way;

	if (flags & MSG_DONTWAIT)
		return uposix__pace(), send(fd, data, size, flags);
	way = socket_way(fd, POLLOUT, &f);
	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET)
		return flags & ~KNOWN || (f->f_kind != STREAM)
			? write_some(fd, data, size, flags, f)
			: write_way(fd, data, size, flags, f);
	return send_plain(fd, data, size, flags, (__CONST_SOCKADDR_ARG){ NULL }, 0);
}

ssize_t uposix_sendto(int fd, const void *data, size_t size, int flags,
		      __CONST_SOCKADDR_ARG to, socklen_t to_size)
{
	struct iovec all = { (void *)(uintptr_t)data, size };
	struct msghdr m = { .msg_name = (void *)(uintptr_t)to.__sockaddr__,
			    .msg_namelen = to_size, .msg_iov = &all, .msg_iovlen = 1 };
	struct uposix_fd *f;
	int way;
	ssize_t n;

	if (!to.__sockaddr__)
		return uposix_send(fd, data, size, flags);
	if (flags & MSG_DONTWAIT)
		return uposix__pace(), sendto(fd, data, size, flags, to, to_size);
	way = socket_way(fd, POLLOUT, &f);
	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET) {
		int64_t deadline = uposix__until(f->f_send);

		WAIT(n, unet_sendmsg(fd, &m, flags, deadline));
		return written(f, n, 0, flags);
	}
	return send_plain(fd, data, size, flags, to, to_size);
}

/* Ancillary data and the address are sent with the first part. */
static ssize_t send_message(int fd, const struct msghdr *m, int flags,
			    struct uposix_fd *f)
{
	bool plain = !m->msg_name && m->msg_controllen == 0 && !(flags & ~KNOWN)
		&& m->msg_iovlen <= IOV_MAX && bytes_of(m->msg_iov, m->msg_iovlen) > 0;
	int64_t deadline = uposix__until(f->f_send);
	size_t done = 0, more = 0;
	int left = 0;
	struct iovec *rest = NULL;
	ssize_t n;

	if (plain && f->f_kind == STREAM) {
		TRANSFER(n, done, unet_writev_all(fd, m->msg_iov, (int)m->msg_iovlen,
						  &done, deadline));
		return written(f, n, done, flags);
	}
	WAIT(n, unet_sendmsg(fd, m, flags, deadline));
	if (n < 0)
		return written(f, n, 0, flags);
	if (is_full(f) && (size_t)n < bytes_of(m->msg_iov, m->msg_iovlen))
		rest = rest_of(m->msg_iov, m->msg_iovlen, (size_t)n, &left);
	if (rest)
		unet_writev_all(fd, rest, left, &more, deadline);
	free(rest);
	return n + (ssize_t)more;
}

ssize_t uposix_sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct uposix_fd *f;
	int way;
	ssize_t n;

	if (m->msg_controllen > 0)
		each_passed(m, uposix__sent);
	if (flags & MSG_DONTWAIT)
		return uposix__pace(), sendmsg(fd, m, flags);
	way = socket_way(fd, POLLOUT, &f);
	if (way == WAY_FAILED)
		return -1;
	if (way == WAY_UNET)
		return send_message(fd, m, flags, f);
	do
		n = sendmsg(fd, m, flags);
	while (n < 0 && uposix__repeat(&n, fd, POLLOUT));
	return n > 0 ? write_rest(fd, m->msg_iov, m->msg_iovlen, n, flags) : n;
}

int uposix_sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
	unsigned i = 0;

	if (n == 0 || (!SIMULATED && (flags & MSG_DONTWAIT
				      || !(uposix__in_thread() || goes_on(fd))))) {
		for (; i < n; i++)
			if (messages[i].msg_hdr.msg_controllen > 0)
				each_passed(&messages[i].msg_hdr, uposix__sent);
		return uposix__pace(), sendmmsg(fd, messages, n, flags);
	}
	for (; i < n; i++) {
		ssize_t put = uposix_sendmsg(fd, &messages[i].msg_hdr, flags);

		if (put < 0)
			break;
		messages[i].msg_len = (unsigned)put;
	}
	return i > 0 ? (int)i : -1;
}

/*
 * Further calls that move data between descriptors. Each calls libc's function, and waits
 * after EAGAIN.
 */

static bool can_wait(int fd, short events)
{
	struct uposix_fd *f;

	return !uposix__in_thread() || uposix__way(fd, events, &f) != WAY_FAILED;
}

/* Waits after a call has failed. Returns true if the call is to be repeated. */
static bool await_one(int fd, short events)
{
	struct pollfd one = { fd, events, 0 };
	struct uposix_fd *f = NULL;
	int64_t deadline;
	ssize_t n;
	int way, rc;

	if (errno != EAGAIN || !uposix__in_thread())
		return uposix__repeat(&n, fd, events);
	way = uposix__way(fd, events, &f);
	if (way == WAY_PLAIN)
		errno = EAGAIN;
	if (way != WAY_UNET)
		return way == WAY_PLAIN && f && f->f_kind == FOREIGN;
	deadline = uposix__until(events & POLLIN ? f->f_receive : f->f_send);
	UPOSIX_WAIT(rc, deadline == USCHED_NEVER, uposix__wait_ready(&one, 1, deadline));
	return uposix__answer(rc) >= 0;
}

/* Waits for whichever of the two descriptors is not ready. */
static bool await_both(int in, int out)
{
	struct pollfd one = { in, POLLIN, 0 };
	int error = errno;
	bool reads = poll(&one, 1, 0) == 0;

	errno = error;
	return await_one(reads ? in : out, reads ? POLLIN : POLLOUT);
}

/* The input is a file and never waits, so only writes to `fd' may wait. */
ssize_t uposix_sendfile(int fd, int from, off_t *offset, size_t size)
{
	size_t done = 0;
	ssize_t n;

	uposix__pace();
	if (!can_wait(fd, POLLOUT))
		return -1;
	do {
		n = sendfile(fd, from, offset, size - done);
		done += n > 0 ? (size_t)n : 0;
	} while (n < 0 ? await_one(fd, POLLOUT) : n > 0 && done < size && goes_on(fd));
	return done > 0 ? (ssize_t)done : n;
}

ssize_t uposix_sendfile64(int fd, int from, off64_t *offset, size_t size)
	UPOSIX_ALIAS(sendfile);

ssize_t uposix_splice(int in, off64_t *from, int out, off64_t *to, size_t size,
		      unsigned flags)
{
	bool waits = !(flags & SPLICE_F_NONBLOCK);
	ssize_t n;

	uposix__pace();
	if (waits && !(can_wait(in, POLLIN) && can_wait(out, POLLOUT)))
		return -1;
	do
		n = splice(in, from, out, to, size, flags);
	while (n < 0 && waits && await_both(in, out));
	return n;
}

ssize_t uposix_tee(int in, int out, size_t size, unsigned flags)
{
	bool waits = !(flags & SPLICE_F_NONBLOCK);
	ssize_t n;

	uposix__pace();
	if (waits && !(can_wait(in, POLLIN) && can_wait(out, POLLOUT)))
		return -1;
	do
		n = tee(in, out, size, flags);
	while (n < 0 && waits && await_both(in, out));
	return n;
}

/*
 * vmsplice() reads from or writes to a pipe, depending on which end `fd' is. vmsplice()
 * ignores O_NONBLOCK.
 */
ssize_t uposix_vmsplice(int fd, const struct iovec *iov, size_t count, unsigned flags)
{
	bool reads = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	bool waits = !(flags & SPLICE_F_NONBLOCK) && uposix__in_thread();
	short events = reads ? POLLIN : POLLOUT;
	ssize_t n;

	uposix__pace();
	if (waits && !can_wait(fd, events))
		return -1;
	do
		n = vmsplice(fd, iov, count, waits ? flags | SPLICE_F_NONBLOCK : flags);
	while (n < 0 && waits && await_one(fd, events));
	return n;
}

/*
 * preadv2() and pwritev2(). With offset -1 they behave like readv() and writev(); any
 * other offset needs a file.
 */

ssize_t uposix_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	bool waits = at == -1 && !(flags & RWF_NOWAIT);
	ssize_t n;

	if (waits && flags == 0)
		return uposix_readv(fd, iov, count);
	uposix__pace();
	if (waits && !can_wait(fd, POLLIN))
		return -1;
	do
		n = preadv2(fd, iov, count, at, flags);
	while (n < 0 && waits && await_one(fd, POLLIN));
	return n;
}

ssize_t uposix_pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	bool waits = at == -1 && !(flags & RWF_NOWAIT);
	ssize_t n;

	if (waits && flags == 0)
		return uposix_writev(fd, iov, count);
	uposix__pace();
	if (waits && !can_wait(fd, POLLOUT))
		return -1;
	do
		n = pwritev2(fd, iov, count, at, flags);
	while (n < 0 && waits && await_one(fd, POLLOUT));
	return n;
}

ssize_t uposix_preadv64v2(int fd, const struct iovec *iov, int count, off64_t at,
			  int flags) UPOSIX_ALIAS(preadv2);

ssize_t uposix_pwritev64v2(int fd, const struct iovec *iov, int count, off64_t at,
			   int flags) UPOSIX_ALIAS(pwritev2);

int uposix_eventfd_read(int fd, eventfd_t *value)
{
	return uposix_read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int uposix_eventfd_write(int fd, eventfd_t value)
{
	return uposix_write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

/* The variants that _FORTIFY_SOURCE calls. */

ssize_t uposix___read_chk(int fd, void *buffer, size_t size, size_t room)
{
	return size > room ? (abort(), -1) : uposix_read(fd, buffer, size);
}

ssize_t uposix___recv_chk(int fd, void *buffer, size_t size, size_t room, int flags)
{
	return size > room ? (abort(), -1) : uposix_recv(fd, buffer, size, flags);
}

ssize_t uposix___recvfrom_chk(int fd, void *buffer, size_t size, size_t room, int flags,
			      __SOCKADDR_ARG from, socklen_t *from_size)
{
	return size > room ? (abort(), -1)
		: uposix_recvfrom(fd, buffer, size, flags, from, from_size);
}
