/* SPDX-License-Identifier: MIT */
/*
 * fault.h: has the n-th system call, allocation or native thread fail. The Makefile
 * links test_fault*.c with fault.c, and with -Wl,--wrap= for each function in there.
 * Calls of the program and of the library's objects can fail. Calls of libc itself can
 * only where it is linked statically.
 */
#ifndef USCHED_TEST_FAULT_H
#define USCHED_TEST_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

/* How a call fails. Calls that cannot fail so are not counted. */
enum fault_kind {
	FAULT_USED_UP,                  /* no memory, descriptor, native thread is left */
	FAULT_BROKEN,                   /* a lost connection, a full disk, ... */
	FAULT_INTERRUPTED,              /* EINTR */
	FAULT_SHORT,                    /* a transfer of one byte */
	FAULT_KINDS,
};

/* The calls number `first' to `last' from now fail, counted from 1. 0, 0: none. */
void fault_begin(enum fault_kind kind, long first, long last);

/* The number of calls that have failed since then. From now on all succeed. */
long fault_end(void);

/* Only calls of this name can fail; NULL: all, as at first. Set it while none fails. */
extern const char *fault_only;

/* Blocks, bytes mapped and native threads that were taken and not given back. */
long fault_held(void);

/*
 * Whether `rc' is the negative errno of a call that was made to fail. EINTR is never
 * one: the library hides it.
 */
bool fault_made(int rc);

#endif /* USCHED_TEST_FAULT_H */
