/* SPDX-License-Identifier: MIT */
/*
 * simulate.c: the policies of private/policy.h, on more processors than this machine has.
 *
 *	simulate PROCESSORS LOAD SLICE MOVES [CONNECTIONS [REQUESTS]]
 *
 * LOAD is in percent of all processors, SLICE in us (0: threads run to their end). MOVES:
 *
 *	none    no thread moves
 *	new     threads that never ran move
 *	all     runnable threads move
 *
 * REQUESTS (400000) arrive at random times, 95 % of them of 20 us and 5 % of 2 ms, on
 * CONNECTIONS (64 for each processor), each a thread. With CONNECTIONS 0 each request is
 * a new thread. Prints the 99th percentile of the latency of short requests in us; then,
 * on a line, the others, the busiest processor's share of the work, and the threads moved
 * per request.
 *
 * A processor looks for events as uproc.c is to: when it has nothing to run, after each
 * slice, and LOOK after the last time. An idle one asks (private/policy.h) while it
 * watches its inbox, and sleeps then. It is given threads by a processor that it has
 * asked, at the end of a run, or by one that looks for events. Threads stay where they
 * have moved.
 *
 * The costs below are assumed. Measured on two processors: a switch takes 0.013 us where
 * all is in the cache (README.md), and mail to a processor that watches its inbox 0.5; a
 * wake of one that sleeps took 8 and more on a busy virtual machine. What the cache lines
 * of a thread cost that has moved was not measured. With twice these costs the 99th
 * percentile with 16 processors at load 70, slices of 250 and all moves is 690 us, in
 * place of 673.
 */
#include <math.h>
#include <stdbool.h>

#include "../private/policy.h"

#define BENCH_PROGRAM "simulate"
#include "bench.h"

enum {
	SHORT    = 20,          /* us, as all times here */
	LONG     = 2000,
	LONGS    = 5,           /* percent of the requests */
	LOOK     = 500,         /* as in uproc.c */
	PATIENCE = 50,          /* likewise */
	MOST     = 1024,        /* processors */
	EACH     = 64,          /* connections of each */
};

#define NONE UINT32_MAX

static const double SWITCH = 0.05, HAND_OVER = 1, WAKE = 5;     /* assumed: see above */
static const double NEVER = INFINITY;

enum moves { MOVES_NONE, MOVES_NEW, MOVES_ALL };
enum state { RUNS, WATCHES, SLEEPS };

struct request {
	double   at, left;
	bool     is_long;
	uint32_t next;          /* on its connection */
};

struct thread {
	uint32_t owner;
	uint32_t first, last;   /* its requests; the first is worked on */
	uint32_t next;          /* in a queue */
	bool     ran;
};

struct queue {
	uint32_t first, last, count;
};

struct proc {
	struct queue ready, events;
	enum state state;
	uint32_t running;
	double   until;         /* the next step */
	double   slice_end, looked, sleeps_at, worked;
	bool     asked, wants;
	uint32_t count;         /* of its threads */
	size_t   turn;
};

static size_t processors, threads, requests = 400000;
static double load, slice, now_us;
static enum moves moves;
static struct proc proc[MOST];
static struct thread *thread;
static struct request *request;
static double *late;
static size_t shorts, finished, arrived, moved;
static size_t place, place_left;

static void dispatch(struct proc *p);

static void usage(void)
{
	fprintf(stderr, "usage: simulate PROCESSORS LOAD SLICE none|new|all"
		" [CONNECTIONS [REQUESTS]]\n");
	exit(2);
}

static double chance(void)
{
	static uint64_t x = 88172645463325252;

	x = next_of(x);
	return chance_of(x);
}

static uint32_t index_of(const struct proc *p)
{
	return (uint32_t)(p - proc);
}

static void push(struct queue *q, uint32_t t)
{
	thread[t].next = NONE;
	if (q->count++ == 0)
		q->first = t;
	else
		thread[q->last].next = t;
	q->last = t;
}

static uint32_t pop(struct queue *q)
{
	uint32_t t = q->first;

	q->first = thread[t].next;
	q->count--;
	return t;
}

static uint32_t work(const struct proc *p)
{
	return p->ready.count + (p->state == RUNS);
}

/* An idle processor has something to do. */
static void rouse(struct proc *p)
{
	if (p->state == WATCHES)
		p->until = now_us + HAND_OVER;
	else if (p->state == SLEEPS && p->until == NEVER)
		p->until = now_us + WAKE;
}

static bool may_move(const struct proc *p, const struct proc *to, uint32_t t)
{
	return moves == MOVES_ALL
		|| (!thread[t].ran && policy_new(1, p->count, to->count, 1) > 0);
}

static void give(struct proc *p, struct proc *to, uint32_t most)
{
	uint32_t kept = pop(&p->ready), n = p->ready.count;
	struct queue stay = { 0 };
	uint32_t given = 0;

	push(&stay, kept);
	while (n-- > 0) {
		uint32_t t = pop(&p->ready);

		if (given == most || !may_move(p, to, t)) {
			push(&stay, t);
			continue;
		}
		thread[t].owner = index_of(to);
		p->count--;
		to->count++;
		push(&to->ready, t);
		given++;
	}
	p->ready = stay;
	moved += given;
	if (given > 0) {
		to->wants = false;
		rouse(to);
	}
}

/* To all that want some. */
static void share(struct proc *p)
{
	uint32_t asking = 0;
	size_t i;

	p->asked = false;
	if (moves == MOVES_NONE || p->ready.count < 2)
		return;
	for (i = 0; i < processors; i++)
		asking += proc[i].wants;
	for (i = 1; asking > 0 && i < processors; i++) {
		struct proc *to = &proc[(index_of(p) + i) % processors];

		if (to->wants) {
			uint32_t most = policy_share(p->ready.count, asking--);

			if (most > 0)
				give(p, to, most);
		}
	}
}

static void look(struct proc *p)
{
	while (p->events.count > 0)
		push(&p->ready, pop(&p->events));
	p->looked = now_us;
}

/* Asks the processor with most to do, of some. */
static void ask(struct proc *p)
{
	uint32_t best = 0;
	struct proc *of = NULL;

	p->wants = moves != MOVES_NONE;
	for (size_t i = 0; p->wants && i < policy_looks(processors); i++) {
		struct proc *o = &proc[policy_look(index_of(p), processors, p->turn, i)];

		if (o->state == RUNS && policy_asks(o->ready.count, best)) {
			best = o->ready.count;
			of = o;
		}
	}
	p->turn++;
	if (of)
		of->asked = true;
}

static void idle(struct proc *p)
{
	if (p->state == RUNS) {
		p->state = WATCHES;
		p->sleeps_at = now_us + PATIENCE;
	}
	if (p->state == WATCHES && now_us >= p->sleeps_at)
		p->state = SLEEPS;
	ask(p);
	p->until = p->state == SLEEPS ? NEVER : now_us + POLICY_AGAIN / 1000;
}

static void run(struct proc *p)
{
	const struct request *r = &request[thread[p->running].first];
	double end = now_us + r->left;

	p->until = end < p->slice_end ? end : p->slice_end;
	p->worked -= now_us;
}

static void dispatch(struct proc *p)
{
	if (p->ready.count == 0 || p->asked || now_us - p->looked >= LOOK) {
		look(p);
		share(p);
	}
	if (p->ready.count == 0) {
		idle(p);
		return;
	}
	p->wants = false;
	p->state = RUNS;
	p->running = pop(&p->ready);
	thread[p->running].ran = true;
	p->slice_end = slice > 0 ? now_us + slice : NEVER;
	run(p);
	p->until += SWITCH;
}

static void finish(struct thread *t)
{
	const struct request *r = &request[t->first];

	if (!r->is_long)
		late[shorts++] = now_us - r->at;
	finished++;
	t->first = r->next;
	proc[t->owner].count -= threads == 0;
}

/* The end of a request, or of a slice. */
static void step(struct proc *p)
{
	struct thread *t = &thread[p->running];
	struct request *r;

	if (p->state != RUNS) {
		dispatch(p);
		return;
	}
	p->worked += now_us;
	r = &request[t->first];
	if (now_us < p->slice_end) {
		finish(t);
		if (t->first != NONE) {         /* the next one has come meanwhile */
			run(p);
			return;
		}
	} else {
		r->left -= slice;
		if (r->left <= SWITCH)
			finish(t);
		if (t->first != NONE)
			push(&p->ready, p->running);
		look(p);
		share(p);
	}
	dispatch(p);
}

/* As uprocs_place(). */
static uint32_t place_start(void)
{
	if (place_left == 0) {
		size_t next = (place + 1) % processors, second = (place + 2) % processors;
		uint32_t least = work(&proc[next]), other = work(&proc[second]);

		place = next;
		if (policy_place(least, other))
			place = second;
		place_left = policy_run(proc[place].count);
	}
	place_left--;
	return (uint32_t)place;
}

static void arrive(void)
{
	uint32_t i = (uint32_t)arrived++;
	uint32_t n = threads > 0 ? (uint32_t)(chance() * (double)threads * 0.999999) : i;
	struct request *r = &request[i];
	struct thread *t = &thread[n];

	r->at = now_us;
	r->is_long = chance() * 100 < LONGS;
	r->left = r->is_long ? LONG : SHORT;
	r->next = NONE;
	if (t->first != NONE) {
		request[t->last].next = i;
		t->last = i;
		return;
	}
	t->first = t->last = i;
	if (threads == 0) {
		t->owner = place_start();
		proc[t->owner].count++;
		push(&proc[t->owner].ready, n);
	} else {
		push(&proc[t->owner].events, n);
	}
	rouse(&proc[t->owner]);
}

static void simulate(void)
{
	double mean = (100 - LONGS) / 100.0 * SHORT + LONGS / 100.0 * LONG;
	double gap = mean / (load / 100 * (double)processors), next = 0;

	while (finished < requests) {
		struct proc *first = &proc[0];

		for (size_t i = 1; i < processors; i++)
			if (proc[i].until < first->until)
				first = &proc[i];
		if (arrived < requests && next < first->until) {
			now_us = next;
			next -= log(chance()) * gap;
			arrive();
		} else {
			now_us = first->until;
			step(first);
		}
	}
}

static void report(void)
{
	double all = 0, most = 0;

	for (size_t i = 0; i < processors; i++) {
		all += proc[i].worked;
		if (proc[i].worked > most)
			most = proc[i].worked;
	}
	qsort(late, shorts, sizeof *late, compare_doubles);
	printf("%.0f\np50_us=%.0f p999_us=%.0f busiest=%.2f moved=%.3f\n",
	       late[shorts * 99 / 100], late[shorts / 2], late[shorts * 999 / 1000],
	       most * (double)processors / all, (double)moved / (double)requests);
}

static void arguments(int argc, char **argv)
{
	static const char *const names[] = { "none", "new", "all" };

	if (argc < 5 || argc > 7)
		usage();
	processors = number(argv[1], 2, MOST);
	load = (double)number(argv[2], 1, 99);
	slice = (double)number(argv[3], 0, 1000000);
	while (strcmp(argv[4], names[moves]) != 0)
		if (++moves > MOVES_ALL)
			usage();
	threads = argc > 5 ? number(argv[5], 0, 1000000) : EACH * processors;
	if (argc > 6)
		requests = number(argv[6], 1000, 100000000);
}

int main(int argc, char **argv)
{
	size_t n;

	arguments(argc, argv);
	n = threads > 0 ? threads : requests;
	thread = calloc(n, sizeof *thread);
	request = calloc(requests, sizeof *request);
	late = calloc(requests, sizeof *late);
	if (!thread || !request || !late)
		fail("memory", -ENOMEM);
	for (size_t i = 0; i < n; i++) {
		thread[i] = (struct thread){
			.owner = (uint32_t)(i % processors), .first = NONE };
		proc[i % processors].count += threads > 0;
	}
	for (size_t i = 0; i < processors; i++) {
		proc[i].state = SLEEPS;
		proc[i].until = NEVER;
	}
	simulate();
	report();
	return 0;
}
