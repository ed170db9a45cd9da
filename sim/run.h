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
 * A process has one run, on one native thread, so nothing is locked.
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

/* An operation: what a thread does in its next step. */
struct sim_op {
	uintptr_t     o_object;         /* 0: any object */
	uintptr_t     o_place;          /* address in the program, for reports */
	uintptr_t     o_key;            /* equal for operations that are alike */
	const char   *o_name;           /* for reports */
	enum sim_kind o_kind;
	unsigned char o_how;            /* SIM_YIELDS, SIM_LOCKS */
};

enum {
	SIM_YIELDS = 1,                 /* the operation lets other threads go first */
	SIM_LOCKS  = 2,                 /* it waits while another thread has the
					   object, which begins with the name of its
					   owner */
};


/*
 * The processor of a scheduler that was asked for with one processor, on a host. Its
 * threads switch only where they wait: between two waits of a thread, threads of other
 * schedulers may run.
 */
struct sim_processor {
	bool               c_single;    /* such a scheduler exists */
	struct sim_thread *c_busy;      /* the thread that runs and has not waited; or
					   NULL */
};

struct sim_thread {
	struct uproc_thread *t_thread;
	struct sim_thread   *t_next;    /* list of threads that have not ended, newest
					   first */
	struct sim_thread   *t_prev;
	struct sim_op        t_op;
	uint64_t             t_priority;        /* for the strategy */
	uint64_t             t_second;          /* for the strategy */
	uint32_t             t_number;  /* from 0 on, in the order of starts */
	uint32_t             t_parent;  /* number of the thread that started this one */
	uint32_t             t_steps;   /* steps that the thread has begun */
	struct sim_host     *t_host;    /* NULL: on no host */
	bool                 t_dead;    /* the host has crashed, so the thread never
					   runs again */
	bool                 t_plain;   /* not started by a call of POSIX */
	uint64_t             t_ran;     /* steps of the run at the thread's last step */
	bool                 t_ordered; /* the last call is of usync.h, which promises
					   in which order threads wake */
};

/*
 * A choice that was not the usual one. The usual choice of a thread is the running one,
 * or else the first in the queue; of a number, 0. A choice is identified by the thread of
 * the last step and how many steps that has made, or by the name of the choice and how
 * often that was made. So a list of choices still means something when some are taken
 * out.
 */
struct sim_choice {
	uint32_t c_by;                 /* number of a thread, or a hash | SIM_NAMED */
	uint32_t c_when;
	uint64_t c_what;
};

#define SIM_NAMED (UINT32_C(1) << 31)

/* How a run has ended. */
enum sim_end {
	SIM_GOES_ON, SIM_PASSED, SIM_REDUNDANT, SIM_FAILED, SIM_DEADLOCK, SIM_ENDLESS
};

enum {
	SIM_CHOICES  = 1 << 18,         /* noted for a run, at most */
	SIM_OBJECTS  = 1 << 12,         /* known of a program, at most */
	SIM_INDEX    = 2 * SIM_OBJECTS,
	SIM_THREADS  = 1 << 9,          /* counted for an object, at most */
	SIM_MESSAGE  = 512,
};

/* What a run tells the process that began it, in memory that both share. */
struct sim_outcome {
	enum sim_end      u_end;
	uint64_t          u_hash;
	uint64_t          u_steps;
	uint64_t          u_noted;      /* choices; may be over SIM_CHOICES */
	char              u_message[SIM_MESSAGE];
	struct sim_choice u_choices[SIM_CHOICES];
};

/*
 * An object of the program. A use is a step if several threads use the object, and at
 * least one of them writes.
 */
struct sim_object {
	uintptr_t b_object;
	uint32_t  b_first;              /* the first thread to use the object */
	bool      b_shared;             /* another thread uses it */
	bool      b_written;            /* a thread writes to it */
};

/*
 * What the first run has found out about the program. In that run the threads run in the
 * order of their starts, each to its end or until it blocks.
 */
struct sim_profile {
	uint64_t          p_steps;
	uint32_t          p_threads;
	uint32_t          p_shared;     /* uses of the first p_shared of p_object are
					   steps */
	uint32_t          p_used;       /* number of p_object, in the order of first
					   uses */
	uint32_t          p_parent[SIM_THREADS];
	struct sim_object p_object[SIM_OBJECTS];
	uint16_t          p_index[SIM_INDEX];   /* hash table: numbers of objects, plus
						   1 */
	uint16_t        (*p_count)[SIM_THREADS];        /* for each object: steps of
							   each thread */
};

/*
 * An event: a step, or a fault. e_host is the host of the step, or the one that the fault
 * strikes.
 */
struct sim_event {
	struct sim_op e_op;
	uint64_t      e_step;
	const struct sim_host *e_host;  /* or NULL */
	uint32_t      e_number;         /* number of the thread; SIM_NAMED: a fault */
	bool          e_chosen;
};

struct sim_strategy;

struct sim_run {
	struct sim_conf            r_conf;      /* with defaults in place of zeros */
	const struct sim_strategy *r_strategy;  /* NULL: no run has begun */
	uint64_t                   r_random;
	int64_t                    r_now;       /* ns of the monotonic clock; at first
						   r_began */
	int64_t                    r_began;
	int64_t                    r_jump;      /* ns that the clock of the day is
						   ahead */
	uint64_t                   r_steps;
	uint64_t                   r_hash;
	uint32_t                   r_started;
	uint32_t                   r_live;
	uint32_t                   r_dead;      /* threads of crashed hosts, of r_live */
	uint32_t                   r_plain;     /* living threads that POSIX did not
						   start */
	struct sim_thread         *r_threads;
	struct sim_thread         *r_running;   /* the thread of the last step; NULL:
						   it has ended */
	uint32_t                   r_by;       /* number of that thread */
	uint32_t                   r_when;      /* and its steps */
	struct sim_thread         *r_next;      /* the thread chosen for the next step */
	size_t                     r_ready;     /* threads that may run: the first in
						   the queue */
	unsigned                   r_busy;      /* processors with c_busy */
	struct sim_processor       r_processor; /* for threads on no host */
	struct uwaiter            *r_leaver;    /* the thread that waits for the end of
						   all others */
	struct uproc              *r_proc;      /* the processor */
	uint64_t                   r_fair;      /* steps at the last choice by fairness */
	uint64_t                   r_alone;     /* steps in a row by r_running, while
						   other threads were ready */
	uint64_t                   r_in_row;    /* steps without a switch */
	struct sim_outcome        *r_outcome;   /* NULL: no process waits for the
						   outcome */
	struct sim_profile        *r_profile;   /* what is known of the program */
	bool                       r_learns;    /* this run finds it out */
	bool                       r_posix;     /* the next thread is one of POSIX */
	bool                       r_hasty;     /* some sleeps are short: sim__sleeps() */
	bool                       r_chose;     /* the next step is not the usual one */
	uint64_t                   r_events;    /* steps and faults */
	struct text               *r_trace;     /* trace of all events, or NULL */
};

extern struct sim_run sim__run SIM_PRIVATE;

/* ---- sim.c ---- */

/* Returns a random number, and one below n, which is over 0. */
SIM_PRIVATE uint64_t sim__random(void);
SIM_PRIVATE uint64_t sim__below(uint64_t n);

/* Begins a run with strategy `y'. */
SIM_PRIVATE void sim__begin(const struct sim_conf *conf, const struct sim_strategy *y);

/*
 * Ends a step of the calling thread, whose next step is `op'. Outside of threads: does
 * nothing.
 */
SIM_PRIVATE void sim__step(struct sim_op op);

/* Returns the calling thread, or NULL. */
SIM_PRIVATE struct sim_thread *sim__self(void);

/* Returns true once in n times, n over 0, as the strategy chooses. */
SIM_PRIVATE bool sim__rarely(const char *what, uint64_t n);

/* 1: calls of POSIX are operations: sim/enter.c. */
extern unsigned char sim__enters SIM_PRIVATE;

/*
 * sim__hash() returns a hash with a value added; sim__note() adds a value to the hash of
 * the run.
 */
SIM_PRIVATE uint64_t sim__hash(uint64_t hash, uint64_t value);
SIM_PRIVATE void sim__note(uint64_t value);

/* Writes to the outcome how the run has ended. */
SIM_PRIVATE void sim__report(enum sim_end end, const char *message);

/* Ends the run. Unless it has passed, reports threads and steps on standard error. */
SIM_PRIVATE void sim__end(enum sim_end end, const char *message)
	__attribute__((noreturn));

/*
 * Called when a thread has ended or died: perhaps only threads of crashed hosts are left,
 * or the last thread waits for the end of all others.
 */
SIM_PRIVATE void sim__look_for_living(void);

/* Returns whether two operations conflict: their order matters. */
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
 * Begins a process for each run, and returns in each. The process that called this
 * reports the results, and ends.
 */
SIM_PRIVATE void sim__serve(char **argv);

/* ---- sim/tell.c ---- */

/* Reports on standard error why and where the run fails. From anywhere. */
SIM_PRIVATE void sim__tell(const char *why);

/* Notes a step, or a fault; `host' is what the fault strikes, or NULL. */
SIM_PRIVATE void sim__event(const struct sim_event *e);
SIM_PRIVATE void sim__note_fault(const char *what, const struct sim_host *host);

/* Has signals that end the process of a run report first. */
SIM_PRIVATE void sim__tell_signals(void);

/*
 * Adds a line to the trace, which must not be NULL: a step, a fault, a message that is
 * sent to `host' and arrives at `when', or a message that is read.
 */
SIM_PRIVATE void sim__trace(const char *event, const struct sim_event *e,
			    uint64_t message, const struct sim_host *to, int64_t when);

/*
 * Returns the lowest number for descriptors of the simulation. The program's are below,
 * as in a real run, and the same in each job.
 */
static inline int sim__high(void)
{
	return sysconf(_SC_OPEN_MAX) > 8192 ? 4000 : 700;
}

/* ---- sim/strategy.c ---- */

/*
 * Chooses one of n threads, n over 1, for the next step: sim__candidate(i). If the
 * running thread is one of them, it is the last, and `self'; otherwise `self' is NULL.
 */
struct sim_strategy {
	const char *y_name;
	unsigned    y_bound;                            /* default of c_bound */
	void   (*y_begin)(void);                        /* NULL: nothing to do */
	void   (*y_started)(struct sim_thread *t);
	struct sim_thread *(*y_choose)(size_t n, struct sim_thread *self);
	void   (*y_ran)(struct sim_thread *t);          /* t makes the next step */
};

/* Returns the strategy of that name, or NULL. */
SIM_PRIVATE const struct sim_strategy *sim__strategy(const char *name);

extern const struct sim_strategy sim__in_order, sim__replay, sim__all SIM_PRIVATE;

/* ---- sim/order.c ---- */

/*
 * The path of the last run of sim__all, in memory that all runs share. Zeros are an empty
 * path.
 */
struct sim_order;
SIM_PRIVATE size_t sim__order_size(void);
SIM_PRIVATE void   sim__use_order(struct sim_order *shared);

/* Returns a number below n, for sim__choose(): the runs try each. */
SIM_PRIVATE uint64_t sim__ordered(uint64_t n);

/* Prepares the run after this one. False: all orders were tried. */
SIM_PRIVATE bool sim__next_order(void);

/* ---- sim/strategy.c ---- */

/*
 * Has sim__replay make these choices, except n of them from `from' on. The list stays the
 * caller's.
 */
SIM_PRIVATE void sim__replay_these(const struct sim_choice *choices, size_t all,
				   size_t from, size_t n);

/* Returns the number that a replay chooses here. */
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

/* True: the program was compiled with -fsanitize=thread. */
extern bool sim__traced SIM_PRIVATE;

/*
 * Returns the key of a call: the place, if the program was compiled with
 * -fsanitize=thread. Otherwise a seed must give the same run with any compiler, and
 * compilers make several places of one in the source; so the key is the call and its
 * object.
 */
static inline uintptr_t sim__key(const char *name, uintptr_t object, uintptr_t place)
{
	return sim__traced ? place : (uintptr_t)name + object * 31;
}

/*
 * Notes a use of an object. Returns whether the use is a step, since other threads use
 * the object.
 */
SIM_PRIVATE bool sim__uses(uintptr_t object, enum sim_kind kind);

/*
 * The profile of this run. sim__learned() begins it with the shared objects of the first
 * run.
 */
extern struct sim_profile sim__profile SIM_PRIVATE;
SIM_PRIVATE void sim__learned(const struct sim_profile *first, uint64_t steps);

#endif /* USCHED_SIM_RUN_H */
