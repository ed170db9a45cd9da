/* SPDX-License-Identifier: MIT */
/*
 * test_float.c: threads of a dispatcher share its floating point control words; those
 * that call ustack_control(1) have their own: rounding, control words, traps.
 * test_switch.c is about other registers, test_control.c about schedulers.
 */
#define _GNU_SOURCE             /* feenableexcept() */
#include <fenv.h>
#include <math.h>

#include "../help/plain.h"

enum { ROUNDS = 200 };

/* ---- Words of one's own ---- */

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

static void own_rounding(int round)
{
	TEST_EQUAL(ustack_control(1), 0);
	TEST_EQUAL(fesetround(round), 0);
}

static void keep_rounding(void *arg)
{
	int own = rounding[(uintptr_t)arg % 4];

	TEST_EQUAL(fegetround(), FE_UPWARD);    /* of the caller of usched_run() */
	own_rounding(own);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(block(), 0);
		TEST_EQUAL(fegetround(), own);
	}
}

TEST(rounding_is_kept_and_inherited)
{
	fesetround(FE_UPWARD);
	run_five_by_each(keep_rounding);
	assert_int_equal(fegetround(), FE_UPWARD);
	fesetround(FE_TONEAREST);
}

/* Divides in two formats: on x86-64 in two units. */
static void divide(double *d, long double *l)
{
	volatile double      one = 1, three = 3;
	volatile long double one_l = 1, three_l = 3;

	*d = one / three;
	*l = one_l / three_l;
}

static void round_own_way(void *arg)
{
	double d, again;
	long double l, again_l;

	own_rounding(rounding[(uintptr_t)arg % 4]);
	divide(&d, &l);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < WAYS; way++) {
			TEST_EQUAL(ways[way](), 0);
			divide(&again, &again_l);
			TEST_TRUE(again == d && again_l == l);
		}
}

TEST(divisions_round_in_each_threads_way)
{
	run_five(round_own_way);
	assert_int_equal(fegetround(), FE_TONEAREST);
}

/*
 * After a thread has ended, a thread runs that rounds like the one before the launch.
 * The direction that was noted at the launch is not the one that is set now.
 */
static void end_with_own_rounding(void *arg)
{
	uintptr_t number = (uintptr_t)arg;
	double d, again;
	long double l, again_l;

	own_rounding(number % 2 ? FE_UPWARD : FE_DOWNWARD);
	divide(&d, &l);
	for (uintptr_t n = 0; n <= number; n++) {
		TEST_EQUAL(ustack_block(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
	}
}

TEST_CASE(the_ended_leave_no_rounding, run_five, end_with_own_rounding)

/* Also not to a thread that is launched next. The fifth aborts itself. */
static void end_at_once(void *arg)
{
	TEST_EQUAL(fegetround(), FE_TONEAREST);
	own_rounding(FE_UPWARD);
	if ((uintptr_t)arg % 2) {
		ustack_abort(ustack_self());
		TEST_TRUE(false);
	}
}

TEST(the_ended_leave_none_to_new_threads)
{
	run_five(end_at_once);
	assert_int_equal(fegetround(), FE_TONEAREST);
}

/* One thread aborts others, which are blocked, and goes on with its words. */
static void block_for_good(void *unused)
{
	(void)unused;
	own_rounding(FE_UPWARD);
	mini_wait();
	TEST_TRUE(false);
}

static void abort_others(void *own)
{
	int round = FE_TONEAREST;

	if (own)
		own_rounding(round = FE_DOWNWARD);
	TEST_EQUAL(ustack_block(), 0);
	for (unsigned i = 1; i < 4; i++) {
		TEST_EQUAL(ustack_abort(&thread[i]), 0);
		TEST_EQUAL(fegetround(), round);
		TEST_EQUAL(ustack_control(own != NULL), own != NULL);
		TEST_EQUAL(ustack_block(), 0);
		TEST_EQUAL(fegetround(), round);
	}
}

TEST(the_aborted_leave_none)
{
	for (size_t i = 0; i < 2 * LENTS; i++) {
		mini_init(&plain, lent[i / 2], FIVE_STACK);
		mini_start(&plain, &thread[0], abort_others, i % 2 ? &plain : NULL);
		for (unsigned k = 1; k < 4; k++)
			mini_start(&plain, &thread[k], block_for_good, NULL);
		run();
		assert_int_equal(plain.p_dones, 4);
		assert_int_equal(fegetround(), FE_TONEAREST);
		mini_fini(&plain);
	}
}

/* ---- Words that are shared ---- */

/* The check build reports changes of these. */
static bool may_change(void)
{
#ifdef USCHED_CHECK
	return false;
#else
	return true;
#endif
}

static int shared;                      /* the direction that was set last */

static void share(int round)
{
	shared = round;
	TEST_EQUAL(fesetround(round), 0);
}

/* Even ones change the shared words and find the last change; odd ones have their own. */
static void change_or_keep(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	bool owns = number % 2;
	int own = rounding[number % 4];

	if (owns)
		own_rounding(own);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < WAYS; way++) {
			TEST_EQUAL(fegetround(), owns ? own : shared);
			if (!owns)
				share(rounding[(n + number) % 4]);
			TEST_EQUAL(ways[way](), 0);
		}
	TEST_EQUAL(fegetround(), owns ? own : shared);
	TEST_EQUAL(ustack_control(0), owns);
	TEST_EQUAL(fegetround(), shared);
}

TEST(others_share)
{
	if (!may_change())
		skip();
	shared = FE_TONEAREST;
	for (size_t i = 0; i < LENTS; i++) {
		test_timeout(20);
		mini_init(&plain, lent[i], FIVE_STACK);
		shared = FE_TONEAREST;          /* of the native thread, each time */
		for (uintptr_t k = 0; k < FIVE; k++)
			mini_start(&plain, &thread[k], change_or_keep, (void *)(k + 1));
		run();
		assert_int_equal(plain.p_dones, FIVE);
		assert_int_equal(fegetround(), FE_TONEAREST);
		mini_fini(&plain);
	}
}

/* A launch inherits the shared words, whatever the thread before it has. */
static void find_shared(void *unused)
{
	(void)unused;
	TEST_EQUAL(fegetround(), shared);
	TEST_EQUAL(ustack_control(0), 0);
}

static void launch_others(void *own)
{
	if (may_change())
		share(FE_TOWARDZERO);
	if (own) {
		TEST_EQUAL(ustack_control(1), 0);
		TEST_EQUAL(fegetround(), shared);       /* they begin as they are */
		TEST_EQUAL(fesetround(FE_UPWARD), 0);
	}
	for (unsigned i = 1; i < 4; i++) {
		mini_start(&plain, &thread[i], find_shared, NULL);
		TEST_EQUAL(i % 2 ? ustack_block() : hand_off(), 0);
		TEST_EQUAL(fegetround(), own ? FE_UPWARD : shared);
	}
}

TEST(launches_inherit_the_shared)
{
	for (size_t i = 0; i < 2 * LENTS; i++) {
		shared = FE_TONEAREST;
		mini_init(&plain, lent[i / 2], FIVE_STACK);
		mini_start(&plain, &thread[0], launch_others, i % 2 ? &plain : NULL);
		run();
		assert_int_equal(plain.p_dones, 4);
		assert_int_equal(fegetround(), FE_TONEAREST);
		mini_fini(&plain);
	}
}

/* ---- The call ---- */

static void take_and_give_back(void *unused)
{
	(void)unused;
	for (size_t way = 0; way < WAYS; way++) {
		TEST_EQUAL(ustack_control(0), 0);
		TEST_EQUAL(ustack_control(1), 0);
		TEST_EQUAL(ustack_control(1), 1);
		TEST_EQUAL(fegetround(), FE_TONEAREST);
		TEST_EQUAL(fesetround(FE_DOWNWARD), 0);
		TEST_EQUAL(ustack_control(1), 1);       /* changes nothing */
		TEST_EQUAL(fegetround(), FE_DOWNWARD);
		TEST_EQUAL(ways[way](), 0);
		TEST_EQUAL(ustack_control(1), 1);       /* kept, too */
		TEST_EQUAL(fegetround(), FE_DOWNWARD);
		TEST_EQUAL(ustack_control(0), 1);
		TEST_EQUAL(fegetround(), FE_TONEAREST);
		TEST_EQUAL(ways[way](), 0);
		TEST_EQUAL(ustack_control(0), 0);
		TEST_EQUAL(fegetround(), FE_TONEAREST);
	}
}

TEST_CASE(control_says_what_was_before, run_five, take_and_give_back)

/* Threads that share go the short way again as soon as they run. */
static bool short_way(void)
{
	const struct usched_caught *look = ustack_sched(ustack_self())->s_caught;

	return !look->cg_caught && !look->cg_uncaught;
}

static void own_or_not(void *arg)
{
	bool shares = (uintptr_t)arg % 2, expected = short_way();

	TEST_EQUAL(ustack_control(1), 0);
	TEST_TRUE(!short_way());
	if (shares) {
		TEST_EQUAL(ustack_control(0), 1);
		TEST_EQUAL(short_way(), expected);
	}
	for (size_t way = 0; way < WAYS; way++) {
		TEST_EQUAL(ways[way](), 0);
		TEST_EQUAL(short_way(), shares && expected);
	}
}

TEST_CASE(only_owners_go_the_long_way, run_five, own_or_not)

static struct ustack *next_outside(struct usched *s)
{
	if (!s->s_current) {
		TEST_EQUAL(ustack_control(1), -EPERM);
		TEST_EQUAL(ustack_control(0), -EPERM);
	}
	return mini_next(s);
}

TEST(control_is_for_threads)
{
	assert_int_equal(ustack_control(1), -EPERM);
	assert_int_equal(ustack_control(0), -EPERM);
	mini_init(&plain, 1, FIVE_STACK);
	plain.p_sched.s_calls.s_next = next_outside;
	mini_start(&plain, &thread[0], take_and_give_back, NULL);
	run();
	mini_fini(&plain);
}

/* ---- usched_run() ---- */

/* usched_run() returns at its blocks. The next call is from other words. */
static void stop_with_words(void *own)
{
	if (own)
		own_rounding(FE_DOWNWARD);
	else if (may_change())
		TEST_EQUAL(fesetround(FE_DOWNWARD), 0);
	plain.p_stop = true;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(fegetround(), own ? FE_DOWNWARD : FE_TOWARDZERO);
	TEST_EQUAL(ustack_control(0), own != NULL);
	TEST_EQUAL(fegetround(), FE_TOWARDZERO);
}

TEST(run_gives_its_caller_its_words)
{
	for (size_t i = 0; i < 2 * LENTS; i++) {
		mini_init(&plain, lent[i / 2], FIVE_STACK);
		mini_start(&plain, &thread[0], stop_with_words, i % 2 ? &plain : NULL);
		fesetround(FE_UPWARD);
		run();
		assert_int_equal(plain.p_dones, 0);
		assert_int_equal(fegetround(), FE_UPWARD);
		fesetround(FE_TOWARDZERO);
		run();
		assert_int_equal(plain.p_dones, 1);
		assert_int_equal(fegetround(), FE_TOWARDZERO);
		fesetround(FE_TONEAREST);
		mini_fini(&plain);
	}
}

/* The words of the outer thread, its own or shared, are what the inner threads share. */
static void inside(void *arg)
{
	int outer = (int)(intptr_t)arg;

	TEST_EQUAL(fegetround(), outer);
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(fegetround(), outer);
	own_rounding(FE_TOWARDZERO);
	for (unsigned n = 0; n < 3; n++) {
		mini_self()->p_stop = n == 1;
		TEST_EQUAL(ustack_block(), 0);
		TEST_EQUAL(fegetround(), FE_TOWARDZERO);
	}
}

static void nest(void *arg)
{
	bool owns = (uintptr_t)arg % 2;
	int round = owns ? FE_DOWNWARD : FE_TONEAREST;
	struct mini *inner = malloc(sizeof *inner);
	struct ustack *u = calloc(3, sizeof *u);

	TEST_TRUE(inner && u);
	if (owns)
		own_rounding(round);
	mini_init(inner, 1, FIVE_STACK);
	for (unsigned i = 0; i < 3; i++)
		mini_start(inner, &u[i], inside, (void *)(intptr_t)round);
	while (inner->p_dones < 3) {
		TEST_EQUAL(usched_run(&inner->p_sched), 0);
		TEST_EQUAL(fegetround(), round);
		for (size_t way = 0; test_has_stacks() && way < WAYS; way++) {
			TEST_EQUAL(ways[way](), 0);
			TEST_EQUAL(fegetround(), round);
		}
	}
	TEST_EQUAL(ustack_control(0), owns);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
	mini_fini(inner);
	free(inner);
	free(u);
}

TEST_CASE(dispatchers_nest, run_five, nest)

/* ---- A dispatcher whose threads all have their own ---- */

static void each_its_own(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	int own = rounding[number % 4];

	TEST_EQUAL(fegetround(), FE_UPWARD);    /* of the native thread */
	TEST_EQUAL(fesetround(own), 0);
	for (size_t way = 0; way < WAYS; way++) {
		TEST_EQUAL(ways[way](), 0);
		TEST_EQUAL(fegetround(), own);
		TEST_EQUAL(ustack_control(1), 1);
	}
	if (number < 4)
		return;
	mini_start(&plain, &thread[number + FIVE], each_its_own,
		   (void *)(uintptr_t)(number - 4));
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(fegetround(), own);
	TEST_EQUAL(ustack_control(0), 1);
	TEST_EQUAL(fegetround(), FE_UPWARD);
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(fegetround(), FE_UPWARD);
	TEST_EQUAL(fesetround(FE_TOWARDZERO), 0);       /* no thread begins with that */
	mini_start(&plain, &thread[number + FIVE + 3], each_its_own, NULL);
}

TEST(all_may_have_their_own)
{
	fesetround(FE_UPWARD);
	for (size_t i = 0; i < LENTS; i++) {
		test_timeout(20);
		mini_init(&plain, lent[i], FIVE_STACK);
		plain.p_sched.s_calls.s_control_each = 1;
		for (uintptr_t k = 0; k < FIVE + 2; k++)
			mini_start(&plain, &thread[k], each_its_own, (void *)k);
		run();
		assert_int_equal(plain.p_dones, FIVE + 2 + 3 + 3);
		assert_int_equal(fegetround(), FE_UPWARD);
		mini_fini(&plain);
	}
	fesetround(FE_TONEAREST);
}

/* ---- Blocks that fail, and that may not ---- */

static void fail_to_block(void *unused)
{
	(void)unused;
	own_rounding(FE_UPWARD);
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = true;
	TEST_EQUAL(block_deep(PLAIN_STACK / 2), -ENOMEM);
	TEST_EQUAL(fegetround(), FE_UPWARD);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_control(0), 1);
	TEST_EQUAL(fegetround(), FE_TONEAREST);
}

TEST(failed_blocks_keep_the_words)
{
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 2, fail_to_block);
		run();
		assert_int_equal(plain.p_dones, 2);
		mini_fini(&plain);
	}
}

/* R4: what is reserved is enough for the long way, too. */
static __attribute__((noinline)) void reserve_and_block(void)
{
	TEST_EQUAL(ustack_reserve(0), 0);
	plain.p_no_memory = true;
	TEST_EQUAL(ustack_block(), 0);
	plain.p_no_memory = false;
	TEST_EQUAL(fegetround(), FE_UPWARD);
}

/* An image of each size, so that in some there is no byte more. */
static void reserve(void *unused)
{
	(void)unused;
	own_rounding(FE_UPWARD);
	for (size_t size = 16; size < 1024; size += 16) {
		volatile char frame[size];

		frame[0] = frame[size - 1] = 1;
		reserve_and_block();
		TEST_TRUE(frame[0] == 1 && frame[size - 1] == 1);
	}
}

TEST(what_is_reserved_suffices)
{
	for (unsigned stacks = 0; stacks < 2; stacks++) {
		setup(stacks, 1, reserve);
		run();
		assert_int_equal(plain.p_dones, 1);
		mini_fini(&plain);
	}
}

/* ---- Control words ---- */

#if defined(__x86_64__)

/* MemorySanitizer does not see what assembly writes. */
static uint32_t get_mxcsr(void)
{
	uint32_t word = 0;

	__asm__ volatile("stmxcsr %0" : "=m"(word));
	return word;
}

static void set_mxcsr(uint32_t word)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(word));
}

static uint16_t get_x87(void)
{
	uint16_t word = 0;

	__asm__ volatile("fnstcw %0" : "=m"(word));
	return word;
}

static void set_x87(uint16_t word)
{
	__asm__ volatile("fldcw %0" : : "m"(word));
}

/*
 * Neighbours differ in one bit or two of one word: flush to zero, denormals are zero,
 * precision. A sticky flag may differ. While a thread blocks, its callee-saved registers
 * hold the words of its successor: a switch that compared with them would see no
 * difference.
 */
static void control_words(void *arg)
{
	static const uint32_t mxcsr[] = { 0x1f80, 0x9f80, 0x9f80, 0x9fc0, 0x3fc0 };
	static const uint16_t x87[] = { 0x37f, 0x37f, 0x27f, 0x27f, 0x27f };
	unsigned own = (unsigned)(uintptr_t)arg % FIVE;

	TEST_EQUAL(get_mxcsr() & 0xffc0, 0x9fc0);
	TEST_EQUAL(get_x87(), 0x27f);
	TEST_EQUAL(ustack_control(1), 0);
	TEST_EQUAL(get_mxcsr() & 0xffc0, 0x9fc0);
	TEST_EQUAL(get_x87(), 0x27f);
	set_mxcsr(mxcsr[own]);
	set_x87(x87[own]);
	for (unsigned n = 0; n < ROUNDS; n++) {
		register uint64_t r12 __asm__("r12") = mxcsr[(own + 1) % FIVE];
		register uint64_t r13 __asm__("r13") = x87[(own + 1) % FIVE];

		__asm__ volatile("" : "+r"(r12), "+r"(r13));
		TEST_EQUAL(block(), 0);
		__asm__ volatile("" : "+r"(r12), "+r"(r13));
		TEST_EQUAL(get_mxcsr() & 0xffc0, mxcsr[own]);
		TEST_EQUAL(get_x87(), x87[own]);
		set_mxcsr(mxcsr[own] | (n & 0x3f));
	}
}

#endif

TEST(control_words_are_kept_and_inherited)
{
#if defined(__x86_64__)
	uint32_t mxcsr = get_mxcsr();
	uint16_t x87 = get_x87();

	if (!test_has_stacks())
		skip();                 /* portable C keeps the rounding only */
	if (test_on_valgrind())
		skip();                 /* it lacks some of the bits */
	set_mxcsr(0x9fc0);
	set_x87(0x27f);
	run_five_by_each(control_words);
	assert_int_equal(get_mxcsr() & 0xffc0, 0x9fc0);
	assert_int_equal(get_x87(), 0x27f);
	set_mxcsr(mxcsr);
	set_x87(x87);
#else
	skip();
#endif
}

/* ---- Traps ---- */

/*
 * The rest of the environment, as far as C or one instruction sets it: exceptions that
 * trap; on AArch64, where few machines trap, denormals and NaNs.
 */
#if defined(__x86_64__) && defined(__GLIBC__)
#define HAS_ENVIRONMENT 1

static const uintmax_t environments[] = { FE_DIVBYZERO, FE_INVALID, FE_OVERFLOW,
					  FE_UNDERFLOW, 0 };
static const uintmax_t trap_division = FE_DIVBYZERO;

static uintmax_t environment(void)
{
	return (uintmax_t)fegetexcept();
}

static void set_environment(uintmax_t traps)
{
	TEST_EQUAL(feclearexcept(FE_ALL_EXCEPT), 0);    /* no thread owns sticky flags */
	TEST_TRUE(fedisableexcept(FE_ALL_EXCEPT) >= 0);
	TEST_TRUE(feenableexcept((int)traps) >= 0);
}

#elif defined(__aarch64__)
#define HAS_ENVIRONMENT 1

static const uintmax_t environments[] = { 1 << 24, 1 << 25, 3 << 24, 1 << 26, 0 };
static const uintmax_t trap_division = 1 << 9;

static uintmax_t environment(void)
{
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr;
}

static void set_environment(uintmax_t fpcr)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
}

#else
#define HAS_ENVIRONMENT 0

static const uintmax_t environments[] = { 0, 0, 0, 0, 0 }, trap_division = 0;

static uintmax_t environment(void)
{
	return 0;
}

static void set_environment(uintmax_t unused)
{
	(void)unused;
}

#endif

static void keep_environment(void *arg)
{
	uintmax_t own = environments[(uintptr_t)arg % 5];

	TEST_EQUAL(ustack_control(1), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		set_environment(own);
		TEST_EQUAL(ustack_block(), 0);
		TEST_EQUAL(environment(), own);
		set_environment(0);
		TEST_EQUAL(hand_off(), 0);
		TEST_EQUAL(environment(), 0);
	}
}

TEST(environments_are_each_threads_own)
{
	if (!HAS_ENVIRONMENT || !test_has_stacks())
		skip();                 /* portable C keeps the rounding only */
	if (test_on_valgrind())
		skip();                 /* it has the rounding only */
	run_five(keep_environment);
	assert_int_equal(environment(), 0);
}

/*
 * Threads that share words divide by zero and go on; others have the trap set and divide
 * by one.
 */
static void divide_by_zero(void *arg)
{
	bool traps = (uintptr_t)arg % 2;
	volatile double      d = 1, one = 1, by = traps;
	volatile long double l = 1, one_l = 1, by_l = traps;

	if (traps) {
		TEST_EQUAL(ustack_control(1), 0);
		set_environment(trap_division);
	}
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < WAYS; way++) {
			d = one / by;   /* leaves a sticky flag, each time */
			l = one_l / by_l;
			TEST_EQUAL(ways[way](), 0);
		}
	TEST_TRUE(isinf(d) == !traps && isinf(l) == !traps);
	TEST_EQUAL(ustack_control(0), traps);
	TEST_EQUAL(environment(), 0);
}

TEST(traps_are_for_a_threads_own_exceptions)
{
	if (!HAS_ENVIRONMENT || !test_has_stacks() || test_on_valgrind())
		skip();                 /* as above */
	run_five(divide_by_zero);
}

int main(void)
{
	return test_run_all();
}
