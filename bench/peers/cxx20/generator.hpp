// SPDX-License-Identifier: MIT
//
// A coroutine that gives a number each time it is resumed: C++23 has std::generator for
// this, C++20 has nothing. Its frame comes from operator new.
//
// Functions that make one are [[gnu::noinline]]. Otherwise a compiler may see that the
// frame dies with its caller, and leave out the frame and the coroutine.
#ifndef GENERATOR_HPP
#define GENERATOR_HPP

#include "../c/peer.h"

#include <coroutine>
#include <exception>
#include <new>
#include <utility>

class generator {
public:
	struct promise_type {
		size_t given;

		generator get_return_object()
		{
			return generator(handle::from_promise(*this));
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(size_t number) noexcept
		{
			given = number;
			return {};
		}
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};

	generator(generator &&other) noexcept
		: frame(std::exchange(other.frame, nullptr)) {}
	~generator() { if (frame) frame.destroy(); }
	size_t next() const
	{
		frame.resume();
		return frame.promise().given;
	}
	bool ended() const { return frame.done(); }
private:
	using handle = std::coroutine_handle<promise_type>;

	handle frame;
	explicit generator(handle h) : frame(h) {}
};

#endif
