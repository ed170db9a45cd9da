// SPDX-License-Identifier: MIT
//
// uco.hh: coroutines for C++, from C++11 on: generators for range-for.
//
//	ucoro::generator<int> upto(int n)
//	{
//		return ucoro::generator<int>([n] {
//			for (int i = 0; i < n; i++)
//				ucoro::yield(i);
//		});
//	}
//
//	for (int i : upto(10))
//		use(i);
//
// The function may yield at any depth of calls, and resume other generators. An exception
// that leaves it is thrown in the loop. A generator that is destroyed before its end has
// its function unwound: yield() throws ucoro::closed there, which the function lets pass.
// Values are moved to the heap, and are there until the next one. What the function is
// captured with is copied there, too; captured pointers must not lead to frames. For
// threads, as uco.h.
#ifndef USCHED_CO_HH
#define USCHED_CO_HH

#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "uco.h"

namespace ucoro {

// Thrown by yield() in a generator that is being destroyed. It is no std::exception.
struct closed {};

namespace detail {

inline void check(int rc)
{
	if (rc < 0)
		throw std::system_error(-rc, std::generic_category(), "uco");
}

} // namespace detail

template <class T> class generator;

// Gives `value' to the loop over the innermost generator, which must be one of T.
template <class T> void yield(T value);

template <class T> class generator {
public:
	class iterator {
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = T;
		using difference_type = std::ptrdiff_t;
		using pointer = T *;
		using reference = T &;

		explicit iterator(generator *g = nullptr) : g_(g) {}
		T &operator*() const { return g_->value(); }
		T *operator->() const { return &g_->value(); }
		iterator &operator++()
		{
			if (!g_->next())
				g_ = nullptr;
			return *this;
		}
		void operator++(int) { ++*this; }
		bool operator==(const iterator &o) const { return g_ == o.g_; }
		bool operator!=(const iterator &o) const { return g_ != o.g_; }

	private:
		generator *g_;
	};

	explicit generator(std::function<void()> f) : state_(new state)
	{
		state_->func = std::move(f);
		detail::check(uco_create(run, state_.get(), &state_->co));
	}
	generator(generator &&) = default;
	generator &operator=(generator &&o)
	{
		close();
		state_ = std::move(o.state_);
		return *this;
	}
	~generator() { close(); }

	// Runs the function to its next value. False: it has returned.
	bool next()
	{
		int rc = uco_resume(state_->co, state_.get(), nullptr);

		detail::check(rc);
		if (state_->error) {
			std::exception_ptr error;

			std::swap(error, state_->error);
			std::rethrow_exception(error);
		}
		return rc == 0;
	}
	// The last value, while next() was true.
	T &value() { return *reinterpret_cast<T *>(state_->room); }

	iterator begin() { return iterator(next() ? this : nullptr); }
	iterator end() { return iterator(); }

private:
	// On the heap: both sides follow pointers to it.
	struct state {
		std::function<void()> func;
		struct uco *co = nullptr;
		std::exception_ptr error;
		alignas(T) unsigned char room[sizeof(T)];
	};

	std::unique_ptr<state> state_;

	friend void ucoro::yield<T>(T value);

	// The first function of the coroutine.
	static void *run(void *arg, void *)
	{
		state *s = static_cast<state *>(arg);

		try {
			s->func();
		} catch (const closed &) {
		} catch (...) {
			s->error = std::current_exception();
		}
		return nullptr;
	}

	void close()
	{
		if (state_ && state_->co && uco_close(state_->co) < 0)
			std::terminate();       // it is running, or elsewhere
		state_.reset();
	}
};

template <class T> void yield(T value)
{
	using state = typename generator<T>::state;
	const struct uco *co = uco_self();
	int rc = -EPERM;

	if (co && co->co_func == generator<T>::run) {
		T *given = new (static_cast<state *>(co->co_arg)->room) T(std::move(value));

		rc = uco_yield(nullptr, nullptr);
		given->~T();
	}
	if (rc == -ECANCELED)
		throw closed();
	detail::check(rc);
}

} // namespace ucoro

#endif // USCHED_CO_HH
