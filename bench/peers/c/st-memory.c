/* SPDX-License-Identifier: MIT */
/*
 * The memory workload with State Threads: all threads wait at one condition. The library
 * keeps the thread's record at the top of its stack.
 */
#include <st.h>

#include "peer.h"

/* Bytes; only used pages are in memory. */
enum { STACK_SIZE = 16 << 10 };

static st_cond_t resume;
static size_t ended;

static void *wait_once(void *arg)
{
	(void)arg;
	st_cond_wait(resume);
	ended++;
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads, before, after;

	arguments(argc, argv, "THREADS", &threads);
	need_memory(threads, 8192);
	if (st_init() || !(resume = st_cond_new()))
		fail("not enough memory");
	before = resident();
	for (size_t i = 0; i < threads; i++)
		if (!st_thread_create(wait_once, NULL, 0, STACK_SIZE))
			fail("not enough memory for so many threads");
	st_usleep(0);		/* each runs until it blocks */
	after = resident();
	st_cond_broadcast(resume);
	while (ended < threads)
		st_usleep(0);
	print_memory(before, after, ended);
}
