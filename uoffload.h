/* SPDX-License-Identifier: MIT */
/*
 * uoffload.h: a pool of native threads that makes calls which block natively, so that a
 * processor can run other threads meanwhile: files, name look-ups, other libraries.
 *
 * A process has one pool, of three classes of native threads: for calls of uoffload(),
 * for files, and for names. No class waits for another, so a name look-up does not wait
 * for slow files. If a call finds no idle native thread of its class, a native thread is
 * added, up to the bound of the class. Further calls queue up, first in, first out in
 * each class. A native thread ends after ten idle seconds. All signals are blocked there.
 * After fork(2) the child has no pool, and a process with SINGLE_THREAD has no pool.
 *
 * An offloaded function runs outside of all schedulers. The function may call what is for
 * native threads, such as ustack_wake() or usync_sem_post(), and does not find the values
 * of the waiting thread (struct usync_key). The function must not call functions of this
 * header: if all native threads of the pool waited for the pool, none could go on.
 *
 * A call that may wait has a deadline as its last argument, switches threads if it waits,
 * and may be made by threads and native threads. A thread that waits here is not taken
 * for deadlocked. No call is a cancellation point. Errors of all such calls are
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline.
 *   -EAGAIN     No native thread could be started, and the class has none.
 *
 * A call that was given up, by a deadline or a cancel, is not undone: the native thread
 * goes on with the call. A call of uoffload() that has not begun still begins later.
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

enum { UOFFLOAD_THREADS = 64 };         /* the bound of a class, by default */

/*
 * Has a native thread call func(copy), and waits until func has returned. `copy' is a
 * copy of the `size' bytes at `argument', which may be on the stack; at the end the bytes
 * are copied back. The bytes must not hold pointers to a thread's stack. What they point
 * to must exist until func has returned, even if the caller has given up. After an error
 * `argument' is unchanged, and drop(copy), unless `drop' is NULL, is called once, to
 * release what the bytes own: by the pool after func has returned, if the caller has
 * given up; or by the caller, if func will never be called. If there is no memory for a
 * copy, drop is called with `argument'. 0, or an error.
 */
int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline);

/*
 * Sets the bound of each class. Native threads beyond the bound end when they are idle.
 * 0; -EINVAL: `threads' is 0. Does not wait.
 */
int uoffload_limit(unsigned threads);

/*
 * Waits, natively, until no call is going on or the deadline has come, and ends the
 * native threads of the pool: at exit, for leak checkers. The pool may be used again.
 * unet_resolve() uses the pool, too.
 * 0; -ETIMEDOUT: calls are going on, perhaps calls that were given up. Their functions
 * are printed to standard error: address, file, name, and the number of calls. The calls
 * go on, and keep what they use until they return, so the process may go on, drain again,
 * or exit. A deadline of 0, or in the past, asks whether all is done already. From a
 * native thread outside of all schedulers and of the pool.
 */
int uoffload_drain(int64_t deadline);

/*
 * Call open(2), with O_CLOEXEC added, pread(2), pwrite(2) and fsync(2). Buffers may be on
 * the stack. A call that is given up while it is in the queue is not made. A call that is
 * given up later goes on for a moment, so do not close `fd' at once; the file may be made
 * or written after the error. A read of what the system has in memory needs no native
 * thread. Such a read may be short before the end of the file, and the thread yields by
 * the rule of unet.h; only at the end a read returns 0.
 * Returns what the system call returns, with its error as a negative number; or an error
 * as above.
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
