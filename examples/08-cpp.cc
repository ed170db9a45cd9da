/* SPDX-License-Identifier: MIT */
/*
 * Threads in C++: transfers between accounts, some of which fail. Build it with
 *
 *   cc -O2 examples/08-cpp.cc build/one/usched-all.c -Ibuild/one -pthread -lstdc++ \
 *     -o cpp
 *
 * after `make one'. It prints:
 *
 *   30 from anna to bert: done
 *   900 from bert to carl: bert has too little
 *   20 from carl to anna: done
 *   5 from anna to dora: dora has no account
 *   10 from bert to anna: done
 *   anna 100, bert 120, carl 80
 *
 * Exceptions are a thread's own. While one is thrown or handled, other threads can run,
 * and do not see it: std::uncaught_exceptions() counts those of the thread. So a
 * destructor or a handler may wait. An exception that leaves the thread's function would
 * end the program; class thread catches it, and join() throws it.
 */
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "usched-all.h"

static void check(int rc)
{
	if (rc < 0)
		throw std::system_error(-rc, std::generic_category());
}

class scheduler {
public:
	scheduler()                             { check(rr_create(nullptr, &rr)); }
	~scheduler()                            { uprocs_destroy(rr, USCHED_NEVER); }
	scheduler(const scheduler &) = delete;
	scheduler &operator=(const scheduler &) = delete;

	void start(void (*func)(void *), void *arg, struct ustack **handle)
	{
		check(rr_start(rr, func, arg, handle));
	}

private:
	struct uprocs *rr;
};

/* As std::thread, except that join() throws what the function has thrown. */
class thread {
public:
	thread(scheduler &on, std::function<void()> func) : work(new job{func, nullptr})
	{
		on.start(run, work.get(), &handle);
	}

	thread(thread &&other) noexcept
		: work(std::move(other.work)), handle(other.handle)
	{
		other.handle = nullptr;
	}

	~thread()
	{
		if (handle)
			std::terminate();       /* neither joined nor moved from */
	}

	void join()
	{
		check(ustack_join(handle, NULL, USCHED_NEVER));
		handle = nullptr;
		if (work->error)
			std::rethrow_exception(work->error);
	}

private:
	/* On the heap, as a thread must not follow pointers into another's frames. */
	struct job {
		std::function<void()> func;
		std::exception_ptr    error;
	};

	static void run(void *arg)
	{
		job *j = static_cast<job *>(arg);

		try {
			j->func();
		} catch (...) {
			j->error = std::current_exception();
		}
	}

	std::unique_ptr<job> work;
	struct ustack       *handle;
};

/* For std::lock_guard and std::unique_lock. */
class mutex {
public:
	void lock()     { check(usync_mutex_lock(&m, USCHED_NEVER)); }
	void unlock()   { check(usync_mutex_unlock(&m)); }

private:
	struct usync_mutex m = {};
};

class bank {
public:
	/* The guard unlocks at the end, also by an exception. */
	void transfer(int amount, const std::string &from, const std::string &to)
	{
		std::lock_guard<mutex> guard(lock);
		int &source = find(from);

		source -= amount;
		try {
			check(ustack_yield());           /* e.g. a slow network */
			if (source < 0)
				throw std::runtime_error(from + " has too little");
			find(to) += amount;
		} catch (...) {
			check(ustack_yield());           /* also slow */
			source += amount;
			throw;
		}
	}

	/* After the last transfer. */
	std::string balances() const
	{
		std::string text;

		for (const auto &account : accounts)
			text += (text.empty() ? "" : ", ") + account.first + " "
				+ std::to_string(account.second);
		return text;
	}

private:
	int &find(const std::string &name)
	{
		auto account = accounts.find(name);

		if (account == accounts.end())
			throw std::out_of_range(name + " has no account");
		return account->second;
	}

	mutex lock;
	std::map<std::string, int> accounts = {
		{ "anna", 100 }, { "bert", 100 }, { "carl", 100 },
	};
};

struct order {
	int         amount;
	std::string from, to;
};

static const order orders[] = {
	{ 30, "anna", "bert" }, { 900, "bert", "carl" }, { 20, "carl", "anna" },
	{ 5, "anna", "dora" }, { 10, "bert", "anna" },
};

int main()
{
	scheduler threads;
	bank b;                 /* main() is no thread: its frames do not move */
	std::vector<thread> running;

	for (const order &o : orders)
		running.emplace_back(threads,
				     [&b, &o] { b.transfer(o.amount, o.from, o.to); });
	for (size_t i = 0; i < running.size(); i++) {
		const order &o = orders[i];

		std::cout << o.amount << " from " << o.from << " to " << o.to << ": ";
		try {
			running[i].join();
			std::cout << "done\n";
		} catch (const std::exception &e) {
			std::cout << e.what() << "\n";
		}
	}
	std::cout << b.balances() << "\n";
	return 0;
}
