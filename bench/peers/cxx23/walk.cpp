// SPDX-License-Identifier: MIT
//
// The walk workload: std::generator. Each level is a generator of its own, and gives the
// values of those below by std::ranges::elements_of(), which resumes the innermost one.
#include "../c/peer.h"

#include <generator>
#include <memory>

struct node {
	std::unique_ptr<node> left, right;
	size_t value;
};

static std::unique_ptr<node> grow(size_t nodes, size_t &next)
{
	if (nodes == 0)
		return nullptr;
	auto n = std::make_unique<node>();
	n->left = grow((nodes - 1) / 2, next);
	n->value = next++;
	n->right = grow(nodes - 1 - (nodes - 1) / 2, next);
	return n;
}

static size_t add_up(const node &n)
{
	return (n.left ? add_up(*n.left) : 0) + n.value
		+ (n.right ? add_up(*n.right) : 0);
}

static std::generator<size_t> give_all(const node &n)
{
	if (n.left)
		co_yield std::ranges::elements_of(give_all(*n.left));
	co_yield n.value;
	if (n.right)
		co_yield std::ranges::elements_of(give_all(*n.right));
}

int main(int argc, char **argv)
try {
	size_t nodes, next = 0, sum = 0;

	arguments(argc, argv, "NODES", &nodes);
	need_memory(nodes, 32);
	auto tree = grow(nodes, next);
	if (add_up(*tree) == SIZE_MAX)          // now it is in the cache
		fail("the sum is wrong");
	const double start = now();
	for (size_t value : give_all(*tree))
		sum += value;
	print_seconds(now() - start, sum);
} catch (std::bad_alloc &) {
	fail("not enough memory");
}
