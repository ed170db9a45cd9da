/* SPDX-License-Identifier: MIT */
/*
 * measure.h: the arguments, the scheduler and the counts of times of measure.c and of
 * measure_many.c.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "../rr.h"

#define BENCH_PROGRAM "measure"
#include "bench.h"

enum {
	MICRO   = 1000,                 /* ns */
	MILLI   = 1000000,              /* ns */
	BUCKETS = 1000000,              /* us: the last one counts all longer times */
};

/* How often something took a time, by microseconds. Threads of all processors add. */
struct times {
	unsigned long t_of[BUCKETS];
};

static struct uprocs *rr;                   /* of the measurement */

/* Behind the name of the measurement. */
extern int    argument_count;
extern char **arguments;

/* Prints the arguments of the measurement, and exits with status 2. */
_Noreturn void print_usage(void);

static void usage(void)
{
	print_usage();
}

/* The i-th argument, within limits, or what it is if it was left out. */
static inline size_t argument(int i, size_t least, size_t most, size_t otherwise)
{
	return i < argument_count ? number(arguments[i], least, most) : otherwise;
}

static inline void create(struct uprocs_conf conf)
{
	check(rr_create(&conf, &rr), "scheduler");
}

static inline void start(void (*func)(void *), void *arg)
{
	check(rr_start(rr, func, arg, NULL), "start");
}

/* When all threads have ended. */
static inline void destroy(void)
{
	check(uprocs_destroy(rr, USCHED_NEVER), "end");
}

/* Counts a time of some ns. */
static inline void add(struct times *t, int64_t ns)
{
	int64_t us = ns / MICRO;

	if (ns >= 0)
		__atomic_fetch_add(&t->t_of[us < BUCKETS ? us : BUCKETS - 1], 1,
				   __ATOMIC_RELAXED);
}

static inline unsigned long count_of(const struct times *t)
{
	unsigned long all = 0;

	for (long i = 0; i < BUCKETS; i++)
		all += t->t_of[i];
	return all;
}

/* The us that a part of all times did not exceed. */
static inline long percentile(const struct times *t, double part)
{
	double least = (double)count_of(t) * part;
	unsigned long sum = t->t_of[0];
	long i = 0;

	while (i < BUCKETS - 1 && (double)sum < least)
		sum += t->t_of[++i];
	return i + 1;
}

/* The measurements of measure_many.c. */
void after(void);
void waits(void);
void inspect(void);
void outside(void);

#endif /* BENCH_MEASURE_H */
