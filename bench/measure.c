/* SPDX-License-Identifier: MIT */
/*
 * measure.c: single measurements, each of one property of the library.
 *
 *	measure WHAT [ARGUMENT...]
 *
 * Without arguments it lists what there is. Each measurement is a section, the head of
 * which says what it prints; those with many blocked threads are in measure_many.c. They
 * have no peers: bench.sh runs what other systems do, too.
 */
#include <limits.h>
#include <pthread.h>

#include "../ll.h"
#include "../usync.h"
#include "measure.h"

int    argument_count;
char **arguments;

static int64_t      end;                /* a time of uevents_now() */
static int64_t      computation;        /* ns */
static struct times lateness;

static void print_times(const struct times *t)
{
	printf("p50_us=%ld p99_us=%ld max_us=%ld", percentile(t, 0.5),
	       percentile(t, 0.99), percentile(t, 1));
}

/*
 * slow: how long a thread that computes delays the others. THREADS sleep a millisecond at
 * a time and note how late they run. Meanwhile one thread computes for some milliseconds
 * and sleeps as long, again and again; with 0 there is none. Prints the median, the 99th
 * percentile, and the largest delay. Without preemption the largest is one computation.
 *
 * late: how late a timer is beside threads that compute and yield, on one processor.
 * One thread sleeps likewise. Prints the ms that a part of these sleeps ended late at
 * most. A fair queue has a delay of the threads times their computation.
 */
static void compute(void *sleeps)
{
	while (uevents_now() < end) {
		int64_t until = uevents_now() + computation;

		spin_until(until);
		check(sleeps ? usync_sleep_until(until + computation) : ustack_yield(),
		      "wait");
	}
}

static void tick(void *unused)
{
	int64_t due = uevents_now();

	(void)unused;
	while (due < end) {
		int64_t ns;

		due += MILLI;
		check(usync_sleep_until(due), "sleep");
		ns = uevents_now() - due;
		add(&lateness, ns);
		due += ns / MILLI * MILLI;      /* missed ones are left out */
	}
}

/* Runs threads that tick and others that compute, with such an argument. */
static void run_ticks(unsigned processors, size_t ticks, size_t computing, void *sleeps,
		      size_t seconds)
{
	end = uevents_now() + (int64_t)seconds * 1000 * MILLI;
	create((struct uprocs_conf){ .c_processors = processors });
	while (computing-- > 0)
		start(compute, sleeps);
	while (ticks-- > 0)
		start(tick, NULL);
	destroy();
}

static void slow(void)
{
	size_t ms = argument(0, 0, 1000, 0);

	computation = (int64_t)ms * MILLI;
	run_ticks((unsigned)argument(3, 1, 1024, 1), argument(1, 1, 1000000, 0), ms > 0,
		  &lateness, argument(2, 1, 3600, 0));
	print_times(&lateness);
	printf("\n");
}

static void late(void)
{
	double part = (double)argument(0, 1, 999, 0) / 1000;

	computation = (int64_t)argument(2, 1, 1000000, 0) * MICRO;
	run_ticks(1, 1, argument(1, 1, 1000, 0), NULL, argument(3, 1, 3600, 1));
	printf("%.3f\n", (double)percentile(&lateness, part) / 1000);
}

/*
 * slice: how long one thread runs while others are ready, and what slices cost. Threads
 * of one processor compute and yield, again and again: without slices, with
 * ustack_check() in each round of their loops, and in a region of ustack_preemptible().
 * These take turns, for SECONDS each in all. Prints for each how long a thread ran before
 * another one did, by the clock and in CPU time, how often threads gave way before they
 * were done, and the CPU time of the same work, the monitor's included, beside that
 * without slices (the median of the turns). At last, what one ustack_check() takes.
 */
enum {
	TURNS  = 9,                     /* of each mode */
	ROUNDS = 5000,                  /* of a loop, between looks at what runs: 10 us */
	CALLS  = 100000000,
};

enum mode { NONE, CHECK, REGION, MODES };

static const char *const modes[MODES] = { "none", "check", "region" };

static enum mode mode;
static int64_t   chunks_at_once;
static uint64_t  value = 88172645463325252u;

/* The thread that runs, and since when. */
static volatile uintptr_t running;
static volatile int64_t   since, cpu_since;
static volatile uint64_t  chunks;       /* computed */

static struct result {
	struct times r_clock, r_cpu;
	uint64_t     r_preempted;
	double       r_cost[TURNS];     /* ns of CPU time for a chunk */
} results[MODES];

__attribute__((noinline)) static uint64_t plain(uint64_t x, long n)
{
	while (n-- > 0)
		x = next_of(x);
	return x;
}

__attribute__((noinline)) static uint64_t checking(uint64_t x, long n)
{
	while (n-- > 0) {
		x = next_of(x);
		ustack_check();
	}
	return x;
}

/* Notes how long the thread that ran before did. */
static void look(uintptr_t me)
{
	int64_t t, cpu;

	if (running == me)
		return;
	t = clock_of(CLOCK_MONOTONIC);
	cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	if (running) {
		add(&results[mode].r_clock, t - since);
		add(&results[mode].r_cpu, cpu - cpu_since);
	}
	since = t;
	cpu_since = cpu;
	running = me;
}

static void compute_chunks(void *me)
{
	uint64_t x = value;

	while (uevents_now() < end) {
		int before = mode == REGION ? ustack_preemptible(1) : 0;

		for (int64_t i = 0; i < chunks_at_once; i++) {
			look((uintptr_t)me);
			x = mode == CHECK ? checking(x, ROUNDS) : plain(x, ROUNDS);
			chunks++;
		}
		if (mode == REGION)
			ustack_preemptible(before);
		if (before < 0)
			fail("region", before);
		check(ustack_yield(), "yield");
	}
	value ^= x;
}

static void run_mode(size_t turn, size_t threads, int64_t ns, unsigned slice)
{
	struct result *r = &results[mode];
	struct usched_stats stats;
	int64_t cpu;

	create((struct uprocs_conf){ .c_processors = 1, .c_slice = mode ? slice : 0 });
	running = 0;
	chunks = 0;
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	end = uevents_now() + ns;
	for (uintptr_t i = 1; i <= threads; i++)
		check(rr_start(rr, compute_chunks, (void *)i, NULL), "start");
	usleep((useconds_t)(ns / MICRO));
	uprocs_stats(rr, &stats);
	destroy();
	cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	r->r_preempted += stats.st_preempted;
	r->r_cost[turn] = (double)cpu / (double)chunks;
}

static double median(double *values)
{
	qsort(values, TURNS, sizeof *values, compare_doubles);
	return values[TURNS / 2];
}

static void print_mode(const char *name, const struct result *r)
{
	double ratios[TURNS];

	for (int i = 0; i < TURNS; i++)
		ratios[i] = r->r_cost[i] / results[NONE].r_cost[i];
	printf("%-6s ", name);
	print_times(&r->r_clock);
	printf(" cpu_p99_us=%ld preempted=%llu cost=%.4f\n", percentile(&r->r_cpu, 0.99),
	       (unsigned long long)r->r_preempted, median(ratios));
}

/* ns of CPU time that ustack_check() adds to a round of the loop. */
static double check_cost(void)
{
	double costs[TURNS];

	for (int i = 0; i < TURNS; i++) {
		int64_t a = clock_of(CLOCK_PROCESS_CPUTIME_ID), b;

		value = plain(value, CALLS / TURNS);
		b = clock_of(CLOCK_PROCESS_CPUTIME_ID);
		value = checking(value, CALLS / TURNS);
		costs[i] = (double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - 2 * b + a)
			/ (CALLS / TURNS);
	}
	return median(costs);
}

/* How many chunks take so many milliseconds of CPU time. */
static int64_t chunks_in(size_t ms)
{
	int64_t began = clock_of(CLOCK_THREAD_CPUTIME_ID);

	value = plain(value, CALLS / TURNS);
	return (int64_t)ms * MILLI * (CALLS / TURNS / ROUNDS)
		/ (clock_of(CLOCK_THREAD_CPUTIME_ID) - began);
}

static void slice(void)
{
	size_t ms = argument(0, 1, 1000, 0), threads = argument(1, 2, 1000, 0);
	int64_t ns = (int64_t)argument(2, 1, 3600, 0) * 1000 * MILLI / TURNS;
	unsigned length = (unsigned)argument(3, 10, 1000000, 0) * MICRO;

	chunks_at_once = chunks_in(ms);
	for (size_t i = 0; i < TURNS; i++)
		for (mode = 0; mode < MODES; mode++)
			run_mode(i, threads, ns, length);
	for (mode = 0; mode < MODES; mode++)
		print_mode(modes[mode], &results[mode]);
	printf("check_ns=%.3f value=%llu\n", check_cost(), (unsigned long long)value);
}

/*
 * contend: a mutex for which two processors compete. Two threads of ll on two processors,
 * or two native threads, lock a mutex, hold it for some ns, and leave it for as long,
 * again and again. Prints the locks per millisecond.
 */
static struct usync_mutex mutex;
static pthread_mutex_t    native_mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t             locks[2][16];         /* the first of each counts */
static bool               natively, over;      /* over: atomic */

static void pass_time(void)
{
	if (computation > 0)
		spin_until(uevents_now() + computation);
}

static void compete(void *arg)
{
	size_t *counted = arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		if (natively)
			pthread_mutex_lock(&native_mutex);
		else
			check(usync_mutex_lock(&mutex, USCHED_NEVER), "lock");
		++*counted;
		pass_time();
		if (natively)
			pthread_mutex_unlock(&native_mutex);
		else
			usync_mutex_unlock(&mutex);
		pass_time();
	}
}

static void *compete_natively(void *arg)
{
	compete(arg);
	return NULL;
}

static void contend(void)
{
	struct uprocs_conf conf = { .c_processors = 2 };
	unsigned ms = (unsigned)argument(2, 1, 60000, 0);
	pthread_t threads[2];
	struct uprocs *ll;

	computation = (int64_t)argument(1, 0, MILLI, 0);
	natively = strcmp(arguments[0], "pthread") == 0;
	if (!natively && strcmp(arguments[0], "usync") != 0)
		usage();
	check(ll_create(&conf, &ll), "scheduler");
	for (int i = 0; i < 2; i++)
		check(natively ?
		      -pthread_create(&threads[i], NULL, compete_natively, locks[i]) :
		      ll_start(ll_group(ll, 0), compete, locks[i], NULL), "start");
	usleep(ms * 1000);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (int i = 0; natively && i < 2; i++)
		pthread_join(threads[i], NULL);
	check(uprocs_destroy(ll, USCHED_NEVER), "end");
	printf("%.6f\n", (double)(locks[0][0] + locks[1][0]) / ms);
}

/* What there is: the arguments, how many at least and at most, and their defaults. */
static const struct measurement {
	const char *m_name;
	const char *m_arguments;
	int         m_least, m_most;
	void      (*m_run)(void);
} measurements[] = {
	{ "slow", "MILLISECONDS THREADS SECONDS [PROCESSORS=1]", 3, 4, slow },
	{ "late", "PERMILLE THREADS MICROSECONDS [SECONDS=1]", 3, 4, late },
	{ "slice", "MILLISECONDS THREADS SECONDS SLICE-MICROSECONDS", 4, 4, slice },
	{ "contend", "usync|pthread NANOSECONDS-HELD MILLISECONDS", 3, 3, contend },
	{ "after", "SECONDS THREADS BYTES [THREADS BYTES]...", 3, INT_MAX, after },
	{ "waits", "[THREADS=200000]", 0, 1, waits },
	{ "inspect", "THREADS [PROCESSORS=2 [DEPTH=4]]", 1, 3, inspect },
	{ "outside", "ps|bt THREADS", 2, 2, outside },
};

enum { MEASUREMENTS = sizeof measurements / sizeof measurements[0] };

static const struct measurement *chosen;

/* Of all, if none is chosen. */
void print_usage(void)
{
	const struct measurement *m = chosen ? chosen : measurements;

	do
		fprintf(stderr, "usage: measure %s %s\n", m->m_name, m->m_arguments);
	while (!chosen && ++m < measurements + MEASUREMENTS);
	exit(2);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < MEASUREMENTS; i++)
		if (strcmp(argv[1], measurements[i].m_name) == 0)
			chosen = &measurements[i];
	argument_count = argc - 2;
	arguments = argv + 2;
	if (!chosen || argument_count < chosen->m_least ||
	    argument_count > chosen->m_most)
		usage();
	chosen->m_run();
	return 0;
}
