// SPDX-License-Identifier: MIT
//
// C++20 coroutines that give a number each time they are resumed: C++23 has
// std::generator for this, C++20 has nothing. Their frames come from operator new.
//
// Functions that make one are [[gnu::noinline]]. Otherwise a compiler may see that the
// frame dies with its caller, and leave out the frame and the coroutine.
#include "give.hpp"

#include <coroutine>
#include <exception>
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

	static constexpr size_t bytes = 128;

	explicit generator(size_t n);
	explicit generator(size_t *ended);
	generator(generator &&other) noexcept
		: frame(std::exchange(other.frame, nullptr)) {}
	~generator() { if (frame) frame.destroy(); }
	size_t next() const
	{
		frame.resume();
		return frame.promise().given;
	}
	size_t first() const { return next(); }
private:
	using handle = std::coroutine_handle<promise_type>;

	handle frame;
	explicit generator(handle h) : frame(h) {}
};

[[gnu::noinline]] static generator count(size_t number)
{
	for (;; number++)
		co_yield number;
}

[[gnu::noinline]] static generator block(size_t *ended)
{
	co_yield 0;
	++*ended;
}

generator::generator(size_t n) : generator(count(n)) {}
generator::generator(size_t *ended) : generator(block(ended)) {}

int main(int argc, char **argv)
{
	return run<generator>(argc, argv);
}
