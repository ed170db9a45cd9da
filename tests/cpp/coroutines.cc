/* SPDX-License-Identifier: MIT */
/*
 * coroutines.cc: generators of uco.hh, and exceptions in flight on both sides while
 * coroutines yield.
 */
#ifdef __OPTIMIZE__
#define USCHED_INLINE_SWITCH
#endif
#include <cerrno>
#include <stdexcept>
#include <string>

#include "../../uco.hh"
#include "dispatcher.h"

enum { DEPTH = 6 };

static int destroyed;

struct counted {
	~counted() { destroyed++; }
};

/* Yields while an exception is thrown through it. */
struct yielding {
	int value;

	~yielding()
	{
		CHECK(std::uncaught_exceptions() == 1);
		ucoro::yield(value);
		CHECK(std::uncaught_exceptions() == 1);
	}
};

static void give(int depth)
{
	try {
		yielding y{ depth };

		throw depth;
	} catch (int n) {
		CHECK(n == depth && std::uncaught_exceptions() == 0);
		ucoro::yield(10 * depth);
		CHECK(n == depth);
		if (depth < DEPTH)
			give(depth + 1);        /* in the handler */
		ucoro::yield(100 * depth);
		try {
			throw;
		} catch (int again) {
			CHECK(again == depth);
		}
	}
}

static ucoro::generator<int> all()
{
	return ucoro::generator<int>([] { give(1); });
}

static void take_in_handlers()
{
	auto one = all(), other = all();
	int sum = 0;

	CHECK(one.next() && other.next());
	for (;;) {
		try {
			throw std::string("mine");
		} catch (const std::string &text) {
			CHECK(std::uncaught_exceptions() == 0);
			sum += one.value();
			CHECK(one.value() == other.value());
			bool more = one.next();

			CHECK(other.next() == more && text == "mine");
			if (!more)
				break;
		}
		CHECK(!std::current_exception());
	}
	CHECK(sum == DEPTH * (DEPTH + 1) / 2 * 111);
}

static void leave_early()
{
	destroyed = 0;
	for (int i = 0; i < 3; i++)
		for (int value : ucoro::generator<int>([] {
				counted c;

				for (int n = 0;; n++)
					ucoro::yield(n);
			}))
			if (value == i)
				break;
	CHECK(destroyed == 3);
}

static void throw_out()
{
	int sum = 0;

	try {
		for (int value : ucoro::generator<int>([] {
				ucoro::yield(1);
				ucoro::yield(2);
				throw std::runtime_error("out");
			}))
			sum += value;
		CHECK(false);
	} catch (const std::runtime_error &e) {
		CHECK(sum == 3 && e.what() == std::string("out"));
	}
	try {
		ucoro::yield(1);
		CHECK(false);
	} catch (const std::system_error &e) {
		CHECK(e.code().value() == EPERM);
	}
}

static void *yield_in_handler(void *, void *)
{
	try {
		throw 1;
	} catch (int) {
		CHECK(uco_yield(nullptr, nullptr) == 0);
	}
	CHECK(uco_yield(nullptr, nullptr) == 0);
	return nullptr;
}

/* An exception is handled on one side meanwhile. */
static void handle()
{
	struct uco *co;

	CHECK(uco_create(yield_in_handler, nullptr, &co) == 0);
	CHECK(uco_resume(co, nullptr, nullptr) == 0);
	CHECK(!std::current_exception());
	CHECK(uco_resume(co, nullptr, nullptr) == 0);
	CHECK(uco_resume(co, nullptr, nullptr) == 1);
	CHECK(uco_close(co) == 0);
}

static void thread(void *)
{
	take_in_handlers();
	leave_early();
	throw_out();
	handle();
}

int main()
{
	for (unsigned stacks : { 0u, 1u, 2u, 9u }) {
		dispatcher d(stacks);

		d.start(thread, nullptr);
		d.start(thread, nullptr);
		d.run();
	}
	std::puts("good");
	return 0;
}
