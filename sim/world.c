/* SPDX-License-Identifier: MIT */
/*
 * world.c: calls that are due at a later time, and faults between hosts. The calls are
 * kept in a heap, ordered by time; calls for the same time are in the order of the
 * requests.
 */
#include "world.h"

enum {
	BETWEEN    = 64,                /* the most faults between hosts at a time */
	TIMES_SLOW = 100,
	BANDWIDTH  = 125000000,         /* bytes a second */
	NEAR       = 10000,             /* ns: about ten steps */
};

struct event {
	int64_t           e_when;
	uint64_t          e_order;
	sim_later_fn     *e_func;
	struct sim_open  *e_open;
	struct sim_piece *e_piece;
};

static struct event *heap;
static size_t count, room;
static uint64_t made;

/*
 * Faults between hosts, each with the time of its end. An entry is free after that time.
 */
static struct between { int64_t until; struct sim_fault fault; } betweens[BETWEEN];

/* ---- What comes ---- */

void *sim__memory(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		sim_fail("no memory for the world");
	return memory;
}

static bool comes_before(const struct event *a, const struct event *b)
{
	return a->e_when != b->e_when ? a->e_when < b->e_when : a->e_order < b->e_order;
}

void sim__later(int64_t when, sim_later_fn *func, struct sim_open *o, struct sim_piece *g)
{
	const struct event new = { when, made++, func, sim__hold(o), g };
	size_t i = count++;

	if (count > room) {
		room = room ? 2 * room : 256;
		heap = realloc(heap, room * sizeof *heap);
		if (!heap)
			sim_fail("no memory for the world");
	}
	for (; i > 0 && comes_before(&new, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = new;
	sim__due(when);
}

static struct event take_first(void)
{
	const struct event first = heap[0], last = heap[--count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < count) {
		if (child + 1 < count && comes_before(&heap[child + 1], &heap[child]))
			child++;
		if (!comes_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void sim__catch_up(void)
{
	while (count > 0 && heap[0].e_when <= sim__run.r_now) {
		struct event e = take_first();

		sim__note((uint64_t)e.e_when);
		e.e_func(e.e_open, e.e_piece);
		sim__drop(e.e_open);
	}
}

void sim__due(int64_t when)
{
	if (when < sim__run.r_due)
		sim__run.r_due = when;
}

void sim__looked(int64_t when)
{
	sim__run.r_due = when;
	if (count > 0)
		sim__due(heap[0].e_when);
}

int64_t sim__now(void)
{
	return sim__run.r_now;
}

bool sim__pass(int64_t until)
{
	int64_t *now = &sim__run.r_now;

	if (count > 0 && heap[0].e_when < until)
		until = heap[0].e_when;
	if (until == INT64_MAX)
		return false;
	if (count == 0)
		sim__look_for_hang();
	sim__run.r_jumps++;
	*now = until > *now ? until : *now;
	sim__catch_up();
	return true;
}

/* ---- Faults between hosts ---- */

static bool is_between(enum sim_fault_kind kind, const struct sim_host *one,
		       const struct sim_host *other)
{
	for (const struct between *b = betweens; b < betweens + BETWEEN; b++) {
		const struct sim_host *from = b->fault.a, *to = b->fault.b;

		if (b->fault.kind == kind && b->until > sim__run.r_now
		    && ((from == one && (!to || to == other))
			|| (from == other && (!to || to == one))))
			return true;
	}
	return false;
}

bool sim__is_cut(const struct sim_host *one, const struct sim_host *other)
{
	return (one && !one->h_up) || (other && !other->h_up)
		|| is_between(SIM_PARTITION, one, other);
}

void sim__break_net(const struct sim_fault *f)
{
	int64_t now = sim__run.r_now;
	struct between *b = betweens;

	if (f->kind == SIM_RESET) {
		sim__reset_all(f->a, f->b);
		return;
	}
	while (b < betweens + BETWEEN && b->until > now)
		b++;
	if (b == betweens + BETWEEN)
		sim_fail("there are too many faults between hosts at a time");
	*b = (struct between){ f->for_ns > 0 ? now + f->for_ns : INT64_MAX, *f };
}

/* ---- How long it takes ---- */

int64_t sim__latency(const struct sim_open *o, const struct sim_host *to)
{
	const struct sim_faults *f = &sim__faults;
	const bool near = sim__run.r_near && !f->f_latency_ns && !f->f_latency_most_ns;
	int64_t least = f->f_latency_ns || near ? f->f_latency_ns : 50 * MICROSECOND;
	int64_t most = near ? NEAR
		: f->f_latency_most_ns ? f->f_latency_most_ns : 500 * MICROSECOND;
	int64_t rare = f->f_latency_rare_ns ? f->f_latency_rare_ns : 50 * MILLISECOND;
	int64_t k = (int64_t)sim__choose("latency", 1000);
	int64_t ns = k < 990 ? least + (most - least) / 989 * k
		: most + (rare - most) / 10 * (k - 989);

	if (o->f_slow || (o->f_peer && o->f_peer->f_slow))
		ns *= TIMES_SLOW;
	return is_between(SIM_SLOW, o->f_host, to) ? ns * TIMES_SLOW : ns;
}

int64_t sim__arrival(struct sim_open *o, struct sim_host *to, size_t size)
{
	int64_t rate = sim__faults.f_bandwidth ? sim__faults.f_bandwidth : BANDWIDTH;
	struct sim_fault cut = { SIM_PARTITION, o->f_host, to, SECOND };

	if (sim__strikes("partition", sim__faults.f_partition)
	    && !sim__is_cut(o->f_host, to)) {
		cut.for_ns += SECOND * (int64_t)sim__choose("partition lasts", 10);
		sim__break_net(&cut);
	}
	if (o->f_free < sim__run.r_now)
		o->f_free = sim__run.r_now;
	o->f_free += (int64_t)size * SECOND / rate;
	return o->f_free + sim__latency(o, to);
}

/* ---- The begin ---- */

void sim__world(void)
{
	while (count > 0) {
		free(heap[--count].e_piece);
		sim__drop(heap[count].e_open);
	}
	made = 0;
	memset(betweens, 0, sizeof betweens);
}
