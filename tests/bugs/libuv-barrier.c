/* SPDX-License-Identifier: MIT */
/* Three threads meet at a barrier three times. A round must end before the next one. */
#include <pthread.h>
#undef PTHREAD_BARRIER_SERIAL_THREAD	/* The barrier of systems that have none. */
#if __has_include("src/thread-common.c")
#include "uv.h"
#include "src/uv-common.h"
#include "src/thread-common.c"
#endif
#include "src/unix/thread.c"

enum { THREADS = 3, ROUNDS = 3 };

static uv_barrier_t meeting;
static int last[ROUNDS];

void *uv__malloc(size_t size)
{
	return malloc(size);
}

void uv__free(void *block)
{
	free(block);
}

static void *meet(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++)
		if (uv_barrier_wait(&meeting))
			__atomic_add_fetch(&last[i], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];

	uv_barrier_init(&meeting, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, meet, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	uv_barrier_destroy(&meeting);
	for (int i = 0; i < ROUNDS; i++)
		if (last[i] != 1)
			return 1;
	return 0;
}
