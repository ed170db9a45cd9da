/* SPDX-License-Identifier: MIT */
/*
 * x86_64.S: the names of uposix_names.h, for libusched-posix.so:
 *
 *	NAME            exported: jumps to uposix_NAME
 *	__wrap_NAME     jumps to libc's NAME: to uposix__real[i], which at first is
 *	                uposix__first, so that the first call of all finds all
 *
 * extern void *uposix__real[];
 * void uposix__find(void);             fills it in
 */
	.text

#define NAME(name)					\
	.globl	name;					\
	.type	name, @function;			\
	.p2align 3;					\
name:	endbr64;					\
	jmp	uposix_##name;				\
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

/* r11: the __wrap_ that was called, and is called again; arguments stay. */
	.type	first, @function
first:
	endbr64
	pushq	%r11
	pushq	%rax
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	subq	$8, %rsp
	call	uposix__find
	addq	$8, %rsp
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rax
	popq	%r11
	jmp	*%r11
	.size	first, . - first

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
