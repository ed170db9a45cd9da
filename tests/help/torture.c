/* SPDX-License-Identifier: MIT */
/* torture.c: lives, and their acts of C: numbers, arguments and results, jumps. */
#include "torture.h"

#include <complex.h>
#include <fenv.h>
#include <math.h>

const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

void __msan_unpoison(const volatile void *p, size_t size) __attribute__((weak));

void known(const volatile void *p, size_t size)
{
	if (__msan_unpoison)
		__msan_unpoison(p, size);
}

uint32_t any(struct life *l, uint32_t n)
{
	return test_random(&l->l_seed) % n;
}

uint32_t luck(struct life *l, uint32_t n)
{
	return test_random(&l->l_luck) % n;
}

void add(struct life *l, uint64_t x)
{
	l->l_sum = ((l->l_sum << 7 | l->l_sum >> 57) ^ x) * 0x9e3779b97f4a7c15;
}

void add_bytes(struct life *l, const void *p, size_t size)
{
	const unsigned char *byte = p;

	for (size_t i = 0; i < size; i++)
		add(l, byte[i]);
}

void add_real(struct life *l, double x)
{
	add_bytes(l, &x, sizeof x);
}

double real(struct life *l)
{
	return (double)any(l, 2000000) / 7 - 100000;
}

void set_round(struct life *l, int round)
{
	if (l->l_shares)
		return;
	TEST_EQUAL(fesetround(round), 0);
	l->l_round = round;
}

void pause_here(struct life *l)
{
	l->l_way->w_pause(l);
	TEST_EQUAL(fegetround(), l->l_round);
}

void inner(struct life *l)
{
	if (l->l_acts > 0 && l->l_depth < DEPTH && any(l, 8) == 0)
		live(l);
	else
		pause_here(l);
}

void fill(volatile unsigned char *p, size_t size, uint32_t mark)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)test_random(&mark);
}

void check(const volatile unsigned char *p, size_t size, uint32_t mark)
{
	for (size_t i = 0; i < size; i++)
		TEST_EQUAL(p[i], (unsigned char)test_random(&mark));
}

/* ---- Numbers ---- */

/* Without the padding that is among its bytes. */
static void add_long(struct life *l, long double x)
{
	volatile double high = (double)x;

	add_real(l, high);
	add_real(l, (double)(x - high));
}

void floating_point(struct life *l)
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

void long_double(struct life *l)
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

void matrix(struct life *l)
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

/* Without SSE, i386 passes them in another way, and gcc says so. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

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

void vectors(struct life *l)
{
	four i = { (int32_t)any(l, 1000), 2, -3, 4 };
	double factor = real(l);
	two x = { 1, 2 };

	x *= (two){ factor, factor };
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

/* A struct goes down by value, and another one up; that of the caller stays as it was. */
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
void type##_by_value(struct life *l) \
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

void complex_by_value(struct life *l)
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

void variable_arguments(struct life *l)
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

/* A place to jump to, on the stack; r_up is the next one above. */
struct rung {
	sigjmp_buf   r_env;
	struct rung *r_up;
};

static void fall(struct life *l, struct rung *above, unsigned n);

/* Falls, until a jump to here or to `above', or the end without a jump. */
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

void jumps(struct life *l)
{
	for (unsigned n = 1 + any(l, 3); n > 0; n--)
		stand(l, NULL, any(l, 6));
}

/* ---- Others ---- */

/* A child does up to a third of the acts that are left. */
static struct life *born(struct life *l)
{
	struct life *child = malloc(sizeof *child);
	uint32_t acts = any(l, l->l_acts / 3 + 1), first = any(l, KINDS);

	TEST_TRUE(child);
	*child = (struct life){
		.l_way = l->l_way, .l_nested = l->l_nested, .l_seed = any(l, UINT32_MAX),
		.l_luck = luck(l, UINT32_MAX), .l_first = first, .l_acts = acts,
		.l_shared = l->l_shared,
	};
	child->l_shares = child->l_seed % SHARES == 0;
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

/* A dispatcher in a life: it runs children. */
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
		child[i]->l_shared = l->l_round;
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

static act_fn *const act[] = {
	deeper, floating_point, long_double, matrix, vectors,
	small_by_value, pair_by_value, reals_by_value, large_by_value, complex_by_value,
	variable_arguments, jumps, sorting, tree, streams, text, error_number,
	heap, children, nested,
};

_Static_assert(sizeof act / sizeof *act == KINDS, "KINDS");

__attribute__((noinline)) void live(struct life *l)
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
