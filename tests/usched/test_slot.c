/* SPDX-License-Identifier: MIT */
/*
 * test_slot.c: the slot of a dispatcher, which wakes and waits fill and empty inline, and
 * when they ask the scheduler instead. Two threads wake each other and wait.
 */
#include "../../ustack.h"
#include "../help/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	TURN     = 64,                  /* switches from one turn of the scheduler's */
	SWITCHES = 10 * TURN,
	TOSSES   = 2 * SWITCHES,        /* every second wait finds a token */
	ROOM     = 1024,                /* bytes of an image */
	DEEP     = 4096,
};

static struct record {
	struct ustack record;
	char          image[ROOM];
} pair[2];

static struct usched sched;
static struct ustack *queue[4];
static unsigned head, tail;             /* of the queue */
static unsigned picks, readies, unpicks, tosses;
static void *mail;
static bool no_memory;

static struct ustack *take(struct usched *s)
{
	struct ustack *u = s->s_slot;

	if (s->s_stats.st_switches >= s->s_turn)
		s->s_turn = s->s_stats.st_switches + TURN;

	if ((uintptr_t)u > (uintptr_t)USCHED_CLOSED) {
		s->s_slot = NULL;
		return u;
	}
	return head != tail ? queue[head++ % 4] : NULL;
}

static struct ustack *pick(struct usched *s, struct ustack *self)
{
	picks++;
	self->u_tokens = USTACK_WAITING;
	return take(s);
}

static void unpick(struct usched *s)
{
	unpicks++;
	s->s_current->u_tokens = 0;
	TEST_TRUE(s->s_chosen != s->s_current);
	queue[--head % 4] = s->s_chosen;
}

static void ready(struct usched *s, struct ustack *u)
{
	readies++;
	TEST_TRUE(s->s_slot != NULL);
	TEST_EQUAL(u->u_tokens, 0);
	queue[tail++ % 4] = u;
}

static void *alloc(struct usched *s, struct ustack *u, size_t *size)
{
	(void)s;
	(void)u;
	return no_memory ? NULL : malloc(*size);
}

static void give_back(struct usched *s, struct ustack *u, void *image, size_t size)
{
	(void)s;
	(void)u;
	(void)size;
	free(image);
}

static void start(unsigned i, void (*func)(void *))
{
	TEST_EQUAL(ustack_init(&sched, &pair[i].record, func, &pair[1 - i].record), 0);
	queue[tail++ % 4] = &pair[i].record;
}

/* The scheduler opens the slot, or leaves it closed. */
static void run(void (*func)(void *), bool open)
{
	const struct usched_calls calls = {
		.s_record = sizeof pair[0],
		.s_next = take, .s_pick = pick, .s_unpick = unpick, .s_ready = ready,
		.s_alloc = alloc, .s_free = give_back,
		.s_mail = (const usched_mail *)&mail,
	};

	TEST_EQUAL(usched_init(&sched, &calls), 0);
	TEST_TRUE(sched.s_slot == USCHED_CLOSED);
	if (open)
		sched.s_slot = NULL;
	head = tail = picks = readies = unpicks = tosses = 0;
	start(0, func);
	start(1, func);
	TEST_EQUAL(usched_run(&sched), 0);
	TEST_EQUAL(usched_fini(&sched), 0);
}

static void toss(void *other)
{
	while (++tosses < TOSSES) {
		TEST_EQUAL(ustack_wake(other), 0);
		TEST_EQUAL(ustack_wait(), 0);
	}
	TEST_EQUAL(ustack_wake(other), 0);
}

TEST(open_slot)
{
	run(toss, true);
	assert_true(tosses >= TOSSES);
	assert_int_equal(readies, 0);
	assert_in_range(picks, SWITCHES / TURN, SWITCHES / TURN + 2);
}

TEST(closed_slot)
{
	run(toss, false);
	assert_in_range(picks, SWITCHES - 2, SWITCHES + 2);
	assert_in_range(readies, SWITCHES - 2, SWITCHES + 2);
}

TEST(mail_is_the_scheduler_s)
{
	mail = &mail;
	run(toss, true);
	mail = NULL;
	assert_int_equal(readies, 0);
	assert_in_range(picks, SWITCHES - 2, SWITCHES + 2);
}

/* Blocks deeper than its image, and there is no other. */
static __attribute__((noinline)) int wait_deep(volatile size_t size)
{
	volatile char frame[size];
	int rc;

	frame[0] = 1;
	rc = ustack_wait();
	return frame[0] == 1 ? rc : 0;
}

/* A wait that fails has not happened: the thread in the slot is in the queue again. */
static void fail_to_wait(void *other)
{
	if (++tosses == 1) {
		TEST_EQUAL(ustack_wait(), 0);
		return;
	}
	TEST_EQUAL(ustack_wake(other), 0);
	TEST_TRUE(sched.s_slot == other);
	no_memory = true;
	TEST_EQUAL(wait_deep(DEEP), -ENOMEM);
	no_memory = false;
	TEST_EQUAL(unpicks, 1);
	TEST_EQUAL(sched.s_current->u_tokens, 0);
	TEST_EQUAL(tail - head, 1);
	TEST_TRUE(queue[head % 4] == other);
}

TEST(failed_wait)
{
	run(fail_to_wait, true);
	assert_int_equal(picks, 1);
	assert_int_equal(unpicks, 1);
}

/* Without s_ready, s_wake is told. */
static struct ustack *told;

static int wake(struct usched *s, struct ustack *u)
{
	(void)s;
	TEST_EQUAL(u->u_tokens, USTACK_WAITING);
	told = u;
	return 0;
}

TEST(wake_without_ready)
{
	const struct usched_calls calls = {
		.s_next = take, .s_pick = pick, .s_unpick = unpick,
		.s_wake = wake, .s_alloc = alloc, .s_free = give_back,
	};
	struct usched_stack k = { .k_sched = &sched };

	assert_int_equal(usched_init(&sched, &calls), 0);
	pair[0].record.u_stack = &k;
	pair[0].record.u_tokens = USTACK_WAITING;
	sched.s_calls.s_ready(&sched, &pair[0].record);
	assert_ptr_equal(told, &pair[0].record);
	assert_int_equal(usched_fini(&sched), 0);
}

int main(void)
{
	return test_run_all();
}
