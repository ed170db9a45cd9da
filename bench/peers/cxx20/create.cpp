// SPDX-License-Identifier: MIT
//
// The create workload: a C++20 coroutine is created, yields once and is destroyed.
#include "generator.hpp"

[[gnu::noinline]] static generator give(size_t number)
{
	co_yield number;
}

int main(int argc, char **argv)
try {
	size_t threads, sum = 0;

	arguments(argc, argv, "THREADS", &threads);
	const double start = now();
	for (size_t i = 0; i < threads; i++)
		sum += give(i).next();
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
