/* SPDX-License-Identifier: MIT */
/*
 * exceptions.cc: exceptions in flight while threads block. The runtime library counts,
 * for each native thread, those that are being thrown and lists those that are being
 * handled; threads take turns here with different ones of both, so that what is not their
 * own is another's. Every other thread has floating point control words of its own, too:
 * both go the same way through the dispatcher.
 */
#include <atomic>
#include <cfenv>
#include <cxxabi.h>
#include <exception>
#include <stdexcept>
#include <thread>

#include "../../rr.h"
#include "dispatcher.h"

static constexpr int ROUNDS = 10, MOST = 50;

/* Each is destroyed once: at the end there are none. */
static std::atomic<int> alive;

struct oops {
	int owner, number;

	oops(int o, int n) : owner(o), number(n) { alive++; }
	oops(const oops &other) : owner(other.owner), number(other.number) { alive++; }
	~oops() { alive--; }
};

static void (*block)();

/* Whose exception is being handled, and that none is being thrown. */
static void handles(int owner, int number)
{
	CHECK(std::uncaught_exceptions() == 0);
	try {
		throw;
	} catch (const oops &e) {
		CHECK(e.owner == owner && e.number == number);
	}
}

static void handles_nothing()
{
	CHECK(std::uncaught_exceptions() == 0);
	CHECK(!std::current_exception());
}

static void block_in_handler(int own)
{
	try {
		block();
		throw oops(own, 1);
	} catch (const oops &e) {
		block();
		handles(own, 1);
		block();
		CHECK(e.owner == own && e.number == 1);
	}
	block();
	handles_nothing();
}

[[noreturn]] static void rethrow_below(int depth)
{
	volatile char frame[200];

	frame[0] = static_cast<char>(depth);
	block();
	if (frame[0] == 0)
		throw;
	rethrow_below(depth - 1);
}

static void nest(int own)
{
	try {
		try {
			throw oops(own, 1);
		} catch (const oops &) {
			block();
			try {
				block();
				throw oops(own, 2);
			} catch (const oops &) {
				block();
				handles(own, 2);
				try {
					rethrow_below(3);
				} catch (const oops &e) {
					block();
					CHECK(e.number == 2);
				}
				handles(own, 2);
			}
			block();
			handles(own, 1);
			throw;
		}
	} catch (const oops &e) {
		block();
		CHECK(e.owner == own && e.number == 1);
		handles(own, 1);
	}
	handles_nothing();
}

/* Blocks while an exception passes, and throws and handles another meanwhile. */
struct guard {
	int own, thrown;

	~guard()
	{
		passes();
		if (thrown < 3)
			throw_another();
		passes();
	}

	void passes()
	{
		CHECK(std::uncaught_exceptions() == thrown);
		block();
		CHECK(std::uncaught_exceptions() == thrown);
	}

	void throw_another()
	{
		try {
			guard inner = { own, thrown + 1 };

			throw oops(own, 10 + thrown);
		} catch (const oops &e) {
			passes();
			CHECK(e.owner == own && e.number == 10 + thrown);
		}
	}
};

static void throw_through(int own, int depth)
{
	guard g = { own, 1 };

	if (depth == 0)
		throw oops(own, 5);
	throw_through(own, depth - 1);
}

static void unwind(int own)
{
	try {
		throw_through(own, 2);
	} catch (const oops &e) {
		CHECK(e.owner == own && e.number == 5);
		handles(own, 5);
	}
	handles_nothing();
}

/* One thread's exception is rethrown by another, while the first has it, too. */
static std::exception_ptr shared[MOST];

static void hand_over(int own)
{
	try {
		throw oops(own, 7);
	} catch (const oops &) {
		shared[own] = std::current_exception();
		block();
		handles(own, 7);
	}
	block();
	try {
		std::rethrow_exception(shared[own ^ 1]);
	} catch (const oops &e) {
		block();
		CHECK(e.owner == (own ^ 1) && e.number == 7);
		handles(own ^ 1, 7);
	}
	handles_nothing();
}

static void nested_of_the_library(int own)
{
	try {
		try {
			throw oops(own, 8);
		} catch (const oops &) {
			block();
			std::throw_with_nested(std::runtime_error("outer"));
		}
	} catch (const std::exception &e) {
		block();
		try {
			std::rethrow_if_nested(e);
			CHECK(false);
		} catch (const oops &inner) {
			block();
			CHECK(inner.owner == own && inner.number == 8);
		}
	}
	handles_nothing();
}

static void (*const ways[])(int own) = {
	block_in_handler, nest, unwind, nested_of_the_library,
};

/* Each begins with another way, so that neighbours are in different ones. */
static void all_ways(void *arg)
{
	int own = static_cast<int>(reinterpret_cast<intptr_t>(arg));

	int round = own % 2 ? FE_UPWARD : FE_TONEAREST;

	handles_nothing();
	CHECK(fegetround() == FE_TONEAREST);
	if (own % 2)
		CHECK(ustack_control(1) == 0 && fesetround(round) == 0);
	for (int n = 0; n < ROUNDS; n++)
		for (size_t i = 0; i < 4; i++) {
			ways[(i + static_cast<unsigned>(own)) % 4](own);
			CHECK(fegetround() == round);
		}
	CHECK(ustack_control(0) == own % 2 && fegetround() == FE_TONEAREST);
}

static void hand_over_all(void *arg)
{
	hand_over(static_cast<int>(reinterpret_cast<intptr_t>(arg)));
}

static void by_block()
{
	CHECK(ustack_block() == 0);
}

/* On so many stacks: none, that is the native one, few, and enough. */
static const unsigned stacks[] = { 0, 1, 2, MOST };

static void run(void (*func)(void *), unsigned lent, intptr_t threads)
{
	dispatcher d(lent);

	for (intptr_t own = 0; own < threads; own++)
		d.start(func, reinterpret_cast<void *>(own));
	d.run();
	for (std::exception_ptr &e : shared)
		e = nullptr;
	CHECK(alive == 0);
}

static void over_the_dispatcher()
{
	for (void (*way)() : { by_block, dispatcher::hand_off })
		for (unsigned lent : stacks)
			for (int threads : { 1, 5, MOST }) {
				block = way;
				run(all_ways, lent, threads);
				if (threads % 2 == 0)
					run(hand_over_all, lent, threads);
			}
}

static void by_yield()
{
	CHECK(ustack_yield() == 0);
}

/* A new thread has no part in what its starter throws or handles. */
static void child(void *)
{
	handles_nothing();
	block_in_handler(1000);
}

static struct uprocs *rr;

static void start_child()
{
	struct ustack *u;

	CHECK(rr_start(rr, child, nullptr, &u) == 0);
	CHECK(ustack_join(u, NULL, USCHED_NEVER) == 0);
}

struct starter {
	~starter()
	{
		start_child();
		CHECK(std::uncaught_exceptions() == 1);
	}
};

static void start_in_flight(void *arg)
{
	int own = static_cast<int>(reinterpret_cast<intptr_t>(arg));

	try {
		starter s;

		throw oops(own, 9);
	} catch (const oops &e) {
		start_child();
		handles(own, 9);
		CHECK(e.owner == own);
	}
	handles_nothing();
	all_ways(arg);
}

static void over_rr(const struct uprocs_conf &conf, intptr_t threads)
{
	struct ustack *thread[MOST];

	block = by_yield;
	CHECK(rr_create(&conf, &rr) == 0);
	for (intptr_t own = 0; own < threads; own++)
		CHECK(rr_start(rr, start_in_flight, reinterpret_cast<void *>(own),
			       &thread[own]) == 0);
	for (intptr_t own = 0; own < threads; own++)
		CHECK(ustack_join(thread[own], NULL, USCHED_NEVER) == 0);
	CHECK(uprocs_destroy(rr, USCHED_NEVER) == 0);
	CHECK(alive == 0);
}

static void over_processors()
{
	for (unsigned processors : { 1u, 2u })
		for (unsigned lent : { USCHED_NATIVE, 1u, 0u })
			for (int threads : { 5, MOST }) {
				struct uprocs_conf conf = { };

				conf.c_processors = processors;
				conf.c_stacks = lent;
				over_rr(conf, threads);
			}
}

/* The dispatcher goes on on another native thread, all the time. */
static void over_native_threads()
{
	dispatcher d(2);

	if (!d.has_stacks())
		return;
	block = by_block;
	for (intptr_t own = 0; own < 5; own++)
		d.start(all_ways, reinterpret_cast<void *>(own));
	auto go_on = [&d] {
		d.run(17);
		handles_nothing();
	};
	while (d.has_threads()) {
		go_on();
		std::thread(go_on).join();
	}
	CHECK(alive == 0);
}

/* usched_run() while an exception is handled, or thrown; also by a thread. */
struct runner {
	unsigned lent;

	~runner()
	{
		CHECK(std::uncaught_exceptions() == 1);
		run(all_ways, lent, 5);
		CHECK(std::uncaught_exceptions() == 1);
	}
};

static int runs;

static void run_in_flight(void *arg)
{
	int own = static_cast<int>(reinterpret_cast<intptr_t>(arg));

	for (unsigned lent : stacks)
		try {
			runner r = { lent };

			throw std::out_of_range("of the caller");
		} catch (const std::exception &e) {
			std::exception_ptr before = std::current_exception();

			run(all_ways, lent, 5);
			CHECK(std::current_exception() == before);
			CHECK(std::uncaught_exceptions() == 0);
			runs += own;
		}
	handles_nothing();
}

static void inside_each_other()
{
	block = by_block;
	run_in_flight(reinterpret_cast<void *>(1));
	CHECK(runs == 4);
	runs = 0;
	dispatcher d(0);
	d.start(run_in_flight, reinterpret_cast<void *>(1));
	d.run();
	CHECK(runs == 4);
}

/* An aborted thread never leaves its handler, and leaves nothing of it to others. */
static void abort_in_handler(void *arg)
{
	handles_nothing();
	CHECK(fegetround() == FE_TONEAREST);
	CHECK(ustack_control(1) == 0 && fesetround(FE_DOWNWARD) == 0);
	try {
		throw reinterpret_cast<intptr_t>(arg);
	} catch (intptr_t) {
		block();
		ustack_abort(ustack_self());
	}
}

static void aborted()
{
	for (unsigned lent : stacks) {
		dispatcher d(lent);

		for (intptr_t own = 0; own < 5; own++) {
			d.start(abort_in_handler, nullptr);
			d.start(all_ways, reinterpret_cast<void *>(own));
		}
		d.run();
		handles_nothing();
	}
}

/* What is reserved before there is an exception is enough in its handler, too. */
static void reserve(void *)
{
	CHECK(ustack_reserve(0) == 0);
	dispatcher::no_memory = true;
	try {
		throw 1;
	} catch (int) {
		CHECK(ustack_block() == 0);
	}
	dispatcher::no_memory = false;
}

static void reserved()
{
	dispatcher d(0);

	d.start(reserve, nullptr);
	d.run();
}

int main()
{
	over_the_dispatcher();
	over_processors();
	over_native_threads();
	inside_each_other();
	aborted();
	reserved();
	handles_nothing();
	CHECK(abi::__cxa_get_globals());        /* so it is declared as there */
	std::puts("good");
	return 0;
}
