// SPDX-License-Identifier: MIT
//
// Function calls: an object for each counter, and a function that takes it; a function
// that is called for each node. There are no threads. It is the limit for threads.
#include "give.hpp"

class calls {
	size_t number;
public:
	static constexpr size_t bytes = sizeof(size_t);

	explicit calls(size_t n) : number(n) {}
	[[gnu::noinline]] size_t next() { return number++; }
	size_t first() { return next(); }
	static void walk(const node &tree, size_t &sum);
};

static size_t *total;

static void add(size_t value)
{
	*total += value;
}

static void (*volatile to_add)(size_t value) = add;    // not known to the compiler

void calls::walk(const node &tree, size_t &sum)
{
	void (*f)(size_t value) = to_add;

	total = &sum;
	each_node(tree, f);
}

int main(int argc, char **argv)
{
	return run<calls>(argc, argv);
}
