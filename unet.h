/* SPDX-License-Identifier: MIT */
/*
 * unet.h: sockets, pipes, terminals, and whatever else can be polled, for code that
 * blocks. A call that has to wait blocks the thread, and its processor runs others
 * meanwhile. A native thread outside of all schedulers may call everything as well, and
 * blocks natively.
 *
 * Descriptors are plain numbers. unet_listen(), unet_accept(), unet_connect(),
 * unet_bind() and unet_signals() make them, close-on-exec and non-blocking; any other
 * (pipe, terminal, eventfd, socketpair) is made so by the first call here that gets it,
 * or by unet_adopt(). Close them with unet_close(), and by nothing else: it tells those
 * who wait, and the number may be somebody else's the next moment.
 *
 * Buffers may be on the stack: the system call is made by the thread itself, while it
 * runs. There may be one thread that reads, accepts or connects and one that writes on
 * each descriptor at a time; a second one that would have to wait gets -EBUSY.
 * unet_poll() counts as what it polls for. Nothing here is for signal handlers, nor for
 * call-backs of schedulers and events. A thread that waits here must not be aborted: its
 * descriptor would tell it.
 *
 * As in usync.h, whatever may wait takes a deadline last, switches threads if it waits,
 * may be called by threads and native threads, and returns a number not below 0 or,
 * nothing having been transferred,
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EMFILE, -ENFILE, -EFAULT   as in usync.h
 *   -EBADF      it is no descriptor, or was closed by unet_close() meanwhile
 *   -EBUSY      somebody else waits for the same
 *   any other   of the system call; -EPIPE comes without SIGPIPE on sockets; and on pipes
 *               while the thread calls unet, too
 *
 * A connection that the peer has reset fails with -ECONNRESET, once, and then reads
 * return 0 and writes -EPIPE, as the system has it. One that the peer has half closed
 * reads 0, and can be written to. Who uses a descriptor that is always ready gives way
 * to others after each UNET_BUDGET calls for it, and that is a wait, in which a thread
 * may be cancelled.
 */
#ifndef USCHED_NET_H
#define USCHED_NET_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>         /* sigset_t, which <signal.h> hides in strict C */
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "usync.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { UNET_BUDGET = 64 };

/* Addresses. */

struct unet_addr {
	socklen_t               a_size;
	struct sockaddr_storage a_sockaddr;
};

/*
 * From text: "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (any, IPv6 and IPv4), "/path"
 * of a UNIX socket, "@name" of an abstract one. No names of hosts: see unet_resolve().
 * 0; -EINVAL: it is none of these; -ENAMETOOLONG.
 */
int unet_addr(const char *text, struct unet_addr *a);

enum { UNET_TEXT_MAX = 128 };

/* To text, of at most UNET_TEXT_MAX bytes with its 0. Returns `text'. */
char *unet_text(const struct unet_addr *a, char *text);

/*
 * Looks up a host by name, or numeric, and a service or port, in a native thread of the
 * pool (uoffload.h). `type' is SOCK_STREAM or SOCK_DGRAM. Of several addresses at most
 * `max'. How many were found; besides, -ENOENT: no such host or service; -EAGAIN: try
 * again later; -EIO: the lookup failed.
 */
int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline);

/* Making descriptors. Each returns one, or an error. */

enum {
	UNET_REUSEPORT = 1,     /* others may listen there, too: the system spreads connections */
	UNET_V6ONLY    = 2,
};

/*
 * A socket that listens, with TCP_NODELAY for all that it accepts. A UNIX socket's path
 * must not exist. backlog 0: SOMAXCONN. Does not wait.
 */
int unet_listen(const struct unet_addr *a, int backlog, unsigned flags);

/*
 * The next connection; with non-NULL `peer', from where. Connections that were gone
 * before they were accepted are passed over. Where there are no descriptors or memory
 * left (EMFILE, ENFILE, ENOBUFS, ENOMEM), it waits until there are.
 */
int unet_accept(int fd, struct unet_addr *peer, int64_t deadline);

/* A stream connected to `a'. */
int unet_connect(const struct unet_addr *a, int64_t deadline);

/* A datagram socket, bound to `a'. Does not wait. */
int unet_bind(const struct unet_addr *a, unsigned flags);

/*
 * One from which unet_signal() reads these signals, which must be blocked in all native
 * threads: so block them before the scheduler is made. Does not wait.
 */
int unet_signals(const sigset_t *set);

/* The number of the next signal. */
int unet_signal(int fd, int64_t deadline);

/* Makes `fd' ready for use here. 0, or an error. Does not wait. */
int unet_adopt(int fd);

/*
 * Closes it. Who waits for it gets -EBADF.
 * 0; -EBADF. Does not wait.
 */
int unet_close(int fd);

/* 0, or an error. Does not wait. */
int unet_shutdown(int fd, int how);

/* Transfer. As the system calls of these names, with the errors above. */

ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline);
ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline);
ssize_t unet_readv(int fd, const struct iovec *iov, int n, int64_t deadline);
ssize_t unet_writev(int fd, const struct iovec *iov, int n, int64_t deadline);
ssize_t unet_recvfrom(int fd, void *buffer, size_t size, int flags, struct unet_addr *from,
		      int64_t deadline);
ssize_t unet_sendto(int fd, const void *buffer, size_t size, int flags,
		    const struct unet_addr *to, int64_t deadline);

/*
 * Exactly so many bytes. When it fails, part of them may have been transferred: how many
 * is in *done, unless that is NULL.
 * 0; besides, -EPIPE from reading: the end came before.
 */
int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline);
int unet_write_all(int fd, const void *buffer, size_t size, size_t *done, int64_t deadline);

/*
 * As poll(2), also of the set of descriptors; POLLNVAL tells of one that is not open, or
 * was closed meanwhile, and then perhaps of nothing else. How many have revents; 0 never.
 * Besides, -EINVAL: n over 65536, or over what poll(2) allows.
 */
int unet_poll(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * Waits until `fd' can be read, without reading: then nothing has to be kept for a
 * buffer. Now and then it returns too early: on urgent data, for instance. So who reads
 * then may have to wait.
 */
int unet_wait_readable(int fd, int64_t deadline);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_NET_H */
