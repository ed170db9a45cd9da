/* SPDX-License-Identifier: MIT */
/*
 * uposix_stats.c: writes a few lines of statistics about the threads of a program to
 * c_stats. If c_stats is "-", the lines are written to standard error when the process
 * exits. A file is written when the first thread begins, so that errors are reported
 * early, and then once a second.
 */
#include "uposix_set.h"

#include "../src/core/outside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 1024 };

static struct uprocs *watched;              /* scheduler of this process; atomic */
static pid_t watched_by;
static struct uwait_lock writing;
static bool ended;                      /* true once the last text, at the exit of the
					   process, is written; under `writing' */

static int text_of(struct uprocs *rr, char *text, size_t size)
{
	struct uposix_counts c;
	struct usched_stats s;

	uprocs_stats(rr, &s);
	uwait_lock(&uposix__lock);
	c = uposix__counts;
	uwait_unlock(&uposix__lock);
	return snprintf(text, size,
			"threads %u\nthreads_most %u\nthreads_started %llu\n"
			"threads_refused %llu\nthreads_native %llu\nswitches %llu\n"
			"evictions %llu\nloads %llu\nbytes_copied %llu\nimages %llu\n"
			"image_bytes %llu\ndeepest_bytes %llu\n",
			c.c_now, c.c_most, (unsigned long long)c.c_started,
			(unsigned long long)c.c_refused, (unsigned long long)c.c_native,
			(unsigned long long)s.st_switches,
			(unsigned long long)s.st_evictions,
			(unsigned long long)s.st_loads,
			(unsigned long long)s.st_bytes, (unsigned long long)s.st_images,
			(unsigned long long)s.st_image_bytes,
			(unsigned long long)s.st_deepest);
}

/*
 * Overwrites a file, and shortens it afterwards, so that the file is never empty. Another
 * process may read the file at any time, and this process may be killed.
 */
static void write_text(const char *path, const char *text, size_t n)
{
	bool file = strcmp(path, "-") != 0;
	int fd = file ? outside_file(path, O_NONBLOCK) : STDERR_FILENO;

	if (fd < 0) {
		UPOSIX_TELL_ONCE("UPOSIX_STATS: cannot write %s: %s", path,
				 strerror(errno));
		return;
	}
	if (write(fd, text, n) == (ssize_t)n && file)
		(void)!ftruncate(fd, (off_t)n);         /* cuts off the rest of the old
							   text */
	if (file)
		close(fd);
}

/* Writes the statistics. Once the text at the exit is written, does nothing. */
static void write_all(bool ends)
{
	struct uprocs *rr = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
	char text[TEXT];

	if (!rr || watched_by != getpid())
		return;
	uwait_lock(&writing);
	if (!ended)
		write_text(uposix__conf.c_stats, text,
			   (size_t)text_of(rr, text, sizeof text));
	ended = ended || ends;
	uwait_unlock(&writing);
}

static void stats_forked(void)
{
	writing = (struct uwait_lock){ 0 };
}

UPOSIX_AT_FORK(UPOSIX_STATS, NULL, stats_forked)

static void *each_second(void *unused)
{
	for (;;) {
		sleep(1);
		write_all(false);
	}
	return unused;
}

/*
 * The caller has set the signal mask for native threads of the scheduler. The native
 * thread that writes the file inherits that mask.
 */
void uposix__watch(struct uprocs *rr)
{
	const char *path = uposix__conf.c_stats;
	pthread_t native;

	if (!path)
		return;
	watched_by = getpid();
	ended = false;
	__atomic_store_n(&watched, rr, __ATOMIC_RELEASE);
	if (strcmp(path, "-") == 0)
		return;
	write_all(false);
	if (pthread_create(&native, NULL, each_second, NULL) == 0)
		pthread_detach(native);
}

__attribute__((destructor)) static void end(void)
{
	write_all(true);
}
