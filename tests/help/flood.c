/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE             /* gettid(), SIGEV_THREAD_ID */
#include "flood.h"

#include <errno.h>
#include <fenv.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../../usync.h"
#include "test.h"

#ifndef sigev_notify_thread_id          /* glibc has it under this name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
	LEVELS     = 4,                 /* of calls in a handler, */
	ROOM       = 2048,              /* each with so many bytes of frame */
	ALTERNATE  = 512 << 10,         /* bytes of an alternate stack: handlers nest */
	TERMS      = 20,
	KINDS      = 6,
	SENT       = 4,                 /* the first kinds: by timers, and sent */
};

/* On the present stack or an alternate one; with system calls that fail or restart. */
static const struct kind {
	int k_signo;
	int k_flags;
} kinds[KINDS] = {
	{ SIGUSR1, SA_RESTART }, { SIGUSR2, SA_RESTART | SA_ONSTACK },
	{ SIGHUP, 0 }, { SIGWINCH, SA_ONSTACK },
	{ SIGPROF, SA_RESTART }, { SIGVTALRM, SA_ONSTACK },
};

atomic_size_t ready;
atomic_bool   stop, calm;
pthread_t     natives[PROCESSORS + 1];

static atomic_size_t handled[KINDS];
static char          alternate[PROCESSORS][ALTERNATE];
static double        expected;          /* the sum of each handler */

/* ---- Handlers ---- */

__attribute__((noinline)) double series(double x)
{
	volatile double sum = 0.1;
	volatile long double more = 0.3L;

	for (int i = 1; i < TERMS; i++) {
		sum = sum * x + 1.0 / i;
		more = more / x + 1.0L / (i + sum);
	}
	return sum + (double)more;
}

static double series_upward(void)
{
	fesetround(FE_UPWARD);
	return series(1.7);
}

/* Quick, to leave time for the threads. */
static __attribute__((noinline)) void scribble(int signo, int level)
{
	volatile unsigned char room[ROOM];

	for (size_t i = 0; i < ROOM; i += 61)
		room[i] = (unsigned char)(signo + level);
	if (level > 0)
		scribble(signo, level - 1);
	for (size_t i = 0; i < ROOM; i += 61)
		TEST_EQUAL(room[i], (unsigned char)(signo + level));
}

/* It leaves all as it was. */
static void handler(int signo)
{
	int saved = errno, rounding = fegetround();
	double sum = series_upward();

	TEST_TRUE(memcmp(&sum, &expected, sizeof sum) == 0);
	errno = ENOTRECOVERABLE;
	scribble(signo, LEVELS - 1);
	TEST_EQUAL(errno, ENOTRECOVERABLE);
	for (size_t i = 0; i < KINDS; i++)
		handled[i] += kinds[i].k_signo == signo;
	fesetround(rounding);
	errno = saved;
}

void set_handlers(void)
{
	int rounding = fegetround();

	expected = series_upward();
	fesetround(rounding);
	for (size_t i = 0; i < KINDS; i++) {
		struct sigaction action = { .sa_handler = handler };

		handled[i] = 0;
		sigemptyset(&action.sa_mask);
		action.sa_flags = kinds[i].k_flags;
		assert_int_equal(sigaction(kinds[i].k_signo, &action, NULL), 0);
	}
}

/* ---- Where signals come from ---- */

long often(long us)
{
	return us * 100 / (long)test_scale(100, 1);
}

/* Timers of the calling native thread: their signals come anywhere in it. */
static void set_timers(timer_t *timer)
{
	for (size_t k = 0; k < SENT; k++) {
		long ns = 1000 * often(90 + 17 * (long)k);
		struct itimerspec each = { { 0, ns }, { 0, ns } };
		struct sigevent event = {
			.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = kinds[k].k_signo,
			.sigev_notify_thread_id = gettid(),
		};

		TEST_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer[k]), 0);
		TEST_EQUAL(timer_settime(timer[k], 0, &each, NULL), 0);
	}
}

void be_signalled(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg;
	stack_t stack = { .ss_sp = alternate[i], .ss_size = ALTERNATE }, before;
	timer_t timer[SENT];

	TEST_EQUAL(sigaltstack(&stack, &before), 0);
	set_timers(timer);
	natives[i] = pthread_self();
	ready++;
	while (!calm)
		TEST_EQUAL(usync_sleep_until(usync_after(USYNC_SECOND / 1000)), 0);
	for (size_t k = 0; k < SENT; k++)
		timer_delete(timer[k]);
	TEST_EQUAL(sigaltstack(&before, NULL), 0);
}

void pause_us(long us)
{
	nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

/* Its signals are blocked, and so are those of native threads that it makes. */
void *send_signals(void *unused)
{
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while (!stop) {
		for (size_t i = 0; i <= PROCESSORS; i++)
			for (size_t k = 0; k < SENT; k++)
				pthread_kill(natives[i], kinds[k].k_signo);
		pause_us(often(200));
	}
	return NULL;
}

void set_intervals(long us)
{
	struct itimerval each = { { 0, us }, { 0, us } };

	assert_int_equal(setitimer(ITIMER_PROF, &each, NULL), 0);
	assert_int_equal(setitimer(ITIMER_VIRTUAL, &each, NULL), 0);
}

/* Enough of each kind; the last two kinds need a native thread that computes. */
bool all_came(size_t enough)
{
	for (size_t k = 0; k < KINDS; k++)
		if (handled[k] < (k < SENT ? enough : 1))
			return false;
	return true;
}

size_t signals_handled(void)
{
	size_t count = 0;

	for (size_t k = 0; k < KINDS; k++)
		count += handled[k];
	return count;
}
