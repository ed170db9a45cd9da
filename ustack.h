/* SPDX-License-Identifier: MIT */
/*
 * ustack.h: the calls for threads, whatever their scheduler. rr.h and ll.h start
 * threads; usched.h is for authors of schedulers. Locks, channels and time are in
 * usync.h, sockets in unet.h, files in uoffload.h.
 *
 * One rule comes with threads that share stacks. While a thread is blocked, the
 * addresses of its locals may hold the locals of another thread. A pointer into a
 * thread's stack is good for that thread, always. No other thread and not the kernel may
 * follow it while the thread is blocked. What threads share belongs on the heap.
 *
 * A thread ends when its function returns, or at ustack_exit(). It is freed at once if
 * it was detached, else when it is joined or its scheduler is destroyed. A handle
 * (struct ustack *) is good until then. A later use is a mistake: it gets an error
 * (-ESRCH, or -EINVAL from join and detach) or finds the next thread with that record,
 * wherever that is. It touches no other thread, and no freed memory before the scheduler
 * ends.
 *
 * Waits and wakes go by tokens. A wake gives a thread one token; a wait takes one, and
 * blocks while there is none. So a wake before the wait is not lost, and several wakes
 * count as several, up to 2^31 - 1.
 *
 * A cancelled thread is asked to end. From then on calls of usync.h, unet.h and
 * uoffload.h with a deadline return -ECANCELED to it if they have to wait, and so do
 * ustack_yield() and ustack_join(), always; a call that it is in does, too.
 * ustack_wait() is not ended. Nothing is dropped or unwound: the thread cleans up as
 * after any error, and returns from its function. Native threads are never cancelled.
 *
 * Deadlines are absolute, in ns of CLOCK_MONOTONIC; usync_after() makes them. They come
 * last. USCHED_NEVER is no deadline; 0 is not to wait at all.
 *
 * Functions return 0 or a negative errno value, of which ustack_error() has the text;
 * errno itself says nothing, and may have changed. Calls that switch threads say so. All
 * may be called from any native thread, in a thread or not, unless they say otherwise,
 * but not in signal handlers.
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

/* Private: takes back the pick of a wait that has failed. Returns rc. */
int usched__stay(int rc);

/*
 * Returns the calling thread; in s_next the one that blocks; outside of threads NULL. The
 * result is right after any block, even if usched_run() was called again on another
 * native thread meanwhile. Does not switch.
 */
struct ustack *ustack_self(void);

/*
 * Takes a token of the calling thread, and blocks until there is one. Cancelling the
 * thread does not end this wait. After an error the thread did not block, and has all
 * its tokens.
 * 0; -EPERM: the caller is no thread: start one, or wait by a call of usync.h, which
 * native threads may make, too; -ENOMEM, -EFAULT as ustack_block().
 * Switches.
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
 * Gives `u' a token, which wakes a thread that waits for one.
 * 0; -ESRCH: `u' has ended; -EOVERFLOW: `u' has 2^31 - 1 tokens, or 2^27 - 1 new ones
 * in a join, or 2^24 - 1 that other native threads sent and its processor has not
 * taken in; excess tokens are dropped; -ENOTSUP: the scheduler has no s_wake.
 * Does not switch.
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
 * Runs all threads that are ready on this processor before the caller goes on. Then
 * looks at timers and descriptors, unless that was done in the last half millisecond;
 * threads that these wake run after the caller.
 * 0; -EPERM: the caller is no thread; -ECANCELED: the caller was cancelled; -ENOMEM,
 * -EFAULT as ustack_block(); -ENOTSUP: the scheduler has no s_yield.
 * Switches.
 */
int ustack_yield(void);

/*
 * Starts a thread that calls func(arg), on the scheduler of the caller: with rr on any
 * processor, with ll in the caller's group. For code that need not know its scheduler.
 * *thread is to be joined or detached; with NULL it is detached.
 * 0; -ENOMEM: there is no such thread then; -EINVAL: `func' is NULL; -EPERM: the caller
 * is no thread: rr_start() and ll_start() name the scheduler; -ENOTSUP: the scheduler has
 * no s_start.
 * Does not switch.
 */
int ustack_start(void (*func)(void *), void *arg, struct ustack **thread);

/* How a thread is started. Zeros are the defaults. */
struct ustack_how {
	/* Bytes of an own stack, which no other thread uses before this one has ended: so
	   other threads may follow pointers into it at any time, as with native threads.
	   Some of the bytes are the library's. USTACK_OWN: as many as stacks of the
	   scheduler have; 0: the thread is on one of these. An own stack is mapped by the
	   start, in two mappings, with a guard of 64 KiB below, or one is used again; it
	   takes the memory that is touched. At the end of the thread it is kept for the
	   next one, for some seconds. Once it has begun, the thread stays on its
	   processor, unlike one on an unshared stack (uprocs.h). */
	size_t      h_stack;

	/* USCHED_ON(n): processor number n, from 0 on; USCHED_BESIDE: that of the caller;
	   0: as the scheduler likes. Threads that work together wake each other fastest
	   on one processor. The thread stays there, as after ustack_stay(). */
	unsigned    h_processor;

	/* 1: the thread is detached, though the caller gets its handle. */
	unsigned    h_detached;

	/* As by ustack_name(). NULL: it has no name. */
	const char *h_name;

	/* The thread runs h_serve(h_fd, arg), such as for a connection, and `func' is
	   NULL. The descriptor is the thread's to close; after an error it is the
	   caller's. */
	void      (*h_serve)(int fd, void *arg);
	int         h_fd;

	/* What a scheduler of the program's own has for each thread (uproc_room()), such
	   as a priority: copied. NULL: what it has for the calling thread, if that is one
	   of its threads; else zeros. rr and ll have nothing. */
	const void *h_room;
};

#define USTACK_OWN ((size_t)1)

#define USCHED_ON(n)  ((unsigned)(n) + 1)
#define USCHED_BESIDE ((unsigned)-1)

/*
 * As ustack_start(), for a thread that is as `how' says; NULL stands for zeros.
 * 0; -EAGAIN: there are c_alone threads with an own stack (uprocs.h), of which one that
 * has ended does not count when its join returns; -EINVAL also: a stack below
 * USCHED_STACK_MIN or above _MAX, no such processor, h_serve and `func', or h_fd is
 * negative or INT_MAX; -ENOTSUP also: an own stack, where threads run on native stacks:
 * the portable switch, USCHED_NATIVE; -ENOMEM, -EPERM as ustack_start().
 * Does not switch.
 */
int ustack_start_with(const struct ustack_how *how, void (*func)(void *), void *arg,
		      struct ustack **thread);

/*
 * Waits until `u' has ended, and frees it. *value, unless NULL, is what it gave to
 * ustack_exit(), or NULL: its function has returned. Tokens that come meanwhile stay. One
 * thread or native thread may join a thread, once. After an error `u' is as it was.
 * 0, or
 *
 *   -EINVAL     `u' is detached, or joined already.
 *   -ETIMEDOUT  The deadline has come.
 *   -ECANCELED  The calling thread was cancelled.
 *   -EDEADLK    It is the caller; or all threads wait, each native thread that could
 *               wake one joins or destroys the scheduler, and none holds it
 *               (uprocs_hold()). The threads were reported. Joining threads get the
 *               error; without any, joining native threads do.
 *   -ENOMEM, -EFAULT  As ustack_block(); for a deadline as in usync.h.
 *   -ENOTSUP    The scheduler has no s_join; or the caller is a thread of another kind
 *               of scheduler.
 *   -EBUSY, -EINVAL  As usched_run(), where this call runs the threads: c_embed,
 *                    SINGLE_THREAD.
 *
 * From a thread: switches, with deadline 0 only if it has run for a millisecond without a
 * wait, as calls of usync.h. From any other native thread, with c_embed only the loop's:
 * blocks that; no cancellation point, as uprocs_destroy() and uprocs_run().
 */
int ustack_join(struct ustack *u, void **value, int64_t deadline);

/*
 * Ends the calling thread here, at any depth of calls, with a value for
 * ustack_join(). Destructors of keys run and scopes are left (usync.h), as at the
 * end of the thread's function. Calls between that function and this one do not return,
 * so nothing in them is cleaned up: C++ destructors do not run, memory is not freed, and
 * locks stay locked, for ever. The coroutine (uco.h) that it is called in ends, and so
 * do those that have resumed it. To a scope, a thread of usync_scope_start() has
 * returned 0. Destructors of keys may not call it.
 * -EPERM: the caller is no thread, or is in a region of ustack_preemptible(); nothing
 * was done.
 * Does not return otherwise.
 */
int ustack_exit(void *value);

/*
 * Has `u' freed at the end of the thread; at once after the end.
 * 0; -EINVAL: `u' is detached, or joined already; -ENOTSUP: the scheduler has no
 * s_detach.
 * Does not switch.
 */
int ustack_detach(struct ustack *u);

/*
 * Cancels `u' for the rest of the thread; usync_scope_cancel() ends waits for some time.
 * 0; -ESRCH: `u' has ended; -ENOTSUP: the scheduler has no s_cancel.
 * Does not switch.
 */
int ustack_cancel(struct ustack *u);

/*
 * Returns 1 if the calling thread was cancelled, shielded or not; else 0. Does not
 * switch.
 */
int ustack_cancelled(void);

/*
 * With 1, the calling thread waits as if it were not cancelled, nor in scopes (usync.h),
 * for example to clean up; with 0, no longer. In uwait.c. Native threads are never
 * cancelled, but they may be in scopes.
 * Returns the value before; -ENOMEM: no memory, and nothing was changed.
 * Does not switch.
 */
int ustack_shield(int on);

/*
 * Threads of a processor share its floating point control words (rounding, exceptions,
 * denormals, precision), as they share its locale. With 1, the calling thread has its
 * own from now on: call it before fesetround(3) and the like. They begin as they are,
 * and no other thread sees them. With 0, it has those that the others share. Either way
 * sticky exception flags are cleared when that changes something. Switches to and from
 * such a thread cost more, others nothing. With c_control each thread of a scheduler has
 * its own; there 0 has it begin again with those of the native thread. libusched-check
 * reports a thread that has changed the shared words when it blocks or ends, and aborts.
 * Returns the value before; -EPERM: the caller is no thread.
 * Does not switch.
 */
int ustack_control(int own);

/*
 * With 1, the calling thread stays on its processor from now on, for example while it
 * uses thread-local variables of its native thread; with 0 it may move again. Only
 * rr moves threads that have run, unless it has c_stay. In uproc_start.c.
 * Returns the value before; -EPERM: the caller is no thread; -ENOTSUP: the caller is not
 * on a processor (uproc.h).
 * Does not switch.
 */
int ustack_stay(int on);

/* Private: what ustack_check() does when the slice is over. */
int usched__give_way(void);

/*
 * For loops that compute: gives way, as ustack_yield(), if the thread has run for longer
 * than its slice (c_slice) and the scheduler has found that. Otherwise it is a load and
 * a test. Where the scheduler has no monitor (without c_slice, c_embed, SINGLE_THREAD,
 * the portable switch, ThreadSanitizer) it is a call, which reads the clock every so many
 * times; a slice is 1 ms without c_slice. With a scheduler of the program's own it does
 * nothing until that sets s_over. From a native thread, and in a region of
 * ustack_preemptible(), nothing is done.
 * 0, or, if it gives way, an error as ustack_yield().
 * Switches.
 */
USCHED_INLINE int ustack_check(void)
{
	const struct usched *s = usched__here();
	uint32_t over = __atomic_load_n(&s->s_over, __ATOMIC_RELAXED);

	return __builtin_expect(over != 0, 0) ? usched__give_way() : 0;
}

/*
 * With 1, the calling thread may be preempted from now on: if it runs for longer than
 * its slice, a signal interrupts it, and other threads run before it goes on. With 0, no
 * longer.
 *
 *	int before = ustack_preemptible(1);
 *
 *	compute();
 *	ustack_preemptible(before);
 *
 * What is between is a region. All registers are kept, with the control words, and
 * errno. A region is plain computation. It calls nothing of usched but this and
 * ustack_check(), holds no lock, does not return from the thread's function, and calls
 * no function of a library that calls it back; other calls of usched find that the
 * caller is no thread, and libusched-check names them. Functions of shared libraries may
 * be called: the thread is interrupted in the program's own code only, else it is tried
 * again a slice later. Code of static libraries counts as the program's, so it must not
 * hold locks. System calls may return EINTR; those that SA_RESTART covers do not. Two
 * threads in regions interrupt each other as native threads would, so what they share
 * needs atomic operations.
 *
 * The frame of the signal is one of the thread's, 3 KiB with AVX-512. The image is
 * reserved for functions with up to 2 KiB of frames below the caller's; deeper ones are
 * interrupted if ustack_reserve() was called before. A signal handler of the program
 * that runs in a region may be interrupted likewise, if it leaves the signal mask as it
 * is. Protection keys (pkeys(7)) are not kept. A thread that was interrupted stays on
 * its processor at least until it blocks by a call. In upreempt_region.c.
 *
 * Returns the value before; -ENOTSUP: the scheduler has no slices (c_slice), or cannot
 * interrupt threads here: c_embed, SINGLE_THREAD, the portable switch, static programs,
 * ThreadSanitizer, sanitizers of clang, Valgrind; -EPERM: the caller is no thread;
 * -ENOMEM, -EFAULT as ustack_reserve().
 * Switches, with 0, if the slice is over; with 1 it does not.
 */
int ustack_preemptible(int on);

enum { USTACK_NAME_MAX = 32 };          /* bytes, with the final 0 */

/*
 * Names `u', for reports; NULL or "" takes the name away. A longer name than
 * USTACK_NAME_MAX is cut behind a whole character. In place of control characters, and of
 * bytes that are no UTF-8, the name has '?'. The text is copied. A thread without a name
 * pays nothing.
 * 0; -ENOMEM: no memory; -ESRCH: `u' has ended; -ENOTSUP: it is not on a processor
 * (uproc.h).
 * Does not switch.
 */
int ustack_name(struct ustack *u, const char *name);

/*
 * Copies the name of `u' to `buffer', at most size - 1 bytes and a 0.
 * 0; -ENOENT: `u' has no name: the text is empty, if there is room for the 0;
 * -ENOTSUP: as ustack_name().
 * Does not switch.
 */
int ustack_get_name(const struct ustack *u, char *buffer, size_t size);

/*
 * Returns the text of an error of the library, as "the deadline has passed"; of any
 * other number the system's, as of strerror_r(3). Numbers of 0 and above are no error.
 * An error may have several causes, which the text names; the comment of the call says
 * which of them it has. The text is constant, and no memory is allocated.
 * Does not switch.
 */
const char *ustack_error(int rc);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_USTACK_H */
