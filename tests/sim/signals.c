/* SPDX-License-Identifier: MIT */
/*
 * signals.c: a signal of the process goes to a thread that waits for it or does not block
 * it, and is pending until there is one. SIGALRM comes when the simulated time has come,
 * to threads that wait and to one that only calls; a handler without SA_RESTART ends a
 * wait by EINTR.
 */
#include "check.h"

#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t handled;
static pthread_t handler_ran;

static void handle(int sig, siginfo_t *info, void *unused)
{
	(void)unused;
	CHECK(info->si_pid == getpid());
	handled = sig;
	handler_ran = pthread_self();
}

static void *send_it(void *sig)
{
	CHECK(kill(getpid(), (int)(intptr_t)sig) == 0);
	return NULL;
}

static void *await(void *set)
{
	int sig = 0;

	CHECK(sigwait(set, &sig) == 0);
	return (void *)(intptr_t)sig;
}

/* Before or after sigsuspend(), whichever is first. */
static void suspend(const sigset_t *none)
{
	pthread_t t;

	handled = 0;
	t = started(send_it, (void *)(intptr_t)SIGUSR1);
	while (!handled)
		sigsuspend(none);
	CHECK(pthread_equal(handler_ran, pthread_self()));
	CHECK(pthread_join(t, NULL) == 0);
}

static int64_t microseconds(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static volatile sig_atomic_t rung;

static void count(int sig)
{
	(void)sig;
	rung++;
}

/* An alarm ends a wait for input, unless the handler has SA_RESTART. */
static void *write_later(void *fd)
{
	CHECK(sleep(8) == 0);
	CHECK(write(*(int *)fd, "x", 1) == 1);
	return NULL;
}

static void interrupt(int restart)
{
	struct sigaction action = { .sa_handler = count, .sa_flags = restart };
	int64_t begun = microseconds();
	sigset_t set, before;
	pthread_t t;
	int fds[2];
	char c;

	rung = 0;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0 && pipe(fds) == 0);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
	t = started(write_later, &fds[1]);
	CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	CHECK(alarm(100) == 0 && alarm(5) == 100);
	if (restart)
		CHECK(read(fds[0], &c, 1) == 1 && rung == 1);
	else
		CHECK(read(fds[0], &c, 1) < 0 && errno == EINTR && rung == 1);
	CHECK(microseconds() - begun >= (restart ? 8000000 : 5000000));
	CHECK(restart || microseconds() - begun < 7000000);
	CHECK(alarm(0) == 0 && pthread_join(t, NULL) == 0);
	close(fds[0]);
	close(fds[1]);
}

static void ring_often(void)
{
	struct itimerval often = { { 0, 300 }, { 1, 0 } }, none = { 0 }, t;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int64_t begun = microseconds();

	rung = 0;
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHECK(getitimer(ITIMER_REAL, &t) == 0 && t.it_interval.tv_usec == 300);
	CHECK(t.it_value.tv_sec == 0 && t.it_value.tv_usec > 900000);
	while (rung < 1)
		pause();
	CHECK(microseconds() - begun >= 1000000);
	while (rung < 4) {                      /* handlers run between two calls */
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	CHECK(microseconds() - begun >= 1000000 + 3 * 300);
	CHECK(microseconds() - begun < 1000000 + 4 * 300);
	CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
	often.it_value.tv_usec = 1000000;
	CHECK(setitimer(ITIMER_REAL, &often, NULL) < 0 && errno == EINVAL);
	CHECK(ualarm(1700, 0) == 0 && usleep(5000) < 0 && errno == EINTR);
}

static void post(union sigval v)
{
	sem_post(v.sival_ptr);
}

/* By the handler of SIGALRM, by a thread, and for processor time, which stands still. */
static void use_timers(void)
{
	sem_t posts;
	struct sigevent e = { .sigev_notify = SIGEV_THREAD,
			      .sigev_value.sival_ptr = &posts,
			      .sigev_notify_function = post };
	struct itimerspec often = { { 0, 300000 }, { 1, 0 } }, never = { 0 };
	int64_t begun = microseconds();
	timer_t timers[3];

	rung = 0;
	sem_init(&posts, 0, 0);
	CHECK(timer_create(CLOCK_MONOTONIC, &e, &timers[0]) == 0);
	CHECK(timer_create(CLOCK_REALTIME, NULL, &timers[1]) == 0);
	CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timers[2]) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(timer_settime(timers[i], 0, &often, NULL) == 0);
	CHECK(timer_gettime(timers[0], &often) == 0);
	CHECK(often.it_value.tv_sec == 0 && often.it_value.tv_nsec > 900000000);
	for (int i = 0; i < 3; i++)
		while (sem_wait(&posts) < 0)
			CHECK(errno == EINTR);
	while (rung < 3)
		usleep(100);
	CHECK(microseconds() - begun >= 1000000 + 2 * 300);
	CHECK(timer_settime(timers[0], 0, &never, &often) == 0);
	CHECK(often.it_interval.tv_nsec == 300000);
	for (int i = 0; i < 3; i++)
		CHECK(timer_delete(timers[i]) == 0);
}

static int values;

static void add(int sig, siginfo_t *info, void *unused)
{
	(void)sig;
	(void)unused;
	CHECK(info->si_code == SI_TIMER);
	values += info->si_value.sival_int;
	handler_ran = pthread_self();
}

static void *sleep_long(void *id)
{
	*(pid_t *)id = gettid();
	while (values < 111)
		sleep(9999);
	return NULL;
}

static timer_t made(int how, int value, pid_t thread)
{
	struct itimerspec soon = { { 0, 0 }, { 2, 0 } };
	struct sigevent e = { .sigev_notify = how, .sigev_signo = SIGUSR2,
			      .sigev_value.sival_int = value };
	timer_t t;

	e._sigev_un._tid = thread;
	CHECK(timer_create(CLOCK_MONOTONIC, &e, &t) == 0);
	CHECK(timer_settime(t, 0, &soon, NULL) == 0);
	return t;
}

/* A timer's signal has the timer's value, and goes to the thread; after timer_delete() no
   signal comes. A timer that never expires is no thread that hangs. */
static void tell_timers_apart(void)
{
	struct sigaction action = { .sa_sigaction = add, .sa_flags = SA_SIGINFO };
	struct sigevent wrong = { .sigev_notify = 77, .sigev_signo = SIGUSR2 };
	timer_t timers[4] = { NULL };
	pid_t id = 0;
	pthread_t t = started(sleep_long, &id);

	CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
	CHECK(timer_create(77, NULL, &timers[3]) < 0 && errno == EINVAL);
	CHECK(timer_create(CLOCK_REALTIME, &wrong, &timers[3]) < 0 && errno == EINVAL);
	while (!id)
		usleep(1000);
	CHECK(timer_delete(made(SIGEV_SIGNAL, 1000, 0)) == 0);
	timers[0] = made(SIGEV_SIGNAL, 1, 0);
	timers[1] = made(SIGEV_SIGNAL, 10, 0);
	timers[2] = made(SIGEV_NONE, 100, 0);
	for (int i = 0; i < 1500; i++)
		sleep(1);
	CHECK(values == 11);
	timers[3] = made(SIGEV_THREAD_ID, 100, id);
	CHECK(pthread_join(t, NULL) == 0);
	CHECK(values == 111 && pthread_equal(handler_ran, t));
	for (int i = 0; i < 4; i++)
		CHECK(timer_delete(timers[i]) == 0);
	CHECK(timer_delete(timers[0]) < 0 && errno == EINVAL);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO };
	sigset_t both, one, none, pending;
	pthread_t sender, waiter;
	void *got;

	sigemptyset(&none);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_sigmask(SIG_BLOCK, &both, NULL) == 0);
	suspend(&none);
	suspend(&none);

	sender = started(send_it, (void *)(intptr_t)SIGUSR2);
	waiter = started(await, &one);
	CHECK(pthread_join(sender, NULL) == 0);
	CHECK(pthread_join(waiter, &got) == 0);
	CHECK((intptr_t)got == SIGUSR2);

	send_it((void *)(intptr_t)SIGUSR1);
	handled = 0;
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
	CHECK(pthread_sigmask(SIG_UNBLOCK, &both, NULL) == 0);
	CHECK(handled == SIGUSR1);
	CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 0);
	interrupt(0);
	interrupt(SA_RESTART);
	ring_often();
	use_timers();
	tell_timers_apart();
	return 0;
}
