/* SPDX-License-Identifier: MIT */
/*
 * csmith.c: runs programs that csmith made and csmith.sh compiled to shared objects, and
 * prints what each of them printed.
 *
 *   csmith alone FILE...       by calls, one after the other
 *   csmith STACKS FILE...      as threads, on so many lent stacks or, with 0, on the
 *                              native one; they block when functions begin and end
 *
 * An object may be there several times, as files of its own: each has globals of its own.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "mini.h"

enum { STACK = 1 << 20, BLOCKS = 10000, TEXT = 64 };

struct copy {
	struct ustack c_thread;         /* first */
	const char   *c_file;
	int         (*c_main)(int argc, char **argv);
	uint32_t      c_luck;
	unsigned      c_blocks;
	char          c_text[TEXT];
};

static struct mini plain;
static struct copy *alone;              /* who runs when it is no thread */

/* What the programs call. */
int csmith_print(const char *format, ...);
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static struct copy *current(void)
{
	struct ustack *self = ustack_self();

	return self ? (struct copy *)(void *)self : alone;
}

int csmith_print(const char *format, ...)
{
	struct copy *c = current();
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(c->c_text, TEXT, format, ap);
	va_end(ap);
	return n;
}

/* One of `odds' times; not for ever, as some have millions of calls. */
static void maybe_block(uint32_t odds)
{
	struct copy *c = current();

	if (c == alone || c->c_blocks == BLOCKS || test_random(&c->c_luck) % odds)
		return;
	c->c_blocks++;
	TEST_EQUAL(ustack_block(), 0);
	TEST_TRUE(c == current());
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)function;
	(void)caller;
	maybe_block(2);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
	maybe_block(8);
}

static void run(void *arg)
{
	struct copy *c = arg;
	char name[] = "csmith", *argv[] = { name, NULL };

	c->c_main(1, argv);
}

static struct copy *load(char **file, unsigned n)
{
	struct copy *copy = calloc(n, sizeof *copy);

	TEST_TRUE(copy);
	for (unsigned i = 0; i < n; i++) {
		void *object = dlopen(file[i], RTLD_NOW | RTLD_LOCAL);
		void *address = object ? dlsym(object, "csmith_main") : NULL;

		if (!address) {
			fprintf(stderr, "csmith: %s\n", dlerror());
			exit(1);
		}
		copy[i].c_file = file[i];
		copy[i].c_luck = i + 1;
		memcpy(&copy[i].c_main, &address, sizeof address);
	}
	return copy;
}

static void run_threads(struct copy *copy, unsigned n, unsigned stacks)
{
	mini_init(&plain, stacks, STACK);
	for (unsigned i = 0; i < n; i++)
		mini_start(&plain, &copy[i].c_thread, run, &copy[i]);
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
	TEST_EQUAL(plain.p_dones, n);
	TEST_TRUE(mini_stats(&plain).s_switches > 2 * n);
	mini_fini(&plain);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)argc - 2 : 0;
	struct copy *copy;

	if (n == 0) {
		fprintf(stderr, "usage: csmith alone|STACKS FILE...\n");
		return 2;
	}
	copy = load(argv + 2, n);
	if (strcmp(argv[1], "alone") != 0)
		run_threads(copy, n, (unsigned)strtoul(argv[1], NULL, 10));
	else
		for (alone = copy; alone < copy + n; alone++)
			run(alone);
	for (unsigned i = 0; i < n; i++)
		printf("%s: %s", copy[i].c_file, copy[i].c_text);
	free(copy);
	return 0;
}
