// SPDX-License-Identifier: MIT
//
// The ring and memory workloads with Boost.Fiber, in one native thread. A fiber waits
// with context::suspend and is woken with context::schedule. The library makes its
// mutexes, condition variables and channels of these two; those add a spin lock and a
// list of fibers, which a single waiter does not need. Its stack is a page from malloc,
// which is more than a wait uses; the library keeps the fiber's record at the top of
// it.
#include "peer.h"

#include <boost/fiber/all.hpp>
#include <new>
#include <vector>

using boost::fibers::context;

static constexpr size_t threads = 503, stack_bytes = 4096;

// Starts a fiber, which runs until it blocks.
template <class Body> static void start(Body body)
{
	boost::fibers::fiber(boost::fibers::launch::dispatch, std::allocator_arg,
			     boost::fibers::fixedsize_stack(stack_bytes), body).detach();
}

static struct {
	context *fiber;
	size_t token;
} slot[threads];

static context *conductor;
static size_t ended;                    // in ring the number of the fiber that got 0

static void relay(size_t i)
{
	const size_t right = (i + 1) % threads;

	slot[i].fiber = context::active();
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

[[maybe_unused]] static void ring(int argc, char **argv)
{
	size_t passes;

	arguments(argc, argv, "PASSES", &passes);
	conductor = context::active();
	for (size_t i = 0; i < threads; i++)
		start([i] { relay(i); });
	slot[0].token = passes;
	const double begin = now();
	conductor->schedule(slot[0].fiber);
	conductor->suspend();
	const double seconds = now() - begin;
	for (size_t i = 0; i < threads; i++)    // to end
		if (i + 1 != ended)
			conductor->schedule(slot[i].fiber);
	print_seconds(seconds, ended);
}

[[maybe_unused]] static void memory(int argc, char **argv)
{
	std::vector<context *> waiting;
	size_t count;

	arguments(argc, argv, "THREADS", &count);
	need_memory(count, stack_bytes + 64);
	const size_t before = resident();
	waiting.reserve(count);
	for (size_t i = 0; i < count; i++)
		start([&] {
			waiting.push_back(context::active());
			waiting.back()->suspend();
			ended++;
		});
	const size_t after = resident();
	for (context *fiber : waiting)
		context::active()->schedule(fiber);
	boost::this_fiber::yield();             // main goes on after all ready fibers
	if (ended != count)
		fail("a fiber has not ended");
	print_memory(before, after, ended);
}

int main(int argc, char **argv)
try {
	WORKLOAD(argc, argv);
} catch (const std::bad_alloc &) {
	fail("not enough memory");
}
