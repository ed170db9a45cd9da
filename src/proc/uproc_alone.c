/* SPDX-License-Identifier: MIT */
/*
 * uproc_alone.c: own stacks, those of threads that are started with h_stack.
 *
 * A start takes a vacant stack, or maps one, before the thread is made, so a lack of
 * memory fails the start and nothing later. All processors share the vacant stacks. The
 * thread brings its stack to the processor where it begins, which has the stack until the
 * thread has ended.
 *
 * The end of a thread reduces the count at once, so after a join another thread can be
 * started. The stack becomes vacant later, since s_next and the sleep of a processor run
 * on the stack of the thread that ended last. uproc__sort_left() is called until that
 * stack is free.
 *
 * There are at most c_alone own stacks, and two more for each processor, for stacks on
 * the way back. Stacks that stay vacant for a period are unmapped, in steps.
 */
#include <stdlib.h>

#include "../core/direction.h"
#include "proc.h"
#include "../../upreempt.h"

enum {
	FITS = 16,                      /* vacant stacks that a search looks at */
	DROP = 32,                      /* stacks that are unmapped in a step */
};

/* Describes an own stack. On the heap. */
struct uproc_alone {
	struct usched_stack *a_stack;
	struct uimage_stacks a_map;
	struct uproc_alone  *a_other;    /* the next of all, */
	struct uproc_alone **a_at;       /* and the pointer to this stack */
	struct uproc_alone  *a_vacant;
};

/* Adds n to o_vacants, under o_lock; has_spares() reads o_vacants without the lock. */
static void count_vacant(struct uproc_alones *o, int n)
{
	__atomic_store_n(&o->o_vacants, o->o_vacants + (unsigned)n, __ATOMIC_RELAXED);
}

/* Makes `a' vacant, under o_lock. */
static void put_alone(struct uproc_alones *o, struct uproc_alone *a)
{
	a->a_vacant = o->o_vacant;
	o->o_vacant = a;
	count_vacant(o, 1);
}

/* USCHED_ALONE marks a stack whose thread has ended and is still counted. */
__attribute__((noinline))
void uproc__sort_left(struct uproc *p)
{
	struct usched_stack **left = usched__left(&p->p_sched), *k = *left, *next;
	struct uproc_alones *o = &p->p_procs->r_alones;
	const char *here = (const char *)__builtin_frame_address(0);

	lock(&o->o_lock);
	for (*left = NULL; k; k = next) {
		next = k->k_next;
		o->o_threads -= (k->k_stays & USCHED_ALONE) != 0;
		k->k_stays = 0;
		if (stack_depth(k->k_bottom, here) <= k->k_size) {
			k->k_next = *left;
			*left = k;
		} else {
			put_alone(o, (struct uproc_alone *)k->k_owner);
		}
	}
	unlock(&o->o_lock);
}

/* Takes a stack of `size' bytes, under o_lock. NULL: the first FITS are smaller. */
static struct uproc_alone *take_vacant(struct uproc_alones *o, size_t size)
{
	struct uproc_alone **at = &o->o_vacant, *a = NULL;

	for (int i = 0; i < FITS && *at && !a; i++) {
		if ((*at)->a_map.k_size >= size)
			a = *at;
		else
			at = &(*at)->a_vacant;
	}
	if (!a)
		return NULL;
	*at = a->a_vacant;
	count_vacant(o, -1);
	if (o->o_vacants < o->o_least)
		o->o_least = o->o_vacants;
	return a;
}

static void unmap_alone(struct uproc_alone *a)
{
	usched__end_stack(a->a_stack);
	uimage_stacks_unmap(&a->a_map);
	free(a);
}

static void drop_vacant(struct uproc_alones *o, unsigned n)
{
	struct uproc_alone *a;

	do {
		lock(&o->o_lock);
		a = o->o_vacant;
		if (a) {
			o->o_vacant = a->a_vacant;
			count_vacant(o, -1);
			o->o_count--;
			*a->a_at = a->a_other;
			if (a->a_other)
				a->a_other->a_at = a->a_at;
		}
		if (o->o_drop > 0)
			__atomic_store_n(&o->o_drop, a ? o->o_drop - 1 : 0,
					 __ATOMIC_RELAXED);
		unlock(&o->o_lock);
		if (a)
			unmap_alone(a);
	} while (a && --n > 0);
}

static struct uproc_alone *map_alone(struct uproc *p, size_t size)
{
	struct uproc_alones *o = &p->p_procs->r_alones;
	struct uproc_alone *a = (struct uproc_alone *)malloc(sizeof *a);

	if (!a)
		return NULL;
	if (uimage_stacks_map(&a->a_map, 1, size)) {
		free(a);
		return NULL;
	}
	lock(&o->o_lock);
	a->a_stack = usched__make_stack(&p->p_sched, uimage_stacks_base(&a->a_map, 0),
					a->a_map.k_size, &o->o_colour);
	a->a_stack->k_owner = a;
	a->a_other = o->o_all;
	a->a_at = &o->o_all;
	if (a->a_other)
		a->a_other->a_at = &a->a_other;
	o->o_all = a;
	o->o_count++;
	unlock(&o->o_lock);
	return a;
}

int uproc__take_alone(struct uproc *p, size_t size, struct usched_stack **stack)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	struct uproc_alones *o = &p->p_procs->r_alones;
	struct uproc_alone *a = NULL;
	bool full, many;

	if (size == USTACK_OWN)
		size = conf->c_stack_size;
	lock(&o->o_lock);
	full = o->o_threads >= conf->c_alone;
	many = o->o_count >= conf->c_alone + (uint64_t)2 * conf->c_processors;
	if (!full) {
		o->o_threads++;
		a = take_vacant(o, size);
	}
	unlock(&o->o_lock);
	if (full)
		return -EAGAIN;
	if (!a && many)
		drop_vacant(o, 1);
	if (!a)
		a = map_alone(p, size);
	if (a) {
		*stack = a->a_stack;
		return 0;
	}
	lock(&o->o_lock);
	o->o_threads--;
	unlock(&o->o_lock);
	return -ENOMEM;
}

void uproc__put_alone(struct uproc *p, struct usched_stack *stack)
{
	struct uproc_alones *o = &p->p_procs->r_alones;

	lock(&o->o_lock);
	o->o_threads--;
	put_alone(o, (struct uproc_alone *)stack->k_owner);
	unlock(&o->o_lock);
}

/* ---- Memory that goes back ---- */

void uproc__age_alones(struct uproc_alones *o)
{
	lock(&o->o_lock);
	__atomic_store_n(&o->o_drop, o->o_least, __ATOMIC_RELAXED);
	o->o_least = o->o_vacants;
	unlock(&o->o_lock);
}

bool uproc__drop_alones(struct uproc_alones *o)
{
	unsigned n = GET(o->o_drop);

	if (n == 0)
		return false;
	drop_vacant(o, n < DROP ? n : DROP);
	return GET(o->o_drop) > 0;
}

void uproc__unmap_alones(struct uproc_alones *o)
{
	struct uproc_alone *next;

	for (struct uproc_alone *a = o->o_all; a; a = next) {
		next = a->a_other;
		unmap_alone(a);
	}
	pthread_mutex_destroy(&o->o_lock);
}
