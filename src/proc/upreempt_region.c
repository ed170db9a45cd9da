/* SPDX-License-Identifier: MIT */
/*
 * upreempt_region.c: threads that are interrupted by a signal. upreempt.h has the
 * picture. upreempt.c sends the signal.
 *
 * In a region usched__current is the stand-in, sl_blind. Outside of regions the handler
 * does nothing, unless ob_may_stop of core.h allows it. So code of usched is never
 * interrupted, wherever that code is linked. In a region the handler yields if
 *
 *  - the interrupted instruction is in the main program, which is linked dynamically,
 *    since other code, such as malloc(), may hold locks that the next thread needs;
 *  - the signal mask is that of the beginning of the region, so no other handler is
 *    running;
 *  - SP is in the thread's stack, and the thread's image has room (R4), since the handler
 *    allocates nothing.
 *
 * The kernel sets control words and a signal mask for the handler. Both belong to the
 * native thread, and so would hold for other threads. So give_way() restores the values
 * of the beginning of the region before other threads run. When the thread runs again,
 * the signal is blocked until the handler returns, so there is one signal frame at most.
 *
 * Only the running thread can be in a region, so each dispatcher has one place for the
 * state of a region. give_way() keeps the state in its frame while other threads run.
 */
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "../../ustack.h"
#include "../core/core.h"
#include "slice.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum {
	SIGNAL_MIN = 4096,      /* bytes of a signal's frame, if the kernel is silent */
	HANDLER    = 2048,      /* bytes: frames from the handler to the switch */
	DEEPER     = 2048,      /* bytes: frames of functions in a region */
	STOPPED_ROOM = 8192,    /* bytes: as HANDLER, where no region has reserved room */
	MASK_BYTES = 8,         /* bytes of a sigset_t that the kernel knows */
};

/* BY_SIGNAL is 0 in builds in which no region can be interrupted. */
#if defined(USCHED_TSAN) || USCHED_HAS(memory_sanitizer) \
	|| USCHED_HAS(address_sanitizer)        /* clang's: linked into the program */
enum { BY_SIGNAL = 0 };
#else
enum { BY_SIGNAL = 1 };
#endif

static bool is_blind(const struct usched *s)
{
	const struct slice *l = slice_of(s);

	return l && s == &l->sl_blind;
}

/* In check builds, aborts if the caller is in a region, where `call' is forbidden. */
static void called(const char *call)
{
	const struct usched *s = usched__here();
	const struct ustack *u;

	if (!is_blind(s))
		return;
	u = slice_of(s)->sl_head.pr_sched->s_current;
	fprintf(stderr, "usched: %s was called in a preemptible region, by thread %p, "
		"function %p\n", call, (const void *)u,
		(void *)(uintptr_t)ustack_func(u));
	abort();
}

/* The s_pick of the stand-in: reports ustack_wait(), which is inlined into programs that
   were compiled without checks. */
static struct ustack *called_wait(struct usched *s, struct ustack *self)
{
	(void)s;
	called("ustack_wait");
	return self;
}

static bool may_give_way(struct slice *l, const ucontext_t *context)
{
	uintptr_t at = usched__interrupted(context);

	return at >= l->sl_text && at < l->sl_text_end
		&& memcmp(&context->uc_sigmask, &l->sl_mask, MASK_BYTES) == 0
		&& usched__fits(l->sl_head.pr_sched,
				(char *)__builtin_frame_address(0) - HANDLER);
}

/* Returns whether the thread may give way outside of regions. If so, notes the control
   words of other threads. A thread with tokens below 0 is about to wait. */
static bool may_stop(struct slice *l, const ucontext_t *context)
{
	bool (*may)(uintptr_t at) = OBSERVER(ob_may_stop);
	const struct usched *s = usched__current;

	if (!may || !l || !l->sl_monitored || !s->s_current
	    || GET(s->s_current->u_tokens) < 0
	    || memcmp(&context->uc_sigmask, &l->sl_mask, MASK_BYTES) != 0
	    || !usched__fits(s, (char *)__builtin_frame_address(0) - STOPPED_ROOM)
	    || !may(usched__interrupted(context)))
		return false;
	l->sl_words = s->s_first;
	return true;
}

/* Keeps compilers from moving the program's accesses to memory across this line. */
#define BARRIER() __asm__ volatile("" : : : "memory")

static void enter_region(struct slice *l)
{
	SET(l->sl_region, 1);
	BARRIER();
	usched__current = &l->sl_blind;
	BARRIER();
}

/* Ends the region. The stand-in has this as its s_leave, for threads that end there. */
static void leave_region(struct usched *s)
{
	struct slice *l = slice_of(s);

	BARRIER();
	usched__current = l->sl_head.pr_sched;
	BARRIER();
	SET(l->sl_region, 0);
}

/* Yields in the signal handler, and `in_region' or not. Returns when the thread runs
   again. */
static void give_way(struct slice *l, bool in_region)
{
	struct usched *s = l->sl_head.pr_sched;
	struct usched_stack *k = s->s_current->u_stack;
	sigset_t mask = l->sl_mask, all;
	uint64_t words = l->sl_words;
	uint8_t stays = k->k_stays;

	if (in_region)
		leave_region(s);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!(s->s_owns & USCHED_OWNS))
		usched__set_control(words);
	SET(s->s_over, 0);
	slice__count_given(s);
	k->k_stays = stays | USCHED_INTERRUPTED;
	s->s_calls.s_yield(s);                  /* on failure the thread goes on */
	k->k_stays = stays;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	if (!in_region)
		return;
	l->sl_mask = mask;
	l->sl_words = words;
	enter_region(l);
}

BY_THREADS int upreempt(void *context)
{
	struct usched *s = usched__current;
	struct slice *l = slice_of(s);
	bool in_region = is_blind(s);
	int error = errno, gives;

	if (!(in_region ? may_give_way : may_stop)(l, (const ucontext_t *)context))
		return 0;
	s = l->sl_head.pr_sched;
	gives = s->s_calls.s_preempt(s, s->s_current, context) != 0;
	if (gives)
		give_way(l, in_region);
	errno = error;
	return gives;
}

/*
 * Finds the code of the main program. Does not use dl_iterate_phdr(), since its lock may
 * stay closed in the child of a fork. The range may include parts that are not code; no
 * instruction is interrupted there. Returns false for a program without an interpreter.
 * Such a program is static: it contains libc, which cannot be told from the program.
 */
static bool find_text(struct slice *l)
{
	const ElfW(Phdr) *parts = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	uintptr_t at = 0, first = 0, end = 0;
	bool dynamic = false;

	for (unsigned i = 0; i < getauxval(AT_PHNUM); i++) {
		const ElfW(Phdr) *part = &parts[i];
		uintptr_t from = at + part->p_vaddr;

		if (part->p_type == PT_PHDR)            /* comes before each PT_LOAD */
			at = (uintptr_t)parts - part->p_vaddr;
		dynamic |= part->p_type == PT_INTERP;
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		if (end == 0)
			first = from;
		end = from + part->p_memsz;             /* addresses increase */
	}
	l->sl_text = first;
	l->sl_text_end = dynamic ? end : 0;
	return dynamic;
}

/* Makes the stand-in, before the first region. Returns 0, -ENOMEM, or -ENOTSUP. */
static int begin_stand_in(struct usched *s)
{
	struct slice *l = slice_of(s);
	int rc = l ? 0 : slice__begin(s, &l);

	if (rc)
		return rc;
	l->sl_blind.s_leave = leave_region;
	if (IS_CHECKED) {
		l->sl_blind.s_current = &l->sl_none;
		l->sl_blind.s_inside = &l->sl_none;
		l->sl_blind.s_calls.s_pick = called_wait;
		SET(usched__observer.ob_called, &called);
	}
	return find_text(l) ? 0 : -ENOTSUP;
}

/* Does the part of ustack_preemptible() that can fail. Returns the error or 0. */
static int prepare_region(struct usched *s)
{
	size_t frame = getauxval(AT_MINSIGSTKSZ);
	const struct slice *l = slice_of(s);
	int rc = 0;

	if (!BY_SIGNAL || !s->s_calls.s_preempt || !s->s_calls.s_yield
	    || usched__probe() <= 0 || slice_on_valgrind()
	    || (s->s_calls.s_preempt == slice__is_over && !l->sl_monitored))
		return -ENOTSUP;
	if (!l || l->sl_text_end == 0)
		rc = begin_stand_in(s);
	return rc ? rc : ustack_reserve((frame ? frame : SIGNAL_MIN) + HANDLER + DEEPER);
}

BY_THREADS int ustack_preemptible(int on)
{
	struct usched *s = usched__current;
	int rc;

	if (is_blind(s)) {
		if (on > 0)
			return 1;
		leave_region(s);
		if (GET(slice_of(s)->sl_head.pr_sched->s_over))
			usched__give_way();
		return 1;
	}
	if (!s->s_current)
		return -EPERM;
	if (on <= 0)
		return 0;
	rc = prepare_region(s);
	if (rc)
		return rc;
	pthread_sigmask(SIG_SETMASK, NULL, &slice_of(s)->sl_mask);
	slice_of(s)->sl_words = usched__control();
	enter_region(slice_of(s));
	return 0;
}
