// SPDX-License-Identifier: MIT
/*
 * pingpong with Boost.Context's fiber, its public interface to fcontext.
 *
 * A switch saves the SSE control and status register, MXCSR, and loads the other side's
 * (on x86). In it are sticky flags too, such as that a result was not exact; one division
 * sets that. As long as the register is the same on both sides (same), the load costs next
 * to nothing. When one side has computed with fractions and the other has not (differ), each
 * load changes the register, for which processors wait until their pipeline is empty.
 * Nothing clears these flags by itself, so that is what happens in a program that computes.
 */
#include "peer.h"
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cfenv>

namespace context = boost::context;

static constexpr bool differ = DIFFER;
static std::uint64_t given;

static context::fiber count(context::fiber &&main)
{
	volatile double three = 3;

	std::feclearexcept(FE_ALL_EXCEPT);
	if (differ)
		three = 1 / three;
	main = std::move(main).resume();        // ready
	for (given = 0;; given++)
		main = std::move(main).resume();
	return std::move(main);
}

static void pingpong(std::size_t pairs)
{
	context::fiber thread(std::allocator_arg, context::fixedsize_stack(), count);
	std::uint64_t sum = 0;

	thread = std::move(thread).resume();
	std::feclearexcept(FE_ALL_EXCEPT);
	peer::stopwatch clock;
	for (std::size_t i = 0; i < pairs; i++) {
		thread = std::move(thread).resume();
		sum += given;
	}
	const double seconds = clock.seconds();
	peer::print_answer(seconds, sum, (unsigned __int128)pairs * (pairs - 1) / 2);
}

int main(int argc, char **argv)
{
	std::size_t number[1];

	peer::arguments(argc, argv, "PAIRS", number);
	return peer::run([&] { pingpong(number[0]); });
}
