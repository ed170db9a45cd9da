/* SPDX-License-Identifier: MIT */
/*
 * test_sync_storm.c: many workers at one object at random, with deadlines and cancels.
 * What must be conserved is counted. Tokens and ends while other waits go on.
 */
#include "../help/sync.h"

#include <errno.h>

/* ---- Locks ---- */

enum { SEATS = 3 };

struct storm {
	int               (*s_step)(struct storm *s, struct worker *w, int64_t deadline);
	void               *s_sched;
	size_t              s_rounds;
	bool                s_cancels;
	struct usync_mutex  s_mutex;
	struct usync_rwlock s_lock;
	struct usync_cond   s_cond;
	struct usync_sem    s_sem;
	size_t              s_count;            /* under s_mutex, or s_lock to write */
	size_t              s_seats;            /* under s_mutex */
	atomic_size_t       s_readers;
	atomic_size_t       s_inside;
	atomic_size_t       s_done;             /* steps */
	atomic_size_t       s_failed;
	struct worker       s_workers[STORMERS];
};

static void enter(struct storm *s, struct worker *w, size_t most)
{
	TEST_TRUE(++s->s_inside <= most);
	pause_worker(w);
	s->s_inside--;
}

static int step_mutex(struct storm *s, struct worker *w, int64_t deadline)
{
	int rc = usync_mutex_lock(&s->s_mutex, deadline);

	if (rc == 0) {
		s->s_count++;
		enter(s, w, 1);
		TEST_EQUAL(usync_mutex_unlock(&s->s_mutex), 0);
	}
	return rc;
}

static int step_rwlock(struct storm *s, struct worker *w, int64_t deadline)
{
	bool reads = any(w, 3) > 0;
	int rc = reads ? usync_rwlock_read(&s->s_lock, deadline)
		: usync_rwlock_write(&s->s_lock, deadline);

	if (rc)
		return rc;
	if (reads) {
		s->s_readers++;
		TEST_EQUAL(s->s_inside, 0);
		pause_worker(w);
		s->s_readers--;
	} else {
		TEST_EQUAL(s->s_readers, 0);
		s->s_count++;
		enter(s, w, 1);
	}
	TEST_EQUAL(usync_rwlock_unlock(&s->s_lock), 0);
	return 0;
}

static int step_sem(struct storm *s, struct worker *w, int64_t deadline)
{
	int rc = usync_sem_wait(&s->s_sem, deadline);

	if (rc == 0) {
		enter(s, w, SEATS);
		TEST_EQUAL(usync_sem_post(&s->s_sem), 0);
	}
	return rc;
}

/* A semaphore made of a mutex and a condition. A lost signal stops it. */
static int step_cond(struct storm *s, struct worker *w, int64_t deadline)
{
	int shield = ustack_shield(1), rc = 0;

	TEST_EQUAL(usync_mutex_lock(&s->s_mutex, USCHED_NEVER), 0);
	ustack_shield(shield);
	while (rc == 0 && s->s_seats == 0)
		rc = usync_cond_wait(&s->s_cond, &s->s_mutex, deadline);
	if (rc == 0)
		s->s_seats--;
	TEST_EQUAL(usync_mutex_unlock(&s->s_mutex), 0);
	if (rc)
		return rc;
	enter(s, w, SEATS);
	ustack_shield(1);
	TEST_EQUAL(usync_mutex_lock(&s->s_mutex, USCHED_NEVER), 0);
	ustack_shield(shield);
	s->s_seats++;
	usync_cond_signal(&s->s_cond);
	TEST_EQUAL(usync_mutex_unlock(&s->s_mutex), 0);
	return 0;
}

static void take_steps(struct worker *w)
{
	struct storm *s = w->w_shared;
	size_t cancels = 0;

	for (size_t i = 0; i < s->s_rounds && cancels < MOST_CANCELS; i++) {
		int rc = s->s_step(s, w, any_deadline(w));

		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
		*(rc ? &s->s_failed : &s->s_done) += 1;
		if (rc != -ECANCELED)
			continue;
		cancels++;
		TEST_EQUAL(ustack_cancelled(), 1);
		TEST_EQUAL(ustack_shield(1), 0);
		TEST_EQUAL(s->s_step(s, w, USCHED_NEVER), 0);
		TEST_EQUAL(ustack_shield(0), 1);
		s->s_done++;
	}
}

static void run_storm(struct storm *s)
{
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&s->s_workers[i], s->s_sched, i >= STORM_THREADS, i,
			     take_steps, s);
	if (s->s_cancels)
		cancel_some(s->s_workers, STORM_THREADS);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&s->s_workers[i]);
	TEST_EQUAL(s->s_inside, 0);
	TEST_TRUE(!s->s_mutex.m_queue.q_first && s->s_mutex.m_owner == 0);
	TEST_TRUE(!s->s_lock.rw_queue.q_first && s->s_lock.rw_owner == 0);
	TEST_TRUE(!s->s_sem.sm_queue.q_first && !s->s_cond.cv_queue.q_first);
	TEST_EQUAL(s->s_lock.rw_readers, 0);
	TEST_EQUAL(s->s_sem.sm_count, SEATS);
	TEST_EQUAL(s->s_seats, SEATS);
}

static int (*const steps[])(struct storm *s, struct worker *w, int64_t deadline) = {
	step_mutex, step_rwlock, step_sem, step_cond,
};

static void storms(void *s)
{
	static struct storm storm;

	for (size_t i = 0; i < 4; i++)
		for (int cancels = 0; cancels < 2; cancels++) {
			storm = (struct storm){
				.s_step = steps[i], .s_sched = s, .s_cancels = cancels,
				.s_rounds = test_scale(300, 5),
				.s_sem = { .sm_count = SEATS }, .s_seats = SEATS,
			};
			run_storm(&storm);
			assert_true(i != 0 || storm.s_count == storm.s_done);
			assert_true(storm.s_done + storm.s_failed >= STORMERS * 5
				    || cancels);
		}
}

TEST_CASE(test_storms, each_scheduler, storms)

/* ---- Tokens ---- */

struct tally {
	struct usync_mutex t_mutex;
	struct usync_sem   t_sem;
	struct usync_chan *t_chan;
	struct ustack     *t_thread;            /* its tokens are counted */
	void              *t_sched;
	size_t             t_wakes;             /* from each worker */
	atomic_bool        t_stop;
	struct worker      t_workers[4];
};

static void sleep_a_little(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

/* Waits in every way, then takes its tokens, and one more than it gets at first. */
static void count_tokens(struct worker *w)
{
	struct tally *t = w->w_shared;
	size_t value;

	while (!t->t_stop) {
		struct ustack *u;

		if (usync_mutex_lock(&t->t_mutex, any_deadline(w)) == 0)
			TEST_EQUAL(usync_mutex_unlock(&t->t_mutex), 0);
		usync_sem_wait(&t->t_sem, usync_after(20000));
		usync_chan_recv(t->t_chan, &value, usync_after(20000));
		TEST_EQUAL(over->o_start(t->t_sched, sleep_a_little, NULL, &u), 0);
		while (ustack_join(u, NULL, usync_after((int64_t)any(w, 30000))))
			;
	}
	for (; w->w_count < 3 * t->t_wakes + 1; w->w_count++)
		TEST_EQUAL(ustack_wait(), 0);
}

static void wake_and_grant(struct worker *w)
{
	struct tally *t = w->w_shared;

	for (size_t i = 0; i < t->t_wakes; i++) {
		TEST_EQUAL(ustack_wake(t->t_thread), 0);
		TEST_EQUAL(usync_sem_post(&t->t_sem), 0);
		usync_chan_send(t->t_chan, &i, any(w, 2) ? 0 : usync_after(10000));
		if (usync_mutex_lock(&t->t_mutex, any_deadline(w)) == 0) {
			pause_worker(w);
			TEST_EQUAL(usync_mutex_unlock(&t->t_mutex), 0);
		}
	}
}

static void tokens(void *s)
{
	static struct tally t;

	t = (struct tally){ .t_sched = s, .t_wakes = test_scale(500, 10) };
	assert_int_equal(usync_chan_create(sizeof(size_t), 0, &t.t_chan), 0);
	start_worker(&t.t_workers[0], s, false, 0, count_tokens, &t);
	t.t_thread = t.t_workers[0].w_thread;
	for (size_t i = 1; i < 4; i++)
		start_worker(&t.t_workers[i], s, i == 2, i, wake_and_grant, &t);
	for (size_t i = 1; i < 4; i++)
		end_worker(&t.t_workers[i]);
	t.t_stop = true;
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_workers[0].w_count, 3 * t.t_wakes);
	assert_int_equal(ustack_wake(t.t_thread), 0);
	end_worker(&t.t_workers[0]);
	usync_chan_destroy(t.t_chan);
}

TEST_CASE(test_tokens, each_scheduler, tokens)

/* ---- Ends ---- */

/*
 * Threads end as soon as another processor or a native thread has granted their waits,
 * with a token that they never take. The granter does not touch them any more.
 */
enum { MAYFLIES = 30 };

struct swarm {
	struct usync_sem s_sem;
	struct ustack   *s_threads[MAYFLIES];
};

static void post_and_wake(struct worker *w)
{
	struct swarm *s = w->w_shared;

	for (size_t i = 0; i < MAYFLIES; i++) {
		int rc = ustack_wake(s->s_threads[(i * 7 + w->w_index) % MAYFLIES]);

		TEST_TRUE(rc == 0 || rc == -ESRCH);
		TEST_EQUAL(usync_sem_post(&s->s_sem), 0);
	}
}

static void end_at_once(void *s)
{
	struct swarm swarm = { .s_sem = { 0 } };
	struct usync_sem *sem = &swarm.s_sem;
	struct ustack **u = swarm.s_threads;
	struct worker w[2];

	for (size_t round = 0; round < test_scale(60, 4); round++) {
		for (size_t i = 0; i < MAYFLIES; i++)
			TEST_EQUAL(over->o_start(s, wait_for_sem, sem, &u[i]), 0);
		for (size_t i = 0; i < 2; i++)
			start_worker(&w[i], s, i == round % 2, i, post_and_wake, &swarm);
		for (size_t i = 0; i < 2; i++)
			end_worker(&w[i]);
		for (size_t i = 0; i < MAYFLIES; i++)
			assert_int_equal(ustack_join(u[i], NULL, USCHED_NEVER), 0);
		assert_int_equal(sem->sm_count, MAYFLIES);
		sem->sm_count = 0;
	}
}

TEST_CASE(test_end_at_once, each_scheduler, end_at_once)

/* ---- Without deadlines: a lost wake is for ever ---- */

enum { HANDS = 6 };

static struct market {
	struct usync_mutex  m_mutex;
	struct usync_cond   m_cond;             /* there are goods */
	struct usync_group  m_group;            /* of hands that are not done */
	struct usync_chan  *m_chan;             /* without capacity */
	size_t              m_goods;
} market;

/* Those with an even index bring goods, the others take them: `rounds' each. */
static void trade(struct worker *w)
{
	struct market *m = &market;
	size_t rounds = test_scale(400, 3), value = 1;

	for (size_t i = 0; i < rounds; i++) {
		TEST_EQUAL(usync_mutex_lock(&m->m_mutex, USCHED_NEVER), 0);
		while (w->w_index % 2 && m->m_goods == 0)
			TEST_EQUAL(usync_cond_wait(&m->m_cond, &m->m_mutex, USCHED_NEVER),
				   0);
		m->m_goods += w->w_index % 2 ? SIZE_MAX : 1;
		if (w->w_index % 2 == 0)
			usync_cond_signal(&m->m_cond);
		TEST_EQUAL(usync_mutex_unlock(&m->m_mutex), 0);
		if (w->w_index % 2)
			TEST_EQUAL(usync_chan_recv(m->m_chan, &value, USCHED_NEVER), 0);
		else
			TEST_EQUAL(usync_chan_send(m->m_chan, &value, USCHED_NEVER), 0);
	}
	TEST_EQUAL(usync_group_done(&m->m_group), 0);
}

static void trading(void *s)
{
	struct worker w[HANDS];

	market = (struct market){ .m_goods = 0 };
	assert_int_equal(usync_chan_create(sizeof(size_t), 0, &market.m_chan), 0);
	assert_int_equal(usync_group_add(&market.m_group, HANDS), 0);
	for (size_t i = 0; i < HANDS; i++)
		start_worker(&w[i], s, false, i, trade, NULL);
	assert_int_equal(usync_group_wait(&market.m_group, USCHED_NEVER), 0);
	for (size_t i = 0; i < HANDS; i++)
		end_worker(&w[i]);
	assert_int_equal(market.m_goods, 0);
	usync_chan_destroy(market.m_chan);
}

TEST_CASE(test_trading, each_scheduler, trading)

int main(void)
{
	return over_all(OVER_ALL);
}
