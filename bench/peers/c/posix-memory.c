/* SPDX-License-Identifier: MIT */
/*
 * The memory workload with native threads, which wait at a semaphore each. The kernel's
 * memory for a thread, some 20 KiB more, is not resident memory of the process.
 */
#include "posix.h"

enum { THREAD_BYTES = 24 << 10 };       /* of one, at least, with the kernel's part */

struct blocked {
	sem_t resume;
	pthread_t thread;
};

static size_t threads, arrived, ended;  /* the last two are atomic */
static sem_t all_arrived;

static void *block(void *self)
{
	struct blocked *me = self;

	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == threads)
		up(&all_arrived);
	down(&me->resume);
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	struct blocked *all;
	size_t before, after;
	pthread_attr_t attr;

	arguments(argc, argv, "THREADS", &threads);
	need_memory(threads, THREAD_BYTES);
	small_stacks(&attr);
	sem_init(&all_arrived, 0, 0);
	before = resident();
	all = calloc(threads, sizeof *all);
	if (!all)
		fail("not enough memory");
	for (size_t i = 0; i < threads; i++) {
		sem_init(&all[i].resume, 0, 0);
		check(pthread_create(&all[i].thread, &attr, block, &all[i]),
		      "pthread_create");
	}
	down(&all_arrived);
	after = resident();
	for (size_t i = 0; i < threads; i++)
		up(&all[i].resume);
	for (size_t i = 0; i < threads; i++)
		check(pthread_join(all[i].thread, NULL), "pthread_join");
	if (ended != threads)
		fail("a thread has not ended");
	print_memory(before, after, ended);
	free(all);
	return 0;
}
