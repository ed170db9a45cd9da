/* SPDX-License-Identifier: MIT */
/*
 * test_preempt_step.c: upreempt() over the dispatcher alone: threads give way at each
 * instruction of small functions, and compute what they compute alone. None gives way in
 * code of others, nor in code of usched that begins and ends regions.
 */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "../help/plain.h"
#include "../help/vectors.h"

#include "../../upreempt.h"

/* By the linker: the program's own code. */
extern const char __executable_start[], etext[];

static volatile size_t traps, gave, asked;    /* by handlers */
static bool never;                      /* the answer of s_preempt */

#if defined(__x86_64__)
enum { TRAP_FLAG = 0x100 };

static bool is_own(const ucontext_t *u)
{
	uintptr_t pc = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];

	return pc - (uintptr_t)__executable_start
		< (uintptr_t)(etext - __executable_start);
}

static void set_trap(int signo, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)info;
	if (signo == SIGUSR1)
		u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
	else
		u->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}
#else
static bool is_own(const ucontext_t *u)
{
	(void)u;
	return true;
}

static void set_trap(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	(void)context;
}
#endif

/* raise() may block signals meanwhile, and a trap that is blocked ends the process. */
static void send_me(int signo)
{
	syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), signo);
}

static void on_trap(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	traps++;
	gave += (size_t)upreempt(context);
}

static int decide(struct usched *s, struct ustack *u, void *context)
{
	asked++;
	TEST_TRUE(s == &plain.p_sched && u == s->s_current);
	TEST_TRUE(is_own(context));
	errno = EILSEQ;                 /* is kept from the thread */
	return !never;
}

static int yield(struct usched *s)
{
	(void)s;
	return ustack_block();
}

static void install(int signo, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_flags = SA_SIGINFO, .sa_sigaction = handler };

	sigaction(signo, &action, NULL);
}

/* ---- Small functions; the argument is 1, 2, ... ---- */

/* With locals below SP. */
__attribute__((noinline)) static double leaf(unsigned n)
{
	unsigned a[16];

	for (unsigned i = 0; i < 16; i++)
		a[i] = i * n;
	for (unsigned i = 1; i < 16; i++)
		a[i] ^= a[i - 1] << 3;
	return a[15];
}

__attribute__((noinline)) static double recursion(unsigned n)
{
	return n < 2 ? n : recursion(n - 1) + recursion(n - 2);
}

static double recursive(unsigned n)
{
	return recursion(n % 5 + 4);
}

__attribute__((noinline)) static double x87(unsigned n)
{
	long double a = n, b = 1;

	for (int i = 0; i < 10; i++) {
		b = a / (b + i);
		a = a * 1.25L - b;
	}
	return (double)(a + b);
}

static double vectors(unsigned n)
{
	return vectors_sum(n, 4);
}

struct big {
	unsigned b_word[12];
};

__attribute__((noinline)) static struct big by_value(struct big a, unsigned n)
{
	for (unsigned i = 0; i < 12; i++)
		a.b_word[i] = a.b_word[(i + n) % 12] * 3 + i;
	return a;
}

static double structs(unsigned n)
{
	struct big a = { { n } };

	return by_value(by_value(a, n), n + 1).b_word[n % 12];
}

static double libraries(unsigned n)
{
	char text[40];

	snprintf(text, sizeof text, "%u.%u", n, n * 7);
	return strtod(text, NULL) + sqrt(n) + sin(n);
}

static double errnos(unsigned n)
{
	*(volatile int *)&errno = (int)n;
	for (volatile unsigned i = 0; i < 20; i++)
		;
	return *(volatile int *)&errno;
}

static double nested(unsigned n)
{
	int before = ustack_preemptible(1);
	double result = leaf(n);

	ustack_preemptible(before);
	for (unsigned i = 0; i < 4; i++)
		result += ustack_check();
	return result;
}

static double (*const functions[])(unsigned n) = {
	leaf, recursive, x87, vectors, structs, libraries, errnos, nested,
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double (*function)(unsigned n);

static void compute(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;
	double alone = function(n), result;
	int before = ustack_preemptible(1);     /* makes what is made once */

	ustack_preemptible(before);
	send_me(SIGUSR1);
	before = ustack_preemptible(1);
	result = function(n);
	ustack_preemptible(before);
	send_me(SIGUSR2);
	TEST_EQUAL(before, 0);
	TEST_TRUE(result == alone);
}

static void run_compute(unsigned stacks)
{
	mini_init(&plain, stacks, 4 * PLAIN_STACK);
	plain.p_sched.s_calls.s_preempt = decide;
	plain.p_sched.s_calls.s_yield = yield;
	for (uintptr_t i = 0; i < FIVE; i++)
		mini_start(&plain, &thread[i], compute, (void *)(i + 1));
	run();
	upreempt_close(&plain.p_sched);
	mini_fini(&plain);
}

static bool can_step(void)
{
	traps = 0;
	send_me(SIGUSR1);
	send_me(SIGUSR2);
	return traps > 0;
}

static int can_enter;

static void try_enter(void *unused)
{
	(void)unused;
	can_enter = ustack_preemptible(1);
	ustack_preemptible(can_enter);
}

static void skip_unless_possible(void)
{
	install(SIGUSR1, set_trap);
	install(SIGUSR2, set_trap);
	install(SIGTRAP, on_trap);
	setup(1, 0, NULL);
	plain.p_sched.s_calls.s_preempt = decide;
	plain.p_sched.s_calls.s_yield = yield;
	mini_start(&plain, &thread[0], try_enter, NULL);
	run();
	upreempt_close(&plain.p_sched);
	mini_fini(&plain);
	if (can_enter == 0 && can_step())
		return;
	print_message("no single steps, or no regions here: %d\n", can_enter);
	skip();
}

TEST(test_each_instruction)
{
	skip_unless_possible();
	for (int f = 0; f < FUNCTIONS; f++) {
		function = functions[f];
		gave = traps = 0;
		for (int i = 0; i < LENTS; i++)
			run_compute(lent[i]);
		print_message("function %d: gave way at %zu of %zu instructions\n", f,
			      gave, traps);
		TEST_TRUE(gave >= 20 && gave < traps);
	}
}

/* s_preempt decides. */
TEST(test_declined)
{
	skip_unless_possible();
	function = leaf;
	gave = asked = 0;
	never = true;
	run_compute(1);
	never = false;
	TEST_EQUAL(gave, 0);
	TEST_TRUE(asked >= 20);
}

/* Most of the instructions below, with any compiler and processor. */
__attribute__((noinline)) static double leaves(unsigned n)
{
	double result = 0;

	for (volatile int i = 0; i < 10; i++)
		result = leaf(n);
	return result;
}

/* No memory is asked for in the handler; a thread that is too deep is left alone. */
static void compute_deep(void *unused)
{
	char volatile deep[32 << 10];
	int before = ustack_preemptible(1);

	(void)unused;
	ustack_preemptible(before);
	TEST_EQUAL(ustack_block(), 0);          /* the other one, too */
	plain.p_no_memory = true;
	__asm__ volatile("" : : "r"(deep) : "memory");
	before = ustack_preemptible(1);
	send_me(SIGUSR1);
	deep[0] = (char)leaves(1);
	TEST_TRUE(deep[0] == (char)leaf(1));
	send_me(SIGUSR2);
	ustack_preemptible(before);
	TEST_EQUAL(before, 0);
}

__attribute__((noinline)) static double below(void)
{
	char volatile deep[32 << 10];

	deep[0] = 1;
	__asm__ volatile("" : : "r"(deep) : "memory");  /* is used as a whole */
	return leaves((unsigned)deep[0]) + deep[0];
}

static void compute_below(void *unused)
{
	int before = ustack_preemptible(1);
	double result;

	(void)unused;
	send_me(SIGUSR1);
	result = below();
	send_me(SIGUSR2);
	ustack_preemptible(before);
	TEST_TRUE(result == leaf(1) + 1);
	TEST_EQUAL(before, 0);
}

static size_t run_two(void (*func)(void *))
{
	gave = 0;
	mini_init(&plain, 1, 4 * PLAIN_STACK);
	plain.p_sched.s_calls.s_preempt = decide;
	plain.p_sched.s_calls.s_yield = yield;
	mini_start(&plain, &thread[0], func, NULL);
	mini_start(&plain, &thread[1], func, NULL);
	run();
	upreempt_close(&plain.p_sched);
	mini_fini(&plain);
	return gave;
}

TEST(test_room)
{
	size_t deep, under;

	skip_unless_possible();
	if (test_is_stressed())
		skip();                 /* each block changes the image */
	deep = run_two(compute_deep);
	under = run_two(compute_below);
	print_message("gave way %zu times, and %zu\n", deep, under);
	TEST_TRUE(deep >= 20);
	TEST_TRUE(under < deep / 2);            /* around below() there is room */
}

/* Without s_preempt and s_yield there are no regions. */
TEST(test_refused)
{
	setup(1, 0, NULL);
	mini_start(&plain, &thread[0], try_enter, NULL);
	run();
	mini_fini(&plain);
	TEST_EQUAL(can_enter, -ENOTSUP);
	TEST_EQUAL(upreempt(&(ucontext_t){ .uc_link = NULL }), 0);
}

int main(void)
{
	return test_run_all();
}
