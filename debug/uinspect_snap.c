/* SPDX-License-Identifier: MIT */
/*
 * uinspect_snap.c: snaps of native threads: see snap.h.
 *
 * A native thread that computes is asked by a signal. A signal could end a native sleep
 * with EINTR; so for a native thread that sleeps, the kernel is asked for SP and PC, and
 * the frames are read in place. The other registers are not known then, so the calls end
 * at the first function whose caller only such a register would tell.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* process_vm_readv() */
#endif
#include "snap.h"

#include <string.h>
#include <sched.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../arch/arch.h"

enum {
	MILLI    = 1000000,             /* ns */
	HOME_MAX = 64 << 20,            /* bytes of frames on a native stack */
};

enum { SNAP_FREE, SNAP_WANTED, SNAP_TAKEN, SNAP_READY };

void uinspect__ask(struct uinspect_snap *s, struct uproc *p)
{
	s->s_proc = p;
	__atomic_store_n(&s->s_state, SNAP_WANTED, __ATOMIC_RELEASE);
}

/*
 * Returns the bytes from `sp' to the end of the frames: to the bottom of the stack that
 * the thread runs on, or to usched_run() on the native stack. 0: no known stack has `sp'.
 */
static size_t frames_from(const struct uproc *p, uintptr_t sp, bool *on_own)
{
	const struct ustack *u = usched__runs(&p->p_sched);
	uintptr_t home = (uintptr_t)p->p_sched.s_home, deep;

	if (u) {
		deep = (uintptr_t)u->u_stack->k_bottom - sp;
		*on_own = deep <= u->u_stack->k_size;
		if (*on_own)
			return deep;
	}
	*on_own = false;
	return home - sp < HOME_MAX ? home - sp : 0;
}

/* Copies frames, also the parts that a sanitizer has marked as not to be read. */
#ifdef USCHED_ASAN
__attribute__((no_sanitize("address")))
#endif
static void copy_stack(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile char *)to)[i] = from[i];
}

/*
 * Copies bytes, of which some may not be mapped: in the middle of a switch SP may be on
 * the stack of another thread than s_current. Returns the number of bytes copied.
 */
static size_t read_stack(char *to, uintptr_t from, size_t n)
{
	struct iovec here = { to, n }, there = { (void *)from, n };
	ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

	return got > 0 ? (size_t)got : 0;
}

static void copy_frames(struct uinspect_snap *s, uintptr_t sp)
{
	bool on_own;

	s->s_low = sp;
	s->s_size = frames_from(s->s_proc, sp, &on_own);
	if (s->s_size > SNAP_COPY)
		s->s_size = SNAP_COPY;
	if (on_own)
		copy_stack(s->s_bytes, (const char *)sp, s->s_size);
	else
		s->s_size = read_stack(s->s_bytes, sp, s->s_size);
}

/* Fills in `s', in the handler, on the native thread of the processor. */
static void take_snap(struct uinspect_snap *s, const char *context)
{
	const struct ustack *u = s->s_proc->p_sched.s_current;

	for (unsigned i = 0; i < usched__registers; i++)
		memcpy(&s->s_registers[i], context + usched__context[i],
		       sizeof s->s_registers[i]);
	s->s_known = UINT64_MAX;
	s->s_thread = u;
	s->s_func = u ? (uintptr_t)ustack_func(u) : 0;
	s->s_size = 0;
	if (usched__registers > 0)
		copy_frames(s, s->s_registers[usched__sp]);
	__atomic_store_n(&s->s_state, SNAP_READY, __ATOMIC_RELEASE);
}

void uinspect__answer(struct uinspect_snap *s, const struct usched *sched,
		      const void *context)
{
	int wanted = SNAP_WANTED;

	if (__atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) == SNAP_WANTED
	    && (!sched || &s->s_proc->p_sched == sched)
	    && __atomic_compare_exchange_n(&s->s_state, &wanted, SNAP_TAKEN, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		take_snap(s, (const char *)context);
}

bool uinspect__await(struct uinspect_snap *s, unsigned ms)
{
	static const struct timespec pause = { 0, MILLI };
	int state = SNAP_WANTED;

	for (unsigned i = 0; i < ms; i++) {
		if (__atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) == SNAP_READY)
			break;
		nanosleep(&pause, NULL);
	}
	if (__atomic_compare_exchange_n(&s->s_state, &state, SNAP_FREE, 0,
					__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return false;
	while (__atomic_load_n(&s->s_state, __ATOMIC_ACQUIRE) != SNAP_READY)
		sched_yield();
	return true;
}

void uinspect__read(struct uinspect_snap *s, struct uproc *p, uintptr_t sp, uintptr_t pc)
{
	s->s_proc = p;
	s->s_size = 0;
	s->s_known = 0;
	if (usched__registers == 0)
		return;
	memset(s->s_registers, 0, sizeof s->s_registers);
	s->s_registers[usched__sp] = sp;
	s->s_registers[usched__registers - 1] = pc;
	s->s_known = (uint64_t)1 << usched__sp | (uint64_t)1 << (usched__registers - 1);
	copy_frames(s, sp);
}
