/* SPDX-License-Identifier: MIT */
/*
 * ulocks.c: finds threads that block while they hold a lock of pthread.h. Such a lock is
 * the native thread's: other threads of the processor that want it wait natively, and
 * then the holder never runs again; or they unlock what they have not locked. A program
 * adds this file to its own, or has it preloaded, from where it is installed:
 *
 *	LD_PRELOAD=$(pkg-config --variable=ulocks usched) ./server
 *
 * Each place is told once, on standard error:
 *
 *	usched: thread A "name", function F, blocks while it holds pthread_mutex_t M,
 *	locked at L, at
 *	usched:   its calls
 *
 * It has functions of the same names as libc's, which call these, and note in a table of
 * the native thread what a thread has locked. The dispatcher calls usched__blocks()
 * before each block: with it all switches go the long way, see usched.c. The
 * library's own locks are noted, too, but none is held by a thread that blocks.
 *
 * pthread_cond_wait() needs nothing: the mutex is locked again when the thread goes on.
 * ThreadSanitizer has such functions of its own: with it, this file is empty. Static
 * programs cannot have two functions of a name: they end with a message.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* RTLD_NEXT */
#endif
#include "../ustack.h"

#ifndef USCHED_TSAN
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "../src/base/code.h"

enum {
	HELD   = 32,            /* locks of a native thread; more are not seen */
	CALLS  = 16,            /* in a message */
	PLACES = 256,           /* messages of a process */
	LINES  = 6144,          /* characters written at a time */
	REFUSED = 127,          /* the exit status, as of the dynamic linker */
};

/* A lock. */
struct held {
	const void          *h_lock;
	const char          *h_kind;
	const struct ustack *h_thread;
	const void          *h_where;   /* the return address */
};

/* Of a native thread. */
static __thread struct held held[HELD] __attribute__((tls_model("initial-exec")));
static __thread unsigned held_count __attribute__((tls_model("initial-exec")));

/* Hashes of places that were told, and a lock for the text. */
static uint64_t places[PLACES];
static int writing;
static char lines[LINES];

/* The library's, if the process has it. By another name: it may be inline. */
extern struct usched *current(void) __asm__("usched__here") __attribute__((weak));
extern int get_name(const struct ustack *u, char *buffer, size_t size)
	__asm__("ustack_get_name") __attribute__((weak));

struct calls {
	const struct held *c_held;
	size_t             c_count;
	uintptr_t          c_calls[CALLS];
};

void usched__blocks(const struct usched *s);

static const struct ustack *running(void)
{
	return current ? current()->s_current : NULL;
}

static void note(const void *lock, const char *kind, const void *where)
{
	const struct ustack *u = running();

	if (u && held_count < HELD)
		held[held_count++] = (struct held){ lock, kind, u, where };
}

/* The last one, of those that are locked several times. */
static void forget(const void *lock)
{
	for (unsigned i = held_count; i-- > 0; )
		if (held[i].h_lock == lock) {
			held_count--;
			memmove(&held[i], &held[i + 1],
				(held_count - i) * sizeof *held);
			return;
		}
}

/* Static programs call these functions before main(): with no more than a system call. */
static void refuse(const char *name)
{
	static const char why[] =
		" of libc: link the program without -static, or without ulocks.c\n";

	if (write(STDERR_FILENO, "usched: ulocks.c finds no ", 26) < 0
	    || write(STDERR_FILENO, name, strlen(name)) < 0
	    || write(STDERR_FILENO, why, sizeof why - 1) < 0)
		abort();
	_exit(REFUSED);
}

static void *find(void **function, const char *name)
{
	void *found = __atomic_load_n(function, __ATOMIC_RELAXED);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		if (!found)
			refuse(name);
		__atomic_store_n(function, found, __ATOMIC_RELAXED);
	}
	return found;
}

/* ISO C has no cast from an object's pointer to a function's. */
#define CALL(result, name, params, args) do {                           \
	static void *function_;                                         \
	union { void *v_; int (*f_) params; } real_;                    \
	real_.v_ = find(&function_, #name);                             \
	result = real_.f_ args;                                         \
} while (0)

/* Not inlined: each call is a place. */
#define LOCKS(type, name, params, args)                                 \
__attribute__((noinline))                                               \
int name params                                                         \
{                                                                       \
	int rc;                                                         \
                                                                        \
	CALL(rc, name, params, args);                                   \
	if (rc == 0 || rc == EOWNERDEAD)                                \
		note((const void *)(uintptr_t)lock, #type,              \
		     __builtin_return_address(0));                      \
	return rc;                                                      \
}

#define UNLOCKS(type, name)                                             \
int name(type *lock)                                                    \
{                                                                       \
	int rc;                                                         \
                                                                        \
	forget((const void *)(uintptr_t)lock);                          \
	CALL(rc, name, (type *), (lock));                               \
	return rc;                                                      \
}

#define LOCK(type, name) LOCKS(type, name, (type *lock), (lock))
#define TIMED(type, name)                                               \
	LOCKS(type, name, (type *restrict lock, const struct timespec *restrict time), \
	      (lock, time))
#define CLOCK(type, name)                                               \
	LOCKS(type, name, (type *restrict lock, clockid_t clock,        \
			   const struct timespec *restrict time), (lock, clock, time))

LOCK(pthread_mutex_t, pthread_mutex_lock)
LOCK(pthread_mutex_t, pthread_mutex_trylock)
TIMED(pthread_mutex_t, pthread_mutex_timedlock)
UNLOCKS(pthread_mutex_t, pthread_mutex_unlock)

LOCK(pthread_rwlock_t, pthread_rwlock_rdlock)
LOCK(pthread_rwlock_t, pthread_rwlock_wrlock)
LOCK(pthread_rwlock_t, pthread_rwlock_tryrdlock)
LOCK(pthread_rwlock_t, pthread_rwlock_trywrlock)
TIMED(pthread_rwlock_t, pthread_rwlock_timedrdlock)
TIMED(pthread_rwlock_t, pthread_rwlock_timedwrlock)
UNLOCKS(pthread_rwlock_t, pthread_rwlock_unlock)

#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 30)
CLOCK(pthread_mutex_t, pthread_mutex_clocklock)
CLOCK(pthread_rwlock_t, pthread_rwlock_clockrdlock)
CLOCK(pthread_rwlock_t, pthread_rwlock_clockwrlock)
#endif
#endif

LOCK(pthread_spinlock_t, pthread_spin_lock)
LOCK(pthread_spinlock_t, pthread_spin_trylock)
UNLOCKS(pthread_spinlock_t, pthread_spin_unlock)

/* ---- Blocks ---- */

static _Unwind_Reason_Code add_call(struct _Unwind_Context *context, void *calls)
{
	struct calls *c = calls;

	if (c->c_count == CALLS || _Unwind_GetIP(context) == 0)
		return _URC_END_OF_STACK;
	c->c_calls[c->c_count++] = (uintptr_t)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* True: this place was not told before, and there is room for another one. */
static bool is_new(const struct calls *c)
{
	uint64_t hash = (uintptr_t)c->c_held->h_where;

	for (size_t i = 0; i < c->c_count; i++)
		hash = (hash ^ c->c_calls[i]) * UINT64_C(0x9e3779b97f4a7c15)
			^ hash >> 29;
	for (size_t i = 0; i < PLACES; i++) {
		uint64_t there = 0;

		if (__atomic_compare_exchange_n(&places[i], &there, hash, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return true;
		if (there == hash)
			return false;
	}
	return false;
}

/* Static memory, as the stack may be small. */
static void tell(const struct ustack *u, struct calls *c)
{
	static char name[USTACK_NAME_MAX];
	struct text t = TEXT(lines, STDERR_FILENO);

	while (__atomic_exchange_n(&writing, 1, __ATOMIC_ACQUIRE))
		sched_yield();
	text_put(&t, "usched: ");
	if (!get_name || get_name(u, name, sizeof name))
		name[0] = '\0';
	text_thread(&t, u, name);
	text_put(&t, ", function ");
	code_add(&t, (uintptr_t)ustack_func(u));
	text_put(&t, ", blocks while it holds ");
	text_put(&t, c->c_held->h_kind);
	text_put(&t, " ");
	text_hex(&t, (uintptr_t)c->c_held->h_lock);
	text_put(&t, ", locked at ");
	code_add(&t, (uintptr_t)c->c_held->h_where - 1);
	text_put(&t, ", at\n");
	for (size_t i = 1; i < c->c_count; i++)         /* 0: this file */
		code_call(&t, c->c_calls[i]);
	text_flush(&t);
	__atomic_store_n(&writing, 0, __ATOMIC_RELEASE);
}

/* By the dispatcher: the running thread of `s' is about to block. */
__attribute__((visibility("default"))) void usched__blocks(const struct usched *s)
{
	struct calls c = { 0 };
	int error = errno;

	for (unsigned i = 0; i < held_count; i++) {
		if (held[i].h_thread != s->s_current)
			continue;
		c.c_held = &held[i];
		c.c_count = 0;
		_Unwind_Backtrace(add_call, &c);
		if (is_new(&c))
			tell(s->s_current, &c);
	}
	errno = error;
}
#endif /* USCHED_TSAN */
