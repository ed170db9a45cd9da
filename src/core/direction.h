/* SPDX-License-Identifier: MIT */
/*
 * direction.h: which way stacks grow. Private; no other file depends on the direction.
 *
 * Stacks grow toward lower addresses nearly everywhere, and toward higher addresses on
 * PA-RISC. The frames of a blocked thread are the bytes between the bottom of its stack
 * and its top, and `deeper' is the way from the bottom to the top:
 *
 *      down   | ... free     top | frames | bottom |
 *      up                      | bottom | frames | top     free ... |
 *
 * Comments and pictures elsewhere, and public names ("below"), are those of stacks that
 * grow down. The assembly in arch/ is for machines with such stacks. Added stacks need
 * the assembly, so they exist only there.
 */
#ifndef USCHED_DIRECTION_H
#define USCHED_DIRECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The direction is the machine's, unless a test has defined another. */
#ifndef USCHED_GROWS_UP
#ifdef __hppa__
#define USCHED_GROWS_UP 1
#else
#define USCHED_GROWS_UP 0
#endif
#endif
enum { STACK_GROWS_UP = USCHED_GROWS_UP };

/* Returns how many bytes `at' is deeper than `bottom'. Wraps if `at' is less deep. */
static inline size_t stack_depth(const void *bottom, const void *at)
{
	return STACK_GROWS_UP ? (uintptr_t)at - (uintptr_t)bottom
			      : (uintptr_t)bottom - (uintptr_t)at;
}

/* Returns how many bytes are between `bottom' and the byte at `address'. Wraps, too. */
static inline size_t stack_index(const void *bottom, const void *address)
{
	return stack_depth(bottom, address) - !STACK_GROWS_UP;
}

/* Returns the lower of `bottom' and `top'. */
static inline char *stack_low(const char *bottom, const char *top)
{
	return (char *)(uintptr_t)(STACK_GROWS_UP ? bottom : top);
}

/* Returns the place `n' bytes deeper than `at'. */
static inline char *stack_deeper(const void *at, size_t n)
{
	return (char *)(STACK_GROWS_UP ? (uintptr_t)at + n : (uintptr_t)at - n);
}

/* A stack has `size' bytes from `low' on. Returns the address of the n bytes at its
   bottom. */
static inline char *stack_first(char *low, size_t size, size_t n)
{
	return STACK_GROWS_UP ? low : low + (size - n);
}

/* Returns the address of the n bytes at the deep end of such a stack, for a guard. */
static inline char *stack_last(char *low, size_t size, size_t n)
{
	return STACK_GROWS_UP ? low + (size - n) : low;
}

/* Returns whether `a' is deeper than `b'. */
static inline bool stack_is_deeper(const void *a, const void *b)
{
	return STACK_GROWS_UP ? (uintptr_t)a > (uintptr_t)b : (uintptr_t)a < (uintptr_t)b;
}

/* Returns `at' if it is a multiple of `unit', a power of 2; else the next deeper multiple
   of `unit'. */
static inline char *stack_align(const char *at, uintptr_t unit)
{
	return (char *)(((uintptr_t)at + (STACK_GROWS_UP ? unit - 1 : 0)) & -unit);
}

#endif /* USCHED_DIRECTION_H */
