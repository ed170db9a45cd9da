/* SPDX-License-Identifier: MIT */
/*
 * torture.h: random programs in C, for threads to run. A program is a seed, which
 * decides all that it does and computes. So its sum is the same after a plain call and
 * after a run as one of many threads that take turns. It pauses in the middle of acts of
 * C and libc; there, at random, it does other acts one level deeper.
 *
 * test_torture.c decides how lives pause, start others and wait for them: see struct
 * way. torture.c has the acts of C and torture_libc.c those of libc.
 */
#ifndef USCHED_TEST_TORTURE_H
#define USCHED_TEST_TORTURE_H

#include "mini.h"

enum {
	DEPTH    = 8,           /* lives within lives, on one stack */
	DEEP     = 4 << 10,     /* bytes of canaries in one frame, at most */
	SHALLOW  = 128,         /* of most frames */
	KINDS    = 20,          /* of acts */
	ACTS     = 80,          /* of a program with its children */
	CHILDREN = 3,
	NESTED   = 2,           /* dispatchers within dispatchers */
	SHARES   = 3,           /* each third life shares its rounding direction */
	ITEMS    = 60,          /* glibc sorts some on the stack, more on the heap */
	TEXT     = 64,
};

struct life;

struct way {
	void (*w_pause)(struct life *l);
	void (*w_start)(struct life *l);        /* it calls live() */
	void (*w_join)(struct life *l);         /* until live() has returned */
};

struct life {
	struct ustack     l_thread;     /* first; over the dispatcher alone */
	struct ustack    *l_handle;     /* over a scheduler */
	const struct way *l_way;
	uint32_t          l_seed;       /* of acts and numbers */
	uint32_t          l_luck;       /* of pauses, which change no sum */
	unsigned          l_first;      /* index of the first act */
	unsigned          l_acts;       /* that are left */
	unsigned          l_depth;
	unsigned          l_nested;     /* dispatchers of lives around it */
	int               l_round;      /* its rounding direction; */
	int               l_shared;     /* and that which threads around it share */
	bool              l_shares;     /* it shares that */
	bool              l_ended;
	uint64_t          l_sum;        /* of all results */
};

void live(struct life *l);

/* Runs the children over a dispatcher inside `l'. In test_torture.c. */
void nested_lives(struct life *l, struct life **child, unsigned n);

/* Random numbers below n: of the program, and of its pauses. */
uint32_t any(struct life *l, uint32_t n);
uint32_t luck(struct life *l, uint32_t n);
double real(struct life *l);

/* Adds to the sum. */
void add(struct life *l, uint64_t x);
void add_bytes(struct life *l, const void *p, size_t size);
void add_real(struct life *l, double x);

/*
 * Tells MemorySanitizer of what libc, which is built without it, passes to call-backs
 * and writes; and clang 14's of a struct behind a long double in a va_list.
 */
void known(const volatile void *p, size_t size);

/* Directions, for fesetround(). set_round() leaves alone one that is shared. */
extern const int rounding[4];
void set_round(struct life *l, int round);

void pause_here(struct life *l);

/* In the middle of each act: pauses or does others. */
void inner(struct life *l);

/* Canaries. */
void fill(volatile unsigned char *p, size_t size, uint32_t mark);
void check(const volatile unsigned char *p, size_t size, uint32_t mark);

typedef void act_fn(struct life *l);
act_fn floating_point, long_double, matrix, vectors, small_by_value, pair_by_value,
	reals_by_value, large_by_value, complex_by_value, variable_arguments, jumps;
act_fn sorting, tree, streams, text, error_number, heap;        /* torture_libc.c */

#endif /* USCHED_TEST_TORTURE_H */
