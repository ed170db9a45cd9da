// SPDX-License-Identifier: MIT
//
// Boost.Coroutine2: the body of a pull_type pushes the numbers. It runs to its first
// one when it is made. Stacks come from malloc, and are large enough for unwinding; in
// create they come from a pool, so all coroutines get the same one. A coroutine is
// dropped by an exception that unwinds its stack.
#include "give.hpp"

#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/coroutine2/coroutine.hpp>

using coroutine = boost::coroutines2::coroutine<size_t>;

#ifdef WORKLOAD_create
static boost::context::pooled_fixedsize_stack stacks;
#elif defined WORKLOAD_counters
static boost::context::fixedsize_stack stacks(16 << 10);
#else
static boost::context::fixedsize_stack stacks;
#endif

class thread {
	coroutine::pull_type numbers;
public:
	static constexpr size_t bytes = (16 << 10) + 64;

	explicit thread(size_t n) : numbers(stacks, [n](coroutine::push_type &give) {
		for (size_t number = n;; number++)
			give(number);
	}) {}
	size_t first() { return numbers.get(); }
	size_t next() { return numbers().get(); }
	static void walk(const node &tree, size_t &sum)
	{
		coroutine::pull_type all([&tree](coroutine::push_type &give) {
			each_node(tree, [&give](size_t value) { give(value); });
		});

		for (; all; all())
			sum += all.get();
	}
};

int main(int argc, char **argv)
{
	return run<thread>(argc, argv);
}
