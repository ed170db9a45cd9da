/* SPDX-License-Identifier: MIT */
/*
 * uproc_stacks.c: the stacks of threads. This file knows memory and the dispatcher. The
 * stacks that the threads of a processor share are mapped in steps, as launches need
 * them, up to c_stacks. A thread that is started with h_stack has an own stack.
 *
 * A start takes a vacant stack, or maps one, before the thread is made. So if memory is
 * short, the start fails, and nothing later does. All processors share the vacant
 * stacks. The thread brings its stack to the processor where it begins. The processor
 * keeps the stack until the thread has ended.
 *
 * The end of a thread reduces as_threads at once, so after a join another thread can be
 * started. The stack becomes vacant later, since s_next and the sleep of a processor run
 * on the stack of the thread that ended last. uproc__sort_left() is called again until
 * the processor has left that stack.
 *
 * There are at most c_alone own stacks, plus two for each processor, since some stacks
 * have lost their thread and are not vacant yet. Stacks that stay vacant for a period
 * are unmapped, in steps.
 */
#include <limits.h>

#include "../core/direction.h"
#include "block.h"
#include "proc.h"
#include "../watch/watch.h"

enum {
	FITS = 16,                      /* vacant stacks that a search looks at */
	DROP = 32,                      /* stacks that are unmapped in a step */
};

/* ---- Shared stacks ---- */

static int map_stacks(struct uproc *p, unsigned n)
{
	struct uimage_stacks *stacks = &p->p_stacks[p->p_steps];
	int rc = uimage_stacks_map(stacks, n, p->p_procs->r_conf.c_stack_size);

	if (rc)
		return rc;
	p->p_unused = n;
	__atomic_store_n(&p->p_steps, p->p_steps + 1, __ATOMIC_RELEASE);
	return 0;
}

/* The call-back s_grow: a launch has found no vacant stack, so this adds some. */
static void grow(struct usched *s)
{
	uproc__add_stacks(uproc_from(s));
}

void uproc__set_grow(struct uproc *p)
{
	bool more = p->p_steps > 0
		&& p->p_sched.s_stacks < p->p_procs->r_conf.c_stacks;

	p->p_sched.s_grow = more ? grow : NULL;
}

int uproc__add_stacks(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	unsigned have = p->p_sched.s_stacks, more = have ? have : p->p_procs->r_stacks;
	const struct uimage_stacks *k;
	int rc = 0;

	p->p_sched.s_grow = NULL;
	if (conf->c_stacks == USCHED_NATIVE || usched__probe() == 0)
		return 0;                       /* threads use the native stack */
	if (more > conf->c_stacks - have)
		more = conf->c_stacks - have;
	if (p->p_unused == 0)
		rc = map_stacks(p, have ? more : p->p_procs->r_mapped);
	if (rc)
		return rc;
	k = &p->p_stacks[p->p_steps - 1];
	for (; more > 0; more--, p->p_unused--)         /* cannot fail here */
		usched_add_stack(&p->p_sched,
				 uimage_stacks_base(k, k->is_count - p->p_unused),
				 k->is_size);
	uproc__set_grow(p);
	return 0;
}

/* Returns whether `address' is on a stack of `p', which may add stacks meanwhile. */
static bool has_stack(const struct uproc *p, const void *address)
{
	unsigned steps = __atomic_load_n(&p->p_steps, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < steps; i++) {
		const struct uimage_stacks *k = &p->p_stacks[i];
		uintptr_t offset = (uintptr_t)address - (uintptr_t)k->is_map;

		if (offset < k->is_count * k->is_stride
		    && (uintptr_t)address - (uintptr_t)
			uimage_stacks_base(k, offset / k->is_stride) < k->is_size)
			return true;
	}
	return false;
}

int uproc__find_stack(const struct usched *s, const void *address)
{
	const struct uproc *self = (const struct uproc *)(const void *)s;

	if (!s->s_proc)
		return 0;
	for (size_t i = 0; i < self->p_procs->r_conf.c_processors; i++) {
		const struct uproc *p = uproc_at(self->p_procs, i);

		if (has_stack(p, address))
			return p == self ? 2 : 1;
	}
	return 0;
}

/* ---- Own stacks ---- */

/*
 * Describes an own stack, and lies in the stack's memory:
 *
 *	| frames grow down ...  bottom | usched_stack | colour | uproc_alone | block |
 */
struct uproc_alone {
	struct usched_stack *al_stack;
	struct uimage_stacks al_map;
	struct uproc_alone  *al_vacant;  /* the next vacant stack */
	char                *al_block;   /* the block, or NULL; the last member */
};

/* Adds n to as_vacants, under as_lock; has_spares() reads as_vacants without the lock. */
static void count_vacant(struct uproc_alones *o, int n)
{
	SET(o->as_vacants, o->as_vacants + (unsigned)n);
}

/* Makes `a' vacant, under as_lock. */
static void put_alone(struct uproc_alones *o, struct uproc_alone *a)
{
	a->al_vacant = o->as_vacant;
	o->as_vacant = a;
	count_vacant(o, 1);
}

/* USCHED_ALONE marks a stack whose thread has ended and still counts in as_threads. */
__attribute__((noinline))
void uproc__sort_left(struct uproc *p)
{
	struct usched_stack **left = usched__left(&p->p_sched), *k = *left, *next;
	struct uproc_alones *o = &p->p_procs->r_alones;
	const char *here = (const char *)__builtin_frame_address(0);

	lock(&o->as_lock);
	for (*left = NULL; k; k = next) {
		next = k->k_next;
		o->as_threads -= (k->k_stays & USCHED_ALONE) != 0;
		k->k_stays = 0;
		if (stack_depth(k->k_bottom, here) <= k->k_size) {
			k->k_next = *left;
			*left = k;
		} else {
			put_alone(o, (struct uproc_alone *)k->k_owner);
		}
	}
	unlock(&o->as_lock);
}

/* Takes a vacant stack of `size' bytes or more, under as_lock. Returns NULL if the first
   FITS vacant stacks are smaller. */
static struct uproc_alone *take_vacant(struct uproc_alones *o, size_t size)
{
	struct uproc_alone **at = &o->as_vacant, *a = NULL;

	for (int i = 0; i < FITS && *at && !a; i++) {
		if ((*at)->al_map.is_size >= size)
			a = *at;
		else
			at = &(*at)->al_vacant;
	}
	if (!a)
		return NULL;
	*at = a->al_vacant;
	count_vacant(o, -1);
	if (o->as_vacants < o->as_least)
		o->as_least = o->as_vacants;
	return a;
}

/* Unmaps n vacant stacks, or all if there are fewer. */
static void drop_vacant(struct uproc_alones *o, unsigned n)
{
	struct uproc_alone *a;
	struct uimage_stacks map;

	do {
		lock(&o->as_lock);
		a = o->as_vacant;
		if (a) {
			o->as_vacant = a->al_vacant;
			count_vacant(o, -1);
			o->as_count--;
		}
		if (o->as_drop > 0)
			SET(o->as_drop, a ? o->as_drop - 1 : 0);
		unlock(&o->as_lock);
		if (!a)
			break;
		if (a->al_block)
			uproc__free_block(a->al_block);
		watch_stack_end(a->al_stack);
		map = a->al_map;
		uimage_stacks_unmap(&map);
	} while (--n > 0);
}

/* The last `room' of the `size' bytes are for a block. */
static struct uproc_alone *map_alone(struct uproc *p, size_t size, size_t room)
{
	struct uproc_alones *o = &p->p_procs->r_alones;
	struct uimage_stacks map;
	struct uproc_alone *a;
	char *base;

	if (uimage_stacks_map(&map, 1, size))
		return NULL;
	base = (char *)uimage_stacks_base(&map, 0);
	a = (struct uproc_alone *)(void *)(base + map.is_size - room) - 1;
	a->al_map = map;
	lock(&o->as_lock);
	a->al_stack = usched__make_stack(&p->p_sched, base, (size_t)((char *)a - base),
					 &o->as_colour);
	a->al_stack->k_owner = a;
	o->as_count++;
	unlock(&o->as_lock);
	return a;
}

int uproc__take_alone(struct uproc *p, size_t size, struct usched_stack **stack)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	struct uproc_alones *o = &p->p_procs->r_alones;
	struct uproc_alone *a = NULL;
	size_t room = conf->c_tls ? uproc__block_room() : 0;
	bool full, many;

	size = (size == USTACK_OWN ? conf->c_stack_size : size) + room;
	lock(&o->as_lock);
	full = o->as_threads >= conf->c_alone;
	many = o->as_count >= conf->c_alone + (uint64_t)2 * conf->c_processors;
	if (!full) {
		o->as_threads++;
		a = take_vacant(o, size);
	}
	unlock(&o->as_lock);
	if (full)
		return -EAGAIN;
	if (!a && many)
		drop_vacant(o, 1);
	if (!a)
		a = map_alone(p, size, room);
	if (a) {
		*stack = a->al_stack;
		return 0;
	}
	lock(&o->as_lock);
	o->as_threads--;
	unlock(&o->as_lock);
	return -ENOMEM;
}

char **uproc__place_of_block(const struct usched_stack *stack)
{
	return &((struct uproc_alone *)stack->k_owner)->al_block;
}

void uproc__put_alone(struct uproc *p, struct usched_stack *stack)
{
	struct uproc_alones *o = &p->p_procs->r_alones;

	lock(&o->as_lock);
	o->as_threads--;
	put_alone(o, (struct uproc_alone *)stack->k_owner);
	unlock(&o->as_lock);
}

/* ---- Memory that goes back ---- */

void uproc__age_alones(struct uproc_alones *o)
{
	lock(&o->as_lock);
	SET(o->as_drop, o->as_least);
	o->as_least = o->as_vacants;
	unlock(&o->as_lock);
}

bool uproc__drop_alones(struct uproc_alones *o)
{
	unsigned n = GET(o->as_drop);

	if (n == 0)
		return false;
	drop_vacant(o, n < DROP ? n : DROP);
	return GET(o->as_drop) > 0;
}

void uproc__unmap_alones(struct uprocs *r)
{
	for (size_t i = 0; i <= r->r_conf.c_processors; i++)    /* the last is r_moving */
		uproc__take_left(uproc_at(r, i));
	drop_vacant(&r->r_alones, UINT_MAX);
	pthread_mutex_destroy(&r->r_alones.as_lock);
}
