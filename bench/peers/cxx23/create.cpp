// SPDX-License-Identifier: MIT
//
// The create workload: a std::generator is made, yields once and is destroyed.
#include "../c/peer.h"

#include <generator>

[[gnu::noinline]] static std::generator<size_t> give(size_t number)
{
	co_yield number;
}

int main(int argc, char **argv)
try {
	size_t threads, sum = 0;

	arguments(argc, argv, "THREADS", &threads);
	const double start = now();
	for (size_t i = 0; i < threads; i++) {
		auto thread = give(i);

		sum += *thread.begin();
	}
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
