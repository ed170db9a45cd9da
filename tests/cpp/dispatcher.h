/* SPDX-License-Identifier: MIT */
/*
 * dispatcher.h: the least scheduler in C++, for the programs of cpp.sh: a ring in which
 * a thread that blocks is put again. And checks, which end the program.
 */
#ifndef USCHED_TEST_DISPATCHER_H
#define USCHED_TEST_DISPATCHER_H

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <unistd.h>
#include <vector>

#include "../../ustack.h"

#define CHECK(condition) \
	((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

static inline void check_failed(const char *what, const char *file, int line)
{
	std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
	_exit(1);
}

class dispatcher {
public:
	dispatcher(unsigned stacks)
	{
		struct usched_calls calls = usched_calls();

		calls.s_next = next;
		calls.s_alloc = alloc;
		calls.s_free = free_image;
		CHECK(usched_init(&sched, &calls) == 0);
		for (; stacks > 0 && lend(); stacks--)
			;
	}

	~dispatcher()
	{
		CHECK(usched_fini(&sched) == 0);
	}

	struct ustack *start(void (*func)(void *), void *arg)
	{
		threads.push_back(std::make_unique<struct ustack>());
		CHECK(ustack_init(&sched, threads.back().get(), func, arg) == 0);
		ring.push_back(threads.back().get());
		return ring.back();
	}

	/* Until all have ended, or so many have blocked. */
	void run(long blocks = -1)
	{
		left = blocks;
		CHECK(usched_run(&sched) == 0);
	}

	bool has_stacks() const
	{
		return sched.s_stacks > 0;
	}

	bool has_threads() const
	{
		return !ring.empty();
	}

	/* Called by a thread. */
	static void hand_off()
	{
		dispatcher *d = of(ustack_sched(ustack_self()));

		d->ring.push_back(ustack_self());
		struct ustack *u = d->ring.front();
		d->ring.pop_front();
		CHECK(ustack_switch(u) == 0);
	}

	/* Images cannot be had. */
	static inline bool no_memory;

private:
	enum { STACK = 256 << 10 };

	static dispatcher *of(struct usched *s)
	{
		return reinterpret_cast<dispatcher *>(s);
	}

	static struct ustack *next(struct usched *s)
	{
		dispatcher *d = of(s);

		if (ustack_self())
			d->ring.push_back(ustack_self());
		if (d->ring.empty() || d->left-- == 0)
			return nullptr;
		struct ustack *u = d->ring.front();
		d->ring.pop_front();
		return u;
	}

	static void *alloc(struct usched *, struct ustack *, size_t *size)
	{
		return no_memory ? nullptr : std::malloc(*size);
	}

	static void free_image(struct usched *, struct ustack *, void *image, size_t)
	{
		std::free(image);
	}

	/* The portable switch has the native stack only. */
	bool lend()
	{
		stack.push_back(std::make_unique<char[]>(STACK));
		return usched_add_stack(&sched, stack.back().get(), STACK) == 0;
	}

	struct usched sched;                    /* first */
	long left = -1;
	std::deque<struct ustack *> ring;
	std::vector<std::unique_ptr<struct ustack>> threads;
	std::vector<std::unique_ptr<char[]>> stack;
};

#endif /* USCHED_TEST_DISPATCHER_H */
