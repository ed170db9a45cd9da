/* SPDX-License-Identifier: MIT */
/*
 * trap.c: a signal at each instruction, on x86-64, and a walk of the stack in its
 * handler.
 *
 * The handler has no stack of its own, so the kernel writes its frame below SP wherever
 * SP is. The walk must get to the function that called the caller under test, with the
 * right canonical frame address and return address. It may stop at the interrupted
 * function instead only while a hand-over is half done: SP is on the stack of the other
 * thread, and the next jump is the indirect one of the statement.
 *
 * Elsewhere there is nothing to do, and trap_report() says that.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

#if defined(__x86_64__) && !defined(CORPUS_NO_TRAP)

#include <ucontext.h>
#include <unwind.h>

#define TRAP_FLAG 0x100                 /* of the flags register */

enum {
	WALK_MAX    = 64,       /* frames */
	BEFORE      = 12,       /* instructions until SP is loaded */
	HALF_DONE   = 24,       /* from there to the jump, at most */
	MESSAGES    = 10,
};

/* By the linker: the program's own code. */
extern const char __executable_start[], etext[];

/* Where a thread is, so that a walk of its stack can be judged. */
struct place {
	uintptr_t l_cfa;        /* of the function that calls the caller under test */
	uintptr_t l_return;     /* where that returns to */
};

struct walk {
	uintptr_t w_pc;         /* interrupted */
	const struct place *w_place;
	unsigned  w_frames;
	bool      w_interrupted;        /* the frame of the interrupted function came */
	bool      w_found;
	uintptr_t w_last;       /* pc of the last frame */
};

static struct place places[PLACES];
static unsigned long steps, walks, half, switches, wrong;
static volatile bool stepping;
static bool moved;                      /* SP, meanwhile */
static unsigned half_steps;             /* one after the other */
static uintptr_t half_pc;               /* of the last of them */
static const struct place *before;       /* the stack at the last step */

static const struct place *place_of(uintptr_t sp)
{
	for (unsigned i = 0; i < PLACES; i++) {
		const struct place *p = &places[i];

		if (p->l_cfa && sp < p->l_cfa && p->l_cfa - sp < CORPUS_STACK - 65536)
			return p;
	}
	return NULL;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *arg)
{
	struct walk *w = (struct walk *)arg;
	uintptr_t pc = (uintptr_t)_Unwind_GetIP(context);

	if (pc == 0)            /* the end */
		return _URC_NO_REASON;
	w->w_last = pc;
	if (pc == w->w_pc)
		w->w_interrupted = true;
	if (pc == w->w_place->l_return
	    && (uintptr_t)_Unwind_GetCFA(context) == w->w_place->l_cfa)
		w->w_found = true;
	return ++w->w_frames < WALK_MAX ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static void complain(const char *what, uintptr_t pc, uintptr_t sp)
{
	wrong++;
	if (wrong <= MESSAGES) {
		printf("trap: program + %#lx, SP %#lx: %s\n",
		       (unsigned long)(pc - (uintptr_t)__executable_start),
		       (unsigned long)sp, what);
		fflush(stdout);
	}
}

/* jmp *reg, perhaps with notrack and a prefix for r8 to r15. */
static bool is_indirect_jump(uintptr_t pc)
{
	const unsigned char *p = (const unsigned char *)pc;

	if (*p == 0x3e)
		p++;
	if (*p == 0x41)
		p++;
	return p[0] == 0xff && ((p[1] & 0xf8) == 0xe0 || (p[1] & 0x38) == 0x20);
}

/* The walk has stopped where the signal came. */
static void stopped(const struct walk *w, uintptr_t sp)
{
	if (!w->w_interrupted || w->w_last != w->w_pc) {
		complain("the walk goes astray", w->w_pc, sp);
		return;
	}
	moved = (half_steps && moved) || before != w->w_place;
	if (half_steps == BEFORE && !moved)
		complain("the walk stops, and SP has not moved", w->w_pc, sp);
	if (++half_steps == HALF_DONE)
		complain("the walk does not go on", w->w_pc, sp);
	half++;
	half_pc = w->w_pc;
}

static void look(uintptr_t pc, uintptr_t sp)
{
	const struct place *place = place_of(sp);
	struct walk w = { .w_pc = pc, .w_place = place };

	if (!place) {
		before = NULL;
		return;
	}
	if (pc < (uintptr_t)__executable_start || pc >= (uintptr_t)etext)
		return;         /* not all of libgcc's own code can be walked */
	walks++;
	_Unwind_Backtrace(visit, &w);
	if (w.w_found) {
		if (half_steps && !is_indirect_jump(half_pc))
			complain("the walk went on before the jump", pc, sp);
		switches += half_steps > 0;
		half_steps = 0;
	} else {
		stopped(&w, sp);
	}
	before = place;
}

/* The flags are restored when the handler returns, the trap flag as set here. */
static void handle(int signal, siginfo_t *info, void *arg)
{
	greg_t *reg = ((ucontext_t *)arg)->uc_mcontext.gregs;

	(void)signal;
	(void)info;
	if (!stepping) {
		reg[REG_EFL] &= ~(greg_t)TRAP_FLAG;
		return;
	}
	reg[REG_EFL] |= TRAP_FLAG;
	steps++;
	look((uintptr_t)reg[REG_RIP], (uintptr_t)reg[REG_RSP]);
}

static void set_up(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof action);
	action.sa_sigaction = handle;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	if (sigaction(SIGTRAP, &action, NULL))
		abort();
}

/* The third: trap_here(), its caller, and the function that called that. */
static _Unwind_Reason_Code learn(struct _Unwind_Context *context, void *arg)
{
	struct walk *w = (struct walk *)arg;

	if (w->w_frames++ < 2)
		return _URC_NO_REASON;
	w->w_pc = (uintptr_t)_Unwind_GetIP(context);
	w->w_last = (uintptr_t)_Unwind_GetCFA(context);
	return _URC_NORMAL_STOP;
}

__attribute__((noinline)) void trap_here(int place)
{
	struct walk w = { .w_frames = 0 };

	_Unwind_Backtrace(learn, &w);
	places[place] = (struct place){ .l_cfa = w.w_last, .l_return = w.w_pc };
}

void trap_begin(void)
{
	struct walk w = { .w_frames = 0 };

	_Unwind_Backtrace(learn, &w);
	places[PLACE_WORKER] = (struct place){ .l_cfa = w.w_last, .l_return = w.w_pc };
	set_up();
	stepping = true;
	raise(SIGTRAP);
}

void trap_end(void)
{
	stepping = false;               /* the handler sees it at the next instruction */
}

int trap_report(void)
{
	printf("trap: %lu instructions, %lu walks, %lu of them half done in %lu "
	       "hand-overs, %lu wrong\n", steps, walks, half, switches, wrong);
	if (walks == 0)
		printf("trap: nothing was seen\n");
	return wrong > 0 || walks == 0;
}

#else

void trap_here(int place)
{
	(void)place;
}

void trap_begin(void)
{
}

void trap_end(void)
{
}

int trap_report(void)
{
	printf("trap: not on this machine\n");
	return 0;
}

#endif
