/* SPDX-License-Identifier: MIT */
/* plain.h: one dispatcher of mini.h and some threads, for tests without a scheduler. */
#ifndef USCHED_TEST_PLAIN_H
#define USCHED_TEST_PLAIN_H

#include "mini.h"

enum { PLAIN_STACK = 64 << 10, PLAIN_THREADS = 16 };

extern struct mini plain;
extern struct ustack thread[PLAIN_THREADS];
extern unsigned rounds;                 /* of blocker() and stopper() */
extern unsigned steps;                  /* of all of them since setup() */

/* A thread's functions. At each block of stopper() usched_run() returns. */
void blocker(void *unused);
void stopper(void *unused);
void once(void *unused);

/* Makes `plain' with so many stacks, and the first n threads. */
void setup(unsigned stacks, unsigned n, void (*func)(void *));

void run(void);

/* Blocks like ustack_block() here, by a switch to the next thread of the ring. */
int hand_off(void);

/* ustack_block() that returns at once, as s_next picks the same thread. */
int resume_self(void);

/* These three. */
enum { WAYS = 3 };
extern int (*const ways[WAYS])(void);

/* ustack_block() below a frame of `size' bytes. */
int block_deep(size_t size);

/* Calls `way' below a frame of `size' bytes. */
int block_below(size_t size, int (*way)(void));

/* Numbers of stacks for five threads: the native stack; one; two, too few; enough. */
enum { FIVE = 5, LENTS = 4, FIVE_STACK = 4 << 20 };
extern const unsigned lent[LENTS];

/* Five threads run func((void *)1) and so on to the end, over each number of stacks. */
void run_five(void (*func)(void *));

/* run_five() with `block' as ustack_block(), and again as hand_off(). */
extern int (*volatile block)(void);
void run_five_by_each(void (*func)(void *));

#endif /* USCHED_TEST_PLAIN_H */
