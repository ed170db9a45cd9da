/* SPDX-License-Identifier: MIT */
/*
 * snap.h: what a native thread of a processor does at one moment, for dumps and for
 * reports of stalls. Private.
 *
 * A snap is asked for by a signal: the handler copies registers and frames to memory that
 * is there before, and returns. They are unwound later, on the native thread that asked:
 * in a handler an unwinder may wait for a lock that the interrupted code holds.
 *
 *	SNAP_FREE -> SNAP_WANTED -> SNAP_TAKEN -> SNAP_READY
 *	                  +-------> SNAP_FREE           nothing came in time
 *
 * The first step is made by what asks, the two others by the handler.
 */
#ifndef USCHED_SNAP_H
#define USCHED_SNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../uproc.h"

enum {
	SNAP_FRAMES    = 100,           /* calls of a thread that are shown */
	SNAP_COPY      = 64 << 10,      /* bytes of frames */
	SNAP_REGISTERS = 40,            /* more than machines have */
};

struct uinspect_snap {
	int           s_state;          /* atomic */
	struct uproc *s_proc;
	const struct ustack *s_thread;  /* or NULL */
	uintptr_t     s_func;
	uint64_t      s_known;          /* bits: of these registers; others are not */
	uintptr_t     s_registers[SNAP_REGISTERS];
	uintptr_t     s_low;            /* of the copy: its address there, */
	size_t        s_size;           /* and bytes */
	char          s_bytes[SNAP_COPY];
};

#define SNAP_PRIVATE __attribute__((visibility("hidden")))

/* Prepares for a signal to the native thread of `p'. */
SNAP_PRIVATE void uinspect__ask(struct uinspect_snap *s, struct uproc *p);

/*
 * In the handler of that signal, on the native thread of `s', or NULL: it is sure to be
 * the one that was asked. An answer may be late, when another processor was asked.
 */
SNAP_PRIVATE void uinspect__answer(struct uinspect_snap *s, const struct usched *sched,
				   const void *context);

/* True: the answer has come, in so many milliseconds. */
SNAP_PRIVATE bool uinspect__await(struct uinspect_snap *s, unsigned ms);

/* Instead of asking: the native thread sleeps in the kernel, with these registers. */
SNAP_PRIVATE void uinspect__read(struct uinspect_snap *s, struct uproc *p, uintptr_t sp,
				 uintptr_t pc);

/*
 * Returns the number of calls, the innermost first, which is as if called. Allocates
 * nothing. May wait for the dynamic linker's lock.
 */
SNAP_PRIVATE size_t uinspect__calls(const struct uinspect_snap *s,
				    uintptr_t calls[SNAP_FRAMES]);

#endif /* USCHED_SNAP_H */
