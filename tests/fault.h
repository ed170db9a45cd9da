/* SPDX-License-Identifier: MIT */
/*
 * fault.h: has the n-th system call, allocation or native thread fail. Programs that
 * include it are linked with fault.c, and with -Wl,--wrap= for each function in there; the
 * Makefile does so for test_fault*.c. Only what the program and the library's objects
 * call can fail, not what libc itself does.
 */
#ifndef USCHED_TEST_FAULT_H
#define USCHED_TEST_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

/* How a call fails. Those to which it cannot happen are not counted. */
enum fault_kind {
	FAULT_USED_UP,                  /* no memory, descriptor, native thread is left */
	FAULT_BROKEN,                   /* the connection is gone, the disk is full, ... */
	FAULT_INTERRUPTED,              /* EINTR */
	FAULT_SHORT,                    /* it transfers a byte only */
	FAULT_KINDS,
};

/* From now on the calls number `first' to `last' fail, counted from 1. 0, 0: none. */
void fault_begin(enum fault_kind kind, long first, long last);

/* How many have failed since then. From now on all succeed. */
long fault_end(void);

/* Those of this name alone can fail; NULL: all, as at first. Set while none does. */
extern const char *fault_only;

/* What these calls have given and not got back: blocks, bytes mapped, native threads. */
long fault_held(void);

/*
 * Whether `rc' is the negative errno of a call that was made to fail. Not of one that was
 * interrupted: nobody shall see that.
 */
bool fault_made(int rc);

#endif /* USCHED_TEST_FAULT_H */
