/* SPDX-License-Identifier: MIT */
/*
 * rr.h: a round-robin scheduler. Threads are spread over processors, native threads of
 * its own. Each processor has a queue, first in, first out: a thread that is woken,
 * started, or yields runs after all that were ready on its processor before it. Nothing
 * starves, unless a thread never gives up its processor. A thread that finds a token
 * whenever it waits does not block. A processor with nothing to run gets threads of
 * others that have not run yet, and with c_steal more.
 *
 *	struct rr *rr;
 *	struct ustack *thread;
 *
 *	rr_create(NULL, &rr);
 *	rr_start(rr, work, arg, &thread);
 *	ustack_join(thread, USCHED_NEVER);
 *	rr_destroy(rr);
 *
 * What threads do, and what is done to them, is in ustack.h. Locks, channels and time
 * are in usync.h, sockets in unet.h, files in uoffload.h.
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
 * Makes a scheduler; its processors are started, and idle. `conf' is copied; NULL stands
 * for zeros, which are the defaults. The caller owns *rr until rr_destroy(). An error
 * sets it to NULL, as those of all calls that make an object do.
 * 0; -EINVAL: a stack below 8 KiB or above 1 GiB, an image above 64 KiB, more than
 * INT_MAX processors, c_slice or c_stall below its least value, or no such c_signal;
 * -ENOMEM: no memory, address space or mappings; -EAGAIN: no more native threads;
 * -ENOTSUP: see usched_init(), or the program has no uevents.c, with c_embed, or no
 * upreempt.c, with c_slice or c_stall; -EMFILE, -ENFILE, -ENOSPC: with c_embed, no
 * descriptors left, or no epoll interest.
 * From any native thread. Does not switch.
 */
int rr_create(const struct usched_conf *conf, struct rr **rr);

/*
 * Waits until all threads have ended, stops the processors, and frees `rr' and
 * everything in it. No other native thread may use `rr' or its threads any more, unless
 * it holds `rr'.
 * 0; -EDEADLK: the threads that are left wait and nothing can wake them; they were
 * reported and aborted, everything is freed nevertheless; -EPERM: called by a thread, or
 * while another native thread joins a thread of `rr' or destroys `rr'; nothing was done;
 * -EINVAL, -EBUSY as ustack_join().
 * From any native thread, which it blocks.
 */
int rr_destroy(struct rr *rr);

/*
 * Starts a thread that runs func(arg). The first few are spread over the processors in
 * turn. Later up to 32 starts in a row go to one processor, since threads that are
 * started together often work together, and each such run to where there is less to do.
 * With a non-NULL `thread', *thread is the handle, set before the thread runs, and the
 * thread is to be joined or detached. With NULL it is detached.
 * 0; -ENOMEM: there is no such thread then; -EINVAL: `func' is NULL.
 * From any native thread, in a thread or not. Does not switch.
 */
int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread);

/*
 * As rr_start(), for a thread that runs func(fd, arg), such as a connection. `fd' is the
 * thread's to close; after an error it is the caller's.
 * 0; -EINVAL also: `fd' is negative or INT_MAX; -ENOMEM.
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
 * As rr_start() and rr_start_fd(), on processor number `on', from 0 on, or with
 * USCHED_BESIDE on that of the calling thread. Threads that work together wake each
 * other fastest there. The thread stays on that processor, as after ustack_stay().
 * 0; -EINVAL also: there is no such processor, or the caller is no thread of `rr';
 * -ENOMEM.
 */
int rr_start_on(struct rr *rr, unsigned on, void (*func)(void *), void *arg,
		struct ustack **thread);
int rr_start_fd_on(struct rr *rr, unsigned on, void (*func)(int fd, void *arg), int fd,
		   void *arg, struct ustack **thread);

/*
 * Between the two, a native thread may wake or start threads while others join or
 * destroy: waiting threads are not taken for deadlocked, and `rr' is not destroyed.
 * Holds nest and add up. The threads of another scheduler count as such native threads.
 * After the last release another native thread, in rr_destroy(), may free `rr'.
 * From any native thread, in a thread or not. Do not switch.
 */
void rr_hold(struct rr *rr);
void rr_release(struct rr *rr);

/*
 * Runs what is ready, with c_embed, for a loop of the program: for about a millisecond
 * at most if threads give way, and does not sleep. When poll(2) finds the descriptor
 * readable that this returns, call rr_run() again. Timers and descriptors make it
 * readable, and threads that were started or woken by other native threads. Starts and
 * wakes by the loop's own native thread do not: call rr_run() after them. ustack_join()
 * and rr_destroy(), from that native thread, run and sleep themselves.
 * Returns the descriptor, the same each time; -EINVAL: not c_embed, or on the native
 * stack at another depth than before, see usched_run(); -EBUSY: it is running; -EMFILE,
 * -ENFILE, -ENOMEM: no descriptor could be made, and what was ready was run; -ENOTSUP:
 * the library was built for poll(2), so there is none, and what was ready was run.
 * From one native thread at a time, not from a thread of `rr'. Switches.
 */
int rr_run(struct rr *rr);

/*
 * Sets *out to the counters of all processors added up (s_deepest: the largest).
 * From any native thread. Does not switch.
 */
void rr_stats(struct rr *rr, struct usched_stats *out);

/*
 * Gives memory that no thread needs back to the system: images, records and stacks,
 * which keep their addresses. Without this call, that happens some seconds after a peak,
 * in idle time. It cannot fail: what the system does not take stays for later threads.
 * What all processors share goes back before it returns, which takes a millisecond for
 * some ten thousand threads that have ended. What a processor has for itself goes back
 * soon, in small steps; with c_embed in rr_run(); if the caller is one of its threads,
 * before it returns.
 * From any native thread, not in a signal handler. Does not switch.
 */
void rr_trim(struct rr *rr);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_RR_H */
