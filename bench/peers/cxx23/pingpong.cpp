// SPDX-License-Identifier: MIT
//
// The pingpong workload: std::generator. Its function is [[gnu::noinline]], as in
// ../cxx20/generator.hpp.
#include "../c/peer.h"

#include <generator>

[[gnu::noinline]] static std::generator<size_t> count()
{
	for (size_t number = 0;; number++)
		co_yield number;
}

int main(int argc, char **argv)
try {
	size_t pairs, sum = 0;

	arguments(argc, argv, "PAIRS", &pairs);
	auto thread = count();
	auto given = thread.begin();            // to its first block
	const double start = now();
	for (size_t i = 0; i < pairs; i++, ++given)
		sum += *given;
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
