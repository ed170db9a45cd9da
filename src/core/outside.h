/* SPDX-License-Identifier: MIT */
/*
 * outside.h: settings in the environment, and files that settings name. Whoever starts
 * the process chooses both, and a set-user-ID process must not obey: the caller would
 * write where only the owner of the program may. Private.
 */
#ifndef USCHED_OUTSIDE_H
#define USCHED_OUTSIDE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

/*
 * Returns a variable of the environment, or NULL. In a process with more rights than its
 * caller has, each is NULL, as of secure_getenv(), which not every libc has.
 */
static inline const char *outside_setting(const char *name)
{
#ifdef __linux__
	return getauxval(AT_SECURE) ? NULL : getenv(name);
#else
	return issetugid() ? NULL : getenv(name);
#endif
}

/*
 * Opens or makes a file to be written, with further flags. Returns -1 and errno if the
 * name is a link, or if the file is regular and another user's: another user may have put
 * either in the place.
 */
static inline int outside_file(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
	struct stat s;

	if (fd < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_uid == geteuid())
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

#endif /* USCHED_OUTSIDE_H */
