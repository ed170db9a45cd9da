/* SPDX-License-Identifier: MIT */
/*
 * uoverflow.h: a thread that outgrows its stack says so before the process dies.
 *
 * It dies in any case: below each stack is a guard. Without this module that is a
 * SIGSEGV like any other. With it there is a message on standard error first,
 *
 *   usched: stack overflow: thread 0x7f.., function 0x55.., stack of 262144 bytes at ..
 *   usched:   function 0x55..: handler+0x0, ./server+0x12f0
 *
 * written by a handler that runs on an alternate stack, for the thread's has no room.
 * Every other fault goes to the handler that was there before, or is what it was without
 * one. Nothing in the library needs this module.
 *
 * Known from where the fault was: in the guard below the stack of the thread that runs. A
 * function whose frame is larger than the guard may step over it, into another stack:
 * -fstack-clash-protection has compilers touch each page of such a frame in turn.
 */
#ifndef USCHED_OVERFLOW_H
#define USCHED_OVERFLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Installs the handler, of SIGSEGV and SIGBUS, for the process, and an alternate stack
 * for the calling native thread. Processors have theirs, whenever they were made. To call
 * it again is no error, and does no more than uoverflow_stack().
 * 0; as uoverflow_stack().
 * From any native thread. Does not switch.
 */
int uoverflow_install(void);

/*
 * Gives the calling native thread an alternate stack, if it has none, until its end. For
 * those that call usched_run() themselves, or drive a processor (c_embed).
 * 0; -ENOMEM; -EAGAIN: no more keys of native threads.
 * Does not switch.
 */
int uoverflow_stack(void);

/*
 * Private, for processors: who makes one maps a stack (NULL: no memory) and unmaps it, and
 * its native thread adopts that, which cannot fail, and leaves it at its end.
 */
void *uoverflow__map(void);
void  uoverflow__adopt(void *stack);
void  uoverflow__leave(void);
void  uoverflow__unmap(void *stack);

#ifdef __cplusplus
}
#endif

#endif /* USCHED_OVERFLOW_H */
