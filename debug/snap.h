/* SPDX-License-Identifier: MIT */
/*
 * snap.h: snaps, which tell what a native thread of a processor does at one moment, for
 * dumps and for reports of stalls. Private.
 *
 * A signal asks for a snap. The handler of the signal notes the thread and the calls, in
 * memory that was allocated before. The native thread that asked finds the names later.
 *
 *	SNAP_FREE -> SNAP_WANTED -> SNAP_TAKEN -> SNAP_READY
 *	                  +-------> SNAP_FREE           no answer came in time
 *
 * The native thread that asks makes the step to SNAP_WANTED, or back to SNAP_FREE. The
 * handler makes the other two steps.
 */
#ifndef USCHED_SNAP_H
#define USCHED_SNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../src/base/lock.h"
#include "../uproc.h"

enum {
	SNAP_FRAMES    = 100,           /* the most calls of a thread that are shown */
	SNAP_ANSWER_IN = 1000,          /* ms after which a dump expects no answer */
};

struct uinspect_snap {
	int           sn_state;         /* atomic */
	struct uproc *sn_proc;
	const struct ustack *sn_thread; /* the thread that runs, or NULL */
	uintptr_t     sn_func;
	uintptr_t     sn_pc;             /* the interrupted instruction */
	size_t        sn_count;         /* number of elements of sn_calls */
	uintptr_t     sn_calls[SNAP_FRAMES];    /* return addresses, innermost first */
};

/* The SP in the frame of `context'. On 32-bit ARM, where _Unwind_GetIP() is a macro,
   _Unwind_GetCFA() returns something else, so the SP is read as register 13. */
#ifdef _Unwind_GetIP
#define TOP_OF(context) _Unwind_GetGR(context, 13)
#else
#define TOP_OF(context) _Unwind_GetCFA(context)
#endif

/* Returns the function of `u', or 0. If the thread ends meanwhile, the record stays, but
   the attachment may be freed, so a system call reads the attachment. */
static inline uintptr_t function_of(const struct ustack *u)
{
	struct ustack_attachment *a = GET(u->u_attachment), copy = { 0 };
	struct iovec to = { &copy, sizeof copy };
	struct iovec from = { a, sizeof copy };

	if (!u->u_attached)
		return (uintptr_t)a;
	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof copy)
		return 0;
	return (uintptr_t)copy.a_func;
}

#define SNAP_PRIVATE __attribute__((visibility("hidden")))

/* Prepares `s' for a signal that the caller sends to the native thread of `p'. */
SNAP_PRIVATE void uinspect__ask(struct uinspect_snap *s, struct uproc *p);

/*
 * Called by the handler of that signal. Fills in `s'. Does nothing if this native thread
 * was not asked last: a late signal may be handled after another processor was asked.
 * `sched' is the dispatcher of this native thread, or NULL if the caller has made sure
 * that this native thread was asked.
 */
SNAP_PRIVATE void uinspect__answer(struct uinspect_snap *s, const struct usched *sched,
				   const void *context);

/* Waits for the answer, for about `ms' milliseconds. Returns whether it has come. */
SNAP_PRIVATE bool uinspect__await(struct uinspect_snap *s, unsigned ms);

/*
 * Asks the native thread of `p' by the signal of uinspect_install(), and fills in *snap.
 * Returns false if that was not called, or no answer comes. Then that native thread
 * blocks the signal, or sleeps in the kernel.
 */
SNAP_PRIVATE bool uinspect__snap(struct uinspect_snap *snap, struct uproc *p);

#endif /* USCHED_SNAP_H */
