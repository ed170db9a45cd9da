/* SPDX-License-Identifier: MIT */
/*
 * test_inspect.c: dumps of all threads: each state, the calls that threads found
 * themselves before they blocked, and that a dump does no harm, nor what goes on
 * meanwhile to the dump.
 */
#include "../help/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../debug/uinspect.h"
#include "../../unet.h"

static char *dump(unsigned how)
{
	FILE *file = tmpfile();

	TEST_TRUE(file);
	TEST_EQUAL(uinspect_dump(fileno(file), how), 0);
	return test_contents(file);
}

/* The line of a thread; NULL: there is none, or the thread moved and has two. */
static const char *line_of(const char *text, const struct ustack *u)
{
	char name[40];
	const char *at;

	snprintf(name, sizeof name, "\nthread %p", (const void *)u);
	at = strstr(text, name);
	return at && !strstr(at + 1, name) ? at + 1 : NULL;
}

/* The head of its group. */
static const char *group_of(const char *text, const char *line)
{
	while (line > text + 2 && !(line[-1] == '\n' && line[-2] == '\n'))
		line--;
	return line;
}

static bool line_has(const char *line, const char *what)
{
	const char *at = strstr(line, what), *end = strchr(line, '\n');

	return at && at < end;
}

static void expect(const char *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void expect(const char *line, const char *format, ...)
{
	char what[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	if (line && line_has(line, what))
		return;
	fprintf(stderr, "\"%s\" is not in \"%.300s\"\n", what, line ? line : "");
	abort();
}

/* Dumps until the thread is in such a state. */
static char *await_state(const struct ustack *u, unsigned how, const char *state)
{
	for (;;) {
		char *text = dump(how);
		const char *line = line_of(text, u);

		if (line && line_has(group_of(text, line), state))
			return text;
		free(text);
		nanosleep(&(struct timespec){ 0, MILLISECOND }, NULL);
	}
}

/* ---- States ---- */

static void check_way(int way, const struct ustack *u)
{
	static const char *const what[WAITS] = {
		[WAIT_at_mutex] = "waits for mutex",
		[WAIT_at_read] = "waits for reader-writer lock to read",
		[WAIT_at_write] = "waits for reader-writer lock to write",
		[WAIT_at_cond] = "waits for condition",
		[WAIT_at_sem] = "waits for semaphore",
		[WAIT_at_group] = "waits for group",
		[WAIT_at_send] = "waits for channel to send",
		[WAIT_at_recv] = "waits for channel to receive",
		[WAIT_at_select] = "waits for channel to send",
		[WAIT_at_nothing] = "waits for no channel",
		[WAIT_at_time] = "waits for a time that never comes",
		[WAIT_at_grant] = "waits for a grant",
		[WAIT_at_wake] = "waits for a wake",
	};
	const void *const objects[WAITS] = {
		[WAIT_at_mutex] = &to.mutex, [WAIT_at_read] = &to.written,
		[WAIT_at_write] = &to.read, [WAIT_at_cond] = &to.cond,
		[WAIT_at_sem] = &to.sem, [WAIT_at_group] = &to.group,
		[WAIT_at_send] = to.chan[0], [WAIT_at_recv] = to.chan[1],
		[WAIT_at_select] = to.chan[2],
	};
	char *text = await_state(u, UINSPECT_BRIEF, what[way]);
	const char *line = line_of(text, u), *group = group_of(text, line);

	expect(group, "1 thread, function 0x%" PRIxPTR, (uintptr_t)ways[way].w_func);
	expect(group, ", %s\n", what[way]);
	expect(line, " \"%s\", processor 0.", ways[way].w_name);
	if (objects[way])
		expect(line, " %p", objects[way]);
	if (way == WAIT_at_mutex || way == WAIT_at_read)
		expect(line, ", held by 0x%" PRIxPTR, uwait_name());
	if (way == WAIT_at_write)
		expect(line, ", readers: 1");
	if (way == WAIT_at_group)
		expect(line, ", not done: 3");
	if (way == WAIT_at_select)
		expect(line, " or channel %p to receive", (void *)to.chan[2]);
	free(text);
}

/* Joins end otherwise in report.h. */
static void join_it(void *arg)
{
	(void)arg;
	TEST_EQUAL(ustack_join(to.thread, NULL, USCHED_NEVER), 0);
}

static void show_join(void *s)
{
	struct ustack *u;
	const char *line;
	char *text;

	TEST_EQUAL(over->o_start(s, ways[WAIT_at_wake].w_func, NULL, &to.thread), 0);
	TEST_EQUAL(ustack_name(to.thread, "joined"), 0);
	TEST_EQUAL(over->o_start(s, join_it, NULL, &u), 0);
	free(await_state(u, 0, "joins"));
	text = await_state(u, 0, "joins");      /* after the join was seen */
	line = line_of(text, to.thread);
	expect(line, " \"joined\", processor 0.");
	expect(line, ", joined by %p", (void *)u);
	free(text);
	TEST_EQUAL(ustack_wake(to.thread), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

static void fill(int fd)
{
	static const char block[4096];

	while (send(fd, block, sizeof block, MSG_DONTWAIT) > 0)
		;
}

/* A select may wait for channels and descriptors, in the order of its cases. */
static void select_mixed(void *fd)
{
	size_t value;
	struct usync_case cases[] = {
		{ .cs_op = USYNC_READABLE, .cs_fd = *(int *)fd },
		{ .cs_chan = to.chan[1], .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_op = USYNC_WRITABLE, .cs_fd = -1 },
		{ .cs_op = USYNC_READABLE, .cs_fd = *(int *)fd },
	};

	/* It is there twice. */
	TEST_EQUAL(usync_select(cases, 4, USCHED_NEVER) % 3, 0);
}

static void select_after_channel(void *fd)
{
	size_t value;
	struct usync_case cases[] = {
		{ .cs_chan = to.chan[1], .cs_op = USYNC_RECV, .cs_value = &value },
		{ .cs_op = USYNC_READABLE, .cs_fd = *(int *)fd },
	};

	TEST_EQUAL(usync_select(cases, 2, USCHED_NEVER), 1);
}

static void read_byte(void *fd)
{
	TEST_EQUAL(unet_wait(*(int *)fd, POLLIN, USCHED_NEVER), 0);
}

static void select_full(void *fd)
{
	struct usync_case cases[] = {
		{ .cs_op = USYNC_READABLE, .cs_fd = *(int *)fd },
		{ .cs_op = USYNC_WRITABLE, .cs_fd = *(int *)fd },
	};

	TEST_EQUAL(usync_select(cases, 2, USCHED_NEVER), 0);
}

static void show_select(void *s)
{
	static void (*const funcs[])(void *) = {
		select_mixed, select_after_channel, select_full
	};
	int fds[2];

	for (size_t i = 0; i < sizeof funcs / sizeof *funcs; i++) {
		struct ustack *u;
		const char *line;
		char *text;

		TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		if (funcs[i] == select_full)
			fill(fds[0]);
		TEST_EQUAL(over->o_start(s, funcs[i], &fds[0], &u), 0);
		text = await_state(u, UINSPECT_BRIEF, i == 1
				   ? "waits for channel to receive"
				   : "waits for descriptor to read");
		line = line_of(text, u);
		if (i == 0)
			expect(line, " %d or channel %p to receive or descriptor %d to "
			       "read\n", fds[0], (void *)to.chan[1], fds[0]);
		else if (i == 1)
			expect(line, " %p or descriptor %d to read\n",
			       (void *)to.chan[1], fds[0]);
		else
			expect(line, " %d or descriptor %d to write\n", fds[0], fds[0]);
		free(text);
		TEST_EQUAL(write(fds[1], "x", 1), 1);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		TEST_EQUAL(unet_close(fds[0]) + close(fds[1]), 0);
	}
}

static struct ustack *in_scope;         /* atomic */

static int wait_in_scope(void *unused)
{
	(void)unused;
	__atomic_store_n(&in_scope, ustack_self(), __ATOMIC_RELEASE);
	return ustack_wait();
}

/* The first dump comes before the new thread has run. */
static void start_in_scope(void *text)
{
	struct usync_scope *scope;

	TEST_EQUAL(usync_scope_create(NULL, &scope, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_start(scope, wait_in_scope, NULL, NULL), 0);
	__atomic_store_n((char **)text, dump(UINSPECT_BRIEF), __ATOMIC_RELEASE);
	TEST_EQUAL(usync_scope_wait(scope, USCHED_NEVER), 0);
	usync_scope_release(scope);
}

/* A thread that a scope has started is named by the program's function. */
static void show_scope(void *s)
{
	static char *first;             /* not in frames: threads write it */
	char function[40], *text;
	struct ustack *u;

	in_scope = NULL;
	first = NULL;
	snprintf(function, sizeof function, "1 thread, function 0x%" PRIxPTR,
		 (uintptr_t)wait_in_scope);
	TEST_EQUAL(over->o_start(s, start_in_scope, &first, &u), 0);
	while (!__atomic_load_n(&in_scope, __ATOMIC_ACQUIRE)
	       || !__atomic_load_n(&first, __ATOMIC_ACQUIRE))
		nanosleep(&(struct timespec){ 0, MILLISECOND }, NULL);
	text = await_state(in_scope, UINSPECT_BRIEF, "waits for a wake");
	expect(group_of(text, line_of(text, in_scope)), "%s", function);
	free(text);
	TEST_EQUAL(ustack_wake(in_scope), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	/* With more processors it may have been on its way to one. */
	TEST_TRUE(strstr(first, function) || strstr(first, "\nprocessor 0.1"));
	free(first);
}

/* A name has no character that a terminal acts on. */
static void show_descriptor(void *s)
{
	const char *line;
	struct ustack *u;
	char *text;
	int fds[2];

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	TEST_EQUAL(over->o_start(s, read_byte, &fds[0], &u), 0);
	TEST_EQUAL(ustack_name(u, "a\\ \"b\"\n"), 0);
	text = await_state(u, UINSPECT_BRIEF, "waits for descriptor to read");
	line = line_of(text, u);
	expect(line, " \"a\\ \"b\"?\", processor 0.");
	expect(line, ", descriptor %d\n", fds[0]);
	free(text);
	TEST_EQUAL(write(fds[1], "x", 1), 1);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(unet_close(fds[0]) + close(fds[1]), 0);
}

static void show_each(const struct uprocs_conf *conf)
{
	void *s;

	if (test_is_single())           /* dumps and joins run threads at other depths */
		skip();
	s = make_told(conf, keep_line);
	over->o_hold(s);
	prepare_waits();
	for (int way = 0; way < WAIT_at_join; way++) {
		struct ustack *u;

		TEST_EQUAL(over->o_start(s, ways[way].w_func, NULL, &u), 0);
		TEST_EQUAL(ustack_name(u, ways[way].w_name), 0);
		check_way(way, u);
		help_out(u, way);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	}
	show_join(s);
	show_select(s);
	show_scope(s);
	show_descriptor(s);
	over->o_release(s);
	TEST_EQUAL(over->o_destroy(s), 0);
	end_waits();
}

TEST_CASE(test_each_wait, each_conf, show_each)

/* test_uthreads.py has what is shown. */
TEST_ONCE(test_lost_refused)
{
	unsetenv("USCHED_LOST");
	TEST_EQUAL(uinspect_dump(STDERR_FILENO, UINSPECT_LOST), -ENOTSUP);
	setenv("USCHED_LOST", "/nowhere", 1);
	/* Under an emulator vfork() is fork(): then the child fails, not the start. */
	TEST_EQUAL(uinspect_dump(STDERR_FILENO, UINSPECT_LOST),
		   test_emulator_fails("forks") ? -EIO : -ENOENT);
	setenv("USCHED_LOST", "/bin/false", 1);
	TEST_EQUAL(uinspect_dump(STDERR_FILENO, UINSPECT_LOST), -EIO);
	TEST_EQUAL(uinspect_dump(-1, UINSPECT_LOST), -EBADF);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
