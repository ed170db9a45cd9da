/* SPDX-License-Identifier: MIT */
/*
 * x86_64.S: the switch for x86-64, System V ABI. The contract is in arch.h.
 *
 * A saved frame, from top up; what the ABI has a function preserve, and no
 * more:
 *
 *      0  MXCSR (2 bytes, the others are 0), x87 control word (2), errno (4)
 *      8  r15 r14 r13 r12 rbx rbp
 *     56  return address
 *
 * In between, r15 is the dispatcher, and r12d and r13d hold the control words of the
 * thread that blocked. Comparing them costs less than loading the same values again, far
 * less when a sticky exception flag differs (those are not preserved).
 * r14 holds its return address. CPUs predict that `ret' goes there, which is right for a
 * thread that was called from the same place, as threads that block in one function are;
 * their callers are predicted as well. Any other thread gets a jump, which is predicted
 * from where jumps went before.
 *
 * Functions that are entered by a call start with endbr64, and the object is
 * marked for indirect branch tracking only: a shadow stack could not follow.
 */

#if !defined(__x86_64__) || defined(__ILP32__)
#error "not x86-64: take arch/aarch64.S on AArch64, and elsewhere arch/setjmp.c with -lm"
#endif

#include "offsets.h"

#define OP_LOAD         1               /* ARCH_LOAD */
#define MXCSR_CONTROL   0xffc0          /* the bits that are not sticky flags */

/*
 * Loads the control words of the frame at `top', through four bytes of the red zone. An
 * x87 control word that unmasks an exception traps at once if an earlier thread has set
 * its sticky flag, so the flags are cleared first.
 */
.macro	set_control top
	movzwl	(\top), %ecx
	movl	%ecx, -8(%rsp)
	ldmxcsr	-8(%rsp)
	fnclex
	fldcw	2(\top)
.endm

/* Loads the control words of the frame at `top' if they differ from r12d, r13d. */
.macro	load_control top
	movzwl	(\top), %eax
	movzwl	2(\top), %ecx
	xorl	%r12d, %eax
	xorl	%r13d, %ecx
	andl	$MXCSR_CONTROL, %eax
	orl	%ecx, %eax
	jz	9f
	set_control \top
9:
.endm

/* `errno' is a register for where errno is. */
.macro	push_frame sched errno
	.irp	reg, rbp, rbx, r12, r13, r14, r15
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	(%rsp)
	fnstcw	2(%rsp)
	movq	S_ERRNO(\sched), \errno
	movl	(\errno), %eax
	movl	%eax, 4(%rsp)
.endm

/* What .Ljump wants to know of the frame that was pushed. */
.macro	note_frame sched
	movzwl	(%rsp), %r12d
	movzwl	2(%rsp), %r13d
	movq	56(%rsp), %r14
	movq	\sched, %r15
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
 * int usched__switch(arch_next_fn *next, void *arg, struct usched *s);
 * rdi next, rsi arg, rdx s; next(rdi top, rsi arg) returns rax j_sp, rdx j_op.
 */
function usched__switch
	push_frame %rdx, %rcx
	note_frame %rdx
	movq	%rdi, %rax
	movq	%rsp, %rdi
	call	*%rax

.Ljump:
	movq	%rax, %rsp                      /* R5 */
	testq	%rdx, %rdx
	jg	.Lfar
.Lresume:
	load_control %rsp
	movq	S_ERRNO(%r15), %rcx
	movl	4(%rsp), %eax
	movl	%eax, (%rcx)
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
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * rdi, rsi, rdx.
 */
function usched__handover visibility=protected
	movq	S_CAUGHT(%rdx), %rax
	movl	CAUGHT_UNCAUGHT(%rax), %ecx
	orq	(%rax), %rcx
	jnz	usched__handover_caught
	push_frame %rdx, %r9
	movq	U_STACK(%rsi), %rax
	movl	U_DEEP(%rsi), %ecx
	movq	K_BOTTOM(%rax), %rax
	subq	%rsp, %rax
	cmpq	%rcx, %rax
	ja	.Lslow
	movq	U_STACK(%rdi), %rax
	cmpq	%rdi, K_RESIDENT(%rax)
	jne	.Lslow
	cmpq	%rdx, K_SCHED(%rax)
	jne	.Lslow
	movq	%rsp, U_TOP(%rsi)               /* R4: u_image is large enough */
	movq	%rsp, %r8
	movq	%rdi, S_CURRENT(%rdx)
	incq	S_SWITCHES(%rdx)
	movq	U_TOP(%rdi), %rsp               /* R5; both frames stay where they are */
	movzwl	(%rsp), %eax                    /* one by one, as they were stored */
	movzwl	2(%rsp), %ecx
	xorw	(%r8), %ax
	xorw	2(%r8), %cx
	andl	$MXCSR_CONTROL, %eax
	orl	%ecx, %eax
	jnz	.Lcontrol
.Lsame_control:
	movl	4(%rsp), %eax
	movl	%eax, (%r9)
	xorl	%eax, %eax
	movq	56(%rsp), %rcx
	cmpq	56(%r8), %rcx
	jne	.Lelsewhere
	.cfi_remember_state
	pop_registers
	ret
	.cfi_restore_state
.Lcontrol:
	set_control %rsp
	jmp	.Lsame_control
.Lslow:
	note_frame %rdx
	movq	%rdi, %rsi
	movq	%rsp, %rdi
	call	usched__handover_slow
	jmp	.Ljump
end usched__handover

/*
 * rsp the bottom of a stack, rdx the frame saved by usched_run(), r15 the dispatcher.
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
	movq	%r15, %rdi
	jmp	usched__exit
end usched__launch

/*
 * _Noreturn void usched__exit(struct usched *s);
 * The frame below is dropped with the rest of the stack.
 */
function usched__exit
	.cfi_undefined rip
	andq	$-16, %rsp
	subq	$16, %rsp
	stmxcsr	(%rsp)
	fnstcw	2(%rsp)
	movzwl	(%rsp), %r12d
	movzwl	2(%rsp), %r13d
	xorl	%r14d, %r14d                    /* no return address is 0 */
	movq	%rdi, %r15
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

/*
 * uintptr_t usched__valgrind(const uintptr_t request[6]);
 * The rotations, which cancel out, and the exchange are how Valgrind knows it; without
 * it they do nothing, and rdx is what it was.
 */
function usched__valgrind
	movq	%rdi, %rax
	xorl	%edx, %edx
	rolq	$3, %rdi
	rolq	$13, %rdi
	rolq	$61, %rdi
	rolq	$51, %rdi
	xchgq	%rbx, %rbx
	movq	%rdx, %rax
	ret
end usched__valgrind

	.section .rodata
.macro	number name value
	.globl	\name
	.hidden	\name
	.type	\name, @object
	.balign	4
\name:
	.long	\value
	.size	\name, 4
.endm

	number	usched__return_at 56
	number	usched__frame 64

	.section .note.GNU-stack, "", @progbits

	/* GNU_PROPERTY_X86_FEATURE_1_AND: IBT, and not SHSTK */
	.section .note.gnu.property, "a"
	.balign	8
	.long	4, 16, 5
	.asciz	"GNU"
	.long	0xc0000002, 4, 1, 0
