/* SPDX-License-Identifier: MIT */
/*
 * arch.h: what an ISA supplies to the dispatcher, and calls of the dispatcher.
 * Private to usched.
 *
 * One file of arch/ is linked: that of the machine, or setjmp.c anywhere. A port adds
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
 * Where to go on: two words, returned as the ABI has it, in registers or in memory.
 *
 *   aj_op          aj_at is                          then
 *   0, or -errno  a frame of usched__switch()      its call returns aj_op
 *   ARCH_RESUME   a blocked thread, in place       it goes on: SP is its u_top
 *   ARCH_LOAD     a blocked thread                 likewise, after usched__load() was
 *                                                  called below that
 *   ARCH_LAUNCH   a new thread, on its stack       at the bottom s_func(s_arg) of its
 *                                                  dispatcher is called; then
 *                                                  usched__end() says where to go on
 *   ARCH_VISIT    a blocked thread                 below its top usched__visited(0) says
 *                                                  where to go on; its caller, for
 *                                                  unwinders, is what has blocked
 */
struct arch_jump {
	void    *aj_at;
	intptr_t aj_op;
};

#define ARCH_RESUME ((intptr_t)1)
#define ARCH_LOAD   ((intptr_t)2)
#define ARCH_LAUNCH ((intptr_t)3)
#define ARCH_VISIT  ((intptr_t)4)

typedef struct arch_jump arch_next_fn(char *top, void *arg);

/*
 * Saves on the stack what the ABI has a function preserve, and calls next(top, arg)
 * below: all that is live of the caller is at `top' or above. Then moves SP to where
 * `next' said, first of all (R5), and goes on there. Returns after a jump to the saved
 * frame, or when a thread is resumed whose u_top is `top' and u_pc is usched__resumed.
 */
ARCH_PRIVATE int usched__switch(arch_next_fn *next, void *arg);

/* The address where such a frame goes on; not a function to be called. */
ARCH_PRIVATE void usched__resumed(void);

/*
 * usched__handover(u, self, s), of ulayout.h, is usched__handover_caught() unless
 * s_caught is all zeros. Then it blocks `self' as usched__switch() does, and as the
 * statement in uswitch.h:
 *
 *  1. While SP is deeper than u_deep allows, usched__fit() calls usched__fit_top(s, SP).
 *     If that fails, its result is returned. The SP that was compared is the u_top of
 *     `self' (R4), and errno goes to u_errno.
 *  2. If `u' is not NULL and bit 0 of its u_top is clear, it is made s_current, a switch
 *     is counted, errno becomes u_errno of `u', and that goes on.
 *  3. Otherwise usched__far() calls usched__go(s, u) below the frames of
 *     `self', and goes on as that says.
 *
 * Machines without such a statement need no usched__far() and usched__fit(): there every
 * thread blocks in a function of arch/, and goes on at usched__resumed. The portable
 * switch has both, since programs may be compiled with a statement; but s_caught is never
 * all zeros there, and they are never reached.
 */

/* Does what usched__handover() does where s_caught is all zeros, whatever s_caught is.
   Not called with the portable switch. */
ARCH_PRIVATE int usched__handover_plain(struct ustack *u, struct ustack *self,
					struct usched *s);

/*
 * For uinspect.c: calls f(arg) below the top of `u', a blocked thread of the dispatcher
 * that runs here. The calling thread blocks meanwhile.
 * 0; as ustack_block().
 */
ARCH_PRIVATE int usched__visit(struct ustack *u, void (*f)(void *), void *arg);

/* Leaves a thread: calls usched__finish(), and goes to the result. Saves nothing. */
ARCH_PRIVATE _Noreturn void usched__exit(void);

/* Get and set the floating point control words, in one word. */
ARCH_PRIVATE uint64_t usched__control(void);
ARCH_PRIVATE void usched__set_control(uint64_t words);

/* The names of the word's halves, for reports; the second may be "". */
ARCH_PRIVATE extern const char usched__control_low[], usched__control_high[];

/*
 * Returns 1 if SP may be moved to any stack; 2: the same, with usched__commit() before
 * each switch; 0: only on the native stack; -1: not at all on this machine.
 */
ARCH_PRIVATE int usched__probe(void);

/*
 * Saves registers that the ABI lets callers keep live until another function needs them
 * (ZA on AArch64), to places in the callers' frames, which are still in place. Does
 * nothing on other machines.
 */
ARCH_PRIVATE void usched__commit(void);

/* The byte of the PC in the third argument of a signal handler; 0: unknown. */
ARCH_PRIVATE extern const unsigned usched__pc_at;

/* Returns the interrupted instruction, from that argument; 0: unknown. */
static inline uintptr_t usched__interrupted(const void *context)
{
	const uintptr_t *words = (const uintptr_t *)context;

	return usched__pc_at ? words[usched__pc_at / sizeof *words] : 0;
}

/*
 * Makes a request to Valgrind, see src/watch/watch.h. Returns 0 without Valgrind, which
 * knows the sequence of instructions: rotations that cancel out, and one that does
 * nothing. The request is in one register, the result comes in another.
 */
static inline uintptr_t usched__valgrind(const uintptr_t request[6])
{
	uintptr_t result = 0;

#if defined(__x86_64__) && defined(__LP64__)
	__asm__ volatile("rolq	$3, %%rdi\n\trolq	$13, %%rdi\n\t"
			 "rolq	$61, %%rdi\n\trolq	$51, %%rdi\n\t"
			 "xchgq	%%rbx, %%rbx"
			 : "+d"(result) : "a"(request) : "cc", "memory");
#elif defined(__i386__)
	__asm__ volatile("roll	$3, %%edi\n\troll	$13, %%edi\n\t"
			 "roll	$29, %%edi\n\troll	$19, %%edi\n\t"
			 "xchgl	%%ebx, %%ebx"
			 : "+d"(result) : "a"(request) : "cc", "memory");
#elif defined(__aarch64__) && defined(__LP64__)
	__asm__ volatile("mov	x4, %1\n\tmov	x3, xzr\n\t"
			 "ror	x12, x12, #3\n\tror	x12, x12, #13\n\t"
			 "ror	x12, x12, #51\n\tror	x12, x12, #61\n\t"
			 "orr	x10, x10, x10\n\tmov	%0, x3"
			 : "=r"(result) : "r"(request) : "x3", "x4", "memory");
#elif defined(__arm__) && __ARM_ARCH >= 7
	__asm__ volatile("mov	r4, %1\n\tmov	r3, #0\n\t"
			 "mov	r12, r12, ror #3\n\tmov	r12, r12, ror #13\n\t"
			 "mov	r12, r12, ror #29\n\tmov	r12, r12, ror #19\n\t"
			 "orr	r10, r10, r10\n\tmov	%0, r3"
			 : "=r"(result) : "r"(request) : "r3", "r4", "cc", "memory");
#else
	(void)request;
#endif
	return result;
}

/* Bytes from a top to the return address of the call of usched__switch(); -1: unknown. */
ARCH_PRIVATE extern const int usched__return_at;

/* Bytes from a top to the frame of the caller of usched__switch(), at most. */
ARCH_PRIVATE extern const unsigned usched__frame;

/* Bytes of frames that a thread in a plain wait has at least; for defaults. */
ARCH_PRIVATE extern const unsigned usched__shallow;

/* Supplied by usched.c. Used: assembly calls them, which LTO does not see in one file. */
#define ARCH_CALLED ARCH_PRIVATE __attribute__((used))
ARCH_CALLED void usched__load(void);    /* loads s_current */
ARCH_CALLED struct arch_jump usched__go(struct usched *s, struct ustack *u);
ARCH_CALLED int usched__fit_top(struct usched *s, char *top);
ARCH_CALLED struct arch_jump usched__end(void); /* after the function; may switch */
ARCH_CALLED struct arch_jump usched__finish(void);      /* after its end */
/* Visits s_current; 1: the frames were loaded for that already. */
ARCH_CALLED struct arch_jump usched__visited(int loaded);

/*
 * For upreempt_region.c. Whether the running thread can block with frames down to `top'
 * without more memory (R4).
 */
ARCH_PRIVATE int usched__fits(const struct usched *s, const char *top);

/* Returns the stack after `k', of all, which begin with s_victim; or NULL. */
ARCH_PRIVATE struct usched_stack *usched__next_stack(const struct usched *s,
						     const struct usched_stack *k);

/*
 * The address where frames of coroutines begin that a statement resumes, for
 * uco_frames.c, with USCHED__BEGINS (uswitch.h). Not to be called.
 */
ARCH_PRIVATE void usched__begin(void);

#endif /* USCHED_ARCH_H */
