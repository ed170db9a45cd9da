/* SPDX-License-Identifier: MIT */
/*
 * test_move.c: threads that move to idle processors: new ones, and those
 * that run. What they wait for, their tokens, timers, descriptors, stacks and ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* sched_setaffinity() */
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../rr.h"
#include "../../uevents.h"
#include "../../unet.h"
#include "../../usync.h"
#include "../../src/proc/policy.h"
#include "../../src/proc/proc.h"
#include "../help/mini.h"
#include "../help/test.h"

enum {
	MANY    = 24,                   /* threads */
	MOVES   = 20,                   /* that a test waits for */
	SHORT   = 20000,                /* ns to compute */
	SLEEP   = 300000,               /* ns */
	CANARY  = 64,                   /* words */
};

#undef GET
#define GET(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define COUNT(word) __atomic_fetch_add(&(word), 1, __ATOMIC_SEQ_CST)

static const struct uprocs_conf two = { .c_processors = 2 };
static struct uprocs *rr;
static bool stop;                       /* atomic */

static uint64_t count_moves(void)
{
	struct usched_stats stats;

	uprocs_stats(rr, &stats);
	return stats.st_moves;
}

static void begin(const struct uprocs_conf *conf)
{
	test_timeout(120);
	stop = false;
	assert_int_equal(rr_create(conf, &rr), 0);
}

static void finish(void)
{
	struct usched_stats stats;

	uprocs_stats(rr, &stats);
	test_counted(&stats);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

/* Threads cannot move from the native stack, and those that share one do not. */
static bool can_move(void)
{
	return test_has_stacks() && !test_is_stressed();
}

static void need_moves(void)
{
	if (!can_move())
		skip();
}

static void compute(int64_t ns)
{
	int64_t end = uevents_now() + ns;

	while (uevents_now() < end)
		;
}

static void nap(void)
{
	int64_t until = usync_after(SLEEP);

	TEST_EQUAL(usync_sleep_until(until), 0);
	TEST_TRUE(uevents_now() >= until);
}

/* Processors are idle at times, or none would ask for threads. */
static void work(void)
{
	for (int i = 0; i < 4; i++) {
		compute(SHORT);
		TEST_EQUAL(ustack_yield(), 0);
	}
	nap();
}

/* ---- New threads ---- */

static void run_once(void *unused)
{
	(void)unused;
	compute(SHORT);
}

/* Starts threads until some have moved; each run of starts is on one processor. */
static void start_many(void *unused)
{
	(void)unused;
	while (count_moves() < MOVES) {
		struct ustack *last;

		for (int i = 0; i < MANY; i++)
			TEST_EQUAL(rr_start(rr, run_once, NULL, NULL), 0);
		TEST_EQUAL(rr_start(rr, run_once, NULL, &last), 0);
		TEST_EQUAL(ustack_join(last, NULL, USCHED_NEVER), 0);
	}
}

TEST(test_new)
{
	begin(&two);
	assert_int_equal(rr_start(rr, start_many, NULL, NULL), 0);
	finish();
}

/* ---- Threads that run ---- */

static void turn(void *unused)
{
	volatile uintptr_t canary[CANARY];

	(void)unused;
	for (unsigned i = 0; i < CANARY; i++)
		canary[i] = (uintptr_t)canary + i;
	while (count_moves() < MOVES) {
		work();
		for (unsigned i = 0; i < CANARY; i++)
			TEST_EQUAL(canary[i], (uintptr_t)canary + i);
	}
}

TEST(test_running)
{
	need_moves();
	begin(&two);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rr_start(rr, turn, NULL, NULL), 0);
	finish();
}

/* ---- Threads that wake each other ---- */

enum { RING = 6, TOGETHER = 2000 };     /* threads; rounds in a row */

static struct ustack *ring[RING];
static struct usched *where[RING];
static unsigned rounds;

/* A message goes round until all are on one processor for long enough. */
static void pass_on(void *index)
{
	size_t i = (uintptr_t)index;

	while (!GET(stop)) {
		TEST_EQUAL(ustack_wait(), 0);
		where[i] = usched__here();
		if (i == 0) {
			rounds++;
			for (size_t k = 1; k < RING; k++)
				if (where[k] != where[0])
					rounds = 0;
			__atomic_store_n(&stop, rounds >= TOGETHER, __ATOMIC_SEQ_CST);
		}
		if (!GET(stop) || i + 1 < RING)         /* else the first one has ended */
			TEST_EQUAL(ustack_wake(ring[(i + 1) % RING]), 0);
	}
}

TEST(test_together)
{
	need_moves();
	for (int i = 0; i < 10; i++) {
		begin(&two);
		rounds = 0;
		uprocs_hold(rr, 1);
		for (uintptr_t k = 0; k < RING; k++)
			assert_int_equal(rr_start(rr, pass_on, (void *)k, &ring[k]), 0);
		ustack_wake(ring[0]);
		for (size_t k = 0; k < RING; k++)
			assert_int_equal(ustack_join(ring[k], NULL, USCHED_NEVER), 0);
		uprocs_hold(rr, 0);
		finish();
	}
}

/* Of a processor with such runs, in ns, and so many 256ths of its time busy. */
#define LOAD_OF(run, busy) (&(struct uproc_load){ .ld_run = (run), .ld_share = (busy) })

static bool is_drawn(uint32_t run, uint32_t share, uint32_t other_run,
		     uint32_t other_share)
{
	return policy_draws(LOAD_OF(run, share), LOAD_OF(other_run, other_share));
}

static bool gathers(uint32_t ready, uint32_t share, uint32_t other_ready,
		    uint32_t other_share, bool first)
{
	return policy_gathers(LOAD_OF(0, share), ready, LOAD_OF(0, other_share),
			      other_ready, first);
}

static int64_t hold_after(int64_t before, int64_t busy, uint32_t drew)
{
	struct uproc_load l = { .ld_held = before };

	policy_hold(&l, 5, busy, drew);
	assert_int_equal(l.ld_hold, 5 + l.ld_held);
	return l.ld_held;
}

/* One that computes between its wakes is better off apart. */
TEST(test_policy)
{
	const uint32_t all = 256;

	assert_true(is_drawn(0, 0, 0, 0));
	assert_true(is_drawn(30, all, 30, all));
	assert_false(is_drawn(1000, all, 30, all));
	assert_false(is_drawn(30, all, 1000, all));
	assert_true(is_drawn(1000, all / 2, 1000, all / 4));
	assert_false(is_drawn(100000, all / 2, 1000, all / 4));
	assert_true(gathers(1, all, 2, all, 0));
	assert_false(gathers(2, all, 1, all, 1));
	assert_true(gathers(2, all, 0, all / 4, 0));
	assert_false(gathers(0, all / 4, 0, all, 1));
	assert_true(gathers(0, all, 0, all, 1));
	assert_false(gathers(0, all, 0, all, 0));
	assert_int_equal(hold_after(0, POLICY_GAIN, 5), 0);
	assert_int_equal(hold_after(POLICY_HOLD, 0, 0), 0);
	assert_int_equal(hold_after(0, 20000, 1), POLICY_GAIN);
	assert_int_equal(hold_after(POLICY_GAIN, 20000, 1), 2 * POLICY_GAIN);
	assert_int_equal(hold_after(POLICY_HOLD, 20000, 1), POLICY_HOLD);
	assert_int_equal(policy_run(0), 1);
	assert_int_equal(policy_run(1000), POLICY_RUN);
	assert_int_equal(policy_run(1000000), POLICY_RUNS);
	assert_int_equal(policy_new(8, 16, 0, 0), 8);
	assert_int_equal(policy_new(8, 16, 14, 1), 1);
	assert_int_equal(policy_new(8, 16, 16, 1), 0);
	assert_int_equal(policy_new(8, 2000, 1000, 0), 0);
	assert_int_equal(policy_new(8, 2000, 1000, 1), 8);
	assert_int_equal(policy_new(40, 2000, 1000, 0), 40);
}

/* ---- Threads that stay ---- */

static void stay(void *other)
{
	const struct usched *here;

	if (!other)
		TEST_EQUAL(ustack_stay(1), 0);
	TEST_EQUAL(ustack_stay(1), 1);
	here = usched__here();
	while (count_moves() < MOVES) {
		work();
		TEST_TRUE(usched__here() == here);
	}
	TEST_EQUAL(ustack_stay(0), 1);
	TEST_EQUAL(ustack_stay(0), 0);
}

TEST(test_stay)
{
	need_moves();
	begin(&two);
	assert_int_equal(ustack_stay(1), -EPERM);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rr_start_with(rr, TEST_ON(0), stay, rr,
					       NULL), 0);
		assert_int_equal(rr_start(rr, stay, NULL, NULL), 0);
		assert_int_equal(rr_start(rr, turn, NULL, NULL), 0);
	}
	finish();
}

/* ---- Everything at once ---- */

struct mover {
	struct ustack *m_thread;
	struct mover  *m_other;
	int            m_fd;
	unsigned       m_sent;          /* tokens that were given to it; atomic */
	uint32_t       m_seed;
};

static struct mover mover[MANY];
static struct usync_mutex mutex;
static struct usync_group begun, sent;
static unsigned held, sum;              /* mutex */
static unsigned locked;                 /* atomic */

static void give_token(struct mover *m)
{
	struct mover *to = &mover[test_random(&m->m_seed) % MANY];

	COUNT(to->m_sent);
	TEST_EQUAL(ustack_wake(to->m_thread), 0);
}

static void take(void)
{
	TEST_EQUAL(usync_mutex_lock(&mutex, usync_after(INT64_C(60000000000))), 0);
	TEST_EQUAL(held++, 0);
	sum++;
	COUNT(locked);
	if (sum % 3 == 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(--held, 0);
	usync_mutex_unlock(&mutex);
}

/* The other one of a pair does the same at some time. */
static void exchange(const struct mover *m)
{
	char byte = 'x';

	TEST_EQUAL(unet_write_all(m->m_fd, &byte, 1, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(unet_read(m->m_fd, &byte, 1, USCHED_NEVER), 1);
}

static void child(void *m)
{
	give_token(m);                  /* its parent waits, so m_seed is not shared */
	compute(SHORT);
}

static void start_child(struct mover *m)
{
	struct ustack *thread;

	int64_t deadline = m->m_seed % 2 ? USCHED_NEVER
		: usync_after(INT64_C(60000000000));

	TEST_EQUAL(rr_start(rr, child, m, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, deadline), 0);
}

static void act(struct mover *m)
{
	switch (test_random(&m->m_seed) % 6) {
	case 0:
		take();
		break;
	case 1:
		nap();
		break;
	case 2:
		start_child(m);
		break;
	case 3:
		give_token(m);
		break;
	default:
		compute(SHORT);
		TEST_EQUAL(ustack_yield(), 0);
	}
}

static void live(void *arg)
{
	struct mover *m = arg;

	TEST_EQUAL(usync_group_wait(&begun, USCHED_NEVER), 0);
	for (int i = 0; i < 50 || count_moves() < MOVES; i++) {
		/* In step: else one of a pair would wait for ever. */
		if (i < 50)
			exchange(m);
		act(m);
	}
	usync_group_done(&sent);
	TEST_EQUAL(usync_group_wait(&sent, USCHED_NEVER), 0);
	/* Each token was counted before it was given. */
	for (unsigned n = GET(m->m_sent); n > 0; n--)
		TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_self()->u_tokens, 0);
}

static void begin_movers(void)
{
	begin(&two);
	memset(mover, 0, sizeof mover);
	sum = locked = held = 0;
	assert_int_equal(usync_group_add(&begun, 1), 0);
	assert_int_equal(usync_group_add(&sent, MANY), 0);
}

TEST(test_all)
{
	int fds[2];

	need_moves();
	begin_movers();
	for (unsigned i = 0; i < MANY; i++) {
		if (i % 2 == 0)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		mover[i].m_fd = fds[i % 2];
		mover[i].m_seed = i + 1;
		assert_int_equal(rr_start(rr, live, &mover[i], &mover[i].m_thread), 0);
	}
	usync_group_done(&begun);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(ustack_join(mover[i].m_thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(sum, locked);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(unet_close(mover[i].m_fd), 0);
	finish();
}

/* ---- Stacks ---- */

static void pass(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_stay(0), 1);
	for (int i = 0; i < 3; i++) {
		compute(SHORT);
		TEST_EQUAL(ustack_yield(), 0);
	}
}

/* All on one processor, so that threads move away from it only. */
static void start_beside(void *unused)
{
	(void)unused;
	while (count_moves() < 4 * MOVES) {
		struct ustack *thread[MANY];

		for (int i = 0; i < MANY; i++)
			TEST_EQUAL(rr_start_with(rr, TEST_HOW(.h_processor =
							      USCHED_BESIDE), pass, NULL,
						 &thread[i]), 0);
		for (int i = 0; i < MANY; i++)
			TEST_EQUAL(ustack_join(thread[i], NULL, USCHED_NEVER), 0);
	}
}

/* A processor whose unshared stacks are all away could give no threads. */
TEST(test_stacks_return)
{
	need_moves();
	begin(&two);
	assert_int_equal(rr_start_with(rr, TEST_ON(0), start_beside, NULL,
				       NULL), 0);
	finish();
}

/* ---- Late handles ---- */

static struct ustack *late[MANY];
static unsigned ended;                  /* atomic */

static void end_soon(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_yield(), 0);
	COUNT(ended);
}

static void use_late(void *unused)
{
	(void)unused;
	while (count_moves() < MOVES) {
		for (int i = 0; i < MANY; i++) {
			TEST_EQUAL(ustack_wake(late[i]), -ESRCH);
			TEST_EQUAL(ustack_cancel(late[i]), -ESRCH);
		}
		work();
	}
}

/* Threads that have ended, while the stacks that they had move with others. */
TEST(test_late)
{
	struct ustack *user;

	need_moves();
	begin(&two);
	ended = 0;
	for (int i = 0; i < MANY; i++)
		assert_int_equal(rr_start(rr, end_soon, NULL, &late[i]), 0);
	while (GET(ended) < MANY)
		sched_yield();
	for (int i = 0; i < 3; i++)
		assert_int_equal(rr_start(rr, turn, NULL, NULL), 0);
	assert_int_equal(rr_start(rr, use_late, NULL, &user), 0);
	assert_int_equal(ustack_join(user, NULL, USCHED_NEVER), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(ustack_join(late[i], NULL, USCHED_NEVER), 0);
	finish();
}

/* ---- Addresses of thread-local variables ---- */

/* ---- Threads that keep what belongs to their native thread ---- */

enum what { ERRNO, STATIC, DYNAMIC, CONTROL_BLOCK, WHATS };

static __thread int local;
static void *(*dynamic)(void);          /* an address in TLS of a library loaded late */
static bool seen_moved;                 /* atomic */

/* Not known to the compiler: it is another one after a move. */
__attribute__((noinline))
static uintptr_t address_of(uintptr_t what)
{
	__asm__ volatile("" ::: "memory");
	switch (what) {
	case ERRNO:   return (uintptr_t)&errno;
	case DYNAMIC: return (uintptr_t)(dynamic ? dynamic() : &local);
	case STATIC:  return (uintptr_t)&local;
	default:      return (uintptr_t)pthread_self();
	}
}

/* The same, so that it cannot be seen; nor what the call has left below the frame. */
__attribute__((noinline))
static uintptr_t hidden_address(void)
{
	uintptr_t hidden = ~address_of(STATIC);
	volatile char below[512];

	for (size_t i = 0; i < sizeof below; i++)
		below[i] = 0;
	return hidden;
}

static bool goes_on(void)
{
	return count_moves() < MOVES || !GET(seen_moved);
}

/* As compilers do it: in a register, or in the frame. */
static void keep_register(void *what)
{
	uintptr_t kept = address_of((uintptr_t)what);

	while (goes_on()) {
		work();
		TEST_TRUE(kept == address_of((uintptr_t)what));
	}
}

static void keep_frame(void *what)
{
	volatile uintptr_t kept = address_of((uintptr_t)what);

	while (goes_on()) {
		work();
		TEST_TRUE(kept == address_of((uintptr_t)what));
	}
}

/* More than is looked through. */
static void keep_deep(void *unused)
{
	char deep[20 << 10];
	uintptr_t hidden = hidden_address();

	(void)unused;
	while (goes_on()) {
		__asm__ volatile("" :: "r"(deep) : "memory");   /* all of it */
		work();
		TEST_TRUE(hidden == hidden_address());
	}
}

static void hide(void *unused)
{
	uintptr_t hidden = hidden_address();

	(void)unused;
	while (goes_on()) {
		work();
		if (hidden != hidden_address())
			__atomic_store_n(&seen_moved, true, __ATOMIC_SEQ_CST);
	}
}

/* The threads of the inner dispatcher have frames elsewhere. */
static void run_inner(void *unused)
{
	struct mini *p = malloc(sizeof *p);
	uintptr_t hidden;

	(void)unused;
	TEST_TRUE(p);
	mini_init(p, 0, 0);
	TEST_EQUAL(usched_run(&p->p_sched), 0);
	hidden = hidden_address();
	while (goes_on()) {
		work();
		TEST_TRUE(hidden == hidden_address());
	}
	mini_fini(p);
	free(p);
}

/* Each place of a blocked thread where an address may be, and the ends of what is TLS. */
static void look(void *unused)
{
	uintptr_t frame[4] = { 0 }, addresses[] = {
		address_of(ERRNO), address_of(CONTROL_BLOCK), (uintptr_t)&local,
		(uintptr_t)&local + sizeof local - 1,
	};
	struct usched_stack k = { .k_bottom = (char *)(frame + 4) };
	struct ustack u = { .u_top = (char *)frame, .u_stack = &k };
	struct uproc_locals l;

	(void)unused;
	uproc__note_locals(&l);
	TEST_TRUE(!uproc__keeps_local(&l, &u));
	for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
		u.u_fp = (void *)addresses[i];
		TEST_TRUE(uproc__keeps_local(&l, &u));
		u.u_fp = NULL;
		u.u_bp = (void *)addresses[i];
		TEST_TRUE(uproc__keeps_local(&l, &u));
		u.u_bp = NULL;
		for (size_t at = 0; at < 4; at++) {
			frame[at] = addresses[i];
			TEST_TRUE(uproc__keeps_local(&l, &u));
			frame[at] = 0;
		}
	}
	frame[0] = (uintptr_t)&rr;
	frame[3] = (uintptr_t)look;
	TEST_TRUE(!uproc__keeps_local(&l, &u));
}

TEST(test_look)
{
	begin(&two);
	assert_int_equal(rr_start(rr, look, NULL, NULL), 0);
	finish();
}

/* In the child of a fork libc is not asked, and threads that have run stay. */
static void look_in_child(void)
{
	struct uproc_locals l;

	uproc__forked();
	uproc__note_locals(&l);
	TEST_TRUE(l.ls_full);
}

TEST(test_look_in_child)
{
	begin(&two);
	test_in_child_with_libraries_held(look_in_child);
	finish();
}

/* What is in registers where the dispatcher takes over. */
static void leave_registers(void *unused)
{
	uintptr_t a = address_of(ERRNO), b = a, c = a, d = a, e = a;

	(void)unused;
	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	TEST_EQUAL(ustack_yield(), 0);
	__asm__ volatile("" :: "r"(a), "r"(b), "r"(c), "r"(d), "r"(e));
}

/* Launched then, and blocks with these in its frames, if it has them. */
static void have_registers(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_yield(), 0);
}

static struct ustack *launched;

static void look_at_it(void *unused)
{
	struct uproc_locals l;

	(void)unused;
	uproc__note_locals(&l);
	TEST_TRUE(!uproc__keeps_local(&l, launched));
}

/* They run in this order, as the caller ends. */
static void start_these(void *unused)
{
	(void)unused;
	TEST_EQUAL(rr_start_with(rr, TEST_ON(0), leave_registers, NULL, NULL), 0);
	TEST_EQUAL(rr_start_with(rr, TEST_ON(0), have_registers, NULL, &launched), 0);
	TEST_EQUAL(rr_start_with(rr, TEST_ON(0), look_at_it, NULL, NULL), 0);
}

/* A new thread has no address of its processor: one in a frame would keep it there. */
TEST(test_launch)
{
	struct ustack *starter;

	need_moves();
	begin(&two);
	assert_int_equal(rr_start_with(rr, TEST_ON(0), start_these, NULL, &starter), 0);
	assert_int_equal(ustack_join(starter, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(launched, NULL, USCHED_NEVER), 0);
	finish();
}

TEST(test_local)
{
	void *library = dlopen("libstdc++.so.6", RTLD_NOW), *function = NULL;

	need_moves();
	if (library)
		function = dlsym(library, "__cxa_get_globals");
	memcpy(&dynamic, &function, sizeof dynamic);
	seen_moved = false;
	begin(&two);
	for (uintptr_t i = 0; i < WHATS; i++) {
		assert_int_equal(rr_start(rr, keep_register, (void *)i, NULL), 0);
		assert_int_equal(rr_start(rr, keep_frame, (void *)i, NULL), 0);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(rr_start(rr, keep_deep, NULL, NULL), 0);
		assert_int_equal(rr_start(rr, run_inner, NULL, NULL), 0);
		assert_int_equal(rr_start(rr, hide, NULL, NULL), 0);
	}
	finish();
}

/* ---- Processors that follow the CPUs that are allowed ---- */

enum { ROAMERS = 8, ROUNDS = 50 };

static unsigned seen[2];                /* rounds on each processor; atomic */
static unsigned in_a_row[ROAMERS];      /* rounds on processor 0; atomic */

static void roam(void *number)
{
	uintptr_t i = (uintptr_t)number;

	if (i == 0)
		TEST_EQUAL(ustack_stay(0), 1);
	while (!GET(stop)) {
		size_t at = uproc__index(uproc_self());

		COUNT(seen[at]);
		if (i < ROAMERS)
			SET(in_a_row[i], at == 0 ? GET(in_a_row[i]) + 1 : 0);
		else
			TEST_EQUAL(at, 1);
		if (i > 0)
			work();
		else
			TEST_EQUAL(ustack_yield(), 0);  /* never waits */
	}
}

static void count_places(void *count)
{
	__atomic_fetch_add((unsigned *)count, uproc__index(uproc_self()) == 0,
			   __ATOMIC_SEQ_CST);
}

/* Binds all native threads to the first n CPUs of `all', and has processors look once. */
static void allow(const cpu_set_t *all, int n)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&set) < n; cpu++)
		if (CPU_ISSET(cpu, all))
			CPU_SET(cpu, &set);
	while ((task = readdir(tasks)))
		if (atoi(task->d_name) > 0)
			sched_setaffinity(atoi(task->d_name), sizeof set, &set);
	closedir(tasks);
	if (!rr)
		return;
	__atomic_store_n(&rr->r_due, 0, __ATOMIC_SEQ_CST);
	while (GET(rr->r_due) == 0 || GET(rr->r_due) == INT64_MAX)
		usleep(1000);
	__atomic_store_n(&rr->r_due, INT64_MAX, __ATOMIC_SEQ_CST);
	assert_int_equal(GET(rr->r_limit), n);
}

/* Waits until threads have run on processor 1 again. */
static void wait_both(void)
{
	SET(seen[1], 0);
	while (GET(seen[1]) < ROUNDS)
		usleep(1000);
}

/* Waits until all roamers have kept to processor 0. */
static void wait_gathered(void)
{
	for (size_t i = 0; i < ROAMERS; i++)
		SET(in_a_row[i], 0);
	for (size_t i = 0; i < ROAMERS; i++)
		while (GET(in_a_row[i]) < ROUNDS) {
			usleep(1000);
			if (GET(in_a_row[0]) == 0)
				i = 0;
		}
}

/* From one CPU to two and back, twice. A thread of processor 1 stays there. */
TEST(test_follow)
{
	struct ustack *last;
	unsigned placed = 0;
	cpu_set_t all;

	need_moves();
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	if (CPU_COUNT(&all) < 2 || quota_cpus("/proc/self/cgroup", "/sys/fs/cgroup") < 2)
		skip();
	rr = NULL;
	allow(&all, 1);
	begin(NULL);
	assert_int_equal(rr->r_made, 1);
	for (uintptr_t i = 1; i < ROAMERS; i++)
		assert_int_equal(rr_start(rr, roam, (void *)i, NULL), 0);
	assert_int_equal(rr_start_with(rr, TEST_ON(1), roam, (void *)ROAMERS, NULL),
			 -EINVAL);
	for (int i = 0; i < 2; i++) {
		allow(&all, 2);
		wait_both();
		assert_int_equal(rr_start_with(rr, TEST_ON(1), roam, NULL, NULL), 0);
		allow(&all, 1);
		wait_gathered();
	}
	assert_int_equal(rr_start_with(rr, TEST_ON(1), roam, (void *)ROAMERS, NULL), 0);
	wait_both();
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(rr_start(rr, count_places, &placed, &last), 0);
		assert_int_equal(ustack_join(last, NULL, USCHED_NEVER), 0);
	}
	assert_int_equal(GET(placed), MANY);
	wait_gathered();
	allow(&all, 2);
	SET(stop, true);
	finish();
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
	return test_run_all();
}
