/* SPDX-License-Identifier: MIT */
/*
 * unet_transfer.c: reads and writes.
 *
 * Most functions here call net_perform() with a call-back that makes the system call. But
 * most threads block in unet_read() and unet_write(), so these two have loops of their
 * own, which have the smallest frames. Calls that move all bytes have loops, too, and
 * keep the turn from part to part.
 */

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/check.h"
#include "net.h"

enum { PARTS = 64 };                    /* the most buffers of one system call */

static bool is_socket(const struct descriptor *d)
{
	enum kind kind = get_kind(d);

	return kind == NET_TCP || kind == NET_SOCKET;
}

__attribute__((always_inline))
static inline ssize_t try_read(const struct descriptor *d, const struct op *o)
{
	/* recv(2) of 0 bytes would fail with EAGAIN, but read(2) returns 0 */
	if (is_socket(d) && o->o_short > 0)
		return result(recv(d->d_fd, o->o_buffer, o->o_size, MSG_DONTWAIT));
	return result(read(d->d_fd, o->o_buffer, o->o_size));
}

/* Writes by a system call that has no flag against SIGPIPE. Discards a SIGPIPE that the
   system call has raised. */
static ssize_t write_pipe(int fd, const struct iovec *iov, int n)
{
	static const struct timespec now = { 0, 0 };
	sigset_t set, before, pending;
	ssize_t rc;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	rc = result(writev(fd, iov, n));
	if (rc == -EPIPE && sigismember(&pending, SIGPIPE) <= 0)
		while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* Writes buffers by the system call that the kind of the descriptor needs. */
APART static ssize_t write_other(const struct descriptor *d, const struct iovec *iov,
				 int n)
{
	struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				  .msg_iovlen = (size_t)n };

	if (is_socket(d))
		return result(sendmsg(d->d_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
	if (get_kind(d) == NET_OTHER)
		return result(writev(d->d_fd, iov, n));
	return write_pipe(d->d_fd, iov, n);     /* a pipe, or the kind is not known */
}

APART static ssize_t write_one(const struct descriptor *d, void *buffer, size_t size)
{
	struct iovec iov = { buffer, size };

	return write_other(d, &iov, 1);
}

__attribute__((always_inline))
static inline ssize_t try_write(const struct descriptor *d, const struct op *o)
{
	if (is_socket(d))
		return result(send(d->d_fd, o->o_buffer, o->o_size,
				   MSG_NOSIGNAL | MSG_DONTWAIT));
	return write_one(d, o->o_buffer, o->o_size);
}

static ssize_t try_recvmsg(const struct descriptor *d, const struct op *o)
{
	struct msghdr *m = o->o_message;
	ssize_t n = result(recvmsg(d->d_fd, m, o->o_flags | MSG_DONTWAIT));

	return n != -ENOTSOCK ? n
		: result(readv(d->d_fd, m->msg_iov, (int)m->msg_iovlen));
}

static ssize_t try_sendmsg(const struct descriptor *d, const struct op *o)
{
	const struct msghdr *m = (const struct msghdr *)o->o_buffer;
	ssize_t n = result(sendmsg(d->d_fd, m, o->o_flags | MSG_DONTWAIT | MSG_NOSIGNAL));

	return n == -ENOTSOCK ? write_other(d, m->msg_iov, (int)m->msg_iovlen) : n;
}

/* Writes the first PARTS buffers. Changes a copy of the array, since the caller's array
   must not change. */
APART static ssize_t try_parts(const struct descriptor *d, const struct op *o)
{
	int n = o->o_n < PARTS ? o->o_n : PARTS;
	struct iovec parts[PARTS];

	memcpy(parts, o->o_iov, (size_t)n * sizeof *parts);
	parts[0].iov_base = (char *)parts[0].iov_base + o->o_size;
	parts[0].iov_len -= o->o_size;
	return write_other(d, parts, n);
}

static inline size_t size_of(const struct iovec *iov, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += iov[i].iov_len;
	return size;
}

APART static ssize_t read_step(struct descriptor *d, void *buffer, size_t size,
			 int64_t deadline, struct turn *t)
{
	const struct op o = { .o_buffer = buffer, .o_size = size, .o_short = size };

	if (size == 0)
		deadline = 0;
	return net_step(try_read, d, NET_IN, &o, deadline, t);
}

APART static ssize_t write_step(struct descriptor *d, const void *buffer, size_t size,
			  size_t whole, int64_t deadline, struct turn *t)
{
	/* The cast may drop const, since the buffer is only read. */
	const struct op o = { .o_buffer = (void *)(uintptr_t)buffer, .o_size = size,
			      .o_whole = whole };

	return net_step(try_write, d, NET_OUT, &o, deadline, t);
}

static inline void check_iov(const struct iovec *iov, int n, const char *call)
{
	check(n > 0 ? iov : NULL, CHECK_BUFFER, call);
	for (int i = 0; i < n; i++)
		check(iov[i].iov_len ? iov[i].iov_base : NULL, CHECK_BUFFER, call);
}

ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = net_begin(fd, &d, &t);

	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	if (n)
		return n;
	n = read_step(d, buffer, size, deadline, &t);
	while (n == NET_WAITS && (n = net_block(&t, d, NET_IN, deadline)) == 0)
		n = end_step(d, NET_IN, &t, read_step(d, buffer, size, deadline, &t));
	return n;
}

ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = net_begin(fd, &d, &t);

	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	if (n)
		return n;
	n = write_step(d, buffer, size, 0, deadline, &t);
	while (n == NET_WAITS && (n = net_block(&t, d, NET_OUT, deadline)) == 0)
		n = end_step(d, NET_OUT, &t,
			     write_step(d, buffer, size, 0, deadline, &t));
	return n;
}

static void check_message(const struct msghdr *message, const char *call)
{
	check(message, CHECK_BUFFER, call);
	check(message->msg_namelen ? message->msg_name : NULL, CHECK_BUFFER, call);
	check(message->msg_controllen ? message->msg_control : NULL, CHECK_BUFFER, call);
	check_iov(message->msg_iov, (int)message->msg_iovlen, call);
}

/*
 * Reads urgent data or messages of the error queue. Neither is part of the input. The
 * system never waits for such data, and the result does not tell whether there is input.
 */
APART static ssize_t receive_beside(const struct descriptor *d, const struct op *o)
{
	ssize_t n;

	budget_give_way(0);
	n = try_recvmsg(d, o);
	return n == -EAGAIN ? -ETIMEDOUT : n;
}

ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline)
{
	struct op o = { .o_flags = flags, .o_message = message };
	struct descriptor *d;
	int rc = net_find(fd, &d);

	check_message(message, __func__);
	if (rc)
		return rc;
	if (flags == 0)
		o.o_short = size_of(message->msg_iov, (size_t)message->msg_iovlen);
	return flags & (MSG_OOB | MSG_ERRQUEUE) ? receive_beside(d, &o)
		: net_perform(try_recvmsg, d, NET_IN, &o, deadline, generation_of(d));
}

static bool goes_to_unix(const struct msghdr *message)
{
	const struct sockaddr *to = (const struct sockaddr *)message->msg_name;

	return to && message->msg_namelen >= sizeof to->sa_family
		&& to->sa_family == AF_UNIX;
}

/* What unet_sendmsg() waits for, in reports. */
static const struct uwait_kind peer_full = NET_PAUSE(" to send, for room at the peer");

/* If a message has the address of a UNIX socket, the receiver may be full. Then the call
   pauses and tries again, since no event tells when the receiver has room. */
ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline)
{
	/* the cast may drop const, since the message is only read */
	const struct op o = { .o_buffer = (void *)(uintptr_t)message, .o_flags = flags };
	struct descriptor *d;
	int rc = net_find(fd, &d);
	uint32_t generation;
	ssize_t n = 0;

	check_message(message, __func__);
	if (rc)
		return rc;
	generation = generation_of(d);
	if (!goes_to_unix(message))
		return net_perform(try_sendmsg, d, NET_OUT, &o, deadline, generation);
	rc = net_give_way(NET_OUT, deadline);
	while (rc == 0) {
		n = net_perform(try_sendmsg, d, NET_OUT, &o, NET_COUNTED, generation);
		rc = n == -ETIMEDOUT ? unet__pause(&peer_full, fd, deadline) : 1;
	}
	return rc < 0 ? rc : n;
}

/* Goes on after a step of a call that moves all bytes. n is the result of the step. If n
   is NET_WAITS, waits and returns the result of the wait. Otherwise returns n. */
__attribute__((always_inline))
static inline ssize_t net_go_on(struct descriptor *d, int direction, int64_t deadline,
				struct turn *t, ssize_t n)
{
	if (n == NET_WAITS)
		return net_block(t, d, direction, deadline);
	t->tu_waiter = NULL;
	return n;
}

/* Ends a call that moves all bytes. Returns n if it is an error, otherwise 0. */
static int end_all(struct descriptor *d, int direction, struct turn *t, ssize_t n,
		   size_t moved, size_t *done)
{
	if (t->tu_turn)
		unet__end_turn(d, direction, t, 0);
	if (done)
		*done = moved;
	return n < 0 ? (int)n : 0;
}

int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = net_begin(fd, &d, &t);
	size_t got = 0;

	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	check(done, CHECK_BUFFER, __func__);
	while (got < size && n >= 0) {
		n = read_step(d, (char *)buffer + got, size - got, deadline, &t);
		n = n ? net_go_on(d, NET_IN, deadline, &t, n) : -EPIPE;
		got += n > 0 ? (size_t)n : 0;
	}
	return end_all(d, NET_IN, &t, n, got, done);
}

int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = net_begin(fd, &d, &t);
	size_t put = 0;

	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	check(done, CHECK_BUFFER, __func__);
	while (put < size && n >= 0) {
		n = write_step(d, (const char *)buffer + put, size - put, size - put,
			       deadline, &t);
		n = net_go_on(d, NET_OUT, deadline, &t, n);
		put += n > 0 ? (size_t)n : 0;
	}
	return end_all(d, NET_OUT, &t, n, put, done);
}

static void skip(struct op *o, size_t n)
{
	o->o_whole -= n;
	o->o_size += n;
	while (o->o_n > 0 && o->o_size >= o->o_iov->iov_len) {
		o->o_size -= o->o_iov->iov_len;
		o->o_iov++;
		o->o_n--;
	}
}

int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline)
{
	struct op o = { .o_iov = iov, .o_n = n,
			.o_whole = size_of(iov, n > 0 ? (size_t)n : 0) };
	struct descriptor *d;
	struct turn t;
	ssize_t rc = net_begin(fd, &d, &t);
	const size_t size = o.o_whole;

	check_iov(iov, n, __func__);
	check(done, CHECK_BUFFER, __func__);
	rc = n < 0 ? -EINVAL : rc;
	while (o.o_whole > 0 && rc >= 0) {
		rc = unet__step(try_parts, d, NET_OUT, &o, deadline, &t);
		rc = net_go_on(d, NET_OUT, deadline, &t, rc);
		skip(&o, rc > 0 ? (size_t)rc : 0);
	}
	return end_all(d, NET_OUT, &t, rc, size - o.o_whole, done);
}
