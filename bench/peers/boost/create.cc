// SPDX-License-Identifier: MIT
/*
 * create with Boost.Context: a fiber after the other, on stacks from a pool, so that they
 * all get the same one. To drop a suspended fiber is to unwind its stack, by an exception
 * that is thrown on it; that is what most of the time goes to.
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
