/* SPDX-License-Identifier: MIT */
/*
 * What glibc's condition variable needs of glibc, for a program. It is included before
 * pthread_cond_wait.c and the like; headers of glibc's source are empty.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The members of all versions, whatever version this machine has. */
struct own_cond {
	struct {
		__atomic_wide_counter __wseq, __g1_start;
		unsigned __g_refs[2], __g_size[2], __g1_orig_size, __wrefs;
		unsigned __g_signals[2];
	} __data;
};

#define pthread_cond_t struct own_cond

int ___pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int ___pthread_cond_signal(pthread_cond_t *);
int ___pthread_cond_broadcast(pthread_cond_t *);

#define __pthread_cond_signal ___pthread_cond_signal
#define __pthread_cond_broadcast ___pthread_cond_broadcast
#define __pthread_mutex_cond_lock pthread_mutex_lock
#define __pthread_mutex_unlock_usercnt(mutex, count) pthread_mutex_unlock(mutex)
#define __pthread_cleanup_push(buffer, call, arg) ((void)(buffer), (void)(call))
#define __pthread_cleanup_pop(buffer, calls) ((void)(buffer))

#define __PTHREAD_COND_SHARED_MASK 1
#define __PTHREAD_COND_CLOCK_MONOTONIC_MASK 2
#define __HAVE_64B_ATOMICS 1
#define SHARED
#define LIBC_PROBE(...)
#define versioned_symbol(...)
#define libc_hidden_ver(...)
#define strong_alias(...)
#define OTHER_SHLIB_COMPAT(...) 0
#define __timespec64 timespec
#define valid_nanoseconds(ns) 1
#define futex_abstimed_supported_clockid(clock) 1
#define __glibc_unlikely(is) (is)

#define ORDER __ATOMIC_SEQ_CST
#define atomic_load_relaxed(at) __atomic_load_n(at, ORDER)
#define atomic_load_acquire atomic_load_relaxed
#define atomic_store_relaxed(at, value) __atomic_store_n(at, value, ORDER)
#define atomic_store_release atomic_store_relaxed
#define atomic_exchange_relaxed(at, value) __atomic_exchange_n(at, value, ORDER)
#define atomic_fetch_add_relaxed(at, value) __atomic_fetch_add(at, value, ORDER)
#define atomic_fetch_add_acquire atomic_fetch_add_relaxed
#define atomic_fetch_add_release atomic_fetch_add_relaxed
#define atomic_fetch_or_relaxed(at, value) __atomic_fetch_or(at, value, ORDER)
#define atomic_fetch_or_acquire atomic_fetch_or_relaxed
#define atomic_fetch_or_release atomic_fetch_or_relaxed
#define atomic_fetch_and_relaxed(at, value) __atomic_fetch_and(at, value, ORDER)
#define atomic_fetch_and_release atomic_fetch_and_relaxed
#define atomic_fetch_xor_release(at, value) __atomic_fetch_xor(at, value, ORDER)
#define atomic_compare_exchange_weak_acquire(at, expected, value)		\
	__atomic_compare_exchange_n(at, expected, value, 0, ORDER, ORDER)
#define atomic_compare_exchange_weak_relaxed atomic_compare_exchange_weak_acquire
#define atomic_thread_fence_acquire() __atomic_thread_fence(ORDER)
#define __atomic_wide_counter_load_relaxed(at) atomic_load_relaxed(&(at)->__value64)
#define __atomic_wide_counter_fetch_add_acquire(at, value)		\
	atomic_fetch_add_relaxed(&(at)->__value64, value)
#define __atomic_wide_counter_add_relaxed(at, value)			\
	atomic_store_relaxed(&(at)->__value64,				\
			     atomic_load_relaxed(&(at)->__value64) + (value))

enum { FUTEX_PRIVATE = 0, FUTEX_SHARED = 1 };

static inline void futex_wake(unsigned *word, int n, int shared)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, shared);
}

static inline int futex_wait_simple(unsigned *word, unsigned value, int shared)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, shared);
	return 0;
}

#define __futex_abstimed_wait_cancelable64(word, value, clock, time, shared)	\
	futex_wait_simple(word, value, shared)
