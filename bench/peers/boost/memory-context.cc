// SPDX-License-Identifier: MIT
/*
 * memory with Boost.Context, whose fibers have no scheduler. Stacks come from malloc, a
 * page each, which is more than a suspended fiber uses.
 */
#include "peer.h"
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <vector>

namespace context = boost::context;

static constexpr std::size_t stack_bytes = 4096;

static void memory(std::size_t count)
{
	const std::size_t before = peer::resident();
	std::vector<context::fiber> threads;
	std::size_t ended = 0;

	threads.reserve(count);
	for (std::size_t i = 0; i < count; i++) {
		threads.emplace_back(std::allocator_arg,
				     context::fixedsize_stack(stack_bytes),
				     [&ended](context::fiber &&main) {
					     main = std::move(main).resume();
					     ended++;
					     return std::move(main);
				     });
		threads.back() = std::move(threads.back()).resume();
	}
	peer::print_growth(before, count);
	for (context::fiber &thread : threads)
		thread = std::move(thread).resume();
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
