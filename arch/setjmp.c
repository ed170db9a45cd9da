/* SPDX-License-Identifier: MIT */
/*
 * setjmp.c: the switch in portable C, for the native stack. The contract is in arch.h. It
 * needs a stack that grows down, and what C says of longjmp: it jumps outward, to a
 * function that is still active.
 *
 * To block is to call setjmp and then a function below. To load a thread, SP must first
 * be below its top, and C has one way to get there: calls. sink() calls itself until its
 * frame is deep enough. The frames are copied back above it, among them that of the
 * usched__switch() which the thread called; the jump to that goes outward. To launch a
 * thread is to jump outward to the usched__switch() which usched_run() called, and call
 * it from there.
 *
 *        | usched_run | usched__switch | descend |
 *                       home:            ^ bottom
 *        | thread A ...        | usched__switch | descend |
 *                                                 ^ top of A
 *        | thread B ... | sink | sink | sink | memcpy
 *                                       ^ below A's top: A's frames are
 *                                         written over those of B
 *
 * Calls that must grow the stack are made through volatile pointers, which no compiler
 * sees through, whatever it inlines or turns into loops.
 *
 * Of the floating point environment C can save the rounding direction.
 *
 * AddressSanitizer takes longjmp for the end of all frames that are jumped over;
 * watch_landed() corrects that.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE         /* _setjmp, which keeps no signal mask */
#endif
#include "arch.h"
#include "../usched.h"

#include <fenv.h>
#include <setjmp.h>
#include <stdbool.h>

#include "../watch/watch.h"

/* In the frame of usched__switch(). A pointer to it is at every top. */
struct frame {
	jmp_buf                   f_env;
	int                       f_rounding;
	int                       f_errno;
	struct usched            *f_sched;
	volatile struct arch_jump f_launch;     /* home only: the thread to launch */
};

enum {
	AROUND = 512,                   /* bytes: frames around, with sanitizers */
	ERRORS = 4096, /* above errno values, and no stack is so near the end of memory */
};

const int usched__return_at = -1;
const unsigned usched__frame = sizeof(struct frame) + AROUND;

enum { SAVED, RESUME, LAUNCH };         /* results of setjmp */

typedef int descend_fn(struct frame *f, arch_next_fn *next, void *arg);
typedef void sink_fn(char *sp, void (*then)(void *), void *arg);

static descend_fn descend;
static bool is_result(intptr_t op);
static _Noreturn void jump(struct arch_jump j);
static sink_fn sink;
static void load(void *top);
static void start(void *home);
static _Noreturn void resume(char *top);
static void set_rounding(int rounding);

static descend_fn *const volatile call_descend = descend;
static sink_fn *const volatile call_sink = sink;

UNWATCHED int usched__switch(arch_next_fn *next, void *arg, struct usched *s)
{
	volatile int rc = 0;
	struct frame f;

	f.f_sched = s;
	f.f_errno = *s->s_errno;
	f.f_rounding = fegetround();
	switch (_setjmp(f.f_env)) {
	case SAVED:
		rc = call_descend(&f, next, arg);
		break;
	case LAUNCH:
		call_sink(f.f_launch.j_sp, start, &f);
		break;
	default:
		watch_landed(f.f_sched);
	}
	*f.f_sched->s_errno = f.f_errno;
	return rc;
}

UNWATCHED int usched__handover(struct ustack *u, struct ustack *self, struct usched *s)
{
	if (s->s_caught->c_caught || s->s_caught->c_uncaught)
		return usched__handover_caught(u, self, s);
	return usched__switch(usched__handover_slow, u, s);
}

UNWATCHED void usched__exit(struct usched *s)
{
	(void)s;
	jump(usched__finish());
}

int usched__probe(void)
{
	return 0;
}

uintptr_t usched__valgrind(const uintptr_t request[6])
{
	(void)request;                  /* about added stacks: there are none */
	return 0;
}

/* All of usched__switch()'s frame is above `mark'. */
UNWATCHED static int descend(struct frame *f, arch_next_fn *next, void *arg)
{
	struct frame *mark = f;
	struct arch_jump j = next((char *)&mark, arg);

	if (j.j_sp == (char *)&mark && is_result(j.j_op))
		return (int)j.j_op;
	jump(j);
}

/* With 32 bits a stack may be at negative addresses, near 0 as errors are. */
UNWATCHED static bool is_result(intptr_t op)
{
	return op <= 0 && op > -ERRORS;
}

UNWATCHED static struct frame **mark_at(char *top)
{
	return (void *)top;
}

UNWATCHED static void jump(struct arch_jump j)
{
	struct frame *home;

	if (is_result(j.j_op))
		resume(j.j_sp);
	if (j.j_op == ARCH_LOAD)
		call_sink(j.j_sp, load, j.j_sp);
	home = *mark_at((char *)j.j_op);
	home->f_launch = j;
	set_rounding(home->f_rounding);
	_longjmp(home->f_env, LAUNCH);
}

/* Calls then(arg) with all its frame below sp, and does not return. */ /* R5 */
UNWATCHED static void sink(char *sp, void (*then)(void *), void *arg)
{
	volatile char step[256];

	step[0] = 0;
	if ((uintptr_t)step < (uintptr_t)sp)    /* so are callees' frames */
		then(arg);
	else
		call_sink(sp, then, arg);
	step[0] = 1;                            /* no tail call */
}

UNWATCHED static void load(void *top)
{
	usched__load();
	resume(top);
}

/* Sinking from home overwrote the mark. It is above this frame again. */
UNWATCHED static void start(void *home)
{
	struct frame *f = home;
	struct arch_start thread;

	*mark_at((char *)f->f_launch.j_op) = f;
	thread = usched__start();
	thread.t_func(thread.t_arg);
	usched__end();
	usched__exit(f->f_sched);
}

UNWATCHED static void resume(char *top)
{
	struct frame *f = *mark_at(top);

	set_rounding(f->f_rounding);
	_longjmp(f->f_env, RESUME);
}

UNWATCHED static void set_rounding(int rounding)
{
	if (rounding != fegetround())
		fesetround(rounding);
}
