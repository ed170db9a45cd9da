/* SPDX-License-Identifier: MIT */
/*
 * coroutine.c: coroutines (uco.h), in one thread.
 *
 *	coroutine pingpong PAIRS    one is resumed PAIRS times, and yields 0, 1, 2, ...
 *	coroutine create NUMBER     so many are made one after the other; each yields its
 *	                            number, and is closed
 *	coroutine million NUMBER    so many are made, each yields its number; all are
 *	                            resumed again, in turn, and closed
 *	coroutine walk NODES        one walks a tree of so many nodes, by recursion, and
 *	                            yields each value
 *	coroutine call NODES        the same recursion calls a function for each
 *
 * Prints the seconds, and the sum of what was given. With -DWORKLOAD=pingpong and the
 * like it has that workload only, and the number is its argument.
 */
#define USCHED_INLINE_SWITCH
#include "../rr.h"
#include "../uco.h"

#define BENCH_PROGRAM "coroutine"
#include "bench.h"

struct node {
	struct node *left, *right;
	uintptr_t    value;
};

static size_t count;
static void (*workload)(void);
static size_t sum;

static void usage(void)
{
	fputs("usage: coroutine WORKLOAD NUMBER; or NUMBER for one of them\n", stderr);
	exit(2);
}

static void succeed(int rc)
{
	if (rc < 0)
		fail("coroutine", rc);
}

static struct uco *make(uco_fn *func, void *arg)
{
	struct uco *co;

	succeed(uco_create(func, arg, &co));
	return co;
}

static void *give_numbers(void *arg, void *value)
{
	uintptr_t n = 0;
	int rc = uco_yield(NULL, NULL);         /* ready */

	(void)arg;
	(void)value;
	while (rc == 0)
		rc = uco_yield((void *)n++, NULL);
	return NULL;
}

static void *give_one(void *number, void *value)
{
	(void)value;
	uco_yield(number, NULL);
	return NULL;
}

static void report(double start)
{
	printf("%f\n%zu\n", now() - start, sum);
}

static void pingpong(void)
{
	struct uco *co = make(give_numbers, NULL);
	double start;
	void *value;

	succeed(uco_resume(co, NULL, NULL));
	start = now();
	for (size_t i = 0; i < count; i++) {
		succeed(uco_resume(co, NULL, &value));
		sum += (uintptr_t)value;
	}
	report(start);
	succeed(uco_close(co));
}

static void create(void)
{
	double start = now();
	void *value;

	for (uintptr_t i = 0; i < count; i++) {
		struct uco *co = make(give_one, (void *)i);

		succeed(uco_resume(co, NULL, &value));
		sum += (uintptr_t)value;
		succeed(uco_close(co));
	}
	report(start);
}

static void million(void)
{
	struct uco **co = malloc(count * sizeof *co);
	double start = now(), before = resident();
	void *value;

	if (!co)
		fail("malloc", -ENOMEM);
	for (uintptr_t i = 0; i < count; i++) {
		co[i] = make(give_one, (void *)i);
		succeed(uco_resume(co[i], NULL, &value));
		sum += (uintptr_t)value;
	}
	before = resident() - before;
	for (size_t i = 0; i < count; i++) {
		succeed(uco_resume(co[i], NULL, NULL));
		succeed(uco_close(co[i]));
	}
	report(start);
	printf("%.0f bytes each\n", before / (double)count);
	free(co);
}

/* Of that many nodes, as even as can be. */
static struct node *grow(size_t nodes, uintptr_t *next)
{
	struct node *n;

	if (nodes == 0)
		return NULL;
	n = malloc(sizeof *n);
	if (!n)
		fail("malloc", -ENOMEM);
	n->left = grow((nodes - 1) / 2, next);
	n->value = (*next)++;
	n->right = grow(nodes - 1 - (nodes - 1) / 2, next);
	return n;
}

static void walk_tree(const struct node *n)
{
	if (n->left)
		walk_tree(n->left);
	uco_yield((void *)n->value, NULL);
	if (n->right)
		walk_tree(n->right);
}

static void *begin_walk(void *tree, void *value)
{
	(void)value;
	walk_tree(tree);
	return NULL;
}

static void call_back(const struct node *n, void (*f)(uintptr_t value))
{
	if (n->left)
		call_back(n->left, f);
	f(n->value);
	if (n->right)
		call_back(n->right, f);
}

static void add(uintptr_t value)
{
	sum += value;
}

/* In every run of both the tree is walked once before, so that it is in the cache. */
static void walk(void)
{
	uintptr_t next = 0;
	struct node *tree = grow(count, &next);
	struct uco *co = make(begin_walk, tree);
	double start;
	void *value;

	call_back(tree, add);
	sum = 0;
	start = now();
	while (uco_resume(co, NULL, &value) == 0)
		sum += (uintptr_t)value;
	report(start);
	succeed(uco_close(co));
}

static void (*volatile to_add)(uintptr_t value) = add;

static void call(void)
{
	uintptr_t next = 0;
	struct node *tree = grow(count, &next);
	double start;

	call_back(tree, add);
	sum = 0;
	start = now();
	call_back(tree, to_add);
	report(start);
}

static const struct {
	const char *name;
	void      (*workload)(void);
} workloads[] = {
	{ "pingpong", pingpong }, { "create", create }, { "million", million },
	{ "walk", walk }, { "call", call },
};

static void run(void *unused)
{
	(void)unused;
	workload();
}

#ifdef WORKLOAD
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
enum { NAMED = 1 };
static const char *const named = TEXT(WORKLOAD);
#else
enum { NAMED = 0 };
static const char *const named;
#endif

int main(int argc, char **argv)
{
	const struct uprocs_conf conf = { .c_processors = 1 };
	const char *name = NAMED || argc < 2 ? named : argv[1];
	struct uprocs *rr;

	if (argc != (NAMED ? 2 : 3))
		usage();
	count = number(argv[argc - 1], 1, UINT32_MAX);
	for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
		if (strcmp(name, workloads[i].name) == 0)
			workload = workloads[i].workload;
	if (!workload)
		usage();
	succeed(rr_create(&conf, &rr));
	succeed(rr_start(rr, run, NULL, NULL));
	succeed(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}
