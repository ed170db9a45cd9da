/* SPDX-License-Identifier: MIT */
/* ints.c: callers with integers in registers, and with control flow of all kinds. */
#include <setjmp.h>
#include <stdarg.h>

#include "corpus.h"

#if defined(__clang__)
#define OPTIMIZE(level)
#else
#define OPTIMIZE(level) __attribute__((optimize(level)))
#endif

/* The switch is all, and the last thing. */
static OUTSIDE int tail(void)
{
	return SWITCH();
}

static OUTSIDE uint64_t last(uint64_t seed)
{
	return (uint64_t)tail() + seed;
}

static OUTSIDE uint64_t tail_wait(uint64_t seed)
{
	(void)seed;
	return (uint64_t)WAIT();
}

/* Another function returns for this one. */
static OUTSIDE uint64_t then_tail(uint64_t seed)
{
	uint64_t a = hide(seed * 3);

	a += (uint64_t)SWITCH();
	return corpus_mix(a, seed);
}

static OUTSIDE uint64_t few(uint64_t seed)
{
	uint64_t a = seed * 3, b = seed ^ 0x55;

	a += (uint64_t)SWITCH();
	return a * b + seed;
}

/* More values than registers. */
static OUTSIDE uint64_t many(uint64_t seed)
{
	uint64_t a = hide(seed), b = hide(seed * 3), c = hide(seed * 5),
		 d = hide(seed * 7), e = hide(seed * 11), f = hide(seed * 13),
		 g = hide(seed * 17), h = hide(seed * 19), i = hide(seed * 23),
		 j = hide(seed * 29), k = hide(seed * 31), l = hide(seed * 37),
		 m = hide(seed * 41), n = hide(seed * 43), o = hide(seed * 47),
		 p = hide(seed * 53);

	if (SWITCH())
		return 0;
	a ^= b, c ^= d, e ^= f, g ^= h, i ^= j, k ^= l, m ^= n, o ^= p;
	if (WAIT())
		return 0;
	return a + 2 * c + 3 * e + 5 * g + 7 * i + 11 * k + 13 * m + 17 * o
	       + b + d + f + h + j + l + n + p;
}

/* In a loop, with values that go round. */
static OUTSIDE uint64_t loop(uint64_t seed)
{
	uint64_t a = seed, b = 1, c = 2;

	for (unsigned i = 0; i < seed % 7 + 2; i++) {
		a = a * 31 + b;
		if (SWITCH())
			return 0;
		b ^= a >> 7;
		c += b * i;
	}
	return a + b + c;
}

/* Unrolled: the statement is there four times. */
static OUTSIDE uint64_t unrolled(uint64_t seed)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		sum = sum * 5 + hide(seed + i);
		sum += (uint64_t)SWITCH();
	}
	return sum;
}

static OUTSIDE uint64_t both_arms(uint64_t seed)
{
	uint64_t a = hide(seed), b = hide(seed + 9);

	if (seed & 1) {
		a += b * 3;
		a += (uint64_t)SWITCH();
		b -= a;
	} else {
		b += a * 7;
		b += (uint64_t)SWITCH();
		a -= b;
	}
	return a * 3 + b;
}

static OUTSIDE uint64_t twice(uint64_t seed)
{
	return seed * 3 + (uint64_t)(SWITCH() + WAIT()) + (SWITCH() ? seed : seed * 2);
}

/* A part of many functions, and several times of this one. */
static inline __attribute__((always_inline)) uint64_t step(uint64_t a, uint64_t b)
{
	a += hide(b) * 3;
	a += (uint64_t)SWITCH();
	return a ^ (b << 3);
}

static OUTSIDE uint64_t steps(uint64_t seed)
{
	uint64_t a = step(seed, 1), b = step(a, seed), c = step(b, a);

	return step(a, b) + step(b, c) * step(c, a) + seed;
}

/* -ftracer makes copies of the tail, with the statement. */
static OUTSIDE uint64_t paths(uint64_t seed)
{
	uint64_t a = hide(seed);

	if (seed & 2)
		a *= 3;
	else
		a += 5;
	if (seed & 4)
		a ^= 0x1234;
	a += (uint64_t)SWITCH();
	if (seed & 2)
		a -= seed;
	if (seed & 4)
		a *= 7;
	return a;
}

static OUTSIDE uint64_t recursive(uint64_t seed, unsigned depth)
{
	uint64_t a = hide(seed + depth);

	if (depth == 0)
		return seed + (uint64_t)SWITCH();
	a += recursive(seed * 3, depth - 1);
	a += (uint64_t)SWITCH();
	return a * 5 + seed;
}

static OUTSIDE uint64_t recurse(uint64_t seed)
{
	return recursive(seed, (unsigned)seed % 5);
}

struct pair {
	uint64_t first, second;
};

struct large {
	uint64_t word[9];
};

static OUTSIDE struct pair pair(uint64_t a, uint64_t b)
{
	struct pair r = { a * 3, b * 5 };

	r.first += (uint64_t)SWITCH();
	return r;
}

static OUTSIDE struct large large(uint64_t a, uint64_t b)
{
	struct large r;

	for (unsigned i = 0; i < 9; i++)
		r.word[i] = a * i;
	r.word[4] += (uint64_t)SWITCH();
	r.word[3] += b;
	return r;
}

static OUTSIDE uint64_t structs(uint64_t seed)
{
	struct pair p = pair(seed, seed + 1);
	struct large l = large(p.first, p.second);
	uint64_t sum = 0;

	for (unsigned i = 0; i < 9; i++)
		sum = sum * 3 + l.word[i];
	return sum + (uint64_t)SWITCH();
}

/* Arguments on the stack and in all registers for them. */
static OUTSIDE uint64_t arguments(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				  uint64_t e, uint64_t f, uint64_t g, uint64_t h,
				  uint64_t i, uint64_t j)
{
	a += (uint64_t)SWITCH();
	return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i
	       + 29 * j;
}

static OUTSIDE uint64_t ten(uint64_t s)
{
	return arguments(s, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, s + 8,
			 s + 9);
}

/* Pushes arguments behind a hand-over: unwinders must know. */
static OUTSIDE uint64_t pushes(uint64_t seed)
{
	uint64_t a = hide(seed);

	a += (uint64_t)SWITCH();
	a += corpus_ten(a, 1, a, 3, a, 5, a, 7, a + 8, a * 9);
	a += (uint64_t)SWITCH();
	return a + corpus_mix(a, seed);
}

static OUTSIDE uint64_t varied(unsigned count, ...)
{
	uint64_t sum = 0;
	va_list list;

	va_start(list, count);
	for (unsigned i = 0; i < count; i++) {
		sum = sum * 3 + va_arg(list, uint64_t);
		sum += (uint64_t)SWITCH();
	}
	va_end(list);
	return sum;
}

static OUTSIDE uint64_t varargs(uint64_t s)
{
	return varied(9, s, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, s + 8);
}

static OUTSIDE uint64_t format(uint64_t seed)
{
	unsigned long value = (unsigned long)seed;

	if (SWITCH())
		return 0;
	corpus_note_format("%lu %d %s", value, 7, "words");
	value += (unsigned long)SWITCH();
	corpus_note_format("%lx", value);
	return value;
}

/* With calls on both sides: values live in registers that calls preserve. */
static OUTSIDE uint64_t preserved(uint64_t seed)
{
	uint64_t a = corpus_mix(seed, 1), b = corpus_mix(a, 2), c = corpus_mix(b, 3);
	uint64_t d = corpus_mix(c, 4), e = corpus_mix(d, 5);

	if (SWITCH())
		return 0;
	a = corpus_mix(a, e) + corpus_mix(b, d) + corpus_mix(c, a);
	return corpus_mix(a, b) + corpus_mix(c, d) + e;
}

/* The values are made before, used after, and there is no other call. */
static OUTSIDE uint64_t pointers(uint64_t *p, uint64_t *q, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		p[i] += q[n - 1 - i];
		sum += (uint64_t)SWITCH();
		q[i] ^= p[i];
		sum += p[i] * q[i];
	}
	return sum;
}

static OUTSIDE uint64_t arrays(uint64_t seed)
{
	uint64_t p[6], q[6];

	corpus_fill(p, sizeof p, seed);
	corpus_fill(q, sizeof q, seed + 1);
	return pointers(p, q, 6);
}

/* Memory that the other thread writes: it is not what it was. */
static OUTSIDE uint64_t memory(uint64_t seed)
{
	uint64_t sum;

	corpus_turns = seed;
	if (SWITCH())
		return 0;
	sum = corpus_turns * 3;
	corpus_turns = seed * 5;
	if (WAIT())
		return 0;
	return sum + corpus_turns;
}

static OUTSIDE uint64_t computed(uint64_t seed)
{
	static void *const places[] = { __extension__ &&one, __extension__ &&two,
					__extension__ &&three, __extension__ &&end };
	uint64_t sum = seed, left = 6;

	__extension__ ({ goto *places[seed % 3]; });
one:
	sum = sum * 3 + (uint64_t)SWITCH();
	__extension__ ({ goto *places[--left ? sum % 3 : 3]; });
two:
	sum ^= left << 5;
	sum += (uint64_t)SWITCH();
	__extension__ ({ goto *places[--left ? sum % 3 : 3]; });
three:
	sum += left;
	__extension__ ({ goto *places[--left ? (sum + 1) % 3 : 3]; });
end:
	return sum;
}

static OUTSIDE uint64_t cases(uint64_t seed)
{
	uint64_t sum = seed;

	for (unsigned i = 0; i < 9; i++) {
		switch ((sum + i) % 7) {
		case 0: sum += 3; break;
		case 1: sum *= 5; sum += (uint64_t)SWITCH(); break;
		case 2: sum ^= i; break;
		case 3: sum += (uint64_t)SWITCH(); sum -= 77; break;
		case 4: sum = corpus_mix(sum, i); break;
		case 5: sum <<= 1; break;
		case 6: sum += seed; break;
		}
	}
	return sum;
}

static OUTSIDE void jump(jmp_buf where, uint64_t seed)
{
	if (SWITCH() == 0 && seed % 2)
		longjmp(where, 3);
}

static OUTSIDE uint64_t returns_twice(uint64_t seed)
{
	volatile uint64_t kept = seed * 3;
	jmp_buf where;
	int way = setjmp(where);

	if (way == 0) {
		kept += (uint64_t)SWITCH();
		jump(where, seed);
	}
	kept += (uint64_t)SWITCH();
	return kept + (uint64_t)way + seed;
}

static OUTSIDE __attribute__((cold)) uint64_t cold(uint64_t seed)
{
	uint64_t a = seed * 3;

	a += (uint64_t)SWITCH();
	return a ^ seed;
}

static OUTSIDE __attribute__((hot)) uint64_t hot(uint64_t seed)
{
	uint64_t a = hide(seed * 3);

	if (__builtin_expect(seed % 3 == 0, 0)) {
		a += cold(seed);
		a += (uint64_t)SWITCH();
		corpus_note(a);
	}
	a += (uint64_t)SWITCH();
	return a ^ seed;
}

static jmp_buf away;

static OUTSIDE __attribute__((noreturn)) void leave(uint64_t seed)
{
	uint64_t a = hide(seed);

	a += (uint64_t)SWITCH();
	corpus_note(a * 3);
	longjmp(away, 1);
}

static OUTSIDE uint64_t never_returns(uint64_t seed)
{
	if (setjmp(away) == 0)
		leave(seed);
	return seed;
}

static OUTSIDE OPTIMIZE("O0") uint64_t slowest(uint64_t seed)
{
	uint64_t a = seed, b = a * 3;

	a += (uint64_t)SWITCH();
	return a + b;
}

static OUTSIDE OPTIMIZE("O3") uint64_t fastest(uint64_t seed)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 6; i++)
		sum = (sum << 3 ^ seed) + (uint64_t)SWITCH();
	return sum;
}

static OUTSIDE OPTIMIZE("no-omit-frame-pointer")
uint64_t with_frame_pointer(uint64_t seed)
{
	uint64_t a = hide(seed), b = hide(a * 3);

	a += (uint64_t)SWITCH();
	return a * b;
}

/* Compilers that clear registers at the end do it after the statement. */
#if defined(__has_attribute)
#if __has_attribute(zero_call_used_regs)
#define CLEARS __attribute__((zero_call_used_regs("all")))
#endif
#endif
#ifndef CLEARS
#define CLEARS
#endif
static OUTSIDE CLEARS uint64_t clears(uint64_t seed)
{
	uint64_t a = hide(seed);

	a += (uint64_t)SWITCH();
	return a * 3;
}

static OUTSIDE uint64_t call(uint64_t (*f)(uint64_t), uint64_t seed)
{
	return f(seed) + 1;
}

#if !defined(__clang__)
/* A nested function gets the frame of the outer one in a register. */
static OUTSIDE uint64_t nested(uint64_t seed)
{
	uint64_t a = seed * 3;
	__extension__ uint64_t inner(uint64_t b)
	{
		a += b;
		b += (uint64_t)SWITCH();
		return a * b;
	}

	a += inner(seed);
	a += (uint64_t)SWITCH();
	return a + inner(a);
}
#endif

static OUTSIDE uint64_t indirect(uint64_t seed)
{
	uint64_t (*volatile f)(uint64_t) = seed % 2 ? few : loop;
	uint64_t a = hide(seed * 7);

	a += (uint64_t)SWITCH();
	return call(f, a) + a;
}

/* Small integers, and one of 128 bits. */
static OUTSIDE uint64_t sizes(uint64_t seed)
{
	unsigned char a = (unsigned char)seed;
	short b = (short)(seed >> 3);
	int c = (int)(seed >> 5);
	__extension__ unsigned __int128 d = seed;

	d *= d * 7;
	a ^= 5;
	b ^= 6;
	if (SWITCH())
		return 0;
	d ^= d >> 3;
	return (uint64_t)a + (uint64_t)b + (uint64_t)c + (uint64_t)d
	       + (uint64_t)(d >> 64);
}

static OUTSIDE uint64_t divides(uint64_t seed)
{
	uint64_t a = hide(seed | 1), b = hide(seed * 977 + 5);
	uint64_t q = b / a, r = b % a;

	q += (uint64_t)SWITCH();
	return q * 3 + r + (b << (a & 31)) + (a * b >> 5);
}

#define CASE(name) { #name, name, CORPUS_ANY }

const struct corpus_case CORPUS(corpus_ints)[] = {
	CASE(last), CASE(tail_wait), CASE(then_tail), CASE(few), CASE(many),
	CASE(loop), CASE(unrolled),
	CASE(both_arms), CASE(twice), CASE(steps), CASE(paths), CASE(recurse),
	CASE(structs), CASE(ten), CASE(pushes), CASE(varargs), CASE(format),
	CASE(preserved),
	CASE(arrays), CASE(memory), CASE(computed), CASE(cases), CASE(returns_twice),
	CASE(hot),
	CASE(never_returns), CASE(slowest), CASE(fastest), CASE(with_frame_pointer),
	CASE(clears), CASE(indirect), CASE(sizes), CASE(divides),
#if !defined(__clang__)
	CASE(nested),
#endif
	{ NULL, NULL, 0 },
};
