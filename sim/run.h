/* SPDX-License-Identifier: MIT */
/*
 * run.h: what the files of a simulation share; doc/map.md lists them. Private. A process
 * has one run, on one native thread, so nothing is locked.
 */
#ifndef USCHED_SIM_RUN_H
#define USCHED_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <unistd.h>

#include "../src/base/sim.h"
#include "sim.h"
#include "../uproc.h"
#include "../usync.h"

#define SIM_BOOTED INT64_C(1000000000000)       /* ns: r_now when a run begins */

/* An operation is what a thread does in its next step. */
struct sim_op {
	uintptr_t     o_object;         /* the object; 0 stands for every object */
	uintptr_t     o_place;          /* address in the code, for reports */
	uintptr_t     o_key;            /* equal keys have one priority in "site" */
	const char   *o_name;           /* name of the operation, for reports */
	enum sim_kind o_kind;
	unsigned char o_how;            /* SIM_YIELDS, SIM_LOCKS, SIM_UNLOCKS, or 0 */
};

enum {
	SIM_YIELDS = 1,                 /* the operation lets other threads go first */
	SIM_LOCKS  = 2,                 /* o_object is a mutex: a pointer to the owner */
	SIM_UNLOCKS = 4,
};

struct sim_thread {
	struct uproc_thread *t_thread;
	LIST_ENTRY(sim_thread) t_of_run;        /* in r_threads */
	struct sim_op        t_op;
	uint64_t             t_priority;        /* of the strategy */
	uint64_t             t_second;  /* SITE: between equals; POS: at the last step */
	uint32_t             t_number;  /* from 0 on, in the order of starts */
	uint32_t             t_steps;   /* steps that the thread has begun */
	uint32_t             t_spins;   /* how many times in a row the thread has spun */
	struct sim_host     *t_host;    /* or NULL */
	bool                 t_dead;    /* the host has crashed: the thread never runs */
	bool                 t_plain;   /* no call of POSIX has started the thread */
	bool                 t_ordered; /* the last call was of usync.h: sim__woken() */
	uint64_t             t_ran;     /* r_steps at the thread's last step, or start */
	uint32_t             t_ticks;   /* waits since r_calm ended by the own timer */
	uint64_t             t_born;    /* r_steps when the thread was started */
	uint64_t             t_ordered_uses;    /* uses that were no races */
	uintptr_t            t_from[2]; /* objects to take from, after the call, or 0 */
};

/*
 * A choice that was not the usual one: the running thread or, if that waits or yields,
 * the first thread in the queue; and among numbers 0. A choice among threads is
 * identified by the thread that made the last step, and how many steps that thread had
 * made; a number by its name, the thread that chose, and how many choices of that name
 * the thread had made. So if some choices are removed, the others keep their meaning.
 */
struct sim_choice {
	uint32_t c_by;                  /* number of the thread, or SIM_NAMED and a hash
					   of the name and the thread's number */
	uint32_t c_when;                /* number of the step, or of the choice */
	uint64_t c_what;                /* the chosen number, or the thread's number */
};

#define SIM_NAMED (UINT32_C(1) << 31)

/* How a run has ended. */
enum sim_end {
	SIM_GOES_ON, SIM_PASSED, SIM_REDUNDANT, SIM_FAILED, SIM_DEADLOCK, SIM_ENDLESS
};

enum {
	SIM_CHOICES  = 1 << 18,         /* the most choices that a run records */
	SIM_OBJECTS  = 1 << 15,         /* the most objects in a profile */
	SIM_RACES    = 16,              /* the most races that a run notes */
	SIM_INDEX    = 2 * SIM_OBJECTS,
	SIM_MESSAGE  = 512,
	SIM_BETWEEN  = 64,              /* the most faults between hosts at a time */
	SIM_PLACE    = 160,             /* length of the name of a place */
};

/* A use of memory. */
struct sim_use {
	uintptr_t u_place;              /* address in the code */
	uint32_t  u_clock;              /* the thread's own clock; 0: no use */
	uint32_t  u_step;
	uint16_t  u_thread;
	bool      u_writes;
	uint8_t   u_bytes;              /* of the location, a set */
};

/* Two uses that nothing orders: each twice the place, plus 1 if the use writes. */
struct sim_race {
	uintptr_t a_use, a_other;
};

struct sim_races {
	unsigned        s_count;
	struct sim_race s_race[SIM_RACES];
};

/* The outcome of a run, in memory that the process of the run shares with its parent. */
struct sim_outcome {
	enum sim_end      u_end;
	uint64_t          u_hash;
	uint64_t          u_seed;       /* with sim__depth, the seed of all but choices */
	uint64_t          u_steps;
	uint64_t          u_noted;      /* choices; u_choices has the first SIM_CHOICES */
	char              u_message[SIM_MESSAGE];
	struct sim_races  u_races;
	struct sim_choice u_choices[SIM_CHOICES];
};

/*
 * An object of the program. If several threads use an object, at least one of them writes
 * to the object, and nothing orders two uses, each use is a step.
 */
struct sim_object {
	uintptr_t b_object;
	uint32_t  b_first;              /* number of the first thread that uses this */
	bool      b_shared;             /* another thread has used the object */
	bool      b_written;            /* a thread has written to the object */
	bool      b_races;              /* nothing orders two uses */
	bool      b_named;              /* a race is noted, or uses are atomic */
	struct sim_use b_uses[3];       /* the last write, and two reads */
};

/*
 * An entry of a table of values, which are 0 at first, by keys that are not 0. A table
 * has one more entry after the others: that of all keys that come when half of the others
 * are used. Its e_key is how many are.
 */
struct sim_entry {
	uint64_t e_key, e_value;
};

/*
 * What the first runs have found out about the program. The very first one is in order:
 * each thread runs until its end or its next wait, in the order of starts.
 */
struct sim_profile {
	uint32_t          p_used;       /* number of objects */
	struct sim_object p_object[SIM_OBJECTS + 1];    /* from 1 on, by first uses */
	struct sim_entry  p_index[SIM_INDEX + 1];       /* indices of p_object */
	bool              p_calls;      /* instructions outside libc made system calls */
};

/* An event is a step, a fault, or a chosen number. */
struct sim_event {
	struct sim_op e_op;
	uint64_t      e_step;
	const struct sim_host *e_host;  /* of the thread, or which a fault strikes */
	uint32_t      e_number;         /* number of the thread, or SIM_NAMED */
	bool          e_chosen;
};

struct sim_strategy;

struct sim_run {
	struct sim_conf            r_conf;      /* with defaults in place of zeros */
	const struct sim_strategy *r_strategy;  /* or NULL before the first run */
	uint64_t                   r_random;
	int64_t                    r_now;       /* CLOCK_MONOTONIC, in ns */
	int64_t                    r_calm;      /* time of the last progress, for hangs */
	uint64_t                   r_jumped;    /* r_steps when the clock jumped last */
	int64_t                    r_jump;      /* ns by which CLOCK_REALTIME is ahead */
	uint64_t                   r_steps;
	uint64_t                   r_hash;
	uint32_t                   r_started;
	uint32_t                   r_live;
	uint32_t                   r_dead;      /* live threads on hosts that crashed */
	uint32_t                   r_plans;     /* live threads that wait for faults */
	struct usync_group         r_plain;     /* live threads with t_plain */
	LIST_HEAD(, sim_thread)    r_threads;   /* live threads, newest first */
	struct sim_thread         *r_running;   /* thread of the last step; NULL: ended */
	uint32_t                   r_by;        /* number of that thread */
	uint32_t                   r_when;      /* number of steps of that thread */
	struct sim_thread         *r_next;      /* thread that was chosen for a step */
	size_t                     r_ready;     /* threads that may run, in front */
	bool                       r_single;    /* there may be a host with h_single */
	struct uproc              *r_proc;      /* the scheduler's only processor */
	uint64_t                   r_alone;     /* steps in a row by choice */
	int64_t                    r_due;       /* next look; 0: a descriptor is ready */
	struct sim_outcome        *r_outcome;   /* NULL: no process waits for this run */
	struct sim_profile        *r_profile;   /* the profile of the program */
	bool                       r_learns;    /* this run makes the profile */
	bool                       r_posix;     /* the next thread will not be t_plain */
	bool                       r_hasty;     /* some sleeps are short: sim__sleeps() */
	bool                       r_near;      /* latencies are short: sim__latency() */
	const struct sim_thread   *r_instead;   /* the usual thread, if not chosen last */
	uint64_t                   r_events;    /* number of steps and faults */
	uint64_t                   r_marked;    /* number of choices and faults */
	struct text               *r_trace;     /* trace of all events, or NULL */
	struct sim_fault           r_between[SIM_BETWEEN];      /* faults between hosts;
						   for_ns is the time of the end */
};

extern struct sim_run sim__run SIM_PRIVATE;

/* ---- sim.c ---- */

/* Both return a random number, the second one below n, where n is over 0. */
SIM_PRIVATE uint64_t sim__random(void);
SIM_PRIVATE uint64_t sim__below(uint64_t n);

SIM_PRIVATE void sim__begin(const struct sim_conf *conf, const struct sim_strategy *y);

/* Ends a step of the calling thread, if there is one. The thread's next step is `op'. */
SIM_PRIVATE void sim__step(struct sim_op op);

/* Lets other threads run, while a signal handler finds that the caller spins at `place',
   or computes for long. */
SIM_PRIVATE void sim__spin(uintptr_t place, bool computes);

/* Returns the calling thread, or NULL if the caller is not a thread of the simulation. */
SIM_PRIVATE struct sim_thread *sim__self(void);

/* Returns true once in n calls on average, where n is over 0: a choice named `what'. */
SIM_PRIVATE bool sim__rarely(const char *what, uint64_t n);

/* Returns whether the library itself makes the call at this address, which is no step. */
static inline bool sim__is_own(uintptr_t place)
{
	extern const char __ehdr_start[] SIM_PRIVATE, _etext[] SIM_PRIVATE; /* by ld(1) */

	return place >= (uintptr_t)__ehdr_start && place < (uintptr_t)_etext;
}

/* sim__enters is 1 while calls of POSIX are operations: sim/enter.c. */
extern unsigned char sim__enters SIM_PRIVATE;

/* The second one adds `value' to the hash of the run. */
SIM_PRIVATE uint64_t sim__hash(uint64_t hash, uint64_t value);
SIM_PRIVATE void sim__note(uint64_t value);

/* Writes to the outcome how the run has ended. sim__end() also calls sim__tell() if the
   run has failed, and ends the process. */
SIM_PRIVATE void sim__report(enum sim_end end, const char *message);
SIM_PRIVATE void sim__end(enum sim_end end, const char *message)
	__attribute__((noreturn));

/* Returns when the wait of a thread ends by itself. A time that is over, or USCHED_NEVER,
   is that of a wait without limit. */
SIM_PRIVATE int64_t sim__limit(const struct sim_thread *t);

/* Called when all threads wait, and nothing is under way. Ends the run if threads wait
   without limit, and for a long time only timers have ended the waits of the others. */
SIM_PRIVATE void sim__look_for_hang(void);

/* Called when a thread ends, or a host. Ends the run if all threads are of such hosts. */
SIM_PRIVATE void sim__look_for_living(void);

/* Returns whether two operations conflict, so that their order matters. */
static inline bool sim__conflict(const struct sim_op *a, const struct sim_op *b)
{
	if (a->o_kind == SIM_NOTHING || b->o_kind == SIM_NOTHING
	    || (a->o_kind == SIM_READS && b->o_kind == SIM_READS))
		return false;
	return a->o_object == b->o_object || a->o_object == 0 || b->o_object == 0;
}

static inline struct sim_thread *sim__of(const struct uproc_thread *t)
{
	return uproc_rest(t)->re_sim;
}

static inline struct sim_thread *sim__candidate(size_t i)
{
	struct uproc *p = sim__run.r_proc;

	return i < sim__run.r_ready
		? sim__of(p->p_queue[(p->p_head + i) & p->p_mask]) : sim__run.r_running;
}

/* Returns the thread that is the usual choice. */
static inline struct sim_thread *sim__usual(struct sim_thread *self)
{
	return self && !(self->t_op.o_how & SIM_YIELDS) ? self : sim__candidate(0);
}

/* ---- sim/serve.c ---- */

/* Forks a process for each run, and returns there. The caller's process reports results,
   and exits. */
SIM_PRIVATE void sim__serve(char **argv);

/* Returns memory, filled with zeros, that all runs share. */
SIM_PRIVATE void *sim__share(size_t size);

/* ---- sim/tell.c ---- */

/* Reports on standard error why and where the run fails, also in signal handlers. */
SIM_PRIVATE void sim__tell(const char *why);

/* Record an event, a fault, which may strike a host, and a chosen number. */
SIM_PRIVATE void sim__event(const struct sim_event *e);
SIM_PRIVATE void sim__note_fault(const char *what, const struct sim_host *host);
SIM_PRIVATE void sim__note_number(const char *what, uint64_t number);

/* Makes signals such as SIGSEGV report the run before they end the process. */
SIM_PRIVATE void sim__tell_signals(void);

/* Adds a line to r_trace, which must not be NULL: of a step, a fault, a message that is
   read, or one that is sent to host `to' and arrives at time `when'. */
SIM_PRIVATE void sim__trace(const char *event, const struct sim_event *e,
			    uint64_t message, const struct sim_host *to, int64_t when);

/* Copies the output of a run, in a process of its own. Writes places in a report as lines
   of the source, by addr2line(1). */
SIM_PRIVATE void sim__show(FILE *from, FILE *to);

/* Returns the lowest number for descriptors of the simulation itself. Programs have lower
   numbers, which are the same in a real run and in each job. */
static inline int sim__high(void)
{
	const long limit = sysconf(_SC_OPEN_MAX);

	return limit > 8192 ? 4000 : limit > 1000 ? 700 : (int)limit / 2;
}

/* Writes the name of a place in the code, after a word; nothing, if the place is 0. */
SIM_PRIVATE void sim__name_place(char to[SIM_PLACE], uintptr_t place);

/* ---- sim/strategy.c ---- */

/*
 * y_choose() returns the thread that makes the next step. The thread is one of n
 * candidates, sim__candidate(0) to sim__candidate(n - 1), where n is over 1. If the
 * running thread can go on, `self' is the running thread, and the last candidate;
 * otherwise `self' is NULL. y_ran(), or NULL, is called when `t' makes the next step.
 */
struct sim_strategy {
	struct sim_thread *(*y_choose)(size_t n, struct sim_thread *self);
	void     (*y_ran)(struct sim_thread *t);

	/* If runs depend on earlier ones, the parent of all runs calls: */
	void     (*y_prepare)(void);
	uint64_t (*y_recall)(uint64_t seed);            /* returns the seed of a run */
	bool     (*y_passed)(const struct sim_outcome *u);      /* false: that is all */
};

extern const struct sim_strategy
	sim__in_order, sim__replay, sim__mix, sim__all, sim__depth SIM_PRIVATE;

/* Called when a run begins, and when a thread begins. */
SIM_PRIVATE void sim__begin_strategy(void);
SIM_PRIVATE void sim__give_priority(struct sim_thread *t);

/* Returns whether choices are those of an earlier run. */
SIM_PRIVATE bool sim__repeats(void);

/* Gives sim__replay a list of n choices, which is not copied. */
SIM_PRIVATE void sim__replay_these(const struct sim_choice *choices, size_t n);

/* Returns the chosen number in that list, or 0. */
SIM_PRIVATE uint64_t sim__replayed(uint32_t by, uint32_t when);

/* Returns the entry of a key in a table of `size' entries, a power of 2, and one more. */
SIM_PRIVATE struct sim_entry *sim__entry(struct sim_entry *table, size_t size,
					 uint64_t key);

/* ---- sim/order.c ---- */

/* Returns a number below n, for a choice of the program. The runs try each number. */
SIM_PRIVATE uint64_t sim__ordered(uint64_t n);

/* ---- sim/access.c ---- */

/* True if the program was compiled with -fsanitize=thread. */
extern bool sim__traced SIM_PRIVATE;

/*
 * Returns the key of a call: the address, if the program is traced; otherwise of the name
 * and the object. Then a seed gives the same run even if a compiler copies a call.
 */
static inline uintptr_t sim__key(const char *name, uintptr_t object, uintptr_t place)
{
	return sim__traced ? place : (uintptr_t)name + object * 31;
}

/* Records a use of memory. Returns whether the use is a step: see struct sim_object.
   If the place is 0, the object orders threads, and each use is a step. */
SIM_PRIVATE bool sim__uses(uintptr_t at, size_t size, enum sim_kind kind,
			   uintptr_t place);

/* What threads without an object of their own leave, and take. */
enum { SIM_AT_END = 1, SIM_BY_MESSAGE };

/* Leave what thread `t' knows in an object, take what t_from says, and give a new thread
   what the parent knows. */
SIM_PRIVATE void sim__leave_in(uintptr_t object, const struct sim_thread *t);
SIM_PRIVATE void sim__settle(struct sim_thread *t);
SIM_PRIVATE void sim__inherit(const struct sim_thread *new, struct sim_thread *parent);

SIM_PRIVATE void sim__add_race(struct sim_races *all, struct sim_race race);

/* Adds what one of the first runs has found out to the profile of later runs. */
SIM_PRIVATE void sim__learned(struct sim_profile *first);
extern struct sim_profile sim__profile SIM_PRIVATE;

/* Makes the free() of a block at `place' an access to all of the block. */
SIM_PRIVATE void sim__frees(uintptr_t at, size_t size, uintptr_t place);

/* ---- sim/heap.c ---- */

/* Gives a program that was compiled with -fsanitize=thread a heap of the simulation. */
SIM_PRIVATE void sim__begin_heap(void);

/* Fails the run if a range of memory is in the heap, but not in a block that the program
   has. `does' says what the program does at `place'. */
SIM_PRIVATE void sim__check_heap(uintptr_t at, size_t size, const char *does,
				 uintptr_t place);

/* Returns r_steps when the block at an address was made, or 0 if there is no block. */
SIM_PRIVATE uint32_t sim__born(uintptr_t at);

#endif /* USCHED_SIM_RUN_H */
