/* SPDX-License-Identifier: MIT */
/*
 * after.c: the memory that is left after a peak.
 *
 *	after THREADS BYTES [SECONDS]
 *
 * A thousand threads of rr with a kilobyte of locals block and end, on one processor.
 * Then THREADS threads with BYTES of locals do. SECONDS (10) later it prints the resident
 * memory less 16 MiB, divided by that before the peak.
 */
#include <alloca.h>
#include <unistd.h>

#include "../rr.h"
#include "../usync.h"

#define BENCH_PROGRAM "after"
#include "bench.h"

enum {
	WARM       = 1000,              /* threads */
	WARM_BYTES = 1 << 10,
	FREE       = 16 << 20,          /* bytes: what caches may keep */
	LOOK       = 1000,              /* us */
};

static struct rr        *rr;
static struct usync_sem  sem;
static size_t            bytes;         /* of locals */
static size_t            inside;        /* threads; atomic */

static void usage(void)
{
	fprintf(stderr, "usage: after THREADS BYTES [SECONDS]\n");
	exit(2);
}

static void block(void *unused)
{
	char *locals = alloca(bytes);

	(void)unused;
	memset(locals, 1, bytes);
	__atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED);
	check(usync_sem_wait(&sem, USCHED_NEVER), "wait");
	__asm__ volatile ("" : : "r"(locals) : "memory");
	__atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
}

static void wait_until(size_t many)
{
	while (__atomic_load_n(&inside, __ATOMIC_RELAXED) != many)
		usleep(LOOK);
}

static void peak(size_t threads, size_t locals)
{
	bytes = locals;
	for (size_t i = 0; i < threads; i++)
		check(rr_start(rr, block, NULL, NULL), "start");
	wait_until(threads);
	for (size_t i = 0; i < threads; i++)
		check(usync_sem_post(&sem), "post");
	wait_until(0);
}

int main(int argc, char **argv)
{
	struct usched_conf conf = { .c_processors = 1 };
	size_t threads, locals, seconds = 10;
	double before;

	if (argc < 3 || argc > 4)
		usage();
	threads = number(argv[1], 1, 100000000);
	locals = number(argv[2], 1, 128 << 10);
	if (argc > 3)
		seconds = number(argv[3], 1, 3600);
	check(rr_create(&conf, &rr), "scheduler");
	peak(WARM, WARM_BYTES);
	before = resident();
	peak(threads, locals);
	sleep((unsigned)seconds);
	printf("%.6f\n", (resident() - FREE) / before);
	check(rr_destroy(rr), "end");
	return 0;
}
