/* SPDX-License-Identifier: MIT */
/*
 * usched_conf.h: the configuration of a scheduler over processors, such as rr and ll.
 * rr_create() and ll_create() take a struct usched_conf, and copy it.
 */
#ifndef USCHED_CONF_H
#define USCHED_CONF_H

#include <stddef.h>
#include <stdint.h>

/* What a scheduler is made with. Zeros are the defaults. */
struct usched_conf {
	/* Processors. 0: one for each CPU that the process may use, by its affinity and
	   by the quotas of its control groups, a part of a CPU counted as one. */
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

	/* Threads at most that have a stack of their own by ustack_start_alone(), of all
	   processors together; 0: 16384. */
	unsigned c_alone;

	/* Bytes of image in each record, at most 64 KiB. A thread that blocks in larger
	   frames gets an image elsewhere, and wastes these. 0: what a plain wait in a
	   shallow function takes: 96 on x86, 160 on 32-bit ARM, 192 on AArch64, 256 on
	   RISC-V. With the 64 bytes before it that is a record. */
	size_t   c_image;

	/* 0: a thread that has blocked with frames of more than 1 KiB, and is evicted
	   with less than a quarter of these, exchanges its image for a smaller one. 1: it
	   keeps the image. */
	unsigned c_keep;

	/* 1: each thread has floating point control words of its own, at first those of
	   the native thread; see ustack_control(). Then all switches take longer. */
	unsigned c_control;

	/* 1: no native thread is made; the one processor runs in rr_run() or ll_run(), in
	   a loop of the program. */
	unsigned c_embed;

	/* 1: each processor's native thread is pinned to a CPU, in turn, of those that
	   the creator may use. */
	unsigned c_pin;

	/* ns that a thread may run while others are ready, before it is to give way, in
	   ustack_check() and in regions of ustack_preemptible(), 10000 to 2^62; 0: as
	   long as it likes, or for 1 ms if it calls ustack_check(). The monitor, a native
	   thread that sleeps while all are idle, looks at the processors once in a slice,
	   so it finds a thread after one to two slices. */
	int64_t  c_slice;

	/* 1: a processor with nothing to run gets half of the runnable threads of another
	   one, 16 at most, if these have a stack of their own. For rr; each processor
	   then has 128 stacks to begin with, and threads get a stack first that no others
	   share. A thread that moves keeps its addresses, but not its native thread: it
	   must not keep the address of errno or of another thread-local variable across a
	   call that switches, as compilers do where a function uses such a variable
	   before and after the call. ustack_stay() keeps a thread where it is, and
	   libusched-check names threads that seem to have such an address. */
	unsigned c_steal;

	/* The signal that interrupts threads in their regions, and asks for calls; 0:
	   SIGURG. The scheduler installs a handler for the process, and unblocks the
	   signal in its processors. Signals that others send go to the handler that was
	   there before, or are ignored. */
	int      c_signal;

	/* ns: a thread that keeps its processor for longer is reported, with its name,
	   its calls, and how much of that was CPU time, and again after twice the time;
	   so is one that blocks the processor in a native call. 1000000 to 2^62, if the
	   program has called ustall_install() (ustall.h); 0: 25 ms in libusched-check,
	   and else none is, as with USCHED_QUIET. The monitor
	   finds a thread after one to one and a half times c_stall; one that has no CPU
	   is not reported. A thread that computes is asked by c_signal for its calls, so
	   a native sleep that it begins just then may end early. Nothing is reported with
	   c_embed, SINGLE_THREAD, ThreadSanitizer or Valgrind. */
	int64_t  c_stall;

	/* Gets each line of a report, without a newline; NULL: standard error. Runs on a
	   native thread in join or destroy, with the scheduler locked, or on one that
	   reports stalls: it may not call the scheduler. */
	void   (*c_log)(const char *line);
};

/* For c_stacks, and for c_stall. */
#define USCHED_NATIVE ((unsigned)-1)
#define USCHED_QUIET  ((int64_t)-1)

/* In place of a processor's number: that of the calling thread. */
#define USCHED_BESIDE ((unsigned)-1)

#endif /* USCHED_CONF_H */
