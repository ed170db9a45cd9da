/* SPDX-License-Identifier: MIT */
/*
 * unet.h: sockets, pipes, terminals, and all else that can be polled, for code that
 * blocks. A call that has to wait blocks the thread, and its processor runs other
 * threads meanwhile. A native thread outside of all schedulers may make each call, too,
 * and blocks natively. It waits with an epoll instance of its own, two descriptors,
 * until it ends. The numbers of these, and of those of processors, are below 1,024 and
 * near that or the limit of the process: close only what you have opened.
 *
 * Descriptors are numbers of the system. unet_listen(), unet_accept(), unet_connect() and
 * unet_signals() make them close-on-exec and non-blocking. Any other descriptor (datagram
 * socket, pipe, terminal, eventfd) is made non-blocking by the first call here that gets
 * the descriptor. Close descriptors with unet_close() and nothing else: the number may be
 * used again the next moment, so unet_close() tells the waiters. After unet_forget() a
 * descriptor may be used and closed natively.
 *
 * Buffers may be on the stack: the thread itself makes the system call, while it runs.
 * Several threads may wait to read or accept on a descriptor, and several to write. They
 * are served in the order in which they began to wait; a call that need not wait may
 * come between. What unet_write_all() and unet_writev_all() write stays together: other
 * writers wait until that call returns, and those with deadline 0 get -ETIMEDOUT. After
 * an error in its middle the next one writes. What unet_read_all() reads may be in
 * several pieces, with those of other readers between them. unet_poll() waits beside
 * these threads. No call is for signal handlers, nor for call-backs of schedulers and
 * events. Do not abort a thread that waits here, since the descriptor points to it; rr
 * and ll never do.
 *
 * As in usync.h, each call that may wait takes a deadline last, and switches threads if
 * it waits. Threads and native threads may call it. Each call returns a number of at
 * least 0 or, with nothing transferred, one of these errors; errno says nothing, and may
 * have changed.
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline, since a
 *                                                        wait needs the scheduler's
 *                                                        events.
 *   -EMFILE, -ENFILE  No descriptor is left for the poller. Each wait tries again, until
 *                     there is one.
 *   -ENOSPC     No epoll interest is left, a limit of the system. Each wait tries again.
 *   -EBADF      It is no descriptor, or unet_close() or unet_forget() ended its use.
 *   -ETIME      The connection timed out: the system's ETIMEDOUT, after which it is
 *               gone. -ETIMEDOUT is always the deadline's, and then the connection is as
 *               it was.
 *   any other   Of the system call.
 *
 * A connection that the peer has reset fails with -ECONNRESET, once; then reads return 0
 * and writes -EPIPE, as the system has it. A connection that the peer has half closed
 * reads 0, and can be written to. -EPIPE comes without SIGPIPE on sockets, and on pipes
 * during these calls.
 *
 * A thread yields at a call that need not wait if it has run for a millisecond since the
 * first calls without a wait, of any kind and any descriptor, and after UNET_BUDGET of
 * them. That is a wait, which a cancel ends if the deadline is over 0. unet_close() and
 * unet_forget() yield so, too, before they do anything. Writes with deadline 0 never
 * switch: what they write may be in a buffer that threads share.
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

/* Addresses. A struct unet_addr holds one of any family, ad_size bytes. */

struct unet_addr {
	socklen_t               ad_size;
	struct sockaddr_storage ad_sockaddr;
};

/*
 * Sets *a from text: "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (any, IPv6 and IPv4),
 * "/path" of a UNIX socket, "@name" of an abstract one. Names of hosts are for
 * unet_resolve().
 * 0; -EINVAL: the text is none of these, such as "localhost:80": unet_resolve() takes
 * "localhost" and "80"; -ENAMETOOLONG: the path is too long.
 * Does not wait.
 */
int unet_addr(const char *text, struct unet_addr *a);

enum { UNET_TEXT_MAX = 128 };

/*
 * Makes text from an address: at most UNET_TEXT_MAX bytes with the final 0.
 * Returns `text'. Does not wait.
 */
char *unet_text(const struct unet_addr *a, char *text);

/*
 * Looks up `host', a name or number, and `service', a name or port, in a native thread
 * of the pool (uoffload.h). `type' is SOCK_STREAM or SOCK_DGRAM. `found' gets at most
 * `max' addresses. The pool keeps idle native threads for ten seconds; uoffload_drain()
 * ends them.
 * Returns the number of addresses; -ENOENT: no such host or service; -EAGAIN: try again
 * later, or as uoffload(); -EIO: the look-up failed.
 */
int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline);

/* Descriptors. Each call returns one, or an error, unless its comment says otherwise. */

enum {
	UNET_REUSEPORT = 1,     /* SO_REUSEPORT: the system spreads connections */
	UNET_V6ONLY    = 2,
};

/*
 * Makes a socket that listens on `a', with TCP_NODELAY for all that it accepts. The path
 * of a UNIX socket must not exist. `backlog' 0 stands for SOMAXCONN. Does not wait.
 */
int unet_listen(const struct unet_addr *a, int backlog, unsigned flags);

/*
 * Accepts the next connection to `fd'. `peer', unless NULL, gets its address.
 * Connections that ended before are passed over. Where one after the other fails, as by
 * a filter of system calls, the call pauses between attempts, and keeps its deadline.
 * Without descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM) it waits until there
 * are some, also at a processor's first wait.
 */
int unet_accept(int fd, struct unet_addr *peer, int64_t deadline);

/* Makes a stream socket that is connected to `a'. */
int unet_connect(const struct unet_addr *a, int64_t deadline);

/*
 * Makes a descriptor from which unet_signal() reads the signals in `set'. They must be
 * blocked in all native threads, so block them before the scheduler is made. Does not
 * wait.
 */
int unet_signals(const sigset_t *set);

/*
 * Waits for the next signal from `fd'.
 * Returns its number, or an error.
 */
int unet_signal(int fd, int64_t deadline);

/*
 * Closes `fd'. Threads that wait for it get -EBADF. A close(2) that lingers, as that of a
 * socket with SO_LINGER and unsent bytes, holds up the processor. To have the pool wait,
 * make a copy by dup(2), close `fd', and close(2) the copy by uoffload().
 * 0; -EBADF: it is no descriptor. Does not wait, except for system calls that other
 * native threads make on `fd' at this moment.
 */
int unet_close(int fd);

/*
 * Ends the use of `fd' here, and leaves it open. Threads that wait for it get -EBADF;
 * from then on no call and no event of earlier waits touches it, and no epoll instance
 * of the library has it. O_NONBLOCK is cleared if it was clear at the first call here.
 * The flag belongs to the open file: forget all its numbers, from dup(2), and use none of
 * them here meanwhile. unet_close() clears nothing.
 * 0; -EBADF: it is no descriptor. Does not wait.
 */
int unet_forget(int fd);

/*
 * Ends one or both directions of a connection, as shutdown(2). A proxy passes on a half
 * close by this call. Waits for these directions end: a read returns 0, also of datagrams
 * (and the result here may be -ENOTCONN), a write -EPIPE, unet_accept() -EINVAL. So they
 * do after shutdown(2), by another process too, except writes to a UNIX socket. As
 * poll(2) does, unet_wait(), unet_poll() and usync_select() still wait for room in one.
 * 0, or an error. Does not wait.
 */
int unet_shutdown(int fd, int how);

/* Transfers. */

/*
 * Transfer bytes as read(2) and write(2). A write may take less than it was given.
 * SO_RCVLOWAT delays events only: unet_read_all() waits for a number of bytes.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline);
ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline);

/*
 * Transfer bytes, the peer's address and ancillary data, as recvmsg(2) and sendmsg(2); or
 * buffers alone, as readv(2) and writev(2), where `fd' is no socket. MSG_DONTWAIT and
 * MSG_NOSIGNAL are added to `flags'. MSG_CMSG_CLOEXEC makes descriptors that are received
 * close-on-exec. With MSG_OOB or MSG_ERRQUEUE unet_recvmsg() does not wait, and needs no
 * turn, as with deadline 0.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline);
ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline);

/*
 * Transfer exactly `size' bytes. After an error some may have been transferred: *done,
 * unless NULL, is how many.
 * 0, or an error as above; -EPIPE also: the end came before, from reading.
 */
int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline);
int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/*
 * Writes all of `n' buffers, which may be more than IOV_MAX, and stay as they are. *done
 * is as in unet_write_all().
 * 0, or an error as above; -EINVAL also: `n' is negative.
 */
int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline);

/*
 * Waits until some of the `n' descriptors are ready, as poll(2); when the deadline comes
 * it looks at them once more. `fds' may be on the stack. POLLNVAL tells of a descriptor
 * that is not open, or was closed meanwhile, and then perhaps of nothing else.
 * Returns the number with revents, never 0; -EINVAL: `n' is over 65,536, or over what
 * poll(2) allows.
 */
int unet_poll(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * Waits until `fd' can be read, if `events' is POLLIN, or until it can be written to, if
 * that is POLLOUT; or until such a call would fail. Moves nothing, so an idle connection
 * needs no buffer. Sometimes the call returns early, as on urgent data, so a read after
 * it may wait.
 * 0, or an error; -EINVAL: `events' is neither.
 */
int unet_wait(int fd, short events, int64_t deadline);

/* Private: in the child of a fork(). All descriptors are as if never used here. */
void unet__forked(void);

/* Makes `fd' non-blocking, as the first call here that gets it. 0, or an error. */
int unet__adopt_fd(int fd);

/*
 * Connects the socket `fd' to `a', as connect(2). A deadline or a cancel ends the wait
 * only: the system goes on, and the same call again waits for the result.
 */
int unet__connect(int fd, const struct unet_addr *a, int64_t deadline);

/* Nothing is there, and its input was shut. */
bool unet__is_shut(int fd);

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
