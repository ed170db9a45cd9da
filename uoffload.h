/* SPDX-License-Identifier: MIT */
/*
 * uoffload.h: a pool of native threads that makes calls which block natively, so that a
 * processor can run other threads meanwhile: files, name look-ups, other libraries.
 *
 * There is one pool in a process, of three classes: calls of uoffload(), files, and
 * names. No class waits for another, so a name look-up does not wait for slow files. A
 * native thread is added when a call finds none of its class idle and the class has
 * fewer than the bound. More calls queue up, first in, first out in their class. A
 * native thread ends after ten idle seconds. All signals are blocked there. A call that
 * was given up (deadline, cancel) is made nevertheless. An offloaded function must not
 * call these functions: with all of the pool waiting for the pool nothing would go on.
 * Not for SINGLE_THREAD.
 *
 * Deadlines and errors as in usync.h. No call is a cancellation point.
 */
#ifndef USCHED_OFFLOAD_H
#define USCHED_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "usync.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { UOFFLOAD_THREADS = 64 };         /* the bound of a class, unless it is set */

/*
 * Has a native thread call func(copy), and waits for it. `copy' is a copy of the `size'
 * bytes at `argument', which may be on the stack; at the end it is copied back. Neither
 * may hold pointers to a thread's stack. After an error `argument' is unchanged, and
 * drop(copy), unless NULL, is called once: after func if the caller gave up (deadline,
 * cancel), or by the caller if func will not be called; without memory for a copy it gets
 * `argument' itself.
 * 0; besides, -EAGAIN: no native thread could be started, and there is none.
 */
int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline);

/*
 * Sets the bound of each class. Native threads beyond it end when they are idle.
 * 0; -EINVAL: it is 0.
 */
int uoffload_limit(unsigned threads);

/*
 * Waits, natively, until no call is going on, and ends the pool's native threads: at
 * exit, for leak checkers. The pool may be used again. unet_resolve() uses the pool, too.
 */
void uoffload_drain(void);

/*
 * Files: as the system calls of these names; the result, or the negative error. Buffers
 * may be on the stack. A call given up before its turn is not made; but it may be using
 * `fd' for a moment more, so do not close that at once. What the system has in memory is
 * read without a native thread; then a read may be short before the end of the file, and
 * a thread that has read so for a millisecond yields.
 */
int     ufile_open(const char *path, int flags, mode_t mode, int64_t deadline);
ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline);
ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset,
		     int64_t deadline);
int     ufile_sync(int fd, int64_t deadline);
int     ufile_stat(const char *path, struct stat *status, int64_t deadline);

/* Private: see usched__forked(). */
void uoffload__forked(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OFFLOAD_H */
