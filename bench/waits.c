/* SPDX-License-Identifier: MIT */
/*
 * waits.c: the memory of a blocked thread, by what it waits for.
 *
 *	waits [THREADS]
 *
 * For each kind of wait, THREADS threads of rr (200000) block at a shallow depth, on one
 * processor, in a process of their own. Prints the growth of its resident memory, in
 * bytes for each thread, as a table in Markdown. Stacks are in use before, so they are
 * not in it. Nor is the memory of the kernel. Waits for descriptors are measured with as
 * many threads as there are descriptors for.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../rr.h"
#include "../unet.h"
#include "../usync.h"

#define BENCH_PROGRAM "waits"
#include "bench.h"

enum {
	WARM   = 1280,                  /* threads, more than there are stacks */
	OTHERS = 64,                    /* descriptors for other uses */
	HOUR   = 3600,                  /* seconds: no wait ends before */
};

struct kind {
	const char *name;
	void      (*start)(void);       /* one thread, */
	void      (*wait)(void *arg);   /* that does this */
	bool        reads;              /* from a descriptor of its own */
};

static struct rr          *rr;
static const struct kind  *kind;
static int64_t             later;
static size_t              started;
static size_t              ended;          /* before their time */

static struct usync_sem    sem;
static struct usync_mutex  mutex, outer;
static struct usync_rwlock rwlock;
static struct usync_cond   cond;
static struct usync_group  group;
static struct usync_chan  *channel;
static int                 ends[2];        /* of a pipe */

/* Those that are joined, and the next of them. */
static struct ustack     **joined;
static size_t              next;

static void usage(void)
{
	fprintf(stderr, "usage: waits [THREADS]\n");
	exit(2);
}

static void plain(void *unused)
{
	(void)unused;
	ustack_wait();
	ended++;
}

static void wait_sem(void *unused)
{
	(void)unused;
	usync_sem_wait(&sem, USCHED_NEVER);
	ended++;
}

static void wait_sem_until(void *unused)
{
	(void)unused;
	usync_sem_wait(&sem, later);
	ended++;
}

static void lock_mutex(void *unused)
{
	(void)unused;
	usync_mutex_lock(&mutex, USCHED_NEVER);
	ended++;
}

static void lock_to_read(void *unused)
{
	(void)unused;
	usync_rwlock_read(&rwlock, USCHED_NEVER);
	ended++;
}

static void wait_cond(void *unused)
{
	(void)unused;
	usync_mutex_lock(&outer, USCHED_NEVER);
	usync_cond_wait(&cond, &outer, USCHED_NEVER);
	ended++;
}

static void wait_group(void *unused)
{
	(void)unused;
	usync_group_wait(&group, USCHED_NEVER);
	ended++;
}

static void receive(void *unused)
{
	int64_t value;

	(void)unused;
	usync_chan_recv(channel, &value, USCHED_NEVER);
	ended++;
}

static void sleep_long(void *unused)
{
	(void)unused;
	usync_sleep_until(later);
	ended++;
}

static void join(void *thread)
{
	ustack_join(thread, USCHED_NEVER);
	ended++;
}

static void join_until(void *thread)
{
	ustack_join(thread, later);
	ended++;
}

static void read_pipe(int fd, void *unused)
{
	char byte;

	(void)unused;
	unet_read(fd, &byte, 1, USCHED_NEVER);
	ended++;
}

static void read_pipe_until(int fd, void *unused)
{
	char byte;

	(void)unused;
	unet_read(fd, &byte, 1, later);
	ended++;
}

static void start_one(void)
{
	check(rr_start(rr, kind->wait, NULL, NULL), "start");
}

static void start_join(void)
{
	check(rr_start(rr, kind->wait, joined[next++], NULL), "start");
}

/* Each has a descriptor of its own, of the one pipe. */
static void start_pipe(void (*read)(int fd, void *unused))
{
	int fd = dup(ends[0]);

	check(fd < 0 ? -errno : 0, "pipe");
	check(rr_start_fd(rr, read, fd, NULL, NULL), "start");
}

static void start_read(void)
{
	start_pipe(read_pipe);
}

static void start_read_until(void)
{
	start_pipe(read_pipe_until);
}

static const struct kind kinds[] = {
	{ "`ustack_wait()`", start_one, plain, false },
	{ "semaphore", start_one, wait_sem, false },
	{ "semaphore, with a deadline", start_one, wait_sem_until, false },
	{ "mutex", start_one, lock_mutex, false },
	{ "reader-writer lock, to read", start_one, lock_to_read, false },
	{ "condition", start_one, wait_cond, false },
	{ "group", start_one, wait_group, false },
	{ "channel, 8 bytes", start_one, receive, false },
	{ "sleep", start_one, sleep_long, false },
	{ "join", start_join, join, false },
	{ "join, with a deadline", start_join, join_until, false },
	{ "read from a pipe", start_read, NULL, true },
	{ "read from a pipe, with a deadline", start_read_until, NULL, true },
};

/* Starts `n' threads, and runs all until they are blocked. */
static void start(size_t n, void (*start_it)(void))
{
	struct usched_stats stats;
	int rc;

	for (size_t i = 0; i < n; i++)
		start_it();
	started += n;
	do {
		rc = rr_run(rr);                /* for a millisecond */
		rr_stats(rr, &stats);
	} while (rc >= 0 && stats.s_launches < started);
	check(rc < 0 ? rc : 0, "run");
	check(ended > 0 ? -EINVAL : 0, "a wait that ended");
}

static void start_joined(void)
{
	check(rr_start(rr, plain, NULL, &joined[next++]), "start");
}

static size_t threads_for(size_t threads)
{
	size_t most;

	if (!kind->reads)
		return threads;
	most = raise_limit();
	if (most <= WARM + OTHERS)
		fail("descriptors", -EMFILE);
	most -= WARM + OTHERS;
	return threads < most ? threads : most;
}

/* In a process of its own, which ends with the threads in it. */
static _Noreturn void measure(size_t threads)
{
	struct usched_conf conf = { .c_processors = 1, .c_embed = 1 };
	double bytes;

	threads = threads_for(threads);
	later = usync_after(HOUR * USYNC_SECOND);
	check(rr_create(&conf, &rr), "scheduler");
	check(usync_mutex_lock(&mutex, USCHED_NEVER), "mutex");
	check(usync_rwlock_write(&rwlock, USCHED_NEVER), "lock");
	check(usync_group_add(&group, 1), "group");
	check(usync_chan_create(sizeof(int64_t), 0, &channel), "channel");
	check(pipe(ends) ? -errno : 0, "pipe");
	if (kind->start == start_join) {
		joined = malloc((WARM + threads) * sizeof *joined);
		check(joined ? 0 : -ENOMEM, "threads");
		start(WARM + threads, start_joined);
		next = 0;
	}
	start(WARM, kind->start);
	bytes = resident();
	start(threads, kind->start);
	bytes = resident() - bytes;
	printf("| %s | %.0f |\n", kind->name, bytes > 0 ? bytes / (double)threads : 0);
	fflush(stdout);
	_Exit(0);
}

int main(int argc, char **argv)
{
	size_t threads = 200000;

	if (argc > 2)
		usage();
	if (argc == 2)
		threads = number(argv[1], 1, SIZE_MAX / sizeof(struct ustack *) / 2);
	printf("| wait | bytes |\n|---|---|\n");
	fflush(stdout);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		pid_t child = fork();
		int status;

		kind = &kinds[i];
		if (child == 0)
			measure(threads);
		if (child < 0 || waitpid(child, &status, 0) < 0)
			fail("process", -errno);
		if (status)
			return 1;
	}
	return 0;
}
