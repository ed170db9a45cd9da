/* SPDX-License-Identifier: MIT */
/*
 * rr.h: a round-robin scheduler. Threads are spread over processors, each with
 * a queue of its own, and every queue is first in, first out: a thread that is
 * woken, started, or yields runs after all that were ready on its processor
 * before it. Nothing starves, unless a thread never gives up its processor: one
 * that finds a token whenever it waits does not block.
 *
 *	struct rr *rr;
 *	struct ustack *thread;
 *
 *	rr_create(&rr, NULL);
 *	rr_start(rr, work, arg, &thread);
 *	rr_join(thread);
 *	rr_destroy(rr);
 *
 * A thread ends when its function returns, and is then freed by the scheduler:
 * at once when it is detached, else when it is joined or the scheduler is
 * destroyed. Waits and wakes go by tokens: a wake gives a thread one token, a
 * wait takes one and blocks as long as there is none. So a wake that comes
 * before the wait is not lost, and several wakes count as several, up to 2^31 - 1.
 *
 * A handle (struct ustack *) is good until the thread was joined or, once it is
 * detached, has ended. To use one later is a mistake that finds an error (-ESRCH,
 * or -EINVAL from join and detach) or, if the record has a new thread, that
 * thread; it is no access to freed memory before rr_destroy().
 *
 * Functions that block take threads of rr, or native threads where it says so,
 * and return 0 or a negative errno value. See usched.h for what a thread may
 * not do: to hand out pointers into its stack.
 */
#ifndef USCHED_RR_H
#define USCHED_RR_H

#include "uconf.h"
#include "utoken.h"
#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

#define rr_create USCHED_BUILD(rr_create)

struct rr;

/* Private: the rest of rr_wait() and rr_wake(). */
int rr__wait(struct ustack *self);
int rr__wake(struct ustack *thread);

/*
 * Makes a scheduler, with its processors started and idle; conf is copied, NULL
 * stands for zeros.
 * 0; -EINVAL: a stack below 8 KiB or above 1 GiB, an image above 64 KiB, or
 * more than INT_MAX processors; -ENOMEM; -EAGAIN: no more native threads;
 * -ENOTSUP: see usched_init(); with c_embed also -EMFILE, -ENFILE, and -ENOTSUP if the
 * program has no uevents.c.
 * From any native thread. The caller owns *rr until rr_destroy().
 */
int rr_create(struct rr **rr, const struct usched_conf *conf);

/*
 * Waits until all threads have ended, and frees `rr' and everything in it.
 * 0; -EDEADLK: the threads that are left wait and nobody can wake them; they
 * were reported and aborted, everything is freed nevertheless; or, with nothing
 * done: -EPERM: called by a thread, or while another native thread is in
 * rr_join() or rr_destroy(); -EINVAL, -EBUSY as rr_join().
 * From any native thread. Others must not use `rr' or its threads any more,
 * unless they hold it.
 */
int rr_destroy(struct rr *rr);

/*
 * Starts a thread that runs func(arg). The first few are spread over the processors in
 * turn; the more there are, the more that are started one after the other are put on
 * one processor, for those who have to do with each other are often among them. With a
 * non-NULL `thread', *thread is its handle, set before it runs, and the thread
 * is to be joined or detached; with NULL it is detached.
 * 0; -ENOMEM: there is no such thread then; -EINVAL: func is NULL.
 * From any native thread, in a thread or not. Does not switch.
 */
int rr_start(struct rr *rr, void (*func)(void *), void *arg,
	     struct ustack **thread);

/*
 * Waits until `thread' has ended, and frees it. Tokens that arrive meanwhile
 * stay. One may join a thread, once.
 * 0; -EINVAL: it is detached, or somebody joins it already; -EDEADLK: it is the
 * caller, or all threads wait, every native thread that could wake one is in
 * rr_join() or rr_destroy() itself, and none holds `rr'. The threads were
 * reported. Of those who join then, threads of rr are told, and if there are
 * none, native threads; `thread' is still there; -ENOMEM, -EFAULT as rr_wait().
 * With SINGLE_THREAD or c_embed: -EINVAL on the native stack, where threads live, see
 * usched_run(); -EBUSY: it is running.
 * From a thread: switches. From any other native thread, with c_embed only the one that
 * has the loop: blocks that.
 */
int rr_join(struct ustack *thread);

/*
 * Has `thread' freed when it ends.
 * 0; -EINVAL: it is detached, or somebody joins it.
 * From any native thread. Does not switch.
 */
int rr_detach(struct ustack *thread);

/*
 * Takes a token of the calling thread; blocks until there is one.
 * 0; -ENOMEM: no image for the caller; -EPERM: not called by a thread; -EFAULT:
 * see ustack_block(), which is the same but for that it goes through the
 * scheduler even when there is a token. Switches.
 */
USCHED_INLINE int rr_wait(void)
{
	struct ustack *self = usched__here()->s_current;
	int rc = utoken_take(self) ? 0 : rr__wait(self);

	return rc ? utoken_stay(rc) : 0;
}

/*
 * Gives `thread' a token: wakes it, if it waits for one.
 * 0; -ESRCH: it has ended; -EOVERFLOW: it has 2^31 - 1 tokens; while it is in
 * rr_join(), 2^27 - 1 new ones; or of those from other native threads, 2^27 - 1
 * that its processor has not taken in yet. What finds no place when these are
 * added up is lost.
 * From any native thread, in a thread or not, but for signal handlers. Does not
 * switch.
 */
USCHED_INLINE int rr_wake(struct ustack *thread)
{
	if (ustack_sched(thread) != usched__here())
		return utoken_send(thread);
	return utoken_give(thread) ? 0 : rr__wake(thread);
}

/*
 * Lets all that are ready on this processor run first.
 * 0; -ENOMEM, -EPERM, -EFAULT as rr_wait(). Switches.
 */
int rr_yield(void);

/*
 * Between the two, a native thread may wake threads or start some while
 * others are in rr_join() or rr_destroy(): what waits is not taken for
 * deadlocked, and `rr' is not destroyed. They nest and add up. The threads of
 * another scheduler count as such native threads.
 * From any native thread. Do not switch.
 */
void rr_hold(struct rr *rr);
void rr_release(struct rr *rr);

/*
 * With c_embed, for somebody else's event loop: runs what is ready, for about a
 * millisecond at most if threads give way, and does not sleep.
 * Returns a descriptor; when poll(2) finds it readable, call rr_run() again. Threads
 * that were started or woken from other native threads, timers and descriptors make it
 * readable; not so what the loop's own native thread does, which should call rr_run()
 * thereafter. rr_join() and rr_destroy(), from that native thread, run and sleep
 * themselves.
 * The descriptor, the same each time; -EINVAL: not c_embed, or on the native stack at
 * another depth than before, see usched_run(); -EBUSY: it is running; -EMFILE,
 * -ENFILE, -ENOMEM: no descriptor could be made; what was ready was run.
 * From one native thread at a time, not from a thread of `rr'. Switches.
 */
int rr_run(struct rr *rr);

/*
 * The counters of all processors added up (s_deepest: the largest).
 * From any native thread. Does not switch.
 */
void rr_stats(struct rr *rr, struct usched_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_RR_H */
