/* SPDX-License-Identifier: MIT */
/*
 * test_sync_lock.c: mutexes, conditions and reader-writer locks one by one; errors and
 * limits of these, of semaphores and of groups.
 */
#include "../help/place.h"

#include <errno.h>
#include <sched.h>

/* ---- Errors ---- */

/* All calls that one worker can make alone. */
static void try_errors(struct worker *w)
{
	struct place *p = w->w_shared;

	TEST_EQUAL(usync_mutex_unlock(&p->p_mutex), -EPERM);
	TEST_EQUAL(usync_mutex_lock(&p->p_mutex, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_cond_wait(&p->p_cond, &p->p_mutex, 0), -EPERM);
	TEST_EQUAL(usync_cond_wait(&p->p_cond, &p->p_with, 0), -EPERM);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), -EPERM);
	TEST_EQUAL(usync_mutex_lock(&p->p_with, 0), 0);
	TEST_EQUAL(usync_mutex_lock(&p->p_with, 0), -EDEADLK);
	TEST_EQUAL(usync_mutex_lock(&p->p_with, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_cond_wait(&p->p_cond, &p->p_with, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), 0);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), -EPERM);
	TEST_EQUAL(p->p_with.m_owner, 0);
	TEST_EQUAL(usync_rwlock_unlock(&p->p_read), -EPERM);
	TEST_EQUAL(usync_rwlock_read(&p->p_read, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_rwlock_write(&p->p_read, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_rwlock_write(&p->p_write, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_rwlock_read(&p->p_write, 0), 0);
	TEST_EQUAL(p->p_write.rw_readers, 2);
	TEST_EQUAL(usync_rwlock_unlock(&p->p_write), 0);
	usync_cond_signal(&p->p_cond);                  /* no waiter, and not kept */
	usync_cond_broadcast(&p->p_cond);
	w->w_count++;
}

static void try_limits(struct worker *w)
{
	static struct usync_rwlock lock;
	struct place *p = w->w_shared;

	lock = (struct usync_rwlock){ 0 };
	TEST_EQUAL(usync_rwlock_unlock(&lock), -EPERM);
	TEST_EQUAL(usync_rwlock_write(&lock, 0), 0);
	TEST_EQUAL(usync_rwlock_write(&lock, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_rwlock_read(&lock, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_rwlock_unlock(&lock), 0);
	TEST_EQUAL(usync_rwlock_unlock(&lock), -EPERM);
	lock.rw_readers = UINT32_MAX - 1;
	TEST_EQUAL(usync_rwlock_read(&lock, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&lock, 0), -EOVERFLOW);
	TEST_EQUAL(lock.rw_readers, UINT32_MAX);
	p->p_sem.sm_count = UINT32_MAX - 1;
	TEST_EQUAL(usync_sem_post(&p->p_sem), 0);
	TEST_EQUAL(usync_sem_post(&p->p_sem), -EOVERFLOW);
	TEST_EQUAL(usync_sem_wait(&p->p_sem, 0), 0);
	TEST_EQUAL(p->p_sem.sm_count, UINT32_MAX - 1);
	p->p_sem.sm_count = 0;
	TEST_EQUAL(usync_group_add(&p->p_group, UINT32_MAX), -EOVERFLOW);
	TEST_EQUAL(usync_group_add(&p->p_group, UINT32_MAX - 1), 0);
	TEST_EQUAL(usync_group_add(&p->p_group, 1), -EOVERFLOW);
	TEST_EQUAL(p->p_group.g_count, UINT32_MAX);
	p->p_group.g_count = 2;
	TEST_EQUAL(usync_group_done(&p->p_group), 0);
	TEST_EQUAL(usync_group_wait(&p->p_group, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_group_done(&p->p_group), 0);
	TEST_EQUAL(usync_group_done(&p->p_group), -EINVAL);
	TEST_EQUAL(usync_group_wait(&p->p_group, 0), 0);
	p->p_group.g_count = 1;
	w->w_count++;
}

static void errors(void *s)
{
	struct place *p = make_place(s);
	struct worker w;

	for (int native = 0; native < 2; native++) {
		start_worker(&w, s, native, 0, try_errors, p);
		end_worker(&w);
		start_worker(&w, s, native, 0, try_limits, p);
		end_worker(&w);
		assert_int_equal(w.w_count, 1);
		check_place(p);
	}
	free_place(p);
}

TEST_CASE(test_errors, each_scheduler, errors)

/* ---- Mutex ---- */

/*
 * On one processor an unlock hands over: a worker that comes then does not get the mutex.
 */
struct relay {
	struct usync_mutex  r_mutex;
	struct usync_rwlock r_lock;
	struct usync_sem    r_let_go;
	atomic_size_t       r_had;
	int64_t             r_deadline;         /* the writer's */
};

static void hold_mutex(struct worker *w)
{
	struct relay *r = w->w_shared;

	TEST_EQUAL(usync_mutex_lock(&r->r_mutex, USCHED_NEVER), 0);
	r->r_had++;
	TEST_EQUAL(usync_sem_wait(&r->r_let_go, USCHED_NEVER), 0);
	TEST_EQUAL(usync_mutex_lock(&r->r_mutex, 0), -EDEADLK);
	TEST_EQUAL(usync_mutex_unlock(&r->r_mutex), 0);
}

static struct relay relayed;

/* In the last one, on the processor of the others. */
static void pass_mutex(struct worker *w)
{
	struct relay *r = w->w_shared;

	TEST_EQUAL(usync_mutex_lock(&r->r_mutex, 0), 0);
	r->r_had = 1;
	TEST_EQUAL(usync_sem_wait(&r->r_let_go, USCHED_NEVER), 0);
	TEST_EQUAL(usync_mutex_unlock(&r->r_mutex), 0);
	TEST_EQUAL(usync_mutex_unlock(&r->r_mutex), -EPERM);
	TEST_EQUAL(usync_mutex_lock(&r->r_mutex, 0), -ETIMEDOUT);
	for (size_t i = 2; i <= 3; i++) {
		while (r->r_had < i)
			TEST_EQUAL(ustack_yield(), 0);
		TEST_EQUAL(usync_mutex_lock(&r->r_mutex, 0), -ETIMEDOUT);
		TEST_EQUAL(usync_sem_post(&r->r_let_go), 0);
	}
}

static void hand_over(void *s)
{
	struct worker w[3];

	relayed = (struct relay){ 0 };
	start_worker(&w[2], s, false, 2, pass_mutex, &relayed);
	await_count(&relayed.r_had, 1);
	await_waiting(&w[2]);
	for (size_t i = 0; i < 2; i++) {
		start_worker(&w[i], s, false, i, hold_mutex, &relayed);
		await_waiting(&w[i]);
	}
	assert_int_equal(usync_sem_post(&relayed.r_let_go), 0);
	for (size_t i = 0; i < 3; i++)
		end_worker(&w[i]);
	assert_int_equal(usync_mutex_lock(&relayed.r_mutex, 0), 0);
	assert_int_equal(usync_mutex_unlock(&relayed.r_mutex), 0);
	assert_int_equal(relayed.r_mutex.m_owner, 0);
}

TEST_CASE(test_hand_over, each_single, hand_over)

/* The waiters' processor is busy, so they cannot come when they are woken. */
static atomic_size_t is_busy;
static atomic_bool   busy_ends;

static void keep_busy(struct worker *w)
{
	(void)w;
	is_busy = 1;
	while (!busy_ends)
		sched_yield();
}

static void note_order(struct worker *w)
{
	struct relay *r = w->w_shared;

	w->w_rc = usync_mutex_lock(&r->r_mutex, w->w_index == 2 ? r->r_deadline
							        : USCHED_NEVER);
	if (w->w_rc)
		return;
	TEST_EQUAL(r->r_had, w->w_index);
	r->r_had++;
	TEST_EQUAL(usync_mutex_unlock(&r->r_mutex), 0);
}

/* Whether it waits, or its deadline has come before. */
static bool has_waited(const struct worker *w, int64_t deadline)
{
	const struct uwaiter *waiter = w->w_waiter;

	return usync_after(0) > deadline
		|| (waiter && __atomic_load_n(&waiter->w_state, __ATOMIC_SEQ_CST) != 0);
}

/*
 * A native thread overtakes the first waiter until the mutex is kept for that. Then the
 * waiters have it in their order.
 */
static void overtaking(void *s)
{
	struct worker w[3], busy;
	size_t n = 0;

	relayed = (struct relay){ .r_deadline = usync_after(500 * MILLISECOND) };
	is_busy = 0;
	busy_ends = 0;
	assert_int_equal(usync_mutex_lock(&relayed.r_mutex, 0), 0);
	for (size_t i = 0; i < 3; i++) {
		start_worker(&w[i], s, false, i, note_order, &relayed);
		if (i < 2)
			await_waiting(&w[i]);
	}
	while (!has_waited(&w[2], relayed.r_deadline))
		sched_yield();
	start_worker(&busy, s, false, 3, keep_busy, NULL);
	await_count(&is_busy, 1);
	do
		assert_int_equal(usync_mutex_unlock(&relayed.r_mutex), 0);
	while (usync_mutex_lock(&relayed.r_mutex, 0) == 0 && ++n <= USYNC_OVERTAKES);
	assert_int_equal(n, USYNC_OVERTAKES);
	assert_int_equal(usync_mutex_unlock(&relayed.r_mutex), -EPERM);
	assert_int_equal(usync_mutex_lock(&relayed.r_mutex, 0), -ETIMEDOUT);
	assert_int_equal(usync_mutex_lock(&relayed.r_mutex, usync_after(MILLISECOND)),
			 -ETIMEDOUT);
	while (usync_after(0) <= relayed.r_deadline)
		sched_yield();
	busy_ends = true;
	for (size_t i = 0; i < 3; i++)
		end_worker(&w[i]);
	end_worker(&busy);
	assert_true(w[2].w_rc == 0 || w[2].w_rc == -ETIMEDOUT);
	assert_int_equal(relayed.r_had, w[2].w_rc ? 2 : 3);
	assert_int_equal(usync_mutex_lock(&relayed.r_mutex, 0), 0);
	assert_int_equal(usync_mutex_unlock(&relayed.r_mutex), 0);
	assert_int_equal(relayed.r_mutex.m_owner, 0);
}

TEST_CASE(test_overtaking, each_single, overtaking)

enum { STEPS = 20000 };

struct shared_count {
	struct usync_mutex s_mutex;
	size_t             s_count;
	atomic_size_t      s_late;
};

/* Some with deadlines, so that waiters on their way find that theirs have come. */
static void count_up(struct worker *w)
{
	struct shared_count *c = w->w_shared;
	size_t steps = test_scale(STEPS, 100);

	for (size_t i = 0; i < steps; i++) {
		int64_t d = i % 4 ? USCHED_NEVER : usync_after(any(w, 20000));
		int rc = usync_mutex_lock(&c->s_mutex, d);

		TEST_TRUE(rc == 0 || (rc == -ETIMEDOUT && i % 4 == 0));
		if (rc) {
			c->s_late++;
			continue;
		}
		c->s_count++;
		if (i % 64 == 0)
			pause_worker(w);
		TEST_EQUAL(usync_mutex_unlock(&c->s_mutex), 0);
	}
}

/* Threads of several processors, and native threads. */
static void contention(void *s)
{
	static struct shared_count c;
	struct worker w[6];

	c = (struct shared_count){ .s_count = 0 };
	for (size_t i = 0; i < 6; i++)
		start_worker(&w[i], s, i > 3, i, count_up, &c);
	for (size_t i = 0; i < 6; i++)
		end_worker(&w[i]);
	assert_int_equal(c.s_count + c.s_late, 6 * test_scale(STEPS, 100));
	assert_int_equal(usync_mutex_lock(&c.s_mutex, 0), 0);
	assert_int_equal(usync_mutex_unlock(&c.s_mutex), 0);
	assert_int_equal(c.s_mutex.m_owner, 0);
}

TEST_CASE(test_contention, each_scheduler, contention)

/* ---- Condition ---- */

/* Signalled, then cancelled while it takes the mutex again: it gets the mutex. */
static void wait_and_relock(struct worker *w)
{
	struct place *p = w->w_shared;

	TEST_EQUAL(usync_mutex_lock(&p->p_with, USCHED_NEVER), 0);
	TEST_EQUAL(usync_cond_wait(&p->p_cond, &p->p_with, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_cancelled(), 1);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), 0);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
}

static bool is_queued(struct usync_mutex *m)
{
	bool queued;

	uwait_lock(&m->m_lock);
	queued = m->m_queue.q_first != NULL;
	uwait_unlock(&m->m_lock);
	return queued;
}

static void relock(void *s)
{
	struct place *p = make_place(s);
	struct worker w;

	start_worker(&w, s, false, 0, wait_and_relock, p);
	await_waiting(&w);
	assert_int_equal(usync_mutex_lock(&p->p_with, USCHED_NEVER), 0);
	usync_cond_signal(&p->p_cond);
	while (!is_queued(&p->p_with))
		sched_yield();
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	settle(s, w.w_thread);
	assert_int_equal(usync_mutex_unlock(&p->p_with), 0);
	end_worker(&w);
	check_place(p);
	free_place(p);
}

TEST_CASE(test_relock, each_scheduler, relock)

/* ---- Reader-writer lock ---- */

static void hold_read(struct worker *w)
{
	struct relay *r = w->w_shared;

	TEST_EQUAL(usync_rwlock_read(&r->r_lock, USCHED_NEVER), 0);
	r->r_had++;
	TEST_EQUAL(usync_sem_wait(&r->r_let_go, USCHED_NEVER), 0);
	TEST_EQUAL(usync_rwlock_unlock(&r->r_lock), 0);
}

static void want_write(struct worker *w)
{
	struct relay *r = w->w_shared;

	w->w_rc = usync_rwlock_write(&r->r_lock, r->r_deadline);
	if (w->w_rc == 0) {
		TEST_EQUAL(r->r_lock.rw_readers, 0);
		r->r_had += 100;
		TEST_EQUAL(usync_rwlock_unlock(&r->r_lock), 0);
	}
}

/*
 * The tester and one thread read together. A writer waits, and readers behind it. They
 * come after the writer has had its turn, or at once when it gives up.
 */
enum { HAS_TURN, IS_CANCELLED, IS_LATE };

static void queue_behind(void *s, struct relay *r, struct worker *w, int mode)
{
	assert_int_equal(usync_rwlock_read(&r->r_lock, 0), 0);
	start_worker(&w[0], s, false, 0, hold_read, r);
	await_count(&r->r_had, 1);
	start_worker(&w[1], s, false, 1, want_write, r);
	if (mode != IS_LATE)                    /* else its deadline may have come */
		await_waiting(&w[1]);
	for (size_t i = 2; i < 4; i++) {
		start_worker(&w[i], s, i == 2, i, hold_read, r);
		await_waiting(&w[i]);
	}
	if (mode != IS_LATE)
		assert_int_equal(usync_rwlock_read(&r->r_lock, 0), -ETIMEDOUT);
}

static void read_behind(void *s, int mode)
{
	struct relay r = { .r_deadline = USCHED_NEVER };
	size_t had = mode == HAS_TURN ? 103 : 3;
	struct worker w[4];

	if (mode == IS_LATE)
		r.r_deadline = usync_after(20 * MILLISECOND);
	queue_behind(s, &r, w, mode);
	if (mode == IS_CANCELLED) {
		assert_int_equal(ustack_cancel(w[1].w_thread), 0);
	} else if (mode == HAS_TURN) {
		assert_int_equal(usync_sem_post(&r.r_let_go), 0);
		end_worker(&w[0]);
		assert_int_equal(r.r_had, 1);
		assert_int_equal(usync_rwlock_unlock(&r.r_lock), 0);
	}
	await_count(&r.r_had, had);
	assert_int_equal(r.r_had, had);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(usync_sem_post(&r.r_let_go), 0);
	for (size_t i = mode == HAS_TURN; i < 4; i++)
		end_worker(&w[i]);
	assert_int_equal(w[1].w_rc, mode == HAS_TURN ? 0
			 : mode == IS_LATE ? -ETIMEDOUT : -ECANCELED);
	assert_int_equal(r.r_lock.rw_readers, mode != HAS_TURN);
	assert_int_equal(r.r_lock.rw_owner, 0);
}

static void readers_behind(void *s)
{
	for (int mode = HAS_TURN; mode <= IS_LATE; mode++)
		read_behind(s, mode);
}

TEST_CASE(test_rwlock, each_scheduler, readers_behind)

int main(void)
{
	return over_all(OVER_ALL);
}
