/* SPDX-License-Identifier: MIT */
/* usched_conf.h: the configuration of a scheduler over processors, such as rr and ll. */
#ifndef USCHED_CONF_H
#define USCHED_CONF_H

#include <stddef.h>
#include <stdint.h>

/* Zeros are defaults. */
struct usched_conf {
	unsigned c_processors;  /* 0: one for each CPU that the process may use, by its
				   affinity and by the quota of its control groups */
	unsigned c_stacks;      /* of each processor, mapped at once, two mappings each,
				   which take memory as threads need them; 0: 1024, with
				   more than 16 processors fewer, mapped as needed;
				   USCHED_NATIVE: only the native stack, as always with
				   the portable switch */
	size_t   c_stack_size;  /* bytes; 0: 256 KiB. With USCHED_NATIVE, of the native
				   stack, at least 8 MiB */
	unsigned c_alone;       /* threads at most that have a stack of their own by
				   ustack_start_alone(), of all processors together; 0:
				   16384 */
	size_t   c_image;       /* bytes of image in each record; deeper threads waste
				   them; 0: what a plain wait in a shallow function
				   takes: 96 on x86, 160 on 32-bit ARM, 192 on AArch64,
				   256 on RISC-V */
	unsigned c_keep;        /* 1: threads keep images that have become too large */
	unsigned c_control;     /* 1: each thread has floating point control words of its
				   own, at first those of the native thread; see
				   ustack_control() */
	unsigned c_embed;       /* 1: no native thread is made; the one processor runs in
				   rr_run() or ll_run(), in a loop of the program */
	unsigned c_pin;         /* 1: each processor's native thread is pinned to a CPU,
				   in turn, of those that the creator may use */
	int64_t  c_slice;       /* ns that a thread may run before it is to give way, see
				   ustack_check() and ustack_preemptible(), 10000 to
				   2^62; 0: as long as it likes, or for 1 ms if it
				   calls ustack_check() */
	unsigned c_steal;       /* 1: an idle processor gets runnable threads of others,
				   if these have a stack of their own; see
				   ustack_stay(). For rr; each processor then has 128
				   stacks to begin with */
	int      c_signal;      /* interrupts threads then, in their regions; 0: SIGURG */
	int64_t  c_stall;       /* ns: a thread that keeps its processor for longer is
				   reported with its calls, 1000000 to 2^62, if the
				   program has called ustall_install(), in ustall.h; 0:
				   25 ms in libusched-check, and else none is, as with
				   USCHED_QUIET */
	void   (*c_log)(const char *line);      /* gets reports, on any native thread;
				   NULL: standard error. May not call the scheduler,
				   which is locked */
};

#define USCHED_NATIVE ((unsigned)-1)
#define USCHED_QUIET  ((int64_t)-1)

/* In place of a processor's number: that of the calling thread. */
#define USCHED_BESIDE ((unsigned)-1)

#endif /* USCHED_CONF_H */
