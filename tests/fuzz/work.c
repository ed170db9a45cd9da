/* SPDX-License-Identifier: MIT */
/*
 * work.c: what stands for time in the targets of servers: the work of a thread between
 * two looks at the clock, or two times that it lets others run. It is the basic blocks of
 * the server that are run, and for calls of libc and of parsers what their bytes take. So
 * it depends on the input alone, as time does not. fuzz.sh has the linker call these in
 * the place of the functions with these names. This file is not watched itself.
 */
#include "fuzz.h"

#include <string.h>
#include <strings.h>

#include "../../usched.h"

enum {
	WIDE = 16,                      /* bytes that libc handles in the time of one */
	MAPPED = 1 << 17,               /* bytes: more is mapped, not set or copied */
};

size_t          fuzz_work = 200000;     /* blocks, of about a ns each */

static int64_t  looked;                 /* fuzz_now then, */
static uint64_t switches;               /* and the switches until then */
static size_t   work;

void fuzz_charge(size_t blocks)
{
	static bool over;               /* the fuzzer is to keep the input */
	const struct usched *s = usched__current;

	if (!s || !s->s_current || over)
		return;
	if (fuzz_now != looked || s->s_stats.st_switches != switches)
		work = 0;
	looked = fuzz_now;
	switches = s->s_stats.st_switches;
	work += blocks;
	over = work > fuzz_work;
	CHECK(!over && "the thread looks at the clock in time");
}

void __wrap___sanitizer_cov_trace_pc_guard(uint32_t *guard);

void __wrap___sanitizer_cov_trace_pc_guard(uint32_t *guard)
{
	(void)guard;
	fuzz_charge(1);
}

int __real_ustack_yield(void);
int __wrap_ustack_yield(void);

int __wrap_ustack_yield(void)
{
	work = 0;
	return __real_ustack_yield();
}

void __wrap___sanitizer_cov_trace_pc_guard_init(uint32_t *first, uint32_t *end);

void __wrap___sanitizer_cov_trace_pc_guard_init(uint32_t *first, uint32_t *end)
{
	(void)first, (void)end;
}

/* REPLACE(type, name, parameters, arguments, bytes): `rc' is what it returned. */
#define REPLACE(type, name, parameters, arguments, bytes)       \
	type __real_##name parameters;                          \
	type __wrap_##name parameters;                          \
	type __wrap_##name parameters                           \
	{                                                       \
		type rc = __real_##name arguments;              \
								\
		fuzz_charge(1 + (size_t)(bytes) / WIDE);        \
		return rc;                                      \
	}

REPLACE(void *, memcpy, (void *to, const void *from, size_t n), (to, from, n), n)
REPLACE(void *, memmove, (void *to, const void *from, size_t n), (to, from, n), n)
REPLACE(void *, memset, (void *to, int c, size_t n), (to, c, n), n)
REPLACE(void *, memchr, (const void *s, int c, size_t n), (s, c, n),
	rc ? (size_t)((char *)rc - (const char *)s) : n)
REPLACE(int, memcmp, (const void *a, const void *b, size_t n), (a, b, n), n)
REPLACE(size_t, strlen, (const char *s), (s), rc)
REPLACE(size_t, strcspn, (const char *s, const char *ends), (s, ends), rc * WIDE)
REPLACE(char *, strchr, (const char *s, int c), (s, c),
	rc ? (size_t)(rc - s) : __real_strlen(s))
REPLACE(char *, strstr, (const char *s, const char *what), (s, what),
	rc ? (size_t)(rc - s) : __real_strlen(s))
REPLACE(void *, realloc, (void *old, size_t n), (old, n), n < MAPPED ? n : MAPPED)
REPLACE(void *, calloc, (size_t n, size_t size), (n, size),
	n * size < MAPPED ? n * size : MAPPED)
