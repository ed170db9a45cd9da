/* SPDX-License-Identifier: MIT */
/*
 * test_guard.c: stacks that are mapped, guards below stacks, alternate stacks.
 */
#define _GNU_SOURCE             /* pthread_getattr_np */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../debug/uoverflow.h"
#include "../help/procs.h"

#include "../../src/core/direction.h"

enum {
	THREADS   = 150,                /* more than processors map stacks for at first */
	ENOUGH    = 65536,              /* bytes of guard for -fstack-clash-protection */
};

/* ---- Guards ---- */

/* Whether the mappings forbid a read at `address'. */
static bool is_guarded(const char *maps, uintptr_t address)
{
	for (const char *line = maps; line; line = strchr(line + 1, '\n')) {
		uintptr_t from, to;
		char mode;

		if (sscanf(line, " %" SCNxPTR "-%" SCNxPTR " %c", &from, &to, &mode) == 3
		    && address >= from && address < to)
			return mode == '-';
	}
	return true;
}

static char *read_maps(void)
{
	size_t size = 1 << 20;
	char *maps = calloc(1, size + 1);
	FILE *f = fopen("/proc/self/maps", "r");

	TEST_TRUE(maps && f && fread(maps, 1, size, f) < size);
	fclose(f);
	return maps;
}

struct guarded {
	struct usched_stack *g_stack;
	char                *g_native;          /* end of the native stack */
};

static atomic_size_t noted;

static void note_stack(void *arg)
{
	struct guarded *g = arg;
	pthread_attr_t attr;
	size_t size, bytes;
	void *low;

	g->g_stack = ustack_self()->u_stack;
	TEST_EQUAL(pthread_getattr_np(pthread_self(), &attr), 0);
	TEST_EQUAL(pthread_attr_getstack(&attr, &low, &size), 0);
	TEST_EQUAL(pthread_attr_getguardsize(&attr, &bytes), 0);
	pthread_attr_destroy(&attr);
	TEST_TRUE(bytes > 0 || test_is_single());       /* it is the first one's stack */
	g->g_native = stack_last(low, size, 0);
	noted++;
	ustack_wait();
}

static void await_notes(void *unused)
{
	(void)unused;
	while (noted < THREADS)
		TEST_EQUAL(ustack_yield(), 0);
}

/*
 * Where the guard begins. Where stacks grow up, glibc counts what it keeps behind the
 * guard as a part of the stack.
 */
static char *native_end(const char *maps, char *end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!STACK_GROWS_UP)
		return end;
	while (!is_guarded(maps, (uintptr_t)end - 1))
		end -= page;
	while (is_guarded(maps, (uintptr_t)end - 1))
		end -= page;
	return end;
}

/* The byte of a guard with n between it and the end of its stack; or -1: of the stack. */
static char *guard(char *end, size_t n)
{
	return stack_deeper(end, n + !STACK_GROWS_UP);
}

/* Every stack has a guard: those of the start, those lent later, and native ones. */
TEST(test_guards)
{
	static struct guarded g[THREADS];
	struct ustack *t[THREADS];
	size_t stacks = 0;

	for (int native = 0; native < 2 - test_is_single(); native++) {
		struct uprocs_conf conf = { .c_processors = 1, .c_image = 2048 };
		void *s;
		char *maps;

		conf.c_stacks = native ? USCHED_NATIVE : 0;
		s = make(&conf);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(over->o_start(s, note_stack, &g[i], &t[i]), 0);
		run_to_end(s, await_notes, NULL);
		noted = 0;
		maps = read_maps();
		for (size_t i = 0; i < THREADS; i++) {
			char *end = g[i].g_native;

			if (!native && test_has_stacks()) {
				const struct usched_stack *k = g[i].g_stack;

				end = stack_deeper(k->k_bottom, k->k_size);
				stacks++;
			} else {
				end = native_end(maps, end);
			}
			assert_false(is_guarded(maps, (uintptr_t)guard(end, (size_t)-1)));
			assert_true(is_guarded(maps, (uintptr_t)guard(end, 0)));
			assert_true(is_guarded(maps, (uintptr_t)guard(end, ENOUGH - 1)));
		}
		free(maps);
		for (size_t i = 0; i < THREADS; i++) {
			finish(t[i]);
		}
		assert_int_equal(over->o_destroy(s), 0);
	}
	assert_int_equal(stacks, test_has_stacks() ? THREADS : 0);
}

/* ---- Mapped stacks ---- */

/* By a signal: valgrind would change an exit status. */
static void die(int signo)
{
	(void)signo;
	kill(getpid(), SIGKILL);
}

/* Whether a write at p is a fault. */
static int faults(volatile char *p)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		signal(SIGSEGV, die);
		*p = 1;
		kill(getpid(), SIGTERM);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	return WTERMSIG(status) == SIGKILL;
}

TEST_ONCE(test_mapped_stacks)
{
	static const size_t sizes[] = { 1, 4096, 8192, 10000, 262144 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), before;

	before = test_address_space();
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		enum { COUNT = 8 };
		struct uimage_stacks stacks;

		assert_int_equal(uimage_stacks_map(&stacks, COUNT, sizes[k]), 0);
		assert_int_equal(stacks.is_count, COUNT);
		assert_true(stacks.is_size >= sizes[k]);
		assert_true(stacks.is_size - sizes[k] < page);
		assert_int_equal(stacks.is_size % page, 0);
		assert_int_equal(stacks.is_stride / page % 2, 1);
		for (size_t i = 0; i < COUNT; i++) {
			char *base = uimage_stacks_base(&stacks, i);
			char *end = stack_last(base, stacks.is_size, 0);

			assert_int_equal((uintptr_t)base % page, 0);
			memset(base, (int)i + 1, stacks.is_size);
			assert_true(faults(guard(end, 0)));
			assert_true(faults(guard(end, page - 1)));
			assert_true(faults(guard(end, UIMAGE_GUARD - 1)));
			assert_false(faults(base));
			assert_false(faults(base + stacks.is_size - 1));
		}
		for (size_t i = 0; i < COUNT; i++) {
			char *base = uimage_stacks_base(&stacks, i);

			for (size_t n = 0; n < stacks.is_size; n++)
				assert_int_equal(base[n], i + 1);
		}
		uimage_stacks_unmap(&stacks);
		if (!test_is_scaled())
			assert_in_range(test_address_space(), 0, before + (512 << 10));
	}
}

TEST_ONCE(test_too_many_stacks)
{
	struct uimage_stacks stacks;
	size_t before;

	before = test_address_space();
	assert_int_equal(uimage_stacks_map(&stacks, SIZE_MAX / 4096, 65536), -ENOMEM);
	assert_int_equal(uimage_stacks_map(&stacks, 1, SIZE_MAX / 4 * 3), -ENOMEM);
	assert_int_equal(uimage_stacks_map(&stacks, 1, SIZE_MAX), -ENOMEM);
	assert_int_equal(uimage_stacks_map(&stacks, 1, SIZE_MAX - 65536), -ENOMEM);
#if SIZE_MAX > UINT32_MAX
	assert_int_equal(uimage_stacks_map(&stacks, (size_t)1 << 40, 65536), -ENOMEM);
	assert_int_equal(uimage_stacks_map(&stacks, 1, (size_t)1 << 60), -ENOMEM);
#endif
	for (size_t n = 100; n <= (test_is_scaled() ? 1000 : 10000000); n *= 10) {
		int rc = uimage_stacks_map(&stacks, n, 4096);

		if (rc == 0)
			uimage_stacks_unmap(&stacks);
		else
			assert_int_equal(rc, -ENOMEM);
		if (!test_is_scaled())
			assert_in_range(test_address_space(), 0, before + (512 << 10));
	}
}

/* ---- Alternate stacks ---- */

static char own[65536];

static void note_alternate(void *stack)
{
	TEST_EQUAL(sigaltstack(NULL, stack), 0);
}

static void *keep_own(void *arg)
{
	stack_t mine = { .ss_sp = own, .ss_size = sizeof own }, before, now;

	TEST_EQUAL(sigaltstack(&mine, &before), 0);
	TEST_EQUAL(uoverflow_install(), 0);
	TEST_EQUAL(sigaltstack(NULL, &now), 0);
	TEST_TRUE(now.ss_sp == own);
	TEST_EQUAL(sigaltstack(&before, NULL), 0);
	return arg;
}

/* Processors map and unmap alternate stacks; one that is there stays in use. */
TEST(test_alternate)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stacks = 1 };
	size_t mappings = 0;
	pthread_t native;
	stack_t stack;

	for (int i = 0; i < 20; i++) {
		void *s = make(&conf);

		run_to_end(s, note_alternate, &stack);
		assert_int_equal(over->o_destroy(s), 0);
		if (!test_is_single())          /* else the program's native thread */
			assert_false(stack.ss_flags & SS_DISABLE);
		assert_int_equal(pthread_create(&native, NULL, keep_own, NULL), 0);
		assert_int_equal(pthread_join(native, NULL), 0);
		if (i == 10)
			mappings = test_mappings();
	}
	assert_in_range(test_mappings(), 1, mappings + 4);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
