/* SPDX-License-Identifier: MIT */
/*
 * sim.c: the scheduler of a simulation, a policy like rr. The processor's queue holds the
 * threads that can run, and the strategy chooses one of them. A step that does not block
 * ends in sim__step(), where the strategy may choose the running thread again, without a
 * switch.
 */
#include "sim.h"

#include <stdarg.h>

#include "../src/proc/proc.h"
#include "world.h"
#include "../src/wait/wait.h"
#include "../uwait.h"

#define EPOCH   INT64_C(1767225600000000000)    /* ns: CLOCK_REALTIME when a run begins,
						   minus SIM_BOOTED */
#define STEPS   UINT64_C(10000000)
#define SEED    UINT64_C(0x9e3779b97f4a7c15)
#define EACH    UINT64_MAX

enum {
	KINDS     = 4,                  /* one run in KINDS is hasty, one is near */
	LATENESS  = 1000000000,         /* ns: the longest sleep that is late in a hasty
					   run: sim__sleeps() */
	STEP_TIME = 1000,               /* ns */
	READ_TIME = 10,                 /* ns for a read of the clock: so loops end */
	ALONE     = 1000,               /* steps in a row after which a thread yields,
					   since others might else never run */
	SPINS     = 100,                /* the most times that a thread spins in a row */
	LONGEST   = 24,                 /* waits at most STEP_TIME << LONGEST, 16 s */
	NAMES     = 1024,               /* entries of names[] */
	TIME      = 60,                 /* s without progress, after which threads hang */
	TICKS     = 1000,               /* sleeps of each thread with a timer by then */
	CHECKS    = 256,                /* the most checks of the program */
};

struct sim_run sim__run = { .r_profile = &sim__profile };

static struct {
	const char *(*c_check)(void *);
	void         *c_arg;
} checks[CHECKS];
static size_t n_checks;

/* How many choices each thread has made under each name: see c_by. */
static struct sim_entry names[NAMES + 1];

/* ---- Random numbers, and the hash ---- */

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* SplitMix64. Steele, Lea, Flood: Fast splittable pseudorandom number generators. */
uint64_t sim__random(void)
{
	sim__run.r_random += SEED;
	return mixed(sim__run.r_random);
}

/*
 * If n fits into 32 bits, takes the high half of a product, since that needs no division.
 */
uint64_t sim__below(uint64_t n)
{
	uint64_t x = sim__random();

	return n <= UINT32_MAX ? (x >> 32) * n >> 32 : x % n;
}

uint64_t sim__hash(uint64_t hash, uint64_t value)
{
	return mixed(hash ^ value) + SEED;
}

void sim__note(uint64_t value)
{
	sim__run.r_hash = sim__hash(sim__run.r_hash, value);
}

uint64_t sim_hash(void)
{
	return sim__run.r_hash;
}

uint64_t sim_steps(void)
{
	return sim__run.r_steps;
}

/* ---- The end of a run ---- */

void sim__report(enum sim_end end, const char *message)
{
	struct sim_outcome *u = sim__run.r_outcome;

	if (!u)
		return;
	u->u_end = end;
	u->u_hash = sim__run.r_hash;
	u->u_steps = sim__run.r_steps;
	memccpy(u->u_message, message, '\0', SIM_MESSAGE - 1);
}

/* Streams are flushed, but handlers of atexit() are not called, since other threads are
   still live. */
void sim__end(enum sim_end end, const char *message)
{
	fflush(NULL);
	sim__report(end, message);
	if (end > SIM_REDUNDANT)
		sim__tell(message);
	_exit(end <= SIM_REDUNDANT ? 0 : EXIT_FAILURE);
}

void sim_fail(const char *format, ...)
{
	char message[SIM_MESSAGE];
	va_list list;

	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	sim__end(SIM_FAILED, message);
}

void sim__stuck(void)
{
	if (sim__run.r_outcome)
		sim__end(SIM_DEADLOCK, "deadlock");
}

void sim__look_for_living(void)
{
	const struct sim_run *r = &sim__run;

	if (r->r_dead > 0 && r->r_dead == r->r_live)
		sim__end(SIM_PASSED, "");
}

/* ---- Hangs ---- */

int64_t sim__limit(const struct sim_thread *t)
{
	const struct ustack *u = &t->t_thread->th_stack;
	const struct ustack_attachment *l = u->u_attached ? u->u_attachment : NULL;

	return l && l->a_ops == &uwait__ops
		? ((const struct uwaiter *)(const void *)l)->w_deadline : USCHED_NEVER;
}

static void note_progress(void)
{
	struct sim_thread *t;

	sim__run.r_calm = sim__run.r_now;
	LIST_FOREACH(t, &sim__run.r_threads, t_of_run)
		t->t_ticks = 0;
}

/*
 * Called when `t' runs. It is progress if the clock has jumped while the thread waited,
 * and not the thread's own timer has ended the wait, but another thread, or what came by
 * the network. Waits for a lock that threads take in turn have no such jump.
 */
static void note_wake(struct sim_thread *t)
{
	struct sim_run *r = &sim__run;

	if (r->r_jumped < t->t_ran)
		return;
	if (sim__limit(t) > r->r_now)
		note_progress();
	else
		t->t_ticks++;
}

void sim__look_for_hang(void)
{
	const struct sim_run *r = &sim__run;
	const struct sim_thread *t;
	struct ustack_why why;
	unsigned hang = 0;

	if (!r->r_outcome || r->r_now - r->r_calm < r->r_conf.c_hang_ns)
		return;
	LIST_FOREACH(t, &r->r_threads, t_of_run) {
		enum uproc_state state = uproc__state(t->t_thread, &why);
		int64_t limit = sim__limit(t);

		if (t->t_dead)
			continue;
		if (state < UPROC_WAITS)
			return;
		if (limit <= r->r_now || limit == USCHED_NEVER)
			hang += state == UPROC_WAITS;
		else if (t->t_ticks < TICKS)
			return;
	}
	if (hang > 0)
		sim__end(SIM_DEADLOCK, "a hang: threads wait, and only timers go on");
}

/* ---- Steps ---- */

static void note_choice(uint32_t by, uint32_t when, uint64_t what)
{
	struct sim_outcome *u = sim__run.r_outcome;

	if (!u)
		return;
	if (u->u_noted < SIM_CHOICES)
		u->u_choices[u->u_noted] = (struct sim_choice){ by, when, what };
	u->u_noted++;
}

static void check_always(void)
{
	for (size_t i = 0; i < n_checks; i++) {
		const char *wrong = checks[i].c_check(checks[i].c_arg);

		if (wrong)
			sim__end(SIM_FAILED, wrong);
	}
}

/* Begins the next step, of thread `t'. */
static void begin_step(struct sim_thread *t)
{
	struct sim_run *r = &sim__run;

	r->r_steps++;
	note_wake(t);
	sim__event(&(struct sim_event){ t->t_op, r->r_steps, t->t_host, t->t_number,
					r->r_instead != NULL });
	r->r_now += STEP_TIME;
	r->r_running = t;
	r->r_by = t->t_number;
	r->r_when = ++t->t_steps;
	t->t_spins = 0;
	t->t_ran = r->r_steps;
	sim__note((uint64_t)t->t_number << 2 | t->t_op.o_kind);
	if (r->r_strategy->y_ran)
		r->r_strategy->y_ran(t);
	if (r->r_steps >= r->r_conf.c_steps)
		sim__end(SIM_ENDLESS, "it has not ended in the steps that it may make");
}

/* Chooses the thread of the next step: one of the n ready threads, or `self'. If the
   running thread can go on, `self' is the running thread; otherwise `self' is NULL. */
static struct sim_thread *choose(size_t n, struct sim_thread *self)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *usual, *chosen;

	if (self && r->r_alone == ALONE)
		self->t_op.o_how |= SIM_YIELDS;
	n += self != NULL;
	usual = sim__usual(self);
	chosen = n > 1 ? r->r_strategy->y_choose(n, self) : usual;
	r->r_alone = n > 1 && chosen == r->r_running ? r->r_alone % ALONE + 1 : 0;
	r->r_instead = chosen != usual ? usual : NULL;
	if (r->r_instead)
		note_choice(r->r_by, r->r_when, chosen->t_number);
	return chosen;
}

/* Returns whether a thread may run: its processor, if there is one, must be free. */
static bool may_run(const struct sim_thread *t)
{
	const struct sim_host *h = sim__single(t);

	return !h || !h->h_keeps || h->h_keeps == t;
}

static void swap(struct uproc *p, size_t i, size_t j)
{
	struct uproc_thread *t = p->p_queue[i & p->p_mask];

	p->p_queue[i & p->p_mask] = p->p_queue[j & p->p_mask];
	p->p_queue[j & p->p_mask] = t;
}

/* Drops threads of crashed hosts from the queue, since such threads may have been woken.
   Moves the threads that may run to the front, and returns their number. */
static size_t ready(void)
{
	struct uproc *p = sim__run.r_proc;
	size_t to = p->p_head;

	if (!sim__run.r_single && sim__run.r_dead == 0)
		to = p->p_tail;
	for (size_t i = to; i != p->p_tail; i++) {
		const struct sim_thread *t = sim__of(p->p_queue[i & p->p_mask]);

		if (t->t_dead)
			swap(p, i--, --p->p_tail);
		else if (may_run(t))
			swap(p, i, to++);
	}
	return sim__run.r_ready = to - p->p_head;
}

static void leave_processor(const struct sim_thread *t)
{
	struct sim_host *h = sim__state_of(t->t_host);

	if (h->h_keeps == t)
		h->h_keeps = NULL;
}

struct sim_thread *sim__self(void)
{
	struct uproc *p = uproc_self();

	return p && p == sim__run.r_proc ? sim__of(uproc_thread(ustack_self())) : NULL;
}

/* Calls the dispatcher's s_yield(), since ustack_yield() fails if the thread is
   cancelled. */
void sim__step(struct sim_op op)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *self = sim__self(), *next;
	struct usched *s;
	struct sim_host *single;

	if (!self)
		return;
	s = &r->r_proc->p_sched;
	check_always();
	if (self->t_host)
		sim__may_crash();
	self->t_op = op;
	single = op.o_how == SIM_YIELDS ? NULL : sim__single(self);
	if (single)
		single->h_keeps = self;
	if (r->r_now >= r->r_due)
		uevents_look(s);
	next = choose(ready(), self);
	if (next == self) {
		begin_step(self);
		return;
	}
	r->r_next = next;
	if (s->s_calls.s_yield(s))
		sim_fail("no memory to switch");
}

/*
 * The thread that spins waits for some virtual time, twice as long each time, so that
 * whoever can end the loop runs. No random number and no place is used: a run is the same
 * wherever in the loop the thread was interrupted.
 */
void sim__spin(uintptr_t place, bool computes)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *self = sim__self();
	const int shield = ustack_shield(1);
	const unsigned spins = self->t_spins + (computes ? SPINS / 2 + 1 : 1);
	struct uwaiter *w;

	self->t_op = (struct sim_op){ 0, place, 0, "spins", SIM_NOTHING, 0 };
	if (spins > SPINS)
		sim__end(SIM_ENDLESS, "it spins, and no other thread ends that");
	w = uwait_prepare(r->r_now + ((int64_t)STEP_TIME
				      << (spins < LONGEST ? spins : LONGEST)), false);
	if (uwait_error(w) == 0) {
		uwait_begin(w);
		uwait_block(w);
	}
	self->t_spins = spins;                  /* until the next step */
	ustack_shield(shield > 0);
}

void sim_point(uintptr_t object, enum sim_kind kind)
{
	uintptr_t place = (uintptr_t)__builtin_return_address(0);

	sim__step((struct sim_op){ object, place, place, "is at a point", kind, 0 });
}

/*
 * Returns a number below n. If odds is 0 or EACH, all numbers are equally likely. With
 * other odds, the result is 1 once in `odds' calls on average, and otherwise 0; first
 * runs always get 0. The strategy "all" tries each number if odds is EACH, and otherwise
 * takes 0.
 */
static uint64_t choose_named(const char *what, uint64_t n, uint64_t odds)
{
	struct sim_run *r = &sim__run;
	const bool is_fault = odds > 0 && odds != EACH;
	uint32_t by = sim__self() ? sim__self()->t_number + 1 : 0, when;
	uint64_t chosen = 0;

	for (const char *at = what; *at; at++)
		by = by * 31 + (unsigned char)*at;
	by |= SIM_NAMED;
	when = (uint32_t)++sim__entry(names, NAMES, by)->e_value;
	if (sim__repeats())
		chosen = sim__replayed(by, when);
	else if (r->r_strategy == &sim__all)
		chosen = odds == EACH && n > 1 ? sim__ordered(n) : 0;
	else if (r->r_strategy && is_fault)
		chosen = !r->r_learns && sim__below(odds) == 0;
	else if (r->r_strategy && n > 1)
		chosen = sim__below(n);
	chosen = chosen < n ? chosen : n - 1;
	if (chosen > 0)
		note_choice(by, when, chosen);
	if (chosen > 0 && is_fault)
		sim__note_fault(what, NULL);
	else if (chosen > 0 && r->r_strategy == &sim__replay)
		sim__note_number(what, chosen);
	sim__note(chosen);
	return chosen;
}

uint64_t sim_choose(uint64_t n)
{
	return choose_named("the program's", n, EACH);
}

size_t sim__choose(const char *what, size_t n)
{
	return choose_named(what, n, 0);
}

bool sim__rarely(const char *what, uint64_t n)
{
	return choose_named(what, 2, n) > 0;
}

static struct sim_op op_of(const char *call, uintptr_t object, uintptr_t at,
			   unsigned char how)
{
	return (struct sim_op){ object, at, sim__key(call, object, at), call,
				how == SIM_YIELDS ? SIM_NOTHING : SIM_WRITES, how };
}

void sim__waits(const char *call, const void *place)
{
	struct sim_thread *self = sim__self();

	if (!self || sim__is_own((uintptr_t)place))
		return;
	self->t_op = op_of(call, 0, (uintptr_t)place, 0);
	sim__leave_in(SIM_BY_MESSAGE, self);
	self->t_from[0] = SIM_BY_MESSAGE;
}

void sim__called(const void *object, const char *call, const void *place)
{
	struct sim_thread *self = sim__self();

	if (!self || sim__is_own((uintptr_t)place))
		return;
	self->t_ordered = true;
	sim__step(op_of(call, (uintptr_t)object, (uintptr_t)place, 0));
	sim__settle(self);
	sim__leave_in((uintptr_t)object, self);
	self->t_from[0] = (uintptr_t)object;
}

/* If r_next is set, sim__step() yields at the end of a step; otherwise the program has
   called ustack_yield(). */
void sim__yields(const void *place)
{
	struct sim_thread *self = sim__self();

	if (self && !sim__run.r_next)
		self->t_op = op_of("ustack_yield", 0, (uintptr_t)place, SIM_YIELDS);
}

bool sim__tires(void)
{
	const struct sim_thread *self = sim__self();

	return self && sim__single(self);
}

void sim__spins(const char *call)
{
	sim__step(op_of(call, 0, (uintptr_t)__builtin_return_address(0), SIM_YIELDS));
}

/*
 * In a hasty run the clock jumps to the end of about every second sleep, before other
 * threads make a step. So if a thread relies on a sleep to wait for another thread, the
 * program fails. The clock jumps by at most LATENESS, since otherwise time limits would
 * mean nothing. A run with hosts is not hasty, since a test with hosts has faults.
 */
void sim__sleeps(int64_t until)
{
	const struct sim_thread *self = sim__self();
	struct sim_run *r = &sim__run;

	if (r->r_hasty && self && until > r->r_now && until - r->r_now <= LATENESS
	    && sim__rarely("late", 2))
		while (r->r_now < until
		       && !(self->t_thread->th_stack.u_mail & UPROC_MAIL_CANCEL))
			sim__pass(until);       /* SIGALRM ends the sleep */
}

/* Chooses among n threads that a call may wake. Calls of usync.h wake the first thread,
   as usync.h guarantees. */
size_t sim__woken(size_t n)
{
	const struct sim_thread *self = sim__self();

	return sim__enters && !(self && self->t_ordered)
		? choose_named("the woken", n, EACH)
		: 0;
}

int sim_always(const char *(*check)(void *), void *arg)
{
	if (n_checks == CHECKS)
		return -ENOMEM;
	checks[n_checks].c_check = check;
	checks[n_checks++].c_arg = arg;
	return 0;
}

/* ---- The policy ---- */

/* Makes the chosen thread the first in the queue. */
static struct uproc_thread *pick(struct uproc *p)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *t = r->r_next;
	size_t n, i = p->p_head;

	if (!t && r->r_running)                 /* the running thread waits or yields */
		leave_processor(r->r_running);
	n = ready();
	if (n == 0)
		return NULL;
	r->r_next = NULL;
	if (!t) {
		check_always();
		t = choose(n, NULL);
	}
	while (p->p_queue[i & p->p_mask] != t->t_thread)
		i++;
	swap(p, i, p->p_head);
	begin_step(t);
	return uproc_pop(p);
}

/* Makes the processor look for events before it picks a thread, if something is due. */
static void look_if_due(struct usched *s)
{
	if (sim__run.r_now >= sim__run.r_due)
		s->s_turn = 0;
}

static struct ustack *next(struct usched *s)
{
	look_if_due(s);
	return uproc_next(uproc_from(s), pick);
}

static struct ustack *pick_next(struct usched *s, struct ustack *self)
{
	look_if_due(s);
	return uproc_wait(s, self, pick);
}

static const struct uproc_policy policy = {
	.y_size = sizeof(struct uproc),
	.y_next = next,
	.y_pick = pick_next,
};

/* ---- What the library asks ---- */

void sim__conform(struct uprocs_conf *conf, const struct uproc_policy **p)
{
	conf->c_embed = 1;
	conf->c_processors = 1;
	conf->c_stay = 1;
	conf->c_slice = conf->c_stall = 0;
	*p = &policy;
	if (!sim__run.r_strategy)
		sim_begin(&(struct sim_conf){ 0 });
}

/* With c_embed, other threads run only when this thread waits, so this thread takes the
   processor. */
bool sim__joins(const struct uprocs_conf *conf, struct uprocs **procs)
{
	struct sim_thread *self = sim__self();

	if (!self)
		return false;
	if (conf && conf->c_processors == 1) {
		sim__run.r_single = sim__here()->h_single = true;
		if (conf->c_embed)
			sim__here()->h_keeps = self;
	}
	*procs = sim__run.r_proc->p_procs;
	return true;
}

/* Waits for the end of all threads that belong to the scheduler. These are the plain
   threads other than the caller. */
int sim__leaves(int64_t deadline)
{
	const bool plain = sim__self()->t_plain;
	int before = ustack_shield(1), rc = before;

	if (plain)
		usync_group_done(&sim__run.r_plain);
	if (before >= 0)
		rc = usync_group_wait(&sim__run.r_plain, deadline);
	usync_group_add(&sim__run.r_plain, plain);
	ustack_shield(before > 0);
	return rc;
}

void sim__posix_starts(void)
{
	sim__run.r_posix = true;
}

void sim__started(struct uproc_thread *t)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *self = sim__self(), *new = sim__memory(sizeof *new);

	note_progress();
	*new = (struct sim_thread){
		.t_thread = t, .t_number = r->r_started++, .t_plain = !r->r_posix,
		.t_host = sim__host(), .t_born = r->r_steps, .t_ran = r->r_steps,
	};
	LIST_INSERT_HEAD(&r->r_threads, new, t_of_run);
	uproc_rest(t)->re_sim = new;
	r->r_posix = false;
	usync_group_add(&r->r_plain, new->t_plain);
	r->r_live++;
	r->r_proc = uproc_at(uproc_of(&t->th_stack)->p_procs, 0);
	sim__inherit(new, self);
	sim__give_priority(new);
}

void sim__ended(struct uproc_thread *t)
{
	struct sim_run *r = &sim__run;
	struct sim_thread *old = sim__of(t);

	LIST_REMOVE(old, t_of_run);
	leave_processor(old);
	sim__leave_in(SIM_AT_END, old);
	if (r->r_running == old)
		r->r_running = NULL;
	uproc_rest(t)->re_sim = NULL;
	if (old->t_plain)
		usync_group_done(&r->r_plain);
	r->r_live--;
	note_progress();
	free(old);
	sim__look_for_living();
}

/* ---- The clock ---- */

int64_t sim__time(clockid_t clock)
{
	/* A native thread, such as one that jemalloc starts, may not move the clock. */
	if (sim__self())
		sim__run.r_now += READ_TIME;
	if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
		return sim__run.r_now;
	return sim__run.r_now + EPOCH + sim__run.r_jump + sim__here()->h_jump;
}

/* ---- The begin ---- */

void sim__begin(const struct sim_conf *conf, const struct sim_strategy *y)
{
	struct sim_run *r = &sim__run;
	uint64_t kind;

	*r = (struct sim_run){
		.r_conf = *conf, .r_strategy = y, .r_random = mixed(conf->c_seed + 1),
		.r_now = SIM_BOOTED, .r_calm = SIM_BOOTED, .r_hash = SEED,
		.r_outcome = r->r_outcome, .r_profile = r->r_profile,
		.r_learns = r->r_learns, .r_trace = r->r_trace,
	};
	r->r_conf.c_steps = conf->c_steps ? conf->c_steps : STEPS;
	r->r_conf.c_hang_ns = conf->c_hang_ns ? conf->c_hang_ns : TIME * SECOND;
	memset(names, 0, sizeof names);
	n_checks = 0;
	sim__begin_world(conf->c_seed);
	kind = sim__below(KINDS);
	r->r_hasty = kind == 0;
	r->r_near = kind == 1;
	sim__begin_strategy();
}

int sim_begin(const struct sim_conf *conf)
{
	if (uproc__schedulers)
		return -EBUSY;
	sim__begin(conf, &sim__mix);
	return 0;
}

int sim_create(const struct uprocs_conf *conf, struct uprocs **sim)
{
	return uprocs_create(conf, &policy, sim);
}

int sim_start(struct uprocs *sim, void (*func)(void *), void *arg, struct ustack **thread)
{
	return uproc_start(uprocs_place(sim, NULL), NULL, func, arg, thread);
}

int sim_start_with(struct uprocs *sim, const struct ustack_how *how, void (*func)(void *),
		   void *arg, struct ustack **thread)
{
	return uproc_start(uprocs_place(sim, how), how, func, arg, thread);
}
