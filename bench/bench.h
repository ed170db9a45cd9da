/* SPDX-License-Identifier: MIT */
/*
 * bench.h: errors, arguments, the clock and the memory of benchmark programs. The
 * including file defines BENCH_PROGRAM, the program's name, and usage().
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Seconds of a monotonic clock. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
