/* SPDX-License-Identifier: MIT */
/*
 * uprocs.h: what programs configure and call of any scheduler over processors. A
 * processor is a native thread of the scheduler. rr_create() and ll_create() make such a
 * scheduler, a struct uprocs.
 */
#ifndef USCHED_PROCS_H
#define USCHED_PROCS_H

#include <stddef.h>
#include <stdint.h>

#include "usched.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uprocs;

/* The configuration of a scheduler. Zeros are the defaults. */
struct uprocs_conf {
	/* Processors. 0: one for each CPU that the process may use, according to the
	   affinity and to the quotas of control groups (version 2), rounded up. */
	unsigned c_processors;

	/* Stacks of each processor. All are mapped at once, in two mappings each, and
	   take memory as threads use them. 0: stacks are mapped when threads need them,
	   up to 1024, or fewer with more than 16 processors. USCHED_NATIVE: threads run
	   on the native stack only, as they do with the portable switch. */
	unsigned c_stacks;

	/* Bytes of a stack, from 8 KiB to 1 GiB; 0: 256 KiB. With USCHED_NATIVE, bytes of
	   the native stack, which gets at least 8 MiB; threads can block in the first
	   64 MiB of the native stack. */
	size_t   c_stack_size;

	/* The most threads that have an own stack, by h_stack (ustack.h), on all
	   processors together; 0: 16384. */
	unsigned c_alone;

	/* Bytes of the image in each record, at most 64 KiB; a record has 64 bytes more.
	   0: enough for a plain wait in a shallow function: 96 on x86, 160 on 32-bit ARM,
	   192 on AArch64, 256 on RISC-V. A thread that blocks in larger frames gets an
	   image elsewhere, and the image in its record is not used. If such a thread has
	   blocked in more than 1 KiB of frames, and is later evicted with less than a
	   quarter of that, it gets a smaller image. */
	size_t   c_image;

	/* 1: each thread has floating point control words of its own, which begin as
	   those of the native thread; see ustack_control(). A switch then compares the
	   words, and takes longer if a thread has changed them. */
	unsigned c_control;

	/* 1: no native thread is made. There is one processor, which runs when a loop of
	   the program calls uprocs_run(). */
	unsigned c_embed;

	/* ns that a thread may run while others are ready, from 10000 to 2^62. After that
	   it gives way in ustack_check(), and anywhere in regions of
	   ustack_preemptible(). 0: no limit, except that ustack_check() gives way after
	   1 ms. The monitor, a native thread, looks at the processors once in a slice,
	   unless all are idle. So a slice ends after one to two times c_slice. The
	   monitor interrupts regions by SIGURG, which the processors unblock. A SIGURG
	   that others send goes to the handler that was there before, or is ignored. */
	int64_t  c_slice;

	/* 1: no thread moves after it has begun. 0: a thread of rr on an unshared stack
	   may move while it is blocked, to a processor with nothing to run, or to the
	   processor of a thread that often wakes it. Each processor then begins with 128
	   stacks, of which 64 are unshared: such a stack has one thread at a time, and is
	   taken first. A thread that moves keeps its addresses, but not its native
	   thread. So it stays while its frames have the address of errno or of another
	   thread-local variable, as compilers keep such addresses over a call. Addresses
	   elsewhere, as in the heap, are not seen, nor are locks of pthread.h that are
	   held over a wait: ustack_stay() keeps the thread where it is. Threads with an
	   own stack (h_stack), and threads of ll, never move. */
	unsigned c_stay;

	/* ns: a thread that keeps its processor for longer is reported, with its name,
	   its calls and its CPU time; and again after twice the time. A thread in a
	   native call that blocks keeps its processor, too. From 1000000 to 2^62, if the
	   program has called ustall_install() (ustall.h). 0: 25 ms in libusched-check,
	   and no reports elsewhere. USCHED_QUIET: no reports. The monitor finds a thread
	   after one to one and a half times c_stall, and reports no thread that lacks a
	   CPU. A thread that computes is asked for its calls by SIGURG, so a native sleep
	   that it begins just then may end early. Nothing is reported with c_embed,
	   SINGLE_THREAD, ThreadSanitizer or Valgrind. */
	int64_t  c_stall;

	/* Gets each line of a report, without a newline; NULL: the lines go to standard
	   error. Called on a native thread in join or destroy, while the scheduler is
	   locked and its threads are held up, or on the native thread that reports
	   stalls. May not call the scheduler. */
	void   (*c_log)(const char *line);
};

/* USCHED_NATIVE is for c_stacks, USCHED_QUIET for c_stall. */
#define USCHED_NATIVE ((unsigned)-1)
#define USCHED_QUIET  ((int64_t)-1)

/* Returns the first processor: for usync_scope_create(). */
static inline struct usched *uprocs_sched(const struct uprocs *r)
{
	return *(struct usched *const *)(const void *)r;
}

/*
 * Waits until all threads have ended, or until the deadline (usync.h); then stops the
 * processors, and frees `r' and everything in it. No other native thread may use `r' or
 * its threads any more, unless it holds `r'. A deadline of 0, or in the past, asks
 * whether all threads have ended already.
 * 0; -ETIMEDOUT: threads are left, or `r' is held. The threads run on, `r' is as it was,
 * and the call may be made again; uinspect_dump() shows what the threads do;
 * -EDEADLK, also before the deadline: the threads that are left wait and nothing can wake
 * them; they were reported and aborted, and everything is freed; -EPERM, and nothing was
 * done: the caller is a thread, whose stack the call would free: have main() call; or
 * another native thread joins a thread of `r' or destroys `r': wait for that one;
 * -EINVAL, -EBUSY as ustack_join().
 * From any native thread, which is blocked; with c_embed and SINGLE_THREAD the caller
 * runs the threads, so the call returns late if a thread does not give way.
 */
int uprocs_destroy(struct uprocs *r, int64_t deadline);

/*
 * Begins a hold with `on' 1, and ends a hold with `on' 0. While `r' is held the native
 * thread may wake or start threads: waiting threads are not taken for deadlocked, and
 * `r' is not destroyed. Holds nest and add up. The threads of another scheduler need a
 * hold, too. After the end of the last hold another native thread, in uprocs_destroy(),
 * may free `r'.
 * From a thread, or from any native thread. Does not switch.
 */
void uprocs_hold(struct uprocs *r, int on);

/*
 * With c_embed, a loop of the program calls this to run the threads that are ready. The
 * call never sleeps, and returns after about a millisecond if the threads give way.
 * Returns a descriptor; when poll(2) finds that readable, call uprocs_run() again. Timers
 * make the descriptor readable, and so do descriptors that threads wait for, and starts
 * and wakes by other native threads. After starts and wakes by the loop's own native
 * thread call uprocs_run() without such a poll. ustack_join() and uprocs_destroy(), from
 * that native thread, run threads and sleep themselves.
 * Returns the descriptor, the same each time; -EINVAL: c_embed is not set, or the caller
 * is at another depth of the native stack than before, see usched_run(); -EBUSY: `r' is
 * running; -EMFILE, -ENFILE, -ENOMEM: no descriptor could be made, but ready threads have
 * run; -ENOTSUP: a simulation has no descriptor, but ready threads have run.
 * From one native thread at a time, not from a thread of `r'. Switches.
 */
int uprocs_run(struct uprocs *r);

/*
 * Sets *out to the counters of all processors added up (st_deepest: the largest).
 * From any native thread. Does not switch.
 */
void uprocs_stats(struct uprocs *r, struct usched_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROCS_H */
