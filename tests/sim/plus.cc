// SPDX-License-Identifier: MIT
/*
 * plus.cc: what a program in C++ does beside calls of pthread.h. Compiled with
 * -fsanitize=thread: libstdc++ counts references with plain accesses in a process that
 * it takes for one of one thread. Variables of threads have destructors; futures and
 * atomic waits are system calls.
 *
 * `plus swallow': a handler keeps a cancellation for itself, which ends the process.
 */
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using namespace std::chrono_literals;

static std::atomic<int> destroyed, ready, touches;

struct counted {
	std::string c_text = "longer than what fits into a string";
	~counted() { destroyed++; }
};

thread_local counted mine;
static std::set<const counted *> places;
static std::mutex lock;

static void use(std::shared_ptr<int> shared, int number)
{
	for (int i = 0; i < 3; i++) {
		auto copy = shared;
		touches += *copy;
	}
	mine.c_text += std::to_string(number);
	CHECK(setgid(getgid()) == 0);           /* libc tells all of its threads */
	{
		std::lock_guard<std::mutex> hold(lock);
		CHECK(places.insert(&mine).second);     /* an address is a thread's own */
	}
	std::this_thread::sleep_for(1ms);
	CHECK(mine.c_text.back() == '0' + number);
	ready.wait(0);
}

static void *swallow(void *)
{
	try {
		sleep(1);
	} catch (...) {
	}
	return nullptr;
}

int main(int argc, char **)
{
	if (argc > 1) {
		pthread_t t;

		CHECK(pthread_create(&t, nullptr, swallow, nullptr) == 0);
		pthread_cancel(t);
		pthread_join(t, nullptr);
		return 0;
	}
	std::counting_semaphore<2> free{0};
	std::weak_ptr<int> left;
	std::vector<std::thread> threads;
	auto later = std::async(std::launch::async, [] {
		std::this_thread::sleep_for(1h);
		return 42;
	});

	{
		auto shared = std::make_shared<int>(1);

		left = shared;
		for (int i = 0; i < 3; i++)
			threads.emplace_back([&free, shared, i] {
				use(shared, i);
				free.release();
			});
	}
	ready = 1;
	ready.notify_all();
	for (size_t i = 0; i < threads.size(); i++)
		free.acquire();
	for (auto &t : threads)
		t.join();
	threads.clear();
	for (auto n = std::random_device()() % 100; n > 0; n--)
		std::this_thread::yield();      /* else a second run is another one */
	CHECK(left.expired() && destroyed == 3 && touches == 9);
	CHECK(later.wait_for(20min) == std::future_status::timeout);
	CHECK(later.get() == 42);
}
