/* SPDX-License-Identifier: MIT */
/*
 * api.c: a fuzz target that takes its input for a program of calls. A byte is a call,
 * those behind it are its arguments; which thread makes it is up to the scheduler, rr or
 * ll, whose threads all read from the same input; so does the native thread that has the
 * loop.
 *
 * Beside it goes a model, model.h, of what each call may return, and of the threads that
 * may still wait when nothing is ready to run: those whose deadline has not come and
 * whose condition does not hold. In the end all waits are ended that can be. Then all
 * threads have ended, and all images are back; or those that are left wait for each
 * other, and to destroy the scheduler says so.
 */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FRAME_UNIT = 16, DEPTH = 4, FIRST = 4, LAST_ROUNDS = 4 };

static bool act(struct thread *me);

/* ---- Threads ---- */

static void body(void *arg)
{
	struct thread *me = arg;

	me->handle = ustack_self();
	while (fuzz_left > 0 && act(me))
		CHECK(ustack_self()->u_tokens == me->tokens);
	model_leave(me);
}

/* By slot, for its handle is set before the thread runs. */
static void start(struct thread *me)
{
	struct thread *t = &threads[fuzz_take(THREADS)];
	bool detached = fuzz_take(4) == 0;

	(void)me;
	if (t->state != FREE)
		return;
	*t = (struct thread){ .state = LIVE, .detached = detached };
	CHECK(sched->k_start(body, t, detached ? NULL : &t->handle) == 0);
}

/* A thread whose handle is good; or NULL. */
static struct thread *anybody(void)
{
	struct thread *t = &threads[fuzz_take(THREADS)];

	return t->state != FREE && t->handle ? t : NULL;
}

static void wake(struct thread *me)
{
	struct thread *t = anybody();

	(void)me;
	if (t && t->state == LIVE)
		t->tokens++;
	if (t)
		CHECK(ustack_wake(t->handle) == (t->state == LIVE ? 0 : -ESRCH));
}

static void cancel(struct thread *me)
{
	struct thread *t = anybody();

	(void)me;
	if (t && t->state == LIVE)
		t->cancelled = true;
	if (t)
		CHECK(ustack_cancel(t->handle) == (t->state == LIVE ? 0 : -ESRCH));
}

static void detach(struct thread *me)
{
	struct thread *t = anybody();
	int rc;

	(void)me;
	if (!t)
		return;
	rc = ustack_detach(t->handle);
	CHECK(rc == (t->detached || t->joiner ? -EINVAL : 0));
	t->detached |= rc == 0;
	if (rc == 0 && t->state == ENDED)
		t->state = FREE;
}

/* What becomes of a join of `t'; its handle is good for nothing if that is 0. */
static void joined(struct thread *me, struct thread *t, int rc, bool taken)
{
	if (t == me)
		CHECK(rc == -EDEADLK || model_error(me, rc));
	else if (taken)
		CHECK(rc == -EINVAL || model_error(me, rc));
	else if (rc == -EDEADLK)
		CHECK(t->state == LIVE && reports > me->reports);
	else
		CHECK(rc == 0 ? t->state == ENDED : model_error(me, rc));
	if (!taken && t != me)
		t->joiner = NULL;
	if (rc == 0)
		t->state = FREE;
	me->wait = NOTHING;
}

static void join(struct thread *me)
{
	struct thread *t = anybody();
	bool taken;
	int rc;

	if (!t)
		return;
	taken = t->detached || t->joiner;
	if (!taken && t != me)
		t->joiner = me;
	model_want(me, JOIN, t, model_deadline(me));
	rc = ustack_join(t->handle, NULL, me->deadline);
	joined(me, t, rc, taken);
}

static void wait(struct thread *me)
{
	model_want(me, TOKEN, NULL, USCHED_NEVER);
	CHECK(ustack_wait() == 0);
	me->wait = NOTHING;
	CHECK(me->tokens-- > 0);
}

static void yield(struct thread *me)
{
	bool refused = me->cancelled && !me->shielded;

	model_want(me, SLEEP, NULL, USCHED_NEVER);
	CHECK(ustack_yield() == (refused ? -ECANCELED : 0));
	me->wait = NOTHING;
}

static void shield(struct thread *me)
{
	bool on = fuzz_take(2);

	CHECK(ustack_cancelled() == me->cancelled);
	CHECK(ustack_shield(on) == me->shielded);
	me->shielded = on;
}

static void sleep_some(struct thread *me)
{
	int64_t until = fuzz_now + ((int64_t)1 << fuzz_take(40));
	int rc;

	model_want(me, SLEEP, NULL, until);
	rc = usync_sleep_until(until);
	CHECK(rc == 0 ? fuzz_now >= until : rc == -ECANCELED && model_error(me, rc));
	me->wait = NOTHING;
}

static void key(struct thread *me)
{
	unsigned k = fuzz_take(KEYS);

	CHECK(usync_key_get(&keys[k]) == me->value[k]);
	me->value[k] = fuzz_take(2) ? me : NULL;
	CHECK(usync_key_set(&keys[k], me->value[k]) == 0);
}

/* Frames that must be as they were, however they have moved. */
static __attribute__((noinline)) void deeper(struct thread *me)
{
	size_t size = FRAME_UNIT * (1 + fuzz_take(256));
	volatile uint8_t frame[size];
	uint8_t own = (uint8_t)(me - threads + me->depth);

	if (me->depth == DEPTH)
		return;
	for (size_t i = 0; i < size; i++)
		frame[i] = (uint8_t)(own + i);
	me->depth++;
	for (unsigned n = fuzz_take(8); n > 0 && act(me); n--)
		;
	me->depth--;
	for (size_t i = 0; i < size; i++)
		CHECK(frame[i] == (uint8_t)(own + i));
}

static void pass_time(struct thread *me)
{
	(void)me;
	fuzz_now += (int64_t)1 << fuzz_take(32);
}

static void hold(struct thread *me)
{
	(void)me;
	if (fuzz_take(2)) {
		sched->k_hold();
		held++;
	} else if (held > 0) {
		held--;
		sched->k_release();
	}
}

/* ---- The program ---- */

typedef void call_fn(struct thread *me);

/* The first few are for threads only. */
static call_fn *const calls[] = {
	wait, yield, shield, sleep_some, key, deeper, model_cond_wait,
#define NATIVES 7
	start, start, wake, wake, cancel, detach, join, pass_time, hold,
	model_lock, model_lock, model_unlock, model_rwlock, model_rwlock, model_rwunlock,
	model_signal, model_sem_wait, model_sem_post, model_group_add, model_group_done,
	model_group_wait, model_select, model_select, model_select, model_close,
};

enum { CALLS = sizeof calls / sizeof calls[0] };

/* False: the thread ends. */
static bool act(struct thread *me)
{
	unsigned call = fuzz_take(CALLS + 1);

	if (call == CALLS)
		return false;
	calls[call](me);
	return true;
}

/* Some are there from the beginning; the others they start. */
static void start_first(void)
{
	for (struct thread *t = threads; t < threads + FIRST; t++) {
		t->state = LIVE;
		CHECK(sched->k_start(body, t, &t->handle) == 0);
	}
}

/* Nothing is left to run, unless time was up. */
static __attribute__((noinline)) void run(void)
{
	int64_t began;

	do {
		began = fuzz_now;
		CHECK(sched->k_run() >= 0);
	} while (fuzz_now - began >= TURN);
	model_quiet(began);
}

/* The loop: calls of its own, and what they make ready. */
static void loop(void)
{
	start_first();
	while (fuzz_left > 0) {
		for (unsigned n = fuzz_take(4); n > 0; n--)
			calls[NATIVES + fuzz_take(CALLS - NATIVES)](native);
		run();
	}
	for (int i = 0; i < LAST_ROUNDS; i++) {
		model_free_all();
		run();
	}
	model_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned stacks[] = { 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 8, 66,
					   USCHED_NATIVE };
	struct uprocs_conf conf = { .c_embed = 1, .c_stack_size = 128 << 10,
				    .c_log = model_log };

	if (size > 4096)
		return -1;
	fuzz_input = data;
	fuzz_left = size;
	fuzz_endless = model_endless;
	conf.c_image = (size_t[]){ 0, 1, 512, 8192 }[fuzz_take(4)];
	conf.c_stacks = stacks[fuzz_take(sizeof stacks / sizeof stacks[0])];
	model_begin(&conf, fuzz_take(2));
	if (conf.c_stacks != USCHED_NATIVE && fuzz_take(4))
		loop();
	else
		start_first();          /* to destroy the scheduler runs them */
	model_destroy();
	return 0;
}
