/* SPDX-License-Identifier: MIT */
/*
 * uposix_fork.c: in the child of a fork there is one native thread. What it runs, main()
 * or a thread, goes on as a native thread; the record of a thread stays, as the child is
 * to find its pthread_self() and its values. Its signals are the system's from then on.
 * The other threads are not there, and a new scheduler is made when the child starts one.
 *
 * Locks that the caller holds stay its own: a thread had another name, see
 * uposix__has_forked(). Waits of the others are ended, so nothing is handed to them.
 *
 * parts[] has all that a process has once, with a lock or with descriptors: the library's
 * part, and that of each file of posix/, which registers its own. What the child needs
 * whole is locked before the fork. All else the child makes anew, whatever another native
 * thread was about to do to it. To what it has in common with its parent, such as an
 * instance of epoll, it does nothing but close(2). posix.sh looks that no lock is
 * left out.
 */
#include "uposix_set.h"

#include "../debug/uinspect.h"
#include "../uoffload.h"
#include "../upreempt.h"
#include "../uproc.h"

/* The library's, which a program may be linked without. */
extern __typeof__(uinspect__forked) uinspect__forked __attribute__((weak));
extern __typeof__(upreempt__hold) upreempt__hold __attribute__((weak));

static void hold_library(int on)
{
	if (on && upreempt__hold)
		upreempt__hold(on);
	uevents__hold(on);
	if (!on && upreempt__hold)
		upreempt__hold(on);
}

static void library_forked(void)
{
	uevents__forked();
	uwait__forked();
	uproc__forked();
	uoffload__forked();
	if (uinspect__forked)
		uinspect__forked();
}

static struct part {
	void (*p_hold)(int on);         /* or NULL, as the other one */
	void (*p_forked)(void);
} parts[UPOSIX_PARTS] = {
	[UPOSIX_LIBRARY] = { hold_library, library_forked },
};

void uposix__at_fork(enum uposix_part part, void (*hold)(int on), void (*forked)(void))
{
	parts[part] = (struct part){ hold, forked };
}

static void prepare(void)
{
	for (int i = 0; i < UPOSIX_PARTS; i++)
		if (parts[i].p_hold)
			parts[i].p_hold(true);
}

static void release(void)
{
	for (int i = UPOSIX_PARTS; i-- > 0; )
		if (parts[i].p_hold)
			parts[i].p_hold(false);
}

static void child(void)
{
	release();
	for (int i = 0; i < UPOSIX_PARTS; i++)
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
