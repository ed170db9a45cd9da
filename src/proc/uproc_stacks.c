/* SPDX-License-Identifier: MIT */
/*
 * uproc_stacks.c: the stacks of a processor, which its threads share. They are mapped in
 * steps, as launches need them, up to c_stacks. This file knows memory and the
 * dispatcher, but no threads. Own stacks (h_stack) are in uproc_alone.c.
 */
#include "proc.h"

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

static int add_stack(struct uproc *p, struct uimage_stacks *stacks)
{
	void *base = uimage_stacks_base(stacks, stacks->is_count - p->p_unused);
	int rc = usched_add_stack(&p->p_sched, base, stacks->is_size);

	if (rc == 0) {
		p->p_unused--;
	} else {                                /* only the first add can fail */
		__atomic_store_n(&p->p_steps, p->p_steps - 1, __ATOMIC_RELEASE);
		uimage_stacks_unmap(stacks);
	}
	return rc;
}

int uproc__add_stacks(struct uproc *p)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;
	unsigned have = p->p_sched.s_stacks, more = have ? have : p->p_procs->r_stacks;
	int rc = 0;

	if (conf->c_stacks == USCHED_NATIVE)
		return 0;
	if (more > conf->c_stacks - have)
		more = conf->c_stacks - have;
	if (p->p_unused == 0)
		rc = map_stacks(p, have ? more : p->p_procs->r_mapped);
	for (; rc == 0 && more > 0; more--)
		rc = add_stack(p, &p->p_stacks[p->p_steps - 1]);
	return rc == -ENOTSUP ? 0 : rc;         /* threads use the native stack */
}

static void grow(struct usched *s);

void uproc__set_grow(struct uproc *p)
{
	bool more = p->p_steps > 0
		&& p->p_sched.s_stacks < p->p_procs->r_conf.c_stacks;

	p->p_sched.s_grow = more ? grow : NULL;
}

/* The call-back s_grow: a launch has found no vacant stack, so this adds some. */
static void grow(struct usched *s)
{
	struct uproc *p = uproc_from(s);

	s->s_grow = NULL;
	if (uproc__add_stacks(p) == 0)
		uproc__set_grow(p);
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
