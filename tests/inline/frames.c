/* SPDX-License-Identifier: MIT */
/* frames.c: callers with frames of all kinds: arrays, alloca, alignment, large ones. */
#include <alloca.h>
#include <string.h>

#include "corpus.h"

/* Without calls but the slow way of the statement: a compiler may want the red zone. */
static OUTSIDE uint64_t small_array(uint64_t seed)
{
	volatile uint32_t part[8];
	uint64_t sum = 0;

	for (unsigned i = 0; i < 8; i++)
		part[i] = (uint32_t)(seed >> i);
	sum += (uint64_t)SWITCH();
	for (unsigned i = 0; i < 8; i++)
		sum = sum * 3 + part[i];
	return sum;
}

/* The hand-over is in one arm, the work in the other. */
static OUTSIDE uint64_t seldom(uint64_t seed)
{
	volatile uint64_t part[12];
	uint64_t sum = 0;

	for (unsigned i = 0; i < 12; i++)
		part[i] = seed * i;
	if (seed % 2)
		sum += (uint64_t)SWITCH();
	for (unsigned i = 0; i < 12; i++)
		sum = sum * 3 + part[i];
	return sum;
}

/* The last thing, after work in an array. */
static OUTSIDE int array_then_tail(uint64_t seed, uint64_t *out)
{
	volatile uint64_t part[6];

	for (unsigned i = 0; i < 6; i++)
		part[i] = seed + i;
	*out = part[seed % 6] * 3;
	return SWITCH();
}

static OUTSIDE uint64_t tail_of_array(uint64_t seed)
{
	uint64_t out = 0;

	return (uint64_t)array_then_tail(seed, &out) + out;
}

/* Forced to memory by more values than registers, in a function without calls. */
static OUTSIDE uint64_t spilled(const uint64_t *p, uint64_t n)
{
	uint64_t a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6],
		 h = p[7], i = p[8], j = p[9], k = p[10], l = p[11], m = p[12], o = p[13],
		 q = p[14], r = p[15], s = p[16], t = p[17];

	while (n--) {
		a += b ^ t, b += c ^ a, c += d ^ b, d += e ^ c, e += f ^ d, f += g ^ e;
		g += h ^ f, h += i ^ g, i += j ^ h, j += k ^ i, k += l ^ j, l += m ^ k;
		if (SWITCH())
			return 0;
		m += o ^ l, o += q ^ m, q += r ^ o, r += s ^ q, s += t ^ r, t += a ^ s;
	}
	return a + b + c + d + e + f + g + h + i + j + k + l + m + o + q + r + s + t;
}

static OUTSIDE uint64_t spills(uint64_t seed)
{
	uint64_t p[18];

	corpus_fill(p, sizeof p, seed);
	return spilled(p, seed % 3 + 1);
}

static OUTSIDE uint64_t with_alloca(uint64_t seed)
{
	size_t n = seed % 50 + 1;
	unsigned char *p = alloca(n), *q;
	uint64_t sum = 0;

	corpus_fill(p, n, seed);
	sum += (uint64_t)SWITCH();
	q = alloca(n + 7);
	corpus_fill(q, n + 7, seed + 1);
	sum += (uint64_t)SWITCH();
	for (size_t i = 0; i < n; i++)
		sum = sum * 3 + (uint64_t)(p[i] ^ q[i + 7]);
	return sum;
}

/* An alloca and no other call. */
static OUTSIDE uint64_t only_alloca(uint64_t seed)
{
	size_t n = seed % 20 + 1;
	volatile uint64_t *p = alloca(n * sizeof *p);
	uint64_t sum = 0, a = hide(seed), b = hide(seed + 3);

	for (size_t i = 0; i < n; i++)
		p[i] = seed * i;
	sum += (uint64_t)SWITCH();
	for (size_t i = 0; i < n; i++)
		sum = sum * 3 + p[i];
	return sum + a * b;
}

/* Arrays of variable length in a scope: SP moves up again. */
static OUTSIDE uint64_t variable_length(uint64_t seed)
{
	uint64_t sum = 0;

	for (unsigned round = 1; round < 4; round++) {
		size_t n = seed % 9 + round;
		volatile uint32_t part[n];

		for (size_t i = 0; i < n; i++)
			part[i] = (uint32_t)(seed + i);
		sum += (uint64_t)SWITCH();
		for (size_t i = 0; i < n; i++)
			sum = sum * 3 + part[i];
	}
	return sum + (uint64_t)SWITCH();
}

static OUTSIDE uint64_t aligned(uint64_t seed)
{
	_Alignas(64) volatile uint64_t part[8];
	uint64_t sum = (uintptr_t)part % 64, a = hide(seed), b = hide(seed + 3);

	for (unsigned i = 0; i < 8; i++)
		part[i] = seed * i;
	sum += (uint64_t)SWITCH();
	for (unsigned i = 0; i < 8; i++)
		sum = sum * 3 + part[i];
	return sum + a * b;
}

/* With both, compilers need a base pointer besides the frame pointer. */
static OUTSIDE uint64_t aligned_and_alloca(uint64_t seed)
{
	_Alignas(128) volatile uint64_t part[8];
	size_t n = seed % 30 + 1;
	unsigned char *p = alloca(n);
	uint64_t sum = (uintptr_t)part % 128, a = hide(seed), b = hide(seed + 3),
		 c = hide(seed * 5), d = hide(seed * 7), e = hide(seed * 11);

	corpus_fill(p, n, seed);
	for (unsigned i = 0; i < 8; i++)
		part[i] = seed * i;
	sum += (uint64_t)SWITCH();
	for (unsigned i = 0; i < 8; i++)
		sum = sum * 3 + part[i];
	a += (uint64_t)WAIT();
	for (size_t i = 0; i < n; i++)
		sum = sum * 3 + p[i];
	return sum + a * b + c * d * e;
}

static OUTSIDE uint64_t aligned_and_alloca_only(uint64_t seed)
{
	_Alignas(64) volatile uint64_t part[8];
	size_t n = seed % 9 + 1;
	volatile uint64_t *p = alloca(n * sizeof *p);
	uint64_t sum = 0;

	for (unsigned i = 0; i < 8; i++)
		part[i] = p[i % n] = seed * i;
	for (unsigned i = 0; i < 8; i++) {
		sum = sum * 3 + part[i] + p[i % n];
		sum += (uint64_t)SWITCH();
	}
	return sum;
}

/* Larger than a page: probed by -fstack-clash-protection. */
static OUTSIDE uint64_t large_frame(uint64_t seed)
{
	unsigned char part[9000];
	uint64_t sum = 0;

	corpus_fill(part, sizeof part, seed);
	sum += (uint64_t)SWITCH();
	for (size_t i = 0; i < sizeof part; i += 500)
		sum = sum * 3 + part[i];
	return sum;
}

/* What -D_FORTIFY_SOURCE and -fstack-protector look at. */
static OUTSIDE uint64_t text(uint64_t seed)
{
	char a[40], b[20];
	size_t n = seed % 12 + 3;

	memset(a, 'a', sizeof a);
	memset(b, (int)('b' + seed % 5), sizeof b);
	b[n] = 0;
	if (SWITCH())
		return 0;
	memcpy(a + 3, b, n + 1);
	strcat(a, "end");
	if (WAIT())
		return 0;
	return strlen(a) * 3 + (uint64_t)(unsigned char)a[n] + (uint64_t)SWITCH();
}

/* Not set before: -ftrivial-auto-var-init fills it. */
static OUTSIDE uint64_t partly_set(uint64_t seed)
{
	struct {
		uint64_t a, b;
		unsigned char rest[100];
	} s;

	s.a = seed;
	s.b = seed * 3;
	if (SWITCH())
		return 0;
	s.rest[seed % 100] = 7;
	__asm__ volatile("" : : "r"(&s) : "memory");
	s.a += (uint64_t)SWITCH();
	return s.a + s.b + s.rest[seed % 100];
}

/* Lives only across one hand-over, in turns with others in the same place. */
static OUTSIDE uint64_t scopes(uint64_t seed)
{
	uint64_t sum = 0;

	{
		volatile uint64_t part[3] = { seed, seed * 3, seed * 5 };

		sum += (uint64_t)SWITCH();
		sum += part[0] + part[1] * part[2];
	}
	{
		volatile uint32_t part[6] = { 1, 2, 3, (uint32_t)seed, 5, 6 };

		sum += (uint64_t)SWITCH();
		for (unsigned i = 0; i < 6; i++)
			sum = sum * 3 + part[i];
	}
	return sum;
}

#define CASE(name) { #name, name, CORPUS_ANY }

const struct corpus_case CORPUS(corpus_frames)[] = {
	CASE(small_array), CASE(seldom), CASE(tail_of_array), CASE(spills),
	CASE(with_alloca),
	CASE(only_alloca), CASE(variable_length), CASE(aligned), CASE(aligned_and_alloca),
	CASE(aligned_and_alloca_only), CASE(large_frame), CASE(text), CASE(partly_set),
	CASE(scopes),
	{ NULL, NULL, 0 },
};
