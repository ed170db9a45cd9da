/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "../../src/base/sim.h"
#include "../../src/sync/chan.h"

static void wait_for_stop(void *arg)
{
	struct place *p = arg;

	TEST_EQUAL(usync_sem_wait(&p->p_stop, USCHED_NEVER), 0);
}

struct place *make_place(void *s)
{
	struct place *p = calloc(1, sizeof *p);
	size_t fill = FILL;

	TEST_TRUE(p);
	TEST_EQUAL(usync_mutex_lock(&p->p_mutex, 0), 0);
	TEST_EQUAL(usync_rwlock_write(&p->p_read, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&p->p_write, 0), 0);
	TEST_EQUAL(usync_group_add(&p->p_group, 1), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 0, &p->p_direct), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 3, &p->p_empty), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 1, &p->p_full), 0);
	TEST_EQUAL(usync_chan_send(p->p_full, &fill, 0), 0);
	TEST_EQUAL(over->o_start(s, wait_for_stop, p, &p->p_thread), 0);
	return p;
}

void check_place(struct place *p)
{
	size_t value = 1;

	TEST_TRUE(!p->p_mutex.m_queue.q_first && !p->p_mutex.m_queue.q_last);
	TEST_TRUE(!p->p_read.rw_queue.q_first && !p->p_read.rw_queue.q_last);
	TEST_TRUE(!p->p_write.rw_queue.q_first && !p->p_write.rw_queue.q_last);
	TEST_TRUE(!p->p_cond.cv_queue.q_first && !p->p_cond.cv_queue.q_last);
	TEST_TRUE(!p->p_sem.sm_queue.q_first && !p->p_sem.sm_queue.q_last);
	TEST_TRUE(!p->p_group.g_queue.q_first && !p->p_group.g_queue.q_last);
	TEST_EQUAL(p->p_with.m_owner, 0);
	TEST_EQUAL(p->p_read.rw_readers, 0);
	TEST_EQUAL(p->p_write.rw_readers, 1);
	TEST_EQUAL(p->p_write.rw_owner, 0);
	TEST_EQUAL(p->p_sem.sm_count, 0);
	TEST_EQUAL(p->p_group.g_count, 1);
	TEST_EQUAL(usync_chan_recv(p->p_direct, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_send(p->p_direct, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_recv(p->p_empty, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_send(p->p_full, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(value, 1);
}

void free_place(struct place *p)
{
	if (p->p_thread) {
		TEST_EQUAL(usync_sem_post(&p->p_stop), 0);
		TEST_EQUAL(ustack_join(p->p_thread, NULL, USCHED_NEVER), 0);
	}
	usync_chan_destroy(p->p_direct);
	usync_chan_destroy(p->p_empty);
	usync_chan_destroy(p->p_full);
	free(p);
}

static int wait_mutex(struct worker *w, struct place *p, int64_t deadline)
{
	(void)w;
	return usync_mutex_lock(&p->p_mutex, deadline);
}

static void done_mutex(struct place *p)
{
	TEST_EQUAL(usync_mutex_unlock(&p->p_mutex), 0);
}

static int wait_read(struct worker *w, struct place *p, int64_t deadline)
{
	(void)w;
	return usync_rwlock_read(&p->p_read, deadline);
}

static void done_read(struct place *p)
{
	TEST_EQUAL(usync_rwlock_unlock(&p->p_read), 0);
}

static int wait_write(struct worker *w, struct place *p, int64_t deadline)
{
	(void)w;
	return usync_rwlock_write(&p->p_write, deadline);
}

static void done_write(struct place *p)
{
	TEST_EQUAL(usync_rwlock_unlock(&p->p_write), 0);
}

/* The caller has the mutex after errors, too. */
static int wait_cond(struct worker *w, struct place *p, int64_t deadline)
{
	int shield = ustack_shield(1), rc;

	(void)w;
	TEST_EQUAL(usync_mutex_lock(&p->p_with, USCHED_NEVER), 0);
	ustack_shield(shield);
	rc = usync_cond_wait(&p->p_cond, &p->p_with, deadline);
	TEST_EQUAL(usync_mutex_lock(&p->p_with, 0), -EDEADLK);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), 0);
	return rc;
}

static void release_cond(struct place *p)
{
	TEST_EQUAL(usync_mutex_lock(&p->p_with, USCHED_NEVER), 0);
	usync_cond_signal(&p->p_cond);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), 0);
}

static void broadcast_cond(struct place *p)
{
	usync_cond_broadcast(&p->p_cond);
}

static int wait_sem(struct worker *w, struct place *p, int64_t deadline)
{
	(void)w;
	return usync_sem_wait(&p->p_sem, deadline);
}

static void release_sem(struct place *p)
{
	TEST_EQUAL(usync_sem_post(&p->p_sem), 0);
}

static int wait_group(struct worker *w, struct place *p, int64_t deadline)
{
	(void)w;
	return usync_group_wait(&p->p_group, deadline);
}

static void release_group(struct place *p)
{
	TEST_EQUAL(usync_group_done(&p->p_group), 0);
}

/* The n-th receiver gets n. */
static int receive(struct usync_chan *c, size_t n, int64_t deadline)
{
	size_t value = SIZE_MAX;
	int rc = usync_chan_recv(c, &value, deadline);

	TEST_EQUAL(value, rc == 0 ? n : SIZE_MAX);
	return rc;
}

static int recv_direct(struct worker *w, struct place *p, int64_t deadline)
{
	return receive(p->p_direct, w->w_index, deadline);
}

static void send_direct_now(struct place *p)
{
	TEST_EQUAL(usync_chan_send(p->p_direct, &p->p_released, USCHED_NEVER), 0);
}

static int recv_empty(struct worker *w, struct place *p, int64_t deadline)
{
	return receive(p->p_empty, w->w_index, deadline);
}

static void send_empty(struct place *p)
{
	TEST_EQUAL(usync_chan_send(p->p_empty, &p->p_released, 0), 0);
}

static int send_direct(struct worker *w, struct place *p, int64_t deadline)
{
	size_t value = w->w_index;

	return usync_chan_send(p->p_direct, &value, deadline);
}

/* A select() that has begun may not be in the queue yet. */
static void recv_direct_now(struct place *p)
{
	TEST_EQUAL(receive(p->p_direct, p->p_released, USCHED_NEVER), 0);
}

static int send_full(struct worker *w, struct place *p, int64_t deadline)
{
	size_t value = w->w_index;

	return usync_chan_send(p->p_full, &value, deadline);
}

static void recv_full(struct place *p)
{
	size_t n = p->p_released;

	TEST_EQUAL(receive(p->p_full, n > 0 ? n - 1 : FILL, 0), 0);
}

static int select_recv(struct worker *w, struct place *p, int64_t deadline)
{
	size_t first = SIZE_MAX, second = SIZE_MAX, full = w->w_index;
	struct usync_case cases[] = {
		{ NULL, USYNC_RECV, NULL, 1, 0 },
		{ p->p_empty, USYNC_RECV, &first, 1, 0 },
		{ p->p_full, USYNC_SEND, &full, 1, 0 },
		{ p->p_direct, USYNC_RECV, &second, 1, 0 },
	};
	int rc = usync_select(cases, 4, deadline);

	TEST_EQUAL(first, rc == 1 ? w->w_index : SIZE_MAX);
	TEST_EQUAL(second, SIZE_MAX);
	if (rc == 1)
		TEST_EQUAL(cases[1].cs_rc, 0);
	return rc == 1 ? 0 : rc;
}

static int select_send(struct worker *w, struct place *p, int64_t deadline)
{
	size_t value = w->w_index, none = SIZE_MAX;
	struct usync_case cases[] = {
		{ p->p_direct, USYNC_SEND, &value, 1, 0 },
		{ p->p_empty, USYNC_RECV, &none, 1, 0 },
		{ p->p_full, USYNC_SEND, &value, 1, 0 },
		{ NULL, USYNC_SEND, NULL, 1, 0 },
	};
	int rc = usync_select(cases, 4, deadline);

	TEST_EQUAL(none, SIZE_MAX);
	TEST_EQUAL(value, w->w_index);
	if (rc == 0)
		TEST_EQUAL(cases[0].cs_rc, 0);
	return rc;
}

static int select_nothing(struct worker *w, struct place *p, int64_t deadline)
{
	struct usync_case nothing = { NULL, USYNC_SEND, NULL, 0, 0 };

	(void)p;
	return usync_select(&nothing, w->w_index % 2, deadline);
}

/* A sleep always ends by its deadline. */
static int wait_time(struct worker *w, struct place *p, int64_t deadline)
{
	int rc = usync_sleep_until(deadline);

	(void)w;
	(void)p;
	return rc == 0 ? -ETIMEDOUT : rc;
}

static int wait_join(struct worker *w, struct place *p, int64_t deadline)
{
	int rc = ustack_join(p->p_thread, NULL, deadline);

	(void)w;
	if (rc == 0)
		p->p_thread = NULL;
	return rc;
}

static void release_join(struct place *p)
{
	TEST_EQUAL(usync_sem_post(&p->p_stop), 0);
}

const struct point points[POINTS] = {
	[MUTEX] =
	{ "mutex",          CHAIN, wait_mutex,     done_mutex, done_mutex },
	{ "reader",         ALL,   wait_read,      done_read,  done_read },
	{ "writer",         CHAIN, wait_write,     done_write, done_write },
	{ "signal",         ONE,   wait_cond,      NULL, release_cond },
	{ "broadcast",      ALL,   wait_cond,      NULL, broadcast_cond },
	{ "semaphore",      ONE,   wait_sem,       NULL, release_sem },
	{ "group",          ALL,   wait_group,     NULL, release_group },
	{ "direct receive", ONE,   recv_direct,    NULL, send_direct_now },
	{ "receive",        ONE,   recv_empty,     NULL, send_empty },
	{ "direct send",    ONE,   send_direct,    NULL, recv_direct_now },
	{ "send",           ONE,   send_full,      NULL, recv_full },
	{ "select receive", ONE,   select_recv,    NULL, send_empty },
	{ "select send",    ONE,   select_send,    NULL, recv_direct_now },
	{ "select nothing", NONE,  select_nothing, NULL, NULL },
	{ "time",           NONE,  wait_time,      NULL, NULL },
	[JOIN] =
	{ "join",           ONE,   wait_join,      NULL, release_join },
};

bool is_join(const struct point *o)
{
	return o == &points[JOIN];
}

void release_place(const struct point *o, struct place *p)
{
	o->o_release(p);
	p->p_released++;
}

/* A select waits before it is in a queue, the others of a channel in its lock. */
static bool is_last(struct worker *w, struct usync_chan *c, enum usync_op op)
{
	const struct uwait_place *last;

	uwait_lock(&c->ch_lock);
	last = (const struct uwait_place *)(const void *)queue_of(c, op)->q_last;
	uwait_unlock(&c->ch_lock);
	return last && last->wp_waiter == w->w_waiter;
}

void await_visit(struct worker *w, const struct point *o)
{
	struct place *p = ((struct visit *)w->w_shared)->v_place;

	if (!is_join(o)) {
		await_waiting(w);
		while (o->o_wait == select_recv && !is_last(w, p->p_empty, USYNC_RECV))
			sched_yield();
		while (o->o_wait == select_send && !is_last(w, p->p_direct, USYNC_SEND))
			sched_yield();
		return;
	}
	while (!w->w_waiter)
		sched_yield();
	nanosleep(&(struct timespec){ 0, MILLISECOND }, NULL);
}

static point_test *test_point;

/* A simulation may end a sleep at once, however long it is. */
static void with_scheduler(void *s)
{
	for (int flag = 0; flag < 2; flag++)
		for (size_t i = 0; i < POINTS; i++)
			if (!SIMULATED || points[i].o_wait != wait_time)
				test_point(s, &points[i], flag);
}

void each_point(point_test *test)
{
	test_point = test;
	each_scheduler(with_scheduler);
}

void each_point_single(point_test *test)
{
	test_point = test;
	each_single(with_scheduler);
}
