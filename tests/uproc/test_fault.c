/* SPDX-License-Identifier: MIT */
/*
 * test_fault.c: schedulers where the n-th allocation, mapping, or native thread fails,
 * for n = 1, 2, 3 ... until a scenario runs without a failure; see fault.h.
 */
#include <sched.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../ll.h"
#include "../../rr.h"
#include "../../uproc.h"
#include "../help/sweep.h"

enum { CONFS = 3 };

static const struct uprocs_conf confs[CONFS] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE, .c_stay = 1 },
	{ .c_processors = 2, .c_stacks = 1, .c_image = 1, .c_stay = 1 },
	{ .c_processors = 3, .c_stacks = 5 },
};

static void fail_calls(long first, long n)
{
	fault_begin(FAULT_USED_UP, first, first + n - 1);
}

/* ---- Create and destroy ---- */

static bool failed(int rc)
{
	return rc == -ENOMEM || rc == -EAGAIN;
}

/*
 * How many calls creating a scheduler takes, and one more. Where threads move, a
 * processor that is about to sleep makes its poller, and gets by without.
 */
static long sweep_create(const struct uprocs_conf *conf)
{
	long n = 0, failures;
	void *s;

	do {
		long held = sweep_held();
		int rc;

		fail_calls(++n, 1);
		rc = over->o_create(conf, &s);
		failures = fault_end();
		if (rc == 0)
			TEST_EQUAL(over->o_destroy(s), 0);
		TEST_EQUAL(sweep_held(), held);
		if (failures > 0)
			TEST_TRUE(failed(rc) || (rc == 0 && (!sweep_is_exact()
							     || !conf->c_stay)));
		else
			TEST_EQUAL(rc, 0);
	} while (failures > 0);
	return n;
}

TEST(test_create)
{
	for (size_t c = 0; c < CONFS; c++)
		TEST_TRUE(sweep_create(&confs[c]) > 3);
}

/* Any native thread may be the one that cannot be made: the others must end. */
TEST(test_native_threads)
{
	struct uprocs_conf conf = { .c_processors = 4, .c_stacks = USCHED_NATIVE };
	size_t rounds = test_scale(10000, 50);
	void *s;

	fault_only = "pthread_create";
	for (size_t i = 0; i < rounds; i++) {
		fail_calls((long)(i % conf.c_processors) + 1, 1);
		assert_int_equal(over->o_create(&conf, &s), -EAGAIN);
		assert_int_equal(fault_end(), 1);
	}
	fault_only = NULL;
}

/* ---- Threads ---- */

#ifdef USCHED_TSAN                              /* fills most of a megabyte for each */
enum { THREADS = 60 };
#else
enum { THREADS = 300 };
#endif
enum { DEEPEST = 100 << 10 };

struct work {
	struct crew   *w_crew;
	struct ustack *w_thread;
	size_t         w_index;
	bool           w_ended;
};

struct crew {
	void         *c_scheduler;
	struct work   c_work[THREADS];
	atomic_size_t c_errors;         /* calls that returned -ENOMEM */
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

static void join(struct crew *c, struct ustack *t)
{
	int rc;

	while ((rc = ustack_join(t, NULL, USCHED_NEVER))) {
		TEST_EQUAL(rc, -ENOMEM);
		c->c_errors++;
	}
}

static void help(void *arg)
{
	struct work *w = arg;

	retry(w->w_crew, ustack_yield);
}

/* Starts a thread and joins it, at a depth of its own. */
static void have_help(struct work *w)
{
	struct ustack *t;
	int rc;

	while ((rc = over->o_start(w->w_crew->c_scheduler, help, w, &t))) {
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
	retry(c, ustack_wait);
	for (size_t i = 0; i < size; i += 40)
		TEST_EQUAL(room[i], (unsigned char)(mark + i));
}

static void work(void *arg)
{
	struct work *w = arg;
	struct crew *c = w->w_crew;

	descend(w, 1 + w->w_index * w->w_index * DEEPEST / THREADS / THREADS);
	retry(c, ustack_yield);
	if (w->w_index < THREADS - 1)
		TEST_EQUAL(ustack_wake(c->c_work[w->w_index + 1].w_thread), 0);
	w->w_ended = true;
	if (w->w_index < c->c_stay) {
		c->c_staying++;
		retry(c, ustack_wait);
		TEST_TRUE(0);
	}
}

/* False: not even a scheduler. */
static bool run_crew(const struct uprocs_conf *conf, size_t stay)
{
	static struct crew c;
	struct uprocs_conf quiet = *conf;
	int rc;

	quiet.c_log = no_log;
	c = (struct crew){ .c_stay = stay };
	rc = over->o_create(&quiet, &c.c_scheduler);
	if (rc) {
		TEST_TRUE(failed(rc));
		return false;
	}
	for (size_t i = 0; i < THREADS; i++) {
		struct work *w = &c.c_work[i];

		*w = (struct work){ .w_crew = &c, .w_index = i };
		while ((rc = over->o_start(c.c_scheduler, work, w, &w->w_thread))) {
			TEST_EQUAL(rc, -ENOMEM);
			c.c_errors++;
		}
	}
	TEST_EQUAL(ustack_wake(c.c_work[0].w_thread), 0);
	for (size_t i = stay; i < THREADS; i++)
		TEST_EQUAL(ustack_join(c.c_work[i].w_thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(c.c_scheduler), stay ? -EDEADLK : 0);
	TEST_EQUAL(c.c_staying, stay);
	for (size_t i = 0; i < THREADS; i++)
		TEST_TRUE(c.c_work[i].w_ended);
	return true;
}

/*
 * With several processors the calls differ between runs, so a few runs must have no
 * failure. Up to `last' calls in a row fail. With a scale of 1 each call does, else one
 * of 16 or 25.
 */
static void sweep_crew(const struct uprocs_conf *conf, long last, size_t stay)
{
	long sparse = 100 / (long)test_scale(100, 4), beyond = 0;
	long step = sparse * sparse < 25 ? sparse * sparse : 25;

	for (long n = 1; beyond < 5; n += step) {
		long held = sweep_held();

		fail_calls(n, last);
		run_crew(conf, stay);
		beyond += fault_end() == 0;
		TEST_EQUAL(sweep_held(), held);
	}
}

TEST(test_threads)
{
	test_timeout(300);
	for (long last = 1; last <= 7; last += 3)
		for (size_t c = 0; c < CONFS; c++)
			sweep_crew(&confs[c], last, c == 1 ? 20 : 0);
}

/* No memory at all for a while: the threads that were started go on. */
TEST(test_famine)
{
	for (size_t c = 0; c < CONFS; c++)
		for (long n = 40; n < 200; n += 20) {
			fail_calls(n, 200);
			run_crew(&confs[c], 0);
			fault_end();
		}
}

static void wait_once(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
}

/* A start that fails because the run queue cannot grow loses no record. */
TEST(test_failed_starts)
{
	enum { ROOM = 64 };                     /* of the first ring */
	struct uprocs_conf conf = { .c_processors = 1, .c_log = no_log };
	struct ustack *threads[ROOM + 1];
	size_t bytes;
	void *s;

	assert_int_equal(over->o_create(&conf, &s), 0);
	for (size_t i = 0; i < ROOM; i++)
		assert_int_equal(over->o_start(s, wait_once, NULL, &threads[i]), 0);
	/* All wait. */
	assert_int_equal(ustack_join(threads[0], NULL, USCHED_NEVER), -EDEADLK);
	bytes = ((struct uprocs *)s)->r_images.ip_bytes;
	fault_only = "calloc";
	fault_begin(FAULT_USED_UP, 1, LONG_MAX);
	for (size_t i = 0; i < 10000; i++)
		TEST_EQUAL(over->o_start(s, wait_once, NULL, &threads[ROOM]), -ENOMEM);
	fault_end();
	fault_only = NULL;
	assert_in_range(((struct uprocs *)s)->r_images.ip_bytes, bytes,
			bytes + (64 << 10));
	assert_int_equal(over->o_start(s, wait_once, NULL, &threads[ROOM]), 0);
	for (size_t i = 0; i <= ROOM; i++) {
		assert_int_equal(ustack_wake(threads[i]), 0);
		assert_int_equal(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

static int start_alone(void *s, struct ustack **thread)
{
	return over->o_start_with(s, TEST_HOW(.h_stack = USTACK_OWN, .h_name = "own"),
				  wait_once, NULL, thread);
}

/* A start that finds no stack, record or name, or no ring, counts no thread. */
TEST(test_failed_alone)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_alone = 1, .c_log = no_log };
	struct ustack *thread;
	int rc, failures = 0;
	void *s;

	if (!test_has_stacks())
		skip();
	for (long n = 1; n < 12; n++) {
		assert_int_equal(over->o_create(&conf, &s), 0);
		over->o_hold(s);
		fail_calls(n, 1);
		while ((rc = start_alone(s, &thread)) == -ENOMEM)
			failures++;
		fault_end();
		assert_int_equal(rc, 0);
		assert_int_equal(start_alone(s, NULL), -EAGAIN);
		assert_int_equal(ustack_wake(thread), 0);
		assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
		over->o_release(s);
		assert_int_equal(over->o_destroy(s), 0);
	}
	assert_in_range(failures, 3, 11);
}

/* A block that failed has changed nothing: the next wait is a wait for a token. */
struct failing {
	struct ustack *f_other;
	atomic_size_t  f_woken;
};

static __attribute__((noinline)) void fail_deep(struct failing *f, size_t size)
{
	volatile unsigned char room[size];

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)i;
	fail_calls(1, 1000);
	TEST_EQUAL(ustack_yield(), -ENOMEM);
	TEST_EQUAL(ustack_join(f->f_other, NULL, USCHED_NEVER), -ENOMEM);
	TEST_EQUAL(ustack_wait(), -ENOMEM);
	fault_end();
	for (int i = 0; i < 2; i++, f->f_woken++)
		TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_join(f->f_other, NULL, USCHED_NEVER), 0);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)i);
}

static void fail_to_block(void *arg)
{
	fail_deep(arg, 50000);
}

TEST(test_failed_blocks)
{
	for (size_t c = 0; c < CONFS; c++) {
		struct uprocs_conf conf = confs[c];
		struct failing f = { 0 };
		struct ustack *t;
		void *s;

		conf.c_log = no_log;
		assert_int_equal(over->o_create(&conf, &s), 0);
		assert_int_equal(over->o_start(s, wait_once, NULL, &f.f_other), 0);
		while (__atomic_load_n(&f.f_other->u_tokens, __ATOMIC_RELAXED)
		       != USTACK_WAITING)       /* its block is not to fail */
			sched_yield();
		assert_int_equal(over->o_start(s, fail_to_block, &f, &t), 0);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), -EDEADLK);
			assert_int_equal(f.f_woken, i);
			assert_int_equal(ustack_wake(t), 0);
		}
		assert_int_equal(ustack_wake(f.f_other), 0);
		assert_int_equal(ustack_join(t, NULL, USCHED_NEVER), 0);
		assert_int_equal(over->o_destroy(s), 0);
	}
}

int main(void)
{
	return over_all(OVER_PROCS);
}
