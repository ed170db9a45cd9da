/* SPDX-License-Identifier: MIT */
/*
 * The walk workload with a function that is called for each node. There are no threads.
 * It is the limit for threads.
 */
#include "tree.h"

static size_t sum;

static void walk(const struct node *n, void (*f)(size_t value))
{
	if (n->left)
		walk(n->left, f);
	f(n->value);
	if (n->right)
		walk(n->right, f);
}

static void add(size_t value)
{
	sum += value;
}

/* Not known to the compiler. */
static void (*volatile to_add)(size_t value) = add;

int main(int argc, char **argv)
{
	size_t value[1], next = 0;
	struct node *tree;
	double start;

	arguments(argc, argv, "NODES", value);
	need_memory(value[0], 32);
	tree = grow(value[0], &next);
	walk(tree, to_add);
	sum = 0;
	start = now();
	walk(tree, to_add);
	print_seconds(now() - start, sum);
	return 0;
}
