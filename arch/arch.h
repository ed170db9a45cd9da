/* SPDX-License-Identifier: MIT */
/*
 * arch.h: what the file of a machine supplies to the dispatcher, and which functions of
 * the dispatcher that file calls. Private to usched.
 *
 * One file of arch/ is linked: that of the machine, or setjmp.c on any machine. A port
 * adds a file. No function here returns twice, as setjmp() does, so compilers need no
 * warning.
 */
#ifndef USCHED_ARCH_H
#define USCHED_ARCH_H

#include <stddef.h>
#include <stdint.h>

struct usched;
struct ustack;
struct usched_stack;

#define ARCH_PRIVATE __attribute__((visibility("hidden")))

/* For functions that threads call and that must not be inlined; uabi.h has the reason. */
#define BY_THREADS __attribute__((noinline))

/* For unusual cases, and functions that are called last. They are not inlined, so that
   their callers have small frames and save no registers. */
#define APART __attribute__((noinline))

/*
 * Where to go on: two words, which are returned in registers or memory as the ABI says.
 *
 *   aj_op          aj_at is                          then
 *   0, or -errno  a frame of usched__switch()      its call returns aj_op
 *   ARCH_RESUME   a blocked thread, in place       it goes on: SP is its u_top
 *   ARCH_LOAD     a blocked thread                 the same, after a call of
 *                                                  usched__load() below its u_top
 *   ARCH_LAUNCH   a new thread, on its stack       s_func(s_arg) of its dispatcher is
 *                                                  called at the bottom; then
 *                                                  usched__end() says where to go on
 *   ARCH_VISIT    a blocked thread                 usched__visited(0) is called below its
 *                                                  u_top, and says where to go on; for
 *                                                  unwinders the blocked thread calls
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
 * Saves on the stack the registers that a function must preserve by the ABI. Calls
 * next(top, arg) below them: all that the caller still needs is at `top' or above. Then,
 * before anything else (R5), moves SP to where `next' said, and goes on there. Returns
 * after a jump to the saved frame. Also returns when the thread is resumed, if u_top is
 * `top' and u_pc is usched__resumed.
 */
ARCH_PRIVATE int usched__switch(arch_next_fn *next, void *arg);

/* The address where a frame of usched__switch() goes on. Not a function to be called. */
ARCH_PRIVATE void usched__resumed(void);

/*
 * usched__handover(u, self, s), of ulayout.h, calls usched__handover_caught() unless the
 * words at s_caught are zeros. If they are zeros, usched__handover() blocks `self' as
 * usched__switch() does, and as the statement in uswitch.h does:
 *
 *  1. While SP is deeper than u_deep allows, usched__fit() calls usched__fit_top(s, SP).
 *     If usched__fit_top() fails, its result is returned. Else the SP that was compared
 *     is stored in u_top of `self' (R4), and errno in u_errno.
 *  2. If `u' is not NULL and bit 0 of its u_top is clear, `u' is made s_current, a switch
 *     is counted, errno becomes u_errno of `u', and `u' goes on.
 *  3. Otherwise usched__far() calls usched__go(s, u) below the frames of `self', and goes
 *     on where usched__go() says.
 *
 * Machines without such a statement need no usched__far() and usched__fit(), because all
 * threads block in a function of arch/ there, and go on at usched__resumed. The portable
 * switch has both functions, since programs may be compiled with a statement. But neither
 * is ever reached, since the words at s_caught are never all zeros there.
 */

/* Does what usched__handover() does if the words at s_caught are zeros, without a look at
   them. Not called with the portable switch. */
ARCH_PRIVATE int usched__handover_plain(struct ustack *u, struct ustack *self,
					struct usched *s);

/*
 * For uinspect.c: calls f(arg) below the top of `u', a blocked thread of the dispatcher
 * that runs here. The calling thread blocks meanwhile.
 * Returns 0, or an error that ustack_block() returns, too.
 */
ARCH_PRIVATE int usched__visit(struct ustack *u, void (*f)(void *), void *arg);

/* Leaves the running thread for good. Calls usched__finish(), and goes to its result. */
ARCH_PRIVATE _Noreturn void usched__exit(void);

/* Get and set the floating point control words, which are the halves of one number. */
ARCH_PRIVATE uint64_t usched__control(void);
ARCH_PRIVATE void usched__set_control(uint64_t words);

/* The names of the two control words, for reports. The second may be "". */
ARCH_PRIVATE extern const char usched__control_low[], usched__control_high[];

/*
 * Returns 1 if SP may be moved to any stack. Returns 2 if it may, but usched__commit()
 * must be called before each switch. Returns 0 if SP may be moved only on the native
 * stack, and -1 if SP may not be moved at all on this machine.
 */
ARCH_PRIVATE int usched__probe(void);

/*
 * On AArch64, the ABI lets callers leave ZA live until another function needs ZA. This
 * saves ZA to the callers' frames, which are still in place. Does nothing on other
 * machines.
 */
ARCH_PRIVATE void usched__commit(void);

/*
 * Get and set the thread pointer, which names the block of thread-local variables. With
 * ARCH_BLOCK user code may set it: on x86-64 if the kernel says so (ARCH_MAY_SET, a bit
 * of AT_HWCAP2). With ARCH_TLS_ABOVE static TLS is above the thread pointer, and libc's
 * struct for a thread below; else the other way round.
 */
#if defined(__x86_64__) && defined(__LP64__)
#define ARCH_BLOCK 1
#define ARCH_GET_BLOCK "movq	%%fs:0, %0"
#define ARCH_USE_BLOCK "wrfsbase	%0"
enum { ARCH_TLS_ABOVE = 0, ARCH_MAY_SET = 2 };
#elif defined(__aarch64__)
#define ARCH_BLOCK 1
#define ARCH_GET_BLOCK "mrs	%0, tpidr_el0"
#define ARCH_USE_BLOCK "msr	tpidr_el0, %0"
enum { ARCH_TLS_ABOVE = 1, ARCH_MAY_SET = 0 };
#else
#define ARCH_BLOCK 0
#endif

static inline char *usched__block(void)
{
	char *block = NULL;

#if ARCH_BLOCK
	__asm__ volatile(ARCH_GET_BLOCK : "=r"(block));
#endif
	return block;
}

static inline void usched__use_block(char *block)
{
#if ARCH_BLOCK
	__asm__ volatile(ARCH_USE_BLOCK : : "r"(block) : "memory");
#else
	(void)block;
#endif
}

/* Offset in bytes of the PC in the third argument of a signal handler; 0: unknown. */
ARCH_PRIVATE extern const unsigned usched__pc_at;

/* Returns the address of the instruction that a signal interrupted; 0: unknown. */
static inline uintptr_t usched__interrupted(const void *context)
{
	const uintptr_t *words = (const uintptr_t *)context;

	return usched__pc_at ? words[usched__pc_at / sizeof *words] : 0;
}

/*
 * Makes a request to Valgrind, see src/watch/watch.h. Valgrind recognizes the
 * sequence of instructions: rotations that cancel out, and one instruction that does
 * nothing. One register has the request, another gets the result. Without Valgrind
 * returns 0.
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

/*
 * Returns a counter that goes up at a steady pace on all processors, and is read in less
 * time than a clock of libc. 0: the machine has no such counter.
 */
static inline uint64_t usched__ticks(void)
{
	uint64_t ticks = 0;

#if defined(__x86_64__)
	uint32_t high;

	__asm__ volatile("rdtsc" : "=a"(ticks), "=d"(high));
	ticks |= (uint64_t)high << 32;
#elif defined(__aarch64__)
	__asm__ volatile("mrs	%0, cntvct_el0" : "=r"(ticks));
#endif
	return ticks;
}

/* Bytes from a top to the return address of the call of usched__switch(); -1: unknown. */
ARCH_PRIVATE extern const int usched__return_at;

/* The most bytes from a top to the frame of the caller of usched__switch(). */
ARCH_PRIVATE extern const unsigned usched__frame;

/* Bytes that a small function of the library, which blocks, needs beyond usched__frame.
   Where it has the statement of uswitch.h, usched__frame is a bound of its own frame. */
#if defined(__x86_64__) || defined(__aarch64__)
enum { ARCH_BLOCKS = 32 };
#else
enum { ARCH_BLOCKS = 192 };
#endif

/* The fewest bytes of frames that a thread in a plain wait has. For the default of
   c_image. */
ARCH_PRIVATE extern const unsigned usched__shallow;

/* For functions of usched.c that only assembly calls, which LTO does not see. */
#define ARCH_CALLED ARCH_PRIVATE __attribute__((used))
ARCH_CALLED void usched__load(void);    /* loads frames of s_current */
ARCH_CALLED struct arch_jump usched__go(struct usched *s, struct ustack *u);
ARCH_CALLED int usched__fit_top(struct usched *s, char *top);
ARCH_CALLED struct arch_jump usched__end(void); /* the function returned; may switch */
ARCH_CALLED struct arch_jump usched__finish(void);      /* after usched__end() */
/* Visits s_current. `loaded' is 1 if the frames were loaded for the visit already. */
ARCH_CALLED struct arch_jump usched__visited(int loaded);

/*
 * Returns whether the running thread can block with frames down to `top' without more
 * memory (R4). For upreempt_region.c.
 */
ARCH_PRIVATE int usched__fits(const struct usched *s, const char *top);

/* Returns the stack after `k', or NULL after the last. The first stack is s_victim. */
ARCH_PRIVATE struct usched_stack *usched__next_stack(const struct usched *s,
						     const struct usched_stack *k);

/*
 * The address where a new coroutine begins if the statement of coroutines resumes it. For
 * uco.c, with USCHED__BEGINS (uswitch.h). Not a function to be called.
 */
ARCH_PRIVATE void usched__begin(void);

#endif /* USCHED_ARCH_H */
