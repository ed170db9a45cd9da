// SPDX-License-Identifier: MIT
/*
 * create with Boost.Coroutine2: one coroutine after the other. It runs to its first value
 * when it is made. The stacks come from a pool, so all get the same one. A coroutine is
 * dropped by an exception that unwinds its stack.
 */
#include "peer.h"
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/coroutine2/coroutine.hpp>

using coroutine = boost::coroutines2::coroutine<std::uint64_t>;

static void create(std::size_t threads)
{
	boost::context::pooled_fixedsize_stack stacks;
	std::uint64_t sum = 0;

	peer::stopwatch clock;
	for (std::size_t i = 0; i < threads; i++) {
		coroutine::pull_type thread(stacks, [i](coroutine::push_type &give) {
			give(i);
		});

		sum += thread.get();
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
