/* SPDX-License-Identifier: MIT */
/*
 * signals.c: a signal of the process goes to a thread that waits for it or does not block
 * it, and is pending until there is one.
 */
#include <signal.h>

#include "check.h"

static volatile sig_atomic_t handled;
static pthread_t handler_ran;

static void handle(int sig)
{
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

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
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
	return 0;
}
