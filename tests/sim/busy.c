/* SPDX-License-Identifier: MIT */
/*
 * busy.c: a lock and a flag that threads spin on, in code that makes no call meanwhile.
 * With the argument "ever" the flag is never set, while another thread polls. At last a
 * thread only looks whether it is cancelled.
 */
#include <stdbool.h>

#include "check.h"

static volatile int busy, flag, ends;
static int counter;

static void *add(void *unused)
{
	(void)unused;
	while (__sync_lock_test_and_set(&busy, 1))
		;
	counter++;
	sched_yield();
	__sync_lock_release(&busy);
	return NULL;
}

static void *set_late(void *unused)
{
	(void)unused;
	sleep(5);
	flag = 1;
	return NULL;
}

static void *poll_flag(void *unused)
{
	(void)unused;
	while (!flag)
		usleep(1000);
	return NULL;
}

static void *look(void *unused)
{
	for (;;)
		pthread_testcancel();
	return unused;
}

/* Computes for about as long as it takes to see that a thread spins. No thread may run
   meanwhile, however fast the processor is. */
static void compute(void)
{
	volatile unsigned sum = 0;
	int before = ends;

	for (unsigned i = 0; i < 30000000; i++)
		sum = sum + i;
	CHECK(ends == before);
}

static void *end(void *unused)
{
	(void)unused;
	ends++;
	return NULL;
}

int main(int argc, char **argv)
{
	const bool ever = argc > 1 && strcmp(argv[1], "ever") == 0;
	pthread_t adds[3], sets = started(ever ? poll_flag : set_late, NULL), last;

	for (int i = 0; i < 3; i++)
		adds[i] = started(add, NULL);
	while (!flag)
		;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(adds[i], NULL) == 0);
	CHECK(counter == 3);
	CHECK(pthread_join(sets, NULL) == 0);
	last = started(end, NULL);
	compute();
	CHECK(pthread_join(last, NULL) == 0);
	last = started(look, NULL);
	CHECK(pthread_cancel(last) == 0 && pthread_join(last, NULL) == 0);
	return 0;
}
