/* SPDX-License-Identifier: MIT */
/*
 * uoffload.h: a pool of native threads for calls that block natively, such as calls for
 * files, names or other libraries. While the pool makes a call for a thread, other
 * threads run.
 *
 * A process has one pool, of three classes of native threads: for calls of uoffload(),
 * for files, and for names. No class waits for another, so the look-up of a name does not
 * wait for slow files. If a call finds no idle native thread of its class, a native
 * thread is added, up to the bound of the class. Further calls wait in the queue of their
 * class, first in, first out. A native thread of the pool blocks all signals, and ends
 * after ten idle seconds. After fork(2) the child has no pool. A process with
 * SINGLE_THREAD has no pool.
 *
 * A function that the pool calls for uoffload() runs outside of all schedulers. The
 * function may make calls that are for native threads, such as ustack_wake() or
 * usync_sem_post(). It does not find the values of the waiting thread (struct usync_key).
 * It must not make calls of this header: if all native threads of the pool waited for the
 * pool, none could go on.
 *
 * A call that may wait has a deadline as its last argument, switches threads if it waits,
 * and may be made by threads and native threads. A thread that waits for the pool does
 * not count as deadlocked. No call is a cancellation point. Errors of all such calls are
 *
 *   -ETIMEDOUT, -ECANCELED, -ENOMEM, -ENOTSUP, -EFAULT   As in usync.h. -ENOTSUP also
 *                                                        without a deadline.
 *   -EAGAIN     No native thread could be started, and the class has none.
 *
 * If a deadline or a cancel ends the wait, the call is given up, but not undone: the
 * native thread goes on with the call. A function of uoffload() that was not called yet
 * is still called later.
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
 * Makes a native thread call func(copy), and waits until func has returned. `copy' is a
 * copy of the `size' bytes at `argument'. `argument' may be on the stack. When func has
 * returned, the bytes are copied back. The bytes must not hold pointers to a thread's
 * stack. What they point to must exist until func has returned, even if the call was
 * given up. After an error `argument' is unchanged. Unless `drop' is NULL, drop(copy) is
 * then called once, to release what the bytes own. If the call was given up, the pool
 * calls drop(copy) after func has returned. If func will never be called, the caller of
 * uoffload() calls drop(copy), or drop(argument) if there was no memory for a copy. 0, or
 * an error.
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
 * native threads of the pool, so that leak checkers find nothing at exit. The pool may be
 * used again. unet_resolve() uses the pool, too.
 * 0; -ETIMEDOUT: calls are going on, perhaps calls that were given up. Their functions
 * are printed to standard error, with address, file, name, and the number of calls. The
 * calls go on, and keep what they use until they return, so the process may go on, drain
 * again, or exit. If the deadline is 0 or has passed, the result tells whether all calls
 * are done. Only for native threads outside of all schedulers and of the pool.
 */
int uoffload_drain(int64_t deadline);

/*
 * Make the pool call open(2) with O_CLOEXEC added, pread(2), pwrite(2) and fsync(2).
 * Buffers may be on the stack. If a call is given up while in the queue, it is not made.
 * If a call is given up later, it goes on for a moment. So do not close `fd' at once. The
 * file may be made or written after the error. A read of bytes that the system has in
 * memory needs no native thread. Such a read may get fewer bytes than `size' although the
 * file has more, and yields by the rule of unet.h. A read returns 0 only at the end of
 * the file.
 * Return what the system call returns, with its error as a negative number; or an error
 * as above.
 */
int     ufile_open(const char *path, int flags, mode_t mode, int64_t deadline);
ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline);
ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset,
		     int64_t deadline);
int     ufile_sync(int fd, int64_t deadline);

/* Private: uoffload() in the class of files or of names, without drop and deadline. */
int uoffload__apart(bool disk, void (*func)(void *argument), void *argument, size_t size);

/* Private: see usched__forked(). */
void uoffload__forked(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OFFLOAD_H */
