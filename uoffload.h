/* SPDX-License-Identifier: MIT */
/*
 * uoffload.h: a pool of native threads that makes calls which block natively, so that a
 * processor can run other threads meanwhile: files, name look-ups, other libraries.
 *
 * A process has one pool, of three classes of native threads: for calls of uoffload(),
 * for files, and for names. No class waits for another, so a name look-up does not wait
 * for slow files. A native thread is added when a call finds none of its class idle and
 * the class has fewer than its bound. More calls queue up, first in, first out in their
 * class. A native thread ends after ten idle seconds. All signals are blocked there.
 * After fork(2) the child has no pool. With SINGLE_THREAD there is none.
 *
 * An offloaded function runs outside of all schedulers. It may call functions for native
 * threads, such as ustack_wake() or usync_sem_post(), and has none of the values of the
 * waiting thread. It must not call functions of this header: with all of the pool
 * waiting for the pool nothing would go on.
 *
 * A call that may wait takes a deadline last, switches threads if it waits, and may be
 * made by threads and native threads. A thread that waits here is not taken for
 * deadlocked. No call is a cancellation point. Errors of all such calls are
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline.
 *   -EAGAIN     No native thread could be started, and the class has none.
 *
 * A call that was given up, by a deadline or a cancel, is not undone: its native thread
 * goes on with it, or begins later if it is one of uoffload().
 */
#ifndef USCHED_OFFLOAD_H
#define USCHED_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "usync.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { UOFFLOAD_THREADS = 64 };         /* the bound of a class, unless it is set */

/*
 * Has a native thread call func(copy), and waits for it. `copy' is a copy of the `size'
 * bytes at `argument', which may be on the stack; at the end it is copied back. Neither
 * may hold pointers to a thread's stack. What they point to lives until func has
 * returned, even if the caller has given up.
 * After an error `argument' is unchanged, and drop(copy), unless NULL, is called once,
 * to release what func has made: by the pool after func, if the caller gave up; by the
 * caller, if func will not be called. Without memory for a copy drop gets `argument'
 * itself.
 * 0, or an error.
 */
int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline);

/*
 * Sets the bound of each class. Native threads beyond it end when they are idle.
 * 0; -EINVAL: `threads' is 0. Does not wait.
 */
int uoffload_limit(unsigned threads);

/*
 * Waits, natively, until no call is going on or the deadline has come, and ends the
 * native threads of the pool: at exit, for leak checkers. The pool may be used again.
 * unet_resolve() uses the pool, too.
 * 0; -ETIMEDOUT: calls are going on, also some that were given up. Standard error has
 * their functions: address, file, name, and the number of calls. They go on; what a
 * native thread uses is its own until the call returns, so the process may go on, call
 * again, or exit. A deadline of 0, or in the past, asks whether all is done already.
 * From a native thread outside of all schedulers, and of the pool.
 */
int uoffload_drain(int64_t deadline);

/*
 * Call open(2), which adds O_CLOEXEC, pread(2), pwrite(2) and fsync(2). Buffers may be on
 * the stack. A call that is given up before its turn is not made; later `fd'
 * may be in use for a moment more, so do not close it at once, and a file may be made or
 * written after the error. What the system has in memory is read without a native
 * thread. Then a read may be short before the end of the file, where it returns 0, and
 * the thread yields by the rule of unet.h.
 * Returns what the system call returns, its error as a negative number, or an error as
 * above.
 */
int     ufile_open(const char *path, int flags, mode_t mode, int64_t deadline);
ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline);
ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset,
		     int64_t deadline);
int     ufile_sync(int fd, int64_t deadline);

/* Private: uoffload() in the class of names, without drop and deadline. */
int uoffload__name(void (*func)(void *argument), void *argument, size_t size);

/* Private: see usched__forked(). */
void uoffload__forked(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OFFLOAD_H */
