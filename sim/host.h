/* SPDX-License-Identifier: MIT */
/*
 * host.h: hosts, faults and files. Private.
 *
 *	sim/host.c         hosts, crashes, and the plan of faults
 *	sim/clock.c        the clocks, random numbers, numbers of processes
 *	sim/file.c         files in memory, and what a crash leaves of them
 */
#ifndef USCHED_SIM_HOST_H
#define USCHED_SIM_HOST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

struct sim_host {
	struct sim_host *h_next;
	const char      *h_name;
	const char      *h_address;     /* or NULL */
	void           (*h_func)(void *arg);
	void            *h_arg;
	unsigned         h_number;      /* from 1 on */
	bool             h_up;
	struct sim_processor h_processor;
	bool             h_full;        /* its disk */
	int64_t          h_jump;        /* ns, of its clock of the day */
	const char      *h_dir;         /* the current one; NULL: the system's */
	uint64_t         h_pending;     /* signals, bit n - 1 */
};

/* The program's X(). */
#define IN_PLACE_OF(name) extern __typeof__(name) uposix_##name

/* All of uposix_sim_names.h. */
#define PLAIN(name)
#define WORLD(name) IN_PLACE_OF(name);
#define SYSCALL(name, ...)
#include "../posix/uposix_sim_names.h"
#undef PLAIN
#undef WORLD
#undef SYSCALL

/* ---- sim/host.c ---- */

/*
 * Has calls of libc's function in the library go to `with', and of the one that does the
 * same where off_t has 64 bits. *real is where they went before.
 */
SIM_PRIVATE void sim__hook(const char *name, void (*with)(void), void *real);

/* Returns whether a fault comes that comes once in n times; 0: never. */
extern struct sim_faults sim__faults SIM_PRIVATE;
SIM_PRIVATE bool sim__strikes(const char *what, unsigned n);

/* Returns the host of the calling thread; NULL: it is on none. */
SIM_PRIVATE struct sim_host *sim__host(void);

/* Returns a host with that name or address, or NULL. */
SIM_PRIVATE struct sim_host *sim__find_host(const char *name);

/*
 * For the network, or NULL: a host is gone, and its threads have ended; a fault of the
 * network begins, or is over.
 */
extern void (*sim__host_gone)(const struct sim_host *host) SIM_PRIVATE;
extern void (*sim__net_fault)(const struct sim_fault *fault, bool begins) SIM_PRIVATE;

/* Returns the processor of a thread, if its scheduler has one; else NULL. */
SIM_PRIVATE struct sim_processor *sim__processor(const struct sim_thread *t);

/* A step of a thread on a host: perhaps it crashes. */
SIM_PRIVATE void sim__may_crash(void);

/* ---- sim/clock.c ---- */

/* Begins the random numbers of a run; gives some. */
SIM_PRIVATE void sim__seed(uint64_t seed);
SIM_PRIVATE void sim__fill(void *to, size_t size);

/* ---- sim/file.c ---- */

/* The host has crashed. */
SIM_PRIVATE void sim__drop_files(const struct sim_host *host);

/* ---- sim/enter.c ---- */

/* A call that cannot be simulated: the run fails, unless USCHED_SIM_ESCAPES is set. */
SIM_PRIVATE void sim__escape(const char *name);

#endif /* USCHED_SIM_HOST_H */
