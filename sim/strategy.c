/* SPDX-License-Identifier: MIT */
/*
 * strategy.c: which thread makes the next step.
 *
 * "site" is our own. Each place in the program has a random priority, and threads that
 * are about to make the same operation at the same place have the priority of that place.
 * Each thread has a second random priority, which decides among such threads. Most
 * failures need a few kinds of operations in a certain order, no matter which threads
 * make them. If a hundred threads run the same code, the priority of one thread has
 * little effect, but a low priority of a place holds back all threads there. A place gets
 * its priority when a thread first comes there, so no profile is needed.
 *
 * A thread that unlocks has the priority of the operation before: what other threads can
 * do before an unlock, they can do before the next operation.
 */
#include <string.h>

#include "run.h"

enum {
	FAIR   = 5000,                  /* once in this many steps, the thread that has
					   waited longest makes a step */
	PLACES = 1 << 10,               /* entries of places[] */
	RARELY = 64,                    /* steps between two switches in CALM */
};

/*
 * How a run of "mix" chooses threads, and one of "depth" after the part that is repeated.
 * One way that does not suit a failure may need thousands of runs. SITE finds failures
 * that depend on the order of places in the program, with many threads; POS finds what
 * few threads do at the same few places. In POS operations have random priorities, drawn
 * again after a conflicting operation. (Yuan, Yang, Gu: Partial order aware concurrency
 * sampling, 2018.) In CALM threads have random priorities, and now and then the running
 * thread gets the lowest. (Burckhardt and others: A randomized scheduler with
 * probabilistic guarantees of finding bugs, 2010, change priorities so.)
 */
static enum { SITE, POS, CALM } way;

/* The lowest priority so far, in CALM. */
static uint64_t lowest;

static struct sim_entry places[PLACES + 1];     /* priorities of places */

static uint64_t own_seed;               /* of the choices after a part that is repeated */

/* Tables are full by the number of keys, so what is found does not depend on where the
   system has put the program. Keys that are neighbours are on one page of memory. */
struct sim_entry *sim__entry(struct sim_entry *table, size_t size, uint64_t key)
{
	size_t i = (key >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40 << 4 | (key & 15);

	while (table[i &= size - 1].e_key && table[i].e_key != key)
		i++;
	if (table[i].e_key == key)
		return &table[i];
	if (table[size].e_key >= size / 2)
		return &table[size];
	table[size].e_key++;
	table[i].e_key = key;
	return &table[i];
}

static uint64_t priority(void)
{
	return sim__random() | UINT64_C(1) << 63;
}

void sim__begin_strategy(void)
{
	const bool is_deep = sim__run.r_strategy == &sim__depth;

	if (is_deep)
		sim__run.r_random = own_seed;
	way = is_deep && !sim__below(2) ? CALM : sim__below(3) ? POS : SITE;
	lowest = UINT64_C(1) << 62;
	memset(places, 0, sizeof places);
}

void sim__give_priority(struct sim_thread *t)
{
	if (way == SITE)
		t->t_second = sim__random();
	t->t_priority = priority();
}

/* Returns the priority of a place. All places that find no room share one, which is new
   each time. */
static uint64_t priority_of(uintptr_t place)
{
	struct sim_entry *e = sim__entry(places, PLACES, place);

	if (e == &places[PLACES] || e->e_value == 0)
		e->e_value = priority();
	return e->e_value;
}

/* Returns whether `a' has a higher priority than `b'. A thread that yields makes a step
   only if all threads that can run yield. */
static bool is_before(const struct sim_thread *a, const struct sim_thread *b)
{
	unsigned yields = a->t_op.o_how & SIM_YIELDS;

	if (yields != (b->t_op.o_how & SIM_YIELDS))
		return !yields;
	if (a->t_priority != b->t_priority)
		return a->t_priority > b->t_priority;
	return a->t_second > b->t_second;
}

/* Sets the priority of the running thread's next operation. */
static void set_priority(struct sim_thread *self)
{
	const bool unlocks = self->t_op.o_how & SIM_UNLOCKS;

	if (way == POS && unlocks)
		self->t_priority = self->t_second;
	if (way == SITE && !unlocks && self->t_op.o_key)
		self->t_priority = priority_of(self->t_op.o_key);
	if (way == CALM && sim__below(RARELY) == 0)
		self->t_priority = --lowest;
}

/* Threads that poll may wait for a thread of low priority. Without some steps of the
   thread that has waited longest, they could hold that thread back for ever. */
static struct sim_thread *choose_highest(size_t n, struct sim_thread *self)
{
	const bool is_fair = sim__run.r_steps % FAIR == FAIR - 1;
	struct sim_thread *best = sim__candidate(0), *t;

	if (self)
		set_priority(self);
	for (size_t i = 1; i < n; i++) {
		t = sim__candidate(i);
		if (is_fair ? t->t_ran < best->t_ran : is_before(t, best))
			best = t;
	}
	return best;
}

static void ran(struct sim_thread *t)
{
	struct sim_thread *o;

	if (way != POS)
		return;
	t->t_second = t->t_priority;
	t->t_priority = priority();
	LIST_FOREACH(o, &sim__run.r_threads, t_of_run)
		if (o != t && sim__conflict(&o->t_op, &t->t_op))
			o->t_priority = priority();
}

const struct sim_strategy sim__mix = { .y_choose = choose_highest, .y_ran = ran };

/* ---- Replay ---- */

static const struct sim_choice *replayed;
static size_t replays;                  /* length of replayed[] */

void sim__replay_these(const struct sim_choice *choices, size_t n)
{
	replayed = choices;
	replays = n;
}

/* Returns the choice that is identified by `by' and `when', or NULL, as in first runs. */
static const struct sim_choice *find(uint32_t by, uint32_t when)
{
	for (size_t i = 0; i < replays && !sim__run.r_learns; i++)
		if (replayed[i].c_by == by && replayed[i].c_when == when)
			return &replayed[i];
	return NULL;
}

uint64_t sim__replayed(uint32_t by, uint32_t when)
{
	const struct sim_choice *c = find(by, when);

	return c ? c->c_what : 0;
}

static struct sim_thread *choose_replayed(size_t n, struct sim_thread *self)
{
	const struct sim_choice *c = find(sim__run.r_by, sim__run.r_when);

	for (size_t i = 0; c && i < n; i++)
		if (sim__candidate(i)->t_number == c->c_what)
			return sim__candidate(i);
	return sim__usual(self);
}

const struct sim_strategy sim__replay = { .y_choose = choose_replayed };
const struct sim_strategy sim__in_order = { .y_choose = choose_replayed };

/* ---- Depth ---- */

/*
 * Remembers runs. A pair is a place where an object was written, and the place of the
 * next operation on the object. (Wolff and others: Greybox fuzzing for concurrency
 * testing, 2024, have such pairs.) A run with a pair that no run had before is kept. Most
 * runs make the choices of such a run, mostly up to its last new pair, and then those of
 * another strategy. Runs whose pair has come up least are taken most. So a failure that
 * needs many choices is found by one choice at a time.
 */
enum {
	PAIRS  = 1 << 16,               /* entries of pairs, by hashes */
	LASTS  = 1 << 12,               /* entries of objects */
	KEPT   = 256,                   /* runs that are kept, the newest ones */
	FRESH  = 4,                     /* one run in so many repeats no run */
	DRAWN  = 8,                     /* of so many kept runs the rarest is taken */
	NEAR   = 8,                     /* the part that is repeated ends at most so many
					   steps before the last new pair, mostly */
	LENGTH = 512,                   /* the most choices of such a run */
};

static struct {
	uint64_t     m_new;             /* step of the run's last new pair, or 0 */
	uint64_t     m_pair;            /* index of that pair */
	uint64_t     m_runs;            /* how many runs were ever kept */
	struct sim_entry m_pairs[PAIRS + 1];    /* how often each pair has come up */
	struct kept {
		uint64_t          k_seed, k_choices, k_until, k_pair;
		struct sim_choice k_choice[LENGTH];
	} m_kept[KEPT];
} *memory;

static uint64_t repeats_until;                  /* step where the repeated part ends */
static struct sim_entry lasts[LASTS + 1];       /* where objects were last written */

static void prepare_depth(void)
{
	memory = sim__share(sizeof *memory);
}

static bool remember(const struct sim_outcome *u)
{
	struct kept *k;

	if (memory->m_new && u->u_noted <= LENGTH) {
		k = &memory->m_kept[memory->m_runs++ % KEPT];
		k->k_seed = u->u_seed;
		k->k_choices = u->u_noted;
		k->k_until = memory->m_new;
		k->k_pair = memory->m_pair;
		memcpy(k->k_choice, u->u_choices, u->u_noted * sizeof k->k_choice[0]);
	}
	memory->m_new = 0;
	return true;
}

/* Chooses a run that the next run repeats in part, and returns the seed of that run. */
static uint64_t recall(uint64_t seed)
{
	const uint64_t n = memory->m_runs < KEPT ? memory->m_runs : KEPT;
	const struct kept *k = NULL, *o;

	own_seed = sim__run.r_random = sim__hash(seed, 0);
	repeats_until = 0;
	if (n == 0 || sim__below(FRESH) == 0)
		return seed;
	for (int i = 0; i < DRAWN; i++) {
		o = &memory->m_kept[sim__below(n)];
		if (!k || memory->m_pairs[o->k_pair].e_value
		    < memory->m_pairs[k->k_pair].e_value)
			k = o;
	}
	sim__replay_these(k->k_choice, k->k_choices);
	repeats_until = k->k_until - sim__below(sim__below(4) && k->k_until > NEAR ? NEAR
						: k->k_until);
	return k->k_seed;
}

bool sim__repeats(void)
{
	return sim__run.r_strategy == &sim__replay
		|| (sim__run.r_strategy == &sim__depth
		    && sim__run.r_steps < repeats_until);
}

static struct sim_thread *choose_depth(size_t n, struct sim_thread *self)
{
	return sim__repeats() ? choose_replayed(n, self) : choose_highest(n, self);
}

static void ran_depth(struct sim_thread *t)
{
	const struct sim_op *op = &t->t_op;
	struct sim_entry *last = &lasts[LASTS], *pair;

	ran(t);
	if (op->o_object)
		last = sim__entry(lasts, LASTS, op->o_object);
	if (last == &lasts[LASTS])
		return;
	pair = sim__entry(memory->m_pairs, PAIRS, sim__hash(last->e_value, op->o_place));
	if (pair->e_value++ == 0) {
		memory->m_new = sim__run.r_steps;
		memory->m_pair = (uint64_t)(pair - memory->m_pairs);
	}
	if (op->o_kind == SIM_WRITES)
		last->e_value = op->o_place;
}

const struct sim_strategy sim__depth = {
	.y_choose = choose_depth, .y_ran = ran_depth,
	.y_prepare = prepare_depth, .y_recall = recall, .y_passed = remember,
};
