// SPDX-License-Identifier: MIT
//
// The cycle workload with C++20 coroutines in one native thread, all cycles at a time;
// see cycle.hpp. FIFO sets the order of ready threads.
#include "cycle.hpp"

template <bool count_blocks> static double run()
{
	auto slots = ready_queue::room(arg.n * arg.r);
	double seconds;

	ready.use(slots);
	start<count_blocks>();
	seconds = now();
	for (size_t cycle = 0; cycle < arg.r; cycle++)
		thread<count_blocks>[cycle * arg.n].mailbox().send();
	ready.pop().resume();
	return now() - seconds;
}

int main(int argc, char **argv)
try {
	const char names[] = "N R M";
	size_t value[3];

	arguments(argc, argv, names, value);
	if (value[0] < 2)
		usage(argv[0], names);
	arg = { value[0], value[1], value[2] };
	cycle_threads(arg.n, arg.r, thread_bytes);
	print(counts_blocks() ? run<true>() : run<false>());
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
