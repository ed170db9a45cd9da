/* SPDX-License-Identifier: MIT */
/* test_sync_self.c: what a thread does alone: it sleeps, yields, and keeps values. */
#include "../help/sync.h"

#include <errno.h>

/* ---- Sleep ---- */

/* A sleep is never too short. */
struct sleeps {
	atomic_size_t s_awake;
	int64_t       s_start;
};

static void sleep_some_time(struct worker *w)
{
	struct sleeps *s = w->w_shared;
	int64_t when = s->s_start + (int64_t)(w->w_index + 1) * MILLISECOND / 2;

	TEST_EQUAL(usync_sleep_until(when), 0);
	TEST_TRUE(uevents_now() >= when);
	s->s_awake++;
	TEST_EQUAL(usync_sleep_until(when), 0);
	TEST_EQUAL(usync_sleep_until(0), 0);
	TEST_EQUAL(usync_sleep_until(-1), 0);
	TEST_EQUAL(test_give_way(), 0);
}

static void sleeping(void *s)
{
	struct sleeps sleeps = { .s_start = usync_after(0) };
	struct worker w[8];

	for (size_t i = 0; i < 8; i++)
		start_worker(&w[i], s, i == 5, i * 3 % 8, sleep_some_time, &sleeps);
	for (size_t i = 0; i < 8; i++)
		end_worker(&w[i]);
	assert_int_equal(sleeps.s_awake, 8);
}

TEST(test_sleep)
{
	assert_true(usync_after(0) >= uevents_now() - 1000 * USYNC_SECOND);
	assert_true(usync_after(5000 * USYNC_SECOND)
		    >= uevents_now() + 4000 * USYNC_SECOND);
	assert_true(usync_after(-5) <= uevents_now());
	assert_true(usync_after(INT64_MAX) == USCHED_NEVER);
	each_scheduler(sleeping);
}

/* A thread that only yields does not hold up a timer. */
static void yield_until_stopped(struct worker *w)
{
	struct usync_sem *stop = w->w_shared;

	while (usync_sem_wait(stop, 0))
		TEST_EQUAL(test_give_way(), 0);
}

static void sleep_and_stop(struct worker *w)
{
	TEST_EQUAL(usync_sleep_until(usync_after(MILLISECOND)), 0);
	TEST_EQUAL(usync_sem_post(w->w_shared), 0);
}

static void yielding(void *s)
{
	struct usync_sem stop = { 0 };
	struct worker w[2];

	start_worker(&w[0], s, false, 0, yield_until_stopped, &stop);
	start_worker(&w[1], s, false, 1, sleep_and_stop, &stop);
	end_worker(&w[0]);
	end_worker(&w[1]);
}

TEST_CASE(test_yield, each_single, yielding)

/* ---- Keys ---- */

enum { KEYS = 11 };

struct owner {
	struct ustack  *o_thread;
	size_t          o_index;
	atomic_size_t   o_destroyed[KEYS];
	atomic_size_t   o_rounds;
	atomic_size_t   o_late;
};

static void destroy_value(void *value);
static void destroy_again(void *value);
static void destroy_late(void *value);

static struct usync_key keys[KEYS];
static const struct usync_key mini_key = { NULL };
static const struct usync_key stubborn_key = { destroy_again };
static const struct usync_key late_key = { destroy_late };

/* A value is the address of a count of its destructions. */
static void destroy_value(void *value)
{
	atomic_size_t *destroyed = value;

	++*destroyed;
}

/* It runs in the thread, waits, and sets its value again each time. */
static void destroy_again(void *value)
{
	struct owner *o = value;

	TEST_TRUE(o->o_thread == ustack_self());
	TEST_TRUE(!usync_key_get(&stubborn_key));
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	TEST_TRUE(!usync_key_get(&stubborn_key));
	TEST_EQUAL(usync_key_set(&stubborn_key, o), 0);
	if (o->o_rounds++ == 0)
		TEST_EQUAL(usync_key_set(&late_key, o), 0);
}

static void destroy_late(void *value)
{
	struct owner *o = value;

	o->o_late++;
}

static void own_values(struct worker *w)
{
	struct owner *o = (struct owner *)w->w_shared + w->w_index;

	o->o_thread = ustack_self();
	for (size_t i = 0; i < KEYS; i++) {
		TEST_TRUE(!usync_key_get(&keys[i]));
		TEST_EQUAL(usync_key_set(&keys[i], NULL), 0);
	}
	for (size_t n = 0; n < KEYS; n++) {
		TEST_EQUAL(usync_key_set(&keys[n], &o->o_destroyed[0]), 0);
		TEST_EQUAL(usync_key_set(&keys[n], &o->o_destroyed[n]), 0);
		TEST_EQUAL(test_give_way(), 0);
		for (size_t i = 0; i < KEYS; i++)
			TEST_TRUE(usync_key_get(&keys[i])
				  == (i > n ? NULL : &o->o_destroyed[i]));
	}
	TEST_EQUAL(usync_key_set(&keys[3], NULL), 0);
	TEST_TRUE(!usync_key_get(&keys[3]));
	TEST_EQUAL(usync_key_set(&mini_key, o), 0);
	TEST_EQUAL(usync_key_set(&stubborn_key, o), 0);
	TEST_TRUE(usync_key_get(&mini_key) == o);
}

static void each_has_its_own(void *s)
{
	struct owner owners[8] = { 0 };
	struct worker w[8];

	for (size_t i = 0; i < 8; i++)
		start_worker(&w[i], s, i % 3 == 2, i, own_values, owners);
	for (size_t i = 0; i < 8; i++) {
		end_worker(&w[i]);
		for (size_t k = 0; k < KEYS; k++)
			assert_int_equal(owners[i].o_destroyed[k], k != 3);
		assert_int_equal(owners[i].o_rounds, 4);
		assert_int_equal(owners[i].o_late, 1);
	}
}

static struct usync_sem never;

static void own_and_stay(struct worker *w)
{
	own_values(w);
	TEST_EQUAL(usync_sem_post(&never), 0);
	TEST_EQUAL(usync_sem_wait(&never, usync_after(1000 * USYNC_SECOND)), 0);
	TEST_EQUAL(usync_sem_wait(&never, usync_after(1000)), -ETIMEDOUT);
	w->w_count = 1;
	TEST_EQUAL(usync_sem_wait(&never, USCHED_NEVER), 0);
}

/* An abort loses them, also while the timer of an earlier wait is armed. */
static void lose_values(const struct uprocs_conf *conf)
{
	struct owner owner = { 0 };
	struct worker w;
	void *s = make_scheduler(conf);

	never = (struct usync_sem){ 0 };        /* an aborted waiter is still in it */
	start_worker(&w, s, false, 0, own_and_stay, &owner);
	assert_int_equal(over->o_destroy(s), -EDEADLK);
	assert_int_equal(w.w_count, 1);
	for (size_t k = 0; k < KEYS; k++)
		assert_int_equal(owner.o_destroyed[k], 0);
	assert_int_equal(owner.o_rounds, 0);
}

TEST(test_keys)
{
	for (size_t i = 0; i < KEYS; i++)
		keys[i].ky_destroy = destroy_value;
	each_scheduler(each_has_its_own);
	each_conf(lose_values);
}

int main(void)
{
	return over_all(OVER_ALL);
}
