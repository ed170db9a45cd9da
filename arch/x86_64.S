/* SPDX-License-Identifier: MIT */
/*
 * x86_64.S: the switch for x86-64, System V ABI. The contract is in arch.h. The statement
 * in which most threads block is in uswitch.h; usched__handover() does the same as a
 * function.
 *
 * The frame that a function saves has, from the top up, what the ABI has a function
 * preserve, except control words (see ustack_control()):
 *
 *      0  r15 r14 r13 r12 rbx rbp
 *     48  return address
 *
 * CPUs predict that `ret' goes back to the last call. That is right if the thread that
 * goes on has the same return address as the thread that ran before, as threads that
 * block in one function have; then their callers' returns are predicted, too. For other
 * threads a jump takes the place of `ret', and is predicted from where jumps went before.
 * r12 holds the return address of the thread that ran before, if that thread has blocked
 * in a function; otherwise anything.
 *
 * Functions that are entered by a call or a jump through a register start with endbr64.
 * The object is marked for indirect branch tracking, but not for shadow stacks, which
 * could not follow a switch.
 */

#if !defined(__x86_64__) || defined(__ILP32__)
#error "not x86-64: take another file of arch/, or arch/setjmp.c with -lm"
#endif

#define FUNCTION_FIRST  endbr64
#include "macros.h"
#include "offsets.h"

#define RETURN_AT       48
#define CONTEXT_RIP     168             /* bytes, in ucontext_t */

.macro	push_frame
	.irp	reg, rbp, rbx, r12, r13, r14, r15
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
.endm

.macro	pop_frame
	.irp	reg, r15, r14, r13, r12, rbx, rbp
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
.endm

/*
 * Has unwinders take the thread that has blocked for the caller. DWARF's register `reg'
 * has the record of that thread.
 */
.macro	caller_of_record reg
	.cfi_escape 0x10, 16, 2, 0x70 + \reg, U_PC
	.cfi_escape 0x10, 6, 2, 0x70 + \reg, U_FP
	.cfi_escape 0x10, 3, 2, 0x70 + \reg, U_BP
.endm

	.text

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * rdi, rsi, rdx.
 */
function usched__handover, visibility=protected
	movq	S_CAUGHT(%rdx), %rax
	cmpq	$0, (%rax)
	jne	usched__handover_caught
	cmpl	$0, CAUGHT_UNCAUGHT(%rax)
	jne	usched__handover_caught
	entry	usched__handover_plain
	push_frame
.Lagain:
	movq	U_STACK(%rsi), %rax
	movl	U_DEEP(%rsi), %r8d
	movq	K_BOTTOM(%rax), %rax
	subq	%rsp, %rax                      /* R4 */
	cmpq	%r8, %rax
	ja	.Lfit
	movq	S_ERRNO(%rdx), %r9
	movl	(%r9), %eax
	movl	%eax, U_ERRNO(%rsi)
	leaq	usched__resumed(%rip), %rax
	movq	%rax, U_PC(%rsi)
	movq	%rsp, U_TOP(%rsi)
	testq	%rdi, %rdi
	jz	usched__far
	movq	U_TOP(%rdi), %r8
	testb	$1, %r8b
	jnz	usched__far
	movq	%rdi, S_CURRENT(%rdx)
	incq	S_SWITCHES(%rdx)
	movl	U_ERRNO(%rdi), %eax
	movl	%eax, (%r9)
	movq	RETURN_AT(%rsp), %r12
	.cfi_remember_state
	.cfi_undefined rip
	movq	U_FP(%rdi), %rbp
	movq	U_BP(%rdi), %rbx
	movq	%r8, %rsp                       /* R5 */
	jmp	*U_PC(%rdi)
	.cfi_restore_state

.Lfit:
	call	usched__fit
	testl	%eax, %eax
	jz	.Lagain
	xorl	%r12d, %r12d                    /* not a return address: jump */
	jmp	.Lreturn

	entry	usched__resumed
	endbr64
	xorl	%eax, %eax
.Lreturn:
	cmpq	%r12, RETURN_AT(%rsp)
	jne	.Lelsewhere
	.cfi_remember_state
	pop_frame
	ret
	.cfi_restore_state
	.cfi_def_cfa_offset RETURN_AT + 8       /* LLVM's assembler does not restore it */
.Lelsewhere:
	pop_frame
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register rip, rcx
	notrack jmp *%rcx
end usched__handover

/*
 * Not called, but jumped to when `self' (rsi) has blocked and its record says where it
 * goes on. rdi is u, rdx is s.
 */
function usched__far, visibility=protected, \
	cfi=".cfi_def_cfa rsp, 0", cfi2="caller_of_record 4"
	movq	%rsp, %rbp
	movq	%rsi, %rbx
	movq	RETURN_AT(%rsp), %r12
	.cfi_def_cfa rbp, 0
	caller_of_record 3
	andq	$-16, %rsp
	movq	%rdi, %rsi
	movq	%rdx, %rdi
	call	usched__go
	jmp	usched__jump
end usched__far

/*
 * Called by the statement and usched__handover(). Preserves rdi, rsi and rdx. The top is
 * above the return address, at any alignment. Returns in eax what usched__fit_top() does.
 */
function usched__fit, visibility=protected
	leaq	8(%rsp), %rax
	.irp	reg, rbp, rdi, rsi, rdx
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	andq	$-16, %rsp
	movq	%rdx, %rdi
	movq	%rax, %rsi
	call	usched__fit_top
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	.irp	reg, rdx, rsi, rdi, rbp
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
	ret
end usched__fit

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * rdi is next, rsi is arg. next(), with rdi top and rsi arg, returns aj_at in rax and
 * aj_op in rdx.
 */
function usched__switch
	push_frame
	movq	RETURN_AT(%rsp), %r12
	movq	%rdi, %rax
	movq	%rsp, %rdi
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	*%rax
	jmp	usched__jump
end usched__switch

/* Goes where a struct arch_jump says: rax is aj_at, rdx is aj_op. */
function usched__jump, cfi=".cfi_undefined rip"
	testq	%rdx, %rdx
	jle	.Lframe
	movq	%rax, %rdi
	cmpq	$OP_LAUNCH, %rdx
	je	usched__launch
	ja	usched__below                   /* ARCH_VISIT */
	movq	U_TOP(%rdi), %rsp               /* R5 */
	andq	$-2, %rsp
	cmpq	$OP_LOAD, %rdx
	jne	.Lresume
	movq	%rsp, %rbp
	movq	%rdi, %rbx
	andq	$-16, %rsp
	call	usched__load
	movq	%rbp, %rsp
	movq	%rbx, %rdi
.Lresume:
	movq	U_FP(%rdi), %rbp
	movq	U_BP(%rdi), %rbx
	xorl	%ecx, %ecx                      /* for uco.c */
	jmp	*U_PC(%rdi)

.Lframe:
	movq	%rax, %rsp
	movl	%edx, %eax
	movq	RETURN_AT(%rsp), %r12           /* `ret', as this call was last */
	jmp	.Lreturn
end usched__jump

/*
 * Starts the thread in rdi. Its outermost frame has no return address and rbp is 0, so
 * unwinders stop there. Other registers are cleared, because the thread would save in its
 * frames what the dispatcher has left in them, and addresses in frames keep a thread from
 * moving: uproc_local.c.
 */
function usched__launch, cfi=".cfi_undefined rip"
	movq	U_STACK(%rdi), %rax
	movq	K_BOTTOM(%rax), %rsp            /* R5 */
	movq	K_SCHED(%rax), %rcx
	movq	S_FUNC(%rcx), %rax
	movq	S_ARG(%rcx), %rdi
	.irp	reg, ebp, ebx, r12d, r13d, r14d, r15d
	xorl	%\reg, %\reg
	.endr
	call	*%rax
	call	usched__end
	jmp	usched__jump
end usched__launch

/* Starts a coroutine, where a statement goes on: rsp is a bottom, rbx the record. */
function usched__begin, cfi=".cfi_undefined rip"
	movq	%rbx, %rdi
	xorl	%ebp, %ebp
	call	*U_FUNC(%rdi)
end usched__begin

/* Calls usched__visited() below the blocked thread in rdi, the caller for unwinders. */
function usched__below, cfi=".cfi_undefined rip"
	movq	U_TOP(%rdi), %rsp               /* R5 */
	andq	$-2, %rsp
	movq	%rsp, %rbp
	movq	%rdi, %rbx
	.cfi_def_cfa rbp, 0
	caller_of_record 3
	subq	$8, %rsp                        /* the visitor's frames begin below */
	andq	$-16, %rsp
	xorl	%edi, %edi
	call	usched__visited
	jmp	usched__jump
end usched__below

/*
 * _Noreturn void usched__exit(void);
 * The frames of the call are dropped with the rest of the stack.
 */
function usched__exit, cfi=".cfi_undefined rip"
	andq	$-16, %rsp
	call	usched__finish
	jmp	usched__jump
end usched__exit

/*
 * uint64_t usched__control(void);
 * Returns MXCSR without sticky flags; the x87 control word is the upper half.
 */
function usched__control
	stmxcsr	-8(%rsp)
	fnstcw	-4(%rsp)
	movl	-8(%rsp), %eax
	movzwl	-4(%rsp), %ecx
	andl	$0xffc0, %eax
	shlq	$32, %rcx
	orq	%rcx, %rax
	ret
end usched__control

/*
 * void usched__set_control(uint64_t words);
 * An x87 control word that unmasks an exception causes a trap at once if the exception's
 * sticky flag is set, so the flags are cleared first.
 */
function usched__set_control
	movq	%rdi, -8(%rsp)
	ldmxcsr	-8(%rsp)
	fnclex
	fldcw	-4(%rsp)
	ret
end usched__set_control

/*
 * int usched__probe(void);
 * rdssp reads the shadow stack pointer, and does nothing if there is no shadow stack.
 */
function usched__probe
	xorl	%eax, %eax
	rdsspq	%rax
	testq	%rax, %rax
	movl	$1, %eax
	movl	$-1, %ecx
	cmovnzl	%ecx, %eax
	ret
end usched__probe

/* void usched__commit(void); */
function usched__commit
	ret
end usched__commit

	.section .rodata
	number	usched__return_at, RETURN_AT
	number	usched__frame, 64
	number	usched__pc_at, CONTEXT_RIP
	number	usched__shallow, 96

	text	usched__control_low, "MXCSR"
	text	usched__control_high, "the x87 control word"

	.section .note.GNU-stack, "", @progbits

	/* GNU_PROPERTY_X86_FEATURE_1_AND with IBT, and without SHSTK */
	.section .note.gnu.property, "a"
	.balign	8
	.long	4, 16, 5
	.asciz	"GNU"
	.long	0xc0000002, 4, 1, 0
