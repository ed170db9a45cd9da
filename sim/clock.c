/* SPDX-License-Identifier: MIT */
/*
 * clock.c: clocks, random numbers and numbers of processes in a simulation: X() of the
 * program is uposix_X().
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* RTLD_NEXT, RUSAGE_THREAD */
#endif
#include <dlfcn.h>

#include "world.h"

enum {
	US     = 1000,                  /* ns */
	BEGUN  = 1000,                  /* s: the clock at the start of the program */
	PROCESS = 1000,                 /* getpid(); a host adds its number */
	THREAD = 2000,
	JUMPS  = 100,                   /* jumps in a second */
	LEAP   = 10000,                 /* or so many jumps at once */
	MOST   = 256,                   /* bytes at most of getentropy() */
};

static uint64_t state;

/* ---- The clock ---- */

/* Returns ns of a clock. The clock of the day may jump whenever a thread looks. */
static int64_t now(clockid_t clock)
{
	if (clock == CLOCK_REALTIME
	    && sim__strikes("the clock jumps", sim__faults.f_clock))
		sim__run.r_jump += SECOND / JUMPS
			* ((int64_t)sim__choose("the clock's jump", 2 * LEAP + 1) - LEAP);
	return sim__time(clock);
}

int uposix_clock_gettime(clockid_t clock, struct timespec *t)
{
	int64_t ns = now(clock);

	*t = (struct timespec){ ns / SECOND, ns % SECOND };
	return 0;
}

int uposix_timespec_get(struct timespec *t, int base)
{
	uposix_clock_gettime(CLOCK_REALTIME, t);
	return base;
}

int uposix_gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	int64_t ns = now(CLOCK_REALTIME);

	(void)zone;
	*t = (struct timeval){ ns / SECOND, ns % SECOND / US };
	return 0;
}

time_t uposix_time(time_t *t)
{
	time_t seconds = now(CLOCK_REALTIME) / SECOND;

	if (t)
		*t = seconds;
	return seconds;
}

clock_t uposix_clock(void)
{
	return (now(CLOCK_MONOTONIC) - BEGUN * SECOND) / US;
}

/* The program has one CPU, and all the time that has passed is time of its threads. */
int uposix_getrusage(int who, struct rusage *r)
{
	int64_t us = uposix_clock();

	if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && who != RUSAGE_THREAD) {
		errno = EINVAL;
		return -1;
	}
	*r = (struct rusage){ 0 };
	if (who != RUSAGE_CHILDREN)
		r->ru_utime = (struct timeval){ us / 1000000, us % 1000000 };
	return 0;
}

clock_t uposix_times(struct tms *t)
{
	int64_t tick = SECOND / sysconf(_SC_CLK_TCK);

	if (t)
		*t = (struct tms){ .tms_utime = uposix_clock() * US / tick };
	return now(CLOCK_MONOTONIC) / tick;
}

/* ---- Random numbers ---- */

void sim__seed(uint64_t seed)
{
	state = (seed + 1) * UINT64_C(0xd1342543de82ef95);
}

/*
 * These random numbers are not the strategy's, so a run with other choices has the same.
 * A generator of Knuth's gives a byte at a time, so all machines have the same.
 */
void sim__fill(void *to, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		((unsigned char *)to)[i] = (unsigned char)(state >> 56);
	}
}

ssize_t uposix_getrandom(void *to, size_t size, unsigned flags)
{
	(void)flags;
	sim__fill(to, size);
	return (ssize_t)size;
}

int uposix_getentropy(void *to, size_t size)
{
	if (size > MOST) {
		errno = EIO;
		return -1;
	}
	sim__fill(to, size);
	return 0;
}

/* Newer versions of glibc have this function. */
REPLACE(void, arc4random_buf, (void *to, size_t size))
{
	if (!sim__self())
		real_arc4random_buf(to, size);
	else
		sim__fill(to, size);
}

REPLACE(uint32_t, arc4random, (void))
{
	uint32_t x = 0;

	in_arc4random_buf(&x, sizeof x);
	return x;
}

REPLACE(uint32_t, arc4random_uniform, (uint32_t n))
{
	return (uint32_t)((uint64_t)in_arc4random() * n >> 32);
}

/* std::random_device::_M_getval(), for which libstdc++ would use an instruction. */
unsigned random_device(void *device) __asm__("_ZNSt13random_device9_M_getvalEv")
	__attribute__((visibility("default")));

unsigned random_device(void *device)
{
	unsigned (*real)(void *device);
	void *found;

	if (sim__self())
		return in_arc4random();
	found = dlsym(RTLD_NEXT, "_ZNSt13random_device9_M_getvalEv");
	memcpy(&real, &found, sizeof real);
	return real(device);
}

/* ---- Numbers of processes ---- */

pid_t uposix_getpid(void)
{
	const struct sim_host *h = sim__host();

	return PROCESS + (pid_t)(h ? h->h_number : 0);
}

pid_t uposix_gettid(void)
{
	const struct sim_thread *self = sim__self();

	return THREAD + (pid_t)(self ? self->t_number : 0);
}
