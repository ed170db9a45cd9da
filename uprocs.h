/* SPDX-License-Identifier: MIT */
/*
 * uprocs.h: schedulers over processors, native threads of their own, as programs see
 * them. rr_create() and ll_create() make one, a struct uprocs, by a configuration, and
 * start threads on it. The calls here are for either.
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

/* What a scheduler is made with. Zeros are the defaults. */
struct uprocs_conf {
	/* Processors. 0: one for each CPU that the process may use, by its affinity and
	   by the quotas of its control groups (version 2), a part of a CPU counted as
	   one. */
	unsigned c_processors;

	/* Stacks of each processor, mapped at once, in two mappings each; they take
	   memory as threads need them. 0: as many as are needed, up to 1024, with more
	   than 16 processors fewer, mapped as needed. USCHED_NATIVE: only the native
	   stack, as always with the portable switch. */
	unsigned c_stacks;

	/* Bytes of a stack, from 8 KiB to 1 GiB; 0: 256 KiB. With USCHED_NATIVE, of the
	   native stack, which gets at least 8 MiB, and in the first 64 MiB of which
	   threads can block. */
	size_t   c_stack_size;

	/* Threads at most that have an own stack, by h_stack (ustack.h), of all
	   processors together; 0: 16384. */
	unsigned c_alone;

	/* Bytes of image in each record, at most 64 KiB. A thread that blocks in larger
	   frames gets an image elsewhere, and wastes these. 0: what a plain wait in a
	   shallow function takes: 96 on x86, 160 on 32-bit ARM, 192 on AArch64, 256 on
	   RISC-V. With the 64 bytes before it that is a record. A thread that has blocked
	   with frames of more than 1 KiB, and is evicted with less than a quarter of
	   these, exchanges its image for a smaller one. */
	size_t   c_image;

	/* 1: each thread has floating point control words of its own, at first those of
	   the native thread; see ustack_control(). A switch then compares the words, and
	   takes longer where they are not those of the native thread. */
	unsigned c_control;

	/* 1: no native thread is made; the one processor runs in uprocs_run(), in a
	   loop of the program. */
	unsigned c_embed;

	/* ns that a thread may run while others are ready, before it is to give way, in
	   ustack_check() and in regions of ustack_preemptible(), 10000 to 2^62; 0: as
	   long as it likes, or for 1 ms if it calls ustack_check(). The monitor, a native
	   thread that sleeps while all are idle, looks at the processors once in a slice,
	   so it finds a thread after one to two slices. It interrupts regions by SIGURG,
	   which the processors unblock. A SIGURG that others send goes to the handler
	   that was there before, or is ignored. */
	int64_t  c_slice;

	/* 0: threads of rr on unshared stacks move while they are blocked: to a processor
	   with nothing to run, and to the one of a thread that often wakes them. Each
	   processor then has 128 stacks to begin with, of which 64 are unshared: these
	   have one thread at a time, and are taken first. With an own stack (h_stack)
	   threads do not move. A thread that moves keeps its addresses, but not its
	   native thread. If its frames have the address of errno or of another
	   thread-local variable, as compilers keep such addresses over a call, it stays
	   this time. Not seen are such addresses elsewhere, as in the heap, and locks of
	   pthread.h that are held over a wait: ustack_stay() keeps a thread where it is.
	   1: no thread moves after it has begun. ll's threads never move. */
	unsigned c_stay;

	/* ns: a thread that keeps its processor for longer is reported, with its name,
	   its calls, and how much of that was CPU time, and again after twice the time;
	   so is one that blocks the processor in a native call. 1000000 to 2^62, if the
	   program has called ustall_install() (ustall.h); 0: 25 ms in libusched-check,
	   and else none is, as with USCHED_QUIET. The monitor
	   finds a thread after one to one and a half times c_stall; one that has no CPU
	   is not reported. A thread that computes is asked by SIGURG for its calls, so
	   a native sleep that it begins just then may end early. Nothing is reported with
	   c_embed, SINGLE_THREAD, ThreadSanitizer or Valgrind. */
	int64_t  c_stall;

	/* Gets each line of a report, without a newline; NULL: standard error. Runs on a
	   native thread in join or destroy, with the scheduler locked and its threads
	   held up, or on one that reports stalls: it may not call the scheduler. */
	void   (*c_log)(const char *line);
};

/* For c_stacks, and for c_stall. */
#define USCHED_NATIVE ((unsigned)-1)
#define USCHED_QUIET  ((int64_t)-1)

/* Returns the first processor: for usync_scope_create(). */
static inline struct usched *uprocs_sched(const struct uprocs *r)
{
	return *(struct usched *const *)(const void *)r;
}

/*
 * Waits until all threads have ended, or until the deadline (usync.h), then stops the
 * processors, and frees `r' and everything in it. No other native thread may use `r' or
 * its threads any more, unless it holds `r'. A deadline of 0, or in the past, asks
 * whether all have ended already.
 * 0; -ETIMEDOUT: threads are left, or `r' is held: they run on, `r' is as it was, and the
 * call may be made again; uinspect_dump() shows what the threads do;
 * -EDEADLK, also before the deadline: the threads that are left wait and nothing can wake
 * them; they were reported and aborted, everything is freed nevertheless; -EPERM: called
 * by a thread, whose stack it would free: have main() call it; or another native thread
 * joins a thread of `r' or destroys `r': wait for that one; nothing was done; -EINVAL,
 * -EBUSY as ustack_join().
 * From any native thread, which it blocks; with c_embed and SINGLE_THREAD it runs the
 * threads, so it is late if one of these does not give way.
 */
int uprocs_destroy(struct uprocs *r, int64_t deadline);

/*
 * Begins a hold with `on' 1, and ends a hold with `on' 0. While `r' is held the native
 * thread may wake or start threads: waiting threads are not taken for deadlocked, and
 * `r' is not destroyed. Holds nest and add up. The threads of another scheduler need a
 * hold, too. After the end of the last hold another native thread, in uprocs_destroy(),
 * may free `r'.
 * From any native thread, in a thread or not. Does not switch.
 */
void uprocs_hold(struct uprocs *r, int on);

/*
 * Runs what is ready, with c_embed, for a loop of the program: for about a millisecond
 * at most if threads give way, and does not sleep. When poll(2) finds the descriptor
 * readable that this returns, call uprocs_run() again. Timers and descriptors make it
 * readable, and threads that were started or woken by other native threads. Starts and
 * wakes by the loop's own native thread do not: call uprocs_run() after them.
 * ustack_join() and uprocs_destroy(), from that native thread, run and sleep themselves.
 * Returns the descriptor, the same each time; -EINVAL: not c_embed, or on the native
 * stack at another depth than before, see usched_run(); -EBUSY: it is running; -EMFILE,
 * -ENFILE, -ENOMEM: no descriptor could be made, and what was ready was run; -ENOTSUP:
 * in a simulation there is none, and what was ready was run.
 * From one native thread at a time, not from a thread of `r'. Switches.
 */
int uprocs_run(struct uprocs *r);

/*
 * Sets *out to the counters of all processors added up (s_deepest: the largest).
 * From any native thread. Does not switch.
 */
void uprocs_stats(struct uprocs *r, struct usched_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROCS_H */
