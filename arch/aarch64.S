/* SPDX-License-Identifier: MIT */
/*
 * aarch64.S: the switch for AArch64, AAPCS64. The contract is in arch.h.
 *
 * A saved frame, from top up; what the ABI has a function preserve, and no
 * more:
 *
 *      0  x29 x30
 *     16  x19 ... x28
 *     96  d8 ... d15
 *    160  FPCR (8 bytes), errno (4), unused (4)
 *    176  the caller's
 *
 * In between, x19 holds the FPCR of the thread that blocked: comparing it costs less than
 * writing it. x20 is the dispatcher.
 *
 * x30 is saved signed. The signature depends on SP and a key of the process;
 * a frame comes back to its address, so it stays valid.
 */

#if !defined(__aarch64__) || defined(__ILP32__)
#error "not AArch64: take arch/x86_64.S on x86-64, and elsewhere arch/setjmp.c with -lm"
#endif

#include "offsets.h"

#define OP_LOAD 1                       /* ARCH_LOAD */
#define FRAME   176

/* Writes the FPCR saved in the frame at `frame' where it differs from x19. */
.macro	load_control frame
	ldr	x9, [\frame, #160]
	cmp	x9, x19
	b.eq	9f
	msr	fpcr, x9
9:
.endm

/* Leaves its FPCR in x19 and `sched' in x20. */
.macro	push_frame sched
	hint	#25                             /* paciasp, and a landing pad */
	.cfi_negate_ra_state
	stp	x29, x30, [sp, #-FRAME]!
	.cfi_def_cfa_offset FRAME
	.cfi_offset x29, -FRAME
	.cfi_offset x30, -FRAME + 8
	mov	x29, sp
	stp	x19, x20, [sp, #16]
	.cfi_offset x19, -FRAME + 16
	.cfi_offset x20, -FRAME + 24
	stp	x21, x22, [sp, #32]
	.cfi_offset x21, -FRAME + 32
	.cfi_offset x22, -FRAME + 40
	stp	x23, x24, [sp, #48]
	.cfi_offset x23, -FRAME + 48
	.cfi_offset x24, -FRAME + 56
	stp	x25, x26, [sp, #64]
	.cfi_offset x25, -FRAME + 64
	.cfi_offset x26, -FRAME + 72
	stp	x27, x28, [sp, #80]
	.cfi_offset x27, -FRAME + 80
	.cfi_offset x28, -FRAME + 88
	stp	d8, d9, [sp, #96]
	.cfi_offset d8, -FRAME + 96
	.cfi_offset d9, -FRAME + 104
	stp	d10, d11, [sp, #112]
	.cfi_offset d10, -FRAME + 112
	.cfi_offset d11, -FRAME + 120
	stp	d12, d13, [sp, #128]
	.cfi_offset d12, -FRAME + 128
	.cfi_offset d13, -FRAME + 136
	stp	d14, d15, [sp, #144]
	.cfi_offset d14, -FRAME + 144
	.cfi_offset d15, -FRAME + 152
	mrs	x19, fpcr
	str	x19, [sp, #160]
	mov	x20, \sched
	ldr	x9, [x20, #S_ERRNO]
	ldr	w9, [x9]
	str	w9, [sp, #168]
.endm

.macro	function name visibility=hidden
	.globl	\name
	.\visibility \name
	.type	\name, %function
	.balign	16
\name:
	.cfi_startproc
.endm

.macro	end name
	.cfi_endproc
	.size	\name, . - \name
.endm

	.text

/*
 * int usched__switch(arch_next_fn *next, void *arg, struct usched *s);
 * x0 next, x1 arg, x2 s; next(x0 top, x1 arg) returns x0 j_sp, x1 j_op.
 */
function usched__switch
	push_frame x2
	mov	x9, x0
	mov	x0, sp
	blr	x9

.Ljump:
	mov	sp, x0                          /* R5 */
	cmp	x1, #0
	b.gt	.Lfar
.Lresume:
	load_control sp
	ldr	x9, [x20, #S_ERRNO]
	ldr	w10, [sp, #168]
	str	w10, [x9]
	mov	w0, w1
	ldp	d14, d15, [sp, #144]
	ldp	d12, d13, [sp, #128]
	ldp	d10, d11, [sp, #112]
	ldp	d8, d9, [sp, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	.cfi_remember_state
	ldp	x29, x30, [sp], #FRAME
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	hint	#29                             /* autiasp */
	.cfi_negate_ra_state
	ret
	.cfi_restore_state

.Lfar:
	cmp	x1, #OP_LOAD
	b.ne	usched__launch
	bl	usched__load
	mov	w1, wzr
	b	.Lresume
end usched__switch

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * x0, x1, x2.
 */
function usched__handover visibility=protected
	hint	#34                             /* bti c */
	ldr	x9, [x2, #S_CAUGHT]
	ldr	w10, [x9, #CAUGHT_UNCAUGHT]
	ldr	x9, [x9]
	orr	x9, x9, x10
	cbz	x9, 1f
	b	usched__handover_caught
1:
	push_frame x2
	ldr	x9, [x1, #U_STACK]
	ldr	w10, [x1, #U_DEEP]
	ldr	x11, [x0, #U_STACK]
	mov	x12, sp
	ldr	x9, [x9, #K_BOTTOM]
	sub	x9, x9, x12
	cmp	x9, x10
	b.hi	.Lslow
	ldp	x9, x10, [x11, #K_RESIDENT]     /* and K_SCHED */
	cmp	x9, x0
	ccmp	x10, x2, #0, eq
	b.ne	.Lslow
	str	x12, [x1, #U_TOP]               /* R4: u_image is large enough */
	str	x0, [x2, #S_CURRENT]
	ldr	x9, [x2, #S_SWITCHES]
	add	x9, x9, #1
	str	x9, [x2, #S_SWITCHES]
	ldr	x9, [x0, #U_TOP]
	mov	sp, x9                          /* R5 */
	mov	w1, wzr
	b	.Lresume
.Lslow:
	mov	x1, x0
	mov	x0, sp
	bl	usched__handover_slow
	b	.Ljump
end usched__handover

/*
 * sp the bottom of a stack, x1 the frame saved by usched_run(), x20 the dispatcher.
 * The outermost frame of a thread: no return address, x29 0, and unwinders
 * are told so.
 */
function usched__launch
	.cfi_undefined x30
	load_control x1
	mov	x29, xzr
	mov	x30, xzr
	bl	usched__start
	mov	x9, x0
	mov	x0, x1
	blr	x9
	bl	usched__end                     /* before usched__exit looks at FPCR */
	mov	x0, x20
	b	usched__exit
end usched__launch

/* _Noreturn void usched__exit(struct usched *s); */
function usched__exit
	hint	#34                             /* bti c */
	.cfi_undefined x30
	mrs	x19, fpcr
	mov	x20, x0
	bl	usched__finish
	b	.Ljump
end usched__exit

/*
 * int usched__probe(void);
 * chkfeat (a hint) clears bit 0 of x16 where a guarded control stack is on.
 */
function usched__probe
	hint	#34                             /* bti c */
	mov	x16, #1
	hint	#40                             /* chkfeat x16 */
	mov	w0, #1
	mov	w1, #-95                        /* -ENOTSUP */
	cmp	x16, #0
	csel	w0, w1, w0, eq
	ret
end usched__probe

/*
 * uintptr_t usched__valgrind(const uintptr_t request[6]);
 * The rotations, which cancel out, and the orr are how Valgrind knows it; without it they
 * do nothing, and x3 is what it was.
 */
function usched__valgrind
	hint	#34                             /* bti c */
	mov	x4, x0
	mov	x3, xzr
	ror	x12, x12, #3
	ror	x12, x12, #13
	ror	x12, x12, #51
	ror	x12, x12, #61
	orr	x10, x10, x10
	mov	x0, x3
	ret
end usched__valgrind

	.section .rodata
.macro	number name value
	.globl	\name
	.hidden	\name
	.type	\name, %object
	.balign	4
\name:
	.word	\value
	.size	\name, 4
.endm

	number	usched__return_at 8
	number	usched__frame 176

	.section .note.GNU-stack, "", %progbits

	/* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI and PAC */
	.section .note.gnu.property, "a"
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 3, 0
