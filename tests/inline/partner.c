/* SPDX-License-Identifier: MIT */
/*
 * partner.c: the other thread. It leaves rubbish in every register that a function may
 * change, and in those that it preserves for its caller, and hands back.
 */
#include <stdbool.h>
#include <stdlib.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "drive.h"

#if defined(__x86_64__)

#define EACH16(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) \
	f(13) f(14) f(15)
#define HIGH16(f) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) \
	f(27) f(28) f(29) f(30) f(31)
#define SSE(n) "movq %%rax, %%xmm" #n "; punpcklqdq %%xmm" #n ", %%xmm" #n ";"
#define AVX(n) "vpcmpeqd %%ymm" #n ", %%ymm" #n ", %%ymm" #n ";"
#define AVX512(n) "vpternlogd $0xff, %%zmm" #n ", %%zmm" #n ", %%zmm" #n ";"
#define CLOBBER(n) "xmm" #n,

int corpus_has(int needs)
{
	switch (needs) {
	case CORPUS_ANY:    return true;
	case CORPUS_AVX2:   return __builtin_cpu_supports("avx2") != 0;
	case CORPUS_AVX512: return __builtin_cpu_supports("avx512dq")
				   && __builtin_cpu_supports("avx512vl");
	default:            return false;
	}
}

static inline __attribute__((always_inline)) void fill_vectors(void)
{
	__asm__ volatile("movabsq $0x7ff4bad0bad07bad, %%rax;" EACH16(SSE)
			 : : : "rax", EACH16(CLOBBER) "memory");
	if (corpus_has(CORPUS_AVX2))
		__asm__ volatile(EACH16(AVX) : : : EACH16(CLOBBER) "memory");
	if (corpus_has(CORPUS_AVX512))
		__asm__ volatile(EACH16(AVX512) HIGH16(AVX512)
				 "kxnorw %%k0, %%k0, %%k0; kmovw %%k0, %%k1;"
				 "kmovw %%k0, %%k2; kmovw %%k0, %%k3; kmovw %%k0, %%k4;"
				 "kmovw %%k0, %%k5; kmovw %%k0, %%k6;"
				 "kxorw %%k7, %%k7, %%k7"
				 : : : EACH16(CLOBBER) "memory");
	/* Also what is on the stack of the x87; it must be empty. */
	__asm__ volatile("fld1; fldpi; fld1; fldpi; fld1; fldpi; fld1; fldpi; emms"
			 : : : "memory");
}

/* What the compiler preserves for its caller is rubbish until the end of the function. */
static inline __attribute__((always_inline)) void fill(void)
{
	fill_vectors();
	__asm__ volatile(
		"movabsq $0xbad0bad0bad0bad1, %%rax; movq %%rax, %%rcx;"
		"movq %%rax, %%rdx; movq %%rax, %%rsi; movq %%rax, %%rdi;"
		"movq %%rax, %%r8; movq %%rax, %%r9; movq %%rax, %%r10;"
		"movq %%rax, %%r11; movq %%rax, %%r12; movq %%rax, %%r13;"
		"movq %%rax, %%r14; movq %%rax, %%r15; movq %%rax, %%rbx"
		: : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
		"r13", "r14", "r15", "rbx", "memory");
}

#elif defined(__aarch64__)

int corpus_has(int needs)
{
	return needs == CORPUS_ANY
	       || (needs == CORPUS_SVE && (getauxval(AT_HWCAP) & 1u << 22));
}

#define EACH8(f, t) f(t##0) f(t##1) f(t##2) f(t##3) f(t##4) f(t##5) f(t##6) f(t##7)
#define V(n) "movi v" #n ".16b, 0xba;"
#define Z(n) "dup z" #n ".d, x9;"
#define P(n) "pfalse p" #n ".b;"
#define X(n) "mov x" #n ", x9;"
#define CLOBBER_V(n) "v" #n,
#define CLOBBER_X(n) "x" #n,
#define VECTORS(f) EACH8(f,) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) \
	f(18) f(19) EACH8(f, 2) f(28) f(29) f(30) f(31)
#define GENERAL(f) EACH8(f,) f(8) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) \
	f(18) EACH8(f, 2)

static inline __attribute__((always_inline)) void fill(void)
{
	__asm__ volatile(VECTORS(V) : : : VECTORS(CLOBBER_V) "memory");
	if (corpus_has(CORPUS_SVE))
		__asm__ volatile(".arch_extension sve\n\tmov x9, #0x7bad\n\t"
				 VECTORS(Z) EACH8(P,) P(8) P(9) P(10) P(11) P(12) P(13)
				 P(14) P(15) ".arch_extension nosve"
				 : : : "x9", VECTORS(CLOBBER_V) "memory");
	__asm__ volatile("mov x9, #0x7bad; movk x9, #0xbad0, lsl #48;"
			 GENERAL(X) "mov x28, x9; mov x19, x9"
			 : : : "x9", GENERAL(CLOBBER_X) "x28", "x19", "memory", "cc");
}

#endif

static __attribute__((noinline)) void turn(struct ustack *worker)
{
	trap_here(PLACE_PARTNER);
	for (;;) {
		corpus_turns++;
		fill();
		if (ustack_switch(worker))
			abort();
	}
}

void corpus_partner(void *worker)
{
	turn((struct ustack *)worker);
	__asm__ volatile("");
}
