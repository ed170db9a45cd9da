/* SPDX-License-Identifier: MIT */
/*
 * uposix_fork.c: what becomes of threads after a fork. The child has one native thread,
 * which goes on as main() or as the thread that called fork(). The record of that thread
 * stays, so that pthread_self() and the values of keys stay the same. From then on the
 * system handles the signals of that thread. When the child starts a thread, it makes a
 * new scheduler.
 *
 * Locks that the caller holds stay locked by the caller. In the child the caller has
 * another name as an owner: see uposix__has_forked(). The queues of locks are emptied of
 * the parent's waiters, so that no lock is handed to a thread that the child does not
 * have.
 *
 * parts[] lists all state that exists once in a process and has a lock or descriptors.
 * One part is that of the library; each file of posix/ registers its own part. State that
 * the child must find consistent is locked before the fork. All other state is made anew
 * in the child, since another native thread may have been changing it. The child closes
 * objects that the parent uses, too, such as an epoll instance, and does nothing else
 * with them. posix.sh checks that no lock is left out.
 */
#include "uposix_set.h"

#include "../debug/uinspect.h"
#include "../uoffload.h"
#include "../upreempt.h"
#include "../uproc.h"

/* Functions of modules that a program may be linked without. */
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
	void (*p_hold)(int on);         /* both functions may be NULL */
	void (*p_forked)(void);
} parts[UPOSIX_PARTS] = {
	[UPOSIX_LIBRARY] = { hold_library, library_forked },
	[UPOSIX_BLOCKS] = { uproc__hold_blocks, uproc__blocks_forked },
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
 * Does what fork() does, because the child of a vfork() would change the parent's memory,
 * such as the table of descriptors.
 */
pid_t uposix_vfork(void)
{
	return fork();
}

__attribute__((constructor(103))) static void begin(void)
{
	pthread_atfork(prepare, release, child);
}
