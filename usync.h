/* SPDX-License-Identifier: MIT */
/*
 * usync.h: what threads do with each other: mutexes, reader-writer locks, conditions,
 * semaphores, groups, channels; and what they do alone: sleep, and keep values of their
 * own.
 *
 * All of it is for threads of any scheduler, of one processor or of several, and for
 * native threads outside of all schedulers, which block natively; the two may use the
 * same object. Objects are the caller's, on the heap or static, never on a thread's
 * stack, for others follow pointers to them; zeros are a new object, which needs no end,
 * but for channels. One on which threads waited that were aborted must not be used any
 * more.
 * All queues are first in, first out, and what is released is handed to the first who
 * waits: nobody gets in before, so nothing starves.
 *
 * Whatever may wait takes a deadline last: in nanoseconds of CLOCK_MONOTONIC, as from
 * usync_after(); USCHED_NEVER: there is none; 0: do not wait at all. Then it switches
 * threads if it has to wait, may be called by threads and by native threads, not in
 * call-backs or signal handlers, and returns 0 or
 *
 *   -ETIMEDOUT  the deadline has come, or is 0 and it had to wait
 *   -ECANCELED  the calling thread was cancelled (ustack_cancel()) and had to wait; to sleep,
 *               to yield and to join are to wait, always
 *   -ENOMEM     no memory to wait with
 *   -ENOTSUP    there is a deadline, and the scheduler has no timers (s_polls)
 *   -EMFILE, -ENFILE  no descriptor left for its timers: for the first deadline of a processor
 *   -ENOSPC     nor a watch, of which the system bounds the number, too
 *   -EFAULT     see ustack_block()
 *
 * and has changed nothing when it returns an error. All else neither waits nor
 * switches, and may be called from any native thread.
 *
 * Schedulers find deadlocks among threads; a native thread that will release what
 * threads wait for has to say so before: rr_hold().
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
 * The deadline `ns' from now; a negative one is now. For a second and more a clock is
 * asked that is not as fine and a lot faster, and the deadline is later by up to one of
 * its ticks: at most 10 ms.
 */
int64_t usync_after(int64_t ns);

/*
 * 0 when the time has come; errors as above, but for -ETIMEDOUT.
 */
int usync_sleep_until(int64_t deadline);

/* Mutex. */

struct usync_mutex {
	uintptr_t          m_owner;     /* 1: somebody waits */
	struct uwait_lock  m_lock;
	struct uwait_queue m_queue;
};

/* Besides the above, -EDEADLK: it is the caller's already. */
int usync_mutex_lock(struct usync_mutex *m, int64_t deadline);

/* 0; -EPERM: it is not the caller's. */
int usync_mutex_unlock(struct usync_mutex *m);

/* Reader-writer lock. A reader that comes after a writer who waits waits behind it. */

struct usync_rwlock {
	uintptr_t          r_owner;     /* the writer */
	uint32_t           r_readers;
	struct uwait_lock  r_lock;
	struct uwait_queue r_queue;
};

/* Besides, -EDEADLK: the caller has it to write; -EOVERFLOW: 2^32 - 1 readers. */
int usync_rwlock_read(struct usync_rwlock *l, int64_t deadline);
int usync_rwlock_write(struct usync_rwlock *l, int64_t deadline);

/* 0; -EPERM: nobody has it to read, and the caller has it not to write. */
int usync_rwlock_unlock(struct usync_rwlock *l);

/* Condition. */

struct usync_cond {
	struct uwait_lock  c_lock;
	struct uwait_queue c_queue;
};

/*
 * Releases `m', waits for a signal, and takes `m' again, which has no deadline and is not
 * cancelled: whatever it returns, the caller has `m'. Returns 0 for a signal only: there
 * are no spurious ones, but others may have had `m' in between.
 * Besides, -EPERM: `m' is not the caller's.
 */
int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m, int64_t deadline);

/* Wakes the first who waits, or all. */
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

/* Group: wait until so many things are done. */

struct usync_group {
	uint32_t           g_count;     /* what is not done */
	struct uwait_lock  g_lock;
	struct uwait_queue g_queue;
};

/* 0; -EOVERFLOW: there would be 2^32 or more. */
int usync_group_add(struct usync_group *g, uint32_t n);

/* 0; -EINVAL: nothing is left. */
int usync_group_done(struct usync_group *g);

int usync_group_wait(struct usync_group *g, int64_t deadline);

/* Channel: values of one size, from whoever sends to whoever receives. */

struct usync_chan;

/*
 * Of values of `size' bytes, of which `capacity' are kept for those who will receive; 0:
 * who sends waits until the value is received.
 * 0; -ENOMEM; -EINVAL: size or capacity over 1 GiB, or both together.
 */
int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c);

/* Frees it, with the values in it. Nobody may use it any more. */
void usync_chan_destroy(struct usync_chan *c);

/* Besides, -EPIPE: it is closed, and was not sent. */
int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline);

/* Besides, -EPIPE: it is closed, and all that was in it was received. */
int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline);

/*
 * From now on nothing can be sent. Who waits to send gets -EPIPE.
 * 0; -EPIPE: it is closed already.
 */
int usync_chan_close(struct usync_chan *c);

/* Values in it, without those of who waits to send; it may have changed already. */
size_t usync_chan_count(struct usync_chan *c);

enum usync_op { USYNC_RECV, USYNC_SEND };

struct usync_case {
	struct usync_chan *s_chan;      /* NULL: this case never happens */
	enum usync_op      s_op;
	void              *s_value;     /* to send, or to be received into; may be on the stack */
	int                s_rc;        /* of the one that happened: 0, or -EPIPE as above */
};

/*
 * Does one of several, the first that can be done; of those that can be done at once,
 * each has its turn to be preferred. The same channel may be there several times.
 * The index of the case; errors as above; -EINVAL: n over 65536.
 */
int usync_select(struct usync_case *cases, size_t n, int64_t deadline);

/* Values of a thread's own. */

/*
 * A key: each thread, and each native thread, has a value of its own for it, NULL at
 * first. When a thread ends by itself, k_destroy, unless it is NULL, is called by the
 * thread with each value that is not NULL; it may wait, and set values, which are
 * destroyed in turn, up to four times. A thread that is aborted just loses its values. A
 * key is static, or outlives all threads that have values for it. Looking one up takes
 * longer the more keys a thread has values for.
 */
struct usync_key {
	void (*k_destroy)(void *value);
};

/* 0; -ENOMEM. */
int usync_key_set(const struct usync_key *key, void *value);
void *usync_key_get(const struct usync_key *key);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SYNC_H */
