// SPDX-License-Identifier: MIT
//
// give.hpp: the workloads whose threads give numbers, for C and C++. The including file
// has the class `thread':
//
//	thread(size_t n)        gives n, n + 1, ..., one each time it is resumed
//	thread(size_t *ended)   for memory: gives 0, then counts itself, and ends
//	first(), next()         resume it, and return what it gives
//	bytes                   of memory that it takes
//	walk(tree, sum)         adds up what a thread gives that walks by recursion
//
// and calls run<thread>(). WORKLOAD is one of those below; a thread needs what that uses.
#ifndef GIVE_HPP
#define GIVE_HPP

#include "peer.h"

#include <memory>
#include <new>
#include <vector>

struct node {
	std::unique_ptr<node> left, right;
	size_t value;
};

// As even as can be; the values are in order.
static inline std::unique_ptr<node> grow(size_t nodes, size_t &next)
{
	if (nodes == 0)
		return nullptr;
	auto n = std::make_unique<node>();
	n->left = grow((nodes - 1) / 2, next);
	n->value = next++;
	n->right = grow(nodes - 1 - (nodes - 1) / 2, next);
	return n;
}

// Calls give() with each value.
template <class Give> void each_node(const node &n, Give give)
{
	if (n.left)
		each_node(*n.left, give);
	give(n.value);
	if (n.right)
		each_node(*n.right, give);
}

static inline void print_sum(int64_t start, size_t sum, size_t right)
{
	const double seconds = 1e-9 * (double)(clock_ns() - start);

	if (sum != right)
		fail("the sum is wrong");
	print_seconds(seconds, sum);
}

template <class thread> void counters(const size_t *value)
{
	const size_t count = value[0], calls = value[1];
	std::vector<thread> all;
	size_t sum = 0;

	need_memory(count, thread::bytes);
	all.reserve(count);
	for (size_t i = 0; i < count; i++) {
		all.emplace_back(i - 1);
		all.back().first();
	}
	const int64_t start = clock_ns();
	for (size_t call = 0; call < calls; call++)
		for (thread &one : all)
			sum += one.next();
	print_sum(start, sum, (size_t)((unsigned __int128)count * calls
				       * (count + calls - 2) / 2));
}

template <class thread> void pingpong(const size_t *value)
{
	thread one(SIZE_MAX);
	size_t sum = 0;

	one.first();
	const int64_t start = clock_ns();
	for (size_t i = 0; i < value[0]; i++)
		sum += one.next();
	print_sum(start, sum, (size_t)((unsigned __int128)value[0] * (value[0] - 1) / 2));
}

template <class thread> void create(const size_t *value)
{
	size_t sum = 0;
	const int64_t start = clock_ns();

	for (size_t i = 0; i < value[0]; i++)
		sum += thread(i).first();
	print_sum(start, sum, (size_t)((unsigned __int128)value[0] * (value[0] - 1) / 2));
}

template <class thread> void walk(const size_t *value)
{
	size_t next = 0, sum = 0;

	need_memory(value[0], 48);
	const auto tree = grow(value[0], next);
	each_node(*tree, [&](size_t n) { sum += n; });  // now it is in the cache
	const size_t right = sum;
	sum = 0;
	const int64_t start = clock_ns();
	thread::walk(*tree, sum);
	print_sum(start, sum, right);
}

template <class thread> void memory(const size_t *value)
{
	const size_t count = value[0];
	size_t ended = 0;

	need_memory(count, thread::bytes);
	const size_t before = resident();
	std::vector<thread> all;
	all.reserve(count);
	for (size_t i = 0; i < count; i++) {
		all.emplace_back(&ended);
		all.back().first();
	}
	const size_t after = resident();
	for (thread &one : all)
		one.next();
	if (ended != count)
		fail("a thread has not ended");
	print_memory(before, after, ended);
}

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

template <class thread> int run(int argc, char **argv)
{
	static const char *const names[] = { "counters", "COUNTERS CALLS", "pingpong",
		"PAIRS", "create", "THREADS", "walk", "NODES", "memory", "THREADS" };
	size_t value[2], i = 0;

	while (strcmp(names[i], TEXT(WORKLOAD)) != 0)
		i += 2;
	arguments(argc, argv, names[i + 1], value);
	try {
		WORKLOAD<thread>(value);
	} catch (const std::bad_alloc &) {
		fail("not enough memory");
	}
	return 0;
}

#endif
