/* SPDX-License-Identifier: MIT */
/*
 * torture.h: random programs in C, for threads to run. A program is a seed: what it does
 * and computes follows from that alone, so its sum is the same whether it is called or
 * is one of many threads that take turns. It pauses in the middle of whatever C and libc
 * have it do, and there, at random, does all of it again one level deeper.
 *
 * How lives pause, start others and wait for them is for the program that includes this,
 * once: see struct way. It defines _GNU_SOURCE before all else, for fopencookie().
 */
#ifndef USCHED_TEST_TORTURE_H
#define USCHED_TEST_TORTURE_H

#include <complex.h>
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <search.h>
#include <stdio.h>

#include "mini.h"

enum {
	DEPTH    = 8,           /* lives within lives, on one stack */
	DEEP     = 4 << 10,     /* bytes of one frame's canaries, at most, */
	SHALLOW  = 128,         /* and mostly */
	KINDS    = 20,          /* of acts */
	ACTS     = 80,          /* of a program, its children's included */
	CHILDREN = 3,
	NESTED   = 2,           /* dispatchers within dispatchers */
	ITEMS    = 60,          /* over and under what glibc sorts on the stack */
	TEXT     = 64,
};

struct life;

struct way {
	void (*w_pause)(struct life *l);
	void (*w_start)(struct life *l);        /* has live() called for it */
	void (*w_join)(struct life *l);         /* until that has returned */
};

struct life {
	struct ustack     l_thread;     /* first; over the dispatcher alone */
	struct ustack    *l_handle;     /* over a scheduler */
	const struct way *l_way;
	uint32_t          l_seed;       /* of what it does, */
	uint32_t          l_luck;       /* and of how it pauses, which changes no sum */
	unsigned          l_first;      /* what it does first, of act[] */
	unsigned          l_acts;       /* that it may still do */
	unsigned          l_depth;
	unsigned          l_nested;     /* dispatchers around it that a life made */
	int               l_round;      /* its rounding direction */
	bool              l_ended;
	uint64_t          l_sum;        /* over everything computed */
};

static void live(struct life *l);

void __msan_unpoison(const volatile void *p, size_t size) __attribute__((weak));

/*
 * To MemorySanitizer, which knows nothing of what libc, not being built so, passes to
 * call-backs and writes; and clang 14's of a struct behind a long double in a va_list.
 */
static void known(const volatile void *p, size_t size)
{
	if (__msan_unpoison)
		__msan_unpoison(p, size);
}

static uint32_t any(struct life *l, uint32_t n)
{
	return test_random(&l->l_seed) % n;
}

static uint32_t luck(struct life *l, uint32_t n)
{
	return test_random(&l->l_luck) % n;
}

static void add(struct life *l, uint64_t x)
{
	l->l_sum = ((l->l_sum << 7 | l->l_sum >> 57) ^ x) * 0x9e3779b97f4a7c15;
}

static void add_bytes(struct life *l, const void *p, size_t size)
{
	const unsigned char *byte = p;

	for (size_t i = 0; i < size; i++)
		add(l, byte[i]);
}

static void add_real(struct life *l, double x)
{
	add_bytes(l, &x, sizeof x);
}

/* Not its bytes, of which some are padding. */
static void add_long(struct life *l, long double x)
{
	volatile double high = (double)x;

	add_real(l, high);
	add_real(l, (double)(x - high));
}

static double real(struct life *l)
{
	return (double)any(l, 2000000) / 7 - 100000;
}

static void set_round(struct life *l, int round)
{
	TEST_EQUAL(fesetround(round), 0);
	l->l_round = round;
}

static void pause_here(struct life *l)
{
	l->l_way->w_pause(l);
	TEST_EQUAL(fegetround(), l->l_round);
}

/* What is done in the middle of each act. */
static void inner(struct life *l)
{
	if (l->l_acts > 0 && l->l_depth < DEPTH && any(l, 8) == 0)
		live(l);
	else
		pause_here(l);
}

static void fill(volatile unsigned char *p, size_t size, uint32_t mark)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)test_random(&mark);
}

static void check(const volatile unsigned char *p, size_t size, uint32_t mark)
{
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(p[i], (unsigned char)test_random(&mark));
}

/* ---- Numbers ---- */

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

static void floating_point(struct life *l)
{
	int before = l->l_round;
	double x = real(l), y = real(l), z = real(l);
	float f = (float)real(l);

	set_round(l, rounding[any(l, 4)]);
	for (unsigned n = 2 + any(l, 6); n > 0; n--) {
		double product = x * y;

		inner(l);
		x = product / 3.7 + z;
		y = sqrt(fabs(x)) - f;
		f = f / 3 + (float)z;
		add_real(l, x);
		add_real(l, y);
		add_real(l, f);
	}
	set_round(l, before);
}

static void long_double(struct life *l)
{
	int before = l->l_round;
	long double x = real(l), y = 1 / (3 + fabsl(x));

	set_round(l, rounding[any(l, 4)]);
	for (unsigned n = 2 + any(l, 6); n > 0; n--) {
		long double quotient = x / 3;

		inner(l);
		x = quotient * y + (long double)real(l);
		y += 1 / (quotient * quotient + 1);
		add_long(l, x);
		add_long(l, y);
	}
	set_round(l, before);
}

static void matrix(struct life *l)
{
	size_t n = 2 + any(l, 4);
	double a[n][n], b[n][n];

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			a[i][k] = real(l), b[i][k] = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < n; k++)
			for (size_t j = 0; j < n; j++)
				b[i][k] += a[i][j] * a[j][k];
		inner(l);
	}
	add_bytes(l, b, sizeof b);
}

typedef int32_t four __attribute__((vector_size(16)));
typedef double two __attribute__((vector_size(16)));
typedef float eight __attribute__((vector_size(32)));

static __attribute__((noinline)) two turn(struct life *l, four i, two x)
{
	eight e;

	for (unsigned k = 0; k < 8; k++)
		e[k] = (float)(i[k % 4] % 1000);
	inner(l);
	TEST_EQUAL((uintptr_t)&e % _Alignof(eight), 0);
	e = e * e + e;
	for (unsigned k = 0; k < 8; k++)
		x[k % 2] += (double)e[k];
	return x;
}

static void vectors(struct life *l)
{
	four i = { (int32_t)any(l, 1000), 2, -3, 4 };
	two x = { 1, 2 };

	x *= real(l);
	for (unsigned n = 2 + any(l, 4); n > 0; n--) {
		two y = x + x;

		x = turn(l, i, x) - y / 3;
		i = i * 5 + 1;
		add_bytes(l, &x, sizeof x);
		add_bytes(l, &i, sizeof i);
	}
}

/* ---- Arguments and results ---- */

struct small { uint8_t b[3]; };
struct pair { uint64_t i; double d; };
struct reals { double d[4]; };
struct large { uint32_t w[75]; };

/* Struct `type' goes down by value, and another one up; nobody changes the caller's. */
#define DEFINE_DOWN(type) \
static __attribute__((noinline)) struct type \
type##_down(struct life *l, struct type in, unsigned n) \
{ \
	uint32_t mark = any(l, UINT32_MAX); \
	struct type out, kept = in; \
\
	fill((unsigned char *)&out, sizeof out, mark); \
	inner(l); \
	if (n > 0) { \
		struct type back = type##_down(l, out, n - 1); \
\
		add_bytes(l, &back, sizeof back); \
		check((unsigned char *)&out, sizeof out, mark); \
	} \
	inner(l); \
	TEST_EQUAL(memcmp(&in, &kept, sizeof in), 0); \
	return any(l, 2) ? in : out; \
} \
\
static void type##_by_value(struct life *l) \
{ \
	struct type in; \
\
	fill((unsigned char *)&in, sizeof in, l->l_seed); \
	in = type##_down(l, in, any(l, 4)); \
	add_bytes(l, &in, sizeof in); \
}

DEFINE_DOWN(small)
DEFINE_DOWN(pair)
DEFINE_DOWN(reals)
DEFINE_DOWN(large)

static __attribute__((noinline)) double complex spin(struct life *l, double complex x,
						     unsigned n)
{
	double complex y = x * (2 + 3 * I);

	inner(l);
	return n ? spin(l, y / 7, n - 1) + x : y;
}

static void complex_by_value(struct life *l)
{
	double real_part = real(l), imaginary = real(l);
	double complex x = spin(l, real_part + imaginary * I, any(l, 5));

	add_real(l, creal(x));
	add_real(l, cimag(x));
}

static __attribute__((noinline)) void take(struct life *l, const char *kind, va_list ap)
{
	for (; *kind; kind++) {
		struct large large;
		struct pair pair;

		inner(l);
		switch (*kind) {
		case 'i':
			add(l, va_arg(ap, unsigned));
			break;
		case 'd':
			add_real(l, va_arg(ap, double));
			break;
		case 'L':
			add_long(l, va_arg(ap, long double));
			break;
		case 'p':
			pair = va_arg(ap, struct pair);
			add_bytes(l, &pair, sizeof pair);
			break;
		case 'l':
			large = va_arg(ap, struct large);
			known(&large, sizeof large);
			add_bytes(l, &large, sizeof large);
		}
	}
}

static __attribute__((noinline)) void pass(struct life *l, const char *kind, ...)
{
	va_list ap, again;

	va_start(ap, kind);
	va_copy(again, ap);
	take(l, kind, ap);
	inner(l);
	take(l, kind, again);
	va_end(again);
	va_end(ap);
}

static void variable_arguments(struct life *l)
{
	unsigned i = any(l, 1000);
	double d = real(l);
	struct pair pair = { i, d };
	struct large large;

	fill((unsigned char *)&large, sizeof large, i);
	pass(l, "idp", i, d, pair);
	switch (any(l, 3)) {
	case 0:
		pass(l, "iiiiiiiiid", i, 2, 3, 4, 5, 6, 7, 8, i, d);
		break;
	case 1:
		pass(l, "dddddddddLiL", d, 2., 3., 4., 5., 6., 7., 8., d, 10.L, i, 12.L);
		break;
	default:
		pass(l, "lipLlp", large, i, pair, (long double)d, large, pair);
	}
}

/* ---- Control ---- */

/* A place to jump to, on the stack, and those above it. */
struct rung {
	sigjmp_buf   r_env;
	struct rung *r_up;
};

static void fall(struct life *l, struct rung *above, unsigned n);

/* Falls until something jumps here, or to `above'; or nothing jumps. */
static __attribute__((noinline)) void stand(struct life *l, struct rung *above,
					    unsigned n)
{
	struct rung own = { .r_up = above };
	struct life *volatile self = l;
	volatile unsigned depth = l->l_depth;
	int value = sigsetjmp(own.r_env, n % 2);

	if (value == 0) {
		fall(self, &own, n);
	} else {
		self->l_depth = depth;
		add(self, (unsigned)value);
	}
}

static __attribute__((noinline)) void fall(struct life *l, struct rung *above, unsigned n)
{
	uint32_t mark = any(l, UINT32_MAX);
	size_t size = 1 + mark % 200;
	volatile unsigned char frame[size];

	fill(frame, size, mark);
	inner(l);
	if (n > 0) {
		if (any(l, 2))
			stand(l, above, n - 1);
		else
			fall(l, above, n - 1);
		inner(l);
	} else if (any(l, 4)) {
		while (above->r_up && any(l, 2))
			above = above->r_up;
		siglongjmp(above->r_env, 1 + (int)any(l, 1000));
	}
	check(frame, size, mark);
}

static void jumps(struct life *l)
{
	for (unsigned n = 1 + any(l, 3); n > 0; n--)
		stand(l, NULL, any(l, 6));
}

/* ---- Call-backs of libc ---- */

struct item {
	uint32_t     i_key;
	uint32_t     i_more[9];         /* over 32 bytes glibc sorts pointers */
	struct life *i_life;
};

static int by_key(const void *a, const void *b)
{
	const struct item *x, *y;

	known(&a, sizeof a);
	known(&b, sizeof b);
	x = a;
	y = b;
	if (any(x->i_life, 4) == 0)
		inner(x->i_life);
	return (x->i_key > y->i_key) - (x->i_key < y->i_key);
}

static void make_items(struct life *l, struct item *item, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		item[i] = (struct item){ .i_life = l, .i_key = any(l, UINT32_MAX) };
		fill((unsigned char *)item[i].i_more, sizeof item[i].i_more,
		     item[i].i_key);
	}
}

static void sorting(struct life *l)
{
	size_t n = 1 + any(l, ITEMS);
	struct item item[n], *found, key;

	make_items(l, item, n);
	key = item[any(l, (uint32_t)n)];
	qsort(item, n, sizeof *item, by_key);
	for (size_t i = 0; i < n; i++) {
		TEST_TRUE(i == 0 || item[i - 1].i_key <= item[i].i_key);
		check((unsigned char *)item[i].i_more, sizeof item[i].i_more,
		      item[i].i_key);
		add(l, item[i].i_key);
	}
	found = bsearch(&key, item, n, sizeof *item, by_key);
	TEST_TRUE(found && found->i_key == key.i_key);
}

static void visit(const void *node, VISIT order, int level)
{
	const struct item *item;

	known(&node, sizeof node);
	known(&order, sizeof order);
	known(&level, sizeof level);
	known(node, sizeof item);
	item = *(const struct item *const *)node;
	inner(item->i_life);
	if (order == postorder || order == leaf)
		add(item->i_life, item->i_key + (unsigned)level);
}

static void tree(struct life *l)
{
	size_t n = 1 + any(l, ITEMS / 4);
	struct item item[n];
	void *root = NULL;

	make_items(l, item, n);
	for (size_t i = 0; i < n; i++)
		TEST_TRUE(tsearch(&item[i], &root, by_key));
	twalk(root, visit);
	for (size_t i = 0; i < n; i++)
		TEST_TRUE(tdelete(&item[i], &root, by_key));
	TEST_TRUE(!root);
}

static ssize_t stream_read(void *cookie, char *buffer, size_t size)
{
	struct life *l;
	size_t n;

	known(&cookie, sizeof cookie);
	known(&buffer, sizeof buffer);
	known(&size, sizeof size);
	l = cookie;
	n = 1 + any(l, (uint32_t)(size < TEXT ? size : TEXT));
	for (size_t i = 0; i < n; i++)
		buffer[i] = any(l, 10) ? (char)('a' + any(l, 26)) : '\n';
	inner(l);
	return (ssize_t)n;
}

static ssize_t stream_write(void *cookie, const char *buffer, size_t size)
{
	struct life *l;

	known(&cookie, sizeof cookie);
	known(&buffer, sizeof buffer);
	known(&size, sizeof size);
	known(buffer, size);
	l = cookie;
	inner(l);
	add_bytes(l, buffer, size);
	return (ssize_t)size;
}

static int stream_close(void *cookie)
{
	known(&cookie, sizeof cookie);
	inner(cookie);
	return 0;
}

/* Not printf() and scanf() on streams that block: see usched(7). */
static void write_some(struct life *l, FILE *stream)
{
	char text[TEXT];

	for (unsigned n = 1 + any(l, 8); n > 0; n--) {
		snprintf(text, sizeof text, "%u %g\n", any(l, 1000), real(l));
		TEST_TRUE(fputs(text, stream) >= 0);
		TEST_TRUE(putc('x', stream) == 'x');
		TEST_EQUAL(fwrite(text, 1, 4, stream), 4);
		if (any(l, 3) == 0)
			TEST_EQUAL(fflush(stream), 0);
	}
}

static void read_some(struct life *l, FILE *stream)
{
	char text[TEXT], *line = NULL;
	size_t size = 0;

	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		TEST_TRUE(fgets(text, sizeof text, stream));
		add_bytes(l, text, strlen(text));
		add(l, (unsigned)ungetc(getc(stream), stream));
		TEST_EQUAL(fread(text, 1, sizeof text, stream), sizeof text);
		add_bytes(l, text, sizeof text);
		TEST_TRUE(getline(&line, &size, stream) > 0);
		add_bytes(l, line, strlen(line));
	}
	free(line);
}

static void streams(struct life *l)
{
	static const int modes[] = { _IONBF, _IOLBF, _IOFBF };
	cookie_io_functions_t calls = {
		.read = stream_read, .write = stream_write, .close = stream_close,
	};
	bool reads = any(l, 2);
	FILE *stream = fopencookie(l, reads ? "r" : "w", calls);
	char buffer[TEXT];

	TEST_TRUE(stream);
	TEST_EQUAL(setvbuf(stream, buffer, modes[any(l, 3)], sizeof buffer), 0);
	(reads ? read_some : write_some)(l, stream);
	TEST_EQUAL(fclose(stream), 0);
}

/* ---- libc's own state ---- */

static void text(struct life *l)
{
	char number[TEXT], *end;
	int before = l->l_round;

	set_round(l, rounding[any(l, 4)]);
	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		snprintf(number, sizeof number, "%.*Lg", 3 + (int)any(l, 20),
			 (long double)real(l) / 3);
		inner(l);
		add_bytes(l, number, strlen(number));
		add_real(l, strtod(number, &end));
		TEST_TRUE(*end == '\0');
	}
	set_round(l, before);
}

static void error_number(struct life *l)
{
	for (unsigned n = 2 + any(l, 6); n > 0; n--) {
		int own = 1 + (int)any(l, 100);

		errno = own;
		pause_here(l);
		TEST_EQUAL(errno, own);
		inner(l);                       /* may set it, by what it does itself */
		TEST_EQUAL(strtol("0x10000000000000000", NULL, 0), LONG_MAX);
		pause_here(l);
		TEST_EQUAL(errno, ERANGE);
	}
}

static void heap(struct life *l)
{
	uint32_t mark = any(l, UINT32_MAX);
	unsigned char *p = NULL;
	size_t size = 0;

	for (unsigned n = 1 + any(l, 4); n > 0; n--) {
		size_t more = 1 + any(l, 1000);

		p = realloc(p, size + more);
		TEST_TRUE(p);
		if (size)
			check(p, size, mark);
		size += more;
		fill(p, size, mark);
		inner(l);
	}
	check(p, size, mark);
	add_bytes(l, p, size);
	free(p);
}

/* ---- Others ---- */

/* Up to a third of what is left to do is done by a child. */
static struct life *born(struct life *l)
{
	struct life *child = malloc(sizeof *child);
	uint32_t acts = any(l, l->l_acts / 3 + 1), first = any(l, KINDS);

	TEST_TRUE(child);
	*child = (struct life){
		.l_way = l->l_way, .l_nested = l->l_nested, .l_seed = any(l, UINT32_MAX),
		.l_luck = luck(l, UINT32_MAX), .l_first = first, .l_acts = acts,
	};
	l->l_acts -= acts;
	return child;
}

static void bury(struct life *l, struct life *child)
{
	add(l, child->l_sum);
	free(child);
}

static void children(struct life *l)
{
	struct life *child[CHILDREN];
	unsigned n = 1 + any(l, CHILDREN);

	for (unsigned i = 0; i < n; i++) {
		child[i] = born(l);
		l->l_way->w_start(child[i]);
		inner(l);
	}
	for (unsigned i = 0; i < n; i++) {
		l->l_way->w_join(child[i]);
		inner(l);
		bury(l, child[i]);
	}
}

static void nested_lives(struct life *l, struct life **child, unsigned n);

/* A dispatcher in a life: of those that it runs, each is like a child. */
static void nested(struct life *l)
{
	struct life *child[CHILDREN];
	unsigned n = 1 + any(l, CHILDREN);

	if (l->l_nested == NESTED) {
		inner(l);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		child[i] = born(l);
		child[i]->l_nested++;
	}
	nested_lives(l, child, n);
	for (unsigned i = 0; i < n; i++)
		bury(l, child[i]);
}

static void deeper(struct life *l)
{
	if (l->l_depth < DEPTH)
		live(l);
}

static void (*const act[])(struct life *l) = {
	deeper, floating_point, long_double, matrix, vectors,
	small_by_value, pair_by_value, reals_by_value, large_by_value, complex_by_value,
	variable_arguments, jumps, sorting, tree, streams, text, error_number,
	heap, children, nested,
};

_Static_assert(sizeof act / sizeof *act == KINDS, "KINDS");

static __attribute__((noinline)) void live(struct life *l)
{
	uint32_t mark = any(l, UINT32_MAX);
	size_t size = 1 + any(l, any(l, 4) ? SHALLOW : DEEP);
	volatile unsigned char frame[size];

	fill(frame, size, mark);
	l->l_depth++;
	while (l->l_acts > 0 && (l->l_depth == 1 || any(l, 3))) {
		unsigned kind = l->l_first;

		l->l_acts--;
		l->l_first = any(l, KINDS);
		act[kind](l);
		add(l, l->l_seed);
	}
	l->l_depth--;
	check(frame, size, mark);
	add(l, mark);
}

#endif /* USCHED_TEST_TORTURE_H */
