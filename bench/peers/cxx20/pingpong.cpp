// SPDX-License-Identifier: MIT
//
// The pingpong workload: a C++20 coroutine is resumed, and yields.
#include "generator.hpp"

[[gnu::noinline]] static generator count()
{
	co_yield 0;
	for (size_t number = 0;; number++)
		co_yield number;
}

int main(int argc, char **argv)
try {
	size_t pairs, sum = 0;

	arguments(argc, argv, "PAIRS", &pairs);
	const generator thread = count();
	thread.next();                          // to its first block
	const double start = now();
	for (size_t i = 0; i < pairs; i++)
		sum += thread.next();
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
