/* SPDX-License-Identifier: MIT */
/*
 * ufile.c: calls for files, made by native threads of the pool. Data is copied through
 * the job. A read first tries the page cache, without a native thread of the pool.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* preadv2() */
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../base/cancel.h"
#include "../base/check.h"
#include "../wait/budget.h"
#include "offload.h"

/* MemorySanitizer has this function, and does not know preadv2(). NULL: not linked. */
void __msan_unpoison(const volatile void *p, size_t size) __attribute__((weak));

struct file_call {
	int         fc_fd;
	int         fc_flags;
	mode_t      fc_mode;
	off_t       fc_offset;
	size_t      fc_size;
	ssize_t     fc_rc;
	char        fc_data[];          /* a buffer or a path */
};

static struct job *file_job(void (*func)(void *data), void (*drop)(void *data),
			    const void *data, size_t size, struct file_call **call)
{
	struct job *job = NULL;

	if (size < SIZE_MAX / 2)
		job = uoffload__new_job(OFFLOAD_FILES, func, drop, sizeof **call + size);
	if (!job)
		return NULL;
	/* Once the waiter has gone, fc_fd may be the number of another file. */
	job->j_skip = true;
	*call = (struct file_call *)(void *)job->j_data;
	**call = (struct file_call){ .fc_size = size, .fc_rc = -ECANCELED };
	if (data && size > 0)
		memcpy((*call)->fc_data, data, size);
	return job;
}

/* Runs the job. If `to' is not NULL, copies to `to' what was read. Returns fc_rc; an
   error of the job; or -ENOMEM if `job' is NULL. */
static ssize_t run_on_file(struct job *job, void *to, int64_t deadline)
{
	const struct file_call *call;
	ssize_t rc = job ? offload_run(job, deadline) : -ENOMEM;

	if (rc)
		return rc;
	call = (const struct file_call *)(void *)job->j_data;
	rc = call->fc_rc;
	if (to && rc > 0)
		memcpy(to, call->fc_data, (size_t)rc);
	free(job);
	return rc;
}

static void set_rc(struct file_call *call, ssize_t rc)
{
	call->fc_rc = rc < 0 ? -errno : rc;
}

static void open_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, openat(AT_FDCWD, call->fc_data, call->fc_flags, call->fc_mode));
}

static void close_file(void *data)
{
	const struct file_call *call = (const struct file_call *)data;

	if (call->fc_rc >= 0)
		close((int)call->fc_rc);
}

int ufile_open(const char *path, int flags, mode_t mode, int64_t deadline)
{
	struct file_call *call;
	struct job *job = file_job(open_file, close_file, path, strlen(path) + 1, &call);

	check(path, CHECK_BUFFER, __func__);
	if (job) {
		call->fc_flags = flags | O_CLOEXEC;
		call->fc_mode = mode;
	}
	return (int)run_on_file(job, NULL, deadline);
}

/* Runs a job on a copy of `from', or on a buffer that is copied to `to' afterwards. */
static ssize_t transfer(void (*func)(void *data), int fd, const void *from, void *to,
			size_t size, off_t offset, int64_t deadline)
{
	struct file_call *call;
	struct job *job = file_job(func, NULL, from, size, &call);

	if (job) {
		call->fc_fd = fd;
		call->fc_offset = offset;
	}
	return run_on_file(job, to, deadline);
}

static void read_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, pread(call->fc_fd, call->fc_data, call->fc_size, call->fc_offset));
}

ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline)
{
	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
#ifdef RWF_NOWAIT
	struct iovec iov = { buffer, size };
	int before = defer_cancel();
	ssize_t rc = preadv2(fd, &iov, 1, offset, RWF_NOWAIT);

	allow_cancel(before);

	if (rc > 0 && __msan_unpoison)
		__msan_unpoison(buffer, (size_t)rc);
	if (rc >= 0)
		budget_give_way(0);
	if (rc >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP && errno != ENOSYS
			&& errno != EINVAL && errno != EINTR))
		return rc < 0 ? -errno : rc;
#endif
	return transfer(read_file, fd, NULL, buffer, size, offset, deadline);
}

static void write_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, pwrite(call->fc_fd, call->fc_data, call->fc_size, call->fc_offset));
}

static void sync_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, fsync(call->fc_fd));
}

ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset,
		     int64_t deadline)
{
	check(size ? buffer : NULL, CHECK_BUFFER, __func__);
	return transfer(write_file, fd, buffer, NULL, size, offset, deadline);
}

int ufile_sync(int fd, int64_t deadline)
{
	return (int)transfer(sync_file, fd, NULL, NULL, 0, 0, deadline);
}
