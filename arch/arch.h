/* SPDX-License-Identifier: MIT */
/*
 * arch.h: what an ISA supplies to the dispatcher, and what it calls of the dispatcher.
 * Private to usched.
 *
 * One file of arch/ is linked: x86_64.S or aarch64.S, or setjmp.c anywhere. A port adds
 * one. No function here returns twice, so compilers need no warning of any.
 */
#ifndef USCHED_ARCH_H
#define USCHED_ARCH_H

#include <stdint.h>

struct usched;
struct ustack;
struct usched_stack;

#define ARCH_PRIVATE __attribute__((visibility("hidden")))

/*
 * Where to go on: two words, returned in two registers.
 *
 *   j_op          at j_sp is                           then
 *   0, or -errno  a frame of usched__switch()          its call returns j_op
 *   ARCH_LOAD     the place of such a frame            usched__load() is called
 *                                                      below, its call returns 0
 *   an address    the bottom of a stack                usched__start() is called
 *                                                      below, then what that returns
 *
 * The address is of the frame saved by usched_run(): a new thread inherits from it what a
 * C function expects to be set, such as floating point control words.
 */
struct arch_jump {
	char    *j_sp;
	intptr_t j_op;
};

#define ARCH_LOAD ((intptr_t)1)

typedef struct arch_jump arch_next_fn(char *top, void *arg);

/*
 * Saves on the stack what the ABI has a function preserve, and calls next(top, arg)
 * below: all that is live of the caller is at `top' or above. Then moves SP to the j_sp
 * that `next' returned, first of all (R5), and goes on as j_op says. Returns after a jump
 * to the saved frame. The value of errno, at s_errno, is part of that frame.
 */
ARCH_PRIVATE int usched__switch(arch_next_fn *next, void *arg, struct usched *s);

/*
 * usched__handover(u, self, s), declared in usched.h, is usched__handover_caught() unless
 * s_caught is all zeros; then it is usched__switch(usched__handover_slow, u, s). Where
 * nothing has to be copied or allocated it may take a shorter way: if `self' has blocked
 * as deep before (u_deep) and `u' is resident on a stack of `s'. Then it sets u_top of
 * `self' and s_current, counts a switch, and goes on at u_top of `u'.
 */

/*
 * Leaves a thread of `s': calls usched__finish() and goes where it says. Saves nothing.
 */
ARCH_PRIVATE _Noreturn void usched__exit(struct usched *s);

/*
 * 1: SP may be moved to any stack; 0: only on the native one; -ENOTSUP: not at all here.
 */
ARCH_PRIVATE int usched__probe(void);

/* A request to Valgrind, see watch/watch.h. 0: it is not there. */
ARCH_PRIVATE uintptr_t usched__valgrind(const uintptr_t request[6]);

/* Bytes from a top to the return address of the call of usched__switch(); -1: unknown. */
ARCH_PRIVATE extern const int usched__return_at;

/* Bytes from a top to the frame of the caller of usched__switch(), at most. */
ARCH_PRIVATE extern const unsigned usched__frame;

/* The call that a thread begins with. Two words, as above. */
struct arch_start {
	void (*t_func)(void *arg);
	void  *t_arg;
};

/* Supplied by usched.c. */
ARCH_PRIVATE void usched__load(void);   /* loads s_current */
ARCH_PRIVATE struct arch_start usched__start(void);     /* of s_current */
ARCH_PRIVATE void usched__end(void);  /* its function has returned; may switch */
ARCH_PRIVATE struct arch_jump usched__finish(void);     /* after its end */
ARCH_PRIVATE arch_next_fn usched__handover_slow;
ARCH_PRIVATE int usched__handover_caught(struct ustack *u, struct ustack *self,
					 struct usched *s);

/* For uframes.c: the next of all stacks, which begin with s_victim; or NULL. */
ARCH_PRIVATE struct usched_stack *usched__next_stack(const struct usched *s,
						     const struct usched_stack *k);

#endif /* USCHED_ARCH_H */
