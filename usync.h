/* SPDX-License-Identifier: MIT */
/*
 * usync.h: synchronization: mutexes, reader-writer locks, conditions, semaphores,
 * groups, channels; scopes; sleep; and values that each thread has for itself.
 *
 * All of it is for threads of any scheduler, on one processor or several, and for native
 * threads outside of all schedulers, which block natively. The two may use the same
 * object. Objects are the caller's, on the heap or static, never on a thread's stack,
 * since other threads follow pointers to them. Zeros are a new object, which needs no
 * end; channels and scopes are created. Unlock all locks before the thread ends: no
 * other thread can. Do not reuse an object after aborting its waiter.
 *
 * Queues are first in, first out. What is released is handed to the first waiter, so no
 * other thread gets in before it, and nothing starves. A mutex may be overtaken between
 * processors, within a bound: see there.
 *
 * Each call that may wait takes a deadline last: ns of CLOCK_MONOTONIC, as from
 * usync_after(). It is a point in time, so that it can be handed down through several
 * calls. USCHED_NEVER is no deadline; 0 is not to wait at all. Such a call switches
 * threads if it has to wait. If it need not wait, or may not, it yields where the thread
 * has run for a millisecond without a wait, whatever it has called meanwhile; calls for
 * channels also by USYNC_BUDGET; a send with deadline 0 never. Threads and native threads
 * may call it, call-backs and signal handlers may not. It returns 0 or
 *
 *   -ETIMEDOUT  The deadline has come, or is 0 and the call had to wait.
 *   -ECANCELED  The calling thread was cancelled (ustack_cancel()) and had to wait; a
 *               sleep always has to wait.
 *   -ENOMEM     No memory to wait with.
 *   -ENOTSUP    There is a deadline, and the scheduler has no timers (s_polls).
 *   -EFAULT     The caller cannot block where it is: see ustack_block().
 *
 * and has changed nothing when it returns an error. All other calls neither wait nor
 * switch, and may be called from any native thread; only usync_scope_create() may yield
 * by the same rule. A thread that loops over calls which never switch, such as
 * usync_cond_signal(), keeps its processor, as one that computes: ustack_check().
 *
 * A thread that was cancelled gets -ECANCELED from each such call that has to wait, and
 * from the one in which it waits, for the rest of the thread; calls that need not wait
 * succeed. For a part of a thread there are scopes.
 *
 * Schedulers find deadlocks among threads. A native thread that will release what
 * threads wait for has to announce it: uprocs_hold(). So have the threads of another
 * scheduler.
 *
 * No call of the library is a cancellation point: pthread_cancel() of a native thread in
 * a call takes effect after it, at the next such point.
 */
#ifndef USCHED_SYNC_H
#define USCHED_SYNC_H

#include <stddef.h>
#include <stdint.h>

#include "uevents.h"
#include "ustack.h"
#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Time. */

#define USYNC_SECOND ((int64_t)1000000000)      /* ns */

/*
 * Returns the deadline `ns' from now; a negative `ns' is now. From a second on the
 * deadline is read from a faster clock, and is late by up to one tick of that clock, at
 * most 10 ms.
 */
int64_t usync_after(int64_t ns);

/*
 * Waits until the deadline.
 * 0, or an error as above, except -ETIMEDOUT.
 */
int usync_sleep_until(int64_t deadline);

/* Mutex. */

/*
 * An unlock hands the mutex to the first waiter, if that is on the processor of the
 * caller. A waiter of another processor, or a native thread, is woken instead. While it
 * is on its way, other threads may lock what is free: up to USYNC_OVERTAKES times in a
 * row, then the mutex is kept for the waiter. It looks for some microseconds; if it
 * comes in vain, the next unlock hands over to it. The waiters keep their order. Where a
 * waiter was on another processor, calls look for some microseconds before they wait,
 * and may overtake then.
 */
enum { USYNC_OVERTAKES = 4096 };

/* 32 bytes of 64 bits. */
struct usync_mutex {
	uintptr_t          m_owner;     /* 1: there are waiters, 2: one is on its way */
	struct uwait_lock  m_lock;
	uint16_t           m_passed;    /* overtakes of the first waiter: the owner's */
	uint8_t            m_far;       /* 1: a call looks before it waits; atomic */
	struct uwait_queue m_queue;
};

/*
 * Locks `m'.
 * 0, or an error as above; -EDEADLK: the caller has `m' already: a mutex is not
 * recursive.
 */
int usync_mutex_lock(struct usync_mutex *m, int64_t deadline);

/* Private: with deadline 0, and without a yield. */
int usync__mutex_try(struct usync_mutex *m);

/*
 * Unlocks `m', or hands it to the first waiter.
 * 0; -EPERM: `m' is not the caller's.
 */
int usync_mutex_unlock(struct usync_mutex *m);

/* Reader-writer lock. New readers queue up behind a waiting writer. */

struct usync_rwlock {
	uintptr_t          rw_owner;    /* the writer */
	uint32_t           rw_readers;
	struct uwait_lock  rw_lock;
	struct uwait_queue rw_queue;
};

/*
 * Lock `l' to read, with other readers, or to write, alone. Do not lock what you have to
 * read: to write, you wait for yourself; to read, if a writer has come in between.
 * 0, or an error as above; -EDEADLK: the caller has `l' to write; -EOVERFLOW: there are
 * 2^32 - 1 readers.
 */
int usync_rwlock_read(struct usync_rwlock *l, int64_t deadline);
int usync_rwlock_write(struct usync_rwlock *l, int64_t deadline);

/*
 * Unlocks `l', whichever way the caller has it.
 * 0; -EPERM: `l' has no readers, and the caller does not have `l' to write.
 */
int usync_rwlock_unlock(struct usync_rwlock *l);

/* Condition. */

struct usync_cond {
	struct uwait_lock  cv_lock;
	struct uwait_queue cv_queue;
};

/*
 * Releases `m', waits for a signal, and takes `m' again. The last has no deadline and is
 * not cancelled, so the caller has `m' after any result except -EPERM. There are no
 * spurious wakes: 0 is a signal. Other threads may have had `m' in between, so look
 * again at what was waited for.
 * 0, or an error as above; -EPERM: `m' is not the caller's.
 */
int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m, int64_t deadline);

/* Wake the first waiter, or all. */
void usync_cond_signal(struct usync_cond *c);
void usync_cond_broadcast(struct usync_cond *c);

/* Semaphore. */

struct usync_sem {
	uint32_t           sm_count;    /* may be set before use */
	struct uwait_lock  sm_lock;
	struct uwait_queue sm_queue;
};

/*
 * Takes one from `s', and waits while there is none.
 * 0, or an error as above.
 */
int usync_sem_wait(struct usync_sem *s, int64_t deadline);

/*
 * Puts one back, or hands it to the first waiter.
 * 0; -EOVERFLOW: `s' has 2^32 - 1.
 */
int usync_sem_post(struct usync_sem *s);

/* Group: counts things that are not done. */

struct usync_group {
	uint32_t           g_count;     /* things not done */
	struct uwait_lock  g_lock;
	struct uwait_queue g_queue;
};

/*
 * Adds `n' things, before the threads that do them are started.
 * 0; -EOVERFLOW: there would be 2^32 or more.
 */
int usync_group_add(struct usync_group *g, uint32_t n);

/*
 * Counts one thing as done.
 * 0; -EINVAL: nothing is left.
 */
int usync_group_done(struct usync_group *g);

/*
 * Waits until nothing is left.
 * 0, or an error as above.
 */
int usync_group_wait(struct usync_group *g, int64_t deadline);

/* Private: as usync_group_wait(), for usync_scope_wait(), which was called at `where'. */
int usync__scope_wait(struct usync_group *g, const void *where, int64_t deadline)
	__attribute__((visibility("hidden")));

/*
 * Channel: carries values of one size from senders to receivers. Values are copied, also
 * from and to the stack.
 */

struct usync_chan;

/*
 * A thread yields at each of so many calls of one kind for one channel, without a wait
 * between, so that a channel that is never empty or full holds up no neighbour; or
 * sooner, at a call before which it has run for a millisecond since the first of these.
 * A cancel ends that yield, and the call, unless its deadline is 0. With deadline 0 a
 * send or a select that may send does not count, so these never switch: what they send
 * may be shared by threads.
 */
enum { USYNC_BUDGET = 128 };

/*
 * Makes a channel of values of `size' bytes in *c. It holds up to `capacity' of them;
 * with 0, a sender waits until its value is received.
 * 0; -ENOMEM: no memory; -EINVAL: `size', `capacity' or their product is over 1 GiB.
 */
int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c);

/*
 * Frees the channel, with the values in it. No other thread may use it any more, or wait
 * there.
 */
void usync_chan_destroy(struct usync_chan *c);

/*
 * Sends a copy of *value.
 * 0, or an error as above; -EPIPE: the channel is closed, and the value was not sent.
 */
int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline);

/*
 * Receives the oldest value into *value.
 * 0, or an error as above; -EPIPE: the channel is closed, and holds no value.
 */
int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline);

/*
 * Closes the channel: nothing more can be sent, and waiting senders get -EPIPE.
 * 0; -EPIPE: the channel is closed already.
 */
int usync_chan_close(struct usync_chan *c);

enum usync_op { USYNC_RECV, USYNC_SEND, USYNC_READABLE, USYNC_WRITABLE };

/*
 * A case of a select: a channel to receive from or to send to, or, with cs_chan NULL, a
 * descriptor.
 */
struct usync_case {
	struct usync_chan *cs_chan;     /* to receive or send; NULL: never, or cs_fd */
	enum usync_op      cs_op;
	void              *cs_value;    /* of the caller; may be on its stack */
	int                cs_rc;       /* of the case that was done: 0; -EPIPE as above;
					   -EBADF: cs_fd is not open, or its use
					   here has ended */
	int                cs_fd; /* to be readable or writable; negative: never */
};

/*
 * Does one of `n' cases: the first that can be done. If several can be at once, they
 * take turns. The same channel may be there several times.
 *
 * A descriptor's case has cs_chan NULL. It is done when unet_wait() would return, so it
 * transfers nothing, and a call after it may have to wait. -EBADF in cs_rc: cs_fd is not
 * open, or unet_close() or unet_forget() ended its use. The first select makes cs_fd
 * non-blocking, as calls of unet.h do.
 *
 * Returns the index of the case, or an error as above; -EINVAL: `n' is over 65,536. With
 * descriptors besides, errors of unet.h.
 */
int usync_select(struct usync_case *cases, size_t n, int64_t deadline);

/*
 * A scope is a job in several threads, or one of the jobs of a thread: a request, say.
 * Threads and native threads enter and leave the scope. When it ends, every wait of the
 * threads in it ends: calls that return -ECANCELED to cancelled threads do so, and when
 * the scope's deadline comes they return -ETIMEDOUT; sleeps, yields and joins end, too.
 * After a leave waits are as before: a worker goes on with its next job, and a handle
 * that is used late cancels no stranger.
 *
 * A thread may be in several scopes; the first that ends counts, or a cancel of the
 * thread that came first. If the lock, token or value was handed over before the end, the
 * call succeeds. ustack_shield() shields from scopes, too. Not ended are the lock that
 * usync_cond_wait() takes again, an uoffload() that runs, and a native thread's
 * ustack_join().
 *
 * Scopes are counted: what creates or holds one releases it. Each thread in it holds its
 * scope, and so does each scope within. usync_scope_wait() waits, and so does a start
 * with sh_limit; no other of these calls does.
 */

/* A scope. Its members are private. */
struct usync_scope;

/* How a scope is made. Zeros are the defaults. */
struct usync_scope_how {
	/* The scope around the new one, which ends no later; or NULL. */
	struct usync_scope *sh_parent;

	/* Where native threads outside of schedulers start threads of the scope:
	   uprocs_sched(); with rr on any processor, with ll on the first. NULL: they
	   cannot. */
	struct usched      *sh_on;

	/* The most threads of usync_scope_start() at a time. 0: any number. */
	uint32_t            sh_limit;
};

/*
 * Makes a scope, which ends at the deadline, and is as `how' says; NULL: the defaults.
 * The caller is not in the scope, and is to release it.
 * 0; -ENOMEM: no memory; -ETIMEDOUT: the deadline is 0 or less.
 */
int usync_scope_create(const struct usync_scope_how *how, struct usync_scope **scope,
		       int64_t deadline);

/*
 * Has one more release be needed.
 * Returns `scope'.
 */
struct usync_scope *usync_scope_hold(struct usync_scope *scope);

/* Frees the scope, if nothing holds it any more. The scope does not end by that. */
void usync_scope_release(struct usync_scope *scope);

/*
 * Has the caller, a thread or native thread, be in the scope from now on, also several
 * times. If the scope has ended, waits fail.
 * 0; -ENOMEM: no memory; -ENOTSUP: there is a deadline, and the scheduler has no timers
 * (s_polls).
 */
int usync_scope_enter(struct usync_scope *scope);

/*
 * Has the caller leave the scope that it entered last. At its end a thread leaves all.
 * 0; -EPERM: the caller is in no scope: each leave needs an enter by the same thread.
 */
int usync_scope_leave(void);

/*
 * Ends the scope, and all within it. When it has ended already, for whatever reason,
 * that does nothing. `error', a negative errno value, is why: usync_scope_error() returns
 * it. 0 stands for -ECANCELED. Takes time for each thread in the scope.
 */
void usync_scope_cancel(struct usync_scope *scope, int error);

/*
 * Returns why the scope has ended: the error of its usync_scope_cancel(), -ECANCELED
 * after that of a scope around it, or -ETIMEDOUT. 0: the scope has not ended.
 */
int usync_scope_error(const struct usync_scope *scope);

/*
 * Starts a thread that calls func(arg) in the scope, on the caller's scheduler; a native
 * thread starts it on that of sh_on (struct usync_scope_how). With sh_limit the call
 * waits while so many run, and starts none if the scope has ended. If func
 * returns a value below 0, it is as if it had called usync_scope_cancel() with that:
 * the first error ends the waits of the other threads. Where the new thread cannot enter,
 * it cancels the scope with the error of that. *thread is as in ustack_start(); with NULL
 * the thread is detached, and usync_scope_wait() waits for it all the same.
 * 0; -EINVAL: `func' is NULL; -ENOMEM: no memory; -EPERM: the caller is a native thread,
 * and the scope has no sh_on: make it with sh_on; -ENOTSUP as ustack_start(); -EOVERFLOW:
 * there are 2^32 - 1; with sh_limit also that of usync_scope_error(), and errors as
 * above.
 */
int usync_scope_start(struct usync_scope *scope, int (*func)(void *arg), void *arg,
		      struct ustack **thread);

/*
 * As usync_scope_start(), for a thread that is as `how' says (ustack.h). One with h_serve
 * has no value to return. A new thread that cannot enter runs h_serve all the same: the
 * scope does not end that thread's waits, but usync_scope_wait() waits for the thread.
 * As usync_scope_start(), and errors of ustack_start_with().
 */
int usync_scope_start_with(struct usync_scope *scope, const struct ustack_how *how,
			   int (*func)(void *arg), void *arg, struct ustack **thread);

/*
 * Waits until the threads of usync_scope_start() have ended. If the caller is in the
 * scope, the end of the scope ends this wait, too. usync_scope_error() has the first
 * error of these threads.
 * 0, or an error as above; -EDEADLK: the caller is one of them, and would wait for
 * itself: have the thread that made the scope wait.
 */
int usync_scope_wait(struct usync_scope *scope, int64_t deadline);

/* Keys. */

/*
 * A key. Each thread and each native thread has a value of its own for it, NULL at
 * first. When a thread returns from its function, it calls ky_destroy, unless that is
 * NULL, with each value that is not NULL. ky_destroy may wait, and may set values; these
 * are destroyed in turn, up to four times. A thread that is aborted loses its values. A
 * key is static, or outlives all threads that have values for it. Look-ups take longer
 * the more keys a thread has values for.
 */
struct usync_key {
	void (*ky_destroy)(void *value);
};

/*
 * Sets the caller's value.
 * 0; -ENOMEM: no memory, and the value is as it was.
 */
int usync_key_set(const struct usync_key *key, void *value);

/* Returns the caller's value. */
void *usync_key_get(const struct usync_key *key);

/* Private, for posix/: that of `u'. From the dispatcher's native thread. */
void *usync__key_of(const struct ustack *u, const struct usync_key *key);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SYNC_H */
