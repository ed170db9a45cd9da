// SPDX-License-Identifier: MIT
/*
 * counters with Boost.Coroutine2: the body of a pull_type pushes the numbers that it
 * gives. It runs to its first number when it is made, before the clock starts. Each call
 * takes the present number, and resumes it for the next.
 *
 * Stacks come from malloc. They are large enough for unwinding at the end.
 */
#include "peer.h"
#include <boost/context/fixedsize_stack.hpp>
#include <boost/coroutine2/coroutine.hpp>
#include <vector>

using coroutine = boost::coroutines2::coroutine<std::uint64_t>;

static constexpr std::size_t stack_bytes = 16 << 10;

static void counters(std::size_t count, std::size_t calls)
{
	std::vector<coroutine::pull_type> all;
	std::uint64_t sum = 0;

	all.reserve(count);
	for (std::size_t i = 0; i < count; i++)
		all.emplace_back(boost::context::fixedsize_stack(stack_bytes),
				 [i](coroutine::push_type &give) {
					 for (std::uint64_t number = i;; number++)
						 give(number);
				 });
	peer::stopwatch clock;
	for (std::size_t call = 0; call < calls; call++)
		for (coroutine::pull_type &counter : all) {
			sum += counter.get();
			counter();
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
