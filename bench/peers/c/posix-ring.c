/* SPDX-License-Identifier: MIT */
/*
 * The ring workload with native threads. Each has a mutex that is locked while it has no
 * token. It waits by locking the mutex again; another thread passes the token by
 * unlocking it. POSIX does not promise that this works, but it does on most systems, and
 * this ring is usually made so. With SEMAPHORE it is a semaphore, as POSIX intends.
 */
#include "posix.h"

enum { RING = 503 };

#ifdef SEMAPHORE
typedef sem_t gate;
static void gate_init(gate *g) { sem_init(g, 0, 0); }
static void gate_wait(gate *g) { down(g); }
static void gate_open(gate *g) { up(g); }
#else
typedef pthread_mutex_t gate;
static void gate_init(gate *g)
{
	pthread_mutex_init(g, NULL);
	pthread_mutex_lock(g);
}
static void gate_wait(gate *g) { pthread_mutex_lock(g); }
static void gate_open(gate *g) { pthread_mutex_unlock(g); }
#endif

static struct member {
	gate arrival;
	size_t token;
} ring[RING];

static size_t arrived;          /* threads. Atomic */
static size_t last;             /* the number of the thread that got 0 */
static gate ready, end;

static void *pass(void *self)
{
	struct member *me = self, *next = me == &ring[RING - 1] ? ring : me + 1;

	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == RING)
		gate_open(&ready);
	for (;;) {
		gate_wait(&me->arrival);
		if (me->token == 0)
			break;
		next->token = me->token - 1;
		gate_open(&next->arrival);
	}
	last = (size_t)(me - ring) + 1;
	gate_open(&end);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t passes;
	double start;

	arguments(argc, argv, "PASSES", &passes);
	use_processors(1);
	small_stacks(&attr);
	gate_init(&ready);
	gate_init(&end);
	for (int i = 0; i < RING; i++)
		gate_init(&ring[i].arrival);
	for (int i = 0; i < RING; i++) {
		check(pthread_create(&thread, &attr, pass, &ring[i]), "pthread_create");
		pthread_detach(thread);
	}
	gate_wait(&ready);
	start = now();
	ring[0].token = passes;
	gate_open(&ring[0].arrival);
	gate_wait(&end);
	print_seconds(now() - start, last);
	return 0;
}
