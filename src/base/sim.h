/* SPDX-License-Identifier: MIT */
/*
 * sim.h: what the library asks a simulation, where it is built for one: libusched-sim,
 * with -DUSCHED_SIM. Elsewhere SIMULATED is 0, and compilers leave these calls out.
 */
#ifndef USCHED_PRIVATE_SIM_H
#define USCHED_PRIVATE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct uprocs_conf;
struct uproc_policy;
struct uproc_thread;
struct uprocs;

#ifdef USCHED_SIM
enum { SIMULATED = 1 };
#else
enum { SIMULATED = 0 };
#endif

#define SIM_PRIVATE __attribute__((visibility("hidden")))

/* Returns the time of a clock, in ns, to a program that looks; and the monotonic time. */
SIM_PRIVATE int64_t sim__time(clockid_t clock);
SIM_PRIVATE int64_t sim__now(void);

/*
 * The clock jumps to what comes next in the world, or to `until', and that happens.
 * False: nothing will come, and `until' is INT64_MAX.
 */
SIM_PRIVATE bool sim__pass(int64_t until);

/* Returns one of the numbers below n, which is over 0. `what' names the choice. */
SIM_PRIVATE size_t sim__choose(const char *what, size_t n);

/*
 * A program has called a function of the library on an object, unless `place', where it
 * returns to, is in the library.
 */
SIM_PRIVATE void sim__called(const void *object, const char *call, const void *place);

/* Likewise, of one that may wait: the step comes when it goes on. */
SIM_PRIVATE void sim__waits(const char *call, const void *place);

/* A thread of the program yields; it spins until another one goes on. */
SIM_PRIVATE void sim__yields(const void *place);
SIM_PRIVATE void sim__spins(const char *call);

/* A thread is about to sleep. The others may be so slow that it is over now. */
SIM_PRIVATE void sim__sleeps(int64_t until);

/* Returns which of the n first waiters in a queue is woken: POSIX does not say that. */
SIM_PRIVATE size_t sim__woken(size_t n);

/*
 * A thread of a simulation makes a scheduler. True: *procs is its own, and serves.
 * uprocs_destroy() of that waits for the end of all others. `conf' may be NULL.
 */
SIM_PRIVATE bool sim__joins(const struct uprocs_conf *conf, struct uprocs **procs);
SIM_PRIVATE int  sim__leaves(int64_t deadline);

/* A processor is made: what it is to be like in a simulation. */
SIM_PRIVATE void sim__conform(struct uprocs_conf *conf,
			      const struct uproc_policy **policy);

/* Returns signals of the set that are pending for the process; `take': no longer then. */
SIM_PRIVATE uint64_t sim__signals(uint64_t set, bool take);

/* The next thread that is started is one of POSIX. */
SIM_PRIVATE void sim__posix_starts(void);

/* A thread is started, or has ended. */
SIM_PRIVATE void sim__started(struct uproc_thread *t);
SIM_PRIVATE void sim__ended(struct uproc_thread *t);

/* Returns whether the host of a thread has crashed: it waits for nothing. */
SIM_PRIVATE bool sim__is_dead(const struct uproc_thread *t);

/* No thread can run, and nothing will come. It does not return, if that ends the run. */
SIM_PRIVATE void sim__stuck(void);

#endif /* USCHED_PRIVATE_SIM_H */
