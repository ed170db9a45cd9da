/* SPDX-License-Identifier: MIT */
/*
 * cycle.h: the cycle benchmark, as it was published with the first usched: R cycles of N
 * threads, M rounds. In round m, thread m mod N of each cycle sends a message to its
 * right neighbour and waits until it comes back. The others wait for it and pass it on. A
 * message is a token: N * R * M are sent in all.
 *
 * rmain.c and lmain.c include this file, so both do the same work. They define
 *
 *   CYCLE_PROGRAM      the program's name
 *   CYCLE_CREATE       the function that makes the scheduler
 *   cycle_start(procs, share, func, arg, thread)       starts a thread of a cycle of that
 *                                              share; called for the cycles in order
 *   cycle_processors(p, r)                     the number of processors to ask for
 *
 * Threads are created, and run one round more than M, before the clock starts: by then
 * all processors are awake, and threads that wake each other are together. The last
 * thread to arrive, and to come back from that round, wakes the conductor, which then
 * reads the clock. The cycles are as many shares as there are processors, each of cycles
 * that were created in a row. The conductor starts the first of each share, and each
 * cycle two more of its own, so soon all run at a time. The last message to come back
 * wakes the conductor again.
 *
 * The only standard output is the seconds. Three environment variables change the run:
 * USCHED_STACKS sets the number of stacks of a processor ("native" for the native stack
 * only). USCHED_STATS prints the dispatchers' counters on standard error. BLOCKS prints
 * the number of times that threads blocked and let others run, instead of the seconds.
 */
#define BENCH_PROGRAM CYCLE_PROGRAM

#include <inttypes.h>
#include <limits.h>

#include "bench.h"

enum {
	THREAD_BYTES = 320,             /* of a thread with D = 0, in all */
	IMAGE_SLACK  = 512,             /* bytes of frames besides D, at most */
	STACK_SLACK  = 128 << 10,       /* bytes of stack besides D */
	HOLD_STEP    = 64,              /* bytes between two touched ones */
	AHEAD        = 6,               /* cycles from a prefetch to its use */
};

/* A tail call to a function that is not inlined takes no stack of the caller. */
#define APART __attribute__((noinline))

static struct {
	size_t   n, r, m, d;
	size_t   last;          /* the thread that sends the last message of a cycle */
	unsigned p;
} arg;

static struct uprocs *procs;            /* the scheduler */
static struct ustack **thread;          /* the i-th of cycle c is at [c * n + i] */
static struct ustack *conductor;
static bool   warm;                     /* the clock runs */
static size_t arrived;                  /* threads, twice. Atomic, like the next two */
static size_t finished;                 /* shares */
static struct share {
	size_t cycles;                  /* finished */
} __attribute__((aligned(128))) *share; /* each on its own cache lines */
static double seconds;
static uint64_t blocks;

static inline __attribute__((always_inline)) void wait_message(void)
{
	int rc = ustack_wait();

	if (rc)
		fail("wait", rc);
}

static size_t count(size_t *counter)
{
#ifdef SINGLE_THREAD
	return ++*counter;
#else
	return __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
#endif
}

static size_t count_shares(void)
{
	return arg.p < arg.r ? arg.p : arg.r;
}

static size_t share_of(size_t cycle)
{
	return cycle * count_shares() / arg.r;
}

/* Returns the first cycle of share k. */
static size_t first_of(size_t k)
{
	size_t shares = count_shares();

	return (k * arg.r + shares - 1) / shares;
}

/* The rounds of a thread are over. The last of its cycle counts that. */
static APART void finish(uint32_t index)
{
	const uint32_t n = (uint32_t)arg.n;
	size_t its;

	if (index % n != arg.last)
		return;
	its = share_of(index / n);
	if (count(&share[its].cycles) == first_of(its + 1) - first_of(its)
	    && count(&finished) == count_shares())
		ustack_wake(conductor);
}

/*
 * The rounds after the first; `others' come before its own. What is kept while the thread
 * waits is small, because it is copied with its frame.
 */
static APART void pass_on(uint32_t index, uint32_t others, struct ustack *right)
{
	/* The number of the thread, and in the low half the rounds that are left. */
	uint64_t is = (uint64_t)index << 32 | (arg.m - 1);

	for (; (uint32_t)is > 0; is--) {
		if (others == 0) {
			others = (uint32_t)arg.n;
			ustack_wake(right);
			wait_message();
		} else {
			wait_message();
			ustack_wake(right);
		}
		others--;
	}
	finish((uint32_t)(is >> 32));
}

/* Starts two more cycles of the share. Its first one starts all others this way. */
static void start_others(size_t cycle)
{
	size_t its = share_of(cycle), end = first_of(its + 1);
	size_t other = 2 * cycle - first_of(its) + 1, later = other + AHEAD;

	for (int i = 0; i < 2 && other < end; i++, other++)
		ustack_wake(thread[other * arg.n]);
	for (int i = 0; i < 2 && later < end; i++, later++)
		__builtin_prefetch(thread[later * arg.n]);
}

static APART void relay(uint32_t index);

/* Runs the first round anew. A loop in relay() would keep more while the thread waits. */
static APART void relay_again(uint32_t index)
{
	relay(index);
}

/* The first round, twice: once before the clock starts. */
static APART void relay(uint32_t index)
{
	const uint32_t n = (uint32_t)arg.n, i = index % n;
	struct ustack *right;

	thread[index] = ustack_self();
	if (count(&arrived) % (arg.n * arg.r) == 0)
		ustack_wake(conductor);
	wait_message();                         /* i == 0: to start */
	right = thread[i + 1 < n ? index + 1 : index - i];
	if (i == 0)
		start_others(index / n);
	ustack_wake(right);
	if (i == 0)
		wait_message();
	if (warm)
		pass_on(index, i > 0 ? i - 1 : n - 1, right);
	else
		relay_again(index);
}

/* Relays with arg.d bytes in its frame, and checks them afterwards. */
static APART void relay_deep(uint32_t index)
{
	volatile char hold[arg.d];

	for (size_t k = 0; k < arg.d; k += HOLD_STEP)
		hold[k] = (char)index;
	relay(index);
	for (size_t k = 0; k < arg.d; k += HOLD_STEP)
		if (hold[k] != (char)index)
			fail("a frame has changed", -EFAULT);
}

static void member(void *index)
{
	if (arg.d > 0)
		relay_deep((uint32_t)(uintptr_t)index);
	else
		relay((uint32_t)(uintptr_t)index);
}

/* The number of times that threads were resumed. */
static uint64_t count_resumes(void)
{
	struct usched_stats s;

	uprocs_stats(procs, &s);
	return s.st_switches - s.st_launches;
}

static void start_shares(void)
{
	for (size_t k = 0; k < count_shares(); k++)
		ustack_wake(thread[first_of(k) * arg.n]);
	wait_message();
}

static void conduct(void *unused)
{
	(void)unused;
	wait_message();
	start_shares();
	warm = true;
	blocks = count_resumes();
	seconds = now();
	start_shares();
	seconds = now() - seconds;
	blocks = count_resumes() - blocks;
	blocks -= arg.n * arg.r + 1;            /* the first block of each thread */
}

static void usage(void)
{
	fprintf(stderr,
		"usage: %s N R M D P\n"
		"  N  threads in a cycle, 2 or more\n"
		"  R  cycles\n"
		"  M  rounds\n"
		"  D  bytes that each thread holds on its stack\n"
		"  P  processors\n"
		"Prints the seconds it takes to send N * R * M messages.\n",
		CYCLE_PROGRAM);
	exit(2);
}

/* Bytes of memory available without swapping, or SIZE_MAX if unknown. */
static size_t available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t bytes = SIZE_MAX;
	char line[128];
	uintmax_t kib;

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %" SCNuMAX " kB", &kib) == 1)
			bytes = (size_t)kib * 1024;
	if (file)
		fclose(file);
	return bytes;
}

static void check_memory(void)
{
	size_t image = arg.d > 0 ? arg.d + arg.d / 4 + IMAGE_SLACK : 0;
	size_t all, have = available();

	if (__builtin_mul_overflow(arg.n, arg.r, &all) || all > UINT32_MAX
	    || __builtin_mul_overflow(all, THREAD_BYTES + image, &all)
	    || all > have) {
		fprintf(stderr, "%s: not enough memory for %zu times %zu threads\n",
			CYCLE_PROGRAM, arg.n, arg.r);
		exit(1);
	}
}

static unsigned stacks(void)
{
	const char *text = getenv("USCHED_STACKS");

	if (text && strcmp(text, "native") == 0)
		return USCHED_NATIVE;
	return text ? (unsigned)number(text, 1, INT_MAX) : 0;
}

static void print_stats(void)
{
	struct usched_stats s;

	uprocs_stats(procs, &s);
	fprintf(stderr, "switches %" PRIu64 ", launches %" PRIu64 ", evictions %" PRIu64
		", loads %" PRIu64 ", bytes copied %" PRIu64 ", deepest %" PRIu64
		", images %" PRIu64 ", image bytes %" PRIu64 "\n",
		s.st_switches, s.st_launches, s.st_evictions, s.st_loads, s.st_bytes,
		s.st_deepest, s.st_images, s.st_image_bytes);
}

static void read_arguments(int argc, char **argv)
{
	if (argc != 6)
		usage();
	arg.n = number(argv[1], 2, SIZE_MAX);
	arg.r = number(argv[2], 1, SIZE_MAX);
	arg.m = number(argv[3], 1, UINT32_MAX);
	arg.d = number(argv[4], 0, INT_MAX - STACK_SLACK);
	arg.p = (unsigned)number(argv[5], 1, INT_MAX);
	arg.last = (arg.m - 1) % arg.n;
	check_memory();
	arg.p = cycle_processors(arg.p, arg.r);
}

static void create(void)
{
	struct uprocs_conf conf = {
		.c_processors = arg.p,
		.c_stacks     = stacks(),
		.c_stack_size = arg.d + STACK_SLACK,
	};
	int rc;

	if (conf.c_stacks != USCHED_NATIVE && conf.c_stack_size < 256 << 10)
		conf.c_stack_size = 0;
	rc = CYCLE_CREATE(&conf, &procs);
	if (rc)
		fail("no scheduler", rc);
}

static void start(void)
{
	int rc;

	thread = calloc(arg.n * arg.r, sizeof *thread);
	share = aligned_alloc(sizeof *share, arg.p * sizeof *share);
	if (!thread || !share)
		fail("threads", -ENOMEM);
	memset(share, 0, arg.p * sizeof *share);
	rc = cycle_start(procs, 0, conduct, NULL, &conductor);
	for (size_t i = 0; rc == 0 && i < arg.n * arg.r; i++)
		rc = cycle_start(procs, share_of(i / arg.n), member,
				 (void *)(uintptr_t)i, NULL);
	if (rc)
		fail("start", rc);
}

int main(int argc, char **argv)
{
	int rc;

	read_arguments(argc, argv);
	create();
	start();
	rc = ustack_join(conductor, NULL, USCHED_NEVER);
	if (getenv("USCHED_STATS"))
		print_stats();
	if (rc == 0)
		rc = uprocs_destroy(procs, USCHED_NEVER);
	if (rc)
		fail("join", rc);
	free(thread);
	free(share);
	if (getenv("BLOCKS"))
		printf("%" PRIu64 "\n", blocks);
	else
		printf("%f\n", seconds);
	return 0;
}
