/* SPDX-License-Identifier: MIT */
/*
 * threads.c: 100 threads add to one counter. With an argument they do not hold the lock
 * when they write, and yield before, so some additions can be lost.
 */
#include <pthread.h>
#include <sched.h>

#define THREADS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count;

static void *add(void *race)
{
	int was;

	pthread_mutex_lock(&lock);
	was = count;
	if (race)
		pthread_mutex_unlock(&lock);
	sched_yield();
	count = was + 1;
	if (!race)
		pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, add, argc > 1 ? argv : NULL))
			return 2;
	for (int i = 0; i < THREADS; i++)
		if (pthread_join(threads[i], NULL))
			return 2;
	return count != THREADS;
}
