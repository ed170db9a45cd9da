// SPDX-License-Identifier: MIT
//
// The memory workload: C++20 coroutines that have yielded once, each with a frame from
// operator new and a handle in a vector.
#include "generator.hpp"

#include <vector>

[[gnu::noinline]] static generator give(size_t number)
{
	co_yield number;
}

int main(int argc, char **argv)
try {
	size_t threads, ended = 0;

	arguments(argc, argv, "THREADS", &threads);
	need_memory(threads, 128);
	const size_t before = resident();
	std::vector<generator> all;
	all.reserve(threads);
	for (size_t i = 0; i < threads; i++) {
		all.push_back(give(i));
		if (all.back().next() != i)
			fail("a thread has given another number");
	}
	const size_t after = resident();
	for (auto &one : all) {
		one.next();
		ended += one.ended();
	}
	if (ended != threads)
		fail("a thread has not ended");
	print_memory(before, after, ended);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
