/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.h: a message when a thread outgrows its stack, before the process dies.
 *
 * Below each stack is a guard, so an overflow is a SIGSEGV. With this module there is a
 * message on standard error first (here lines are broken),
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
 * with the eight innermost and the eight outermost calls, except with the portable
 * switch. For a thread with an own stack (h_stack) the message says "own stack"; the
 * coroutines of such a thread are on stacks of c_stack_size. A handler on an alternate
 * stack writes the message. The library does not need this module.
 *
 * A fault is an overflow if it is in the guard below the stack of the thread that runs
 * on this native thread; a stray pointer into that range counts, too. Then the process
 * dies by SIGSEGV, at the instruction that met the guard, and earlier handlers are not
 * called. Every other fault goes to the previous handler, with the mask and flags of that
 * handler, on the alternate stack, which has 64 KiB besides what the system puts there;
 * without a previous handler the fault has its default effect. A program that wants to
 * see overflows itself installs a handler after uoverflow_install(), which calls the
 * previous handler.
 */
#ifndef USCHED_OVERFLOW_H
#define USCHED_OVERFLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs the handler of SIGSEGV and SIGBUS for the process, at the first call, and
 * gives the calling native thread an alternate stack until its end, if it has none. Each
 * native thread that calls usched_run() or uprocs_run() makes the call; processors have
 * alternate stacks whenever the module is linked.
 * 0; -ENOMEM: no memory; -EAGAIN: no more keys of native threads.
 * From any native thread. Does not switch.
 */
int uoverflow_install(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OVERFLOW_H */
