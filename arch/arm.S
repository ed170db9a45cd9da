/* SPDX-License-Identifier: MIT */
/*
 * arm.S: the switch for ARM with 32 bits, AAPCS, little endian, with floating point
 * registers or without. The contract is in arch.h.
 *
 * A frame saved by a function, from top up; what the ABI has a function preserve, except
 * FPSCR (see ustack_control()), and no more:
 *
 *      0  d8 ... d15
 *     64  (unused)
 *     68  r4 ... r11 lr
 *    104  the caller's
 *
 * There is no statement as in uswitch.h. So every thread has blocked in a function here,
 * below such a frame, and goes on at usched__resumed, whatever its u_pc.
 *
 * A struct arch_jump is returned in memory: r0 is its place, and the arguments follow.
 *
 * st_switches is incremented in two parts. Another native thread that reads it between
 * them, once in 2^32 switches, finds 2^32 too few.
 *
 * Unwinders have tables of their own here (.save and the like), which say one thing for
 * all of a function: what is so at its calls. Debuggers have .debug_frame.
 */

#if !defined(__arm__) || !defined(__ARM_EABI__) || defined(__ARMEB__) || __ARM_ARCH < 5
#error "not ARM with 32 bits, EABI, little endian: take arch/setjmp.c with -lm"
#endif

#define FUNCTION_START  .fnstart
#define FUNCTION_STOP   .fnend
#include "macros.h"
#include "offsets.h"

#define CONTEXT_PC      92              /* in ucontext_t */
#define FRAME           104
#define RETURN_AT       100
#define JUMP            8               /* bytes of a struct arch_jump */
#define CONTROL         0x07ff9f00      /* of FPSCR: without flags */

	.syntax	unified
	.arm
	.cfi_sections .debug_frame
#ifdef __ARM_FP
	.fpu	vfp
#endif

/* For debuggers: SP is a top. */
.macro	at_top
	.cfi_def_cfa sp, FRAME
	.irp	i, 4, 5, 6, 7, 8, 9, 10, 11
	.cfi_offset r\i, -36 + 4 * (\i - 4)
	.endr
	.cfi_offset lr, -4
#ifdef __ARM_FP
	.irp	i, 8, 9, 10, 11, 12, 13, 14, 15
	.cfi_offset d\i, -FRAME + 8 * (\i - 8)
	.endr
#endif
.endm

/* For unwinders: SP is so many bytes below a top, as at calls. */
.macro	frame_saved
	.save	{r4-r11, lr}
	.pad	#4
#ifdef __ARM_FP
	.vsave	{d8-d15}
#else
	.pad	#64
#endif
	.pad	#JUMP
.endm

.macro	push_frame
	push	{r4-r11, lr}
	.cfi_adjust_cfa_offset 36
	sub	sp, sp, #4
	.cfi_adjust_cfa_offset 4
#ifdef __ARM_FP
	vpush	{d8-d15}
#else
	sub	sp, sp, #64
#endif
	at_top
	frame_saved
.endm

/* After a call that has filled the struct arch_jump at SP: goes where that says. */
.macro	take_jump
	ldr	r0, [sp]
	ldr	r1, [sp, #4]
	b	usched__jump
.endm

	.text

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * r0, r1, r2; then in r4, r5, r6.
 */
function usched__handover, visibility=protected
	ldr	r3, [r2, #S_CAUGHT]
	ldr	r12, [r3]
	ldr	r3, [r3, #CAUGHT_UNCAUGHT]
	orrs	r3, r3, r12
	bne	usched__handover_caught
	entry	usched__handover_plain
	push_frame
	mov	r4, r0
	mov	r5, r1
	mov	r6, r2
.Lagain:
	ldr	r3, [r5, #U_STACK]
	ldr	r12, [r5, #U_DEEP]
	ldr	r3, [r3, #K_BOTTOM]
	sub	r3, r3, sp                      /* R4 */
	cmp	r3, r12
	bhi	.Lfit
	ldr	r7, [r6, #S_ERRNO]
	ldr	r3, [r7]
	str	r3, [r5, #U_ERRNO]
	str	sp, [r5, #U_TOP]
	adr	r3, .Lresumed
	str	r3, [r5, #U_PC]
	cmp	r4, #0
	beq	.Lfar
	ldr	r12, [r4, #U_TOP]
	tst	r12, #1
	bne	.Lfar
	str	r4, [r6, #S_CURRENT]
	ldr	r2, [r6, #S_SWITCHES]
	ldr	r3, [r6, #S_SWITCHES + 4]
	adds	r2, r2, #1
	adc	r3, r3, #0
	str	r2, [r6, #S_SWITCHES]
	str	r3, [r6, #S_SWITCHES + 4]
	ldr	r3, [r4, #U_ERRNO]
	str	r3, [r7]
	mov	sp, r12                         /* R5; its frame is like the other */

	entry	usched__resumed
.Lresumed:
	mov	r0, #0
.Lreturn:
	.cfi_remember_state
#ifdef __ARM_FP
	vpop	{d8-d15}
#else
	add	sp, sp, #64
#endif
	.cfi_adjust_cfa_offset -64
	add	sp, sp, #4
	.cfi_adjust_cfa_offset -4
	pop	{r4-r11, pc}
	.cfi_restore_state
	.cfi_def_cfa_offset FRAME               /* LLVM's assembler does not restore it */

.Lfit:
	mov	r0, r6
	mov	r1, sp
	sub	sp, sp, #JUMP
	.cfi_adjust_cfa_offset JUMP
	bl	usched__fit_top
	add	sp, sp, #JUMP
	.cfi_adjust_cfa_offset -JUMP
	cmp	r0, #0
	beq	.Lagain
	b	.Lreturn

.Lfar:
	mov	r1, r6
	mov	r2, r4
	sub	sp, sp, #JUMP
	.cfi_adjust_cfa_offset JUMP
	mov	r0, sp
	bl	usched__go
	take_jump
end usched__handover

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * r0 next, r1 arg; next(r0 the result's place, r1 top, r2 arg).
 */
function usched__switch
	push_frame
	mov	r3, r0
	mov	r2, r1
	mov	r1, sp
	sub	sp, sp, #JUMP
	.cfi_adjust_cfa_offset JUMP
	mov	r0, sp
	blx	r3
	take_jump
end usched__switch

/* r0 aj_at, r1 aj_op. */
function usched__jump
	.cantunwind
	.cfi_undefined lr
	cmp	r1, #0
	ble	.Lframe
	cmp	r1, #OP_LAUNCH
	beq	usched__launch
	bhi	usched__below                   /* ARCH_VISIT */
	ldr	r3, [r0, #U_TOP]
	bic	r3, r3, #1
	mov	sp, r3                          /* R5 */
	cmp	r1, #OP_LOAD
	bne	usched__resumed
	bl	usched__load
	b	usched__resumed

.Lframe:
	mov	sp, r0                          /* R5 */
	mov	r0, r1
	b	.Lreturn
end usched__jump

/*
 * r0 a thread. The outermost frame: no return address, frame pointers (r7 in Thumb) 0,
 * and unwinders are told so.
 */
function usched__launch
	.cantunwind
	.cfi_undefined lr
	ldr	r3, [r0, #U_STACK]
	ldr	sp, [r3, #K_BOTTOM]             /* R5 */
	ldr	r3, [r3, #K_SCHED]
	ldr	r12, [r3, #S_FUNC]
	ldr	r0, [r3, #S_ARG]
	.irp	reg, r4, r5, r6, r7, r8, r9, r10, r11, lr
	mov	\reg, #0
	.endr
	blx	r12
	sub	sp, sp, #JUMP
	mov	r0, sp
	bl	usched__end
	take_jump
end usched__launch

/* r0 a blocked thread, which calls usched__visited(), for unwinders. */
function usched__below
	at_top
	frame_saved
	ldr	r3, [r0, #U_TOP]
	bic	r3, r3, #1
	mov	sp, r3                          /* R5 */
	sub	sp, sp, #JUMP
	.cfi_adjust_cfa_offset JUMP
	mov	r0, sp
	mov	r1, #0
	bl	usched__visited
	take_jump
end usched__below

/* _Noreturn void usched__exit(void); */
function usched__exit
	.cantunwind
	.cfi_undefined lr
	sub	sp, sp, #JUMP
	mov	r0, sp
	bl	usched__finish
	take_jump
end usched__exit

/* uint64_t usched__control(void); */
function usched__control
	mov	r1, #0
#ifdef __ARM_FP
	vmrs	r0, fpscr
	ldr	r2, =CONTROL
	and	r0, r0, r2
#else
	mov	r0, #0
#endif
	bx	lr
	.ltorg
end usched__control

/* void usched__set_control(uint64_t words); */
function usched__set_control
#ifdef __ARM_FP
	vmsr	fpscr, r0
#endif
	bx	lr
end usched__set_control

/* int usched__probe(void); */
function usched__probe
	mov	r0, #1
	bx	lr
end usched__probe

/* void usched__commit(void); */
function usched__commit
	bx	lr
end usched__commit

	.section .rodata
	number	usched__return_at, RETURN_AT
	number	usched__frame, FRAME + JUMP
	number	usched__pc_at, CONTEXT_PC
	number	usched__shallow, 160

	text	usched__control_low, "FPSCR"
	text	usched__control_high, ""

	.section .note.GNU-stack, "", %progbits
