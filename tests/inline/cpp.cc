// SPDX-License-Identifier: MIT
// cpp.cc: callers in C++: destructors, exceptions, lambdas, templates.
#include <cstdint>

#include "corpus.h"

namespace {

struct failure {
	uint64_t value;
};

// What a destructor does can be seen.
class noted {
public:
	explicit noted(uint64_t value) : m_value(value) {}
	noted(const noted &) = delete;
	noted &operator=(const noted &) = delete;
	~noted() { corpus_note(m_value); }
	uint64_t m_value;
};

// Hands over when it is destroyed.
class polite {
public:
	explicit polite(uint64_t &sum) : m_sum(sum) {}
	polite(const polite &) = delete;
	polite &operator=(const polite &) = delete;
	~polite() { m_sum += uint64_t(SWITCH()) + 1; }
private:
	uint64_t &m_sum;
};

OUTSIDE uint64_t destructors(uint64_t seed)
{
	noted first(seed * 3);
	uint64_t a = hide(seed);

	a += uint64_t(SWITCH());
	{
		noted second(a * 5);
		second.m_value += uint64_t(SWITCH());
		a ^= 3;
	}
	return a + first.m_value;
}

OUTSIDE uint64_t thrower(uint64_t seed)
{
	uint64_t a = hide(seed * 3);

	a += uint64_t(SWITCH());
	if (seed % 2)
		throw failure{ a };
	return a + uint64_t(SWITCH());
}

OUTSIDE uint64_t catches(uint64_t seed)
{
	uint64_t a = hide(seed), b = hide(seed + 3), c = hide(seed * 5);

	try {
		noted kept(a);
		a += uint64_t(SWITCH());
		b += thrower(a);
		a ^= b;
		c += uint64_t(SWITCH());
	} catch (const failure &f) {
		a += f.value;
		c += uint64_t(WAIT());
	}
	return a + 3 * b + 5 * c;
}

OUTSIDE uint64_t throw_over(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			    uint64_t f, uint64_t g, uint64_t h, uint64_t i, uint64_t j)
{
	if (a % 2)
		throw failure{ b + c + d + e + f + g + h + i + j };
	return a + j;
}

// Arguments are pushed behind a hand-over, and an exception goes by.
OUTSIDE uint64_t pushes(uint64_t seed)
{
	noted kept(seed);
	uint64_t a = hide(seed * 5);

	a += uint64_t(SWITCH());
	a += throw_over(seed, 1, a, 3, a, 5, a, 7, a + 8, a * 9);
	return a + uint64_t(SWITCH());
}

OUTSIDE uint64_t goes_by(uint64_t seed)
{
	uint64_t a = hide(seed);

	try {
		a += uint64_t(SWITCH());
		a += pushes(seed);
	} catch (const failure &f) {
		a ^= f.value;
	}
	return a;
}

// The hand-over is in a handler: exceptions are caught, so it goes the slow way.
OUTSIDE uint64_t in_handler(uint64_t seed)
{
	uint64_t a = hide(seed), b = hide(seed * 3);

	try {
		throw failure{ seed };
	} catch (failure &f) {
		a += f.value;
		a += uint64_t(SWITCH());
		b ^= f.value;
	}
	b += uint64_t(SWITCH());
	return a * 3 + b;
}

OUTSIDE uint64_t cleanup_hands_over(uint64_t seed)
{
	uint64_t sum = hide(seed);

	try {
		polite one(sum);
		polite two(sum);
		sum += thrower(seed + 1);
	} catch (const failure &f) {
		sum += f.value;
	}
	return sum;
}

template<typename F>
inline uint64_t apply(F f, uint64_t seed)
{
	uint64_t a = hide(seed);

	a += f(a);
	return a + f(a * 3);
}

OUTSIDE uint64_t lambdas(uint64_t seed)
{
	uint64_t count = 0;
	auto hand = [&](uint64_t a) { count++; return a * 3 + uint64_t(SWITCH()); };
	uint64_t sum = apply(hand, seed);

	sum += apply([&](uint64_t a) { sum ^= a; return uint64_t(WAIT()) + count; }, sum);
	return sum + count;
}

class base {
public:
	virtual ~base() = default;
	virtual uint64_t work(uint64_t seed) { return seed + uint64_t(SWITCH()); }
};

class derived : public base {
public:
	uint64_t work(uint64_t seed) override
	{
		uint64_t a = m_value * seed;

		a += uint64_t(SWITCH());
		m_value ^= a;
		return base::work(a) + m_value;
	}
private:
	uint64_t m_value = 5;
};

OUTSIDE uint64_t virtuals(uint64_t seed)
{
	derived d;
	base plain;
	base *volatile which = seed % 2 ? &d : &plain;
	uint64_t sum = which->work(seed);

	return sum + which->work(sum) + uint64_t(SWITCH());
}

OUTSIDE uint64_t never_throws(uint64_t seed) noexcept
{
	uint64_t a = hide(seed * 7);
	static thread_local uint64_t local;

	local = a;
	a += uint64_t(SWITCH());
	return a + local;
}

} // namespace

#define CASE(name) { #name, name, CORPUS_ANY }

extern "C" const struct corpus_case CORPUS(corpus_cpp)[] = {
	CASE(destructors), CASE(catches), CASE(goes_by), CASE(in_handler),
	CASE(cleanup_hands_over), CASE(lambdas), CASE(virtuals), CASE(never_throws),
	{ nullptr, nullptr, 0 },
};
