/* SPDX-License-Identifier: MIT */
/*
 * test_preempt.c: slices over schedulers with processors: ustack_check(), and regions of
 * ustack_preemptible() that signals interrupt. test_preempt_step.c is about each
 * instruction, over the dispatcher alone. Each test prints how often a thread gave way,
 * and fails if that should happen and did not.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <signal.h>

#include "../help/child.h"
#include "../help/over.h"
#include "../help/vectors.h"

#include "../../ll.h"
#include "../../rr.h"
#include "../../upreempt.h"
#include "../../usync.h"

enum {
	THREADS = 4,
	SLICE   = 100000,               /* ns */
	SPIN    = 20000000,             /* ns, of a thread that computes */
	ENOUGH  = 10,                   /* times that threads should give way, */
	MANY    = 2000,                 /* where it is about how often that is */
	RUNS    = 400,
};

#define PATIENCE ((int64_t)30 * 1000000000)      /* ns: machines are busy */

#ifdef USCHED_CHECK
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static const struct uprocs_conf confs[] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE, .c_slice = SLICE },
	{ .c_processors = 1, .c_stacks = 1, .c_slice = SLICE },
	{ .c_processors = 2, .c_stacks = 2, .c_slice = SLICE },
	{ .c_processors = 1, .c_slice = SLICE },
};

enum { CONFS = sizeof confs / sizeof *confs };

static void *scheduler;
static atomic_int burnt;                /* threads of masks() that have computed */

/* Whether threads can be interrupted here: if not, the reason is the same each time. */
static int interrupts(void)
{
	static int known = -1;
	static const struct uprocs_conf conf = { .c_processors = 1, .c_slice = SLICE };
	void *s;

	if (known < 0) {
		TEST_EQUAL(over->o_create(&conf, &s), 0);
		scheduler = s;
		known = vectors_ask(s);
		TEST_EQUAL(over->o_destroy(s), 0);
	}
	return known;
}

/* Runs func in THREADS threads. The times that they gave way. */
static uint64_t run(const struct uprocs_conf *conf, void (*func)(void *))
{
	struct ustack *thread[THREADS];
	struct usched_stats stats;
	struct uprocs_conf quiet = *conf;

	quiet.c_log = log_line;
	burnt = 0;
	TEST_EQUAL(over->o_create(&quiet, &scheduler), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		TEST_EQUAL(over->o_start(scheduler, func, (void *)i, &thread[i]), 0);
	for (int i = 0; i < THREADS; i++)
		TEST_EQUAL(ustack_join(thread[i], NULL, USCHED_NEVER), 0);
	over->o_stats(scheduler, &stats);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
	return stats.st_preempted;
}

static void each_preempting(void (*func)(void *), uint64_t least)
{
	if (!interrupts()) {
		print_message("no thread can be interrupted here\n");
		skip();
	}
	for (int i = 0; i < CONFS; i++) {
		uint64_t n = run(&confs[i], func);

		print_message("conf %d: gave way %llu times\n", i,
			      (unsigned long long)n);
		TEST_TRUE(n >= least);
	}
}

/* ---- Regions ---- */

static uint64_t given_here(void)
{
	const struct usched *s = upreempt__behind(usched__here());

	return __atomic_load_n(&s->s_stats.st_preempted, __ATOMIC_RELAXED);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Computes until threads of the processor have given way often enough. */
static void burn(void)
{
	uint64_t until = given_here() + ENOUGH;
	int64_t end = now() + PATIENCE;
	volatile uint64_t sink = 1;

	while (given_here() < until && now() < end)
		for (int i = 0; i < 1000; i++)
			sink += (uint64_t)i * sink;
}

/* Sums of vectors are what they are without interruptions. */
static void sums(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	double expected = vectors_sum(me, VECTORS_SHORT), sum;

	for (uint64_t until = given_here() + ENOUGH; given_here() < until; ) {
		int before = ustack_preemptible(1);

		sum = vectors_sum(me, VECTORS_SHORT);
		ustack_preemptible(before);
		TEST_EQUAL(before, 0);
		TEST_TRUE(sum == expected);
	}
}

TEST(test_vectors)
{
	uint64_t n = 0;

	print_message("%s\n", vectors_name());
	each_preempting(sums, ENOUGH);
	for (int i = 0; i < RUNS && n < test_scale(MANY, 10); i++)
		n += run(&confs[1], sums);
	print_message("in all: gave way %llu times\n", (unsigned long long)n);
	TEST_TRUE(n >= test_scale(MANY, 10));
}

static void own_errno(void *arg)
{
	int mine = 1000 + (int)(uintptr_t)arg, before;

	for (int i = 0; i < 3; i++) {
		before = ustack_preemptible(1);
		*(volatile int *)&errno = mine;
		burn();
		TEST_EQUAL(*(volatile int *)&errno, mine);
		ustack_preemptible(before);
		TEST_EQUAL(*(volatile int *)&errno, mine);
	}
}

/* What handlers find of the mask and of control words is not what other threads find. */
static void masks(void *arg)
{
	sigset_t mask, now;
	int before;

	memset(&mask, 0, sizeof mask);  /* the kernel has a part of it */
	memset(&now, 0, sizeof now);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (arg) {
		before = ustack_preemptible(1);
		burn();
		ustack_preemptible(before);
		burnt++;
	} else {
		TEST_EQUAL(ustack_control(1), 0);
		TEST_EQUAL(fesetround(FE_UPWARD), 0);
		while (burnt < THREADS - 1) {
			pthread_sigmask(SIG_SETMASK, NULL, &now);
			TEST_EQUAL(memcmp(&mask, &now, sizeof mask), 0);
			TEST_EQUAL(ustack_yield(), 0);
			TEST_EQUAL(fegetround(), FE_UPWARD);
		}
	}
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	TEST_EQUAL(memcmp(&mask, &now, sizeof mask), 0);
}

/* Control words that a region changes are its own until it sets them back. */
static void rounds(void *arg)
{
	int before = ustack_preemptible(1), mode = (uintptr_t)arg % 2 ?
		FE_DOWNWARD : FE_TOWARDZERO;

	fesetround(mode);
	burn();
	TEST_EQUAL(fegetround(), mode);
	fesetround(FE_TONEAREST);
	ustack_preemptible(before);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
}

static double third(void)
{
	volatile double one = 1, three = 3;

	return one / three;
}

/* The kernel has other control words for handlers than these processors have. */
static void shared(void *arg)
{
	double up = third();
	int before;

	if (arg) {
		before = ustack_preemptible(1);
		burn();
		ustack_preemptible(before);
		burnt++;
	} else {
		while (burnt < THREADS - 1) {
			TEST_EQUAL(fegetround(), FE_UPWARD);
			TEST_TRUE(third() == up);
			TEST_EQUAL(ustack_yield(), 0);
		}
	}
	TEST_EQUAL(fegetround(), FE_UPWARD);
	TEST_TRUE(third() == up && up * 3 > 1);
}

static void nested(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_preemptible(0), 0);
	TEST_EQUAL(ustack_preemptible(1), 0);
	burn();
	TEST_EQUAL(ustack_preemptible(1), 1);
	TEST_EQUAL(ustack_check(), 0);
	burn();
	TEST_EQUAL(ustack_preemptible(0), 1);
	TEST_EQUAL(ustack_yield(), 0);          /* outside for a while */
	TEST_EQUAL(ustack_preemptible(1), 0);
	TEST_EQUAL(ustack_preemptible(1), 1);
	TEST_EQUAL(ustack_preemptible(-ENOTSUP), 1);
	TEST_EQUAL(ustack_preemptible(-ENOTSUP), 0);
}

TEST(test_errno)
{
	each_preempting(own_errno, ENOUGH);
}

TEST(test_masks)
{
	each_preempting(masks, ENOUGH);
}

TEST(test_rounds)
{
	each_preempting(rounds, ENOUGH);
}

/* Native threads inherit the words of the one that makes them. */
TEST(test_shared)
{
	if (!interrupts())
		skip();
	TEST_EQUAL(fesetround(FE_UPWARD), 0);
	each_preempting(shared, ENOUGH);
	TEST_EQUAL(fesetround(FE_TONEAREST), 0);
}

TEST(test_nested)
{
	each_preempting(nested, ENOUGH);
}

/* Without a region no signal interrupts. */
static void alone(void *unused)
{
	(void)unused;
	for (int64_t end = now() + SPIN; now() < end; )
		;
}

TEST(test_opted_out)
{
	for (int i = 0; i < CONFS; i++)
		TEST_EQUAL(run(&confs[i], alone), 0);
}

/* The signal of a program that has a handler for it. */
static atomic_int urgent;

static void count_urgent(int signo)
{
	(void)signo;
	urgent++;
}

static void raise_urgent(void *arg)
{
	int before = ustack_preemptible(1);

	burn();
	raise(SIGURG);
	burn();
	ustack_preemptible(before);
	(void)arg;
}

static void count_told(int signo, siginfo_t *info, void *context)
{
	TEST_TRUE(info && context);
	count_urgent(signo);
}

static int in_child_chain(bool with_info)
{
	struct sigaction action = { .sa_handler = count_urgent };

	if (with_info)
		action = (struct sigaction){ .sa_sigaction = count_told,
					     .sa_flags = SA_SIGINFO };
	sigaction(SIGURG, &action, NULL);       /* before the scheduler */
	return run(&confs[1], raise_urgent) > 0 && urgent == THREADS ? 0 : 1;
}

static void chain_of_signals(void *with_info)
{
	TEST_EQUAL(in_child_chain(with_info != NULL), 0);
}

TEST(test_chain)
{
	if (!interrupts())
		skip();
	assert_survived(in_child(chain_of_signals, NULL));
	assert_survived(in_child(chain_of_signals, (void *)&urgent));
}

/* A handler of the program is not switched away from, as it has another mask. */
static uint64_t given_in_handler;

static void compute_in_handler(int signo)
{
	uint64_t began = given_here();

	(void)signo;
	for (int64_t end = now() + SPIN; now() < end; )
		for (volatile int i = 0; i < 10000; i++)
			;
	given_in_handler += given_here() - began;
}

static void raise_inside(void *unused)
{
	int before;

	(void)unused;
	TEST_EQUAL(ustack_reserve(32 << 10), 0);        /* two signals are deep */
	before = ustack_preemptible(1);
	burn();
	raise(SIGUSR2);
	burn();
	ustack_preemptible(before);
}

TEST(test_handler)
{
	struct sigaction action = { .sa_handler = compute_in_handler }, old;

	if (!interrupts())
		skip();
	sigaction(SIGUSR2, &action, &old);
	given_in_handler = 0;
	TEST_TRUE(run(&confs[1], raise_inside) >= ENOUGH);
	TEST_EQUAL(given_in_handler, 0);
	sigaction(SIGUSR2, &old, NULL);
}

/* A thread that was interrupted says so, until it goes on. */
static struct ustack *interrupted;
static atomic_int over_now;
static unsigned stayed;

static void stay(void *arg)
{
	if (arg == 0) {
		int before;

		interrupted = ustack_self();
		before = ustack_preemptible(1);
		while (!over_now)
			;
		ustack_preemptible(before);
		TEST_EQUAL(ustack_self()->u_stack->k_stays, 0);
	} else if ((uintptr_t)arg == 1) {
		for (int i = 0; i < 10; i++) {
			TEST_EQUAL(ustack_self()->u_stack->k_stays, 0);
			stayed += interrupted && interrupted->u_stack->k_stays;
			TEST_EQUAL(ustack_yield(), 0);
		}
		over_now = 1;
	}
}

TEST(test_stays)
{
	if (!interrupts())
		skip();
	over_now = 0;
	interrupted = NULL;
	stayed = 0;
	TEST_TRUE(run(&confs[3], stay) > 0);
	TEST_TRUE(stayed > 0);
}

/* ---- What a region may not contain ---- */

static void calls(void *arg)
{
	struct ustack *self = ustack_self();

	if (arg)
		return;
	TEST_EQUAL(ustack_preemptible(1), 0);
	TEST_EQUAL(ustack_wait(), -EPERM);
	TEST_EQUAL(ustack_yield(), -EPERM);
	TEST_EQUAL(ustack_block(), -EPERM);
	TEST_TRUE(!ustack_self());
	TEST_EQUAL(ustack_wake(self), 0);
	TEST_EQUAL(ustack_preemptible(0), 1);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void end_inside(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_preemptible(1), 0);
}

static struct usync_sem sem;

static void wait_inside(void *arg)
{
	if (arg)
		return;
	TEST_EQUAL(ustack_preemptible(1), 0);
	ustack_wait();
}

static void yield_inside(void *arg)
{
	if (arg)
		return;
	TEST_EQUAL(ustack_preemptible(1), 0);
	ustack_yield();
}

static void take_inside(void *arg)
{
	if (arg)
		return;
	TEST_EQUAL(ustack_preemptible(1), 0);
	usync_sem_wait(&sem, USCHED_NEVER);
}

static void wake_inside(void *arg)
{
	struct ustack *self = ustack_self();

	if (arg)
		return;
	TEST_EQUAL(ustack_preemptible(1), 0);
	ustack_wake(self);
}

static void run_one(void *func)
{
	run(&confs[1], *(void (**)(void *))func);
}

TEST(test_calls)
{
	if (!interrupts() || CHECKED)
		skip();
	run(&confs[1], calls);
	run(&confs[1], end_inside);
}

/* Builds that check name the call. */
TEST(test_calls_named)
{
	static const struct {
		void      (*c_func)(void *);
		const char *c_said;
	} named[] = {
		{ wait_inside, "ustack_wait" },
		{ yield_inside, "ustack_yield was called in a preemptible region" },
		{ take_inside, "usync_sem_wait" },
		{ wake_inside, "ustack_wake" },
		{ end_inside, "the end of the thread" },
	};

	if (!interrupts() || !CHECKED)
		skip();
	skip_on_valgrind();
	for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
		void (*func)(void *) = named[i].c_func;

		assert_killed(in_child(run_one, &func), SIGABRT);
		assert_said(named[i].c_said);
	}
}

/* ---- ustack_check() ---- */

enum { OFTEN = 15 };

static unsigned turns;
static uintptr_t last;

/* Counts the times that another thread had run. */
static void check_often(void *arg)
{
	for (int64_t end = now() + 2 * SPIN; now() < end; ) {
		for (int i = 0; i < 100; i++)
			TEST_EQUAL(ustack_check(), 0);
		turns += last != (uintptr_t)arg;
		last = (uintptr_t)arg;
	}
}

/* However slow the machine is. */
static void check_until_often(void *arg)
{
	do
		check_often(arg);
	while (turns < OFTEN);
}

/* Runs it. The number of times that a thread gave way. */
static uint64_t give_way_often(const struct uprocs_conf *conf)
{
	uint64_t n;

	test_timeout(60);
	turns = 0;
	n = run(conf, check_until_often);
	print_message("gave way %llu times\n", (unsigned long long)n);
	TEST_TRUE(n >= OFTEN - THREADS);        /* the first turn of each is none */
	return n;
}

TEST(test_check)
{
	static const struct uprocs_conf conf = { .c_processors = 1, .c_slice = SLICE };

	TEST_TRUE(give_way_often(&conf) <= 100 + 8 * (uint64_t)THREADS * SPIN / SLICE);
	TEST_EQUAL(ustack_check(), 0);          /* not a thread */
}

/* Without c_slice the clock is read, and no thread is late for its deadline. */
static void check_until_late(void *arg)
{
	struct usync_scope *scope;
	int rc;

	(void)arg;
	TEST_EQUAL(usync_scope_create(NULL, &scope, usync_after(SPIN)), 0);
	TEST_EQUAL(usync_scope_enter(scope), 0);
	while ((rc = ustack_check()) == 0)
		;
	TEST_EQUAL(rc, -ETIMEDOUT);
	usync_scope_leave();
	usync_scope_release(scope);
}

TEST(test_unsliced)
{
	static const struct uprocs_conf conf = { .c_processors = 1 };

	give_way_often(&conf);
	TEST_TRUE(run(&conf, check_until_late) > 0);
}

enum { QUICK = 10000, WORK = 50, AT_ONCE = 40 };        /* calls */

static bool worked;

static void take_turns(void *unused)
{
	(void)unused;
	for (; !worked; turns++)
		TEST_EQUAL(ustack_yield(), 0);
}

/*
 * Work that grows from nothing to a millisecond for each call is found after SKIP_MAX
 * calls, and then at each call.
 */
static void check_slowly(void *unused)
{
	unsigned in_a_row = 0, seen;

	(void)unused;
	for (int i = 0; i < QUICK; i++)
		TEST_EQUAL(ustack_check(), 0);
	seen = turns;
	for (int i = 0; i < AT_ONCE + WORK; i++) {
		for (int64_t end = now() + 1000000; now() < end; )
			;
		TEST_EQUAL(ustack_check(), 0);
		in_a_row = turns == seen ? in_a_row + 1 : 0;
		seen = turns;
		TEST_TRUE(in_a_row < (i < AT_ONCE ? AT_ONCE : 2));
	}
	worked = true;
}

TEST(test_grown)
{
	static const struct uprocs_conf conf = { .c_processors = 1 };
	struct ustack *thread[2];

	if (test_is_stressed())         /* any thread may be next */
		skip();
	worked = false;
	TEST_EQUAL(over->o_create(&conf, &scheduler), 0);
	TEST_EQUAL(over->o_start(scheduler, check_slowly, NULL, &thread[0]), 0);
	TEST_EQUAL(over->o_start(scheduler, take_turns, NULL, &thread[1]), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(ustack_join(thread[i], NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
}

/* In a loop of the program the clock is read. */
TEST(test_embedded)
{
	static const struct uprocs_conf conf = { .c_embed = 1, .c_slice = SLICE };

	give_way_often(&conf);
}

/* A slice that was over for the thread before is not for this one. */
static unsigned undisturbed, tried;

static void overrun(void *arg)
{
	const struct usched *s = usched__here();
	uint64_t began;

	while (tried < 5 && (uintptr_t)arg < 2) {
		for (int64_t end = now() + PATIENCE; now() < end && !arg; )
			if (__atomic_load_n(&s->s_over, __ATOMIC_RELAXED))
				break;
		began = given_here();
		if (arg) {
			tried++;
			TEST_EQUAL(ustack_check(), 0);
			undisturbed += began == given_here();
		}
		TEST_EQUAL(ustack_yield(), 0);
	}
}

TEST(test_stale)
{
	static const struct uprocs_conf conf = { .c_processors = 1,
						 .c_slice = 200 * SLICE };

	if (!interrupts() || test_is_stressed())
		skip();
	undisturbed = tried = 0;
	run(&conf, overrun);
	TEST_TRUE(undisturbed > 0);
}

static void begin_region(void)
{
	static const struct uprocs_conf conf = { .c_processors = 1, .c_slice = SLICE };
	void *s;

	TEST_EQUAL(over->o_create(&conf, &s), 0);
	TEST_TRUE(vectors_ask(s));
}

/* A region asks libc nothing that the child of a fork may not. */
TEST(test_in_child)
{
	if (!interrupts())
		skip();
	test_in_child_with_libraries_held(begin_region);
}

static int cancelled_rc;

static void check_until_cancelled(void *arg)
{
	if (arg == 0)
		while ((cancelled_rc = ustack_check()) == 0)
			;
	else
		TEST_EQUAL(ustack_cancel(interrupted), 0);
}

/* Ends with -ECANCELED, as a yield. */
TEST(test_cancel)
{
	static const struct uprocs_conf conf = { .c_processors = 1, .c_slice = SLICE };
	struct ustack *other;

	TEST_EQUAL(over->o_create(&conf, &scheduler), 0);
	TEST_EQUAL(over->o_start(scheduler, check_until_cancelled, NULL, &interrupted),
		   0);
	TEST_EQUAL(over->o_start(scheduler, check_until_cancelled, &turns, &other), 0);
	TEST_EQUAL(ustack_join(other, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_join(interrupted, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
	TEST_EQUAL(cancelled_rc, -ECANCELED);
}

/* ---- Where there is no preemption ---- */

static int asked;

static void ask(void *unused)
{
	(void)unused;
	asked = ustack_preemptible(1);
	ustack_preemptible(asked);
}

static int ask_with(const struct uprocs_conf *conf)
{
	asked = 1;
	run(conf, ask);
	return asked;
}

TEST(test_refused)
{
	void *s;

	TEST_EQUAL(ustack_preemptible(1), -EPERM);
	TEST_EQUAL(ask_with(&(struct uprocs_conf){ .c_processors = 1 }), -ENOTSUP);
	TEST_EQUAL(ask_with(&(struct uprocs_conf){ .c_embed = 1, .c_slice = SLICE }),
		   -ENOTSUP);
	TEST_EQUAL(ask_with(&confs[3]), interrupts() ? 0 : -ENOTSUP);
	TEST_EQUAL(over->o_create(&(struct uprocs_conf){ .c_slice = 9999 }, &s), -EINVAL);
	TEST_EQUAL(over->o_create(&(struct uprocs_conf){ .c_slice = -1 }, &s), -EINVAL);
	TEST_EQUAL(over->o_create(&(struct uprocs_conf){ .c_slice = INT64_MAX }, &s),
		   -EINVAL);
}

/* How often threads of this process go to sleep in 200 ms. */
static size_t sleeps_of_a_while(void)
{
	size_t before = vectors_sleeps();

	sleep_ms(200);
	return vectors_sleeps() - before;
}

/*
 * The monitor sleeps while nothing runs: nothing in this process does. It looks some
 * times before, and may be late with that.
 */
TEST(test_idle)
{
	static const struct uprocs_conf conf = { .c_slice = SLICE };
	struct ustack *thread;

	TEST_EQUAL(over->o_create(&conf, &scheduler), 0);
	TEST_EQUAL(over->o_start(scheduler, alone, NULL, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	for (int tries = 1; sleeps_of_a_while() >= 20; tries++)
		TEST_TRUE(tries < 20);
	TEST_EQUAL(over->o_start(scheduler, check_often, NULL, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(scheduler), 0);
}

int main(void)
{
	child_begin();
	return over_all(OVER_PROCS);
}
