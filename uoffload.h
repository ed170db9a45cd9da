/* SPDX-License-Identifier: MIT */
/*
 * uoffload.h: calls that block natively, made by a pool of native threads, so that a
 * processor can run other threads meanwhile: files, name lookups, other libraries.
 *
 * The pool is one for the process. A native thread is added when a call finds none idle
 * and there are fewer than the bound; calls beyond queue up, first in, first out. It
 * ends when it was idle for ten seconds. All signals are blocked there. A call that was
 * given up (deadline, cancel) is made nevertheless. What is called must not call these
 * functions: with all of the pool waiting for the pool nothing would go on. Not for
 * SINGLE_THREAD.
 *
 * Deadlines and errors as in usync.h.
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

enum { UOFFLOAD_THREADS = 64 };         /* the bound, unless it is set */

/*
 * Has a native thread call func(argument) and waits for it. What `argument' points to is
 * a copy of the `size' bytes at `argument', which may be on the stack: func gets the
 * copy, and the caller's is overwritten by it in the end. Neither may have pointers to a
 * thread's stack. When it fails, drop(copy), unless NULL, is called, once, and `argument'
 * is left alone: after func, if the caller does not wait to the end (deadline, cancel), or
 * at once, by the caller, if func will not be called.
 * 0; besides, -EAGAIN: no native thread could be started, and there is none.
 */
int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline);

/*
 * Sets the bound. Native threads beyond it end when they are idle. 0; -EINVAL: it is 0.
 */
int uoffload_limit(unsigned threads);

/* Waits, natively, until no call is going on, and ends the pool's native threads: before exit, if
 * that matters. The pool may be used again. */
void uoffload_drain(void);

/*
 * Files, as the system calls of these names; what they return, or the negative error.
 * Buffers may be on the stack. What was given up before its turn is not done; but `fd' may
 * be in use for a moment more, so do not close it at once. What the system has in memory is
 * read without a native thread; then less than asked for may be read though the file does
 * not end there.
 */
int     ufile_open(const char *path, int flags, mode_t mode, int64_t deadline);
ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline);
ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset, int64_t deadline);
int     ufile_sync(int fd, int64_t deadline);
int     ufile_stat(const char *path, struct stat *status, int64_t deadline);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OFFLOAD_H */
