/* SPDX-License-Identifier: MIT */
/* uposix_sigwait.c: sigwait() and its like, and waits until a signal handler has run. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

static void end_sigwait(struct uposix_thread *const *me)
{
	uposix__await(*me, 0);
}

static void give_info(const struct signalfd_siginfo *from, siginfo_t *info)
{
	memset(info, 0, sizeof *info);
	info->si_signo = (int)from->ssi_signo;
	info->si_errno = from->ssi_errno;
	info->si_code = from->ssi_code;
	info->si_pid = (pid_t)from->ssi_pid;
	info->si_uid = from->ssi_uid;
	if (from->ssi_signo == SIGCHLD)
		info->si_status = from->ssi_status;
	else
		info->si_value.sival_ptr = (void *)(uintptr_t)from->ssi_ptr;
}

/*
 * Takes a signal of `set' that was sent to the thread or to the process. The caller
 * blocks these signals, as POSIX requires.
 */
static int take_signal(const sigset_t *set, siginfo_t *info, int64_t deadline)
{
	CLEANUP(uposix__close_it)
	int fd = uevents__own(signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK));
	CLEANUP(end_sigwait) struct uposix_thread *me = uposix__me();
	struct signalfd_siginfo from = { 0 };
	uint64_t mask = uposix__mask_of(set);
	siginfo_t own;
	int rc, sig;

	uposix__await(me, mask);
	if (fd < 0)
		return -1;
	do {
		sig = uposix__take_sent(me, mask, &own);
		rc = sig ? 0 : (int)unet_read(fd, &from, sizeof from, deadline);
	} while (sig == 0 && uposix__again_once(&rc));
	if (rc < 0)
		return (int)uposix__answer(rc);
	if (sig == 0)
		give_info(&from, &own);
	if (own.si_code == SI_TKILL)
		own.si_code = SI_USER;          /* as in libc */
	if (info)
		*info = own;
	return own.si_signo;
}

int uposix_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	if (!uposix__in_thread())
		return sigwaitinfo(set, info);
	return take_signal(set, info, USCHED_NEVER);
}

int uposix_sigtimedwait(const sigset_t *set, siginfo_t *info,
			const struct timespec *limit)
{
	if (!uposix__in_thread()
	    || (limit && (limit->tv_sec < 0 || !uposix__is_time(limit))))
		return sigtimedwait(set, info, limit);
	return take_signal(set, info, limit && limit->tv_sec < INT32_MAX
			   ? usync_after(limit->tv_sec * USYNC_SECOND + limit->tv_nsec)
			   : USCHED_NEVER);
}

int uposix_sigwait(const sigset_t *set, int *sig)
{
	int n;

	if (!uposix__in_thread())
		return sigwait(set, sig);
	do
		n = take_signal(set, NULL, USCHED_NEVER);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno;
	*sig = n;
	return 0;
}

/* Waits until a signal handler has run, with or without SA_RESTART. */
static void await_handler(struct uposix_thread *me)
{
	uint32_t before = me->p_handled;
	int rc = uposix__point();

	while (me->p_handled == before) {
		rc = usync_sleep_until(USCHED_NEVER);
		if (!uposix__again(&rc) && rc != -EINTR)
			ustack_yield();         /* there is no memory for a wait */
	}
	errno = EINTR;
}

int uposix_pause(void)
{
	struct uposix_thread *me = uposix__thread_now();

	if (!me)
		return pause();
	await_handler(me);
	return -1;
}

int uposix_sigsuspend(const sigset_t *set)
{
	struct uposix_thread *me = uposix__thread_now();
	sigset_t old;

	if (!me)
		return sigsuspend(set);
	uposix__set_of(me->p_mask, &old);
	uposix__point();
	uposix__set_mask(me, uposix__mask_of(set));
	__atomic_fetch_or(&me->p_asked, UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
	await_handler(me);
	uposix_pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = EINTR;
	return -1;
}
