/* SPDX-License-Identifier: MIT */
/*
 * uabi.h: what programs and the library must agree on, and the dispatcher that runs on
 * this native thread. Private: for the inline functions and the layouts of other headers.
 *
 * Compilers may keep the address of a thread-local object in a register across calls. A
 * thread that goes on on another native thread after a call would then look in the wrong
 * place. So usched__here() hides the address from compilers: each time, the address is
 * computed by a statement of assembly, or by a function that is not inlined.
 */
#ifndef USCHED_ABI_H
#define USCHED_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct usched;

/*
 * Programs inline functions of the library, and these depend on layouts of structs. This
 * number changes whenever a layout or an inline function of an installed header changes.
 * Sanitizers need more state, see src/watch/watch.h, so all of a program is built with
 * the same sanitizer, or none. Names of entry points contain the number and the
 * sanitizer, so that mixed builds do not link.
 */
#define USCHED_LAYOUT 1

#ifdef __has_feature
#define USCHED_HAS(sanitizer) __has_feature(sanitizer)
#else
#define USCHED_HAS(sanitizer) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || USCHED_HAS(address_sanitizer)
#define USCHED_ASAN
#define USCHED_KIND _needs_a_library_built_with_fsanitize_address_layout
#elif defined(__SANITIZE_THREAD__) || USCHED_HAS(thread_sanitizer)
#define USCHED_TSAN
#define USCHED_KIND _needs_a_library_built_with_fsanitize_thread_layout
#elif USCHED_HAS(memory_sanitizer)
#define USCHED_KIND _needs_a_library_built_with_fsanitize_memory_layout
#else
#define USCHED_KIND _layout
#endif
#define USCHED_PASTE(call, kind, layout) call##kind##layout
#define USCHED_NAME(call, kind, layout) USCHED_PASTE(call, kind, layout)
#define USCHED_BUILD(call) USCHED_NAME(call, USCHED_KIND, USCHED_LAYOUT)
#define usched_init USCHED_BUILD(usched_init)

/* Before C99, gcc's `extern inline' meant a function that another file defines. */
#if defined(USCHED_INLINE)              /* usched-all.c in C++, which defines all */
#elif defined(__GNUC_GNU_INLINE__) && !defined(__cplusplus)
#define USCHED_INLINE extern __inline
#else
#define USCHED_INLINE inline
#endif

/* USCHED_SWITCHES is for functions that block. They are inlined if this file of the
   program has the statement of uswitch.h. */
#if defined(USCHED_INLINE_SWITCH) && defined(__LP64__)
#if defined(__x86_64__) && !defined(__code_model_large__) && !defined(__AMX_TILE__)
#define USCHED__X86_64
#elif defined(__aarch64__) && !defined(__AARCH64_CMODEL_LARGE__) && defined(__ARM_FP)
#define USCHED__AARCH64
#endif
#endif
#if defined(USCHED__X86_64) || defined(USCHED__AARCH64)
#define USCHED_SWITCHES __attribute__((always_inline, unused)) static inline
#else
#define USCHED_SWITCHES USCHED_INLINE
#endif

/*
 * The dlopen() of musl loads no library with thread-local objects at constant offsets. So
 * shared libraries for musl look the address up, in a function.
 */
#if defined(__PIC__) && !defined(__PIE__) && defined(__linux__) && !defined(__GLIBC__)
#define USCHED_TLS_MODEL __attribute__((tls_model("global-dynamic")))
#else
#define USCHED_TLS_MODEL __attribute__((tls_model("initial-exec")))
#define USCHED_TLS_CONSTANT
#endif

extern __thread struct usched *usched__current USCHED_TLS_MODEL;

#if defined(USCHED_TLS_CONSTANT) && defined(__x86_64__) && defined(__LP64__)
#define USCHED_HERE_INLINE
USCHED_INLINE struct usched *usched__here(void)
{
	struct usched *s;

	/* In two syntaxes: of -masm=att and of -masm=intel. */
	__asm__ volatile("mov{q	usched__current@gottpoff(%%rip), %0|"
			 "	%0, usched__current@gottpoff[rip]}\n\t"
			 "mov{q	%%fs:(%0), %0|	%0, fs:[%0]}" : "=r"(s));
	return s;
}
#elif defined(USCHED_TLS_CONSTANT) && defined(__aarch64__) && defined(__LP64__)
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

#endif /* USCHED_ABI_H */
