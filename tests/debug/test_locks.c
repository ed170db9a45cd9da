/* SPDX-License-Identifier: MIT */
/*
 * test_locks.c: with debug/ulocks.c, threads that block while they hold a lock of
 * pthread.h are told, each place once, and others are not.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "../help/child.h"

#include "../../usync.h"

#ifdef USCHED_TSAN
enum { FOUND = 0 };
#else
enum { FOUND = 1 };
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin_lock;
static struct usync_sem sem;

static void (*to_run)(void *);

/* It does not run before it has its name. */
static void begin(void *unused)
{
	TEST_EQUAL(ustack_wait(), 0);
	to_run(unused);
}

static void run(void (*func)(void *), const char *name)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = USCHED_QUIET };
	struct ustack *thread;
	void *s = make(&conf);

	to_run = func;
	TEST_EQUAL(over->o_start(s, begin, NULL, &thread), 0);
	if (name)
		TEST_EQUAL(ustack_name(thread, name), 0);
	TEST_EQUAL(ustack_wake(thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

static unsigned told_times(const char *what)
{
	unsigned n = 0;

	for (const char *at = said; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* ---- What is told ---- */

static void yield_with_mutex(void *unused)
{
	volatile int times = 3;                 /* not unrolled: one place */

	(void)unused;
	while (times-- > 0) {
		TEST_EQUAL(pthread_mutex_lock(&mutex), 0);
		TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(pthread_mutex_unlock(&mutex), 0);
	}
}

static void sleep_with_others(void *unused)
{
	struct timespec soon;

	(void)unused;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 100;
	TEST_EQUAL(pthread_rwlock_rdlock(&rwlock), 0);
	TEST_EQUAL(pthread_spin_lock(&spin_lock), 0);
	TEST_EQUAL(pthread_mutex_trylock(&mutex), 0);
	TEST_EQUAL(pthread_mutex_timedlock(&other, &soon), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	TEST_EQUAL(pthread_mutex_unlock(&other), 0);
	TEST_EQUAL(pthread_mutex_unlock(&mutex), 0);
	TEST_EQUAL(pthread_spin_unlock(&spin_lock), 0);
	TEST_EQUAL(pthread_rwlock_unlock(&rwlock), 0);
}

static void yield_deep(pthread_mutex_t *recursive)
{
	TEST_EQUAL(pthread_mutex_lock(recursive), 0);
	TEST_EQUAL(pthread_mutex_lock(recursive), 0);
	TEST_EQUAL(pthread_mutex_unlock(recursive), 0);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(pthread_mutex_unlock(recursive), 0);
	TEST_EQUAL(ustack_yield(), 0);
}

static void yield_recursive(void *unused)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t recursive;

	(void)unused;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &attr);
	yield_deep(&recursive);
}

static void child_mutex(void *unused)
{
	(void)unused;
	run(yield_with_mutex, "holder");
}

static void child_others(void *unused)
{
	(void)unused;
	run(sleep_with_others, NULL);
}

static void child_recursive(void *unused)
{
	(void)unused;
	run(yield_recursive, NULL);
}

TEST(test_mutex)
{
	if (!FOUND)
		skip();
	assert_survived(in_child(child_mutex, NULL));
	TEST_EQUAL(told_times("blocks while it holds"), 1);
	assert_said(" \"holder\", function 0x");
	assert_said(", blocks while it holds pthread_mutex_t 0x");
	assert_said(", locked at 0x");
	assert_said(", at\nusched:   0x");
	assert_said("yield_with_mutex)\n");
}

TEST(test_others)
{
	if (!FOUND)
		skip();
	assert_survived(in_child(child_others, NULL));
	TEST_EQUAL(told_times("it holds pthread_rwlock_t 0x"), 1);
	TEST_EQUAL(told_times("it holds pthread_spinlock_t 0x"), 1);
	TEST_EQUAL(told_times("it holds pthread_mutex_t 0x"), 2);
}

TEST(test_recursive)
{
	if (!FOUND)
		skip();
	assert_survived(in_child(child_recursive, NULL));
	TEST_EQUAL(told_times("it holds pthread_mutex_t 0x"), 1);
}

/* Another thread that blocks meanwhile has no part in it. */
static void bystand(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_name(ustack_self(), "bystander"), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_yield(), 0);
}

static void hold_beside(void *s)
{
	struct ustack *thread;

	TEST_EQUAL(over->o_start(s, bystand, NULL, &thread), 0);
	TEST_EQUAL(pthread_mutex_lock(&mutex), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(pthread_mutex_unlock(&mutex), 0);
}

static void child_beside(void *unused)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = USCHED_QUIET };
	struct ustack *thread;
	void *s = make(&conf);

	(void)unused;
	TEST_EQUAL(over->o_start(s, hold_beside, s, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
}

TEST(test_beside)
{
	if (!FOUND)
		skip();
	assert_survived(in_child(child_beside, NULL));
	TEST_EQUAL(told_times("blocks while it holds"), 1);
	TEST_EQUAL(told_times("bystander"), 0);
}

/* ---- What is not ---- */

static void poster(void *unused)
{
	(void)unused;
	TEST_EQUAL(pthread_mutex_lock(&other), 0);
	usync_sem_post(&sem);
	TEST_EQUAL(pthread_mutex_unlock(&other), 0);
}

/* Before a block and after it; and a lock that another thread got is not this one's. */
static void lock_between(void *s)
{
	struct ustack *thread;

	TEST_EQUAL(ustack_name(ustack_self(), "right"), 0);
	TEST_EQUAL(over->o_start(s, poster, NULL, &thread), 0);
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(pthread_mutex_lock(&mutex), 0);
		TEST_EQUAL(pthread_mutex_trylock(&mutex), EBUSY);
		TEST_EQUAL(pthread_mutex_unlock(&mutex), 0);
		TEST_EQUAL(ustack_yield(), 0);
	}
	TEST_EQUAL(usync_sem_wait(&sem, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
}

/* With a mutex of the native thread's own, and names, whose lock is the library's. */
static void child_right(void *unused)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stall = USCHED_QUIET };
	struct ustack *thread;
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	void *s = make(&conf);

	(void)unused;
	TEST_EQUAL(pthread_mutex_lock(&own), 0);
	TEST_EQUAL(over->o_start(s, lock_between, s, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_EQUAL(pthread_mutex_unlock(&own), 0);
}

TEST(test_right)
{
	assert_survived(in_child(child_right, NULL));
	TEST_EQUAL(told_times("blocks while it holds"), 0);
}

int main(void)
{
	pthread_spin_init(&spin_lock, PTHREAD_PROCESS_PRIVATE);
	child_begin();
	return over_all(OVER_PROCS);
}
