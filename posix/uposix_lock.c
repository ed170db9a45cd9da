/* SPDX-License-Identifier: MIT */
/*
 * uposix_lock.c: reader-writer locks, semaphores, barriers and spin locks of POSIX over
 * usync. An object that this library has initialised has a mark in a word that glibc does
 * not use.
 */
#include "uposix_set.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct rwlock {
	struct usync_rwlock l;
	char                l_rest[offsetof(pthread_rwlock_t, __data.__pad2)
				   - sizeof(struct usync_rwlock)];
	uintptr_t           l_mark;     /* OURS, or any other value if libc uses the
					   lock; atomic */
	unsigned            l_kind;     /* kind, which glibc's static initialisers set */
};

struct sem {
	struct usync_sem s;
	uintptr_t        s_mark;        /* OURS, or any other value if the semaphore is
					   libc's */
};

/*
 * A native thread that waits for a semaphore. This record is on the native thread's
 * stack.
 */
struct sleeper {
	struct sleeper *z_next;         /* protected by r_lock */
	struct sem     *z_sem;
	bool            z_listed;       /* true while in the list; protected by r_lock */
	sem_t           z_woken;        /* libc's semaphore on which the native thread
					   sleeps */
};

static struct room {
	struct uwait_lock r_lock;
	uint32_t          r_count;      /* number of sleepers in the list; atomic */
	struct sleeper   *r_first;
} rooms[64];

/* A barrier. It is on the heap, since a pthread_barrier_t is too small. */
struct barrier {
	struct usync_mutex b_lock;
	struct usync_cond  b_over;
	unsigned           b_count;
	unsigned           b_waiting;
	unsigned           b_inside;    /* threads that have not left the wait yet */
	unsigned           b_round;
	bool               b_gone;      /* true after pthread_barrier_destroy(); then the
					   last thread that leaves frees the barrier */
};

/* The layout of a pthread_barrier_t. glibc uses the first 20 bytes. */
struct place {
	char            p_libc[24];
	struct barrier *p_barrier;      /* NULL: the barrier is libc's */
};

#define OURS ((uintptr_t)0x75706f73)

_Static_assert(sizeof(struct usync_rwlock) <= offsetof(pthread_rwlock_t, __data.__pad2)
	       && offsetof(struct rwlock, l_kind)
	       == offsetof(pthread_rwlock_t, __data.__flags), "a lock is in place");
_Static_assert(sizeof(struct sem) <= sizeof(sem_t), "a semaphore is in place");
_Static_assert(sizeof(struct place) <= sizeof(pthread_barrier_t), "so is the pointer");

enum { SPINS = 100 };

/* uposix__poll() calls these functions to try a lock that processes share. */
static int try_read(void *lock)
{
	return pthread_rwlock_tryrdlock(lock);
}

static int try_write(void *lock)
{
	return pthread_rwlock_trywrlock(lock);
}

/* Reader-writer locks. */

/*
 * Makes a lock usable in the child of a fork, as uposix_sync.c does for a mutex. Read
 * locks have no owner, and stay held.
 */
static void adopt(struct usync_rwlock *l)
{
	if (uposix__forked.f_alone) {
		l->rw_lock = (struct uwait_lock){ 0 };
		l->rw_queue = (struct uwait_queue){ NULL, NULL };
	}
	if (l->rw_owner && l->rw_owner == uposix__forked.f_name)
		l->rw_owner = uwait_name();
}

/* Returns the lock, or NULL if libc implements this lock. */
static inline struct rwlock *rwlock_of(pthread_rwlock_t *lock)
{
	struct rwlock *l = (struct rwlock *)(void *)lock;
	uintptr_t mark = __atomic_load_n(&l->l_mark, __ATOMIC_ACQUIRE);
	int shared;

	if (__builtin_expect(mark == OURS, 1)) {
		if (__builtin_expect(uposix__has_forked(), 0))
			adopt(&l->l);
		return l;
	}
	/*
	 * If another thread has marked the lock in the meantime, this value is not
	 * __shared, but a part of the queue. So look at the mark again.
	 */
	shared = __atomic_load_n(&lock->__data.__shared, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&l->l_mark, __ATOMIC_SEQ_CST) == OURS)
		return l;
	if (shared)
		return NULL;
	__atomic_store_n(&l->l_mark, OURS, __ATOMIC_SEQ_CST);
	return l;
}

int uposix_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr)
{
	struct rwlock *l = (struct rwlock *)(void *)lock;
	int kind = PTHREAD_RWLOCK_DEFAULT_NP, shared = 0;

	if (attr) {
		pthread_rwlockattr_getkind_np(attr, &kind);
		pthread_rwlockattr_getpshared(attr, &shared);
	}
	memset(lock, 0, sizeof *lock);
	if (shared == PTHREAD_PROCESS_SHARED)
		return pthread_rwlock_init(lock, attr);
	l->l_kind = (unsigned)kind;
	l->l_mark = OURS;
	return 0;
}

int uposix_pthread_rwlock_destroy(pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);

	if (!l)
		return pthread_rwlock_destroy(lock);
	return l->l.rw_owner || l->l.rw_readers ? EBUSY : 0;
}

/*
 * As with glibc, a reader does not wait for waiting writers while other readers hold the
 * lock. So a thread may read-lock the same lock twice. Locks of the kind
 * PREFER_WRITER_NONRECURSIVE are the exception.
 */
static int read_until(struct rwlock *l, int64_t deadline)
{
	bool taken = false;

	uposix__pace_lock();
	if (l->l_kind != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) {
		uwait_lock(&l->l.rw_lock);
		taken = l->l.rw_readers > 0 && l->l.rw_readers < INT_MAX
			&& !l->l.rw_owner;
		l->l.rw_readers += taken;
		uwait_unlock(&l->l.rw_lock);
	}
	return taken ? 0 : usync_rwlock_read(&l->l, deadline);
}

static int read_lock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *t)
{
	struct rwlock *l = rwlock_of(lock);
	int rc;

	if (!l)
		return uposix__pace_lock(), uposix__poll(try_read, lock, clock, t);
	rc = read_until(l, t ? 0 : USCHED_NEVER);
	if (rc == -ETIMEDOUT && !uposix__is_time(t))
		return EINVAL;
	while (uposix__once_more(rc) || rc == -ETIMEDOUT) {
		rc = read_until(l, t ? uposix__deadline(t, clock) : USCHED_NEVER);
		if (rc == -ETIMEDOUT && !uposix__early(t, clock))
			break;
	}
	return rc == -EOVERFLOW ? EAGAIN : -rc;
}

static int write_lock(pthread_rwlock_t *lock, clockid_t clock, const struct timespec *t)
{
	struct rwlock *l = rwlock_of(lock);
	int rc;

	if (!l)
		return uposix__pace_lock(), uposix__poll(try_write, lock, clock, t);
	rc = usync_rwlock_write(&l->l, t ? 0 : USCHED_NEVER);
	if (rc == -ETIMEDOUT && !uposix__is_time(t))
		return EINVAL;
	while (uposix__once_more(rc) || rc == -ETIMEDOUT) {
		rc = usync_rwlock_write(&l->l, t ? uposix__deadline(t, clock)
					: USCHED_NEVER);
		if (rc == -ETIMEDOUT && !uposix__early(t, clock))
			break;
	}
	return -rc;
}

int uposix_pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	return read_lock(lock, 0, NULL);
}

int uposix_pthread_rwlock_timedrdlock(pthread_rwlock_t *lock, const struct timespec *time)
{
	return read_lock(lock, CLOCK_REALTIME, time);
}

static bool is_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

int uposix_pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t clock,
				      const struct timespec *time)
{
	return is_clock(clock) ? read_lock(lock, clock, time) : EINVAL;
}

int uposix_pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	return write_lock(lock, 0, NULL);
}

int uposix_pthread_rwlock_timedwrlock(pthread_rwlock_t *lock, const struct timespec *time)
{
	return write_lock(lock, CLOCK_REALTIME, time);
}

int uposix_pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t clock,
				      const struct timespec *time)
{
	return is_clock(clock) ? write_lock(lock, clock, time) : EINVAL;
}

int uposix_pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);
	int rc = l ? read_until(l, 0) : 0;

	if (!l)
		return uposix__pace_lock(), pthread_rwlock_tryrdlock(lock);
	return rc == -EOVERFLOW ? EAGAIN : rc ? EBUSY : 0;
}

int uposix_pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);

	if (!l)
		return uposix__pace_lock(), pthread_rwlock_trywrlock(lock);
	return usync_rwlock_write(&l->l, 0) ? EBUSY : 0;
}

int uposix_pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);

	return l ? -usync_rwlock_unlock(&l->l) : pthread_rwlock_unlock(lock);
}

/*
 * Semaphores. A semaphore of sem_open() has no mark, and is libc's.
 *
 * A signal must end the wait of a native thread, such as main(). So a native thread
 * sleeps in libc's sem_wait(), and its record is in the list of a room, which the address
 * of the semaphore selects. A post wakes the first sleeper in that list, which then tries
 * to take the semaphore again. No post is missed, because a sleeper enters the list first
 * and tries afterwards, while a post first raises the count and then looks in the list.
 */

static inline struct sem *sem_of(sem_t *sem)
{
	struct sem *s = (struct sem *)(void *)sem;

	if (__builtin_expect(s->s_mark != OURS, 0))
		return NULL;
	if (__builtin_expect(uposix__forked.f_alone, 0)) {
		s->s.sm_lock = (struct uwait_lock){ 0 };
		s->s.sm_queue = (struct uwait_queue){ NULL, NULL };
	}
	return s;
}

static void sems_forked(void)
{
	memset(rooms, 0, sizeof rooms);
}

UPOSIX_AT_FORK(UPOSIX_SEMS, NULL, sems_forked)

int uposix_sem_init(sem_t *sem, int shared, unsigned count)
{
	struct sem *s = (struct sem *)(void *)sem;

	if (count > SEM_VALUE_MAX)
		return (int)uposix__result(-EINVAL);
	memset(sem, 0, sizeof *sem);
	if (shared)
		return sem_init(sem, shared, count);
	s->s.sm_count = count;
	s->s_mark = OURS;
	return 0;
}

int uposix_sem_destroy(sem_t *sem)
{
	struct sem *s = sem_of(sem);

	if (!s)
		return sem_destroy(sem);
	if (s->s.sm_queue.q_first)
		return (int)uposix__result(-EBUSY);
	s->s_mark = 0;
	return 0;
}

static int native_wait(sem_t *sem, clockid_t clock, const struct timespec *time)
{
	return !time ? sem_wait(sem) : clock == CLOCK_REALTIME ? sem_timedwait(sem, time)
		: sem_clockwait(sem, clock, time);
}

static int native_sem(sem_t *sem, clockid_t clock, const struct timespec *time)
{
	int rc = 0;

	if (!uposix__me())
		return native_wait(sem, clock, time);
	uposix__point();
	while (rc != -EINTR && sem_trywait(sem)) {
		if (time && !uposix__is_time(time))
			return (int)uposix__result(-EINVAL);
		if (time && uposix__deadline(time, clock) <= usync_after(0))
			return (int)uposix__result(-ETIMEDOUT);
		rc = usync_sleep_until(usync_after(UPOSIX_LOOK));
		uposix__again(&rc);
	}
	return (int)uposix__result(rc == -EINTR ? rc : 0);
}

static uint32_t sem_value(const struct sem *s)
{
	return __atomic_load_n(&s->s.sm_count, __ATOMIC_RELAXED);
}

static struct room *room_of(const struct sem *sem)
{
	return &rooms[(uintptr_t)sem / sizeof *sem % (sizeof rooms / sizeof rooms[0])];
}

/*
 * Locks a room. Signal handlers are blocked meanwhile, since a handler may call
 * sem_post().
 */
static void lock_room(struct room *r, uint64_t *old)
{
	uposix__hold_handlers(old);
	uwait_lock(&r->r_lock);
}

/*
 * Removes `z' from the list. If `z' is NULL, removes and wakes the first sleeper of the
 * semaphore.
 */
static void get_up(struct room *r, const struct sem *sem, struct sleeper *z)
{
	struct sleeper **at = &r->r_first, *found;

	while ((found = *at) && (z ? found != z : found->z_sem != sem))
		at = &found->z_next;
	if (!found)
		return;
	*at = found->z_next;
	found->z_listed = false;
	__atomic_store_n(&r->r_count, r->r_count - 1, __ATOMIC_RELAXED);
	if (!z)
		sem_post(&found->z_woken);
}

static void unlock_room(struct room *r, const uint64_t *old)
{
	uwait_unlock(&r->r_lock);
	uposix__release_handlers(old);
}

/*
 * Ends a sleep, also if the native thread is cancelled. If a post has woken this sleeper,
 * but the semaphore is still free, wakes the next sleeper.
 */
static void end_sleep(struct sleeper *z)
{
	struct room *r = room_of(z->z_sem);
	int error = errno;
	uint64_t old;
	bool woken;

	lock_room(r, &old);
	woken = !z->z_listed;
	if (!woken)
		get_up(r, z->z_sem, z);
	else if (sem_value(z->z_sem) > 0)
		get_up(r, z->z_sem, NULL);
	unlock_room(r, &old);
	sem_destroy(&z->z_woken);
	errno = error;
}

/*
 * Enters the list, and tries to take the semaphore. Returns true if the semaphore is
 * taken.
 */
static bool lie_down(struct sleeper *z)
{
	struct room *r = room_of(z->z_sem);
	struct sleeper **at;
	uint64_t old;
	bool taken;

	lock_room(r, &old);
	if (!z->z_listed) {
		for (at = &r->r_first; *at; at = &(*at)->z_next)
			;
		z->z_next = NULL;
		*at = z;
		z->z_listed = true;
		__atomic_store_n(&r->r_count, r->r_count + 1, __ATOMIC_RELAXED);
	}
	taken = usync_sem_wait(&z->z_sem->s, 0) == 0;
	unlock_room(r, &old);
	return taken;
}

static int sleep_for(struct sem *s, clockid_t clock, const struct timespec *time)
{
	__attribute__((cleanup(end_sleep))) struct sleeper z = { .z_sem = s };
	int rc = 0;

	sem_init(&z.z_woken, 0, 0);
	for (;;) {
		if (lie_down(&z))
			return 0;
		if (rc)
			return rc;
		rc = native_wait(&z.z_woken, clock, time);
	}
}

static int sem_until(sem_t *sem, clockid_t clock, const struct timespec *time)
{
	struct sem *s = sem_of(sem);
	int rc = uposix__point_for(!time);

	if (rc)
		return (int)uposix__result(rc);
	if (!s)
		return uposix__pace_lock(), native_sem(sem, clock, time);
	if (!ustack_self())
		return sem_value(s) > 0 && usync_sem_wait(&s->s, 0) == 0 ? 0
			: sleep_for(s, clock, time);
	if (sem_value(s) == 0)
		uposix__refuse_place(sem);
	rc = usync_sem_wait(&s->s, time ? 0 : USCHED_NEVER);
	if (rc == -ETIMEDOUT && !uposix__is_time(time))
		return (int)uposix__result(-EINVAL);
	while ((time ? uposix__again_once(&rc) : uposix__again(&rc))
	       || rc == -ETIMEDOUT) {
		rc = usync_sem_wait(&s->s, time ? uposix__deadline(time, clock)
				    : USCHED_NEVER);
		if (rc == -ETIMEDOUT && !uposix__early(time, clock))
			break;
	}
	return (int)uposix__result(rc);
}

int uposix_sem_wait(sem_t *sem)
{
	return sem_until(sem, CLOCK_REALTIME, NULL);
}

int uposix_sem_timedwait(sem_t *sem, const struct timespec *time)
{
	return sem_until(sem, CLOCK_REALTIME, time);
}

int uposix_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *time)
{
	return is_clock(clock) ? sem_until(sem, clock, time)
		: (int)uposix__result(-EINVAL);
}

/*
 * Wakes a sleeper after a post. Another thread may have freed the semaphore, so this uses
 * only its address.
 */
static void wake_native(const struct sem *sem)
{
	struct room *r = room_of(sem);
	uint64_t old;

	if (__builtin_expect(__atomic_load_n(&r->r_count, __ATOMIC_RELAXED) == 0, 1))
		return;
	lock_room(r, &old);
	get_up(r, sem, NULL);
	unlock_room(r, &old);
}

int uposix_sem_trywait(sem_t *sem)
{
	struct sem *s = sem_of(sem);

	if (!s)
		return uposix__pace_lock(), sem_trywait(sem);
	return (int)uposix__result(usync_sem_wait(&s->s, 0) ? -EAGAIN : 0);
}

int uposix_sem_post(sem_t *sem)
{
	struct sem *s = sem_of(sem);
	int rc;

	uposix__pace_lock();
	if (!s)
		return sem_post(sem);
	if (sem_value(s) >= SEM_VALUE_MAX)
		return (int)uposix__result(-EOVERFLOW);
	rc = usync_sem_post(&s->s);
	wake_native(s);
	return (int)uposix__result(rc);
}

int uposix_sem_getvalue(sem_t *sem, int *value)
{
	struct sem *s = sem_of(sem);

	uposix__pace_lock();
	if (!s)
		return sem_getvalue(sem, value);
	*value = (int)sem_value(s);
	return 0;
}

/* Barriers. */

static inline struct place *place_of(pthread_barrier_t *barrier)
{
	return (struct place *)(void *)barrier;
}

int uposix_pthread_barrier_init(pthread_barrier_t *barrier,
				const pthread_barrierattr_t *attr, unsigned count)
{
	struct barrier *b;
	int shared = 0;

	if (attr)
		pthread_barrierattr_getpshared(attr, &shared);
	memset(barrier, 0, sizeof *barrier);
	if (shared == PTHREAD_PROCESS_SHARED)
		return pthread_barrier_init(barrier, attr, count);
	if (count == 0 || count > INT_MAX)
		return EINVAL;
	b = calloc(1, sizeof *b);
	if (!b)
		return ENOMEM;
	b->b_count = count;
	place_of(barrier)->p_barrier = b;
	return 0;
}

static void lock_barrier(struct barrier *b)
{
	while (uposix__once_more(usync_mutex_lock(&b->b_lock, USCHED_NEVER)))
		;
}

/*
 * As with glibc, a barrier may be destroyed as soon as one thread has returned from
 * pthread_barrier_wait().
 */
int uposix_pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	struct barrier *b = place_of(barrier)->p_barrier;
	bool empty;

	if (!b)
		return pthread_barrier_destroy(barrier);
	lock_barrier(b);
	if (b->b_waiting > 0) {
		usync_mutex_unlock(&b->b_lock);
		return EBUSY;
	}
	b->b_gone = true;
	empty = b->b_inside == 0;
	usync_mutex_unlock(&b->b_lock);
	if (empty)
		free(b);
	place_of(barrier)->p_barrier = NULL;
	return 0;
}

int uposix_pthread_barrier_wait(pthread_barrier_t *barrier)
{
	struct barrier *b = place_of(barrier)->p_barrier;
	unsigned round;
	bool last, gone;
	int rc;

	if (!b) {
		if (uposix__me())
			UPOSIX_TELL_ONCE("pthread_barrier_wait(%p): one of several"
					 " processes blocks a processor",
					 (void *)barrier);
		return pthread_barrier_wait(barrier);
	}
	lock_barrier(b);
	b->b_inside++;
	round = b->b_round;
	last = ++b->b_waiting == b->b_count;
	if (last) {
		b->b_waiting = 0;
		b->b_round++;
		usync_cond_broadcast(&b->b_over);
	}
	while (b->b_round == round) {
		rc = usync_cond_wait(&b->b_over, &b->b_lock, USCHED_NEVER);
		if (__builtin_expect(rc == -ECANCELED, 0)) {
			usync_mutex_unlock(&b->b_lock);
			uposix__once_more(rc);          /* runs signal handlers, which
							   may wait */
			lock_barrier(b);
		}
	}
	gone = --b->b_inside == 0 && b->b_gone;
	usync_mutex_unlock(&b->b_lock);
	if (gone)
		free(b);
	return last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

/*
 * Yields from time to time. The holder of a spin lock should not wait, but may be a
 * thread of this processor that waits.
 */
int uposix_pthread_spin_lock(pthread_spinlock_t *lock)
{
	int rc;

	uposix__pace_lock();
	for (unsigned i = 1; (rc = pthread_spin_trylock(lock)) == EBUSY; i++)
		if (i % SPINS == 0)
			uposix_sched_yield();
	return rc;
}

int uposix_pthread_spin_trylock(pthread_spinlock_t *lock)
{
	uposix__pace_lock();
	return pthread_spin_trylock(lock);
}
