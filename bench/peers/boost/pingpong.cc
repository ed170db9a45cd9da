// SPDX-License-Identifier: MIT
/*
 * pingpong with Boost.Context's fiber, its public interface to fcontext.
 *
 * On x86 a switch saves the SSE control and status register, MXCSR, and loads the other
 * side's. The register has sticky flags: a division with an inexact result sets one. With
 * equal registers on both sides (same) the load costs next to nothing. If only one side
 * has computed with fractions (differ), each load changes the register, and the CPU waits
 * until its pipeline is empty. The flags stay set, so a program that computes pays this.
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
