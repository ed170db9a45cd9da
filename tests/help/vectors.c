/* SPDX-License-Identifier: MIT */
#include "vectors.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

#include "over.h"

typedef double vector __attribute__((vector_size(64)));

/*
 * Eight numbers at a time, in as many registers as there are. Casts: on i386 constants
 * may have more bits than a double.
 */
#define SUM(name, target)                                                       \
	target __attribute__((noinline))                                        \
	static double name(unsigned seed, size_t rounds)                        \
	{                                                                       \
		const double s = 1 + seed * 0.1;                                \
		vector a = { 1, 2, 3, 4, 5, 6, 7, 8 };                          \
		vector b = a * (vector){ s, s, s, s, s, s, s, s };              \
		vector c = a + b, d = b * (double)0.5;                          \
		double sum = 0;                                                 \
										\
		for (size_t i = 0; i < rounds; i++) {                           \
			a = a * (double)0.999999 + b * (double)1e-6;            \
			b = b * (double)0.999998 + c * (double)1e-6;            \
			c = c * (double)0.999997 + d * (double)1e-6;            \
			d = d * (double)0.999999 + a * (double)1e-6;            \
		}                                                               \
		a = a + b + c + d;                                              \
		for (int i = 0; i < 8; i++)                                     \
			sum += a[i] * (i + 1);                                  \
		return sum;                                                     \
	}

SUM(plain, )
#if defined(__x86_64__)
SUM(avx2, __attribute__((target("avx2"))))
SUM(avx512, __attribute__((target("avx512f"))))
#endif

static const struct kind {
	const char *k_name;
	double    (*k_sum)(unsigned seed, size_t rounds);
} kinds[] = {
	{ "plain vectors", plain },
#if defined(__x86_64__)
	{ "AVX2", avx2 },
	{ "AVX-512", avx512 },
#endif
};

static const struct kind *widest(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return &kinds[2];
	if (__builtin_cpu_supports("avx2"))
		return &kinds[1];
#endif
	return &kinds[0];
}

const char *vectors_name(void)
{
	return widest()->k_name;
}

double vectors_sum(unsigned seed, size_t rounds)
{
	return widest()->k_sum(seed, rounds);
}

static int entered;

static void enter_region(void *unused)
{
	(void)unused;
	entered = ustack_preemptible(1) == 0;
	ustack_preemptible(0);
}

int vectors_ask(void *s)
{
	struct ustack *thread;

	TEST_EQUAL(over->o_start(s, enter_region, NULL, &thread), 0);
	TEST_EQUAL(ustack_join(thread, NULL, USCHED_NEVER), 0);
	return entered;
}

size_t vectors_sleeps(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	char path[300], line[200];
	size_t sum = 0, n;
	FILE *file;

	while (tasks && (entry = readdir(tasks))) {
		snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof line, file))
			if (sscanf(line, "voluntary_ctxt_switches: %zu", &n) == 1)
				sum += n;
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}
