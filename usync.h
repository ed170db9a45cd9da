/* SPDX-License-Identifier: MIT */
/*
 * usync.h: synchronization: mutexes, reader-writer locks, conditions, semaphores,
 * groups, channels; scopes; sleep; and values that each thread has for itself.
 *
 * Threads of any scheduler may use these objects, on one processor or several, and so may
 * native threads outside of all schedulers, which block natively. Objects belong to the
 * program. They are on the heap or static, never on a thread's stack, since other threads
 * follow pointers to them. An object of zeros is new, and needs no call at its end;
 * channels and scopes are created and freed by calls. A thread must unlock all its locks
 * before it ends: no other thread can. After a thread was aborted in a wait, do not use
 * the object any more.
 *
 * Queues are first in, first out. What is released is handed to the first waiter, so no
 * other thread gets in before, and no thread starves. Only a mutex may be overtaken, by
 * threads of other processors and within a bound: USYNC_OVERTAKES.
 *
 * Each call that may wait has a deadline as its last argument: a time of CLOCK_MONOTONIC
 * in ns, such as usync_after() returns. Since it is a point in time, it can be handed
 * down through several calls. USCHED_NEVER is no deadline; with 0 the call does not wait.
 * A call that waits switches threads. A call that does not wait yields if the thread has
 * run for a millisecond without a wait, whatever the thread has called meanwhile; a call
 * for a channel also yields by USYNC_BUDGET; a send with deadline 0 never yields. Threads
 * and native threads may make these calls, call-backs and signal handlers may not. The
 * calls return 0 or
 *
 *   -ETIMEDOUT  The deadline has come, or is 0 and the call had to wait.
 *   -ECANCELED  The calling thread was cancelled (ustack_cancel()) and had to wait; a
 *               sleep always has to wait.
 *   -ENOMEM     No memory to wait with.
 *   -ENOTSUP    There is a deadline, and the scheduler has no timers (s_polls).
 *   -EFAULT     The caller cannot block where it is: see ustack_block().
 *
 * After an error nothing has changed. All other calls neither wait nor switch, and may be
 * made from any native thread, except that usync_scope_create() may yield by the same
 * rule. A thread that loops over calls which never switch, such as usync_cond_signal(),
 * keeps its processor, as a thread that computes does: call ustack_check() there.
 *
 * After ustack_cancel() each call of the thread that has to wait returns -ECANCELED,
 * until the thread ends, and so does the call in which the thread waits. Calls that need
 * not wait succeed. A scope cancels a part of a thread.
 *
 * Schedulers find deadlocks among threads. A native thread that will release what threads
 * wait for has to announce that by uprocs_hold(), and so have threads of another
 * scheduler.
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
 * Returns the deadline `ns' from now; with a negative `ns' the time now. For a second or
 * more the time is read from a faster clock, and the deadline is late by up to one tick
 * of that clock, at most 10 ms.
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
 * processor. A waiter of another processor, or a native thread, is woken instead, and the
 * mutex is free until the waiter comes: other threads may overtake the waiter, up to
 * USYNC_OVERTAKES times in a row; then the mutex is kept for the waiter. A woken waiter
 * looks for some microseconds; if the mutex is not free then, the next unlock hands the
 * mutex over. Waiters keep their order. Once a waiter was on another processor, a lock
 * looks for some microseconds before it waits, and may overtake meanwhile.
 */
enum { USYNC_OVERTAKES = 4096 };

/* 32 bytes, with pointers of 64 bits. */
struct usync_mutex {
	uintptr_t          m_owner;     /* a name, with bits: see usync.c */
	struct uwait_lock  m_lock;
	uint16_t           m_passed;    /* overtakes so far; owned by the owner */
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
 * Lock `l' to read, together with other readers, or to write, alone. A thread that has
 * `l' to read must not lock `l' again: to write it would wait for itself, and to read,
 * too, if a writer waits.
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
 * Releases `m', waits for a signal, and takes `m' again. Neither a deadline nor a cancel
 * ends the wait for `m', so the caller has `m' after any result except -EPERM. There are
 * no spurious wakes: 0 is a signal. But other threads may have had `m' before the caller,
 * so test the condition again.
 * 0, or an error as above; -EPERM: `m' is not the caller's.
 */
int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m, int64_t deadline);

/* Wake the first waiter, or all waiters. */
void usync_cond_signal(struct usync_cond *c);
void usync_cond_broadcast(struct usync_cond *c);

/* Semaphore. */

struct usync_sem {
	uint32_t           sm_count;    /* may be set before use */
	struct uwait_lock  sm_lock;
	struct uwait_queue sm_queue;
};

/*
 * Takes one from `s', and waits while the count is 0.
 * 0, or an error as above.
 */
int usync_sem_wait(struct usync_sem *s, int64_t deadline);

/*
 * Adds one to `s', or hands it to the first waiter.
 * 0; -EOVERFLOW: `s' has 2^32 - 1.
 */
int usync_sem_post(struct usync_sem *s);

/* Group: a count of things that are not done. */

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

/* Private: usync_group_wait() for usync_scope_wait(), which was called at `where'. */
int usync__scope_wait(struct usync_group *g, const void *where, int64_t deadline)
	__attribute__((visibility("hidden")));

/*
 * Channel: carries values of one size from senders to receivers. Values are copied, also
 * from and to the stack.
 */

struct usync_chan;

/*
 * A thread yields after so many sends, or so many receives, for one channel without a
 * wait, so that a channel that is never empty or full does not hold up other threads; and
 * after a millisecond of such calls. A cancelled thread gets -ECANCELED from the call
 * that would yield, unless the deadline is 0. A send with deadline 0, or a select with
 * deadline 0 that may send, does not count, and never switches: other threads may share
 * what is sent.
 */
enum { USYNC_BUDGET = 128 };

/*
 * Makes a channel of values of `size' bytes in *c. The channel holds up to `capacity'
 * values; with 0, a sender waits until its value is received.
 * 0; -ENOMEM: no memory; -EINVAL: `size', `capacity' or their product is over 1 GiB.
 */
int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c);

/*
 * Frees the channel and the values in it. No thread may wait there, or use the channel
 * any more.
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
	struct usync_chan *cs_chan;     /* NULL: cs_fd counts, or nothing does */
	enum usync_op      cs_op;
	void              *cs_value;    /* the value; may be on the caller's stack */
	int                cs_rc;       /* set in the case that was done: 0; -EPIPE as
					   above; -EBADF: cs_fd is not open, or its use
					   here has ended */
	int                cs_fd;       /* to be readable or writable; negative: never */
};

/*
 * Does one of `n' cases, the first that can be done. If several cases can be done at
 * once, a random one is done. A channel may be in several cases.
 *
 * The case of a descriptor has cs_chan NULL, and is done when unet_wait() would return.
 * The case transfers nothing, and a call after the select may have to wait. The first
 * select makes cs_fd non-blocking, as calls of unet.h do.
 *
 * Returns the index of the case, or an error as above; -EINVAL: `n' is over 65,536; with
 * descriptors also errors of unet.h.
 */
int usync_select(struct usync_case *cases, size_t n, int64_t deadline);

/*
 * A scope is a job in several threads, or one of the jobs of a thread, such as a request.
 * Threads and native threads enter and leave the scope. At the end of the scope all waits
 * of threads in the scope end, with -ECANCELED, or -ETIMEDOUT if the deadline of the
 * scope has come: calls that return -ECANCELED to cancelled threads, sleeps, yields and
 * joins. After a thread has left the scope its waits are as before: a worker goes on with
 * its next job, and a late cancel of the scope does not reach other jobs.
 *
 * A thread may be in several scopes. The first scope that ends counts, or a cancel of the
 * thread if that came first. If a lock, token or value was handed over before the end,
 * the call succeeds. ustack_shield() shields from scopes, too. Scopes do not end the lock
 * that usync_cond_wait() takes again, a call of uoffload() that runs, and ustack_join()
 * of a native thread.
 *
 * Scopes are counted: each create and each hold needs a release. Each thread in a scope
 * holds the scope, and so does each scope within. Only usync_scope_wait() waits, and a
 * start with sh_limit.
 */

/* A scope. Its members are private. */
struct usync_scope;

/* How a scope is made. Zeros are the defaults. */
struct usync_scope_how {
	/* The scope around the new scope, or NULL. Its end ends the new scope, too. */
	struct usync_scope *sh_parent;

	/* The scheduler on which native threads start threads of the scope:
	   uprocs_sched(); with rr on any processor, with ll on the first. NULL: native
	   threads cannot start any. */
	struct usched      *sh_on;

	/* The most threads of usync_scope_start() at a time. 0: any number. */
	uint32_t            sh_limit;
};

/*
 * Makes a scope with the properties in `how', or the defaults if `how' is NULL. The scope
 * ends at the deadline. The caller is not in the scope, and must release the scope.
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
 * Has the caller, a thread or native thread, enter the scope, perhaps not for the first
 * time. If the scope has ended, waits fail.
 * 0; -ENOMEM: no memory; -ENOTSUP: there is a deadline, and the scheduler has no timers
 * (s_polls).
 */
int usync_scope_enter(struct usync_scope *scope);

/*
 * Has the caller leave the scope that it entered last. A thread that ends leaves all.
 * 0; -EPERM: the caller is in no scope: each leave needs an enter by the same thread.
 */
int usync_scope_leave(void);

/*
 * Ends the scope and all scopes within, unless the scope has ended already. `error', a
 * negative errno value, is the reason, which usync_scope_error() returns; 0 stands for
 * -ECANCELED. The call takes time for each thread in the scope.
 */
void usync_scope_cancel(struct usync_scope *scope, int error);

/*
 * Returns why the scope has ended: the error of usync_scope_cancel(), -ECANCELED if a
 * scope around was cancelled, or -ETIMEDOUT. 0: the scope has not ended.
 */
int usync_scope_error(const struct usync_scope *scope);

/*
 * Starts a thread that calls func(arg) in the scope, on the caller's scheduler, or from a
 * native thread on sh_on (struct usync_scope_how). With sh_limit the call waits while so
 * many threads run, and starts no thread if the scope has ended. If func returns a value
 * below 0, the scope is cancelled with that value: the first error ends the waits of the
 * other threads. If the new thread cannot enter the scope, the scope is cancelled with
 * that error. *thread is as in ustack_start(); with NULL the thread is detached, and
 * usync_scope_wait() waits for the thread all the same.
 * 0; -EINVAL: `func' is NULL; -ENOMEM: no memory; -EPERM: the caller is a native thread,
 * and the scope has no sh_on: make it with sh_on; -ENOTSUP as ustack_start(); -EOVERFLOW:
 * there are 2^32 - 1; with sh_limit also that of usync_scope_error(), and errors as
 * above.
 */
int usync_scope_start(struct usync_scope *scope, int (*func)(void *arg), void *arg,
		      struct ustack **thread);

/*
 * Starts a thread as usync_scope_start() does, with the properties in `how' (ustack.h). A
 * thread with h_serve returns no value. If such a thread cannot enter the scope it runs
 * h_serve all the same: the scope does not end the waits of that thread, and
 * usync_scope_wait() waits for it.
 * As usync_scope_start(), and errors of ustack_start_with().
 */
int usync_scope_start_with(struct usync_scope *scope, const struct ustack_how *how,
			   int (*func)(void *arg), void *arg, struct ustack **thread);

/*
 * Waits until the threads of usync_scope_start() have ended. If the caller is in the
 * scope, the end of the scope ends this wait, too. usync_scope_error() has the first
 * error of these threads.
 * 0, or an error as above; -EDEADLK: the caller is such a thread, and would wait for
 * itself: have the thread that made the scope wait.
 */
int usync_scope_wait(struct usync_scope *scope, int64_t deadline);

/* Keys. */

/*
 * A key. Each thread and each native thread has its own value for the key, NULL at first.
 * When a thread returns from its function, ky_destroy, unless NULL, is called there with
 * each value that is not NULL. ky_destroy may wait, and may set values, which are then
 * destroyed in turn, in up to four rounds. A thread that is aborted loses its values. A
 * key is static, or exists longer than all threads that have values for the key. The more
 * keys a thread has values for, the longer a look-up takes.
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
