/* SPDX-License-Identifier: MIT */
/*
 * test_trace.c: events of a trace: which there are and in which order, with one processor
 * and several, while it begins and ends; and that nothing of it is left when it is off.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/base/when.h"
#include "../../debug/uinspect.h"
#include "../../unet.h"
#include "../../uproc.h"
#include "../../usync.h"
#include "../../debug/utrace.h"
#include "../help/over.h"

#ifdef SINGLE_THREAD
enum { PROCESSORS = 1 };
#else
enum { PROCESSORS = 3 };
#endif

enum { EVENTS = 1 << 12, SMALL = 64, MANY = 200, MILLI = 1000000 };

static struct utrace_event events[EVENTS];
static void *sched;

static struct uproc *proc(unsigned i)
{
	return uproc_at(sched, i);
}

static struct utrace_ring *ring(unsigned i)
{
	return __atomic_load_n(&proc(i)->p_ring, __ATOMIC_ACQUIRE);
}

static bool is_on(unsigned i)
{
	struct utrace_ring *g = ring(i);

	return g && __atomic_load_n(&g->g_mode, __ATOMIC_ACQUIRE);
}

/* From a thread. */
static void await_on(bool on)
{
	while (is_on(0) != on)
		TEST_EQUAL(ustack_yield(), 0);
}

static unsigned kind(const struct utrace_event *v)
{
	return v->v_what & 0xff;
}

static unsigned why(const struct utrace_event *v)
{
	return v->v_what >> 8 & 0xff;
}

static size_t read_ring(const struct utrace_ring *g)
{
	uint64_t lost;

	return g ? utrace__read(g, events, EVENTS, &lost) : 0;
}

static void run(void (*func)(void *), struct uprocs_conf conf)
{
	struct ustack *u;

	TEST_EQUAL(over->o_create(&conf, &sched), 0);
	TEST_EQUAL(over->o_start(sched, func, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(sched), 0);
}

static const struct uprocs_conf one = { .c_processors = 1, .c_stacks = 1 };

/* ---- The script ---- */

static void wait_once(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
}

/* One thread is started, waits, is woken and joined; both are on one stack. */
static void play(void *unused)
{
	struct ustack *me = ustack_self(), *a;
	uintptr_t m = (uintptr_t)me, t;
	size_t n;

	(void)unused;
	TEST_EQUAL(utrace_start(0), 0);
	await_on(true);
	TEST_EQUAL(over->o_start(sched, wait_once, NULL, &a), 0);
	t = (uintptr_t)a;
	TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(ustack_wake(a), 0);
	TEST_EQUAL(ustack_wake(me), 0);         /* it does not wait: no event */
	TEST_EQUAL(ustack_wait(), 0);
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	{
		uintptr_t f = (uintptr_t)wait_once;
		const struct {
			unsigned  e_kind, e_why;
			uintptr_t e_thread, e_other;
		} expected[] = {
			{ UTRACE_SWITCH, 0, m, 0 },     /* it ran already */
			{ UTRACE_CREATE, 0, t, m },
			{ UTRACE_BLOCK, UTRACE_YIELDS, m, 0 },
			{ UTRACE_EVICT, 0, m, 1 },
			{ UTRACE_START, 0, t, f },
			{ UTRACE_SWITCH, 0, t, m },
			{ UTRACE_BLOCK, UTRACE_WAITS, t, 0 },
			{ UTRACE_EVICT, 0, t, 1 },
			{ UTRACE_LOAD, 0, m, 1 },
			{ UTRACE_SWITCH, 0, m, t },
			{ UTRACE_WAKE, UTRACE_BY_THREAD, t, m },
			{ UTRACE_BLOCK, UTRACE_JOINS, m, 0 },
			{ UTRACE_EVICT, 0, m, 1 },
			{ UTRACE_LOAD, 0, t, 1 },
			{ UTRACE_SWITCH, 0, t, m },
			{ UTRACE_END, 0, t, 0 },
			{ UTRACE_WAKE, UTRACE_BY_JOIN, m, 0 },
			{ UTRACE_LOAD, 0, m, 1 },
			{ UTRACE_SWITCH, 0, m, 0 },
		};
		size_t i, count = sizeof expected / sizeof *expected;

		n = read_ring(ring(0));
		TEST_TRUE(n >= count);
		TEST_EQUAL(kind(&events[0]), UTRACE_ON);
		for (i = 0; i < count; i++) {
			const struct utrace_event *v = &events[n - count + i];

			TEST_EQUAL(kind(v), expected[i].e_kind);
			TEST_EQUAL(why(v), expected[i].e_why);
			TEST_EQUAL(v->v_thread, expected[i].e_thread);
			if (expected[i].e_other == 1)   /* an image, and bytes */
				TEST_TRUE(v->v_other && v->v_what >> 32 > 0);
			else
				TEST_EQUAL(v->v_other, expected[i].e_other);
			TEST_TRUE(v->v_time >= events[n - count].v_time);
		}
	}
	TEST_EQUAL(utrace_stop(), 0);
	await_on(false);
}

TEST(test_script)
{
	if (test_is_stressed())
		skip();                         /* the order is another one */
	run(play, one);
}

/* ---- Objects ---- */

static struct usync_mutex mutex;

static void lock_it(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	usync_mutex_unlock(&mutex);
}

extern const struct usched__layout usched__layout;

static void hold_it(void *unused)
{
	const struct uwait_kind *k = NULL;
	struct ustack *a;
	size_t n;

	(void)unused;
	TEST_EQUAL(utrace_start(EVENTS / 2), 0);
	await_on(true);
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_start(sched, lock_it, NULL, &a), 0);
	for (int i = 0; i < 100; i++)
		TEST_EQUAL(ustack_yield(), 0);
	usync_mutex_unlock(&mutex);
	TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	n = read_ring(ring(0));
	for (size_t i = 0; i < n; i++)
		if (kind(&events[i]) == UTRACE_BLOCK && why(&events[i]) == UTRACE_GRANT
		    && events[i].v_other == (uintptr_t)&mutex) {
			TEST_TRUE(!k);
			TEST_EQUAL(events[i].v_thread, (uintptr_t)a);
			k = (const void *)((const char *)&usched__layout
					   + (int32_t)(events[i].v_what >> 32));
		}
	TEST_TRUE(k && strcmp(k->k_name, "mutex") == 0);
	k = NULL;
	for (size_t i = 0; i < n; i++)          /* the end of the sleep */
		if (kind(&events[i]) == UTRACE_WAKE && why(&events[i]) == UTRACE_BY_EVENT)
			k = (const void *)&events[i];
	TEST_TRUE(k);
	TEST_EQUAL(utrace_stop(), 0);
	await_on(false);
}

TEST(test_objects)
{
	run(hold_it, one);
}

/* ---- The order of threads ---- */

static char order[16];

static void note_order(void *letter)
{
	TEST_EQUAL(ustack_wait(), 0);
	strncat(order, letter, 1);
}

static void wake_three(const char *expected)
{
	static char letters[] = "abc";
	struct ustack *three[3];

	order[0] = '\0';
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(over->o_start(sched, note_order, &letters[i], &three[i]), 0);
		while (three[i]->u_tokens >= 0)
			TEST_EQUAL(ustack_yield(), 0);
	}
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_wake(three[i]), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(ustack_join(three[i], NULL, USCHED_NEVER), 0);
	if (!test_is_stressed())
		TEST_TRUE(strcmp(order, expected) == 0);
}

static void keep_order(void *unused)
{
	const char *expected = over == &over_ll ? "cab" : "abc";

	(void)unused;
	for (int i = 0; i < 3; i++) {
		wake_three(expected);
		TEST_EQUAL(utrace_start(0), 0);
		await_on(true);
		wake_three(expected);
		TEST_EQUAL(utrace_stop(), 0);
		await_on(false);
	}
}

TEST(test_order)
{
	run(keep_order, one);
}

/* ---- Off ---- */

static struct usched before;

static void switch_a_lot(void *unused)
{
	struct usched *s = &proc(0)->p_sched;
	struct ustack *u;
	uint64_t count;

	(void)unused;
	before = *s;
	for (int round = 0; round < 3; round++) {
		TEST_EQUAL(utrace_start(SMALL), 0);
		await_on(true);
		TEST_TRUE(s->s_hook);
		TEST_EQUAL(over->o_start(sched, wait_once, NULL, &u), 0);
		ustack_wake(u);
		TEST_EQUAL(utrace_stop(), 0);
		await_on(false);
		TEST_TRUE(!s->s_hook && s->s_caught == before.s_caught);
		TEST_TRUE(!memcmp(&s->s_calls, &before.s_calls, sizeof s->s_calls));
		TEST_TRUE(s->s_slot == before.s_slot);
		TEST_TRUE(s->s_linger == before.s_linger && s->s_owns == before.s_owns);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		count = ring(0)->g_count;
		for (int i = 0; i < 3 * UPROC_LOOK; i++)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(ring(0)->g_count, count);
	}
}

TEST(test_off)
{
	run(switch_a_lot, one);
}

/* The scheduler ends, and the trace does not. */
static void trace_on(void *unused)
{
	(void)unused;
	TEST_EQUAL(utrace_start(SMALL), 0);
	await_on(true);
	TEST_EQUAL(utrace__control.c_users, 1);
}

TEST(test_left_on)
{
	for (int i = 0; i < 2; i++)
		run(trace_on, one);
	TEST_EQUAL(utrace__control.c_users, 0);
	TEST_EQUAL(utrace_stop(), 0);
}

/* ---- More events than the ring has room for ---- */

static void overrun(void *unused)
{
	uint64_t lost = 0;
	size_t n;

	(void)unused;
	TEST_EQUAL(utrace_start(SMALL), 0);
	await_on(true);
	for (int i = 0; i < 10 * SMALL; i++)
		TEST_EQUAL(ustack_yield(), 0);
	n = utrace__read(ring(0), events, EVENTS, &lost);
	TEST_EQUAL(n, SMALL - 8);
	TEST_EQUAL(n + lost, ring(0)->g_count - ring(0)->g_begin);
	TEST_EQUAL(kind(&events[n - 1]), UTRACE_SWITCH);
	TEST_EQUAL(events[n - 1].v_thread, (uintptr_t)ustack_self());
	for (size_t i = 1; i < n; i++)
		TEST_TRUE(events[i - 1].v_time <= events[i].v_time);
	TEST_EQUAL(utrace_start((size_t)UTRACE_EVENTS_MAX + 1), -EINVAL);
	TEST_EQUAL(utrace_stop(), 0);
	await_on(false);
}

TEST(test_overrun)
{
	run(overrun, one);
}

/* ---- Several processors ---- */

static struct usync_group group;
static size_t rounds;

static void work(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < rounds; i++) {
		TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
		if (i % 4 == 0)
			TEST_EQUAL(ustack_yield(), 0);
		usync_mutex_unlock(&mutex);
		if (i % 8 == 0)
			TEST_EQUAL(usync_sleep_until(usync_after(MILLI / 50)), 0);
	}
	usync_group_done(&group);
}

/* What a ring has is what one processor can have done. */
static void check_ring(const struct utrace_ring *g)
{
	uint64_t runs = 0, lost;
	bool known = false;
	size_t n = utrace__read(g, events, EVENTS, &lost);

	for (size_t i = 0; i < n; i++) {
		const struct utrace_event *v = &events[i];

		switch (kind(v)) {
		case UTRACE_ON:
			known = false;
			break;
		case UTRACE_SWITCH:
			TEST_TRUE(!known || !runs);
			runs = v->v_thread;
			known = true;
			break;
		case UTRACE_BLOCK:
		case UTRACE_END:
			TEST_TRUE(!known || runs == v->v_thread);
			runs = 0;
			known = true;
			break;
		case UTRACE_WAKE:
			if (known && why(v) == UTRACE_BY_THREAD)
				TEST_EQUAL(v->v_other, runs);
			TEST_TRUE(!known || v->v_thread != runs);
			break;
		default:
			TEST_TRUE(kind(v) <= UTRACE_MOVE);
		}
	}
}

/* The lines of what is written; of events, their number is right. */
static char *lines_of(void)
{
	size_t size, used = 0;
	char *text, *at, *end = NULL;
	FILE *file = tmpfile();

	TEST_TRUE(file);
	TEST_EQUAL(utrace_write(fileno(file)), 0);
	size = (size_t)lseek(fileno(file), 0, SEEK_END);
	text = test_contents(file);
	TEST_TRUE(strncmp(text, "usched trace 1 ", 15) == 0);
	for (at = text; at < text + size; at = end) {
		unsigned long long count = 0;
		size_t n;

		end = memchr(at, '\n', (size_t)(text + size - at));
		TEST_TRUE(end);
		n = (size_t)(++end - at);
		if (sscanf(at, "processor %*s %*s %*s %*s %llu\n", &count) == 1
		    || sscanf(at, "natives %*s %*s %*s %llu\n", &count) == 1)
			end += count * sizeof(struct utrace_event);
		memmove(text + used, at, n);
		used += n;
	}
	TEST_EQUAL(end - text, size);
	text[used] = '\0';
	TEST_TRUE(used > 4 && strcmp(text + used - 4, "end\n") == 0);
	return text;
}

static size_t threads;

/* While they run, it begins and ends. */
static void watch(void *unused)
{
	(void)unused;
	usync_group_add(&group, (uint32_t)threads);
	for (size_t i = 0; i < threads; i++)
		TEST_EQUAL(over->o_start(sched, work, NULL, NULL), 0);
	for (int i = 0; i < 10; i++) {
		TEST_EQUAL(utrace_start(EVENTS), 0);
		TEST_TRUE(utrace_keep(i % 3 > 0) >= 0);
		usync_sleep_until(usync_after(2 * MILLI));
		for (unsigned k = 0; k < PROCESSORS; k++)
			if (ring(k))
				check_ring(ring(k));
		free(lines_of());
		if (i % 2)
			TEST_EQUAL(utrace_stop(), 0);
		usync_sleep_until(usync_after(MILLI));
	}
	TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
	TEST_TRUE(utrace_keep(0) >= 0);
	TEST_EQUAL(utrace_stop(), 0);
}

TEST(test_many)
{
	threads = test_scale(MANY, 20);
	rounds = test_scale(200, 20);
	run(watch, (struct uprocs_conf){ .c_processors = PROCESSORS, .c_stacks = 4 });
	run(watch, (struct uprocs_conf){ .c_processors = PROCESSORS });
}

/* ---- Threads that move ---- */

static void burn(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20; i++) {
		int64_t end = usync_after(MILLI / 10);

		while (usync_after(0) < end)
			;
		TEST_EQUAL(ustack_yield(), 0);
	}
	usync_group_done(&group);
}

static size_t count_kind(unsigned wanted)
{
	size_t all = 0;

	for (unsigned k = 0; k < PROCESSORS; k++) {
		size_t n = read_ring(ring(k));

		for (size_t i = 0; i < n; i++)
			all += kind(&events[i]) == wanted;
	}
	return all;
}

/* Each processor has something to run, so that it is on. */
static void start_moving(void *unused)
{
	struct usched_stats first, stats;
	size_t n = PROCESSORS * 8;

	(void)unused;
	TEST_EQUAL(utrace_start(EVENTS / 2), 0);
	for (int i = 0; i < PROCESSORS; i++)
		while (!is_on((unsigned)i)) {
			usync_group_add(&group, (uint32_t)n);
			for (size_t k = 0; k < n; k++)
				TEST_EQUAL(over->o_start(sched, burn, NULL, NULL), 0);
			TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
		}
	over->o_stats(sched, &first);
	for (unsigned i = 0; i < PROCESSORS; i++)
		ring(i)->g_begin = __atomic_load_n(&ring(i)->g_count, __ATOMIC_ACQUIRE);
	usync_group_add(&group, (uint32_t)n);
	for (size_t k = 0; k < n; k++)
		TEST_EQUAL(over->o_start(sched, burn, NULL, NULL), 0);
	TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
	over->o_stats(sched, &stats);
	TEST_EQUAL(count_kind(UTRACE_MOVE), stats.s_moves - first.s_moves);
	TEST_EQUAL(count_kind(UTRACE_START), n);
	TEST_EQUAL(utrace_stop(), 0);
}

TEST(test_moves)
{
	run(start_moving, (struct uprocs_conf){ .c_processors = PROCESSORS });
}

/* ---- Mail ---- */

#ifndef SINGLE_THREAD

static void *wake_it(void *thread)
{
	TEST_EQUAL(ustack_wake(thread), 0);
	return NULL;
}

static void get_mail(void *unused)
{
	struct ustack *me = ustack_self();
	bool posted = false, woken = false;
	pthread_t native;
	size_t n;

	(void)unused;
	TEST_EQUAL(utrace_start(EVENTS / 2), 0);
	await_on(true);
	over->o_hold(sched);
	TEST_EQUAL(pthread_create(&native, NULL, wake_it, me), 0);
	TEST_EQUAL(ustack_wait(), 0);
	over->o_release(sched);
	pthread_join(native, NULL);
	n = read_ring(ring(0));
	for (size_t i = 0; i < n; i++)
		woken |= kind(&events[i]) == UTRACE_WAKE
			&& why(&events[i]) == UTRACE_BY_MAIL
			&& events[i].v_thread == (uintptr_t)me;
	n = read_ring(utrace__control.c_native);
	for (size_t i = 0; i < n; i++)
		posted |= kind(&events[i]) == UTRACE_POST
			&& events[i].v_thread == (uintptr_t)me
			&& events[i].v_other == (uintptr_t)native;
	TEST_TRUE(posted);
	TEST_TRUE(woken || n > 0);              /* it may have come before the wait */
	TEST_EQUAL(utrace_stop(), 0);
	await_on(false);
}

TEST(test_mail)
{
	run(get_mail, one);
}

#endif

/* ---- The text of a trace ---- */

static void read_byte(void *fd)
{
	TEST_EQUAL(unet_wait(*(int *)fd, POLLIN, USCHED_NEVER), 0);
}

/* The number of a descriptor is no address. */
static void name_descriptor(void)
{
	static int fds[2];              /* not in frames, for another thread reads it */
	struct ustack *a;
	char *text;

	TEST_EQUAL(pipe(fds), 0);
	TEST_EQUAL(over->o_start(sched, read_byte, &fds[0], &a), 0);
	while (a->u_tokens >= 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(write(fds[1], "x", 1), 1);
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	text = lines_of();
	TEST_TRUE(strstr(text, " 1 descriptor\n"));
	free(text);
	TEST_EQUAL(unet_close(fds[0]) + close(fds[1]), 0);
}

static void name_and_write(void *unused)
{
	char *text, expected[40];
	struct ustack *a;

	(void)unused;
	TEST_EQUAL(utrace_start(0), 0);
	await_on(true);
	TEST_EQUAL(over->o_start(sched, wait_once, NULL, &a), 0);
	TEST_EQUAL(ustack_name(a, "no\nrth"), 0);
	while (a->u_tokens >= 0)
		TEST_EQUAL(ustack_yield(), 0);
	text = lines_of();
	snprintf(expected, sizeof expected, "\nthread %p no?rth\n", (void *)a);
	TEST_TRUE(strstr(text, expected));
	TEST_TRUE(strstr(text, "\nprocessor 0.0 "));
	TEST_TRUE(strstr(text, "\nnatives "));
	free(text);
	TEST_EQUAL(ustack_wake(a), 0);
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	text = lines_of();
	TEST_TRUE(strstr(text, " a time that never comes\n"));
	free(text);
	name_descriptor();
	TEST_EQUAL(utrace_stop(), 0);
	await_on(false);
	TEST_EQUAL(utrace_write(-1), -EBADF);
}

TEST(test_write)
{
	run(name_and_write, one);
}

/* ---- What is kept ---- */

static char *text_of(int (*f)(int fd, unsigned how), unsigned how)
{
	FILE *file = tmpfile();

	TEST_TRUE(file);
	TEST_EQUAL(f(fileno(file), how), 0);
	return test_contents(file);
}

static int metrics(int fd, unsigned unused)
{
	(void)unused;
	return uinspect_metrics(fd);
}

static void keep_times(void *unused)
{
	const struct utrace_kept *k;
	int64_t started, since;
	uintptr_t where;
	struct ustack *a;
	uint64_t now;
	char *text;

	(void)unused;
	utrace__ages(ustack_self(), &started, &where, &since);
	TEST_TRUE(started == -1 && since == -1 && where == 0);
	TEST_EQUAL(utrace_keep(1), 0);
	await_on(true);
	TEST_EQUAL(over->o_start(sched, wait_once, NULL, &a), 0);
	while (a->u_tokens >= 0)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(20 * MILLI)), 0);
	utrace__ages(a, &started, &where, &since);
	TEST_TRUE(where != 0);
	TEST_TRUE(since >= 15 * MILLI && started >= since);
	TEST_TRUE(started < 100000 * (int64_t)MILLI);
	text = text_of(uinspect_dump, 0);
	TEST_TRUE(strstr(text, ", started ") && strstr(text, " s ago at ")
		  && strstr(text, ", blocked for "));
	free(text);
	text = text_of(metrics, 0);
	TEST_TRUE(strstr(text, "usched_delay_seconds_bucket{scheduler=\"0\","
			 "processor=\"0\",le=\"0.000001\"} "));
	TEST_TRUE(strstr(text, "le=\"+Inf\"} ") && !strstr(text, "le=\"+Inf\"} 0\n"));
	free(text);
	now = when_ticks();
	TEST_EQUAL(ustack_wake(a), 0);
	k = &utrace__control.c_table[(uintptr_t)a / 64 % UTRACE_KEPT];
	while (k->k_thread != (uintptr_t)a)
		k++;
	TEST_TRUE(k->k_since < now && k->k_ready >= now);
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(utrace_keep(0), 1);
	await_on(false);
}

/* The return address of the call. */
__attribute__((noinline)) static const void *here(void)
{
	return __builtin_return_address(0);
}

enum { NEAR = 256 };                    /* bytes of code between two calls */

static struct ustack *in_scope;
static uintptr_t      behind;           /* the call that started it */

static int wait_in_scope(void *unused)
{
	(void)unused;
	in_scope = ustack_self();
	return ustack_wait();
}

__attribute__((noinline)) static int start_in_scope(struct usync_scope *scope)
{
	int rc = usync_scope_start(scope, wait_in_scope, NULL, NULL);

	behind = (uintptr_t)here();
	return rc;
}

/* A thread of a scope was started by the call of the program. */
static void keep_starter(void *unused)
{
	struct usync_scope *scope;
	int64_t started, since;
	uintptr_t where;

	(void)unused;
	in_scope = NULL;
	TEST_EQUAL(utrace_keep(1), 0);
	await_on(true);
	TEST_EQUAL(usync_scope_create(NULL, &scope, USCHED_NEVER), 0);
	TEST_EQUAL(start_in_scope(scope), 0);
	while (!in_scope || in_scope->u_tokens >= 0)
		TEST_EQUAL(ustack_yield(), 0);
	utrace__ages(in_scope, &started, &where, &since);
	TEST_TRUE(where < behind && behind - where < NEAR);
	TEST_EQUAL(ustack_wake(in_scope), 0);
	TEST_EQUAL(usync_scope_wait(scope, USCHED_NEVER), 0);
	usync_scope_release(scope);
	TEST_EQUAL(utrace_keep(0), 1);
	await_on(false);
}

static void wake_back(void *other)
{
	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(ustack_wait(), 0);
		TEST_EQUAL(ustack_wake(other), 0);
	}
}

/* From one thread to another that is in place. */
static void keep_handovers(void *unused)
{
	int64_t started, since;
	uintptr_t where;
	struct ustack *a;

	(void)unused;
	TEST_EQUAL(utrace_keep(1), 0);
	await_on(true);
	TEST_EQUAL(over->o_start(sched, wake_back, ustack_self(), &a), 0);
	for (int i = 0; i < 3; i++) {
		while (a->u_tokens >= 0)
			TEST_EQUAL(ustack_yield(), 0);
		utrace__ages(a, &started, &where, &since);
		TEST_TRUE(started >= since && since >= 0);
		TEST_EQUAL(ustack_wake(a), 0);
		TEST_EQUAL(ustack_wait(), 0);
	}
	TEST_EQUAL(ustack_join(a, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(utrace_keep(0), 1);
	await_on(false);
}

TEST(test_keep)
{
	static const struct uprocs_conf several = { .c_processors = 1 };

	run(keep_times, one);
	run(keep_starter, one);
	run(keep_handovers, several);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
