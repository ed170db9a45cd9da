/* SPDX-License-Identifier: MIT */
/*
 * riscv64.S: the switch for RISC-V, 64 bits, with the ABI lp64d. The contract is in
 * arch.h.
 *
 * A frame saved by a function, from top up; what the ABI has a function preserve, except
 * the rounding mode (see ustack_control()), and no more:
 *
 *      0  ra
 *      8  s0 ... s11
 *    104  fs0 ... fs11
 *    200  (unused)
 *    208  the caller's
 *
 * There is no statement as in uswitch.h. So every thread has blocked in a function here,
 * below such a frame, and goes on at usched__resumed, whatever its u_pc.
 *
 * The object has no mark for shadow stacks (Zicfiss), so none is turned on.
 */

#if !defined(__riscv) || __riscv_xlen != 64 || !defined(__riscv_float_abi_double)
#error "not RISC-V with 64 bits and lp64d: take arch/setjmp.c with -lm"
#endif

#include "macros.h"
#include "offsets.h"

#define CONTEXT         176             /* pc x1 ... x31 in ucontext_t */
#define FRAME           208

/* For unwinders: SP is a top. */
.macro	at_top
	.cfi_def_cfa sp, FRAME
	.cfi_offset ra, -FRAME
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	.cfi_offset s\i, -FRAME + 8 + 8 * \i
	.cfi_offset fs\i, -FRAME + 104 + 8 * \i
	.endr
.endm

.macro	push_frame
	addi	sp, sp, -FRAME
	.cfi_def_cfa_offset FRAME
	sd	ra, (sp)
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	sd	s\i, 8 + 8 * \i(sp)
	.endr
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	fsd	fs\i, 104 + 8 * \i(sp)
	.endr
	at_top                                  /* the registers are what they were */
.endm

	.text

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * a0, a1, a2.
 */
function usched__handover, visibility=protected
	ld	t0, S_CAUGHT(a2)
	lw	t1, CAUGHT_UNCAUGHT(t0)
	ld	t0, (t0)
	or	t0, t0, t1
	beqz	t0, 1f
	tail	usched__handover_caught
1:
	entry	usched__handover_plain
	push_frame
.Lagain:
	ld	t0, U_STACK(a1)
	lwu	t1, U_DEEP(a1)
	ld	t0, K_BOTTOM(t0)
	sub	t0, t0, sp                      /* R4 */
	bgtu	t0, t1, .Lfit
	ld	t2, S_ERRNO(a2)
	lw	t3, (t2)
	lla	t4, usched__resumed
	sw	t3, U_ERRNO(a1)
	sd	sp, U_TOP(a1)
	sd	t4, U_PC(a1)
	beqz	a0, .Lfar
	ld	t5, U_TOP(a0)
	andi	t6, t5, 1
	bnez	t6, .Lfar
	ld	t3, S_SWITCHES(a2)
	lw	t4, U_ERRNO(a0)
	sd	a0, S_CURRENT(a2)
	addi	t3, t3, 1
	sd	t3, S_SWITCHES(a2)
	sw	t4, (t2)
	mv	sp, t5                          /* R5; both frames have the same form */

	entry	usched__resumed
	li	a0, 0
.Lreturn:
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	fld	fs\i, 104 + 8 * \i(sp)
	.endr
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	ld	s\i, 8 + 8 * \i(sp)
	.endr
	ld	ra, (sp)
	.cfi_remember_state
	.cfi_restore ra
	.irp	i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	.cfi_restore s\i
	.cfi_restore fs\i
	.endr
	addi	sp, sp, FRAME
	.cfi_def_cfa_offset 0
	ret
	.cfi_restore_state
	.cfi_def_cfa_offset FRAME               /* LLVM's assembler does not restore it */

.Lfar:
	mv	a1, a0
	mv	a0, a2
	call	usched__go
	j	usched__jump

.Lfit:
	mv	a4, sp
	addi	sp, sp, -32
	.cfi_adjust_cfa_offset 32
	sd	a0, (sp)
	sd	a1, 8(sp)
	sd	a2, 16(sp)
	mv	a0, a2
	mv	a1, a4
	call	usched__fit_top
	mv	t0, a0
	ld	a0, (sp)
	ld	a1, 8(sp)
	ld	a2, 16(sp)
	addi	sp, sp, 32
	.cfi_adjust_cfa_offset -32
	beqz	t0, .Lagain
	mv	a0, t0
	j	.Lreturn
end usched__handover

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * a0 next, a1 arg; next(a0 top, a1 arg) returns a0 aj_at, a1 aj_op.
 */
function usched__switch
	push_frame
	mv	t0, a0
	mv	a0, sp
	jalr	t0
	j	usched__jump
end usched__switch

/* a0 aj_at, a1 aj_op. */
function usched__jump
	.cfi_undefined ra
	blez	a1, .Lframe
	li	t0, OP_LAUNCH
	beq	a1, t0, usched__launch
	bgtu	a1, t0, usched__below           /* ARCH_VISIT */
	ld	t1, U_TOP(a0)
	andi	t1, t1, -2
	mv	sp, t1                          /* R5 */
	li	t0, OP_LOAD
	bne	a1, t0, usched__resumed
	call	usched__load
	j	usched__resumed

.Lframe:
	mv	sp, a0                          /* R5 */
	mv	a0, a1
	j	.Lreturn
end usched__jump

/*
 * a0 a thread. The outermost frame: no return address, s0 0, and unwinders are told so.
 */
function usched__launch
	.cfi_undefined ra
	ld	t0, U_STACK(a0)
	ld	sp, K_BOTTOM(t0)                /* R5 */
	ld	t0, K_SCHED(t0)
	ld	t1, S_FUNC(t0)
	ld	a0, S_ARG(t0)
	.irp	reg, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, ra
	li	\reg, 0
	.endr
	jalr	t1
	call	usched__end
	j	usched__jump
end usched__launch

/* a0 a blocked thread, which calls usched__visited(), for unwinders. */
function usched__below
	at_top
	ld	t0, U_TOP(a0)
	andi	t0, t0, -2
	mv	sp, t0                          /* R5 */
	li	a0, 0
	call	usched__visited
	j	usched__jump
end usched__below

/* _Noreturn void usched__exit(void); */
function usched__exit
	.cfi_undefined ra
	call	usched__finish
	j	usched__jump
end usched__exit

/* uint64_t usched__control(void); fcsr without its sticky flags. */
function usched__control
	frrm	a0
	ret
end usched__control

/* void usched__set_control(uint64_t words); */
function usched__set_control
	fsrm	a0
	ret
end usched__set_control

/* int usched__probe(void); */
function usched__probe
	li	a0, 1
	ret
end usched__probe

/* void usched__commit(void); */
function usched__commit
	ret
end usched__commit

	.section .rodata
	number	usched__return_at, 0
	number	usched__frame, FRAME
	number	usched__pc_at, CONTEXT
	number	usched__shallow, 256

	text	usched__control_low, "frm, the rounding mode"
	text	usched__control_high, ""

	.section .note.GNU-stack, "", @progbits
