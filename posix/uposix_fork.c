/* SPDX-License-Identifier: MIT */
/*
 * uposix_fork.c: in the child of a fork there is one native thread. What it runs, main()
 * or a thread, goes on as a native thread; the record of a thread stays, as the child is
 * to find its pthread_self() and its values. Its signals are the system's from then on.
 * The other threads are not there, and a new scheduler is made when the child starts one.
 *
 * Locks that the caller holds stay its own: a thread had another name, see
 * uposix__adopt(). Waits of the others are ended, so nothing is handed to them.
 *
 * parts[] has all that a process has once, with a lock or with descriptors: the library's
 * and that of posix/. What the child needs whole is locked before the fork. All else the
 * child makes anew, whatever another native thread was about to do to it. To what it has
 * in common with its parent, such as an instance of epoll, it does nothing but close(2).
 * tests/posix.sh looks that each lock is here.
 */
#include "uposix_set.h"

#include "../debug/uinspect.h"
#include "../uoffload.h"
#include "../unet.h"
#include "../upreempt.h"
#include "../uproc.h"

#include <stdlib.h>

struct uposix_forked uposix__forked;
void uco__forked(void) __attribute__((weak, visibility("hidden")));

/* Files that a program may not have. */
extern __typeof__(uposix__hold_streams) uposix__hold_streams __attribute__((weak));
extern __typeof__(uposix__streams_forked) uposix__streams_forked __attribute__((weak));
extern __typeof__(uposix__hold_table) uposix__hold_table __attribute__((weak));
extern __typeof__(uposix__io_forked) uposix__io_forked __attribute__((weak));
extern __typeof__(uinspect__forked) uinspect__forked __attribute__((weak));
extern __typeof__(upreempt__hold) upreempt__hold __attribute__((weak));

/* A wait of a thread that is not there is not granted any more. */
static void end_wait(const struct uposix_thread *p)
{
	struct ustack *u = p->p_ended ? NULL : p->p_thread;

	if (u && u->u_attached)
		uwait_withdraw((struct uwaiter *)(void *)u->u_attachment);
}

/* The thread that called fork() is the native one. */
static void forget_others(void)
{
	struct uposix_thread *me = uposix__me();
	struct ustack *u = ustack_self();

	__atomic_store_n(&uposix__forked.f_alone, uposix__is_used(), __ATOMIC_RELAXED);
	uposix__forget_threads(me, end_wait);
	if (!u)
		return;
	uposix__forked.f_me = me;
	uposix__forked.f_name = (uintptr_t)u;
	usched__forked();
	uposix__forked.f_native = pthread_self();
	if (!me)
		return;
	me->p_lock = (struct uwait_lock){ 0 };  /* another may have had it */
	uposix__forget_held(me);
	__atomic_store_n(&me->p_pending, 0, __ATOMIC_RELAXED);
	uposix__set_native_mask(me->p_mask);
}

/* Locks are taken in this order, as elsewhere; and the child forgets in this order. */
static const struct part {
	void (*p_hold)(int on);
	void (*p_forked)(void);
} parts[] = {
	{ uposix__hold_objects, NULL },
	{ uposix__hold_streams, uposix__streams_forked },
	{ uposix__hold_table, uposix__io_forked },
	{ uposix__hold_threads, forget_others },
	{ upreempt__hold, NULL },
	{ uevents__hold, uevents__forked },
	{ NULL, uwait__forked },
	{ NULL, uproc__forked },
	{ NULL, uoffload__forked },
	{ NULL, uinspect__forked },
	{ NULL, uco__forked },
	{ NULL, uposix__futex_forked },
	{ NULL, uposix__sems_forked },
	{ NULL, uposix__once_forked },
	{ NULL, uposix__stats_forked },
	{ NULL, uposix__catch_forked },
};

enum { PARTS = sizeof parts / sizeof parts[0] };

static void prepare(void)
{
	for (int i = 0; i < PARTS; i++)
		if (parts[i].p_hold)
			parts[i].p_hold(true);
}

static void release(void)
{
	for (int i = PARTS; i-- > 0; )
		if (parts[i].p_hold)
			parts[i].p_hold(false);
}

static void child(void)
{
	release();
	for (int i = 0; i < PARTS; i++)
		if (parts[i].p_forked)
			parts[i].p_forked();
}

/* vfork() has the child use the parent's memory: tables of descriptors, say. */
pid_t uposix_vfork(void)
{
	return fork();
}

__attribute__((constructor(103))) static void begin(void)
{
	pthread_atfork(prepare, release, child);
}
