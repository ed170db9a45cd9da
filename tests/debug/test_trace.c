/* SPDX-License-Identifier: MIT */
/*
 * test_trace.c: events of a trace: which there are and in which order, with one processor
 * and several, while it begins and ends; and that nothing of it is left when it is off.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../uproc.h"
#include "../../usync.h"
#include "../../debug/trace.h"
#include "../../debug/uinspect.h"
#include "../help/over.h"

#ifdef SINGLE_THREAD
enum { PROCESSORS = 1 };
#else
enum { PROCESSORS = 3 };
#endif

enum { MANY_LOG = 12, EVENTS = 1 << MANY_LOG, SMALL_LOG = 6, SMALL = 64, MARGIN = 8 };
enum { MANY = 200, MILLI = 1000000 };

/* Has processors begin or end, as a reader from outside does. */
static void ask(unsigned size_log)
{
	__atomic_store_n(&utrace__control.tc_asked, size_log, __ATOMIC_RELAXED);
}

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

	return g && __atomic_load_n(&g->rg_on, __ATOMIC_ACQUIRE);
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

/* Reads events as a reader from outside does. Returns their number. */
static size_t read_ring(struct utrace_ring *g)
{
	uint64_t size = EVENTS, end, from;
	size_t n;

	if (!g || !__atomic_load_n(&g->rg_events, __ATOMIC_ACQUIRE))
		return 0;
	if (g->rg_size < size)
		size = g->rg_size;
	end = __atomic_load_n(&g->rg_count, __ATOMIC_ACQUIRE);
	from = __atomic_load_n(&g->rg_begin, __ATOMIC_ACQUIRE);
	if (end - from > size - MARGIN)
		from = end - (size - MARGIN);
	n = (size_t)(end - from);
	for (size_t i = 0; i < n; i++) {
		const struct utrace_event *v = &g->rg_events[(from + i) % g->rg_size];

		events[i].v_time = __atomic_load_n(&v->v_time, __ATOMIC_ACQUIRE);
		events[i].v_thread = __atomic_load_n(&v->v_thread, __ATOMIC_ACQUIRE);
		events[i].v_other = __atomic_load_n(&v->v_other, __ATOMIC_ACQUIRE);
		events[i].v_what = __atomic_load_n(&v->v_what, __ATOMIC_ACQUIRE);
	}
	end = __atomic_load_n(&g->rg_count, __ATOMIC_ACQUIRE);
	if (end - from <= g->rg_size - MARGIN)
		return n;
	end -= g->rg_size - MARGIN;              /* older events are overwritten */
	n = end - from < n ? n - (size_t)(end - from) : 0;
	memmove(events, events + (end - from), n * sizeof *events);
	return n;
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
	ask(MANY_LOG);
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
			unsigned  gk_kind, e_why;
			uintptr_t e_thread, e_other;
			bool      e_loads;
		} expected[] = {
			{ UTRACE_SWITCH, 0, m, 0, false },      /* it ran already */
			{ UTRACE_CREATE, 0, t, m, false },
			{ UTRACE_BLOCK, UTRACE_YIELDS, m, 0, false },
			{ UTRACE_START, 0, t, f, false },
			{ UTRACE_SWITCH, 0, t, m, false },
			{ UTRACE_BLOCK, UTRACE_WAITS, t, 0, false },
			{ UTRACE_SWITCH, 0, m, t, true },
			{ UTRACE_WAKE, UTRACE_BY_THREAD, t, m, false },
			{ UTRACE_BLOCK, UTRACE_JOINS, m, 0, false },
			{ UTRACE_SWITCH, 0, t, m, true },
			{ UTRACE_END, 0, t, 0, false },
			{ UTRACE_WAKE, UTRACE_BY_JOIN, m, 0, false },
			{ UTRACE_SWITCH, 0, m, 0, true },
		};
		size_t i, count = sizeof expected / sizeof *expected;

		n = read_ring(ring(0));
		TEST_TRUE(n >= count);
		for (i = 0; i < count; i++) {
			const struct utrace_event *v = &events[n - count + i];

			TEST_EQUAL(kind(v), expected[i].gk_kind);
			TEST_EQUAL(why(v), expected[i].e_why);
			TEST_EQUAL(v->v_thread, expected[i].e_thread);
			TEST_EQUAL(v->v_other, expected[i].e_other);
			TEST_EQUAL(v->v_what >> 32 > 0, expected[i].e_loads);
			TEST_TRUE(v->v_time >= events[n - count].v_time);
		}
	}
	ask(0);
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
	ask(MANY_LOG);
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
	TEST_TRUE(k && strcmp(k->kd_name, "mutex") == 0);
	k = NULL;
	for (size_t i = 0; i < n; i++)          /* the end of the sleep */
		if (kind(&events[i]) == UTRACE_WAKE && why(&events[i]) == UTRACE_BY_EVENT)
			k = (const void *)&events[i];
	TEST_TRUE(k);
	ask(0);
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
		ask(MANY_LOG);
		await_on(true);
		wake_three(expected);
		ask(0);
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
		ask(SMALL_LOG);
		await_on(true);
		TEST_TRUE(s->s_hook);
		TEST_EQUAL(over->o_start(sched, wait_once, NULL, &u), 0);
		ustack_wake(u);
		ask(0);
		await_on(false);
		TEST_TRUE(!s->s_hook && s->s_caught == before.s_caught);
		TEST_TRUE(!memcmp(&s->s_calls, &before.s_calls, sizeof s->s_calls));
		TEST_TRUE(s->s_slot == before.s_slot);
		TEST_TRUE(s->s_linger == before.s_linger && s->s_owns == before.s_owns);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
		count = ring(0)->rg_count;
		for (int i = 0; i < 3 * UPROC_LOOK; i++)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(ring(0)->rg_count, count);
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
	ask(SMALL_LOG);
	await_on(true);
}

TEST(test_left_on)
{
	for (int i = 0; i < 2; i++)
		run(trace_on, one);
	ask(0);
}

/* ---- More events than the ring has room for ---- */

static void overrun(void *unused)
{
	size_t n;

	(void)unused;
	ask(SMALL_LOG);
	await_on(true);
	for (int i = 0; i < 10 * SMALL; i++)
		TEST_EQUAL(ustack_yield(), 0);
	n = read_ring(ring(0));
	TEST_EQUAL(n, SMALL - MARGIN);
	TEST_EQUAL(kind(&events[n - 1]), UTRACE_SWITCH);
	TEST_EQUAL(events[n - 1].v_thread, (uintptr_t)ustack_self());
	for (size_t i = 1; i < n; i++)
		TEST_TRUE(events[i - 1].v_time <= events[i].v_time);
	ask(0);
	await_on(false);
}

TEST(test_overrun)
{
	run(overrun, one);
}

/* ---- Records ---- */

/* Compares a record with the events that the ring still has. Returns the number of lines
   that were compared. */
static size_t compare_record(FILE *file, const char *name)
{
	size_t n = read_ring(ring(0)), at = 0, count = 0;
	char line[256], text[64];
	void *u, *other;
	bool named = false;
	unsigned k, w;
	uint64_t when;

	rewind(file);
	while (fgets(line, sizeof line, file)) {
		named |= sscanf(line, "thread %p %*s %63s", &u, text) == 2
			&& u == (void *)ustack_self() && strcmp(text, name) == 0;
		if (sscanf(line, "%" SCNu64 " %u %u %p %p", &when, &k, &w, &u, &other)
		    != 5 || when < events[0].v_time || k == UTRACE_OFF)
			continue;
		while (at < n && (events[at].v_time != when || kind(&events[at]) != k))
			at++;
		TEST_TRUE(at < n && why(&events[at]) == w);
		TEST_EQUAL(events[at].v_thread, (uintptr_t)u);
		TEST_EQUAL(events[at].v_other, (uintptr_t)other);
		count++;
	}
	TEST_TRUE(named);
	return count;
}

static void write_record(void *unused)
{
	FILE *file = tmpfile();

	(void)unused;
	TEST_TRUE(file);
	TEST_EQUAL(uinspect_dump(fileno(file), UINSPECT_RECORD), -ENOTSUP);
	ask(SMALL_LOG);
	await_on(true);
	TEST_EQUAL(ustack_name(ustack_self(), "writer"), 0);
	for (int i = 0; i < SMALL; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI / 50)), 0);
	TEST_EQUAL(uinspect_dump(fileno(file), UINSPECT_RECORD), 0);
	TEST_TRUE(compare_record(file, "writer") >= SMALL / 2);
	fclose(file);
	ask(0);
	await_on(false);
}

TEST(test_record)
{
	run(write_record, one);
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
static void check_ring(struct utrace_ring *g)
{
	uint64_t runs = 0;
	bool known = false;
	size_t n = read_ring(g);

	for (size_t i = 0; i < n; i++) {
		const struct utrace_event *v = &events[i];

		switch (kind(v)) {
		case UTRACE_OFF:
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

static size_t threads;

/* While they run, it begins and ends. */
static void watch(void *unused)
{
	(void)unused;
	usync_group_add(&group, (uint32_t)threads);
	for (size_t i = 0; i < threads; i++)
		TEST_EQUAL(over->o_start(sched, work, NULL, NULL), 0);
	for (int i = 0; i < 10; i++) {
		ask(MANY_LOG);
		usync_sleep_until(usync_after(2 * MILLI));
		for (unsigned k = 0; k < PROCESSORS; k++)
			if (ring(k))
				check_ring(ring(k));
		if (i % 2)
			ask(0);
		usync_sleep_until(usync_after(MILLI));
	}
	TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
	ask(0);
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
	ask(MANY_LOG);
	for (int i = 0; i < PROCESSORS; i++)
		while (!is_on((unsigned)i)) {
			usync_group_add(&group, (uint32_t)n);
			for (size_t k = 0; k < n; k++)
				TEST_EQUAL(over->o_start(sched, burn, NULL, NULL), 0);
			TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
		}
	over->o_stats(sched, &first);
	for (unsigned i = 0; i < PROCESSORS; i++)
		ring(i)->rg_begin = __atomic_load_n(&ring(i)->rg_count, __ATOMIC_ACQUIRE);
	usync_group_add(&group, (uint32_t)n);
	for (size_t k = 0; k < n; k++)
		TEST_EQUAL(over->o_start(sched, burn, NULL, NULL), 0);
	TEST_EQUAL(usync_group_wait(&group, USCHED_NEVER), 0);
	over->o_stats(sched, &stats);
	TEST_EQUAL(count_kind(UTRACE_MOVE), stats.st_moves - first.st_moves);
	TEST_EQUAL(count_kind(UTRACE_START), n);
	ask(0);
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
	ask(MANY_LOG);
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
	n = read_ring(utrace__control.tc_mail);
	for (size_t i = 0; i < n; i++)
		posted |= kind(&events[i]) == UTRACE_POST
			&& events[i].v_thread == (uintptr_t)me
			&& events[i].v_other == (uintptr_t)native;
	TEST_TRUE(posted);
	TEST_TRUE(woken || n > 0);              /* it may have come before the wait */
	ask(0);
	await_on(false);
}

TEST(test_mail)
{
	run(get_mail, one);
}

#endif

int main(void)
{
	return over_all(OVER_PROCS);
}
