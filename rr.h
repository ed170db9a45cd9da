/* SPDX-License-Identifier: MIT */
/*
 * rr.h: a round-robin scheduler. Threads are spread over processors. Each processor has a
 * queue, first in, first out: a thread that is woken, started, or yields runs after all
 * that were ready on its processor before it. Nothing starves, unless a thread never
 * gives up its processor. A thread that finds a token whenever it waits does not block.
 *
 *	struct rr *rr;
 *	struct ustack *thread;
 *
 *	rr_create(NULL, &rr);
 *	rr_start(rr, work, arg, &thread);
 *	ustack_join(thread, USCHED_NEVER);
 *	rr_destroy(rr);
 *
 * What threads do, and what is done to them, is in ustack.h.
 */
#ifndef USCHED_RR_H
#define USCHED_RR_H

#include "usched_conf.h"
#include "ustack.h"
#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#define rr_create USCHED_BUILD(rr_create)

struct rr;

/*
 * Makes a scheduler; its processors are started, and idle. conf is copied; NULL stands
 * for zeros.
 * 0; -EINVAL: a stack below 8 KiB or above 1 GiB, an image above 64 KiB, or more than
 * INT_MAX processors; -ENOMEM; -EAGAIN: no more native threads; -ENOTSUP: see
 * usched_init(); with c_embed also -EMFILE, -ENFILE, -ENOSPC, and -ENOTSUP if the program
 * has no uevents.c.
 * From any native thread. The caller owns *rr until rr_destroy(). An error sets it to
 * NULL, as those of all calls that make an object do.
 */
int rr_create(const struct usched_conf *conf, struct rr **rr);

/*
 * Waits until all threads have ended, and frees `rr' and everything in it.
 * 0; -EDEADLK: the threads that are left wait and nothing can wake them; they were
 * reported and aborted, everything is freed nevertheless; or, with nothing done:
 * -EPERM: called by a thread, or while another native thread joins a thread of `rr' or
 * destroys `rr'; -EINVAL, -EBUSY as ustack_join().
 * From any native thread. No other may use `rr' or its threads any more, unless it holds
 * `rr'.
 */
int rr_destroy(struct rr *rr);

/*
 * Starts a thread that runs func(arg). The first few are spread over the processors in
 * turn. Later up to 32 starts in a row go to one processor, since threads that are
 * started together often work together, and each run to where there is less to do. With
 * a non-NULL `thread', *thread is the handle, set before the thread runs, and the thread
 * is to be joined or detached. With NULL it is detached.
 * 0; -ENOMEM: there is no such thread then; -EINVAL: func is NULL.
 * From any native thread, in a thread or not. Does not switch.
 */
int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread);

/*
 * The same for a thread that runs func(fd, arg), such as a connection. fd is the thread's
 * to close; after an error it is the caller's.
 * Besides, -EINVAL: fd is negative or INT_MAX.
 */
int rr_start_fd(struct rr *rr, void (*func)(int fd, void *arg), int fd, void *arg,
		struct ustack **thread);

/*
 * As rr_start(), for a thread with a stack of its own, or an error:
 * ustack_start_alone().
 */
int rr_start_alone(struct rr *rr, size_t stack, void (*func)(void *), void *arg,
		   struct ustack **thread);

/*
 * The first two on processor number `on', from 0 on, or beside the calling thread:
 * USCHED_BESIDE. Threads that work together wake each other fastest there. It stays on
 * that processor: ustack_stay().
 * Besides, -EINVAL: there is no such processor, or the caller is no thread of `rr'.
 */
int rr_start_on(struct rr *rr, unsigned on, void (*func)(void *), void *arg,
		struct ustack **thread);
int rr_start_fd_on(struct rr *rr, unsigned on, void (*func)(int fd, void *arg), int fd,
		   void *arg, struct ustack **thread);

/*
 * Between the two, a native thread may wake or start threads while others join or
 * destroy: waiting threads are not taken for deadlocked, and `rr' is not destroyed. Holds
 * nest and add up. The threads of another scheduler count as such native threads.
 * From any native thread. Do not switch.
 */
void rr_hold(struct rr *rr);
void rr_release(struct rr *rr);

/*
 * With c_embed, for a loop of the program: runs what is ready, for about a millisecond at
 * most if threads give way, and does not sleep. When poll(2) finds the descriptor
 * readable that this returns, call rr_run() again. Timers and descriptors make it
 * readable, and threads that were started or woken by other native threads. Starts and
 * wakes by the loop's own native thread do not: call rr_run() after them. ustack_join()
 * and rr_destroy(), from that native thread, run and sleep themselves. The descriptor,
 * the same each time; -EINVAL: not c_embed, or on the native stack at another depth than
 * before, see usched_run(); -EBUSY: it is running; -EMFILE, -ENFILE, -ENOMEM: no
 * descriptor could be made; -ENOTSUP: the library was built for poll(2), and there is
 * none; what was ready was run.
 * From one native thread at a time, not from a thread of `rr'. Switches.
 */
int rr_run(struct rr *rr);

/*
 * The counters of all processors added up (s_deepest: the largest).
 * From any native thread. Does not switch.
 */
void rr_stats(struct rr *rr, struct usched_stats *out);

/*
 * Gives memory that no thread needs back to the system: images, records and stacks, which
 * keep their addresses. Without this call, that happens some seconds after a peak, in
 * idle time. Here what all processors share goes back before it returns, which takes a
 * millisecond for some ten thousand threads that have ended. What a processor has for
 * itself goes back soon, in small steps; with c_embed in rr_run(); if the caller is one
 * of its threads, before it returns.
 * From any native thread. Does not switch.
 */
void rr_trim(struct rr *rr);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_RR_H */
