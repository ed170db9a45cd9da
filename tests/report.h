/* SPDX-License-Identifier: MIT */
/*
 * report.h: the tests of what is told of a deadlock, by the schedulers that do. To be
 * included behind sync.h. Each way to wait is a function of its own, in a section of its
 * own, so that where a thread is said to wait can be compared with where it does.
 */
#include <inttypes.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../unet.h"
#include "where.h"

enum { LINES = 64, LINE_SIZE = 1024 };

static char lines[LINES][LINE_SIZE];
static unsigned line_count;

static void keep_line(const char *line)
{
	TEST_TRUE(line_count < LINES);
	snprintf(lines[line_count++], LINE_SIZE, "%s", line);
}

static sched *make_told(const struct usched_conf *conf, void (*log)(const char *line))
{
	struct usched_conf c = *conf;
	sched *s = NULL;

	c.c_log = log;
	line_count = 0;
	assert_int_equal(S(create)(&c, &s), 0);
	return s;
}

/* The only line with such a text; NULL: there is none. */
static const char *line_with(const char *text)
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

/* All that they wait for, kept by the tester. */
static struct {
	struct usync_mutex   mutex;
	struct usync_rwlock  written;
	struct usync_rwlock  read;
	struct usync_mutex   with;
	struct usync_cond    cond;
	struct usync_sem     sem;
	struct usync_group   group;
	struct usync_chan   *chan[3];           /* to send, to receive, and for both */
	int                  value;
	struct ustack       *thread;
} to;

static int on_cond(void)
	__attribute__((always_inline));

static inline int on_cond(void)
{
	int rc;

	TEST_EQUAL(usync_mutex_lock(&to.with, USCHED_NEVER), 0);
	rc = usync_cond_wait(&to.cond, &to.with, USCHED_NEVER);
	TEST_EQUAL(usync_mutex_unlock(&to.with), 0);
	return rc;
}

static inline int on_channels(int value, struct usync_chan *second)
	__attribute__((always_inline));

static inline int on_channels(int value, struct usync_chan *second)
{
	struct usync_case cases[] = {
		{ NULL, USYNC_RECV, NULL, 0 },
		{ second, USYNC_SEND, &value, 0 },
		{ NULL, USYNC_RECV, NULL, 0 },
		{ second, USYNC_RECV, &value, 0 },
	};

	return usync_select(cases, 4, USCHED_NEVER);
}

/* X(its name, what it does, what that returns when it is helped out) */
#define FOR_WAITS(X) \
	X(at_mutex, usync_mutex_lock(&to.mutex, USCHED_NEVER), -ECANCELED) \
	X(at_read, usync_rwlock_read(&to.written, USCHED_NEVER), -ECANCELED) \
	X(at_write, usync_rwlock_write(&to.read, USCHED_NEVER), -ECANCELED) \
	X(at_cond, on_cond(), -ECANCELED) \
	X(at_sem, usync_sem_wait(&to.sem, USCHED_NEVER), -ECANCELED) \
	X(at_group, usync_group_wait(&to.group, USCHED_NEVER), -ECANCELED) \
	X(at_send, usync_chan_send(to.chan[0], &to.value, USCHED_NEVER), -ECANCELED) \
	X(at_recv, usync_chan_recv(to.chan[1], &to.value, USCHED_NEVER), -ECANCELED) \
	X(at_select, on_channels(0, to.chan[2]), -ECANCELED) \
	X(at_nothing, on_channels(0, NULL), -ECANCELED) \
	X(at_time, usync_sleep_until(USCHED_NEVER), -ECANCELED) \
	X(at_grant, of_ones_own(), -ECANCELED) \
	X(at_wake, ustack_wait(), 0) \
	X(at_join, ustack_join(to.thread, USCHED_NEVER), -EDEADLK) \
	X(at_sync_join, ustack_join(to.thread, USCHED_NEVER), -EDEADLK)

static int of_ones_own(void)
	__attribute__((always_inline));

static inline int of_ones_own(void)
{
	struct uwaiter *w;

	TEST_EQUAL(uwait_prepare(&w, USCHED_NEVER), 0);
	uwait_begin(w);
	return uwait_block(w);
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

#define ORDINAL(name, call, error) WAIT_##name,
enum { FOR_WAITS(ORDINAL) WAITS };

#define ROW(name, call, error) { #name, name, __start_in_##name, __stop_in_##name },
static const struct way {
	const char *w_name;
	void      (*w_func)(void *);
	const char *w_start;
	const char *w_stop;
} ways[] = { FOR_WAITS(ROW) };

static void prepare_waits(void)
{
	memset(&to, 0, sizeof to);
	TEST_EQUAL(usync_mutex_lock(&to.mutex, 0), 0);
	TEST_EQUAL(usync_rwlock_write(&to.written, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&to.read, 0), 0);
	TEST_EQUAL(usync_group_add(&to.group, 3), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(usync_chan_create(sizeof to.value, 0, &to.chan[i]), 0);
}

static void end_waits(void)
{
	for (int i = 0; i < 3; i++)
		usync_chan_destroy(to.chan[i]);
}

/* What is to be told of it, behind its function. */
static void describe(int way, char text[LINE_SIZE])
{
	static const char *const fixed[] = {
		[WAIT_at_nothing] = "waits for no channel",
		[WAIT_at_time]    = "waits for a time that never comes",
		[WAIT_at_grant]   = "waits for a grant",
		[WAIT_at_wake]    = "waits for a wake",
	};
	uintptr_t native = uwait_name();

	switch (way) {
	case WAIT_at_mutex:
		snprintf(text, LINE_SIZE, "waits for mutex %p, held by an outsider, 0x%" PRIxPTR,
			 (void *)&to.mutex, native);
		break;
	case WAIT_at_read:
		snprintf(text, LINE_SIZE, "waits for reader-writer lock %p to read, held by an "
			 "outsider, 0x%" PRIxPTR, (void *)&to.written, native);
		break;
	case WAIT_at_write:
		snprintf(text, LINE_SIZE, "waits for reader-writer lock %p to write, readers: 1",
			 (void *)&to.read);
		break;
	case WAIT_at_cond:
		snprintf(text, LINE_SIZE, "waits for condition %p", (void *)&to.cond);
		break;
	case WAIT_at_sem:
		snprintf(text, LINE_SIZE, "waits for semaphore %p", (void *)&to.sem);
		break;
	case WAIT_at_group:
		snprintf(text, LINE_SIZE, "waits for group %p, not done: 3", (void *)&to.group);
		break;
	case WAIT_at_send:
		snprintf(text, LINE_SIZE, "waits for channel %p to send", (void *)to.chan[0]);
		break;
	case WAIT_at_recv:
		snprintf(text, LINE_SIZE, "waits for channel %p to receive", (void *)to.chan[1]);
		break;
	case WAIT_at_select:
		snprintf(text, LINE_SIZE, "waits for channel %p to send or channel %p to receive",
			 (void *)to.chan[2], (void *)to.chan[2]);
		break;
	case WAIT_at_nothing:
	case WAIT_at_time:
	case WAIT_at_grant:
	case WAIT_at_wake:
		snprintf(text, LINE_SIZE, "%s", fixed[way]);
		break;
	default:
		snprintf(text, LINE_SIZE, "joins thread %p", (void *)to.thread);
	}
}

/* ---- Each of them ---- */

/* An address and, behind it in parentheses, the file and where in the file that is. */
static uintptr_t parse_address(const char *at)
{
	uintptr_t address = 0, offset = 0;
	char file[64];

	TEST_EQUAL(sscanf(at, "0x%" SCNxPTR " (%63[^+]+0x%" SCNxPTR, &address, file, &offset), 3);
	TEST_TRUE(strncmp(file, "test_sync_", 10) == 0);
	TEST_EQUAL((address - offset) % 4096, 0);       /* where the file begins */
	return address;
}

/* Whether where a thread waits is known, but to its scheduler only by the switch. */
static bool is_exact(int way)
{
	return way != WAIT_at_wake && way != WAIT_at_join;
}

/* The line has the text, and behind it where in the function of `w' the thread waits. */
static void check_text(const char *line, const struct way *w, const char *text, bool exact)
{
	const char *function = strstr(line, "function ") + strlen("function ");
	const char *rest = strstr(line, text);
	uintptr_t address;

	TEST_EQUAL(parse_address(function), (uintptr_t)w->w_func);
	if (!rest)
		fail_msg("%s: \"%s\" is not in \"%s\"", w->w_name, text, line);
	rest += strlen(text);
	if (w->w_func == at_wake && !test_has_stacks()) {
		TEST_EQUAL(*rest, '\0');
		return;
	}
	TEST_TRUE(strncmp(rest, ", at ", 5) == 0);
	address = parse_address(rest + 5);
	if ((exact || (test_tail_calls() && test_inlines()))
	    && (address < (uintptr_t)w->w_start || address >= (uintptr_t)w->w_stop))
		fail_msg("%s: it is not where \"%s\" says", w->w_name, line);
}

static void check_line(const struct ustack *u, int way)
{
	char thread[64], text[LINE_SIZE];
	const char *line;

	snprintf(thread, sizeof thread, "thread %p, function 0x", (const void *)u);
	line = line_with(thread);
	TEST_TRUE(line);
	describe(way, text);
	check_text(line, &ways[way], text, is_exact(way));
}

static void help_out(struct ustack *u, int way)
{
	if (way == WAIT_at_wake)
		TEST_EQUAL(ustack_wake(u), 0);
	else
		TEST_EQUAL(ustack_cancel(u), 0);
}

static void tell_each(const struct usched_conf *conf)
{
	sched *s = make_told(conf, keep_line);
	struct ustack *u[WAITS];

	prepare_waits();
	for (int i = 0; i < WAITS - 2; i++)
		assert_int_equal(START(s, ways[i].w_func, NULL, &u[i]), 0);
	assert_int_equal(ustack_join(u[0], USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, WAITS - 2 + 1);
	assert_null(line_with("cycle"));
	for (int i = 0; i < WAITS - 2; i++)
		check_line(u[i], i);
	for (int i = 0; i < WAITS - 2; i++)
		help_out(u[i], i);
	for (int i = 0; i < WAITS - 2; i++)
		assert_int_equal(ustack_join(u[i], USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
	end_waits();
}

static void test_told_each(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_each);
}

/* Those who join are helped out by their scheduler. */
static void tell_joins(const struct usched_conf *conf)
{
	for (int i = WAIT_at_join; i <= WAIT_at_sync_join; i++) {
		sched *s = make_told(conf, keep_line);
		struct ustack *u;

		prepare_waits();
		assert_int_equal(START(s, at_wake, NULL, &to.thread), 0);
		assert_int_equal(START(s, ways[i].w_func, NULL, &u), 0);
		assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
		assert_int_equal(line_count, 3);
		check_line(u, i);
		check_line(to.thread, WAIT_at_wake);
		assert_int_equal(ustack_wake(to.thread), 0);
		assert_int_equal(ustack_join(to.thread, USCHED_NEVER), 0);
		assert_int_equal(S(destroy)(s), 0);
		end_waits();
	}
}

static void test_told_joins(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_joins);
}

/* ---- Who holds it, and cycles ---- */

static struct usync_mutex chain[3];
static atomic_uint locked;

/* Has one, waits until all have theirs, and wants the next. */
static void lock_two(void *first)
{
	struct usync_mutex *m = first, *next = &chain[(m - chain + 1) % 3];

	TEST_EQUAL(usync_mutex_lock(m, USCHED_NEVER), 0);
	locked++;
	while (locked < 3)
		TEST_EQUAL(ustack_yield(), 0);
	if (usync_mutex_lock(next, USCHED_NEVER) == 0)
		TEST_EQUAL(usync_mutex_unlock(next), 0);        /* it was given up first */
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
		size += (size_t)snprintf(text + size, sizeof text - size, "%s%p", i ? ", " : "",
					 (void *)u[(first + i) % n]);
	snprintf(text + size, sizeof text - size, "%s", n > NAMED ? ", ..." : "");
	if (!line_with(text))
		fail_msg("\"%s\" is in no line", text);
}

static void tell_cycle(const struct usched_conf *conf)
{
	sched *s = make_told(conf, keep_line);
	struct ustack *u[5];

	locked = 0;
	assert_int_equal(START(s, lock_first, &chain[1], &u[3]), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(START(s, lock_two, &chain[i], &u[i]), 0);
	assert_int_equal(START(s, lock_first, &chain[2], &u[4]), 0);
	assert_int_equal(ustack_join(u[3], USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 1 + 5 + 1);
	for (int i = 0; i < 3; i++)
		check_holder(u[i], &chain[(i + 1) % 3], u[(i + 1) % 3], "");
	check_holder(u[3], &chain[1], u[1], "");
	check_holder(u[4], &chain[2], u[2], "");
	check_cycle(u, 3);
	assert_int_equal(ustack_cancel(u[0]), 0);       /* and the others go on */
	for (int i = 0; i < 5; i++)
		assert_int_equal(ustack_join(u[i], USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_told_cycle(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_cycle);
}

/* Of one who has a mutex and joins another, who wants it. */
static void lock_and_join(void *other)
{
	TEST_EQUAL(usync_mutex_lock(&chain[0], USCHED_NEVER), 0);
	locked = 3;
	TEST_EQUAL(ustack_join(other, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_mutex_unlock(&chain[0]), 0);
}

static void tell_mixed_cycle(const struct usched_conf *conf)
{
	sched *s = make_told(conf, keep_line);
	struct ustack *u[2];

	locked = 0;
	assert_int_equal(START(s, lock_first, &chain[0], &u[0]), 0);
	assert_int_equal(START(s, lock_and_join, u[0], &u[1]), 0);
	assert_int_equal(ustack_join(u[1], USCHED_NEVER), 0);
	assert_int_equal(line_count, 1 + 2 + 1);
	check_holder(u[0], &chain[0], u[1], "");
	check_cycle(u, 2);
	assert_int_equal(ustack_join(u[0], USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_told_mixed_cycle(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_mixed_cycle);
}

/* Held by one who has ended, before he was joined. */
static void lock_and_end(void *mutex)
{
	TEST_EQUAL(usync_mutex_lock(mutex, USCHED_NEVER), 0);
	locked = 3;
}

static void test_told_ended(void **state)
{
	static struct usync_mutex lost;
	struct usched_conf conf = { .c_processors = 1 };
	sched *s = make_told(&conf, keep_line);
	struct ustack *ends, *waits_for_it;

	(void)state;
	test_timeout(20);
	locked = 0;
	assert_int_equal(START(s, lock_and_end, &lost, &ends), 0);
	assert_int_equal(START(s, lock_first, &lost, &waits_for_it), 0);
	assert_int_equal(ustack_join(waits_for_it, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 2);
	check_holder(waits_for_it, &lost, ends, ", which has ended");
	assert_int_equal(ustack_join(ends, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), -EDEADLK);
}

/* ---- Many ---- */

enum { LISTED = 20 };                   /* threads, and cycles */

/* Who the i-th of n threads joins; n: nobody. The last joins nobody. */
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
	case WAIT_at_sync_join:
		return i - 1;
	default:
		return n;
	}
}

/* How the others wait. Two who select would serve each other. */
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
	rc = ustack_join(*next, USCHED_NEVER);
	if (rc == 0)                            /* it was told of the deadlock first */
		*next = NULL;
	else
		TEST_EQUAL(rc, -EDEADLK);
}
EXTENT(join_next)

static void start_many(sched *s)
{
	many.started = false;
	many.reports = 0;
	prepare_waits();
	for (size_t i = 0; i < many.count; i++) {
		size_t next = many.next(i, many.count);
		bool joins = next < many.count;

		assert_int_equal(START(s, joins ? join_next : ways[way_of(i)].w_func,
				       joins ? &many.threads[next] : NULL, &many.threads[i]), 0);
	}
	many.started = true;
}

/* Those who joined have ended by now. */
static void end_many(sched *s)
{
	for (size_t i = 0; i < many.count; i++)
		if (many.next(i, many.count) == many.count)
			help_out(many.threads[i], way_of(i));
	for (size_t i = 0; i < many.count; i++)
		if (many.threads[i])
			assert_int_equal(ustack_join(many.threads[i], USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
	end_waits();
}

static void keep_first_report(const char *line)
{
	many.reports += strncmp(line, "usched: deadlock: ", 18) == 0;
	if (many.reports == 1)
		keep_line(line);
}

/* The number of the thread whose line it is. */
static size_t told_of(struct ustack *const *u, const char *line)
{
	uintptr_t thread = 0;
	size_t i = 0;

	TEST_EQUAL(sscanf(line, "usched:   thread 0x%" SCNxPTR ", function ", &thread), 1);
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

	snprintf(text, sizeof text, "usched: deadlock: threads that wait and that nothing can "
		 "wake: %zu", many.count);
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
		check_text(lines[n], &joining, text, false);
	}
	snprintf(text, sizeof text, "usched:   and %zu more", many.count - LISTED);
	assert_string_equal(lines[LISTED + 1], text);
}

/* Has `count' threads wait, and gives the handles that they had, to be freed. */
static struct ustack **tell_many(const struct usched_conf *conf, size_t count, next_fn *next)
{
	size_t size = count * sizeof(struct ustack *);
	struct ustack **u = malloc(size);
	sched *s = make_told(conf, keep_first_report);

	many.threads = malloc(size);
	many.count = count;
	many.next = next;
	assert_true(u && many.threads);
	start_many(s);
	memcpy(u, many.threads, size);
	assert_int_equal(ustack_join(u[count - 1], USCHED_NEVER), -EDEADLK);
	check_listed(u);
	end_many(s);
	free(many.threads);
	return u;
}

static void tell_chain(const struct usched_conf *conf)
{
	free(tell_many(conf, 100, in_a_chain));
	assert_int_equal(line_count, 1 + LISTED + 1);
}

static void test_told_chain(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_chain);
}

static void tell_ring(const struct usched_conf *conf)
{
	struct ustack **u = tell_many(conf, 100, in_a_ring);

	assert_int_equal(line_count, 1 + LISTED + 2);
	check_cycle(u, 99);
	free(u);
}

static void test_told_ring(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_ring);
}

/* Of all kinds, by so many that nothing may take the square of their number. */
static void test_told_thousands(void **state)
{
	size_t n = test_scale(2000, 50) * WAITS + 1;
	struct usched_conf conf = { .c_processors = 2 };
	struct ustack **u;

	(void)state;
	test_timeout(60);
	u = tell_many(&conf, n, in_pairs);
	assert_int_equal(line_count, 1 + LISTED + 1 + LISTED);
	for (size_t i = 1; i <= LISTED; i++)
		TEST_TRUE(strstr(lines[LISTED + 1 + i], "cycle of 2 threads: "));
	free(u);
}

/* One who waits for a descriptor can be woken: so nothing is told as long as it does. */
static void read_one(void *fd)
{
	uint64_t value;

	TEST_EQUAL(unet_read(*(int *)fd, &value, sizeof value, USCHED_NEVER), sizeof value);
	TEST_EQUAL(line_count, 0);
}

static void *write_late(void *fd)
{
	nanosleep(&(struct timespec){ 0, 20 * MILLISECOND }, NULL);
	TEST_EQUAL(eventfd_write(*(int *)fd, 1), 0);
	return NULL;
}

static void tell_after_read(const struct usched_conf *conf)
{
	sched *s = make_told(conf, keep_line);
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct ustack *waits_for_wake, *reads;
	pthread_t native;

	assert_int_equal(START(s, at_wake, NULL, &waits_for_wake), 0);
	assert_int_equal(START(s, read_one, &fd, &reads), 0);
	assert_int_equal(pthread_create(&native, NULL, write_late, &fd), 0);
	assert_int_equal(ustack_join(reads, USCHED_NEVER), 0);
	assert_int_equal(ustack_join(waits_for_wake, USCHED_NEVER), -EDEADLK);
	assert_int_equal(line_count, 2);
	check_line(waits_for_wake, WAIT_at_wake);
	assert_int_equal(ustack_wake(waits_for_wake), 0);
	assert_int_equal(ustack_join(waits_for_wake, USCHED_NEVER), 0);
	assert_int_equal(S(destroy)(s), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
	close(fd);
}

static void test_told_after_read(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(tell_after_read);
}

/* ---- Standstill ---- */

/*
 * A native thread that has not announced itself wakes a thread in the middle of a report:
 * it does not run until all has been told.
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

static void meddle_with(const struct usched_conf *conf)
{
	sched *s = make_told(conf, hear_first_line);
	struct ustack *u;
	pthread_t native;

	memset(&meddled, 0, sizeof meddled);
	assert_int_equal(START(s, wait_then_run, NULL, &u), 0);
	meddled.thread = u;
	assert_int_equal(pthread_create(&native, NULL, meddle, NULL), 0);
	assert_int_equal(ustack_join(u, USCHED_NEVER), -EDEADLK);
	assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
	assert_true(meddled.ran);
	assert_false(meddled.ran_early);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_told_standstill(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(meddle_with);
}

#define REPORT_TESTS                                            \
	cmocka_unit_test(test_told_each),                       \
	cmocka_unit_test(test_told_joins),                      \
	cmocka_unit_test(test_told_cycle),                      \
	cmocka_unit_test(test_told_mixed_cycle),                \
	cmocka_unit_test(test_told_ended),                      \
	cmocka_unit_test(test_told_chain),                      \
	cmocka_unit_test(test_told_ring),                       \
	cmocka_unit_test(test_told_thousands),                  \
	cmocka_unit_test(test_told_after_read),                 \
	cmocka_unit_test(test_told_standstill)
