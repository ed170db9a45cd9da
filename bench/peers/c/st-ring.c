/* SPDX-License-Identifier: MIT */
/*
 * The ring workload with State Threads: each thread waits for the token at its own
 * condition.
 */
#include <st.h>

#include "peer.h"

/* Bytes; only used pages are in memory. */
enum { THREADS = 503, STACK_SIZE = 16 << 10 };

static struct {
	st_cond_t ready;
	size_t token;
} slot[THREADS];

static st_cond_t done;
static size_t ended;		/* the number of the thread that got 0 */

static void *relay(void *arg)
{
	size_t i = (size_t)arg, right = (i + 1) % THREADS;

	for (;;) {
		st_cond_wait(slot[i].ready);
		if (slot[i].token == 0)
			break;
		slot[right].token = slot[i].token - 1;
		st_cond_signal(slot[right].ready);
	}
	ended = i + 1;
	st_cond_signal(done);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t passes;
	double seconds;

	arguments(argc, argv, "PASSES", &passes);
	if (st_init() || !(done = st_cond_new()))
		fail("not enough memory");
	for (size_t i = 0; i < THREADS; i++)
		if (!(slot[i].ready = st_cond_new())
		    || !st_thread_create(relay, (void *)i, 0, STACK_SIZE))
			fail("not enough memory");
	st_usleep(0);		/* each runs until it blocks */
	slot[0].token = passes;
	seconds = now();
	st_cond_signal(slot[0].ready);
	st_cond_wait(done);
	seconds = now() - seconds;
	if (ended != passes % THREADS + 1)
		fail("the answer is wrong");
	print_seconds(seconds, ended);
}
