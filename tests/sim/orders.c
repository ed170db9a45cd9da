/* SPDX-License-Identifier: MIT */
/*
 * Three threads that lock a mutex: six orders. Two that wait for each other by a sleep
 * alone, with an argument: in some orders it is too short.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int order[THREADS], n;

static void *enter(void *number)
{
	pthread_mutex_lock(&lock);
	order[n++] = *(int *)number;
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	static int numbers[THREADS] = { 1, 2, 3 };
	pthread_t t[THREADS];

	(void)argv;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, enter, &numbers[i]);
	if (argc > 1) {
		usleep(1000000);
		pthread_mutex_lock(&lock);
		if (n < THREADS)
			abort();
		pthread_mutex_unlock(&lock);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%d%d%d\n", order[0], order[1], order[2]);
	return 0;
}
