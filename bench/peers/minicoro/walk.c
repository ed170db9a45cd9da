/* SPDX-License-Identifier: MIT */
/* The walk workload: a coroutine of minicoro walks by recursion, and gives each value. */
#include "one.h"
#include "../c/tree.h"

struct walk {
	mco_coro          *self;
	const struct node *tree;
	size_t             given;
};

static size_t add_up(const struct node *n)
{
	return n ? add_up(n->left) + n->value + add_up(n->right) : 0;
}

static void give_all(const struct node *n, struct walk *w)
{
	if (n->left)
		give_all(n->left, w);
	w->given = n->value;
	mco_yield(w->self);
	if (n->right)
		give_all(n->right, w);
}

static void begin(mco_coro *self)
{
	struct walk *w = mco_get_user_data(self);

	w->self = self;
	give_all(w->tree, w);
}

int main(int argc, char **argv)
{
	mco_desc desc = mco_desc_init(begin, 0);
	size_t nodes, next = 0, sum = 0;
	struct walk w = { 0 };
	mco_coro *thread;
	double start;

	arguments(argc, argv, "NODES", &nodes);
	need_memory(nodes, 32);
	w.tree = grow(nodes, &next);
	desc.user_data = &w;
	if (add_up(w.tree) == SIZE_MAX)         /* now it is in the cache */
		fail("the sum is wrong");
	start = now();
	check(mco_create(&thread, &desc));
	for (;;) {
		check(mco_resume(thread));
		if (mco_status(thread) == MCO_DEAD)
			break;
		sum += w.given;
	}
	print_seconds(now() - start, sum);
	check(mco_destroy(thread));
	return 0;
}
