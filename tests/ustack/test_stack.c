/* SPDX-License-Identifier: MIT */
/*
 * test_stack.c: the calls of ustack.h that no other program is about: names, threads that
 * start by a how, yields and joins that are cancelled; over every scheduler.
 */
#include "../help/over.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../../usync.h"

static void *make(void)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = 2 };
	void *s;

	assert_int_equal(over->o_create(&conf, &s), 0);
	return s;
}

static struct usync_sem go_on;

static void wait_to_end(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sem_wait(&go_on, USCHED_NEVER), 0);
}

/* ---- Descriptors ---- */

struct call {
	int           c_fd;
	int           c_got;
	unsigned char c_room[40];
};

static void take_fd(int fd, void *arg)
{
	struct call *c = arg;

	c->c_got = fd;
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(c->c_got, fd);
	TEST_EQUAL(fd, c->c_fd);
}

static void take_none(void *arg)
{
	struct call *c = arg;

	c->c_got = -2;
}

/* Any number, also where threads that take one and threads that do not come in turns. */
TEST(test_start_fd)
{
	static struct call calls[] = { { .c_fd = 0 }, { .c_fd = 3 },
				      { .c_fd = INT_MAX - 1 },
				       { .c_fd = 0 } };
	static struct call others[4];
	struct ustack *threads[8];
	void *s = make();

	for (int i = 0; i < 4; i++) {
		calls[i].c_got = -1;
		assert_int_equal(over->o_start_with(s, TEST_FD(take_fd, calls[i].c_fd),
						    NULL, &calls[i], &threads[2 * i]), 0);
		assert_int_equal(over->o_start(s, take_none, &others[i],
					       &threads[2 * i + 1]), 0);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(calls[i].c_got, calls[i].c_fd);
		assert_int_equal(others[i].c_got, -2);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

TEST(test_start_fd_errors)
{
	struct ustack *thread;
	void *s = make();

	if (over->o_procs) {
		struct ustack_how how = { .h_serve = take_fd, .h_fd = -1 };

		assert_int_equal(over->o_start_with(s, &how, NULL, NULL, &thread),
				 -EINVAL);
		how.h_fd = INT_MAX;
		assert_int_equal(over->o_start_with(s, &how, NULL, NULL, &thread),
				 -EINVAL);
		how.h_fd = 0;
		assert_int_equal(over->o_start_with(s, &how, wait_to_end, NULL, &thread),
				 -EINVAL);
		how.h_serve = NULL;
		assert_int_equal(over->o_start_with(s, &how, NULL, NULL, &thread),
				 -EINVAL);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- Names ---- */

TEST(test_name)
{
	char text[USTACK_NAME_MAX + 8] = "untouched";
	char longer[USTACK_NAME_MAX + 8];
	struct ustack *one, *other;
	void *s = make();

	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &one), 0);
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &other), 0);
	if (!over->o_procs) {
		assert_int_equal(ustack_name(one, "name"), -ENOTSUP);
		assert_int_equal(ustack_get_name(one, text, sizeof text), -ENOTSUP);
		assert_string_equal(text, "untouched");
	} else {
		assert_int_equal(ustack_get_name(one, text, sizeof text), -ENOENT);
		assert_string_equal(text, "");
		assert_int_equal(ustack_name(one, "first"), 0);
		assert_int_equal(ustack_name(other, longer), 0);
		assert_int_equal(ustack_get_name(one, text, sizeof text), 0);
		assert_string_equal(text, "first");
		assert_int_equal(ustack_get_name(one, text, 3), 0);
		assert_string_equal(text, "fi");
		assert_int_equal(ustack_get_name(one, NULL, 0), 0);
		assert_int_equal(ustack_get_name(other, text, sizeof text), 0);
		assert_int_equal(strlen(text), USTACK_NAME_MAX - 1);
		assert_int_equal(ustack_name(one, "second"), 0);
		assert_int_equal(ustack_get_name(one, text, sizeof text), 0);
		assert_string_equal(text, "second");
		assert_int_equal(ustack_name(one, NULL), 0);
		assert_int_equal(ustack_get_name(one, text, sizeof text), -ENOENT);
		assert_int_equal(ustack_name(one, ""), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(usync_sem_post(&go_on), 0);
	assert_int_equal(ustack_join(one, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(other, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* Names are printed as they are: they have whole characters, and none that controls. */
TEST(test_name_text)
{
	static const char *const names[][2] = {
		{ "plain ~", "plain ~" },
		{ "a\n\033[2J\t\177b", "a??[2J??b" },
		{ "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		  "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\xc2\x9b" "2J", "??2J" },
		{ "\xc3", "?" }, { "\xe2\x82", "??" }, { "\xe2" "a", "?a" },
		{ "\x80\xbf\xff\xf8", "????" }, { "\xc0\xaf", "??" },
		{ "\xe0\x9f\xbf", "???" }, { "\xfc\x80\x80\x80", "????" },
		{ "\xed\xa0\x80", "???" }, { "\xf0\x8f\xbf\xbf", "????" },
		{ "\xf4\x90\x80\x80", "????" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "123456789012345678901234567890\xc3\xa9",
		  "123456789012345678901234567890" },
		{ "12345678901234567890123456789\xc3\xa9z",
		  "12345678901234567890123456789\xc3\xa9" },
		{ "123456789012345678901234567890\xc3",
		  "123456789012345678901234567890?" },
	};
	char text[USTACK_NAME_MAX];
	struct ustack *u;
	void *s;

	if (!over->o_procs)
		skip();
	s = make();
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &u), 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_int_equal(ustack_name(u, names[i][0]), 0);
		assert_int_equal(ustack_get_name(u, text, sizeof text), 0);
		assert_string_equal(text, names[i][1]);
	}
	assert_int_equal(usync_sem_post(&go_on), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* The next thread with the record has no name, and one that has ended gets none. */
TEST(test_name_ends)
{
	struct ustack *old, *new;
	char text[USTACK_NAME_MAX];
	void *s;

	if (!over->o_procs)
		skip();
	s = make();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(over->o_start(s, wait_to_end, NULL, &old), 0);
		assert_int_equal(ustack_name(old, "old"), 0);
		assert_int_equal(usync_sem_post(&go_on), 0);
		while (i % 2 && ustack_wake(old) != -ESRCH)
			sched_yield();
		if (i % 2)              /* this drops a name, too */
			assert_int_equal(ustack_name(old, "late"), -ESRCH);
		assert_int_equal(ustack_join(old, NULL, USCHED_NEVER), 0);
		assert_int_equal(ustack_get_name(old, text, sizeof text), -ENOENT);
		assert_int_equal(over->o_start(s, wait_to_end, NULL, &new), 0);
		assert_int_equal(ustack_get_name(new, text, sizeof text), -ENOENT);
		assert_int_equal(usync_sem_post(&go_on), 0);
		assert_int_equal(ustack_join(new, NULL, USCHED_NEVER), 0);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- All that a how has ---- */

static int    kept;                     /* what keep() was given */
static char   told[USTACK_NAME_MAX];    /* the name of the thread that calls it */
static size_t deep;                     /* bytes of its frames */

static void keep(int fd, void *arg)
{
	volatile char room[32 << 10];

	room[0] = room[sizeof room - 1] = 1;
	deep = sizeof room * (size_t)room[0];
	TEST_EQUAL(ustack_get_name(ustack_self(), told, sizeof told), 0);
	__atomic_store_n(&kept, fd, __ATOMIC_RELEASE);
	TEST_EQUAL(usync_sem_wait(arg, USCHED_NEVER), 0);
}

/*
 * A descriptor, a name, a stack, a processor, and detached with a handle. What is
 * refused leaves nothing behind: neither a stack that counts, nor a name.
 */
TEST(test_how)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stack_size = 16 << 10,
				    .c_alone = 1 };
	struct ustack_how how = { .h_serve = keep, .h_name = "keeper", .h_detached = 1 };
	struct ustack *thread, *next;
	char text[USTACK_NAME_MAX];
	struct usync_sem go = { 0 };
	void *s;

	if (!over->o_procs)
		skip();
	if (test_has_stacks())
		how.h_stack = 64 << 10;
	assert_int_equal(over->o_create(&conf, &s), 0);
	for (int i = 0; i < 100; i++) {
		how.h_fd = i;
		if (over == &over_rr)
			how.h_processor = USCHED_ON(i % 2);
		__atomic_store_n(&kept, -1, __ATOMIC_RELAXED);
		while (over->o_start_with(s, &how, NULL, &go, &thread) == -EAGAIN)
			sched_yield();          /* the end of the last one is seen */
		while (__atomic_load_n(&kept, __ATOMIC_ACQUIRE) != i)
			sched_yield();
		if (test_has_stacks())
			assert_int_equal(over->o_start_with(s, &how, NULL, &go, &next),
					 -EAGAIN);
		assert_int_equal(ustack_get_name(thread, text, sizeof text), 0);
		assert_string_equal(text, "keeper");
		assert_int_equal(ustack_join(thread, NULL, 0), -EINVAL);
		assert_int_equal(usync_sem_post(&go), 0);
		while (ustack_wake(thread) != -ESRCH)
			sched_yield();
		assert_string_equal(told, "keeper");
		assert_int_equal(deep, 32 << 10);
	}
	how = (struct ustack_how){ .h_processor = USCHED_ON(2), .h_name = "nothing" };
	assert_int_equal(over->o_start_with(s, &how, wait_to_end, NULL, &next), -EINVAL);
	assert_int_equal(over->o_destroy(s), 0);
}

static char reported[4096];

static void log_line(const char *line)
{
	strncat(reported, line, sizeof reported - strlen(reported) - 1);
}

static void wait_for_ever(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
}

/* A deadlock is reported with the names of threads. */
TEST(test_name_reported)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_log = log_line };
	struct ustack *one, *other;
	void *s;

	if (!over->o_procs)
		skip();
	reported[0] = '\0';
	assert_int_equal(over->o_create(&conf, &s), 0);
	assert_int_equal(over->o_start(s, wait_for_ever, NULL, &one), 0);
	assert_int_equal(over->o_start(s, wait_for_ever, NULL, &other), 0);
	assert_int_equal(ustack_name(one, "first"), 0);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
	assert_non_null(strstr(reported, " \"first\", function "));
	assert_null(strstr(strstr(reported, "\"first\"") + 8, "\""));
}

/* ---- Cancel ---- */

struct pair {
	struct ustack   *p_other;
	struct usync_sem p_started;
	int              p_rc;
	bool             p_attach;
};

static void join_other(void *arg)
{
	struct pair *p = arg;

	if (p->p_attach)
		TEST_EQUAL(usync_sem_wait(&p->p_started, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_sem_post(&p->p_started), 0);
	p->p_rc = ustack_join(p->p_other, NULL, USCHED_NEVER);
	TEST_EQUAL(ustack_join(p->p_other, NULL, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(ustack_yield(), -ECANCELED);
	TEST_EQUAL(ustack_cancelled(), 1);
	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_shield(0), 1);
	TEST_EQUAL(ustack_yield(), -ECANCELED);
}

/* A join without a deadline ends, whether the thread has waited before or not. */
TEST(test_cancel_join)
{
	static struct pair p;
	struct ustack *thread;
	void *s = make();

	for (int i = 0; i < 4; i++) {
		p = (struct pair){ .p_attach = i % 2 };
		assert_int_equal(over->o_start(s, wait_to_end, NULL, &p.p_other), 0);
		assert_int_equal(over->o_start(s, join_other, &p, &thread), 0);
		if (i < 2)
			assert_int_equal(usync_sem_wait(&p.p_started, USCHED_NEVER), 0);
		assert_int_equal(ustack_cancel(thread), 0);
		assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
		assert_int_equal(p.p_rc, -ECANCELED);
		assert_int_equal(usync_sem_post(&go_on), 0);
		assert_int_equal(ustack_join(p.p_other, NULL, USCHED_NEVER), 0);
	}
	assert_int_equal(over->o_destroy(s), 0);
}

/* A shield keeps a join going. */
static void join_shielded(void *arg)
{
	struct pair *p = arg;

	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(usync_sem_post(&p->p_started), 0);
	p->p_rc = ustack_join(p->p_other, NULL, USCHED_NEVER);
	TEST_EQUAL(ustack_cancelled(), 1);
}

TEST(test_cancel_shielded_join)
{
	static struct pair p;
	struct ustack *thread;
	void *s = make();

	p = (struct pair){ .p_rc = 1 };
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &p.p_other), 0);
	assert_int_equal(over->o_start(s, join_shielded, &p, &thread), 0);
	assert_int_equal(usync_sem_wait(&p.p_started, USCHED_NEVER), 0);
	assert_int_equal(ustack_cancel(thread), 0);
	assert_int_equal(usync_sem_post(&go_on), 0);
	assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(p.p_rc, 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- A join that does not wait ---- */

static void join_at_once(void *arg)
{
	struct pair *p = arg;

	TEST_EQUAL(ustack_join(ustack_self(), NULL, 0), -EDEADLK);
	TEST_EQUAL(ustack_join(p->p_other, NULL, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_sem_post(&go_on), 0);
	TEST_EQUAL(ustack_join(p->p_other, NULL, -1), -ETIMEDOUT);    /* it has not run */
	while ((p->p_rc = ustack_join(p->p_other, NULL, 0)) == -ETIMEDOUT)
		TEST_EQUAL(ustack_yield(), 0);
}

/* Nothing runs between a join with deadline 0 and its return. */
TEST(test_join_at_once)
{
	static struct pair p;
	struct ustack *thread, *detached;
	void *s = make();

	p = (struct pair){ .p_rc = 1 };
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &p.p_other), 0);
	assert_int_equal(over->o_start(s, join_at_once, &p, &thread), 0);
	assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(p.p_rc, 0);
	assert_int_equal(over->o_start(s, wait_to_end, NULL, &detached), 0);
	assert_int_equal(ustack_detach(detached), 0);
	assert_int_equal(ustack_join(detached, NULL, 0), -EINVAL);
	assert_int_equal(usync_sem_post(&go_on), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- Outside ---- */

TEST(test_outside)
{
	assert_null(ustack_self());
	assert_int_equal(ustack_wait(), -EPERM);
	assert_int_equal(ustack_yield(), -EPERM);
	assert_int_equal(ustack_cancelled(), 0);
	assert_int_equal(ustack_shield(1), 0);
	assert_int_equal(ustack_shield(0), 1);
}

/* ---- Errors ---- */

static void error_texts(void *unused)
{
	static const int own[] = {
		ETIMEDOUT, ECANCELED, EPIPE, EDEADLK, EOVERFLOW, ESRCH, EBADF, ETIME,
		EMSGSIZE, EXDEV, EFAULT, EPERM, EINVAL,
	};
	bool is_own[200] = { false };

	(void)unused;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		is_own[own[i]] = true;
	for (int error = 1; error < 200; error++) {
		const char *text = ustack_error(-error), *system = strerror(error);

		TEST_EQUAL(text == ustack_error(-error), true);
		TEST_EQUAL(strlen(text) > 0, true);
		if (is_own[error])
			TEST_EQUAL(strcmp(text, system) != 0, true);
		else if (!strstr(system, "nknown") && !strstr(system, "No error"))
			TEST_EQUAL(strcmp(text, system), 0);
		else
			TEST_EQUAL(strcmp(text, "unknown error"), 0);
	}
	TEST_EQUAL(strcmp(ustack_error(-ETIMEDOUT), "the deadline has passed"), 0);
	assert_non_null(strstr(ustack_error(-EPERM), "in a thread"));
	assert_non_null(strstr(ustack_error(-EINVAL), "unet_resolve()"));
	assert_non_null(strstr(ustack_error(-EDEADLK), "has the lock"));
	TEST_EQUAL(strcmp(ustack_error(INT_MIN), "unknown error"), 0);
	TEST_EQUAL(strcmp(ustack_error(0), "no error"), 0);
	TEST_EQUAL(strcmp(ustack_error(EPIPE), "no error"), 0);
}

/* In a thread and outside: the library's texts, and else the system's. */
TEST(test_error_texts)
{
	struct ustack *thread;
	void *s = make();

	error_texts(NULL);
	assert_int_equal(over->o_start(s, error_texts, NULL, &thread), 0);
	assert_int_equal(ustack_join(thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

int main(void)
{
	return over_all(OVER_ALL);
}
