/* SPDX-License-Identifier: MIT */
/* slow.c: preloaded, it makes a disk slow, for test_porting.py. */
#include <time.h>

int fdatasync(int fd);
int fsync(int fd);

int fsync(int fd)
{
	struct timespec t = { .tv_nsec = 50000000 };

	return fd < 0 ? -1 : nanosleep(&t, NULL);
}

int fdatasync(int fd)
{
	return fsync(fd);
}
