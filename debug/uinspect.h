/* SPDX-License-Identifier: MIT */
/*
 * uinspect.h: what the threads of the process do: all threads of all schedulers over
 * processors, such as rr and ll, while they go on; and counters of these processors.
 *
 *	threads: 3, schedulers: 1
 *	processor 0.0: threads: 2
 *	processor 0.1: threads: 1
 *
 *	2 threads, function 0x5581 (server+0x1290 serve), wait for mutex, at:
 *		0x5581 (server+0x21a0 usync_mutex_lock)
 *		0x5581 (server+0x12b5 serve)
 *	thread 0x7f10 "north", processor 0.0, mutex 0x5590, held by 0x7f20
 *	thread 0x7f18, processor 0.1, mutex 0x5590, held by 0x7f20
 *
 * Threads with the same function, state and calls are one group, the largest first.
 * Addresses are in memory, then in the file, for addr2line(1), with the function if the
 * file has a symbol table; that of a call is its last byte. Processor 0.1 is the second
 * one of the first scheduler. A holder is the thread with this address. If the dump has
 * no such thread, the holder is a native thread, a thread of another dispatcher, or one
 * that has ended. The state is
 *
 *   new         It has not run yet.
 *   ready       It could run, and others run before it.
 *   woken       Its wait is over, and the wake is on the way.
 *   waits for   And what: an object and, as far as that is known, its holder.
 *   joins       It waits for the end of the thread that says "joined by".
 *
 * A processor is asked in pieces of 256 threads or a third of a millisecond, between
 * which its threads run: a thread of the library visits them. So each is
 * shown as it is at one time, but not all at the same time: a thread may join one that
 * was looked at before. A processor that sleeps is woken. One that does not answer for a
 * second is kept by a thread that computes, or blocks natively. That is said, with this
 * thread and its calls after uinspect_install(), and its other threads are only counted.
 * With less than 16 KiB left on the stack of a thread, its last call is shown and no
 * more.
 *
 * Names are those of ustack_name(). Readers from outside of the process find them, as
 * all else, through usched__layout: see src/proc/layout.h.
 */
#ifndef USCHED_INSPECT_H
#define USCHED_INSPECT_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
	UINSPECT_BRIEF = 1,     /* without calls: names and states */
};

/*
 * Writes all threads to the descriptor `fd', which waits natively. `how' is
 * UINSPECT_BRIEF or 0. The threads of a scheduler with c_embed are shown if its loop
 * runs meanwhile. Destroying a scheduler waits while it is looked at.
 * 0; -ENOMEM: no memory; or some threads were left out, which the text counts; -EAGAIN:
 * no more native threads; or an error of write(2).
 * From a thread: switches, and may not be cancelled. From a native thread: blocks that.
 */
int uinspect_dump(int fd, unsigned how);

/*
 * Makes a native thread that dumps to standard error whenever the signal `sig' comes,
 * for example SIGQUIT, also while no processor answers. The handler only wakes it. From
 * then on all dumps send that signal to the native threads of processors that do not
 * answer, to ask for the thread that runs there, and for its calls, which are known on
 * x86-64 and AArch64 with glibc. So a system call in which a thread blocks natively may
 * fail with EINTR, where SA_RESTART does not cover it. In the child of a fork that native
 * thread is missing.
 * 0; -EINVAL: no such signal; -EAGAIN: no more native threads; -ENOTSUP: SINGLE_THREAD.
 * Does not switch.
 */
int uinspect_install(int sig);

/* Private: see usched__forked(). */
void uinspect__forked(void);

/*
 * Writes counters of all processors to the descriptor `fd', which waits natively, in the
 * text format 0.0.4 of Prometheus. For example
 *
 *	# HELP usched_parks_total Times that the processor went to sleep.
 *	# TYPE usched_parks_total counter
 *	usched_parks_total{scheduler="0",processor="0"} 1234
 *
 * Units are bytes and seconds. Schedulers are numbered in the order in which they were
 * created, and not as in a dump; when the last one was destroyed, the next one gets its
 * number, and counts from 0. The processors are not asked: it works while they compute,
 * block or sleep.
 * 0; -ENOMEM: no memory; or an error of write(2).
 * Does not switch.
 */
int uinspect_metrics(int fd);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_INSPECT_H */
