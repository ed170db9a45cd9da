/* SPDX-License-Identifier: MIT */
/*
 * uposix_queue.c: queues of messages, and transfers that libc's own threads make.
 *
 * A queue of messages is a descriptor. A call on a queue gets a time in the past, so that
 * it does not block. If the call times out, the thread waits for the descriptor, and
 * calls again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <aio.h>
#include <mqueue.h>
#include <time.h>

/* Queues. */

static const struct timespec past = { 0, 0 };

/*
 * Returns true if the caller may block natively or the time is invalid. Then libc's
 * function can be called.
 */
static bool is_plain(const struct timespec *limit)
{
	uposix__pace();
	return !uposix__in_thread()
		|| (limit && (limit->tv_sec < 0 || !uposix__is_time(limit)));
}

/* Waits after a call has failed. Returns true if the call is to be repeated. */
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

/* Receives a message for a thread. `limit' is NULL if there is no time-out. */
static ssize_t receive(mqd_t queue, char *text, size_t size, unsigned *priority,
		       const struct timespec *limit)
{
	ssize_t n = -1;

	if (uposix__begins(true))
		do
			n = mq_timedreceive(queue, text, size, priority, &past);
		while (n < 0 && await(queue, POLLIN, limit));
	return n;
}

static int put(mqd_t queue, const char *text, size_t size, unsigned priority,
	       const struct timespec *limit)
{
	int rc = -1;

	if (uposix__begins(true))
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

/* aio. */

int uposix_aio_read(struct aiocb *a)
{
	uposix__lend(a->aio_fildes);
	return aio_read(a);
}

int uposix_aio_write(struct aiocb *a)
{
	uposix__lend(a->aio_fildes);
	return aio_write(a);
}

int uposix_aio_suspend(const struct aiocb *const list[], int n,
		       const struct timespec *limit)
{
	int64_t deadline = USCHED_NEVER;
	int rc = -1;

	if (is_plain(limit))
		return aio_suspend(list, n, limit);
	if (limit && limit->tv_sec < INT32_MAX)
		deadline = usync_after(limit->tv_sec * USYNC_SECOND + limit->tv_nsec);
	if (uposix__begins(true))
		do
			rc = aio_suspend(list, n, &past);
		while (rc < 0 && uposix__would_wait() && usync_after(0) < deadline
		       && uposix__look_later());
	return rc;
}

int uposix_lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *then)
{
	bool waits = mode == LIO_WAIT && uposix__in_thread();
	int rc, failed = 0;

	for (int i = 0; i < n; i++)
		if (list[i] && list[i]->aio_lio_opcode != LIO_NOP)
			uposix__lend(list[i]->aio_fildes);
	rc = lio_listio(waits ? LIO_NOWAIT : mode, list, n, waits ? NULL : then);
	for (int i = 0; waits && rc == 0 && i < n; i++) {
		if (!list[i] || list[i]->aio_lio_opcode == LIO_NOP)
			continue;
		while (aio_error(list[i]) == EINPROGRESS)
			if (!uposix__look_later())
				return -1;
		failed |= aio_error(list[i]);
	}
	if (failed)
		errno = EIO;
	return failed ? -1 : rc;
}

/* With an off_t of 64 bits, struct aiocb64 is the same as struct aiocb. */

int uposix_aio_read64(struct aiocb64 *a)
{
	return uposix_aio_read((struct aiocb *)(void *)a);
}

int uposix_aio_write64(struct aiocb64 *a)
{
	return uposix_aio_write((struct aiocb *)(void *)a);
}

int uposix_aio_suspend64(const struct aiocb64 *const list[], int n,
			 const struct timespec *limit)
{
	return uposix_aio_suspend((const struct aiocb *const *)(const void *)list, n,
				  limit);
}

int uposix_lio_listio64(int mode, struct aiocb64 *const list[], int n,
			struct sigevent *then)
{
	return uposix_lio_listio(mode, (struct aiocb *const *)(const void *)list, n,
				 then);
}
