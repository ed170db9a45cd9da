/* SPDX-License-Identifier: MIT */
/*
 * test_report_cycle.c: the report of a deadlock: the owners of mutexes, cycles, and what
 * is left out when many threads wait.
 */
#include "../help/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Owners and cycles ---- */

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

enum { NAMED = 8 };                     /* threads of a cycle */

static void check_cycle(struct ustack *const *u, size_t n)
{
	size_t first = 0, size;
	char text[LINE_SIZE];

	for (size_t i = 1; i < n; i++)
		if ((uintptr_t)u[i] < (uintptr_t)u[first])
			first = i;
	size = (size_t)snprintf(text, sizeof text, "cycle of %zu threads: ", n);
	for (size_t i = 0; i < n && i < NAMED; i++)
		size += (size_t)snprintf(text + size, sizeof text - size, "%s%p",
					 i ? ", " : "", (void *)u[(first + i) % n]);
	snprintf(text + size, sizeof text - size, "%s", n > NAMED ? ", ..." : "");
	if (!line_with(text))
		fail_msg("\"%s\" is in no line", text);
}

static void tell_cycle(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *u[5];

	locked = 0;
	assert_int_equal(over->o_start(s, lock_first, &chain[1], &u[3]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(over->o_start(s, lock_two, &chain[i], &u[i]), 0);
	assert_int_equal(over->o_start(s, lock_first, &chain[2], &u[4]), 0);
	assert_int_equal(ustack_join(u[3], NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 1 + 5 + 1);
	for (int i = 0; i < 3; i++)
		check_holder(u[i], &chain[(i + 1) % 3], u[(i + 1) % 3], "");
	check_holder(u[3], &chain[1], u[1], "");
	check_holder(u[4], &chain[2], u[2], "");
	check_cycle(u, 3);
	assert_int_equal(ustack_cancel(u[0]), 0);       /* and the others go on */
	for (int i = 0; i < 5; i++)
		assert_int_equal(ustack_join(u[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_told_cycle, each_conf, tell_cycle)

/* A thread has a mutex and joins another, which waits for the mutex. */
static void lock_and_join(void *other)
{
	TEST_EQUAL(usync_mutex_lock(&chain[0], USCHED_NEVER), 0);
	locked = 3;
	TEST_EQUAL(ustack_join(other, NULL, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_mutex_unlock(&chain[0]), 0);
}

static void tell_mixed_cycle(const struct uprocs_conf *conf)
{
	void *s = make_told(conf, keep_line);
	struct ustack *u[2];

	locked = 0;
	assert_int_equal(over->o_start(s, lock_first, &chain[0], &u[0]), 0);
	assert_int_equal(over->o_start(s, lock_and_join, u[0], &u[1]), 0);
	assert_int_equal(ustack_join(u[1], NULL, USCHED_NEVER), 0);
	assert_int_equal(line_count, 1 + 2 + 1);
	check_holder(u[0], &chain[0], u[1], "");
	check_cycle(u, 2);
	assert_int_equal(ustack_join(u[0], NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_told_mixed_cycle, each_conf, tell_mixed_cycle)

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

enum { LISTED = 20 };                   /* threads, and cycles */

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

static size_t in_a_ring(size_t i, size_t n)
{
	return i < n - 1 ? (i + 1) % (n - 1) : n;
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

IN(join_next) static void join_next(void *arg)
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
EXTENT(join_next)

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
	static const struct way joining = { "join_next", join_next, __start_in_join_next,
					    __stop_in_join_next };
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

/* Has `count' threads wait. Returns their handles, for free(). */
static struct ustack **tell_many(const struct uprocs_conf *conf, size_t count,
				 next_fn *next)
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
	end_many(s);
	free(many.threads);
	return u;
}

static void tell_chain(const struct uprocs_conf *conf)
{
	free(tell_many(conf, 100, in_a_chain));
	assert_int_equal(line_count, 1 + LISTED + 1);
}

TEST_CASE(test_told_chain, each_conf, tell_chain)

static void tell_ring(const struct uprocs_conf *conf)
{
	struct ustack **u = tell_many(conf, 100, in_a_ring);

	assert_int_equal(line_count, 1 + LISTED + 2);
	check_cycle(u, 99);
	free(u);
}

TEST_CASE(test_told_ring, each_conf, tell_ring)

/* All ways, by so many that nothing may take the square of their number. */
TEST(test_told_thousands)
{
	size_t n = test_scale(2000, 50) * WAITS + 1;
	struct uprocs_conf conf = { .c_processors = 2 };
	struct ustack **u;

	u = tell_many(&conf, n, in_pairs);
	assert_int_equal(line_count, 1 + LISTED + 1 + LISTED);
	for (size_t i = 1; i <= LISTED; i++)
		TEST_TRUE(strstr(lines[LISTED + 1 + i], "cycle of 2 threads: "));
	free(u);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
