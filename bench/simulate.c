/* SPDX-License-Identifier: MIT */
/*
 * simulate.c: the policies of policy.h, on more processors than this machine has.
 *
 *	simulate PROCESSORS LOAD SLICE MOVES [CONNECTIONS [REQUESTS]]
 *	simulate KIND GROUPS THREADS RUN PROCESSORS [MESSAGES [STACKS]]
 *
 * Requests. LOAD is in percent of all processors, SLICE in us (0: threads run to their
 * end). MOVES:
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
 * Groups of threads that wake each other. THREADS is the size of a group, or two sizes as
 * in 2-100, between which each group has a random one. A thread runs for RUN ns, from
 * half of it to one and a half, before each message. KIND:
 *
 *	ring    one token goes round; with two threads, a pair
 *	all     each thread has a token, and passes each on to a random other thread
 *	star    all threads but one send to the last one, over a queue of QUEUE messages
 *	pipe    each thread sends to the next one, over such a queue
 *
 * Prints the time that MESSAGES (400000) take, divided by that with one processor. Then,
 * on a line, for the second half of them: messages per us, wakes between processors per
 * 1000 messages, moves per second, the busiest processor's share of the work (1: all have
 * the same), and the part of the time in which processors were busy. STACKS (960) threads
 * of a processor have a stack of their own; others stay where they have begun.
 *
 * simulate.h has the processors, and what their work costs. With twice these costs the
 * 99th percentile with 16 processors at load 70, slices of 250 and all moves is 746 us,
 * in place of 725.
 */
#define BENCH_PROGRAM "simulate"
#include "bench.h"
#include "simulate.h"

enum {
	SHORT = 20,             /* us, as all times here */
	LONG  = 2000,
	LONGS = 5,              /* percent of the requests */
	EACH  = 64,             /* connections of each processor */
	QUEUE = 16,             /* messages */
	SPELL = 1000,           /* without a wait, as in src/wait/budget.h */
};

enum kind { REQUESTS, RING, ALL, STAR, PIPE };

struct request {
	double   at, left;
	bool     is_long;
	uint32_t next;          /* on its connection */
};

struct channel {
	struct queue senders;   /* threads that wait for room */
	uint32_t count;         /* messages */
	uint32_t receiver;      /* waits for one; or NONE */
};

struct group {
	uint32_t first, size;   /* threads */
	uint32_t channel;       /* the first */
};

static size_t threads, requests = 400000, groups;       /* requests, or messages */
static size_t least, largest;           /* threads in a group */
static double load, run_us;
static enum kind kind;
static struct request *request;
static struct group *group;
static struct channel *channel;
static double *late;
static size_t shorts, finished, arrived;
static uint64_t seed;

static void usage(void)
{
	fprintf(stderr, "usage: simulate PROCESSORS LOAD SLICE none|new|all"
		" [CONNECTIONS [REQUESTS]]\n"
		"       simulate ring|all|star|pipe GROUPS THREADS RUN PROCESSORS"
		" [MESSAGES [STACKS]]\n");
	exit(2);
}

static double chance(void)
{
	seed = next_of(seed);
	return chance_of(seed);
}

/* A random number below n. */
static uint32_t below(size_t n)
{
	return (uint32_t)(chance() * (double)n * 0.999999);
}

static double end_of_run(const struct proc *p, double start)
{
	double end;

	if (kind != REQUESTS)
		return start + run_us * (0.5 + chance());
	end = start + request[thread[p->running].first].left;
	return end < p->slice_end ? end : p->slice_end;
}

/* ---- Groups ---- */

static uint32_t stage_of(uint32_t t)
{
	const struct group *g = &group[thread[t].group];

	return kind == PIPE ? t - g->first : t == g->first + g->size - 1;
}

static uint32_t stages_of(const struct group *g)
{
	return kind == PIPE ? g->size : 2;
}

static bool wait_token(struct thread *t)
{
	if (t->tokens > 0) {
		t->tokens--;
		return true;
	}
	t->tokens = WAITING;
	return false;
}

static bool wait_message(struct proc *p, uint32_t t, struct channel *c)
{
	if (c->count == 0) {
		c->receiver = t;
		thread[t].tokens = WAITING;
		return false;
	}
	if (c->senders.count > 0)               /* its message takes the place */
		wake(p, pop(&c->senders));
	else
		c->count--;
	return true;
}

static bool receive(struct proc *p)
{
	struct thread *t = &thread[p->running];
	uint32_t stage;

	if (kind == REQUESTS || t->received)
		return true;
	t->received = true;
	if (kind == RING || kind == ALL)
		return wait_token(t);
	stage = stage_of(p->running);
	return stage == 0 || wait_message(p, p->running,
					  &channel[group[t->group].channel + stage - 1]);
}

static bool send_message(struct proc *p, uint32_t t, struct channel *c)
{
	finished++;
	if (c->receiver != NONE) {
		wake(p, c->receiver);
		c->receiver = NONE;
	} else if (c->count == QUEUE) {
		push(&c->senders, t);
		thread[t].tokens = WAITING;
		return false;
	} else {
		c->count++;
	}
	return true;
}

/* The thread that runs has worked. False: it waits, for room. */
static bool send(struct proc *p)
{
	const struct thread *t = &thread[p->running];
	const struct group *g = &group[t->group];
	uint32_t its = p->running - g->first, stage;

	if (kind == RING || kind == ALL) {
		its += kind == RING ? 1 : 1 + below(g->size - 1);
		wake(p, g->first + its % g->size);
		finished++;
		return true;
	}
	stage = stage_of(p->running);
	return stage == stages_of(g) - 1
		|| send_message(p, p->running, &channel[g->channel + stage]);
}

static void step_member(struct proc *p)
{
	if (p->running != NONE) {
		thread[p->running].received = false;
		if (send(p) && receive(p) && now_us < p->slice_end) {
			run(p);
			return;
		}
		if (thread[p->running].tokens != WAITING) {
			push(&p->ready, p->running);
			look(p, true);
		}
		p->running = NONE;
	}
	dispatch(p);
}

/* ---- Requests ---- */

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
static void step_request(struct proc *p)
{
	struct thread *t = &thread[p->running];
	struct request *r;

	if (p->state != RUNS) {
		dispatch(p);
		return;
	}
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
		look(p, t->first != NONE);
	}
	dispatch(p);
}

static void arrive(void)
{
	uint32_t i = (uint32_t)arrived++;
	uint32_t n = threads > 0 ? below(threads) : i;
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
	if (threads == 0)
		start(n);
	else
		push(&proc[t->owner].events, n);
	rouse(&proc[t->owner], now_us + HOP);
}

/* ---- The simulation ---- */

/* Until so many requests, or messages, are finished. */
static void simulate(size_t end)
{
	double mean = (100 - LONGS) / 100.0 * SHORT + LONGS / 100.0 * LONG;
	double gap = mean / (load / 100 * (double)processors);
	static double next;

	while (finished < end) {
		struct proc *first = first_of_all();

		if (kind == REQUESTS && arrived < requests && next < first->until) {
			now_us = next;
			next -= log(chance()) * gap;
			arrive();
			continue;
		}
		if (first->until == NEVER)
			fail("all processors sleep", -EDEADLK);
		now_us = first->until;
		if (kind == REQUESTS)
			step_request(first);
		else
			step_member(first);
	}
}

static void begin_simulation(size_t n)
{
	reset();
	seed = 88172645463325252;
	finished = 0;
	for (size_t i = 0; i < n; i++)
		thread[i] = (struct thread){ .first = NONE };
}

static double busiest(const double before[])
{
	double all = 0, most = 0;

	for (size_t i = 0; i < processors; i++) {
		double worked = proc[i].worked - (before ? before[i] : 0);

		all += worked;
		if (worked > most)
			most = worked;
	}
	return most * (double)processors / all;
}

static void report_requests(void)
{
	qsort(late, shorts, sizeof *late, compare_doubles);
	printf("%.0f\np50_us=%.0f p999_us=%.0f busiest=%.2f moved=%.3f\n",
	       late[shorts * 99 / 100], late[shorts / 2], late[shorts * 999 / 1000],
	       busiest(NULL), (double)moved / (double)requests);
}

static void start_groups(void)
{
	for (uint32_t i = 0; i < groups; i++) {
		const struct group *g = &group[i];

		for (uint32_t t = g->first; t < g->first + g->size; t++) {
			thread[t].group = i;
			thread[t].tokens = kind == ALL || t == g->first;
			start(t);
		}
		for (uint32_t k = 0; k + 1 < stages_of(g); k++)
			channel[g->channel + k] = (struct channel){ .receiver = NONE };
	}
	for (size_t i = 0; i < processors; i++)
		rouse(&proc[i], now_us + HOP);
}

/* What the second half adds to. */
static struct {
	double taken, worked[MOST];
	size_t finished, moved, crossed;
} first_half;

/* Returns the time for all messages. */
static double run_groups(size_t count)
{
	processors = count;
	begin_simulation(threads);
	start_groups();
	simulate(requests / 2);
	first_half.taken = now_us;
	first_half.finished = finished;
	first_half.moved = moved;
	first_half.crossed = crossed;
	for (size_t i = 0; i < processors; i++)
		first_half.worked[i] = proc[i].worked;
	simulate(requests);
	return now_us;
}

static void report_groups(double one)
{
	double taken = now_us - first_half.taken, worked = 0;
	double done = (double)(finished - first_half.finished);

	for (size_t i = 0; i < processors; i++)
		worked += proc[i].worked - first_half.worked[i];
	printf("%.3f\nrate=%.3f crossed=%.1f moves=%.0f busiest=%.2f busy=%.2f\n",
	       now_us / one, done / taken,
	       1000 * (double)(crossed - first_half.crossed) / done,
	       1e6 * (double)(moved - first_half.moved) / taken,
	       busiest(first_half.worked), worked / taken / (double)processors);
}

static void *memory(size_t n, size_t size)
{
	void *got = calloc(n + 1, size);

	if (!got)
		fail("memory", -ENOMEM);
	return got;
}

static void make_groups(void)
{
	uint32_t channels = 0;

	group = memory(groups, sizeof *group);
	for (size_t i = 0; i < groups; i++) {
		group[i].size = (uint32_t)least + below(largest - least + 1);
		group[i].first = (uint32_t)threads;
		group[i].channel = channels;
		threads += group[i].size;
		channels += stages_of(&group[i]) - 1;
	}
	thread = memory(threads, sizeof *thread);
	channel = memory(channels, sizeof *channel);
}

static int main_groups(int argc, char **argv)
{
	static const char *const names[] = { "", "ring", "all", "star", "pipe" };
	size_t count;
	double one;
	char *dash;

	if (argc < 6 || argc > 8)
		usage();
	for (kind = RING; strcmp(argv[1], names[kind]) != 0; )
		if (++kind > PIPE)
			usage();
	groups = number(argv[2], 1, 10000000);
	dash = strchr(argv[3], '-');
	if (dash)
		*dash++ = 0;
	least = number(argv[3], 2, 10000000);
	largest = dash ? number(dash, least, 10000000) : least;
	run_us = (double)number(argv[4], 1, 1000000000) / 1000;
	count = number(argv[5], 1, MOST);
	if (argc > 6)
		requests = number(argv[6], 1000, 10000000000);
	if (argc > 7)
		stacks = number(argv[7], 0, UINT32_MAX);
	moves = MOVES_ALL;
	slice = SPELL;
	seed = 1;
	make_groups();
	one = run_groups(1);
	run_groups(count);
	report_groups(one);
	return 0;
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

	if (argc > 1 && (*argv[1] < '0' || *argv[1] > '9'))
		return main_groups(argc, argv);
	arguments(argc, argv);
	n = threads > 0 ? threads : requests;
	thread = memory(n, sizeof *thread);
	request = memory(requests, sizeof *request);
	late = memory(requests, sizeof *late);
	begin_simulation(n);
	for (size_t i = 0; i < threads; i++) {
		thread[i].owner = (uint32_t)(i % processors);
		proc[i % processors].count++;
	}
	simulate(requests);
	report_requests();
	return 0;
}
