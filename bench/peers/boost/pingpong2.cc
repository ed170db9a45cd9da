// SPDX-License-Identifier: MIT
/*
 * pingpong with Boost.Coroutine2: the body of a pull_type pushes the numbers. It runs to
 * its first one when it is made, before the clock starts; each pair takes the present
 * number, and resumes it for the next.
 */
#include "peer.h"
#include <boost/context/fixedsize_stack.hpp>
#include <boost/coroutine2/coroutine.hpp>

using coroutine = boost::coroutines2::coroutine<std::uint64_t>;

static void pingpong(std::size_t pairs)
{
	coroutine::pull_type thread([](coroutine::push_type &give) {
		for (std::uint64_t number = 0;; number++)
			give(number);
	});
	std::uint64_t sum = 0;

	peer::stopwatch clock;
	for (std::size_t i = 0; i < pairs; i++) {
		sum += thread.get();
		thread();
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
