/* SPDX-License-Identifier: MIT */
/*
 * macros.h: how files of assembly declare what they define. A file may set these before:
 *
 *	FUNCTION_START, FUNCTION_STOP   directives around each function
 *	FUNCTION_FIRST                  the first instruction of each function
 */
#ifndef USCHED_MACROS_H
#define USCHED_MACROS_H

#ifndef FUNCTION_START
#define FUNCTION_START
#define FUNCTION_STOP
#endif
#ifndef FUNCTION_FIRST
#define FUNCTION_FIRST
#endif

.macro	entry name, visibility=hidden
	.globl	\name
	.\visibility \name
\name:
.endm

/* `cfi' and `cfi2' are directives for unwinders. */
.macro	function name, visibility=hidden, cfi, cfi2
	.type	\name, %function
	.balign	16
	entry	\name, \visibility
	FUNCTION_START
	.cfi_startproc
	\cfi
	\cfi2
	FUNCTION_FIRST
.endm

.macro	end name
	.cfi_endproc
	FUNCTION_STOP
	.size	\name, . - \name
.endm

/* The data of an object come between `object' and `end_object'. */
.macro	object name, align=1
	.type	\name, %object
	.balign	\align
	entry	\name
.endm

.macro	end_object name
	.size	\name, . - \name
.endm

.macro	number name, value
	object	\name, 4
	.long	\value
	end_object \name
.endm

.macro	text name, value
	object	\name
	.asciz	"\value"
	end_object \name
.endm

#endif /* USCHED_MACROS_H */
