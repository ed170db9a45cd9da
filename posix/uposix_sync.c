/* SPDX-License-Identifier: MIT */
/*
 * uposix_sync.c: mutexes and conditions of POSIX, as mutexes and conditions of usync in
 * the same memory.
 *
 * A mutex begins with a struct usync_mutex. The word m_word behind that struct holds the
 * kind, and how often the owner has locked the mutex. glibc's initialisers store the kind
 * where m_queue.q_first is. q_first is otherwise a pointer or NULL, so a small or odd
 * number there is a kind. glibc may have added bits about elision, and above them bits
 * about spins. If the kind is robust or shared by processes (SHARED), the mutex is
 * libc's. Any other kind is moved to m_word at the first call. A mutex of zeros is a
 * normal mutex, as in POSIX.
 *
 * A condition begins with a struct usync_cond. To find the bit that glibc sets in a
 * condition that processes share, the library initialises such a condition at the start.
 */
#include "uposix_set.h"

#include <stdlib.h>
#include <string.h>

struct mutex {
	struct usync_mutex m;
	uint32_t           m_word;      /* KINDS | KNOWN, and COUNT times the depth;
					   atomic */
};

enum {                                  /* words of a condition */
	WORDS = sizeof(pthread_cond_t) / 4,
	FIRST = sizeof(struct usync_cond) / 4,
	CLOCK = WORDS - FIRST - 1,      /* index of the clock in c_rest */
};

enum {
	KINDS  = 3,                     /* PTHREAD_MUTEX_TIMED_NP to ADAPTIVE_NP */
	KNOWN  = 4,                     /* m_word has the kind, which was set by a call
					   or moved there */
	GONE   = 8,                     /* destroyed */
	COUNT  = 16,
	DEPTHS = 1 << 24,
	SHARED = 0xf0,                  /* kinds of glibc: robust, with a protocol, or
					   shared */
	LIBC   = 4096,                  /* a word less than this is a kind */
	LEFT   = 7,                     /* if m_owner is at most this, the mutex has no
					   owner, but only bits: see usync.c */
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex is in place");
_Static_assert(offsetof(struct mutex, m.m_queue.q_first)
	       == offsetof(pthread_mutex_t, __data.__kind), "the kind is in the queue");
_Static_assert(PTHREAD_MUTEX_ADAPTIVE_NP == 3, "kinds fit");

struct cond {
	struct usync_cond c;
	uint32_t          c_rest[WORDS - FIRST];
};

_Static_assert(sizeof(struct cond) == sizeof(pthread_cond_t), "a condition is in place");

/* Mutexes. */

/*
 * Returns true if `word' is a kind. For an adaptive mutex the upper half holds glibc's
 * count of spins.
 */
static inline bool is_kind(uintptr_t word)
{
	return (word - 1 < LIBC - 1) | ((word & (sizeof(void *) - 1)) != 0);
}

/*
 * Moves the kind to m_word. Several callers may do so at the same time, so no caller
 * waits for another. Returns false if the mutex is libc's.
 */
static bool move_kind(struct mutex *m, uintptr_t kind)
{
	struct uwait_node *word = (struct uwait_node *)kind;
	uint32_t none = 0;

	if (kind & SHARED)
		return false;
	__atomic_compare_exchange_n(&m->m_word, &none, ((uint32_t)kind & KINDS) | KNOWN,
				    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&m->m.m_queue.q_first, &word, NULL, false,
				    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	return true;
}

/*
 * Makes a mutex usable in the child of a fork. If the thread that called fork() held the
 * mutex, the native thread becomes the owner. Until the child starts a thread, m_lock has
 * no holder and the queue no waiters, so both are cleared.
 */
static void adopt(struct mutex *m)
{
	uintptr_t owner = m->m.m_owner, held = owner & ~(uintptr_t)3;

	if (uposix__forked.f_alone) {
		m->m.m_lock = (struct uwait_lock){ 0 };
		m->m.m_queue = (struct uwait_queue){ NULL, NULL };
		m->m.m_owner = held > LEFT ? held : 0;
	}
	if (held && held == uposix__forked.f_name)
		m->m.m_owner = (owner ^ held) | uwait_name();
}

/* Returns the mutex, or NULL if the mutex is libc's. */
static inline struct mutex *mutex_of(pthread_mutex_t *mutex)
{
	struct mutex *m = (struct mutex *)(void *)mutex;
	uintptr_t kind = (uintptr_t)__atomic_load_n(&m->m.m_queue.q_first,
						    __ATOMIC_RELAXED);

	if (__builtin_expect((unsigned)is_kind(kind) | uposix__has_forked(), 0)) {
		if (is_kind(kind) && !move_kind(m, kind))
			return NULL;
		adopt(m);
	}
	return m;
}

int uposix_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	int kind = PTHREAD_MUTEX_DEFAULT, shared = 0, robust = 0;
	struct mutex *m = (struct mutex *)(void *)mutex;

	if (attr) {
		pthread_mutexattr_gettype(attr, &kind);
		pthread_mutexattr_getpshared(attr, &shared);
		pthread_mutexattr_getrobust(attr, &robust);
	}
	if (shared == PTHREAD_PROCESS_SHARED || robust == PTHREAD_MUTEX_ROBUST)
		return uposix__shared_init(mutex, kind, robust);
	memset(mutex, 0, sizeof *mutex);
	m->m_word = ((uint32_t)kind & KINDS) | KNOWN;
	return 0;
}

int uposix_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);

	if (!m)
		return pthread_mutex_destroy(mutex);
	if (__atomic_load_n(&m->m.m_owner, __ATOMIC_RELAXED))
		return EBUSY;
	if (m->m_word & GONE)
		return EINVAL;
	m->m_word = GONE;
	return 0;
}

/*
 * Locks a mutex that the caller already holds, if the kind allows that. In a simulation
 * the caller of another kind waits, as with libc: a deadlock, which is reported.
 */
static int relock(struct mutex *m, int64_t deadline)
{
	uint32_t kind = m->m_word & KINDS;

	if (kind == PTHREAD_MUTEX_RECURSIVE) {
		if (m->m_word / COUNT >= DEPTHS - 1)
			return EAGAIN;
		m->m_word += COUNT;
		return 0;
	}
	if (kind == PTHREAD_MUTEX_ERRORCHECK)
		return EDEADLK;
#ifdef USCHED_SIM
	while (uposix__once_more(usync_sleep_until(deadline)))
		;
	return ETIMEDOUT;
#else
	(void)deadline;
	UPOSIX_TELL_ONCE("pthread_mutex_lock(%p): the thread has it already, and would"
			 " wait for ever: EDEADLK", (void *)m);
	return EDEADLK;
#endif
}

/*
 * Does what usync_mutex_lock() does, except that ustack_cancel() does not end the wait of
 * a thread without a record.
 */
static int lock_until(struct mutex *m, int64_t deadline)
{
	int before = uposix__me() ? -1 : ustack_shield(1);
	int rc = usync_mutex_lock(&m->m, deadline);

	if (before >= 0)
		ustack_shield(before);
	return rc;
}

/*
 * Most calls have no deadline. So this does not call lock(), which is slower. The state
 * of a memory allocator is in thread-local variables, so a caller in an allocator waits
 * without letting another thread run on the processor.
 */
int uposix_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);
	int rc;

	uposix__pace_lock();
	if (__builtin_expect(!m, 0))
		return uposix__shared_lock(mutex, 0, NULL);
	rc = usync__mutex_try(&m->m);
	while (rc == -ETIMEDOUT && uposix__in_allocator(__builtin_return_address(0))) {
		sched_yield();
		rc = usync__mutex_try(&m->m);
	}
	if (rc == -ETIMEDOUT) {
		uposix__refuse_place(mutex);
		do
			rc = lock_until(m, USCHED_NEVER);
		while (uposix__once_more(rc));
	}
	return rc == -EDEADLK ? relock(m, USCHED_NEVER) : -rc;
}

int uposix_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);
	int rc;

	uposix__pace_lock();
	if (!m)
		return uposix__shared_trylock(mutex);
	rc = usync__mutex_try(&m->m);
	if (rc == -EDEADLK && (m->m_word & KINDS) == PTHREAD_MUTEX_RECURSIVE)
		return relock(m, USCHED_NEVER);
	return rc ? EBUSY : 0;
}

/*
 * Returns true if the mutex is recursive or error-checking, so that a second lock by its
 * owner is no deadlock.
 */
static bool is_checked(const struct mutex *m)
{
	uint32_t kind = m->m_word & KINDS;

	return kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
}

/* Locks a mutex. EINVAL for an invalid time is returned only if the call has to wait. */
static int lock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time)
{
	struct mutex *m = mutex_of(mutex);
	int rc;

	uposix__pace_lock();
	if (!m)
		return uposix__shared_lock(mutex, clock, time);
	rc = usync__mutex_try(&m->m);
	if ((rc == -ETIMEDOUT || (rc == -EDEADLK && !is_checked(m)))
	    && !uposix__is_time(time))
		return EINVAL;
	while (rc == -ETIMEDOUT || uposix__once_more(rc)) {
		rc = lock_until(m, uposix__deadline(time, clock));
		if (rc == -ETIMEDOUT && !uposix__early(time, clock))
			break;
	}
	return rc == -EDEADLK ? relock(m, uposix__deadline(time, clock)) : -rc;
}

int uposix_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
	return lock(mutex, CLOCK_REALTIME, time);
}

int uposix_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
				   const struct timespec *time)
{
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	return lock(mutex, clock, time);
}

int uposix_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);
	uint32_t word;
	int rc;

	if (__builtin_expect(!m, 0))
		return uposix__shared_unlock(mutex);
	word = __atomic_load_n(&m->m_word, __ATOMIC_RELAXED);
	if (__builtin_expect(word >= COUNT, 0)
	    && usync__mutex_try(&m->m) == -EDEADLK) {
		m->m_word = word - COUNT;
		return 0;
	}
	rc = word >= COUNT ? -EPERM : usync_mutex_unlock(&m->m);
	if (__builtin_expect(rc, 0) && (word & KINDS) == PTHREAD_MUTEX_TIMED_NP)
		UPOSIX_TELL_ONCE("pthread_mutex_unlock(%p): the thread does not have it:"
				 " EPERM", (void *)m);
	return -rc;
}

/* Only a robust mutex can be made consistent, and such a mutex is libc's. */
int uposix_pthread_mutex_consistent(pthread_mutex_t *mutex)
{
	return mutex_of(mutex) ? EINVAL
		: uproc__on_native(pthread_mutex_consistent, mutex);
}

int uposix_pthread_mutex_getprioceiling(const pthread_mutex_t *mutex, int *ceiling)
{
	return mutex_of((pthread_mutex_t *)(uintptr_t)mutex) ? EINVAL
		: pthread_mutex_getprioceiling(mutex, ceiling);
}

int uposix_pthread_mutex_setprioceiling(pthread_mutex_t *mutex, int ceiling, int *old)
{
	return mutex_of(mutex) ? EINVAL
		: pthread_mutex_setprioceiling(mutex, ceiling, old);
}

/* Conditions. */

/* The bits by which libc marks a condition. */
struct note {
	unsigned n_at;                  /* index of the word with the bits */
	uint32_t n_bits;                /* the bits, or 0 if they are not known */
};

static struct note shared_note, clock_note;     /* marks of a condition that processes
						   share, and of a condition with
						   CLOCK_MONOTONIC */

/* Returns the first word that differs in two conditions, and the bits that differ. */
static struct note compare(const pthread_cond_t *one, const pthread_cond_t *other)
{
	const uint32_t *a = (const void *)one, *b = (const void *)other;
	struct note n = { 0, 0 };

	for (unsigned i = FIRST; i < FIRST + CLOCK && !n.n_bits; i++)
		n = (struct note){ i, a[i] ^ b[i] };
	return n;
}

__attribute__((constructor(102))) static void find_notes(void)
{
	pthread_cond_t c[3];
	pthread_condattr_t attr;

	memset(c, 0, sizeof c);
	pthread_condattr_init(&attr);
	pthread_cond_init(&c[0], &attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&c[1], &attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c[2], &attr);
	pthread_condattr_destroy(&attr);
	shared_note = compare(&c[0], &c[1]);
	clock_note = compare(&c[1], &c[2]);
}

static bool is_noted(const pthread_cond_t *cond, struct note n)
{
	return ((const uint32_t *)(const void *)cond)[n.n_at] & n.n_bits;
}

/* Returns the condition, or NULL if the condition is libc's. */
static inline struct cond *cond_of(pthread_cond_t *cond)
{
	if (__builtin_expect(is_noted(cond, shared_note), 0))
		return NULL;
	if (__builtin_expect(uposix__forked.f_alone, 0)) {
		((struct cond *)(void *)cond)->c.cv_lock = (struct uwait_lock){ 0 };
		((struct cond *)(void *)cond)->c.cv_queue = (struct uwait_queue){ 0 };
	}
	return (struct cond *)(void *)cond;
}

int uposix_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	clockid_t clock = CLOCK_REALTIME;
	int shared = 0;

	if (attr) {
		pthread_condattr_getclock(attr, &clock);
		pthread_condattr_getpshared(attr, &shared);
	}
	memset(cond, 0, sizeof *cond);
	if (shared == PTHREAD_PROCESS_SHARED)
		return shared_note.n_bits ? pthread_cond_init(cond, attr) : ENOTSUP;
	((struct cond *)(void *)cond)->c_rest[CLOCK] = (uint32_t)clock;
	return 0;
}

int uposix_pthread_cond_destroy(pthread_cond_t *cond)
{
	struct cond *c = cond_of(cond);

	if (!c)
		return pthread_cond_destroy(cond);
	return __atomic_load_n(&c->c.cv_queue.q_first, __ATOMIC_RELAXED) ? EBUSY : 0;
}

/*
 * Waits for a condition. If `time' is not NULL, the wait ends at `time' at the latest.
 * Whatever the result, the caller then has the mutex locked as often as before. A signal
 * handler ends the wait like a wake.
 */
static int wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
		    const struct timespec *time)
{
	struct cond *c = cond_of(cond);
	struct mutex *m = mutex_of(mutex);
	uint32_t word;
	int rc;

	if (time && !uposix__is_time(time))
		return EINVAL;
	if (!m)
		return uposix__shared_wait(c ? NULL : cond, mutex, clock, time);
	if (!c) {
		UPOSIX_TELL_ONCE("pthread_cond_wait(%p): the condition is of several"
				 " processes, the mutex is not: EINVAL", (void *)cond);
		return EINVAL;
	}
	if (uposix__point())
		return 0;
	uposix__refuse_place(cond);
	word = m->m_word;
	if (word >= COUNT)
		m->m_word = word % COUNT;
	rc = usync_cond_wait(&c->c, &m->m, time ? uposix__deadline(time, clock)
			     : USCHED_NEVER);
	if (word >= COUNT)
		m->m_word = word;
	if (uposix__again(&rc) || rc == -EINTR
	    || (rc == -ETIMEDOUT && uposix__early(time, clock)))
		return 0;
	if (rc == -EPERM)
		UPOSIX_TELL_ONCE("pthread_cond_wait(%p): the thread does not have the"
				 " mutex: EPERM", (void *)cond);
	return -rc;
}

int uposix_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return wait_for(cond, mutex, CLOCK_REALTIME, NULL);
}

int uposix_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *time)
{
	const struct cond *c = cond_of(cond);
	clockid_t clock = c ? (clockid_t)c->c_rest[CLOCK]
		: is_noted(cond, clock_note) ? CLOCK_MONOTONIC : CLOCK_REALTIME;

	return wait_for(cond, mutex, clock, time);
}

int uposix_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  clockid_t clock, const struct timespec *time)
{
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	return wait_for(cond, mutex, clock, time);
}

int uposix_pthread_cond_signal(pthread_cond_t *cond)
{
	struct cond *c = cond_of(cond);

	uposix__pace_lock();
	if (!c)
		return pthread_cond_signal(cond);
	usync_cond_signal(&c->c);
	return 0;
}

int uposix_pthread_cond_broadcast(pthread_cond_t *cond)
{
	struct cond *c = cond_of(cond);

	uposix__pace_lock();
	if (!c)
		return pthread_cond_broadcast(cond);
	usync_cond_broadcast(&c->c);
	return 0;
}
