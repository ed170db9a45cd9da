/* SPDX-License-Identifier: MIT */
/*
 * test_report_wait.c: the report of a deadlock: each way to wait, and when there is none;
 * and that of threads that are left at the deadline of uprocs_destroy().
 */
#include "../help/report.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../../src/base/sim.h"
#include "../../unet.h"
#include "../../uoffload.h"

/* ---- Ways to wait ---- */

static const struct way *const wake = &ways[WAIT_at_wake];

static void tell_each(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *u[WAITS];

	prepare_waits();
	for (int i = 0; i < WAITS - 2; i++)
		assert_int_equal(over->o_start(s, ways[i].w_func, NULL, &u[i]), 0);
	assert_int_equal(ustack_join(u[0], NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, WAITS - 2 + 1);
	assert_null(line_with("cycle"));
	for (int i = 0; i < WAITS - 2; i++)
		check_line(u[i], i);
	for (int i = 0; i < WAITS - 2; i++)
		help_out(u[i], i);
	for (int i = 0; i < WAITS - 2; i++)
		assert_int_equal(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
	end_waits();
}

TEST_CASE(test_told_each, each_conf, tell_each)

/* Their scheduler ends joins with an error. */
static void tell_joins(const struct uprocs_conf *conf)
{
	for (int i = WAIT_at_join; i <= WAIT_at_later_join; i++) {
		void *s = make_told(conf, keep_line);
		struct ustack *u;

		prepare_waits();
		assert_int_equal(over->o_start(s, wake->w_func, NULL, &to.thread), 0);
		assert_int_equal(over->o_start(s, ways[i].w_func, NULL, &u), 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
		assert_int_equal(line_count, 3);
		check_line(u, i);
		check_line(to.thread, WAIT_at_wake);
		assert_int_equal(ustack_wake(to.thread), 0);
		assert_int_equal(ustack_join(to.thread, NULL, USCHED_NEVER), 0);
		assert_int_equal(over->o_destroy(s), 0);
		end_waits();
	}
}

TEST_CASE(test_told_joins, each_conf, tell_joins)

/* A wait for the threads of a scope names the scope. */
struct led {
	struct usync_scope *l_scope;
	struct ustack      *l_member;
};

static int wait_in_scope(void *unused)
{
	(void)unused;
	return ustack_wait();
}

static void lead(void *arg)
{
	struct led *l = arg;

	TEST_EQUAL(usync_scope_start(l->l_scope, wait_in_scope, NULL, &l->l_member), 0);
	TEST_EQUAL(usync_scope_wait(l->l_scope, USCHED_NEVER), 0);
}

static void tell_scope(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct led led = { NULL, NULL };
	char text[80];
	struct ustack *u;

	assert_int_equal(usync_scope_create(NULL, &led.l_scope, USCHED_NEVER), 0);
	snprintf(text, sizeof text, "waits for scope %p, not done: 1,",
		 (void *)led.l_scope);
	assert_int_equal(over->o_start(s, lead, &led, &u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 3);
	assert_non_null(line_with(text));
	assert_int_equal(ustack_wake(led.l_member), 0);
	assert_int_equal(ustack_join(led.l_member, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	usync_scope_release(led.l_scope);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_told_scope, each_conf, tell_scope)

/* ---- Descriptors ---- */

/* A wait for a descriptor may end, so nothing is reported while it lasts. */
static void read_one(void *fd)
{
	uint64_t value;

	TEST_EQUAL(unet_read(*(int *)fd, &value, 8, USCHED_NEVER), 8);
	TEST_EQUAL(line_count, 0);
}

static void *write_late(void *fd)
{
	nanosleep(&(struct timespec){ 0, 20 * MILLISECOND }, NULL);
	TEST_EQUAL(eventfd_write(*(int *)fd, 1), 0);
	return NULL;
}

static void tell_after_read(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct ustack *waits_for_wake, *reads;
	pthread_t native;

	assert_int_equal(over->o_start(s, wake->w_func, NULL, &waits_for_wake), 0);
	assert_int_equal(over->o_start(s, read_one, &fd, &reads), 0);
	assert_int_equal(pthread_create(&native, NULL, write_late, &fd), 0);
	assert_int_equal(ustack_join(reads, NULL, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(waits_for_wake, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 2);
	check_line(waits_for_wake, WAIT_at_wake);
	assert_int_equal(ustack_wake(waits_for_wake), 0);
	assert_int_equal(ustack_join(waits_for_wake, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
	close(fd);
}

TEST_CASE(test_told_after_read, each_conf, tell_after_read)

/* ---- Standstill ---- */

/*
 * A native thread that does not hold the scheduler wakes a thread in the middle of a
 * report. The thread does not run before the report ends.
 */
static struct {
	struct ustack *_Atomic thread;
	atomic_bool             told;
	atomic_bool             woken;
	atomic_bool             ran;
	bool                    ran_early;
} meddled;

static void hear_first_line(const char *line)
{
	keep_line(line);
	if (line_count > 1)
		return;
	meddled.told = true;
	while (!meddled.woken)
		sched_yield();
	nanosleep(&(struct timespec){ 0, 20 * MILLISECOND }, NULL);
	meddled.ran_early = meddled.ran;
}

static void *meddle(void *unused)
{
	while (!meddled.told)
		sched_yield();
	TEST_EQUAL(ustack_wake(meddled.thread), 0);
	meddled.woken = true;
	return unused;
}

static void wait_then_run(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
	meddled.ran = true;
}

static void meddle_with(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, hear_first_line);
	struct ustack *u;
	pthread_t native;

	memset(&meddled, 0, sizeof meddled);
	assert_int_equal(over->o_start(s, wait_then_run, NULL, &u), 0);
	meddled.thread = u;
	assert_int_equal(pthread_create(&native, NULL, meddle, NULL), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
	assert_true(meddled.ran);
	assert_false(meddled.ran_early);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_told_standstill, each_conf, meddle_with)

/* ---- What is left ---- */

static atomic_bool go_on;
static atomic_int  busy;

static void sleep_long(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(3600 * USYNC_SECOND)), -ECANCELED);
}

static void yield_long(void *unused)
{
	(void)unused;
	for (busy++; !go_on; )
		TEST_EQUAL(ustack_yield(), 0);
}

static void compute_long(void *unused)
{
	(void)unused;
	for (busy++; !go_on; )
		sched_yield();
}

static void sleep_in_pool(void *unused)
{
	(void)unused;
	while (!go_on)
		sched_yield();
}

static void offload_long(void *unused)
{
	(void)unused;
	TEST_EQUAL(uoffload(sleep_in_pool, NULL, NULL, 0, USCHED_NEVER), 0);
}

static int destroy_soon(void *s)
{
	return uprocs_destroy(s, usync_after(5 * MILLISECOND));
}

/* The last line with such a text; or NULL. */
static const char *last_with(const char *text)
{
	for (unsigned i = line_count; i-- > 0; )
		if (strstr(lines[i], text))
			return lines[i];
	return NULL;
}

/* On a busy machine a thread may not have begun, or not give way in time. */
static void await_line(void *s, const struct ustack *u, const char *name,
		       const char *what)
{
	char text[64];
	const char *line;

	snprintf(text, sizeof text, "thread %p%s, function 0x", (const void *)u, name);
	while (!(line = last_with(text)) || !strstr(line, what)) {
		TEST_TRUE(line_count < LINES - 8);
		assert_int_equal(destroy_soon(s), -ETIMEDOUT);
	}
}

/* What waits, and what is ready. Then the call is made again, in vain, and succeeds. */
static void leave(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *waits_for_wake, *sleeps, *yields, *offloads;
	const struct ustack_how named = { .h_name = "sleeper" };

	go_on = false;
	busy = 0;
	assert_int_equal(over->o_start(s, wake->w_func, NULL, &waits_for_wake), 0);
	assert_int_equal(over->o_start_with(s, &named, sleep_long, NULL, &sleeps), 0);
	assert_int_equal(over->o_start(s, yield_long, NULL, &yields), 0);
	assert_int_equal(over->o_start(s, offload_long, NULL, &offloads), 0);
	while (!SIMULATED && busy < 1)
		sched_yield();
	await_line(s, waits_for_wake, "", test_has_stacks() ? ", waits for a wake, at 0x"
		   : ", waits for a wake");
	await_line(s, sleeps, " \"sleeper\"", ", waits for a time, ");
	await_line(s, yields, "", ", is ready");
	await_line(s, offloads, "", " offload_long), waits for the pool of native "
		   "threads, at 0x");
	assert_non_null(strstr(strstr(last_with(" offload_long), waits for"), ", at 0x"),
			       " offload_long)"));
	assert_non_null(last_with("are left at the deadline: 4"));
	assert_int_equal(destroy_soon(s), -ETIMEDOUT);
	assert_non_null(last_with(" as before"));
	go_on = true;
	assert_int_equal(ustack_wake(waits_for_wake), 0);
	assert_int_equal(ustack_cancel(sleeps), 0);
	assert_int_equal(uprocs_destroy(s, usync_after(3600 * USYNC_SECOND)), 0);
}

TEST_CASE(test_left, each_conf, leave)

/* One that computes for ever, and one that has not had its turn. */
static void leave_busy(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	const struct ustack_how named = { .h_name = "busy" };
	bool single = conf->c_processors == 1;

	if (SIMULATED) {                        /* it would never end */
		assert_int_equal(over->o_destroy(s), 0);
		return;
	}
	go_on = false;
	busy = 0;
	assert_int_equal(over->o_start_with(s, &named, compute_long, NULL, NULL), 0);
	while (busy < 1)
		sched_yield();
	if (single)
		assert_int_equal(over->o_start(s, yield_long, NULL, NULL), 0);
	assert_int_equal(destroy_soon(s), -ETIMEDOUT);
	assert_non_null(last_with(single ? "left at the deadline: 2"
				  : "left at the deadline: 1"));
	assert_non_null(last_with(single ? " does not give way: of 2 threads it runs"
				  : " does not give way: of 1 threads it runs"));
	assert_non_null(last_with(" \"busy\", function 0x"));
	go_on = true;
	assert_int_equal(uprocs_destroy(s, usync_after(3600 * USYNC_SECOND)), 0);
}

TEST_CASE(test_left_busy, each_conf, leave_busy)

/*
 * A deadlock is found although the deadline is far; not while a native thread holds the
 * scheduler. A deadline that has come does if all is over.
 */
static void leave_stuck(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *u;
	unsigned said;

	assert_int_equal(over->o_start(s, wake->w_func, NULL, &u), 0);
	over->o_hold(s);
	assert_int_equal(destroy_soon(s), -ETIMEDOUT);
	assert_non_null(last_with("deadline: 1, holds: 1"));
	said = line_count;
	assert_int_equal(uprocs_destroy(s, 0), -ETIMEDOUT);
	assert_int_equal(line_count, said);     /* a question is no report */
	over->o_release(s);
	assert_int_equal(uprocs_destroy(s, usync_after(3600 * USYNC_SECOND)), -EDEADLK);
	assert_non_null(last_with("deadlock: "));

	s = make_told(conf, keep_line);
	assert_int_equal(over->o_start(s, wake->w_func, NULL, &u), 0);
	assert_int_equal(ustack_wake(u), 0);
	assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(s, 0), 0);
	assert_int_equal(line_count, 0);
}

TEST_CASE(test_left_stuck, each_conf, leave_stuck)

int main(void)
{
	return over_all(OVER_PROCS);
}
