/* SPDX-License-Identifier: MIT */
/*
 * test_switch.c: what a thread must find as it left it when its block returns:
 * registers, floating point control words, alignment, frames of any depth; and
 * that a signal at any instruction finds a stack (R5). Threads with
 * different values take turns, so that what is not restored is another's.
 */
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <execinfo.h>
#endif

#include "mini.h"

enum { THREADS = 5, STACK = 4 << 20, ROUNDS = 200 };

static struct mini plain;
static struct ustack thread[THREADS];
static unsigned ended;

/* On the native stack, on one, on two that are too few, and on enough. */
static const unsigned lent[] = { 0, 1, 2, THREADS };

/* As ustack_block() here, but a hand-off, which goes a shorter way where it can. */
static int hand_off(void)
{
	mini_push(&plain, ustack_self());
	return ustack_switch(plain.p_ring[plain.p_head++ % MINI_RING]);
}

static int (*volatile block)(void);

static void run_all_by(int (*way)(void), void (*func)(void *))
{
	block = way;
	for (size_t i = 0; i < sizeof lent / sizeof *lent; i++) {
		ended = 0;
		mini_init(&plain, lent[i], STACK);
		for (uintptr_t k = 0; k < THREADS; k++)
			mini_start(&plain, &thread[k], func, (void *)(k + 1));
		TEST_EQUAL(usched_run(&plain.p_sched), 0);
		TEST_EQUAL(ended, THREADS);
		mini_fini(&plain);
	}
}

static void run_all(void (*func)(void *))
{
	test_timeout(60);
	run_all_by(ustack_block, func);
	run_all_by(hand_off, func);
}

/*
 * More values than there are registers live across the block, so all registers
 * that may hold some do.
 */
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
	ended++;
}

static void registers_are_kept(void **state)
{
	(void)state;
	run_all(registers);
}

#if defined(__x86_64__)

/* Each callee-saved register, rbp too, holds a value of the thread's own. */
static void all_callee_saved(void *arg)
{
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
			: [block] "m"(block)
			: "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
		TEST_EQUAL(rc, 0);
		for (unsigned i = 0; i < 6; i++)
			TEST_EQUAL(out[i], in[i]);
	}
	ended++;
}

#endif

static void callee_saved_registers_are_kept(void **state)
{
	(void)state;
#if defined(__x86_64__)
	run_all(all_callee_saved);
#else
	skip();
#endif
}

static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

static void round_own_way(void *arg)
{
	int own = rounding[(uintptr_t)arg % 4];

	TEST_EQUAL(fegetround(), FE_UPWARD);    /* as usched_run() was called */
	TEST_EQUAL(fesetround(own), 0);
	for (unsigned n = 0; n < ROUNDS; n++) {
		TEST_EQUAL(block(), 0);
		TEST_EQUAL(fegetround(), own);
	}
	ended++;
}

static void rounding_is_kept_and_inherited(void **state)
{
	(void)state;
	fesetround(FE_UPWARD);
	run_all(round_own_way);
	assert_int_equal(fegetround(), FE_UPWARD);
	fesetround(FE_TONEAREST);
}

#if defined(__x86_64__)

/* MemorySanitizer does not see what assembly writes. */
static uint32_t get_mxcsr(void)
{
	uint32_t word = 0;

	__asm__ volatile("stmxcsr %0" : "=m"(word));
	return word;
}

static void set_mxcsr(uint32_t word)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(word));
}

static uint16_t get_x87(void)
{
	uint16_t word = 0;

	__asm__ volatile("fnstcw %0" : "=m"(word));
	return word;
}

static void set_x87(uint16_t word)
{
	__asm__ volatile("fldcw %0" : : "m"(word));
}

/*
 * Neighbours differ in one bit or two, of one word or the other: flush to zero, denormals
 * are zero; precision. A sticky flag may differ. While a thread blocks, its own registers
 * hold what its successor has: who compares with them sees no difference.
 */
static void control_words(void *arg)
{
	static const uint32_t mxcsr[] = { 0x1f80, 0x9f80, 0x9f80, 0x9fc0, 0x3fc0 };
	static const uint16_t x87[] = { 0x37f, 0x37f, 0x27f, 0x27f, 0x27f };
	unsigned own = (unsigned)(uintptr_t)arg % THREADS;

	TEST_EQUAL(get_mxcsr() & 0xffc0, 0x9fc0);
	TEST_EQUAL(get_x87(), 0x27f);
	set_mxcsr(mxcsr[own]);
	set_x87(x87[own]);
	for (unsigned n = 0; n < ROUNDS; n++) {
		register uint64_t r12 __asm__("r12") = mxcsr[(own + 1) % THREADS];
		register uint64_t r13 __asm__("r13") = x87[(own + 1) % THREADS];

		__asm__ volatile("" : "+r"(r12), "+r"(r13));
		TEST_EQUAL(block(), 0);
		__asm__ volatile("" : "+r"(r12), "+r"(r13));
		TEST_EQUAL(get_mxcsr() & 0xffc0, mxcsr[own]);
		TEST_EQUAL(get_x87(), x87[own]);
		set_mxcsr(mxcsr[own] | (n & 0x3f));
	}
	ended++;
}

#endif

static void control_words_are_kept_and_inherited(void **state)
{
	(void)state;
#if defined(__x86_64__)
	uint32_t mxcsr = get_mxcsr();
	uint16_t x87 = get_x87();

	if (!test_has_stacks())
		skip();                 /* portable C keeps the rounding only */
	if (test_on_valgrind())
		skip();                 /* it does not know all the bits */
	set_mxcsr(0x9fc0);
	set_x87(0x27f);
	run_all(control_words);
	assert_int_equal(get_mxcsr() & 0xffc0, 0x9fc0);
	assert_int_equal(get_x87(), 0x27f);
	set_mxcsr(mxcsr);
	set_x87(x87);
#else
	skip();
#endif
}

/* What the ABI promises a function holds for the first one of a thread. */
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
	ended++;
}

static void alignment_is_kept(void **state)
{
	(void)state;
	for (volatile size_t size = 1; size < 256; size += 16) {
		volatile char deeper[size];     /* the native bottom is elsewhere */

		deeper[0] = 0;
		run_all(alignment);
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
	ended++;
}

static void frames_are_kept_at_every_depth(void **state)
{
	struct rlimit native;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_STACK, &native), 0);
	deepest = native.rlim_cur / 4 < 1 << 20 ? native.rlim_cur / 4 : 1 << 20;
	run_all(depths);
}

/* The user's own setjmp and longjmp, within a thread, across blocks. */
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
	ended++;
}

static void own_longjmp_works(void **state)
{
	(void)state;
	run_all(user_jumps);
}

/* An alternate signal stack is not the thread's, below or above: there it cannot block. */

static volatile int block_in_handler, hand_off_in_handler, reserved_in_handler;

static void blocking_handler(int signo)
{
	size_t other = ustack_self() == &thread[0];

	(void)signo;
	block_in_handler = ustack_block();
	hand_off_in_handler = ustack_switch(&thread[other]);
	for (size_t room = 0; room < 1 << 17; room += 64)       /* the bottom is not as far */
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
	ended++;
}

static void no_block_with(char *memory, size_t size)
{
	stack_t alternate = { .ss_sp = memory, .ss_size = size };

	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	run_all(raise_in_thread);
	alternate.ss_flags = SS_DISABLE;
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
}

static void no_block_on_an_alternate_stack(void **state)
{
	static char memory[65536];
	char above[65536];
	struct sigaction action = {
		.sa_handler = blocking_handler, .sa_flags = SA_ONSTACK,
	};

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	no_block_with(above, sizeof above);
	if ((uintptr_t)&action - (uintptr_t)memory < 64 << 20)
		skip();                 /* too near to be told from the native stack */
	no_block_with(memory, sizeof memory);
	signal(SIGUSR1, SIG_DFL);
}

/*
 * R5 at every instruction: with the trap flag set, each is followed by SIGTRAP, and
 * the handler fills 8 KB of the stack below.
 */
#if defined(__x86_64__)

static volatile unsigned traps;
static size_t steps;

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

	for (size_t n = 0; n < steps; n++) {
		for (unsigned i = 0; i < 64; i++)
			own[i] = (uintptr_t)arg + i;
		TEST_EQUAL(block(), 0);
		for (unsigned i = 0; i < 64; i++)
			TEST_EQUAL(own[i], (uintptr_t)arg + i);
	}
	ended++;
}

static void set_trap_flag(int on)
{
	/* Below the red zone; the flags are the processor's, so they go along. */
	__asm__ volatile(
		"leaq -128(%%rsp), %%rsp; pushfq;"
		"andq $~0x100, (%%rsp); orq %0, (%%rsp); popfq;"
		"leaq 128(%%rsp), %%rsp"
		: : "r"((uint64_t)(on ? 0x100 : 0)) : "memory", "cc");
}

#endif

static void signals_at_every_instruction(void **state)
{
	(void)state;
#if defined(__x86_64__)
	struct sigaction action = { .sa_handler = trap };

	if (test_on_valgrind() || test_is_sanitized())
		skip();                 /* it does not trap like this, they take too long */
	test_timeout(60);
	steps = test_scale(6, 2);
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	for (size_t i = 0; i < 2 * (sizeof lent / sizeof *lent); i++) {
		block = i % 2 ? hand_off : ustack_block;
		ended = traps = 0;
		mini_init(&plain, lent[i / 2], STACK);
		for (uintptr_t k = 0; k < THREADS; k++)
			mini_start(&plain, &thread[k], step_through,
				    (void *)(k * 1000));
		set_trap_flag(1);
		usched_run(&plain.p_sched);
		set_trap_flag(0);
		assert_int_equal(ended, THREADS);
		assert_true(traps > 1000 * steps);
		mini_fini(&plain);
	}
	signal(SIGTRAP, SIG_DFL);
#else
	skip();
#endif
}

/* An unwinder finds the frames of the thread and an end. */

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
	ended++;
}

static void backtraces_end(void **state)
{
	(void)state;
#if defined(__GLIBC__)
	void *frames[4];

	if (!test_has_stacks())
		skip();                 /* portable C says nothing to unwinders */
	backtrace(frames, 4);           /* loads the unwinder, on this stack */
	run_all(unwind);
#else
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_kept),
		cmocka_unit_test(callee_saved_registers_are_kept),
		cmocka_unit_test(rounding_is_kept_and_inherited),
		cmocka_unit_test(control_words_are_kept_and_inherited),
		cmocka_unit_test(alignment_is_kept),
		cmocka_unit_test(frames_are_kept_at_every_depth),
		cmocka_unit_test(own_longjmp_works),
		cmocka_unit_test(no_block_on_an_alternate_stack),
		cmocka_unit_test(signals_at_every_instruction),
		cmocka_unit_test(backtraces_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
