/* SPDX-License-Identifier: MIT */
/*
 * uposix_open.c: calls that open a file by its name. What was known of the number is of
 * another file. A FIFO is waited for in the pool, until both of its ends are open.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_io.h"

#include <dirent.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

struct opened {
	char  *o_path;
	int    o_dir;
	int    o_flags;
	mode_t o_mode;
	int    o_fd;
	int    o_errno;
};

static bool waits(int dir, const char *path, int flags)
{
	struct stat s;
	int error = errno;
	bool is_fifo = uposix__in_thread() && !(flags & (O_NONBLOCK | O_PATH))
		&& fstatat(dir, path, &s, 0) == 0 && S_ISFIFO(s.st_mode);

	errno = error;
	return is_fifo;
}

static void open_in_pool(void *job)
{
	struct opened *o = job;

	o->o_fd = openat(o->o_dir, o->o_path, o->o_flags, o->o_mode);
	o->o_errno = errno;
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	CLEANUP(uposix__free_it) char *copy = NULL;
	struct opened o = { NULL, dir, flags, mode, -1, 0 };
	int rc;

	if (!waits(dir, path, flags))
		return uposix__made(openat(dir, path, flags, mode), UNKNOWN, false);
	rc = uposix__point();
	if (rc == 0) {
		o.o_path = copy = strdup(path);
		rc = copy ? uposix__offload(open_in_pool, &o, sizeof o) : -ENOMEM;
	}
	if (rc || o.o_fd < 0)
		errno = rc ? -rc : o.o_errno;
	return rc ? -1 : uposix__made(o.o_fd, UNKNOWN, false);
}

/* The mode is there if a file may be made. */
#define OPEN(name, parameters, dir)						\
	int uposix_##name parameters						\
	{									\
		va_list list;							\
		mode_t mode;							\
										\
		va_start(list, flags);						\
		mode = va_arg(list, mode_t);					\
		va_end(list);							\
		return open_at(dir, path, flags, mode);				\
	}

OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int dir, const char *path, int flags, ...), dir)
OPEN(openat64, (int dir, const char *path, int flags, ...), dir)

int uposix_creat(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int uposix_creat64(const char *path, mode_t mode)
{
	return uposix_creat(path, mode);
}

int uposix_closedir(DIR *dir)
{
	uposix__forget(dirfd(dir));
	return closedir(dir);
}

/* What _FORTIFY_SOURCE puts in their place, without a mode. */

static int open_checked(int dir, const char *path, int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (abort(), -1)
		: open_at(dir, path, flags, 0);
}

int uposix___open_2(const char *path, int flags)
{
	return open_checked(AT_FDCWD, path, flags);
}

int uposix___open64_2(const char *path, int flags)
{
	return open_checked(AT_FDCWD, path, flags);
}

int uposix___openat_2(int dir, const char *path, int flags)
{
	return open_checked(dir, path, flags);
}

int uposix___openat64_2(int dir, const char *path, int flags)
{
	return open_checked(dir, path, flags);
}
