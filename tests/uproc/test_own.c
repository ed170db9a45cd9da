/* SPDX-License-Identifier: MIT */
/*
 * test_own.c: threads with thread-local variables of their own (c_tls): what they keep
 * over waits and moves, at which addresses, and what the next thread finds.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../../rr.h"
#include "../../usync.h"
#include "../help/test.h"

enum { THREADS = 200, ROUNDS = 20, FIRST = 7, FSGSBASE = 2 };

struct large { long la_value; char la_text[3000]; } __attribute__((aligned(64)));

static __thread long own = FIRST;
static __thread struct large large = { .la_text = "first" };
static struct uprocs *rr;
static int destroyed, wrong;            /* atomic */
static bool stop;                       /* atomic */
static bool alone;                      /* some threads have own stacks */

/* Functions of libc: the first registers a destructor of a thread-local variable. */
extern int __cxa_thread_atexit_impl(void (*func)(void *), void *object, void *dso)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* Notes the line of a mistake. */
#define check(right) \
	((right) ? (void)0 : __atomic_store_n(&wrong, __LINE__, __ATOMIC_RELAXED))

static void destroy(void *object)
{
	usync_sleep_until(usync_after(1000));
	check(object == &own && own == -1);
	__atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

/* Makes the scheduler. Where user code may set the thread pointer this must succeed. */
static void begin(struct uprocs_conf conf)
{
	bool may = false;
	int rc;

#if defined(__GLIBC__) && defined(__x86_64__) && defined(__LP64__)
	may = getauxval(AT_HWCAP2) & FSGSBASE
		&& dlsym(RTLD_DEFAULT, "_thread_db_pthread_tid");
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	may = false;
#endif
	conf.c_tls = 1;
	rc = rr_create(&conf, &rr);
	if (rc == -ENOTSUP && !may)
		skip();
	TEST_EQUAL(rc, 0);
	destroyed = wrong = 0;
	stop = false;
}

static void run(void *arg)
{
	long n = (long)(intptr_t)arg, *where = &own;
	int *error = &errno;

	check(own == FIRST && large.la_value == 0 && strcmp(large.la_text, "first") == 0);
	check((uintptr_t)&large % 64 == 0);
	if (n % 5 == 0 && alone)                /* the block is on the thread's stack */
		check((uintptr_t)&own - (uintptr_t)&n < 5 * sizeof large);
	if (__cxa_thread_atexit_impl)
		__cxa_thread_atexit_impl(destroy, &own, &__dso_handle);
	own = large.la_value = n;
	memset(large.la_text, 'x', sizeof large.la_text);
	h_errno = (int)n;                       /* libc's */
	for (int i = 0; i < ROUNDS; i++) {
		errno = (int)n;
		if (n % 3 == 0)
			usync_sleep_until(usync_after(10000));
		else
			ustack_yield();
		check(errno == n && error == &errno && own == n && where == &own);
		check(large.la_value == n);
		free(malloc((size_t)n));
	}
	check(h_errno == n);
	own = -1;
	if (n % 4 == 1)
		ustack_exit(NULL);
	if (n % 4 == 2)
		ustack_abort(ustack_self());
}

static void run_serve(int fd, void *arg)
{
	check(fd == 5);
	run(arg);
}

static void run_all(struct uprocs_conf conf)
{
	begin(conf);
	alone = test_has_stacks() && conf.c_stacks != USCHED_NATIVE;
	for (intptr_t n = 0; n < THREADS; n++) {
		struct ustack_how how = {
			.h_stack = n % 5 == 0 && alone ? USTACK_OWN : 0,
			.h_serve = n % 7 == 0 ? run_serve : NULL, .h_fd = 5,
		};

		TEST_EQUAL(rr_start_with(rr, &how, n % 7 == 0 ? NULL : run, (void *)n,
					 NULL), 0);
	}
	TEST_EQUAL(uprocs_destroy(rr, USCHED_NEVER), 0);
	TEST_EQUAL(wrong, 0);
	TEST_EQUAL(destroyed, __cxa_thread_atexit_impl ? THREADS : 0);
	TEST_EQUAL(own, FIRST);
}

/* The later threads have blocks of the earlier. */
TEST(test_keeps)
{
	for (int round = 0; round < 3; round++)
		run_all((struct uprocs_conf){ .c_processors = 2 });
}

/* Frames are copied, of threads that share a stack. */
TEST(test_shares)
{
	if (test_has_stacks())
		run_all((struct uprocs_conf){ .c_processors = 2, .c_stacks = 1 });
	run_all((struct uprocs_conf){ .c_processors = 2, .c_stacks = USCHED_NATIVE });
}

static void compute(void *arg)
{
	long *where = &own, n = (long)(intptr_t)arg;

	for (own = n; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ) {
		errno = (int)n;
		for (volatile int i = 0; i < 10000; i++)
			;
		usync_sleep_until(usync_after(300000));
		check(own == n && errno == n && where == &own);
	}
}

/* Also threads with the address of a variable in their frames, which stay otherwise. */
TEST(test_moves)
{
	struct usched_stats stats = { .st_moves = 0 };

	if (!test_has_stacks() || test_is_stressed())
		skip();
	begin((struct uprocs_conf){ .c_processors = 2 });
	for (intptr_t n = 0; n < 24; n++)
		TEST_EQUAL(rr_start(rr, compute, (void *)n, NULL), 0);
	while (stats.st_moves < 20) {
		usleep(1000);
		uprocs_stats(rr, &stats);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	TEST_EQUAL(uprocs_destroy(rr, USCHED_NEVER), 0);
	TEST_EQUAL(wrong, 0);
}

static void wait_forever(void *unused)
{
	(void)unused;
	if (__cxa_thread_atexit_impl)
		__cxa_thread_atexit_impl(destroy, &own, &__dso_handle);
	ustack_wait();
}

/* Threads that never end leave their destructors to nobody. */
TEST(test_leaves)
{
	begin((struct uprocs_conf){ .c_processors = 1 });
	for (int i = 0; i < THREADS; i++)
		TEST_EQUAL(rr_start(rr, wait_forever, NULL, NULL), 0);
	TEST_EQUAL(uprocs_destroy(rr, USCHED_NEVER), -EDEADLK);
	run_all((struct uprocs_conf){ .c_processors = 1 });
}

int main(void)
{
	return test_run_all();
}
