/* SPDX-License-Identifier: MIT */
/*
 * drive.c: runs the callers of the corpus, each several times with other seeds, and
 * compares what they compute with their plain forms.
 *
 *   corpus             each of the two threads has a stack: after the first time the
 *                      hand-over is what is inlined
 *   corpus shared      they share one: frames are copied
 *   corpus trap        as without; a signal comes at each instruction, see trap.c
 *
 *   -DCORPUS_NO_FLOATS, -DCORPUS_NO_CPP   leave out floats.c, cpp.cc
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

enum { SEEDS = 6, TRAP_SEEDS = 2 };

struct ustack *corpus_other;
uint64_t corpus_turns;

static struct usched sched;
static struct ustack worker, partner;
static bool trapped, shared;
static unsigned failed, skipped, ran;
static uint64_t notes;

static const struct corpus_case *const plain[] = {
	corpus_ints_plain, corpus_frames_plain,
#ifndef CORPUS_NO_FLOATS
	corpus_floats_plain,
#endif
#ifndef CORPUS_NO_CPP
	corpus_cpp_plain,
#endif
};

static const struct corpus_case *const inlined[] = {
	corpus_ints_inline, corpus_frames_inline,
#ifndef CORPUS_NO_FLOATS
	corpus_floats_inline,
#endif
#ifndef CORPUS_NO_CPP
	corpus_cpp_inline,
#endif
};

enum { TABLES = sizeof plain / sizeof plain[0] };

void corpus_note(uint64_t value)
{
	notes = notes * 31 + value;
}

void corpus_note_format(const char *format, ...)
{
	char text[100];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	for (const char *p = text; *p; p++)
		corpus_note((unsigned char)*p);
}

uint64_t corpus_mix(uint64_t a, uint64_t b)
{
	return (a ^ b >> 7) * 0x9e3779b97f4a7c15u + b;
}

uint64_t corpus_ten(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		    uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j)
{
	return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i
	       + 29 * j;
}

double corpus_mix_double(double a, double b)
{
	return a * 3 + b;
}

void corpus_fill(void *to, size_t size, uint64_t seed)
{
	unsigned char *p = to;

	for (size_t i = 0; i < size; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (unsigned char)(seed >> 56);
	}
}

static struct ustack *choose(struct usched *s)
{
	(void)s;
	return partner.u_stack ? NULL : &worker;
}

static struct ustack *pick(struct usched *s, struct ustack *self)
{
	(void)s;
	return self == &worker ? &partner : &worker;
}

static void unpick(struct usched *s)
{
	(void)s;
}

static void *allocate(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	return malloc(*size);
}

static void release(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

/* The caller's caller: what walks of the stack must find. */
static __attribute__((noinline)) uint64_t call(uint64_t (*func)(uint64_t), uint64_t seed)
{
	uint64_t result;

	if (trapped)
		trap_begin();
	result = func(seed);
	if (trapped)
		trap_end();
	return result;
}

static void try(const struct corpus_case *p, const struct corpus_case *c, uint64_t seed)
{
	uint64_t expected, result, noted;

	notes = 0;
	expected = p->c_func(seed);
	noted = notes;
	notes = 0;
	result = call(c->c_func, seed);
	if (result == expected && notes == noted)
		return;
	printf("%s(%llu): %llx, not %llx; notes %llx, not %llx\n", c->c_name,
	       (unsigned long long)seed, (unsigned long long)result,
	       (unsigned long long)expected, (unsigned long long)notes,
	       (unsigned long long)noted);
	fflush(stdout);
	failed++;
}

/* Not all compilers have all callers. */
static const struct corpus_case *find(const struct corpus_case *table, const char *name)
{
	while (table->c_name && strcmp(table->c_name, name))
		table++;
	return table;
}

static void run_case(const struct corpus_case *p, const struct corpus_case *c)
{
	bool trap = trapped;

	if (!p->c_name || !corpus_has(c->c_needs)) {
		skipped++;
		return;
	}
	/* The deepest place is new: not the short way. */
	trapped = false;
	try(p, c, 1);
	trapped = trap;
	for (uint64_t seed = 2; seed < (trap ? 2 + TRAP_SEEDS : SEEDS); seed++)
		try(p, c, seed);
	ran++;
}

static void work(void *unused)
{
	(void)unused;
	corpus_other = &partner;
	if (ustack_init(&sched, &partner, corpus_partner, &worker)
	    || ustack_switch(&partner)) {
		printf("no partner\n");
		failed++;
		return;
	}
	worker.u_tokens = partner.u_tokens = 0;
	for (unsigned i = 0; i < TABLES; i++)
		for (const struct corpus_case *c = inlined[i]; c->c_name; c++)
			run_case(find(plain[i], c->c_name), c);
	if (ustack_abort(&partner)) {
		printf("cannot end the partner\n");
		failed++;
	}
}

static void add_stack(void)
{
	char *base = aligned_alloc(4096, CORPUS_STACK);

	if (!base || usched_add_stack(&sched, base, CORPUS_STACK)) {
		printf("no stack\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const struct usched_calls calls = {
		.s_next = choose, .s_pick = pick, .s_unpick = unpick,
		.s_alloc = allocate, .s_free = release,
	};

	trapped = argc > 1 && !strcmp(argv[1], "trap");
	shared = argc > 1 && !strcmp(argv[1], "shared");
	if (usched_init(&sched, &calls)
	    || ustack_init(&sched, &worker, work, NULL)) {
		printf("no dispatcher\n");
		return 1;
	}
	add_stack();
	if (!shared)
		add_stack();
	if (usched_run(&sched) || usched_fini(&sched)) {
		printf("the dispatcher does not end\n");
		failed++;
	}
	if (trapped && trap_report())
		failed++;
	printf("%u callers, %u skipped, %u failures\n", ran, skipped, failed);
	return failed > 0;
}
