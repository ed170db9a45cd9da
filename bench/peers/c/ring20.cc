// SPDX-License-Identifier: MIT
//
// The ring workload with C++20 coroutines in one native thread. A pass puts the
// receiver in a queue of ready coroutines, first in, first out. A coroutine that waits
// resumes the next ready one directly (symmetric transfer).
#include "peer.h"

#include <array>
#include <coroutine>
#include <exception>

static constexpr size_t threads = 503;

static struct {
	std::array<std::coroutine_handle<>, threads + 1> slot;
	size_t first, last;

	static size_t next(size_t i) { return i == threads ? 0 : i + 1; }
	void push(std::coroutine_handle<> thread)
	{
		slot[last] = thread;
		last = next(last);
	}
	std::coroutine_handle<> pop()
	{
		if (first == last)
			return std::noop_coroutine();
		auto thread = slot[first];
		first = next(first);
		return thread;
	}
} ready;

struct place {
	std::coroutine_handle<> thread;
	size_t token;

	void send(size_t passes)
	{
		token = passes;
		ready.push(thread);
	}
};

static std::array<place, threads> ring;
static size_t ended;                    // the number of the thread that got 0

struct receive {                        // co_await receive{ring[i]}
	place &mine;

	bool await_ready() noexcept { return false; }
	std::coroutine_handle<> await_suspend(std::coroutine_handle<> me) noexcept
	{
		mine.thread = me;
		return ready.pop();
	}
	size_t await_resume() noexcept { return mine.token; }
};

struct thread {
	struct promise_type {
		thread get_return_object() { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
};

static thread relay(size_t i)
{
	for (;;) {
		const size_t passes = co_await receive{ring[i]};
		if (passes == 0)
			break;
		ring[(i + 1) % threads].send(passes - 1);
	}
	ended = i + 1;
}

int main(int argc, char **argv)
{
	size_t passes;
	double seconds;

	arguments(argc, argv, "PASSES", &passes);
	for (size_t i = 0; i < threads; i++)    // each runs until it waits
		relay(i);
	ring[0].send(passes);
	seconds = now();
	ready.pop().resume();
	seconds = now() - seconds;
	for (size_t i = 0; i < threads; i++)
		if (i + 1 != ended)
			ring[i].thread.destroy();
	if (ended != passes % threads + 1)
		fail("the answer is wrong");
	print_seconds(seconds, ended);
}
