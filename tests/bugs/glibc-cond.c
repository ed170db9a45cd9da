/* SPDX-License-Identifier: MIT */
/*
 * Workers wait for jobs, in rounds: the next round begins when all jobs of the last one
 * are done, as in a loop that is run in parallel. No signal may be lost.
 */
#include <semaphore.h>

enum { WORKERS = 4, JOBS = 2, ROUNDS = 12 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_work;
static sem_t done;
static int jobs, closed;

static void *work(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (!jobs && !closed)
			___pthread_cond_wait(&is_work, &mutex);
		if (!jobs)
			break;
		jobs--;
		pthread_mutex_unlock(&mutex);
		sem_post(&done);
	}
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void add(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_mutex_lock(&mutex);
		jobs++;
		pthread_mutex_unlock(&mutex);
		___pthread_cond_signal(&is_work);
	}
}

int main(void)
{
	pthread_t t[WORKERS];

	sem_init(&done, 0, 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		add(JOBS);
		for (int j = 0; j < JOBS; j++)
			sem_wait(&done);
	}
	pthread_mutex_lock(&mutex);
	closed = 1;
	pthread_mutex_unlock(&mutex);
	___pthread_cond_broadcast(&is_work);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	return 0;
}
