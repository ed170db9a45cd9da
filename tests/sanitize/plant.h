/* SPDX-License-Identifier: MIT */
/*
 * plant.h: what the programs of sanitize.sh have in common. Each has a bug in a thread,
 * on the line marked HERE; its head says which tool reports it, as what, in which
 * function.
 *
 *   NAME one|native|many right|wrong
 *
 * right: it runs without the bug, and nothing is reported. one: threads share one
 * stack, and their frames are moved at each switch; native: the same on the native stack;
 * many: they have a stack each, and stay where they are.
 */
#ifndef USCHED_PLANT_H
#define USCHED_PLANT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rr.h"

enum { ROUNDS = 8 };

/* 1: to go wrong. Compilers must not know it. */
static volatile int wrong;

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", strerror(-rc));
		_Exit(2);
	}
}

static inline void expect(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		_Exit(2);
	}
}

#define EXPECT(condition) expect(condition, #condition)

/* What the arguments say. */
static inline struct uprocs_conf configure(int argc, char **argv)
{
	struct uprocs_conf conf = { .c_processors = 1 };

	EXPECT(argc == 3);
	if (strcmp(argv[1], "one") == 0)
		conf.c_stacks = 1;
	if (strcmp(argv[1], "native") == 0)
		conf.c_stacks = USCHED_NATIVE;
	wrong = strcmp(argv[2], "wrong") == 0;
	return conf;
}

static inline void block(void)
{
	check(ustack_yield());
}

/* Another thread's frames, in the same place: written all over, and others each time. */
static __attribute__((noinline)) void bystand(int depth)
{
	volatile char frame[100];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = (char)depth;
	if (depth > 0)
		bystand(depth - 1);
	block();
	EXPECT(frame[depth] == depth);
}

/* Until this has begun, no other does. */
static struct ustack *first;

static inline void bystander(void *arg)
{
	(void)arg;
	if (first)
		check(ustack_wake(first));
	for (int n = 0; n < ROUNDS; n++)
		bystand(n);
}

static inline void begin(void *arg)
{
	void (**thread)(void *) = arg;

	check(ustack_wait());
	(*thread)(NULL);
}

/* Runs `thread' beside others until both have ended, or one of them has ended it all. */
static inline int plant(int argc, char **argv, void (*thread)(void *))
{
	struct uprocs_conf conf = configure(argc, argv);
	struct usched_stats stats;
	struct ustack *second;
	struct uprocs *rr;

	check(rr_create(&conf, &rr));
	check(rr_start(rr, begin, &thread, &first));
	check(rr_start(rr, bystander, NULL, &second));
	check(ustack_join(first, NULL, USCHED_NEVER));
	check(ustack_join(second, NULL, USCHED_NEVER));
	uprocs_stats(rr, &stats);
	EXPECT(conf.c_stacks == 0 || stats.st_loads >= ROUNDS); /* it is about this */
	check(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}

#endif /* USCHED_PLANT_H */
