// SPDX-License-Identifier: MIT
/*
 * cycle with Boost.Fiber, in one native thread. A fiber waits for tokens with
 * context::suspend and is woken with context::schedule. The library makes its mutexes,
 * condition variables and channels of these two. Those add a spin lock and a list of
 * fibers, which a single waiter does not need. A buffered channel takes four times as
 * long: it has to hold N messages, because so many can be on their way to one fiber.
 *
 * Stacks come from malloc, so memory limits their number. A protected stack takes two
 * mappings, and Linux allows a process 65,530 by default.
 */
#include "peer.h"
#include <boost/fiber/all.hpp>
#include <memory>
#include <utility>

namespace fibers = boost::fibers;

static constexpr std::size_t stack_bytes = 4096;        // most of it is not used

struct inbox {
	std::size_t tokens = 0;
	fibers::context *waiter = nullptr;

	void send()
	{
		tokens++;
		if (waiter)
			fibers::context::active()->schedule(
				std::exchange(waiter, nullptr));
	}

	template <bool counting> void receive();
};

static std::size_t n, r, m;
static std::unique_ptr<inbox[]> inboxes;        // the i-th of cycle c is at [c * n + i]
static inbox conductor;
static std::size_t finished;
static std::uint64_t blocks;

template <bool counting> void inbox::receive()
{
	while (tokens == 0) {
		if (counting)
			blocks++;
		waiter = fibers::context::active();
		waiter->suspend();
	}
	tokens--;
}

template <bool counting> static void relay(std::size_t index)
{
	const std::size_t i = index % n;
	inbox &own = inboxes[index], &right = inboxes[index - i + (i + 1) % n];
	std::size_t turn = 0;

	if (i == 0)
		own.receive<counting>();        // to start
	for (std::size_t left = m; left > 0; left--) {
		if (turn == i) {
			right.send();
			own.receive<counting>();
		} else {
			own.receive<counting>();
			right.send();
		}
		if (++turn == n)
			turn = 0;
	}
	if (i == (m - 1) % n && ++finished == r)
		conductor.send();
}

template <bool counting> static void cycles()
{
	inboxes = std::make_unique<inbox[]>(n * r);
	for (std::size_t index = 0; index < n * r; index++)   // each runs until it blocks
		fibers::fiber(fibers::launch::dispatch, std::allocator_arg,
			      fibers::fixedsize_stack(stack_bytes), relay<counting>,
			      index).detach();
	blocks = 0;
	peer::stopwatch clock;
	for (std::size_t c = 0; c < r; c++)
		inboxes[c * n].send();
	conductor.receive<false>();
	const double seconds = clock.seconds();
	if (counting)
		std::printf("%" PRIu64 "\n", blocks);
	else
		std::printf("%f\n", seconds);
}

int main(int argc, char **argv)
{
	const char *count = std::getenv("BLOCKS");
	std::size_t number[3];

	peer::arguments(argc, argv, "N R M", number);
	n = number[0], r = number[1], m = number[2];
	if (n < 2)
		peer::usage("N R M");
	peer::check_memory(n, r, stack_bytes + 64);
	return peer::run(count && std::strcmp(count, "1") == 0
			 ? cycles<true> : cycles<false>);
}
