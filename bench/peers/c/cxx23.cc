// SPDX-License-Identifier: MIT
//
// std::generator of C++23. In walk each level is a generator of its own, and gives the
// values of those below by std::ranges::elements_of(), which resumes the innermost one.
// Its functions are [[gnu::noinline]], as in cxx20.cc.
#include "give.hpp"

#include <generator>

[[gnu::noinline]] static std::generator<size_t> count(size_t number)
{
	for (;; number++)
		co_yield number;
}

static std::generator<size_t> give_all(const node &n)
{
	if (n.left)
		co_yield std::ranges::elements_of(give_all(*n.left));
	co_yield n.value;
	if (n.right)
		co_yield std::ranges::elements_of(give_all(*n.right));
}

class thread {
	std::generator<size_t> numbers;
	decltype(numbers.begin()) present;
public:
	explicit thread(size_t n) : numbers(count(n)), present(numbers.begin()) {}
	size_t first() { return *present; }
	size_t next() { return *++present; }
	static void walk(const node &tree, size_t &sum)
	{
		for (size_t value : give_all(tree))
			sum += value;
	}
};

int main(int argc, char **argv)
{
	return run<thread>(argc, argv);
}
