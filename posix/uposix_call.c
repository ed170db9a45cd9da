/* SPDX-License-Identifier: MIT */
/*
 * uposix_call.c: syscall(number) for numbers that take or return descriptors. The call
 * behaves like the function of libc of the same name; the rows SYSCALL, MAKES and REFUSED
 * of uposix_names.h list the numbers.
 *
 * The kernel keeps some settings for each native thread, so all threads of a processor
 * share them. One of these settings is the name, which this library keeps for each
 * thread. A change of another setting is reported, but only once for each function.
 *
 * Signal sets of the kernel are smaller than libc's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"
#include "../src/base/sim.h"

#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNEL_SIGSET = 8 };             /* bytes */

#ifdef USCHED_SIM
ssize_t uposix_getrandom(void *to, size_t size, unsigned flags);
int uposix_clock_gettime(clockid_t clock, struct timespec *t);
int uposix_openat2(int dir, const char *path, const void *how, size_t size);
int uposix_statx(int dir, const char *path, int flags, unsigned mask, void *to);
pid_t uposix_getpid(void);
pid_t uposix_gettid(void);
#endif

static const sigset_t *mask_of(long mask, sigset_t *room)
{
	if (!mask)
		return NULL;
	sigemptyset(room);
	return memcpy(room, (const void *)mask, KERNEL_SIGSET);
}

/*
 * Returns the signal mask of a call of pselect6(). The last argument of the call points
 * to the address and the size of the mask.
 */
static const sigset_t *mask_at(long place, sigset_t *room)
{
	return place ? mask_of(*(const long *)place, room) : NULL;
}

#define TELL_SHARED(name) if (!SIMULATED && ustack_self())			\
	UPOSIX_TELL_ONCE("%s: the kernel keeps what that changes with a processor,"	\
			 " for all of its threads. Run the program natively", name)

/* Defines the functions of the rows KEPT, which have at most five arguments. */
#define PLAIN(name)
#define LATER(name)
#define KEPT(name)								\
long uposix_##name(long a, long b, long c, long d, long e);			\
long libc_##name(long a, long b, long c, long d, long e) __asm__(#name);	\
long uposix_##name(long a, long b, long c, long d, long e)			\
{										\
	TELL_SHARED(#name "()");						\
	return libc_##name(a, b, c, d, e);					\
}
#include "uposix_names.h"

/* Arguments of a row: I(0) is an int, P(0) a pointer, and a[0] a long. */
#define I(i) ((int)a[i])
#define U(i) ((unsigned)a[i])
#define N(i) ((size_t)a[i])
#define P(i) ((void *)a[i])

/* PR_SET_NAME shortens names that are too long, as Linux does. */
int uposix_prctl(int what, ...)
{
	struct uposix_thread *me = uposix__thread_now();
	char name[sizeof me->p_name];
	long a[4];
	va_list list;

	va_start(list, what);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (me && what == PR_GET_NAME)
		return uposix_pthread_getname_np((pthread_t)me, P(0), sizeof name);
	if (!me || what != PR_SET_NAME)
		return prctl(what, a[0], a[1], a[2], a[3]);
	snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, (char *)P(0));
	return (int)uposix__result(-uposix_pthread_setname_np((pthread_t)me, name));
}

#define SYSCALL(name, ...) case SYS_##name: return __VA_ARGS__;
#define REFUSED(name, ...) case SYS_##name: errno = ENOSYS; return -1;
#define KEPT(name) case SYS_##name: TELL_SHARED("SYS_" #name); break;
#define NUMBER(name) KEPT(name)
#define MAKES(name) case SYS_##name:					\
	return uposix__made((int)syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]), \
			    UNKNOWN, false);

long uposix__call(long number, const long *a)
{
	sigset_t room;

	switch (number) {
#include "uposix_names.h"
	}
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
