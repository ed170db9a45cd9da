// SPDX-License-Identifier: MIT
//
// The counters workload: each counter is a C++20 coroutine that yields its numbers.
#include "generator.hpp"

#include <vector>

[[gnu::noinline]] static generator counter(size_t number)
{
	co_yield 0;
	for (;;)
		co_yield number++;
}

int main(int argc, char **argv)
try {
	size_t value[2], sum = 0;

	arguments(argc, argv, "COUNTERS CALLS", value);
	const auto [counters, calls] = value;
	need_memory(counters, 128);
	std::vector<generator> all;
	all.reserve(counters);
	for (size_t i = 0; i < counters; i++) {
		all.push_back(counter(i));
		all.back().next();              // to its first block
	}
	const double start = now();
	for (size_t call = 0; call < calls; call++)
		for (auto &one : all)
			sum += one.next();
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
