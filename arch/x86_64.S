/* SPDX-License-Identifier: MIT */
/*
 * x86_64.S: the switch for x86-64, System V ABI. The contract is in arch.h.
 *
 * A saved frame, from top up; what the ABI has a function preserve, and no
 * more:
 *
 *      0  MXCSR (4 bytes), x87 control word (2), unused (2)
 *      8  r15 r14 r13 r12 rbx rbp
 *     56  return address
 *
 * In between, r12d and r13d hold the control words of whoever gave up the
 * processor: to compare costs less than to load what is there already, by far
 * so when a sticky exception flag differs (those are not preserved). And r14 holds
 * its return address. CPUs predict that `ret' goes there: so it is right for a
 * thread that was called from the same place, as threads that block in one function
 * are, and their callers are predicted as well. For any other it is wrong
 * each time; it gets a jump, which is predicted from where jumps went before.
 *
 * Functions that are entered by a call start with endbr64, and the object is
 * marked for indirect branch tracking only: a shadow stack could not follow.
 */

#include "offsets.h"

#define OP_LOAD         1               /* ARCH_LOAD */
#define MXCSR_CONTROL   0xffc0          /* the bits that are not sticky flags */

/* Loads the control words of the frame at `top' if they differ from r12d, r13d. */
.macro	load_control top
	movl	(\top), %eax
	movzwl	4(\top), %ecx
	xorl	%r12d, %eax
	xorl	%r13d, %ecx
	andl	$MXCSR_CONTROL, %eax
	orl	%ecx, %eax
	jz	9f
	ldmxcsr	(\top)
	fldcw	4(\top)
9:
.endm

.macro	push_frame
	.irp	reg, rbp, rbx, r12, r13, r14, r15
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
.endm

/* What .Ljump wants to know of the frame that was pushed. */
.macro	note_frame
	movl	(%rsp), %r12d
	movzwl	4(%rsp), %r13d
	movq	56(%rsp), %r14
.endm

.macro	pop_registers
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	.irp	reg, r15, r14, r13, r12, rbx, rbp
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
.endm

.macro	function name visibility=hidden
	.globl	\name
	.\visibility \name
	.type	\name, @function
	.balign	16
\name:
	.cfi_startproc
	endbr64
.endm

.macro	end name
	.cfi_endproc
	.size	\name, . - \name
.endm

	.text

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * rdi next, rsi arg; next(rdi top, rsi arg) returns rax j_sp, rdx j_op.
 */
function usched__switch
	push_frame
	note_frame
	movq	%rdi, %rax
	movq	%rsp, %rdi
	call	*%rax

.Ljump:
	movq	%rax, %rsp                      /* R5 */
	testq	%rdx, %rdx
	jg	.Lfar
.Lresume:
	load_control %rsp
	movl	%edx, %eax
	cmpq	%r14, 56(%rsp)
	jne	.Lelsewhere
	.cfi_remember_state
	pop_registers
	ret
	.cfi_restore_state
.Lelsewhere:
	.cfi_remember_state
	pop_registers
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register rip, rcx
	notrack jmp *%rcx
	.cfi_restore_state

.Lfar:
	cmpq	$OP_LOAD, %rdx
	jne	usched__launch
	call	usched__load
	xorl	%edx, %edx
	jmp	.Lresume
end usched__switch

/*
 * int usched__hop(struct ustack *u, struct ustack *self, struct usched *s);
 * rdi, rsi, rdx.
 */
function usched__hop visibility=protected
	push_frame
#ifndef USCHED_CHECK                            /* there it is for C to look */
	movq	U_STACK(%rsi), %rax
	movl	U_DEEP(%rsi), %ecx
	movq	K_BOTTOM(%rax), %rax
	subq	%rsp, %rax
	cmpq	%rcx, %rax
	ja	.Lhand_off
	movq	U_STACK(%rdi), %rax
	cmpq	%rdi, K_RESIDENT(%rax)
	jne	.Lhand_off
	cmpq	%rdx, K_SCHED(%rax)
	jne	.Lhand_off
	movq	%rsp, U_TOP(%rsi)               /* R4: u_image is large enough */
	movq	%rsp, %r8
	movq	%rdi, S_CURRENT(%rdx)
	incq	S_SWITCHES(%rdx)
	movq	U_TOP(%rdi), %rsp               /* R5; both frames stay where they are */
	movl	(%rsp), %eax
	movzwl	4(%rsp), %ecx
	xorl	(%r8), %eax
	xorw	4(%r8), %cx
	andl	$MXCSR_CONTROL, %eax
	orl	%ecx, %eax
	jnz	.Lcontrol
.Lsame_control:
	xorl	%eax, %eax
	movq	56(%rsp), %rcx
	cmpq	56(%r8), %rcx
	jne	.Lelsewhere
	.cfi_remember_state
	pop_registers
	ret
	.cfi_restore_state
.Lcontrol:
	ldmxcsr	(%rsp)
	fldcw	4(%rsp)
	jmp	.Lsame_control
#endif
.Lhand_off:
	note_frame
	movq	%rdi, %rsi
	movq	%rsp, %rdi
	call	usched__hand_off
	jmp	.Ljump
end usched__hop

/*
 * rsp the bottom of a stack, rdx the frame saved by usched_run().
 * The outermost frame of a thread: no return address, rbp 0, and unwinders
 * are told so.
 */
function usched__launch
	.cfi_undefined rip
	load_control %rdx
	xorl	%ebp, %ebp
	call	usched__start
	movq	%rdx, %rdi
	call	*%rax
	call	usched__end                     /* before usched__exit looks at MXCSR */
	jmp	usched__exit
end usched__launch

/*
 * _Noreturn void usched__exit(void);
 * The frame below is dropped with the rest of the stack.
 */
function usched__exit
	.cfi_undefined rip
	andq	$-16, %rsp
	subq	$16, %rsp
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movl	(%rsp), %r12d
	movzwl	4(%rsp), %r13d
	xorl	%r14d, %r14d                    /* nobody was called from there */
	call	usched__finish
	jmp	.Ljump
end usched__exit

/*
 * int usched__probe(void);
 * rdssp reads the shadow stack pointer, and is a nop where there is none.
 */
function usched__probe
	xorl	%eax, %eax
	rdsspq	%rax
	testq	%rax, %rax
	movl	$1, %eax
	movl	$-95, %ecx                      /* -ENOTSUP */
	cmovnzl	%ecx, %eax
	ret
end usched__probe

	.section .note.GNU-stack, "", @progbits

	/* GNU_PROPERTY_X86_FEATURE_1_AND: IBT, and not SHSTK */
	.section .note.gnu.property, "a"
	.balign	8
	.long	4, 16, 5
	.asciz	"GNU"
	.long	0xc0000002, 4, 1, 0
