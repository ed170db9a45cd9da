/* SPDX-License-Identifier: MIT */
/*
 * Generators in C++: a tree that is walked by recursion, primes without an end, and an
 * exception that leaves a generator. Build it with
 *
 *   cc -O2 examples/13-generator.cc build/one/usched-all.c -Ibuild/one -pthread \
 *     -lstdc++ -o gen
 *
 * after `make one'. It prints:
 *
 *   1 2 3 4 5 6 7
 *   2 3 5 7 11 13 17 19
 *   the sieve is gone
 *   one two
 *   no third
 *
 * A loop that is left early destroys its generator, and the function of that is unwound:
 * destructors run, as that of the sieve.
 */
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "usched-all.h"
#include "uco.hh"

struct tree {
	std::unique_ptr<tree> left, right;
	int value;
};

static std::unique_ptr<tree> grow(int from, int to)
{
	if (from == to)
		return nullptr;
	int middle = (from + to) / 2;

	return std::unique_ptr<tree>(new tree{ grow(from, middle), grow(middle + 1, to),
					       middle });
}

static void walk(const tree *t)
{
	if (!t)
		return;
	walk(t->left.get());
	ucoro::yield(t->value);
	walk(t->right.get());
}

static ucoro::generator<int> values(const tree *t)
{
	return ucoro::generator<int>([t] { walk(t); });
}

class sieve {
public:
	~sieve() { std::cout << "the sieve is gone\n"; }
	bool passes(int n)
	{
		for (int p : primes)
			if (n % p == 0)
				return false;
		primes.push_back(n);
		return true;
	}

private:
	std::vector<int> primes;
};

static ucoro::generator<int> all_primes()
{
	return ucoro::generator<int>([] {
		sieve s;

		for (int n = 2;; n++)
			if (s.passes(n))
				ucoro::yield(n);
	});
}

static ucoro::generator<std::string> words()
{
	return ucoro::generator<std::string>([] {
		ucoro::yield<std::string>("one");
		ucoro::yield<std::string>("two");
		throw std::runtime_error("no third");
	});
}

static void run(void *)
{
	std::unique_ptr<tree> t = grow(1, 8);
	const char *space = "";

	for (int n : values(t.get())) {
		std::cout << space << n;
		space = " ";
	}
	std::cout << '\n';
	space = "";
	for (int n : all_primes()) {
		if (n > 20) {
			std::cout << '\n';
			break;
		}
		std::cout << space << n;
		space = " ";
	}
	space = "";
	try {
		for (const std::string &s : words()) {
			std::cout << space << s;
			space = " ";
		}
	} catch (const std::runtime_error &e) {
		std::cout << '\n' << e.what() << '\n';
	}
}

int main()
{
	struct uprocs *rr;

	if (rr_create(nullptr, &rr) < 0 || rr_start(rr, run, nullptr, nullptr) < 0)
		return 1;
	return uprocs_destroy(rr, USCHED_NEVER) < 0;
}
