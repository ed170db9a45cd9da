/* SPDX-License-Identifier: MIT */
/*
 * outside.h: settings in the environment, and files that settings name. Private. Whoever
 * starts the process chooses both. A set-user-ID process must not obey them, because then
 * the caller could make it write where only the owner of the program may write.
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
 * Returns a variable of the environment, or NULL. Always returns NULL in a process with
 * more rights than its caller has. secure_getenv() does the same, but some libcs lack it.
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
 * Opens a file for writing, and makes the file if it is missing. `flags' are further
 * flags of open(2). Returns the descriptor, or -1 and errno. Refuses a symbolic link, and
 * a regular file of another user, because another user may have put these there.
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
