/* SPDX-License-Identifier: MIT */
/*
 * traced.c: threads that note where they are, and block there. test_uthreads.py compares
 * that with what tools/uthreads and gdb find from outside.
 *
 *	traced THREADS STACKS PROCESSORS SEED END
 *
 * Each thread calls itself to a random depth, with frames of random sizes, takes a trace
 * of itself and waits. For each the program prints
 *
 *	trace HANDLE N ADDRESS...
 *
 * with its number, and the return addresses of all functions but the innermost, which
 * waits: a trace ends in those that the thread's own function made. Every fourth waits
 * for a semaphore, with a deadline; others for a wake. Then END comes:
 *
 *	crash     of a native thread that has no threads of usched
 *	overflow  a thread outgrows its stack
 *	slices    three threads compute, and signals interrupt them; then as crash
 *	stay      none; a thread of the last processor keeps it, two of the first take
 *	          turns, and "ready" is printed
 *	lost      none; threads wait for an object on the heap, which a static array, a
 *	          thread that sleeps or nothing has, or for another thread; for each
 *	          "kept HANDLE" or "lost HANDLE" is printed, and then "ready"
 *	lost-crash   the same, and then as crash
 *	waits     none; a thread for each kind of wait blocks, "object NAME ADDRESS" is
 *	          printed for what they wait for, and "ready"
 */
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rr.h"
#include "unet.h"
#include "usync.h"

enum { DEEPEST = 24, FRAMES = 64, LARGEST = 300 };

#define SLICE   1000000                 /* ns */
#define SLICES  100000                  /* us: for some of them */
#define PAUSE   1000                    /* us */

/* On the heap: what a thread notes about itself. */
struct note {
	struct ustack *thread;
	unsigned       number;
	unsigned       depth;
	unsigned       seed;
	int            count;
	void          *frames[FRAMES];
};

static struct usync_sem never;
static volatile int     sink;
static unsigned         noted;          /* atomic, as the next one */
static unsigned         begun;          /* threads that do not end */

static unsigned next_random(unsigned *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

__attribute__((noinline)) static void innermost(struct note *note)
{
	char text[32];

	snprintf(text, sizeof text, "thread %u waits", note->number);
	note->count = backtrace(note->frames, FRAMES);
	__atomic_fetch_add(&noted, 1, __ATOMIC_RELEASE);
	if (note->number % 4 == 3)
		usync_sem_wait(&never, usync_after(3600 * USYNC_SECOND));
	else
		ustack_wait();
	sink += text[0];
}

__attribute__((noinline)) static void descend(struct note *note, unsigned depth)
{
	size_t size = 1 + next_random(&note->seed) % LARGEST;
	char local[size];

	memset(local, (int)note->number, size);
	if (depth > 0)
		descend(note, depth - 1);
	else
		innermost(note);
	sink += local[size / 2];
}

static void work(void *arg)
{
	struct note *note = arg;

	descend(note, note->depth);
	sink++;
}

static void await(const unsigned *count, unsigned n)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
}

static void compute(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
	for (;;)
		sink++;
}

static void compute_in_slices(void *arg)
{
	ustack_preemptible(1);
	compute(arg);
}

__attribute__((noinline)) static int outgrow(int depth)
{
	volatile char local[LARGEST];

	local[0] = (char)depth;
	return sink < 0 ? 0 : outgrow(depth + 1) + local[0];
}

static void overflow(void *unused)
{
	(void)unused;
	sink = outgrow(0);
}

/* Most of the time natively asleep, so it takes little of the CPU. */
static void keep(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
	for (;;) {
		usleep(PAUSE);
		sink++;
	}
}

static void take_turns(void *unused)
{
	(void)unused;
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
	for (;;) {
		usleep(PAUSE);
		ustack_yield();
	}
}

/* The first is the innermost function, and `work' is called by the switch. */
static void show(const struct note *note)
{
	int last = (int)note->depth + 3;

	printf("trace %p %u", (void *)note->thread, note->number);
	for (int i = 1; i < note->count && i < last; i++)
		printf(" %p", note->frames[i]);
	puts("");
}

static void pass(void *unused)
{
	(void)unused;
	sink++;
}

static int start_on(struct uprocs *rr, unsigned n, void (*func)(void *),
		    struct ustack **thread)
{
	const struct ustack_how how = { .h_processor = USCHED_ON(n) };

	return rr_start_with(rr, &how, func, NULL, thread);
}

/* Another thread runs there when those that have begun are blocked. */
static void let_block(struct uprocs *rr, unsigned processor)
{
	struct ustack *u;

	if (start_on(rr, processor, pass, &u)
	    || ustack_join(u, NULL, USCHED_NEVER))
		abort();
}

/* What threads of `waits' wait for. */
static struct usync_chan  *chan, *other;
static struct usync_mutex  mutex;
static struct usync_scope *scope;
static int                 pipes[2];

static void receive(void *unused)
{
	int value;

	(void)unused;
	usync_chan_recv(chan, &value, USCHED_NEVER);
}

static void choose(void *unused)
{
	int value = 0;
	struct usync_case cases[] = {
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_chan = other, .cs_op = USYNC_RECV, .cs_value = &value },
	};

	(void)unused;
	usync_select(cases, 2, usync_after(3600 * USYNC_SECOND));
}

static void poll_two(void *unused)
{
	int value = 0;
	struct usync_case cases[] = {
		{ .cs_op = USYNC_READABLE, .cs_fd = pipes[0] },
		{ .cs_chan = chan, .cs_op = USYNC_RECV, .cs_value = &value },
	};

	(void)unused;
	usync_select(cases, 2, USCHED_NEVER);
}

static void read_pipe(void *unused)
{
	char byte;

	(void)unused;
	unet_read(pipes[0], &byte, 1, USCHED_NEVER);
}

static void hold_mutex(void *unused)
{
	(void)unused;
	ustack_name(ustack_self(), "holder");
	usync_mutex_lock(&mutex, USCHED_NEVER);
	usync_sem_wait(&never, USCHED_NEVER);
}

static void want_mutex(void *unused)
{
	(void)unused;
	usync_mutex_lock(&mutex, USCHED_NEVER);
}

/* The call may be a jump, which leaves no frame of this. */
static int in_scope(void *unused)
{
	(void)unused;
	return usync_sem_wait(&never, USCHED_NEVER);
}

static void start_in_scope(void *unused)
{
	(void)unused;
	if (usync_scope_create(NULL, &scope, USCHED_NEVER)
	    || usync_scope_start(scope, in_scope, NULL, NULL))
		abort();
	usync_scope_wait(scope, USCHED_NEVER);
}

static void show_waits(struct uprocs *rr)
{
	void (*const waits[])(void *) = {
		receive, choose, poll_two, read_pipe, hold_mutex, want_mutex,
		start_in_scope,
	};

	if (pipe(pipes) || usync_chan_create(sizeof(int), 0, &chan)
	    || usync_chan_create(sizeof(int), 0, &other))
		abort();
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
		if (start_on(rr, 0, waits[i], NULL))
			abort();
	let_block(rr, 0);
	let_block(rr, 0);                       /* that in the scope */
	printf("object chan %p\nobject mutex %p\nobject pipe %d\nready\n", (void *)chan,
	       (void *)&mutex, pipes[0]);
	fflush(stdout);
	pause();
}

/* The object is not at the start of the block. */
struct box {
	char             b_head[40];
	struct usync_sem b_sem;
};

enum { BOXES = 40, LARGE = 1 << 20 };

static struct box *volatile boxes[BOXES];
static struct box **volatile large[BOXES];
static struct uprocs *scheduler;

static void say_wait(const char *how)
{
	printf("%s %p\n", how, (void *)ustack_self());
	__atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
}

static void hold_box(void *box)
{
	say_wait("kept");
	usync_sleep_until(usync_after(1000 * USYNC_SECOND));
	usync_sem_post(&((struct box *)box)->b_sem);
}

static void join_it(void *thread)
{
	say_wait("lost");
	ustack_join((struct ustack *)thread, NULL, USCHED_NEVER);
}

static void wait_for_box(void *number)
{
	struct box *b = (struct box *)calloc(1, sizeof *b);
	size_t n = (size_t)number;

	if (n % 4 == 0)
		boxes[n] = b;
	if (n % 8 == 0) {               /* a block that malloc() maps apart leads there */
		large[n] = (struct box **)calloc(1, LARGE);
		*large[n] = b;
		boxes[n] = NULL;
	}
	if (n % 4 == 1)
		rr_start(scheduler, hold_box, b, NULL);
	say_wait(n % 4 < 2 ? "kept" : "lost");
	usync_sem_wait(&b->b_sem, USCHED_NEVER);
	free(b);
}

static void lose_threads(void *unused)
{
	struct ustack *u;

	(void)unused;
	for (size_t n = 0; n < BOXES; n++) {
		rr_start(scheduler, wait_for_box, (void *)n, n % 4 == 3 ? &u : NULL);
		if (n % 4 == 3)
			rr_start(scheduler, join_it, u, NULL);
	}
}

static void end(struct uprocs *rr, const char *how, unsigned last)
{
	if (strncmp(how, "lost", 4) == 0) {
		scheduler = rr;
		rr_start(rr, lose_threads, NULL, NULL);
		await(&begun, BOXES / 2 * 3);
		for (unsigned i = 0; i <= last; i++)
			let_block(rr, i);
		puts("ready");
		fflush(stdout);
		if (strcmp(how, "lost") == 0)
			pause();
	} else if (strcmp(how, "stay") == 0) {
		start_on(rr, 0, take_turns, NULL);
		start_on(rr, 0, take_turns, NULL);
		start_on(rr, last, keep, NULL);
		await(&begun, 3);
		puts("ready");
		fflush(stdout);
		pause();
	} else if (strcmp(how, "waits") == 0) {
		show_waits(rr);
	} else if (strcmp(how, "overflow") == 0) {
		rr_start(rr, overflow, NULL, NULL);
		pause();
	} else if (strcmp(how, "slices") == 0) {
		for (int i = 0; i < 3; i++)
			start_on(rr, 0, compute_in_slices, NULL);
		await(&begun, 3);
		usleep(SLICES);
	}
	abort();
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 5 ? (unsigned)atoi(argv[1]) : 10, seed;
	struct uprocs_conf conf = { .c_processors = 1 };
	struct note *notes = calloc(threads, sizeof *notes);
	struct uprocs *rr;
	void *first[2];

	if (argc < 6 || !notes)
		return 2;
	conf.c_stacks = (unsigned)atoi(argv[2]);
	conf.c_processors = (unsigned)atoi(argv[3]);
	conf.c_slice = strcmp(argv[5], "slices") == 0 ? SLICE : 0;
	seed = (unsigned)atoi(argv[4]);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);      /* some systems want that */
	backtrace(first, 2);                    /* it loads a library */
	if (rr_create(&conf, &rr))
		return 1;
	uprocs_hold(rr, 1);
	for (unsigned i = 0; i < threads; i++) {
		notes[i].number = i;
		notes[i].depth = next_random(&seed) % DEEPEST;
		notes[i].seed = seed;
		if (rr_start(rr, work, &notes[i], &notes[i].thread))
			return 1;
	}
	ustack_name(notes[0].thread, "the first");
	await(&noted, threads);
	for (unsigned i = 0; i < conf.c_processors; i++)
		let_block(rr, i);
	for (unsigned i = 0; i < threads; i++)
		show(&notes[i]);
	fflush(stdout);
	end(rr, argv[5], conf.c_processors - 1);
	return 0;
}
