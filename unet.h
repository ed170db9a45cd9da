/* SPDX-License-Identifier: MIT */
/*
 * unet.h: sockets, pipes, terminals, and whatever else can be polled, for code that
 * blocks. A call that has to wait blocks the thread, and the processor runs other threads
 * meanwhile. Native threads outside of all schedulers may make each call, too, and then
 * block natively. Each such native thread, from its first wait until it ends, and each
 * processor has an epoll instance of two descriptors. The numbers of these descriptors
 * are a little below 1,024, or below the limit of the process if that is lower. The
 * program must not close them.
 *
 * Descriptors are those of the system. unet_listen(), unet_accept(), unet_connect() and
 * unet_signals() make them close-on-exec and non-blocking. Any other descriptor (datagram
 * socket, pipe, terminal, eventfd) is made non-blocking by the first call of this header
 * that gets the descriptor. Close a descriptor only with unet_close(). That call ends the
 * waits for the descriptor, since another file may get the number at once. After
 * unet_forget() a descriptor may be used and closed natively.
 *
 * Buffers may be on the stack, since the thread that waits makes the system call itself.
 * Several threads may wait to read or accept on a descriptor, and several to write. They
 * are served in the order in which they began to wait, but a call that need not wait may
 * come between. The bytes of one call of unet_write_all() or unet_writev_all() stay
 * together, since other writers wait until the call returns, or get -ETIMEDOUT if their
 * deadline is 0. If the call fails in the middle, the next writer goes on. During
 * unet_read_all() other readers may get some of the bytes. unet_poll() has no place in
 * this order. Signal handlers and call-backs of schedulers and events must not make
 * these calls. Do not abort a thread that waits for a descriptor, since the descriptor
 * points to the thread. rr and ll never abort such a thread.
 *
 * As in usync.h, each call that may wait has a deadline as its last argument, and
 * switches threads if it waits. Threads and native threads may make the calls. A call
 * returns a number of at least 0 or, if nothing was transferred, one of these errors.
 * errno has no meaning after a call, and may have changed.
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline, since a
 *                                                        wait needs the scheduler's
 *                                                        events.
 *   -EMFILE, -ENFILE  No descriptor is left for epoll. The next wait tries again.
 *   -ENOSPC     The system has no epoll(7) watch left. The next wait tries again.
 *   -EBADF      The number is no descriptor, or unet_close() or unet_forget() ended its
 *               use.
 *   -ETIME      The system call failed with ETIMEDOUT: the connection was lost. But
 *               -ETIMEDOUT means that the deadline has come. The connection is as before.
 *   any other   An error of the system call.
 *
 * If the peer has reset a connection, the first call returns -ECONNRESET, later reads
 * return 0, and later writes -EPIPE, as the calls of the system do. If the peer has half
 * closed a connection, reads return 0, and writes work. On sockets and pipes, -EPIPE
 * comes without SIGPIPE.
 *
 * A call that need not wait yields if the thread has run for a millisecond without a
 * wait, or has made UNET_BUDGET such calls, of any kind and for any descriptor. If the
 * thread was cancelled and the deadline is over 0, a call that yields returns -ECANCELED.
 * unet_close() and unet_forget() yield by the same rule before they do anything else.
 * Writes with deadline 0 never switch, so that threads on one processor can share a
 * buffer.
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
 * Sets *a from text: "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (any address, IPv6 and
 * IPv4), "/path" of a UNIX socket, "@name" of an abstract one. Names of hosts are for
 * unet_resolve().
 * 0; -EINVAL: the text is none of these, for example "localhost:80" (call unet_resolve()
 * with "localhost" and "80"); -ENAMETOOLONG: the path is too long.
 * Does not wait.
 */
int unet_addr(const char *text, struct unet_addr *a);

enum { UNET_TEXT_MAX = 128 };

/*
 * Writes an address to `text', in at most UNET_TEXT_MAX bytes with the final 0.
 * Returns `text'. Does not wait.
 */
char *unet_text(const struct unet_addr *a, char *text);

/*
 * Looks up `host', a name or number, and `service', a name or port, in a native thread
 * of the pool (uoffload.h). `type' is SOCK_STREAM or SOCK_DGRAM. `found' gets at most
 * `max' addresses. The pool keeps idle native threads for ten seconds; uoffload_drain()
 * ends them.
 * Returns the number of addresses; -ENOENT: no such host or service; -EAGAIN: as
 * uoffload(), or the look-up failed for now; -EIO: the look-up failed for another reason.
 */
int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline);

/* Descriptors. A call returns a descriptor or an error, unless its comment differs. */

enum {
	UNET_REUSEPORT = 1,     /* SO_REUSEPORT: sockets share the connections */
	UNET_V6ONLY    = 2,
};

/*
 * Makes a socket that listens on `a'. Accepted connections have TCP_NODELAY. The path of
 * a UNIX socket must not exist yet. `backlog' 0 stands for SOMAXCONN. Does not wait.
 */
int unet_listen(const struct unet_addr *a, int backlog, unsigned flags);

/*
 * Accepts the next connection to `fd'. Sets *peer, unless `peer' is NULL, to the address
 * of the peer. The call skips connections that have ended already. If connections fail
 * one after the other, for example since a filter forbids the system call, the call
 * pauses now and then, and tries again until the deadline. If there are no descriptors or
 * no memory (EMFILE, ENFILE, ENOBUFS, ENOMEM), the call waits until there are some.
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
 * Returns the number of the signal, or an error.
 */
int unet_signal(int fd, int64_t deadline);

/*
 * Closes `fd'. Threads that wait for `fd' get -EBADF. If the close(2) lingers, as with
 * SO_LINGER and unsent bytes, the processor runs no other thread meanwhile. To make the
 * pool of uoffload.h wait instead, make a copy by dup(2), call unet_close() for `fd', and
 * use uoffload() to call close(2) for the copy. 0; -EBADF: `fd' is no descriptor. Does
 * not wait, except for system calls that other native threads make on `fd' at this
 * moment.
 */
int unet_close(int fd);

/*
 * Makes the library forget `fd', which stays open. Threads that wait for `fd' get -EBADF.
 * When this call returns, no earlier call uses `fd' any more, and no epoll instance of
 * the library watches `fd'. If O_NONBLOCK was clear before the first call of this header
 * for `fd', this call clears O_NONBLOCK again. unet_close() does not. The flag belongs to
 * the open file. So if there are copies of `fd' by dup(2), forget all of them, and make
 * no call of this header for any of them meanwhile. 0; -EBADF: `fd' is no descriptor.
 * Does not wait.
 */
int unet_forget(int fd);

/*
 * Ends one or both directions of a connection, as shutdown(2). A proxy uses this call to
 * pass on a half close. Waits of threads for such a direction end: a read returns 0, a
 * write -EPIPE, and unet_accept() -EINVAL. The same holds for datagram sockets, even if
 * this call returns -ENOTCONN. shutdown(2), even in another process, has the same effect,
 * but does not end waits to write to a UNIX socket. As with poll(2), neither call ends a
 * wait of unet_wait(), unet_poll() or usync_select() for room in a UNIX socket. 0, or an
 * error. Does not wait.
 */
int unet_shutdown(int fd, int how);

/* Transfers. */

/*
 * Transfer bytes as read(2) and write(2). A write may transfer fewer bytes than `size'.
 * To wait for a number of bytes, use unet_read_all(): SO_RCVLOWAT only delays events.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline);
ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline);

/*
 * Transfer bytes, the peer's address and ancillary data, as recvmsg(2) and sendmsg(2). If
 * `fd' is no socket, only bytes are transferred, as by readv(2) and writev(2).
 * MSG_DONTWAIT and MSG_NOSIGNAL are added to `flags'. MSG_CMSG_CLOEXEC makes received
 * descriptors close-on-exec. With MSG_OOB or MSG_ERRQUEUE, unet_recvmsg() waits neither
 * for data nor for other readers.
 * Returns the number of bytes, or an error.
 */
ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline);
ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline);

/*
 * Transfer exactly `size' bytes. After an error some bytes may have been transferred.
 * Unless `done' is NULL, *done is set to the number of bytes transferred.
 * 0, or an error as above; -EPIPE from unet_read_all(): the input ended too early.
 */
int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline);
int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline);

/*
 * Writes all of `n' buffers. `n' may exceed IOV_MAX, and `iov' is not changed. *done is
 * as in unet_write_all(). 0, or an error as above; -EINVAL also if `n' is negative.
 */
int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline);

/*
 * Waits until some of the `n' descriptors are ready, as poll(2), and looks once more when
 * the deadline has come. `fds' may be on the stack. revents is POLLNVAL if a descriptor
 * is not open, or was closed during the wait. After such a close, revents of other ready
 * descriptors may be 0. Returns the number of descriptors whose revents is not 0, at
 * least 1; -EINVAL: `n' is over 65,536, or over what poll(2) allows.
 */
int unet_poll(struct pollfd *fds, size_t n, int64_t deadline);

/*
 * If `events' is POLLIN, waits until a read from `fd' would not wait. If `events' is
 * POLLOUT, waits until a write to `fd' would not wait. Transfers nothing, so an idle
 * connection needs no buffer. Sometimes the call returns early, for example on urgent
 * data, so a read after it may wait. 0, or an error; -EINVAL: `events' is something else.
 */
int unet_wait(int fd, short events, int64_t deadline);

/* Private: in the child of a fork(), forgets all descriptors. */
void unet__forked(void);

/* Private: makes `fd' non-blocking, as the first call for `fd' does. 0, or an error. */
int unet__adopt_fd(int fd);

/*
 * Private: connects the socket `fd' to `a', as connect(2). A deadline or a cancel ends
 * only the wait. The system goes on to connect, and the next such call returns the
 * result.
 */
int unet__connect(int fd, const struct unet_addr *a, int64_t deadline);

/* Private: returns whether the input of `fd' was shut, and nothing is left to read. */
bool unet__is_shut(int fd);

/*
 * Private: if no thread waits for `fd', and none is in a system call with `fd', returns
 * true, and the next call will make `fd' non-blocking. Until unet__let_go() no call does.
 */
bool unet__hold(int fd);
void unet__let_go(int fd);

/* Private: forgets the file that `fd' was before; the flags of the new file stay. */
void unet__renewed(int fd);

/*
 * Private: from now on the program may close descriptors without unet_close(). So each
 * wait registers its descriptor again. If another file has the number, the wait sets
 * *found, which is atomic.
 */
void unet__doubt(bool *found);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_NET_H */
