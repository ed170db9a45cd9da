/* SPDX-License-Identifier: MIT */
/*
 * uposix_queue.c: queues of messages.
 *
 * A queue is a descriptor. The calls with a time that is past do not wait; a thread waits
 * in between.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <mqueue.h>
#include <time.h>

static const struct timespec past = { 0, 0 };

/* libc's call does not wait, or ends at once. */
static bool is_plain(const struct timespec *limit)
{
	return !uposix__in_thread()
		|| (limit && (limit->tv_sec < 0 || !uposix__is_time(limit)));
}

/* A cancellation point. False: a handler has run; errno is EINTR. */
static bool may_begin(void)
{
	return uposix__result(uposix__point()) == 0;
}

/* After a call that failed: true: repeat it. */
static bool await(mqd_t queue, short events, const struct timespec *limit)
{
	struct pollfd one = { queue, events, 0 };
	int64_t deadline = limit ? uposix__deadline(limit, CLOCK_REALTIME)
		: USCHED_NEVER;
	int rc;

	if (errno != ETIMEDOUT)
		return false;
	UPOSIX_WAIT(rc, !limit, uposix__wait_ready(&one, 1, deadline));
	if (rc >= 0 || (rc == -ETIMEDOUT && uposix__early(limit, CLOCK_REALTIME)))
		return true;
	errno = -rc;
	return false;
}

/* Without a limit: NULL, which calls of libc that have one do not take. */
static ssize_t receive(mqd_t queue, char *text, size_t size, unsigned *priority,
		       const struct timespec *limit)
{
	ssize_t n = -1;

	if (may_begin())
		do
			n = mq_timedreceive(queue, text, size, priority, &past);
		while (n < 0 && await(queue, POLLIN, limit));
	return n;
}

static int put(mqd_t queue, const char *text, size_t size, unsigned priority,
	       const struct timespec *limit)
{
	int rc = -1;

	if (may_begin())
		do
			rc = mq_timedsend(queue, text, size, priority, &past);
		while (rc < 0 && await(queue, POLLOUT, limit));
	return rc;
}

ssize_t uposix_mq_timedreceive(mqd_t queue, char *text, size_t size, unsigned *priority,
			       const struct timespec *limit)
{
	return is_plain(limit) ? mq_timedreceive(queue, text, size, priority, limit)
		: receive(queue, text, size, priority, limit);
}

ssize_t uposix_mq_receive(mqd_t queue, char *text, size_t size, unsigned *priority)
{
	return is_plain(NULL) ? mq_receive(queue, text, size, priority)
		: receive(queue, text, size, priority, NULL);
}

int uposix_mq_timedsend(mqd_t queue, const char *text, size_t size, unsigned priority,
			const struct timespec *limit)
{
	return is_plain(limit) ? mq_timedsend(queue, text, size, priority, limit)
		: put(queue, text, size, priority, limit);
}

int uposix_mq_send(mqd_t queue, const char *text, size_t size, unsigned priority)
{
	return is_plain(NULL) ? mq_send(queue, text, size, priority)
		: put(queue, text, size, priority, NULL);
}

int uposix_mq_close(mqd_t queue)
{
	uposix__release(queue);
	return mq_close(queue);
}
