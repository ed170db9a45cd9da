/* SPDX-License-Identifier: MIT */
/*
 * snap.h: what a native thread of a processor does at one moment, for dumps and for
 * reports of stalls. Private.
 *
 * A signal asks for a snap. Its handler notes the thread and the calls, in memory that is
 * there before, and names are found later, on the native thread that asked.
 *
 *	SNAP_FREE -> SNAP_WANTED -> SNAP_TAKEN -> SNAP_READY
 *	                  +-------> SNAP_FREE           nothing came in time
 *
 * The native thread that asks makes the first step, the handler the two others.
 */
#ifndef USCHED_SNAP_H
#define USCHED_SNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../uproc.h"

enum { SNAP_FRAMES = 100 };             /* the most calls of a thread that are shown */

struct uinspect_snap {
	int           sn_state;         /* atomic */
	struct uproc *sn_proc;
	const struct ustack *sn_thread; /* the thread that runs, or NULL */
	uintptr_t     sn_func;
	uintptr_t     sn_pc;             /* the interrupted instruction */
	size_t        sn_count;         /* elements of sn_calls */
	uintptr_t     sn_calls[SNAP_FRAMES];    /* return addresses, the last first */
};

/* SP in the frame of `context'. On 32-bit ARM, where _Unwind_GetIP() is a macro,
   _Unwind_GetCFA() returns something else, and SP is register 13. */
#ifdef _Unwind_GetIP
#define TOP_OF(context) _Unwind_GetGR(context, 13)
#else
#define TOP_OF(context) _Unwind_GetCFA(context)
#endif

#define SNAP_PRIVATE __attribute__((visibility("hidden")))

/* Prepares for a signal to the native thread of `p'. */
SNAP_PRIVATE void uinspect__ask(struct uinspect_snap *s, struct uproc *p);

/*
 * Fills in `s', in the handler of that signal, if the native thread is the one that was
 * asked: an answer may be late, when another processor was asked. `sched' is the
 * dispatcher of this native thread, or NULL: the caller has compared the native threads.
 */
SNAP_PRIVATE void uinspect__answer(struct uinspect_snap *s, const struct usched *sched,
				   const void *context);

/* Returns whether the answer has come, after at most `ms' milliseconds. */
SNAP_PRIVATE bool uinspect__await(struct uinspect_snap *s, unsigned ms);

#endif /* USCHED_SNAP_H */
