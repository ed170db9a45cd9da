/* SPDX-License-Identifier: MIT */
/*
 * uposix_io.h: what the calls on descriptors share. Private.
 *
 * A table has an entry for each descriptor that these calls have seen. It knows what kind
 * it is, what the program believes of O_NONBLOCK, its time-outs, and whether unet has it.
 * Where a thread has to wait for a descriptor, unet does so. unet needs O_NONBLOCK; the
 * entry then has FD_OURS, and the program is told what it set itself.
 *
 * A native thread makes the plain call. If that returns EAGAIN only since O_NONBLOCK is
 * ours, it waits in poll(2) and repeats the call.
 *
 * Descriptors of which others may have the open file as well, that is pipes and terminals
 * that came from outside, and the numbers 0 to 2, never get O_NONBLOCK: FOREIGN. A thread
 * waits for such a one in an epoll instance that has nothing else, and then makes the
 * plain call. The call may block natively if another process is faster.
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
	STREAM,                         /* a stream socket: writes are full */
	PACKET,                         /* a socket of any other type */
	PIPE,                           /* likewise full */
	OTHER,                          /* eventfd, timerfd, epoll ...: one call */
	FOREIGN,                        /* see above */
	PLAIN,                          /* a file: never waits */
};

enum {
	FD_NONBLOCK = 1,                /* the program has set O_NONBLOCK */
	FD_OURS     = 2,                /* O_NONBLOCK is set, for unet */
	FD_UNET     = 4,                /* unet knows the number */
	FD_PASSED   = 8,                /* it went out or came in by SCM_RIGHTS */
};

/* All of it is atomic. Changes of f_flags are made under a lock. */
struct uposix_fd {
	uint8_t  f_kind;
	uint8_t  f_flags;
	uint16_t f_unused;
	uint32_t f_group;               /* numbers of one open file; 0: it is alone */
	uint32_t f_receive;             /* ms; 0: no time-out */
	uint32_t f_send;
	uint32_t f_least;               /* SO_RCVLOWAT, if that is over 1 */
	uint32_t f_age;                 /* another one: the number was closed meanwhile */
	struct usync_mutex *f_accept;   /* one thread waits for connections */
};

/* What a function has to give back when it returns, or when its thread is ended in it. */
#define CLEANUP(func) __attribute__((cleanup(func)))

/* A descriptor of this library: uevents__own(). */
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

/* The caller is a thread of usched. */
static inline bool uposix__in_thread(void)
{
	return ustack_self();
}

/* ---- uposix_table.c ---- */

/* The child of a fork by a process some of whose descriptors unet had. */
extern bool uposix__child HIDDEN;

/* What is known of `fd', or NULL: nothing. */
struct uposix_fd *uposix__known(int fd) HIDDEN;

/* A new descriptor, or -1: forgets what was known of the number. Returns fd. */
int uposix__made(int fd, int kind, bool nonblocking) HIDDEN;

/* It will be closed, or was. The flags that it had. */
unsigned uposix__forget(int fd) HIDDEN;

/* It was closed, or will be without unet. */
void uposix__gone(int fd) HIDDEN;

/* It will be closed; unet forgets it, and has changed O_NONBLOCK back. */
void uposix__release(int fd) HIDDEN;

/* `copy' is another number of `fd'. Returns `copy'. */
int uposix__copied(int fd, int copy) HIDDEN;

/* It goes out by SCM_RIGHTS: without O_NONBLOCK, if that is ours, and none waits. */
void uposix__sent(int fd) HIDDEN;

/*
 * libc's own threads will read or write it. It is FOREIGN from now on, and blocks; unless
 * O_NONBLOCK is ours and a thread waits.
 */
void uposix__lend(int fd) HIDDEN;

/* It came in, as a new number. */
void uposix__received(int fd) HIDDEN;

/* Its kind, found out if need be. */
int uposix__kind(int fd) HIDDEN;

/* The same, with its kind found out if need be; NULL also: no memory. */
struct uposix_fd *uposix__classified(int fd) HIDDEN;

/* unet will wait for `fd', which does not block from now on. */
void uposix__adopt(int fd, struct uposix_fd *f) HIDDEN;

/* Forgets these numbers as uposix__release() does. */
void uposix__forget_range(unsigned first, unsigned last) HIDDEN;

/* F_GETFL and F_SETFL of fcntl(), as if the library did not set O_NONBLOCK. */
int uposix__see_flags(int fd) HIDDEN;
int uposix__change_flags(int fd, long flags) HIDDEN;

/* SO_RCVTIMEO, SO_SNDTIMEO or SO_RCVLOWAT was set. */
void uposix__set_option(int fd, int name) HIDDEN;

/* ---- uposix_way.c ---- */

/*
 * Makes a call of the library that waits, until it is over: signals have their handlers
 * called meanwhile, and pthread_cancel() ends the thread. restarts: after SA_RESTART it
 * goes on; not so with a time-out.
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

/* The deadline of a time-out in ms; 0 stands for none. */
int64_t uposix__until(uint32_t ms) HIDDEN;

/* The result of a call of unet, as POSIX has it: at least 0, or -1 and errno. */
ssize_t uposix__answer(ssize_t n) HIDDEN;

/* A write failed with -EPIPE. */
void uposix__broken(void) HIDDEN;

/* poll() of a thread; a result as of unet. `deadline' is over 0. */
int uposix__wait_ready(struct pollfd *fds, size_t n, int64_t deadline) HIDDEN;

/*
 * Of a call that may wait for `events' (poll(2)). WAY_UNET: *f is set, and unet is to
 * make it. WAY_PLAIN: libc is. WAY_FAILED: errno is set.
 */
enum { WAY_UNET, WAY_PLAIN, WAY_FAILED };
int uposix__way(int fd, short events, struct uposix_fd **f) HIDDEN;

/*
 * After a plain call that failed: true: O_NONBLOCK is ours; `fd' may have become ready;
 * repeat it. *n becomes 0, and errno EINVAL, if its input was shut. With NULL, for
 * connect(), it has become ready.
 */
bool uposix__repeat(ssize_t *n, int fd, short events) HIDDEN;

/* ---- uposix_file.c ---- */

/*
 * A call of libc for a native thread, the first member of what it needs. The native
 * thread has a copy, in which there is no pointer to the stack.
 */
struct uposix_job {
	long (*j_call)(void *job);
	long   j_result;
	int    j_errno;
};

/* Makes the call. */
void uposix__run(void *job) HIDDEN;

/*
 * Has the pool look up a name, by the call of the `size' bytes at `job'. errno is then
 * the call's. It is no cancellation point: what the call has made must not be lost. 0 or
 * a negative errno value; j_result is -1 then.
 */
int uposix__offload(struct uposix_job *job, size_t size) HIDDEN;

/* What ends a call that a native thread of its own makes; handlers run in any case. */
enum { APART_NOTHING, APART_CANCEL, APART_HANDLER };

/*
 * The same for a call that may wait for ever: a native thread of its own makes it, so
 * that no such call waits for another. With APART_CANCEL it is a cancellation point, for
 * calls that are one in libc: pthread_cancel() is passed on. With APART_HANDLER so is a
 * handler without SA_RESTART: -EINTR. If the call was faster its result is returned, and
 * the cancellation comes at the next point: no descriptor, child or lock is lost.
 */
void uposix__apart(struct uposix_job *job, size_t size, int ends) HIDDEN;

/* fcntl(fd, command, l), which may wait. */
int uposix__lock_file(int fd, int command, struct flock *l) HIDDEN;

/* ---- uposix_stdio.c ---- */

/* A stream of libc has been closed. */
void uposix__end_stream(const FILE *file) HIDDEN;

#endif /* UPOSIX_IO_H */
