/* SPDX-License-Identifier: MIT */
/*
 * ll.h: a local scheduler. Threads that have to do with each other form a group,
 * and a group lives on one processor: what its threads do to each other takes
 * no lock and no atomic instruction, and a thread that is woken by one of its
 * processor runs next, while what they share is in the cache.
 *
 *	struct ll *ll;
 *	struct ll_group *group;
 *	struct ustack *thread;
 *
 *	ll_create(&ll, NULL);
 *	group = ll_group(ll);
 *	ll_start(ll, group, work, arg, &thread);
 *	ll_join(thread);
 *	ll_destroy(ll);
 *
 * Every LL_BOUND-th dispatch of a processor is all the same that of the thread
 * which waits longest in its queue, so nothing starves: the n-th in the queue
 * runs after n * LL_BOUND dispatches at most. Threads that are started, yield, or are woken
 * from another native thread or by time or a descriptor queue up at the end; so does the
 * one that would have run next.
 *
 * Threads, tokens, handles, errors and deadlocks are as in rr.h.
 */
#ifndef USCHED_LL_H
#define USCHED_LL_H

#include "uconf.h"
#include "utoken.h"
#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ll_create USCHED_BUILD(ll_create)

struct ll;
struct ll_group;

/* Private: the rest of ll_wait() and ll_wake(). */
int ll__wait(struct ustack *self);
int ll__wake(struct ustack *thread);

/*
 * A switch to a thread that is out of the cache costs as much as many to one that
 * is in it. If a dispatch is a microsecond's work, the bound is a millisecond: a
 * tenth of the time slice that threads which run next share in Go.
 */
enum { LL_BOUND = 1024 };

/* As rr_create(). */
int ll_create(struct ll **ll, const struct usched_conf *conf);

/* As rr_destroy(). */
int ll_destroy(struct ll *ll);

/*
 * A new group, on the next processor in turn. It is a part of `ll' and ends
 * with it. From any native thread, in a thread or not. Does not switch.
 */
struct ll_group *ll_group(struct ll *ll);

/*
 * Starts a thread of `group' that runs func(arg); with a NULL group, of the
 * calling thread's group, or if the caller is no thread of `ll', of a new one.
 * With a non-NULL `thread', *thread is its handle, set before it runs, and the
 * thread is to be joined or detached; with NULL it is detached.
 * 0; -ENOMEM: there is no such thread then; -EINVAL: func is NULL.
 * From any native thread, in a thread or not. Does not switch.
 */
int ll_start(struct ll *ll, struct ll_group *group, void (*func)(void *),
	     void *arg, struct ustack **thread);

/* As rr_join(). From a thread: switches. */
int ll_join(struct ustack *thread);

/* As rr_detach(). Does not switch. */
int ll_detach(struct ustack *thread);

/* As rr_wait(). Switches. */
USCHED_INLINE int ll_wait(void)
{
	struct ustack *self = usched__here()->s_current;
	int rc = utoken_take(self) ? 0 : ll__wait(self);

	return rc ? utoken_stay(rc) : 0;
}

/*
 * Gives `thread' a token: wakes it, if it waits for one. A thread of the same
 * processor then runs next, when the caller blocks, but for the bound; of
 * several woken, the last.
 * 0; -ESRCH, -EOVERFLOW as rr_wake().
 * From any native thread, in a thread or not, but for signal handlers. Does not
 * switch.
 */
USCHED_INLINE int ll_wake(struct ustack *thread)
{
	if (ustack_sched(thread) != usched__here())
		return utoken_send(thread);
	return utoken_give(thread) ? 0 : ll__wake(thread);
}

/* As rr_yield(). Switches. */
int ll_yield(void);

/* As rr_hold() and rr_release(). Do not switch. */
void ll_hold(struct ll *ll);
void ll_release(struct ll *ll);

/* As rr_run(). */
int ll_run(struct ll *ll);

/* As rr_stats(). Does not switch. */
void ll_stats(struct ll *ll, struct usched_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_LL_H */
