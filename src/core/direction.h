/* SPDX-License-Identifier: MIT */
/*
 * direction.h: which way stacks grow. Private; no other file knows.
 *
 * They grow toward lower addresses nearly everywhere, and toward higher ones on PA-RISC.
 * The frames of a blocked thread are the bytes between the bottom of its stack and its
 * top, and `deeper' is the way from the one to the other:
 *
 *      down   | ... free     top | frames | bottom |
 *      up                      | bottom | frames | top     free ... |
 *
 * Comments elsewhere, pictures and the public names ("below") are those of stacks that
 * grow down. The assembly in arch/ is for these machines, and so are added stacks, which
 * need it.
 */
#ifndef USCHED_DIRECTION_H
#define USCHED_DIRECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The direction, unless a test has chosen one. */
#ifndef USCHED_GROWS_UP
#ifdef __hppa__
#define USCHED_GROWS_UP 1
#else
#define USCHED_GROWS_UP 0
#endif
#endif
enum { STACK_GROWS_UP = USCHED_GROWS_UP };

/* Bytes from `bottom' to `at'. If that is less deep, it wraps. */
static inline size_t stack_depth(const void *bottom, const void *at)
{
	return STACK_GROWS_UP ? (uintptr_t)at - (uintptr_t)bottom
			      : (uintptr_t)bottom - (uintptr_t)at;
}

/* How many bytes are between `bottom' and the one at `address'. Wraps likewise. */
static inline size_t stack_index(const void *bottom, const void *address)
{
	return stack_depth(bottom, address) - !STACK_GROWS_UP;
}

/* The address where the bytes between `bottom' and `top' begin. */
static inline char *stack_low(const char *bottom, const char *top)
{
	return (char *)(uintptr_t)(STACK_GROWS_UP ? bottom : top);
}

/* The place so many bytes deeper than `at'. */
static inline char *stack_deeper(const void *at, size_t n)
{
	return (char *)(STACK_GROWS_UP ? (uintptr_t)at + n : (uintptr_t)at - n);
}

/* Where the first n bytes are in the `size' bytes from `low' on: at the bottom; */
static inline char *stack_first(char *low, size_t size, size_t n)
{
	return STACK_GROWS_UP ? low : low + (size - n);
}

/* and the last ones, where a guard is: at the end. */
static inline char *stack_last(char *low, size_t size, size_t n)
{
	return STACK_GROWS_UP ? low + (size - n) : low;
}

/* Whether `a' is deeper than `b'. */
static inline bool stack_is_deeper(const void *a, const void *b)
{
	return STACK_GROWS_UP ? (uintptr_t)a > (uintptr_t)b : (uintptr_t)a < (uintptr_t)b;
}

/* The next multiple of `unit', a power of two: `at' or deeper. */
static inline char *stack_align(const char *at, uintptr_t unit)
{
	return (char *)(((uintptr_t)at + (STACK_GROWS_UP ? unit - 1 : 0)) & -unit);
}

#endif /* USCHED_DIRECTION_H */
