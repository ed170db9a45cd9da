/* SPDX-License-Identifier: MIT */
/*
 * measure_many.c: the measurements of measure.c with many blocked threads.
 */
#include <alloca.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/times.h>
#include <sys/wait.h>

#include "../unet.h"
#include "../usync.h"
#include "../debug/uinspect.h"
#include "measure.h"

enum { LOOK = 1000 };                   /* us */

static struct usync_sem sem;
static size_t           inside;         /* threads; atomic */

static void block(void)
{
	__atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED);
	check(usync_sem_wait(&sem, USCHED_NEVER), "wait");
	__atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
}

static void wait_until(size_t many)
{
	while (__atomic_load_n(&inside, __ATOMIC_RELAXED) != many)
		usleep(LOOK);
}

static void post(size_t threads)
{
	for (size_t i = 0; i < threads; i++)
		check(usync_sem_post(&sem), "post");
}

/* Blocks so many calls deep. */
static __attribute__((noinline)) void descend(uintptr_t depth)
{
	volatile uintptr_t local = depth;

	if (local > 1)
		descend(depth - 1);
	else
		block();
	local = 0;
}

static void block_deep(void *depth)
{
	descend((uintptr_t)depth);
}

/*
 * after: the memory that is left after a peak, on one processor. A thousand threads with
 * a kilobyte of locals block and end. Then THREADS threads with BYTES of locals do, for
 * each pair of numbers in turn. SECONDS later it prints the resident memory less 16 MiB,
 * divided by that before the peaks, or 0.01 if that is more; and in another line the MiB
 * before, at the last peak, and afterwards.
 */
enum {
	WARM_THREADS = 1000,
	WARM_BYTES   = 1 << 10,
	FREE         = 16 << 20,        /* bytes: what caches may keep */
};

#define LEAST 0.01

static void block_with_locals(void *bytes)
{
	char *locals = alloca((uintptr_t)bytes);

	memset(locals, 1, (uintptr_t)bytes);
	block();
	__asm__ volatile ("" : : "r"(locals) : "memory");
}

/* Returns the bytes in memory while all are blocked. */
static double peak(size_t threads, size_t bytes)
{
	double most;

	for (size_t i = 0; i < threads; i++)
		start(block_with_locals, (void *)bytes);
	wait_until(threads);
	most = resident();
	post(threads);
	wait_until(0);
	return most;
}

void after(void)
{
	unsigned seconds = (unsigned)argument(0, 1, 3600, 0);
	double before, most = 0, left, ratio;

	if (argument_count % 2 == 0)
		usage();
	create((struct uprocs_conf){ .c_processors = 1 });
	peak(WARM_THREADS, WARM_BYTES);
	before = resident();
	for (int i = 1; i < argument_count; i += 2)
		most = peak(argument(i, 1, 100000000, 0),
			    argument(i + 1, 1, 128 << 10, 0));
	sleep(seconds);
	left = resident();
	ratio = (left - FREE) / before;
	printf("%.6f\n%.1f %.1f %.1f\n", ratio > LEAST ? ratio : LEAST,
	       before / (1 << 20), most / (1 << 20), left / (1 << 20));
	destroy();
}

/*
 * waits: the memory of a blocked thread, by what it waits for. For each kind of wait,
 * threads block at a shallow depth, on one processor, in a process of their own. Prints
 * the growth of its resident memory, in bytes for each thread, as a table in Markdown.
 * Stacks are in use before, so they are not in it. Nor is the memory of the kernel. Waits
 * for descriptors are measured with as many threads as there are descriptors for.
 */
enum {
	WARM   = 1280,                  /* threads, more than there are stacks */
	OTHERS = 64,                    /* descriptors for other uses */
	HOUR   = 3600,                  /* seconds: no wait ends before */
};

static int64_t             deadline;
static size_t              started;
static size_t              ended;       /* before their time */
static struct usync_mutex  mutex, outer;
static struct usync_rwlock rwlock;
static struct usync_cond   cond;
static struct usync_group  group;
static struct usync_chan  *channel;
static int                 ends[2];     /* of a pipe */
static struct ustack     **joined;      /* threads for join(), else NULL */

/* A thread's function that waits in a call. Only some calls need arg and received. */
#define WAIT(name, call) \
	static void name(void *arg) \
	{ \
		int64_t received; \
		(void)arg, (void)&received; \
		call; \
		ended++; \
	}

WAIT(wait_alone, ustack_wait())
WAIT(wait_sem, usync_sem_wait(&sem, deadline))
WAIT(lock_mutex, usync_mutex_lock(&mutex, deadline))
WAIT(lock_to_read, usync_rwlock_read(&rwlock, deadline))
WAIT(wait_cond, usync_mutex_lock(&outer, deadline);
	usync_cond_wait(&cond, &outer, deadline))
WAIT(wait_group, usync_group_wait(&group, deadline))
WAIT(receive, usync_chan_recv(channel, &received, deadline))
WAIT(sleep_long, usync_sleep_until(deadline))
WAIT(join, ustack_join(arg, NULL, deadline))
WAIT(read_pipe, unet_read(dup(ends[0]), &received, 1, deadline))

static const struct kind {
	const char *k_name;
	void      (*k_wait)(void *arg);
	bool        k_timed;            /* with a deadline */
} kinds[] = {
	{ "`ustack_wait()`", wait_alone, false },
	{ "semaphore", wait_sem, false },
	{ "semaphore, with a deadline", wait_sem, true },
	{ "mutex", lock_mutex, false },
	{ "reader-writer lock, to read", lock_to_read, false },
	{ "condition", wait_cond, false },
	{ "group", wait_group, false },
	{ "channel, 8 bytes", receive, false },
	{ "sleep", sleep_long, true },
	{ "join", join, false },
	{ "join, with a deadline", join, true },
	{ "read from a pipe", read_pipe, false },
	{ "read from a pipe, with a deadline", read_pipe, true },
};

/* Runs all until they are blocked, with some more than before. */
static void run_until_blocked(size_t more)
{
	struct usched_stats stats;
	int rc;

	started += more;
	do {
		rc = uprocs_run(rr);                /* for a millisecond */
		uprocs_stats(rr, &stats);
	} while (rc >= 0 && stats.st_launches < started);
	check(rc < 0 ? rc : 0, "run");
	check(ended > 0 ? -EINVAL : 0, "a wait that ended");
}

static void start_waits(void (*func)(void *), size_t n)
{
	static size_t joins;

	for (size_t i = 0; i < n; i++)
		start(func, joined ? joined[joins++] : NULL);
	run_until_blocked(n);
}

static void make_joined(size_t n)
{
	joined = malloc(n * sizeof *joined);
	check(joined ? 0 : -ENOMEM, "threads");
	for (size_t i = 0; i < n; i++)
		check(rr_start(rr, wait_alone, NULL, &joined[i]), "start");
	run_until_blocked(n);
}

static void measure_kind(const struct kind *kind, size_t threads)
{
	double bytes;

	if (kind->k_wait == read_pipe && threads > raise_limit() - WARM - OTHERS)
		threads = raise_limit() - WARM - OTHERS;
	deadline = kind->k_timed ? usync_after(HOUR * USYNC_SECOND) : USCHED_NEVER;
	create((struct uprocs_conf){ .c_processors = 1, .c_embed = 1 });
	check(usync_mutex_lock(&mutex, USCHED_NEVER), "mutex");
	check(usync_rwlock_write(&rwlock, USCHED_NEVER), "lock");
	check(usync_group_add(&group, 1), "group");
	check(usync_chan_create(sizeof(int64_t), 0, &channel), "channel");
	need(!pipe(ends), "pipe");
	if (kind->k_wait == join)
		make_joined(WARM + threads);
	start_waits(kind->k_wait, WARM);
	bytes = resident();
	start_waits(kind->k_wait, threads);
	bytes = resident() - bytes;
	printf("| %s | %.0f |\n", kind->k_name, bytes > 0 ? bytes / (double)threads : 0);
}

/* Each kind in a process of its own, which ends with the threads in it. */
void waits(void)
{
	size_t threads = argument(0, 1, SIZE_MAX / sizeof *joined / 2, 200000);

	printf("| wait | bytes |\n|---|---|\n");
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		int status;

		fflush(stdout);
		if (fork() == 0) {
			measure_kind(&kinds[i], threads);
			fflush(stdout);
			_Exit(0);
		}
		need(wait(&status) >= 0, "process");
		if (status)
			exit(1);
	}
}

/*
 * inspect: what a dump of many blocked threads takes, and how long it holds up others.
 * THREADS threads wait for a semaphore, DEPTH calls deep. Dumps them to /dev/null without
 * and with calls, three times each, and prints the time and the CPU time of the fastest.
 * Then three times while a thread on each processor yields all the time and notes for how
 * much CPU time of the processor it was held up. Prints the number of these pauses over
 * 20 us, their 99.9th percentile, and the longest.
 */
enum {
	PAUSE      = 20 * MICRO,        /* longer than a yield */
	DUMPS      = 3,
	PROCESSORS = 256,
};

static struct times pauses;
static bool         over;               /* atomic */

static void keep_yielding(void *unused)
{
	int64_t t, last = clock_of(CLOCK_THREAD_CPUTIME_ID);

	(void)unused;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		check(ustack_yield(), "yield");
		t = clock_of(CLOCK_THREAD_CPUTIME_ID);
		if (t - last >= PAUSE)
			add(&pauses, t - last);
		last = t;
	}
}

/* Dumps several times. Gets the ns of the fastest, by two clocks. */
static void dump(unsigned how, int64_t *best, int64_t *best_cpu)
{
	int fd = open("/dev/null", O_WRONLY);

	*best = *best_cpu = INT64_MAX;
	for (int i = 0; i < DUMPS; i++) {
		int64_t t = uevents_now(), cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);

		check(uinspect_dump(fd, how), "dump");
		cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		t = uevents_now() - t;
		*best = t < *best ? t : *best;
		*best_cpu = cpu < *best_cpu ? cpu : *best_cpu;
	}
	close(fd);
}

static void measure_dump(unsigned how, const char *what, unsigned processors)
{
	struct ustack *yields[PROCESSORS];
	struct ustack_how on = { 0 };
	int64_t best, best_cpu, unused;

	dump(how, &best, &best_cpu);            /* with idle processors */
	memset(&pauses, 0, sizeof pauses);
	over = false;
	for (unsigned p = 0; p < processors; p++) {
		on.h_processor = USCHED_ON(p);
		check(rr_start_with(rr, &on, keep_yielding, NULL, &yields[p]), "start");
	}
	dump(how, &unused, &unused);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (unsigned p = 0; p < processors; p++)
		check(ustack_join(yields[p], NULL, USCHED_NEVER), "join");
	printf("%-6s %7.3f s %7.3f s CPU, %7lu pauses, 99.9 %% %5ld us, longest %ld us\n",
	       what, (double)best / 1e9, (double)best_cpu / 1e9, count_of(&pauses),
	       percentile(&pauses, 0.999), percentile(&pauses, 1));
}

void inspect(void)
{
	size_t threads = argument(0, 1, UINT32_MAX, 0), depth = argument(2, 1, 1000, 4);
	unsigned processors = (unsigned)argument(1, 1, PROCESSORS, 2);

	create((struct uprocs_conf){ .c_processors = processors });
	for (size_t i = 0; i < threads; i++)
		start(block_deep, (void *)depth);
	wait_until(threads);
	printf("%zu threads, %u processors\n", threads, processors);
	measure_dump(UINSPECT_BRIEF, "names", processors);
	measure_dump(0, "calls", processors);
	post(threads);
	destroy();
}

/*
 * outside: how long tools/uthreads takes to show the threads of a process. THREADS
 * threads with names block a few calls deep, on two processors, and `uthreads ps' lists
 * them, or `uthreads bt' shows where each is. Prints seconds of time and of CPU time. The
 * aims are 20 s for a million with ps and 10 s for 10,000 with bt. Runs tools/uthreads of
 * the current directory.
 */
enum { DEPTHS = 8 };

void outside(void)
{
	size_t threads = argument(1, 1, 10000000, 0);
	char line[100], name[USTACK_NAME_MAX];
	struct tms used;
	double began;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);      /* some systems want that */
	create((struct uprocs_conf){ .c_processors = 2 });
	for (size_t i = 0; i < threads; i++) {
		struct ustack *u;

		snprintf(name, sizeof name, "worker %zu", i);
		check(rr_start(rr, block_deep, (void *)(i % DEPTHS), &u), "start");
		check(ustack_name(u, name), "name");
	}
	wait_until(threads);
	snprintf(line, sizeof line, "tools/uthreads %.40s %ld >/dev/null", arguments[0],
		 (long)getpid());
	began = now();
	if (system(line) != 0)
		fail(line, -ECHILD);
	began = now() - began;
	times(&used);
	printf("%s: %zu threads, %.1f s, %.1f s CPU\n", arguments[0], threads, began,
	       (double)(used.tms_cutime + used.tms_cstime) /
	       (double)sysconf(_SC_CLK_TCK));
	fflush(stdout);
	_Exit(0);                               /* with the threads in it */
}
