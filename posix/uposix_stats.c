/* SPDX-License-Identifier: MIT */
/*
 * uposix_stats.c: what the threads of a program have cost: a few lines for c_stats, "-"
 * for standard error when the process exits, or a file, which is written at the first
 * thread, so that one that cannot be is told then, and anew each second.
 */
#include "uposix_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1024 };

static struct rr *watched;              /* of this process; atomic */
static pid_t watched_by;

static int text_of(struct rr *rr, char *text, size_t size)
{
	struct uposix_counts c = uposix__counts();
	struct usched_stats s;

	rr_stats(rr, &s);
	return snprintf(text, size,
			"threads %u\nthreads_most %u\nthreads_started %llu\n"
			"threads_refused %llu\nthreads_native %llu\nswitches %llu\n"
			"evictions %llu\nloads %llu\nbytes_copied %llu\nimages %llu\n"
			"image_bytes %llu\ndeepest_bytes %llu\n",
			c.c_now, c.c_most, (unsigned long long)c.c_started,
			(unsigned long long)c.c_refused, (unsigned long long)c.c_native,
			(unsigned long long)s.s_switches,
			(unsigned long long)s.s_evictions, (unsigned long long)s.s_loads,
			(unsigned long long)s.s_bytes, (unsigned long long)s.s_images,
			(unsigned long long)s.s_image_bytes,
			(unsigned long long)s.s_deepest);
}

static void write_all(void)
{
	struct rr *rr = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
	const char *path = uposix__conf.c_stats;
	bool file = path && strcmp(path, "-") != 0;
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK;
	char text[TEXT];
	int fd, n;

	if (!rr || watched_by != getpid())
		return;
	fd = file ? open(path, flags, 0666) : STDERR_FILENO;
	if (fd < 0) {
		UPOSIX_TELL_ONCE("UPOSIX_STATS: cannot write %s: %s", path,
				 strerror(errno));
		return;
	}
	n = text_of(rr, text, sizeof text);
	(void)!write(fd, text, (size_t)n);
	if (file)
		close(fd);
}

static void *each_second(void *unused)
{
	for (;;) {
		sleep(1);
		write_all();
	}
	return unused;
}

/* With all signals blocked, as the scheduler's native threads are when they are made. */
void uposix__watch(struct rr *rr)
{
	const char *path = uposix__conf.c_stats;
	pthread_t native;

	if (!path)
		return;
	watched_by = getpid();
	__atomic_store_n(&watched, rr, __ATOMIC_RELEASE);
	if (strcmp(path, "-") == 0)
		return;
	write_all();
	if (pthread_create(&native, NULL, each_second, NULL) == 0)
		pthread_detach(native);
}

__attribute__((destructor)) static void end(void)
{
	write_all();
}
