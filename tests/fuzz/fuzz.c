/* SPDX-License-Identifier: MIT */
/*
 * fuzz.c: the input, and time. Library and targets are compiled with these in the place
 * of the functions of libc: clock_gettime, time, syscall and _exit. A sleep until a time
 * moves the clock to that time, but only after the calls on files that the pool makes:
 * they take no time, on a disk or on a tmpfs. A sleep for ever that nothing ends is a
 * hang. It is reported at once.
 */
#include "fuzz.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../uoffload.h"

enum {
	SECOND = 1000000000,            /* ns */
	OTHERS = 20000,                 /* ms: for a native thread to get on */
};

const uint8_t *fuzz_input;
size_t         fuzz_left;
int64_t        fuzz_now = SECOND;
bool         (*fuzz_endless)(void);

int    fuzz_clock_gettime(clockid_t clock, struct timespec *t);
time_t fuzz_time(time_t *t);
long   fuzz_syscall(long number, ...);
_Noreturn void fuzz_exit(int status);

_Noreturn void fuzz_fail(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
	abort();
}

/* For what ends the program when it finds a mistake: the fuzzer wants a signal. */
_Noreturn void fuzz_exit(int status)
{
	fprintf(stderr, "exit status %d\n", status);
	abort();
}

unsigned fuzz_take(unsigned n)
{
	if (fuzz_left == 0)
		return 0;
	fuzz_left--;
	return *fuzz_input++ % n;
}

int fuzz_clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	fuzz_now++;
	*t = (struct timespec){ fuzz_now / SECOND, fuzz_now % SECOND };
	return 0;
}

time_t fuzz_time(time_t *t)
{
	(void)t;
	return fuzz_now / SECOND;
}

/* left[] as in uevents.c: seconds and ns from now; NULL: for ever. */
static long sleep_in(int epoll, struct epoll_event *events, int max, const int64_t *left)
{
	int n = epoll_wait(epoll, events, max, 0);

	if (n == 0 && left) {
		uoffload_drain(USCHED_NEVER);
		n = epoll_wait(epoll, events, max, 0);
	}
	if (n == 0 && left)
		fuzz_now += left[0] * SECOND + left[1];
	if (n > 0 || left || (fuzz_endless && fuzz_endless()))
		return n;
	n = epoll_wait(epoll, events, max, OTHERS);
	CHECK(n > 0 && "there is a wake");
	return n;
}

long fuzz_syscall(long number, ...)
{
	va_list args;
	long a[4];

	va_start(args, number);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, long);
	va_end(args);
#ifdef SYS_epoll_pwait2
	if (number == SYS_epoll_pwait2)
		return sleep_in((int)a[0], (struct epoll_event *)(intptr_t)a[1],
				(int)a[2], (const int64_t *)(intptr_t)a[3]);
#endif
	return syscall(number, a[0], a[1], a[2], a[3]);
}
