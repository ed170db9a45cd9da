/* SPDX-License-Identifier: MIT */
/*
 * floats.c: callers with floating point values, vectors and masks. Values are small
 * integers, so all sums are exact.
 */
#include "corpus.h"

#if defined(__x86_64__)
#define TARGET(x) __attribute__((target(x)))
#endif

static inline double small(uint64_t seed, unsigned i)
{
	return (double)(int)(hide(seed * 7 + i * 13) % 101);
}

static inline uint64_t whole(double d)
{
	return (uint64_t)(int64_t)d;
}

static OUTSIDE uint64_t doubles(uint64_t seed)
{
	double a = small(seed, 1), b = small(seed, 2), c = small(seed, 3),
	       d = small(seed, 4), e = small(seed, 5), f = small(seed, 6),
	       g = small(seed, 7), h = small(seed, 8), i = small(seed, 9),
	       j = small(seed, 10), k = small(seed, 11), l = small(seed, 12),
	       m = small(seed, 13), n = small(seed, 14), o = small(seed, 15),
	       p = small(seed, 16), q = small(seed, 17), r = small(seed, 18);

	if (SWITCH())
		return 0;
	a += b * c, d += e * f, g += h * i, j += k * l, m += n * o, p += q * r;
	if (WAIT())
		return 0;
	return whole(a + 2 * d + 3 * g + 5 * j + 7 * m + 11 * p + b + c + e + f + h + i
		     + k + l + n + o + q + r);
}

static OUTSIDE uint64_t floats(uint64_t seed)
{
	float sum = 0, factor = (float)small(seed, 3), other = (float)small(seed, 4);

	for (unsigned i = 0; i < 5; i++) {
		sum += factor * (float)i;
		if (SWITCH())
			return 0;
		sum -= other;
	}
	return whole((double)sum + 10000);
}

static OUTSIDE double result(double a, uint64_t n, double b)
{
	if (n % 2)
		a += b;
	return a * 2 + (double)SWITCH();
}

static OUTSIDE uint64_t passed(uint64_t seed)
{
	double a = result(small(seed, 1), seed, small(seed, 2));

	a += result(a, seed + 1, small(seed, 3)) + (double)SWITCH();
	return whole(corpus_mix_double(a, small(seed, 5)));
}

/* On x86-64 in registers of the x87. */
static OUTSIDE uint64_t long_doubles(uint64_t seed)
{
	long double a = (long double)small(seed, 1), b = (long double)small(seed, 2),
		    c = (long double)small(seed, 3);

	a += b * c;
	if (SWITCH())
		return 0;
	b += a * c;
	if (WAIT())
		return 0;
	return (uint64_t)(int64_t)(a + 3 * b + 5 * c);
}

static OUTSIDE long double long_result(long double a, long double b)
{
	a += b;
	a += (long double)SWITCH();
	return a * 3;
}

static OUTSIDE uint64_t long_loop(uint64_t seed)
{
	long double sum = (long double)small(seed, 1), step = (long double)small(seed, 2);

	for (unsigned i = 0; i < 4; i++) {
		sum += step * (long double)i;
		sum += (long double)SWITCH();
	}
	return (uint64_t)(int64_t)long_result(sum, step);
}

static OUTSIDE uint64_t complexes(uint64_t seed)
{
	__extension__ _Complex double a = small(seed, 1) + small(seed, 2) * 1.0i,
				      b = small(seed, 3) + small(seed, 4) * 1.0i;

	if (SWITCH())
		return 0;
	a += b;
	a += (double)SWITCH();
	return whole(__real__ a) * 1000 + whole(__imag__ a);
}

/* Sums in a loop without dependences: the compiler makes vectors of it. */
static OUTSIDE uint64_t vectorized(uint64_t seed)
{
	float a[32], b[32], sum = 0;

	for (unsigned i = 0; i < 32; i++)
		a[i] = (float)((seed + i) % 19), b[i] = (float)((seed * 3 + i) % 17);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 32; i++)
			a[i] += b[i];
		if (SWITCH())
			return 0;
	}
	for (unsigned i = 0; i < 32; i++)
		sum += a[i] * (float)(i % 5);
	return whole((double)sum);
}

/*
 * VECTORS(name, type, lanes): 18 vectors, and what the options or a target keep in
 * registers of them. `type' has that many lanes of 64 bits.
 */
#define VECTORS(name, type, lanes) \
static OUTSIDE uint64_t name(uint64_t seed) \
{ \
	type v[18]; \
	uint64_t sum = 0; \
	for (unsigned i = 0; i < lanes; i++) \
		v[0][i] = hide(seed + i); \
	for (unsigned i = 1; i < 18; i++) \
		v[i] = v[i - 1] * 5 + i; \
	if (SWITCH()) \
		return 0; \
	type a = v[0] ^ v[1], b = v[2] + v[3], c = v[4] ^ v[5], d = v[6] + v[7]; \
	type e = v[8] ^ v[9], f = v[10] + v[11], g = v[12] ^ v[13], h = v[14] + v[15]; \
	sum += (uint64_t)WAIT(); \
	a += b ^ c, d += e ^ f, g += h ^ v[16], a ^= v[17] + d - g; \
	for (unsigned i = 0; i < lanes; i++) \
		sum = sum * 3 + a[i]; \
	return sum; \
}

/* A vector goes round a loop. */
#define VECTOR_LOOP(name, type, lanes) \
static OUTSIDE uint64_t name(uint64_t seed) \
{ \
	type a, b; \
	uint64_t sum = 0; \
	for (unsigned i = 0; i < lanes; i++) \
		a[i] = hide(seed + i), b[i] = hide(seed * 3 + i); \
	for (unsigned i = 0; i < 4; i++) { \
		a = (a << 3) ^ b; \
		sum += (uint64_t)SWITCH(); \
		b += a; \
	} \
	for (unsigned i = 0; i < lanes; i++) \
		sum = sum * 3 + a[i] + b[i]; \
	return sum; \
}

typedef uint64_t v128 __attribute__((vector_size(16)));
typedef uint64_t v256 __attribute__((vector_size(32)));
typedef uint64_t v512 __attribute__((vector_size(64)));

VECTORS(vectors, v128, 2)
VECTOR_LOOP(vector_loop, v128, 2)

#if defined(__x86_64__)
#define NEEDS_AVX2 CORPUS_AVX2
#define NEEDS_AVX512 CORPUS_AVX512
TARGET("avx2") VECTORS(vectors_256, v256, 4)
TARGET("avx2") VECTOR_LOOP(vector_loop_256, v256, 4)

#ifdef CORPUS_512
TARGET("avx512f,avx512dq,avx512vl") VECTORS(vectors_512, v512, 8)
TARGET("avx512f,avx512dq,avx512vl") VECTOR_LOOP(vector_loop_512, v512, 8)
TARGET("avx512f,avx512dq,avx512vl") VECTORS(vectors_128_vl, v128, 2)

/* Registers of masks. */
TARGET("avx512f") static OUTSIDE uint64_t masks(uint64_t seed)
{
	unsigned short a, b, c, d;
	unsigned e, f, g, h;

	__asm__("kmovw	%1, %0" : "=k"(a) : "r"((unsigned)seed));
	__asm__("kmovw	%1, %0" : "=k"(b) : "r"((unsigned)seed * 3));
	__asm__("knotw	%1, %0" : "=k"(c) : "k"(a));
	if (SWITCH())
		return 0;
	__asm__("kandw	%1, %2, %0" : "=k"(d) : "k"(a), "k"(b));
	__asm__("kmovw	%1, %0" : "=r"(e) : "k"(a));
	__asm__("kmovw	%1, %0" : "=r"(f) : "k"(b));
	__asm__("kmovw	%1, %0" : "=r"(g) : "k"(c));
	__asm__("kmovw	%1, %0" : "=r"(h) : "k"(d));
	return e + 3 * (uint64_t)f + 5 * (uint64_t)g + 7 * (uint64_t)h;
}

/* Scalars may be in registers from 16 on. */
TARGET("avx512f,avx512vl,avx512dq") static OUTSIDE uint64_t doubles_vl(uint64_t seed)
{
	double a = small(seed, 1), b = small(seed, 2), c = small(seed, 3);
	double d = small(seed, 4);

	for (unsigned i = 0; i < 3; i++) {
		a += b;
		if (SWITCH())
			return 0;
		c += d;
	}
	return whole(a * 3 + b * 5 + c * 7 + d);
}
#endif /* CORPUS_512 */

#else   /* elsewhere the compiler makes several of one */
#define NEEDS_AVX2 CORPUS_ANY
#define NEEDS_AVX512 CORPUS_ANY
VECTORS(vectors_256, v256, 4)
VECTOR_LOOP(vector_loop_256, v256, 4)
#endif

#ifdef CORPUS_WITH_SVE
#include <arm_sve.h>

__attribute__((target("+sve"))) static OUTSIDE uint64_t sve(uint64_t seed)
{
	svbool_t odd = svcmpne_n_u64(svptrue_b64(), svand_n_u64_x(svptrue_b64(),
		svindex_u64(seed, 3), 1), 0);
	svuint64_t a = svindex_u64(seed, 3), b = svindex_u64(seed * 3, 7);
	svuint64_t c = svmul_u64_x(svptrue_b64(), a, b);

	if (SWITCH())
		return 0;
	b = sveor_u64_m(odd, b, c);
	a = svadd_u64_m(odd, a, b);
	return svaddv_u64(svptrue_b64(), svadd_u64_x(svptrue_b64(), a, c));
}
#endif

#define CASE(name) { #name, name, CORPUS_ANY }

const struct corpus_case CORPUS(corpus_floats)[] = {
	CASE(doubles), CASE(floats), CASE(passed), CASE(long_doubles), CASE(long_loop),
	CASE(complexes), CASE(vectorized), CASE(vectors), CASE(vector_loop),
	{ "vectors_256", vectors_256, NEEDS_AVX2 },
	{ "vector_loop_256", vector_loop_256, NEEDS_AVX2 },
#if defined(__x86_64__) && defined(CORPUS_512)
	{ "vectors_512", vectors_512, NEEDS_AVX512 },
	{ "vector_loop_512", vector_loop_512, NEEDS_AVX512 },
	{ "vectors_128_vl", vectors_128_vl, NEEDS_AVX512 },
	{ "masks", masks, NEEDS_AVX512 },
	{ "doubles_vl", doubles_vl, NEEDS_AVX512 },
#endif
#ifdef CORPUS_WITH_SVE
	{ "sve", sve, CORPUS_SVE },
#endif
	{ NULL, NULL, 0 },
};
