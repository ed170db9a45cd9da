/* SPDX-License-Identifier: MIT */
/*
 * usync.h: synchronization: mutexes, reader-writer locks, conditions, semaphores, groups,
 * channels; sleep; and values that each thread has for itself.
 *
 * All of it is for threads of any scheduler, on one processor or several, and for native
 * threads outside of all schedulers, which block natively. The two may use the same
 * object. Objects are the caller's, on the heap or static, never on a thread's stack,
 * since others follow pointers to them. Zeros are a new object. It needs no end, but for
 * channels. Do not reuse an object after aborting its waiter.
 *
 * Queues are first in, first out. What is released is handed to the first waiter, so no
 * other gets in before it, and nothing starves. A mutex may be overtaken between
 * processors, within a bound: see there.
 *
 * Each call that may wait takes a deadline last: ns of CLOCK_MONOTONIC, as from
 * usync_after(); USCHED_NEVER is no deadline; 0 is not to wait at all. Such a call
 * switches threads if it has to wait, and calls for channels also by USYNC_BUDGET.
 * Threads and native threads may call it, call-backs and signal handlers may not. It
 * returns 0 or
 *
 *   -ETIMEDOUT  the deadline has come, or is 0 and the call had to wait
 *   -ECANCELED  the calling thread was cancelled (ustack_cancel()) and had to wait; a
 *               sleep always has to wait
 *   -ENOMEM     no memory to wait with
 *   -ENOTSUP    there is a deadline, and the scheduler has no timers (s_polls)
 *   -EFAULT     see ustack_block()
 *
 * and has changed nothing when it returns an error. All other calls neither wait nor
 * switch, and may be called from any native thread.
 *
 * Schedulers find deadlocks among threads. A native thread that will release what threads
 * wait for has to announce it: rr_hold().
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
 * The deadline `ns' from now; a negative one is now. From a second on it is read from a
 * clock that is faster and less fine, and is late by up to one tick of that, at most 10
 * ms.
 */
int64_t usync_after(int64_t ns);

/* Waits until the deadline. 0; errors as above, but for -ETIMEDOUT. */
int usync_sleep_until(int64_t deadline);

/* Mutex. */

/*
 * An unlock hands it to the first waiter, if that is on the processor of the caller. A
 * waiter of another processor, or a native thread, is woken instead, and while it is on
 * its way, others may lock what is free: up to USYNC_OVERTAKES times in a row, then it is
 * kept for the waiter. It looks for some microseconds; if it comes in vain, the next
 * unlock hands over to it. The waiters keep their order. Where a waiter was on another
 * processor, calls look for some microseconds before they wait, and may overtake then.
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

/* Besides the above, -EDEADLK: the caller has it already. */
int usync_mutex_lock(struct usync_mutex *m, int64_t deadline);

/* 0; -EPERM: it is not the caller's. */
int usync_mutex_unlock(struct usync_mutex *m);

/* Reader-writer lock. New readers queue up behind a waiting writer. */

struct usync_rwlock {
	uintptr_t          r_owner;     /* the writer */
	uint32_t           r_readers;
	struct uwait_lock  r_lock;
	struct uwait_queue r_queue;
};

/* Besides, -EDEADLK: the caller has it to write; -EOVERFLOW: 2^32 - 1 readers. */
int usync_rwlock_read(struct usync_rwlock *l, int64_t deadline);
int usync_rwlock_write(struct usync_rwlock *l, int64_t deadline);

/* 0; -EPERM: it is not held to read, and the caller does not hold it to write. */
int usync_rwlock_unlock(struct usync_rwlock *l);

/* Condition. */

struct usync_cond {
	struct uwait_lock  c_lock;
	struct uwait_queue c_queue;
};

/*
 * Releases `m', waits for a signal, and takes `m' again. The last has no deadline and is
 * not cancelled, so the caller has `m' in any case. There are no spurious wakes: 0 is a
 * signal. Others may have had `m' in between.
 * Besides, -EPERM: `m' is not the caller's.
 */
int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m, int64_t deadline);

/* Wakes the first waiter, or all. */
void usync_cond_signal(struct usync_cond *c);
void usync_cond_broadcast(struct usync_cond *c);

/* Semaphore. */

struct usync_sem {
	uint32_t           s_count;     /* may be set before use */
	struct uwait_lock  s_lock;
	struct uwait_queue s_queue;
};

int usync_sem_wait(struct usync_sem *s, int64_t deadline);

/* 0; -EOVERFLOW: it has 2^32 - 1. */
int usync_sem_post(struct usync_sem *s);

/* Group: waits until a number of things are done. */

struct usync_group {
	uint32_t           g_count;     /* things not done */
	struct uwait_lock  g_lock;
	struct uwait_queue g_queue;
};

/* 0; -EOVERFLOW: there would be 2^32 or more. */
int usync_group_add(struct usync_group *g, uint32_t n);

/* 0; -EINVAL: nothing is left. */
int usync_group_done(struct usync_group *g);

int usync_group_wait(struct usync_group *g, int64_t deadline);

/* Channel: values of one size, from senders to receivers. */

struct usync_chan;

/*
 * A thread yields at each of so many calls of one kind for one channel, without a wait
 * between, so that a channel that is never empty or full holds up no neighbour; or
 * sooner, at a call before which it has run for a millisecond since the first of these.
 * With deadline 0 a send or a select that may send does not count, so these never switch:
 * what they send may be shared by threads. Others are not ended by a cancel then.
 */
enum { USYNC_BUDGET = 128 };

/*
 * A channel of values of `size' bytes. It holds up to `capacity' of them; with 0, a
 * sender waits until its value is received.
 * 0; -ENOMEM; -EINVAL: size, capacity or their product is over 1 GiB.
 */
int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c);

/* Frees it, with the values in it. No other may use it any more. */
void usync_chan_destroy(struct usync_chan *c);

/* Besides, -EPIPE: it is closed, and the value was not sent. */
int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline);

/* Besides, -EPIPE: it is closed, and holds no value. */
int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline);

/*
 * Closes it: nothing more can be sent, and waiting senders get -EPIPE.
 * 0; -EPIPE: it is closed already.
 */
int usync_chan_close(struct usync_chan *c);

/* Values that it holds, without those of waiting senders; it may have changed already. */
size_t usync_chan_count(struct usync_chan *c);

enum usync_op { USYNC_RECV, USYNC_SEND, USYNC_READABLE, USYNC_WRITABLE };

struct usync_case {
	struct usync_chan *s_chan;      /* to receive or send; NULL: never, or s_fd */
	enum usync_op      s_op;
	void              *s_value;     /* of the caller; may be on its stack */
	int                s_rc;  /* of the case that was done: 0, or -EPIPE as above */
	int                s_fd;  /* to be readable or writable; negative: never */
};

/*
 * Does one of several cases: the first that can be done. If several can be at once, they
 * take turns. The same channel may be there several times.
 *
 * A descriptor's case has s_chan NULL. It is done when unet_wait_readable() or
 * unet_wait_writable() would return, so it transfers nothing, and a call after it may
 * have to wait. -EBADF in s_rc: s_fd is not open, or unet_close() or unet_forget() ended
 * its use. The first select makes s_fd non-blocking, as calls of unet.h do.
 *
 * The index of the case; errors as above; -EINVAL: n over 65536. With descriptors
 * besides, errors of unet.h.
 */
int usync_select(struct usync_case *cases, size_t n, int64_t deadline);

/* Scope: threads whose waits end together. */

/*
 * A job in several threads, or one of the jobs of a thread: a request, say. Threads enter
 * and leave it. When it ends, every wait of the threads in it ends: what returns
 * -ECANCELED to cancelled threads does so, and when the scope's deadline comes it returns
 * -ETIMEDOUT, sleeps included. After leaving it waits are as before: a worker goes on
 * with its next job. A thread may be in several scopes; the first that ends counts, or
 * its own cancel if that came first. ustack_shield() shields from scopes, too. A grant
 * that came before the end is the result. An uoffload() that runs goes on, as with a
 * cancel.
 *
 * Scopes are counted. Each thread in it holds its scope, and so does each scope within.
 */
struct usync_scope;

/*
 * A scope within `parent', which ends when `parent' does, or earlier; NULL: within none.
 * The caller is not in it. It is to be released.
 * 0; -ENOMEM; -ETIMEDOUT: the deadline is 0 or less.
 */
int usync_scope_create(struct usync_scope *parent, int64_t deadline,
		       struct usync_scope **scope);

/* One more release is needed. Returns `scope'. */
struct usync_scope *usync_scope_hold(struct usync_scope *scope);

/* Frees it, if nothing holds it any more. It does not end by that. */
void usync_scope_release(struct usync_scope *scope);

/*
 * The caller, a thread or native thread, is in it from now on. Once it has ended, waits
 * fail.
 * 0; -ENOMEM; -ENOTSUP: there is a deadline, and the scheduler has no timers (s_polls).
 */
int usync_scope_enter(struct usync_scope *scope);

/*
 * The caller leaves the scope that it entered last. At its end a thread leaves all.
 * 0; -EPERM: it is in none.
 */
int usync_scope_leave(void);

/*
 * Ends it, and all within it. When it has ended already, for whatever reason, that does
 * nothing. Takes time for each thread in it.
 */
void usync_scope_cancel(struct usync_scope *scope);

/*
 * Likewise, and notes why: the first `error', a negative errno value, is what
 * usync_scope_error() returns.
 */
void usync_scope_fail(struct usync_scope *scope, int error);

/*
 * Why it has ended: the error of usync_scope_fail(); -ECANCELED; -ETIMEDOUT. 0: it has
 * not.
 */
int usync_scope_error(const struct usync_scope *scope);

/*
 * Starts a thread that calls func(arg) in it, on the caller's scheduler. If func returns
 * an error, a value below 0, it is as if it had called usync_scope_fail() with that: the
 * first error ends the others' waits.
 * 0; -ENOMEM; -EPERM, -ENOTSUP as ustack_start(); -ENOTSUP as usync_scope_enter();
 * -EOVERFLOW: there are 2^32 - 1.
 */
int usync_scope_start(struct usync_scope *scope, int (*func)(void *arg), void *arg);

/*
 * Waits until the threads of usync_scope_start() have ended. A caller that is in the
 * scope does not wait for them once it has ended. One of them waits for ever.
 */
int usync_scope_wait(struct usync_scope *scope, int64_t deadline);

/* Keys. */

/*
 * For each key, each thread and each native thread has a value of its own, NULL at first.
 * When a thread ends by itself, it calls k_destroy, unless that is NULL, with each value
 * that is not NULL. k_destroy may wait, and may set values; these are destroyed in turn,
 * up to four times. A thread that is aborted loses its values. A key is static, or
 * outlives all threads that have values for it. Look-ups take longer the more keys a
 * thread has values for.
 */
struct usync_key {
	void (*k_destroy)(void *value);
};

/* 0; -ENOMEM. */
int usync_key_set(const struct usync_key *key, void *value);
void *usync_key_get(const struct usync_key *key);

/* Private, for posix/: that of `u'. From the dispatcher's native thread. */
void *usync__key_of(const struct ustack *u, const struct usync_key *key);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SYNC_H */
