/* SPDX-License-Identifier: MIT */
/*
 * The same fringe: do two trees of any shape have the same leaves in the same order?
 * Build it with
 *
 *   cc -O2 examples/02-generator.c usched.c arch/x86_64.S -I. -o generator
 *
 * or, on other machines, with arch/aarch64.S, or with arch/setjmp.c and -lm. It prints:
 *
 *   (1 (2 3)) and ((1 2) 3): same
 *   (1 (2 3)) and ((1 4) 3): different at leaf 2
 *   (1 (2 3)) and (1 2): different at leaf 3
 *   left comb and right comb of 200: same
 *
 * A tree is walked by recursion, and a comparison stops both walks at each leaf, deep in
 * the recursion. Without threads one has to give up the recursion, for an explicit stack,
 * or the early end, for a list of all leaves. Here each walk is a thread: walk() is a
 * recursive function, and it blocks at each leaf.
 *
 * The program uses neither rr nor ll: its call-backs below are a scheduler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched.h"

struct tree {
	const struct tree *left;        /* NULL in a leaf */
	const struct tree *right;
	int                value;       /* of a leaf */
};

/*
 * One comparison. Threads share pointers into this, so it must not be in a thread's
 * frames. It is in a frame of compare(), which runs outside of all threads.
 */
struct fringes {
	struct usched        dispatcher;
	struct ustack        reader;
	struct ustack       *next;      /* runs when a thread ends: the reader */
	struct walker {
		struct ustack        thread;
		struct fringes      *fringes;
		const struct tree   *root;
		const struct tree   *leaf;      /* its present leaf; NULL: at the end */
	} walker[2];
	int                  result;
};

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "generator: %s\n", strerror(-rc));
		exit(1);
	}
}

/* Call-backs: s_next, s_alloc, s_free, s_done. The dispatcher is the first member. */

static struct ustack *next(struct usched *s)
{
	return ((struct fringes *)(void *)s)->next;
}

static void *alloc_image(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	return malloc(*size);
}

static void free_image(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

static void done(struct usched *s, struct ustack *u)
{
	struct fringes *f = (struct fringes *)(void *)s;

	if (u == f->next)
		f->next = NULL;         /* the reader has ended: usched_run() returns */
}

/* Called at any depth. Returns when the reader wants the next leaf. */
static void yield_leaf(struct walker *w, const struct tree *leaf)
{
	w->leaf = leaf;
	check(ustack_switch(&w->fringes->reader));
}

static void walk(struct walker *w, const struct tree *t)
{
	if (t->left) {
		walk(w, t->left);
		walk(w, t->right);
	} else {
		yield_leaf(w, t);
	}
}

/* A walker's thread. When it ends, s_next returns the reader. */
static void walk_all(void *arg)
{
	struct walker *w = arg;

	walk(w, w->root);
	w->leaf = NULL;
}

static const struct tree *next_leaf(struct walker *w)
{
	check(ustack_switch(&w->thread));
	return w->leaf;
}

/* The reader's thread. Aborts walkers that have not ended. */
static void read_both(void *arg)
{
	struct fringes *f = arg;
	const struct tree *a, *b;
	int n = 0;

	do {
		a = next_leaf(&f->walker[0]);
		b = next_leaf(&f->walker[1]);
		n++;
	} while (a && b && a->value == b->value);
	f->result = a || b ? n : 0;
	for (int i = 0; i < 2; i++)
		if (f->walker[i].leaf)
			check(ustack_abort(&f->walker[i].thread));
}

/* Returns the number of the first different leaf, from 1 on; 0: there is none. */
static int compare(const struct tree *a, const struct tree *b)
{
	static const struct usched_calls calls = {
		.s_next = next, .s_alloc = alloc_image,
		.s_free = free_image, .s_done = done,
	};
	struct fringes f = {
		.next   = &f.reader,
		.walker = { { .root = a }, { .root = b } },
	};

	check(usched_init(&f.dispatcher, &calls));
	check(ustack_init(&f.dispatcher, &f.reader, read_both, &f));
	for (int i = 0; i < 2; i++) {
		f.walker[i].fringes = &f;
		check(ustack_init(&f.dispatcher, &f.walker[i].thread, walk_all,
				  &f.walker[i]));
	}
	check(usched_run(&f.dispatcher));
	check(usched_fini(&f.dispatcher));
	return f.result;
}

#define LEAF(v)    &(const struct tree){ .value = (v) }
#define FORK(a, b) &(const struct tree){ .left = (a), .right = (b) }

enum { COMB = 200 };    /* leaves, and the left comb's depth */

/* Builds a tree of the leaves 1 to COMB, in 2 * COMB - 1 nodes from `node' on. */
static const struct tree *comb(struct tree *node, int left)
{
	struct tree *root = node++;

	root->value = left ? 1 : COMB;
	for (int i = 2; i <= COMB; i++) {
		struct tree *leaf = node++, *fork = node++;

		leaf->value = left ? i : COMB + 1 - i;
		fork->left  = left ? root : leaf;
		fork->right = left ? leaf : root;
		root = fork;
	}
	return root;
}

static int failures;

static void report(const char *names, int result, int expected)
{
	if (result == 0)
		printf("%s: same\n", names);
	else
		printf("%s: different at leaf %d\n", names, result);
	failures += result != expected;
}

int main(void)
{
	static struct tree left[2 * COMB - 1], right[2 * COMB - 1];
	const struct tree *a = FORK(LEAF(1), FORK(LEAF(2), LEAF(3)));

	report("(1 (2 3)) and ((1 2) 3)",
	       compare(a, FORK(FORK(LEAF(1), LEAF(2)), LEAF(3))), 0);
	report("(1 (2 3)) and ((1 4) 3)",
	       compare(a, FORK(FORK(LEAF(1), LEAF(4)), LEAF(3))), 2);
	report("(1 (2 3)) and (1 2)", compare(a, FORK(LEAF(1), LEAF(2))), 3);
	report("left comb and right comb of 200",
	       compare(comb(left, 1), comb(right, 0)), 0);
	return failures > 0;
}
