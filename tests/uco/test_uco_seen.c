/* SPDX-License-Identifier: MIT */
/*
 * test_uco_seen.c: threads inside of coroutines, as others see them: visits and dumps
 * find the innermost calls, memory that is given back holds no frames, and no thread
 * moves away from its coroutines.
 */
#define USCHED_INLINE_SWITCH
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../help/calls.h"
#include "../help/mini.h"
#include "../help/procs.h"

#include "../../rr.h"
#include "../../uco.h"
#include "../../arch/arch.h"
#include "../../debug/uinspect.h"
#include "../../src/core/core.h"
#include "../../uimage.h"
#include "../../usync.h"

enum { THREADS = 8, ROUNDS = 40, LEVELS = 3, LOCAL = 900, MOVES = 20,
       STEPS = 30, DEEP = 9000 };

/* A thread, and the calls that its innermost frames were in when it blocked. */
struct one {
	struct ustack o_thread;         /* a mini's record ends with it */
	struct calls  o_calls;
	bool          o_end;
};

static struct one one[THREADS];
static struct mini plain;
static uint32_t seed = 1;

static struct seen {
	struct one  *s_one;
	struct calls s_calls;
	unsigned     s_visits;
} *seen;

/* ---- Visits ---- */

IN(block_there) static void block_there(struct one *o)
{
	test_take_calls(&o->o_calls);
	TEST_EQUAL(ustack_block(), 0);
}
EXTENT(block_there)

static void resume_next(struct one *o, uintptr_t level);

/* Blocks, yields, or resumes a coroutine, below locals that must stay the same. */
__attribute__((noinline)) static void go_down(struct one *o, uintptr_t level)
{
	size_t size = 16 + test_random(&seed) % LOCAL;
	char *local = alloca(size), byte = (char)(o - one + (int)level * 16);

	memset(local, byte, size);
	block_there(o);
	if (level < LEVELS)
		resume_next(o, level + 1);
	if (level > 0 && test_random(&seed) % 2)
		TEST_EQUAL(uco_yield(NULL, NULL), 0);
	block_there(o);
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(local[i], byte);
}

struct where {
	struct one *w_one;
	uintptr_t   w_level;
};

static void *run_level(void *arg, void *unused)
{
	struct where w = *(struct where *)arg;

	(void)unused;
	go_down(w.w_one, w.w_level);
	return NULL;
}

static void resume_next(struct one *o, uintptr_t level)
{
	struct where *w = malloc(sizeof *w);
	struct uco *co;

	TEST_TRUE(w);
	*w = (struct where){ o, level };
	TEST_EQUAL(uco_create(run_level, w, &co), 0);
	while (uco_resume(co, NULL, NULL) == 0)
		block_there(o);
	TEST_EQUAL(uco_close(co), 0);
	free(w);
}

static void be_one(void *arg)
{
	struct one *o = arg;

	while (!o->o_end)
		go_down(o, 0);
}

static void look(void *unused)
{
	(void)unused;
	TEST_TRUE(ustack_self() == &seen->s_one->o_thread);
	seen->s_visits++;
	test_take_calls(&seen->s_calls);
}

static void compare(const struct one *o)
{
	test_same_calls(&o->o_calls, &seen->s_calls, __start_in_block_there,
			__stop_in_block_there);
}

static void visit_all(void *unused)
{
	(void)unused;
	for (unsigned n = 0; n < ROUNDS; n++) {
		for (unsigned i = 0; i < 2 * THREADS; i++) {
			struct one *o = &one[test_random(&seed) % THREADS];

			seen->s_one = o;
			TEST_EQUAL(usched__visit(&o->o_thread, look, NULL), 0);
			compare(o);
		}
		TEST_EQUAL(ustack_block(), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		one[i].o_end = true;
}

/* The visitor is inside of a coroutine, too. */
static void *visit_inside(void *unused, void *value)
{
	visit_all(unused);
	return value;
}

static void visit(void *inside)
{
	struct uco *co;

	if (!inside) {
		visit_all(NULL);
		return;
	}
	TEST_EQUAL(uco_create(visit_inside, NULL, &co), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
}

static void visits(unsigned stacks, void *inside)
{
	struct ustack *visitor = malloc(sizeof *visitor);

	TEST_TRUE(visitor);
	mini_init(&plain, stacks, 160 << 10);
	memset(one, 0, sizeof one);
	for (int i = 0; i < THREADS; i++)
		mini_start(&plain, &one[i].o_thread, be_one, &one[i]);
	mini_start(&plain, visitor, visit, inside);
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
	assert_int_equal(plain.p_dones, THREADS + 1);
	assert_int_equal(seen->s_visits, 2 * THREADS * ROUNDS);
	seen->s_visits = 0;
	mini_fini(&plain);
	free(visitor);
}

TEST(test_visits)
{
	static const unsigned stacks[] = { 0, 1, 3, MINI_STACKS };
	void *first[4];

	backtrace(first, 4);                    /* loads the unwinder, on this stack */
	seen = calloc(1, sizeof *seen);
	TEST_TRUE(seen);
	for (size_t i = 0; i < 4 && (i == 0 || test_has_stacks()); i++) {
		visits(stacks[i], NULL);
		visits(stacks[i], seen);
	}
	free(seen);
}

/* ---- Dumps ---- */

static struct usync_mutex mutex;
static struct uprocs *rr;

IN(lock_there) static void lock_there(void)
{
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
}
EXTENT(lock_there)

static void *lock_inside(void *level, void *value)
{
	struct uco *co;

	if (!level) {
		lock_there();
		return value;
	}
	TEST_EQUAL(uco_create(lock_inside, (char *)level - 1, &co), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
	return value;
}

static void lock_as_thread(void *unused)
{
	(void)unused;
	lock_inside((void *)(uintptr_t)LEVELS, NULL);
}

/* Whether the call is in the text, by its address. */
static bool shows_call(char *text)
{
	for (char *at = strstr(text, "\t0x"); at; at = strstr(at + 1, "\t0x"))
		if (IS_IN(lock_there, strtoull(at + 1, NULL, 16)))
			return true;
	return false;
}

static char *dump(void)
{
	FILE *file = tmpfile();
	char *text = calloc(1, 1 << 16);

	TEST_TRUE(file && text);
	TEST_EQUAL(uinspect_dump(fileno(file), 0), 0);
	TEST_TRUE(pread(fileno(file), text, (1 << 16) - 1, 0) > 0);
	fclose(file);
	return text;
}

static void dump_all(void *unused)
{
	struct ustack *u[THREADS];
	char line[100], *text;

	(void)unused;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(rr_start_with(rr, TEST_ON(0), lock_as_thread,
					 NULL, &u[i]), 0);
	for (size_t i = 0; i < THREADS + 2; i++)
		TEST_EQUAL(ustack_yield(), 0);
	for (int i = 0; i < 3; i++) {
		text = dump();
		snprintf(line, sizeof line, "%d threads, function", THREADS);
		TEST_TRUE(strstr(text, line));
		TEST_TRUE(strstr(text, "wait for mutex"));
		TEST_TRUE(shows_call(text) || !test_tail_calls());
		free(text);
	}
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(ustack_join(u[i], NULL, USCHED_NEVER), 0);
}

static void run(const struct uprocs_conf *conf, void (*func)(void *))
{
	test_timeout(60);
	assert_int_equal(rr_create(conf, &rr), 0);
	assert_int_equal(rr_start_with(rr, TEST_ON(0), func, NULL, NULL),
			 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

TEST(test_dumps)
{
	static const unsigned stacks[] = { 1, 2, 100 };

	for (size_t i = 0; i < 3; i++)
		run(&(struct uprocs_conf){ .c_processors = 1, .c_stacks = stacks[i] },
		    dump_all);
}

/* ---- Memory that is given back ---- */

static int drop(void *low, size_t size, void *unused)
{
	(void)unused;
	uimage_drop(low, size);
	return 1;
}

/* Drops the memory of the processor's stacks above all frames. */
static void drop_unused(void)
{
	TEST_EQUAL(usched__unused(usched__here(), 0, drop, NULL), 0);
}

static void *keep_frames(void *arg, void *value)
{
	size_t size = DEEP + (uintptr_t)arg;
	volatile char *local = alloca(size);

	for (size_t i = 0; i < size; i++)
		local[i] = (char)(i + (uintptr_t)arg);
	for (unsigned n = 0; n < STEPS; n++) {
		drop_unused();                  /* from inside */
		if (n % 2)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(uco_yield(value, NULL), 0);
	}
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(local[i], (char)(i + (uintptr_t)arg));
	return NULL;
}

static void trim_between(void *unused)
{
	struct uco *co[2];
	volatile char local[DEEP];
	unsigned left = 2;

	(void)unused;
	for (size_t i = 0; i < DEEP; i++)
		local[i] = (char)i;
	for (uintptr_t i = 0; i < 2; i++)
		TEST_EQUAL(uco_create(keep_frames, (void *)(i * 5000), &co[i]), 0);
	while (left > 0) {
		left -= uco_resume(co[test_random(&seed) % 2], NULL, NULL) == 1;
		drop_unused();
		TEST_EQUAL(ustack_yield(), 0);
	}
	for (size_t i = 0; i < 2; i++)
		TEST_EQUAL(uco_close(co[i]), 0);
	for (size_t i = 0; i < DEEP; i++)
		TEST_EQUAL(local[i], (char)i);
}

static void trim_all(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < THREADS; i++)
		TEST_EQUAL(rr_start_with(rr, TEST_ON(0), trim_between, NULL,
					 NULL), 0);
	trim_between(NULL);
}

TEST(test_trims)
{
	static const unsigned stacks[] = { 1, 2, 100 };

	for (size_t i = 0; i < 3; i++)
		run(&(struct uprocs_conf){ .c_processors = 1, .c_stacks = stacks[i] },
		    trim_all);
}

/* ---- Idle processors that ask for threads ---- */

static uint64_t count_moves(void)
{
	struct usched_stats stats;

	uprocs_stats(rr, &stats);
	return stats.st_moves;
}

/* Processors are idle at times, or none would ask for threads. */
static void take_turns(void)
{
	for (int i = 0; i < 4; i++) {
		for (int64_t end = uevents_now() + 20000; uevents_now() < end;)
			;
		TEST_EQUAL(ustack_yield(), 0);
	}
	TEST_EQUAL(usync_sleep_until(usync_after(100000)), 0);
}

static void move_about(void *unused)
{
	(void)unused;
	while (count_moves() < MOVES)
		take_turns();
}

static void *turn_inside(void *unused, void *value)
{
	(void)unused;
	for (;;) {
		take_turns();
		if (uco_yield(value, NULL))
			return NULL;
	}
}

static void stay_with_it(void *unused)
{
	const struct usched *here;
	struct uco *co;

	(void)unused;
	TEST_EQUAL(uco_create(turn_inside, NULL, &co), 0);
	here = usched__here();
	while (count_moves() < MOVES) {
		TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
		TEST_TRUE(usched__here() == here);
		take_turns();                   /* and beside it */
		TEST_TRUE(usched__here() == here);
	}
	TEST_EQUAL(uco_close(co), 0);
}

static void start_movers(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(rr_start(rr, stay_with_it, NULL, NULL), 0);
		TEST_EQUAL(rr_start(rr, move_about, NULL, NULL), 0);
	}
}

TEST(test_steals)
{
	if (!test_has_stacks() || test_is_stressed())
		skip();
#ifdef SINGLE_THREAD                            /* one processor */
	skip();
#endif
	run(&(struct uprocs_conf){ .c_processors = 2 }, start_movers);
}

int main(void)
{
	return test_run_all();
}
