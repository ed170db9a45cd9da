/* SPDX-License-Identifier: MIT */
/*
 * after.c: the memory that is left after a peak.
 *
 *	after [-s SECONDS] [-t] THREADS BYTES [THREADS BYTES]...
 *
 * A thousand threads of rr with a kilobyte of locals block and end, on one processor.
 * Then THREADS threads with BYTES of locals do, for each pair of numbers in turn. SECONDS
 * (10) later, or with -t a second after rr_trim(), it prints the resident memory less 16
 * MiB, divided by that before the peaks, or 0.01 if that is more; and in another line the
 * MiB before, at the last peak, and afterwards.
 */
#include <alloca.h>
#include <string.h>
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

#define LEAST 0.01

static struct rr        *rr;
static struct usync_sem  sem;
static size_t            bytes;         /* of locals */
static size_t            inside;        /* threads; atomic */
static double            most;          /* bytes at the last peak */

static void usage(void)
{
	fprintf(stderr, "usage: after [-s SECONDS] [-t] THREADS BYTES "
		"[THREADS BYTES]...\n");
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
	most = resident();
	for (size_t i = 0; i < threads; i++)
		check(usync_sem_post(&sem), "post");
	wait_until(0);
}

int main(int argc, char **argv)
{
	struct usched_conf conf = { .c_processors = 1 };
	unsigned seconds = 10;
	bool trim = false;
	double before, after, ratio;
	int option;

	while ((option = getopt(argc, argv, "s:t")) != -1) {
		if (option == 's')
			seconds = (unsigned)number(optarg, 1, 3600);
		else if (option == 't')
			trim = true;
		else
			usage();
	}
	argc -= optind;
	argv += optind;
	if (argc < 2 || argc % 2)
		usage();
	check(rr_create(&conf, &rr), "scheduler");
	peak(WARM, WARM_BYTES);
	before = resident();
	for (; argc > 0; argc -= 2, argv += 2)
		peak(number(argv[0], 1, 100000000), number(argv[1], 1, 128 << 10));
	if (trim)
		rr_trim(rr);
	sleep(trim ? 1 : seconds);
	after = resident();
	ratio = (after - FREE) / before;
	printf("%.6f\n%.1f %.1f %.1f\n", ratio > LEAST ? ratio : LEAST,
	       before / (1 << 20), most / (1 << 20), after / (1 << 20));
	check(rr_destroy(rr), "end");
	return 0;
}
