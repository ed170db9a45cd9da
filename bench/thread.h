/* SPDX-License-Identifier: MIT */
/*
 * thread.h: the threads of ring.c, counters.c, pingpong.c, create.c, alternate.c and
 * memory.c. It makes each the same work over one of
 *
 *   BENCH_RR       rr with one processor; a hand-over is a wake and a wait
 *   BENCH_LL       ll with one processor, all threads in one group
 *   BENCH_DIRECT   the dispatcher alone, which hands over without a scheduler; the
 *                  call-backs below are all that it needs
 *
 * The compiler's options define one. workload() runs as a thread itself.
 */
#ifndef BENCH_THREAD_H
#define BENCH_THREAD_H

#define USCHED_INLINE_SWITCH

#include "bench.h"

struct ustack;

/* The work of the program. It prints the result. */
static void workload(void);

/* The thread that runs workload(). */
static struct ustack *bench_main;

/*
 * The calls, in each of the three forms:
 *
 *   bench_run()             runs workload() and frees everything.
 *   bench_start(func, arg)  makes a thread.
 *   bench_begin(u)          runs a new thread, and blocks the caller until a thread
 *                           hands over to it.
 *   bench_hand(u)           the same for a thread that blocked in bench_hand().
 *   bench_yield(u)          lets u, the only other thread, run before the caller.
 *   bench_last(u)           resumes u, which is blocked; the caller must end now.
 *   bench_drop(u)           ends a thread that is blocked in bench_hand(). Over rr and ll
 *                           its bench_hand() returns, and the thread must end.
 *   bench_done(u)           frees u, which has called bench_last().
 */
#ifdef BENCH_DIRECT

#include "../usched.h"

enum {
	BENCH_STACKS     = 1024,        /* the default of rr and ll */
	BENCH_STACK_SIZE = 64 << 10,
	BENCH_RECORD     = 160,         /* bytes: struct ustack, and a first image of 96,
					   as those of rr and ll are by default */
};

static struct usched bench_sched;
static struct ustack *bench_next;       /* resumed when a thread ends */

/* Free records, the one that was used last first, as rr and ll keep them. */
union bench_record {
	struct ustack       e_thread;
	union bench_record *e_next;
	char                e_bytes[BENCH_RECORD];
};

static union bench_record *bench_vacant;

static struct ustack *bench_choose(struct usched *s)
{
	(void)s;
	return bench_next;
}

static void *bench_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	return malloc(*size);
}

static void bench_free(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

static void bench_ended(struct usched *s, struct ustack *u)
{
	union bench_record *record = (void *)u;

	(void)s;
	record->e_next = bench_vacant;
	bench_vacant = record;
}

static inline struct ustack *bench_start(void (*func)(void *), void *arg)
{
	union bench_record *record = bench_vacant;

	if (record)
		bench_vacant = record->e_next;
	else
		record = malloc(sizeof *record);
	if (!record)
		fail("threads", -ENOMEM);
	check(ustack_init(&bench_sched, &record->e_thread, func, arg), "start");
	return &record->e_thread;
}

static inline __attribute__((always_inline)) void bench_hand(struct ustack *u)
{
	check(ustack_switch(u), "switch");
}

static inline void bench_begin(struct ustack *u)
{
	bench_hand(u);
}

static inline void bench_yield(struct ustack *u)
{
	bench_hand(u);
}

static inline void bench_last(struct ustack *u)
{
	bench_next = u;
}

static inline void bench_drop(struct ustack *u)
{
	check(ustack_abort(u), "abort");
}

static inline void bench_done(struct ustack *u)
{
	(void)u;
}

static void bench_entry(void *unused)
{
	(void)unused;
	workload();
	bench_last(NULL);
}

/* The portable switch refuses added stacks. */
static void bench_add_stacks(char *stacks)
{
	for (size_t i = 0; i < BENCH_STACKS; i++) {
		int rc = usched_add_stack(&bench_sched, stacks + i * BENCH_STACK_SIZE,
				     BENCH_STACK_SIZE);

		if (rc && rc != -ENOTSUP)
			fail("stacks", rc);
	}
}

static void bench_run(void)
{
	static const struct usched_calls calls = {
		.s_next = bench_choose, .s_alloc = bench_alloc,
		.s_free = bench_free, .s_done = bench_ended,
		.s_record = BENCH_RECORD,
	};
	char *stacks = aligned_alloc(64, (size_t)BENCH_STACKS * BENCH_STACK_SIZE);

	if (!stacks)
		fail("stacks", -ENOMEM);
	check(usched_init(&bench_sched, &calls), "no dispatcher");
	bench_add_stacks(stacks);
	bench_main = bench_start(bench_entry, NULL);
	bench_next = bench_main;
	check(usched_run(&bench_sched), "run");
	check(usched_fini(&bench_sched), "end");
	while (bench_vacant) {
		union bench_record *record = bench_vacant;

		bench_vacant = record->e_next;
		free(record);
	}
	free(stacks);
}

#else

#ifdef BENCH_RR
#include "../rr.h"
#else
#include "../ll.h"
static struct ll_group *bench_group;
#endif

static struct uprocs *bench_sched;

static void bench_create(void)
{
	struct uprocs_conf conf = { .c_processors = 1 };

#ifdef BENCH_RR
	check(rr_create(&conf, &bench_sched), "no scheduler");
#else
	check(ll_create(&conf, &bench_sched), "no scheduler");
	bench_group = ll_group(bench_sched, 0);
#endif
}

static void bench_destroy(void)
{
	check(uprocs_destroy(bench_sched, USCHED_NEVER), "destroy");
}

static inline struct ustack *bench_start(void (*func)(void *), void *arg)
{
	struct ustack *u;

#ifdef BENCH_RR
	check(rr_start(bench_sched, func, arg, &u), "start");
#else
	check(ll_start(bench_group, func, arg, &u), "start");
#endif
	return u;
}

static inline void bench_begin(struct ustack *u)
{
	(void)u;
	check(ustack_wait(), "wait");
}

static inline __attribute__((always_inline)) void bench_hand(struct ustack *u)
{
	check(ustack_wake(u), "wake");
	check(ustack_wait(), "wait");
}

static inline void bench_yield(struct ustack *u)
{
	(void)u;
	check(ustack_yield(), "yield");
}

static inline void bench_last(struct ustack *u)
{
	check(ustack_wake(u), "wake");
}

static inline void bench_done(struct ustack *u)
{
	check(ustack_join(u, NULL, USCHED_NEVER), "join");
}

static inline void bench_drop(struct ustack *u)
{
	bench_last(u);
	bench_done(u);
}

static void bench_entry(void *unused)
{
	(void)unused;
	bench_main = ustack_self();
	workload();
}

static void bench_run(void)
{
	bench_create();
	bench_done(bench_start(bench_entry, NULL));
	bench_destroy();
}

#endif /* BENCH_DIRECT */

#endif /* BENCH_THREAD_H */
