/* SPDX-License-Identifier: MIT */
/*
 * aarch64.S: the switch for AArch64, AAPCS64. The contract is in arch.h. The statement in
 * which most threads block is in uswitch.h; usched__handover() does the same as a
 * function.
 *
 * The frame that a function saves has, from the top up, what the ABI has a function
 * preserve, except FPCR (see ustack_control()):
 *
 *      0  x29 x30
 *     16  x19 ... x28
 *     96  d8 ... d15
 *    160  the caller's frame
 *
 * x30 is saved with a signature, which depends on SP and a key of the process. A frame
 * comes back to the same address, so the signature stays valid.
 */

#if !defined(__aarch64__) || defined(__ILP32__)
#error "not AArch64: take another file of arch/, or arch/setjmp.c with -lm"
#endif

#include "macros.h"
#include "offsets.h"

#define CONTEXT_PC      440             /* bytes, in ucontext_t */
#define FRAME           160
#define AT_HWCAP2       26
#define HWCAP2_SME      23              /* the number of a bit */

/* Makes a frame of `size' bytes, which begins with x29 and x30. */
.macro	enter size
	hint	#25                             /* paciasp, and a landing pad */
	.cfi_negate_ra_state
	stp	x29, x30, [sp, #-\size]!
	.cfi_def_cfa_offset \size
	.cfi_offset x29, -\size
	.cfi_offset x30, -\size + 8
	mov	x29, sp
.endm

/* Drops such a frame, before a return. */
.macro	leave size
	ldp	x29, x30, [sp], #\size
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	hint	#29                             /* autiasp */
	.cfi_negate_ra_state
.endm

.macro	save a, b, at
	stp	\a, \b, [sp, #\at]
	.cfi_offset \a, \at - FRAME
	.cfi_offset \b, \at - FRAME + 8
.endm

.macro	push_frame
	enter	FRAME
	save	x19, x20, 16
	save	x21, x22, 32
	save	x23, x24, 48
	save	x25, x26, 64
	save	x27, x28, 80
	save	d8, d9, 96
	save	d10, d11, 112
	save	d12, d13, 128
	save	d14, d15, 144
.endm

/*
 * Has unwinders take the thread that has blocked for the caller. Register `reg' has the
 * record of that thread.
 */
.macro	caller_of_record reg
	.cfi_escape 0x10, 30, 2, 0x70 + \reg, U_PC
	.cfi_escape 0x10, 29, 2, 0x70 + \reg, U_FP
	.cfi_escape 0x10, 19, 2, 0x70 + \reg, U_BP
.endm

	.text

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * x0, x1, x2.
 */
function usched__handover, visibility=protected
	hint	#34                             /* bti c */
	ldr	x9, [x2, #S_CAUGHT]
	ldr	w10, [x9, #CAUGHT_UNCAUGHT]
	ldr	x9, [x9]
	orr	x9, x9, x10
	cbz	x9, 1f
	b	usched__handover_caught
1:
	entry	usched__handover_plain
	push_frame
.Lagain:
	ldr	x9, [x1, #U_STACK]
	ldr	w10, [x1, #U_DEEP]
	mov	x12, sp
	ldr	x9, [x9, #K_BOTTOM]
	sub	x9, x9, x12                     /* R4 */
	cmp	x9, x10
	b.hi	.Lfit
	ldr	x9, [x2, #S_ERRNO]
	ldr	w10, [x9]
	str	w10, [x1, #U_ERRNO]
	adr	x10, usched__resumed
	stp	x12, x10, [x1, #U_TOP]          /* and U_PC */
	cbz	x0, .Lfar
	ldp	x12, x16, [x0, #U_TOP]
	tbnz	x12, #0, .Lfar
	str	x0, [x2, #S_CURRENT]
	ldr	x10, [x2, #S_SWITCHES]
	add	x10, x10, #1
	str	x10, [x2, #S_SWITCHES]
	ldr	w10, [x0, #U_ERRNO]
	str	w10, [x9]
	.cfi_remember_state
	.cfi_def_cfa sp, 0
	.cfi_undefined x30
	ldr	x29, [x0, #U_FP]
	ldr	x19, [x0, #U_BP]
	mov	sp, x12                         /* R5 */
	br	x16
	.cfi_restore_state
.Lfar:
	b	usched__far

.Lfit:
	bl	usched__fit
	cbnz	w0, .Lreturn
	mov	x0, x3
	b	.Lagain

	entry	usched__resumed
	hint	#36                             /* bti j */
	mov	w0, wzr
.Lreturn:
	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	leave	FRAME
	ret
end usched__handover

/*
 * Not called, but jumped to when `self' (x1) has blocked and its record says where it
 * goes on. x0 is u, x2 is s.
 */
function usched__far, visibility=protected
	.cfi_def_cfa sp, 0
	caller_of_record 1
	hint	#38                             /* bti jc */
	mov	x29, sp
	mov	x19, x1
	.cfi_def_cfa x29, 0
	caller_of_record 19
	mov	x1, x0
	mov	x0, x2
	bl	usched__go
	b	usched__jump
end usched__far

/*
 * Called by the statement and usched__handover(). Preserves x1 and x2, and returns in x3
 * what was in x0. The top is SP. Returns the result of usched__fit_top() in w0.
 */
function usched__fit, visibility=protected
	enter	48
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x0, x2
	add	x1, x29, #48
	bl	usched__fit_top
	ldp	x3, x1, [sp, #16]
	ldr	x2, [sp, #32]
	leave	48
	ret
end usched__fit

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * x0 is next, x1 is arg. next(), with x0 top and x1 arg, returns aj_at in x0 and aj_op in
 * x1.
 */
function usched__switch
	push_frame
	mov	x9, x0
	mov	x0, sp
	blr	x9
	b	usched__jump
end usched__switch

/* Goes where a struct arch_jump says: x0 is aj_at, x1 is aj_op. */
function usched__jump
	.cfi_undefined x30
	cmp	x1, #0
	b.le	.Lframe
	cmp	x1, #OP_LAUNCH
	b.eq	usched__launch
	b.hi	usched__below                   /* ARCH_VISIT */
	ldr	x9, [x0, #U_TOP]
	and	x9, x9, #-2
	mov	sp, x9                          /* R5 */
	cmp	x1, #OP_LOAD
	b.ne	.Lresume
	mov	x19, x0
	bl	usched__load
	mov	x0, x19
.Lresume:
	ldr	x16, [x0, #U_PC]
	ldr	x29, [x0, #U_FP]
	ldr	x19, [x0, #U_BP]
	br	x16

.Lframe:
	mov	sp, x0                          /* R5 */
	mov	w0, w1
	b	.Lreturn
end usched__jump

/*
 * Starts the thread in x0. Its outermost frame has no return address and x29 is 0, so
 * unwinders stop there. Other registers are cleared as x86_64.S says.
 */
function usched__launch
	.cfi_undefined x30
	ldr	x9, [x0, #U_STACK]
	ldr	x10, [x9, #K_BOTTOM]
	mov	sp, x10                         /* R5 */
	ldr	x9, [x9, #K_SCHED]
	ldr	x10, [x9, #S_FUNC]
	ldr	x0, [x9, #S_ARG]
	.irp	reg, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	mov	x\reg, xzr
	.endr
	blr	x10
	bl	usched__end
	b	usched__jump
end usched__launch

/* Calls usched__visited() below the blocked thread in x0, the caller for unwinders. */
function usched__below
	.cfi_undefined x30
	ldr	x9, [x0, #U_TOP]
	and	x9, x9, #-2
	mov	sp, x9                          /* R5 */
	mov	x29, sp
	mov	x19, x0
	.cfi_def_cfa x29, 0
	caller_of_record 19
	sub	sp, sp, #16                     /* the visitor's frames begin below */
	mov	w0, wzr
	bl	usched__visited
	b	usched__jump
end usched__below

/* _Noreturn void usched__exit(void); */
function usched__exit
	.cfi_undefined x30
	hint	#34                             /* bti c */
	bl	usched__finish
	b	usched__jump
end usched__exit

/* uint64_t usched__control(void); */
function usched__control
	hint	#34                             /* bti c */
	mrs	x0, fpcr
	ret
end usched__control

/* void usched__set_control(uint64_t words); */
function usched__set_control
	hint	#34                             /* bti c */
	msr	fpcr, x0
	ret
end usched__set_control

/*
 * int usched__probe(void);
 * chkfeat (a hint) clears bit 0 of x16 if a guarded control stack is on.
 */
function usched__probe
	hint	#34                             /* bti c */
	mov	x16, #1
	hint	#40                             /* chkfeat x16 */
	cbz	x16, 1f
	mov	w0, #1
	b	usched__has_sme
1:
	mov	w0, #-1
	ret
end usched__probe

/*
 * Increments x0 if the machine has SME. Preserves no other registers than the ABI says.
 * On systems other than Linux no thread may use SME, so x0 stays.
 */
function usched__has_sme
#ifdef __linux__
	enter	32
	str	x0, [sp, #16]
	mov	x0, #AT_HWCAP2
	bl	getauxval
	ubfx	x0, x0, #HWCAP2_SME, #1
	ldr	x1, [sp, #16]
	add	x0, x0, x1
	leave	32
#endif
	ret
end usched__has_sme

/*
 * void usched__commit(void);
 * A caller that still needs ZA has a block in its frame, to which TPIDR2_EL0 points:
 *
 *      0  where ZA is to be saved
 *      8  how many rows of ZA are to be saved, in 16 bits
 *     10  zeros, in this version of the ABI
 *
 * Sets TPIDR2_EL0 to 0, which tells that caller to load ZA from there again. Some
 * instructions are written as numbers, since not all assemblers know their names.
 */
function usched__commit
	enter	16
	mov	x0, xzr
	bl	usched__has_sme
	cbz	x0, 3f
	.inst	0xd53bd0a9                      /* mrs x9, tpidr2_el0 */
	cbz	x9, 3f
	ldr	x10, [x9, #8]
	lsr	x11, x10, #16
	cbz	x11, 1f
	brk	#1                              /* another version of the ABI */
1:
	ldr	x0, [x9]
	.inst	0x04bf5821                      /* rdsvl x1, #1 */
	mov	w12, wzr
	b	2f
.Lrow:
	.inst	0xe1200000                      /* str za[w12, 0], [x0] */
	add	x0, x0, x1
	add	w12, w12, #1
2:
	cmp	w12, w10
	b.lo	.Lrow
	.inst	0xd51bd0bf                      /* msr tpidr2_el0, xzr */
	.inst	0xd503447f                      /* smstop za */
3:
	leave	16
	ret
end usched__commit

	.section .rodata
	number	usched__return_at, 8
	number	usched__frame, 160
	number	usched__pc_at, CONTEXT_PC
	number	usched__shallow, 192

	text	usched__control_low, "FPCR"
	text	usched__control_high, ""

	.section .note.GNU-stack, "", %progbits

	/* GNU_PROPERTY_AARCH64_FEATURE_1_AND with BTI and PAC */
	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 3, 0
