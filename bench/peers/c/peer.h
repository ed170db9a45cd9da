/* SPDX-License-Identifier: MIT */
/*
 * peer.h: arguments, the clock and memory, for the C and C++ programs. ../README.md says
 * what a program prints and how it ends.
 */
#ifndef PEER_H
#define PEER_H

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((noreturn)) static inline void fail(const char *message)
{
	fprintf(stderr, "%s\n", message);
	_Exit(1);
}

__attribute__((noreturn)) static inline void usage(const char *program, const char *names)
{
	fprintf(stderr, "usage: %s %s\n", program, names);
	exit(2);
}

/* Reads the arguments to value[], one for each word of names, each positive. */
static inline void arguments(int argc, char **argv, const char *names, size_t *value)
{
	int count = 2;
	char *end;

	for (const char *c = names; *c; c++)
		count += *c == ' ';
	if (argc != count)
		usage(argv[0], names);
	for (int i = 1; i < argc; i++) {
		unsigned long long number;

		errno = 0;
		number = strtoull(argv[i], &end, 10);
		if (*argv[i] < '0' || *argv[i] > '9' || *end || errno || number == 0
		    || number > SIZE_MAX)
			usage(argv[0], names);
		value[i - 1] = (size_t)number;
	}
}

/* Fails unless there is memory: the kernel would grant it, and kill the program later. */
static inline void need_memory(size_t count, size_t bytes_each)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t all, have = SIZE_MAX;
	uintmax_t kib;
	char line[128];

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %" SCNuMAX " kB", &kib) == 1)
			have = (size_t)kib * 1024;
	if (file)
		fclose(file);
	if (__builtin_mul_overflow(count, bytes_each, &all) || all > have)
		fail("not enough memory");
}

/* The threads of r cycles of n. Fails unless there is memory for them. */
static inline size_t cycle_threads(size_t n, size_t r, size_t bytes_each)
{
	size_t all;

	if (__builtin_mul_overflow(n, r, &all))
		fail("not enough memory");
	need_memory(all, bytes_each);
	return all;
}

/* Whether a cycle program prints how often threads have blocked. */
static inline int counts_blocks(void)
{
	const char *blocks = getenv("BLOCKS");

	return blocks && strcmp(blocks, "1") == 0;
}

static inline int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double now(void)
{
	return 1e-9 * (double)clock_ns();
}

/* The resident memory of the process, in bytes. */
static inline size_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages;

	if (!file || fscanf(file, "%*s %zu", &pages) != 1)
		fail("cannot read /proc/self/statm");
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static inline void print_seconds(double seconds, size_t answer)
{
	printf("%.6f\n%zu\n", seconds, answer);
}

static inline void print_memory(size_t before, size_t after, size_t threads)
{
	double grown = after > before ? (double)(after - before) : 0;

	printf("%.6f\n%zu\n", grown / (double)threads, threads);
}

#endif
