/* SPDX-License-Identifier: MIT */
#include "sync.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "../../src/base/sim.h"

/* ---- Schedulers ---- */

static void log_line(const char *line)
{
	(void)line;
}

void *make_scheduler(const struct uprocs_conf *conf)
{
	struct uprocs_conf c = *conf;
	void *s = NULL;

	c.c_log = log_line;
	assert_int_equal(over->o_create(&c, &s), 0);
	return s;
}

/* With few stacks frames move while threads wait. A simulation has its own scheduler. */
static void up_to(unsigned processors, void (*test)(const struct uprocs_conf *conf))
{
	static const unsigned stacks[] = { USCHED_NATIVE, 1, 0 };
	size_t kinds = test_has_stacks() && !SIMULATED ? 3 : 1;
	const char *seed = getenv("USCHED_TEST_SEED");

	test_seed = seed ? (uint32_t)strtoul(seed, NULL, 10) : 1;
	for (unsigned p = 1; p <= processors; p *= 2)
		for (size_t k = 0; k < kinds; k++) {
			struct uprocs_conf conf = { .c_processors = p };

			conf.c_stacks = stacks[k];
			test(&conf);
		}
	test_seed = 0;
}

void each_conf(void (*test)(const struct uprocs_conf *conf))
{
	up_to(over->o_procs ? 4 : 1, test);
}

static void (*test_with)(void *s);

static void make_and_test(const struct uprocs_conf *conf)
{
	void *s = make_scheduler(conf);

	test_with(s);
	assert_int_equal(over->o_destroy(s), 0);
}

void each_scheduler(void (*test)(void *s))
{
	test_with = test;
	each_conf(make_and_test);
}

void each_single(void (*test)(void *s))
{
	test_with = test;
	up_to(1, make_and_test);
}

/* ---- Workers ---- */

static void run_worker(void *arg)
{
	struct worker *w = arg;

	w->w_waiter = uwait_self();
	TEST_TRUE(w->w_waiter);
	w->w_func(w);
	w->w_ended = true;
}

static void *run_native(void *arg)
{
	struct worker *w = arg;

	run_worker(w);
	over->o_release(w->w_sched);
	return NULL;
}

void start_worker(struct worker *w, void *s, bool native, size_t index,
		  void (*func)(struct worker *w), void *shared)
{
	*w = (struct worker){
		.w_sched = s, .w_func = func, .w_shared = shared, .w_index = index,
		.w_seed = test_seed * 977 + (uint32_t)index * 31 + 1,
	};
	if (native) {
		over->o_hold(s);
		TEST_EQUAL(pthread_create(&w->w_native, NULL, run_native, w), 0);
	} else {
		TEST_EQUAL(over->o_start(s, run_worker, w, &w->w_thread), 0);
	}
}

void end_worker(struct worker *w)
{
	if (w->w_thread)
		TEST_EQUAL(ustack_join(w->w_thread, NULL, USCHED_NEVER), 0);
	else
		TEST_EQUAL(pthread_join(w->w_native, NULL), 0);
	TEST_TRUE(w->w_ended);
}

bool waits(struct worker *w)
{
	struct uwaiter *waiter = w->w_waiter;

	TEST_TRUE(!w->w_ended);
	return waiter && __atomic_load_n(&waiter->w_state, __ATOMIC_SEQ_CST) != 0;
}

void await_waiting(struct worker *w)
{
	while (!waits(w))
		sched_yield();
}

void await_count(atomic_size_t *count, size_t value)
{
	while (*count < value)
		sched_yield();
}

uint32_t any(struct worker *w, uint32_t n)
{
	return test_random(&w->w_seed) % n;
}

int64_t any_deadline(struct worker *w)
{
	uint32_t n = any(w, 8);

	return n < 2 ? n : n < 4 ? USCHED_NEVER : usync_after(any(w, 60000));
}

void pause_worker(struct worker *w)
{
	uint32_t n = any(w, 4);

	if (n == 0)
		TEST_TRUE(test_give_way() != -ENOMEM);  /* it may be cancelled */
	for (volatile uint32_t i = n == 1 ? any(w, 500) : 0; i > 0; i--)
		;
}

void cancel_some(const struct worker *w, size_t n)
{
	uint32_t seed = test_seed * 7 + 1;

	for (size_t i = 0; i < n; i++) {
		int rc = ustack_cancel(w[test_random(&seed) % n].w_thread);

		TEST_TRUE(rc == 0 || rc == -ESRCH);
		nanosleep(&(struct timespec){ 0, (long)(test_random(&seed) % 200000) },
			  NULL);
	}
}

void wait_for_sem(void *arg)
{
	TEST_EQUAL(usync_sem_wait(arg, USCHED_NEVER), 0);
}

static atomic_size_t begun;

static void begin_and_wait(void *sem)
{
	begun++;
	wait_for_sem(sem);
}

/*
 * Starts threads until one has run on that dispatcher. One that has something to do, and
 * whose native thread has no CPU, is given none before it had time for that.
 */
void settle(void *s, const struct ustack *u)
{
	static struct usync_sem sem;
	struct ustack *helpers[64];
	size_t n = 0, before = begun;

	do {
		TEST_TRUE(n < 64);
		if (n >= 8)
			nanosleep(&(struct timespec){ 0, 10000000 * (long)n }, NULL);
		TEST_EQUAL(over->o_start(s, begin_and_wait, &sem, &helpers[n]), 0);
		while (begun <= before + n)     /* until then it is on its way */
			sched_yield();
	} while (ustack_sched(helpers[n++]) != ustack_sched(u));
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(usync_sem_post(&sem), 0);
	while (n > 0)
		TEST_EQUAL(ustack_join(helpers[--n], NULL, USCHED_NEVER), 0);
}

/* ---- Values ---- */

void write_value(unsigned char *value, size_t size, uint32_t id)
{
	for (size_t i = 0; i < size; i++)
		value[i] = (unsigned char)((id >> i % 4 * 8) + i / 4);
}

uint32_t read_value(const unsigned char *value, size_t size)
{
	uint32_t id = 0;

	for (size_t i = 0; i < size; i++) {
		if (i < 4)
			id |= (uint32_t)value[i] << i * 8;
		TEST_EQUAL(value[i], (unsigned char)((id >> i % 4 * 8) + i / 4));
	}
	return id;
}
