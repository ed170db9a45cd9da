/* SPDX-License-Identifier: MIT */
/*
 * ll.h: a local scheduler. Threads that work together form a group. A group lives on one
 * processor, so its threads never run at the same time. What they do to each other takes
 * no lock and no atomic instruction. If a thread is woken on its own processor, it runs
 * next, while the data that the two threads share is in the cache.
 *
 *	struct uprocs *ll;
 *	struct ll_group *group;
 *	struct ustack *thread;
 *
 *	ll_create(NULL, &ll);
 *	group = ll_group(ll, 0);
 *	ll_start(group, work, arg, &thread);
 *	ustack_join(thread, NULL, USCHED_NEVER);
 *	uprocs_destroy(ll, USCHED_NEVER);
 *
 * After LL_BOUND dispatches, or about four milliseconds if that is sooner, a processor
 * runs the thread that has waited longest in its queue. So no thread starves: the n-th
 * thread in the queue runs after n * LL_BOUND dispatches at most. These threads go to the
 * end of the queue: threads that are started, or yield; threads that are woken by another
 * native thread, by a timer or by a descriptor; and a thread that was to run next, if
 * another thread takes its place. If a thread gets a lock or a value of usync.h from
 * another thread, it runs next, too.
 *
 * The calls of threads, and those that act on threads, are in ustack.h. Deadlocks,
 * embedding, memory and SINGLE_THREAD are as with rr.
 */
#ifndef USCHED_LL_H
#define USCHED_LL_H

#include "uprocs.h"
#include "ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ll_create USCHED_BUILD(ll_create)

struct ll_group;

/*
 * One switch to a thread that is out of the cache takes as long as many switches to
 * threads in the cache. If threads work for a microsecond per dispatch, the bound is half
 * a millisecond. In Go, threads that run next share a slice of ten milliseconds.
 */
enum { LL_BOUND = 512 };

/*
 * Makes a scheduler, as rr_create().
 * Returns what rr_create() returns.
 * From any native thread. Does not switch.
 */
int ll_create(const struct uprocs_conf *conf, struct uprocs **ll);

/*
 * Returns a group of `ll'. The group exists as long as `ll'. `processor' is as for
 * h_processor (ustack.h). With 0 the processors take turns, and the call cannot fail.
 * Groups may share a processor. With USCHED_BESIDE the result is the group of the calling
 * thread. NULL: there is no such processor, or the caller is no thread of `ll'. From a
 * thread, or from any native thread. Does not switch.
 */
struct ll_group *ll_group(struct uprocs *ll, unsigned processor);

/*
 * Starts a thread of `group' that runs func(arg). `thread' is as in rr_start(). To start
 * a thread of its own group, a thread may also call ustack_start().
 * Returns what rr_start() returns.
 * From a thread, or from any native thread. Does not switch.
 */
int ll_start(struct ll_group *group, void (*func)(void *), void *arg,
	     struct ustack **thread);

/*
 * As ll_start(), for a thread with the properties in `how' (ustack.h). h_processor must
 * be 0, since the group has its processor.
 * 0; an error of rr_start() or ustack_start_with().
 * From a thread, or from any native thread. Does not switch.
 */
int ll_start_with(struct ll_group *group, const struct ustack_how *how,
		  void (*func)(void *), void *arg, struct ustack **thread);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LL_H */
