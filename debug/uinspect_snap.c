/* SPDX-License-Identifier: MIT */
/*
 * uinspect_snap.c: snaps of native threads: see snap.h.
 *
 * The handler calls the unwinder on the interrupted thread, which may hold any lock. In
 * glibc 2.35 and later the unwinder takes no lock. In older versions it takes a lock of
 * the dynamic linker, but a native thread may take that lock twice. Without glibc, snaps
 * have no calls.
 */
#include <sched.h>
#include <time.h>
#include <unwind.h>

#include "snap.h"
#include "../arch/arch.h"

enum {
	MILLI    = 1000000,             /* ns */
	HOME_MAX = 64 << 20,            /* the most bytes of frames on a native stack */
};

enum { SNAP_FREE, SNAP_WANTED, SNAP_TAKEN, SNAP_READY };

void uinspect__ask(struct uinspect_snap *s, struct uproc *p)
{
	s->sn_proc = p;
	__atomic_store_n(&s->sn_state, SNAP_WANTED, __ATOMIC_RELEASE);
}

#ifdef __GLIBC__
/*
 * Returns whether `sp' is on the stack of the thread that runs on `p', or on the native
 * stack. In the middle of a switch SP may be on the stack of another thread.
 */
static bool is_on_stack(const struct uproc *p, uintptr_t sp)
{
	const struct ustack *u = usched__runs(&p->p_sched);

	return (u && (uintptr_t)u->u_stack->k_bottom - sp <= u->u_stack->k_size)
		|| (uintptr_t)p->p_sched.s_home - sp < HOME_MAX;
}

/* Notes a call, unless the frame is one of the handler. */
static _Unwind_Reason_Code snap_call(struct _Unwind_Context *context, void *snap)
{
	struct uinspect_snap *s = (struct uinspect_snap *)snap;
	uintptr_t at = (uintptr_t)_Unwind_GetIP(context);

	if (s->sn_count == 0) {
		if (at != s->sn_pc)
			return _URC_NO_REASON;
		if (!is_on_stack(s->sn_proc, (uintptr_t)TOP_OF(context)))
			return _URC_END_OF_STACK;
		at++;                   /* makes it like a return address */
	}
	if (!at || s->sn_count == SNAP_FRAMES)
		return _URC_END_OF_STACK;
	s->sn_calls[s->sn_count++] = at;
	return _URC_NO_REASON;
}

static void snap_find_calls(struct uinspect_snap *s)
{
	_Unwind_Backtrace(snap_call, s);
}
#else
static void snap_find_calls(struct uinspect_snap *s)
{
	(void)s;
}
#endif

void uinspect__answer(struct uinspect_snap *s, const struct usched *sched,
		      const void *context)
{
	int wanted = SNAP_WANTED;

	if (__atomic_load_n(&s->sn_state, __ATOMIC_ACQUIRE) != SNAP_WANTED
	    || (sched && &s->sn_proc->p_sched != sched)
	    || !__atomic_compare_exchange_n(&s->sn_state, &wanted, SNAP_TAKEN, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	s->sn_thread = s->sn_proc->p_sched.s_current;
	s->sn_func = s->sn_thread ? (uintptr_t)ustack_func(s->sn_thread) : 0;
	s->sn_pc = usched__interrupted(context);
	s->sn_count = 0;
	if (s->sn_pc)
		snap_find_calls(s);
	__atomic_store_n(&s->sn_state, SNAP_READY, __ATOMIC_RELEASE);
}

bool uinspect__await(struct uinspect_snap *s, unsigned ms)
{
	static const struct timespec pause = { 0, MILLI };
	int state = SNAP_WANTED;

	for (unsigned i = 0; i < ms; i++) {
		if (__atomic_load_n(&s->sn_state, __ATOMIC_ACQUIRE) == SNAP_READY)
			break;
		nanosleep(&pause, NULL);
	}
	if (__atomic_compare_exchange_n(&s->sn_state, &state, SNAP_FREE, 0,
					__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return false;
	while (__atomic_load_n(&s->sn_state, __ATOMIC_ACQUIRE) != SNAP_READY)
		sched_yield();
	return true;
}
