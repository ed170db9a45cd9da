/* SPDX-License-Identifier: MIT */
/*
 * uposix_file.c: calls of libc that native threads make for threads, and calls that may
 * wait for a file: open() of a FIFO waits for the other end, and a file lock waits for
 * its holder. A call that opens a file clears the old entry of the descriptor. Native
 * threads of the pool wait for the disk.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include "../src/base/sim.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

void uposix__run(void *job)
{
	struct uposix_job *j = job;

	j->j_result = j->j_call(job);
	j->j_errno = errno;
}

/*
 * Shields the caller from cancels. The call cannot be stopped, and a cancel would lose
 * its result.
 */
int uposix__offload(struct uposix_job *job, size_t size)
{
	int before = ustack_shield(1), rc = before;

	job->j_result = -1;
	if (before >= 0) {
		rc = uoffload__apart(job->j_disk, uposix__run, job, size);
		ustack_shield(before);
	}
	errno = rc ? -rc : job->j_errno;
	return rc;
}

struct apart {
	struct usync_sem a_done;
	pthread_t        a_native;
	bool             a_runs;        /* true until the native thread is joined */
	_Alignas(16) char a_job[];
};

static void post_apart(void *apart)
{
	usync_sem_post(&((struct apart *)apart)->a_done);
}

static void *run_apart(void *apart)
{
	struct apart *a = apart;

	pthread_cleanup_push(post_apart, a);
	uposix__run(a->a_job);
	pthread_cleanup_pop(1);
	return NULL;
}

/*
 * Joins the native thread. If `rc', the result of the wait for the call, is not 0,
 * cancels the call. Returns true if the cancel ended the call.
 */
static bool join_apart(struct apart *a, int rc)
{
	int before = ustack_shield(1);
	void *result;

	a->a_runs = false;
	if (rc)
		pthread_cancel(a->a_native);
	while (rc)
		rc = usync_sem_wait(&a->a_done, USCHED_NEVER);
	ustack_shield(before > 0);
	pthread_join(a->a_native, &result);
	return result == PTHREAD_CANCELED;
}

/* Ends the call if a signal handler ends the calling thread. */
static void end_apart(struct apart **a)
{
	if (*a && (*a)->a_runs)
		join_apart(*a, -ECANCELED);
	free(*a);
}

void uposix__apart(struct uposix_job *job, size_t size, int ends)
{
	CLEANUP(end_apart) struct apart *a = NULL;
	int rc = ENOMEM, why;

	job->j_result = -1;
	if (SIMULATED || !uposix__me()) {       /* a thread of usched without a record */
		uposix__offload(job, size);
		return;
	}
	a = calloc(1, sizeof *a + size);
	if (a) {
		memcpy(a->a_job, job, size);
		rc = pthread_create(&a->a_native, NULL, run_apart, a);
	}
	if (rc) {
		errno = rc;
		return;
	}
	a->a_runs = true;
	do {
		rc = usync_sem_wait(&a->a_done, USCHED_NEVER);
		why = uposix__why(rc);
	} while (rc && !(why == -ECANCELED && ends & APART_CANCEL)
		 && !(why == -EINTR && ends & APART_HANDLER));
	if (!join_apart(a, rc))
		memcpy(job, a->a_job, size);
	else
		job->j_errno = EINTR;
	if (job->j_result < 0 && job->j_errno == EINTR && ends & APART_CANCEL)
		uposix__point();                /* ends the thread if pthread_cancel()
						   has ended the call */
	errno = job->j_errno;
}

/* Opening. */

struct opened {
	struct uposix_job o_job;
	const char       *o_path;
	int               o_dir;
	int               o_flags;
	mode_t            o_mode;
};

/*
 * Returns 1 if the open may wait, since the file is a FIFO; 0 if not; and -1 with errno
 * if there is no such file.
 */
static int waits(int dir, const char *path, int flags)
{
	struct stat s;
	int error = errno;

	if (!uposix__in_thread() || flags & (O_NONBLOCK | O_PATH | O_DIRECTORY))
		return 0;
	if (fstatat(dir, path, &s, 0) == 0)
		return S_ISFIFO(s.st_mode);
	if (errno == ENOENT && !(flags & (O_CREAT | O_NOFOLLOW)) && !SIMULATED)
		return -1;
	errno = error;
	return 0;
}

static long open_apart(void *job)
{
	const struct opened *o = job;

	return openat(o->o_dir, o->o_path, o->o_flags, o->o_mode);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	CLEANUP(uposix__free_it) char *copy = NULL;
	struct opened o = { .o_job.j_call = open_apart, .o_dir = dir,
			    .o_flags = flags, .o_mode = mode };
	int rc;

	uposix__point();
	rc = waits(dir, path, flags);
	if (rc < 0)
		return -1;
	if (rc == 0)
		return uposix__made(openat(dir, path, flags, mode), UNKNOWN, false);
	if (!uposix__begins(true) || !(copy = strdup(path)))
		return -1;
	o.o_path = copy;
	uposix__apart(&o.o_job, sizeof o, APART_ANY);
	return uposix__made((int)o.o_job.j_result, UNKNOWN, false);
}

/* The argument `mode' is used only if the call may create a file. */
#define OPEN(name, parameters, dir)						\
	int uposix_##name parameters						\
	{									\
		va_list list;							\
		mode_t mode;							\
										\
		va_start(list, flags);						\
		mode = va_arg(list, mode_t);					\
		va_end(list);							\
		uposix__pace();						\
		return open_at(dir, path, flags, mode);				\
	}

OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int dir, const char *path, int flags, ...), dir)

int uposix_open64(const char *path, int flags, ...) UPOSIX_ALIAS(open);

int uposix_openat64(int dir, const char *path, int flags, ...) UPOSIX_ALIAS(openat);

int uposix_creat(const char *path, mode_t mode)
{
	uposix__pace();
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int uposix_creat64(const char *path, mode_t mode) UPOSIX_ALIAS(creat);

int uposix_closedir(DIR *dir)
{
	uposix__pace();
	uposix__forget(dirfd(dir));
	return closedir(dir);
}

/* The variants that _FORTIFY_SOURCE calls have no argument `mode'. */

static int open_checked(int dir, const char *path, int flags)
{
	uposix__pace();
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (abort(), -1)
		: open_at(dir, path, flags, 0);
}

int uposix___open_2(const char *path, int flags)
{
	return open_checked(AT_FDCWD, path, flags);
}

int uposix___open64_2(const char *path, int flags) UPOSIX_ALIAS(__open_2);

int uposix___openat_2(int dir, const char *path, int flags)
{
	return open_checked(dir, path, flags);
}

int uposix___openat64_2(int dir, const char *path, int flags) UPOSIX_ALIAS(__openat_2);

/*
 * File locks. A file lock belongs to the process or to an open file description, and not
 * to a native thread, so a native thread can take the lock for a thread.
 */

struct file_lock {
	struct uposix_job l_job;
	int               l_fd;
	int               l_command;    /* command of fcntl(), or -1 for flock() */
	int               l_operation;
	struct flock      l_lock;
};

static long lock_apart(void *job)
{
	struct file_lock *l = job;
	int rc;

	if (l->l_command >= 0)
		return fcntl(l->l_fd, l->l_command, &l->l_lock);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	rc = flock(l->l_fd, l->l_operation);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	return rc;
}

int uposix__lock_file(int fd, int command, struct flock *lock)
{
	struct file_lock l = { .l_job.j_call = lock_apart, .l_fd = fd,
			       .l_command = command };
	int now = command == F_SETLKW ? F_SETLK : F_OFD_SETLK, rc;

	if (!uposix__in_thread())
		return fcntl(fd, command, lock);
	if (!uposix__begins(true))
		return -1;
	rc = fcntl(fd, now, lock);
	if (rc == 0 || (errno != EAGAIN && errno != EACCES))
		return rc;
	l.l_lock = *lock;
	uposix__apart(&l.l_job, sizeof l, APART_ANY);
	return (int)l.l_job.j_result;
}

/*
 * No cancellation point, as in libc. If a handler ends the call just when the lock is
 * granted, the lock is released. An older lock is lost in any case, as with LOCK_NB.
 */
int uposix_flock(int fd, int operation)
{
	struct file_lock l = { .l_job.j_call = lock_apart, .l_fd = fd,
			       .l_command = -1, .l_operation = operation };
	int rc;

	uposix__pace();
	if (!uposix__in_thread() || operation & LOCK_NB)
		return flock(fd, operation);
	rc = flock(fd, operation | LOCK_NB);
	if (rc == 0 || errno != EWOULDBLOCK)
		return rc;
	uposix__apart(&l.l_job, sizeof l, APART_HANDLER);
	if (l.l_job.j_result < 0 && errno == EINTR)
		flock(fd, LOCK_UN);
	return (int)l.l_job.j_result;
}

int uposix_lockf(int fd, int command, off_t size)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = size };

	uposix__pace();
	return command == F_LOCK ? uposix__lock_file(fd, F_SETLKW, &l)
				 : lockf(fd, command, size);
}

int uposix_lockf64(int fd, int command, off64_t size) UPOSIX_ALIAS(lockf);

/*
 * Calls that wait for a disk. The pool makes them if the thread has its own stack, which
 * nobody moves meanwhile: the buffer may be there. Other reads and writes use the page
 * cache; a read whose data is not there would wait, too.
 */
#ifndef USCHED_SIM

struct disk_call {
	struct uposix_job d_job;
	int               d_fd;
	size_t            d_size;
	off_t             d_at;
	void             *d_buffer;
};

static long sync_apart(void *job)
{
	return fsync(((const struct disk_call *)job)->d_fd);
}

static long datasync_apart(void *job)
{
	return fdatasync(((const struct disk_call *)job)->d_fd);
}

static long read_apart(void *job)
{
	const struct disk_call *d = job;

	return pread(d->d_fd, d->d_buffer, d->d_size, d->d_at);
}

static long write_apart(void *job)
{
	const struct disk_call *d = job;

	return pwrite(d->d_fd, d->d_buffer, d->d_size, d->d_at);
}

static ssize_t on_disk(struct disk_call *d)
{
	int rc;

	d->d_job.j_disk = true;
	rc = uposix__offload(&d->d_job, sizeof *d);
	return rc == -ENOMEM || rc == -EAGAIN ? d->d_job.j_call(d) : d->d_job.j_result;
}

static bool may_offload(void)
{
	uposix__pace();
	return uposix__in_thread() && !uposix__conf.c_shared;
}

static bool has_flag(int fd, int flag)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & flag;
}

int uposix_fsync(int fd)
{
	struct disk_call d = { .d_job.j_call = sync_apart, .d_fd = fd };

	return may_offload() ? (int)on_disk(&d) : fsync(fd);
}

int uposix_fdatasync(int fd)
{
	struct disk_call d = { .d_job.j_call = datasync_apart, .d_fd = fd };

	return may_offload() ? (int)on_disk(&d) : fdatasync(fd);
}

ssize_t uposix_pread(int fd, void *to, size_t size, off_t at)
{
	struct disk_call d = { { .j_call = read_apart }, fd, size, at, to };
	struct iovec iov = { to, size };
	ssize_t n;

	if (!may_offload() || at < 0)
		return pread(fd, to, size, at);
	if (!has_flag(fd, O_DIRECT)) {
		n = preadv2(fd, &iov, 1, at, RWF_NOWAIT);
		if (n == 0 || n == (ssize_t)size)
			return n;
		if (n < 0 && errno != EAGAIN)   /* some file systems lack RWF_NOWAIT */
			return pread(fd, to, size, at);
	}
	return on_disk(&d);
}

ssize_t uposix_pread64(int fd, void *to, size_t size, off64_t at) UPOSIX_ALIAS(pread);

ssize_t uposix___pread_chk(int fd, void *to, size_t size, off_t at, size_t room)
{
	return room < size ? (abort(), -1) : uposix_pread(fd, to, size, at);
}

ssize_t uposix___pread64_chk(int fd, void *to, size_t size, off64_t at, size_t room)
	UPOSIX_ALIAS(__pread_chk);

ssize_t uposix_pwrite(int fd, const void *from, size_t size, off_t at)
{
	struct disk_call d = { { .j_call = write_apart }, fd, size, at,
			       (void *)(uintptr_t)from };

	return may_offload() && has_flag(fd, O_DIRECT | O_DSYNC)
		? on_disk(&d) : pwrite(fd, from, size, at);
}

ssize_t uposix_pwrite64(int fd, const void *from, size_t size, off64_t at)
	UPOSIX_ALIAS(pwrite);

#endif
