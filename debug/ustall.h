/* SPDX-License-Identifier: MIT */
/*
 * ustall.h: reports of threads that keep their processor for longer than c_stall
 * (uprocs.h). A report comes while the thread still keeps the processor:
 *
 *	usched: stall: thread 0x7f.. "client 7", function 0x55.. (server+0x12f0 handler),
 *		has kept processor 0 for 31 ms, 30 ms of that on a CPU: it computes, at
 *	usched:   0x55.. (server+0x130a parse)
 *
 * More calls follow, on x86-64 and AArch64 with glibc. If the thread sleeps in a native
 * call that a signal would end with EINTR, the thread gets no signal, and the message
 * names only that call. A wait for a lock or a condition of pthread.h is such a call only
 * with a time. The next message comes when the thread has kept its processor for twice as
 * long. With USCHED_RECORD a record is written, once in 10 seconds: see uinspect_dump().
 * The thread may hold any lock, even one that malloc() needs.
 */
#ifndef USCHED_STALL_H
#define USCHED_STALL_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Must be called before a scheduler with c_stall is created. Otherwise the creation fails
 * with -ENOTSUP. The call makes the processors of such schedulers report. libusched-check
 * makes the call itself.
 * From any native thread. Does not switch.
 */
void ustall_install(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_STALL_H */
