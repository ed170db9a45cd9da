/* SPDX-License-Identifier: MIT */
/*
 * uposix_fork.c: in the child of a fork there is one native thread. What it runs, main()
 * or a thread, goes on as a native thread; the record of a thread stays, as the child is
 * to find its pthread_self() and its values. Its signals are the system's from then on.
 * The other threads are not there, and a new scheduler is made when the child starts one.
 *
 * Locks that the caller holds stay its own: a thread had another name, see
 * uposix__adopt(). Waits of the others are ended, so nothing is handed to them.
 */
#include "uposix_set.h"

#include "../uoffload.h"
#include "../uproc.h"

#include <stdlib.h>

struct uposix_forked uposix__forked;

/* Files of descriptors may have something to forget, too. */
extern __typeof__(uposix__io_forked) uposix__io_forked __attribute__((weak));

static void prepare(void)
{
	uwait_lock(&uposix__lock);
}

static void parent(void)
{
	uwait_unlock(&uposix__lock);
}

/* A wait of a thread that is not there is not granted any more. */
static void end_wait(const struct uposix_thread *p)
{
	struct ustack *u = p->p_ended ? NULL : p->p_thread;

	if (u && u->u_attached)
		uwait_withdraw((struct uwaiter *)(void *)u->u_attachment);
}

static void child(void)
{
	struct uposix_thread *me = uposix__me();
	struct ustack *u = ustack_self();

	uwait_unlock(&uposix__lock);
	__atomic_store_n(&uposix__forked.f_alone, uposix__is_used(), __ATOMIC_RELAXED);
	uposix__forget_threads(me, end_wait);
	if (u) {
		uposix__forked.f_me = me;
		uposix__forked.f_name = (uintptr_t)u;
		usched__forked();
		uposix__forked.f_native = pthread_self();
	}
	uwait__forked();
	uproc__forked();
	uoffload__forked();
	uposix__futex_forked();
	uposix__locks_forked();
	uposix__keys_forked();
	if (uposix__io_forked)
		uposix__io_forked();
	if (u && me) {
		me->p_lock = (struct uwait_lock){ 0 };  /* another may have had it */
		uposix__forget_held(me);
		__atomic_store_n(&me->p_pending, 0, __ATOMIC_RELAXED);
		uposix__set_native_mask(me->p_mask);
	}
	uposix__catch_forked();
}

/* vfork() has the child use the parent's memory: tables of descriptors, say. */
pid_t uposix_vfork(void)
{
	return fork();
}

__attribute__((constructor(103))) static void begin(void)
{
	pthread_atfork(prepare, parent, child);
}
