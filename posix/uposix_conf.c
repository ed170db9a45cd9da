/* SPDX-License-Identifier: MIT */
/*
 * uposix_conf.c: settings and messages.
 *
 * Messages go to the file that UPOSIX_LOG names. Without such a file they go to standard
 * error, or to syslog if the process is a daemon. A daemon has closed standard error, or
 * has opened /dev/null or a socket in its place.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE
#include "uposix_set.h"

#include "../src/core/outside.h"
#include "../src/base/sim.h"
#include "../src/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <syslog.h>
#include <unistd.h>

enum {
	STACKS     = 16384,             /* usual c_stacks; each stack needs two of the
					   65,530 mappings of a process */
	STACK_SIZE = 1 << 19,           /* usual c_stack_size, in bytes */
	SLICE      = 5,                 /* usual c_slice, in ms */
	SLICE_MAX  = 1000,              /* the greatest c_slice */
	LINE       = 512,
};

struct uposix_conf uposix__conf = { .c_stacks = STACKS, .c_stack_size = STACK_SIZE };
bool uposix__blocks;                    /* see uposix_set.h */

static struct stat at_start;            /* standard error at the start; zeros if it was
					   closed */

/*
 * Returns true if the program has closed standard error since the start, or has opened
 * /dev/null or a socket in its place.
 */
static bool is_daemon(void)
{
	struct stat now;

	if (fstat(STDERR_FILENO, &now))
		return at_start.st_mode;
	if (now.st_dev == at_start.st_dev && now.st_ino == at_start.st_ino)
		return false;
	return S_ISSOCK(now.st_mode)
	    || (S_ISCHR(now.st_mode) && now.st_rdev == makedev(1, 3));
}

static void put(const char *line, int n)
{
	const char *log = uposix__conf.c_log;
	int fd = log && *log ? outside_file(log, O_APPEND | O_NONBLOCK) : -1;

	if (fd < 0 && is_daemon()) {
		syslog(LOG_DAEMON | LOG_WARNING, "%.*s", n - 1, line);
		return;
	}
	(void)!write(fd < 0 ? STDERR_FILENO : fd, line, (size_t)n);
	if (fd >= 0)
		close(fd);
}

void uposix__tell(const char *format, ...)
{
	char line[LINE];
	int error = errno, n, more;
	va_list list;

	if (uposix__conf.c_quiet)
		return;
	n = snprintf(line, sizeof line, "usched: ");
	va_start(list, format);
	more = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, list);
	va_end(list);
	n += more < (int)sizeof line - n - 1 ? more : (int)sizeof line - n - 2;
	text_copy(line, sizeof line, line);
	line[n++] = '\n';
	put(line, n);
	errno = error;
}

/*
 * Returns a number from the environment, or `otherwise' if the variable is not set.
 * Reports and ignores a value that is no number or is over `most'.
 */
static unsigned long number(const char *name, unsigned long otherwise, unsigned long most)
{
	const char *text = outside_setting(name);
	unsigned long value;
	char *end;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (!errno && !*end && *text >= '0' && *text <= '9' && value <= most)
		return value;
	uposix__tell("%s=%s is no number up to %lu: %lu is taken", name, text, most,
		     otherwise);
	return otherwise;
}

/* Returns what a value of UPOSIX_TLS means. Reports and ignores a wrong value. */
static enum uposix_tls tls_of(const char *text)
{
	static const char *const names[] = {
		[UPOSIX_OWN] = "own", [UPOSIX_NATIVE] = "none",
		[UPOSIX_EXCHANGE] = "exchange",
	};

	if (!text || !*text)
		return UPOSIX_BY_NEED;
	for (int i = UPOSIX_OWN; i <= UPOSIX_EXCHANGE; i++)
		if (strcmp(text, names[i]) == 0)
			return (enum uposix_tls)i;
	uposix__tell("UPOSIX_TLS=%s is not own, none or exchange: it is ignored", text);
	return UPOSIX_BY_NEED;
}

void uposix__settings(void)
{
	struct uposix_conf *c = &uposix__conf;
	static bool done;

	if (__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
		return;
	if (fstat(STDERR_FILENO, &at_start))
		memset(&at_start, 0, sizeof at_start);
	c->c_log = outside_setting("UPOSIX_LOG");
	c->c_quiet = number("UPOSIX_QUIET", 0, 1);
	c->c_stacks = (unsigned)number("UPOSIX_STACKS", STACKS, 1 << 22);
	c->c_shared = (unsigned)number("UPOSIX_SHARED", 0, 1 << 16);
	c->c_processors = (unsigned)number("UPOSIX_PROCESSORS", 0, 1 << 16);
	c->c_stack_size = number("UPOSIX_STACK_SIZE", STACK_SIZE, USCHED_STACK_MAX);
	c->c_native = number("UPOSIX_NATIVE", 0, 1);
	c->c_slice = (unsigned)number("UPOSIX_SLICE", SIMULATED ? 0 : SLICE, SLICE_MAX);
	c->c_stay = number("UPOSIX_STAY", 0, 1);
	c->c_stats = outside_setting("UPOSIX_STATS");
	c->c_record = outside_setting("USCHED_RECORD") != NULL;
	c->c_dumps = c->c_record || outside_setting("USCHED_LOST");
	c->c_tls = tls_of(outside_setting("UPOSIX_TLS"));
}
