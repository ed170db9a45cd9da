/* SPDX-License-Identifier: MIT */
/*
 * unet.h: sockets, pipes, terminals, and whatever else can be polled, for code that
 * blocks. A call that has to wait blocks the thread, and the processor runs other threads
 * meanwhile. Native threads outside of all schedulers may make each call, too, and block
 * natively. From its first wait to its end such a native thread has an epoll instance of
 * two descriptors. The numbers of these descriptors, and of the processors', are below
 * 1,024, and near that number or the limit of the process: close only what you have
 * opened.
 *
 * Descriptors are numbers of the system. unet_listen(), unet_accept(), unet_connect() and
 * unet_signals() make them close-on-exec and non-blocking. Any other descriptor (datagram
 * socket, pipe, terminal, eventfd) is made non-blocking by the first call here that gets
 * the descriptor. Close descriptors with unet_close() and nothing else: another file may
 * get the number the next moment, so unet_close() tells the waiters. After unet_forget()
 * a descriptor may be used and closed natively.
 *
 * Buffers may be on the stack: the thread itself makes the system call, while it runs.
 * Several threads may wait to read or accept on a descriptor, and several to write. They
 * are served in the order in which they began to wait; a call that need not wait may come
 * between. What unet_write_all() and unet_writev_all() write stays together: other
 * writers wait until that call returns, or get -ETIMEDOUT if their deadline is 0. If the
 * call fails in the middle, the next writer goes on. What unet_read_all() reads may be
 * divided by what other readers read. unet_poll() waits beside these threads. Signal
 * handlers and call-backs of schedulers and events may make no call. Do not abort a
 * thread that waits here, since the descriptor points to it; rr and ll never abort such a
 * thread.
 *
 * As in usync.h, each call that may wait has a deadline as its last argument, and
 * switches threads if it waits. Threads and native threads may make the calls. A call
 * returns a number of at least 0 or, with nothing transferred, one of these errors; errno
 * says nothing, and may have changed.
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline, since a
 *                                                        wait needs the scheduler's
 *                                                        events.
 *   -EMFILE, -ENFILE  No descriptor is left for the poller. The next wait tries again.
 *   -ENOSPC     The system has no epoll(7) watch left. The next wait tries again.
 *   -EBADF      The number is no descriptor, or unet_close() or unet_forget() ended its
 *               use.
 *   -ETIME      The system's ETIMEDOUT: the connection has timed out, and is gone.
 *               -ETIMEDOUT is always the deadline's, and leaves the connection as it was.
 *   any other   An error of the system call.
 *
 * A call on a connection that the peer has reset returns -ECONNRESET, once; later reads
 * return 0 and writes -EPIPE, as the system has it. On a connection that the peer has
 * half closed reads return 0, and writes work. -EPIPE comes without SIGPIPE, on sockets
 * and pipes.
 *
 * A call that need not wait yields if the thread has run for a millisecond without a
 * wait, or has made UNET_BUDGET such calls, of any kind and for any descriptor. That
 * yield is a wait, which a cancel ends if the deadline is over 0. unet_close() and
 * unet_forget() yield, too, before they do anything. Writes with deadline 0 never switch:
 * other threads may share the buffer.
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

/* Addresses. A struct unet_addr holds an address of any family, in ad_size bytes. */

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
 * Writes an address as text: at most UNET_TEXT_MAX bytes with the final 0.
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

/* Descriptors. A call returns a descriptor or an error, unless its comment says else. */

enum {
	UNET_REUSEPORT = 1,     /* SO_REUSEPORT: the system spreads connections */
	UNET_V6ONLY    = 2,
};

/*
 * Makes a socket that listens on `a'. Connections that it accepts have TCP_NODELAY. The
 * path of a UNIX socket must not exist. `backlog' 0 stands for SOMAXCONN. Does not wait.
 */
int unet_listen(const struct unet_addr *a, int backlog, unsigned flags);

/*
 * Accepts the next connection to `fd'. Sets *peer, unless `peer' is NULL, to the address
 * of the peer. The call skips connections that have ended already. If connections fail
 * one after the other, for example by a filter of system calls, the call pauses between
 * attempts until the deadline. If descriptors or memory lack (EMFILE, ENFILE, ENOBUFS,
 * ENOMEM), the call waits until there are some.
 */
int unet_accept(int fd, struct unet_addr *peer, int64_t deadline);

/* Makes a stream socket that is connected to `a'. */
int unet_connect(const struct unet_addr *a, int64_t deadline);

/*
 * Makes a descriptor from which unet_signal() reads the signals in `set'. All native
 * threads must block these signals, so block them before the scheduler is made. Does not
 * wait.
 */
int unet_signals(const sigset_t *set);

/*
 * Waits for the next signal from `fd'.
 * Returns its number, or an error.
 */
int unet_signal(int fd, int64_t deadline);

/*
 * Closes `fd'. Threads that wait for `fd' get -EBADF. A close(2) that lingers, as with
 * SO_LINGER and unsent bytes, holds up the processor. To have the pool wait instead, make
 * a copy by dup(2), close `fd', and close(2) the copy by uoffload(). 0; -EBADF: `fd' is
 * no descriptor. Does not wait, except for system calls that other native threads make on
 * `fd' at this moment.
 */
int unet_close(int fd);

/*
 * Ends the use of `fd' here, and leaves `fd' open. Threads that wait for `fd' get -EBADF;
 * no call and no event of earlier waits touches `fd' any more, and no epoll instance of
 * the library watches it. O_NONBLOCK is cleared if it was clear at the first call here.
 * The flag belongs to the open file: if there are copies by dup(2), forget all of them,
 * and use none here meanwhile. unet_close() clears nothing. 0; -EBADF: `fd' is no
 * descriptor. Does not wait.
 */
int unet_forget(int fd);

/*
 * Ends one or both directions of a connection, as shutdown(2). A proxy passes on a half
 * close by this call. Threads that wait for such a direction stop waiting: a read returns
 * 0, also of datagrams (the result here may be -ENOTCONN), a write -EPIPE, unet_accept()
 * -EINVAL. A shutdown(2) has the same effect, even by another process, except on writes
 * to a UNIX socket. unet_wait(), unet_poll() and usync_select() go on to wait for room in
 * a UNIX socket, as poll(2) does. 0, or an error. Does not wait.
 */
int unet_shutdown(int fd, int how);

/* Transfers. */

/*
 * Transfer bytes as read(2) and write(2). A write may transfer fewer bytes than `size'.
 * SO_RCVLOWAT only delays events: use unet_read_all() to wait for a number of bytes.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline);
ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline);

/*
 * Transfer bytes, the peer's address and ancillary data, as recvmsg(2) and sendmsg(2); or
 * only the buffers, as readv(2) and writev(2), if `fd' is no socket. MSG_DONTWAIT and
 * MSG_NOSIGNAL are added to `flags'. MSG_CMSG_CLOEXEC makes received descriptors
 * close-on-exec. With MSG_OOB or MSG_ERRQUEUE unet_recvmsg() does not wait, neither for
 * data nor for other readers.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline);
ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline);

/*
 * Transfer exactly `size' bytes. After an error some bytes may have been transferred:
 * *done, unless `done' is NULL, is their number.
 * 0, or an error as above; -EPIPE from unet_read_all(): the input has ended before.
 */
int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline);
int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/*
 * Writes all of `n' buffers. `n' may exceed IOV_MAX, and `iov' is not changed. *done is
 * as in unet_write_all(). 0, or an error as above; -EINVAL also: `n' is negative.
 */
int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline);

/*
 * Waits until some of the `n' descriptors are ready, as poll(2), and looks once more when
 * the deadline has come. `fds' may be on the stack. revents is POLLNVAL if a descriptor
 * is not open, or was closed during the wait; then other ready descriptors may be
 * missing. Returns the number of descriptors whose revents is not 0, at least 1; -EINVAL:
 * `n' is over 65,536, or over what poll(2) allows.
 */
int unet_poll(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * Waits until a read from `fd' would not wait, if `events' is POLLIN, or a write, if
 * `events' is POLLOUT. Transfers nothing, so an idle connection needs no buffer.
 * Sometimes the call returns early, for example on urgent data, so a read after it may
 * wait. 0, or an error; -EINVAL: `events' is something else.
 */
int unet_wait(int fd, short events, int64_t deadline);

/* Private: in the child of a fork(), forgets all descriptors. */
void unet__forked(void);

/* Private: makes `fd' non-blocking, as the first call here does. 0, or an error. */
int unet__adopt_fd(int fd);

/*
 * Private: connects the socket `fd' to `a', as connect(2). A deadline or a cancel ends
 * the wait only: the system goes on, and the same call again waits for the result.
 */
int unet__connect(int fd, const struct unet_addr *a, int64_t deadline);

/* Private: returns whether the input was shut, and nothing is left to read. */
bool unet__is_shut(int fd);

/* Private: returns whether no thread waits for `fd', or is in a call with it. */
bool unet__is_idle(int fd);

/* Private: forgets the file that had the number before; the new file keeps its flags. */
void unet__renewed(int fd);

/*
 * Private: numbers may be closed unseen from now on. So each wait registers its
 * descriptor anew, and sets *found, atomic, if the number has become another file's.
 */
void unet__doubt(bool *found);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_NET_H */
