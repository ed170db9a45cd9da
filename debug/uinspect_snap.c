/* SPDX-License-Identifier: MIT */
/*
 * uinspect_snap.c: snaps of native threads: see snap.h; and the signal of
 * uinspect_install(), which asks for a dump, or, if a dump has sent the signal, for a
 * snap.
 *
 * The handler calls the unwinder on the interrupted thread, which may hold any lock. In
 * glibc 2.35 and later the unwinder takes no lock. In older versions it takes a lock of
 * the dynamic linker, but a native thread may take that lock twice. Without glibc, snaps
 * have no calls.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pthread_setname_np() */
#endif
#include "uinspect.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unwind.h>

#include "../arch/arch.h"
#include "../src/base/lock.h"
#include "../src/base/native.h"
#include "snap.h"

enum {
	MILLI    = 1000000,             /* ns */
	HOME_MAX = 64 << 20,            /* the most bytes of frames on a native stack */
};

enum { SNAP_FREE, SNAP_WANTED, SNAP_TAKEN, SNAP_READY };

/* The native thread of uinspect_install(), and what its handler needs. */
static struct {
	pthread_mutex_t i_lock;
	int             i_signal;       /* atomic: 0 before uinspect_install() */
	bool            i_made;         /* under i_lock: the native thread exists */
	sem_t           i_posted;
	pthread_t       i_native;       /* atomic: the native thread asked last */
	int             i_sent;         /* atomic: number of signals not yet handled */
	struct uinspect_snap i_snap;    /* under i_lock, so one dump at a time asks */
} inspector = { .i_lock = PTHREAD_MUTEX_INITIALIZER };

void uinspect__ask(struct uinspect_snap *s, struct uproc *p)
{
	s->sn_proc = p;
	__atomic_store_n(&s->sn_state, SNAP_WANTED, __ATOMIC_RELEASE);
}

#ifdef __GLIBC__
/* Returns whether `sp' is on the stack of the thread that runs on `p', or on the native
   stack. In the middle of a switch SP may be on the stack of another thread. */
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
#ifdef __GLIBC__
	if (s->sn_pc)
		_Unwind_Backtrace(snap_call, s);
#endif
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

bool uinspect__snap(struct uinspect_snap *snap, struct uproc *p)
{
	int sig = __atomic_load_n(&inspector.i_signal, __ATOMIC_ACQUIRE);
	bool known;

	if (!sig)
		return false;
	pthread_mutex_lock(&inspector.i_lock);
	SET(inspector.i_native, p->p_native);
	uinspect__ask(&inspector.i_snap, p);
	__atomic_add_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
	if (pthread_kill(p->p_native, sig))
		__atomic_sub_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
	known = uinspect__await(&inspector.i_snap, SNAP_ANSWER_IN);
	if (known)
		*snap = inspector.i_snap;
	pthread_mutex_unlock(&inspector.i_lock);
	return known;
}

static void on_inspect(int sig, siginfo_t *info, void *context)
{
	int error = errno;
	bool ours = pthread_equal(GET(inspector.i_native), pthread_self())
		&& GET(inspector.i_sent) > 0;

	(void)sig;
	(void)info;
	if (ours) {
		__atomic_sub_fetch(&inspector.i_sent, 1, __ATOMIC_RELAXED);
		uinspect__answer(&inspector.i_snap, NULL, context);
	} else {
		sem_post(&inspector.i_posted);
	}
	errno = error;
}

static void *dump_when_posted(void *unused)
{
	(void)unused;
	name_native("usched inspect");
	for (;;)
		if (sem_wait(&inspector.i_posted) == 0) {
			uinspect_dump(STDERR_FILENO, 0);
			uinspect_dump(-1, UINSPECT_RECORD);
			uinspect_dump(STDERR_FILENO, UINSPECT_LOST);
		}
	return NULL;
}

/* Makes the native thread that dumps. It handles no signals. Called under i_lock. */
static int make_native(void)
{
	pthread_t native;
	int rc;

	if (inspector.i_made)
		return 0;
	sem_init(&inspector.i_posted, 0, 0);
	rc = start_native(&native, dump_when_posted, NULL);
	if (rc)
		return rc;
	pthread_detach(native);
	inspector.i_made = true;
	return 0;
}

int uinspect_install(int sig)
{
	struct sigaction action;
	int rc;

	if (ONE_NATIVE)
		return -ENOTSUP;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = on_inspect;
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	sigemptyset(&action.sa_mask);
	pthread_mutex_lock(&inspector.i_lock);
	rc = make_native();
	if (rc == 0 && sigaction(sig, &action, NULL))
		rc = -errno;
	if (rc == 0)
		__atomic_store_n(&inspector.i_signal, sig, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&inspector.i_lock);
	return rc;
}

void uinspect__forked(void)
{
	inspector.i_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	inspector.i_made = false;
}
