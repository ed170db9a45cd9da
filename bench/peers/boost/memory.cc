// SPDX-License-Identifier: MIT
/*
 * memory with Boost.Fiber. Each fiber waits to be scheduled. Its stack is a page from
 * malloc, which is more than a wait uses. The library keeps the fiber's record at the top
 * of it.
 */
#include "peer.h"
#include <boost/fiber/all.hpp>
#include <vector>

namespace fibers = boost::fibers;

static constexpr std::size_t stack_bytes = 4096;

static void memory(std::size_t count)
{
	const std::size_t before = peer::resident();
	std::vector<fibers::context *> waiting;
	std::size_t ended = 0;

	waiting.reserve(count);
	for (std::size_t i = 0; i < count; i++)
		fibers::fiber(fibers::launch::dispatch, std::allocator_arg,
			      fibers::fixedsize_stack(stack_bytes), [&] {
				      waiting.push_back(fibers::context::active());
				      waiting.back()->suspend();
				      ended++;
			      }).detach();
	peer::print_growth(before, count);
	for (fibers::context *fiber : waiting)
		fibers::context::active()->schedule(fiber);
	boost::this_fiber::yield();             // main goes on after all ready fibers
	if (ended != count)
		peer::fail("a fiber has not ended");
	std::printf("%zu\n", ended);
}

int main(int argc, char **argv)
{
	std::size_t number[1];

	peer::arguments(argc, argv, "THREADS", number);
	peer::check_memory(number[0], 1, stack_bytes + 64);
	return peer::run([&] { memory(number[0]); });
}
