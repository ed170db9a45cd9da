/* SPDX-License-Identifier: MIT */
/*
 * test_uposix_futex.c: syscall() with SYS_futex, and threads of C11. Built and run like
 * test_uposix_threads.c.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "test_uposix.h"

#define fails(error, call) do {			\
	errno = 0;				\
	assert_int_equal(call, -1);		\
	assert_int_equal(errno, error);		\
} while (0)

enum { THREADS = 20 };

static uint32_t word, other;            /* futexes of a test case; atomic */
static int count;                       /* number of threads that wait or have come to
					   some point; atomic */
static int private;                     /* FUTEX_PRIVATE_FLAG or 0 */

#define SET(v, to) __atomic_store_n(&(v), to, __ATOMIC_SEQ_CST)
#define GET(v) __atomic_load_n(&(v), __ATOMIC_SEQ_CST)
#define ADD(v, n) __atomic_add_fetch(&(v), n, __ATOMIC_SEQ_CST)

static void join(pthread_t t)
{
	ok(pthread_join(t, NULL));
}

static int setup(void **state)
{
	(void)state;
	test_timeout(10);
	SET(word, 0);
	SET(other, 0);
	SET(count, 0);
	private = FUTEX_PRIVATE_FLAG;
	return 0;
}

static long await(uint32_t *at, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, at, FUTEX_WAIT | private, value, time);
}

static long await_bits(uint32_t value, const struct timespec *time, int flags,
		       uint32_t bits)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | private | flags, value, time,
		       NULL, bits);
}

static long wake(uint32_t *at, int n)
{
	return syscall(SYS_futex, at, FUTEX_WAKE | private, n);
}

/* Waits until n threads have called await(), and most likely sleep. */
static void until_there(int n)
{
	UNTIL(GET(count) == n);
	nap(10);
}

static void *wait_once(void *result)
{
	ADD(count, 1);
	*(int *)result = await(&word, 0, NULL) == 0 ? 1 : -errno;
	ADD(count, -1);
	return NULL;
}

/*
 * A wake wakes at most as many threads as wanted. A thread that has been counted in
 * `count' may not sleep yet, so a wake may wake fewer.
 */
static void wakes_some(void **state)
{
	static const int most[] = { 1, 3, 7 };
	int results[THREADS] = { 0 }, woken = 0, n;
	pthread_t t[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		t[i] = start(wait_once, &results[i]);
	until_there(THREADS);
	assert_int_equal(wake(&other, INT_MAX), 0);
	for (int i = 0; i < 3; i++) {
		UNTIL((n = (int)wake(&word, most[i])));
		assert_in_range(n, 1, most[i]);
		woken += n;
		UNTIL(GET(count) == THREADS - woken);
		nap(5);
		assert_int_equal(GET(count), THREADS - woken);
	}
	UNTIL((woken += (int)wake(&word, INT_MAX)) == THREADS);
	for (int i = 0; i < THREADS; i++) {
		join(t[i]);
		assert_int_equal(results[i], 1);
	}
	assert_int_equal(wake(&word, 1), 0);
}

static void *wait_for_change(void *unused)
{
	ADD(count, 1);
	while (GET(word) == 0)
		if (await(&word, 0, NULL) && errno != EAGAIN && errno != EINTR)
			abort();
	ADD(count, -1);
	return unused;
}

static void *change(void *unused)
{
	nap(20);
	SET(word, 1);
	wake(&word, INT_MAX);
	return unused;
}

/* A thread wakes other threads and main(), with FUTEX_PRIVATE_FLAG and without. */
static void wakes_all(void **state)
{
	pthread_t t[THREADS], changer;

	(void)state;
	for (int round = 0; round < 4; round++) {
		private = round % 2 ? FUTEX_PRIVATE_FLAG : 0;
		SET(word, 0);
		for (int i = 0; i < THREADS; i++)
			t[i] = start(wait_for_change, NULL);
		changer = start(change, NULL);
		wait_for_change(NULL);
		for (int i = 0; i < THREADS; i++)
			join(t[i]);
		join(changer);
	}
}

/* A lock as in many libraries: the word is 1 if locked, and 2 if threads may wait. */
static int total;

static void lock_word(void)
{
	uint32_t old = 0;

	if (__atomic_compare_exchange_n(&word, &old, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE))
		await(&word, 2, NULL);
}

static void unlock_word(void)
{
	if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2)
		wake(&word, 1);
}

static void *add_locked(void *arg)
{
	for (int i = 0; i < 200; i++) {
		int before;

		lock_word();
		before = total;
		if (i % 16 == (int)(uintptr_t)arg % 16)
			sched_yield();
		total = before + 1;
		unlock_word();
	}
	return NULL;
}

static void makes_locks(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	total = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		t[i] = start(add_locked, (void *)i);
	add_locked(NULL);
	for (int i = 0; i < THREADS; i++)
		join(t[i]);
	assert_int_equal(total, (THREADS + 1) * 200);
}

static void wait_for_times(void)
{
	struct timespec none = { 0, 0 }, ten = { 0, 10 * MS }, bad = { 0, 1000 * MS };
	struct timespec negative = { -1, 0 }, begun = in_ms(CLOCK_MONOTONIC, 0), at;

	fails(EAGAIN, await(&word, 1, NULL));
	fails(EAGAIN, await(&word, 1, &none));
	fails(ETIMEDOUT, await(&word, 0, &none));
	fails(ETIMEDOUT, await(&word, 0, &ten));
	assert_true(ms_since(&begun) >= 10);
	fails(EINVAL, await(&word, 0, &bad));
	fails(EINVAL, await(&word, 0, &negative));
	fails(EINVAL, await((uint32_t *)((uintptr_t)&word + 1), 0, &none));
	begun = in_ms(CLOCK_MONOTONIC, 0);
	at = in_ms(CLOCK_MONOTONIC, 10);
	fails(ETIMEDOUT, await_bits(0, &at, 0, FUTEX_BITSET_MATCH_ANY));
	at = in_ms(CLOCK_REALTIME, 10);
	fails(ETIMEDOUT, await_bits(0, &at, FUTEX_CLOCK_REALTIME, 1));
	assert_true(ms_since(&begun) >= 20);
	fails(ETIMEDOUT, await_bits(0, &begun, 0, 1));
	fails(EINVAL, await_bits(0, &at, 0, 0));
	fails(EINVAL, syscall(SYS_futex, &word, FUTEX_WAKE_BITSET | private, 1, NULL,
			      NULL, 0));
}

static void *wait_for_times_in_thread(void *unused)
{
	wait_for_times();
	return unused;
}

/*
 * No wait ends before its time. This is also true without FUTEX_PRIVATE_FLAG: the library
 * finds out that processes do not share the word.
 */
static void has_times(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		private = i ? FUTEX_PRIVATE_FLAG : 0;
		wait_for_times();
		if (i || !test_is_scaled())
			join(start(wait_for_times_in_thread, NULL));
	}
}

static void *wait_for_bits(void *bits)
{
	ADD(count, 1);
	ok(await_bits(0, NULL, 0, (uint32_t)(uintptr_t)bits));
	ADD(count, -1);
	return NULL;
}

static void has_bits(void **state)
{
	pthread_t t[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		t[i] = start(wait_for_bits, (void *)((uintptr_t)1 << i));
	until_there(4);
	for (int i = 3; i >= 0; i--) {
		UNTIL(syscall(SYS_futex, &word, FUTEX_WAKE_BITSET | private, INT_MAX,
			      NULL, NULL, 1 << i | 1 << 20) == 1);
		join(t[i]);
	}
}

/* Operations that are passed to libc's syscall() wake threads, too. */
static void *move(void *unused)
{
	SET(word, 1);
	syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE | private, INT_MAX, (long)INT_MAX,
		&other, 1);
	return unused;
}

static void *operate(void *unused)
{
	SET(word, 1);
	syscall(SYS_futex, &other, FUTEX_WAKE_OP | private, 1, (long)INT_MAX, &word,
		FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 1));
	assert_int_equal(GET(word), 2);
	return unused;
}

static void does_more(void **state)
{
	static void *(*const funcs[])(void *) = { move, operate };
	pthread_t t[THREADS];

	(void)state;
	for (int round = 0; round < 2; round++) {
		SET(word, 0);
		for (int i = 0; i < THREADS; i++)
			t[i] = start(wait_for_change, NULL);
		until_there(THREADS);
		join(start(funcs[round], NULL));
		for (int i = 0; i < THREADS; i++)
			join(t[i]);
	}
}

static void note_signal(int sig)
{
	(void)sig;
	ADD(other, 1);
}

static void interrupts(void **state)
{
	struct sigaction action = { .sa_handler = note_signal }, old;
	int result = 0;
	pthread_t t;

	(void)state;
	for (int restart = 0; restart < 2; restart++) {
		action.sa_flags = restart ? (int)SA_RESTART : 0;
		ok(sigaction(SIGUSR1, &action, &old));
		t = start(wait_once, &result);
		until_there(1);
		SET(other, 0);
		ok(pthread_kill(t, SIGUSR1));
		UNTIL(GET(other) > 0);
		nap(5);
		if (restart)
			UNTIL(wake(&word, 1) == 1);
		else
			UNTIL(GET(count) == 0 || (pthread_kill(t, SIGUSR1), false));
		join(t);
		assert_int_equal(result, restart ? 1 : -EINTR);
		ok(sigaction(SIGUSR1, &old, NULL));
	}
}

/* A futex that two processes share. */
static uint32_t *shared;

static void *wait_for_child(void *unused)
{
	ADD(count, 1);
	while (GET(*shared) == 0)
		if (await(shared, 0, NULL) && errno != EAGAIN && errno != EINTR)
			abort();
	return unused;
}

static void wakes_processes(void **state)
{
	pthread_t t[3];
	pid_t child;
	int status;

	(void)state;
	private = 0;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	for (int i = 0; i < 3; i++)
		t[i] = start(wait_for_child, NULL);
	until_there(3);
	child = fork();
	if (child == 0) {
		SET(*shared, 1);
		wake(shared, INT_MAX);
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		join(t[i]);
	assert_int_equal(waitpid(child, &status, 0), child);
	ok(status);
	ok(munmap(shared, sizeof *shared));
}

/* Threads of a child wait and are woken; the child has no threads of the parent. */
static void forks(void **state)
{
	pthread_t t = start(wait_for_change, NULL), u;
	int status;
	pid_t child;

	(void)state;
	until_there(1);
	child = fork();
	if (child == 0) {
		alarm(100);
		if (wake(&word, INT_MAX))
			_exit(1);
		u = start(wait_for_change, NULL);
		UNTIL(GET(count) == 2);
		nap(10);
		change(NULL);
		join(u);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	ok(status);
	change(NULL);
	join(t);
}

static void *pass(void *unused)
{
	long page = sysconf(_SC_PAGESIZE);
	char name[] = "/tmp/uposixXXXXXX", *at;
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	ok(unlink(name));
	assert_int_equal(pwrite(fd, "six", 3, page), 3);
	at = (char *)syscall(SYS_mmap, NULL, page, (long)PROT_READ, (long)MAP_PRIVATE,
			     (long)fd, page);
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_string_equal(at, "six");
	ok(syscall(SYS_munmap, at, page));
	ok(close(fd));
	fails(EBADF, syscall(SYS_fstat, -1L, NULL));
	fails(ENOSYS, syscall(100000L));
	fails(ENOSYS, syscall(SYS_futex, &word, 99, 0, NULL, NULL, 0));
	assert_int_equal(syscall(SYS_getpid), getpid());
	return unused;
}

static void passes_others(void **state)
{
	(void)state;
	pass(NULL);
	join(start(pass, NULL));
}

/* C11. */

static mtx_t mutex, nested;
static cnd_t changed;
static tss_t key;
static once_flag once = ONCE_FLAG_INIT;

static void destroyed(void *value)
{
	ADD(*(int *)value, 100);
}

static void call_it(void)
{
	thrd_sleep(&(struct timespec){ 0, 5 * MS }, NULL);
	ADD(other, 1);
}

/* Adds 1 to `count', and waits until all THREADS have done so. */
static int be_one(void *value)
{
	assert_null(tss_get(key));
	assert_int_equal(tss_set(key, value), thrd_success);
	call_once(&once, call_it);
	assert_int_equal(GET(other), 1);
	assert_int_equal(mtx_lock(&mutex), thrd_success);
	thrd_sleep(&(struct timespec){ 0, MS }, NULL);
	if (++count == THREADS)
		assert_int_equal(cnd_broadcast(&changed), thrd_success);
	while (count < THREADS)
		assert_int_equal(cnd_wait(&changed, &mutex), thrd_success);
	assert_int_equal(mtx_unlock(&mutex), thrd_success);
	assert_ptr_equal(tss_get(key), value);
	if (*(int *)value % 2)
		thrd_exit(*(int *)value);
	return *(int *)value;
}

static void has_threads(void **state)
{
	int values[THREADS], result;
	thrd_t t[THREADS];

	(void)state;
	assert_int_equal(mtx_init(&mutex, mtx_plain), thrd_success);
	assert_int_equal(cnd_init(&changed), thrd_success);
	assert_int_equal(tss_create(&key, destroyed), thrd_success);
	for (int i = 0; i < THREADS; i++) {
		values[i] = i;
		assert_int_equal(thrd_create(&t[i], be_one, &values[i]), thrd_success);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(thrd_join(t[i], &result), thrd_success);
		assert_int_equal(result, i);
		assert_int_equal(values[i], 100 + i);
	}
	tss_delete(key);
	cnd_destroy(&changed);
	mtx_destroy(&mutex);
}

static int try_locks(void *unused)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 10);

	(void)unused;
	assert_int_equal(mtx_trylock(&nested), thrd_busy);
	assert_int_equal(mtx_timedlock(&nested, &at), thrd_timedout);
	assert_true(thrd_equal(thrd_current(), thrd_current()));
	thrd_yield();
	ADD(count, 1);
	return 0;
}

static void has_kinds(void **state)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 10);
	thrd_t t;

	(void)state;
	assert_int_equal(mtx_init(&nested, mtx_timed | mtx_recursive), thrd_success);
	for (int i = 0; i < 3; i++)
		assert_int_equal(mtx_lock(&nested), thrd_success);
	assert_int_equal(thrd_create(&t, try_locks, NULL), thrd_success);
	assert_int_equal(thrd_join(t, NULL), thrd_success);
	assert_int_equal(thrd_create(&t, try_locks, NULL), thrd_success);
	assert_int_equal(thrd_detach(t), thrd_success);
	UNTIL(GET(count) == 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(mtx_unlock(&nested), thrd_success);
	mtx_destroy(&nested);
	assert_int_equal(mtx_init(&mutex, mtx_timed), thrd_success);
	assert_int_equal(cnd_init(&changed), thrd_success);
	assert_int_equal(mtx_lock(&mutex), thrd_success);
	assert_int_equal(cnd_timedwait(&changed, &mutex, &at), thrd_timedout);
	assert_int_equal(cnd_signal(&changed), thrd_success);
	assert_int_equal(mtx_unlock(&mutex), thrd_success);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(wakes_some), CASE(wakes_all), CASE(makes_locks), CASE(has_times),
		CASE(has_bits), CASE(does_more), CASE(interrupts), CASE(wakes_processes),
		CASE(forks), CASE(passes_others), CASE(has_threads), CASE(has_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
