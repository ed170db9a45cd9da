/* SPDX-License-Identifier: MIT */
/*
 * step.h: single steps: look(pc) is called before each instruction of the native thread
 * that calls step(), until it returns false. Where the machine or an emulator has no
 * single steps, nothing happens, and stepper.s_steps stays 0. Include it once, after a
 * definition of _GNU_SOURCE, which REG_EFL needs.
 */
#ifndef USCHED_TESTS_STEP_H
#define USCHED_TESTS_STEP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

static struct stepper {
	bool  (*s_look)(const unsigned char *pc);
	size_t  s_steps;
} stepper;

#if defined(__x86_64__) && defined(REG_EFL)
enum { TRAP_FLAG = 0x100 };

static void start_stepping(int signo, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)signo;
	(void)info;
	u->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void step_once(int signo, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)signo;
	(void)info;
	stepper.s_steps++;
	if (!stepper.s_look((const unsigned char *)u->uc_mcontext.gregs[REG_RIP]))
		u->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

static void step(bool (*look)(const unsigned char *pc))
{
	struct sigaction start = { .sa_flags = SA_SIGINFO }, once = start;

	start.sa_sigaction = start_stepping;
	once.sa_sigaction = step_once;
	stepper = (struct stepper){ look, 0 };
	sigaction(SIGTRAP, &once, NULL);
	sigaction(SIGUSR2, &start, NULL);
	raise(SIGUSR2);
}
#else
static void step(bool (*look)(const unsigned char *pc))
{
	stepper = (struct stepper){ look, 0 };
}
#endif

#endif /* USCHED_TESTS_STEP_H */
