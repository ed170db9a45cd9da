/* SPDX-License-Identifier: MIT */
/*
 * uinspect.h: what the threads of the process do. A dump shows all threads of all
 * schedulers over processors, such as rr and ll, while the threads go on. Metrics are
 * counters of these processors. This is a dump:
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
 * Threads with the same function, state and calls form a group. The largest group comes
 * first. 0x... is an address in memory. Behind it come the address in the file, for
 * addr2line(1), and the function if the file has a symbol table. The address of a call is
 * that of its last byte. Processor 0.1 is the second processor of the first scheduler.
 * The holder is the thread whose address follows "held by". If the dump has no such
 * thread, the holder is a native thread, a thread of another dispatcher, or a thread that
 * has ended. The state of a thread is
 *
 *   new         The thread has not run yet.
 *   ready       The thread could run, but other threads run before.
 *   woken       The wait is over, and the wake is on the way.
 *   waits for   The thread waits for an object. The holder is shown if known.
 *   joins       The thread waits for the end of the thread that says "joined by".
 *
 * A thread of the library visits the threads of a processor, in pieces of 256 threads or
 * a third of a millisecond. The processor's threads run between the pieces. So each
 * thread is shown as it is at one time, but different threads at different times. For
 * example, a thread may join a thread that was visited before, and a thread that moves to
 * another processor meanwhile may be shown twice or not at all. A processor that sleeps
 * is woken. If a processor does not answer for a second, a thread keeps the processor:
 * it computes or blocks natively. The dump says so. The threads that were not visited are
 * only counted.
 * After uinspect_install() the dump also shows the thread that keeps the processor, and
 * the calls of that thread. If less than 16 KiB are left on the stack of a thread, only
 * the last call is shown.
 *
 * Names are those of ustack_name(). Readers from outside of the process find the names
 * and all else through usched__layout: see src/proc/layout.h.
 */
#ifndef USCHED_INSPECT_H
#define USCHED_INSPECT_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
	UINSPECT_BRIEF = 1,     /* shows names and states, but no calls */
	UINSPECT_RECORD = 2,    /* writes a record: see uinspect_dump() */
	UINSPECT_LOST = 4,      /* shows threads that nothing can wake: likewise */
};

/*
 * Writes all threads to the descriptor `fd'. The writes wait natively. `how' is
 * UINSPECT_BRIEF or 0. With UINSPECT_RECORD writes a record instead: the last 262,144
 * switches, waits and wakes of each processor. That takes some tenths of a second.
 * Processors keep these, in 8 MiB of memory each, if USCHED_RECORD is in the environment
 * at the start and utrace.c in the program. Then a stall (ustall.h) and each dump by
 * uinspect_install() write a record, too, to the file that USCHED_RECORD names, with "."
 * and the process ID at the end. `uthreads trace FILE' shows a record.
 * With UINSPECT_LOST shows the threads that nothing can wake any more, grouped by the
 * function that they were started with and by their calls. USCHED_LOST in the environment
 * names the file of uthreads(1), which the call runs as `uthreads bt --lost --group', as
 * a child of the process, and awaits. All native threads stand still while uthreads
 * copies the memory of the process. Each dump by uinspect_install() then ends with these
 * threads, too. PR_SET_PTRACER of prctl(2) allows the process's own children afterwards.
 * The threads of a scheduler with c_embed are shown only if the loop of the scheduler
 * runs meanwhile. uprocs_destroy() waits while its scheduler is read.
 * 0, or an error of write(2); -ENOMEM: no memory, or some threads were left out, which
 * the text counts; -ENOTSUP: UINSPECT_RECORD, and nothing is recorded, or UINSPECT_LOST
 * without USCHED_LOST; -EIO: uthreads failed, and has said why to `fd'; -EAGAIN: no
 * native thread could be started; with UINSPECT_LOST also an error of posix_spawn(3).
 * From a thread: switches, and a cancel does not end the call. From a native thread:
 * blocks the native thread; with SINGLE_THREAD runs the threads, as ustack_join() does.
 */
int uinspect_dump(int fd, unsigned how);

/*
 * Makes a native thread that dumps to standard error whenever the signal `sig' comes,
 * for example SIGQUIT, also while no processor answers. The signal handler only wakes
 * that native thread. After this call, if a processor does not answer, each dump sends
 * `sig' to the native thread of the processor, to ask for the thread that runs there and
 * its calls. So if a thread blocks natively in a system call, the call may fail with
 * EINTR, unless SA_RESTART covers that system call. The calls are known on x86-64 and
 * AArch64 with glibc. The child of a fork does not have the native thread that dumps.
 * 0; -EINVAL: no such signal; -EAGAIN: as uinspect_dump(); -ENOTSUP: SINGLE_THREAD.
 * Does not switch.
 */
int uinspect_install(int sig);

/* Private: see usched__forked(). */
void uinspect__forked(void);

/*
 * Writes counters of all processors to the descriptor `fd', in the text format 0.0.4 of
 * Prometheus. The writes wait natively. For example
 *
 *	# HELP usched_parks_total Times that the processor went to sleep.
 *	# TYPE usched_parks_total counter
 *	usched_parks_total{scheduler="0",processor="0"} 1234
 *
 * Units are bytes and seconds. Schedulers are numbered in the order of their creation,
 * unlike in a dump. If the newest scheduler is destroyed, the next one that
 * is created gets the same number, with counters that begin at 0. The processors are not
 * asked, so the call works while they compute, block or sleep.
 * 0, or an error of write(2); -ENOMEM: no memory.
 * Does not switch.
 */
int uinspect_metrics(int fd);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_INSPECT_H */
