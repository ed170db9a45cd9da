// SPDX-License-Identifier: MIT
//
// The cycle workload with C++20 coroutines on a pool of P native threads. A cycle is a
// task of the pool, so its threads become ready and run on one native thread, which needs
// no atomics for that; see cycle.hpp. An idle native thread takes the next cycle.
#include "cycle.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

static std::atomic<size_t> next_cycle, all_finished, all_blocks;

using slot_vector = decltype(ready_queue::room(1));

template <bool count_blocks>
static void serve(slot_vector slots, std::latch &begin, std::latch &end)
{
	size_t cycle;

	ready.use(slots);
	begin.arrive_and_wait();
	while ((cycle = next_cycle.fetch_add(1, std::memory_order_relaxed)) < arg.r) {
		thread<count_blocks>[cycle * arg.n].mailbox().send();
		ready.pop().resume();
	}
	all_finished += finished;
	all_blocks += blocks;
	end.count_down();
}

template <bool count_blocks> static double run(size_t processors)
{
	const auto workers = static_cast<ptrdiff_t>(processors);
	std::latch begin(workers + 1), end(workers);
	std::vector<std::jthread> pool;
	double seconds;

	start<count_blocks>();
	try {
		for (size_t i = 0; i < processors; i++)
			pool.emplace_back(serve<count_blocks>, ready_queue::room(arg.n),
					  std::ref(begin), std::ref(end));
	} catch (std::exception &) {
		fail("not enough memory for so many native threads");
	}
	seconds = now();
	begin.arrive_and_wait();
	end.wait();
	seconds = now() - seconds;
	finished = all_finished;
	blocks = all_blocks;
	return seconds;
}

int main(int argc, char **argv)
try {
	const char names[] = "N R M P";
	size_t value[4];

	arguments(argc, argv, names, value);
	if (value[0] < 2)
		usage(argv[0], names);
	arg = { value[0], value[1], value[2] };
	cycle_threads(arg.n, arg.r, thread_bytes);
	const size_t processors = std::min(value[3], arg.r);    // more are of no use
	print(counts_blocks() ? run<true>(processors) : run<false>(processors));
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
