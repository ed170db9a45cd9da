/* SPDX-License-Identifier: MIT */
/*
 * ulocks.c: finds threads that block while they hold a lock of pthread.h. Such a lock
 * belongs to the native thread. So if another thread of the processor wants the lock, the
 * native thread waits, and the holder never runs again. Also, another thread may unlock
 * what it has not locked. This file is compiled into the program, or the installed object
 * is preloaded:
 *
 *	LD_PRELOAD=$(pkg-config --variable=ulocks usched) ./server
 *
 * Each place is reported once, on standard error:
 *
 *	usched: thread A "name", function F, blocks while it holds pthread_mutex_t M,
 *	locked at L, at
 *	usched:   its calls
 *
 * This file has functions of the same names as libc's. They call libc's functions, and
 * note in a table of the native thread what a thread has locked. The dispatcher calls
 * look_at_block() before each block, through ob_blocks of core.h, so all switches go
 * the long way. The library's own locks are noted, too, but no thread blocks with one.
 *
 * pthread_cond_wait() is not replaced, since the mutex is locked again when the thread
 * goes on. ThreadSanitizer has such functions itself, so in builds with it this file is
 * empty. A static program cannot have two functions of one name. So a static program with
 * this file ends with a message.
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
#include "../src/core/core.h"

enum {
	HELD   = 32,            /* noted locks of a native thread; others are missed */
	CALLS  = 16,            /* the most calls in a message */
	PLACES = 256,           /* the most messages of a process */
	LINES  = 6144,          /* characters written at a time */
	REFUSED = 127,          /* exit status; the dynamic linker's is the same */
};

/* A lock that a thread holds. */
struct held {
	const void          *hl_lock;
	const char          *hl_kind;
	const struct ustack *hl_thread;
	const void          *hl_where;  /* the return address of the call */
};

/* The locks that threads of this native thread hold. */
static __thread struct held held[HELD] __attribute__((tls_model("initial-exec")));
static __thread unsigned held_count __attribute__((tls_model("initial-exec")));

/* Hashes of the reported places; whether a report is being written; the report's text. */
static uint64_t places[PLACES];
static int writing;
static char lines[LINES];

/* Functions of the library, or NULL in a process without the library. The names here are
   different, since the library's functions may be inline. */
extern struct usched *current(void) __asm__("usched__here") __attribute__((weak));
extern int get_name(const struct ustack *u, char *buffer, size_t size)
	__asm__("ustack_get_name") __attribute__((weak));
extern struct usched_observer usched__observer __attribute__((weak));

struct calls {
	const struct held *lc_held;
	size_t             lc_count;
	uintptr_t          lc_calls[CALLS];
};

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

/* Removes a lock from the table. If the lock is held several times, removes the last. */
static void forget(const void *lock)
{
	for (unsigned i = held_count; i-- > 0; )
		if (held[i].hl_lock == lock) {
			held_count--;
			memmove(&held[i], &held[i + 1],
				(held_count - i) * sizeof *held);
			return;
		}
}

/* Ends the process, by system calls only, as static programs come here before main(). */
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

/* Uses a union, as ISO C has no cast from an object's pointer to a function's. */
#define CALL(result, name, params, args) do {                           \
	static void *function_;                                         \
	union { void *v_; int (*f_) params; } real_;                    \
	real_.v_ = find(&function_, #name);                             \
	result = real_.f_ args;                                         \
} while (0)

/* Not inlined, so that each call has a return address of its own. */
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

	if (c->lc_count == CALLS || _Unwind_GetIP(context) == 0)
		return _URC_END_OF_STACK;
	c->lc_calls[c->lc_count++] = (uintptr_t)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* Returns whether the place is new, and there is room to remember it. */
static bool is_new(const struct calls *c)
{
	uint64_t hash = (uintptr_t)c->lc_held->hl_where;

	for (size_t i = 0; i < c->lc_count; i++)
		hash = (hash ^ c->lc_calls[i]) * UINT64_C(0x9e3779b97f4a7c15)
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

/* Writes a report. Uses static memory, as the stack may be small. */
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
	text_add(&t, ", blocks while it holds %s %p, locked at ", c->lc_held->hl_kind,
		 c->lc_held->hl_lock);
	code_add(&t, (uintptr_t)c->lc_held->hl_where - 1);
	text_put(&t, ", at\n");
	for (size_t i = 1; i < c->lc_count; i++)        /* call 0 is in this file */
		code_call(&t, c->lc_calls[i]);
	text_flush(&t);
	__atomic_store_n(&writing, 0, __ATOMIC_RELEASE);
}

/* Reports the locks of the running thread of `s', which is about to block. */
static void look_at_block(const struct usched *s)
{
	struct calls c = { 0 };
	int error = errno;

	for (unsigned i = 0; i < held_count; i++) {
		if (held[i].hl_thread != s->s_current)
			continue;
		c.lc_held = &held[i];
		c.lc_count = 0;
		_Unwind_Backtrace(add_call, &c);
		if (is_new(&c))
			tell(s->s_current, &c);
	}
	errno = error;
}

__attribute__((constructor)) static void begin_looking(void)
{
	if (&usched__observer)
		__atomic_store_n(&usched__observer.ob_blocks, &look_at_block,
				 __ATOMIC_RELAXED);
}
#endif /* USCHED_TSAN */
