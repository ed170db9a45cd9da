/* SPDX-License-Identifier: MIT */
/*
 * host.h: hosts, faults and files. Private.
 *
 *	sim/host.c         hosts, crashes, and the plan of faults
 *	sim/clock.c        clocks, what is due later, random numbers, process IDs
 *	sim/file.c         files in memory, and what a crash leaves of them
 */
#ifndef USCHED_SIM_HOST_H
#define USCHED_SIM_HOST_H

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/times.h>
#include <utime.h>

#include "run.h"

struct sim_host {
	struct sim_host *h_next;
	const char      *h_name;
	const char      *h_address;     /* or NULL */
	void           (*h_func)(void *arg);
	void            *h_arg;
	unsigned         h_number;      /* from 1 on */
	bool             h_up;
	bool             h_shares;      /* a program of usched-run --with: such programs
					   share files and addresses */
	bool             h_single;      /* a scheduler has one processor: its threads
					   switch only where they wait */
	struct sim_thread *h_keeps;     /* keeps this processor until it waits; or NULL */
	bool             h_full;        /* the disk is full */
	int64_t          h_jump;        /* ns by which CLOCK_REALTIME has jumped ahead */
	struct file     *h_dir;         /* current directory; NULL: that of the process */
	struct sim_open *h_process;     /* signals and timer: sim/local.c; or NULL */
};

enum { SIM_THREAD = 6000000 };          /* gettid() of thread n is SIM_THREAD + n */

int uposix___cxa_guard_release(void *guard);

/* Declares each uposix_NAME(), which the program calls in place of NAME(). */
#define WORLD(name) extern __typeof__(name) uposix_##name;
#include "../posix/uposix_names.h"

/* ---- sim/host.c ---- */

/* Starts a thread on a host, or on none if `host' is NULL. As sim_host_start(). Calls of
   sim__later() use the second, since no thread runs then. */
SIM_PRIVATE int sim__start_on(struct sim_host *host, void *(*func)(void *), void *arg);
SIM_PRIVATE int sim__start_late(struct sim_host *host, void *(*func)(void *), void *arg);

/* Makes the library use `with' in place of libc's function `name'. `real' points to a
   pointer to a function; *real becomes the function that the library called before. */
SIM_PRIVATE void sim__hook(const char *name, void (*with)(void), void *real);

/* The odds of faults. */
extern struct sim_faults sim__faults SIM_PRIVATE;

/* Returns whether a fault strikes now, with odds of 1 in n; n 0 stands for never. */
static inline bool sim__strikes(const char *what, unsigned n)
{
	return n > 0 && sim__rarely(what, n);
}

/* Returns the host of the calling thread, or NULL if the caller is on no host. */
static inline struct sim_host *sim__host(void)
{
	return sim__self() ? sim__self()->t_host : NULL;
}

/* What a host has, threads on no host have in sim__nowhere. */
extern struct sim_host sim__nowhere SIM_PRIVATE;

static inline struct sim_host *sim__state_of(struct sim_host *host)
{
	return host ? host : &sim__nowhere;
}

static inline struct sim_host *sim__here(void)
{
	return sim__state_of(sim__host());
}

/* Returns the host whose files and addresses `host' uses; NULL: those of the threads on
   no host, and of the programs of usched-run --with. */
static inline struct sim_host *sim__machine(struct sim_host *host)
{
	return host && host->h_shares ? NULL : host;
}

/* Ends the threads of a host, and closes its descriptors. If a thread of that host makes
   the call, the call does not return. */
SIM_PRIVATE void sim__stop_host(struct sim_host *host);

/* Returns the host with this name or address, or NULL. */
SIM_PRIVATE struct sim_host *sim__find_host(const char *name);

/* Returns what the host of a thread has, if h_single means the thread, or NULL. */
SIM_PRIVATE struct sim_host *sim__single(const struct sim_thread *t);

/* Called at each step of a thread on a host. By chance, that host is to crash at once. */
SIM_PRIVATE void sim__may_crash(void);

/* ---- sim/clock.c ---- */

/* The first empties the world, and seeds the random bytes that the second writes. */
SIM_PRIVATE void sim__begin_world(uint64_t seed);
SIM_PRIVATE void sim__fill(void *to, size_t size);

/* ---- sim/access.c ---- */

/* Returns the function of libstdc++ with this name, as the linker knows the function. */
SIM_PRIVATE void *sim__of_libstdcxx(const char *name);

/* ---- sim/file.c ---- */

/* Makes the host's files what they are after a crash. */
SIM_PRIVATE void sim__drop_files(const struct sim_host *host);

/* ---- sim/enter.c ---- */

/* Prepares sim__enter(). */
SIM_PRIVATE void sim__find_calls(void);

/* Fails the run for a call that cannot be simulated, unless USCHED_SIM_ESCAPES is set. */
SIM_PRIVATE void sim__escape(const char *name);

/* See posix/x86_64.S. */
extern const unsigned char sim__call_at[7] SIM_PRIVATE;

/*
 * Makes system calls by instructions outside libc calls of syscall(), in the process of a
 * run. A filter for that takes a millisecond.
 */
SIM_PRIVATE void sim__catch_calls(void);

/* ---- sim/main.c ---- */

/* Returns whether there are programs of --with, and none has begun. */
SIM_PRIVATE bool sim__clients_wait(void);

/* Called at exit(). Returns if that ends the run, and not only the caller's program. */
SIM_PRIVATE void sim__leave(int status);

/*
 * sim__several is true if there are programs of --with. Then sim__may_serve() is called
 * before each call that may wait for a client. If the caller's program serves, the other
 * programs begin; if no other programs are left, the servers get SIGTERM.
 */
extern bool sim__several SIM_PRIVATE;
SIM_PRIVATE void sim__may_serve(void);

#endif /* USCHED_SIM_HOST_H */
