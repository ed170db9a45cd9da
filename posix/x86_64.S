/* SPDX-License-Identifier: MIT */
/*
 * x86_64.S: the names of uposix_names.h, for libusched-posix.so:
 *
 *	NAME            exported: jumps to uposix_NAME
 *	LOOKS           exported: uposix__look(), then as __wrap_NAME
 *	ALIAS           exported: another name of NAME
 *	__wrap_NAME     jumps to libc's NAME: to uposix__real[i], which at first is
 *	                uposix__first, so that the first call of all finds all
 *
 * extern void *uposix__real[];
 * void uposix__find(void);             fills it in
 * void uposix__look(const void *where);        where: the call returns there
 */
	.text

#define PUSH_ARGUMENTS						\
	pushq %rax; pushq %rdi; pushq %rsi; pushq %rdx;		\
	pushq %rcx; pushq %r8; pushq %r9
#define POP_ARGUMENTS						\
	popq %r9; popq %r8; popq %rcx;				\
	popq %rdx; popq %rsi; popq %rdi; popq %rax

/*
 * In a simulation: calls sim__enter() of sim/enter.c, and keeps the arguments. When
 * "enter" begins, its return address is on the stack, and above that the return address
 * of the program's call.
 *
 * extern unsigned char sim__enters;
 * void sim__enter(size_t offset, uintptr_t object, uintptr_t place, uintptr_t second);
 */
#ifdef USCHED_SIM
#define ENTER(name, otherwise)				\
	cmpb	$0, sim__enters(%rip);			\
	je	otherwise;				\
	movl	$(.Lat_##name - uposix__real), %r11d;	\
	call	enter;

	.type	enter, @function
enter:
	PUSH_ARGUMENTS
	subq	$136, %rsp
	movaps	%xmm0, (%rsp)
	movaps	%xmm1, 16(%rsp)
	movaps	%xmm2, 32(%rsp)
	movaps	%xmm3, 48(%rsp)
	movaps	%xmm4, 64(%rsp)
	movaps	%xmm5, 80(%rsp)
	movaps	%xmm6, 96(%rsp)
	movaps	%xmm7, 112(%rsp)
	movq	%rsi, %rcx
	movq	%rdi, %rsi
	movl	%r11d, %edi
	movq	200(%rsp), %rdx
	call	sim__enter
	movaps	(%rsp), %xmm0
	movaps	16(%rsp), %xmm1
	movaps	32(%rsp), %xmm2
	movaps	48(%rsp), %xmm3
	movaps	64(%rsp), %xmm4
	movaps	80(%rsp), %xmm5
	movaps	96(%rsp), %xmm6
	movaps	112(%rsp), %xmm7
	addq	$136, %rsp
	POP_ARGUMENTS
	ret
	.size	enter, . - enter

/*
 * Where the context of a signal has the arguments and the result of a system call, in
 * words.
 *
 * extern const unsigned char sim__call_at[7];
 */
	.globl	sim__call_at
	.hidden	sim__call_at
sim__call_at:
	.byte	13, 14, 17, 7, 5, 6, 18
#else
#define ENTER(name, otherwise)
#endif

#define NAME(name) ROW(name, uposix_##name, uposix_##name)
#define PLAIN(name) ROW(name, __wrap_##name, __wrap_##name)
#define WORLD(name) ROW(name, uposix_##name, __wrap_##name)
#define ALIAS(alias, name) .globl alias; .set alias, name;
#define LOOKS(name)					\
	ROW(name, .Llooks_##name, .Llooks_##name)	\
.Llooks_##name:						\
	leaq	__wrap_##name(%rip), %r11;		\
	jmp	looks;
#define ROW(name, to, otherwise)			\
	.globl	name;					\
	.type	name, @function;			\
	.p2align 3;					\
name:	endbr64;					\
	ENTER(name, otherwise)				\
	jmp	to;					\
	.size	name, . - name;				\
	.globl	__wrap_##name;				\
	.hidden	__wrap_##name;				\
	.type	__wrap_##name, @function;		\
	.p2align 3;					\
__wrap_##name:						\
	endbr64;					\
	leaq	__wrap_##name(%rip), %r11;		\
	jmp	*.Lat_##name(%rip);			\
	.size	__wrap_##name, . - __wrap_##name;
#include "uposix_names.h"

/* r11: the __wrap_ that is called after func(); arguments stay. */
#define FIRST(name, func)				\
	.type	name, @function;			\
name:	endbr64;					\
	pushq	%r11;					\
	PUSH_ARGUMENTS;					\
	subq	$8, %rsp;				\
	movq	72(%rsp), %rdi;				\
	call	func;					\
	addq	$8, %rsp;				\
	POP_ARGUMENTS;					\
	popq	%r11;					\
	jmp	*%r11;					\
	.size	name, . - name;
FIRST(first, uposix__find)
FIRST(looks, uposix__look)

	.data
	.p2align 3
	.globl	uposix__real
	.hidden	uposix__real
	.type	uposix__real, @object
uposix__real:
#define NAME(name)					\
.Lat_##name:						\
	.quad	first;
#include "uposix_names.h"
	.size	uposix__real, . - uposix__real

	.section .note.GNU-stack, "", @progbits
