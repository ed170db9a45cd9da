/* SPDX-License-Identifier: MIT */
/*
 * aarch64.S: as x86_64.S.
 *
 * extern void *uposix__real[];
 * void uposix__find(void);
 * void uposix__look(const void *where);
 */
	.text

#define STORE_ARGUMENTS						\
	stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32];		\
	stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64];		\
	stp x8, x17, [sp, #80]
#define LOAD_ARGUMENTS						\
	ldp x8, x17, [sp, #80]; ldp x6, x7, [sp, #64];		\
	ldp x4, x5, [sp, #48]; ldp x2, x3, [sp, #32];		\
	ldp x0, x1, [sp, #16]

/* As x86_64.S has it. */
#ifdef USCHED_SIM
#define ENTER(name, otherwise)				\
	adrp	x16, sim__enters;			\
	ldrb	w16, [x16, :lo12:sim__enters];		\
	cbz	w16, otherwise;				\
	mov	x16, #(.Lat_##name - uposix__real);	\
	mov	x17, x30;				\
	bl	enter;

/* x17: where the call of the program returns to, which is to be in x30 again. */
	.type	enter, %function
enter:
	stp	x29, x30, [sp, #-224]!
	mov	x29, sp
	STORE_ARGUMENTS
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	x3, x1
	mov	x1, x0
	mov	x0, x16
	mov	x2, x17
	bl	sim__enter
	ldp	q6, q7, [sp, #192]
	ldp	q4, q5, [sp, #160]
	ldp	q2, q3, [sp, #128]
	ldp	q0, q1, [sp, #96]
	LOAD_ARGUMENTS
	ldp	x29, x16, [sp], #224
	mov	x30, x17
	br	x16
	.size	enter, . - enter

	.globl	sim__call_at
	.hidden	sim__call_at
sim__call_at:
	.byte	23, 24, 25, 26, 27, 28, 23
	.p2align 2
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
	adr	x17, __wrap_##name;			\
	b	looks;
#define ROW(name, to, otherwise)			\
	.globl	name;					\
	.type	name, %function;			\
	.p2align 3;					\
name:	hint	34;	/* bti c */			\
	ENTER(name, otherwise)				\
	b	to;					\
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

/* x17: the __wrap_ that is called after func(); arguments stay. */
#define FIRST(name, func)				\
	.type	name, %function;			\
name:	hint	34;					\
	stp	x29, x30, [sp, #-96]!;			\
	mov	x29, sp;				\
	STORE_ARGUMENTS;				\
	mov	x0, x30;				\
	bl	func;					\
	LOAD_ARGUMENTS;					\
	ldp	x29, x30, [sp], #96;			\
	br	x17;					\
	.size	name, . - name;
FIRST(first, uposix__find)
FIRST(looks, uposix__look)

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
