/* SPDX-License-Identifier: MIT */
/*
 * test_exit.c: threads that end at any depth of calls, and their values, over every
 * scheduler.
 */
#include "../help/over.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "../../uco.h"
#include "../../usync.h"

enum { DEEP = 40, FRAME = 200 };

static void *make(unsigned stacks)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stacks = stacks };
	void *s;

	assert_int_equal(over->o_create(&conf, &s), 0);
	return s;
}

/* A thread that gives way, below `depth' calls, and ends there. */
struct ender {
	struct ustack *e_thread;
	void          *e_value;
	int            e_depth;
	int            e_gives_way;
	atomic_int     e_returned;
};

__attribute__((noinline)) static int dive(struct ender *e, int depth)
{
	volatile char frame[FRAME];

	for (int i = 0; i < FRAME; i++)
		frame[i] = (char)(i + depth);
	if (depth == 0) {
		for (int i = 0; i < e->e_gives_way; i++)
			TEST_EQUAL(test_give_way(), 0);
		ustack_exit(e->e_value);
		e->e_returned++;
	} else {
		dive(e, depth - 1);
	}
	e->e_returned++;
	return frame[depth % FRAME];
}

static void end_deep(void *ender)
{
	struct ender *e = ender;

	dive(e, e->e_depth);
	e->e_returned++;
}

static void end_plainly(void *ender)
{
	struct ender *e = ender;

	for (int i = 0; i < e->e_gives_way; i++)
		TEST_EQUAL(test_give_way(), 0);
}

static void start(void *s, struct ender *e, void (*func)(void *))
{
	assert_int_equal(over->o_start(s, func, e, &e->e_thread), 0);
}

/* ---- Values ---- */

enum { ENDERS = 16 };

static struct ender enders[ENDERS];

static void *value_of(int i)
{
	return &enders[(i * 7) % ENDERS];
}

/* Of every second thread; the others return. */
static void check_value(int i, int64_t deadline)
{
	void *value = &value;

	TEST_EQUAL(ustack_join(enders[i].e_thread, &value, deadline), 0);
	TEST_TRUE(value == (i % 2 ? value_of(i) : NULL));
	TEST_EQUAL(enders[i].e_returned, 0);
}

static void start_enders(void *s)
{
	for (int i = 0; i < ENDERS; i++) {
		enders[i] = (struct ender){
			.e_value = value_of(i), .e_depth = i % 3 * DEEP,
			.e_gives_way = i % 5,
		};
		start(s, &enders[i], i % 2 ? end_deep : end_plainly);
	}
}

static void join_all(void *unused)
{
	(void)unused;
	for (int i = 0; i < ENDERS; i++)
		check_value(i, i % 3 == 0 ? USCHED_NEVER
			    : usync_after((i % 3) * 1000 * USYNC_SECOND));
}

static void join_ended(void *unused)
{
	(void)unused;
	for (int i = 0; i < ENDERS; i++)
		while (ustack_wake(enders[i].e_thread) != -ESRCH)
			TEST_EQUAL(test_give_way(), 0);
	for (int i = 0; i < ENDERS; i++)
		check_value(i, i % 2 ? 0 : USCHED_NEVER);
}

/* By threads and native threads, while they run and afterwards. */
static void values(unsigned stacks)
{
	void *s = make(stacks);
	struct usched_stats stats;

	for (int round = 0; round < 8; round++) {
		struct ender joiner = { 0 };

		start_enders(s);
		if (round % 4 == 0) {
			join_all(NULL);
		} else if (round % 4 == 1) {
			for (int i = 0; i < ENDERS; i++)
				while (ustack_wake(enders[i].e_thread) != -ESRCH)
					sched_yield();
			join_all(NULL);
		} else {
			start(s, &joiner, round % 4 == 2 ? join_all : join_ended);
			assert_int_equal(ustack_join(joiner.e_thread, NULL, USCHED_NEVER),
					 0);
		}
	}
	over->o_stats(s, &stats);
	assert_int_equal(stats.st_images, 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_values)
{
	values(1);
	values(USCHED_NATIVE);
	values(70);
}

/* A later thread with the same record has no value, and errors leave it alone. */
TEST(test_forgotten)
{
	struct ender e = { .e_value = &e, .e_depth = DEEP, .e_gives_way = 1 }, f = { 0 };
	void *s = make(1), *value;

	for (int i = 0; i < 50; i++) {
		start(s, &e, end_deep);
		if (i % 2) {
			assert_int_equal(ustack_detach(e.e_thread), 0);
			value = &f;
			if (over->o_procs)      /* else its memory may be gone */
				assert_int_equal(ustack_join(e.e_thread, &value, 0),
						 -EINVAL);
			assert_ptr_equal(value, &f);
		} else {
			assert_int_equal(ustack_join(e.e_thread, NULL, USCHED_NEVER), 0);
		}
		start(s, &f, end_plainly);
		value = &e;
		assert_int_equal(ustack_join(f.e_thread, &value, USCHED_NEVER), 0);
		assert_null(value);
	}
	assert_int_equal(e.e_returned, 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_outside)
{
	assert_int_equal(ustack_exit(NULL), -EPERM);
}

/* ---- What else the end of a thread does ---- */

static void destroy(void *value);

static const struct usync_key key = { destroy };
static struct usync_sem go_on, is_there;
static atomic_int destroyed, entered;

static void destroy(void *value)
{
	TEST_TRUE(value == ustack_self());
	TEST_EQUAL(usync_sleep_until(usync_after(100000)), 0);
	destroyed++;
}

static int end_in_scope(void *scope)
{
	struct ender e = { .e_depth = DEEP, .e_gives_way = 1 };

	TEST_EQUAL(usync_key_set(&key, ustack_self()), 0);
	TEST_EQUAL(usync_scope_enter(scope), 0);
	entered++;
	return dive(&e, DEEP);
}

static void start_in_scope(void *ender)
{
	struct usync_scope *scope = ((struct ender *)ender)->e_value;

	for (int i = 0; i < 5; i++)
		TEST_EQUAL(usync_scope_start(scope, end_in_scope, scope, NULL), 0);
	TEST_EQUAL(usync_scope_wait(scope, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_error(scope), 0);
	usync_scope_cancel(scope, -ECANCELED);  /* none is in it any more */
}

/*
 * Destructors run, and wait; scopes are left, and threads that were started in one have
 * ended for it.
 */
TEST(test_keys_and_scopes)
{
	struct usync_scope *scope;
	struct ender e = { 0 };
	void *s = make(1);

	if (!over->o_procs)
		skip();                         /* no s_start */
	destroyed = entered = 0;
	assert_int_equal(usync_scope_create(NULL, &scope, USCHED_NEVER), 0);
	e.e_value = scope;
	start(s, &e, start_in_scope);
	assert_int_equal(ustack_join(e.e_thread, NULL, USCHED_NEVER), 0);
	usync_scope_release(scope);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(entered, 5);
	assert_int_equal(destroyed, 5);
}

static void end_with_key(void *ender)
{
	TEST_EQUAL(usync_key_set(&key, ustack_self()), 0);
	TEST_EQUAL(usync_sem_post(&is_there), 0);
	TEST_EQUAL(usync_sem_wait(&go_on, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_control(1), 0);
	end_deep(ender);
}

/* Joined while its destructors wait; also one that was cancelled. */
TEST(test_destructors)
{
	struct ender e = { .e_value = &e, .e_depth = DEEP, .e_gives_way = 0 };
	void *s = make(2), *value;

	destroyed = 0;
	for (int i = 0; i < 6; i++) {
		start(s, &e, end_with_key);
		assert_int_equal(usync_sem_wait(&is_there, USCHED_NEVER), 0);
		assert_int_equal(usync_sem_post(&go_on), 0);
		value = NULL;
		assert_int_equal(ustack_join(e.e_thread, &value, USCHED_NEVER), 0);
		assert_ptr_equal(value, &e);
		assert_int_equal(destroyed, i + 1);
	}
	assert_int_equal(e.e_returned, 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- In coroutines ---- */

static void *end_inside(void *ender, void *first)
{
	struct ender *e = ender;
	struct uco *inner;
	void *result;

	TEST_EQUAL(uco_yield(first, &result), 0);
	if (e->e_depth-- > 0) {
		TEST_EQUAL(uco_create(end_inside, e, &inner), 0);
		for (;;)
			TEST_EQUAL(uco_resume(inner, NULL, &result), 0);
	}
	dive(e, DEEP);
	return NULL;
}

static atomic_uintptr_t outer;

static void run_coroutine(void *ender)
{
	struct uco *co;
	void *result;

	TEST_EQUAL(uco_create(end_inside, ender, &co), 0);
	outer = (uintptr_t)co;
	for (;;)
		TEST_EQUAL(uco_resume(co, NULL, &result), 0);
}

/* The thread ends, and its coroutines with it. */
TEST(test_coroutines)
{
	struct ender e = { .e_value = &e, .e_gives_way = 2 };
	void *value;

	for (unsigned i = 0; i < 6; i++) {
		void *s = make(i % 2 ? 1 : 3);

		e.e_depth = 0;
		start(s, &e, run_coroutine);
		assert_int_equal(ustack_join(e.e_thread, &value, USCHED_NEVER), 0);
		assert_ptr_equal(value, &e);
		assert_int_equal(uco_status((struct uco *)outer), UCO_ENDED);
		assert_int_equal(uco_close((struct uco *)outer), 0);
		assert_int_equal(over->o_destroy(s), 0);
	}
	assert_int_equal(e.e_returned, 0);
}

int main(void)
{
	return over_all(OVER_ALL);
}
