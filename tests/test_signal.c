/* SPDX-License-Identifier: MIT */
/*
 * test_signal.c: a flood of signals at processors whose threads are evicted and
 * loaded all the time. A handler runs wherever SP is, and overwrites 8 KB below.
 */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../ll.h"
#include "../rr.h"

enum {
	PROCESSORS = 2,
	CYCLES     = 4,
	MEMBERS    = 10,                /* threads of a cycle */
	DEEPEST    = 12000,             /* bytes of frame while one blocks */
	HANDLER    = 8192,              /* bytes of frame in a handler */
	ALTERNATE  = 65536,             /* bytes of an alternate signal stack */
};

static atomic_size_t handled[3];        /* by kind of signal */
static atomic_size_t ready;
static atomic_bool   stop;
static pthread_t     natives[PROCESSORS];
static char          alternate[PROCESSORS][ALTERNATE];

static timer_t       timers[PROCESSORS][2];

static const int signals[3] = { SIGUSR1, SIGUSR2, SIGPROF };

/* Quickly, or there is no time left for the threads. */
static void (*volatile use)(const unsigned char *room, int signo);

static void check(const unsigned char *room, int signo)
{
	for (size_t i = 0; i < HANDLER; i += 61)
		TEST_EQUAL(room[i], (unsigned char)signo);
}

static __attribute__((noinline)) void scribble(int signo)
{
	unsigned char room[HANDLER];

	memset(room, signo, sizeof room);
	use(room, signo);
}

static void handler(int signo)
{
	int saved = errno;

	scribble(signo);
	for (size_t i = 0; i < 3; i++)
		handled[i] += signals[i] == signo;
	errno = saved;
}

/* SIGUSR1 and SIGPROF on the stack where they meet us, SIGUSR2 on another. */
static void set_handlers(void)
{
	use = check;
	for (size_t i = 0; i < 3; i++) {
		struct sigaction action = { .sa_handler = handler };

		sigemptyset(&action.sa_mask);
		action.sa_flags = SA_RESTART | (signals[i] == SIGUSR2 ? SA_ONSTACK : 0);
		assert_int_equal(sigaction(signals[i], &action, NULL), 0);
	}
}

/* The two timers of the calling native thread, so that they meet it anywhere. */
static void set_timers(timer_t *timer)
{
	for (size_t k = 0; k < 2; k++) {
		long ns = 60000 + 17000 * (long)k;
		struct itimerspec often = { { 0, ns }, { 0, ns } };
		struct sigevent event = {
			.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signals[k],
			._sigev_un._tid = gettid(),
		};

		TEST_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer[k]), 0);
		TEST_EQUAL(timer_settime(timer[k], 0, &often, NULL), 0);
	}
}

/* On each processor. */
static void set_up(void *arg)
{
	size_t i = ready;
	stack_t stack = { .ss_sp = alternate[i], .ss_size = ALTERNATE };

	(void)arg;
	TEST_EQUAL(sigaltstack(&stack, NULL), 0);
	set_timers(timers[i]);
	natives[i] = pthread_self();
	ready++;
}

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static void *send_signals(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!stop) {
		for (size_t i = 0; i < PROCESSORS; i++)
			for (size_t k = 0; k < 2; k++)
				pthread_kill(natives[i], signals[k]);
		pause_us(100);
	}
	return NULL;
}

struct member {
	struct ustack  *m_thread;
	struct member  *m_right;
	int           (*m_wait)(void);
	int           (*m_wake)(struct ustack *thread);
	uint32_t        m_seed;
	atomic_size_t   m_rounds;
};

static __attribute__((noinline)) void wait_deep(struct member *m, size_t size)
{
	volatile unsigned char room[size];
	double sum = m->m_seed, again = sum;    /* in registers, one hopes */

	for (size_t i = 0; i < size; i++)
		room[i] = (unsigned char)(m->m_seed + i);
	for (size_t i = 0; i < 10; i++)
		sum = sum * 1.5 + (double)i;
	TEST_EQUAL(m->m_wait(), 0);
	for (size_t i = 0; i < 10; i++)
		again = again * 1.5 + (double)i;
	TEST_TRUE(sum == again);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(room[i], (unsigned char)(m->m_seed + i));
}

/* Relays what comes round until the end, which comes round, too. */
static void relay(void *arg)
{
	struct member *m = arg;

	while (!stop) {
		uint32_t r = test_random(&m->m_seed);

		wait_deep(m, 1 + (r & 3 ? r % 500 : r % DEEPEST));
		m->m_rounds++;
		m->m_wake(m->m_right->m_thread);
	}
	m->m_wake(m->m_right->m_thread);
}

static bool all_ran(struct member (*members)[MEMBERS])
{
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < MEMBERS; i++)
			if (members[c][i].m_rounds == 0)
				return false;
	return true;
}

static void start(int local, void *s, struct ll_group *group, void (*func)(void *),
		  void *arg, struct ustack **thread)
{
	assert_int_equal(local ? ll_start(s, group, func, arg, thread)
			 : rr_start(s, func, arg, thread), 0);
}

static void flood(int local, unsigned stacks)
{
	struct usched_conf conf = {
		.c_processors = PROCESSORS, .c_stacks = stacks, .c_image = 1,
	};
	struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	size_t enough = test_scale(100000, 500);
	static struct member members[CYCLES][MEMBERS];
	struct usched_stats stats;
	struct rr *rr = NULL;
	struct ll *ll = NULL;
	pthread_t sender;
	void *s;

	assert_int_equal(local ? ll_create(&ll, &conf) : rr_create(&rr, &conf), 0);
	s = local ? (void *)ll : (void *)rr;
	stop = false;
	ready = 0;
	for (size_t i = 0; i < 3; i++)
		handled[i] = 0;
	set_handlers();
	for (size_t i = 0; i < PROCESSORS; i++) {
		struct ustack *t;

		start(local, s, local ? ll_group(ll) : NULL, set_up, NULL, &t);
		assert_int_equal(local ? ll_join(t) : rr_join(t), 0);
	}
	assert_false(pthread_equal(natives[0], natives[1]));
	for (size_t c = 0; c < CYCLES; c++) {
		struct ll_group *group = local ? ll_group(ll) : NULL;

		for (size_t i = 0; i < MEMBERS; i++) {
			struct member *m = &members[c][i];

			*m = (struct member){
				.m_right = &members[c][(i + 1) % MEMBERS],
				.m_wait  = local ? ll_wait : rr_wait,
				.m_wake  = local ? ll_wake : rr_wake,
				.m_seed  = (uint32_t)(c * MEMBERS + i + 1),
			};
			start(local, s, group, relay, m, &m->m_thread);
		}
	}
	setitimer(ITIMER_PROF, &each_ms, NULL);
	assert_int_equal(pthread_create(&sender, NULL, send_signals, NULL), 0);
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(members[c][i].m_wake(members[c][i].m_thread), 0);
	while (handled[0] + handled[1] < enough || handled[0] < enough / 100
	       || handled[1] < enough / 100 || !all_ran(members))
		pause_us(1000);
	stop = true;
	for (size_t c = 0; c < CYCLES; c++)
		for (size_t i = 0; i < MEMBERS; i++)
			assert_int_equal(local ? ll_join(members[c][i].m_thread)
					 : rr_join(members[c][i].m_thread), 0);
	pthread_join(sender, NULL);
	setitimer(ITIMER_PROF, &never, NULL);
	for (size_t i = 0; i < PROCESSORS; i++)
		for (size_t k = 0; k < 2; k++)
			timer_delete(timers[i][k]);
	if (local)
		ll_stats(ll, &stats);
	else
		rr_stats(rr, &stats);
	assert_int_equal(stats.s_evictions, stats.s_loads);
	assert_int_equal(local ? ll_destroy(ll) : rr_destroy(rr), 0);
	print_message("%s, %s: %zu signals, %zu evictions\n", local ? "ll" : "rr",
		      stacks == 1 ? "one stack" : "native stack",
		      handled[0] + handled[1] + handled[2], (size_t)stats.s_evictions);
	assert_true(stats.s_evictions > 0);
}

/*
 * Memcheck has one idea of which stack is current for all native threads; after it
 * has gone from one to another it misses that a handler's large frame begins.
 */
static void skip_on_valgrind(void)
{
	if (test_on_valgrind()) {
		print_message("memcheck takes large frames of handlers for wrong\n");
		skip();
	}
}

static void test_rr(void **state)
{
	(void)state;
	skip_on_valgrind();
	test_timeout(120);
	if (test_has_stacks())
		flood(0, 1);
	flood(0, USCHED_NATIVE);
}

static void test_ll(void **state)
{
	(void)state;
	skip_on_valgrind();
	test_timeout(120);
	if (test_has_stacks())
		flood(1, 1);
	flood(1, USCHED_NATIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rr),
		cmocka_unit_test(test_ll),
	};

	return cmocka_run_group_tests_name("signal", tests, NULL, NULL);
}
