/* SPDX-License-Identifier: MIT */
/*
 * uswitch.h: the hand-over, inlined. Private, for inline functions of other headers.
 *
 * A thread that blocks in one statement of assembly need not save registers, because the
 * compiler knows that the statement overwrites them. The compiler keeps in memory only
 * what is live. So a thread's frames are smaller, and no call is made.
 *
 * arch.h has the steps of the statement, under usched__handover(). It saves SP, the frame
 * pointer, the base pointer and the address of its end in the thread's record, and loads
 * those of the next thread, which goes on at the end of such a statement, or in a
 * function of arch/.
 *
 * What makes it right, where compilers might do otherwise:
 *
 *  - Compilers may keep locals below SP only in a function that makes no call. So each
 *    statement comes with a call that is neither inlined nor a tail call.
 *  - The statement preserves the frame pointer and the base pointer, because compilers
 *    refuse these in the list of overwritten registers, or ignore them there.
 *  - SP changes only when the next thread's SP is loaded. At the end SP is as before.
 *    So unwinders find the caller at each instruction, but they stop between the loads
 *    and the jump. They compute the CFA even there, so a CFA is declared. If a thread has
 *    blocked, unwinders look at the byte before the end of the statement, so the jump is
 *    not the last part of the statement.
 *  - All other registers are listed as overwritten. If a file is compiled without AVX-512
 *    or SVE, GCC refuses their registers in the list, but still keeps values in them in
 *    functions with __attribute__((target("avx512f"))). So programs must ask for the
 *    statement, with USCHED_INLINE_SWITCH, and must not block in such functions. Other
 *    programs call a function, which saves what the ABI says. The library's own waits
 *    have the statement.
 *
 * If the words at s_caught are not zeros, switches go another way: see usched.c.
 */
#ifndef USCHED_SWITCH_H
#define USCHED_SWITCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does what usched__handover() does if the words at s_caught are not zeros. */
int usched__handover_caught(struct ustack *u, struct ustack *self, struct usched *s);

/* Parts of the statement, see arch/arch.h. They are not functions to be called from C. */
void usched__fit(void);
void usched__far(void);

/* Other files of the program may have the statement of coroutines, even if this file does
   not have it. */
#if defined(__x86_64__) && defined(__LP64__)
#define USCHED__BEGINS
#endif

/* Offsets that the hand-over's statement and the coroutines' need. */
#define USCHED__OFFSETS \
	[top] "i"(offsetof(struct ustack, u_top)), \
	[pc] "i"(offsetof(struct ustack, u_pc)), \
	[stack] "i"(offsetof(struct ustack, u_stack)), \
	[fp] "i"(offsetof(struct ustack, u_fp)), \
	[bp] "i"(offsetof(struct ustack, u_bp)), \
	[deep] "i"(offsetof(struct ustack, u_deep)), \
	[error] "i"(offsetof(struct ustack, u_errno)), \
	[bottom] "i"(offsetof(struct usched_stack, k_bottom)), \
	[current] "i"(offsetof(struct usched, s_current)), \
	[switches] "i"(offsetof(struct usched, s_stats.st_switches)), \
	[errno_at] "i"(offsetof(struct usched, s_errno))

#if defined(USCHED__X86_64)

/* Clang accepts the names of all registers, gcc only of registers that it may use. */
#if defined(__AVX512F__) || defined(__clang__)
#define USCHED__MORE_VECTORS \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23" \
	, "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31" \
	, "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define USCHED__MORE_VECTORS
#endif
#ifdef __SSE__
#define USCHED__VECTORS \
	, "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8" \
	, "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" \
	USCHED__MORE_VECTORS
#else
#define USCHED__VECTORS
#endif
#ifdef _SOFT_FLOAT
#define USCHED__X87
#else
#define USCHED__X87 \
	, "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)"
#endif
#ifdef __APX_F__
#define USCHED__MORE_REGISTERS \
	, "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23" \
	, "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31"
#else
#define USCHED__MORE_REGISTERS
#endif

#if defined(__CET__) && __CET__ & 1
#define USCHED__LANDING "endbr64\n\t"
#else
#define USCHED__LANDING ""
#endif
/* .cfi_escape stands for .cfi_def_cfa, which LLVM's assembler does not undo at
   .cfi_restore_state. */
#ifdef __GCC_HAVE_DWARF2_CFI_ASM
#define USCHED__NO_CALLER \
	".cfi_remember_state\n\t.cfi_escape 0x0c, 7, 0\n\t.cfi_undefined rip\n\t"
#define USCHED__CALLER ".cfi_restore_state\n\t"
#else
#define USCHED__NO_CALLER
#define USCHED__CALLER
#endif

/* A line of assembly in two syntaxes: of -masm=att and of -masm=intel. */
#define USCHED__LINE(att, intel) "{" att "|" intel "}\n\t"
#define USCHED__LOAD(from, at, to) USCHED__LINE( \
	"movq	%c[" #at "](%[" #from "]), %%" #to, \
	"mov	" #to ", [%[" #from "] + %c[" #at "]]")
#define USCHED__STORE(from, at, to) USCHED__LINE( \
	"movq	%%" #from ", %c[" #at "](%[" #to "])", \
	"mov	[%[" #to "] + %c[" #at "]], " #from)

#define USCHED__TEXT \
	"7:\n\t" \
	USCHED__LOAD(self, stack, rcx) \
	USCHED__LINE("movl	%c[deep](%[self]), %%eax", \
		     "mov	eax, [%[self] + %c[deep]]") \
	USCHED__LINE("movq	%c[bottom](%%rcx), %%rcx", \
		     "mov	rcx, [rcx + %c[bottom]]") \
	USCHED__LINE("subq	%%rsp, %%rcx", "sub	rcx, rsp")  /* R4: saved SP */ \
	USCHED__LINE("cmpq	%%rax, %%rcx", "cmp	rcx, rax") \
	"ja	3f\n\t" \
	USCHED__LINE("leaq	1f(%%rip), %%rax", "lea	rax, [rip + 1f]") \
	USCHED__STORE(rax, pc, self) \
	USCHED__STORE(rbp, fp, self) \
	USCHED__STORE(rbx, bp, self) \
	USCHED__STORE(rsp, top, self) \
	USCHED__LINE("testq	%[u], %[u]", "test	%[u], %[u]") \
	"jz	2f\n\t" \
	USCHED__LOAD(u, top, r8) \
	USCHED__LINE("testb	$1, %%r8b", "test	r8b, 1") \
	"jnz	2f\n\t" \
	USCHED__LINE("movq	%[u], %c[current](%[s])", \
		     "mov	[%[s] + %c[current]], %[u]") \
	USCHED__LINE("incq	%c[switches](%[s])", \
		     "inc	QWORD PTR [%[s] + %c[switches]]") \
	USCHED__LOAD(s, errno_at, r9) \
	USCHED__LINE("movl	%c[error](%[u]), %%eax", \
		     "mov	eax, [%[u] + %c[error]]") \
	USCHED__LINE("cmpl	%%eax, (%%r9)", "cmp	[r9], eax") \
	"jne	4f\n\t" \
	"5:\n\t" \
	USCHED__NO_CALLER \
	USCHED__LOAD(u, fp, rbp) \
	USCHED__LOAD(u, bp, rbx) \
	USCHED__LINE("movq	%%r8, %%rsp", "mov	rsp, r8")   /* R5 */ \
	USCHED__LINE("jmp	*%c[pc](%[u])", "jmp	QWORD PTR [%[u] + %c[pc]]") \
	USCHED__CALLER \
	"3:\n\t" \
	"call	usched__fit@PLT\n\t" \
	USCHED__LINE("testl	%%eax, %%eax", "test	eax, eax") \
	"jz	7b\n\t" \
	"jmp	6f\n\t" \
	"4:\n\t" \
	USCHED__LINE("movl	%%eax, (%%r9)", "mov	[r9], eax") \
	"jmp	5b\n\t" \
	"2:\n\t" \
	"jmp	usched__far@PLT\n" \
	"1:\n\t" \
	USCHED__LANDING \
	USCHED__LINE("xorl	%%eax, %%eax", "xor	eax, eax") \
	"6:"

/* Does what usched__handover() does if the words at s_caught are zeros. */
__attribute__((always_inline))
static inline int usched__statement(struct ustack *u, struct ustack *self,
				    struct usched *s)
{
	int rc;

	/* __inline__, because gcc estimates the size of a statement by its lines. */
	__asm__ volatile __inline__ (
		USCHED__TEXT
		: "=a"(rc), [u] "+D"(u), [self] "+S"(self), [s] "+d"(s)
		: USCHED__OFFSETS
		: "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		  "memory", "cc"
		  USCHED__MORE_REGISTERS USCHED__VECTORS USCHED__X87);
	return rc;
}

/*
 * The statement of coroutines. It saves the registers of the running side to the record
 * `from', and loads the registers of the other side from the record `to'. [sp] is the top
 * of the other side. Both sides are in place, and the running thread stays the same: see
 * uco.c. If this statement was also the way out of the other side, [by] and [value]
 * arrive there. Elsewhere usched__jump() leaves 0 in [by].
 */
#define USCHED__CHANGE_TEXT \
	USCHED__LINE("leaq	1f(%%rip), %%r8", "lea	r8, [rip + 1f]") \
	USCHED__STORE(r8, pc, from) \
	USCHED__STORE(rbp, fp, from) \
	USCHED__STORE(rbx, bp, from) \
	USCHED__STORE(rsp, top, from) \
	USCHED__NO_CALLER \
	USCHED__LOAD(to, fp, rbp) \
	USCHED__LOAD(to, bp, rbx) \
	USCHED__LINE("movq	%[sp], %%rsp", "mov	rsp, %[sp]")   /* R5 */ \
	USCHED__LINE("jmp	*%c[pc](%[to])", "jmp	QWORD PTR [%[to] + %c[pc]]") \
	USCHED__CALLER

/* Comes before USCHED__CHANGE_TEXT. The record `from' has an address at offset [low]. If
   SP is below that address, sets [by] to 2, and skips USCHED__CHANGE_TEXT. */
#define USCHED__LOW_TEXT \
	USCHED__LINE("cmpq	%c[low](%[from]), %%rsp", \
		     "cmp	rsp, [%[from] + %c[low]]") \
	"jb	3f\n\t"                                        /* R4: saved SP */

/* Comes behind USCHED__CHANGE_TEXT. */
#define USCHED__CHANGED_TEXT \
	"3:\n\t" \
	USCHED__LINE("movl	$2, %%ecx", "mov	ecx, 2") \
	"jmp	6f\n" \
	"1:\n\t" \
	USCHED__LANDING \
	"6:"

#define USCHED__CHANGE(low_text, from, to, sp, value, by, ...) \
	__asm__ volatile __inline__ ( \
		low_text USCHED__CHANGE_TEXT USCHED__CHANGED_TEXT \
		: [from] "+D"(from), [to] "+d"(to), [sp] "+a"(sp), "+S"(value), \
		  [by] "+c"(by) \
		: USCHED__OFFSETS, __VA_ARGS__ \
		: "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc" \
		  USCHED__MORE_REGISTERS USCHED__VECTORS USCHED__X87)

/*
 * Returns whether there are no exceptions of C++, with one load: of the upper 48 bits of
 * cg_caught and the lower 16 bits of cg_uncaught. These suffice, because no heap begins
 * in the first 64 KiB, and no stack has room for 2^16 exceptions in flight at a time.
 */
__attribute__((always_inline))
static inline int usched__has_none(const struct usched_caught *c)
{
	uint64_t both;

	__builtin_memcpy(&both, (const char *)c + 2, sizeof both);
	return !both;
}

#elif defined(USCHED__AARCH64)

#ifdef __ARM_FEATURE_SVE
#define USCHED__PREDICATES \
	, "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11" \
	, "p12", "p13", "p14", "p15"
#else
#define USCHED__PREDICATES
#endif
#ifdef __ARM_FEATURE_BTI_DEFAULT
#define USCHED__LANDING "hint	#36\n\t"                /* bti j */
#else
#define USCHED__LANDING ""
#endif
/* .cfi_escape has the same reason as above. */
#ifdef __GCC_HAVE_DWARF2_CFI_ASM
#define USCHED__NO_CALLER \
	".cfi_remember_state\n\t.cfi_escape 0x0c, 31, 0\n\t.cfi_undefined x30\n\t"
#define USCHED__CALLER ".cfi_restore_state\n\t"
#else
#define USCHED__NO_CALLER
#define USCHED__CALLER
#endif

/* x0 is u, x1 self and x2 s. usched__fit() returns in x3 what was in x0. */
#define USCHED__TEXT \
	"7:\n\t" \
	"ldr	x9, [x1, %[stack]]\n\t" \
	"ldr	w10, [x1, %[deep]]\n\t" \
	"mov	x12, sp\n\t" \
	"ldr	x9, [x9, %[bottom]]\n\t" \
	"sub	x9, x9, x12\n\t"                        /* R4: saved SP */ \
	"cmp	x9, x10\n\t" \
	"b.hi	3f\n\t" \
	"adr	x10, 1f\n\t" \
	"stp	x12, x10, [x1, %[top]]\n\t"             /* and u_pc */ \
	"stp	x29, x19, [x1, %[fp]]\n\t"              /* and u_bp */ \
	"cbz	x0, 2f\n\t" \
	"ldp	x12, x16, [x0, %[top]]\n\t" \
	"tbnz	x12, #0, 2f\n\t" \
	"str	x0, [x2, %[current]]\n\t" \
	"ldr	x10, [x2, %[switches]]\n\t" \
	"add	x10, x10, #1\n\t" \
	"str	x10, [x2, %[switches]]\n\t" \
	"ldr	x9, [x2, %[errno_at]]\n\t" \
	"ldr	w10, [x0, %[error]]\n\t" \
	"str	w10, [x9]\n\t" \
	USCHED__NO_CALLER \
	"ldp	x29, x19, [x0, %[fp]]\n\t" \
	"mov	sp, x12\n\t"                            /* R5 */ \
	"br	x16\n\t" \
	USCHED__CALLER \
	"3:\n\t" \
	"bl	usched__fit\n\t" \
	"cbnz	w0, 6f\n\t" \
	"mov	x0, x3\n\t" \
	"b	7b\n\t" \
	"2:\n\t" \
	"b	usched__far\n" \
	"1:\n\t" \
	USCHED__LANDING \
	"mov	w0, wzr\n" \
	"6:"

/* Does what usched__handover() does if the words at s_caught are zeros. */
__attribute__((always_inline))
static inline int usched__statement(struct ustack *u, struct ustack *self,
				    struct usched *s)
{
	register uintptr_t x0 __asm__("x0") = (uintptr_t)u;
	register uintptr_t x1 __asm__("x1") = (uintptr_t)self;
	register uintptr_t x2 __asm__("x2") = (uintptr_t)s;

	__asm__ volatile __inline__ (
		USCHED__TEXT
		: "+r"(x0), "+r"(x1), "+r"(x2)
		: USCHED__OFFSETS
		: "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
		  "x14", "x15", "x16", "x17", "x18", "x20", "x21", "x22", "x23", "x24",
		  "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5",
		  "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
		  "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",
		  "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc"
		  USCHED__PREDICATES);
	return (int)x0;
}

/* Returns whether there are no exceptions of C++. */
__attribute__((always_inline))
static inline int usched__has_none(const struct usched_caught *c)
{
	return !(c->cg_caught || c->cg_uncaught);
}

#endif

#if defined(USCHED__X86_64) || defined(USCHED__AARCH64)

/* Does what usched__handover() does, with the statement inlined. */
__attribute__((always_inline))
static inline int usched__hand_over(struct ustack *u, struct ustack *self,
				    struct usched *s)
{
	int rc;

	if (__builtin_expect(!usched__has_none(s->s_caught), 0)) {
		rc = usched__handover_caught(u, self, s);
		__asm__ volatile("" : "+r"(rc));        /* no tail call */
		return rc;
	}
	self->u_errno = *s->s_errno;
	return usched__statement(u, self, s);
}

#else

#define usched__hand_over usched__handover

#endif

#ifdef __cplusplus
}
#endif

#endif /* USCHED_SWITCH_H */
