/* SPDX-License-Identifier: MIT */
/*
 * ll.h: a local scheduler. Threads that work together form a group. A group lives on one
 * processor: what its threads do to each other takes no lock and no atomic instruction,
 * and a thread that is woken on its own processor runs next, while what they share is in
 * the cache.
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
 * Every LL_BOUND-th dispatch of a processor is that of the thread that has waited longest
 * in its queue, and an earlier one if they take long: about every four milliseconds. So
 * nothing starves: the n-th in the queue runs after n * LL_BOUND dispatches at most.
 * Threads that are started, yield, or are woken by another native
 * thread, by time or by a descriptor go to the end of the queue, and so does a thread
 * that would have run next when another takes its place.
 *
 * What threads do, and what is done to them, is in ustack.h.
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

/* As rr_create(). */
int ll_create(const struct usched_conf *conf, struct ll **ll);

/* As rr_destroy(). */
int ll_destroy(struct ll *ll);

/*
 * A new group, on the next processor in turn. It is a part of `ll' and ends
 * with it. From any native thread, in a thread or not. Does not switch.
 */
struct ll_group *ll_group(struct ll *ll);

/*
 * A group on processor number `on', from 0 on, or with USCHED_BESIDE on the calling
 * thread's. NULL: there is no such processor, or the caller is no thread of `ll'.
 * From any native thread. Does not switch.
 */
struct ll_group *ll_group_on(struct ll *ll, unsigned on);

/*
 * Starts a thread of `group' that runs func(arg). With a NULL group it is of the calling
 * thread's group or, if the caller is no thread of `ll', of a new one. `thread' and
 * errors are as in rr_start().
 * From any native thread, in a thread or not. Does not switch.
 */
int ll_start(struct ll *ll, struct ll_group *group, void (*func)(void *),
	     void *arg, struct ustack **thread);

/* The same for a thread that runs func(fd, arg), as rr_start_fd(). */
int ll_start_fd(struct ll *ll, struct ll_group *group, void (*func)(int fd, void *arg),
		int fd, void *arg, struct ustack **thread);

/* As ll_start(), with a stack of its own, or an error: ustack_start_alone(). */
int ll_start_alone(struct ll *ll, struct ll_group *group, size_t stack,
		   void (*func)(void *), void *arg, struct ustack **thread);

/* As rr_hold() and rr_release(). Do not switch. */
void ll_hold(struct ll *ll);
void ll_release(struct ll *ll);

/* As rr_run(). */
int ll_run(struct ll *ll);

/* As rr_stats(). Does not switch. */
void ll_stats(struct ll *ll, struct usched_stats *out);

/* As rr_trim(). Does not switch. */
void ll_trim(struct ll *ll);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LL_H */
