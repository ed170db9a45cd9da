/* SPDX-License-Identifier: MIT */
/*
 * sim.h: a scheduler that repeats. A seed decides which thread runs next, what time it
 * is, and what the network does; the same seed gives the same run. The scheduler is in
 * libusched-sim only, which a program is linked with in place of libusched: rr_create()
 * and ll_create() make this scheduler there.
 *
 *	sim_begin(&(struct sim_conf){ .c_seed = 7 });
 *	sim_create(NULL, &sim);
 *	sim_start(sim, work, arg, &thread);
 *	ustack_join(thread, NULL, USCHED_NEVER);
 *	uprocs_destroy(sim, USCHED_NEVER);
 *	printf("%016" PRIx64 "\n", sim_hash());
 *
 * usched-run --sim runs a whole program under many seeds: usched-run(1). doc/testing.md
 * has the way from the first seed to a failure that repeats.
 *
 * A run is a sequence of steps. Before a step its thread has said what it does next: an
 * operation on an object, at a place in the program. The strategy chooses the thread that
 * makes the next step among all that can. Steps end where threads block, at calls of
 * usync.h, unet.h and POSIX, and at accesses to memory in code that was compiled with
 * -fsanitize=thread. Time stands still while threads compute: each step takes a
 * microsecond, and when no thread can run the clock jumps to the next timer.
 */
#ifndef USCHED_SIM_H
#define USCHED_SIM_H

#include <stdint.h>

#include "../uprocs.h"
#include "../ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Strategies, by name, with the bound that c_bound is for, and its default:
 *
 *   "mix"     the default: the seed takes one of "site", "surw" and "pos"
 *   "site"    each place in the program has a random priority, and with it all threads
 *             that are there; see sim/strategy.c
 *   "random"  any thread with the same probability
 *   "pct"     threads have random priorities, and c_bound - 1 (2) times the running one
 *             gets the lowest (Burckhardt and others: A randomized scheduler with
 *             probabilistic guarantees of finding bugs, 2010)
 *   "pos"     operations have random priorities, drawn again after a conflicting one
 *             (Yuan, Yang, Gu: Partial order aware concurrency sampling, 2018)
 *   "surw"    operations on one object, in an order that is uniformly random (Zhao and
 *             others: Selectively uniform concurrency testing, 2025)
 *   "delay"   threads run in the order of their numbers until they block, and c_bound (3)
 *             times the running one waits for all others (Emmi, Qadeer, Rakamaric:
 *             Delay-bounded scheduling, 2011)
 *   "all"     every order of conflicting operations once, by sleep sets (Godefroid:
 *             Partial-order methods for the verification of concurrent systems, 1996);
 *             for small programs, by usched-run --sim
 */
struct sim_conf {
	uint64_t    c_seed;
	const char *c_strategy;         /* NULL: "mix" */
	unsigned    c_bound;            /* 0: the default */
	uint64_t    c_steps;            /* the run fails after so many steps; 0: 10
					   million */
};

/*
 * Begins a run, with a new clock, new choices and a new hash. There must be no scheduler.
 * If the call is left out, the first scheduler begins a run with seed 0.
 * 0; -EINVAL: no such strategy, or "all"; -EBUSY: there is a scheduler.
 * From the main native thread. Does not switch.
 */
int sim_begin(const struct sim_conf *conf);

/*
 * Makes a scheduler with one processor, which runs on the native thread that joins or
 * calls uprocs_run() or uprocs_destroy(), inside that call, as if c_embed were set. In a
 * thread of a simulation, which main() is under usched-run --sim, *sim is the scheduler
 * of that thread. With c_processors 1 threads switch only where they wait; otherwise also
 * at calls of usync.h, as threads of several processors do.
 * What rr_create() returns.
 * From the main native thread. Does not switch.
 */
int sim_create(const struct uprocs_conf *conf, struct uprocs **sim);

/* As rr_start() and rr_start_with(). */
int sim_start(struct uprocs *sim, void (*func)(void *), void *arg,
	      struct ustack **thread);
int sim_start_with(struct uprocs *sim, const struct ustack_how *how, void (*func)(void *),
		   void *arg, struct ustack **thread);

/* What an operation does to its object. */
enum sim_kind {
	SIM_NOTHING,                    /* conflicts with nothing */
	SIM_READS,                      /* conflicts with writes */
	SIM_WRITES,                     /* conflicts with all uses of the object */
};

/*
 * Ends a step: the calling thread is about to do this to `object', an address or another
 * number that means the same to all threads; 0: to anything. Other threads may run first.
 * Outside of threads of a simulation this does nothing.
 */
void sim_point(uintptr_t object, enum sim_kind kind);

/*
 * Has check(arg) called after each step; check() may not block. The run fails when
 * check() returns a text, which says what is wrong, and goes on with NULL. Several checks
 * are called in turn.
 * 0; -ENOMEM.
 */
int sim_always(const char *(*check)(void *), void *arg);

/* Fails the run: the message is printed with the seed, and the process ends. */
void sim_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Returns a number below n, which is over 0, for a choice of the program: a test may let
 * a node fail, say. The choice is a part of the run, and shrinks to 0.
 */
uint64_t sim_choose(uint64_t n);

/*
 * Returns a hash of the run up to now: of the steps, and of what was written to standard
 * output and error. Neither addresses nor the compiler change the hash.
 */
uint64_t sim_hash(void);

/* Returns the number of steps up to now. */
uint64_t sim_steps(void);

/*
 * A host: a thread, all threads that it starts, and files. A host finds the real files of
 * this system, and what it writes is seen by no other host, until the run ends. In a
 * crash the threads end where they are; of the files there remains what was synced, with
 * some of what was not. Memory is not erased: static variables have their values when the
 * host starts again. Files and clocks are simulated where USCHED_SIM is set: usched-run
 * --sim.
 */
struct sim_host;

/*
 * Starts a host, on which func(arg) is called in a thread. When `func' returns, the host
 * stays. `address' is for the network, or NULL. The texts stay the caller's until the run
 * ends; the host lasts as long.
 * 0; -ENOMEM; -EPERM: the caller is not a thread of POSIX in a simulation.
 * Does not switch.
 */
int sim_host_start(const char *name, const char *address, void (*func)(void *arg),
		   void *arg, struct sim_host **host);

/*
 * Crashes a host. Memory and locks that threads of the host have are lost. From a thread
 * of that host the call does not return.
 * 0; -EALREADY: the host is down.
 */
int sim_host_crash(struct sim_host *host);

/*
 * Starts a host again that has crashed, by a call of its function.
 * 0; -ENOMEM; -EALREADY: the host is up.
 */
int sim_host_restart(struct sim_host *host);

/* What can happen to hosts. */
enum sim_fault_kind {
	SIM_CRASH,                      /* a crashes, and starts again after for_ns */
	SIM_PARTITION,                  /* a and b do not reach each other; with b
					   NULL, a reaches no host */
	SIM_RESET,                      /* connections between a and b are reset */
	SIM_SLOW,                       /* what a and b send each other is late */
	SIM_DISK_FULL,                  /* writes of a fail with ENOSPC */
	SIM_CLOCK,                      /* the clock of the day of a jumps by for_ns,
					   perhaps back; with a NULL, the clock of all */
};

struct sim_fault {
	enum sim_fault_kind kind;
	struct sim_host    *a;
	struct sim_host    *b;          /* or NULL */
	int64_t             for_ns;     /* 0: for ever */
};

/*
 * Plans a fault for `time', as usync_after() gives it. The fault comes then or later:
 * when a thread that has waited for that time makes its step, which the strategy chooses.
 * 0; -ENOMEM; -EPERM: as sim_host_start().
 * Does not switch.
 */
int sim_at(int64_t time, const struct sim_fault *fault);

/* Faults by chance: a member says once in how many times a fault comes; 0: never. */
struct sim_faults {
	unsigned f_crash;               /* steps of a host: the host crashes, */
	int64_t  f_down_ns;             /* and starts again within this time; 0: a
					   second */
	unsigned f_full;                /* writes: ENOSPC */
	unsigned f_short;               /* writes, also to sockets: fewer bytes are
					   written */
	unsigned f_sync_fails;          /* syncs: EIO. The next sync returns 0, without
					   what was written before and not again */
	unsigned f_sync_lies;           /* syncs: 0, but nothing is synced */
	unsigned f_open;                /* files opened, and other descriptors: EMFILE */
	unsigned f_no_memory;           /* descriptors other than files: ENOMEM; sockets:
					   ENOBUFS */
	unsigned f_clock;               /* looks at the clock of the day: a jump by up
					   to 100 seconds */

	/* Faults of what is sent over the network: AF_INET and AF_INET6. */
	unsigned f_loss;                /* packets: lost */
	unsigned f_duplicate;           /* packets: arrive twice */
	unsigned f_no_buffer;           /* packets: ENOBUFS */
	unsigned f_reset;               /* pieces of a stream: reset of the connection */
	unsigned f_no_answer;           /* connections: ETIMEDOUT, after 127 seconds */
	unsigned f_slow;                /* connections: 100 times slower */
	unsigned f_partition;           /* pieces and packets: nothing passes between
					   the two hosts for 1 to 10 seconds */

	/* How long sending takes; 0: the defaults here. */
	int64_t  f_latency_ns;          /* least: 50 us */
	int64_t  f_latency_most_ns;     /* most: 500 us, except for one in a hundred, */
	int64_t  f_latency_rare_ns;     /* which takes up to 50 ms */
	int64_t  f_bandwidth;           /* bytes a second: 125 million */
};

/* Sets which faults come from now on, on all hosts. */
void sim_faults(const struct sim_faults *faults);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SIM_H */
