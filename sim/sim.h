/* SPDX-License-Identifier: MIT */
/*
 * sim.h: a scheduler whose runs can be repeated. A seed decides which thread runs next,
 * what time it is, and what the network does; the same seed gives the same run. Only
 * libusched-sim has this scheduler. A program is linked with libusched-sim in place of
 * libusched; rr_create() and ll_create() then create this scheduler.
 *
 *	sim_begin(&(struct sim_conf){ .c_seed = 7 });
 *	sim_create(NULL, &sim);
 *	sim_start(sim, work, arg, &thread);
 *	ustack_join(thread, NULL, USCHED_NEVER);
 *	uprocs_destroy(sim, USCHED_NEVER);
 *	printf("%016" PRIx64 "\n", sim_hash());
 *
 * usched-run --sim runs a whole program under many seeds: usched-run(1). doc/testing.md
 * explains how to get from the first seed to a failure that repeats.
 *
 * A run is a sequence of steps. In each step a thread performs one operation on an
 * object, at a place in the program; the simulation knows the operation before the step
 * begins. Among all threads that can run, the strategy chooses the thread that makes the
 * next step. Steps end where threads block, at calls of usync.h, unet.h and POSIX, and at
 * accesses to memory in code that was compiled with -fsanitize=thread. Time stands still
 * while threads compute: each step takes a microsecond. When no thread can run, the clock
 * jumps to the next timer. A thread whose timer is due, or whose message has arrived, can
 * make the next step.
 */
#ifndef USCHED_SIM_H
#define USCHED_SIM_H

#include <stdint.h>

#include "../uprocs.h"
#include "../ustack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of a run. */
struct sim_conf {
	uint64_t c_seed;
	uint64_t c_steps;               /* the run fails after so many; 0: 10 million */
	int64_t  c_hang_ns;             /* under usched-run the run fails if threads hang
					   for so long on its clock; 0: a minute */
};

/*
 * Begins a run, with a new clock, new choices and a new hash. There must be no scheduler.
 * If the call is left out, the first scheduler begins a run with seed 0.
 * 0; -EBUSY: there is a scheduler.
 * From the main native thread. Does not switch.
 */
int sim_begin(const struct sim_conf *conf);

/*
 * Creates a scheduler with one processor. As if c_embed were set, threads run while the
 * native thread joins a thread, or is in uprocs_run() or uprocs_destroy(). If the caller
 * is a thread of a simulation, as main() is under usched-run --sim, *sim is the scheduler
 * of that thread. If c_processors is 1 then, threads switch only where they wait;
 * otherwise also at calls of usync.h, as if there were several processors.
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
 * Ends a step, because the calling thread of a simulation is about to do `kind' to
 * `object': an address, or another number that means the same to all threads; 0 stands
 * for all objects. Other threads may run first. Other callers: does nothing.
 */
void sim_point(uintptr_t object, enum sim_kind kind);

/*
 * Makes the run call check(arg) after each step; check() may not block. If the result is
 * a text, not NULL, the run fails, and the text says why. There can be several checks.
 * 0; -ENOMEM.
 */
int sim_always(const char *(*check)(void *), void *arg);

/* Fails the run: the message is printed with the seed, and the process ends. */
void sim_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

/*
 * Returns a number below n, where n is over 0. The strategy chooses the number, so that a
 * test can decide, say, whether a node fails. The choice belongs to the run; shrinking
 * tries to make the number 0.
 */
uint64_t sim_choose(uint64_t n);

/*
 * The first returns a hash of the run up to now: of its steps, its choices, and the times
 * when packets arrived, but not of addresses. The second returns the number of steps.
 */
uint64_t sim_hash(void);
uint64_t sim_steps(void);

/*
 * A host is a simulated machine: a thread, all threads which that thread starts, and
 * files. A host sees the real files of this system. What a host writes is not seen by
 * other hosts, and is gone when the run ends. In a crash the threads stop where they are,
 * and files keep what was synced, and some of what was not. Memory is not erased, so
 * static variables keep their values when the host starts again. Files and clocks are
 * simulated only under usched-run --sim, which sets USCHED_SIM.
 */
struct sim_host;

/*
 * Creates a host, which calls func(arg) in a thread, and exists until the run ends.
 * `address' is the host's address in the network, or NULL. `name' and `address' are not
 * copied, and must not change until the run ends.
 * 0; -ENOMEM; -EPERM: the caller is not a thread of a simulation.
 * Does not switch.
 */
int sim_host_start(const char *name, const char *address, void (*func)(void *arg),
		   void *arg, struct sim_host **host);

/*
 * Crashes a host. Memory of the host's threads is not freed, and their locks are not
 * unlocked. A thread of that host does not return from the call.
 * 0; -EALREADY: the host is down.
 */
int sim_host_crash(struct sim_host *host);

/*
 * Restarts a host that has crashed: `func' is called in a new thread.
 * 0; -ENOMEM; -EALREADY: the host is up.
 */
int sim_host_restart(struct sim_host *host);

/* What can happen to hosts. */
enum sim_fault_kind {
	SIM_CRASH,                      /* `a' crashes, and starts again after for_ns */
	SIM_PARTITION,                  /* `a' and `b' do not reach each other */
	SIM_RESET,                      /* connections between `a' and `b' are reset */
	SIM_SLOW,                       /* latency between `a' and `b' is 100-fold */
	SIM_DISK_FULL,                  /* writes by `a' fail with ENOSPC */
	SIM_CLOCK,                      /* CLOCK_REALTIME of `a', or all clocks if `a' is
					   NULL, jump by for_ns, which may be negative */
};

struct sim_fault {
	enum sim_fault_kind kind;
	struct sim_host    *a;
	struct sim_host    *b;          /* NULL: all hosts */
	int64_t             for_ns;     /* duration, or the jump; 0: it never ends */
};

/*
 * Plans a fault for `time', a deadline like the result of usync_after(). A thread of the
 * simulation sleeps until then, and causes the fault. The strategy chooses when that
 * thread runs, so the fault may come later. 0; -ENOMEM; -EPERM: as sim_host_start().
 * Does not switch.
 */
int sim_at(int64_t time, const struct sim_fault *fault);

/*
 * Faults by chance. If an unsigned member is n, one call or event in n has the fault, on
 * average; if the member is 0, no call or event has the fault.
 */
struct sim_faults {
	unsigned f_crash;               /* in a step of a thread, its host crashes */
	int64_t  f_down_ns;             /* a host is down for up to this; 0: a second */
	unsigned f_full;                /* a write fails with ENOSPC */
	unsigned f_short;               /* a write to a file or socket is only partial */
	unsigned f_sync_fails;          /* a sync fails with EIO; later ones leave out
					   what this one lost, until written again */
	unsigned f_sync_lies;           /* a sync returns 0, but nothing is synced */
	unsigned f_open;                /* a file or descriptor is not opened: EMFILE */
	unsigned f_no_memory;           /* a socket is not made: ENOBUFS; a pipe, epoll or
					   the like is not made: ENOMEM */
	unsigned f_clock;               /* CLOCK_REALTIME is read: jumps by up to 100 s */

	/* Faults of what is sent over the network: AF_INET and AF_INET6. */
	unsigned f_loss;                /* a packet is lost */
	unsigned f_duplicate;           /* a packet arrives twice */
	unsigned f_no_buffer;           /* a packet is not sent: ENOBUFS */
	unsigned f_reset;               /* sent data resets the connection */
	unsigned f_no_answer;           /* connect() fails after 127 s: ETIMEDOUT */
	unsigned f_slow;                /* a connection is 100 times slower */
	unsigned f_partition;           /* after data was sent, nothing passes between
					   sender and receiver for 1 to 10 seconds */

	/* The time that sending takes. If the first two are 0, latencies are up to 10 us
	   in one run of four. */
	int64_t  f_latency_ns;          /* shortest latency; 0: 50 us */
	int64_t  f_latency_most_ns;     /* longest latency of 99 in 100; 0: 500 us */
	int64_t  f_latency_rare_ns;     /* longest latency; 0: 50 ms */
	int64_t  f_bandwidth;           /* bytes a second; 0: 125 million */
};

/* Sets which faults come from now on, on all hosts. */
void sim_faults(const struct sim_faults *faults);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SIM_H */
