// SPDX-License-Identifier: MIT
//
// Boost.Context's fiber, its public interface to fcontext, without a scheduler. Stacks
// come from malloc; in memory they have a page, which is more than a suspended fiber
// uses, and else room for unwinding. In create they come from a pool, so all fibers get
// the same one. A suspended fiber is dropped by an exception that unwinds its stack,
// which takes most of the time of create.
//
// On x86 a switch saves the SSE control and status register, MXCSR, and loads the other
// side's. The register has sticky flags: a division with an inexact result sets one.
// With equal registers on both sides the load costs next to nothing. If only one side
// has computed with fractions (DIFFER), each load changes the register, and the CPU
// waits until its pipeline is empty. The flags stay set, so a program that computes
// pays this.
#include "give.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cfenv>

namespace context = boost::context;

#ifdef WORKLOAD_memory
static context::fixedsize_stack stacks(4096);
#elif defined WORKLOAD_create
static context::pooled_fixedsize_stack stacks;
#else
static context::fixedsize_stack stacks(16 << 10);
#endif
static size_t given;

class thread {
	context::fiber fiber;

	static context::fiber count(context::fiber &&main, size_t number)
	{
#ifdef DIFFER
		volatile double three = 3;

		three = 1 / three;
#endif
		for (;; number++) {
			given = number;
			main = std::move(main).resume();
		}
		return std::move(main);
	}
	static context::fiber block(context::fiber &&main, size_t *ended)
	{
		main = std::move(main).resume();
		++*ended;
		return std::move(main);
	}
public:
	static constexpr size_t bytes = 4096 + 64;

	explicit thread(size_t n) : fiber(std::allocator_arg, stacks,
		[n](context::fiber &&main) { return count(std::move(main), n); })
	{
#ifdef WORKLOAD_pingpong
		std::feclearexcept(FE_ALL_EXCEPT);
#endif
	}
	explicit thread(size_t *ended) : fiber(std::allocator_arg, stacks,
		[=](context::fiber &&main) { return block(std::move(main), ended); }) {}
	size_t next()
	{
		fiber = std::move(fiber).resume();
		return given;
	}
	size_t first() { return next(); }
};

int main(int argc, char **argv)
{
	return run<thread>(argc, argv);
}
