/* SPDX-License-Identifier: MIT */
/*
 * uproc_move.c: threads that move to idle processors. doc/moving.md has the protocol, and
 * says why it is right; the numbers here are its steps.
 *
 *	idle processor q                        busy processor p
 *	asks:     counts places in p_started    sees a bit in r_asking
 *	          p_want, its bit in r_asking   gives:    takes p_want, marks threads,
 *	          ASKED in the inbox of p                 pushes them to the inbox of q
 *	threads arrive: writes its name         p_ended: they have left
 *
 * New threads may always leave. Others need c_steal, and have a stack of their own, which
 * goes with them. When the thread has ended, that goes back to where it was added, or the
 * processor that gives would have none left. It does so by p_foreign and p_returned, at a
 * look: the end of the thread still runs on it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dl_iterate_phdr() */
#endif
#include <sched.h>

#ifdef USCHED_CHECK
#include "private/code.h"
#endif
#include "private/policy.h"
#include "private/proc.h"

enum {
	SCAN   = 2 * POLICY_PLACES,     /* threads in the queue that are looked at */
	NUMBER = UINT16_MAX,            /* the most that a stack can note */
};

#define SET_WANT(p, n) __atomic_store_n(&(p)->p_want, n, __ATOMIC_SEQ_CST)

/* ---- The check build ---- */

#ifdef USCHED_CHECK
enum { WARNINGS = 20 };

struct locals {
	const struct ustack *l_thread;
	bool                 l_found;
};

/* Whether the frames of a blocked thread have an address in this part of static TLS. */
static int find_local(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct locals *l = arg;
	const uintptr_t *word = (const void *)usched__top(l->l_thread);
	uintptr_t tls = (uintptr_t)info->dlpi_tls_data;

	(void)size;
	for (int i = 0; tls && i < info->dlpi_phnum; i++) {
		size_t bytes = info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_TLS)
			continue;
		for (; (const char *)word < l->l_thread->u_stack->k_bottom; word++)
			if (*word - tls < bytes)
				l->l_found = true;
	}
	return l->l_found;
}

/*
 * On the native thread that the thread leaves. What is found may be a word that is not
 * used any more, so it is a warning.
 */
static void warn_of_locals(const struct uproc *p, const struct ustack *u)
{
	static unsigned warned;
	struct locals l = { u, false };
	char function[CODE], name[USTACK_NAME_MAX + 4];

	if (u->u_stack == &p->p_sched.s_new || GET(warned) >= WARNINGS)
		return;
	dl_iterate_phdr(find_local, &l);
	if (!l.l_found || FETCH_ADD(&warned, 1) >= WARNINGS)
		return;
	code(function, (const void *)(uintptr_t)ustack_func(u));
	uproc__print(p->p_procs, "usched: thread %p%s, function %s, moves to another"
		     " processor, and may keep the address of a thread-local variable:"
		     " ustack_stay()", (const void *)u, uproc__quote_name(u, name),
		     function);
}
#else
static void warn_of_locals(const struct uproc *p, const struct ustack *u)
{
	(void)p;
	(void)u;
}
#endif

void uproc__set_moves(struct uproc *p, const struct uproc_policy *policy)
{
	const struct uprocs_conf *conf = &p->p_procs->r_conf;

	p->p_moves = policy->y_moves && conf->c_processors > 1;
	p->p_sched.s_moves = p->p_moves && conf->c_steal && conf->c_processors <= NUMBER;
	p->p_sched.s_number = (uint16_t)uproc__index(p);
}

/* ---- The processor that asks ---- */

static uint64_t *asking_of(const struct uproc *p)
{
	return &p->p_procs->r_asking[uproc__index(p) / ASKING_BITS];
}

static uint64_t asking_bit(const struct uproc *p)
{
	return (uint64_t)1 << uproc__index(p) % ASKING_BITS;
}

/* Threads in the queue of `p' that might move. The numbers may be of different age. */
static uint32_t movable(const struct uproc *p)
{
	size_t queued = GET(p->p_tail) - GET(p->p_head);
	uint32_t new = p->p_sched.s_moves ? UINT32_MAX : uproc__new_of(p);

	return queued < new ? (uint32_t)queued : new;
}

/*
 * Step 1. False: no memory. The places are in p_want for as long as they are counted in
 * p_started, or starts would take them for threads, and go elsewhere.
 */
static bool reserve_places(struct uproc *p)
{
	int rc;

	/* Else the claim could end after this, and none would know that `p' asks. */
	while (LOAD(p->p_want) & UPROC_CLAIMED && !LOAD(p->p_inbox))
		sched_yield();
	if (LOAD(p->p_want) > 0)
		return true;
	SET_WANT(p, POLICY_PLACES | UPROC_CLAIMED);
	rc = uproc__count_started(p, POLICY_PLACES);
	SET_WANT(p, rc ? 0 : POLICY_PLACES);
	return rc == 0;
}

/* Steps 1 and 2. */
void uproc__ask(struct uproc *p)
{
	struct uproc_thread *empty = NULL;
	struct uprocs *r = p->p_procs;
	size_t all = r->r_conf.c_processors;
	struct uproc *of = NULL;
	uint32_t best = 0;

	uproc__return_stacks(p);
	if (!p->p_moves || !reserve_places(p))
		return;
	if (!p->p_asks)
		FETCH_OR(asking_of(p), asking_bit(p));
	p->p_asks = 1;
	for (size_t i = 0; i < policy_looks(all); i++) {
		struct uproc *o = uproc_at(r, policy_look(uproc__index(p), all,
							  p->p_searches, i));
		uint32_t ready = movable(o);

		if (policy_asks(ready, best)) {
			best = ready;
			of = o;
		}
	}
	p->p_searches++;
	if (of)
		CAS(&of->p_inbox, &empty, ASKED);
}

void uproc__stop_asking(struct uproc *p)
{
	if (p->p_asks)
		FETCH_AND(asking_of(p), ~asking_bit(p));
	p->p_asks = 0;
}

/* A thread begins, or has begun, on another processor than the one that counts it. */
static void pass(struct uproc *p, bool elsewhere)
{
	__atomic_store_n(&p->p_passed, p->p_passed + elsewhere, __ATOMIC_RELAXED);
}

/* Step 9. */
void uproc__arrive(struct uproc *p, struct uproc_thread *t)
{
	bool began = t->t_stack.u_stack != &p->p_procs->r_moving->p_sched.s_new;

	usched_move(&t->t_stack, &p->p_sched);
	pass(p, began);
	UPROC_COUNT(p->p_sched.s_stats.s_moves, 1);
	usched__tell(&p->p_sched, USCHED_ARRIVES, &t->t_stack, NULL);
}

/* ---- The processor that gives ---- */

static uint32_t count_asking(const struct uprocs *r)
{
	uint32_t count = 0;

	for (size_t i = 0; i <= r->r_conf.c_processors / ASKING_BITS; i++)
		count += (uint32_t)__builtin_popcountll(GET(r->r_asking[i]));
	return count;
}

/*
 * Whether the thread that blocks is in the queue, as the newest: it yields. Its frames
 * are in use, so it stays; else the oldest does, which is to run now.
 */
static bool yields(const struct uproc *p)
{
	const struct ustack *self = p->p_sched.s_current;

	return self && &p->p_queue[(p->p_tail - 1) & p->p_mask]->t_stack == self;
}

/* Whether `t', in the queue, may leave; then it is marked: step 5. */
static bool leaves(struct uproc *p, struct uproc_thread *t, bool new_may)
{
	struct ustack *u = &t->t_stack;
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;
	uint32_t mail = GET(u->u_mail);
	const uint32_t bars = ~(uint32_t)(UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE
					  | UPROC_MAIL_NAMED | UPROC_MAIL_UNJOINED);

	if (u->u_tokens < 0 || mail & bars || !usched_may_move(u))
		return false;
	if (u->u_stack == &p->p_sched.s_new ? !new_may : !p->p_sched.s_moves)
		return false;
	if (a && !(a->a_ops->a_leave && a->a_ops->a_leave(a)))
		return false;
	warn_of_locals(p, u);
	return CAS(&u->u_mail, &mail, mail | UPROC_MAIL_MOVED);
}

/* Steps 6 and 7. */
static void push_moving(struct uproc *p, struct uproc *q, struct uproc_thread *t)
{
	pass(p, t->t_stack.u_stack == &p->p_sched.s_new);
	usched_move(&t->t_stack, &p->p_procs->r_moving->p_sched);
	__atomic_store_n(&p->p_ended, p->p_ended + 1, __ATOMIC_RELEASE);
	uproc__push_inbox(q, t);
}

/* Of the first `scan' in the queue those that are left move to its newer end. */
static void close_gaps(struct uproc *p, size_t scan)
{
	size_t to = p->p_head + scan;

	for (size_t i = p->p_head + scan; i-- != p->p_head; ) {
		struct uproc_thread *t = p->p_queue[i & p->p_mask];

		if (t)
			p->p_queue[--to & p->p_mask] = t;
	}
	__atomic_store_n(&p->p_head, to, __ATOMIC_RELAXED);
}

/* Steps 4 to 8. The number of threads given. */
static uint32_t give_to(struct uproc *p, struct uproc *q, uint32_t most)
{
	bool new_may = policy_may_move(uproc_count(p), uproc_count(q));
	uint32_t places = LOAD(q->p_want), given = 0;
	size_t scan = p->p_tail - p->p_head;
	size_t first = !yields(p);

	if (places == 0 || places & UPROC_CLAIMED
	    || !CAS(&q->p_want, &places, places | UPROC_CLAIMED))
		return 0;
	if (most > places)
		most = places;
	if (scan > SCAN)
		scan = SCAN;
	for (size_t i = first; i < scan && given < most; i++) {
		struct uproc_thread **at = &p->p_queue[(p->p_head + i) & p->p_mask];
		struct uproc_thread *t = *at;

		if (!leaves(p, t, new_may))
			continue;
		*at = NULL;
		push_moving(p, q, t);
		given++;
	}
	if (given > 0)
		close_gaps(p, scan);
	if (given > 0)
		FETCH_ADD(&q->p_started, given - places);
	SET_WANT(q, given > 0 ? 0 : places);
	return given;
}

/* The next one first. */
void uproc__give(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	size_t all = r->r_conf.c_processors;
	uint32_t asking = count_asking(r);

	for (size_t i = 1; i < all && asking > 0; i++) {
		struct uproc *q = uproc_at(r, (uproc__index(p) + i) % all);
		uint32_t most;

		if (!(GET(*asking_of(q)) & asking_bit(q)))
			continue;
		most = policy_share(movable(p), asking--);
		if (most == 0)
			break;
		p->p_barren = give_to(p, q, most) == 0;
	}
}

/* ---- Stacks ---- */

/*
 * `u' has ended, and mail may be on its way. The record does not name the stack any more,
 * which may leave with the next thread: then the mail would follow it.
 */
void uproc__leave_stack(struct uproc *p, struct ustack *u)
{
	struct usched_stack *k = u->u_stack;

	if (k == &p->p_sched.s_new || k->k_shared)
		return;
	__atomic_store_n(&u->u_stack, &p->p_sched.s_native, __ATOMIC_RELEASE);
	if (k->k_number == p->p_sched.s_number)
		return;
	usched_drop_stack(k);
	k->k_next = p->p_foreign;
	p->p_foreign = k;
}

static void send_home(struct uproc *p, struct usched_stack *k)
{
	struct usched_stack **list = &uproc_at(p->p_procs, k->k_number)->p_returned;
	struct usched_stack *first = LOAD(*list);

	do
		k->k_next = first;
	while (!CAS(list, &first, k));
}

void uproc__exchange_stacks(struct uproc *p)
{
	struct usched_stack *k = p->p_foreign, *next;
	const char *here = __builtin_frame_address(0);

	for (p->p_foreign = NULL; k; k = next) {
		next = k->k_next;
		if ((uintptr_t)k->k_bottom - (uintptr_t)here > k->k_size) {
			send_home(p, k);
			continue;
		}
		k->k_next = p->p_foreign;
		p->p_foreign = k;
	}
	for (k = SWAP(&p->p_returned, NULL); k; k = next) {
		next = k->k_next;
		usched_take_stack(&p->p_sched, k);
	}
}
