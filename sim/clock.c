/* SPDX-License-Identifier: MIT */
/*
 * clock.c: clocks, what is due later, random numbers and process IDs in a simulation. The
 * program calls uposix_NAME() in place of NAME().
 */
#include "world.h"

enum {
	PROCESS = 5000000,              /* getpid() is PROCESS + n on host n, and PROCESS
					   on no host. No real process has such a number,
					   so kill() can tell them apart */
	JUMPS  = 100,                   /* CLOCK_REALTIME jumps by n / JUMPS seconds; */
	LEAP   = 10000,                 /* n is from -LEAP to LEAP */
	MOST   = 256,                   /* the most bytes that getentropy() returns */
};

static uint64_t state;                  /* state of the generator in sim__fill() */

/* Calls to be made, in the order of their times, and then of the requests. */
static struct event {
	struct event     *e_next;
	int64_t           e_when;
	sim_later_fn     *e_func;
	struct sim_open  *e_open;
	struct sim_piece *e_piece;
} *events;

/* ---- What is due later ---- */

void *sim__memory(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		sim_fail("no memory for the world");
	return memory;
}

void sim__later(int64_t when, sim_later_fn *func, struct sim_open *o, struct sim_piece *g)
{
	struct event *e = sim__memory(sizeof *e), **at = &events;

	while (*at && (*at)->e_when <= when)
		at = &(*at)->e_next;
	*e = (struct event){ *at, when, func, sim__hold(o), g };
	*at = e;
	sim__due(when);
}

void sim__catch_up(void)
{
	struct event *e;

	while ((e = events) && e->e_when <= sim__run.r_now) {
		events = e->e_next;
		sim__note((uint64_t)e->e_when);
		e->e_func(e->e_open, e->e_piece);
		sim__drop(e->e_open);
		free(e);
	}
}

static int64_t first_due(void)
{
	return events ? events->e_when : INT64_MAX;
}

void sim__due(int64_t when)
{
	sim__run.r_due = MIN(when, sim__run.r_due);
}

void sim__looked(int64_t when)
{
	sim__run.r_due = MIN(when, first_due());
}

int64_t sim__now(void)
{
	return sim__run.r_now;
}

bool sim__pass(int64_t until)
{
	until = MIN(until, first_due());
	if (until == INT64_MAX)
		return false;
	if (!events)
		sim__look_for_hang();
	sim__run.r_jumped = sim__run.r_steps;
	sim__run.r_now = MAX(until, sim__run.r_now);
	sim__catch_up();
	return true;
}

/* ---- The clock ---- */

/* Returns the time of a clock, in ns. Before that, CLOCK_REALTIME may jump. */
static int64_t now(clockid_t clock)
{
	if (clock == CLOCK_REALTIME && sim__strikes("clock", sim__faults.f_clock))
		sim__run.r_jump += SECOND / JUMPS
			* ((int64_t)sim__choose("the clock's jump", 2 * LEAP + 1) - LEAP);
	return sim__time(clock);
}

int uposix_clock_gettime(clockid_t clock, struct timespec *t)
{
	if ((unsigned)clock > CLOCK_TAI) {
		errno = EINVAL;
		return -1;
	}
	*t = sim__timespec(now(clock));
	return 0;
}

int uposix_clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	*clock = CLOCK_PROCESS_CPUTIME_ID;
	return pid == 0 || pid == uposix_getpid() ? 0 : ESRCH;
}

int uposix_timespec_get(struct timespec *t, int base)
{
	uposix_clock_gettime(CLOCK_REALTIME, t);
	return base;
}

int uposix_gettimeofday(struct timeval *restrict t, UNUSED void *restrict zone)
{
	*t = sim__timeval(now(CLOCK_REALTIME));
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
	return (now(CLOCK_MONOTONIC) - SIM_BOOTED) / MICROSECOND;
}

/* The process and each thread have the time since the start of the run as user time. */
int uposix_getrusage(int who, struct rusage *r)
{
	int64_t ns = who == RUSAGE_CHILDREN ? 0 : uposix_clock() * MICROSECOND;

	if (who < RUSAGE_CHILDREN || who > RUSAGE_THREAD)
		return (int)sim__answer(-EINVAL);
	*r = (struct rusage){ .ru_utime = sim__timeval(ns) };
	return 0;
}

clock_t uposix_times(struct tms *t)
{
	int64_t tick = SECOND / sysconf(_SC_CLK_TCK);

	if (t)
		*t = (struct tms){ .tms_utime = uposix_clock() * MICROSECOND / tick };
	return now(CLOCK_MONOTONIC) / tick;
}

/* ---- Random numbers ---- */

void sim__begin_world(uint64_t seed)
{
	struct event *e;

	while ((e = events)) {
		events = e->e_next;
		free(e->e_piece);
		sim__drop(e->e_open);
		free(e);
	}
	state = (seed + 1) * UINT64_C(0xd1342543de82ef95);
}

/* A generator of its own (MMIX, Knuth), so that choices of the strategy change nothing.
   Makes a byte at a time, so that the byte order of the machine does not matter. */
void sim__fill(void *to, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		((unsigned char *)to)[i] = (unsigned char)(state >> 56);
	}
}

ssize_t uposix_getrandom(void *to, size_t size, UNUSED unsigned flags)
{
	sim__fill(to, size);
	return (ssize_t)size;
}

int uposix_getentropy(void *to, size_t size)
{
	if (size > MOST)
		return (int)sim__answer(-EIO);
	sim__fill(to, size);
	return 0;
}

/* Only newer versions of glibc have the functions arc4random...(). */
REPLACE(void, arc4random_buf, (void *to, size_t size))
{
	sim__self() ? sim__fill(to, size) : real_arc4random_buf(to, size);
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

/* Replaces std::random_device::_M_getval() of libstdc++, which asks the processor for
   random numbers. */
unsigned random_device(void *device) __asm__("_ZNSt13random_device9_M_getvalEv")
	__attribute__((visibility("default")));

unsigned random_device(void *device)
{
	unsigned (*real)(void *device);
	void *found;

	if (sim__self())
		return in_arc4random();
	found = sim__of_libstdcxx("_ZNSt13random_device9_M_getvalEv");
	memcpy(&real, &found, sizeof real);
	return real(device);
}

/* ---- Process and thread IDs ---- */

pid_t uposix_getpid(void)
{
	return PROCESS + (pid_t)sim__here()->h_number;
}

/* The parent of all hosts is init. */
pid_t uposix_getppid(void)
{
	return 1;
}

pid_t uposix_gettid(void)
{
	const struct sim_thread *self = sim__self();

	return SIM_THREAD + (pid_t)(self ? self->t_number : 0);
}

/* Calls that take an ID. To the kernel, an ID of the simulation is that of the caller. */
#define BY_ID(name, params, ...)						\
	REPLACE(int, name, params) { return real_##name(__VA_ARGS__); }

static pid_t own(pid_t id)
{
	return id >= PROCESS ? 0 : id;
}

BY_ID(getpriority, (int which, pid_t id), which, own(id))
BY_ID(setpriority, (int which, pid_t id, int priority), which, own(id), priority)
BY_ID(sched_getaffinity, (pid_t id, size_t size, void *set), own(id), size, set)
BY_ID(sched_setaffinity, (pid_t id, size_t size, const void *set), own(id), size, set)
BY_ID(sched_getparam, (pid_t id, void *param), own(id), param)
BY_ID(sched_setparam, (pid_t id, const void *param), own(id), param)
BY_ID(sched_getscheduler, (pid_t id), own(id))
BY_ID(getpgid, (pid_t id), own(id))
BY_ID(setpgid, (pid_t id, pid_t group), own(id), own(group))
BY_ID(getsid, (pid_t id), own(id))
BY_ID(prlimit, (pid_t id, int what, const struct rlimit *new, struct rlimit *old),
      own(id), what, new, old)
BY_ID(sched_rr_get_interval, (pid_t id, struct timespec *t), own(id), t)
BY_ID(sched_setscheduler, (pid_t id, int policy, const void *param), own(id), policy,
      param)
