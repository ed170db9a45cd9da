/* SPDX-License-Identifier: MIT */
/*
 * macros.h: how files of assembly declare what they define. These may be set before:
 *
 *	FUNCTION_START, FUNCTION_STOP   directives around each function
 *	FUNCTION_FIRST                  the instruction that each begins with
 *
 * For Mach-O clang assembles them. What they define has an underscore before its name,
 * and inside the file the plain name, too. So only what they need of C is named here. L()
 * is a name that is not in the symbol table: conditional branches and adr need one.
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

#ifdef __APPLE__
#define L(name) L##name
#define usched__end              _usched__end
#define usched__finish           _usched__finish
#define usched__fit_top          _usched__fit_top
#define usched__go               _usched__go
#define usched__handover_caught  _usched__handover_caught
#define usched__load             _usched__load
#define usched__visited          _usched__visited

.macro	hidden name
	.private_extern \name
.endm
.macro	protected name
.endm
.macro	entry name, visibility=hidden
	.globl	_\name
	\visibility _\name
_\name:
\name:
.endm
.macro	kind name, type
.endm
.macro	size name
.endm
.macro	read_only
	.section __TEXT,__const
.endm
#else
#define L(name) .L##name

.macro	entry name, visibility=hidden
	.globl	\name
	.\visibility \name
\name:
.endm
.macro	kind name, type
	.type	\name, %\type
.endm
.macro	size name
	.size	\name, . - \name
.endm
.macro	read_only
	.section .rodata
.endm
#endif

/* `cfi' and `cfi2' are directives for unwinders. */
.macro	function name, visibility=hidden, cfi, cfi2
	kind	\name, function
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
	size	\name
.endm

/* The data of an object come between these two. */
.macro	object name, align=1
	kind	\name, object
	.balign	\align
	entry	\name
.endm

.macro	end_object name
	size	\name
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
