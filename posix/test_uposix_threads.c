/* SPDX-License-Identifier: MIT */
/*
 * test_uposix_threads.c: a program with POSIX threads. posix.sh builds two programs, one
 * with -include uposix.h and one without. The second program runs with LD_PRELOAD. It
 * also runs natively; that shows that the test is right about POSIX.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <float.h>
#include <limits.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "test_uposix.h"

/* Returns true if the threads are usched's, and false in a native run. */
static bool ours(void)
{
#ifdef USCHED_UPOSIX_H
	return true;
#else
	return getenv("LD_PRELOAD") != NULL;
#endif
}

#define is(error, call) assert_int_equal(call, error)

static void *join(pthread_t t)
{
	void *result;

	ok(pthread_join(t, &result));
	return result;
}

static int value;                       /* state of a test case; atomic */
static sem_t go, done;

#define SET(v) __atomic_store_n(&value, v, __ATOMIC_SEQ_CST)
#define GET() __atomic_load_n(&value, __ATOMIC_SEQ_CST)

static int setup(void **state)
{
	(void)state;
	test_timeout(10);
	SET(0);
	ok(sem_init(&go, 0, 0));
	ok(sem_init(&done, 0, 0));
	return 0;
}

/* Threads. */

static void *give(void *arg)
{
	return arg;
}

static void *wait_go(void *arg)
{
	while (sem_wait(&go))
		;
	return arg;
}

static void *join_it(void *arg)
{
	return (void *)(intptr_t)pthread_join(*(pthread_t *)arg, NULL);
}

static void *join_self(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)pthread_join(pthread_self(), NULL);
}

static void joins(void **state)
{
	struct timespec soon;
	pthread_t t;
	int rc;

	(void)state;
	t = start(give, &value);
	assert_ptr_equal(join(t), &value);
	t = start(wait_go, &go);
	is(EBUSY, pthread_tryjoin_np(t, NULL));
	soon = in_ms(CLOCK_REALTIME, 20);
	is(ETIMEDOUT, pthread_timedjoin_np(t, NULL, &soon));
	ok(sem_post(&go));
	soon = in_ms(CLOCK_REALTIME, 100000);
	ok(pthread_timedjoin_np(t, NULL, &soon));
#if __GLIBC_PREREQ(2, 31)
	t = start(wait_go, &go);
	soon = in_ms(CLOCK_MONOTONIC, 20);
	is(ETIMEDOUT, pthread_clockjoin_np(t, NULL, CLOCK_MONOTONIC, &soon));
	is(EINVAL, pthread_clockjoin_np(t, NULL, CLOCK_PROCESS_CPUTIME_ID, &soon));
	ok(sem_post(&go));
	soon = in_ms(CLOCK_MONOTONIC, 100000);
	ok(pthread_clockjoin_np(t, NULL, CLOCK_MONOTONIC, &soon));
#endif
	assert_int_equal((intptr_t)join(start(join_self, NULL)), EDEADLK);
	ok(pthread_create(&t, NULL, wait_go, NULL));
	ok(sem_post(&go));
	UNTIL((rc = pthread_tryjoin_np(t, NULL)) != EBUSY);
	ok(rc);
	if (ours()) {                   /* POSIX defines no result */
		is(ESRCH, pthread_join(t, NULL));
		is(ESRCH, pthread_join(0, NULL));
	}
}

/* Threads join a native thread. It is native because the program provides its stack. */
static void joins_native(void **state)
{
	void *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t native, t, others[8];

	(void)state;
	pthread_attr_init(&attr);
	ok(pthread_attr_setstack(&attr, stack, 1 << 20));
	ok(pthread_create(&native, &attr, wait_go, NULL));
	t = start(join_it, &native);
	nap(10);
	for (int i = 0; i < 8; i++)
		others[i] = start(give, NULL);
	for (int i = 0; i < 8; i++)
		join(others[i]);
	ok(pthread_cancel(t));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
	t = start(join_it, &native);
	nap(10);
	ok(sem_post(&go));
	ok((int)(intptr_t)join(t));
	pthread_attr_destroy(&attr);
	munmap(stack, 1 << 20);
}

static pthread_t first, second;

/* Sets `value' to the error of the join, or to 1000 plus the result of `first'. */
static void *join_first(void *unused)
{
	void *result = NULL;
	int rc;

	while (sem_wait(&go))
		;
	rc = pthread_join(first, &result);
	SET(rc ? rc : 1000 + (int)(intptr_t)result);
	return unused;
}

/*
 * Two threads join each other. One of them gets EDEADLK, mostly the second thread, which
 * joins later.
 */
static void joins_each_other(void **state)
{
	(void)state;
	if (!ours())                    /* not all versions of glibc return EDEADLK */
		return;
	second = start(join_first, NULL);
	first = start(join_it, &second);
	nap(20);
	ok(sem_post(&go));
	UNTIL(GET() != 0);
	if (GET() == EDEADLK) {
		assert_int_equal((intptr_t)join(first), 0);
		return;
	}
	assert_int_equal(GET(), 1000 + EDEADLK);
	join(second);
}

static void say_so(void *unused)
{
	(void)unused;
	SET(1);
}

static void *join_second(void *unused)
{
	pthread_cleanup_push(say_so, NULL);
	pthread_join(second, NULL);
	pthread_cleanup_pop(0);
	return unused;
}

/* A thread joins another thread, and is cancelled. Then the other thread can join it. */
static void joins_cancelled(void **state)
{
	(void)state;
	second = start(join_first, NULL);
	first = start(join_second, NULL);
	nap(20);
	ok(pthread_cancel(first));
	UNTIL(GET() == 1);
	SET(0);
	ok(sem_post(&go));
	UNTIL(GET() != 0);
	assert_int_equal(GET(), 1000 + (int)(intptr_t)PTHREAD_CANCELED);
	join(second);
}

static void *detach_self(void *unused)
{
	ok(pthread_detach(pthread_self()));
	while (sem_wait(&go))
		;
	ok(sem_post(&done));
	return unused;
}

static void detaches(void **state)
{
	pthread_attr_t attr;
	pthread_t t;
	int detached;

	(void)state;
	ok(pthread_attr_init(&attr));
	ok(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
	ok(pthread_create(&t, &attr, wait_go, NULL));
	is(EINVAL, pthread_join(t, NULL));
	is(EINVAL, pthread_detach(t));
	ok(sem_post(&go));
	UNTIL(sem_getvalue(&go, &detached) == 0 && detached == 0);
	ok(pthread_attr_destroy(&attr));
	t = start(wait_go, NULL);
	ok(pthread_detach(t));
	is(EINVAL, pthread_join(t, NULL));
	ok(pthread_getattr_np(t, &attr));
	ok(pthread_attr_getdetachstate(&attr, &detached));
	assert_int_equal(detached, PTHREAD_CREATE_DETACHED);
	ok(pthread_attr_destroy(&attr));
	ok(sem_post(&go));
	for (int i = 0; i < 40; i++)
		start(detach_self, NULL);
	for (int i = 0; i < 40; i++)
		ok(sem_post(&go));
	for (int i = 0; i < 40; i++)
		ok(sem_wait(&done));
	t = start(give, NULL);          /* is detached after the thread's end */
	nap(20);
	ok(pthread_detach(t));
}

static int order[8];
static int orders;

static void note(void *number)
{
	order[orders++] = (int)(intptr_t)number;
}

static pthread_key_t noted;

static void leave_third(void)
{
	pthread_cleanup_push(note, (void *)3);
	pthread_exit(&orders);
	pthread_cleanup_pop(0);
}

static __attribute__((noinline)) void leave_second(void)
{
	pthread_cleanup_push(note, (void *)2);
	leave_third();
	pthread_cleanup_pop(0);
}

static __attribute__((noinline)) void leave(void)
{
	pthread_cleanup_push(note, (void *)1);
	leave_second();
	pthread_cleanup_pop(0);
}

static void *leave_deep(void *unused)
{
	ok(pthread_setspecific(noted, (void *)9));
	leave();
	return unused;
}

/* At pthread_exit() handlers run, the last one first, and then destructors. */
static void exits(void **state)
{
	static const int expected[] = { 3, 2, 1, 9 };

	(void)state;
	orders = 0;
	ok(pthread_key_create(&noted, note));
	assert_ptr_equal(join(start(leave_deep, NULL)), &orders);
	assert_int_equal(orders, 4);
	assert_memory_equal(order, expected, sizeof expected);
	ok(pthread_key_delete(noted));
}

static void *tell_self(void *arg)
{
	*(pthread_t *)arg = pthread_self();
	return wait_go(arg);
}

static void has_self(void **state)
{
	pthread_t found[2], t[2], self = pthread_self();

	(void)state;
	for (int i = 0; i < 2; i++)
		t[i] = start(tell_self, &found[i]);
	for (int i = 0; i < 2; i++)
		ok(sem_post(&go));
	for (int i = 0; i < 2; i++) {
		join(t[i]);
		assert_true(pthread_equal(t[i], found[i]));
	}
	assert_false(pthread_equal(t[0], t[1]));
	assert_false(pthread_equal(t[0], self));
}

static void *tell_name(void *unused)
{
	char name[16];

	ok(pthread_setname_np(pthread_self(), "short"));
	is(ERANGE, pthread_setname_np(pthread_self(), "a name of 16 byte"));
	ok(pthread_getname_np(pthread_self(), name, sizeof name));
	assert_string_equal(name, "short");
	is(ERANGE, pthread_getname_np(pthread_self(), name, 2));
	ok(prctl(PR_SET_NAME, "a name of 16 byte"));
	sched_yield();
	ok(pthread_getname_np(pthread_self(), name, sizeof name));
	assert_string_equal(name, "a name of 16 by");
	return unused;
}

static void *get_name(void *name)
{
	ok(prctl(PR_GET_NAME, name));
	return NULL;
}

static void has_name(void **state)
{
	char name[16];
	pthread_t t;

	(void)state;
	join(start(tell_name, NULL));
	ok(prctl(PR_GET_NAME, name));
	assert_string_not_equal(name, "a name of 16 by");
	t = start(wait_go, NULL);
	ok(pthread_setname_np(t, "other"));
	ok(pthread_getname_np(t, name, sizeof name));
	assert_string_equal(name, "other");
	ok(sem_post(&go));
	join(t);
	t = start(get_name, name);
	join(t);
	assert_string_not_equal(name, "a name of 16 by");
}

/* Looks for a stack of this size at least. */
static void *look_at_stack(void *least)
{
	pthread_attr_t attr;
	char here, *low;
	size_t size;

	ok(pthread_getattr_np(pthread_self(), &attr));
	ok(pthread_attr_getstack(&attr, (void **)&low, &size));
	assert_true(&here >= low && &here < low + size && size >= (size_t)least);
	ok(pthread_attr_destroy(&attr));
	return least;
}

static void *use_much(void *unused)
{
	volatile char room[3 << 20];

	for (size_t i = 0; i < sizeof room; i += 1024)
		room[sizeof room - 1 - i] = 1;
	(void)room[0];
	return unused;
}

static void has_stack(void **state)
{
	pthread_attr_t attr;
	size_t size = 1 << 20, usual;
	void *stack, *result;
	pthread_t t;

	(void)state;
	join(start(look_at_stack, NULL));
	ok(pthread_attr_init(&attr));
	ok(pthread_attr_getstacksize(&attr, &usual));
	for (int i = 0; i < 2; i++) {
		ok(pthread_attr_setstacksize(&attr, i ? usual : 4 << 20));
		if (getenv("UPOSIX_SHARED") || (i && usual < 4 << 20))
			break;
		ok(pthread_create(&t, &attr, use_much, NULL));
		ok(pthread_join(t, NULL));
		ok(pthread_create(&t, &attr, look_at_stack,
				  (void *)(i ? usual : 4 << 20)));
		ok(pthread_join(t, NULL));
	}
	ok(pthread_attr_destroy(&attr));
	/* A stack that the program provides. */
	stack = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(stack != MAP_FAILED);
	ok(pthread_attr_init(&attr));
	ok(pthread_attr_setstack(&attr, stack, size));
	ok(pthread_create(&t, &attr, give, &value));
	ok(pthread_join(t, &result));
	assert_ptr_equal(result, &value);
	ok(pthread_attr_destroy(&attr));
	munmap(stack, size);
}

static int *locals[8];

static void *show_local(void *arg)
{
	int i = (int)(intptr_t)arg, local = i;

	locals[i] = &local;
	ok(sem_post(&done));
	wait_go(NULL);
	return (void *)(intptr_t)local;
}

/*
 * While a thread waits, another thread reads and writes the first thread's local
 * variables. That works only if each thread has a stack of its own.
 */
static void shows_locals(void **state)
{
	pthread_t t[8];

	(void)state;
	if (getenv("UPOSIX_SHARED"))
		skip();
	for (int i = 0; i < 8; i++)
		t[i] = start(show_local, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		ok(sem_wait(&done));
	for (int i = 0; i < 8; i++) {
		assert_int_equal(*locals[i], i);
		*locals[i] += 100;
	}
	for (int i = 0; i < 8; i++)
		ok(sem_post(&go));
	for (int i = 0; i < 8; i++)
		assert_int_equal((intptr_t)join(t[i]), i + 100);
}

static void *use_sched(void *unused)
{
	struct sched_param param = { .sched_priority = 0 };
	cpu_set_t cpus;
	int policy = -1;

	ok(pthread_getschedparam(pthread_self(), &policy, &param));
	assert_int_equal(policy, SCHED_OTHER);
	ok(pthread_setschedparam(pthread_self(), SCHED_OTHER, &param));
	ok(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus));
	assert_true(CPU_COUNT(&cpus) > 0);
	ok(sched_yield());
	return unused;
}

static void has_sched(void **state)
{
	(void)state;
	join(start(use_sched, NULL));
}

/* Floating point. */

enum { ROUNDERS = 6 };

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

/* Returns true if the processor turns subnormal results into 0. set_flush() sets this. */
static bool flushes(void)
{
	volatile float least = FLT_MIN;

	least /= 2;
	return least == 0;
}

static void set_flush(bool on)
{
#ifdef __x86_64__
	_mm_setcsr((_mm_getcsr() & ~0x8000u) | (on ? 0x8000 : 0));
#else
	(void)on;
#endif
}

static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;

static void pass_turn(int me)
{
	ok(pthread_mutex_lock(&turns));
	while (GET() % ROUNDERS != me)
		ok(pthread_cond_wait(&turned, &turns));
	SET(GET() + 1);
	ok(pthread_cond_broadcast(&turned));
	ok(pthread_mutex_unlock(&turns));
}

static void round_down(int sig)
{
	(void)sig;
	fesetround(FE_DOWNWARD);
}

static void *has_inherited(void *round)
{
	is((int)(intptr_t)round, fegetround());
	ok(fesetround(FE_TOWARDZERO));
	ok(sched_yield());
	is(FE_TOWARDZERO, fegetround());
	ok(pthread_kill(pthread_self(), SIGUSR1));
	is(FE_TOWARDZERO, fegetround());
	return NULL;
}

/*
 * Each thread changes its rounding before another thread runs, and finds the same
 * rounding afterwards.
 */
static void *keep_words(void *arg)
{
	int me = (int)(intptr_t)arg, own = rounding[me % 4];
	bool flush;

	is(FE_UPWARD, fegetround());
	ok(fesetround(own));
	set_flush(me % 2);
	flush = flushes();
	for (int n = 0; n < 20; n++) {
		pass_turn(me);
		assert_true(fegetround() == own && flushes() == flush);
		ok(sched_yield());
		assert_true(fegetround() == own && flushes() == flush);
		nap(1);
		assert_true(fegetround() == own && flushes() == flush);
		own = rounding[(me + n) % 4];
		ok(fesetround(own));
	}
	join(start(has_inherited, (void *)(intptr_t)own));
	is(own, fegetround());
	return NULL;
}

static void has_rounding(void **state)
{
	pthread_t t[ROUNDERS];

	(void)state;
	/* Skipped under Valgrind, which always rounds to the nearest. */
	if (fesetround(FE_UPWARD) || fegetround() != FE_UPWARD)
		skip();
	signal(SIGUSR1, round_down);
	for (intptr_t i = 0; i < ROUNDERS; i++)
		t[i] = start(keep_words, (void *)i);
	is(FE_UPWARD, fegetround());
	ok(fesetround(FE_TONEAREST));
	for (int i = 0; i < ROUNDERS; i++)
		join(t[i]);
	join(start(has_inherited, (void *)FE_TONEAREST));
	is(FE_TONEAREST, fegetround());
	signal(SIGUSR1, SIG_DFL);
}

/* Locales. */

/* What three kinds of functions see of the locale. */
struct look {
	size_t l_room;                  /* most bytes of a character */
	bool   l_letter;                /* 0xe4 is a letter */
	char   l_point;                 /* decimal point */
};

static struct look look(void)
{
	struct look l = { .l_room = MB_CUR_MAX, .l_letter = isalpha(0xe4) };
	char text[8];

	snprintf(text, sizeof text, "%.1f", 1.5);
	l.l_point = text[1];
	return l;
}

static void looks(struct look l)
{
	struct look now = look();

	is((int)l.l_room, (int)now.l_room);
	is(l.l_letter, now.l_letter);
	is(l.l_point, now.l_point);
}

static struct look common;              /* the locale of the process */

static void *is_common(void *unused)
{
	assert_true(uselocale(NULL) == LC_GLOBAL_LOCALE);
	looks(common);
	ok(sched_yield());
	looks(common);
	return unused;
}

/*
 * LOCPATH may contain the locale de_DE, in which 0xe4 is a letter and the decimal point
 * is a comma.
 */
static void *keep_locale(void *arg)
{
	static const char *const names[] = { "C.UTF-8", "de_DE" };
	int me = (int)(intptr_t)arg;
	locale_t own = me % 3 ? newlocale(LC_ALL_MASK, names[me % 3 - 1], NULL) : NULL;
	struct look mine;

	looks(common);
	if (!own)
		own = LC_GLOBAL_LOCALE;
	assert_true(uselocale(own) == LC_GLOBAL_LOCALE);
	mine = look();
	for (int n = 0; n < 10; n++) {
		pass_turn(me);
		looks(mine);
		ok(sched_yield());
		looks(mine);
		assert_true(uselocale(LC_GLOBAL_LOCALE) == own);
		nap(1);
		looks(common);
		assert_true(uselocale(own) == LC_GLOBAL_LOCALE);
		join(start(is_common, NULL));
		looks(mine);
		assert_true(uselocale(NULL) == own);
	}
	return own == LC_GLOBAL_LOCALE ? NULL : own;    /* ends with `own' set */
}

static void has_locale(void **state)
{
	pthread_t t[ROUNDERS];

	(void)state;
	for (int round = 0; round < 2; round++) {
		common = look();
		SET(0);
		for (intptr_t i = 0; i < ROUNDERS; i++)
			t[i] = start(keep_locale, (void *)i);
		for (int i = 0; i < ROUNDERS; i++) {
			locale_t own = join(t[i]);

			if (own)
				freelocale(own);
		}
		join(start(is_common, NULL));
		if (!setlocale(LC_ALL, "de_DE") && !setlocale(LC_ALL, "C.UTF-8"))
			break;
	}
	common = look();
	join(start(is_common, NULL));
	setlocale(LC_ALL, "C");
}

/* Keys and once. */

static pthread_key_t key, again;
static int destroyed;

static void destroy(void *v)
{
	__atomic_add_fetch(&destroyed, (int)(intptr_t)v, __ATOMIC_SEQ_CST);
}

/* Sets another value in the first two calls, so that three calls are made in all. */
static void destroy_again(void *v)
{
	intptr_t n = (intptr_t)v;

	__atomic_add_fetch(&destroyed, 1000, __ATOMIC_SEQ_CST);
	if (n < 3)
		pthread_setspecific(again, (void *)(n + 1));
}

static void *use_key(void *arg)
{
	assert_null(pthread_getspecific(key));
	ok(pthread_setspecific(key, arg));
	ok(pthread_setspecific(again, (void *)1));
	sched_yield();
	nap(1);
	assert_ptr_equal(pthread_getspecific(key), arg);
	return NULL;
}

static void has_keys(void **state)
{
	pthread_key_t other;
	pthread_t t[10];

	(void)state;
	destroyed = 0;
	ok(pthread_key_create(&key, destroy));
	ok(pthread_key_create(&again, destroy_again));
	ok(pthread_setspecific(key, &key));
	for (int i = 0; i < 10; i++)
		t[i] = start(use_key, (void *)(intptr_t)(i + 1));
	for (int i = 0; i < 10; i++)
		join(t[i]);
	assert_int_equal(destroyed, 55 + 10 * 3000);
	assert_ptr_equal(pthread_getspecific(key), &key);
	ok(pthread_setspecific(key, NULL));
	ok(pthread_key_delete(key));
	is(EINVAL, pthread_setspecific(key, &key));
	ok(pthread_key_delete(again));
	/* A new key, which may have the same number, has no value. */
	ok(pthread_key_create(&other, NULL));
	assert_null(pthread_getspecific(other));
	ok(pthread_key_delete(other));
}

static void *delete_key(void *unused)
{
	pthread_key_t k, l;

	ok(pthread_key_create(&k, NULL));
	ok(pthread_setspecific(k, &k));
	ok(pthread_key_delete(k));
	is(EINVAL, pthread_setspecific(k, &k));
	ok(pthread_key_create(&l, NULL));
	assert_null(pthread_getspecific(l));
	ok(pthread_key_delete(l));
	return unused;
}

static void deletes_keys(void **state)
{
	(void)state;
	join(start(delete_key, NULL));
}

static pthread_once_t once, once_cancelled;

static void run_once(void)
{
	nap(20);
	SET(GET() + 1);
}

static void *call_once_(void *unused)
{
	ok(pthread_once(&once, run_once));
	assert_int_equal(GET(), 1);
	return unused;
}

static void run_slowly(void)
{
	SET(GET() + 1);
	if (GET() == 1)
		sleep(100);
}

static void *call_slowly(void *unused)
{
	ok(pthread_once(&once_cancelled, run_slowly));
	return unused;
}

static void runs_once(void **state)
{
	pthread_t t[10];

	(void)state;
	for (int i = 0; i < 10; i++)
		t[i] = start(call_once_, NULL);
	call_once_(NULL);
	for (int i = 0; i < 10; i++)
		join(t[i]);
	/* If a call is cancelled, another thread's call runs the function again. */
	SET(0);
	t[0] = start(call_slowly, NULL);
	UNTIL(GET() == 1);
	t[1] = start(call_slowly, NULL);
	nap(20);
	ok(pthread_cancel(t[0]));
	assert_ptr_equal(join(t[0]), PTHREAD_CANCELED);
	join(t[1]);
	assert_int_equal(GET(), 2);
}

/* Cancellation. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void count(void *unused)
{
	(void)unused;
	SET(GET() + 1);
}

static void unlock(void *m)
{
	ok(pthread_mutex_unlock(m));
	count(NULL);
}

static void *in_sleep(void *unused)
{
	pthread_cleanup_push(count, NULL);
	SET(100);
	sleep(100);
	pthread_cleanup_pop(0);
	return unused;
}

static void *in_sem(void *unused)
{
	pthread_cleanup_push(count, NULL);
	SET(100);
	sem_wait(&go);
	pthread_cleanup_pop(0);
	return unused;
}

static void *in_cond(void *unused)
{
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, &lock);
	SET(100);
	for (;;)
		pthread_cond_wait(&cond, &lock);
	pthread_cleanup_pop(0);
	return unused;
}

static void *in_join(void *arg)
{
	pthread_cleanup_push(count, NULL);
	SET(100);
	pthread_join(*(pthread_t *)arg, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_test(void *unused)
{
	pthread_cleanup_push(count, NULL);
	SET(100);
	for (;;) {
		pthread_testcancel();
		sched_yield();
	}
	pthread_cleanup_pop(0);
	return unused;
}

static void cancels(void **state)
{
	static void *(*const all[])(void *) = {
		in_sleep, in_sem, in_cond, in_join, in_test,
	};
	pthread_t t, joined;

	(void)state;
	joined = start(wait_go, NULL);
	for (int i = 0; i < 5; i++) {
		SET(0);
		t = start(all[i], &joined);
		UNTIL(GET() == 100);
		nap(i % 2 * 10);
		ok(pthread_cancel(t));
		assert_ptr_equal(join(t), PTHREAD_CANCELED);
		assert_int_equal(GET(), 101);
	}
	ok(pthread_mutex_trylock(&lock));
	ok(pthread_mutex_unlock(&lock));
	ok(sem_post(&go));
	join(joined);
	/* A thread is cancelled before it begins. */
	t = start(in_test, NULL);
	ok(pthread_cancel(t));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
}

static void *disabled(void *unused)
{
	int old;

	ok(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
	assert_int_equal(old, PTHREAD_CANCEL_ENABLE);
	is(EINVAL, pthread_setcancelstate(77, NULL));
	ok(sem_post(&done));
	while (GET() != 5)
		nap(1);
	nap(40);                        /* the cancel does not end this wait */
	pthread_testcancel();
	ok(pthread_mutex_lock(&lock));
	ok(pthread_mutex_unlock(&lock));
	SET(6);
	ok(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
	assert_int_equal(old, PTHREAD_CANCEL_DISABLE);
	sleep(100);
	return unused;
}

static void cancels_later(void **state)
{
	struct timespec begun;
	pthread_t t;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	t = start(disabled, NULL);
	ok(sem_wait(&done));
	ok(pthread_cancel(t));
	SET(5);
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
	assert_int_equal(GET(), 6);
	assert_true(ms_since(&begun) >= 38);
}

static void *hold_lock(void *unused)
{
	ok(pthread_mutex_lock(&lock));
	SET(1);
	ok(pthread_mutex_unlock(&lock));
	pthread_testcancel();
	return unused;
}

/* pthread_mutex_lock() is no cancellation point. */
static void cancels_no_lock(void **state)
{
	pthread_t t;

	(void)state;
	ok(pthread_mutex_lock(&lock));
	t = start(hold_lock, NULL);
	nap(10);
	ok(pthread_cancel(t));
	nap(10);
	assert_int_equal(GET(), 0);
	ok(pthread_mutex_unlock(&lock));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
	assert_int_equal(GET(), 1);
	/* The beginning of a thread is no cancellation point, either. */
	for (int i = 0; i < 50; i++) {
		SET(0);
		ok(pthread_mutex_lock(&lock));
		t = start(hold_lock, NULL);
		ok(pthread_cancel(t));
		ok(pthread_mutex_unlock(&lock));
		assert_ptr_equal(join(t), PTHREAD_CANCELED);
		assert_int_equal(GET(), 1);
	}
}

/* Signals. */

static volatile int caught;
static pthread_t caught_by;

static void catch(int sig)
{
	caught_by = pthread_self();
	__atomic_store_n(&caught, sig, __ATOMIC_SEQ_CST);
}

static void handle(int flags)
{
	struct sigaction action = { .sa_handler = catch, .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	ok(sigaction(SIGUSR1, &action, NULL));
	caught = 0;
}

static void *sleep_long(void *unused)
{
	struct timespec rest = { 0, 0 };

	(void)unused;
	if (nanosleep(&(struct timespec){ 1000, 0 }, &rest) == 0)
		return NULL;
	return (void *)(intptr_t)(errno == EINTR && rest.tv_sec >= 100);
}

static void *wait_sem(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)(sem_wait(&go) == 0 ? 0 : errno);
}

static void *lock_it(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)(pthread_mutex_lock(&lock)
				  || pthread_mutex_unlock(&lock));
}

/* Sends signals until the thread ends, since a signal may come before the wait. */
static void *kill_until_ended(pthread_t t)
{
	void *result;

	UNTIL((pthread_kill(t, SIGUSR1), nap(10), pthread_tryjoin_np(t, &result) == 0));
	return result;
}

static void interrupts(void **state)
{
	pthread_t t;

	(void)state;
	handle(0);
	t = start(sleep_long, NULL);
	ok(pthread_kill(t, 0));
	assert_int_equal((intptr_t)kill_until_ended(t), 1);
	assert_int_equal(caught, SIGUSR1);
	assert_true(pthread_equal(caught_by, t));
	handle(0);
	t = start(wait_sem, NULL);
	assert_int_equal((intptr_t)kill_until_ended(t), EINTR);
	is(EINVAL, pthread_kill(pthread_self(), 1000));
	/* sem_wait() goes on after a handler with SA_RESTART, and a lock after any. */
	handle(SA_RESTART);
	t = start(wait_sem, NULL);
	nap(10);
	ok(pthread_kill(t, SIGUSR1));
	UNTIL(caught == SIGUSR1);
	ok(sem_post(&go));
	assert_int_equal((intptr_t)join(t), 0);
	handle(0);
	ok(pthread_mutex_lock(&lock));
	t = start(lock_it, NULL);
	nap(10);
	ok(pthread_kill(t, SIGUSR1));
	UNTIL(caught == SIGUSR1);
	ok(pthread_mutex_unlock(&lock));
	assert_int_equal((intptr_t)join(t), 0);
}

static void *block(void *unused)
{
	sigset_t set, old;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	ok(pthread_sigmask(SIG_BLOCK, &set, NULL));
	is(EINVAL, pthread_sigmask(77, &set, NULL));
	ok(pthread_kill(pthread_self(), SIGUSR1));
	assert_int_equal(caught, 0);
	ok(pthread_sigmask(SIG_UNBLOCK, &set, &old));
	assert_int_equal(sigismember(&old, SIGUSR1), 1);
	assert_int_equal(caught, SIGUSR1);
	ok(pthread_sigmask(SIG_BLOCK, NULL, &old));
	assert_int_equal(sigismember(&old, SIGUSR1), 0);
	return NULL;
}

static void blocks_signals(void **state)
{
	(void)state;
	handle(0);
	join(start(block, NULL));
}

static void *raise_it(void *unused)
{
	ok(raise(SIGUSR1));
	assert_int_equal(caught, SIGUSR1);
	assert_true(pthread_equal(caught_by, pthread_self()));
	return unused;
}

/* A thread sends signals to its own gettid(), by calls and by a timer. */
static void *send_to_oneself(void *unused)
{
	pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);
	struct itimerspec soon = { .it_value.tv_nsec = MS };
	struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	timer_t timer;

	e._sigev_un._tid = thread;
	for (int i = 0; i < 3; i++) {
		caught = 0;
		ok(i == 0 ? syscall(SYS_tgkill, process, thread, SIGUSR1)
		   : i == 1 ? syscall(SYS_tkill, thread, SIGUSR1)
		   : tgkill(process, thread, SIGUSR1));
		assert_int_equal(caught, SIGUSR1);
		assert_true(pthread_equal(caught_by, pthread_self()));
	}
	is(-1, tgkill(process, thread, 1000));
	is(EINVAL, errno);
	is(-1, tgkill(process + 1, thread, 0));
	is(ESRCH, errno);
	caught = 0;
	e.sigev_signo = 1000;
	is(-1, timer_create(CLOCK_MONOTONIC, &e, &timer));
	is(EINVAL, errno);
#if __GLIBC_PREREQ(2, 34)
	e.sigev_signo = SIGUSR1;
	ok(timer_create(CLOCK_MONOTONIC, &e, &timer));
	ok(timer_settime(timer, 0, &soon, NULL));
	UNTIL(caught == SIGUSR1);
	assert_true(pthread_equal(caught_by, pthread_self()));
	ok(timer_delete(timer));
#else
	(void)soon;
#endif
	return unused;
}

static void *pause_(void *unused)
{
	SET(1);
	is(-1, pause());
	is(EINTR, errno);
	return unused;
}

static void *suspend(void *unused)
{
	sigset_t set, old;

	sigfillset(&set);
	ok(pthread_sigmask(SIG_SETMASK, &set, NULL));
	SET(1);
	nap(10);
	assert_int_equal(caught, 0);
	sigdelset(&set, SIGUSR1);
	is(-1, sigsuspend(&set));
	is(EINTR, errno);
	assert_int_equal(caught, SIGUSR1);
	ok(pthread_sigmask(SIG_BLOCK, NULL, &old));
	assert_int_equal(sigismember(&old, SIGUSR1), 1);
	return unused;
}

static void awaits_signals(void **state)
{
	pthread_t t;

	(void)state;
	handle(SA_RESTART);
	join(start(raise_it, NULL));
	join(start(send_to_oneself, NULL));
	for (int i = 0; i < 2; i++) {
		SET(0);
		caught = 0;
		t = start(i ? suspend : pause_, NULL);
		UNTIL(GET() == 1);
		nap(20);
		kill_until_ended(t);
		assert_int_equal(caught, SIGUSR1);
	}
	t = start(pause_, NULL);
	nap(5);
	ok(pthread_cancel(t));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
}

/* New threads and processes inherit the signal mask. */

static int status_of(pid_t child);

static bool has_mask(int sig)
{
	sigset_t set;

	return pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGUSR2)
		&& sigismember(&set, sig) == 0;
}

static void *masked(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)has_mask(SIGTERM);
}

static void *natively_masked(void *stack)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	ok(pthread_attr_setstack(&attr, stack, 1 << 20));
	ok(pthread_create(&t, &attr, masked, NULL));
	assert_non_null(join(t));
	pthread_attr_destroy(&attr);
	return masked(NULL);
}

static void inherits_mask(void **state)
{
	void *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ok(pthread_sigmask(SIG_BLOCK, &set, NULL));
	assert_non_null(join(start(masked, NULL)));
	assert_non_null(join(start(natively_masked, stack)));
	ok(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
	munmap(stack, 1 << 20);
}

#define ENDS_ITSELF "kill -TERM $$; exit 3"

static int child_in_thread(void)
{
	sigset_t set;

	if (raise(SIGUSR1) || caught != SIGUSR1)
		return 1;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	caught = 0;
	if (kill(getpid(), SIGUSR1) || pthread_kill(pthread_self(), SIGUSR1) || caught)
		return 2;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (caught != SIGUSR1)
		return 3;
	/* The timer repeats, in case the first signal comes before the sleep. */
	setitimer(ITIMER_REAL, &(struct itimerval){ { 1, 0 }, { 1, 0 } }, NULL);
	if (sleep(1000) == 0)
		return 4;
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
	execl("/bin/sh", "sh", "-c", ENDS_ITSELF, NULL);
	return 5;
}

static void *start_processes(void *unused)
{
	char *const argv[] = { "sh", "-c", ENDS_ITSELF, NULL };
	pid_t child = fork();
	FILE *pipe;
	int status;

	if (child == 0)
		_exit(child_in_thread());
	is(-SIGTERM, status_of(child));
	ok(posix_spawn(&child, "/bin/sh", NULL, NULL, argv, NULL));
	is(-SIGTERM, status_of(child));
	ok(posix_spawnp(&child, "sh", NULL, NULL, argv, NULL));
	is(-SIGTERM, status_of(child));
	status = system(ENDS_ITSELF);
	assert_true(WIFSIGNALED(status));
	pipe = popen(ENDS_ITSELF, "r");
	assert_non_null(pipe);
	status = pclose(pipe);
	assert_true(WIFSIGNALED(status));
	assert_null(popen("true", "no mode"));
	is(EINVAL, errno);
	return unused;
}

static void unblocks_in_processes(void **state)
{
	(void)state;
	handle(0);
	ok(sigaction(SIGALRM, &(struct sigaction){ .sa_handler = catch }, NULL));
	join(start(start_processes, NULL));
	signal(SIGALRM, SIG_DFL);
}

/* Signals for the process, some of which main() blocks. */

static siginfo_t caught_info;

static void catch_with_info(int sig, siginfo_t *info, void *unused)
{
	(void)unused;
	caught_info = *info;
	catch(sig);
}

static void handle_info(int flags)
{
	struct sigaction action = { .sa_sigaction = catch_with_info,
				    .sa_flags = flags | SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	ok(sigaction(SIGUSR1, &action, NULL));
	caught = 0;
}

static int mask(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return pthread_sigmask(how, &set, NULL);
}

static int main_begins(void)
{
	handle_info(0);
	return mask(SIG_BLOCK, SIGUSR1);
}

static void *open_and_wait(void *unused)
{
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	SET(1);
	return wait_sem(unused);
}

/* A timer's signal, too, is sent to the process, not to one thread. */
static void *open_and_pause(void *unused)
{
	ok(mask(SIG_UNBLOCK, SIGALRM));
	ok(setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 5000 }, { 0, 5000 } }, NULL));
	is(-1, pause());
	is(-1, pause());
	ok(setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL));
	return unused;
}

static void handles_for_process(void **state)
{
	pthread_t t;

	(void)state;
	ok(main_begins());
	for (int i = 0; i < 20; i++) {
		SET(0);
		t = start(open_and_wait, NULL);
		UNTIL(GET() == 1);
		nap(i % 4 == 0 ? 10 : 0);
		if (i % 2)
			ok(kill(getpid(), SIGUSR1));
		else
			ok(sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = i }));
		UNTIL(caught == SIGUSR1);
		assert_true(pthread_equal(caught_by, t));
		is(SIGUSR1, caught_info.si_signo);
		is(i % 2 ? SI_USER : SI_QUEUE, caught_info.si_code);
		is(getpid(), caught_info.si_pid);
		if (i % 2 == 0)
			is(i, caught_info.si_value.sival_int);
		ok(sem_post(&go));
		join(t);
		sem_trywait(&go);
		caught = 0;
	}
	ok(sigaction(SIGALRM, &(struct sigaction){ .sa_handler = catch }, NULL));
	ok(mask(SIG_BLOCK, SIGALRM));
	join(start(open_and_pause, NULL));
	is(SIGALRM, caught);
	signal(SIGALRM, SIG_DFL);
	ok(mask(SIG_UNBLOCK, SIGALRM));
	ok(mask(SIG_UNBLOCK, SIGUSR1));
}

static void *unblock(void *sig)
{
	ok(mask(SIG_UNBLOCK, *(int *)sig));
	return NULL;
}

static void *unblock_and_raise(void *sig)
{
	ok(mask(SIG_UNBLOCK, *(int *)sig));
	ok(raise(*(int *)sig));
	return NULL;
}

/*
 * Returns the exit status of a child in which a thread calls func(&sig). The child cannot
 * open descriptors.
 */
static int act_in_child(int sig, void *(*func)(void *))
{
	const struct rlimit none = { 0, 0 };
	pid_t child = fork();

	if (child > 0)
		return status_of(child);
	alarm(100);
	setrlimit(RLIMIT_NOFILE, &none);
	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	mask(SIG_BLOCK, sig);
	if (func == unblock)
		kill(getpid(), sig);
	join(start(func, &sig));
	_exit(0);
}

/* The default action is taken if a thread unblocks a signal that main() blocks. */
static void acts_by_default(void **state)
{
	(void)state;
	is(-SIGTERM, act_in_child(SIGTERM, unblock));
	is(0, act_in_child(SIGCHLD, unblock));
	is(-SIGTERM, act_in_child(SIGTERM, unblock_and_raise));
	is(-SIGPIPE, act_in_child(SIGPIPE, unblock_and_raise));
	is(0, act_in_child(SIGCHLD, unblock_and_raise));
}

static void *kill_process(void *unused)
{
	ok(mask(SIG_BLOCK, SIGUSR1));
	nap(10);
	ok(kill(getpid(), SIGUSR1));
	return unused;
}

/* The system prefers main() if main() unblocks or awaits a signal, even for a moment. */
static void prefers_main(void **state)
{
	sigset_t set, none;
	pthread_t t, other;
	int sig = 0;

	(void)state;
	ok(main_begins());
	t = start(open_and_wait, NULL);
	UNTIL(GET() == 1);
	ok(kill(getpid(), SIGUSR1));
	UNTIL(caught == SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigemptyset(&none);
	for (int i = 0; i < 10; i++) {
		caught = 0;
		other = start(kill_process, NULL);
		if (i % 2) {
			ok(sigwait(&set, &sig));
			is(SIGUSR1, sig);
			is(0, caught);
		} else {
			is(-1, sigsuspend(&none));
			is(SIGUSR1, caught);
			assert_true(pthread_equal(caught_by, pthread_self()));
		}
		join(other);
	}
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	caught = 0;
	ok(kill(getpid(), SIGUSR1));
	is(SIGUSR1, caught);
	assert_true(pthread_equal(caught_by, pthread_self()));
	ok(sem_post(&go));
	join(t);
}

static bool is_pending(int sig)
{
	sigset_t set;

	ok(sigpending(&set));
	return sigismember(&set, sig);
}

/* The handlers of unblocked signals run before pthread_sigmask() returns. */
static void *look_at_pending(void *unused)
{
	assert_true(is_pending(SIGUSR1));
	assert_false(is_pending(SIGUSR2));
	ok(mask(SIG_BLOCK, SIGUSR2));
	ok(raise(SIGUSR2));
	assert_true(is_pending(SIGUSR2));
	is(0, caught);
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	is(SIGUSR1, caught);
	assert_true(pthread_equal(caught_by, pthread_self()));
	is(SI_USER, caught_info.si_code);
	assert_false(is_pending(SIGUSR1));
	ok(mask(SIG_UNBLOCK, SIGUSR2));
	is(SIGUSR2, caught);
	return unused;
}

static void knows_pending(void **state)
{
	(void)state;
	ok(main_begins());
	ok(sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = catch }, NULL));
	ok(kill(getpid(), SIGUSR1));
	assert_true(is_pending(SIGUSR1));
	join(start(look_at_pending, NULL));
	assert_false(is_pending(SIGUSR1));
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	signal(SIGUSR2, SIG_DFL);
}

static void *compute(void *unused)
{
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	SET(1);
	while (GET() != 2)
		;
	return unused;
}

static void *open_once(void *unused)
{
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	ok(mask(SIG_BLOCK, SIGUSR1));
	return unused;
}

/* Sends a signal to the process while a thread computes. The thread ends `ms' later. */
static void compute_and_end(long ms)
{
	pthread_t t;

	SET(0);
	caught = 0;
	t = start(compute, NULL);
	UNTIL(GET() == 1);
	ok(kill(getpid(), SIGUSR1));
	nap(ms);
	SET(2);
	join(t);
	if (caught)
		assert_true(pthread_equal(caught_by, t));
}

/* The signal is still pending, and main() takes it. */
static void take_signal(void)
{
	UNTIL(is_pending(SIGUSR1));
	is(0, caught);
	ok(mask(SIG_UNBLOCK, SIGUSR1));
	is(SIGUSR1, caught);
}

/*
 * A thread that computes runs the handler of an offered signal before the thread ends. A
 * signal that no thread takes stays pending for main(). If the catcher is late, the
 * thread ends before the offer, so the case is then tried with a longer time.
 */
static void handles_late(void **state)
{
	(void)state;
	ok(main_begins());
	for (long ms = 30; compute_and_end(ms), !caught && ms < 30000; ms *= 10) {
		take_signal();
		ok(mask(SIG_BLOCK, SIGUSR1));
	}
	is(SIGUSR1, caught);
	caught = 0;
	ok(kill(getpid(), SIGUSR1));
	take_signal();
	ok(mask(SIG_BLOCK, SIGUSR1));
	caught = 0;
	join(start(open_once, NULL));
	ok(kill(getpid(), SIGUSR1));
	take_signal();
}

/*
 * There are threads on each processor. If the signal is offered to the thread that
 * computes, that thread does not take it soon. Then another thread takes it.
 */
static void handles_elsewhere(void **state)
{
	const char *processors = getenv("UPOSIX_PROCESSORS");
	bool one = sysconf(_SC_NPROCESSORS_ONLN) == 1
		|| (processors && strcmp(processors, "1") == 0);
	pthread_t t[9];

	(void)state;
	ok(main_begins());
	for (int i = 0; i < 9; i++) {
		SET(0);
		t[i] = start(i < 8 ? open_and_wait : compute, NULL);
		UNTIL(GET() == 1);
	}
	ok(kill(getpid(), SIGUSR1));
	if (one)
		nap(30);
	else
		UNTIL(caught == SIGUSR1);
	SET(2);
	for (int i = 0; i < 8; i++)
		ok(sem_post(&go));
	for (int i = 0; i < 9; i++)
		join(t[i]);
	is(SIGUSR1, caught);
	ok(mask(SIG_UNBLOCK, SIGUSR1));
}

/*
 * In the child of a fork, only threads that the child starts handle signals. If the
 * action is the default one, the signal ends the child.
 */
static int child_that_starts(int sig)
{
	pthread_t t;

	SET(0);
	t = start(open_and_wait, NULL);
	for (int i = 0; i < 60000 && GET() != 1; i++)
		nap(1);
	if (kill(getpid(), sig))
		return 1;
	for (int i = 0; i < 60000 && caught != sig; i++)
		nap(1);
	if (!pthread_equal(caught_by, t) || is_pending(sig))
		return 2;
	return 42;
}

static void handles_in_child(void **state)
{
	pid_t child;
	pthread_t t;

	(void)state;
	ok(main_begins());
	t = start(open_and_wait, NULL);
	UNTIL(GET() == 1);
	for (int i = 0; i < 2; i++) {
		signal(SIGUSR1, SIG_DFL);
		if (i == 0)
			ok(main_begins());
		child = fork();
		if (child == 0) {
			alarm(100);
			_exit(child_that_starts(SIGUSR1));
		}
		is(i ? -SIGUSR1 : 42, status_of(child));
	}
	ok(main_begins());
	ok(sem_post(&go));
	join(t);
	ok(mask(SIG_UNBLOCK, SIGUSR1));
}

/* Mutexes. */

enum { TIMES = 5000, THREADS = 8 };

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static long total;

static void *add(void *m)
{
	for (int i = 0; i < TIMES; i++) {
		ok(pthread_mutex_lock(m));
		total++;
		if (i % 16 == 0)
			sched_yield();
		ok(pthread_mutex_unlock(m));
	}
	return NULL;
}

static void storm(pthread_mutex_t *m)
{
	pthread_t t[THREADS];

	total = 0;
	for (int i = 0; i < THREADS; i++)
		t[i] = start(add, m);
	add(m);                         /* main() takes part */
	for (int i = 0; i < THREADS; i++)
		join(t[i]);
	assert_int_equal(total, (THREADS + 1) * TIMES);
}

static void locks(void **state)
{
	(void)state;
	storm(&lock);
	storm(&recursive);
	storm(&checked);
	storm(&adaptive);
}

static void *try_lock(void *m)
{
	int rc = pthread_mutex_trylock(m);

	if (rc == 0)
		pthread_mutex_unlock(m);
	return (void *)(intptr_t)rc;
}

static void *unlock_it(void *m)
{
	return (void *)(intptr_t)pthread_mutex_unlock(m);
}

static void kinds_of(pthread_mutex_t *r, pthread_mutex_t *e)
{
	for (int i = 0; i < 3; i++)
		ok(pthread_mutex_lock(r));
	ok(pthread_mutex_trylock(r));
	for (int i = 0; i < 4; i++) {
		assert_int_equal((intptr_t)join(start(try_lock, r)), EBUSY);
		assert_int_equal((intptr_t)join(start(unlock_it, r)), EPERM);
		ok(pthread_mutex_unlock(r));
	}
	assert_int_equal((intptr_t)join(start(try_lock, r)), 0);
	is(EPERM, pthread_mutex_unlock(r));
	ok(pthread_mutex_lock(e));
	is(EDEADLK, pthread_mutex_lock(e));
	is(EBUSY, pthread_mutex_trylock(e));
	assert_int_equal((intptr_t)join(start(unlock_it, e)), EPERM);
	ok(pthread_mutex_unlock(e));
	is(EPERM, pthread_mutex_unlock(e));
}

static void *kinds_there(void *unused)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t r, e;

	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE));
	ok(pthread_mutex_init(&r, &attr));
	ok(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK));
	ok(pthread_mutex_init(&e, &attr));
	ok(pthread_mutexattr_destroy(&attr));
	kinds_of(&r, &e);
	ok(pthread_mutex_lock(&r));
	is(EBUSY, pthread_mutex_destroy(&r));
	ok(pthread_mutex_unlock(&r));
	ok(pthread_mutex_destroy(&r));
	ok(pthread_mutex_destroy(&e));
	return unused;
}

static void has_kinds(void **state)
{
	static pthread_mutex_t r = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	static pthread_mutex_t e = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	(void)state;
	kinds_of(&r, &e);
	kinds_there(NULL);
	join(start(kinds_there, NULL));
}

static void *time_out(void *m)
{
	struct timespec begun, t = in_ms(CLOCK_REALTIME, 30), none = { 0, 1000 * MS };

	clock_gettime(CLOCK_MONOTONIC, &begun);
	is(ETIMEDOUT, pthread_mutex_timedlock(m, &t));
	assert_true(ms_since(&begun) >= 29);
	t = in_ms(CLOCK_MONOTONIC, 30);
	is(ETIMEDOUT, pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
	assert_true(ms_since(&begun) >= 59);
	is(EINVAL, pthread_mutex_timedlock(m, &none));
	is(EINVAL, pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &t));
	t = (struct timespec){ 1, 0 };
	is(ETIMEDOUT, pthread_mutex_timedlock(m, &t));
	return NULL;
}

static void times_out(void **state)
{
	struct timespec t = { 1, 0 }, none = { 0, 1000 * MS };

	(void)state;
	ok(pthread_mutex_timedlock(&lock, &t));         /* the mutex is free */
	is(EINVAL, pthread_mutex_timedlock(&lock, &none));
	join(start(time_out, &lock));
	ok(pthread_mutex_unlock(&lock));
}

/* A second lock of a normal mutex returns EDEADLK. Natively it would wait for ever. */
static void tells_misuse(void **state)
{
	(void)state;
	if (!ours())
		return;
	ok(pthread_mutex_lock(&lock));
	is(EDEADLK, pthread_mutex_lock(&lock));
	assert_int_equal((intptr_t)join(start(unlock_it, &lock)), EPERM);
	ok(pthread_mutex_unlock(&lock));
}

/* Conditions. */

static void *await(void *unused)
{
	pthread_mutex_lock(&lock);
	while (GET() == 0)
		ok(pthread_cond_wait(&cond, &lock));
	SET(GET() - 1);
	pthread_mutex_unlock(&lock);
	ok(sem_post(&done));
	return unused;
}

static void waits(void **state)
{
	pthread_t t[THREADS];
	int left;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		t[i] = start(await, NULL);
	nap(10);
	ok(pthread_mutex_lock(&lock));
	SET(1);
	ok(pthread_cond_signal(&cond));
	ok(pthread_mutex_unlock(&lock));
	ok(sem_wait(&done));
	nap(10);
	ok(sem_getvalue(&done, &left));
	assert_int_equal(left, 0);
	ok(pthread_mutex_lock(&lock));
	SET(THREADS);                   /* for THREADS - 1 threads and main() */
	ok(pthread_cond_broadcast(&cond));
	ok(pthread_mutex_unlock(&lock));
	for (int i = 0; i < THREADS; i++)
		join(t[i]);
	await(NULL);
	assert_int_equal(GET(), 0);
}

static void *wake_main(void *unused)
{
	ok(pthread_mutex_lock(&lock));
	SET(1);
	ok(pthread_cond_signal(&cond));
	ok(pthread_mutex_unlock(&lock));
	return unused;
}

static void wakes_main(void **state)
{
	pthread_t t;

	(void)state;
	ok(pthread_mutex_lock(&lock));
	t = start(wake_main, NULL);
	while (GET() == 0)
		ok(pthread_cond_wait(&cond, &lock));
	ok(pthread_mutex_unlock(&lock));
	join(t);
}

static void timed_out(pthread_cond_t *c, clockid_t clock, bool by_call)
{
	struct timespec begun, t = in_ms(clock, 30), none = { 0, -1 };

	clock_gettime(CLOCK_MONOTONIC, &begun);
	ok(pthread_mutex_lock(&lock));
	is(ETIMEDOUT, by_call ? pthread_cond_clockwait(c, &lock, clock, &t)
	   : pthread_cond_timedwait(c, &lock, &t));
	assert_true(ms_since(&begun) >= 29 && ms_since(&begun) < 100000);
	is(EINVAL, pthread_cond_timedwait(c, &lock, &none));
	ok(pthread_mutex_unlock(&lock));
}

static void *conds_time_out(void *unused)
{
	pthread_condattr_t attr;
	pthread_cond_t c;

	timed_out(&cond, CLOCK_REALTIME, false);
	timed_out(&cond, CLOCK_REALTIME, true);
	timed_out(&cond, CLOCK_MONOTONIC, true);
	ok(pthread_condattr_init(&attr));
	ok(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	ok(pthread_cond_init(&c, &attr));
	timed_out(&c, CLOCK_MONOTONIC, false);
	ok(pthread_cond_destroy(&c));
	ok(pthread_cond_init(&c, NULL));
	timed_out(&c, CLOCK_REALTIME, false);
	ok(pthread_cond_destroy(&c));
	ok(pthread_condattr_destroy(&attr));
	return unused;
}

static void waits_for_a_time(void **state)
{
	(void)state;
	conds_time_out(NULL);
	join(start(conds_time_out, NULL));
}

static void *wait_interrupted(void *unused)
{
	ok(pthread_mutex_lock(&lock));
	while (GET() == 0)
		ok(pthread_cond_wait(&cond, &lock));
	ok(pthread_mutex_unlock(&lock));
	return unused;
}

/* A handler runs during a wait for a condition; then the waiter has the mutex again. */
static void cond_and_signal(void **state)
{
	pthread_t t;

	(void)state;
	handle(0);
	t = start(wait_interrupted, NULL);
	nap(10);
	ok(pthread_kill(t, SIGUSR1));
	UNTIL(caught == SIGUSR1);
	wake_main(NULL);
	join(t);
}

/* Reader-writer locks. */

static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

static void *read_it(void *unused)
{
	ok(pthread_rwlock_rdlock(&rw));
	ok(sem_post(&done));
	wait_go(NULL);
	ok(pthread_rwlock_unlock(&rw));
	return unused;
}

static void *write_it(void *unused)
{
	ok(pthread_rwlock_wrlock(&rw));
	SET(GET() + 1);
	nap(1);
	assert_int_equal(GET(), 1);
	SET(GET() - 1);
	ok(pthread_rwlock_unlock(&rw));
	return unused;
}

static void reads_and_writes(void **state)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 20);
	struct timespec u = in_ms(CLOCK_MONOTONIC, 40);
	pthread_t readers[4], writers[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		readers[i] = start(read_it, NULL);
	for (int i = 0; i < 4; i++)
		ok(sem_wait(&done));
	is(EBUSY, pthread_rwlock_trywrlock(&rw));
	is(ETIMEDOUT, pthread_rwlock_timedwrlock(&rw, &t));
	is(ETIMEDOUT, pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &u));
	for (int i = 0; i < 4; i++)
		writers[i] = start(write_it, NULL);
	nap(10);
	ok(pthread_rwlock_tryrdlock(&rw));      /* although writers wait */
	ok(pthread_rwlock_rdlock(&rw));
	ok(pthread_rwlock_unlock(&rw));
	ok(pthread_rwlock_unlock(&rw));
	for (int i = 0; i < 4; i++)
		ok(sem_post(&go));
	for (int i = 0; i < 4; i++) {
		join(readers[i]);
		join(writers[i]);
	}
	ok(pthread_rwlock_wrlock(&rw));
	is(EDEADLK, pthread_rwlock_wrlock(&rw));
	is(EDEADLK, pthread_rwlock_rdlock(&rw));
	is(EBUSY, pthread_rwlock_tryrdlock(&rw));
	ok(pthread_rwlock_unlock(&rw));
}

static void *read_timed(void *lock_)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 20);

	is(ETIMEDOUT, pthread_rwlock_timedrdlock(lock_, &t));
	t = in_ms(CLOCK_MONOTONIC, 20);
	is(ETIMEDOUT, pthread_rwlock_clockrdlock(lock_, CLOCK_MONOTONIC, &t));
	return NULL;
}

static void rwlock_inits(void **state)
{
	static pthread_rwlock_t w = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_rwlock_t l;

	(void)state;
	ok(pthread_rwlock_init(&l, NULL));
	ok(pthread_rwlock_wrlock(&l));
	join(start(read_timed, &l));
	ok(pthread_rwlock_unlock(&l));
	ok(pthread_rwlock_destroy(&l));
	ok(pthread_rwlock_rdlock(&w));
	is(EBUSY, pthread_rwlock_trywrlock(&w));
	ok(pthread_rwlock_unlock(&w));
}

/* Semaphores, barriers, spin locks. */

static void *sem_times_out(void *unused)
{
	struct timespec begun, t = in_ms(CLOCK_REALTIME, 30), none = { 0, -1 };

	clock_gettime(CLOCK_MONOTONIC, &begun);
	is(-1, sem_timedwait(&go, &t));
	assert_int_equal(errno, ETIMEDOUT);
	t = in_ms(CLOCK_MONOTONIC, 30);
	is(-1, sem_clockwait(&go, CLOCK_MONOTONIC, &t));
	assert_int_equal(errno, ETIMEDOUT);
	assert_true(ms_since(&begun) >= 58);
	is(-1, sem_timedwait(&go, &none));
	assert_int_equal(errno, EINVAL);
	is(-1, sem_trywait(&go));
	assert_int_equal(errno, EAGAIN);
	return unused;
}

static void semaphores(void **state)
{
	sem_t most;
	int n;

	(void)state;
	sem_times_out(NULL);
	join(start(sem_times_out, NULL));
	ok(sem_init(&most, 0, SEM_VALUE_MAX));
	is(-1, sem_post(&most));
	assert_int_equal(errno, EOVERFLOW);
	ok(sem_wait(&most));
	ok(sem_getvalue(&most, &n));
	assert_int_equal(n, SEM_VALUE_MAX - 1);
	ok(sem_destroy(&most));
	is(-1, sem_init(&most, 0, (unsigned)SEM_VALUE_MAX + 1));
	assert_int_equal(errno, EINVAL);
}

static sem_t tokens;

static void post_token(int sig)
{
	(void)sig;
	sem_post(&tokens);
}

static void *post_tokens(void *unused)
{
	for (int i = 0; i < 500; i++) {
		ok(sem_post(&tokens));
		if (i % 8 == 0)
			sched_yield();
	}
	return unused;
}

static void *take_token(void *unused)
{
	while (sem_wait(&tokens))
		;
	return unused;
}

/* Four threads and main() take a token each, and no token is left. */
static void take_tokens(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		t[i] = start(take_token, NULL);
	for (int i = 0; i < 5; i++)
		ok(sem_post(&tokens));
	take_token(NULL);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	is(-1, sem_trywait(&tokens));
}

/* A signal ends a wait of main() for a semaphore, and no post is lost. */
static void interrupts_main(void **state)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	struct itimerval rarely = { { 0, 0 }, { 0, 5000 } };
	struct sigaction action = { .sa_handler = catch };
	struct timespec late;
	pthread_t t[4];

	(void)state;
	ok(sem_init(&tokens, 0, 0));
	sigemptyset(&action.sa_mask);
	ok(sigaction(SIGALRM, &action, NULL));
	ok(setitimer(ITIMER_REAL, &often, NULL));
	is(-1, sem_wait(&tokens));
	is(EINTR, errno);
	late = in_ms(CLOCK_REALTIME, 100000);
	is(-1, sem_timedwait(&tokens, &late));
	is(EINTR, errno);
	for (int i = 0; i < 4; i++)
		t[i] = start(post_tokens, NULL);
	for (int i = 0; i < 2000; i++)
		take_token(NULL);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	ok(setitimer(ITIMER_REAL, &rarely, NULL));
	nap(10);
	action.sa_handler = post_token;
	ok(sigaction(SIGALRM, &action, NULL));
	for (int i = 0; i < 3; i++) {
		ok(setitimer(ITIMER_REAL, &rarely, NULL));
		take_token(NULL);
	}
	signal(SIGALRM, SIG_DFL);
	late = in_ms(CLOCK_REALTIME, 10);
	is(-1, sem_timedwait(&tokens, &late));
	is(ETIMEDOUT, errno);
	take_tokens();
}

static void *wait_named(void *s)
{
	return (void *)(intptr_t)(sem_wait(s) ? errno : 0);
}

static void named_semaphore(void **state)
{
	char name[40];
	pthread_t t;
	sem_t *s;

	(void)state;
	snprintf(name, sizeof name, "/usched-test-%ld", (long)getpid());
	s = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
	if (s == SEM_FAILED)
		skip();
	sem_unlink(name);
	ok(sem_wait(s));
	t = start(wait_named, s);
	nap(10);
	ok(sem_post(s));
	assert_null(join(t));
	handle(0);
	t = start(wait_named, s);
	is(EINTR, (int)(intptr_t)kill_until_ended(t));
	t = start(wait_named, s);
	nap(10);
	ok(pthread_cancel(t));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
	ok(sem_close(s));
}

static pthread_barrier_t barrier;

static void *meet(void *unused)
{
	intptr_t serial = 0;

	(void)unused;
	for (int i = 0; i < 100; i++) {
		int rc = pthread_barrier_wait(&barrier);

		assert_true(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
		serial += rc == PTHREAD_BARRIER_SERIAL_THREAD;
	}
	return (void *)serial;
}

static void barriers(void **state)
{
	intptr_t serial = 0;
	pthread_t t[4];

	(void)state;
	is(EINVAL, pthread_barrier_init(&barrier, NULL, 0));
	ok(pthread_barrier_init(&barrier, NULL, 5));
	for (int i = 0; i < 4; i++)
		t[i] = start(meet, NULL);
	serial += (intptr_t)meet(NULL);
	for (int i = 0; i < 4; i++)
		serial += (intptr_t)join(t[i]);
	assert_int_equal(serial, 100);
	ok(pthread_barrier_destroy(&barrier));
}

static void catch_and_wait(int sig)
{
	catch(sig);
	while (GET() == 0)
		nap(1);
}

static void *meet_once(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)pthread_barrier_wait(&barrier);
}

/*
 * Gives a thread `ms' to get to the barrier. Then a handler that waits interrupts the
 * thread. Returns true if another thread passes the barrier meanwhile.
 */
static bool passes_interrupted(long ms)
{
	bool passes = false;
	void *serial;
	pthread_t t, u;

	SET(0);
	caught = 0;
	t = start(meet_once, NULL);
	nap(ms);
	ok(pthread_kill(t, SIGUSR1));
	UNTIL(caught == SIGUSR1);
	u = start(meet_once, NULL);
	for (int i = 0; i < 5000 && !passes; i++) {
		nap(1);
		passes = pthread_tryjoin_np(u, &serial) == 0;
	}
	SET(1);
	if (!passes)                    /* t was not at the barrier yet */
		serial = join(u);
	assert_int_equal((intptr_t)join(t) + (intptr_t)serial,
			 PTHREAD_BARRIER_SERIAL_THREAD);
	return passes;
}

/* A handler that waits keeps no other thread from the barrier. */
static void barrier_and_signal(void **state)
{
	bool passes = false;

	(void)state;
	ok(sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = catch_and_wait }, NULL));
	ok(pthread_barrier_init(&barrier, NULL, 2));
	for (long ms = 10; !passes && ms <= 10000; ms *= 10)
		passes = passes_interrupted(ms);
	assert_true(passes);
	ok(pthread_barrier_destroy(&barrier));
}

static pthread_spinlock_t spin;

static void *spin_add(void *unused)
{
	for (int i = 0; i < TIMES; i++) {
		ok(pthread_spin_lock(&spin));
		total++;
		if (i % 500 == 0)
			sched_yield();  /* other threads spin meanwhile */
		ok(pthread_spin_unlock(&spin));
	}
	return unused;
}

static void spins(void **state)
{
	pthread_t t[4];

	(void)state;
	ok(pthread_spin_init(&spin, 0));
	total = 0;
	for (int i = 0; i < 4; i++)
		t[i] = start(spin_add, NULL);
	for (int i = 0; i < 4; i++)
		join(t[i]);
	assert_int_equal(total, 4 * TIMES);
	ok(pthread_spin_destroy(&spin));
}

/* Time. */

static void *sleeps_(void *unused)
{
	struct timespec begun, t;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	ok(usleep(20000));
	assert_true(ms_since(&begun) >= 20);
	t = in_ms(CLOCK_REALTIME, 20);
	ok(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL));
	assert_true(ms_since(&begun) >= 39);
	t = in_ms(CLOCK_MONOTONIC, 20);
	ok(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
	assert_true(ms_since(&begun) >= 58);
	t = (struct timespec){ 0, 20 * MS };
	ok(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
	assert_true(ms_since(&begun) >= 78);
	ok(sleep(0));
	t = (struct timespec){ 0, 1000 * MS };
	is(-1, nanosleep(&t, NULL));
	assert_int_equal(errno, EINVAL);
	is(EINVAL, clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
	return unused;
}

enum { SLEEPERS = 40 };

static int asleep, most_asleep;

static void *sleep_a_second(void *unused)
{
	int n = __atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);

	if (n == SLEEPERS)
		__atomic_store_n(&most_asleep, n, __ATOMIC_SEQ_CST);
	ok(sleep(1));
	__atomic_sub_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
	return unused;
}

/*
 * All threads sleep at the same time, even on one processor. On a busy machine some may
 * start after others have ended, so the case tries again.
 */
static void sleeps(void **state)
{
	pthread_t t[SLEEPERS];
	struct timespec begun;

	(void)state;
	sleeps_(NULL);
	join(start(sleeps_, NULL));
	most_asleep = 0;
	for (int tries = 0; tries < 100 && !most_asleep; tries++) {
		clock_gettime(CLOCK_MONOTONIC, &begun);
		for (int i = 0; i < SLEEPERS; i++)
			t[i] = start(sleep_a_second, NULL);
		for (int i = 0; i < SLEEPERS; i++)
			join(t[i]);
		assert_true(ms_since(&begun) >= 999);
	}
	assert_int_equal(most_asleep, SLEEPERS);
}

/* Objects of several processes, and fork. */

struct shared {
	pthread_mutex_t  m;
	pthread_cond_t   c;
	pthread_rwlock_t l;
	sem_t            s;
	int              value;
};

static struct shared *shared;

static void make_shared(void)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	pthread_rwlockattr_t la;

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	pthread_mutexattr_init(&ma);
	ok(pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED));
	ok(pthread_mutex_init(&shared->m, &ma));
	pthread_condattr_init(&ca);
	ok(pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED));
	ok(pthread_cond_init(&shared->c, &ca));
	pthread_rwlockattr_init(&la);
	ok(pthread_rwlockattr_setpshared(&la, PTHREAD_PROCESS_SHARED));
	ok(pthread_rwlock_init(&shared->l, &la));
	ok(sem_init(&shared->s, 1, 0));
}

static void *use_shared(void *unused)
{
	ok(pthread_mutex_lock(&shared->m));
	shared->value++;
	ok(pthread_cond_broadcast(&shared->c));
	while (shared->value < 4)
		ok(pthread_cond_wait(&shared->c, &shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	ok(pthread_rwlock_rdlock(&shared->l));
	ok(pthread_rwlock_unlock(&shared->l));
	ok(sem_post(&shared->s));
	return unused;
}

/* Uses the shared objects in two threads. Returns an exit status for a child. */
static int both(void)
{
	pthread_t t = start(use_shared, NULL);

	use_shared(NULL);
	join(t);
	return 0;
}

static int status_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void shares(void **state)
{
	pid_t child;

	(void)state;
	make_shared();
	ok(pthread_rwlock_wrlock(&shared->l));
	child = fork();
	if (child == 0) {
		alarm(100);
		_exit(both());
	}
	nap(30);
	ok(pthread_rwlock_unlock(&shared->l));
	both();
	for (int i = 0; i < 4; i++)
		ok(sem_wait(&shared->s));
	ok(status_of(child));
	munmap(shared, sizeof *shared);
}

/*
 * Counts under a mutex that processes share, of any kind. glibc marks a normal mutex by a
 * bit, and stores in an adaptive mutex how long glibc has spun.
 */
static void *count_shared(void *unused)
{
	for (int i = 0; i < 200; i++) {
		ok(pthread_mutex_lock(&shared->m));
		shared->value++;
		sched_yield();
		ok(pthread_mutex_unlock(&shared->m));
	}
	return unused;
}

static int in_other_process(void)
{
	ok(pthread_mutex_lock(&shared->m));     /* waits for the parent */
	if (shared->value < 1)
		return 1;
	ok(pthread_mutex_unlock(&shared->m));
	join(start(count_shared, NULL));
	return 0;
}

static void shares_kind(int kind)
{
	pthread_mutexattr_t attr;
	pid_t child;

	pthread_mutexattr_init(&attr);
	ok(pthread_mutexattr_settype(&attr, kind));
	ok(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	ok(pthread_mutex_init(&shared->m, &attr));
	ok(pthread_mutex_lock(&shared->m));
	shared->value = 0;
	child = fork();
	if (child == 0) {
		alarm(100);
		_exit(in_other_process());
	}
	nap(30);
	shared->value = 1;
	ok(pthread_mutex_unlock(&shared->m));
	join(start(count_shared, NULL));
	ok(status_of(child));
	assert_int_equal(shared->value, 401);
	ok(pthread_mutex_destroy(&shared->m));
}

static void shares_kinds(void **state)
{
	(void)state;
	make_shared();
	shares_kind(PTHREAD_MUTEX_NORMAL);
	shares_kind(PTHREAD_MUTEX_ADAPTIVE_NP);
	munmap(shared, sizeof *shared);
}

/* The owner of a recursive or error-checking mutex is the thread, not the processor. */
static void *try_shared(void *kind)
{
	bool recursive_ = *(int *)kind == PTHREAD_MUTEX_RECURSIVE;

	is(EBUSY, pthread_mutex_trylock(&shared->m));
	is(EPERM, pthread_mutex_unlock(&shared->m));
	SET(1);
	ok(pthread_mutex_lock(&shared->m));
	is(recursive_ ? 0 : EDEADLK, pthread_mutex_lock(&shared->m));
	if (recursive_)
		ok(pthread_mutex_trylock(&shared->m));
	else                    /* natively EDEADLK if the mutex is robust */
		assert_true(pthread_mutex_trylock(&shared->m) != 0);
	shared->value++;
	if (recursive_) {
		ok(pthread_mutex_unlock(&shared->m));
		ok(pthread_mutex_unlock(&shared->m));
	}
	ok(pthread_mutex_unlock(&shared->m));
	is(EPERM, pthread_mutex_unlock(&shared->m));
	return NULL;
}

static void *own_shared(void *kind)
{
	pthread_t t;

	ok(pthread_mutex_lock(&shared->m));
	t = start(try_shared, kind);
	UNTIL(GET() == 1);
	nap(3);
	is(0, shared->value);
	ok(pthread_mutex_unlock(&shared->m));
	join(t);
	is(1, shared->value);
	return NULL;
}

static void *hold_shared(void *unused)
{
	ok(pthread_mutex_lock(&shared->m));
	SET(2);
	wait_go(NULL);
	ok(pthread_mutex_unlock(&shared->m));
	return unused;
}

/*
 * main() calls libc's functions, which do not take main() for the owner of a mutex that a
 * thread holds.
 */
static void is_held_shared(void)
{
	pthread_t t = start(hold_shared, NULL);

	UNTIL(GET() == 2);
	is(EBUSY, pthread_mutex_trylock(&shared->m));
	is(EPERM, pthread_mutex_unlock(&shared->m));
	ok(sem_post(&go));
	ok(pthread_mutex_lock(&shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	join(t);
}

static void *wait_deep(void *unused)
{
	ok(pthread_mutex_lock(&shared->m));
	ok(pthread_mutex_lock(&shared->m));
	SET(3);
	while (shared->value == 1)
		ok(pthread_cond_wait(&shared->c, &shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	is(EBUSY, shared->value);
	ok(pthread_mutex_unlock(&shared->m));
	return unused;
}

/*
 * A thread waits for a condition with a mutex that it has locked twice. libc would unlock
 * the mutex only once for the wait, so that main() would wait for ever.
 */
static void waits_deep(void)
{
	pthread_t t = start(wait_deep, NULL);

	UNTIL(GET() == 3);
	ok(pthread_mutex_lock(&shared->m));
	shared->value = EBUSY;
	ok(pthread_cond_signal(&shared->c));
	ok(pthread_mutex_unlock(&shared->m));
	join(t);
}

static void shares_owned(void **state)
{
	static int kinds[] = { PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK };
	pthread_mutexattr_t attr;

	(void)state;
	make_shared();
	for (int i = 0; i < 10; i++) {
		int *kind = &kinds[i < 8 ? i % 2 : 0];

		pthread_mutexattr_init(&attr);
		ok(pthread_mutexattr_settype(&attr, *kind));
		ok(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
		ok(pthread_mutexattr_setrobust(&attr, i >= 4 && i < 8));
		ok(pthread_mutexattr_setprotocol(&attr, i < 8 ? PTHREAD_PRIO_NONE
						 : PTHREAD_PRIO_INHERIT));
		ok(pthread_mutex_init(&shared->m, &attr));
		shared->value = 0;
		SET(0);
		if (i / 2 % 2 == 0 && i != 9)
			own_shared(kind);
		else
			join(start(own_shared, kind));
		is_held_shared();
		if (ours() && *kind == PTHREAD_MUTEX_RECURSIVE)
			waits_deep();
		ok(pthread_mutex_destroy(&shared->m));
		shares_kind(*kind);
	}
	munmap(shared, sizeof *shared);
}

/* Ends with the mutex, which is locked twice if it is recursive, or waits for ever. */
static void *take_robust(void *waits)
{
	ok(pthread_mutex_lock(&shared->m));
	pthread_mutex_trylock(&shared->m);
	shared->value++;
	nap(waits ? 1000000 : 5);
	return waits;
}

static void *find_robust(void *unused)
{
	is(EBUSY, pthread_mutex_trylock(&shared->m));
	is(EPERM, pthread_mutex_unlock(&shared->m));
	return unused;
}

/* Another thread of the processor is not taken for the owner. */
static void *inherit_robust(void *unused)
{
	is(EOWNERDEAD, pthread_mutex_lock(&shared->m));
	join(start(find_robust, NULL));
	ok(pthread_mutex_consistent(&shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	ok(pthread_mutex_lock(&shared->m));
	nap(1);
	ok(pthread_mutex_unlock(&shared->m));
	return unused;
}

/* A thread ends with the mutex while its process goes on; a process is killed. */
static void inherits_of_process(void)
{
	pid_t child = fork();
	pthread_t t;

	if (child == 0) {
		alarm(100);
		join(start(take_robust, NULL));
		UNTIL(shared->value == 2);
		take_robust(join(start(take_robust, &child)));
	}
	UNTIL(shared->value == 1);
	join(start(inherit_robust, NULL));
	shared->value = 2;
	UNTIL(shared->value == 3);
	t = start(inherit_robust, NULL);
	nap(5);
	ok(kill(child, SIGKILL));
	join(t);
	is(child, waitpid(child, NULL, 0));
}

static void *end_robust(void *at)
{
	nap(5);
	ok(pthread_mutex_lock(&shared->m));
	ok(pthread_cond_broadcast(at));
	return NULL;
}

/* The thread that takes the mutex during the wait ends. */
static void *await_robust(void *at)
{
	pthread_t t;
	int rc;

	ok(pthread_mutex_lock(&shared->m));
	t = start(end_robust, at);
	while ((rc = pthread_cond_wait(at, &shared->m)) == 0)
		;
	is(EOWNERDEAD, rc);
	join(t);
	ok(pthread_mutex_consistent(&shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	return NULL;
}

/* If a thread or its process ends with a robust mutex, the next lock tells so. */
static void inherits_robust(void **state)
{
	static pthread_cond_t own = PTHREAD_COND_INITIALIZER;
	static const int kinds[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK };
	pthread_mutexattr_t attr;
	pthread_t t;

	(void)state;
	make_shared();
	for (int i = 0; i < 6; i++) {
		struct shared *old = shared;

		make_shared();
		munmap(old, sizeof *old);       /* no list has the old mutex */
		pthread_mutexattr_init(&attr);
		ok(pthread_mutexattr_settype(&attr, kinds[i / 2]));
		ok(pthread_mutexattr_setpshared(&attr, i % 2));
		ok(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
		ok(pthread_mutex_init(&shared->m, &attr));
		if (i % 2)
			inherits_of_process();
		await_robust(&own);
		join(start(await_robust, &own));
		join(start(await_robust, &shared->c));
		shared->value = 0;
		t = start(take_robust, NULL);
		UNTIL(shared->value == 1);
		inherit_robust(NULL);           /* main() waits in the kernel */
		join(t);
		join(start(take_robust, NULL));
		is(EOWNERDEAD, pthread_mutex_trylock(&shared->m));
		ok(pthread_mutex_unlock(&shared->m));
		is(ENOTRECOVERABLE, pthread_mutex_lock(&shared->m));
		ok(pthread_mutex_destroy(&shared->m));
	}
	munmap(shared, sizeof *shared);
}

static void unlock_shared(void *unused)
{
	(void)unused;
	is(EBUSY, pthread_mutex_trylock(&shared->m));
	ok(pthread_mutex_unlock(&shared->m));
	SET(4);
}

static void *await_shared(void *unused)
{
	ok(pthread_mutex_lock(&shared->m));
	pthread_cleanup_push(unlock_shared, NULL);
	SET(1);
	while (shared->value == 0)
		ok(pthread_cond_wait(&shared->c, &shared->m));
	pthread_cleanup_pop(1);
	return unused;
}

/* A cancel ends the wait for a shared mutex. Here main() is the process that has it. */
static void shares_cancelled(void **state)
{
	pthread_t t;

	(void)state;
	make_shared();
	t = start(await_shared, NULL);
	UNTIL(GET() == 1);
	ok(pthread_mutex_lock(&shared->m));
	nap(5);
	ok(pthread_cancel(t));
	shared->value = 1;
	nap(5);
	ok(pthread_mutex_unlock(&shared->m));
	assert_ptr_equal(join(t), PTHREAD_CANCELED);
	is(4, GET());
	munmap(shared, sizeof *shared);
}

/* A condition that processes share can have the clock CLOCK_MONOTONIC, too. */
static void *wait_shared(void *unused)
{
	struct timespec begun, t = in_ms(CLOCK_MONOTONIC, 20);

	clock_gettime(CLOCK_MONOTONIC, &begun);
	ok(pthread_mutex_lock(&shared->m));
	while (shared->value == 0) {
		int rc = pthread_cond_timedwait(&shared->c, &shared->m, &t);

		if (rc == ETIMEDOUT)
			break;
		ok(rc);
	}
	ok(pthread_mutex_unlock(&shared->m));
	assert_true(ms_since(&begun) >= 19);
	return unused;
}

static void shares_clock(void **state)
{
	pthread_condattr_t attr;

	(void)state;
	make_shared();
	pthread_condattr_init(&attr);
	ok(pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	ok(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	ok(pthread_cond_init(&shared->c, &attr));
	wait_shared(NULL);
	join(start(wait_shared, NULL));
	munmap(shared, sizeof *shared);
}

static pthread_mutex_t *held;

static void *wait_for_held(void *unused)
{
	pthread_mutex_lock(held);
	pthread_mutex_unlock(held);
	return unused;
}

/*
 * main() forks while a thread waits for a mutex that main() holds. In the child main()
 * holds the mutex, and no thread waits.
 */
static void forks(void **state)
{
	pthread_t t;
	pid_t child;

	(void)state;
	held = &lock;
	ok(pthread_mutex_lock(&lock));
	t = start(wait_for_held, NULL);
	nap(10);
	child = fork();
	if (child == 0) {
		alarm(100);
		if (pthread_mutex_unlock(&lock))
			_exit(1);
		if (ours() && pthread_kill(t, 0) != ESRCH)
			_exit(2);
		for (int i = 0; i < 3; i++)
			join(start(wait_for_held, NULL));
		if (pthread_mutex_trylock(&lock))
			_exit(3);
		_exit(0);
	}
	ok(pthread_mutex_unlock(&lock));
	join(t);
	ok(status_of(child));
}

static pthread_key_t kept;

static int child_of_thread(pthread_t self)
{
	alarm(100);
	if (!pthread_equal(self, pthread_self()))
		return 1;
	if (pthread_getspecific(kept) != &kept)
		return 2;
	if (pthread_mutex_unlock(&lock))
		return 3;
	/* glibc would hand the lock to waiters that the child does not have. */
	if (pthread_rwlock_unlock(&rw) || (ours() && pthread_rwlock_trywrlock(&rw)))
		return 5;
	nap(1);
	for (int i = 0; i < 3; i++)
		join(start(wait_for_held, NULL));
	if (pthread_mutex_lock(&lock))
		return 4;
	return 0;
}

static void *fork_in_thread(void *unused)
{
	pthread_t self = pthread_self();
	pid_t child;

	ok(pthread_setspecific(kept, &kept));
	ok(pthread_mutex_lock(&lock));
	ok(pthread_rwlock_wrlock(&rw));
	child = fork();
	if (child == 0)
		_exit(child_of_thread(self));
	ok(pthread_rwlock_unlock(&rw));
	ok(pthread_mutex_unlock(&lock));
	ok(status_of(child));
	child = fork();
	if (child == 0)
		return unused;          /* ends the process, with status 0 */
	ok(status_of(child));
	return unused;
}

static void forks_in_thread(void **state)
{
	pthread_t t[3];

	(void)state;
	held = &lock;
	ok(pthread_key_create(&kept, NULL));
	for (int i = 0; i < 3; i++)
		t[i] = start(fork_in_thread, NULL);
	for (int i = 0; i < 3; i++)
		join(t[i]);
	ok(pthread_key_delete(kept));
}

/* ---- Slices ---- */

static bool inside, seen;               /* atomic: a thread is in the call-back of
					   dl_iterate_phdr(), and another has run
					   meanwhile */

/* Computes until another thread of the processor has run. */
static void *compute_alone(void *number)
{
	int n = (int)(intptr_t)number;

	errno = n;
	ok(fesetround(rounding[n % 4]));
	while (GET() == 0)
		if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST))
			__atomic_store_n(&seen, true, __ATOMIC_SEQ_CST);
	is(n, errno);
	is(rounding[n % 4], fegetround());
	return NULL;
}

/* Computes for several slices. */
static int look_at_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)info, (void)size, (void)unused;
	__atomic_store_n(&inside, true, __ATOMIC_SEQ_CST);
	for (volatile int i = 0; i < 30000000; i++)
		;
	__atomic_store_n(&inside, false, __ATOMIC_SEQ_CST);
	return 1;
}

static void *walk(void *unused)
{
	dl_iterate_phdr(look_at_object, NULL);
	SET(1);
	return unused;
}

/* With slices, threads that compute do not stop the others, except while the linker holds
   a lock. */
static void gives_way(void **state)
{
	const char *processors = getenv("UPOSIX_PROCESSORS");
	pthread_t t[9];

	(void)state;
	if (ours() && !(getenv("UPOSIX_SLICE") && getauxval(AT_HWCAP2) & 2))
		skip();
	for (int i = 0; i < 9; i++)
		t[i] = start(i < 8 ? compute_alone : walk, (void *)(intptr_t)i);
	for (int i = 0; i < 9; i++)
		join(t[i]);
	if (ours() && processors && strcmp(processors, "1") == 0)
		assert_false(seen);
}

/*
 * At most UPOSIX_STACKS threads can be created. When one of them has ended, another can
 * be created, though perhaps not at once.
 */
static void *be_one(void *unused)
{
	return wait_go(unused);
}

static void has_a_limit(void **state)
{
	const char *stacks = getenv("UPOSIX_STACKS");
	pthread_t t[64], more;
	int n = 0;

	(void)state;
	if (!stacks || !*stacks)
		return;
	while (n < 64 && pthread_create(&t[n], NULL, be_one, NULL) == 0)
		n++;
	assert_int_equal(n, atoi(stacks));
	is(EAGAIN, pthread_create(&more, NULL, be_one, NULL));
	ok(sem_post(&go));
	UNTIL(pthread_create(&more, NULL, be_one, NULL) == 0);
	for (int i = 0; i < n; i++)
		ok(sem_post(&go));
	for (int i = 0; i < n; i++)
		join(t[i]);
	join(more);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(has_a_limit), CASE(joins), CASE(joins_each_other),
		CASE(joins_cancelled), CASE(detaches), CASE(exits), CASE(has_self),
		CASE(has_name), CASE(has_stack), CASE(shows_locals), CASE(has_sched),
		CASE(has_rounding), CASE(has_locale),
		CASE(has_keys), CASE(deletes_keys), CASE(runs_once), CASE(cancels),
		CASE(cancels_later), CASE(cancels_no_lock), CASE(interrupts),
		CASE(blocks_signals), CASE(awaits_signals), CASE(inherits_mask),
		CASE(unblocks_in_processes), CASE(handles_for_process),
		CASE(acts_by_default), CASE(prefers_main), CASE(knows_pending),
		CASE(handles_late),
		CASE(handles_elsewhere), CASE(handles_in_child), CASE(locks),
		CASE(has_kinds), CASE(times_out), CASE(tells_misuse), CASE(waits),
		CASE(wakes_main), CASE(waits_for_a_time), CASE(cond_and_signal),
		CASE(reads_and_writes), CASE(rwlock_inits), CASE(semaphores),
		CASE(interrupts_main), CASE(named_semaphore), CASE(barriers),
		CASE(barrier_and_signal), CASE(joins_native), CASE(spins), CASE(sleeps),
		CASE(shares), CASE(shares_kinds), CASE(shares_owned),
		CASE(inherits_robust),
		CASE(shares_cancelled), CASE(shares_clock), CASE(forks),
		CASE(forks_in_thread), CASE(gives_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
