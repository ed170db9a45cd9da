/* SPDX-License-Identifier: MIT */
/*
 * test_float.c: the floating point environment is a thread's own: rounding, control
 * words, traps. test_switch.c is about other registers.
 */
#define _GNU_SOURCE             /* feenableexcept() */
#include <fenv.h>
#include <math.h>

#include "plain.h"

enum { ROUNDS = 200 };

/* ---- Rounding ---- */

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

static void keep_rounding(void *arg)
{
	int own = rounding[(uintptr_t)arg % 4];

	TEST_EQUAL(fegetround(), FE_UPWARD);    /* of the caller of usched_run() */
	TEST_EQUAL(fesetround(own), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(block(), 0);
		TEST_EQUAL(fegetround(), own);
	}
}

static void rounding_is_kept_and_inherited(void **state)
{
	(void)state;
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

	TEST_EQUAL(fesetround(rounding[(uintptr_t)arg % 4]), 0);
	divide(&d, &l);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(ustack_block(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
		TEST_EQUAL(hand_off(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
	}
}

static void divisions_round_in_each_threads_way(void **state)
{
	(void)state;
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

	TEST_EQUAL(fesetround(number % 2 ? FE_UPWARD : FE_DOWNWARD), 0);
	divide(&d, &l);
	for (uintptr_t n = 0; n <= number; n++) {
		TEST_EQUAL(ustack_block(), 0);
		divide(&again, &again_l);
		TEST_TRUE(again == d && again_l == l);
	}
}

TEST_CASE(the_ended_leave_no_rounding, run_five, end_with_own_rounding)

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

static void control_words_are_kept_and_inherited(void **state)
{
	(void)state;
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

	for (unsigned n = 0; n < ROUNDS; n++) {
		set_environment(own);
		TEST_EQUAL(ustack_block(), 0);
		TEST_EQUAL(environment(), own);
		set_environment(0);
		TEST_EQUAL(hand_off(), 0);
		TEST_EQUAL(environment(), 0);
	}
}

static void environments_are_each_threads_own(void **state)
{
	(void)state;
	if (!HAS_ENVIRONMENT || !test_has_stacks())
		skip();                 /* portable C keeps the rounding only */
	if (test_on_valgrind())
		skip();                 /* it has the rounding only */
	run_five(keep_environment);
	assert_int_equal(environment(), 0);
}

/* Some threads divide by zero and go on; others have the trap set and divide by one. */
static void divide_by_zero(void *arg)
{
	bool traps = (uintptr_t)arg % 2;
	volatile double      d = 1, by = traps;
	volatile long double l = 1, by_l = traps;

	if (traps)
		set_environment(trap_division);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < WAYS; way++) {
			d = d / by;
			l = l / by_l;
			TEST_EQUAL(ways[way](), 0);
		}
	TEST_TRUE(isinf(d) == !traps && isinf(l) == !traps);
}

static void traps_are_for_a_threads_own_exceptions(void **state)
{
	(void)state;
	if (!HAS_ENVIRONMENT || !test_has_stacks() || test_on_valgrind())
		skip();                 /* as above */
	run_five(divide_by_zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounding_is_kept_and_inherited),
		cmocka_unit_test(divisions_round_in_each_threads_way),
		cmocka_unit_test(the_ended_leave_no_rounding),
		cmocka_unit_test(control_words_are_kept_and_inherited),
		cmocka_unit_test(environments_are_each_threads_own),
		cmocka_unit_test(traps_are_for_a_threads_own_exceptions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
