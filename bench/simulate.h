/* SPDX-License-Identifier: MIT */
/*
 * simulate.h: processors that act as those of uproc*.c, in simulated time, for
 * simulate.c. The including file defines chance(), and what threads do: see below.
 *
 * A processor looks for events and for processors that ask when it has nothing to run,
 * after each slice, and LOOKS dispatches or LOOK us after the last time. An idle one asks
 * (policy.h) while it watches its inbox, and then sleeps. A thread that has moved
 * draws what it wakes; a processor notices wakes of others, and measures itself.
 *
 * The costs below are assumed, after measurements on two processors: a switch takes 0.013
 * us where all is in the cache (README.md), mail between two busy processors 0.25 to 0.3
 * of their time, a look through frames 0.4. A wake of a processor that sleeps took 8 and
 * more on a busy virtual machine. What the cache lines of a thread cost that has moved
 * was not measured. A queue of messages that two processors use costs no more than
 * another.
 */
#ifndef BENCH_SIMULATE_H
#define BENCH_SIMULATE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../src/proc/policy.h"

enum {
	LOOK      = 500,        /* us, as all times here; as in uproc_run.c, */
	LOOKS     = 64,         /* likewise */
	PATIENCE  = 50,         /* as in uproc_park.c, */
	QUICK     = 100,        /* a short idle time, */
	QUICK_MAX = 8,          /* likewise */
	SCAN      = 2 * POLICY_PLACES,  /* as in uproc_move.c */
	MOST      = 1024,       /* processors */
	WAITING   = -1,         /* tokens of a thread that waits */
};

#define NONE UINT32_MAX

/* Assumed: see above. */
static const double
	SWITCH  = 0.025,
	WAKE    = 0.01,         /* of a thread of the same processor */
	SEND    = 0.1,          /* of another one's: for the waker, */
	HOP     = 0.4,          /* until it arrives, */
	UNPARK  = 5,            /* where that processor sleeps, */
	RECEIVE = 0.15,         /* and to take it in */
	GIVE    = 0.5,          /* to look through a thread's frames, */
	TAKE    = 0.3,          /* to take it in, */
	MISS    = 1,            /* and for its cache lines, in its first run there */
	NEVER   = INFINITY;

enum moves { MOVES_NONE, MOVES_NEW, MOVES_ALL };
enum state { RUNS, WATCHES, SLEEPS };

struct thread {
	uint32_t owner;
	uint32_t prev, next;    /* in a queue */
	uint32_t mail_next;     /* in an inbox */
	double   mail_at;       /* when the mail arrives */
	uint32_t mail;          /* tokens */
	int32_t  tokens;
	uint32_t first, last;   /* its requests; the first is worked on */
	uint32_t group;
	bool     ran, shared;   /* its stack, once it ran */
	bool     mailed, moving, cold;
	bool     received;      /* it has the message to work on, or is about to get it */
};

struct queue {
	uint32_t first, last, count;
};

struct proc {
	struct queue ready, events, inbox;
	enum state state;
	uint32_t running;
	double   until;         /* the next step */
	double   cost;          /* us that other work takes before it */
	double   slice_end, looked, sleeps_at, worked;
	bool     asked, wants, asks, barren;
	uint32_t count;         /* of its threads */
	uint32_t alone;         /* threads that were given a stack here */
	size_t   turn;
	uint64_t popped, waits, switches, looked_after;
	unsigned quick;
	double   idle_from;
	uint32_t drawer, drawn;
	struct uproc_load load;
};

static size_t processors, stacks = 960; /* these, for threads, of each processor */
static double slice, now_us;
static enum moves moves;
static struct proc proc[MOST];
static struct thread *thread;
static size_t moved, crossed;           /* wakes of other processors */
static size_t place, place_left;

/* Gives the thread that runs what it works on next. False: it waits. */
static bool receive(struct proc *p);

/* Returns when its run ends that begins at `start', or its slice does. */
static double end_of_run(const struct proc *p, double start);

static uint32_t index_of(const struct proc *p)
{
	return (uint32_t)(p - proc);
}

/* ---- Queues ---- */

static void push(struct queue *q, uint32_t t)
{
	thread[t].next = NONE;
	thread[t].prev = q->last;
	if (q->count++ == 0)
		q->first = t;
	else
		thread[q->last].next = t;
	q->last = t;
}

static void take(struct queue *q, uint32_t t)
{
	if (t == q->first)
		q->first = thread[t].next;
	else
		thread[thread[t].prev].next = thread[t].next;
	if (t == q->last)
		q->last = thread[t].prev;
	else
		thread[thread[t].next].prev = thread[t].prev;
	q->count--;
}

static uint32_t pop(struct queue *q)
{
	uint32_t t = q->first;

	take(q, t);
	return t;
}

static void push_mail(struct queue *q, uint32_t t)
{
	if (q->count++ == 0)
		q->first = t;
	else
		thread[q->last].mail_next = t;
	q->last = t;
}

static uint32_t work(const struct proc *p)
{
	return p->ready.count + (p->state == RUNS);
}

/* An idle processor has something to do, from that time on. */
static void rouse(struct proc *p, double at)
{
	if (p->state == SLEEPS)
		at = now_us + UNPARK;
	if (p->state != RUNS && at < p->until)
		p->until = at;
}

static void post(struct proc *o, uint32_t t)
{
	thread[t].mailed = true;
	thread[t].mail_at = now_us + HOP;
	push_mail(&o->inbox, t);
	rouse(o, thread[t].mail_at);
}

/* ---- Threads that move: uproc_move.c ---- */

static int64_t now_ns(void)
{
	return (int64_t)(now_us * 1000);
}

static void measure(struct proc *p)
{
	policy_measure(&p->load, now_ns(), p->switches);
}

static bool leaves(const struct thread *t)
{
	return !t->mailed && t->tokens != WAITING && !(t->ran && t->shared);
}

/* `t' is in no queue. */
static void move(struct proc *p, struct proc *q, uint32_t t)
{
	thread[t].owner = index_of(q);
	thread[t].moving = true;
	p->count--;
	q->count++;
	p->cost += thread[t].ran ? GIVE : SEND;
	moved++;
	post(q, t);
}

/* The newest, in their order. */
static uint32_t give_new(struct proc *p, struct proc *q, uint32_t most)
{
	uint32_t n = 0, first = NONE, next = p->ready.last;

	for (; n < most && n < p->ready.count && !thread[next].ran; n++) {
		first = next;
		next = thread[first].prev;
	}
	for (uint32_t i = 0; i < n; i++, first = next) {
		next = thread[first].next;
		take(&p->ready, first);
		move(p, q, first);
	}
	return n;
}

static uint32_t give_others(struct proc *p, struct proc *q, uint32_t most)
{
	uint32_t n = p->ready.count < SCAN ? p->ready.count : SCAN, t = p->ready.first;
	uint32_t given = 0;

	for (uint32_t next; n-- > 0 && given < most; t = next) {
		next = thread[t].next;
		if (!thread[t].ran || !leaves(&thread[t]))
			continue;
		take(&p->ready, t);
		move(p, q, t);
		given++;
	}
	return given;
}

static uint32_t give_to(struct proc *p, struct proc *q, uint32_t most)
{
	bool waited = p->waits > p->popped;
	uint32_t given;

	given = give_new(p, q, policy_new(most, p->count, q->count, waited));
	if (given == 0 && moves == MOVES_ALL)
		given = give_others(p, q, policy_others(most));
	if (given > 0)
		q->wants = false;
	return given;
}

/* To all that want some. The oldest thread stays, or the newest, which yields. */
static void share(struct proc *p, bool yields)
{
	uint32_t asking = 0, ready = p->ready.count, stays;

	p->asked = false;
	if (moves == MOVES_NONE || ready < 2 || p->barren || p->asks)
		return;
	for (size_t i = 0; i < processors; i++)
		asking += proc[i].wants;
	if (asking == 0)
		return;
	stays = yields ? p->ready.last : p->ready.first;
	take(&p->ready, stays);
	for (size_t i = 1; asking > 0 && i < processors; i++) {
		struct proc *q = &proc[(index_of(p) + i) % processors];
		uint32_t most;

		if (!q->wants)
			continue;
		most = policy_share(p->ready.count + 1, asking--);
		if (most == 0)
			break;
		p->barren = give_to(p, q, most) == 0;
	}
	push(&p->ready, stays);
	if (!yields && p->ready.count > 1) {            /* it is the first again */
		take(&p->ready, stays);
		thread[stays].prev = NONE;
		thread[stays].next = p->ready.first;
		thread[p->ready.first].prev = stays;
		p->ready.first = stays;
		p->ready.count++;
	}
}

/* Asks the processor with most to do, of some. */
static void ask(struct proc *p)
{
	uint32_t best = 0;
	struct proc *of = NULL;

	if (moves == MOVES_NONE || now_ns() < p->load.l_hold)
		return;
	p->wants = p->asks = true;
	for (size_t i = 0; i < policy_looks(processors); i++) {
		struct proc *o = &proc[policy_look(index_of(p), processors, p->turn, i)];

		if (policy_asks(o->ready.count, best)) {
			best = o->ready.count;
			of = o;
		}
	}
	p->turn++;
	if (of)
		of->asked = true;
}

static void stop_asking(struct proc *p)
{
	if (!p->asks)
		return;
	p->asks = false;
	if (!p->wants)
		policy_get(&p->load, now_ns());
	p->wants = false;
}

static bool draws(struct proc *p, const struct proc *o)
{
	unsigned why = policy_cross(&p->load, &thread[p->running]);

	if (why & POLICY_DUE) {
		p->load.l_noticed = now_ns();
		measure(p);
	}
	if (!why || (why == POLICY_DUE
		     && !policy_gathers(&p->load, p->ready.count, &o->load,
					o->ready.count, p < o)))
		return false;
	return policy_draws(&p->load, &o->load);
}

static void draw(struct proc *p, struct proc *o, uint32_t t)
{
	if (o->drawer != NONE || !draws(p, o))
		return;
	o->drawer = index_of(p);
	o->drawn = t;
	p->load.l_drew++;
}

/* ---- Processors ---- */

static void arrive_moved(struct proc *p, uint32_t t)
{
	thread[t].moving = false;
	thread[t].cold = thread[t].ran;
	p->cost += thread[t].ran ? TAKE : 0;
	if (thread[t].ran)
		policy_arrive(&p->load, &thread[t]);
	push(&p->ready, t);
}

static void deliver(struct proc *p, uint32_t i)
{
	struct thread *t = &thread[i];
	struct proc *q = NULL;

	if (p->drawer != NONE && p->drawn == i) {
		q = &proc[p->drawer];
		p->drawer = p->drawn = NONE;
	}
	t->mailed = false;
	if (t->moving)
		arrive_moved(p, i);
	if (t->tokens == WAITING && t->mail > 0) {
		t->tokens = 0;
		t->mail--;
		if (q && leaves(t)) {
			move(p, q, i);
			if (p->ready.count == 0)
				policy_lose(&p->load, now_ns());
		} else {
			push(&p->ready, i);
		}
	}
	if (!t->mailed) {
		t->tokens += (int32_t)t->mail;
		t->mail = 0;
	}
}

static void drain(struct proc *p)
{
	bool some = p->asked;

	while (p->inbox.count > 0 && thread[p->inbox.first].mail_at <= now_us) {
		uint32_t t = p->inbox.first;

		p->inbox.first = thread[t].mail_next;
		p->inbox.count--;
		p->cost += RECEIVE;
		deliver(p, t);
		some = true;
	}
	if (some)
		share(p, false);
}

static void take_events(struct proc *p)
{
	while (p->events.count > 0)
		push(&p->ready, pop(&p->events));
}

static void look(struct proc *p, bool yields)
{
	take_events(p);
	p->looked = now_us;
	p->looked_after = p->switches;
	measure(p);
	p->barren = false;
	share(p, yields);
	p->waits = p->popped + p->ready.count;
}

static void idle(struct proc *p)
{
	double again = now_us + POLICY_AGAIN / 1000;

	if (p->state == RUNS) {
		measure(p);
		policy_judge(&p->load, now_ns());
		p->state = WATCHES;
		p->idle_from = now_us;
		p->sleeps_at = now_us + (p->quick > 0 ? PATIENCE : 0);
	} else if (now_us < p->sleeps_at) {
		ask(p);
	}
	if (now_us >= p->sleeps_at) {
		p->state = SLEEPS;
		ask(p);
		again = now_ns() < p->load.l_hold ? (double)p->load.l_hold / 1000 : NEVER;
	}
	if (p->inbox.count > 0 && thread[p->inbox.first].mail_at < again)
		again = thread[p->inbox.first].mail_at;
	p->until = again;
}

static void run(struct proc *p)
{
	p->until = end_of_run(p, now_us + p->cost);
	p->worked += p->until - now_us;
	p->cost = 0;
}

static void end_idle(struct proc *p)
{
	bool quick = now_us - p->idle_from < QUICK;

	if (p->state == RUNS)
		return;
	p->state = RUNS;
	stop_asking(p);
	p->load.l_idle += now_ns() - (int64_t)(p->idle_from * 1000);
	p->load.l_woke = now_ns();
	p->looked = now_us;
	if (quick && p->quick < QUICK_MAX)
		p->quick++;
	else if (!quick && p->quick > 0)
		p->quick--;
}

static void begin(struct proc *p, struct thread *t)
{
	if (!t->ran)
		t->shared = p->alone >= stacks;
	p->alone += !t->ran && !t->shared;
	t->ran = true;
	p->switches++;
	p->cost += SWITCH + (t->cold ? MISS : 0);
	t->cold = false;
}

static void dispatch(struct proc *p)
{
	drain(p);
	if (p->ready.count == 0 || p->state != RUNS)
		take_events(p);
	else if (now_us - p->looked >= LOOK || p->switches - p->looked_after >= LOOKS)
		look(p, false);
	if (p->ready.count == 0) {
		idle(p);
		return;
	}
	end_idle(p);
	p->running = pop(&p->ready);
	p->popped++;
	begin(p, &thread[p->running]);
	p->slice_end = slice > 0 ? now_us + p->cost + slice : NEVER;
	if (receive(p)) {
		run(p);
		return;
	}
	p->running = NONE;
	p->until = now_us + p->cost;
	p->cost = 0;
}

/* ---- Wakes and starts ---- */

static void wake(struct proc *p, uint32_t i)
{
	struct thread *t = &thread[i];
	struct proc *o = &proc[t->owner];

	p->cost += o == p ? WAKE : SEND;
	crossed += o != p;
	if (o == p && !t->moving) {
		if (t->tokens++ == WAITING)
			push(&p->ready, i);
		return;
	}
	t->mail++;
	if (t->mailed)
		return;
	draw(p, o, i);
	post(o, i);
}

/* As uprocs_place(). */
static uint32_t place_start(void)
{
	if (place_left == 0) {
		size_t next = (place + 1) % processors, second = (place + 2) % processors;
		uint32_t first = work(&proc[next]), other = work(&proc[second]);

		place = next;
		if (policy_place(first, other))
			place = second;
		place_left = policy_run(proc[place].count);
	}
	place_left--;
	return (uint32_t)place;
}

static void start(uint32_t t)
{
	thread[t].owner = place_start();
	proc[thread[t].owner].count++;
	push(&proc[thread[t].owner].ready, t);
}

static void reset(void)
{
	now_us = 0;
	moved = crossed = place = place_left = 0;
	memset(proc, 0, sizeof proc);
	for (size_t i = 0; i < processors; i++) {
		struct proc *p = &proc[i];

		p->state = SLEEPS;
		p->running = p->drawer = p->drawn = NONE;
		p->until = NEVER;
	}
}

/* Returns the processor whose next step comes first. */
static struct proc *first_of_all(void)
{
	struct proc *first = &proc[0];

	for (size_t i = 1; i < processors; i++)
		if (proc[i].until < first->until)
			first = &proc[i];
	return first;
}

#endif /* BENCH_SIMULATE_H */
