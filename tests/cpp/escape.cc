/* SPDX-License-Identifier: MIT */
/*
 * escape.cc: a thread throws what it does not catch. That ends the program, by
 * std::terminate(), with all frames of the thread still there for a debugger.
 *
 *   escape native|lent [catch]         on which stack
 *
 * With `catch' the caller of usched_run() would catch everything, but is no caller of the
 * thread's. The portable switch cannot tell unwinders so.
 */
#include <stdexcept>
#include <sys/resource.h>

#include "dispatcher.h"

static __attribute__((noinline)) void throw_below(int depth)
{
	CHECK(ustack_block() == 0);
	if (depth == 0)
		throw std::runtime_error("no handler for this");
	throw_below(depth - 1);
	CHECK(ustack_block() == 0);             /* no tail call */
}

static void thread(void *)
{
	throw_below(3);
	std::puts("went on");
}

static void run(unsigned stacks)
{
	dispatcher d(stacks);

	d.start(thread, nullptr);
	d.start(thread, nullptr);
	d.run();
}

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };
	unsigned stacks = argv[1][0] == 'l';

	setrlimit(RLIMIT_CORE, &none);          /* it is meant to crash */
	if (argc == 2)
		run(stacks);
	else
		try {
			run(stacks);
		} catch (...) {
			std::puts("caught outside of the thread");
		}
	return 1;
}
