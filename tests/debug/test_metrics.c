/* SPDX-License-Identifier: MIT */
/*
 * test_metrics.c: counters of processors as Prometheus takes them: each has its help and
 * type, and a value for each processor, which is what happened there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../debug/uinspect.h"
#include "../../unet.h"
#include "../../usync.h"
#include "../help/over.h"

#ifdef SINGLE_THREAD
enum { PROCESSORS = 1 };
#else
enum { PROCESSORS = 3 };
#endif

enum { THREADS = 40, YIELDS = 100, SLEEPERS = 5, MILLI = 1000000 };

static struct ustack *sleepers[SLEEPERS];

static char *metrics(void)
{
	FILE *file = tmpfile();

	TEST_TRUE(file);
	TEST_EQUAL(uinspect_metrics(fileno(file)), 0);
	return test_contents(file);
}

/* Of all processors of a scheduler. */
static uint64_t sum(const char *text, unsigned scheduler, const char *name)
{
	char line[128];
	uint64_t all = 0;
	unsigned n = 0;

	for (;; n++) {
		const char *at;

		snprintf(line, sizeof line, "\n%s{scheduler=\"%u\",processor=\"%u\"} ",
			 name, scheduler, n);
		at = strstr(text, line);
		if (!at)
			break;
		TEST_TRUE(!strstr(at + 1, line));
		all += strtoull(at + strlen(line), NULL, 10);
	}
	TEST_TRUE(n > 0);
	return all;
}

static uint64_t now_of(unsigned scheduler, const char *name)
{
	char *text = metrics();
	uint64_t value = sum(text, scheduler, name);

	free(text);
	return value;
}

/* A join runs the threads with SINGLE_THREAD, too. */
static void await_value(const char *name, uint64_t value)
{
	while (now_of(0, name) != value)
		TEST_EQUAL(ustack_join(sleepers[0], NULL, usync_after(MILLI)),
			   -ETIMEDOUT);
}

static void yield_often(void *unused)
{
	(void)unused;
	for (int i = 0; i < YIELDS; i++)
		ustack_yield();
}

static void sleep_long(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(3600 * USYNC_SECOND)), -ECANCELED);
}

static void sleep_short(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
}

static void read_byte(void *pipe)
{
	char byte;

	TEST_EQUAL(unet_read(((const int *)pipe)[0], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_close(((const int *)pipe)[0]), 0);
}

static void join_all(struct ustack **threads, int n)
{
	for (int i = 0; i < n; i++)
		TEST_EQUAL(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
}

/* While threads sleep: nothing else moves. */
static void check_values(void *s)
{
	struct usched_stats stats;
	char *text = metrics();

	over->o_stats(s, &stats);
	TEST_EQUAL(sum(text, 0, "usched_switches_total"), stats.st_switches);
	TEST_EQUAL(sum(text, 0, "usched_launches_total"), THREADS + SLEEPERS + 2);
	TEST_EQUAL(sum(text, 0, "usched_launches_total"), stats.st_launches);
	TEST_EQUAL(sum(text, 0, "usched_evictions_total"), stats.st_evictions);
	TEST_EQUAL(sum(text, 0, "usched_loads_total"), stats.st_loads);
	TEST_EQUAL(sum(text, 0, "usched_copied_bytes_total"), stats.st_bytes);
	TEST_EQUAL(sum(text, 0, "usched_preemptions_total"), 0);
	TEST_EQUAL(sum(text, 0, "usched_moves_total"), stats.st_moves);
	TEST_EQUAL(sum(text, 0, "usched_image_bytes"), stats.st_image_bytes);
	TEST_TRUE(sum(text, 0, "usched_mail_total") >= THREADS + SLEEPERS + 2);
	TEST_EQUAL(sum(text, 0, "usched_timers_expired_total"), 1);
	TEST_TRUE(sum(text, 0, "usched_events_total") > 0);
	TEST_EQUAL(sum(text, 0, "usched_threads"), SLEEPERS);
	TEST_EQUAL(sum(text, 0, "usched_queue_length"), 0);
	TEST_EQUAL(sum(text, 0, "usched_waiters"), SLEEPERS);
#ifndef SINGLE_THREAD
	TEST_TRUE(sum(text, 0, "usched_parks_total") >= PROCESSORS);
	TEST_TRUE(sum(text, 0, "usched_looks_total") > 0);
#endif
	free(text);
}

TEST(test_values)
{
	const struct uprocs_conf conf = { .c_processors = PROCESSORS };
	struct ustack *threads[THREADS], *one, *reader;
	int ends[2];
	void *s;

	TEST_EQUAL(over->o_create(&conf, &s), 0);
	over->o_hold(s);
	for (int i = 0; i < THREADS; i++)
		TEST_EQUAL(over->o_start(s, yield_often, NULL, &threads[i]), 0);
	TEST_EQUAL(over->o_start(s, sleep_short, NULL, &one), 0);
	for (int i = 0; i < SLEEPERS; i++)
		TEST_EQUAL(over->o_start(s, sleep_long, NULL, &sleepers[i]), 0);
	join_all(threads, THREADS);
	join_all(&one, 1);
	TEST_EQUAL(pipe(ends), 0);
	TEST_EQUAL(over->o_start(s, read_byte, ends, &reader), 0);
	await_value("usched_waiters", SLEEPERS + 1);
	TEST_EQUAL(write(ends[1], "", 1), 1);
	close(ends[1]);
	join_all(&reader, 1);
	await_value("usched_waiters", SLEEPERS);
	await_value("usched_queue_length", 0);
	check_values(s);
	for (int i = 0; i < SLEEPERS; i++)
		TEST_EQUAL(ustack_cancel(sleepers[i]), 0);
	join_all(sleepers, SLEEPERS);
	over->o_release(s);
	TEST_EQUAL(over->o_destroy(s), 0);
}

/* ---- The text ---- */

/* The next line, without its end; NULL: there is none. */
static char *next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	if (!*line)
		return NULL;
	TEST_TRUE(end);
	*end = '\0';
	*at = end + 1;
	return line;
}

/* A name, a help, a type that fits the name, and a value for each processor. */
static void check_metric(char *line, char **at, unsigned values)
{
	char name[64], type[16], end;
	bool total;

	TEST_EQUAL(sscanf(line, "# HELP %63s %c", name, &end), 2);
	TEST_TRUE(strncmp(name, "usched_", 7) == 0);
	TEST_EQUAL(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
	total = strcmp(name + strlen(name) - 6, "_total") == 0;
	line = next_line(at);
	TEST_TRUE(line && sscanf(line, "# TYPE usched_%*s %15s%c", type, &end) == 1);
	TEST_TRUE(strncmp(line + 7, name, strlen(name)) == 0);
	TEST_EQUAL(strcmp(type, total ? "counter" : "gauge"), 0);
	if (strcmp(name, "usched_longest_stretch_seconds") == 0)
		return;                         /* there are no slices */
	for (unsigned i = 0; i < values; i++) {
		unsigned scheduler, processor;
		uint64_t value;
		char has[64];

		line = next_line(at);
		TEST_TRUE(line);
		TEST_EQUAL(sscanf(line, "%63[a-z_]{scheduler=\"%u\",processor=\"%u\"} "
				  "%" SCNu64 "%c", has, &scheduler, &processor, &value,
				  &end), 4);
		TEST_EQUAL(strcmp(has, name), 0);
		TEST_TRUE(scheduler < 2 && processor < PROCESSORS);
	}
}

TEST(test_text)
{
	const struct uprocs_conf conf = { .c_processors = 1 };
	char *text, *at, *line;
	void *s, *other;
	int n = 0;

	TEST_EQUAL(over->o_create(&conf, &s), 0);
	TEST_EQUAL(over->o_create(&conf, &other), 0);
	at = text = metrics();
	for (; (line = next_line(&at)); n++)
		check_metric(line, &at, 2);
	TEST_TRUE(n > 15);
	free(text);
	TEST_EQUAL(now_of(1, "usched_threads"), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
	TEST_EQUAL(now_of(1, "usched_threads"), 0);     /* its number stays */
	TEST_EQUAL(over->o_destroy(other), 0);
	TEST_EQUAL(uinspect_metrics(-1), -EBADF);
}

/* ---- Stretches ---- */

static void keep_on(void *unused)
{
	int64_t end = usync_after(50 * MILLI);

	(void)unused;
	while (usync_after(0) < end)
		;
}

/* Of the scheduler: the longest run of a thread, or -1 without a monitor. */
static double longest_stretch(void)
{
	char *text = metrics();
	const char *at = strstr(text, "\nusched_longest_stretch_seconds{");
	double longest = at ? strtod(strchr(at, ' '), NULL) : -1;

	free(text);
	return longest;
}

/* Half of the time, and more than once, as the monitor may get its turn late. */
TEST(test_longest)
{
	const struct uprocs_conf conf = { .c_processors = 1, .c_slice = MILLI };
	struct ustack *u;
	double longest = 0;
	void *s;

	TEST_EQUAL(over->o_create(&conf, &s), 0);
	for (int tries = 0; tries < 100 && longest >= 0 && longest <= 0.025; tries++) {
		TEST_EQUAL(over->o_start(s, keep_on, NULL, &u), 0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		longest = longest_stretch();
	}
	TEST_TRUE(longest < 0 || (longest > 0.025 && longest < 600));
	TEST_EQUAL(over->o_destroy(s), 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
