/* SPDX-License-Identifier: MIT */
/*
 * uposix_call.c: syscall() of numbers that take or make descriptors, as the rows SYSCALL,
 * MAKES and REFUSED of uposix_names.h have it: as the call of libc of that name.
 *
 * The kernel's signal sets are smaller than libc's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

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

/* The last argument of pselect6() points to a mask and its size. */
static const sigset_t *mask_at(long place, sigset_t *room)
{
	return place ? mask_of(*(const long *)place, room) : NULL;
}

/* A row has the arguments as I(0), of int, P(0), a pointer, and a[0]. */
#define I(i) ((int)a[i])
#define U(i) ((unsigned)a[i])
#define N(i) ((size_t)a[i])
#define P(i) ((void *)a[i])
#define SYSCALL(name, ...) case SYS_##name: return __VA_ARGS__;
#define REFUSED(name, ...) case SYS_##name: errno = ENOSYS; return -1;
#define MAKES(name) case SYS_##name:					\
	return uposix__made((int)syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]), \
			    UNKNOWN, false);

long uposix__call(long number, const long *a)
{
	sigset_t room;

	switch (number) {
#include "uposix_names.h"
	default:
		return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
}
