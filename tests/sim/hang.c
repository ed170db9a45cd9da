/* SPDX-License-Identifier: MIT */
/*
 * A clock thread ticks for ever. Beside it a client sleeps for two minutes, and as long
 * again in short sleeps, before it signals what main() waits for; main() joins a thread
 * that makes thousands of short sleeps; and another one wakes main() after each of more
 * than a thousand sleeps. None of that is a hang. With an argument the signal may be
 * lost: then main() waits for ever; or, if the argument is "polls", another thread waits
 * for ever, and main() looks for its end between short sleeps.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool is_signalled, has_ended, loses;
static int turns = 1500;

static void *tick(void *unused)
{
	for (;;) {
		usleep(100000);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void *rest(void *unused)
{
	for (int i = 0; i < 3000; i++)
		usleep(50000);
	return unused;
}

static void *take_turns(void *unused)
{
	for (int left = turns; left > 0; left--) {
		usleep(50000);
		pthread_mutex_lock(&lock);
		turns--;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void signal_it(void)
{
	pthread_mutex_lock(&lock);
	is_signalled = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&lock);
}

static void *ask(void *unused)
{
	if (loses) {
		usleep(10);
	} else {
		sleep(120);
		for (int i = 0; i < 900; i++)
			usleep(150000);
	}
	signal_it();
	return unused;
}

static void *wait_for_it(void *unused)
{
	pthread_mutex_lock(&lock);
	while (!is_signalled || loses) {
		pthread_cond_wait(&cond, &lock);
		if (loses)
			break;
	}
	has_ended = true;
	pthread_mutex_unlock(&lock);
	return unused;
}

static bool looks_ended(void)
{
	bool ended;

	pthread_mutex_lock(&lock);
	ended = has_ended;
	pthread_mutex_unlock(&lock);
	return ended;
}

int main(int argc, char **argv)
{
	pthread_t clock, client, waiter;

	loses = argc > 1;
	pthread_create(&clock, NULL, tick, NULL);
	pthread_create(&client, NULL, ask, NULL);
	if (loses && strcmp(argv[1], "polls") == 0) {
		pthread_create(&waiter, NULL, wait_for_it, NULL);
		while (!looks_ended())
			usleep(10000);
		return 0;
	}
	wait_for_it(NULL);
	pthread_create(&waiter, NULL, rest, NULL);
	pthread_join(waiter, NULL);
	pthread_create(&waiter, NULL, take_turns, NULL);
	pthread_mutex_lock(&lock);
	while (turns > 0)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return pthread_join(waiter, NULL);
}
