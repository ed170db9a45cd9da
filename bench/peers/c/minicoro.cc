// SPDX-License-Identifier: MIT
//
// minicoro, for one native thread and without checks for debuggers. A number is given
// through a variable: minicoro's own storage for values, which is copied to and fro,
// takes longer. The memory of the last coroutine is kept for the next one; from
// calloc(), which clears it, each takes much longer.
#define MCO_NO_DEBUG
#define MCO_NO_MULTITHREAD
#define MINICORO_IMPL
#include <minicoro.h>

#include "give.hpp"

#include <utility>

static size_t given;
static const node *to_walk;
static void *kept;

static void *take(size_t size, void *)
{
	void *memory = std::exchange(kept, nullptr);

	return memory ? memory : malloc(size);
}

static void keep(void *memory, void *)
{
	kept = memory;
}

static void check(mco_result result)
{
	if (result == MCO_OUT_OF_MEMORY)
		fail("not enough memory");
	if (result != MCO_SUCCESS)
		fail(mco_result_description(result));
}

static void count(mco_coro *self)
{
	for (size_t n = given;; n++) {
		given = n;
		mco_yield(self);
	}
}

static void give_all(mco_coro *self)
{
	each_node(*to_walk, [self](size_t value) {
		given = value;
		mco_yield(self);
	});
}

class thread {
	mco_coro *me;

	explicit thread(void (*f)(mco_coro *))
	{
		mco_desc desc = mco_desc_init(f, 0);

		desc.malloc_cb = take;
		desc.free_cb = keep;
		check(mco_create(&me, &desc));
	}
public:
	explicit thread(size_t n) : thread(count) { given = n; }
	~thread() { check(mco_destroy(me)); }
	size_t next()
	{
		check(mco_resume(me));
		return given;
	}
	size_t first() { return next(); }
	static void walk(const node &tree, size_t &sum)
	{
		to_walk = &tree;
		thread all(give_all);
		for (all.first(); mco_status(all.me) != MCO_DEAD; all.next())
			sum += given;
	}
};

int main(int argc, char **argv)
{
	return run<thread>(argc, argv);
}
