// SPDX-License-Identifier: MIT
/*
 * counters with Boost.Context, whose fibers Boost.Coroutine2 (counters.cc) is made of. It
 * touches less memory: Coroutine2 keeps more on each stack.
 *
 * Stacks come from malloc. They are large enough for unwinding at the end.
 */
#include "peer.h"
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <vector>

namespace context = boost::context;

static constexpr std::size_t stack_bytes = 16 << 10;
static std::uint64_t given;

static context::fiber counter(std::uint64_t first)
{
	return context::fiber(std::allocator_arg, context::fixedsize_stack(stack_bytes),
			      [first](context::fiber &&main) {
				      main = std::move(main).resume();        // ready
				      for (std::uint64_t number = first;; number++) {
					      given = number;
					      main = std::move(main).resume();
				      }
				      return std::move(main);
			      });
}

static void counters(std::size_t count, std::size_t calls)
{
	std::vector<context::fiber> all;
	std::uint64_t sum = 0;

	all.reserve(count);
	for (std::size_t i = 0; i < count; i++)
		all.push_back(counter(i).resume());
	peer::stopwatch clock;
	for (std::size_t call = 0; call < calls; call++)
		for (context::fiber &counter : all) {
			counter = std::move(counter).resume();
			sum += given;
		}
	const double seconds = clock.seconds();
	peer::print_answer(seconds, sum,
			   (unsigned __int128)count * calls * (count + calls - 2) / 2);
}

int main(int argc, char **argv)
{
	std::size_t number[2];

	peer::arguments(argc, argv, "COUNTERS CALLS", number);
	peer::check_memory(number[0], 1, stack_bytes + 64);
	return peer::run([&] { counters(number[0], number[1]); });
}
