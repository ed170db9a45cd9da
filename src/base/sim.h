/* SPDX-License-Identifier: MIT */
/*
 * sim.h: calls by which the library asks a simulation. Only libusched-sim, which is built
 * with -DUSCHED_SIM, makes them. Elsewhere SIMULATED is 0, and compilers leave them out.
 */
#ifndef USCHED_PRIVATE_SIM_H
#define USCHED_PRIVATE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
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

/* sim__time() returns the time in ns of a clock that the program reads, and sim__now()
   the time of the monotonic clock. */
SIM_PRIVATE int64_t sim__time(clockid_t clock);
SIM_PRIVATE int64_t sim__now(void);

/*
 * Moves the clock to the next event of the simulated world, but at most to `until'. An
 * event that is reached happens. Returns false if there is no event and `until' is
 * INT64_MAX.
 */
SIM_PRIVATE bool sim__pass(int64_t until);

/* sim__due() notes that a timer is due at time `when'. sim__looked() notes that a look
   for events has ended, and that the first timer that is left is due at time `when'. */
SIM_PRIVATE void sim__due(int64_t when);
SIM_PRIVATE void sim__looked(int64_t when);

/* As fcntl() with F_DUPFD_CLOEXEC, to a number above all those of the program. */
SIM_PRIVATE int sim__own(int fd);

/* Returns a number below n, which must be over 0. `what' names what is chosen. */
SIM_PRIVATE size_t sim__choose(const char *what, size_t n);

/*
 * Notes that a program has called a function of the library on an object, unless
 * `place', the return address, is in the library.
 */
SIM_PRIVATE void sim__called(const void *object, const char *call, const void *place);

/* Does the same for a call that may wait. The step comes when the call returns. */
SIM_PRIVATE void sim__waits(const char *call, const void *place);

/* Notes that the calling thread has made an object for which other threads wait. */
SIM_PRIVATE void sim__done(const void *object);

/* The first notes that a thread of the program yields, the second that a thread spins
   until another thread runs. */
SIM_PRIVATE void sim__yields(const void *place);
SIM_PRIVATE void sim__spins(const char *call);

/* Returns whether the running thread is to yield after many calls that need not wait.
   Where each call is a step, other threads run when the strategy chooses them. */
SIM_PRIVATE bool sim__tires(void);

/* Notes that a thread is about to sleep. The clock may reach `until' before any other
   thread runs, as if the other threads were slow. */
SIM_PRIVATE void sim__sleeps(int64_t until);

/* Returns which of the first n waiters in a queue is woken, since POSIX does not say. */
SIM_PRIVATE size_t sim__woken(size_t n);

/*
 * Called when a thread of a simulation makes a scheduler. Returns true if the simulation
 * serves as that scheduler. Then *procs is set, and uprocs_destroy() calls sim__leaves(),
 * which waits until all other threads have ended. `conf' may be NULL.
 */
SIM_PRIVATE bool sim__joins(const struct uprocs_conf *conf, struct uprocs **procs);
SIM_PRIVATE int  sim__leaves(int64_t deadline);

/* Changes the configuration and the policy of a new scheduler as a simulation needs. */
SIM_PRIVATE void sim__conform(struct uprocs_conf *conf,
			      const struct uproc_policy **policy);

/* Returns the signals of the set that are pending for the process. With `take' also
   removes these signals. */
SIM_PRIVATE uint64_t sim__signals(uint64_t set, bool take);

/* Notes that `copy', unless negative, is a copy of descriptor `fd'. Returns `copy'. */
SIM_PRIVATE int sim__copied(int fd, int copy);

/* Returns the number of the simulated process: the host. */
pid_t uposix_getpid(void);

/* Notes that the next thread to be started is a POSIX thread. */
SIM_PRIVATE void sim__posix_starts(void);

/* Notes that a thread is started, or has ended. */
SIM_PRIVATE void sim__started(struct uproc_thread *t);
SIM_PRIVATE void sim__ended(struct uproc_thread *t);

/* Returns whether the host of a thread has crashed: such a thread is no deadlock. */
SIM_PRIVATE bool sim__is_dead(const struct uproc_thread *t);

/* Called when no thread can run and no event will come. Does not return if this ends the
   run. */
SIM_PRIVATE void sim__stuck(void);

#endif /* USCHED_PRIVATE_SIM_H */
