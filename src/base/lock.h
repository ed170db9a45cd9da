/* SPDX-License-Identifier: MIT */
/*
 * lock.h: locks, and atomic operations, which are sequentially consistent unless noted.
 * Private. With SINGLE_THREAD there is one native thread, so these are ordinary code.
 *
 *   LOAD(x)            the value
 *   FETCH_ADD(p, n)    the value before; FETCH_OR and FETCH_AND likewise
 *   SWAP(p, new)       the value before
 *   CAS(p, old, new)   true: *p was *old and is now `new'; false: *old is now *p
 *   GET(x), SET(x, v)  relaxed: for counters, and for words that order nothing
 *   ONE_NATIVE         1 with SINGLE_THREAD, else 0
 */
#ifndef USCHED_LOCK_H
#define USCHED_LOCK_H

#include <pthread.h>

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define GET(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define SET(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

#ifdef SINGLE_THREAD

enum { ONE_NATIVE = 1 };

/* Uses GNU C's statement expressions and typeof; __extension__ silences -Wpedantic. */
#define UPDATE(p, value) __extension__ ({               \
	__typeof__(p) p_ = (p);                         \
	__typeof__(*p_) old_ = *p_;                     \
	*p_ = (value);                                  \
	old_;                                           \
})

#define FETCH_ADD(p, n)    UPDATE(p, old_ + (n))
#define FETCH_OR(p, bits)  UPDATE(p, old_ | (bits))
#define FETCH_AND(p, bits) UPDATE(p, old_ & (bits))
#define SWAP(p, new)       UPDATE(p, new)
#define CAS(p, old, new)   __extension__ ({             \
	__typeof__(p) p_ = (p), expected_ = (old);      \
	_Bool same_ = *p_ == *expected_;                \
	if (same_)                                      \
		*p_ = (new);                            \
	else                                            \
		*expected_ = *p_;                       \
	same_;                                          \
})

#else

enum { ONE_NATIVE = 0 };

#define FETCH_ADD(p, n)    __atomic_fetch_add(p, n, __ATOMIC_SEQ_CST)
#define FETCH_OR(p, bits)  __atomic_fetch_or(p, bits, __ATOMIC_SEQ_CST)
#define FETCH_AND(p, bits) __atomic_fetch_and(p, bits, __ATOMIC_SEQ_CST)
#define SWAP(p, new)       __atomic_exchange_n(p, new, __ATOMIC_SEQ_CST)
#define CAS(p, old, new)   __atomic_compare_exchange_n(p, old, new, 0, \
					__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#endif

static inline void lock(pthread_mutex_t *m)
{
	if (!ONE_NATIVE)
		pthread_mutex_lock(m);
}

static inline void unlock(pthread_mutex_t *m)
{
	if (!ONE_NATIVE)
		pthread_mutex_unlock(m);
}

#endif /* USCHED_LOCK_H */
