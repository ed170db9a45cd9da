/* SPDX-License-Identifier: MIT */
/*
 * order.c: the strategy "all", which tries each order of the conflicting operations of a
 * program once, with sleep sets. (Godefroid: Partial-order methods for the
 * verification of concurrent systems, 1996.) The choices of a run are its path. The next
 * run repeats the path up to the last choice with an untried alternative, and takes it.
 *
 * At each choice, the threads that earlier runs chose there go to sleep, since the orders
 * that begin with these threads are known. A thread wakes when another thread makes an
 * operation that conflicts with the sleeper's next operation. If all threads that can run
 * are asleep, the rest of the run is known, and the run ends as redundant.
 */
#include "run.h"

enum {
	DEPTH   = 1 << 16,              /* the most choices of a run */
	THREADS = 64,                   /* the most threads; bit n of a set is thread n */
};

/* A choice on the path: which thread makes the next step, or which number sim__ordered()
   returns. */
struct node {
	uint64_t n_left;                /* threads that later runs can choose, a set */
	uint64_t n_done;                /* threads that earlier runs chose, a set */
	uint32_t n_chosen;              /* number of the thread, or the chosen number */
	uint32_t n_numbers;             /* numbers are below this; 0: for a thread */
};

/* Zeros are an empty path. */
static struct {
	uint32_t    o_length;           /* length of the path, in nodes */
	struct node o_nodes[DEPTH];
} *order;                               /* the path, which all runs share */
static uint32_t depth;                  /* number of nodes that this run has passed */
static uint64_t sleeps;                 /* set of the threads that are asleep */

static void prepare_all(void)
{
	order = sim__share(sizeof *order);
}

static uint64_t bit(uint32_t number)
{
	if (number >= THREADS)
		sim_fail("--strategy all is for programs of up to 64 threads");
	return UINT64_C(1) << number;
}

/* Makes the node choose the first thread that is left. */
static void choose_left(struct node *n)
{
	n->n_chosen = (uint32_t)__builtin_ctzll(n->n_left);
	n->n_left &= n->n_left - 1;
}

/* Returns the next node of the path. At the end of the path, adds a node: a choice among
   the threads in `can', or, if `can' is empty, of a number below `numbers'. */
static struct node *next_node(uint64_t can, uint32_t numbers)
{
	struct node *n = &order->o_nodes[depth];

	if (depth >= DEPTH)
		sim_fail("--strategy all is for programs of up to 65536 choices");
	if (depth++ < order->o_length)
		return n;
	*n = (struct node){ .n_left = can, .n_numbers = numbers };
	order->o_length = depth;
	if (can)
		choose_left(n);
	return n;
}

/*
 * Returns whether the next operation of `t' locks a mutex that another thread holds. The
 * first word of a mutex is the address of the owner's thread, with flags in the low bits.
 */
static bool is_held(const struct sim_thread *t)
{
	uintptr_t owner;

	if (!(t->t_op.o_how & SIM_LOCKS))
		return false;
	owner = *(const uintptr_t *)t->t_op.o_object & ~(uintptr_t)7;
	return owner && owner != (uintptr_t)t->t_thread;
}

static struct sim_thread *choose_all(size_t n, struct sim_thread *self)
{
	struct node *node;
	uint64_t can = 0, all = 0;

	(void)self;
	for (size_t i = 0; i < n; i++) {
		all |= bit(sim__candidate(i)->t_number);
		can |= is_held(sim__candidate(i)) ? 0 : bit(sim__candidate(i)->t_number);
	}
	can = (can ? can : all) & ~sleeps;      /* in a deadlock all mutexes are held */
	if (!can)
		sim__end(SIM_REDUNDANT, "redundant");
	node = next_node(can, 0);
	sleeps |= node->n_done;
	for (size_t i = 0; i < n; i++)
		if (sim__candidate(i)->t_number == node->n_chosen)
			return sim__candidate(i);
	sim_fail("--strategy all: the run does not repeat");
}

/* Wakes the sleeping threads whose next operation conflicts with the operation of `t'. */
static void ran_all(struct sim_thread *t)
{
	const struct sim_thread *o;

	if (sleeps & bit(t->t_number))
		sim__end(SIM_REDUNDANT, "redundant");
	if (sleeps == 0)
		return;
	LIST_FOREACH(o, &sim__run.r_threads, t_of_run)
		if (sim__conflict(&o->t_op, &t->t_op))
			sleeps &= ~bit(o->t_number);
}

uint64_t sim__ordered(uint64_t n)
{
	uint32_t most = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;

	return next_node(0, most)->n_chosen;
}

static bool passed_all(const struct sim_outcome *unused)
{
	(void)unused;
	for (; order->o_length > 0; order->o_length--) {
		struct node *n = &order->o_nodes[order->o_length - 1];

		if (n->n_left) {
			n->n_done |= bit(n->n_chosen);
			choose_left(n);
			return true;
		}
		if (++n->n_chosen < n->n_numbers)       /* 0 for threads */
			return true;
	}
	return false;
}

const struct sim_strategy sim__all = {
	.y_choose = choose_all, .y_ran = ran_all,
	.y_prepare = prepare_all, .y_passed = passed_all,
};
