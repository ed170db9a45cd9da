/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Lines ---- */

char lines[LINES][LINE_SIZE];
unsigned line_count;

void keep_line(const char *line)
{
	TEST_TRUE(line_count < LINES);
	snprintf(lines[line_count++], LINE_SIZE, "%s", line);
}

void *make_told(const struct uprocs_conf *conf, void (*log)(const char *line))
{
	struct uprocs_conf c = *conf;
	void *s = NULL;

	c.c_log = log;
	line_count = 0;
	assert_int_equal(over->o_create(&c, &s), 0);
	return s;
}

const char *line_with(const char *text)
{
	const char *found = NULL;

	for (unsigned i = 0; i < line_count; i++) {
		if (!strstr(lines[i], text))
			continue;
		TEST_TRUE(!found);
		found = lines[i];
	}
	return found;
}

/* ---- Ways to wait ---- */

struct objects to;

static inline __attribute__((always_inline)) int on_cond(void)
{
	int rc;

	TEST_EQUAL(usync_mutex_lock(&to.with, USCHED_NEVER), 0);
	rc = usync_cond_wait(&to.cond, &to.with, USCHED_NEVER);
	TEST_EQUAL(usync_mutex_unlock(&to.with), 0);
	return rc;
}

static inline __attribute__((always_inline))
int on_channels(int value, struct usync_chan *second)
{
	struct usync_case cases[] = {
		{ NULL, USYNC_RECV, NULL, 0, 0 },
		{ second, USYNC_SEND, &value, 0, 0 },
		{ NULL, USYNC_RECV, NULL, 0, 0 },
		{ second, USYNC_RECV, &value, 0, 0 },
	};

	return usync_select(cases, 4, USCHED_NEVER);
}

static inline __attribute__((always_inline)) int on_grant(void)
{
	struct uwaiter *w;

	w = uwait_prepare(USCHED_NEVER, false);
	TEST_EQUAL(uwait_error(w), 0);
	uwait_begin(w);
	return uwait_block(w);
}

/* A thread that has waited before. */
static inline __attribute__((always_inline)) int on_later_join(void)
{
	TEST_TRUE(uwait_self());
	return ustack_join(to.thread, NULL, USCHED_NEVER);
}

#define DEFINE(name, call, error)                       \
	IN(name) static void name(void *arg)            \
	{                                               \
		int rc;                                 \
							\
		(void)arg;                              \
		rc = call;                              \
		TEST_EQUAL(rc, error);                  \
	}                                               \
	EXTENT(name)
FOR_WAITS(DEFINE)

#define ROW(name, call, error) { #name, name, __start_in_##name, __stop_in_##name },
const struct way ways[WAITS] = { FOR_WAITS(ROW) };

void prepare_waits(void)
{
	memset(&to, 0, sizeof to);
	TEST_EQUAL(usync_mutex_lock(&to.mutex, 0), 0);
	TEST_EQUAL(usync_rwlock_write(&to.written, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&to.read, 0), 0);
	TEST_EQUAL(usync_group_add(&to.group, 3), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(usync_chan_create(sizeof to.value, 0, &to.chan[i]), 0);
}

void end_waits(void)
{
	for (int i = 0; i < 3; i++)
		usync_chan_destroy(to.chan[i]);
}

/* The text of a line, behind the function. */
static void describe(int way, char text[LINE_SIZE])
{
	const struct {
		const char *before;
		const void *object;
		const char *after;
	} texts[WAITS] = {
		[WAIT_at_mutex]      = { "mutex", &to.mutex, "" },
		[WAIT_at_read]       = { "reader-writer lock", &to.written, " to read" },
		[WAIT_at_write]      = { "reader-writer lock", &to.read,
					 " to write, readers: 1" },
		[WAIT_at_cond]       = { "condition", &to.cond, "" },
		[WAIT_at_sem]        = { "semaphore", &to.sem, "" },
		[WAIT_at_group]      = { "group", &to.group, ", not done: 3" },
		[WAIT_at_send]       = { "channel", to.chan[0], " to send" },
		[WAIT_at_recv]       = { "channel", to.chan[1], " to receive" },
		[WAIT_at_select]     = { "channel", to.chan[2], " to send" },
		[WAIT_at_nothing]    = { "no channel", NULL, "" },
		[WAIT_at_time]       = { "a time that never comes", NULL, "" },
		[WAIT_at_grant]      = { "a grant", NULL, "" },
		[WAIT_at_wake]       = { "a wake", NULL, "" },
		[WAIT_at_join]       = { "joins thread", to.thread, "" },
		[WAIT_at_later_join] = { "joins thread", to.thread, "" },
	}, *t = &texts[way];
	const char *verb = way < WAIT_at_join ? "waits for " : "";
	char last[LINE_SIZE / 2] = "";

	if (way == WAIT_at_mutex || way == WAIT_at_read)
		snprintf(last, sizeof last, ", held by an outsider, 0x%" PRIxPTR,
			 uwait_name());
	if (way == WAIT_at_select)
		snprintf(last, sizeof last, " or channel %p to receive", t->object);
	if (t->object)
		snprintf(text, LINE_SIZE, "%s%s %p%s%s", verb, t->before, t->object,
			 t->after, last);
	else
		snprintf(text, LINE_SIZE, "%s%s", verb, t->before);
}

/* ---- Checks ---- */

/* An address, behind it the file and the offset there. */
static uintptr_t parse_address(const char *at)
{
	const char *format = "0x%" SCNxPTR " (%63[^+]+0x%" SCNxPTR;
	uintptr_t address = 0, offset = 0;
	char file[64];
	int n = sscanf(at, format, &address, file, &offset);

	TEST_EQUAL(n, 3);
	TEST_TRUE(strncmp(file, "test_report", 11) == 0);
	TEST_EQUAL((address - offset) % 4096, 0);       /* the file begins with a page */
	return address;
}

void check_text(const char *line, const struct way *w, const char *text)
{
	const char *function = strstr(line, "function ") + strlen("function ");
	const char *rest = strstr(line, text);
	uintptr_t address;

	TEST_EQUAL(parse_address(function), (uintptr_t)w->w_func);
	if (!rest)
		fail_msg("%s: \"%s\" is not in \"%s\"", w->w_name, text, line);
	rest += strlen(text);
	if ((w->w_func == at_wake && !test_has_stacks())
	    || strncmp(text, "joins", 5) == 0) {
		TEST_EQUAL(*rest, '\0');
		return;
	}
	TEST_TRUE(strncmp(rest, ", at ", 5) == 0);
	address = parse_address(rest + 5);
	if ((w->w_func != at_wake || (test_tail_calls() && test_inlines()))
	    && (address < (uintptr_t)w->w_start || address >= (uintptr_t)w->w_stop))
		fail_msg("%s: it is not where \"%s\" says", w->w_name, line);
}

void check_line(const struct ustack *u, int way)
{
	char thread[64], text[LINE_SIZE];
	const char *line;

	snprintf(thread, sizeof thread, "thread %p, function 0x", (const void *)u);
	line = line_with(thread);
	TEST_TRUE(line);
	describe(way, text);
	check_text(line, &ways[way], text);
}

void help_out(struct ustack *u, int way)
{
	if (way == WAIT_at_wake)
		TEST_EQUAL(ustack_wake(u), 0);
	else
		TEST_EQUAL(ustack_cancel(u), 0);
}
