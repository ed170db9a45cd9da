/* SPDX-License-Identifier: MIT */
/*
 * host.h: hosts, faults, files and what cannot be simulated. Private.
 *
 *	sim/host.c         hosts, crashes, and the plan of faults
 *	sim/clock.c        the clocks, random numbers, numbers of processes
 *	sim/file.c         files in memory, and what a crash leaves of them
 *	sim/escape.c       calls that a simulation cannot repeat
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
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

enum { SIM_PATH = 1024 };               /* bytes of a path: longer ones are refused */

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
	char             h_dir[SIM_PATH];       /* the current one; "": the system's */
};

/* The program's X(); and one that does for another, as off_t has 64 bits. */
#define IN_PLACE_OF(name) extern __typeof__(name) uposix_##name
#define SAME(name, as) IN_PLACE_OF(name) __attribute__((alias("uposix_" #as)))

/* All of names.h. */
#define PLAIN(name)
#define WORLD(name) IN_PLACE_OF(name);
#define SYSCALL(name, ...)
#include "names.h"
#undef PLAIN
#undef WORLD
#undef SYSCALL

/* Calls of libc's X() in the library are in_X(), which calls real_X(). */
struct sim_hook {
	const char *k_name;
	void      (*k_with)(void);
	void       *k_real;
};

#define HOOK_AS(name, as) { #name, (void (*)(void))in_##as, &real_##as }
#define HOOK(name) HOOK_AS(name, name)
#define HOOKS(...)							\
	__attribute__((constructor(103))) static void hook(void)	\
	{								\
		static const struct sim_hook hooks[] = { __VA_ARGS__ };	\
									\
		sim__hook(hooks, sizeof hooks / sizeof hooks[0]);	\
	}

/* ---- sim/host.c ---- */

SIM_PRIVATE void sim__hook(const struct sim_hook *hooks, size_t n);

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

/* ---- sim/escape.c ---- */

/* Returns what to use in place of a call that escapes, or NULL. */
SIM_PRIVATE const char *sim__escapes(const char *name);

/* The run fails, unless USCHED_SIM_ESCAPES is set; so does syscall() of some numbers. */
SIM_PRIVATE void sim__escape(const char *name);
SIM_PRIVATE void sim__escape_call(long number);

#endif /* USCHED_SIM_HOST_H */
