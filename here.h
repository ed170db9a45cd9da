/* SPDX-License-Identifier: MIT */
/*
 * here.h: the dispatcher that runs on this native thread, or one that has no threads.
 * Private, for what other headers have inlined.
 *
 * Compilers may keep the address of a thread-local object in a register across calls, and
 * a thread whose dispatcher goes on on another native thread would then look in the wrong
 * place. So that address is not for them to know: it is worked out in one statement that
 * is repeated each time, or in a function.
 */
#ifndef USCHED_HERE_H
#define USCHED_HERE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct usched;

extern __thread struct usched *usched__current
	__attribute__((tls_model("initial-exec")));

#if defined(__x86_64__) && defined(__LP64__)
#define USCHED_HERE_INLINE
inline struct usched *usched__here(void)
{
	struct usched *s;

	__asm__ volatile("movq	usched__current@gottpoff(%%rip), %0\n\t"
			 "movq	%%fs:(%0), %0" : "=r"(s));
	return s;
}
#elif defined(__aarch64__) && defined(__LP64__)
#define USCHED_HERE_INLINE
inline struct usched *usched__here(void)
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
