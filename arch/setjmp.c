/* SPDX-License-Identifier: MIT */
/*
 * setjmp.c: the switch in portable C, for the native stack. The contract is in arch.h.
 * This file needs a stack that grows in one direction, up or down (direction.h), and uses
 * longjmp only as C allows: outward, to a function that is still active. The pictures are
 * of a stack that grows down.
 *
 * A thread blocks by setjmp and then a call of a function below. To load a thread, SP
 * must first be below the thread's top, and in C only calls move SP there: sink() calls
 * itself until its frame is deep enough. Then the frames of the thread are copied back
 * above that frame, with the frame of the usched__switch() which the thread called, and a
 * longjmp goes outward to that function. To launch a thread, a longjmp goes outward to
 * the usched__switch() which usched_run() called, and the thread's function is called
 * there.
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
 * There is no statement as in uswitch.h: all switches go the long way.
 *
 * AddressSanitizer takes longjmp for the end of all frames that are jumped over;
 * watch_landed() corrects that.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE         /* _setjmp, which keeps no signal mask */
#endif
#include "arch.h"
#include "../src/core/direction.h"
#include "../usched.h"

#include <fenv.h>
#include <setjmp.h>
#include <stdlib.h>

#include "../src/watch/watch.h"

/* A part of the frame of usched__switch(). A pointer to a struct frame is at every top.
   */
struct frame {
	jmp_buf                 fr_env;
	struct ustack *volatile fr_launch;      /* home only: the thread to launch */
};

enum {
	AROUND = 512,                   /* bytes: frames around, with sanitizers */
};

const int usched__return_at = -1;
const unsigned usched__frame = sizeof(struct frame) + AROUND;
const unsigned usched__shallow = 64;
const unsigned usched__pc_at = 0;
const char usched__control_low[] = "the rounding direction", usched__control_high[] = "";

enum { FRAME_SAVED, RESUME, LAUNCH, TO_VISIT }; /* results of setjmp */

UNWATCHED static struct frame **mark_at(char *top)
{
	return (struct frame **)(void *)top - STACK_GROWS_UP;
}

UNWATCHED static _Noreturn void resume(char *top)
{
	_longjmp((*mark_at(top))->fr_env, RESUME);
}

UNWATCHED static void load_frames(void *top)
{
	usched__load();
	resume((char *)top);
}

UNWATCHED static void load_visited(void *top)
{
	usched__load();
	_longjmp((*mark_at((char *)top))->fr_env, TO_VISIT);
}

typedef void sink_fn(char *sp, void (*then)(void *), void *arg);
static sink_fn sink;
static sink_fn *const volatile call_sink = sink;

/* Calls then(arg) with all its frame below sp, and does not return. */ /* R5 */
UNWATCHED static void sink(char *sp, void (*then)(void *), void *arg)
{
	volatile char step[256];

	step[0] = 0;
	if (stack_is_deeper((void *)(uintptr_t)step, sp)) /* so are callees' frames */
		then(arg);
	else
		call_sink(sp, then, arg);
	step[0] = 1;                            /* no tail call */
}

UNWATCHED static _Noreturn void jump(struct arch_jump j)
{
	struct ustack *u = (struct ustack *)j.aj_at;
	struct frame *home;

	if (j.aj_op <= 0)
		resume((char *)j.aj_at);
	if (j.aj_op == ARCH_RESUME)
		resume(u->u_top);
	if (j.aj_op == ARCH_LOAD)
		call_sink(usched__top(u), load_frames, usched__top(u));
	if (j.aj_op == ARCH_VISIT)
		call_sink(usched__top(u), load_visited, usched__top(u));
	home = *mark_at(u->u_stack->k_sched->s_home);
	home->fr_launch = u;
	_longjmp(home->fr_env, LAUNCH);
}

/* Sinking from home overwrote the mark. It is above this frame again. */
UNWATCHED static void start(void *home)
{
	struct frame *f = (struct frame *)home;
	const struct usched *s = f->fr_launch->u_stack->k_sched;

	*mark_at(s->s_home) = f;
	s->s_func(s->s_arg);
	jump(usched__end());
}

/* All of usched__switch()'s frame is above `mark'. */
UNWATCHED static int descend(struct frame *f, arch_next_fn *next, void *arg)
{
	struct frame *mark = f;
	char *top = (char *)(&mark + STACK_GROWS_UP);
	struct arch_jump j = next(top, arg);

	if (j.aj_op <= 0 && j.aj_at == top)
		return (int)j.aj_op;
	if (j.aj_op == ARCH_RESUME && ((const struct ustack *)j.aj_at)->u_top == top)
		return 0;
	jump(j);
}

static int (*const volatile call_descend)(struct frame *f, arch_next_fn *next,
					  void *arg) = descend;

UNWATCHED int usched__switch(arch_next_fn *next, void *arg)
{
	volatile int rc = 0;
	struct frame f;

	switch (_setjmp(f.fr_env)) {
	case FRAME_SAVED:
		rc = call_descend(&f, next, arg);
		break;
	case LAUNCH:
		call_sink(f.fr_launch->u_stack->k_bottom, start, &f);
		break;
	case TO_VISIT:                          /* fr_env came back with the image */
		watch_landed(usched__current);
		jump(usched__visited(1));
	default:
		watch_landed(usched__current);
	}
	return rc;
}

void usched__resumed(void)
{
}

int usched__handover(struct ustack *u, struct ustack *self, struct usched *s)
{
	return usched__handover_caught(u, self, s);
}

int usched__handover_plain(struct ustack *u, struct ustack *self, struct usched *s)
{
	(void)u, (void)self, (void)s;
	abort();
}

/*
 * Parts of statements that are not reached, see above. Used: other files name them in
 * assembly, which LTO does not see.
 */
__attribute__((used)) void usched__fit(void)
{
	abort();
}

__attribute__((used)) void usched__far(void)
{
	abort();
}

__attribute__((used)) void usched__begin(void)
{
	abort();
}

UNWATCHED void usched__exit(void)
{
	jump(usched__finish());
}

uint64_t usched__control(void)
{
	return (uint64_t)fegetround();
}

void usched__set_control(uint64_t words)
{
	if ((int)words != fegetround())
		fesetround((int)words);
}

int usched__probe(void)
{
	return 0;
}

/* Not told in C: see doc/guarantees.md. */
void usched__commit(void)
{
}
