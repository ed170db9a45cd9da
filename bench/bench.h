/* SPDX-License-Identifier: MIT */
/*
 * bench.h: errors, arguments, clocks, memory and numbers of benchmark programs. The
 * including file defines BENCH_PROGRAM, the program's name, and usage().
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Prints the arguments on standard error, and exits with status 2. */
static _Noreturn void usage(void);

/* Ends the program, from a thread or not; rc is a negative errno value. */
static inline _Noreturn void fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %s: %s\n", BENCH_PROGRAM,
		rc == -ENOMEM ? "not enough memory" : what, strerror(-rc));
	_Exit(1);
}

/* Fails unless rc is 0. */
static inline void check(int rc, const char *what)
{
	if (rc)
		fail(what, rc);
}

/* Fails with errno. */
static inline void need(bool good, const char *what)
{
	if (!good)
		fail(what, -errno);
}

/* As many descriptors as the system allows. Returns how many. */
static inline size_t raise_limit(void)
{
	struct rlimit limit;

	need(!getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	need(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	return (size_t)limit.rlim_cur;
}

/* Nanoseconds of a clock. */
static inline int64_t clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Seconds of a monotonic clock. */
static inline double now(void)
{
	return 1e-9 * (double)clock_of(CLOCK_MONOTONIC);
}

/* Computes until that time of CLOCK_MONOTONIC, in ns. */
static inline void spin_until(int64_t ns)
{
	while (clock_of(CLOCK_MONOTONIC) < ns)
		;
}

/* A round of Marsaglia's xorshift. */
static inline uint64_t next_of(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

/* Of a random number: above 0, to 1. */
static inline double chance_of(uint64_t x)
{
	return ((double)(x >> 11) + 1) / 9007199254740992.0;
}

/* For qsort(). */
static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline size_t number(const char *text, size_t least, size_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
		usage();
	return (size_t)value;
}

/* Bytes of this process that are in memory. */
static inline double resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		fail("/proc/self/statm", -ENOTSUP);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

#endif /* BENCH_BENCH_H */
