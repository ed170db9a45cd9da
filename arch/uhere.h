/* SPDX-License-Identifier: MIT */
/*
 * uhere.h: the dispatcher that runs on this native thread, or one that has no threads.
 * Private, for inline functions of other headers.
 *
 * Compilers may keep the address of a thread-local object in a register across calls. A
 * thread whose dispatcher goes on on another native thread would then look in the wrong
 * place. So the address is hidden from them: one statement computes it each time, or a
 * function does.
 */
#ifndef USCHED_HERE_H
#define USCHED_HERE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct usched;

/* Until C99 it was `extern inline' that left the definition to another file. */
#if defined(USCHED_INLINE)              /* usched-all.c in C++, which defines all */
#elif defined(__GNUC_GNU_INLINE__) && !defined(__cplusplus)
#define USCHED_INLINE extern __inline
#else
#define USCHED_INLINE inline
#endif

/*
 * musl loads no library by dlopen() that has its thread-local objects at constant
 * offsets. So shared libraries for it look the address up, in a function.
 */
#if defined(__PIC__) && !defined(__PIE__) && defined(__linux__) && !defined(__GLIBC__)
#define USCHED_TLS_MODEL __attribute__((tls_model("global-dynamic")))
#else
#define USCHED_TLS_MODEL __attribute__((tls_model("initial-exec")))
#define USCHED_TLS_CONSTANT
#endif

extern __thread struct usched *usched__current USCHED_TLS_MODEL;

#if !defined(USCHED_TLS_CONSTANT)
struct usched *usched__here(void);
#elif defined(__x86_64__) && defined(__LP64__) && defined(__ELF__)
#define USCHED_HERE_INLINE
USCHED_INLINE struct usched *usched__here(void)
{
	struct usched *s;

	/* For -masm=att and for -masm=intel. */
	__asm__ volatile("mov{q	usched__current@gottpoff(%%rip), %0|"
			 "	%0, usched__current@gottpoff[rip]}\n\t"
			 "mov{q	%%fs:(%0), %0|	%0, fs:[%0]}" : "=r"(s));
	return s;
}
#elif defined(__aarch64__) && defined(__LP64__) && defined(__ELF__)
#define USCHED_HERE_INLINE
USCHED_INLINE struct usched *usched__here(void)
{
	struct usched *s;
	uintptr_t offset;

	__asm__ volatile("mrs	%0, tpidr_el0\n\t"
			 "adrp	%1, :gottprel:usched__current\n\t"
			 "ldr	%1, [%1, #:gottprel_lo12:usched__current]\n\t"
			 "ldr	%0, [%0, %1]" : "=&r"(s), "=&r"(offset));
	return s;
}
#else
struct usched *usched__here(void);
#endif

#ifdef __cplusplus
}
#endif

#endif /* USCHED_HERE_H */
