/* SPDX-License-Identifier: MIT */
/*
 * upreempt.h: threads that give way when their slice of time is over. This header is for
 * authors of schedulers. Threads use ustack_check() and ustack_preemptible() of
 * ustack.h. c_slice of uprocs.h switches slices on for rr and ll.
 *
 * A thread gives way at two kinds of places. ustack_check() reads s_over, which the
 * scheduler sets when the slice is over. In a region of ustack_preemptible() a signal
 * interrupts the thread, which then yields inside the handler. The frame of the signal
 * is one of the thread's frames then, and is copied like the others.
 *
 *	bottom | caller | function in the region | signal frame | handler | yield  top
 *
 * In a region usched__current is not the dispatcher, but a stand-in without threads. A
 * region should not make calls of usched. If it makes one, the call finds that the
 * caller is no thread, and inlined parts of the call do not change the dispatcher.
 *
 * A scheduler sets s_preempt and s_yield, and calls upreempt() in the handler of a
 * signal. The signal goes to the dispatcher's native thread. Its sender is a timer, or a
 * native thread that finds out which thread runs too long.
 */
#ifndef USCHED_PREEMPT_H
#define USCHED_PREEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The slices of a dispatcher. Its s_slice and that of the stand-in point here. */
struct upreempt {
	struct usched *pr_sched;        /* the dispatcher, not its stand-in; constant */
	void (*pr_close)(struct upreempt *q);
};

/*
 * Makes the interrupted thread yield. Call it in a signal handler, installed with
 * SA_SIGINFO and without SA_ONSTACK, on the dispatcher's native thread; `context' is the
 * handler's third argument. The thread yields if
 *
 *  - the thread is in a region,
 *  - the interrupted instruction is in the main program, which is linked dynamically,
 *  - the signal mask is that of the beginning of the region,
 *  - the stack and the thread's image have room for the frames, the signal's among them,
 *    and
 *  - s_preempt returns 1.
 *
 * While the thread does not run, other threads run with the signal mask and the floating
 * point control words that were set when the region began. When the thread runs again,
 * upreempt() returns. The handler should return soon after upreempt(); then the system
 * restores the mask and the control words of the thread, with all registers. errno is
 * kept, and no memory is allocated.
 *
 * Returns 1 if the thread gave way, or else 0.
 * Switches.
 */
int upreempt(void *context);

/*
 * Frees what the first ustack_preemptible() of a thread of `s' has made. Call this when
 * no thread of `s' runs any more.
 * Does not switch.
 */
static inline void upreempt_close(struct usched *s)
{
	if (s->s_slice)
		s->s_slice->pr_close(s->s_slice);
	s->s_slice = NULL;
}

/* Private: if `s' is a stand-in, returns its dispatcher; otherwise returns `s'. */
static inline struct usched *upreempt__behind(struct usched *s)
{
	return s->s_slice ? s->s_slice->pr_sched : s;
}

#define UPREEMPT_PRIVATE __attribute__((visibility("hidden")))

/*
 * Private: the monitor of processors (uproc.h), a native thread that finds slices which
 * are over. The monitor sleeps while all processors are idle.
 */
struct upreempt_monitor;

/*
 * Private: returns whether the processor is parked, is between threads, or runs a
 * thread. Sets *progress to a number that each block and each yield changes. The monitor
 * calls this.
 */
enum upreempt_state { UPREEMPT_IDLE, UPREEMPT_BETWEEN, UPREEMPT_RUNS };
typedef enum upreempt_state upreempt__state_fn(const struct usched *s,
					       uint64_t *progress);

/*
 * Private: gets each line of a report, on the native thread that reports. NULL: the lines
 * go to standard error.
 */
typedef void upreempt__log_fn(const char *line);

/*
 * Gives `s' slices of `slice' ns. If `slice' is 0, threads have no regions. A thread
 * that keeps the processor for `stall' ns will be reported, unless `stall' is 0.
 * `monitored' says that a monitor will look at `s'. Without a monitor no thread is
 * reported. Without a monitor, or if `slice' is 0, ustack_check() reads the clock.
 * 0; -ENOMEM: no memory; -ENOTSUP: `stall' is not 0, and ustall_install() was not
 * called.
 */
UPREEMPT_PRIVATE int upreempt__begin(struct usched *s, int64_t slice, int64_t stall,
				     bool monitored);

/* Notes that the calling native thread will run `s'. */
UPREEMPT_PRIVATE void upreempt__adopt(struct usched *s);

/*
 * Starts a monitor for n processors. The first is at `first', and the next ones are
 * `stride' bytes apart. Each processor begins with a dispatcher. Sets *m to NULL if the
 * processors need no monitor.
 * 0; -ENOMEM: no memory; -EAGAIN: no native thread could be started.
 */
UPREEMPT_PRIVATE int upreempt__watch(struct upreempt_monitor **m, char *first,
				     size_t stride, size_t n, upreempt__state_fn *state,
				     upreempt__log_fn *log);

/* Tells the monitor that a processor is no longer idle. From any native thread. */
UPREEMPT_PRIVATE void upreempt__wake(struct upreempt_monitor *m);

/*
 * Returns the longest time, in ns, that the monitor has seen a thread keep `s'. `s' must
 * have slices, and the monitor looks once in a slice. -1: there is no monitor. From any
 * native thread.
 */
UPREEMPT_PRIVATE int64_t upreempt__longest(const struct usched *s);

/* Stops the monitor. The native threads of the processors must still exist. */
UPREEMPT_PRIVATE void upreempt__stop(struct upreempt_monitor *m);

/* Frees the monitor. The processors must still exist, but not their native threads. */
UPREEMPT_PRIVATE void upreempt__unwatch(struct upreempt_monitor *m);

/* Private: see usched__forked(). */
void upreempt__hold(int on);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PREEMPT_H */
