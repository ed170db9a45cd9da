// SPDX-License-Identifier: MIT
/*
 * create with Boost.Context: one fiber after the other. The stacks come from a pool, so
 * all fibers get the same one. A suspended fiber is dropped by an exception that unwinds
 * its stack, which takes most of the time.
 */
#include "peer.h"
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

namespace context = boost::context;

static void create(std::size_t threads)
{
	context::pooled_fixedsize_stack stacks;
	std::uint64_t given = 0, sum = 0;

	peer::stopwatch clock;
	for (std::size_t i = 0; i < threads; i++) {
		context::fiber thread(std::allocator_arg, stacks,
				      [i, &given](context::fiber &&main) {
					      given = i;
					      return std::move(main).resume();
				      });

		thread = std::move(thread).resume();
		sum += given;
	}
	const double seconds = clock.seconds();
	peer::print_answer(seconds, sum, (unsigned __int128)threads * (threads - 1) / 2);
}

int main(int argc, char **argv)
{
	std::size_t number[1];

	peer::arguments(argc, argv, "THREADS", number);
	return peer::run([&] { create(number[0]); });
}
