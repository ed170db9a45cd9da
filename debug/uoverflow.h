/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.h: a message when a thread outgrows its stack, before the process dies.
 *
 * Below each stack is a guard, so an overflow is a SIGSEGV. With this module there is a
 * message on standard error first,
 *
 *   usched: stack overflow: thread 0x7f.., function 0x55.., stack of 262144 bytes at ..
 *   usched:   thread 0x7f.. "client 7", function 0x55.. (server+0x12f0 handler), at
 *   usched:   0x55.. (server+0x130a parse)
 *
 * and more calls, the innermost and the outermost. A handler on an alternate stack writes
 * it. Every other fault goes to the previous handler, or has its default effect. The
 * library does not need this module.
 *
 * A fault is an overflow if it is in the guard below the stack of the running thread. A
 * frame larger than the guard may step over it, into another stack: with
 * -fstack-clash-protection compilers touch each page of such a frame in turn.
 */
#ifndef USCHED_OVERFLOW_H
#define USCHED_OVERFLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs the handler of SIGSEGV and SIGBUS for the process, and an alternate stack for
 * the calling native thread. Processors have theirs, also those made before. A further
 * call does no more than uoverflow_stack().
 * 0; as uoverflow_stack().
 * From any native thread. Does not switch.
 */
int uoverflow_install(void);

/*
 * Gives the calling native thread an alternate stack, if it has none, until its end. For
 * native threads that call usched_run(), or run a processor (c_embed).
 * 0; -ENOMEM; -EAGAIN: no more keys of native threads.
 * Does not switch.
 */
int uoverflow_stack(void);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OVERFLOW_H */
