/* SPDX-License-Identifier: MIT */
/*
 * test_offload.c: the pool of native threads: calls, their order and bound, callers that
 * give up, native threads that cannot be made. Linked with -Wl,--wrap=pthread_create.
 */
#include "../help/pool.h"

#include <signal.h>

static atomic_bool natives_fail;

int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg);

int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg)
{
	return natives_fail ? EAGAIN : test_create_native(native, attr, func, arg);
}

/* ---- Calls ---- */

static void call_nothing(void *arg)
{
	(void)arg;
	entered++;
}

static void look_at_mask(void *arg)
{
	sigset_t set;

	TEST_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(sigismember(&set, i ? SIGTERM : SIGUSR1), 1);
	++*(int *)arg;
}

/* Meanwhile the processor runs other threads: this one opens the gate. */
static void calls(void)
{
	static struct caller c;
	int64_t hour = usync_after(3600 * USYNC_SECOND);
	struct ustack *u;
	int n = 4;

	reset_counts(false);
	u = go_call(&c, 5, NEVER);
	await_count(&running, 1);
	TEST_EQUAL(c.c_returned, 0);
	open_gate = true;
	join(u);
	TEST_EQUAL(c.c_rc, 0);
	TEST_EQUAL(c.c_call.c_out, 15);
	TEST_TRUE(!pthread_equal(c.c_call.c_native, pthread_self()));
	TEST_EQUAL(uoffload(look_at_mask, NULL, &n, sizeof n, hour), 0);
	TEST_EQUAL(n, 5);
	TEST_EQUAL(uoffload(call_nothing, drop_call, NULL, 0, NEVER), 0);
	TEST_EQUAL(entered, 2);
	TEST_EQUAL(dropped, 0);
	TEST_EQUAL(uoffload(call_nothing, NULL, &n, SIZE_MAX - 8, NEVER), -ENOMEM);
	TEST_EQUAL(entered, 2);
}

static void calls_native(void)
{
	struct caller c = { .c_call = { .c_in = 2 }, .c_deadline = NEVER };

	reset_counts(true);
	call_it(&c);
	TEST_EQUAL(c.c_rc, 0);
	TEST_EQUAL(c.c_call.c_out, 6);
	TEST_TRUE(!pthread_equal(c.c_call.c_native, pthread_self()));
	reset_counts(false);
	c = (struct caller){ .c_call = { .c_in = 2, .c_out = 1 },
			     .c_deadline = usync_after(2 * MILLI) };
	call_it(&c);
	TEST_EQUAL(c.c_rc, -ETIMEDOUT);
	TEST_EQUAL(c.c_call.c_out, 1);
	TEST_EQUAL(dropped, 0);
	open_gate = true;
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(dropped, 1);
}

/* ---- The bound ---- */

enum { CALLERS = 20, BOUND = 3 };

static void keep_bound(void)
{
	static struct caller callers[CALLERS];
	struct ustack *threads[CALLERS];

	TEST_EQUAL(uoffload_limit(0), -EINVAL);
	TEST_EQUAL(uoffload_limit(BOUND), 0);
	reset_counts(false);
	for (int i = 0; i < CALLERS; i++)
		threads[i] = go_call(&callers[i], i, NEVER);
	await_count(&running, BOUND);
	nap(10);
	TEST_EQUAL(running, BOUND);
	open_gate = true;
	for (int i = 0; i < CALLERS; i++) {
		join(threads[i]);
		TEST_EQUAL(callers[i].c_rc, 0);
		TEST_EQUAL(callers[i].c_call.c_out, 3 * i);
	}
	TEST_EQUAL(most, BOUND);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* The default bound. Native threads above a lowered bound end. */
static void lower_bound(void)
{
	static struct caller callers[UOFFLOAD_THREADS + 5];
	struct ustack *threads[UOFFLOAD_THREADS + 5];
	size_t before = natives();

	reset_counts(false);
	for (int i = 0; i < UOFFLOAD_THREADS + 5; i++)
		threads[i] = go_call(&callers[i], i, NEVER);
	await_count(&running, UOFFLOAD_THREADS);
	TEST_EQUAL(natives(), before + UOFFLOAD_THREADS);
	TEST_EQUAL(uoffload_limit(2), 0);
	TEST_EQUAL(running, UOFFLOAD_THREADS);
	open_gate = true;
	for (int i = 0; i < UOFFLOAD_THREADS + 5; i++)
		join(threads[i]);
	TEST_EQUAL(most, UOFFLOAD_THREADS);
	await_natives(before + 2);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* With one native thread calls are first in, first out. */
static void keep_order(void)
{
	static struct caller callers[CALLERS];
	struct ustack *threads[CALLERS];

	TEST_EQUAL(uoffload_limit(1), 0);
	reset_counts(false);
	for (int i = 0; i < CALLERS; i++) {
		uint32_t before = waiting(ustack_self());

		threads[i] = go_call(&callers[i], i, NEVER);
		while (waiting(ustack_self()) == before)        /* not queued yet */
			TEST_EQUAL(ustack_yield(), 0);
	}
	open_gate = true;
	for (int i = 0; i < CALLERS; i++)
		join(threads[i]);
	TEST_EQUAL(most, 1);
	for (int i = 0; i < CALLERS; i++)
		TEST_EQUAL(order[i], i);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* ---- Callers that give up ---- */

static void gives_up(bool cancel, bool queued)
{
	static struct caller c;
	struct ustack *u, *v = NULL;

	if (queued)
		v = occupy_pool();
	else
		reset_counts(false);
	u = go_call(&c, 1, cancel ? NEVER : usync_after(3 * MILLI));
	if (cancel) {
		await_count(&running, 1);
		nap(3);
		TEST_EQUAL(ustack_cancel(u), 0);
	}
	join(u);
	TEST_EQUAL(c.c_rc, cancel ? -ECANCELED : -ETIMEDOUT);
	TEST_EQUAL(c.c_call.c_out, -1);         /* not written to */
	TEST_EQUAL(dropped, 0);                 /* not before the call */
	open_gate = true;
	if (v)
		join(v);
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(dropped + spared, 1);        /* spared on a slow machine */
	TEST_EQUAL(finished, dropped + queued);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* Callers that give up before the call, or during it: it is dropped once. */
static void never_called(void)
{
	static struct caller c;
	struct ustack *u;
	int rc;

	reset_counts(true);
	join(go_call(&c, 1, 0));
	TEST_EQUAL(c.c_rc, -ETIMEDOUT);
	TEST_EQUAL(spared, 1);
	reset_counts(true);
	u = go_call(&c, 1, NEVER);
	rc = ustack_cancel(u);          /* on another processor it may have ended */
	TEST_TRUE(rc == 0 || rc == -ESRCH);
	join(u);
	uoffload_drain(USCHED_NEVER);
	TEST_TRUE(c.c_rc == -ECANCELED || c.c_rc == 0);
	TEST_EQUAL(finished, dropped + (c.c_rc == 0));
	TEST_EQUAL(dropped + spared + (c.c_rc == 0), 1);
}

static void no_drop(void)
{
	struct call call = { .c_in = 1, .c_out = -1 };
	int64_t soon = usync_after(MILLI);

	reset_counts(false);
	TEST_EQUAL(uoffload(pass_gate, NULL, &call, sizeof call, soon), -ETIMEDOUT);
	TEST_EQUAL(call.c_out, -1);
	open_gate = true;
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(finished, 1);
}

static void give_up(void)
{
	for (int i = 0; i < 4; i++)
		gives_up(i % 2, i / 2);
	never_called();
	no_drop();
}

/* Deadlines around the end of calls. */
struct raced {
	atomic_int r_done;
	atomic_int r_calls;
};

static void race(void *arg)
{
	struct raced *r = arg;
	uint32_t seed = (uint32_t)(uintptr_t)&seed;
	size_t rounds = test_scale(300, 10);

	for (size_t i = 0; i < rounds; i++) {
		struct call call = { .c_in = (int)i, .c_out = -1 };
		int rc = uoffload(pass_gate, drop_call, &call, sizeof call,
				  usync_after(test_random(&seed) % 200000));

		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
		TEST_EQUAL(call.c_out, rc ? -1 : 3 * (int)i);
		r->r_done += rc == 0;
		r->r_calls++;
	}
}

static void races(void)
{
	static struct raced r;
	struct ustack *threads[8];

	reset_counts(true);
	r = (struct raced){ 0, 0 };
	TEST_EQUAL(uoffload_limit(2), 0);
	for (int i = 0; i < 8; i++)
		threads[i] = go(race, &r);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(finished, r.r_done + dropped);
	TEST_TRUE(finished <= r.r_calls);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* ---- Native threads ---- */

static void no_natives(void)
{
	static struct caller first, second;
	struct ustack *u, *v;

	uoffload_drain(USCHED_NEVER);
	reset_counts(false);
	natives_fail = true;
	join(go_call(&first, 1, NEVER));
	TEST_EQUAL(first.c_rc, -EAGAIN);
	TEST_EQUAL(entered, 0);
	natives_fail = false;
	u = go_call(&first, 1, NEVER);
	await_count(&running, 1);
	natives_fail = true;                    /* one does both calls */
	v = go_call(&second, 2, NEVER);
	nap(3);
	TEST_EQUAL(second.c_returned, 0);
	open_gate = true;
	join(u);
	join(v);
	natives_fail = false;
	TEST_EQUAL(second.c_rc, 0);
	TEST_EQUAL(most, 1);
	TEST_EQUAL(dropped, 0);
}

static atomic_bool drained;

static void drain_native(void *unused)
{
	(void)unused;
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(finished, 2);
	drained = true;
}

/* A drain waits for calls and ends the native threads. The next call makes new ones. */
static void drains(void)
{
	static struct caller callers[2];
	struct ustack *threads[2];
	pthread_t native;
	size_t before;

	uoffload_drain(USCHED_NEVER);
	before = natives();
	reset_counts(false);
	drained = false;
	for (int i = 0; i < 2; i++)
		threads[i] = go_call(&callers[i], i, NEVER);
	await_count(&running, 2);
	native = go_native(drain_native, NULL);
	nap(3);
	TEST_TRUE(!drained);
	open_gate = true;
	for (int i = 0; i < 2; i++)
		join(threads[i]);
	join_native(native);
	while (natives() != before)             /* about to end */
		TEST_EQUAL(ustack_yield(), 0);
	join(go_call(&callers[0], 4, NEVER));
	TEST_EQUAL(callers[0].c_rc, 0);
	TEST_EQUAL(callers[0].c_call.c_out, 12);
}

/* What a drain with that deadline says on standard error, in static memory. */
static const char *drain_by(int64_t deadline, int expected)
{
	static char text[2000];
	int copy = dup(STDERR_FILENO), ends[2];
	ssize_t n;

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	assert_int_equal(uoffload_drain(deadline), expected);
	dup2(copy, STDERR_FILENO);
	close(copy);
	close(ends[1]);
	n = read(ends[0], text, sizeof text - 1);
	close(ends[0]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/*
 * Calls that their callers have given up go on beyond the deadline, and are named; what
 * they use stays theirs. Idle native threads end, also by a deadline that has come.
 */
static void drain_late(void)
{
	struct caller c = { .c_call = { .c_in = 2, .c_out = 1 } };
	const char *text;

	reset_counts(false);
	for (int i = 0; i < 3; i++) {
		c.c_deadline = usync_after(MILLI);
		call_it(&c);
		TEST_EQUAL(c.c_rc, -ETIMEDOUT);
	}
	while (running < 3)
		sched_yield();
	for (int i = 0; i < 3; i++) {
		text = drain_by(i == 0 ? usync_after(MILLI) : i == 1 ? 0 : INT64_MIN,
				-ETIMEDOUT);
		assert_non_null(strstr(text, "calls that go on at the deadline"));
		assert_non_null(strstr(text, " pass_gate), calls: 3\n"));
		assert_null(strstr(text, "wait for a native thread"));
	}
	uoffload_limit(3);
	c.c_deadline = usync_after(MILLI);
	call_it(&c);
	text = drain_by(0, -ETIMEDOUT);
	assert_non_null(strstr(text, "that wait for a native thread: 1\n"));
	uoffload_limit(UOFFLOAD_THREADS);
	open_gate = true;
	assert_string_equal(drain_by(INT64_MAX - 1, 0), "");
	assert_int_equal(dropped, 4);
	assert_int_equal(uoffload(call_nothing, NULL, NULL, 0, NEVER), 0);
	assert_string_equal(drain_by(0, 0), "");
}

/* A native thread with a cancel pending. */
static void call_cancelled(void *unused)
{
	char c;
	int before, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)unused;
	pthread_cancel(pthread_self());
	TEST_EQUAL(uoffload(call_nothing, drop_call, NULL, 0, NEVER), 0);
	TEST_EQUAL(ufile_pread(fd, &c, 1, 0, NEVER), 1);
	uoffload_drain(USCHED_NEVER);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	TEST_EQUAL(before, PTHREAD_CANCEL_ENABLE);
	entered++;
	close(fd);
}

static void is_cancelled(void)
{
	reset_counts(false);
	in_native(call_cancelled, NULL);
	TEST_EQUAL(entered, 2);
}

POOL_CASE(calls)
POOL_CASE(keep_bound)
POOL_CASE(lower_bound)
CASE_BY(run_pool_case, "keep_order", keep_order, &one_processor)
POOL_CASE(give_up)
POOL_CASE(races)
POOL_CASE(no_natives)
POOL_CASE(drains)
NATIVE_CASE(calls_native)
NATIVE_CASE(drain_late)
NATIVE_CASE(is_cancelled)

int main(void)
{
	return over_all(OVER_ALL);
}
