/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "pool.h"

static size_t count_natives(void)
{
	return test_entries("/proc/self/task") - 2;
}

static void tell_number(void *number)
{
	*(pid_t *)number = gettid();
}

/* A sanitizer's native thread starts with the first native thread of the process. */
static size_t count_others(void)
{
	char task[64];
	pid_t number;

	in_native(tell_number, &number);
	snprintf(task, sizeof task, "/proc/self/task/%d", (int)number);
	while (access(task, F_OK) == 0)         /* it is about to end */
		sleep_native(1);
	return count_natives() - 1;
}

static size_t others = SIZE_MAX;        /* not counted yet */

size_t natives(void)
{
	return count_natives() - others;
}

void await_natives(size_t n)
{
	while (natives() != n)
		sleep_native(1);
}

static void in_pool(const struct uprocs_conf *conf, void (*func)(void))
{
	size_t fds = test_descriptors();

	uoffload_drain(USCHED_NEVER);
	await_natives(1);
	assert_int_equal(over->o_create(conf, &scheduler), 0);
	join(go(call_case, &func));
	uoffload_drain(USCHED_NEVER);
	assert_int_equal(over->o_destroy(scheduler), 0);
	await_natives(1);
	assert_int_equal(test_descriptors(), fds);
}

void run_pool_case(void **state)
{
	static const struct uprocs_conf confs[] = {
		{ .c_processors = 1 },
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 3 },
	};
	const struct net_case *c = *state;

	test_timeout(100);
	if (others == SIZE_MAX)
		others = count_others();
	for (size_t i = 0; !c->c_conf && i < COUNT(confs); i++)
		in_pool(&confs[i], c->c_func);
	if (c->c_conf)
		in_pool(c->c_conf, c->c_func);
}

/* ---- Calls ---- */

atomic_bool open_gate;
atomic_int entered, running, most, finished, dropped, spared;
atomic_int order[64];

void reset_counts(bool gate)
{
	open_gate = gate;
	entered = running = most = finished = dropped = spared = 0;
}

void await_count(const atomic_int *count, int n)
{
	while (*count < n)
		pause_thread();
}

void pass_gate(void *call)
{
	struct call *c = call;
	int n = ++running, max = most;

	order[entered++ % 64] = c->c_in;
	while (n > max && !atomic_compare_exchange_weak(&most, &max, n))
		;
	while (!open_gate)
		sleep_native(1);
	c->c_native = pthread_self();
	c->c_out = c->c_in * 3;
	errno = 12345;
	running--;
	finished++;
}

void drop_call(void *call)
{
	struct call *c = call;

	if (c->c_out != c->c_in * 3)            /* it was not called, and will not be */
		spared++;
	else
		dropped++;
}

/* The call is on the stack, and errno is the thread's. */
void call_it(void *caller)
{
	struct caller *c = caller;
	struct call call = c->c_call;

	errno = 7;
	c->c_rc = uoffload(pass_gate, drop_call, &call, sizeof call, c->c_deadline);
	TEST_TRUE(errno != 12345);
	c->c_call = call;
	c->c_returned = 1;
}

struct ustack *go_call(struct caller *c, int in, int64_t deadline)
{
	*c = (struct caller){ .c_call = { .c_in = in, .c_out = -1 },
			      .c_deadline = deadline };
	return go(call_it, c);
}

struct ustack *occupy_pool(void)
{
	static struct caller occupier;
	struct ustack *u;

	TEST_EQUAL(uoffload_limit(1), 0);
	reset_counts(false);
	u = go_call(&occupier, 9, NEVER);
	await_count(&running, 1);
	return u;
}

void free_pool(struct ustack *occupier)
{
	open_gate = true;
	join(occupier);
	uoffload_drain(USCHED_NEVER);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}
