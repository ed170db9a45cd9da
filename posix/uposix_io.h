/* SPDX-License-Identifier: MIT */
/*
 * uposix_io.h: what the calls on descriptors share. Private.
 *
 * A table has an entry for each descriptor that these calls have seen: its kind, its
 * time-outs, whether the program has set O_NONBLOCK, and whether unet uses the
 * descriptor. Threads wait in unet, which needs O_NONBLOCK. If this library has set the
 * flag, the entry has FD_OURS, and the program sees only the flag that the program set.
 *
 * A native thread calls libc's function. If that returns EAGAIN only because this library
 * has set O_NONBLOCK, the native thread waits in poll(2) and repeats the call.
 *
 * A pipe or terminal that was open at the start, or has a number from 0 to 2, may share
 * its open file description with other processes. The kind of such a descriptor is
 * FOREIGN, and O_NONBLOCK is never set for it. A thread waits for a FOREIGN descriptor in
 * an epoll instance of its own, and then calls libc's function, which may block natively
 * if another process was faster.
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
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>

#include "../unet.h"
#include "../uoffload.h"
#include "uposix_set.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Older versions of glibc have neither these functions nor their numbers. */
#if !__GLIBC_PREREQ(2, 34)
#define CLOSE_RANGE_CLOEXEC 4
#define close_range(first, last, flags) (int)syscall(SYS_close_range, first, last, flags)
#define closefrom(first) (void)close_range((unsigned)(first), ~0u, 0)
#endif
#if !__GLIBC_PREREQ(2, 35)
#define epoll_pwait2(fd, events, max, limit, mask) \
	(int)syscall(SYS_epoll_pwait2, fd, events, max, limit, mask, _NSIG / 8)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

enum {
	UNKNOWN,
	STREAM,                         /* stream socket: a write transfers all bytes */
	PACKET,                         /* socket of any other type */
	PIPE,                           /* pipe: a write transfers all bytes */
	OTHER,                          /* eventfd, timerfd, epoll and the like, where a
					   write is one call */
	FOREIGN,                        /* O_NONBLOCK is never set: see above */
	PLAIN,                          /* a file, for which calls never wait */
};

enum {
	FD_NONBLOCK = 1,                /* the program has set O_NONBLOCK */
	FD_OURS     = 2,                /* this library has set O_NONBLOCK */
	FD_UNET     = 4,                /* unet knows the number */
	FD_PASSED   = 8,                /* was sent or received by SCM_RIGHTS */
};

/* The entry of a descriptor. All members are atomic; f_flags changes under table_lock. */
struct uposix_fd {
	uint8_t  f_kind;
	uint8_t  f_flags;
	uint16_t f_unused;
	uint32_t f_group;               /* number of the group of all copies of one
					   descriptor; 0: no copies */
	uint32_t f_receive;             /* time-out of reads in ms; 0: no time-out */
	uint32_t f_send;                /* time-out of writes */
	uint32_t f_least;               /* SO_RCVLOWAT if greater than 1, otherwise 0 */
	uint32_t f_age;                 /* changes when the number is closed */
	struct usync_mutex *f_accept;   /* mutex that is held by the one thread that
					   waits for connections; NULL: not made yet */
};

/*
 * Calls func(&variable) when the function with the variable returns, or when the thread
 * ends inside that function.
 */
#define CLEANUP(func) __attribute__((cleanup(func)))

/* Closes a descriptor that uevents__own() has marked as the library's. */
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

/* Returns true if the caller is a thread, not a native thread. */
static inline bool uposix__in_thread(void)
{
	return ustack_self();
}

/* ---- uposix_table.c ---- */

/* This is true in the child of a fork if the parent used unet. */
extern bool uposix__child HIDDEN;

/* Returns the entry of `fd', or NULL if there is no entry. */
struct uposix_fd *uposix__known(int fd) HIDDEN;

/*
 * Makes the entry of a new descriptor, and clears an earlier entry of that number. Does
 * nothing if fd is -1. Returns fd.
 */
int uposix__made(int fd, int kind, bool nonblocking) HIDDEN;

/*
 * Clears the entry of a descriptor that has been closed or is about to be closed. Returns
 * the flags of the entry.
 */
unsigned uposix__forget(int fd) HIDDEN;

/*
 * Clears the entries, here and in unet, of a descriptor that is closed by other means
 * than unet_close().
 */
void uposix__gone(int fd) HIDDEN;

/*
 * Clears the entries, here and in unet, of a descriptor that is about to be closed, and
 * sets O_NONBLOCK as the program had set it.
 */
void uposix__release(int fd) HIDDEN;

/*
 * Notes that `copy' and `fd' refer to the same open file, as after dup(). Returns `copy'.
 */
int uposix__copied(int fd, int copy) HIDDEN;

/*
 * Notes that `fd' is sent by SCM_RIGHTS. Clears O_NONBLOCK if this library has set the
 * flag and no thread waits.
 */
void uposix__sent(int fd) HIDDEN;

/*
 * Prepares `fd' for reads and writes by libc's own threads. If this library has set
 * O_NONBLOCK and no thread waits, clears the flag. If the flag is then clear, makes `fd'
 * FOREIGN.
 */
void uposix__lend(int fd) HIDDEN;

/* Makes the entry of a descriptor that was received by SCM_RIGHTS. */
void uposix__received(int fd) HIDDEN;

/* Returns the kind of `fd', which is found out at the first call. */
int uposix__kind(int fd) HIDDEN;

/*
 * Finds out the kind of `fd', and returns its entry. Returns NULL if there is no entry or
 * no memory.
 */
struct uposix_fd *uposix__classified(int fd) HIDDEN;

/* Prepares `fd' for waits in unet, and sets O_NONBLOCK. */
void uposix__adopt(int fd, struct uposix_fd *f) HIDDEN;

/* Does what uposix__release() does, for a range of numbers. */
void uposix__forget_range(unsigned first, unsigned last) HIDDEN;

/* Do what F_GETFL and F_SETFL do, and hide an O_NONBLOCK that this library has set. */
int uposix__see_flags(int fd) HIDDEN;
int uposix__change_flags(int fd, long flags) HIDDEN;

/* Notes that SO_RCVTIMEO, SO_SNDTIMEO or SO_RCVLOWAT was set. */
void uposix__set_option(int fd, int name) HIDDEN;

/* ---- uposix_way.c ---- */

/*
 * Makes a call of the library that waits, again and again until the wait is over. Signal
 * handlers run during the wait, and pthread_cancel() ends the thread. If `restarts' is
 * true, the call goes on after a handler with SA_RESTART. On Linux calls without a
 * time-out do so.
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

/* Returns the deadline of a time-out in ms; the time-out 0 stands for USCHED_NEVER. */
int64_t uposix__until(uint32_t ms) HIDDEN;

/*
 * Turns a result of unet into one of POSIX: a number of at least 0, or -1 with errno set.
 */
ssize_t uposix__answer(ssize_t n) HIDDEN;

/* Sends SIGPIPE to the caller, after a write that failed with -EPIPE. */
void uposix__broken(void) HIDDEN;

/*
 * Waits as poll() does, and returns a result of unet. The caller is a thread, and
 * `deadline' is greater than 0.
 */
int uposix__wait_ready(struct pollfd *fds, size_t n, int64_t deadline) HIDDEN;

/*
 * Tells how to make a call that may wait for `events' of poll(2). Returns WAY_UNET for a
 * call by unet, with the entry in *f, or WAY_PLAIN for a call by libc. After an error,
 * which is stored in errno, returns WAY_FAILED.
 */
enum { WAY_UNET, WAY_PLAIN, WAY_FAILED };
int uposix__way(int fd, short events, struct uposix_fd **f) HIDDEN;

/*
 * Called after a call of libc that failed with EAGAIN. If only this library has set
 * O_NONBLOCK, waits by poll(2), until the time-out of the descriptor at most. Returns
 * true if the call is to be repeated. If the input was shut down, sets *n to 0 and errno
 * to EINVAL, and returns false. For connect(), which is not repeated, n is NULL, and the
 * result is true if `fd' is ready.
 */
bool uposix__repeat(ssize_t *n, int fd, short events) HIDDEN;

/* ---- uposix_poll.c ---- */

/*
 * Does what syscall() does for `number', SYS_io_getevents or SYS_io_pgetevents, and these
 * arguments. The last one of SYS_io_pgetevents is `mask'.
 */
long uposix__get_events(long number, const long *a, const sigset_t *mask) HIDDEN;

/* ---- uposix_file.c ---- */

/*
 * A call of libc that a native thread makes for a thread. This is the first member of a
 * struct that holds the arguments. The native thread works on a copy, so the struct must
 * not point to the caller's stack.
 */
struct uposix_job {
	long (*j_call)(void *job);
	long   j_result;
	int    j_errno;
	bool   j_disk;                  /* the call waits for a disk, not for a name */
};

/* Makes the call of a uposix_job, and stores the result and errno. */
void uposix__run(void *job) HIDDEN;

/*
 * Makes a native thread of the pool call j_call with a copy of the `size' bytes at `job'.
 * Sets errno as the call does. This is no cancellation point, since a result must not be
 * lost. Returns 0 or a negative errno value. After an error j_result is -1.
 */
int uposix__offload(struct uposix_job *job, size_t size) HIDDEN;

/*
 * Names what ends a call of uposix__apart(). Signal handlers run during all such calls.
 */
enum { APART_NOTHING, APART_CANCEL, APART_HANDLER, APART_ANY };

/*
 * Does what uposix__offload() does, for a call that may wait for ever. Each such call
 * gets a new native thread, so that no such call waits for another. With APART_CANCEL the
 * call is a cancellation point, and pthread_cancel() is passed on to the native thread.
 * With APART_HANDLER a handler without SA_RESTART ends the call, with -EINTR. If the
 * call completes before the cancel reaches it, the result of the call is returned, and
 * the thread ends at the next cancellation point. So no descriptor, child or lock is
 * lost.
 */
void uposix__apart(struct uposix_job *job, size_t size, int ends) HIDDEN;

/* Calls fcntl(fd, command, l) for a command that may wait for a file lock. */
int uposix__lock_file(int fd, int command, struct flock *l) HIDDEN;

/* ---- uposix_stdio.c ---- */

/* Removes the entry of a stream of libc that is about to be closed. */
void uposix__end_stream(const FILE *file) HIDDEN;

#endif /* UPOSIX_IO_H */
