/* SPDX-License-Identifier: MIT */
/* Threads of usched, their files and their pool: all in the simulation. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../rr.h"
#include "../../sim/sim.h"
#include "../../uoffload.h"
#include "../../usync.h"

#define NAME "/var/tmp/usched-sim-pool"

static unsigned calls;

static void call(void *arg)
{
	*(unsigned *)arg = ++calls;
}

static void work(void *arg)
{
	unsigned made = 0;
	char text[32];
	struct stat s;
	int fd = ufile_open(NAME, O_CREAT | O_RDWR, 0600, USCHED_NEVER);

	assert(fd >= 0);
	snprintf(text, sizeof text, "%-15u\n", *(unsigned *)arg);
	assert(ufile_pwrite(fd, text, 16, *(unsigned *)arg * 16, USCHED_NEVER) == 16);
	assert(uoffload(call, NULL, &made, sizeof made, USCHED_NEVER) == 0 && made > 0);
	assert(ufile_sync(fd, USCHED_NEVER) == 0);
	assert(fstat(fd, &s) == 0);
	assert(ufile_pread(fd, text, 16, *(unsigned *)arg * 16, USCHED_NEVER) == 16);
	printf("%u was the call of %.15s %jd\n", made, text, (intmax_t)s.st_mtime);
	close(fd);
}

static void sleep_long(void *unused)
{
	(void)unused;
	assert(usync_sleep_until(usync_after(3600 * USYNC_SECOND)) == 0);
}

int main(void)
{
	static unsigned numbers[] = { 0, 1, 2, 3 };
	struct uprocs *rr;
	struct stat s;

	assert(rr_create(NULL, &rr) == 0);
	for (size_t i = 0; i < 4; i++)
		assert(rr_start(rr, work, &numbers[i], NULL) == 0);
	assert(rr_start(rr, sleep_long, NULL, NULL) == 0);
	assert(uprocs_destroy(rr, usync_after(60 * USYNC_SECOND)) == -ETIMEDOUT);
	assert(uprocs_destroy(rr, 0) == -ETIMEDOUT);
	assert(uprocs_destroy(rr, usync_after(7200 * USYNC_SECOND)) == 0);
	assert(uoffload_drain(0) == 0);
	assert(calls == 4 && stat(NAME, &s) == 0 && s.st_size == 64);
	return 0;
}
