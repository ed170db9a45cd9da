/* SPDX-License-Identifier: MIT */
/* test_fault_sync.c: usync.h where the n-th call fails, for every n; see sweep.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "../../usync.h"
#include "../../uwait.h"
#include "../help/sweep.h"

enum {
	WORKERS = 5,                    /* threads, */
	ALL     = WORKERS + 1,          /* with a native thread */
	ROUNDS  = 2,
	DEEP    = 3000,                 /* bytes of the deepest worker's frame */
};

#define SOON (USYNC_SECOND / 100000)
#define LATE usync_after(1000 * USYNC_SECOND)    /* never, but with a timer */

/* All workers share this. */
static struct {
	struct usync_mutex  mutex;
	struct usync_rwlock rwlock;
	struct usync_cond   cond;
	struct usync_sem    sem, never;
	struct usync_group  working;
	struct usync_chan  *values, *kept;
	unsigned            counted, arrived, written;
	atomic_uint         destroyed;
} all;

static void destroy(void *value)
{
	(void)value;
	all.destroyed++;
}

static const struct usync_key key = { destroy };

/* A mutex that did not exclude would let others in between. */
static void use_mutex(void)
{
	unsigned before;

	TEST_EQUAL(TRY(usync_mutex_lock(&all.mutex, LATE)), 0);
	before = all.counted;
	TEST_EQUAL(TRY(test_give_way()), 0);
	TEST_EQUAL(all.counted, before);
	all.counted = before + 1;
	TEST_EQUAL(usync_mutex_unlock(&all.mutex), 0);
}

static void use_rwlock(void)
{
	unsigned before;

	TEST_EQUAL(TRY(usync_rwlock_read(&all.rwlock, LATE)), 0);
	before = all.written;
	TEST_EQUAL(TRY(test_give_way()), 0);
	TEST_EQUAL(all.written, before);
	TEST_EQUAL(usync_rwlock_unlock(&all.rwlock), 0);
	TEST_EQUAL(TRY(usync_rwlock_write(&all.rwlock, USCHED_NEVER)), 0);
	before = all.written;
	TEST_EQUAL(TRY(usync_sleep_until(usync_after(SOON))), 0);
	TEST_EQUAL(all.written, before);
	all.written = before + 1;
	TEST_EQUAL(usync_rwlock_unlock(&all.rwlock), 0);
}

/* A barrier. An error leaves the mutex as it is. */
static void use_cond(unsigned round)
{
	TEST_EQUAL(TRY(usync_mutex_lock(&all.mutex, USCHED_NEVER)), 0);
	if (++all.arrived == ALL * (round + 1))
		usync_cond_broadcast(&all.cond);
	while (all.arrived < ALL * (round + 1))
		TEST_EQUAL(TRY(usync_cond_wait(&all.cond, &all.mutex, LATE)), 0);
	TEST_EQUAL(usync_mutex_unlock(&all.mutex), 0);
}

static void use_sem(void)
{
	TEST_EQUAL(TRY(usync_sem_wait(&all.sem, LATE)), 0);
	TEST_EQUAL(all.sem.sm_count, 0);
	TEST_EQUAL(TRY(test_give_way()), 0);
	TEST_EQUAL(usync_sem_post(&all.sem), 0);
	TEST_EQUAL(TRY(usync_sem_wait(&all.never, usync_after(SOON))), -ETIMEDOUT);
}

static void use_chan(unsigned value)
{
	struct usync_case cases[] = {
		{ .cs_chan = all.kept, .cs_op = USYNC_SEND, .cs_value = &value },
		{ .cs_chan = all.values, .cs_op = USYNC_SEND, .cs_value = &value },
	};

	TEST_EQUAL(TRY(usync_chan_send(all.values, &value, LATE)), 0);
	TEST_TRUE(TRY(usync_select(cases, 2, LATE)) >= 0);
}

static void wait_for_ever(void *unused)
{
	(void)unused;
	TEST_EQUAL(TRY(usync_sem_wait(&all.never, USCHED_NEVER)), -ECANCELED);
	TEST_EQUAL(TRY(ustack_shield(1)), 0);
	TEST_EQUAL(TRY(usync_sleep_until(usync_after(SOON))), 0);
}

/* One thread that is cancelled, anywhere. */
static void use_threads(void)
{
	struct ustack *u = go(wait_for_ever, NULL);

	if (TRY(ustack_join(u, NULL, usync_after(SOON))) != 0) {
		TEST_EQUAL(ustack_cancel(u), 0);
		end(u);
	}
}

static __attribute__((noinline)) void work(unsigned index, size_t deep)
{
	volatile unsigned char room[deep];

	for (size_t i = 0; i < deep; i += 50)
		room[i] = (unsigned char)(index + i);
	for (unsigned round = 0; round < ROUNDS; round++) {
		use_mutex();
		use_rwlock();
		use_cond(round);
		use_sem();
		use_chan(index);
	}
	for (size_t i = 0; i < deep; i += 50)
		TEST_EQUAL(room[i], (unsigned char)(index + i));
}

static void work_as_thread(void *arg)
{
	unsigned index = (unsigned)(uintptr_t)arg;

	TEST_EQUAL(TRY(usync_key_set(&key, &all)), 0);
	work(index, index * DEEP / WORKERS + 1);
	use_threads();
	TEST_TRUE(usync_key_get(&key) == &all);
	TEST_EQUAL(usync_group_done(&all.working), 0);
}

static void *work_as_native(void *unused)
{
	TEST_EQUAL(TRY(usync_key_set(&key, &all)), 0);
	work(WORKERS, 1);
	TEST_EQUAL(usync_group_done(&all.working), 0);
	over->o_release(the);
	return unused;
}

/* Each value was sent ROUNDS times to `values', and ROUNDS times to one of the two. */
static void receive_all(void)
{
	unsigned got[ALL] = { 0 }, value;
	struct usync_case cases[] = {
		{ .cs_chan = all.kept, .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_chan = all.values, .cs_op = USYNC_RECV, .cs_value = &value },
	};

	for (int i = 0; i < 2 * ROUNDS * ALL; i++) {
		TEST_TRUE(TRY(usync_select(cases, 2, LATE)) >= 0);
		got[value]++;
	}
	for (int i = 0; i < ALL; i++)
		TEST_EQUAL(got[i], 2 * ROUNDS);
}

static void wait_for_all(void *unused)
{
	struct ustack *workers[WORKERS];
	pthread_t native;

	(void)unused;
	memset(&all, 0, sizeof all);
	all.sem.sm_count = 1;
	TEST_EQUAL(TRY(usync_chan_create(sizeof(unsigned), 0, &all.values)), 0);
	TEST_EQUAL(TRY(usync_chan_create(sizeof(unsigned), 2, &all.kept)), 0);
	usync_group_add(&all.working, ALL);
	over->o_hold(the);
	for (uintptr_t i = 0; i < WORKERS; i++)
		workers[i] = go(work_as_thread, (void *)i);
	TEST_EQUAL(TRY(-pthread_create(&native, NULL, work_as_native, NULL)), 0);
	receive_all();
	TEST_EQUAL(TRY(usync_group_wait(&all.working, LATE)), 0);
	for (int i = 0; i < WORKERS; i++)
		end(workers[i]);
	pthread_join(native, NULL);
	TEST_EQUAL(all.counted, ROUNDS * ALL);
	TEST_EQUAL(all.written, ROUNDS * ALL);
	TEST_EQUAL(all.arrived, ROUNDS * ALL);
	TEST_EQUAL(all.destroyed, ALL);
	TEST_EQUAL(all.mutex.m_owner, 0);
	usync_chan_destroy(all.values);
	usync_chan_destroy(all.kept);
}

static const struct scene all_waits = { .s_main = wait_for_all, .s_step = 1 };

static atomic_uint served;

static void serve(int fd, void *unused)
{
	(void)unused;
	TEST_EQUAL(fd, 5);
	served++;
	TEST_EQUAL(TRY(usync_sleep_until(usync_after(SOON))), 0);
}

/* A member that cannot enter the scope serves all the same, and the scope goes on. */
static void serve_all(void *unused)
{
	struct ustack_how how = { .h_serve = serve, .h_fd = 5 };
	struct usync_scope *scope;

	(void)unused;
	served = 0;
	TEST_EQUAL(TRY(usync_scope_create(NULL, &scope, USCHED_NEVER)), 0);
	for (int i = 0; i < WORKERS; i++)
		TEST_EQUAL(TRY(usync_scope_start_with(scope, &how, NULL, NULL, NULL)), 0);
	TEST_EQUAL(TRY(usync_scope_wait(scope, USCHED_NEVER)), 0);
	TEST_EQUAL(served, WORKERS);
	TEST_EQUAL(usync_scope_error(scope), 0);
	usync_scope_release(scope);
}

static const struct scene all_served = { .s_main = serve_all, .s_step = 1 };

static void *use_native_key(void *unused)
{
	fault_begin(FAULT_USED_UP, 1, 1);
	TEST_EQUAL(usync_key_set(&key, NULL), -ENOMEM);
	TEST_EQUAL(fault_end(), 1);
	TEST_EQUAL(usync_key_set(&key, NULL), 0);
	return unused;
}

/* A process makes its native key once, so this must be the first test. */
TEST_ONCE(test_key)
{
	pthread_t native;

	assert_int_equal(pthread_create(&native, NULL, use_native_key, NULL), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
}

/* The block has failed by then, and its wake comes as mail. */
static void *grant_late(void *waiter)
{
	usleep(1000);
	uwait_finish(waiter, 7);
	return NULL;
}

/* Claimed, and then no memory to block: the wake must not stay behind. */
static __attribute__((noinline)) void block_deep(struct uwaiter *w, size_t size)
{
	volatile unsigned char room[size];

	room[size / 2] = 1;
	fault_begin(FAULT_USED_UP, 1, 1000);
	TEST_EQUAL(uwait_block(w), 7);
	TEST_TRUE(fault_end() > 0);
	TEST_EQUAL(room[size / 2], 1);
}

static void block_in_vain(void *unused)
{
	struct uwaiter *w;

	(void)unused;
	for (int i = 0; i < 3; i++) {
		pthread_t native;

		w = uwait_prepare(USCHED_NEVER, false);
		TEST_EQUAL(uwait_error(w), 0);
		uwait_begin(w);
		TEST_TRUE(uwait_claim(w));
		TEST_EQUAL(pthread_create(&native, NULL, grant_late, w), 0);
		block_deep(w, 50000u << i);
		TEST_EQUAL(pthread_join(native, NULL), 0);
	}
	TEST_EQUAL(usync_sleep_until(usync_after(SOON)), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

TEST(test_failed_block)
{
	for (size_t c = 0; c < SWEEP_CONFS; c++) {
		struct uprocs_conf conf = sweep_confs[c];
		struct ustack *u;

		conf.c_log = no_log;
		assert_int_equal(over->o_create(&conf, &the), 0);
		u = go(block_in_vain, NULL);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
		assert_int_equal(ustack_wake(u), 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
		assert_int_equal(over->o_destroy(the), 0);
	}
}

TEST(test_used_up)
{
	sweep(&all_waits, FAULT_USED_UP, 1);
	sweep(&all_served, FAULT_USED_UP, 1);
}

TEST(test_famine)
{
	sweep(&all_waits, FAULT_USED_UP, 40);
	sweep(&all_served, FAULT_USED_UP, 40);
}

TEST(test_broken)
{
	sweep(&all_waits, FAULT_BROKEN, 1);
}

TEST(test_interrupted)
{
	sweep(&all_waits, FAULT_INTERRUPTED, 1);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
