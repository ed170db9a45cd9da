/* SPDX-License-Identifier: MIT */
/*
 * night.c: programs with mistakes. doc/debugging.md finds these; test_debugging.py runs
 * its commands.
 *
 *	night MISTAKE
 *
 * Most print "ready" when the mistake can be seen, and stay.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rr.h"
#include "debug/uinspect.h"
#include "debug/uoverflow.h"
#include "usync.h"

enum {
	CLIENTS   = 40,
	CROWD     = 5000,               /* threads that are forgotten */
	CRASH     = 100,                /* times that it is served before */
	LIFE      = 1000,               /* seconds: no test needs more */
	MOMENT    = 100000,             /* us: in which threads block, times $TIMES */
	BLOCK     = 20,                 /* ms: a block is compressed */
	LOCAL     = 2000,               /* bytes */
	DEEP      = 1000000,            /* calls: more than a stack has room for */
};

void ask(void *arg);
void await_answer(void *unused);
void store(void *arg);
void backup(void *arg);
void compress(void *arg);
void compress_blocks(void *arg);
void log_line(void *arg);
void log_entry(void *arg);
void serve(void *arg);
void forgotten(void *arg);
void share(void *arg);
void parse(void *arg);
int  nested(int depth);

static struct uprocs         *rr;
static struct usync_mutex north, south;
static struct usync_sem   replies, never;
static struct usync_mutex *shared;
static volatile int       sink;
static int                crashes;
static int                moment = MOMENT;

static void start(unsigned on, void (*func)(void *), void *arg, const char *name)
{
	const struct ustack_how how = { .h_processor = USCHED_ON(on), .h_name = name };

	if (rr_start_with(rr, &how, func, arg, NULL))
		exit(1);
}

/* Each has sent a query, and waits for the reply. */
void ask(void *arg)
{
	usync_sem_wait(arg, USCHED_NEVER);
	sink++;
}

/* Nobody else knows the query. */
void await_answer(void *unused)
{
	struct usync_sem *answer = calloc(1, sizeof *answer);

	(void)unused;
	usync_sem_wait(answer, USCHED_NEVER);
	free(answer);
}

/* With backup(), in another order. */
void store(void *arg)
{
	(void)arg;
	usync_mutex_lock(&north, USCHED_NEVER);
	usync_sleep_until(usync_after(moment * INT64_C(1000)));
	usync_mutex_lock(&south, USCHED_NEVER);
	sink++;
}

void backup(void *arg)
{
	(void)arg;
	usync_mutex_lock(&south, USCHED_NEVER);
	usync_sleep_until(usync_after(moment * INT64_C(1000)));
	usync_mutex_lock(&north, USCHED_NEVER);
	sink++;
}

void compress(void *arg)
{
	(void)arg;
	for (;;)
		sink++;
}

/* It gives way, but seldom. */
void compress_blocks(void *arg)
{
	(void)arg;
	for (;;) {
		int64_t end = usync_after(BLOCK * 1000000);

		while (usync_after(0) < end)
			sink++;
		ustack_yield();
	}
}

/* A native call, which blocks its processor. */
void log_line(void *arg)
{
	(void)arg;
	for (;;)
		sleep(LIFE);
}

/* The next one that wants the mutex blocks the processor: this one never goes on. */
void log_entry(void *arg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	(void)arg;
	pthread_mutex_lock(&lock);
	usync_sleep_until(usync_after(moment * INT64_C(1000)));
	pthread_mutex_unlock(&lock);
}

/* A client: it is served each millisecond. Or it waits for others, and one crashes. */
void serve(void *arg)
{
	int n = *(int *)arg;

	if (crashes && n > 0)
		usync_sem_wait(&replies, USCHED_NEVER);
	for (int i = 0;; i++) {
		usync_sleep_until(usync_after(USYNC_SECOND / 1000));
		if (crashes && i == CRASH)
			abort();
	}
}

void forgotten(void *arg)
{
	volatile char buffer[LOCAL];

	for (int i = 0; i < LOCAL; i++)
		buffer[i] = 1;
	usync_sem_wait(arg, USCHED_NEVER);
	sink += buffer[LOCAL / 2];
}

/* The mutex is on this stack, where other threads run. */
void share(void *arg)
{
	struct usync_mutex mine;

	(void)arg;
	memset(&mine, 0, sizeof mine);
	shared = &mine;
	usync_mutex_lock(shared, USCHED_NEVER);
	usync_mutex_unlock(shared);
}

__attribute__((noinline)) int nested(int depth)
{
	volatile char local[LOCAL];

	local[0] = (char)depth;
	return depth == 0 ? 0 : nested(depth - 1) + local[0];
}

void parse(void *arg)
{
	(void)arg;
	sink = nested(DEEP);
}

static void start_clients(unsigned on, void (*func)(void *), int n)
{
	static int numbers[CLIENTS];
	char name[32];

	for (int i = 0; i < n; i++) {
		numbers[i] = i;
		snprintf(name, sizeof name, "client %d", i);
		start(on, func, &numbers[i], name);
	}
}

/* Threads come, wait, and end. */
static void peak(void)
{
	for (int i = 0; i < CROWD; i++)
		start(0, forgotten, &never, NULL);
	usleep((useconds_t)moment);
	for (int i = 0; i < CROWD; i++)
		usync_sem_post(&never);
	usleep((useconds_t)moment);
}

static void resident(const char *when)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%*s %ld", &pages) == 1)
		printf("%s: %ld KB\n", when, pages * (sysconf(_SC_PAGESIZE) / 1024));
	if (file)
		fclose(file);
}

static void begin(const char *mistake)
{
	if (strcmp(mistake, "hang") == 0) {
		for (int i = 0; i < CLIENTS; i++)
			start((unsigned)i % 2, ask, &replies, NULL);
	} else if (strcmp(mistake, "lost") == 0) {
		for (int i = 0; i < CLIENTS; i++)
			start((unsigned)i % 2, await_answer, NULL, NULL);
	} else if (strcmp(mistake, "deadlock") == 0) {
		start(0, store, NULL, "store");
		start(1, backup, NULL, "backup");
	} else if (strcmp(mistake, "busy") == 0) {
		start_clients(0, serve, 5);
		start(0, compress, NULL, "compress");
	} else if (strcmp(mistake, "slow") == 0) {
		start_clients(0, serve, 5);
		start(0, compress_blocks, NULL, "compress");
	} else if (strcmp(mistake, "native") == 0) {
		start(0, log_line, NULL, "log");
		start_clients(0, serve, 5);
	} else if (strcmp(mistake, "mutex") == 0) {
		start(0, log_entry, NULL, "entry");
		start(0, log_entry, NULL, "next");
	} else if (strcmp(mistake, "crowd") == 0) {
		for (int i = 0; i < CROWD; i++)
			start(0, forgotten, &never, NULL);
	} else if (strcmp(mistake, "crash") == 0) {
		crashes = 1;
		start_clients(0, serve, CLIENTS);
	} else if (strcmp(mistake, "pointer") == 0) {
		start(0, share, NULL, "share");
	} else if (strcmp(mistake, "overflow") == 0) {
		uoverflow_install();
		start(0, parse, NULL, "parse");
	}
}

int main(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	const char *mistake = argc == 2 ? argv[1] : "";

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);      /* some systems want that */
	if (rr_create(&conf, &rr) || uinspect_install(SIGQUIT))
		return 1;
	if (strcmp(mistake, "deadlock") != 0)
		uprocs_hold(rr, 1);             /* nothing is taken for a deadlock */
	if (getenv("TIMES"))
		moment *= atoi(getenv("TIMES"));
	alarm(LIFE);
	begin(mistake);
	if (strcmp(mistake, "peak") == 0) {
		peak();
		resident("after the peak");
		sleep(10);
		malloc_trim(0);
		resident("10 seconds later");
		return 0;
	}
	if (strcmp(mistake, "deadlock") == 0)
		return uprocs_destroy(rr, USCHED_NEVER) != 0;
	usleep(2 * (useconds_t)moment);
	puts("ready");
	fflush(stdout);
	for (;;)                                /* SIGQUIT ends a pause() */
		pause();
}
