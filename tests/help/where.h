/* SPDX-License-Identifier: MIT */
/*
 * where.h: functions in sections of their own. The linker knows where these begin and
 * end, so a test can tell whether an address is in one of its functions.
 *
 *	IN(send_it) static void send_it(void *arg) { ... }
 *	EXTENT(send_it)
 *	... IS_IN(send_it, address)
 */
#ifndef USCHED_TEST_WHERE_H
#define USCHED_TEST_WHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "test.h"

#define IN(name) __attribute__((noinline, section("in_" #name)))
#define EXTENT(name) extern const char __start_in_##name[], __stop_in_##name[];
#define IS_IN(name, address) ((uintptr_t)(address) >= (uintptr_t)__start_in_##name \
			      && (uintptr_t)(address) <= (uintptr_t)__stop_in_##name)

IN(test_callee) static const void *test_callee(void *a, void *b, void *c)
{
	(void)a;
	(void)b;
	(void)c;
	return __builtin_return_address(0);
}

IN(test_tail) static const void *test_tail(void)
{
	static const void *(*volatile callee)(void *, void *, void *) = test_callee;

	return callee(NULL, NULL, NULL);
}
EXTENT(test_tail)

/*
 * Whether the compiler makes jumps of calls that come last, also if they have more
 * arguments than the caller, which some ABIs pass in its frame. Then a block returns to
 * the caller of the library, else into the library. gcov counts behind most calls.
 */
static inline bool test_tail_calls(void)
{
	return !test_is_counted() && !IS_IN(test_tail, test_tail());
}

/* Whether the compiler inlines the functions of headers. */
static inline bool test_inlines(void)
{
#ifdef __OPTIMIZE_SIZE__
	return false;
#else
	return true;
#endif
}

#endif /* USCHED_TEST_WHERE_H */
