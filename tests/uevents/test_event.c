/* SPDX-License-Identifier: MIT */
/*
 * test_event.c: timers against a plain list; sleeps that timers, descriptors and other
 * native threads end. No dispatcher runs: uevents.c needs none.
 */
#include "../help/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../uevents.h"

enum {
	INPUT = UEVENTS_INPUT | UEVENTS_URGENT | UEVENTS_PEER_END,
	ALL   = INPUT | UEVENTS_OUTPUT,
};

enum { TIMERS = 300, MILLISECOND = 1000000 };   /* ns */

struct timer {
	struct uexpiry t_expiry;                /* first */
	void         (*t_expired)(struct timer *t);
	bool           t_armed;                 /* expected */
	int64_t        t_due;                   /* expected */
};

static struct timer timers[TIMERS];
static struct timer *expired[2 * TIMERS];
static size_t expired_count;
static uint32_t seed;

static uint32_t any(uint32_t n)
{
	return test_random(&seed) % n;
}

static void note(struct timer *t)
{
	assert_null(t->t_expiry.x_prev);
	assert_true(t->t_armed);
	t->t_armed = false;
	expired[expired_count++] = t;
}

/* Has the timer of an expiry do what is its own. */
static void expire_timer(struct uexpiry *x)
{
	struct timer *t = (struct timer *)(void *)x;

	t->t_expired(t);
}

static struct uevents *open_events(struct usched *s)
{
	struct uevents *first, *again;

	test_timeout(10);
	*s = (struct usched){ .s_calls = { .s_polls = 1 } };
	assert_int_equal(uevents_of(s, &first), 0);
	assert_int_equal(uevents_of(s, &again), 0);
	assert_ptr_equal(first, s->s_events);
	assert_ptr_equal(again, s->s_events);
	expired_count = 0;
	memset(timers, 0, sizeof timers);
	for (size_t i = 0; i < TIMERS; i++)
		timers[i].t_expired = note;
	return s->s_events;
}

static void arm(struct uevents *e, struct timer *t, int64_t when)
{
	if (t->t_armed)                         /* x_when belongs to the heap now */
		e->e_disarm(e, &t->t_expiry);
	t->t_expiry.x_when = t->t_due = when;
	t->t_armed = true;
	e->e_arm(e, &t->t_expiry, expire_timer);
	assert_non_null(t->t_expiry.x_prev);
}

static void disarm(struct uevents *e, struct timer *t)
{
	if (t->t_expiry.x_prev)
		e->e_disarm(e, &t->t_expiry);
	t->t_armed = false;
	assert_null(t->t_expiry.x_prev);
}

static size_t count_armed(int64_t until)
{
	size_t n = 0;

	for (size_t i = 0; i < TIMERS; i++) {
		assert_int_equal(timers[i].t_armed,
				 timers[i].t_expiry.x_prev != NULL);
		n += timers[i].t_armed && timers[i].t_due <= until;
	}
	return n;
}

enum { EXPIRIES = 64 };                 /* of a look, at most */

/*
 * All due timers expire, in order, so many at a time, and no others. 1000 is long ago,
 * 1e18 far away.
 */
static void expire(struct usched *s)
{
	size_t due = count_armed(1000), all = count_armed(INT64_MAX);

	expired_count = 0;
	for (size_t left = due; left > 0; left -= left < EXPIRIES ? left : EXPIRIES) {
		assert_int_equal(expired_count, due - left);
		assert_int_equal(uevents_sleep(s, UEVENTS_RUN), 1);
	}
	assert_int_equal(expired_count, due);
	for (size_t i = 0; i < due; i++) {
		assert_true(expired[i]->t_due <= 1000);
		assert_true(i == 0 || expired[i - 1]->t_due <= expired[i]->t_due);
	}
	assert_int_equal(count_armed(1000), 0);
	assert_int_equal(count_armed(INT64_MAX), all - due);
}

static int64_t any_time(void)
{
	return any(3) ? 1 + any(1000) : 1000000000000000000 + any(1000);
}

static void random_timers(uint32_t first)
{
	struct usched s;
	struct uevents *e = open_events(&s);

	test_seed = seed = first;
	for (size_t step = 0; step < 3000; step++) {
		struct timer *t = &timers[any(step % 7 ? TIMERS : 10)];

		switch (any(step % 2 ? 3 : 40)) {
		case 0:
			disarm(e, t);
			break;
		case 1:
			if (any(TIMERS) == 0)
				expire(&s);
			break;
		default:
			arm(e, t, any_time());
			break;
		}
	}
	expire(&s);
	for (size_t i = 0; i < TIMERS; i++)
		if (timers[i].t_armed)
			arm(e, &timers[i], 1 + any(20));        /* many together */
	expire(&s);
	uevents_close(&s);
	assert_null(s.s_events);
}

TEST(test_timers)
{
	const char *given = getenv("USCHED_TEST_SEED");
	uint32_t first = given ? (uint32_t)strtoul(given, NULL, 10) : 1;

	for (uint32_t i = 0; i < test_scale(300, 3); i++)
		random_timers(first + i);
	test_seed = 0;
}

/* Arming an armed timer moves it. */
TEST(test_move)
{
	struct usched s;
	struct uevents *e = open_events(&s);

	for (size_t i = 0; i < 10; i++)
		arm(e, &timers[i], 1000000000000000000 + (int64_t)i);
	for (size_t i = 0; i < 10; i++) {
		struct timer *t = &timers[i * 3 % 10];

		t->t_expiry.x_when = t->t_due = (int64_t)i + 1;
		e->e_arm(e, &t->t_expiry, expire_timer);
	}
	assert_int_equal(count_armed(1000), 10);
	expire(&s);
	for (size_t i = 0; i < 10; i++)
		assert_ptr_equal(expired[i], &timers[i * 3 % 10]);
	uevents_close(&s);
}

/* Timers that expire arm and disarm others, and themselves. */
static struct uevents *events;
static size_t again;

static void meddle(struct timer *t)
{
	note(t);
	if (t == &timers[0] && again++ < 5)
		arm(events, t, 3);
	if (t == &timers[1])
		disarm(events, &timers[2]);
	if (t == &timers[3])
		arm(events, &timers[4], 1);
}

TEST(test_meddling)
{
	struct usched s;

	events = open_events(&s);
	for (size_t i = 0; i < 5; i++)
		timers[i].t_expired = meddle;
	arm(events, &timers[0], 1);
	arm(events, &timers[1], 2);
	arm(events, &timers[2], 3);
	arm(events, &timers[3], 4);
	assert_int_equal(uevents_sleep(&s, UEVENTS_RUN), 1);
	assert_int_equal(again, 6);
	assert_int_equal(expired_count, 6 + 1 + 1 + 1);
	assert_ptr_equal(expired[8], &timers[4]);
	assert_int_equal(count_armed(INT64_MAX), 0);
	uevents_close(&s);
}

/* ---- Sleep ---- */

TEST(test_none)
{
	struct usched s = { 0 };
	struct uevents *e;

	assert_int_equal(uevents_of(&s, &e), -ENOTSUP);
	uevents_look(&s);
	assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 0);
	assert_int_equal(uevents_interrupt(&s), 0);
	assert_int_equal(uevents_waited(&s), 0);
	uevents_close(&s);
}

TEST(test_sleep)
{
	struct usched s;
	struct uevents *e = open_events(&s);
	int64_t when = uevents_now() + 3 * MILLISECOND;

	arm(e, &timers[0], when);
	arm(e, &timers[1], when + 1000000 * (int64_t)MILLISECOND);
	while (expired_count == 0)
		assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
	assert_true(uevents_now() >= when);
	assert_ptr_equal(expired[0], &timers[0]);
	when = uevents_now() + MILLISECOND;
	do
		assert_int_equal(uevents_sleep(&s, when), 1);
	while (uevents_now() < when);
	assert_int_equal(uevents_sleep(&s, 1), 1);      /* long ago */
	assert_int_equal(expired_count, 1);
	assert_int_equal(count_armed(INT64_MAX), 1);
	uevents_close(&s);
}

static void *interrupt_it(void *arg)
{
	for (int i = 0; i < 50; i++)
		TEST_EQUAL(uevents_interrupt(arg), 1);
	return NULL;
}

/* An interrupt ends the present sleep or the next. Several may end one. */
TEST(test_interrupt)
{
	struct usched s;
	pthread_t native;

	open_events(&s);
	assert_int_equal(uevents_interrupt(&s), 1);
	assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&native, NULL, interrupt_it, &s), 0);
		assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
		pthread_join(native, NULL);
		uevents_sleep(&s, UEVENTS_RUN);
	}
	uevents_close(&s);
}

/* One of many looks expires what is due. */
TEST(test_look)
{
	struct usched s;
	struct uevents *e = open_events(&s);

	for (size_t i = 0; i < 3; i++) {
		arm(e, &timers[i], 1);
		while (expired_count <= i)
			uevents_look(&s);
	}
	uevents_close(&s);
}

TEST(test_count)
{
	struct usched s;
	struct uevents *e = open_events(&s);

	assert_int_equal(uevents_waited(&s), 0);
	uevents_count(e, 1);
	uevents_count(e, 1);
	uevents_count(e, -1);
	assert_int_equal(uevents_waited(&s), 1);
	uevents_count(e, -1);
	assert_int_equal(uevents_waited(&s), 0);
	uevents_close(&s);
}

/* ---- Descriptors ---- */

struct seen {
	struct uinterest s_interest;            /* first */
	unsigned         s_events;
	size_t           s_count;
};

static void see(struct uinterest *i, unsigned ready)
{
	struct seen *seen = (struct seen *)(void *)i;

	seen->s_events = ready;
	seen->s_count++;
}

/* The process has one eventfd, and no call reads it: here its sum is full. */
TEST(test_interrupts_full)
{
	struct seen seen = { { see }, 0, 0 };
	uint64_t full = UINT64_MAX - 1;
	struct usched s;
	struct uevents *e = open_events(&s);
	char path[40], file[40] = "";
	int ends[2], fd = 0;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(uevents_add(e, ends[0], ALL, &seen.s_interest), 0);
	while (!strstr(file, "eventfd") && ++fd < 1024) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		if (readlink(path, file, sizeof file - 1) < 0)
			file[0] = '\0';
	}
	if (fd < 1024 && write(fd, &full, sizeof full) == sizeof full)
		assert_int_equal(uevents_sleep(&s, UEVENTS_RUN), 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(uevents_interrupt(&s), 1);
		assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
	}
	uevents_close(&s);
	close(ends[0]);
	close(ends[1]);
}

TEST(test_add)
{
	struct seen seen = { { see }, 0, 0 };
	struct usched s;
	struct uevents *e = open_events(&s);
	int ends[2], file;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(uevents_add(e, ends[0], ALL, &seen.s_interest), 0);
	assert_int_equal(uevents_add(e, ends[0], ALL, &seen.s_interest), -EEXIST);
	assert_int_equal(uevents_add(e, -1, ALL, &seen.s_interest), -EBADF);
	file = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(uevents_add(e, file, ALL, &seen.s_interest), -EPERM);
	close(file);
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(seen.s_count, 0);
	for (size_t i = 1; i < 4; i++) {                /* each write is an edge */
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
		assert_int_equal(seen.s_count, i);
		assert_int_equal(seen.s_events, UEVENTS_INPUT);
		uevents_sleep(&s, UEVENTS_RUN);
		assert_int_equal(seen.s_count, i);
	}
	close(ends[1]);
	assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);
	assert_int_equal(seen.s_count, 4);
	assert_true(seen.s_events & UEVENTS_HANGUP);
	close(ends[0]);
	uevents_close(&s);
}

/* What a peer reads is no event, until uevents_add() asks. What it writes is one. */
TEST(test_add_input)
{
	struct seen seen = { { see }, 0, 0 };
	struct usched s;
	struct uevents *e = open_events(&s);
	char got[2];
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(uevents_add(e, ends[0], INPUT, &seen.s_interest), 0);
	for (size_t i = 0; i < 2; i++) {
		seen.s_count = 0;
		assert_int_equal(write(ends[0], "x", 1), 1);
		assert_int_equal(read(ends[1], got, 1), 1);
		uevents_sleep(&s, UEVENTS_RUN);
		assert_int_equal(seen.s_count, i);
		assert_int_equal(write(ends[1], "x", 1), 1);
		uevents_sleep(&s, UEVENTS_RUN);
		assert_int_equal(seen.s_count, i + 1);
		assert_true(seen.s_events & UEVENTS_INPUT);
		assert_int_equal(read(ends[0], got, 1), 1);
		if (i == 0)
			assert_int_equal(uevents_add(e, ends[0], ALL, &seen.s_interest),
					 -EEXIST);
		uevents_sleep(&s, UEVENTS_RUN);
	}
	assert_int_equal(uevents_add(e, ends[0], INPUT, &seen.s_interest), -EEXIST);
	seen.s_events = 0;
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(seen.s_events, UEVENTS_OUTPUT);
	close(ends[0]);
	close(ends[1]);
	uevents_close(&s);
}

/* The number is another file's now, or it is not. */
TEST(test_again)
{
	struct seen seen = { { see }, 0, 0 };
	struct usched s;
	struct uevents *e = open_events(&s);
	int old[2], new[2];

	assert_int_equal(pipe(old), 0);
	assert_int_equal(pipe(new), 0);
	assert_int_equal(uevents_add(e, old[0], INPUT, &seen.s_interest), 0);
	assert_int_equal(uevents__again(e, old[0], INPUT, &seen.s_interest), -EEXIST);
	assert_int_equal(dup2(new[0], old[0]), old[0]);
	assert_int_equal(uevents__again(e, old[0], INPUT, &seen.s_interest), 0);
	assert_int_equal(write(new[1], "x", 1), 1);
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(seen.s_count, 1);
	for (int i = 0; i < 2; i++) {
		close(old[i]);
		close(new[i]);
	}
	uevents_close(&s);
}

/* More than one look tells of: each of them is told before one is told a third time. */
TEST(test_many)
{
	enum { MANY = 300 };
	static struct seen seen[MANY];
	struct usched s;
	struct uevents *e = open_events(&s);
	int fds[MANY], ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	for (size_t i = 0; i < MANY; i++) {
		seen[i] = (struct seen){ { see }, 0, 0 };
		fds[i] = dup(ends[0]);
		assert_int_equal(uevents_add(e, fds[i], INPUT, &seen[i].s_interest), 0);
	}
	for (size_t looks = 0; looks < 2 * MANY / 64 + 2; looks++)
		uevents_sleep(&s, UEVENTS_RUN);
	for (size_t i = 0; i < MANY; i++)
		assert_true(seen[i].s_count > 0);
	for (size_t i = 0; i < MANY; i++)
		close(fds[i]);
	close(ends[0]);
	close(ends[1]);
	uevents_close(&s);
}

static void *sleep_there(void *s)
{
	while (uevents_waited(s))
		uevents_sleep(s, USCHED_NEVER);
	return s;
}

/* Another native thread sleeps and would be told of it: it is closed all the same. */
TEST(test_closing)
{
	struct seen seen = { { see }, 0, 0 };
	struct usched s;
	struct uevents *e = open_events(&s);
	pthread_t native;
	int ends[2];
	char got;

	uevents_count(e, 1);
	assert_int_equal(pthread_create(&native, NULL, sleep_there, &s), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		assert_int_equal(uevents_add(e, ends[0], INPUT, &seen.s_interest), 0);
		if (i % 2)
			nanosleep(&(struct timespec){ 0, MILLISECOND / 10 }, NULL);
		close(ends[0]);
		assert_int_equal(recv(ends[1], &got, 1, MSG_DONTWAIT), 0);
		close(ends[1]);
	}
	uevents_count(e, -1);
	uevents_interrupt(&s);
	assert_int_equal(pthread_join(native, NULL), 0);
	uevents_close(&s);
}

static bool readable(int fd, int timeout)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout) == 1;
}

/* In a loop of the program: readable whenever there is something to do. */
TEST(test_expose)
{
	struct seen seen = { { see }, 0, 0 };
	struct usched s;
	struct uevents *e = open_events(&s);
	int fd = e->e_expose(e), ends[2];

	assert_true(fd >= 0);
	uevents_sleep(&s, UEVENTS_RUN);
	assert_false(readable(fd, 0));
	uevents_interrupt(&s);
	assert_true(readable(fd, -1));
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(e->e_expose(e), fd);
	assert_false(readable(fd, 0));
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(uevents_add(e, ends[0], ALL, &seen.s_interest), 0);
	assert_false(readable(fd, 0));
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_true(readable(fd, -1));
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(seen.s_count, 1);
	assert_false(readable(fd, 0));
	close(ends[0]);
	close(ends[1]);
	uevents_close(&s);
}

TEST(test_expose_timers)
{
	struct usched s;
	struct uevents *e = open_events(&s);
	int fd = e->e_expose(e);
	int64_t first = INT64_MAX;

	uevents_sleep(&s, UEVENTS_RUN);
	arm(e, &timers[4], 1000000000000000000);
	assert_int_equal(e->e_expose(e), fd);
	for (size_t i = 0; i < 4; i++) {                /* nearer each time */
		int64_t when = uevents_now() + (int64_t)(20 >> i) * MILLISECOND;

		first = when < first ? when : first;    /* or not, on a slow machine */
		arm(e, &timers[i], when);
		assert_int_equal(e->e_expose(e), fd);
	}
	assert_true(readable(fd, -1));
	assert_true(uevents_now() >= first);
	while (expired_count < 4) {
		uevents_sleep(&s, UEVENTS_RUN);
		assert_int_equal(e->e_expose(e), fd);
		assert_true(expired_count == 4 || readable(fd, -1));
	}
	arm(e, &timers[0], uevents_now() + MILLISECOND);
	assert_int_equal(e->e_expose(e), fd);
	disarm(e, &timers[0]);
	assert_int_equal(e->e_expose(e), fd);
	uevents_sleep(&s, UEVENTS_RUN);
	assert_int_equal(e->e_expose(e), fd);
	assert_false(readable(fd, 5));
	uevents_close(&s);
}

static void *interrupt_soon(void *e)
{
	nanosleep(&(struct timespec){ 0, MILLISECOND }, NULL);
	((struct uevents *)e)->e_interrupt(e);
	return NULL;
}

/* Without descriptors there are timers and interrupts, and no more. */
static void lacking(struct usched *s)
{
	struct uinterest nothing = { 0 };
	int64_t until = uevents_now() + 2 * MILLISECOND;
	struct uevents *e;
	pthread_t native;

	assert_int_equal(uevents_of(s, &e), 0);
	assert_int_equal(uevents_add(e, 0, ALL, &nothing), -EMFILE);
	assert_int_equal(uevents_add(e, 0, INPUT, &nothing), -EMFILE);
	assert_int_equal(e->e_expose(e), -EMFILE);
	assert_int_equal(uevents_sleep(s, until), 1);
	assert_true(uevents_now() >= until);
	timers[0] = (struct timer){ .t_expired = note };
	until = uevents_now() + 2 * MILLISECOND;
	arm(e, &timers[0], until);
	expired_count = 0;
	assert_int_equal(uevents_sleep(s, USCHED_NEVER), 1);
	assert_int_equal(expired_count, 1);
	assert_true(uevents_now() >= until);
	uevents_interrupt(s);                   /* that of a sleep to come */
	assert_int_equal(uevents_sleep(s, USCHED_NEVER), 1);
	uevents_look(s);
	assert_int_equal(uevents_sleep(s, UEVENTS_RUN), 1);
	assert_int_equal(pthread_create(&native, NULL, interrupt_soon, e), 0);
	assert_int_equal(uevents_sleep(s, USCHED_NEVER), 1);
	assert_int_equal(pthread_join(native, NULL), 0);
}

static bool next_is(int fd)
{
	int next = dup(0);

	close(next);
	return next == fd;
}

/* Returns how many descriptors a poller has at first. */
static int count_descriptors(void)
{
	struct usched s;
	int n = 0;

	open_events(&s);
	for (unsigned i = 0; uevents__next_own(i, UINT32_MAX) >= 0; n++)
		i = (unsigned)uevents__next_own(i, UINT32_MAX) + 1;
	uevents_close(&s);
	assert_int_equal(uevents__next_own(0, UINT32_MAX), -1);
	return n;
}

/* They are none that a program is to get next, nor one that it names. */
TEST(test_numbers)
{
	struct usched s;
	struct rlimit limit;
	int first = dup(0), own;

	close(first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < 64)
		skip();
	open_events(&s);
	own = uevents__next_own(0, UINT32_MAX);
	assert_true(own > first + 10 && own < 1024);
	assert_true(fcntl(own, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(uevents__next_own(0, (unsigned)own - 1), -1);
	assert_int_equal(uevents__next_own((unsigned)own, (unsigned)own), own);
	assert_true(next_is(first));
	assert_true(s.s_events->e_expose(s.s_events) >= own);
	uevents_close(&s);
	assert_int_equal(uevents__next_own(0, UINT32_MAX), -1);
}

/* A sleep without its descriptors says so, and does not go on for ever. */
TEST(test_lost)
{
	struct usched s;
	int status;
	pid_t child;

	for (int replaced = 0; replaced < 2; replaced++) {
		child = fork();
		if (child == 0) {
			int own;

			signal(SIGABRT, SIG_DFL);
			setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
			open_events(&s);
			own = uevents__next_own(0, UINT32_MAX);
			if (replaced)
				dup2(0, own);
			else
				close(own);
			assert_non_null(freopen("/dev/null", "w", stderr));
			uevents_sleep(&s, uevents_now() + MILLISECOND);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

/* With no descriptor left, and with too few: none is lost; with enough it works. */
TEST(test_no_descriptors)
{
	struct rlimit old, few;
	struct usched s = { .s_calls = { .s_polls = 1 } };
	struct uinterest interest = { see };
	struct uevents *e;
	int first = dup(0), needs, fds[2];

	assert_true(first >= 0);
	close(first);
	needs = count_descriptors();
	assert_true(needs == 2);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	for (int left = 0; left < needs; left++) {
		few.rlim_cur = (rlim_t)(first + left);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		lacking(&s);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
		assert_true(next_is(first));
	}
	e = s.s_events;
	uevents_interrupt(&s);                  /* of a sleep with descriptors */
	few.rlim_cur = (rlim_t)(first + needs);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	timers[0] = (struct timer){ .t_expired = note };
	arm(e, &timers[0], 1000000000000000000);
	assert_int_equal(e->e_expose(e), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(next_is(first + needs));
	assert_int_equal(uevents_sleep(&s, USCHED_NEVER), 1);   /* interrupted before */
	assert_true(e->e_expose(e) >= 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(uevents_add(e, fds[0], ALL, &interest), 0);
	close(fds[0]);
	close(fds[1]);
	uevents_close(&s);
	assert_true(next_is(first));
}

int main(void)
{
	return test_run_all();
}
