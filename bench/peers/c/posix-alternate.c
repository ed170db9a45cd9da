/* SPDX-License-Identifier: MIT */
/*
 * The alternate workload with native threads: two hand over to each other, with a
 * semaphore each. sched_yield() does not do: it promises no order.
 */
#include "posix.h"

struct half {
	sem_t go;
	size_t id;
	struct half *other;
};

static struct {
	size_t turn, turns;
} shared;

static size_t yields;

static void *alternate(void *self)
{
	struct half *me = self;

	for (size_t i = 0; i < yields; i++) {
		down(&me->go);
		if (shared.turn != me->id)
			fail("a thread ran out of turn");
		shared.turns++;
		shared.turn = me->other->id;
		up(&me->other->go);
	}
	return NULL;
}

static void repeat(struct half *half, const pthread_attr_t *attr)
{
	pthread_t thread[2];

	for (unsigned i = 0; i < 2; i++) {
		sem_init(&half[i].go, 0, i == 0);
		half[i].id = i;
		half[i].other = &half[1 - i];
	}
	shared.turn = 0;
	for (int i = 0; i < 2; i++)
		check(pthread_create(&thread[i], attr, alternate, &half[i]),
		      "pthread_create");
	for (int i = 0; i < 2; i++) {
		check(pthread_join(thread[i], NULL), "pthread_join");
		sem_destroy(&half[i].go);
	}
}

int main(int argc, char **argv)
{
	size_t value[2];
	struct half half[2];
	pthread_attr_t attr;
	double start;

	arguments(argc, argv, "REPETITIONS YIELDS", value);
	yields = value[1];
	use_processors(1);
	small_stacks(&attr);
	start = now();
	for (size_t i = 0; i < value[0]; i++)
		repeat(half, &attr);
	start = now() - start;
	if (shared.turns != 2 * value[0] * value[1])
		fail("turns are missing");
	print_seconds(start, shared.turns);
	return 0;
}
