/* SPDX-License-Identifier: MIT */
/*
 * i386.S: the switch for x86 with 32 bits, System V ABI. The contract is in arch.h.
 *
 * A frame saved by a function, from top up; what the ABI has a function preserve, except
 * control words (see ustack_control()), and no more:
 *
 *      0  edi esi ebx ebp
 *     16  return address
 *     20  arguments
 *
 * There is no statement as in uswitch.h. So every thread has blocked in a function here,
 * below such a frame, and goes on at usched__resumed: u_pc of a thread is set once.
 *
 * A struct arch_jump is returned in memory: the caller's first argument is the address,
 * and the callee removes that argument. Tops have any alignment that callers have;
 * functions of C are called with SP aligned to 16, while ebp is the top.
 *
 * st_switches is incremented in two parts. Another native thread that reads it between
 * them, once in 2^32 switches, finds 2^32 too few.
 */

#ifndef __i386__
#error "not x86 with 32 bits: take another file of arch/, or arch/setjmp.c with -lm"
#endif

#include "macros.h"
#include "offsets.h"

#define RETURN_AT       16
#define CONTEXT_EIP     76              /* in ucontext_t */
#define ROOM            24              /* three arguments and a struct arch_jump */
#define JUMP            16              /* the offset of the struct arch_jump there */
#define AT_HWCAP        16
#define HWCAP_SSE       (1 << 25)

.macro	push_frame
	.irp	reg, ebp, ebx, esi, edi
	pushl	%\reg
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset \reg, 0
	.endr
.endm

.macro	pop_frame
	.irp	reg, edi, esi, ebx, ebp
	popl	%\reg
	.cfi_adjust_cfa_offset -4
	.cfi_restore \reg
	.endr
.endm

/* For unwinders: ebp is a top. */
.macro	top_in_ebp
	.cfi_def_cfa ebp, RETURN_AT + 4
	.cfi_offset eip, -4
	.cfi_offset ebp, -8
	.cfi_offset ebx, -12
	.cfi_offset esi, -16
	.cfi_offset edi, -20
.endm

/* Room below SP for a call that returns a struct arch_jump. */
.macro	make_room
	subl	$ROOM, %esp
	andl	$-16, %esp
	leal	JUMP(%esp), %eax
	movl	%eax, (%esp)
.endm

/* After such a call: goes where the struct says. */
.macro	take_jump
	movl	4(%eax), %edx
	movl	(%eax), %eax
	jmp	usched__jump
.endm

	.text

/*
 * int usched__handover(struct ustack *u, struct ustack *self, struct usched *s);
 * Then in edi, esi, ebx.
 */
function usched__handover, visibility=protected
	movl	12(%esp), %edx
	movl	S_CAUGHT(%edx), %ecx
	movl	(%ecx), %eax
	orl	CAUGHT_UNCAUGHT(%ecx), %eax
	jnz	usched__handover_caught
	entry	usched__handover_plain
	push_frame
	movl	20(%esp), %edi
	movl	24(%esp), %esi
	movl	28(%esp), %ebx
.Lagain:
	movl	U_STACK(%esi), %eax
	movl	K_BOTTOM(%eax), %eax
	subl	%esp, %eax                      /* R4 */
	cmpl	U_DEEP(%esi), %eax
	ja	.Lfit
	movl	S_ERRNO(%ebx), %edx
	movl	(%edx), %eax
	movl	%eax, U_ERRNO(%esi)
	movl	%esp, U_TOP(%esi)
	testl	%edi, %edi
	jz	.Lfar
	movl	U_TOP(%edi), %ecx
	testb	$1, %cl
	jnz	.Lfar
	movl	%edi, S_CURRENT(%ebx)
	addl	$1, S_SWITCHES(%ebx)
	adcl	$0, S_SWITCHES + 4(%ebx)
	movl	U_ERRNO(%edi), %eax
	movl	%eax, (%edx)
	movl	%ecx, %esp                      /* R5; its frame is like the other */

	entry	usched__resumed
	xorl	%eax, %eax
.Lreturn:
	.cfi_remember_state
	pop_frame
	ret
	.cfi_restore_state
	.cfi_def_cfa_offset RETURN_AT + 4       /* LLVM's assembler does not restore it */

.Lfit:
	movl	%esp, %ebp
	.cfi_remember_state
	top_in_ebp
	subl	$8, %esp
	andl	$-16, %esp
	movl	%ebx, (%esp)
	movl	%ebp, 4(%esp)
	call	usched__fit_top
	movl	%ebp, %esp
	.cfi_restore_state
	.cfi_def_cfa esp, RETURN_AT + 4
	testl	%eax, %eax
	jz	.Lagain
	jmp	.Lreturn

.Lfar:
	movl	%esp, %ebp
	top_in_ebp
	make_room
	movl	%ebx, 4(%esp)
	movl	%edi, 8(%esp)
	call	usched__go
	take_jump
end usched__handover

/*
 * int usched__switch(arch_next_fn *next, void *arg);
 * next(top, arg) returns a struct arch_jump.
 */
function usched__switch
	push_frame
	movl	%esp, %ebp
	top_in_ebp
	movl	20(%ebp), %ecx
	movl	24(%ebp), %edx
	make_room
	movl	%ebp, 4(%esp)
	movl	%edx, 8(%esp)
	call	*%ecx
	take_jump
end usched__switch

/* eax aj_at, edx aj_op. */
function usched__jump
	.cfi_undefined eip
	testl	%edx, %edx
	jle	.Lframe
	cmpl	$OP_LAUNCH, %edx
	je	usched__launch
	ja	usched__below                   /* ARCH_VISIT */
	movl	U_TOP(%eax), %ecx
	andl	$-2, %ecx
	movl	%ecx, %esp                      /* R5 */
	cmpl	$OP_LOAD, %edx
	jne	usched__resumed
	movl	%esp, %ebp
	andl	$-16, %esp
	call	usched__load
	movl	%ebp, %esp
	jmp	usched__resumed

.Lframe:
	movl	%eax, %esp                      /* R5 */
	movl	%edx, %eax
	jmp	.Lreturn
end usched__jump

/*
 * eax a thread. The outermost frame: no return address, ebp 0, and unwinders are told so.
 */
function usched__launch
	.cfi_undefined eip
	movl	U_STACK(%eax), %ecx
	movl	K_BOTTOM(%ecx), %esp            /* R5 */
	call	1f
1:	popl	%edx
	addl	$usched__resumed - 1b, %edx
	movl	%edx, U_PC(%eax)
	movl	K_SCHED(%ecx), %ecx
	subl	$16, %esp
	movl	S_ARG(%ecx), %eax
	movl	%eax, (%esp)
	.irp	reg, ebp, ebx, esi, edi
	xorl	%\reg, %\reg
	.endr
	call	*S_FUNC(%ecx)
	leal	8(%esp), %eax
	movl	%eax, (%esp)
	call	usched__end
	take_jump
end usched__launch

/* eax a blocked thread, which calls usched__visited(), for unwinders. */
function usched__below
	.cfi_undefined eip
	movl	U_TOP(%eax), %ecx
	andl	$-2, %ecx
	movl	%ecx, %esp                      /* R5 */
	movl	%esp, %ebp
	top_in_ebp
	make_room
	movl	$0, 4(%esp)
	call	usched__visited
	take_jump
end usched__below

/* _Noreturn void usched__exit(void); */
function usched__exit
	.cfi_undefined eip
	make_room
	call	usched__finish
	take_jump
end usched__exit

/*
 * uint64_t usched__control(void);
 * MXCSR without its sticky flags, where there is one, and above it the x87 control word.
 */
function usched__control
	subl	$12, %esp
	.cfi_adjust_cfa_offset 12
	movl	$0, (%esp)
	call	has_sse
	jz	1f
	stmxcsr	(%esp)
1:	fnstcw	4(%esp)
	movl	(%esp), %eax
	movzwl	4(%esp), %edx
	andl	$0xffc0, %eax
	addl	$12, %esp
	.cfi_adjust_cfa_offset -12
	ret
end usched__control

/*
 * void usched__set_control(uint64_t words);
 * An x87 control word that unmasks an exception traps at once if the sticky flag is set,
 * so the flags are cleared first.
 */
function usched__set_control
	subl	$12, %esp
	.cfi_adjust_cfa_offset 12
	call	has_sse
	jz	1f
	ldmxcsr	16(%esp)
1:	fnclex
	fldcw	20(%esp)
	addl	$12, %esp
	.cfi_adjust_cfa_offset -12
	ret
end usched__set_control

/* Whether there is an MXCSR: in the flags, not zero. SP is aligned before the call. */
function has_sse
	pushl	%ebx
	.cfi_adjust_cfa_offset 4
	.cfi_rel_offset ebx, 0
	call	1f
1:	popl	%ebx
	addl	$_GLOBAL_OFFSET_TABLE_ + (. - 1b), %ebx
	subl	$8, %esp
	.cfi_adjust_cfa_offset 8
	movl	$AT_HWCAP, (%esp)
	call	*getauxval@GOT(%ebx)
	addl	$8, %esp
	.cfi_adjust_cfa_offset -8
	popl	%ebx
	.cfi_adjust_cfa_offset -4
	.cfi_restore ebx
	testl	$HWCAP_SSE, %eax
	ret
end has_sse

/* int usched__probe(void); Linux has no shadow stacks for 32 bits. */
function usched__probe
	movl	$1, %eax
	ret
end usched__probe

/* void usched__commit(void); */
function usched__commit
	ret
end usched__commit

	.section .rodata
	number	usched__return_at, RETURN_AT
	number	usched__frame, 48
	number	usched__pc_at, CONTEXT_EIP
	number	usched__shallow, 96

	text	usched__control_low, "MXCSR"
	text	usched__control_high, "the x87 control word"

	.section .note.GNU-stack, "", @progbits
