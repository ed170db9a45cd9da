/* SPDX-License-Identifier: MIT */
/*
 * run.h: what the files of a simulation share. Private.
 *
 *	sim.c              the scheduler: threads, steps, the clock, the hash
 *	sim/strategy.c     which thread makes the next step
 *	sim/order.c        all orders of a small program: the strategy "all"
 *	sim/serve.c        runs of a whole program, a process each, and what they share
 *	sim/enter.c        calls of POSIX as operations, and main() as a thread
 *	sim/world.h        the world, and which files it has
 *	sim/tell.c         what is said of a run that fails
 *	sim/access.c       accesses to memory as operations
 *
 * A process has one run. It is on one native thread, so nothing is locked.
 */
#ifndef USCHED_SIM_RUN_H
#define USCHED_SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../src/base/sim.h"
#include "sim.h"
#include "../uproc.h"

/* What a thread does next. */
struct sim_op {
	uintptr_t     o_object;         /* 0: anything */
	uintptr_t     o_place;          /* in the program, for reports */
	uintptr_t     o_key;            /* the same for operations that are alike */
	const char   *o_name;           /* for reports */
	enum sim_kind o_kind;
	unsigned char o_how;            /* SIM_YIELDS, SIM_LOCKS */
};

enum {
	SIM_YIELDS = 1,                 /* it lets others go first */
	SIM_LOCKS  = 2,                 /* it waits while another thread has the object,
					   which begins with the owner's name */
};


/*
 * The processor of a scheduler that has one, on a host. Its threads switch where they
 * wait. At the steps between, other threads may run, and not those of the scheduler.
 */
struct sim_processor {
	bool               c_single;    /* there is such a scheduler */
	struct sim_thread *c_busy;      /* has begun, and not waited since; or NULL */
};

struct sim_thread {
	struct uproc_thread *t_thread;
	struct sim_thread   *t_next;    /* of those that have not ended, newest first */
	struct sim_thread   *t_prev;
	struct sim_op        t_op;
	uint64_t             t_priority;        /* the strategy's */
	uint64_t             t_second;          /* likewise */
	uint32_t             t_number;  /* from 0 on, in the order of their starts */
	uint32_t             t_parent;  /* the number of the thread that started it */
	uint32_t             t_steps;   /* that it has begun */
	struct sim_host     *t_host;    /* or NULL */
	bool                 t_dead;    /* its host has crashed: it never runs again */
	bool                 t_plain;   /* it was not started by a call of POSIX */
	uint64_t             t_ran;     /* the run's steps at the last of them */
	bool                 t_ordered; /* its last call is of usync.h, which promises the
					   order of those that it wakes */
};

/*
 * A choice that was not the usual one: in which the running thread goes on, or of those
 * that can run the first in the queue does; of numbers it is 0. It is known by the thread
 * of the last step and its steps, or by a name of the choice and how many had it before,
 * so a list of choices without some of them still means something.
 */
struct sim_choice {
	uint32_t c_by;                 /* a thread's number, or a hash | SIM_NAMED */
	uint32_t c_when;
	uint64_t c_what;
};

#define SIM_NAMED (UINT32_C(1) << 31)

/* How a run has ended. */
enum sim_end {
	SIM_GOES_ON, SIM_PASSED, SIM_REDUNDANT, SIM_FAILED, SIM_DEADLOCK, SIM_ENDLESS
};

enum {
	SIM_CHOICES  = 1 << 18,         /* noted of a run */
	SIM_OBJECTS  = 1 << 12,         /* known of a program */
	SIM_INDEX    = 2 * SIM_OBJECTS,
	SIM_THREADS  = 1 << 9,          /* counted in it */
	SIM_MESSAGE  = 512,
};

/* What a run tells the process that has begun it. In memory that they share. */
struct sim_outcome {
	enum sim_end      u_end;
	uint64_t          u_hash;
	uint64_t          u_steps;
	uint64_t          u_noted;      /* may be more than SIM_CHOICES */
	char              u_message[SIM_MESSAGE];
	struct sim_choice u_choices[SIM_CHOICES];
};

/* A use of it is a step if several threads use it and at least one of them writes. */
struct sim_object {
	uintptr_t b_object;
	uint32_t  b_first;              /* the thread that used it first */
	bool      b_shared;             /* there was another, */
	bool      b_written;            /* and a write */
};

/*
 * What the first run has found out about the program. In it threads run in their order,
 * one to its end, or to where it blocks.
 */
struct sim_profile {
	uint64_t          p_steps;
	uint32_t          p_threads;
	uint32_t          p_shared;     /* the first so many of p_object are steps */
	uint32_t          p_used;       /* of p_object, in the order of the first uses */
	uint32_t          p_parent[SIM_THREADS];
	struct sim_object p_object[SIM_OBJECTS];
	uint16_t          p_index[SIM_INDEX];   /* by a hash: numbers, plus 1 */
	uint16_t        (*p_count)[SIM_THREADS];        /* of objects: steps of threads */
};

/* A step, or a fault: then e_host is what it strikes, or NULL. */
struct sim_event {
	struct sim_op e_op;
	uint64_t      e_step;
	const struct sim_host *e_host;  /* or NULL */
	uint32_t      e_number;         /* of the thread; SIM_NAMED: a fault */
	bool          e_chosen;
};

struct sim_strategy;

struct sim_run {
	struct sim_conf            r_conf;      /* without zeros */
	const struct sim_strategy *r_strategy;  /* NULL: no run has begun */
	uint64_t                   r_random;
	int64_t                    r_now;       /* ns, monotonic; at first: */
	int64_t                    r_began;
	int64_t                    r_jump;      /* ns, of the clock of the day */
	uint64_t                   r_steps;
	uint64_t                   r_hash;
	uint32_t                   r_started;
	uint32_t                   r_live;
	uint32_t                   r_dead;      /* of them */
	uint32_t                   r_plain;     /* of the others, those not of POSIX */
	struct sim_thread         *r_threads;
	struct sim_thread         *r_running;   /* made the last step; NULL: has ended */
	uint32_t                   r_by;       /* its number, */
	uint32_t                   r_when;      /* and its steps */
	struct sim_thread         *r_next;      /* is chosen already */
	size_t                     r_ready;     /* threads in the queue that may run */
	unsigned                   r_busy;      /* processors with c_busy */
	struct sim_processor       r_processor; /* of threads that are on no host */
	struct uwaiter            *r_leaver;    /* waits for the end of all others */
	struct uproc              *r_proc;      /* the processor */
	uint64_t                   r_fair;      /* steps when fairness chose last */
	uint64_t                   r_alone;     /* steps of it in a row, while others
						   could have made them */
	uint64_t                   r_in_row;    /* steps without a switch */
	struct sim_outcome        *r_outcome;   /* NULL: no other process waits for it */
	struct sim_profile        *r_profile;   /* what is known, */
	bool                       r_learns;    /* and it is being found out */
	bool                       r_posix;     /* the next thread is one of POSIX */
	bool                       r_hasty;     /* see sim__sleeps() */
	bool                       r_chose;     /* the next step is no usual one */
	uint64_t                   r_events;    /* steps and faults */
	struct text               *r_trace;     /* of all events, or NULL */
};

extern struct sim_run sim__run SIM_PRIVATE;

/* ---- sim.c ---- */

/* Returns a random number, and one below n, which is over 0. */
SIM_PRIVATE uint64_t sim__random(void);
SIM_PRIVATE uint64_t sim__below(uint64_t n);

/* Begins a run with this strategy. */
SIM_PRIVATE void sim__begin(const struct sim_conf *conf, const struct sim_strategy *y);

/* Ends a step of the calling thread, which will do this. Not in a thread: nothing. */
SIM_PRIVATE void sim__step(struct sim_op op);

/* Returns the calling thread, or NULL. */
SIM_PRIVATE struct sim_thread *sim__self(void);

/* Returns whether a thing happens that happens once in n times, which is over 0. */
SIM_PRIVATE bool sim__rarely(const char *what, uint64_t n);

/* 1: calls of POSIX are operations: sim/enter.c. */
extern unsigned char sim__enters SIM_PRIVATE;

/* Returns a hash with a value added, and adds one to that of the run. */
SIM_PRIVATE uint64_t sim__hash(uint64_t hash, uint64_t value);
SIM_PRIVATE void sim__note(uint64_t value);

/* Has the outcome of the run say how it has ended. */
SIM_PRIVATE void sim__report(enum sim_end end, const char *message);

/* Ends the run: with what it has done on the standard error, unless it is passed. */
SIM_PRIVATE void sim__end(enum sim_end end, const char *message)
	__attribute__((noreturn));

/* Threads are fewer: perhaps those that are left are of hosts that have crashed, or the
   last one waits for the end of all others. */
SIM_PRIVATE void sim__look_for_living(void);

/* Returns whether two operations cannot change places. */
static inline bool sim__conflict(const struct sim_op *a, const struct sim_op *b)
{
	if (a->o_kind == SIM_NOTHING || b->o_kind == SIM_NOTHING
	    || (a->o_kind == SIM_READS && b->o_kind == SIM_READS))
		return false;
	return a->o_object == b->o_object || a->o_object == 0 || b->o_object == 0;
}

/* ---- sim/serve.c ---- */

/* Returns whether the environment asks for runs of a whole program. */
SIM_PRIVATE bool sim__is_wanted(void);

/*
 * Begins a process for each run, and returns in each. The process that has called it
 * tells what came of them, and ends.
 */
SIM_PRIVATE void sim__serve(char **argv);

/* ---- sim/tell.c ---- */

/* Tells on the standard error why and where the run fails. From anywhere. */
SIM_PRIVATE void sim__tell(const char *why);

/* Notes a step or a fault; a fault, by `host', what it strikes, or NULL. */
SIM_PRIVATE void sim__event(const struct sim_event *e);
SIM_PRIVATE void sim__note_fault(const char *what, const struct sim_host *host);

/* Has signals that end the process of a run tell first. */
SIM_PRIVATE void sim__tell_signals(void);

/*
 * Adds a line to the trace, which must not be NULL: a step, a fault, a message that is
 * sent to that host and is there at `when', or one that is read.
 */
SIM_PRIVATE void sim__trace(const char *event, const struct sim_event *e,
			    uint64_t message, const struct sim_host *to, int64_t when);

/*
 * Returns the first number for descriptors of the simulation: the program's are below, as
 * they would be, and in each job the same.
 */
static inline int sim__high(void)
{
	return sysconf(_SC_OPEN_MAX) > 8192 ? 4000 : 700;
}

/* ---- sim/strategy.c ---- */

/*
 * Chooses of the n threads that can make the next step: sim__candidate(i). The last is
 * the running one, which `self' is then; else that is NULL. n is over 1.
 */
struct sim_strategy {
	const char *y_name;
	unsigned    y_bound;                            /* c_bound */
	void   (*y_begin)(void);                        /* NULL: nothing to do */
	void   (*y_started)(struct sim_thread *t);
	struct sim_thread *(*y_choose)(size_t n, struct sim_thread *self);
	void   (*y_ran)(struct sim_thread *t);          /* t makes the step */
};

/* Returns the strategy of that name, or NULL. */
SIM_PRIVATE const struct sim_strategy *sim__strategy(const char *name);

extern const struct sim_strategy sim__in_order, sim__replay, sim__all SIM_PRIVATE;

/* ---- sim/order.c ---- */

/* The path of the last run of sim__all, in memory that all runs share: zeros at first. */
struct sim_order;
SIM_PRIVATE size_t sim__order_size(void);
SIM_PRIVATE void   sim__use_order(struct sim_order *shared);

/* Returns a number below n, for sim__choose(): each in turn. */
SIM_PRIVATE uint64_t sim__ordered(uint64_t n);

/* After a run: prepares the next one. False: there is none. */
SIM_PRIVATE bool sim__next_order(void);

/* ---- sim/strategy.c ---- */

/* Has sim__replay make these choices, without n from one on; they stay the caller's. */
SIM_PRIVATE void sim__replay_these(const struct sim_choice *choices, size_t all,
				   size_t from, size_t n);

/* Returns the value for a choice of a number in a replay. */
SIM_PRIVATE uint64_t sim__replayed(uint32_t by, uint32_t when);

/* ---- sim.c ---- */

static inline struct sim_thread *sim__of(const struct uproc_thread *t)
{
	return uproc_rest(t)->t_sim;
}

static inline struct sim_thread *sim__candidate(size_t i)
{
	struct uproc *p = sim__run.r_proc;

	return i < sim__run.r_ready
		? sim__of(p->p_queue[(p->p_head + i) & p->p_mask]) : sim__run.r_running;
}

/* Returns the usual choice. */
static inline struct sim_thread *sim__usual(struct sim_thread *self)
{
	return self ? self : sim__candidate(0);
}

/* ---- sim/access.c ---- */

/* The program was compiled with -fsanitize=thread. */
extern bool sim__traced SIM_PRIVATE;

/*
 * Returns the key of a call: its place, if the program was compiled with
 * -fsanitize=thread. Else a seed has to give the same run with any compiler, and these
 * make several places of one in the source: what the call does to which object.
 */
static inline uintptr_t sim__key(const char *name, uintptr_t object, uintptr_t place)
{
	return sim__traced ? place : (uintptr_t)name + object * 31;
}

/* Notes a use of an object. Returns whether it is a step: others use the object, too. */
SIM_PRIVATE bool sim__uses(uintptr_t object, enum sim_kind kind);

/* The profile of later runs, and their own: what is shared of that of the first run. */
extern struct sim_profile sim__profile SIM_PRIVATE;
SIM_PRIVATE void sim__learned(const struct sim_profile *first, uint64_t steps);

#endif /* USCHED_SIM_RUN_H */
