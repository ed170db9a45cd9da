// SPDX-License-Identifier: MIT
//
// The cycle workload with C++20 coroutines in one native thread, all cycles at a time.
//
// A thread's messages are a count in its promise, which lies in the frame beside the
// resume address. A send adds one to the count or, if the thread waits, puts the thread
// in the queue of ready threads. There are no atomics, no virtual calls and no
// allocation. A thread that waits resumes the next ready thread directly (symmetric
// transfer): the oldest with FIFO, otherwise the newest.
#include "peer.h"

#include <coroutine>
#include <exception>
#include <new>
#include <vector>

static struct {
	size_t n, r, m;
} arg;

static constexpr size_t thread_bytes = 224;     // of one, at most, in all
static size_t finished, blocks;
static bool warm;                               // the clock runs

// Room for all threads: each is in it at most once.
class ready_queue {
	using handle = std::coroutine_handle<>;
	static constexpr size_t ahead = 6;      // how many to prefetch

	handle *slot = nullptr;
	size_t first = 0, last = 0, mask = 0;
public:
	static auto room(size_t threads)
	{
		size_t size = ahead;

		while (size & (size - 1) || size <= threads)
			size = (size | (size - 1)) + 1;
		return std::vector<handle>(size);
	}
	void use(std::vector<handle> &slots)
	{
		slot = slots.data();
		mask = slots.size() - 1;
	}
#ifdef FIFO
	void push(handle thread) { slot[last++ & mask] = thread; }
	handle pop()
	{
		if (first == last)
			return std::noop_coroutine();
		__builtin_prefetch(slot[(first + ahead) & mask].address());
		return slot[first++ & mask];
	}
#else
	void push(handle thread) { slot[last++] = thread; }
	handle pop() { return last > 0 ? slot[--last] : std::noop_coroutine(); }
#endif
};

static ready_queue ready;

struct message {};

template <bool count_blocks> struct relay {
	struct promise_type;
	using handle = std::coroutine_handle<promise_type>;

	struct receive {                // co_await message()
		promise_type &me;

		bool await_ready() noexcept
		{
			if (me.messages == 0)
				return false;
			me.messages--;
			return true;
		}
		std::coroutine_handle<> await_suspend(handle) noexcept
		{
			blocks += count_blocks;
			me.waits = true;
			return ready.pop();
		}
		void await_resume() noexcept {}
	};
	struct go_on {                  // at the end: frees the thread, as others do
		bool await_ready() noexcept { return false; }
		std::coroutine_handle<> await_suspend(handle me) noexcept
		{
			me.destroy();
			return ready.pop();
		}
		void await_resume() noexcept {}
	};
	struct promise_type {
		uint32_t messages;
		bool waits;

		// Without a constructor, gcc 12 does not initialise the members.
		promise_type() noexcept : messages(0), waits(false) {}
		void send()
		{
			if (waits) {
				waits = false;
				ready.push(handle::from_promise(*this));
			} else {
				messages++;
			}
		}
		relay get_return_object() { return relay(handle::from_promise(*this)); }
		std::suspend_never initial_suspend() noexcept { return {}; }
		go_on final_suspend() noexcept { return {}; }
		receive await_transform(message) noexcept { return {*this}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};

	explicit relay(handle h) : frame(h) {}
	promise_type &mailbox() const { return frame.promise(); }
private:
	handle frame;
};

template <bool count_blocks> static std::vector<relay<count_blocks>> thread;

// Runs one round before the clock starts, then all of them.
template <bool count_blocks> static relay<count_blocks> member(size_t index)
{
	for (size_t left = 1; left > 0; left = warm ? 0 : arg.m) {
		co_await message();             // the first of a cycle: to start
		size_t other = index % arg.n;   // other rounds before its own
		auto &right = thread<count_blocks>[index - other + (other + 1) % arg.n]
			.mailbox();
		if (other > 0) {
			right.send();
			other--;
			left--;
		}
		for (; left > 0; left--) {
			if (other == 0) {
				other = arg.n;
				right.send();
				co_await message();
			} else {
				co_await message();
				right.send();
			}
			other--;
		}
	}
	finished++;
}

// Starts all threads, each to its first co_await.
template <bool count_blocks> static void start()
{
	const size_t threads = arg.n * arg.r;

	thread<count_blocks>.reserve(threads);
	for (size_t i = 0; i < threads; i++)
		thread<count_blocks>.push_back(member<count_blocks>(i));
}

// Runs threads until all wait or have finished.
template <bool count_blocks> static void start_cycles()
{
	for (size_t cycle = 0; cycle < arg.r; cycle++)
		thread<count_blocks>[cycle * arg.n].mailbox().send();
	ready.pop().resume();
}

static void print(double seconds)
{
	if (finished != arg.n * arg.r)
		fail("a thread has not finished");
	if (counts_blocks())
		printf("%zu\n", blocks);
	else
		printf("%.6f\n", seconds);
}

template <bool count_blocks> static double run()
{
	auto slots = ready_queue::room(arg.n * arg.r);
	double seconds;

	ready.use(slots);
	start<count_blocks>();
	start_cycles<count_blocks>();
	warm = true;
	blocks = 0;
	seconds = now();
	start_cycles<count_blocks>();
	return now() - seconds;
}

int main(int argc, char **argv)
try {
	const char names[] = "N R M";
	size_t value[3];

	arguments(argc, argv, names, value);
	if (value[0] < 2)
		usage(argv[0], names);
	arg = { value[0], value[1], value[2] };
	cycle_threads(arg.n, arg.r, thread_bytes);
	print(counts_blocks() ? run<true>() : run<false>());
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
