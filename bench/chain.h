/* SPDX-License-Identifier: MIT */
/*
 * chain.h: to compute for some time, for uneven.c. That is to run through
 * a chain of numbers. How many take a microsecond is measured when the processor has run
 * for some time, in the best of several tries. Programs of other systems do the same, so
 * all do the same work, also while the processor is given to others.
 */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include "../ustack.h"
#include "bench.h"

enum {
	SHORT = 20,                     /* us: a short request, */
	LONG  = 2000,                   /* a long one */
	LONGS = 5,                      /* percent */
	WARM  = 400,                    /* ms before the calibration */
	TRY   = 20,                     /* ms */
	TRIES = 10,
};

/* Where all chains begin. */
static const uint64_t chain_seed = 88172645463325252;

static double   chain_us = 100;         /* numbers of the chain that take a us */
static uint64_t chain_sink;

enum { PIECE = 64 };                    /* numbers, then a check of the slice */

static inline void compute(double us)
{
	uint64_t x = chain_seed;

	for (uint64_t n = (uint64_t)(us * chain_us); n > PIECE; n -= PIECE) {
		for (int i = 0; i < PIECE; i++)
			x = next_of(x);
		ustack_check();
	}
	__atomic_store_n(&chain_sink, x, __ATOMIC_RELAXED);
}

static inline void calibrate(void)
{
	double best = 0, start = now();

	while (now() - start < WARM * 1e-3)
		compute(1000);
	for (int i = 0; i < TRIES; i++) {
		double each;

		start = now();
		compute(TRY * 1000);
		each = TRY * 1e-3 * chain_us / (now() - start);
		if (each > best)
			best = each;
	}
	chain_us = best;
}

/* ns between requests, where they are to take `load' percent of the processors' time. */
static inline double gap_of(size_t load, size_t processors)
{
	double mean = ((100 - LONGS) * SHORT + LONGS * LONG) * 10.0;

	return mean * 100 / ((double)load * (double)processors);
}

#endif /* BENCH_CHAIN_H */
