/* SPDX-License-Identifier: MIT */
/*
 * test_uco_direct.c: coroutines that run directly, beside the records: what makes these
 * true, and what must hold until then. The same must hold where none does.
 */
#define USCHED_INLINE_SWITCH
#include <stdlib.h>

#include "../help/mini.h"

#include "../../uco.h"
#include "../../src/base/check.h"

enum { PAIRS = 5, CHAIN = 4, SIZE = 64 << 10, DEEP = 6000, SHARED = 64 };

static struct mini mini;
static struct ustack *threads;
static struct uco *kept[CHAIN];

static void *word(uintptr_t n)
{
	return (void *)n;
}

/* Each as a thread of its own, on so many stacks. */
static void run(unsigned stacks, size_t n, void (*const *func)(void *))
{
	mini_init(&mini, stacks, SIZE);
	threads = calloc(n, sizeof *threads);
	TEST_TRUE(threads);
	for (size_t i = 0; i < n; i++)
		mini_start(&mini, &threads[i], func[i], NULL);
	TEST_EQUAL(usched_run(&mini.p_sched), 0);
	TEST_EQUAL(mini.p_dones, n);
	mini_fini(&mini);
	free(threads);
}

static void run_on_each(size_t n, void (*const *func)(void *))
{
	static const unsigned stacks[] = { 0, 1, 2, 3, 5, MINI_STACKS };

	test_timeout(60);
	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
		run(stacks[i], n, func);
}

static uint64_t images(void)
{
	struct usched_stats stats;

	usched_stats(&mini.p_sched, &stats);
	return stats.st_images;
}

/* Uses so many bytes of frames, and calls f(arg) below; they must be as before. */
static void *below(size_t bytes, void *(*f)(void *arg), void *arg)
{
	volatile size_t size = bytes;
	volatile unsigned char *frame = __builtin_alloca(size);
	void *rc;

	for (size_t i = 0; i < bytes; i++)
		frame[i] = (unsigned char)(i * 7);
	rc = f(arg);
	for (size_t i = 0; i < bytes; i++)
		TEST_EQUAL(frame[i], (unsigned char)(i * 7));
	return rc;
}

static void *yield_value(void *value)
{
	int rc = uco_yield(value, NULL);

	TEST_TRUE(rc == 0 || rc == -ECANCELED);
	return value;
}

static void *resume_once(void *co)
{
	void *value = NULL;
	int rc = uco_resume(co, NULL, &value);

	TEST_TRUE(rc >= 0);
	return value;
}

static void close_kept(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		TEST_EQUAL(uco_close(kept[i]), 0);
		kept[i] = NULL;
	}
}

/* ---- R4: what is suspended has an image ---- */

/* Yields until it is suspended directly; then deeper. */
static void *go_deeper(void *unused, void *value)
{
	for (uintptr_t i = 0; i < PAIRS; i++)
		yield_value(word(i));
	for (uintptr_t i = 0; i < PAIRS; i++)
		below(DEEP / PAIRS * i, yield_value, word(i));
	below(DEEP, yield_value, unused);
	return value;
}

/* Others take the place of the deep one. */
static void use_deeper(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_create(go_deeper, NULL, &kept[i]), 0);
	for (uintptr_t i = 0; i < 2 * PAIRS; i++)
		TEST_TRUE(resume_once(kept[0]) == word(i % PAIRS));
	resume_once(kept[0]);
	TEST_TRUE(images() > 0 || !kept[0]->co_frames.u_stack->k_shared);
	for (size_t i = 1; i < CHAIN; i++)
		for (uintptr_t k = 0; k <= 2 * PAIRS; k++)
			resume_once(kept[i]);
	for (size_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_resume(kept[i], NULL, NULL), 1);
	close_kept(CHAIN);
}

TEST(test_deeper)
{
	void (*const one[])(void *) = { use_deeper };

	run_on_each(1, one);
}

/* Blocks in the third round, when it runs directly: its resumer is deep, too. */
static void *block_inside(void *unused, void *value)
{
	for (uintptr_t i = 0; i < 2; i++)
		yield_value(word(i));
	TEST_EQUAL(ustack_block(), 0);
	yield_value(unused);
	return value;
}

static void resume_deep(void *unused)
{
	struct uco *co;

	(void)unused;
	TEST_EQUAL(uco_create(block_inside, NULL, &co), 0);
	for (uintptr_t i = 0; i < 2; i++)
		TEST_TRUE(below(DEEP, resume_once, co) == word(i));
	below(DEEP, resume_once, co);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
}

/* Takes the stacks while the other one waits inside. */
static void look_at_it(void *unused)
{
	struct uco *co[3];

	(void)unused;
	TEST_TRUE(images() > 0 || !test_has_stacks() || mini.p_stacks > SHARED);
	for (size_t i = 0; i < 3; i++) {
		TEST_EQUAL(uco_create(go_deeper, NULL, &co[i]), 0);
		for (int k = 0; k < 3; k++)
			resume_once(co[i]);
	}
	for (size_t i = 0; i < 3; i++)
		TEST_EQUAL(uco_close(co[i]), 0);
}

TEST(test_resumers)
{
	void (*const both[])(void *) = { resume_deep, look_at_it, look_at_it };

	run_on_each(3, both);
}

/* ---- Status, while one resumes the next again and again ---- */

static void assert_busy(struct uco *co)
{
	TEST_EQUAL(uco_resume(co, NULL, NULL), -EBUSY);
	TEST_EQUAL(uco_close(co), -EBUSY);
}

static void look_up(size_t own)
{
	TEST_TRUE(uco_self() == kept[own]);
	for (size_t i = 0; i <= own; i++) {
		TEST_EQUAL(uco_status(kept[i]), i < own ? UCO_RESUMING : UCO_RUNNING);
		assert_busy(kept[i]);
	}
}

static void *resume_next(void *arg, void *value)
{
	size_t own = (uintptr_t)arg;

	for (int round = 0; round < PAIRS; round++) {
		look_up(own);
		for (int i = 0; own + 1 < CHAIN && i < 2; i++)
			if (uco_resume(kept[own + 1], word(own + 1), &value) >= 0)
				TEST_EQUAL((uintptr_t)value, own + 1);
		look_up(own);
		if (round == 3 && own % 2)
			TEST_EQUAL(ustack_block(), 0);
		if (uco_yield(arg, &value))
			return NULL;
		TEST_EQUAL((uintptr_t)value, own);
	}
	return arg;
}

static void resume_first(void *unused)
{
	(void)unused;
	for (uintptr_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_create(resume_next, word(i), &kept[i]), 0);
	for (int i = 0; i <= PAIRS; i++) {
		TEST_EQUAL(uco_resume(kept[0], word(0), NULL), i == PAIRS);
		TEST_TRUE(!uco_self());
		TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
		for (size_t k = 0; k < CHAIN; k++)
			TEST_TRUE(uco_status(kept[k]) != UCO_RUNNING
				  && uco_status(kept[k]) != UCO_RESUMING);
	}
	close_kept(CHAIN);
}

static void yield_beside(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
		TEST_TRUE(!uco_self());
		TEST_EQUAL(ustack_block(), 0);
	}
}

TEST(test_status)
{
	void (*const both[])(void *) = { resume_first, yield_beside };

	run_on_each(2, both);
}

/* ---- The end of a thread inside of some ---- */

static bool exits;

static void *abort_inside(void *arg, void *value)
{
	size_t own = (uintptr_t)arg;

	while (own + 1 < CHAIN && uco_resume(kept[own + 1], value, NULL) == 0)
		yield_value(arg);
	for (int i = 0; i < PAIRS; i++)
		yield_value(arg);
	if (exits)
		ustack_exit(word(PAIRS));
	ustack_abort(ustack_self());
	return NULL;
}

static void be_aborted(void *unused)
{
	(void)unused;
	for (uintptr_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_create(abort_inside, word(i), &kept[i]), 0);
	for (;;)
		TEST_EQUAL(uco_resume(kept[0], NULL, NULL), 0);
}

static void close_them(void *unused)
{
	(void)unused;
	while (mini.p_dones == 0)
		TEST_EQUAL(ustack_block(), 0);
	for (size_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_status(kept[i]), UCO_ENDED);
	TEST_TRUE(ustack_value(&threads[0]) == (exits ? word(PAIRS) : NULL));
	close_kept(CHAIN);
}

TEST(test_abort)
{
	void (*const both[])(void *) = { be_aborted, close_them };

	for (int i = 0; i < 2; i++) {
		exits = i == 1;
		run_on_each(2, both);
	}
}

/* ---- Threads that resume the same, in turn ---- */

static uintptr_t turns;

static void *give_turns(void *unused, void *value)
{
	for (; uco_yield(word(turns++), &value) == 0; TEST_TRUE(value == unused))
		;
	return NULL;
}

static void take_turns(void *unused)
{
	void *value;

	(void)unused;
	for (int i = 0; i < 4 * PAIRS; i++) {
		if (!kept[0])
			TEST_EQUAL(uco_create(give_turns, NULL, &kept[0]), 0);
		TEST_EQUAL(uco_resume(kept[0], NULL, &value), 0);
		TEST_EQUAL((uintptr_t)value, turns - 1);
		TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
		if (i % 3 == 0)
			TEST_EQUAL(ustack_block(), 0);
	}
	if (turns == 3 * 4 * PAIRS)
		close_kept(1);
}

TEST(test_turns)
{
	void (*const all[])(void *) = { take_turns, take_turns, take_turns };

	for (unsigned stacks = 0; stacks < 6; stacks++) {
		turns = 0;
		run(stacks, 3, all);
	}
}

/* ---- With and without inline functions ---- */

static uint32_t seed = 1;
static uintptr_t sent;

static int resume_some(struct uco *co, void *value, void **result)
{
	return test_random(&seed) % 3 ? uco_resume(co, value, result)
		: uco__resume(co, value, result);
}

static int yield_some(void *value, void **next)
{
	return test_random(&seed) % 3 ? uco_yield(value, next) : uco__yield(value, next);
}

static void *exchange_inside(void *co);

/* Gives back what it gets and 1, and resumes others meanwhile. */
static void *echo(void *next, void *value)
{
	int rc;

	for (;;) {
		if (next && test_random(&seed) % 4 == 0)
			below(test_random(&seed) % 700, exchange_inside, next);
		if (test_random(&seed) % 16 == 0)
			TEST_EQUAL(ustack_block(), 0);
		rc = yield_some(word((uintptr_t)value + 1), &value);
		if (rc) {
			TEST_EQUAL(rc, -ECANCELED);
			return NULL;
		}
	}
}

static void *exchange_inside(void *co)
{
	void *value = NULL, *next = word(++sent);

	TEST_EQUAL(resume_some(co, next, &value), 0);
	TEST_EQUAL((uintptr_t)value, (uintptr_t)next + 1);
	return value;
}

static void exchange_some(void *unused)
{
	struct uco *co[CHAIN] = { NULL };

	(void)unused;
	for (size_t i = 0; i < CHAIN; i++)
		TEST_EQUAL(uco_create(echo, i % 2 ? co[i - 1] : NULL, &co[i]), 0);
	for (int i = 0; i < 400; i++) {
		struct uco *to = co[test_random(&seed) % CHAIN];

		for (unsigned n = test_random(&seed) % 6; n > 0; n--)
			below(test_random(&seed) % 700, exchange_inside, to);
		if (i % 16 == 0)
			TEST_EQUAL(ustack_block(), 0);
	}
	for (size_t i = CHAIN; i > 0; i--)
		TEST_EQUAL(uco_close(co[i - 1]), 0);
}

TEST(test_ways)
{
	void (*const all[])(void *) = { exchange_some, exchange_some, exchange_some };

	run_on_each(3, all);
}

/* ---- The yield in which a coroutine is closed, after direct switches ---- */

static int ends;

static void *be_closed(void *unused, void *value)
{
	for (uintptr_t i = 0; i < PAIRS; i++)
		TEST_EQUAL(uco_yield(word(i), &value), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(uco_yield(unused, NULL), -ECANCELED);
	ends++;
	return value;
}

static void close_it(void *unused)
{
	struct uco *co;

	(void)unused;
	ends = 0;
	TEST_EQUAL(uco_create(be_closed, NULL, &co), 0);
	for (int i = 0; i <= PAIRS; i++)
		TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(uco_close(co), 0);
	TEST_EQUAL(ends, 1);
}

TEST(test_close)
{
	void (*const one[])(void *) = { close_it };

	run_on_each(1, one);
}

/* ---- The memory of a closed coroutine, which the next coroutine may get ---- */

static struct uco *foreign;

static void *give_numbers(void *unused, void *value)
{
	for (uintptr_t i = 0; i < PAIRS; i++)
		TEST_EQUAL(uco_yield(word(i), &value), 0);
	return unused;
}

/* Closes a coroutine after 0, 1, ... resumes, until after its end. The next coroutine is
   not affected. */
static void close_and_create(void *unused)
{
	(void)unused;
	for (int resumes = 0; resumes < 2 * PAIRS + 3; resumes++) {
		struct uco *co;

		TEST_EQUAL(uco_create(go_deeper, NULL, &co), 0);
		for (int i = 0; i < resumes; i++)
			TEST_TRUE(uco_resume(co, NULL, NULL) >= 0);
		TEST_EQUAL(uco_close(co), 0);
		TEST_EQUAL(uco_create(give_numbers, NULL, &co), 0);
		TEST_EQUAL(uco_status(co), UCO_NEW);
		for (uintptr_t i = 0; i < PAIRS; i++)
			TEST_TRUE(resume_once(co) == word(i));
		TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
		TEST_EQUAL(uco_status(co), UCO_ENDED);
		TEST_TRUE(!uco_self());
		TEST_EQUAL(uco_close(co), 0);
	}
}

TEST(test_reuse)
{
	void (*const both[])(void *) = { close_and_create, close_and_create };

	run_on_each(2, both);
}

static void leave_ended(void *unused)
{
	(void)unused;
	TEST_EQUAL(uco_create(give_numbers, NULL, &foreign), 0);
	while (uco_resume(foreign, NULL, NULL) == 0)
		;
}

static void close_foreign(void *unused)
{
	uintptr_t before = (uintptr_t)foreign;
	struct uco *co;

	(void)unused;
	TEST_EQUAL(uco_close(foreign), 0);
	TEST_EQUAL(uco_create(give_numbers, NULL, &co), 0);
	TEST_TRUE((uintptr_t)co != before);
	TEST_EQUAL(uco_close(co), 0);
}

/* The records of the second dispatcher are larger. */
TEST(test_foreign)
{
	static struct mini other;
	static struct {
		struct ustack b_thread;
		char          b_image[2048];
	} big;
	struct usched_calls calls = mini_calls;
	struct ustack plain;

	calls.s_record = sizeof big;
	mini_init(&other, 0, 0);
	mini_init(&mini, 0, 0);
	TEST_EQUAL(usched_init(&mini.p_sched, &calls), 0);
	mini_start(&other, &plain, leave_ended, NULL);
	TEST_EQUAL(usched_run(&other.p_sched), 0);
	mini_start(&mini, &big.b_thread, close_foreign, NULL);
	TEST_EQUAL(usched_run(&mini.p_sched), 0);
	mini_fini(&mini);
	mini_fini(&other);
}

/* ---- Places ---- */

static const void *above;

/* Not inlined, so the frame is below the frames of all callers. */
__attribute__((noinline)) static enum usched_place onstack(const void *address,
							   struct ustack **whose)
{
	return usched__onstack(address, whose, __builtin_frame_address(0));
}

static void *look_at_places(void *unused, void *value)
{
	volatile size_t size = 100;
	char *own = __builtin_alloca(size);
	struct ustack *whose;

	own[0] = 1;
	for (int i = 0; i < 3; i++)
		yield_value(unused);
	TEST_EQUAL(onstack(own, &whose), USCHED_MINE);
	TEST_TRUE(whose == ustack_self());
	TEST_EQUAL(onstack(above, NULL), USCHED_THEIRS);
	TEST_EQUAL(own[0], 1);
	return value;
}

static void look_from_outside(void *unused)
{
	volatile size_t size = 100;
	char *own = __builtin_alloca(size);
	struct uco *co;

	(void)unused;
	above = own;
	TEST_EQUAL(uco_create(look_at_places, NULL, &co), 0);
	while (uco_resume(co, NULL, NULL) == 0)
		TEST_EQUAL(onstack(own, NULL), USCHED_MINE);
	TEST_EQUAL(uco_close(co), 0);
}

TEST(test_places)
{
	void (*const one[])(void *) = { look_from_outside };

	if (!test_has_stacks() || test_is_stressed())
		skip();
	run(3, 1, one);
}

int main(void)
{
	return test_run_all();
}
