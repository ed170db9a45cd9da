/* SPDX-License-Identifier: MIT */
/*
 * rr.h: a round-robin scheduler. Threads are spread over processors, which are native
 * threads of the scheduler. Each processor has a queue, first in, first out. A thread
 * enters the queue when it is woken or started, and when it yields; it runs after all
 * threads that were in the queue before. Nothing starves, unless a thread never gives up
 * its processor. If a thread finds a token whenever it waits, it does not block. Unless
 * c_stay is set, a processor with nothing to run gets threads of other processors, and
 * threads that wake each other come together on one processor.
 *
 *	struct uprocs *rr;
 *	struct ustack *thread;
 *
 *	rr_create(NULL, &rr);
 *	rr_start(rr, work, arg, &thread);
 *	ustack_join(thread, NULL, USCHED_NEVER);
 *	uprocs_destroy(rr, USCHED_NEVER);
 *
 * The calls of threads, and those that act on threads, are in ustack.h. Locks, channels
 * and time are in usync.h, sockets in unet.h, files in uoffload.h.
 */
#ifndef USCHED_RR_H
#define USCHED_RR_H

#include "uprocs.h"
#include "ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define rr_create USCHED_BUILD(rr_create)

/*
 * Makes a scheduler; its processors are started, and idle. `conf' is copied; NULL stands
 * for zeros, which are the defaults. The caller owns *rr until uprocs_destroy(). After
 * an error *rr is NULL; that holds for all calls that make an object.
 * 0; -EINVAL: a stack below 8 KiB or above 1 GiB, an image above 64 KiB, more than
 * INT_MAX processors, or c_slice or c_stall below its least value;
 * -ENOMEM: no memory, address space or mappings; -EAGAIN: no more native threads;
 * -ENOTSUP: see usched_init(), c_tls; -EMFILE, -ENFILE, -ENOSPC: c_embed, no descriptors
 * or epoll interests are left.
 * From any native thread. Does not switch.
 */
int rr_create(const struct uprocs_conf *conf, struct uprocs **rr);

/*
 * Starts a thread that runs func(arg). The first few starts go to all processors in turn.
 * Later up to 32 starts in a row go to one processor with less to do, since threads that
 * are started together often work together.
 * If `thread' is not NULL, *thread is set to the handle before the thread runs, and the
 * thread must be joined or detached. If `thread' is NULL, the thread is detached.
 * 0; -ENOMEM: no memory, and no thread was started; -EINVAL: `func' is NULL.
 * From a thread, or from any native thread. Does not switch.
 */
int rr_start(struct uprocs *rr, void (*func)(void *), void *arg, struct ustack **thread);

/*
 * As rr_start(), for a thread with the properties in `how' (ustack.h).
 * 0; an error of rr_start() or ustack_start_with().
 * From a thread, or from any native thread. Does not switch.
 */
int rr_start_with(struct uprocs *rr, const struct ustack_how *how, void (*func)(void *),
		  void *arg, struct ustack **thread);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_RR_H */
