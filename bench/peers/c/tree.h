/* SPDX-License-Identifier: MIT */
/* tree.h: the tree of the walk workload. */
#ifndef TREE_H
#define TREE_H

#include "peer.h"

struct node {
	struct node *left, *right;
	size_t       value;
};

/* As even as can be; the values are in order. */
static inline struct node *grow(size_t nodes, size_t *next)
{
	struct node *n;

	if (nodes == 0)
		return NULL;
	n = malloc(sizeof *n);
	if (!n)
		fail("not enough memory");
	n->left = grow((nodes - 1) / 2, next);
	n->value = (*next)++;
	n->right = grow(nodes - 1 - (nodes - 1) / 2, next);
	return n;
}

#endif
