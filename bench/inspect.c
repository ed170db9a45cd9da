/* SPDX-License-Identifier: MIT */
/*
 * inspect.c: what a dump of many blocked threads takes, and how long it holds up others.
 *
 *	inspect THREADS [PROCESSORS [DEPTH]]
 *
 * THREADS threads wait for a semaphore, DEPTH calls deep (4). Dumps them to /dev/null
 * without and with calls, three times each, and prints the time and the CPU time of the
 * fastest. Then three times while a thread on each processor yields all the time and
 * notes for how much CPU time of the processor it was held up. Prints the number of these
 * pauses over 20 us, their 99.9th percentile, and the longest.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../rr.h"
#include "../debug/uinspect.h"
#include "../usync.h"

#define BENCH_PROGRAM "inspect"
#include "bench.h"

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: inspect THREADS [PROCESSORS [DEPTH]]\n");
	exit(2);
}

enum {
	PAUSE      = 20,                /* us: longer than a yield */
	MICRO      = 1000,              /* ns */
	DUMPS      = 3,
	PROCESSORS = 256,
	BUCKETS    = 100000,            /* us: the last counts all above */
};

static struct usync_sem   wait_here;
static struct usync_group waiting;
static size_t             depth = 4;
static uint32_t           stop;         /* atomic */
static unsigned           processors;
static uint32_t           pauses[PROCESSORS][BUCKETS];  /* counts, by us */

__attribute__((noinline)) static void descend(size_t n)
{
	volatile size_t local = n;

	if (local > 1) {
		descend(n - 1);
	} else {
		usync_group_done(&waiting);
		check(usync_sem_wait(&wait_here, USCHED_NEVER), "wait");
	}
	local = 0;
}

static void block(void *unused)
{
	(void)unused;
	descend(depth);
}

static void keep_yielding(void *counts)
{
	uint32_t *counted = counts;
	int64_t last = clock_of(CLOCK_THREAD_CPUTIME_ID);

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int64_t now, pause;

		check(ustack_yield(), "yield");
		now = clock_of(CLOCK_THREAD_CPUTIME_ID);
		pause = (now - last) / MICRO;
		counted[pause < BUCKETS ? pause : BUCKETS - 1]++;
		last = now;
	}
}

static uint64_t count_pauses(void)
{
	uint64_t all = 0;

	for (unsigned p = 0; p < processors; p++)
		for (size_t i = PAUSE; i < BUCKETS; i++)
			all += pauses[p][i];
	return all;
}

/* The pause below which so many thousandths of them are; of all processors. */
static unsigned long quantile(unsigned thousandths)
{
	uint64_t all = count_pauses(), seen = 0;
	unsigned long us = PAUSE;

	for (; us < BUCKETS; us++) {
		for (unsigned p = 0; p < processors; p++)
			seen += pauses[p][us];
		if (seen * 1000 >= all * thousandths)
			break;
	}
	return us;
}

static void measure(struct rr *rr, int fd, unsigned how, const char *what)
{
	double best = 1e9, best_cpu = 1e9;
	struct ustack *yields[PROCESSORS];

	memset(pauses, 0, sizeof pauses);
	for (int i = 0; i < DUMPS; i++) {       /* with idle processors */
		int64_t began = uevents_now();
		int64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
		double took;

		check(uinspect_dump(fd, how), "dump");
		cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		took = (double)(uevents_now() - began) / 1e9;
		best = took < best ? took : best;
		best_cpu = (double)cpu / 1e9 < best_cpu ? (double)cpu / 1e9 : best_cpu;
	}
	stop = 0;
	for (unsigned p = 0; p < processors; p++)
		check(rr_start_on(rr, p, keep_yielding, pauses[p], &yields[p]), "start");
	for (int i = 0; i < DUMPS; i++)
		check(uinspect_dump(fd, how), "dump");
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned p = 0; p < processors; p++)
		check(ustack_join(yields[p], USCHED_NEVER), "join");
	printf("%-6s %7.3f s %7.3f s CPU, %7lu pauses, 99.9 %% %5lu us, longest %lu us\n",
	       what, best, best_cpu, (unsigned long)count_pauses(), quantile(999),
	       quantile(1000));
}

int main(int argc, char **argv)
{
	size_t threads = argc > 1 ? number(argv[1], 1, UINT32_MAX) : 0;
	struct usched_conf conf = { .c_processors = 2 };
	int fd = open("/dev/null", O_WRONLY);
	struct rr *rr;

	if (argc > 2)
		conf.c_processors = (unsigned)number(argv[2], 1, PROCESSORS);
	if (argc > 3)
		depth = number(argv[3], 1, 1000);
	if (argc < 2 || argc > 4)
		usage();
	processors = conf.c_processors;
	check(rr_create(&conf, &rr), "scheduler");
	check(usync_group_add(&waiting, (uint32_t)threads), "group");
	for (size_t i = 0; i < threads; i++)
		check(rr_start(rr, block, NULL, NULL), "start");
	check(usync_group_wait(&waiting, USCHED_NEVER), "group");
	printf("%zu threads, %u processors\n", threads, processors);
	measure(rr, fd, UINSPECT_BRIEF, "names");
	measure(rr, fd, 0, "calls");
	for (size_t i = 0; i < threads; i++)
		check(usync_sem_post(&wait_here), "post");
	return rr_destroy(rr) != 0;
}
