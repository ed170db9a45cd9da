/* SPDX-License-Identifier: MIT */
/*
 * ustack.h: the calls for threads, whatever their scheduler. rr.h and ll.h start
 * threads; usched.h is for authors of schedulers. Locks, channels and time are in
 * usync.h, sockets in unet.h, files in uoffload.h.
 *
 * There is one rule for threads that share stacks. While a thread is blocked, the
 * addresses of its locals may hold the locals of another thread. The thread itself may
 * always follow a pointer into its stack. While the thread is blocked, other threads and
 * the kernel may not. What threads share belongs on the heap.
 *
 * A thread ends when its function returns, or at ustack_exit(). At the end a detached
 * thread is freed. Any other thread is freed when it is joined or its scheduler is
 * destroyed. Until then the handle (struct ustack *) is valid. It is a mistake to use the
 * handle later: the call returns an error (-ESRCH, or -EINVAL from join and detach), or
 * finds the next thread that has the same record. The call touches no other thread. While
 * the scheduler exists, the call touches no freed memory.
 *
 * Waits and wakes go by tokens. A wake gives a thread one token. A wait takes one token;
 * if there is none, the wait blocks until there is one. So a wake that comes before the
 * wait is not lost, and each wake counts, up to 2^31 - 1.
 *
 * A cancelled thread is asked to end. If a call of usync.h, unet.h or uoffload.h has a
 * deadline and would wait, it returns -ECANCELED from then on; ustack_yield() and
 * ustack_join() always do. If the thread is waiting in a call, that ends, too, unless it
 * is ustack_wait(). Nothing is dropped or unwound: the thread cleans up as after any
 * error, and returns from its function. Native threads are never cancelled.
 *
 * A deadline is a time of CLOCK_MONOTONIC, in ns. It is the last argument of a call, and
 * usync_after() computes it. USCHED_NEVER is no deadline; with 0 a call does not wait.
 *
 * Functions return 0 or a negative errno value; ustack_error() returns its text. errno
 * itself says nothing, and may have changed. If a call switches threads, its comment says
 * so. Unless the comment says otherwise, threads and all native threads may call a
 * function, but signal handlers may not.
 */
#ifndef USCHED_USTACK_H
#define USCHED_USTACK_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Private: a wait has failed: gives back what the wait took. Returns rc. */
int usched__stay(int rc);

/*
 * Returns the calling thread; in s_next, the thread that blocks; outside of threads,
 * NULL. The result is right even if the thread has blocked, and now runs on another
 * native thread. Does not switch.
 */
struct ustack *ustack_self(void);

/*
 * Takes a token of the calling thread. If there is none, blocks first. A cancel does not
 * end this wait. After an error the thread has not blocked, and has all its tokens.
 * 0; -EPERM: the caller is no thread; -ENOMEM, -EFAULT as ustack_block().
 * Switches. Native threads can wait, too, by usync.h.
 */
USCHED_SWITCHES int ustack_wait(void)
{
	struct usched *s = usched__here();
	struct ustack *self = s->s_current, *u;
	int rc;

	if (__builtin_expect(self && self->u_tokens > 0, 1)) {
		__atomic_store_n(&self->u_tokens, self->u_tokens - 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (!self)
		return -EPERM;
	u = s->s_slot;
	if (__builtin_expect((uintptr_t)u > (uintptr_t)USCHED_CLOSED
			     && !__atomic_load_n(s->s_calls.s_mail, __ATOMIC_RELAXED)
			     && s->s_stats.st_switches < s->s_turn, 1)) {
		s->s_slot = NULL;
		__atomic_store_n(&self->u_tokens, USTACK_WAITING, __ATOMIC_RELAXED);
	} else {
		u = s->s_calls.s_pick(s, self);
	}
	s->s_chosen = u;
	rc = usched__hand_over(u, self, s);
	if (__builtin_expect(rc, 0)) {
		rc = usched__stay(rc);
		__asm__ volatile("" : "+r"(rc));        /* no tail call: see uswitch.h */
	}
	return rc;
}

/*
 * Gives `u' a token. If `u' waits for a token, `u' wakes.
 * 0; -ESRCH: `u' has ended; -EOVERFLOW, and the token was dropped: `u' has 2^31 - 1
 * tokens, or got 2^27 - 1 tokens during a join, or the processor of `u' has not yet taken
 * in 2^24 - 1 tokens that other native threads have sent; -ENOTSUP: the scheduler has no
 * s_wake. Does not switch.
 */
USCHED_INLINE int ustack_wake(struct ustack *u)
{
	/* u_tokens before the owner: see s_pick. */
	int32_t tokens = __atomic_load_n(&u->u_tokens, __ATOMIC_ACQUIRE);
	const struct usched_stack *k = __atomic_load_n(&u->u_stack, __ATOMIC_ACQUIRE);
	struct usched *s;

	if (__builtin_expect(!k, 0))
		return -ESRCH;
	s = __atomic_load_n(&k->k_sched, __ATOMIC_RELAXED);
	if (__builtin_expect(s != usched__here(), 0))
		return s->s_calls.s_wake(s, u);
	tokens = (int32_t)((uint32_t)tokens + 1);
	if (__builtin_expect(tokens < 0, 0))
		return s->s_calls.s_wake(s, u);
	__atomic_store_n(&u->u_tokens, tokens, __ATOMIC_RELAXED);
	if (tokens > 0)                         /* else it was USTACK_WAITING */
		return 0;
	if (s->s_slot)
		s->s_calls.s_ready(s, u);
	else
		s->s_slot = u;
	return 0;
}

/*
 * Lets all threads that are ready on this processor run. Then looks at timers and
 * descriptors, unless the last look is less than half a millisecond ago. Threads that
 * timers and descriptors wake run after the caller.
 * 0; -EPERM: the caller is no thread; -ECANCELED: the caller was cancelled; -ENOMEM,
 * -EFAULT as ustack_block(); -ENOTSUP: the scheduler has no s_yield.
 * Switches.
 */
int ustack_yield(void);

/*
 * Starts a thread that calls func(arg), on the scheduler of the caller: with rr on any
 * processor, with ll in the caller's group. Sets *thread to the new thread, which must be
 * joined or detached. If `thread' is NULL, the new thread is detached.
 * 0; -ENOMEM: no memory, and no thread was started; -EINVAL: `func' is NULL; -EPERM: the
 * caller is no thread. Call rr_start() or ll_start(), which name the scheduler; -ENOTSUP:
 * the scheduler has no s_start.
 * Does not switch.
 */
int ustack_start(void (*func)(void *), void *arg, struct ustack **thread);

/* How a thread is started. Zeros are the defaults. */
struct ustack_how {
	/* Bytes of an own stack. USTACK_OWN: as many as the scheduler's stacks have. 0:
	   no own stack; the thread uses the scheduler's stacks. Until the thread has
	   ended, no other thread uses its own stack. So other threads may follow pointers
	   into the stack at any time, as with native threads. The library needs some of
	   the bytes. The start uses a vacant own stack. If there is none, a stack is
	   mapped, in two mappings, with a guard of 64 KiB below. The stack takes the
	   memory that the thread touches. After the thread has ended, the stack is kept
	   for some seconds. */
	size_t      h_stack;

	/* The processor on which the thread runs and stays, as after ustack_stay().
	   USCHED_ON(n): processor n; the first is 0. USCHED_BESIDE: the processor of the
	   caller. 0: the scheduler chooses, and may later choose another. If threads work
	   together, they wake each other fastest on one processor. */
	unsigned    h_processor;

	/* 1: the thread is detached, though the caller gets its handle. */
	unsigned    h_detached;

	/* The name of the thread, as for ustack_name(). NULL: no name. */
	const char *h_name;

	/* If `func' is NULL, the thread calls h_serve(h_fd, arg) instead, for example to
	   serve a connection. The thread closes the descriptor. If the start fails, the
	   caller closes the descriptor. */
	void      (*h_serve)(int fd, void *arg);
	int         h_fd;

	/* What the program's own scheduler keeps for each thread (uproc_room()), such as
	   a priority. The bytes are copied. If h_room is NULL, and the caller is a thread
	   of the scheduler, the caller's bytes are copied. If h_room is NULL, and the
	   caller is no such thread, the bytes are zeros. rr and ll keep nothing. */
	const void *h_room;
};

#define USTACK_OWN ((size_t)1)

#define USCHED_ON(n)  ((unsigned)(n) + 1)
#define USCHED_BESIDE ((unsigned)-1)

/*
 * Starts a thread as ustack_start() does, with the properties in `how'; NULL stands for
 * zeros.
 * 0; -EAGAIN: as many threads as c_alone allows (uprocs.h) have own stacks, not counting
 * threads that were joined; -EINVAL: both of `func' and h_serve are NULL, or neither is;
 * or h_stack is below USCHED_STACK_MIN or above USCHED_STACK_MAX; or there is no such
 * processor; or h_fd is negative or INT_MAX; -ENOTSUP: the scheduler has no s_start; or
 * h_stack is not 0, and threads run on native stacks: the portable switch, USCHED_NATIVE;
 * -ENOMEM, -EPERM as ustack_start(). Does not switch.
 */
int ustack_start_with(const struct ustack_how *how, void (*func)(void *), void *arg,
		      struct ustack **thread);

/*
 * Waits until `u' has ended, and frees `u'. If `value' is not NULL, sets *value to the
 * argument of ustack_exit(), or to NULL if the function of `u' has returned. The caller
 * keeps tokens that arrive meanwhile. A thread may be joined only once, by one thread or
 * native thread. After an error `u' is as it was.
 * 0, or
 *
 *   -EINVAL     `u' is detached, or joined already.
 *   -ETIMEDOUT  The deadline has come.
 *   -ECANCELED  The calling thread was cancelled.
 *   -EDEADLK    `u' is the caller. Or there is a deadlock, which was reported: all
 *               threads wait, no native thread holds the scheduler (uprocs_hold()), and
 *               each native thread that knows the scheduler joins a thread or destroys
 *               the scheduler. Threads that join get the error; if no thread joins,
 *               native threads that join get the error.
 *   -ENOMEM, -EFAULT  As ustack_block(); with a deadline, as calls of usync.h.
 *   -ENOTSUP    The scheduler has no s_join; or the caller is a thread of another kind
 *               of scheduler.
 *   -EBUSY, -EINVAL  As usched_run(). Only with c_embed or SINGLE_THREAD, where this
 *                    call runs the threads.
 *
 * Switches if the caller is a thread. If the deadline is 0, switches only if the thread
 * has run for a millisecond without a wait, as calls of usync.h do. If the caller is no
 * thread, blocks the native thread, and is no cancellation point. With c_embed the only
 * native thread that may call is that of the loop.
 */
int ustack_join(struct ustack *u, void **value, int64_t deadline);

/*
 * Ends the calling thread here, at any depth of calls, with a value for ustack_join().
 * Destructors of keys run and scopes are left (usync.h), as at the end of the thread's
 * function. Functions that have not returned never do, so nothing in them is cleaned up:
 * C++ destructors do not run, memory is not freed, and locks stay locked for ever. If the
 * call is made in a coroutine (uco.h), that coroutine and all around it end, too. A
 * thread of usync_scope_start() ends as if its function had returned 0.
 * Destructors of keys may not make this call.
 * -EPERM: the caller is no thread, or is in a region of ustack_preemptible(); nothing
 * was done.
 * Does not return otherwise.
 */
int ustack_exit(void *value);

/*
 * Lets `u' be freed when the thread ends. If `u' has ended, frees `u' at once.
 * 0; -EINVAL: `u' is detached, or joined already; -ENOTSUP: the scheduler has no
 * s_detach.
 * Does not switch.
 */
int ustack_detach(struct ustack *u);

/*
 * Cancels `u' until the thread ends. To cancel only the waits in a part of a thread, call
 * usync_scope_cancel().
 * 0; -ESRCH: `u' has ended; -ENOTSUP: the scheduler has no s_cancel.
 * Does not switch.
 */
int ustack_cancel(struct ustack *u);

/*
 * Returns 1 if the calling thread was cancelled, even if it is shielded; else 0. Does not
 * switch.
 */
int ustack_cancelled(void);

/*
 * With 1, the calling thread waits as if it were neither cancelled nor in scopes
 * (usync.h), for example to clean up. With 0, that ends. Native threads may call, too:
 * they are never cancelled, but may be in scopes. In uwait.c.
 * Returns the value before; -ENOMEM: no memory, and nothing was changed.
 * Does not switch.
 */
int ustack_shield(int on);

/*
 * With 1, gives the calling thread floating point control words of its own (rounding,
 * exceptions, denormals, precision): call this before fesetround(3) and the like. The
 * other threads of a processor share the control words, as they share the locale. At
 * first the own words have the values of the shared words. With 0, the thread shares the
 * words again. If `own' changes, the sticky exception flags are cleared. A switch to or
 * from a thread with own words takes longer; all other switches take as long as before.
 * With c_control each thread of the scheduler has own words. Then 0 sets these to the
 * values of the native thread. libusched-check aborts the program, with a report, if a
 * thread has changed the shared words, and then blocks or ends.
 * Returns the value before; -EPERM: the caller is no thread.
 * Does not switch.
 */
int ustack_control(int own);

/*
 * With 1, the calling thread stays on its processor from now on, for example while it
 * uses thread-local variables of the native thread; with 0 the thread may move again.
 * Only rr moves threads that have run, and only without c_stay. In uproc_start.c.
 * Returns the value before; -EPERM: the caller is no thread; -ENOTSUP: the caller is not
 * on a processor (uproc.h).
 * Does not switch.
 */
int ustack_stay(int on);

/* Private: what ustack_check() does when the slice is over. */
int usched__give_way(void);

/*
 * For loops that compute. If the thread has run for longer than its slice (c_slice), and
 * the scheduler has noticed, yields as ustack_yield() does. Otherwise the call is a load
 * and a test. If the scheduler has no monitor (without c_slice; or with c_embed,
 * SINGLE_THREAD, the portable switch or ThreadSanitizer), some of the calls read the
 * clock. Without c_slice a slice is 1 ms. With the program's own scheduler, nothing is
 * done until the scheduler sets s_over. If the caller is no thread, or is in a region of
 * ustack_preemptible(), nothing is done.
 * 0; an error of ustack_yield().
 * Switches if it yields.
 */
USCHED_INLINE int ustack_check(void)
{
	const struct usched *s = usched__here();
	uint32_t over = __atomic_load_n(&s->s_over, __ATOMIC_RELAXED);

	return __builtin_expect(over != 0, 0) ? usched__give_way() : 0;
}

/*
 * With 1, the calling thread may be preempted from now on: a signal interrupts the thread
 * at the end of its slice, and other threads run before the thread goes on. With 0, that
 * ends.
 *
 *	int before = ustack_preemptible(1);
 *
 *	compute();
 *	ustack_preemptible(before);
 *
 * The code between the two calls is a region. All registers, the control words and errno
 * are kept. A region is plain computation: it calls nothing of usched except this
 * function and ustack_check(), holds no lock, does not return from the thread's function,
 * and calls no library function that calls back into the region. In other calls of usched
 * the caller seems to be no thread, and libusched-check names such calls. The region may
 * call functions of shared libraries: only the program's own code is interrupted, and in
 * a library the signal comes again a slice later. Code of static libraries counts as the
 * program's, so such code must not hold locks. System calls may return EINTR, unless
 * SA_RESTART covers them. Threads in regions interrupt each other as native threads
 * would, so what they share needs atomic operations.
 *
 * The frame of the signal, 3 KiB with AVX-512, is one of the thread's frames. The image
 * has room for 2 KiB of frames below the caller's frame. If functions are deeper, they
 * are interrupted only after a call of ustack_reserve(). In a region a signal handler of
 * the program may be interrupted, too, if it leaves the signal mask unchanged. Protection
 * keys (pkeys(7)) are not kept. If a thread was interrupted, it stays on its processor at
 * least until it blocks by a call. In upreempt_region.c.
 *
 * Returns the value before; -ENOTSUP: the scheduler has no slices (c_slice), or cannot
 * interrupt threads here: c_embed, SINGLE_THREAD, the portable switch, static programs,
 * ThreadSanitizer, sanitizers of clang, Valgrind; -EPERM: the caller is no thread;
 * -ENOMEM, -EFAULT as ustack_reserve().
 * ustack_preemptible(0) switches if the slice is over. ustack_preemptible(1) does not.
 */
int ustack_preemptible(int on);

enum { USTACK_NAME_MAX = 32 };          /* bytes, with the final 0 */

/*
 * Names `u', for reports; NULL or "" takes the name away. The text is copied. If the text
 * does not fit USTACK_NAME_MAX, it is cut after a whole character. A '?' replaces each
 * control character, and each byte that is not UTF-8. 0; -ENOMEM: no memory; -ESRCH: `u'
 * has ended; -ENOTSUP: `u' is not on a processor (uproc.h). Does not switch.
 */
int ustack_name(struct ustack *u, const char *name);

/*
 * Copies the name of `u' to `buffer', at most size - 1 bytes and a 0.
 * 0; -ENOENT: `u' has no name. If `buffer' has room for the 0, the text is empty;
 * -ENOTSUP: as ustack_name().
 * Does not switch.
 */
int ustack_get_name(const struct ustack *u, char *buffer, size_t size);

/*
 * Returns the text of an error of the library, such as "the deadline has passed". For any
 * other number the text is that of strerror_r(3). Numbers of 0 and above are no error. If
 * an error has several causes, the text names all of them; the comment of a call says
 * which apply. The text is constant, and no memory is allocated. Does not switch.
 */
const char *ustack_error(int rc);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_USTACK_H */
