/* SPDX-License-Identifier: MIT */
/*
 * uposix_shared.c: mutexes and conditions that processes share, which have libc's format.
 * A lock by libc would block the processor, so a thread tries to lock such a mutex from
 * time to time.
 *
 * libc takes all threads of a processor for one thread. So recursive and error-checking
 * mutexes, which know their owner, are locked here: the word of the lock is 0 if the
 * mutex is free, 1 if the mutex is locked, and 2 if there are also waiters in the kernel;
 * __owner is a number that no native thread of any process has.
 *
 * The owner of a robust mutex is the native thread, whose list the kernel walks when the
 * process dies. So libc locks the mutex once, on the native thread's block. If a thread
 * ends with such a mutex, die() does what the kernel does at the end of a native thread.
 * Robust mutexes of one process are the same.
 *
 * Each thread has a list of the mutexes of these kinds that it holds, and stays on its
 * native thread until the list is empty. If such a mutex has a priority protocol, it is
 * refused. Mutexes that are initialised here have no priority protocol.
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

static bool is_robust(const pthread_mutex_t *mutex)
{
	return mutex->__data.__kind & ROBUST;
}

/* Returns true if a thread that holds the mutex has an entry for it in its list. */
static bool is_listed(const pthread_mutex_t *mutex)
{
	int kind = mutex->__data.__kind & KINDS;

	return is_robust(mutex) || kind == PTHREAD_MUTEX_RECURSIVE
		|| kind == PTHREAD_MUTEX_ERRORCHECK;
}

/*
 * Returns true if only libc could lock the mutex. Its owner would then be the processor
 * instead of the thread.
 */
static bool is_refused(const pthread_mutex_t *mutex)
{
	if (!(mutex->__data.__kind & OTHERS && is_listed(mutex)))
		return false;
	UPOSIX_TELL_ONCE("pthread_mutex_lock(%p): with a priority protocol, and robust or"
			 " with an owner: ENOTSUP", (const void *)mutex);
	return true;
}

/* Initialises a mutex without a priority protocol, even if the attributes have one. */
int uposix__shared_init(pthread_mutex_t *mutex, int kind, int robust)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc)
		return rc;
	pthread_mutexattr_settype(&attr, kind);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, robust);
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

static void enter(struct uposix_thread *me, struct uposix_held *h)
{
	h->h_next = me->p_held;
	me->p_held = h;
	ustack_stay(1);
}

/* Takes the entry *at out of the list. */
static struct uposix_held *take_out(struct uposix_thread *me, struct uposix_held **at)
{
	struct uposix_held *h = *at;

	*at = h->h_next;
	ustack_stay(me->p_held != NULL);
	return h;
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
	return uproc__on_native(pthread_mutex_trylock, mutex);
}

/*
 * Tries a mutex that the calling thread does not hold. libc is not called if a robust
 * mutex has an owner, which may be another thread of the native thread.
 */
static int try_listed(void *place)
{
	pthread_mutex_t *mutex = place;
	int vacant = 0;

	if (is_robust(mutex))
		return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED)
			& FUTEX_TID_MASK ? EBUSY : try_other(mutex);
	if (!__atomic_compare_exchange_n(&mutex->__data.__lock, &vacant, 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return EBUSY;
	mutex->__data.__owner = THREAD | getpid();
	mutex->__data.__count = 1;
	mutex->__data.__nusers++;
	return 0;
}

/* Waits for the mutex, and then enters `h' into the list. After an error frees `h'. */
static int take(struct uposix_thread *me, struct uposix_held *h, clockid_t clock,
		const struct timespec *time)
{
	int rc = uposix__poll(try_listed, h->h_mutex, clock, time);

	if (rc == 0 || rc == EOWNERDEAD)
		enter(me, h);
	else
		free(h);
	return rc;
}

static int lock_listed(struct uposix_thread *me, pthread_mutex_t *mutex,
		       clockid_t clock, const struct timespec *time)
{
	struct uposix_held *h = *find(me, mutex);

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
	*h = (struct uposix_held){ .h_mutex = mutex, .h_count = 1 };
	return take(me, h, clock, time);
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
	return is_listed(mutex) ? lock_listed(me, mutex, clock, time)
		: uposix__poll(try_other, mutex, clock, time);
}

int uposix__shared_trylock(pthread_mutex_t *mutex)
{
	static const struct timespec past = { 0, 0 };
	struct uposix_thread *me = uposix__me();
	int rc;

	if (me && is_refused(mutex))
		return ENOTSUP;
	if (!me || !is_listed(mutex))
		return try_other(mutex);
	rc = lock_listed(me, mutex, CLOCK_MONOTONIC, &past);
	return rc == ETIMEDOUT || rc == EDEADLK ? EBUSY : rc;
}

static void release(pthread_mutex_t *mutex)
{
	if (is_robust(mutex)) {
		uproc__on_native(pthread_mutex_unlock, mutex);
		return;
	}
	mutex->__data.__owner = 0;
	mutex->__data.__count = 0;
	mutex->__data.__nusers--;
	if (__atomic_exchange_n(&mutex->__data.__lock, 0, __ATOMIC_RELEASE) > 1)
		syscall(SYS_futex, &mutex->__data.__lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int uposix__shared_unlock(pthread_mutex_t *mutex)
{
	struct uposix_thread *me = uposix__me();
	struct uposix_held **at;

	if (!me || !is_listed(mutex))
		return uproc__on_native(pthread_mutex_unlock, mutex);
	at = find(me, mutex);
	if (!*at)
		return EPERM;
	if (--(*at)->h_count > 0)
		return 0;
	release(mutex);
	free(take_out(me, at));
	return 0;
}

/*
 * Unlocks the mutex completely. *h keeps the entry of the list for take(), which then
 * needs no memory.
 */
static int let_go(struct uposix_thread *me, pthread_mutex_t *mutex,
		  struct uposix_held **h)
{
	struct uposix_held **at;

	*h = NULL;
	if (!me || !is_listed(mutex))
		return uproc__on_native(pthread_mutex_unlock, mutex);
	at = find(me, mutex);
	if (!*at)
		return EPERM;
	release(mutex);
	*h = take_out(me, at);
	return 0;
}

/*
 * Returns after at most one interval of polling, since POSIX allows spurious wakes.
 * `cond' is NULL if the condition is not libc's.
 */
int uposix__shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time)
{
	struct uposix_thread *me = uposix__me();
	struct uposix_held *h;
	int rc, taken;

	if (!me && cond)
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
	taken = h ? take(me, h, 0, NULL) : uposix__poll(try_other, mutex, 0, NULL);
	if (taken)                      /* the owner has died */
		return taken;
	/* A cancel or a signal may have come during the wait for the mutex. */
	if (uposix__again(&rc) || rc == -EINTR || uposix__point())
		return 0;
	return time && uposix__deadline(time, clock) <= usync_after(0) ? ETIMEDOUT : 0;
}

/* Returns an element of libc's list. A link to it is the address of its __next, and the
   lowest bit of a link is a mark. */
static __pthread_list_t *element(const __pthread_list_t *link)
{
	return (__pthread_list_t *)(((uintptr_t)link & ~(uintptr_t)1)
				    - offsetof(__pthread_list_t, __next));
}

/*
 * Takes a robust mutex out of the native thread's list, makes the owner's end known, and
 * wakes a waiter. If the process dies meanwhile, the kernel finds the mutex as pending.
 */
static void die(pthread_mutex_t *mutex)
{
	__pthread_list_t *l = &mutex->__data.__list;
	uint32_t *word = (uint32_t *)&mutex->__data.__lock;
	uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
	struct robust_list_head *head;
	size_t size;

	if (syscall(SYS_get_robust_list, 0, &head, &size))
		return;
	head->list_op_pending = (void *)&l->__next;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	element(l->__next)->__prev = l->__prev;
	element(l->__prev)->__next = l->__next;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	while (!__atomic_compare_exchange_n(word, &old, (old & FUTEX_WAITERS)
					    | FUTEX_OWNER_DIED, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	head->list_op_pending = NULL;
}

void uposix__end_held(struct uposix_thread *me, bool dies)
{
	struct uposix_held *h;

	while ((h = me->p_held)) {
		if (dies && is_robust(h->h_mutex))
			die(h->h_mutex);
		free(take_out(me, &me->p_held));
	}
}

/* In the child of a fork, the mutexes that the thread held belong to the parent. */
static void held_forked(void)
{
	struct uposix_thread *me = uposix__me();

	if (me)
		uposix__end_held(me, false);
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
	while (rc < 0 && uposix__would_wait() && usync_after(0) < deadline
	       && uposix__look_later());
	return rc;
}

int uposix_semop(int set, struct sembuf *ops, size_t n)
{
	return uposix_semtimedop(set, ops, n, NULL);
}
