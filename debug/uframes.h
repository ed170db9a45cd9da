/* SPDX-License-Identifier: MIT */
/*
 * uframes.h: the owner of an address on a stack, and access to the frames of blocked
 * threads: for debuggers, garbage collectors, checks. Programs that keep the rule of
 * ustack.h need none of it. While a thread is blocked, its frames are in place or in an
 * image on the heap, and their addresses may hold the frames of another thread.
 *
 * With -DUSCHED_CHECK, and so in libusched-check, the calls of usync.h, unet.h and
 * uoffload.h check the pointers that they are given:
 *
 *  - What threads share, such as a mutex, a group or a key, must not be on a stack on
 *    which threads run, not even on the caller's. Nor must the argument of a new thread,
 *    or a value that a channel is sent, if that is as large as a pointer.
 *  - What only the caller uses, such as a buffer, an address or a path, must not be in
 *    another thread's frames, nor in a stale part of a stack, nor on a stack of another
 *    processor.
 *
 * Frames on an own stack (h_stack, ustack.h) are good for both. A wrong pointer is
 * reported on standard error, with the call and the owner of the address, and the
 * program is aborted:
 *
 *	usched: usync_group_wait: shared object 0x7f8e4a27fe90 is in
 *	the frames of the thread that calls, 0x7f8e4a2a8100, function
 *	0x55d4ed2a2e10: threads move; put it on the heap, or make it static
 *
 * The first 64 words of an argument of uoffload(), of a value of a channel and of a block
 * of glibc's malloc(3) that is the argument of a new thread are looked through, and so
 * are the blocks that they point to. A word that is an address in frames is told, once
 * for each place of a call, and the program goes on: the word may be left from before.
 *
 * Stacks of native threads outside of usched_run() are not looked at, since they do not
 * move. A pointer into an evicted thread's frames that happens to be in the caller's
 * passes for one of the caller's.
 *
 * All calls are for the dispatcher's native thread, and none switches threads.
 */
#ifndef USCHED_FRAMES_H
#define USCHED_FRAMES_H

#include <stddef.h>

#include "../usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns the place of an address among the stacks of the dispatcher that runs on this
 * native thread; of nested ones, the innermost. Outside of usched_run() it is
 * USCHED_ELSEWHERE. `whose', unless NULL, gets the thread of MINE and THEIRS, else NULL.
 * The native stack is known as far down as threads have blocked on it, and in the frames
 * of the running thread; the rest of it is ELSEWHERE, and so are the native stacks of
 * other processors. The owner of a REMOTE address may change meanwhile.
 * Not for signal handlers.
 */
enum usched_place usched_onstack(const void *address, struct ustack **whose);

/*
 * Calls f(arg) below the top of a blocked thread, with its frames in place: f() can read
 * the thread's locals at their addresses, and backtrace(3) and other unwinders find the
 * call that has blocked it above f(). What f() writes to the frames may be lost.
 * ustack_self() is `u' there. `f' must not block, start or wake threads, throw, or leave
 * by longjmp(3), and `arg' is not in the frames of the caller, which blocks meanwhile. No
 * other thread runs. Another thread of the stack may be evicted for it. After an error
 * nothing was called.
 * 0; -EPERM: the caller is no thread; -EINVAL: `u' is new, has ended, or is of another
 * dispatcher; -EBUSY: it is the caller; -ENOSPC: there is less than USTACK_VISIT_ROOM
 * below its top; -ENOMEM, -EFAULT as ustack_block().
 * By a thread of the dispatcher.
 */
int ustack_visit(struct ustack *u, void (*f)(void *), void *arg);

#if defined(USCHED_ASAN) || defined(USCHED_TSAN)
#define USTACK_VISIT_ROOM ((size_t)64 << 10)    /* bytes: they make frames larger */
#else
#define USTACK_VISIT_ROOM ((size_t)16 << 10)    /* bytes: an unwinder and a signal */
#endif

/*
 * Returns the address to which the call that blocked a thread will return. In builds
 * without optimization (gcc: below -O2), or for size, that is in the library: in
 * ustack_block(), or in the rest of ustack_wait() and the like. With it, it is in the
 * program, unless the thread waits in usync.h, unet.h or a join, or has exceptions of
 * C++ in flight. NULL: it is running, is new, has ended; or with the portable switch,
 * always.
 */
const void *ustack_where(const struct ustack *u);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_FRAMES_H */
