/* SPDX-License-Identifier: MIT */
/*
 * uproc_move.c: threads that move to idle processors. doc/moving.md has the protocol and
 * its proof. The numbers of steps in comments are those of that page.
 *
 *	idle processor q                        busy processor p
 *	asks:     sets a bit of r_asking,       gives:    takes the bit, counts places,
 *	          ASKED in the inbox of p                 marks threads, pushes them to
 *	                                                  the inbox of q
 *	threads arrive: becomes the owner       p_ended:  counts them as gone
 *
 * A processor can also draw a thread that it wakes. The thread then moves by the same
 * steps; q is the waker's processor.
 *
 * That page says which threads may leave. A thread that has run takes its stack along.
 * After the end of the thread the stack goes back to its home, the processor where the
 * stack was added. Otherwise the home would run out of stacks. The stack is in p_foreign
 * until a look for events, since the end of the thread still runs on the stack. Then the
 * stack is in p_returned of its home.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_condattr_setclock() */
#endif
#include "policy.h"
#include "proc.h"
#include "../base/when.h"

enum {
	SCAN = 2 * POLICY_PLACES,       /* the most threads in the queue to look at */
};

/* ---- The processor that asks ---- */

static uint64_t *asking_of(const struct uproc *p)
{
	return &p->p_procs->r_asking[uproc__index(p) / ASKING_BITS];
}

static uint64_t asking_bit(const struct uproc *p)
{
	return (uint64_t)1 << uproc__index(p) % ASKING_BITS;
}

/* Returns how many threads in the queue of `p' might move. The number is an estimate,
   since the counters are read one after the other. */
static uint32_t movable(const struct uproc *p)
{
	size_t queued = GET(p->p_tail) - GET(p->p_head);
	uint32_t fresh = p->p_sched.s_moves ? UINT32_MAX : uproc__new_of(p);

	return queued < fresh ? (uint32_t)queued : fresh;
}

/*
 * Does steps 1 and 2. Each search looks at the next POLICY_LOOKS processors, beginning
 * behind `p', so that processors that search at the same time begin at different places.
 */
void uproc__ask(struct uproc *p)
{
	struct uproc_thread *empty = NULL;
	struct uprocs *r = p->p_procs;
	size_t all = r->r_conf.c_processors, first = uproc__index(p) + 1;
	struct uproc *of = NULL;
	uint32_t best = 0;

	uproc__return_stacks(p);
	if (!p->p_moves || uproc__rests(p))
		return;
	if (!(GET(*asking_of(p)) & asking_bit(p)))
		FETCH_OR(asking_of(p), asking_bit(p));
	p->p_asks = 1;
	for (size_t i = 0; i < POLICY_LOOKS && i < all - 1; i++) {
		size_t turn = p->p_searches * (size_t)POLICY_LOOKS + i;
		struct uproc *o = uproc_at(r, (first + turn % (all - 1)) % all);
		uint32_t ready = movable(o);

		if (ready > best) {
			best = ready;
			of = o;
		}
	}
	p->p_searches++;
	if (of)
		CAS(&of->p_inbox, &empty, ASKED);
}

/* Clears the bit of `p' in r_asking. Returns false if a giver has taken that bit. */
static bool end_asking(struct uproc *p)
{
	return FETCH_AND(asking_of(p), ~asking_bit(p)) & asking_bit(p);
}

void uproc__stop_asking(struct uproc *p, int64_t now)
{
	if (!p->p_asks)
		return;
	p->p_asks = 0;
	if (end_asking(p))
		return;
	policy_get(&p->p_load, now);
}

/* Counts a thread in p_passed if it began or will begin `elsewhere'. */
static void pass(struct uproc *p, bool elsewhere)
{
	SET(p->p_passed, p->p_passed + elsewhere);
}

/* Does step 9: makes `p' the owner of `t'. */
void uproc__arrive(struct uproc *p, struct uproc_thread *t)
{
	bool began = t->th_stack.u_stack != &p->p_procs->r_moving->p_sched.s_new;

	usched__move(&t->th_stack, &p->p_sched);
	if (!began && GET(t->th_stack.u_mail) & UPROC_MAIL_START)
		return;
	pass(p, began);
	if (began)
		policy_arrive(&p->p_load, &t->th_stack);
	UPROC_COUNT(p->p_sched.s_stats.st_moves, 1);
	usched__tell(&p->p_sched, USCHED_ARRIVES, &t->th_stack, NULL);
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
 * Returns whether the blocking thread yields, and so is the newest in the queue. If so,
 * this thread stays, as its frames are in use. Otherwise the oldest thread stays, and
 * runs next.
 */
static bool yields(const struct uproc *p)
{
	const struct ustack *self = p->p_sched.s_current;

	return self && &p->p_queue[(p->p_tail - 1) & p->p_mask]->th_stack == self;
}

/* Returns whether `t' may leave, and if so marks `t' by MOVED (step 5). If `as_new' is
   true, only a new thread may leave; otherwise only a thread that has run. */
static bool leaves(const struct uproc *p, struct uproc_thread *t, bool as_new,
		   struct uproc_locals *l)
{
	struct ustack *u = &t->th_stack;
	struct ustack_attachment *a = u->u_attached ? u->u_attachment : NULL;
	bool is_new = u->u_stack == &p->p_sched.s_new;
	uint32_t mail = GET(u->u_mail);
	const uint32_t bars = ~(uint32_t)(UPROC_MAIL_KNOWN | UPROC_MAIL_LIVE
					  | UPROC_MAIL_NAMED | UPROC_MAIL_UNJOINED);

	if (u->u_tokens < 0 || mail & bars || !usched__may_move(u))
		return false;
	if (is_new != as_new)
		return false;
	if (!is_new && !p->p_sched.s_block && l->ls_count == 0)
		uproc__note_locals(l);
	if (!is_new && !p->p_sched.s_block && uproc__keeps_local(l, u))
		return false;
	if (a && !(a->a_ops->ao_leave && a->a_ops->ao_leave(a)))
		return false;
	return CAS(&u->u_mail, &mail, mail | UPROC_MAIL_MOVED);
}

/* Does steps 6 and 7: makes r_moving the owner of `t', and pushes `t' to `q'. */
static void push_moving(struct uproc *p, struct uproc *q, struct uproc_thread *t)
{
	pass(p, t->th_stack.u_stack == &p->p_sched.s_new);
	usched__move(&t->th_stack, &p->p_procs->r_moving->p_sched);
	__atomic_store_n(&p->p_ended, p->p_ended + 1, __ATOMIC_RELEASE);
	uproc__push_inbox(q, t);
}

/* Gives new threads to `q', at most `most' of them. They come from the newer end of the
   queue, so that threads which were started in a row stay together. Returns how many. */
static uint32_t give_new(struct uproc *p, struct uproc *q, uint32_t most)
{
	bool last_stays = yields(p);
	size_t end = p->p_tail - last_stays, begin = end;
	struct uproc_thread *last = p->p_queue[(p->p_tail - 1) & p->p_mask];
	struct uproc_locals none = { 0 };

	while (end - begin < most && begin > p->p_head + !last_stays
	       && leaves(p, p->p_queue[(begin - 1) & p->p_mask], true, &none))
		begin--;
	for (size_t i = begin; i < end; i++)
		push_moving(p, q, p->p_queue[i & p->p_mask]);
	if (last_stays)
		p->p_queue[begin & p->p_mask] = last;
	UPROC_COUNT(p->p_tail, begin - end);
	return (uint32_t)(end - begin);
}

/* Closes gaps in the first `scan' places: moves threads towards the newer end. */
static void close_gaps(struct uproc *p, size_t scan)
{
	size_t to = p->p_head + scan;

	for (size_t i = p->p_head + scan; i-- != p->p_head; ) {
		struct uproc_thread *t = p->p_queue[i & p->p_mask];

		if (t)
			p->p_queue[--to & p->p_mask] = t;
	}
	SET(p->p_head, to);
}

/* Gives at most `most' threads that have run, the oldest first. Returns how many. */
static uint32_t give_others(struct uproc *p, struct uproc *q, uint32_t most)
{
	size_t scan = p->p_tail - p->p_head;
	struct uproc_locals l = { 0 };
	uint32_t given = 0;

	if (scan > SCAN)
		scan = SCAN;
	for (size_t i = !yields(p) && !uproc__rests(p); i < scan && given < most; i++) {
		struct uproc_thread **at = &p->p_queue[(p->p_head + i) & p->p_mask];
		struct uproc_thread *t = *at;

		if (!leaves(p, t, false, &l))
			continue;
		*at = NULL;
		push_moving(p, q, t);
		given++;
	}
	if (given > 0)
		close_gaps(p, scan);
	return given;
}

typedef uint32_t give_fn(struct uproc *p, struct uproc *q, uint32_t most);

/* Does steps 4 to 8: counts places, and calls `give'. Returns how many threads moved. */
static uint32_t give_counted(give_fn *give, struct uproc *p, struct uproc *q,
			     uint32_t most)
{
	uint32_t given = 0;

	if (most > 0 && uproc__count_started(q, most) == 0) {
		given = give(p, q, most);
		FETCH_ADD(&q->p_started, given - most);
	}
	return given;
}

static uint32_t give_to(struct uproc *p, struct uproc *q, uint32_t most)
{
	uint32_t ours = uproc_count(p), theirs = uproc_count(q), given;
	bool waited = p->p_waits > p->p_head;

	if (!end_asking(q))
		return 0;                       /* another processor gives */
	given = give_counted(give_new, p, q,
			     policy_new(most, ours, theirs, waited));
	if (given == 0 && p->p_sched.s_moves)
		given = give_counted(give_others, p, q,
				     most < POLICY_PLACES ? most : POLICY_PLACES);
	if (given == 0)
		FETCH_OR(asking_of(q), asking_bit(q));
	return given;
}

/* Gives the threads of `p', which rests, to all processors below the limit. */
static void give_away(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	uint32_t limit = GET(r->r_limit), given = 0;

	for (uint32_t left = limit; left > 0; left--) {
		struct uproc *q = uproc_at(r, p->p_searches++ % limit);
		uint32_t most = (movable(p) + left - 1) / left;

		most = most < POLICY_RUNS ? most : POLICY_RUNS;
		given += give_counted(give_new, p, q, most);
		if (p->p_sched.s_moves)
			given += give_counted(give_others, p, q, most);
	}
	p->p_barren = given == 0;
}

/* Gives threads to each processor that asks, beginning with the one after `p'. */
void uproc__give(struct uproc *p)
{
	struct uprocs *r = p->p_procs;
	size_t all = r->r_conf.c_processors;
	uint32_t asking;

	if (GET(*asking_of(p)) & asking_bit(p))
		end_asking(p);                  /* a late giver has set the bit again */
	if (uproc__rests(p)) {
		give_away(p);
		return;
	}
	asking = count_asking(r);
	for (size_t i = 1; i < all && asking > 0; i++) {
		struct uproc *q = uproc_at(r, (uproc__index(p) + i) % all);
		uint32_t most;

		if (!(GET(*asking_of(q)) & asking_bit(q))
		    || (uproc__rests(q) && end_asking(q)))
			continue;
		most = policy_share(movable(p), asking--);
		if (most == 0)
			break;
		p->p_barren = give_to(p, q, most) == 0;
	}
}

/* ---- Threads that follow others ---- */

/*
 * A thread of `o' is woken here. Returns whether `p' draws that thread. If the waker has
 * just moved here, `p' draws the first thread that the waker wakes. So a group follows a
 * member that was given away. Otherwise only some wakes draw a thread, in one direction
 * only.
 */
static bool draws(struct uproc *p, const struct uproc *o)
{
	struct uproc_load *l = &p->p_load;
	unsigned why = policy_cross(l, p->p_sched.s_current);

	if (why & POLICY_DUE) {
		l->ld_noticed = when_now();
		policy_measure(l, l->ld_noticed, p->p_sched.s_stats.st_switches);
	}
	if (!why || (why == POLICY_DUE
		     && !policy_gathers(l, movable(p), &o->p_load, movable(o), p < o)))
		return false;
	return policy_draws(l, &o->p_load);
}

void uproc__draw(struct uproc *o, const struct uproc_thread *t)
{
	struct uproc *p = uproc_self();
	uint32_t none = 0;

	if (!o->p_sched.s_moves || !p || p == o || p->p_procs != o->p_procs
	    || uproc__rests(p))
		return;
	if (GET(o->p_drawer) || !draws(p, o)
	    || !CAS(&o->p_drawer, &none, (uint32_t)uproc__index(p) + 1))
		return;
	SET(o->p_drawn, t);
	p->p_load.ld_drew++;
}

struct uproc *uproc__drawer(struct uproc *p, const struct uproc_thread *t)
{
	struct uproc *q;

	if (GET(p->p_drawn) != t)
		return NULL;
	q = uproc_at(p->p_procs, GET(p->p_drawer) - 1);
	SET(p->p_drawn, NULL);
	__atomic_store_n(&p->p_drawer, 0, __ATOMIC_RELEASE);
	return q;
}

bool uproc__follow(struct uproc *p, struct uproc_thread *t, struct uproc *q)
{
	struct uproc_locals l = { 0 };

	if (uproc__count_started(q, 1))
		return false;
	if (!leaves(p, t, false, &l)) {
		FETCH_ADD(&q->p_started, -(uint32_t)1);
		return false;
	}
	push_moving(p, q, t);
	if (p->p_head == p->p_tail)
		policy_lose(&p->p_load, when_now());
	return true;
}

/* ---- Stacks ---- */

/* Late mail finds the processor of an ended thread through u_stack. The stack may leave
   with the next thread, so u_stack becomes s_native, and the mail still comes here. */
void uproc__leave_stack(struct uproc *p, struct ustack *u)
{
	struct usched_stack *k = u->u_stack;

	if (k == &p->p_sched.s_new || k->k_shared)
		return;
	__atomic_store_n(&u->u_stack, &p->p_sched.s_native, __ATOMIC_RELEASE);
	if (k->k_number == p->p_sched.s_number)
		return;
	usched__unlink(k);
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
	const char *here = (const char *)__builtin_frame_address(0);

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
		usched__take_stack(&p->p_sched, k);
	}
}
