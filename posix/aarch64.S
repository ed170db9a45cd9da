/* SPDX-License-Identifier: MIT */
/*
 * aarch64.S: as x86_64.S.
 *
 * extern void *uposix__real[];
 * void uposix__find(void);
 */
	.text

#define NAME(name)					\
	.globl	name;					\
	.type	name, %function;			\
	.p2align 3;					\
name:	hint	34;	/* bti c */			\
	b	uposix_##name;				\
	.size	name, . - name;				\
	.globl	__wrap_##name;				\
	.hidden	__wrap_##name;				\
	.type	__wrap_##name, %function;		\
	.p2align 3;					\
__wrap_##name:						\
	hint	34;					\
	adr	x17, __wrap_##name;			\
	adrp	x16, .Lat_##name;			\
	ldr	x16, [x16, :lo12:.Lat_##name];		\
	br	x16;					\
	.size	__wrap_##name, . - __wrap_##name;
#include "uposix_names.h"

/* x17: the __wrap_ that was called, and is called again; arguments stay. */
	.type	first, %function
first:
	hint	34
	stp	x29, x30, [sp, #-96]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	stp	x8, x17, [sp, #80]
	bl	uposix__find
	ldp	x8, x17, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #96
	br	x17
	.size	first, . - first

	.data
	.p2align 3
	.globl	uposix__real
	.hidden	uposix__real
	.type	uposix__real, %object
uposix__real:
#define NAME(name)					\
.Lat_##name:						\
	.quad	first;
#include "uposix_names.h"
	.size	uposix__real, . - uposix__real

	.section .note.GNU-stack, "", %progbits
