/* SPDX-License-Identifier: MIT */
/*
 * unet.h: sockets, pipes, terminals, and all else that can be polled, for code that
 * blocks. A call that has to wait blocks the thread, and its processor runs others
 * meanwhile. A native thread outside of all schedulers may make each call, too, and
 * blocks natively.
 *
 * Descriptors are numbers of the system. unet_listen(), unet_accept(), unet_connect(),
 * unet_bind() and unet_signals() make them close-on-exec and non-blocking. The first call
 * here that gets any other (pipe, terminal, eventfd, socketpair) makes it non-blocking,
 * or unet_adopt() does. Close descriptors with unet_close() and nothing else: it tells
 * the waiters, and the number may be used again the next moment. After unet_forget() a
 * descriptor is none of this library's, and may be used and closed natively.
 *
 * Buffers may be on the stack: the thread itself makes the system call, while it runs.
 * Several threads may wait to read or accept on a descriptor, and several to write: they
 * are served in the order in which they began to wait. What unet_write_all() and
 * unet_writev_all() write stays together, whatever others write. Polls wait beside them.
 * No call is for signal
 * handlers, nor for call-backs of schedulers and events. Do not abort a thread that waits
 * here: its descriptor would tell it.
 *
 * As in usync.h, each call that may wait takes a deadline last, and switches threads if
 * it waits. Threads and native threads may call it. It returns a number of at least 0 or,
 * with nothing transferred,
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   as in usync.h
 *   -EMFILE, -ENFILE  no descriptor left for epoll, or for the pipe that poll(2) takes:
 *               at a processor's first waits for descriptors; a later call tries again
 *   -ENOSPC     no epoll interest left, a limit of the system
 *   -EBADF      it is no descriptor, or unet_close() or unet_forget() ended its use
 *   -ETIME      the connection timed out: the system's ETIMEDOUT, after which it is gone.
 *               -ETIMEDOUT is the deadline's always, and then it is as it was
 *   any other   of the system call. -EPIPE comes without SIGPIPE on sockets, and on pipes
 *               during these calls
 *
 * A connection that the peer has reset fails with -ECONNRESET, once; then reads return 0
 * and writes -EPIPE, as the system has it. One that the peer has half closed reads 0, and
 * can be written to.
 *
 * A thread yields at a call that need not wait if it has run for a millisecond since the
 * first such calls, and after UNET_BUDGET of them for a descriptor. With a deadline over
 * 0 it may be cancelled there. Writes with deadline 0 never switch: what they write may
 * be in a buffer that threads share.
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
 * Makes an address from text: "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (any, IPv6 and
 * IPv4), "/path" of a UNIX socket, "@name" of an abstract one. Names of hosts are for
 * unet_resolve().
 * 0; -EINVAL: it is none of these; -ENAMETOOLONG.
 */
int unet_addr(const char *text, struct unet_addr *a);

enum { UNET_TEXT_MAX = 128 };

/* Makes text from an address: at most UNET_TEXT_MAX bytes with the 0. Returns `text'. */
char *unet_text(const struct unet_addr *a, char *text);

/*
 * Looks up a host, by name or number, and a service or port, in a native thread of the
 * pool (uoffload.h). `type' is SOCK_STREAM or SOCK_DGRAM. `found' gets at most `max'
 * addresses. How many there are; besides, -ENOENT: no such host or service; -EAGAIN: try
 * again later; -EIO: the look-up failed.
 */
int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline);

/*
 * The text of a result of unet_resolve(), as "no such host or service". It is constant,
 * or of strerror(3). Does not wait.
 */
const char *unet_resolve_error(int rc);

/* Descriptors. Each call returns one, or an error. */

enum {
	UNET_REUSEPORT = 1,     /* SO_REUSEPORT: the system spreads connections */
	UNET_V6ONLY    = 2,
};

/*
 * A listening socket, with TCP_NODELAY for all that it accepts. The path of a UNIX socket
 * must not exist. backlog 0: SOMAXCONN. Does not wait.
 */
int unet_listen(const struct unet_addr *a, int backlog, unsigned flags);

/*
 * The next connection. A non-NULL `peer' gets its address. Connections that ended before
 * are passed over, and a pause follows where many have. Without descriptors or memory
 * (EMFILE, ENFILE, ENOBUFS, ENOMEM) it waits until there are some, also at a processor's
 * first wait.
 */
int unet_accept(int fd, struct unet_addr *peer, int64_t deadline);

/* A stream socket connected to `a'. */
int unet_connect(const struct unet_addr *a, int64_t deadline);

/*
 * As connect(2): connects the socket `fd' of any type to `a'. It stays open after an
 * error. After a deadline or a cancel the system goes on with it, and the same call again
 * waits for the end of that.
 * 0, or an error.
 */
int unet_connect_fd(int fd, const struct unet_addr *a, int64_t deadline);

/* A datagram socket, bound to `a'. Does not wait. */
int unet_bind(const struct unet_addr *a, unsigned flags);

/*
 * A descriptor from which unet_signal() reads these signals. They must be blocked in all
 * native threads, so block them before the scheduler is made. Does not wait.
 */
int unet_signals(const sigset_t *set);

/* The number of the next signal. */
int unet_signal(int fd, int64_t deadline);

/* Makes `fd' non-blocking, for use here. 0, or an error. Does not wait. */
int unet_adopt(int fd);

/*
 * Closes `fd'. Its waiters get -EBADF.
 * 0; -EBADF. Does not wait.
 */
int unet_close(int fd);

/*
 * Ends its use here, and leaves it open: waiters get -EBADF, and no call, and no event of
 * earlier waits, touches it any more. O_NONBLOCK is cleared if it was clear at the first
 * call here. It belongs to the open file, which may have other numbers, from dup(2).
 * While calls here use one of these it stays set, and the last that is forgotten clears
 * it. unet_close() clears nothing. Where kcmp(2) is refused the flag may stay set.
 * 0; -EBADF. Does not wait.
 */
int unet_forget(int fd);

/* 0, or an error. Does not wait. */
int unet_shutdown(int fd, int how);

/* Transfers: as the system calls of these names, with the errors above. */

ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline);
ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline);
ssize_t unet_readv(int fd, const struct iovec *iov, int n, int64_t deadline);
ssize_t unet_writev(int fd, const struct iovec *iov, int n, int64_t deadline);
ssize_t unet_recvfrom(int fd, void *buffer, size_t size, int flags,
		      struct unet_addr *from, int64_t deadline);
ssize_t unet_sendto(int fd, const void *buffer, size_t size, int flags,
		    const struct unet_addr *to, int64_t deadline);

/* With ancillary data. MSG_DONTWAIT and MSG_NOSIGNAL are added to `flags'. */
ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline);
ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline);

/*
 * From the file `from', at *offset, or where it stands if that is NULL; 0: it ends there.
 * Pages that are not in memory hold up the processor while they are read.
 */
ssize_t unet_sendfile(int fd, int from, off_t *offset, size_t size, int64_t deadline);

/*
 * Transfers exactly `size' bytes. After an error some may have been transferred: *done,
 * unless NULL, is how many.
 * 0; besides, -EPIPE from reading: the end came before.
 */
int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline);
int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/* Likewise, all of n buffers, more than IOV_MAX too. -EINVAL: n is negative. */
int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline);

/*
 * As poll(2), also of the set of descriptors, and as that it looks at them once more when
 * the deadline comes. POLLNVAL tells that one is not open, or was closed meanwhile; then
 * others may not be told of. The number with revents, never 0;
 * besides, -EINVAL: n over 65536, or over what poll(2) allows.
 */
int unet_poll(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * Waits until `fd' can be read, and reads nothing, so the thread keeps no buffer
 * meanwhile. Sometimes it returns early, as on urgent data, so a read after it may wait.
 */
int unet_wait_readable(int fd, int64_t deadline);

/* Likewise, until it can be written to, or a write would fail. */
int unet_wait_writable(int fd, int64_t deadline);

/* Private: in the child of a fork(). All descriptors are as if never used here. */
void unet__forked(void);

/* No thread waits for it, or is in a call with it. */
bool unet__is_idle(int fd);

/* The number is another file's now, which keeps its flags: forgets the one before. */
void unet__renewed(int fd);

/*
 * Numbers may be closed unseen from now on. With epoll each wait registers its descriptor
 * again, and sets *found, atomic, if that is not the one that was registered.
 */
void unet__doubt(bool *found);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_NET_H */
