/* SPDX-License-Identifier: MIT */
/*
 * outside.c: how long tools/uthreads takes to show the threads of a process.
 *
 *	outside [THREADS [TRACES]]
 *
 * THREADS threads of rr (1000000) with names block a few calls deep, on two processors,
 * and `uthreads ps' lists them. Then TRACES threads (10000) do, and `uthreads bt' shows
 * where each is. Prints seconds of time and of CPU time, as a table in Markdown. The aims
 * are 20 s and 10 s. Runs tools/uthreads of the current directory.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../rr.h"

#define BENCH_PROGRAM "outside"
#include "bench.h"

enum {
	DEPTHS = 8,
	MOMENT = 100000,                /* us: for the last thread to block */
	MOST   = 10000000,              /* threads */
};

static volatile int sink;

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: outside [THREADS [TRACES]]\n");
	exit(2);
}

__attribute__((noinline)) static void descend(uintptr_t depth)
{
	if (depth > 0)
		descend(depth - 1);
	else
		ustack_wait();
	sink++;
}

static void work(void *number)
{
	descend((uintptr_t)number % DEPTHS);
}

static void start(size_t threads)
{
	struct usched_conf conf = { .c_processors = 2 };
	struct usched_stats stats;
	struct rr *rr;
	int rc = rr_create(&conf, &rr);

	if (rc)
		fail("rr_create", rc);
	rr_hold(rr);
	for (size_t i = 0; i < threads; i++) {
		char name[USTACK_NAME_MAX];
		struct ustack *u;

		snprintf(name, sizeof name, "worker %zu", i);
		rc = rr_start(rr, work, (void *)i, &u);
		if (rc == 0)
			rc = ustack_name(u, name);
		if (rc)
			fail("rr_start", rc);
	}
	do {
		usleep(MOMENT);
		rr_stats(rr, &stats);
	} while (stats.s_launches < threads);
	usleep(MOMENT);
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* In a process of its own: with that many threads, runs the command on itself. */
static void measure(const char *command, size_t threads)
{
	struct rusage used;
	char line[128];
	double began;
	int status;

	if (fork() != 0) {
		if (wait(&status) < 0 || status != 0)
			exit(1);
		return;
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);      /* some systems want that */
	start(threads);
	snprintf(line, sizeof line, "tools/uthreads %s %ld >/dev/null", command,
		 (long)getpid());
	began = now();
	if (system(line) != 0)
		fail(line, -ECHILD);
	began = now() - began;
	getrusage(RUSAGE_CHILDREN, &used);
	printf("| %s | %zu | %.1f | %.1f |\n", command, threads, began,
	       seconds(used.ru_utime) + seconds(used.ru_stime));
	fflush(stdout);
	_Exit(0);
}

int main(int argc, char **argv)
{
	size_t threads = argc > 1 ? number(argv[1], 1, MOST) : 1000000;
	size_t traces = argc > 2 ? number(argv[2], 1, MOST) : 10000;

	if (argc > 3)
		usage();
	printf("| uthreads | threads | s | CPU s |\n|---|---|---|---|\n");
	fflush(stdout);
	measure("ps", threads);
	measure("bt", traces);
	return 0;
}
