/* SPDX-License-Identifier: MIT */
/*
 * uposix_shared.c: mutexes and conditions that processes share, which have libc's format.
 * A lock by libc would block the processor, so a thread tries to lock such a mutex from
 * time to time.
 *
 * libc takes all threads of a processor for one thread. So recursive and error-checking
 * mutexes, which know their owner, are locked here: the word of the lock is 0 if the
 * mutex is free, 1 if the mutex is locked, and 2 if there are also waiters in the kernel;
 * __owner is a number that no native thread of any process has. Each thread has a list of
 * the mutexes of these kinds that it holds. If such a mutex is robust or has a priority
 * protocol, it is refused. Mutexes that are initialised here have no priority protocol.
 *
 * A robust mutex of the usual kind is libc's. Its owner is the native thread, whose list
 * the kernel walks when the process dies. So libc is called on the native thread's block.
 * If a thread ends with such a mutex, the mutex stays locked until the process ends.
 *
 * Threads try queues and semaphores of System V in the same way.
 */
#include "uposix_set.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>

enum {                                  /* bits of __kind */
	KINDS  = 3,
	ROBUST = 0x10,
	OTHERS = 0x60,                  /* priority protocols */
	THREAD = 0x40000000,            /* __owner is this bit and the process ID */
};

enum { SEMOPM = 500 };                  /* the most operations of one call on Linux */

struct uposix_held {
	struct uposix_held *h_next;
	pthread_mutex_t    *h_mutex;
	uint32_t            h_count;
};

/* Returns true if a mutex of this kind knows its owner. */
static bool is_checked(const pthread_mutex_t *mutex)
{
	int kind = mutex->__data.__kind & KINDS;

	return kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
}

/*
 * Returns true if only libc could lock the mutex. Its owner would then be the processor
 * instead of the thread.
 */
static bool is_refused(const pthread_mutex_t *mutex)
{
	int kind = mutex->__data.__kind;

	if (!(kind & (ROBUST | OTHERS) && is_checked(mutex)))
		return false;
	UPOSIX_TELL_ONCE("pthread_mutex_lock(%p): one of several processes, and robust"
			 " or with a protocol: ENOTSUP", (const void *)mutex);
	return true;
}

/* Initialises a mutex without a priority protocol, even if the attributes have one. */
int uposix__shared_init(pthread_mutex_t *mutex, int kind)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc)
		return rc;
	pthread_mutexattr_settype(&attr, kind);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	rc = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

/*
 * Looks for the entry of the mutex in the list of `me'. Returns the address of the
 * pointer to the entry, or of the NULL at the end of the list.
 */
static struct uposix_held **find(struct uposix_thread *me, const pthread_mutex_t *mutex)
{
	struct uposix_held **at = &me->p_held;

	while (*at && (*at)->h_mutex != mutex)
		at = &(*at)->h_next;
	return at;
}

int uposix__poll(int (*try)(void *object), void *object, clockid_t clock,
		 const struct timespec *time)
{
	int rc;

	while ((rc = try(object)) == EBUSY) {
		if (time && !uposix__is_time(time))
			return EINVAL;
		if (time && uposix__deadline(time, clock) <= usync_after(0))
			return ETIMEDOUT;
		uposix__once_more(usync_sleep_until(usync_after(UPOSIX_LOOK)));
	}
	return rc;
}

static int try_other(void *mutex)
{
	return uposix__on_native(pthread_mutex_trylock, mutex);
}

static int try_checked(void *place)
{
	pthread_mutex_t *mutex = place;
	int vacant = 0;

	if (!__atomic_compare_exchange_n(&mutex->__data.__lock, &vacant, 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return EBUSY;
	mutex->__data.__owner = THREAD | getpid();
	mutex->__data.__count = 1;
	mutex->__data.__nusers++;
	return 0;
}

static int lock_checked(struct uposix_thread *me, pthread_mutex_t *mutex,
			clockid_t clock, const struct timespec *time)
{
	struct uposix_held *h = *find(me, mutex);
	int rc;

	if (h) {
		if ((mutex->__data.__kind & KINDS) != PTHREAD_MUTEX_RECURSIVE)
			return EDEADLK;
		if (h->h_count == UINT_MAX)
			return EAGAIN;
		h->h_count++;
		return 0;
	}
	h = malloc(sizeof *h);
	if (!h)
		return EAGAIN;
	rc = uposix__poll(try_checked, mutex, clock, time);
	if (rc) {
		free(h);
		return rc;
	}
	*h = (struct uposix_held){ me->p_held, mutex, 1 };
	me->p_held = h;
	return 0;
}

int uposix__shared_lock(pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		return !time ? pthread_mutex_lock(mutex)
			: clock == CLOCK_REALTIME ? pthread_mutex_timedlock(mutex, time)
			: pthread_mutex_clocklock(mutex, clock, time);
	if (is_refused(mutex))
		return ENOTSUP;
	return is_checked(mutex) ? lock_checked(me, mutex, clock, time)
		: uposix__poll(try_other, mutex, clock, time);
}

int uposix__shared_trylock(pthread_mutex_t *mutex)
{
	static const struct timespec past = { 0, 0 };
	struct uposix_thread *me = uposix__me();
	int rc;

	if (me && is_refused(mutex))
		return ENOTSUP;
	if (!me || !is_checked(mutex))
		return try_other(mutex);
	rc = lock_checked(me, mutex, CLOCK_MONOTONIC, &past);
	return rc == ETIMEDOUT || rc == EDEADLK ? EBUSY : rc;
}

static void release(pthread_mutex_t *mutex)
{
	mutex->__data.__owner = 0;
	mutex->__data.__count = 0;
	mutex->__data.__nusers--;
	if (__atomic_exchange_n(&mutex->__data.__lock, 0, __ATOMIC_RELEASE) > 1)
		syscall(SYS_futex, &mutex->__data.__lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int uposix__shared_unlock(pthread_mutex_t *mutex)
{
	struct uposix_thread *me = uposix__me();
	struct uposix_held **at, *h;

	if (!me || !is_checked(mutex))
		return uposix__on_native(pthread_mutex_unlock, mutex);
	at = find(me, mutex);
	h = *at;
	if (!h)
		return EPERM;
	if (--h->h_count > 0)
		return 0;
	*at = h->h_next;
	free(h);
	release(mutex);
	return 0;
}

/*
 * Unlocks the mutex completely. *h keeps the entry of the list for take_again(), which
 * then needs no memory and cannot fail.
 */
static int let_go(struct uposix_thread *me, pthread_mutex_t *mutex,
		  struct uposix_held **h)
{
	struct uposix_held **at = find(me, mutex);

	*h = NULL;
	if (!is_checked(mutex))
		return uposix__on_native(pthread_mutex_unlock, mutex);
	if (!*at)
		return EPERM;
	*h = *at;
	*at = (*h)->h_next;
	release(mutex);
	return 0;
}

static void take_again(struct uposix_thread *me, pthread_mutex_t *mutex,
		       struct uposix_held *h)
{
	uposix__poll(h ? try_checked : try_other, mutex, 0, NULL);
	if (!h)
		return;
	h->h_next = me->p_held;
	me->p_held = h;
}

/* Returns after at most one interval of polling, since POSIX allows spurious wakes. */
int uposix__shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time)
{
	struct uposix_thread *me = uposix__me();
	struct uposix_held *h;
	int rc;

	if (!me)
		return !time ? pthread_cond_wait(cond, mutex)
			: clock == CLOCK_REALTIME
			? pthread_cond_timedwait(cond, mutex, time)
			: pthread_cond_clockwait(cond, mutex, clock, time);
	if (uposix__point())
		return 0;
	rc = let_go(me, mutex, &h);
	if (rc)
		return rc;
	rc = usync_sleep_until(usync_after(UPOSIX_LOOK));
	take_again(me, mutex, h);
	/* A cancel or a signal may have come during the wait for the mutex. */
	if (uposix__again(&rc) || rc == -EINTR || uposix__point())
		return 0;
	return time && uposix__deadline(time, clock) <= usync_after(0) ? ETIMEDOUT : 0;
}

/* Called when a thread ends, and in the child of a fork. */
void uposix__forget_held(struct uposix_thread *me)
{
	struct uposix_held *h;

	while ((h = me->p_held)) {
		me->p_held = h->h_next;
		free(h);
	}
}

/* In the child of a fork, the mutexes that the thread held belong to the parent. */
static void held_forked(void)
{
	struct uposix_thread *me = uposix__me();

	if (me)
		uposix__forget_held(me);
}

UPOSIX_AT_FORK(UPOSIX_HELD, NULL, held_forked)

/* ---- Objects of System V ---- */

/*
 * Returns true if libc's function does not wait or the caller may block natively. Then
 * libc's function can be called.
 */
static bool is_plain(int flags)
{
	uposix__pace();
	return flags & IPC_NOWAIT || !uposix__me();
}

bool uposix__look_later(void)
{
	int rc = usync_sleep_until(usync_after(UPOSIX_LOOK));

	if (uposix__again_once(&rc) || rc != -EINTR)
		return true;
	errno = EINTR;
	return false;
}

ssize_t uposix_msgrcv(int queue, void *message, size_t size, long type, int flags)
{
	ssize_t n = -1;

	if (is_plain(flags))
		return msgrcv(queue, message, size, type, flags);
	if (uposix__begins(false))
		do
			n = msgrcv(queue, message, size, type, flags | IPC_NOWAIT);
		while (n < 0 && errno == ENOMSG && uposix__look_later());
	return n;
}

int uposix_msgsnd(int queue, const void *message, size_t size, int flags)
{
	int rc = -1;

	if (is_plain(flags))
		return msgsnd(queue, message, size, flags);
	if (uposix__begins(false))
		do
			rc = msgsnd(queue, message, size, flags | IPC_NOWAIT);
		while (rc < 0 && errno == EAGAIN && uposix__look_later());
	return rc;
}

/*
 * If some operations have IPC_NOWAIT and others do not, libc's call blocks the processor.
 */
int uposix_semtimedop(int set, struct sembuf *ops, size_t n, const struct timespec *limit)
{
	static const struct timespec none = { 0, 0 };
	int64_t deadline = USCHED_NEVER;
	int flags = 0, rc;

	for (size_t i = 0; ops && i < n && n <= SEMOPM; i++)
		flags |= ops[i].sem_flg;
	if (is_plain(flags) || (limit && (limit->tv_sec < 0 || !uposix__is_time(limit))))
		return semtimedop(set, ops, n, limit);
	if (limit && limit->tv_sec < INT32_MAX)
		deadline = usync_after(limit->tv_sec * USYNC_SECOND + limit->tv_nsec);
	do
		rc = semtimedop(set, ops, n, &none);
	while (rc < 0 && errno == EAGAIN && usync_after(0) < deadline
	       && uposix__look_later());
	return rc;
}

int uposix_semop(int set, struct sembuf *ops, size_t n)
{
	return uposix_semtimedop(set, ops, n, NULL);
}
