/* SPDX-License-Identifier: MIT */
/*
 * uproc_ring.c: the containers of a processor: the ring of runnable threads, the records
 * of all threads, and the inbox. Also what a process has once: the marks, the observer's
 * table, the list of schedulers. This file puts threads in and takes threads out for
 * other modules: uproc_mail.c reads mail, uproc_join.c has the rules of re_joiner.
 *
 * A ring has room for all threads of its processor, so making a thread runnable cannot
 * fail. The room is made when a thread is started.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* O_NOFOLLOW */
#endif
#include <stdio.h>
#include <stdlib.h>

#include "../core/outside.h"
#include "proc.h"
#include "../base/when.h"

/* ---- What a process has once ---- */

struct uproc_thread uproc__marks[UPROC_MARKS];

struct uproc_observer uproc__observer;

struct uprocs *uproc__schedulers;       /* under list_lock of uprocs.c */

/* ---- The ring of runnable threads ---- */

/* Allocates a ring of at least `count' places, under p_lock, for the owner to adopt. */
static int enlarge_ring(struct uproc *p, uint32_t count)
{
	uint32_t room = p->p_room;
	struct uproc_thread **ring;

	if (count > UINT32_MAX / 2)
		return -ENOMEM;                 /* no larger power of two */
	while (room < count)
		room *= 2;
	if (room == p->p_room)
		return 0;                       /* another caller was first */
	ring = (struct uproc_thread **)calloc(room, sizeof *ring);
	if (!ring)
		return -ENOMEM;
	free(p->p_larger);
	p->p_larger = ring;
	__atomic_store_n(&p->p_room, room, __ATOMIC_SEQ_CST);
	return 0;
}

int uproc__count_started(struct uproc *p, uint32_t n)
{
	uint32_t ended = __atomic_load_n(&p->p_ended, __ATOMIC_ACQUIRE);
	uint32_t count = FETCH_ADD(&p->p_started, n) + n - ended;
	int rc;

	if (count <= LOAD(p->p_room))
		return 0;
	lock(&p->p_lock);
	rc = enlarge_ring(p, count);
	unlock(&p->p_lock);
	if (rc)
		FETCH_ADD(&p->p_started, -n);
	return rc;
}

void uproc__adopt_room(struct uproc *p)
{
	struct uproc_thread **old = p->p_queue;
	size_t mask;

	lock(&p->p_lock);
	p->p_queue = p->p_larger;
	p->p_larger = NULL;
	mask = p->p_room - 1;
	unlock(&p->p_lock);
	for (size_t i = p->p_head; i != p->p_tail; i++)
		p->p_queue[i & mask] = old[i & p->p_mask];
	p->p_mask = mask;
	free(old);
	uproc__set_grow(p);                     /* s_grow again, if grow() has failed */
}

uint32_t uproc__new_of(const struct uproc *p)
{
	uint32_t counted = GET(p->p_credit) + GET(p->p_passed);
	uint64_t begun = GET(p->p_sched.s_stats.st_launches);
	uint32_t fresh = GET(p->p_started) - counted - (uint32_t)begun;

	return fresh > INT32_MAX ? 0 : fresh;   /* the counters are read at two times */
}

#ifdef USCHED_CHECK
static uint32_t seed_value;

static void choose_seed(void)
{
	const char *given = outside_setting("USCHED_SEED");

	seed_value = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)when_now();
	seed_value += seed_value == 0;
	fprintf(stderr, "usched: USCHED_SEED=%u\n", (unsigned)seed_value);
}

static uint32_t seed(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose_seed);
	return seed_value;
}

/* Exchanges the oldest thread in the queue with one that Marsaglia's xorshift chooses. */
void uproc__shuffle(struct uproc *p)
{
	static __thread uint32_t state;
	size_t other;
	struct uproc_thread **a = &p->p_queue[p->p_head & p->p_mask], **b, *t = *a;

	if (state == 0)                 /* each processor has its own sequence */
		state = seed() + (uint32_t)uproc__index(p);
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	other = p->p_head + state % (p->p_tail - p->p_head);
	b = &p->p_queue[other & p->p_mask];
	*a = *b;
	*b = t;
}
#endif

/* ---- Records and images ---- */

void uproc__put_record(struct uproc *p, struct uproc_thread *t)
{
	struct uproc *self = uproc_self();

	SET(uproc_rest(t)->re_joiner, DETACHED);
	if (self && self->p_procs == p->p_procs) {
		uimage_record_free(&self->p_images, t);
		return;
	}
	lock(&p->p_lock);
	uimage_record_free(&p->p_outside, t);
	unlock(&p->p_lock);
}

/* ---- The inbox, and who joins ---- */

void uproc__unpark(struct uproc *p)
{
	if (uevents_interrupt(&p->p_sched))
		return;
	lock(&p->p_lock);
	pthread_cond_signal(&p->p_unparked);
	unlock(&p->p_lock);
}

void uproc__push_inbox(struct uproc *p, struct uproc_thread *t)
{
	struct uproc_thread *first = LOAD(p->p_inbox);

	do {
		uproc_rest(t)->re_next = first == PARKED || first == ASKED ? NULL : first;
	} while (!CAS(&p->p_inbox, &first, t));
	if (first == PARKED)
		uproc__unpark(p);
}

/* Only `p' makes itself the owner of a thread. So if `t' is live, and is then seen to
   have the owner `p', it still belongs to `p' afterwards. */
bool uproc__has(const struct uproc *p, const struct uproc_thread *t)
{
	const struct ustack *u = &t->th_stack;

	return __atomic_load_n(&u->u_mail, __ATOMIC_ACQUIRE) & UPROC_MAIL_LIVE
		&& ustack_sched(u) == &p->p_sched;
}

const struct ustack *uproc__joiner(const struct uproc_thread *t)
{
	const struct uproc_thread *joiner = LOAD(uproc_rest(t)->re_joiner);

	for (size_t i = 0; i < UPROC_MARKS; i++)
		if (joiner == &uproc__marks[i])
			return NULL;
	return joiner && joiner != OPEN ? &joiner->th_stack : NULL;
}
