/* SPDX-License-Identifier: MIT */
/*
 * test_report.c: the report of a deadlock: each way to wait, and when there is none; the
 * owners of mutexes; what is left out when many threads wait.
 */
#include "../help/report.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../../unet.h"

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

/* ---- Owners ---- */

static struct usync_mutex chain[3];
static atomic_uint locked;

/* Locks one, waits until all have locked one, and locks the next. */
static void lock_two(void *first)
{
	struct usync_mutex *m = first, *next = &chain[(m - chain + 1) % 3];

	TEST_EQUAL(usync_mutex_lock(m, USCHED_NEVER), 0);
	locked++;
	while (locked < 3)
		TEST_EQUAL(ustack_yield(), 0);
	if (usync_mutex_lock(next, USCHED_NEVER) == 0)
		TEST_EQUAL(usync_mutex_unlock(next), 0);        /* its owner gave up */
	TEST_EQUAL(usync_mutex_unlock(m), 0);
}

static void lock_first(void *first)
{
	while (locked < 3)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(usync_mutex_lock(first, USCHED_NEVER), 0);
	TEST_EQUAL(usync_mutex_unlock(first), 0);
}

static void check_holder(const struct ustack *u, const struct usync_mutex *m,
			 const void *owner, const char *state)
{
	char text[LINE_SIZE];
	const char *line;

	snprintf(text, sizeof text, "thread %p, function", (const void *)u);
	line = line_with(text);
	TEST_TRUE(line);
	snprintf(text, sizeof text, "waits for mutex %p, held by thread %p%s, at ",
		 (const void *)m, owner, state);
	if (!strstr(line, text))
		fail_msg("\"%s\" is not in \"%s\"", text, line);
}

static void tell_owners(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *u[5];

	locked = 0;
	assert_int_equal(over->o_start(s, lock_first, &chain[1], &u[3]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(over->o_start(s, lock_two, &chain[i], &u[i]), 0);
	assert_int_equal(over->o_start(s, lock_first, &chain[2], &u[4]), 0);
	assert_int_equal(ustack_join(u[3], NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 1 + 5);
	for (int i = 0; i < 3; i++)
		check_holder(u[i], &chain[(i + 1) % 3], u[(i + 1) % 3], "");
	check_holder(u[3], &chain[1], u[1], "");
	check_holder(u[4], &chain[2], u[2], "");
	assert_int_equal(ustack_cancel(u[0]), 0);       /* and the others go on */
	for (int i = 0; i < 5; i++)
		assert_int_equal(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_told_owners, each_conf, tell_owners)

/* The owner has ended and was not joined. */
static void lock_and_end(void *mutex)
{
	TEST_EQUAL(usync_mutex_lock(mutex, USCHED_NEVER), 0);
	locked = 3;
}

TEST(test_told_ended)
{
	static struct usync_mutex lost;
	struct uprocs_conf conf = { .c_processors = 1 };
	void *s = make_told(&conf, keep_line);
	struct ustack *ends, *waits_for_it;

	locked = 0;
	lost = (struct usync_mutex){ 0 };       /* an aborted waiter is still in it */
	assert_int_equal(over->o_start(s, lock_and_end, &lost, &ends), 0);
	assert_int_equal(over->o_start(s, lock_first, &lost, &waits_for_it), 0);
	assert_int_equal(ustack_join(waits_for_it, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 2);
	check_holder(waits_for_it, &lost, ends, ", which has ended");
	assert_int_equal(ustack_join(ends, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
}

/* ---- Many ---- */

enum { LISTED = 20 };                   /* threads */

/* The number of the thread that the i-th of n joins; n: none. The last joins none. */
typedef size_t next_fn(size_t i, size_t n);

static struct {
	struct ustack **threads;        /* NULL: it was joined */
	size_t          count;
	next_fn        *next;
	atomic_bool     started;
	unsigned        reports;
} many;

static size_t in_a_chain(size_t i, size_t n)
{
	return i < n - 2 ? i + 1 : n;
}

static size_t in_pairs(size_t i, size_t n)
{
	switch (i % WAITS) {
	case WAIT_at_join:
		return i + 1;
	case WAIT_at_later_join:
		return i - 1;
	default:
		return n;
	}
}

/* How the others wait. Two selects would serve each other. */
static int way_of(size_t i)
{
	return i % WAITS == WAIT_at_select ? WAIT_at_sem : (int)(i % WAITS);
}

static void join_next(void *arg)
{
	struct ustack **next = arg;
	int rc;

	while (!many.started)
		TEST_EQUAL(ustack_yield(), 0);
	rc = ustack_join(*next, NULL, USCHED_NEVER);
	if (rc == 0)                            /* it got the error first */
		*next = NULL;
	else
		TEST_EQUAL(rc, -EDEADLK);
}

static void start_many(void *s)
{
	many.started = false;
	many.reports = 0;
	prepare_waits();
	for (size_t i = 0; i < many.count; i++) {
		size_t next = many.next(i, many.count);
		bool joins = next < many.count;
		void (*func)(void *) = joins ? join_next : ways[way_of(i)].w_func;
		void *arg = joins ? &many.threads[next] : NULL;

		assert_int_equal(over->o_start(s, func, arg, &many.threads[i]), 0);
	}
	many.started = true;
}

/* Threads that joined have ended by now. */
static void end_many(void *s)
{
	for (size_t i = 0; i < many.count; i++)
		if (many.next(i, many.count) == many.count)
			help_out(many.threads[i], way_of(i));
	for (size_t i = 0; i < many.count; i++)
		if (many.threads[i])
			assert_int_equal(ustack_join(many.threads[i], NULL, USCHED_NEVER),
					 0);
	assert_int_equal(over->o_destroy(s), 0);
	end_waits();
}

static void keep_first_report(const char *line)
{
	many.reports += strncmp(line, "usched: deadlock: ", 18) == 0;
	if (many.reports == 1)
		keep_line(line);
}

/* The number of the thread of a line. */
static size_t told_of(struct ustack *const *u, const char *line)
{
	uintptr_t thread = 0;
	size_t i = 0;

	TEST_EQUAL(sscanf(line, "usched:   thread 0x%" SCNxPTR ", function", &thread), 1);
	while (i < many.count && (uintptr_t)u[i] != thread)
		i++;
	TEST_TRUE(i < many.count);
	return i;
}

/* Each of the listed threads once, with what it waits for and where. */
static void check_listed(struct ustack *const *u)
{
	static const struct way joining = { "join_next", join_next, NULL, NULL };
	char text[LINE_SIZE];

	snprintf(text, sizeof text, "usched: deadlock: threads that wait and that "
		 "nothing can wake: %zu", many.count);
	assert_string_equal(lines[0], text);
	for (size_t n = 1; n <= LISTED; n++) {
		size_t i = told_of(u, lines[n]), next = many.next(i, many.count);

		if (next == many.count) {
			check_line(u[i], way_of(i));
			continue;
		}
		snprintf(text, sizeof text, "thread %p, function", (void *)u[i]);
		TEST_TRUE(line_with(text) == lines[n]);
		snprintf(text, sizeof text, "joins thread %p", (void *)u[next]);
		check_text(lines[n], &joining, text);
	}
	snprintf(text, sizeof text, "usched:   and %zu more", many.count - LISTED);
	assert_string_equal(lines[LISTED + 1], text);
}

/* Has `count' threads wait. */
static void tell_many(const struct uprocs_conf *conf, size_t count, next_fn *next)
{
	size_t size = count * sizeof(struct ustack *);
	struct ustack **u = malloc(size);
	void *s = make_told(conf, keep_first_report);

	many.threads = malloc(size);
	many.count = count;
	many.next = next;
	assert_true(u && many.threads);
	start_many(s);
	memcpy(u, many.threads, size);
	assert_int_equal(ustack_join(u[count - 1], NULL, USCHED_NEVER), -EDEADLK);
	check_listed(u);
	assert_int_equal(line_count, 1 + LISTED + 1);
	end_many(s);
	free(many.threads);
	free(u);
}

static void tell_chain(const struct uprocs_conf *conf)
{
	tell_many(conf, 100, in_a_chain);
}

TEST_CASE(test_told_chain, each_conf, tell_chain)

/* All ways, by so many that nothing may take the square of their number. */
TEST(test_told_thousands)
{
	tell_many(&(struct uprocs_conf){ .c_processors = 2 },
		  test_scale(2000, 50) * WAITS + 1, in_pairs);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
