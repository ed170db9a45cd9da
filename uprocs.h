/* SPDX-License-Identifier: MIT */
/*
 * uprocs.h: the configuration and the calls that all schedulers over processors share. A
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
	/* The number of processors. 0: as many as the CPUs that the affinity of its
	   native threads and the quotas of control groups allow, rounded up. Processors
	   then look once a second, while threads run. If fewer CPUs are allowed, the last
	   processors rest: threads that may move leave them, new threads begin elsewhere,
	   and threads that must stay run on. If more CPUs are allowed, processors go on,
	   or are added, up to 16 in all. */
	unsigned c_processors;

	/* The number of stacks of each processor. All are mapped at the start, in two
	   mappings each. They take memory when threads use them. 0: stacks are mapped
	   when threads need them, up to 1024, or fewer with more than 16 processors.
	   USCHED_NATIVE, or the portable switch: threads run on the native stack only. */
	unsigned c_stacks;

	/* Bytes of a stack, from 8 KiB to 1 GiB; 0: 256 KiB. With USCHED_NATIVE, bytes of
	   the native stack, but at least 8 MiB; threads can block in the first 64 MiB of
	   the native stack. */
	size_t   c_stack_size;

	/* The maximum number of threads with an own stack (h_stack in ustack.h), on all
	   processors together; 0: 16384. */
	unsigned c_alone;

	/* Bytes of the image in each record, at most 64 KiB; a record has 64 bytes more.
	   0: enough for a plain wait in a shallow function: 96 on x86, 160 on 32-bit ARM,
	   192 on AArch64, 256 on RISC-V. If a thread blocks with larger frames, it gets
	   another image, for what has no room in the record. If such a thread has blocked
	   with more than 1 KiB of frames, and is later evicted with less than a quarter
	   of that, it gets a smaller image. */
	size_t   c_image;

	/* 1: each thread has floating point control words of its own; see
	   ustack_control(). At first they have the values of the native thread. A switch
	   then compares the words, and takes longer if a thread has changed them. */
	unsigned c_control;

	/* 1: no native thread is made. There is one processor, which runs when a loop of
	   the program calls uprocs_run(). */
	unsigned c_embed;

	/* The slice: a thread may run for so many ns while others are ready, from 10000
	   to 2^62. After that the thread gives way in ustack_check(), and anywhere in
	   regions of ustack_preemptible(). 0: no limit, except that ustack_check() gives
	   way after 1 ms. The monitor, a native thread, looks at the processors once in a
	   slice, unless all are idle. So a slice ends after one to two times c_slice. The
	   monitor interrupts regions by SIGURG, which the processors unblock. If others
	   send SIGURG, the handler that was there before gets it, or it is ignored. */
	int64_t  c_slice;

	/* 1: no thread moves after it has begun. 0: if a thread of rr is blocked on an
	   unshared or own stack, it may move to a processor with nothing to run, or to
	   that of a thread that often wakes it. Each processor then begins with 128
	   stacks. 64 are unshared: such a stack has one thread at a time, and is taken
	   first. A thread that moves keeps its addresses, but changes its native thread.
	   Compilers may keep the address of a thread-local variable, such as errno, over
	   a call. So a thread stays while its frames have such an address. Addresses
	   elsewhere, for example in the heap, are not seen. Nor are locks of pthread.h
	   that are held over a wait. Then call ustack_stay() to keep the thread where it
	   is. Threads of ll never move. */
	unsigned c_stay;

	/* 1: each thread has thread-local variables of its own, as a native thread has:
	   errno, those of C and C++ with their constructors and destructors, and what
	   libc keeps for a thread. A thread keeps them when it moves. Each takes 4 KiB or
	   more, and a switch some 15 ns more. Destructors run when a thread ends by
	   itself, by ustack_abort(), too; not when uprocs_destroy() ends it. Load
	   libraries that have variables with initial values before. With glibc 2.34 or
	   later, on x86-64 (where user code may set the FS base) and AArch64; elsewhere
	   the scheduler is not made: -ENOTSUP. */
	unsigned c_tls;

	/* ns, from 1000000 to 2^62: if a thread keeps its processor for longer, it is
	   reported, with its name, its calls and its CPU time; and again after twice the
	   time. A thread in a native call that blocks keeps its processor, too. The
	   program must call ustall_install() first (ustall.h). 0: 25 ms in
	   libusched-check, and no reports elsewhere. USCHED_QUIET: no reports. The
	   monitor finds a thread after one to one and a half times c_stall. Threads that
	   lack a CPU are not reported. SIGURG asks a thread that computes for its calls;
	   if it begins a native sleep just then, the sleep may end early. Nothing is
	   reported with c_embed, SINGLE_THREAD, ThreadSanitizer or Valgrind. */
	int64_t  c_stall;

	/* Gets each line of a report, without a newline; NULL: the lines go to standard
	   error. Called on the native thread that reports stalls; or on a native thread
	   in join or destroy, and then the scheduler is locked and its threads are held
	   up. May not call the scheduler. */
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
 * Waits until all threads have ended, but not after the deadline (usync.h). If all have
 * ended, stops the processors, and frees `r' and everything in it. Once the call is made,
 * another native thread may use `r' and its threads only while it holds `r'. With a
 * deadline of 0, or in the past, the call does not wait.
 * 0, or
 *
 *   -ETIMEDOUT  Threads are left, or `r' is held. The threads run on, `r' is as it was,
 *               and the call may be made again. uinspect_dump() shows what threads do.
 *   -EDEADLK    The threads that are left wait, and nothing can wake them. They were
 *               reported and aborted, and all is freed. The deadline may be later.
 *   -EPERM      Nothing was done. The caller is a thread, and the call would free its
 *               stack: let main() call. Or another native thread joins a thread of `r' or
 *               destroys `r': wait for that native thread.
 *   -EINVAL, -EBUSY  As ustack_join().
 *
 * From any native thread, which is blocked meanwhile. With c_embed and SINGLE_THREAD the
 * caller runs the threads, so the call returns late if a thread does not give way.
 */
int uprocs_destroy(struct uprocs *r, int64_t deadline);

/*
 * With `on' 1, begins a hold; with 0, ends it. Hold `r' while a native thread may wake or
 * start threads of `r'. Meanwhile threads that wait are not taken for deadlocked, and
 * `r' is not destroyed. Holds nest and add up. If threads of another scheduler wake or
 * start threads of `r', they need a hold, too. When the last hold ends, another native
 * thread, in uprocs_destroy(), may free `r'.
 * From a thread, or from any native thread. Does not switch.
 */
void uprocs_hold(struct uprocs *r, int on);

/*
 * With c_embed, a loop of the program calls this to run the threads that are ready. The
 * call never sleeps, and returns after about a millisecond if the threads give way. The
 * result is a descriptor. When poll(2) finds it readable, call uprocs_run() again. The
 * descriptor becomes readable by timers, by descriptors that threads wait for, and if
 * other native threads start or wake threads. If the loop's own native thread has started
 * or woken threads, call uprocs_run() without such a poll. If that native thread calls
 * ustack_join() or uprocs_destroy(), these run threads and sleep themselves.
 * Returns the descriptor, the same each time; -EINVAL: c_embed is not set, or the caller
 * is at another depth of the native stack than before, see usched_run(); -EBUSY: `r' is
 * running; -EMFILE, -ENFILE, -ENOMEM: no descriptor could be made, but ready threads have
 * run; -ENOTSUP: a simulation has no descriptor, but ready threads have run.
 * From one native thread at a time, not from a thread of `r'. Switches.
 */
int uprocs_run(struct uprocs *r);

/*
 * Sets *out to the counters of all processors, added up; but st_deepest is the largest
 * st_deepest of a processor.
 * From any native thread. Does not switch.
 */
void uprocs_stats(struct uprocs *r, struct usched_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_PROCS_H */
