/* SPDX-License-Identifier: MIT */
/*
 * uposix_io.h: what the calls on descriptors share. Private.
 *
 * A table has an entry for each descriptor that these calls have seen: its kind, the
 * O_NONBLOCK that the program has set, its time-outs, and whether unet has the
 * descriptor. Waits of threads are unet's. unet needs O_NONBLOCK: then the entry has
 * FD_OURS, and the program still sees the flag that it set itself.
 *
 * A native thread makes the plain call. If that returns EAGAIN only because O_NONBLOCK is
 * ours, the native thread waits in poll(2) and repeats the call.
 *
 * Pipes and terminals that came from outside, and the numbers 0 to 2, may share their
 * open file with other processes. They are FOREIGN, and never get O_NONBLOCK. A thread
 * waits for such a descriptor in an epoll instance that has nothing else, and then makes
 * the plain call, which may block natively if another process is faster.
 */
#ifndef UPOSIX_IO_H
#define UPOSIX_IO_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>

#include "../unet.h"
#include "../uoffload.h"
#include "uposix_set.h"

#define HIDDEN __attribute__((visibility("hidden")))

enum {
	UNKNOWN,
	STREAM,                         /* stream socket: writes transfer all */
	PACKET,                         /* socket of any other type */
	PIPE,                           /* pipe: writes transfer all */
	OTHER,                          /* eventfd, timerfd, epoll ...: one call */
	FOREIGN,                        /* never O_NONBLOCK: see above */
	PLAIN,                          /* file: never waits */
};

enum {
	FD_NONBLOCK = 1,                /* the program has set O_NONBLOCK */
	FD_OURS     = 2,                /* O_NONBLOCK is set for unet */
	FD_UNET     = 4,                /* unet knows the number */
	FD_PASSED   = 8,                /* went out or came in by SCM_RIGHTS */
};

/* What is known of a descriptor. All members are atomic. f_flags changes under a lock. */
struct uposix_fd {
	uint8_t  f_kind;
	uint8_t  f_flags;
	uint16_t f_unused;
	uint32_t f_group;               /* same for copies of one open file; 0: no
					   copies */
	uint32_t f_receive;             /* ms; 0: no time-out */
	uint32_t f_send;
	uint32_t f_least;               /* SO_RCVLOWAT, if that is over 1 */
	uint32_t f_age;                 /* changes when the number is closed */
	struct usync_mutex *f_accept;   /* for one thread that waits for connections */
};

/*
 * Has func(&variable) called when the function returns, and when its thread is ended in
 * it.
 */
#define CLEANUP(func) __attribute__((cleanup(func)))

/* Closes a descriptor of this library, as uevents__own() made. */
static inline void uposix__close_it(const int *fd)
{
	if (*fd >= 0)
		unet_close(uevents__disown(*fd));
}

static inline void uposix__free_it(void *place)
{
	free(*(void **)place);
}

#define GET(field)        __atomic_load_n(&(field), __ATOMIC_ACQUIRE)
#define SET(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELEASE)

/* True: the caller is a thread of usched. */
static inline bool uposix__in_thread(void)
{
	return ustack_self();
}

/* ---- uposix_table.c ---- */

/* True: the process is a child of a fork, and unet had descriptors in the parent. */
extern bool uposix__child HIDDEN;

/* Returns the entry of `fd'; NULL: there is none. */
struct uposix_fd *uposix__known(int fd) HIDDEN;

/*
 * Notes a new descriptor, and forgets the earlier one of that number; does nothing for
 * -1. Returns fd.
 */
int uposix__made(int fd, int kind, bool nonblocking) HIDDEN;

/* Forgets a descriptor that is closed next, or was. Returns its flags. */
unsigned uposix__forget(int fd) HIDDEN;

/* Forgets a descriptor that was closed without unet, or will be. */
void uposix__gone(int fd) HIDDEN;

/*
 * Forgets a descriptor before its close, also in unet, and sets O_NONBLOCK as the program
 * had it.
 */
void uposix__release(int fd) HIDDEN;

/* Notes that `copy' is another number of `fd'. Returns `copy'. */
int uposix__copied(int fd, int copy) HIDDEN;

/*
 * Notes that `fd' goes out by SCM_RIGHTS. If O_NONBLOCK is ours and no thread waits, the
 * flag is cleared.
 */
void uposix__sent(int fd) HIDDEN;

/*
 * Prepares `fd' for libc's own threads, which will read or write it: it is FOREIGN from
 * now on, and blocks; except if O_NONBLOCK is ours and a thread waits.
 */
void uposix__lend(int fd) HIDDEN;

/* Notes a descriptor that came in by SCM_RIGHTS. */
void uposix__received(int fd) HIDDEN;

/* Returns the kind of `fd', and finds it out if need be. */
int uposix__kind(int fd) HIDDEN;

/* As uposix__known(), with the kind found out. NULL also: no memory. */
struct uposix_fd *uposix__classified(int fd) HIDDEN;

/* Prepares `fd' for waits in unet: it does not block from now on. */
void uposix__adopt(int fd, struct uposix_fd *f) HIDDEN;

/* As uposix__release(), for a range of numbers. */
void uposix__forget_range(unsigned first, unsigned last) HIDDEN;

/* F_GETFL and F_SETFL of fcntl(), without the O_NONBLOCK that is ours. */
int uposix__see_flags(int fd) HIDDEN;
int uposix__change_flags(int fd, long flags) HIDDEN;

/* Notes that SO_RCVTIMEO, SO_SNDTIMEO or SO_RCVLOWAT was set. */
void uposix__set_option(int fd, int name) HIDDEN;

/* ---- uposix_way.c ---- */

/*
 * Makes a call of the library that waits, until it is over. Handlers run meanwhile, and
 * pthread_cancel() ends the thread. `restarts': the call goes on after a handler with
 * SA_RESTART, as Linux has it for calls without a time-out.
 */
#define UPOSIX_WAIT(n, restarts, call) do {					\
	int rc_;								\
	do {									\
		(n) = (call);							\
		rc_ = (n) < 0 ? (int)(n) : 0;					\
	} while ((restarts) ? uposix__again(&rc_) : uposix__again_once(&rc_));	\
	if (rc_ < 0)								\
		(n) = rc_;							\
} while (0)

/* Returns the deadline of a time-out in ms; 0: USCHED_NEVER. */
int64_t uposix__until(uint32_t ms) HIDDEN;

/* Turns a result of unet into one of POSIX: at least 0, or -1 and errno. */
ssize_t uposix__answer(ssize_t n) HIDDEN;

/* Sends SIGPIPE after a write that failed with -EPIPE. */
void uposix__broken(void) HIDDEN;

/* poll() for a thread, with a result of unet. `deadline' is over 0. */
int uposix__wait_ready(struct pollfd *fds, size_t n, int64_t deadline) HIDDEN;

/*
 * Returns how a call that may wait for `events' (poll(2)) is made. WAY_UNET: by unet,
 * with *f; WAY_PLAIN: by libc; WAY_FAILED: not at all, and errno is set.
 */
enum { WAY_UNET, WAY_PLAIN, WAY_FAILED };
int uposix__way(int fd, short events, struct uposix_fd **f) HIDDEN;

/*
 * After a plain call that failed. True: O_NONBLOCK is ours, and `fd' may be ready by now:
 * repeat the call; n is NULL for connect(), and then `fd' is ready. If the input was shut
 * down, *n becomes 0, and errno EINVAL.
 */
bool uposix__repeat(ssize_t *n, int fd, short events) HIDDEN;

/* ---- uposix_file.c ---- */

/*
 * A call of libc for a native thread: the first member of a struct with its arguments.
 * The native thread works on a copy, so that has no pointer to the stack.
 */
struct uposix_job {
	long (*j_call)(void *job);
	long   j_result;
	int    j_errno;
};

/* Makes the call. */
void uposix__run(void *job) HIDDEN;

/*
 * Has the pool look up a name, by the call in the `size' bytes at `job', and sets errno
 * as that call does. No cancellation point, since a result must not be lost. 0 or a
 * negative errno value; then j_result is -1.
 */
int uposix__offload(struct uposix_job *job, size_t size) HIDDEN;

/*
 * Says what ends a call that a native thread of its own makes. Handlers run in any case.
 */
enum { APART_NOTHING, APART_CANCEL, APART_HANDLER };

/*
 * As uposix__offload(), for a call that may wait for ever: a native thread of its own
 * makes the call, so that no such call waits for another. APART_CANCEL: a cancellation
 * point, as the call is in libc; pthread_cancel() is passed on. APART_HANDLER: a handler
 * without SA_RESTART ends the call, too, with -EINTR. If the call has returned first, its
 * result is returned, and the cancellation comes at the next point: no descriptor, child
 * or lock is lost.
 */
void uposix__apart(struct uposix_job *job, size_t size, int ends) HIDDEN;

/* fcntl(fd, command, l), for locks, which may wait. */
int uposix__lock_file(int fd, int command, struct flock *l) HIDDEN;

/* ---- uposix_stdio.c ---- */

/* Forgets a stream that libc has closed. */
void uposix__end_stream(const FILE *file) HIDDEN;

#endif /* UPOSIX_IO_H */
