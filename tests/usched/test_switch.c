/* SPDX-License-Identifier: MIT */
/*
 * test_switch.c: what a block leaves as it was: registers, alignment, frames of any
 * depth; and R5: a signal finds a stack at any instruction. Threads with different
 * values take turns, so a value that is not restored is that of another thread.
 * test_float.c and test_errno.c are about the floating point environment and errno.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <execinfo.h>
#endif

#include "../help/plain.h"

enum { ROUNDS = 200 };

/* More values than registers live across the block, so all registers are in use. */
static void registers(void *arg)
{
	volatile uintptr_t seed = (uintptr_t)arg;
	uintptr_t a = seed, b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13,
		  g = a * 17, h = a * 19, i = a * 23, j = a * 29, k = a * 31, l = a * 37;
	double o = (double)a, p = o * 3, q = o * 5, r = o * 7, s = o * 11, t = o * 13,
	       u = o * 17, v = o * 19, w = o * 23, x = o * 29;

	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(block(), 0);
		TEST_TRUE(b == a * 3 && c == a * 5 && d == a * 7 && e == a * 11);
		TEST_TRUE(f == a * 13 && g == a * 17 && h == a * 19 && i == a * 23);
		TEST_TRUE(j == a * 29 && k == a * 31 && l == a * 37 && a == seed + n);
		TEST_TRUE((uintptr_t)p == 3 * (uintptr_t)o && q == o * 5 && r == o * 7);
		TEST_TRUE(s == o * 11 && t == o * 13 && u == o * 17 && v == o * 19);
		TEST_TRUE(w == o * 23 && x == o * 29);
		a += 1, b += 3, c += 5, d += 7, e += 11, f += 13;
		g += 17, h += 19, i += 23, j += 29, k += 31, l += 37;
		o += 1, p += 3, q += 5, r += 7, s += 11, t += 13;
		u += 17, v += 19, w += 23, x += 29;
	}
}

TEST_CASE(registers_are_kept, run_five_by_each, registers)

#if defined(__x86_64__)

/* Each callee-saved register, with rbp, holds a value of the thread. */
static void all_callee_saved(void *arg)
{
	static int (*volatile way)(void);       /* its address takes no register */

	way = block;
	for (unsigned n = 0; n < ROUNDS; n++) {
		uint64_t in[6], out[6] = { 0 };
		void *si = in, *di = out;
		int rc;

		for (unsigned i = 0; i < 6; i++)
			in[i] = ((uintptr_t)arg << 32) + 7 * n + i;
		__asm__ volatile(       /* past the red zone, aligned */
			"movq %%rsp, %%rcx; leaq -128(%%rsp), %%rsp;"
			"andq $-16, %%rsp; pushq %%rcx; pushq %%rcx;"
			"pushq %%rbx; pushq %%rbp; pushq %%r12; pushq %%r13;"
			"pushq %%r14; pushq %%r15; pushq %[in]; pushq %[out];"
			"movq 0(%[in]), %%rbx; movq 8(%[in]), %%rbp;"
			"movq 16(%[in]), %%r12; movq 24(%[in]), %%r13;"
			"movq 32(%[in]), %%r14; movq 40(%[in]), %%r15;"
			"call *%[block];"
			"popq %%rdi;"
			"movq %%rbx, 0(%%rdi); movq %%rbp, 8(%%rdi);"
			"movq %%r12, 16(%%rdi); movq %%r13, 24(%%rdi);"
			"movq %%r14, 32(%%rdi); movq %%r15, 40(%%rdi);"
			"popq %%rdi; popq %%r15; popq %%r14; popq %%r13; popq %%r12;"
			"popq %%rbp; popq %%rbx; popq %%rcx; movq %%rcx, %%rsp;"
			: "=&a"(rc), [in] "+S"(si), [out] "+D"(di)
			: [block] "m"(way)
			: "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
		TEST_EQUAL(rc, 0);
		for (unsigned i = 0; i < 6; i++)
			TEST_EQUAL(out[i], in[i]);
	}
}

#endif

TEST(callee_saved_registers_are_kept)
{
#if defined(__x86_64__)
	run_five_by_each(all_callee_saved);
#else
	skip();
#endif
}

/* The first function of a thread has the alignment of the ABI. */
static void alignment(void *arg)
{
	_Alignas(64) volatile char local[64];
	_Alignas(16) volatile char small[16];

	local[0] = (char)(uintptr_t)arg;
	small[0] = 1;
	TEST_EQUAL((uintptr_t)ustack_self()->u_stack->k_bottom % 64, 0);
	for (unsigned n = 0; n < 10; n++) {
		TEST_EQUAL((uintptr_t)local % 64, 0);
		TEST_EQUAL((uintptr_t)small % 16, 0);
		TEST_EQUAL(block(), 0);
		TEST_EQUAL(local[0], (char)(uintptr_t)arg);
	}
}

TEST(alignment_is_kept)
{
	for (volatile size_t size = 1; size < 256; size += 16) {
		volatile char deeper[size];     /* moves the native bottom */

		deeper[0] = 0;
		run_five_by_each(alignment);
		assert_int_equal(deeper[0], 0);
	}
}

/* Frames of random sizes, filled with canaries, down to `depth' bytes; blocks. */

static void fill(volatile unsigned char *p, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i += 1 + i / 64)
		p[i] = (unsigned char)test_random(&seed);
}

static void check(const volatile unsigned char *p, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i += 1 + i / 64)
		TEST_EQUAL(p[i], (unsigned char)test_random(&seed));
}

static __attribute__((noinline)) void go_deep(size_t depth, uint32_t seed)
{
	uint32_t own = seed;
	size_t size = 1 + test_random(&seed) % (depth / 4 + 1);
	volatile unsigned char frame[size];

	fill(frame, size, own);
	if (depth > size + 256)
		go_deep(depth - size - 256, seed);
	else
		TEST_EQUAL(block(), 0);
	check(frame, size, own);
	if (own % 8 == 0)
		TEST_EQUAL(block(), 0);
	check(frame, size, own);
}

static size_t deepest;

static void depths(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg;

	for (size_t depth = 1; depth <= deepest; depth *= 2)
		go_deep(depth, test_random(&seed));
}

TEST(frames_are_kept_at_every_depth)
{
	struct rlimit native;

	assert_int_equal(getrlimit(RLIMIT_STACK, &native), 0);
	deepest = native.rlim_cur / 4 < 1 << 20 ? native.rlim_cur / 4 : 1 << 20;
	run_five_by_each(depths);
}

/* setjmp and longjmp of the user, within a thread, across blocks. */
static __attribute__((noinline)) int jump_out(jmp_buf env, unsigned depth, bool jump)
{
	volatile char frame[100];

	frame[0] = (char)depth;
	TEST_EQUAL(block(), 0);
	TEST_EQUAL(frame[0], (char)depth);
	if (depth > 0)
		return jump_out(env, depth - 1, jump) + frame[0];
	if (jump)
		longjmp(env, 1);
	return 0;
}

static void user_jumps(void *arg)
{
	jmp_buf env;
	volatile uintptr_t own = (uintptr_t)arg;

	for (volatile unsigned n = 0; n < 20; n++) {
		if (setjmp(env) == 0) {
			TEST_EQUAL(jump_out(env, 3, n % 2), 1 + 2 + 3);
			TEST_EQUAL(n % 2, 0);
		} else {
			TEST_EQUAL(n % 2, 1);
		}
		TEST_EQUAL(own, (uintptr_t)arg);
	}
}

TEST_CASE(own_longjmp_works, run_five_by_each, user_jumps)

/* A thread cannot block on an alternate signal stack, below its own stack or above. */
static volatile int block_in_handler, hand_off_in_handler, reserved_in_handler;

static void blocking_handler(int signo)
{
	size_t other = ustack_self() == &thread[0];

	(void)signo;
	block_in_handler = ustack_block();
	hand_off_in_handler = ustack_switch(&thread[other]);
	for (size_t room = 0; room < 1 << 17; room += 64)       /* not to the bottom */
		reserved_in_handler += ustack_reserve(room) != -EFAULT;
}

static void raise_in_thread(void *arg)
{
	(void)arg;
	TEST_EQUAL(ustack_block(), 0);
	raise(SIGUSR1);
	TEST_EQUAL(block_in_handler, -EFAULT);
	TEST_EQUAL(hand_off_in_handler, -EFAULT);
	TEST_EQUAL(reserved_in_handler, 0);
	TEST_EQUAL(ustack_block(), 0);
}

static void no_block_with(char *memory, size_t size)
{
	stack_t alternate = { .ss_sp = memory, .ss_size = size };

	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	run_five_by_each(raise_in_thread);
	alternate.ss_flags = SS_DISABLE;
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
}

TEST(no_block_on_an_alternate_stack)
{
	static char memory[65536];
	char above[65536];
	struct sigaction action = {
		.sa_handler = blocking_handler, .sa_flags = SA_ONSTACK,
	};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	no_block_with(above, sizeof above);
	if ((uintptr_t)&action - (uintptr_t)memory < 64 << 20)
		skip();                 /* too near the native stack */
	no_block_with(memory, sizeof memory);
	signal(SIGUSR1, SIG_DFL);
}

/*
 * R5 at every instruction: with the trap flag set, SIGTRAP follows each instruction, and
 * the handler fills 8 KB of the stack below.
 */
#if defined(__x86_64__)

static volatile unsigned traps;

static void trap(int signo)
{
	volatile char below[8192];

	(void)signo;
	for (size_t i = 0; i < sizeof below; i += 8)
		below[i] = (char)0xee;
	traps++;
}

static void step_through(void *arg)
{
	volatile uintptr_t own[64];

	for (unsigned n = 0; n < rounds; n++) {
		for (unsigned i = 0; i < 64; i++)
			own[i] = (uintptr_t)arg + i;
		TEST_EQUAL(block(), 0);
		for (unsigned i = 0; i < 64; i++)
			TEST_EQUAL(own[i], (uintptr_t)arg + i);
	}
}

static void set_trap_flag(int on)
{
	/* Below the red zone. The flags stay set across switches. */
	__asm__ volatile(
		"leaq -128(%%rsp), %%rsp; pushfq;"
		"andq $~0x100, (%%rsp); orq %0, (%%rsp); popfq;"
		"leaq 128(%%rsp), %%rsp"
		: : "r"((uint64_t)(on ? 0x100 : 0)) : "memory", "cc");
}

#endif

TEST(signals_at_every_instruction)
{
#if defined(__x86_64__)
	struct sigaction action = { .sa_handler = trap };

	if (test_on_valgrind() || test_is_sanitized())
		skip();                 /* other traps; too many instructions */
	rounds = (unsigned)test_scale(6, 2);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	for (size_t i = 0; i < 2 * LENTS; i++) {
		block = i % 2 ? hand_off : ustack_block;
		traps = 0;
		mini_init(&plain, lent[i / 2], FIVE_STACK);
		for (uintptr_t k = 0; k < FIVE; k++)
			mini_start(&plain, &thread[k], step_through,
				    (void *)(k * 1000));
		set_trap_flag(1);
		usched_run(&plain.p_sched);
		set_trap_flag(0);
		assert_int_equal(plain.p_dones, FIVE);
		assert_true(traps > 1000 * rounds);
		mini_fini(&plain);
	}
	signal(SIGTRAP, SIG_DFL);
#else
	skip();
#endif
}

/*
 * SME: a caller leaves its ZA in place, and names a block in its frame where it is to be
 * saved before others use it. By the switch, while that frame is in place.
 */
#if defined(__aarch64__)

#define HWCAP2_WITH_SME (1ul << 23)

struct za_block {
	unsigned char *z_buffer;
	uint16_t       z_rows;
	uint16_t       z_zeros[3];
};

static size_t za_width(void)
{
	register size_t x1 __asm__("x1");

	__asm__ volatile(".inst 0x04bf5821" : "=r"(x1));        /* rdsvl x1, #1 */
	return x1;
}

static void set_za(const unsigned char *from, size_t width, const struct za_block *named)
{
	register const unsigned char *x0 __asm__("x0") = from;
	register uint32_t w12 __asm__("w12") = 0;
	register const void *x9 __asm__("x9") = named;

	__asm__ volatile(".inst 0xd503457f" : : : "memory");    /* smstart za */
	for (; w12 < width; w12++, x0 += width)                 /* ldr za[w12, 0], [x0] */
		__asm__ volatile(".inst 0xe1000000" : : "r"(x0), "r"(w12) : "memory");
	__asm__ volatile(".inst 0xd51bd0a9" : : "r"(x9) : "memory");    /* tpidr2_el0 */
}

static const void *za_pending(void)
{
	register const void *x9 __asm__("x9");

	__asm__ volatile(".inst 0xd53bd0a9" : "=r"(x9));
	return x9;
}

static void keep_za(void *arg)
{
	size_t width = za_width(), size = width * width;
	unsigned char *mine = malloc(size), *saved = malloc(size);

	TEST_TRUE(mine && saved);
	for (unsigned n = 0; n < 20; n++) {
		struct za_block own = { saved, (uint16_t)width, { 0 } };

		TEST_TRUE(!za_pending());
		for (size_t i = 0; i < size; i++)
			mine[i] = (unsigned char)(i * 7 + i / 256 + n + (uintptr_t)arg);
		memset(saved, 0, size);
		set_za(mine, width, &own);
		TEST_EQUAL(block(), 0);
		TEST_TRUE(!za_pending());
		TEST_TRUE(own.z_buffer == saved && memcmp(mine, saved, size) == 0);
	}
	free(mine);
	free(saved);
}

#endif

TEST(lazy_registers_are_saved)
{
#if defined(__aarch64__)
	if (!(getauxval(AT_HWCAP2) & HWCAP2_WITH_SME) || !test_has_stacks())
		skip();
	run_five_by_each(keep_za);
#else
	skip();
#endif
}

/* An unwinder finds the frames of the thread, and an end. */
static __attribute__((noinline)) void unwind(void *arg)
{
	(void)arg;
#if defined(__GLIBC__)
	void *frames[64];
	int n;

	TEST_EQUAL(block(), 0);
	n = backtrace(frames, 64);
	TEST_TRUE(n >= 1 && n < 16);
#endif
}

TEST(backtraces_end)
{
#if defined(__GLIBC__)
	void *frames[4];

	if (!test_has_stacks())
		skip();                 /* portable C says nothing to unwinders */
	backtrace(frames, 4);           /* loads the unwinder, on this stack */
	run_five_by_each(unwind);
#else
	skip();
#endif
}

int main(void)
{
	return test_run_all();
}
