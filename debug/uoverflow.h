/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.h: a message when a thread outgrows its stack, before the process dies.
 *
 * Below each stack is a guard, so an overflow raises SIGSEGV. With this module a message
 * is written to standard error first (long lines are broken here):
 *
 *	usched: stack overflow: thread 0x7f36ea568040, function 0x55717a86c1cb,
 *		stack of 262144 bytes at 0x7f36ec5b0000;
 *		c_stack_size of struct uprocs_conf sets it
 *	usched:   thread 0x7f36ea568040 "client 7",
 *		function 0x55717a86c1cb (server+0x11cb handler), at
 *	usched:   0x55717a86c09c (server+0x109c parse)
 *	usched:   and 1170 more
 *	usched:   0x55717a86c1d9 (server+0x11d9 handler)
 *
 * The message shows the eight innermost and the eight outermost calls, but no calls with
 * the portable switch. For a thread with an own stack (h_stack) the message says "own
 * stack"; the coroutines of such a thread are on stacks of c_stack_size. A signal handler
 * on an alternate stack writes the message. The library does not need this module.
 *
 * A fault is an overflow if its address is in the guard below the stack of the thread
 * that runs on this native thread. A stray pointer into the guard counts, too. After the
 * message the process dies by SIGSEGV, at the instruction that met the guard. Handlers
 * that were installed before are not called. Every other fault goes to the previous
 * handler, with the mask and flags of that handler, on the alternate stack. There are
 * 64 KiB for the handler, besides what the system needs. Without a previous handler the
 * fault has its default effect. A program that wants to see overflows itself installs a
 * handler after uoverflow_install(). That handler must call the previous one.
 */
#ifndef USCHED_OVERFLOW_H
#define USCHED_OVERFLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The first call installs the handler of SIGSEGV and SIGBUS for the process. Each call
 * gives the calling native thread an alternate stack until its end, unless it has one. So
 * each native thread that calls usched_run() or uprocs_run() makes this call. Processors
 * have alternate stacks whenever the module is linked.
 * 0; -ENOMEM: no memory; -EAGAIN: no more keys of native threads.
 * From any native thread. Does not switch.
 */
int uoverflow_install(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OVERFLOW_H */
