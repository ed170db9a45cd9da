/* SPDX-License-Identifier: MIT */
/*
 * test_fault.c: the n-th allocation, mapping, or native thread fails, for n = 1, 2,
 * 3 ... until a scenario runs without meeting it. To be linked with
 *
 *   -Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc
 *   -Wl,--wrap=mmap,--wrap=mprotect,--wrap=pthread_create
 *
 * and with the library's objects, not with a shared library.
 */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "../ll.h"
#include "../proc.h"
#include "../rr.h"

/* ---- What fails ---- */

static atomic_long calls;               /* since fail_calls() */
static atomic_long first_bad, last_bad; /* calls that fail; 0: none */

static void fail_calls(long first, long n)
{
	first_bad = last_bad = 0;
	calls = 0;
	last_bad = first + n - 1;
	first_bad = first;
}

static atomic_bool rings_fail;          /* every calloc() does */

static bool fails(void)
{
	long n = ++calls;

	return first_bad > 0 && n >= first_bad && n <= last_bad;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__real_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);
int   __real_mprotect(void *p, size_t size, int prot);
int   __real_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			    void *(*func)(void *), void *arg);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset);
int   __wrap_mprotect(void *p, size_t size, int prot);
int   __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			    void *(*func)(void *), void *arg);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() || rings_fail ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(align, size);
}

void *__wrap_mmap(void *p, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (!fails())
		return __real_mmap(p, size, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

int __wrap_mprotect(void *p, size_t size, int prot)
{
	if (!fails())
		return __real_mprotect(p, size, prot);
	errno = ENOMEM;
	return -1;
}

int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg)
{
	return fails() ? EAGAIN : __real_pthread_create(native, attr, func, arg);
}

/* ---- The schedulers, as one ---- */

struct scheduler {
	int (*s_create)(void **s, const struct usched_conf *conf);
	int (*s_destroy)(void *s);
	int (*s_start)(void *s, void (*func)(void *), void *arg, struct ustack **t);
	int (*s_wait)(void);
	int (*s_wake)(struct ustack *t);
};

static int create_rr(void **s, const struct usched_conf *conf)
{
	struct rr *rr = NULL;
	int rc = rr_create(&rr, conf);

	*s = rr;
	return rc;
}

static int destroy_rr(void *s)
{
	return rr_destroy(s);
}

static int start_rr(void *s, void (*func)(void *), void *arg, struct ustack **t)
{
	return rr_start(s, func, arg, t);
}

static int create_ll(void **s, const struct usched_conf *conf)
{
	struct ll *ll = NULL;
	int rc = ll_create(&ll, conf);

	*s = ll;
	return rc;
}

static int destroy_ll(void *s)
{
	return ll_destroy(s);
}

static int start_ll(void *s, void (*func)(void *), void *arg, struct ustack **t)
{
	return ll_start(s, ll_group(s), func, arg, t);
}

static const struct scheduler schedulers[] = {
	{ create_rr, destroy_rr, start_rr, rr_wait, rr_wake },
	{ create_ll, destroy_ll, start_ll, ll_wait, ll_wake },
};

static const struct usched_conf confs[] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
	{ .c_processors = 2, .c_stacks = 1, .c_image = 1 },
	{ .c_processors = 3, .c_stacks = 5 },
};

/* ---- What must not grow ---- */

static size_t count_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	size_t n = 0;
	int c;

	assert_non_null(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

struct used {
	size_t u_heap;                          /* bytes */
	size_t u_mappings;
};

static struct used used(void)
{
	return (struct used){ mallinfo2().uordblks, count_mappings() };
}

/*
 * A round of a test in a native thread of its own, at whose end libc gives back
 * what it caches for that.
 */
static void in_native_thread(void *(*func)(void *), int *round)
{
	pthread_t native;

	assert_int_equal(__real_pthread_create(&native, NULL, func, round), 0);
	pthread_join(native, NULL);
}

/*
 * libc keeps some stacks of native threads; what leaks, leaks in each round. Under
 * valgrind the numbers say nothing, but it finds leaks itself.
 */
static void compare(struct used before)
{
	struct used now = used();

	if (test_scale(2, 1) == 1)
		return;
	assert_in_range(now.u_heap, 0, before.u_heap + 2048);
	assert_in_range(now.u_mappings, 0, before.u_mappings + 4);
}

/* ---- Create and destroy ---- */

static bool failed(int rc)
{
	return rc == -ENOMEM || rc == -EAGAIN;
}

static long sweep_create(const struct scheduler *k, const struct usched_conf *conf)
{
	void *s;
	long n;
	int rc;

	for (n = 1; ; n++) {
		fail_calls(n, 1);
		rc = k->s_create(&s, conf);
		fail_calls(0, 1);
		if (rc == 0)
			break;
		TEST_TRUE(failed(rc));
	}
	TEST_EQUAL(k->s_destroy(s), 0);
	return n;
}

static void *sweep_creates(void *unused)
{
	(void)unused;
	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < 3; c++)
			TEST_TRUE(sweep_create(&schedulers[k], &confs[c]) > 3);
	return NULL;
}

static void test_create(void **state)
{
	struct used before = { 0, 0 };

	(void)state;
	test_timeout(60);
	for (int round = 0; round < 20; round++) {
		in_native_thread(sweep_creates, &round);
		if (round == 4)
			before = used();
	}
	compare(before);
}

/* Native threads are the last to be made: those that are there must end. */
static void test_native_threads(void **state)
{
	struct usched_conf conf = { .c_processors = 4, .c_stacks = USCHED_NATIVE };
	size_t rounds = test_scale(10000, 50);
	long n;
	void *s;

	(void)state;
	test_timeout(60);
	for (size_t k = 0; k < 2; k++) {
		n = sweep_create(&schedulers[k], &conf) - 1;    /* the last one */
		for (size_t i = 0; i < rounds; i++) {
			fail_calls(n - (long)(i % 4), 1);
			assert_int_equal(schedulers[k].s_create(&s, &conf), -EAGAIN);
			fail_calls(0, 1);
		}
	}
}

/* ---- Threads ---- */

enum { THREADS = 300, DEEPEST = 100 << 10 };

struct work {
	const struct scheduler *w_scheduler;
	struct crew            *w_crew;
	struct ustack          *w_thread;
	size_t                  w_index;
	bool                    w_ended;
};

struct crew {
	void         *c_scheduler;
	struct work   c_work[THREADS];
	atomic_size_t c_errors;         /* -ENOMEM that somebody saw */
	size_t        c_stay;           /* how many shall wait for ever */
	atomic_size_t c_staying;
};

static void retry(struct crew *c, int (*f)(void))
{
	int rc;

	while ((rc = f())) {
		TEST_EQUAL(rc, -ENOMEM);
		c->c_errors++;
	}
}

static int yield(void)
{
	return rr_yield();                      /* the same in ll */
}

static void join(struct crew *c, struct ustack *t)
{
	int rc;

	while ((rc = rr_join(t))) {             /* the same in ll */
		TEST_EQUAL(rc, -ENOMEM);
		c->c_errors++;
	}
}

static void help(void *arg)
{
	struct work *w = arg;

	retry(w->w_crew, yield);
}

/* Starts a thread and joins it, at a depth of its own. */
static void have_help(struct work *w)
{
	struct ustack *t;
	int rc;

	while ((rc = w->w_scheduler->s_start(w->w_crew->c_scheduler, help, w, &t))) {
		TEST_EQUAL(rc, -ENOMEM);
		w->w_crew->c_errors++;
	}
	join(w->w_crew, t);
}

static __attribute__((noinline)) void descend(struct work *w, size_t size)
{
	volatile unsigned char room[size];
	struct crew *c = w->w_crew;
	unsigned char mark = (unsigned char)w->w_index;

	for (size_t i = 0; i < size; i += 40)
		room[i] = (unsigned char)(mark + i);
	if (w->w_index % 3 == 0)
		have_help(w);
	retry(c, w->w_scheduler->s_wait);
	for (size_t i = 0; i < size; i += 40)
		TEST_EQUAL(room[i], (unsigned char)(mark + i));
}

static void work(void *arg)
{
	struct work *w = arg;
	struct crew *c = w->w_crew;

	descend(w, 1 + w->w_index * w->w_index * DEEPEST / THREADS / THREADS);
	retry(c, yield);
	if (w->w_index < THREADS - 1)
		TEST_EQUAL(w->w_scheduler->s_wake(c->c_work[w->w_index + 1].w_thread), 0);
	w->w_ended = true;
	if (w->w_index < c->c_stay) {
		c->c_staying++;
		retry(c, w->w_scheduler->s_wait);
		TEST_TRUE(0);
	}
}

static void no_log(const char *line)
{
	(void)line;
}

/* False: not even a scheduler. */
static bool run_crew(const struct scheduler *k, const struct usched_conf *conf,
		     size_t stay)
{
	static struct crew c;
	struct usched_conf quiet = *conf;
	int rc;

	quiet.c_log = no_log;
	c = (struct crew){ .c_stay = stay };
	rc = k->s_create(&c.c_scheduler, &quiet);
	if (rc) {
		TEST_TRUE(failed(rc));
		return false;
	}
	for (size_t i = 0; i < THREADS; i++) {
		struct work *w = &c.c_work[i];

		*w = (struct work){ .w_scheduler = k, .w_crew = &c, .w_index = i };
		while ((rc = k->s_start(c.c_scheduler, work, w, &w->w_thread))) {
			TEST_EQUAL(rc, -ENOMEM);
			c.c_errors++;
		}
	}
	TEST_EQUAL(k->s_wake(c.c_work[0].w_thread), 0);
	for (size_t i = stay; i < THREADS; i++)
		TEST_EQUAL(rr_join(c.c_work[i].w_thread), 0);
	TEST_EQUAL(k->s_destroy(c.c_scheduler), stay ? -EDEADLK : 0);
	TEST_EQUAL(c.c_staying, stay);
	for (size_t i = 0; i < THREADS; i++)
		TEST_TRUE(c.c_work[i].w_ended);
	return true;
}

/*
 * In which call the n-th failure ends is not the same each time, with several
 * processors; so go on until it was beyond all calls a few times. A failure may also
 * last for some calls.
 */
static void sweep_crew(const struct scheduler *k, const struct usched_conf *conf,
		       long last, size_t stay)
{
	long step = 100 / (long)test_scale(100, 10), beyond = 0;

	for (long n = 1; beyond < 5; n += step) {
		fail_calls(n, last);
		run_crew(k, conf, stay);
		beyond += calls < n;
		fail_calls(0, 1);
	}
}

static void *sweep_crews(void *arg)
{
	const int *round = arg;

	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < 3; c++)
			sweep_crew(&schedulers[k], &confs[c], 1 + *round * 3,
				   c == 1 ? 20 : 0);
	return NULL;
}

static void test_threads(void **state)
{
	struct used before = { 0, 0 };

	(void)state;
	test_timeout(300);
	for (int round = 0; round < 3; round++) {
		in_native_thread(sweep_crews, &round);
		if (round == 0)
			before = used();
	}
	compare(before);
}

/* With no memory at all for a while: what was started goes on all the same. */
static void test_famine(void **state)
{
	(void)state;
	test_timeout(60);
	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < 3; c++)
			for (long n = 40; n < 200; n += 20) {
				fail_calls(n, 200);
				run_crew(&schedulers[k], &confs[c], 0);
				fail_calls(0, 1);
			}
}

static void wait_once(void *arg)
{
	const struct scheduler *k = arg;

	TEST_EQUAL(k->s_wait(), 0);
}

/* A start that fails because the run queue cannot grow takes no record along. */
static void test_failed_starts(void **state)
{
	enum { ROOM = 64 };                     /* of the first ring */
	struct usched_conf conf = { .c_processors = 1, .c_log = no_log };
	struct ustack *threads[ROOM + 1];
	size_t bytes;
	void *s;

	(void)state;
	test_timeout(20);
	for (size_t k = 0; k < 2; k++) {
		const struct scheduler *q = &schedulers[k];

		assert_int_equal(q->s_create(&s, &conf), 0);
		for (size_t i = 0; i < ROOM; i++)
			assert_int_equal(q->s_start(s, wait_once, (void *)(uintptr_t)q,
						    &threads[i]), 0);
		assert_int_equal(rr_join(threads[0]), -EDEADLK);        /* all wait */
		bytes = uimage_pool_bytes(&((struct uprocs *)s)->r_images);
		rings_fail = true;
		for (size_t i = 0; i < 10000; i++)
			assert_int_equal(q->s_start(s, wait_once, NULL, &threads[ROOM]),
					 -ENOMEM);
		rings_fail = false;
		assert_in_range(uimage_pool_bytes(&((struct uprocs *)s)->r_images),
				bytes, bytes + (64 << 10));
		assert_int_equal(q->s_start(s, wait_once, (void *)(uintptr_t)q,
					    &threads[ROOM]), 0);
		for (size_t i = 0; i <= ROOM; i++) {
			assert_int_equal(q->s_wake(threads[i]), 0);
			assert_int_equal(rr_join(threads[i]), 0);
		}
		assert_int_equal(q->s_destroy(s), 0);
	}
}

/* A block that failed has changed nothing: what is waited for next is a token. */
struct failing {
	const struct scheduler *f_scheduler;
	struct ustack          *f_other;
	atomic_size_t           f_woken;
};

static __attribute__((noinline)) void fail_deep(struct failing *f, size_t size)
{
	volatile unsigned char room[size];

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)i;
	fail_calls(1, 1000);
	TEST_EQUAL(rr_yield(), -ENOMEM);
	TEST_EQUAL(rr_join(f->f_other), -ENOMEM);
	TEST_EQUAL(f->f_scheduler->s_wait(), -ENOMEM);
	fail_calls(0, 1);
	for (int i = 0; i < 2; i++, f->f_woken++)
		TEST_EQUAL(f->f_scheduler->s_wait(), 0);
	TEST_EQUAL(rr_join(f->f_other), 0);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)i);
}

static void fail_to_block(void *arg)
{
	fail_deep(arg, 50000);
}

static void test_failed_blocks(void **state)
{
	(void)state;
	test_timeout(20);
	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < 3; c++) {
			const struct scheduler *q = &schedulers[k];
			struct usched_conf conf = confs[c];
			struct failing f = { .f_scheduler = q };
			struct ustack *t;
			void *s;

			conf.c_log = no_log;
			assert_int_equal(q->s_create(&s, &conf), 0);
			assert_int_equal(q->s_start(s, wait_once, (void *)(uintptr_t)q,
						    &f.f_other), 0);
			assert_int_equal(q->s_start(s, fail_to_block, &f, &t), 0);
			for (size_t i = 0; i < 2; i++) {
				assert_int_equal(rr_join(t), -EDEADLK);
				assert_int_equal(f.f_woken, i);
				assert_int_equal(q->s_wake(t), 0);
			}
			assert_int_equal(q->s_wake(f.f_other), 0);
			assert_int_equal(rr_join(t), 0);
			assert_int_equal(q->s_destroy(s), 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create),
		cmocka_unit_test(test_native_threads),
		cmocka_unit_test(test_failed_starts),
		cmocka_unit_test(test_failed_blocks),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_famine),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
