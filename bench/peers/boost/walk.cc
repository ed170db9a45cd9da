// SPDX-License-Identifier: MIT
/* walk with Boost.Coroutine2: the coroutine walks by recursion, and gives each value. */
#include "peer.h"
#include <boost/context/fixedsize_stack.hpp>
#include <boost/coroutine2/coroutine.hpp>
#include <memory>

using coroutine = boost::coroutines2::coroutine<std::uint64_t>;

struct node {
	std::unique_ptr<node> left, right;
	std::uint64_t value;
};

static std::unique_ptr<node> grow(std::size_t nodes, std::uint64_t &next)
{
	if (nodes == 0)
		return nullptr;
	auto n = std::make_unique<node>();
	n->left = grow((nodes - 1) / 2, next);
	n->value = next++;
	n->right = grow(nodes - 1 - (nodes - 1) / 2, next);
	return n;
}

static std::uint64_t add_up(const node &n)
{
	return (n.left ? add_up(*n.left) : 0) + n.value
		+ (n.right ? add_up(*n.right) : 0);
}

static void give_all(const node &n, coroutine::push_type &give)
{
	if (n.left)
		give_all(*n.left, give);
	give(n.value);
	if (n.right)
		give_all(*n.right, give);
}

static void walk(std::size_t nodes)
{
	const unsigned __int128 right = (unsigned __int128)nodes * (nodes - 1) / 2;
	std::uint64_t next = 0, sum = 0;
	auto tree = grow(nodes, next);

	if (add_up(*tree) != (std::uint64_t)right)      // and it is in the cache
		std::abort();
	peer::stopwatch clock;
	coroutine::pull_type all([&](coroutine::push_type &give) {
		give_all(*tree, give);
	});
	for (; all; all())
		sum += all.get();
	const double seconds = clock.seconds();
	peer::print_answer(seconds, sum, right);
}

int main(int argc, char **argv)
{
	std::size_t number[1];

	peer::arguments(argc, argv, "NODES", number);
	peer::check_memory(number[0], 1, 48);
	return peer::run([&] { walk(number[0]); });
}
