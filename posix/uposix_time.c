/* SPDX-License-Identifier: MIT */
/* uposix_time.c: times of POSIX as deadlines, and sleeps. */
#include "uposix_set.h"

#include "../src/base/when.h"

static int64_t of(const struct timespec *t)
{
	if (t->tv_sec >= USCHED_NEVER / USYNC_SECOND)
		return USCHED_NEVER;
	return t->tv_sec < 0 ? -1 : t->tv_sec * USYNC_SECOND + t->tv_nsec;
}

static int64_t now(clockid_t clock)
{
	return when_by(clock);
}

int64_t uposix__deadline(const struct timespec *time, clockid_t clock)
{
	int64_t when = of(time), rest;

	if (clock == CLOCK_MONOTONIC || when == USCHED_NEVER)
		return when > 0 ? when : 1;
	rest = when - now(clock);
	when = now(CLOCK_MONOTONIC);
	return rest <= 0 ? when : rest < USCHED_NEVER - when ? when + rest : USCHED_NEVER;
}

bool uposix__early(const struct timespec *time, clockid_t clock)
{
	return clock != CLOCK_MONOTONIC && now(clock) < of(time);
}

/*
 * Returns true if the caller is a native thread. A thread that goes on natively in the
 * child of a fork ends here if a cancel is pending.
 */
static bool is_native(void)
{
	if (ustack_self())
		return false;
	uposix__point();
	return true;
}

/* Sleeps until the deadline. Returns 0 or -EINTR. */
static int sleep_until(int64_t deadline)
{
	int rc = uposix__point_once();

	if (rc)
		return rc;
	do
		rc = usync_sleep_until(deadline);
	while (uposix__again_once(&rc));
	return rc;
}

/* Sleeps for `ns'. Returns 0, or -EINTR with the time that is left in *rest. */
static int sleep_for(int64_t ns, struct timespec *rest)
{
	int64_t begun = now(CLOCK_MONOTONIC), left;
	int rc = sleep_until(ns < USCHED_NEVER - begun ? begun + ns : USCHED_NEVER);

	if (rc == -EINTR && rest) {
		left = begun + ns - now(CLOCK_MONOTONIC);
		left = left > 0 ? left : 0;
		rest->tv_sec = (time_t)(left / USYNC_SECOND);
		rest->tv_nsec = (long)(left % USYNC_SECOND);
	}
	return rc;
}

unsigned uposix_sleep(unsigned seconds)
{
	struct timespec rest = { 0, 0 };

	if (is_native())
		return sleep(seconds);
	if (sleep_for(seconds * USYNC_SECOND, &rest) == 0)
		return 0;
	return (unsigned)rest.tv_sec + (rest.tv_nsec > 0);
}

int uposix_usleep(useconds_t microseconds)
{
	if (is_native())
		return usleep(microseconds);
	return (int)uposix__result(sleep_for(microseconds * (int64_t)1000, NULL));
}

int uposix_nanosleep(const struct timespec *time, struct timespec *rest)
{
	if (is_native())
		return nanosleep(time, rest);
	if (time->tv_sec < 0 || !uposix__is_time(time))
		return (int)uposix__result(-EINVAL);
	return (int)uposix__result(sleep_for(of(time), rest));
}

int uposix_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *rest)
{
	int rc;

	if (is_native() || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC
			    && clock != CLOCK_BOOTTIME && clock != CLOCK_TAI))
		return clock_nanosleep(clock, flags, time, rest);
	if (time->tv_sec < 0 || !uposix__is_time(time))
		return EINVAL;
	if (!(flags & TIMER_ABSTIME))
		return -sleep_for(of(time), rest);
	do
		rc = sleep_until(uposix__deadline(time, clock));
	while (rc == 0 && uposix__early(time, clock));
	return -rc;
}
