// SPDX-License-Identifier: MIT
/*
 * ring with Boost.Fiber, in one native thread. As in cycle.cc, a fiber waits for the
 * token with context::suspend, and context::schedule wakes it.
 */
#include "peer.h"
#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;

static constexpr std::size_t threads = 503, stack_bytes = 4096;

static struct {
	fibers::context *fiber;
	std::size_t token;
} slot[threads];

static fibers::context *conductor;
static std::size_t ended;               // the number of the fiber that got 0

static void relay(std::size_t i)
{
	const std::size_t right = (i + 1) % threads;

	slot[i].fiber = fibers::context::active();
	for (;;) {
		slot[i].fiber->suspend();
		if (ended > 0)
			break;
		if (slot[i].token == 0) {
			ended = i + 1;
			slot[i].fiber->schedule(conductor);
			return;
		}
		slot[right].token = slot[i].token - 1;
		slot[i].fiber->schedule(slot[right].fiber);
	}
}

static void ring(std::size_t passes)
{
	conductor = fibers::context::active();
	for (std::size_t i = 0; i < threads; i++)       // each runs until it blocks
		fibers::fiber(fibers::launch::dispatch, std::allocator_arg,
			      fibers::fixedsize_stack(stack_bytes), relay, i).detach();
	slot[0].token = passes;
	peer::stopwatch clock;
	conductor->schedule(slot[0].fiber);
	conductor->suspend();
	const double seconds = clock.seconds();
	for (std::size_t i = 0; i < threads; i++)       // to end
		if (i + 1 != ended)
			conductor->schedule(slot[i].fiber);
	peer::print_answer(seconds, ended, passes % threads + 1);
}

int main(int argc, char **argv)
{
	std::size_t number[1];

	peer::arguments(argc, argv, "PASSES", number);
	return peer::run([&] { ring(number[0]); });
}
