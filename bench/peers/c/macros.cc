// SPDX-License-Identifier: MIT
//
// Tasks of macros.h, which are C. All are of one kind, so an array holds them, as is
// usual for such tasks; in create each comes from operator new.
#include "give.hpp"
#include "macros.h"

struct counter {
	struct task task;
	size_t number, given;

	static constexpr size_t bytes = 24;

	explicit counter(size_t n) : task{ 0 }, number(n) {}
	[[gnu::noinline]] int count()
	{
		TASK_BEGIN(&task);
		for (;; number++) {
			given = number;
			TASK_YIELD(&task);
		}
		TASK_END(&task);
	}
	size_t next()
	{
		count();
		return given;
	}
	size_t first() { return next(); }
};

struct created {
	std::unique_ptr<counter> one;

	explicit created(size_t n) : one(std::make_unique<counter>(n)) {}
	size_t first() { return one->next(); }
};

struct blocked {
	struct task task;
	size_t *ended;

	static constexpr size_t bytes = 16;

	explicit blocked(size_t *count) : task{ 0 }, ended(count) {}
	[[gnu::noinline]] int block()
	{
		TASK_BEGIN(&task);
		TASK_YIELD(&task);
		++*ended;
		TASK_END(&task);
	}
	void next() { block(); }
	void first() { block(); }
};

int main(int argc, char **argv)
{
#if defined WORKLOAD_create
	return run<created>(argc, argv);
#elif defined WORKLOAD_memory
	return run<blocked>(argc, argv);
#else
	return run<counter>(argc, argv);
#endif
}
