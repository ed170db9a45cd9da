/* SPDX-License-Identifier: MIT */
/*
 * ordered.c: memory that threads share, compiled with -fsanitize=thread. Without an
 * argument each use is ordered: by a lock, also one that spins, a condition, a semaphore,
 * a barrier, a pipe, a call that is made once, an atomic variable, or the begin and the
 * end of a thread; or no other thread uses the memory, whose address another thread's may
 * have in another run, or has at another time in this one: the variable is thread-local.
 * Bytes that are neighbours are two variables.
 * With an argument two uses are not ordered, and the result is the same.
 */
#include <sched.h>
#include <semaphore.h>

#include "check.h"

enum { PIECES = 20, BYTES = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static sem_t sem;
static int ends[2], ready, made, in_pipe, by_sem, by_barrier, by_spin, noted;
static pthread_spinlock_t spin;
static unsigned char *queue[PIECES];
static __thread int own;
static unsigned char neighbours[2];     /* one for each thread */

static void make(void)
{
	made = 1;
}

/* Called by both threads. */
static void count(void)
{
	own++;
	errno = 0;
	pthread_spin_lock(&spin);
	by_spin++;
	pthread_spin_unlock(&spin);
}

static void fill(unsigned char *piece, int i)
{
	for (int k = 0; k < BYTES; k++)
		piece[k] = (unsigned char)i;
}

static void note(void)
{
	noted = 1;
}

static void use_own(void)
{
	unsigned char *piece[PIECES];

	for (int i = 0; i < PIECES; i++) {
		piece[i] = malloc(BYTES);
		sched_yield();
		fill(piece[i], i);
	}
	for (int i = 0; i < PIECES; i++)
		free(piece[i]);
}

static void *produce(void *note_it)
{
	char c = 'x';

	use_own();
	pthread_once(&once, make);
	CHECK(made == 1);
	for (int i = 0; i < PIECES; i++) {
		unsigned char *piece = malloc(BYTES);

		fill(piece, i);
		count();
		pthread_mutex_lock(&lock);
		queue[ready++] = piece;
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&lock);
	}
	in_pipe = 1;
	CHECK(write(ends[1], &c, 1) == 1);
	by_sem = 1;
	sem_post(&sem);
	by_barrier = 1;
	neighbours[0]++;
	pthread_barrier_wait(&barrier);
	if (note_it)
		note();
	return NULL;
}

static unsigned char *take(int i)
{
	unsigned char *piece;

	pthread_mutex_lock(&lock);
	while (ready <= i)
		pthread_cond_wait(&filled, &lock);
	piece = queue[i];
	pthread_mutex_unlock(&lock);
	return piece;
}

static void check(unsigned char *piece, int i)
{
	for (int k = 0; k < BYTES; k++)
		CHECK(piece[k] == i);
	free(piece);
}

static void *consume(void *note_it)
{
	char c;

	use_own();
	pthread_once(&once, make);
	CHECK(made == 1);
	for (int i = 0; i < PIECES; i++) {
		check(take(i), i);
		count();
	}
	CHECK(own == PIECES);
	CHECK(read(ends[0], &c, 1) == 1 && in_pipe == 1);
	sem_wait(&sem);
	CHECK(by_sem == 1);
	neighbours[1]++;
	pthread_barrier_wait(&barrier);
	CHECK(by_barrier == 1);
	if (note_it)
		note();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t producer, consumer;

	(void)argv;
	CHECK(pipe(ends) == 0);
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	sem_init(&sem, 0, 0);
	pthread_barrier_init(&barrier, NULL, 2);
	for (int round = 0; round < 2; round++) {
		ready = 0;
		producer = started(produce, argc > 1 ? &noted : NULL);
		consumer = started(consume, argc > 1 ? &noted : NULL);
		CHECK(pthread_join(producer, NULL) == 0);
		CHECK(pthread_join(consumer, NULL) == 0);
	}
	return noted != (argc > 1);
}
