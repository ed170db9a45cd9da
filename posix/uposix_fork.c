/* SPDX-License-Identifier: MIT */
/*
 * uposix_fork.c: the child of a fork has one native thread, which goes on with main(), or
 * with the thread that called fork(). The record of that thread stays, since the child is
 * to find the same pthread_self() and values of keys. From then on the system handles the
 * signals. The child has no other threads, and makes a new scheduler when it starts a
 * thread.
 *
 * Locks that the caller holds stay with the caller, who had another name as a thread: see
 * uposix__has_forked(). No waiter of the parent is left in a queue, so no lock is handed
 * to one.
 *
 * parts[] has all that a process has once, with a lock or with descriptors. Each file of
 * posix/ registers a part; the first is the library's. What the child needs whole is
 * locked before the fork. All else is made anew by the child, in whatever state another
 * native thread left it. The child does nothing but close(2) to what the parent has, too,
 * such as an instance of epoll. posix.sh checks that no lock is left out.
 */
#include "uposix_set.h"

#include "../debug/uinspect.h"
#include "../uoffload.h"
#include "../upreempt.h"
#include "../uproc.h"

/* Parts of the library that a program may be linked without. */
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
	void (*p_hold)(int on);         /* each function may be NULL */
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

/*
 * The child of vfork() would write to the parent's memory, such as the table of
 * descriptors.
 */
pid_t uposix_vfork(void)
{
	return fork();
}

__attribute__((constructor(103))) static void begin(void)
{
	pthread_atfork(prepare, release, child);
}
