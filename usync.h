/* SPDX-License-Identifier: MIT */
/*
 * usync.h: synchronization: mutexes, reader-writer locks, conditions, semaphores, groups
 * and channels; also scopes, sleeps, and keys, for which each thread has a value.
 *
 * Threads of any scheduler may use these objects, on one processor or several. Native
 * threads outside of all schedulers may use them, too, and block natively. The program
 * keeps the objects on the heap or in static memory, never on a thread's stack, since
 * other threads follow pointers to them. An object of zeros can be used at once, and
 * needs no call at its end. Only channels and scopes are created and freed by calls. A
 * thread must unlock all its locks before it ends, since no other thread can unlock them.
 * If a thread was aborted while it waited for an object, do not use that object any more.
 *
 * Threads wait in queues, first in, first out. What is released goes to the first waiter
 * at once. So no other thread can overtake the waiter, and no thread starves. The
 * exception is a mutex whose first waiter is on another processor: other threads may
 * overtake that waiter, but at most USYNC_OVERTAKES times in a row.
 *
 * Each call that may wait has a deadline as its last argument: a time of CLOCK_MONOTONIC
 * in ns. usync_after() returns such times. Since a deadline is a point in time, several
 * calls in turn can have the same one. USCHED_NEVER stands for no deadline. With deadline
 * 0 a call does not wait.
 *
 * A call that has to wait switches threads. A call that need not wait yields if the
 * thread has run for a millisecond without a wait, whatever calls were made in that time.
 * A call for a channel also yields after USYNC_BUDGET calls without a wait. Only a send
 * with deadline 0 never yields. Threads and native threads may make these calls;
 * call-backs and signal handlers may not. The calls return 0 or
 *
 *   -ETIMEDOUT  The deadline has come; or the deadline is 0, and the call would have to
 *               wait.
 *   -ECANCELED  The calling thread was cancelled (ustack_cancel()), and the call would
 *               have to wait. A sleep always has to wait.
 *   -ENOMEM     There is no memory for the wait.
 *   -ENOTSUP    There is a deadline, and the scheduler has no timers (s_polls is 0).
 *   -EFAULT     The caller cannot block at this place: see ustack_block().
 *
 * After an error nothing has changed. Calls without a deadline neither wait nor switch,
 * and any native thread may make them. There are two exceptions: usync_scope_start() with
 * sh_limit may wait, and usync_scope_create(), whose deadline is for the scope, may
 * yield. A loop that makes only calls that never switch, for example usync_cond_signal(),
 * keeps the processor, as a computation does. So call ustack_check() in such a loop.
 *
 * ustack_cancel() ends the wait of a thread: the call in which the thread waits returns
 * -ECANCELED. From then on until the thread ends, each call that has to wait returns
 * -ECANCELED at once, and calls that need not wait succeed. To cancel one job of a
 * thread, and not the whole thread, use a scope.
 *
 * A scheduler finds deadlocks among its threads. If these threads wait for a release by a
 * native thread, or by a thread of another scheduler, that thread has to announce the
 * release by uprocs_hold().
 *
 * No call of the library is a cancellation point: if a native thread is in a call,
 * pthread_cancel() takes effect at the first cancellation point after the call.
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
 * Returns the time `ns' after now, or the time now if `ns' is negative. If `ns' is a
 * second or more, the call reads a coarser clock, which is faster. The result is then
 * late by up to one tick of that clock, at most 10 ms.
 */
int64_t usync_after(int64_t ns);

/*
 * Waits until the deadline.
 * 0, or an error as above, except -ETIMEDOUT.
 */
int usync_sleep_until(int64_t deadline);

/* Mutex. */

/*
 * An unlock hands the mutex to the first waiter, if the waiter is on the caller's
 * processor. A waiter on another processor, or a native thread, is woken instead, and the
 * mutex is free until the waiter runs. Until then other threads may lock the mutex, and
 * so overtake the waiter, up to USYNC_OVERTAKES times in a row. After that the mutex is
 * kept for the waiter. The woken waiter tries for some microseconds to lock the mutex. If
 * another thread has the mutex all that time, the next unlock hands the mutex to the
 * waiter. Waiters keep their order. After an unlock has woken a waiter on another
 * processor, usync_mutex_lock() tries for some microseconds before a wait, and may
 * overtake waiters in that time.
 */
enum { USYNC_OVERTAKES = 4096 };

/* The size is 32 bytes if pointers have 64 bits. */
struct usync_mutex {
	uintptr_t          m_owner;     /* w_name of the owner, and bits: see usync.c */
	struct uwait_lock  m_lock;
	uint16_t           m_passed;    /* overtakes in a row; only the owner uses this */
	uint8_t            m_far;       /* 1: lock calls try before a wait; atomic */
	struct uwait_queue m_queue;
};

/*
 * Locks `m'.
 * 0, or an error as above; -EDEADLK: the caller has locked `m' already, and a mutex is
 * not recursive.
 */
int usync_mutex_lock(struct usync_mutex *m, int64_t deadline);

/* Private: as usync_mutex_lock() with deadline 0, but never yields. */
int usync__mutex_try(struct usync_mutex *m);

/*
 * Unlocks `m', or hands it to the first waiter.
 * 0; -EPERM: the caller has not locked `m'.
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
 * Lock `l' to read or to write. There may be several readers at a time, but a writer is
 * alone. A thread that has locked `l' to read must not lock `l' again. If that lock is to
 * write, the thread waits for itself; if it is to read, the thread waits for itself when
 * a writer waits.
 * 0, or an error as above; -EDEADLK: the caller has locked `l' to write; -EOVERFLOW:
 * there are 2^32 - 1 readers.
 */
int usync_rwlock_read(struct usync_rwlock *l, int64_t deadline);
int usync_rwlock_write(struct usync_rwlock *l, int64_t deadline);

/*
 * Unlocks `l', which the caller has locked to read or to write.
 * 0; -EPERM: `l' has no readers, and the caller has not locked `l' to write.
 */
int usync_rwlock_unlock(struct usync_rwlock *l);

/* Condition. */

struct usync_cond {
	struct uwait_lock  cv_lock;
	struct uwait_queue cv_queue;
};

/*
 * Unlocks `m', waits for a signal, and locks `m' again. Neither a deadline nor a cancel
 * ends the wait for `m', so the caller has locked `m' after any result except -EPERM.
 * There are no spurious wakes: the call returns 0 only after a signal. But other threads
 * may have locked `m' since the signal, so test the condition again.
 * 0, or an error as above; -EPERM: the caller has not locked `m'.
 */
int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m, int64_t deadline);

/* Wake the first waiter, or all waiters. */
void usync_cond_signal(struct usync_cond *c);
void usync_cond_broadcast(struct usync_cond *c);

/* Semaphore. */

struct usync_sem {
	uint32_t           sm_count;    /* may be set before the first use */
	struct uwait_lock  sm_lock;
	struct uwait_queue sm_queue;
};

/*
 * Waits until the count of `s' is not 0, and takes one from the count.
 * 0, or an error as above.
 */
int usync_sem_wait(struct usync_sem *s, int64_t deadline);

/*
 * Adds one to the count of `s' or, if a thread waits, lets the first waiter go on.
 * 0; -EOVERFLOW: the count is 2^32 - 1.
 */
int usync_sem_post(struct usync_sem *s);

/* Group: a count of jobs that are not done. */

struct usync_group {
	uint32_t           g_count;     /* jobs not done */
	struct uwait_lock  g_lock;
	struct uwait_queue g_queue;
};

/*
 * Adds `n' jobs. Make this call before the threads that do the jobs are started.
 * 0; -EOVERFLOW: there would be 2^32 jobs or more.
 */
int usync_group_add(struct usync_group *g, uint32_t n);

/*
 * Counts one job as done.
 * 0; -EINVAL: all jobs are done already.
 */
int usync_group_done(struct usync_group *g);

/*
 * Waits until all jobs are done.
 * 0, or an error as above.
 */
int usync_group_wait(struct usync_group *g, int64_t deadline);

/* Private: usync_group_wait() for usync_scope_wait(), which returns to `where'. */
int usync__scope_wait(struct usync_group *g, const void *where, int64_t deadline)
	__attribute__((visibility("hidden")));

/*
 * A channel carries values of one size from senders to receivers. Values are copied, so
 * they may be on the stacks of the sender and the receiver.
 */

struct usync_chan;

/*
 * If a channel is neither empty nor full, no call for the channel waits, and other
 * threads would not run. So after USYNC_BUDGET sends without a wait the next send to the
 * channel yields. Receives do the same. If the thread was cancelled, the call that would
 * yield returns -ECANCELED, unless the deadline is 0. A send with deadline 0 is not
 * counted and never switches, and the same is true for a select with deadline 0 that may
 * send. So threads on one processor can share the buffer of the value.
 */
enum { USYNC_BUDGET = 128 };

/*
 * Makes a channel for values of `size' bytes, and sets *c to it. The channel holds up to
 * `capacity' values; if `capacity' is 0, a sender waits until its value is received.
 * 0; -ENOMEM: no memory; -EINVAL: `size', `capacity' or their product is over 1 GiB.
 */
int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c);

/*
 * Frees the channel and the values in it. No thread may be waiting for the channel, or
 * use the channel later.
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
 * Closes the channel, so that nothing more can be sent. Waiting senders get -EPIPE.
 * Values in the channel can still be received.
 * 0; -EPIPE: the channel is closed already.
 */
int usync_chan_close(struct usync_chan *c);

enum usync_op { USYNC_RECV, USYNC_SEND, USYNC_READABLE, USYNC_WRITABLE };

/*
 * A case of a select: to receive from a channel or to send to a channel. If cs_chan is
 * NULL, the case is for a descriptor.
 */
struct usync_case {
	struct usync_chan *cs_chan;     /* NULL: the case is for cs_fd */
	enum usync_op      cs_op;
	void              *cs_value;    /* the value; may be on the caller's stack */
	int                cs_rc;       /* the result, set in the case that was done: 0;
					   -EPIPE as above; -EBADF: cs_fd is not open, or
					   unet_close() or unet_forget() ended its use */
	int                cs_fd;       /* a descriptor; never ready if negative */
};

/*
 * Waits until one of `n' cases can be done, and does that case. If several cases can be
 * done, one of these is chosen at random. A channel may be in several cases.
 *
 * A case with cs_chan NULL is for the descriptor cs_fd, and is done when unet_wait()
 * would return. Such a case transfers nothing, and a read or write after the select may
 * still have to wait. The first select makes cs_fd non-blocking, as calls of unet.h do.
 *
 * Returns the index of the case, or an error as above; -EINVAL: `n' is over 65,536; with
 * descriptors also errors of unet.h.
 */
int usync_select(struct usync_case *cases, size_t n, int64_t deadline);

/*
 * A scope stands for a job that several threads do, or for one of several jobs of a
 * thread, for example a request. Threads and native threads enter and leave the scope.
 * When the scope ends, all waits of threads in the scope return -ECANCELED, or -ETIMEDOUT
 * if the deadline of the scope has come. This concerns all calls that return -ECANCELED
 * to a cancelled thread, including sleeps, yields and joins. After a thread has left the
 * scope, waits of the thread are as before. So a worker can go on with its next job, and
 * a late cancel of the scope does not reach other jobs.
 *
 * A thread may be in several scopes. If several of these scopes have ended, or the thread
 * was cancelled, too, waits return the error of the earliest of these events. If a call
 * was given a lock, token or value before the end, the call succeeds. While
 * ustack_shield() is on, the end of a scope does not end waits of the thread. The end of
 * a scope does not stop functions that uoffload() has called, and does not end two waits:
 * the wait of usync_cond_wait() for the mutex, and the wait of a native thread in
 * ustack_join().
 *
 * Each create and each hold of a scope needs a release. The last release frees the scope.
 * Each thread in a scope holds the scope, and so does each scope within (made with this
 * scope as sh_parent). Of the calls for scopes only usync_scope_wait() and, with
 * sh_limit, usync_scope_start() wait.
 */

/* A scope. Its members are private. */
struct usync_scope;

/* How a scope is made. Zeros are the defaults. */
struct usync_scope_how {
	/* The scope around the new scope, or NULL. Its end ends the new scope, too. */
	struct usync_scope *sh_parent;

	/* The scheduler on which native threads start threads of the scope, as returned
	   by uprocs_sched(). rr starts them on any processor, ll on the first. NULL:
	   native threads cannot start threads of the scope. */
	struct usched      *sh_on;

	/* How many threads of usync_scope_start() may run at a time. 0: any number. */
	uint32_t            sh_limit;
};

/*
 * Makes a scope with the properties in `how', or the defaults if `how' is NULL. The scope
 * ends at the deadline. The caller is not in the scope yet. Release the scope later.
 * 0; -ENOMEM: no memory; -ETIMEDOUT: the deadline is 0 or less.
 */
int usync_scope_create(const struct usync_scope_how *how, struct usync_scope **scope,
		       int64_t deadline);

/*
 * Holds the scope, which then needs one more release.
 * Returns `scope'.
 */
struct usync_scope *usync_scope_hold(struct usync_scope *scope);

/* Ends a hold. The last release frees the scope, and does not end waits. */
void usync_scope_release(struct usync_scope *scope);

/*
 * The caller, a thread or native thread, enters the scope. A thread may enter a scope
 * several times. If the scope has ended already, waits of the caller fail from now on.
 * 0; -ENOMEM: no memory; -ENOTSUP: there is a deadline, and the scheduler has no timers
 * (s_polls).
 */
int usync_scope_enter(struct usync_scope *scope);

/*
 * The caller leaves the scope that the caller has entered last. A thread that ends leaves
 * all its scopes.
 * 0; -EPERM: the caller is in no scope.
 */
int usync_scope_leave(void);

/*
 * Ends the scope and all scopes within, unless the scope has ended already. `error' is a
 * negative errno value, which usync_scope_error() returns as the reason. 0 stands for
 * -ECANCELED. The more threads are in the scope, the longer the call takes.
 */
void usync_scope_cancel(struct usync_scope *scope, int error);

/*
 * Returns why the scope has ended: the error of usync_scope_cancel(), -ECANCELED if a
 * scope around was cancelled, or -ETIMEDOUT. 0: the scope has not ended.
 */
int usync_scope_error(const struct usync_scope *scope);

/*
 * Starts a thread that calls func(arg) in the scope. The thread starts on the caller's
 * scheduler or, if the caller is a native thread, on sh_on (struct usync_scope_how). If
 * sh_limit is set, the call waits while sh_limit threads run, and starts no thread if the
 * scope has ended. If func returns a value below 0, the scope is cancelled with that
 * value, so that the first error ends the waits of the other threads. If the new thread
 * cannot enter the scope, the scope is cancelled with the error of usync_scope_enter().
 * *thread is as in ustack_start(). If `thread' is NULL the thread is detached, and
 * usync_scope_wait() waits for the thread all the same.
 * 0; -EINVAL: `func' is NULL; -ENOMEM: no memory; -EPERM: the caller is a native thread,
 * and the scope was made without sh_on; -ENOTSUP as ustack_start(); -EOVERFLOW: there are
 * 2^32 - 1 threads; with sh_limit also the result of usync_scope_error(), and the errors
 * of waits as above.
 */
int usync_scope_start(struct usync_scope *scope, int (*func)(void *arg), void *arg,
		      struct ustack **thread);

/*
 * Starts a thread as usync_scope_start() does, with the properties in `how' (ustack.h). A
 * thread with h_serve returns no value. If such a thread cannot enter the scope it runs
 * h_serve all the same. Then the end of the scope does not end the waits of the thread,
 * but usync_scope_wait() waits for the thread.
 * Returns what usync_scope_start() returns, or an error of ustack_start_with().
 */
int usync_scope_start_with(struct usync_scope *scope, const struct ustack_how *how,
			   int (*func)(void *arg), void *arg, struct ustack **thread);

/*
 * Waits until the threads of usync_scope_start() have ended. If the caller is in the
 * scope, the end of the scope ends this wait, too. usync_scope_error() returns the first
 * error of these threads.
 * 0, or an error as above; -EDEADLK: the caller was started by usync_scope_start() in
 * this scope, and would wait for itself. Let the thread that made the scope wait.
 */
int usync_scope_wait(struct usync_scope *scope, int64_t deadline);

/* Keys. */

/*
 * A key. Each thread and each native thread has its own value for the key, NULL at first.
 * When a thread returns from its function, the thread calls ky_destroy(value), unless
 * ky_destroy or the value is NULL. ky_destroy may wait. If ky_destroy sets values, the
 * next round destroys them in the same way; there are at most four rounds. If a thread is
 * aborted, its values are lost. A key has to exist longer than all threads that have
 * values for the key; it may be static. The more keys a thread has values for, the longer
 * a look-up takes.
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

/* Private, for posix/: returns the value of `u'. From the dispatcher's native thread. */
void *usync__key_of(const struct ustack *u, const struct usync_key *key);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SYNC_H */
