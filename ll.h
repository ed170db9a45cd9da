/* SPDX-License-Identifier: MIT */
/*
 * ll.h: a local scheduler. Threads that work together form a group. A group lives on one
 * processor, and its threads never run at the same time: what they do to each other
 * takes no lock and no atomic instruction, and a thread that is woken on its own
 * processor runs next, while what they share is in the cache.
 *
 *	struct ll *ll;
 *	struct ll_group *group;
 *	struct ustack *thread;
 *
 *	ll_create(NULL, &ll);
 *	group = ll_group(ll);
 *	ll_start(ll, group, work, arg, &thread);
 *	ustack_join(thread, USCHED_NEVER);
 *	ll_destroy(ll);
 *
 * Every LL_BOUND-th dispatch of a processor is that of the thread that has waited
 * longest in its queue, and an earlier one if they take long: about every four
 * milliseconds. So nothing starves: the n-th in the queue runs after n * LL_BOUND
 * dispatches at most. To the end of the queue go threads that are started, yield, or are
 * woken by another native thread, by time or by a descriptor, and a thread that would
 * have run next when another one takes its place. A thread that is handed a lock or a
 * value of usync.h runs next, too.
 *
 * What threads do, and what is done to them, is in ustack.h. Deadlocks, embedding,
 * memory and SINGLE_THREAD are as in rr.h.
 */
#ifndef USCHED_LL_H
#define USCHED_LL_H

#include "usched_conf.h"
#include "ustack.h"
#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ll_create USCHED_BUILD(ll_create)

struct ll;
struct ll_group;

/*
 * A switch to a thread that is out of the cache costs as much as many to one that
 * is in it. If a dispatch is a microsecond's work, the bound is a millisecond: a
 * tenth of the time slice that threads which run next share in Go.
 */
enum { LL_BOUND = 512 };

/*
 * Makes a scheduler, as rr_create().
 * Returns what rr_create() returns.
 * From any native thread. Does not switch.
 */
int ll_create(const struct usched_conf *conf, struct ll **ll);

/*
 * Ends a scheduler, as rr_destroy().
 * Returns what rr_destroy() returns.
 * From any native thread, not from a thread. Blocks the native thread.
 */
int ll_destroy(struct ll *ll);

/*
 * Returns a new group, on the next processor in turn. It is a part of `ll' and ends with
 * it. Groups may share a processor. The call cannot fail.
 * From any native thread, in a thread or not. Does not switch.
 */
struct ll_group *ll_group(struct ll *ll);

/*
 * Returns a group on processor number `on', from 0 on, or with USCHED_BESIDE on the
 * calling thread's. NULL: there is no such processor, or the caller is no thread of
 * `ll'.
 * From any native thread. Does not switch.
 */
struct ll_group *ll_group_on(struct ll *ll, unsigned on);

/*
 * Starts a thread of `group' that runs func(arg). With a NULL group it is of the calling
 * thread's group or, if the caller is no thread of `ll', of a new one. `thread' is as in
 * rr_start().
 * Returns what rr_start() returns.
 * From any native thread, in a thread or not. Does not switch.
 */
int ll_start(struct ll *ll, struct ll_group *group, void (*func)(void *),
	     void *arg, struct ustack **thread);

/* As ll_start(), for a thread that runs func(fd, arg), and as rr_start_fd(). */
int ll_start_fd(struct ll *ll, struct ll_group *group, void (*func)(int fd, void *arg),
		int fd, void *arg, struct ustack **thread);

/* As ll_start(), with a stack of its own, or an error: ustack_start_alone(). */
int ll_start_alone(struct ll *ll, struct ll_group *group, size_t stack,
		   void (*func)(void *), void *arg, struct ustack **thread);

/*
 * As rr_hold() and rr_release().
 * From any native thread, in a thread or not. Do not switch.
 */
void ll_hold(struct ll *ll);
void ll_release(struct ll *ll);

/*
 * Runs what is ready, as rr_run().
 * Returns what rr_run() returns.
 * From one native thread at a time, not from a thread of `ll'. Switches.
 */
int ll_run(struct ll *ll);

/*
 * As rr_stats().
 * From any native thread. Does not switch.
 */
void ll_stats(struct ll *ll, struct usched_stats *out);

/*
 * As rr_trim().
 * From any native thread, not in a signal handler. Does not switch.
 */
void ll_trim(struct ll *ll);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LL_H */
