/* SPDX-License-Identifier: MIT */
/*
 * test_sync_cancel.c: cancels of threads at each wait of usync.h: while they wait, before
 * they run, after the grant, and without a wait. And pthread_cancel() of native threads,
 * which takes effect after the call.
 */
#include "../help/place.h"

#include <errno.h>
#include <sched.h>

/* ---- While it waits ---- */

static void be_cancelled(struct worker *w)
{
	struct visit *v = w->w_shared;
	struct place *p = v->v_place;
	const struct point *o = v->v_point;

	TEST_EQUAL(ustack_cancelled(), 0);
	TEST_EQUAL(o->o_wait(w, p, v->v_deadline), -ECANCELED);
	TEST_EQUAL(ustack_cancelled(), 1);
	TEST_EQUAL(o->o_wait(w, p, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(o->o_wait(w, p, usync_after(1000 * USYNC_SECOND)), -ECANCELED);
	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(ustack_cancelled(), 1);
	TEST_EQUAL(o->o_wait(w, p, usync_after(1000)), -ETIMEDOUT);
	v->v_step = 1;
	while (v->v_step == 1)
		TEST_EQUAL(test_give_way(), 0);
	if (o->o_ends != NONE) {
		TEST_EQUAL(o->o_wait(w, p, USCHED_NEVER), 0);
		if (o->o_done)
			o->o_done(p);
	}
	TEST_EQUAL(ustack_shield(1), 1);
	TEST_EQUAL(ustack_shield(0), 1);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
}

static void cancel_blocked(void *s, const struct point *o, bool deadline)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	v.v_deadline = deadline ? usync_after(1000 * USYNC_SECOND) : USCHED_NEVER;
	start_worker(&w, s, false, 0, be_cancelled, &v);
	await_visit(&w, o);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	await_count(&v.v_step, 1);
	check_place(v.v_place);
	v.v_step = 2;
	if (o->o_ends != NONE) {
		await_visit(&w, o);
		assert_int_equal(ustack_cancel(w.w_thread), 0);
		settle(s, w.w_thread);          /* the shield keeps it waiting */
		release_place(o, v.v_place);
	}
	end_worker(&w);
	free_place(v.v_place);
}

TEST_CASE(test_cancel, each_point, cancel_blocked)

/* ---- Before it runs ---- */

/* It runs, and cannot wait. */
static void find_cancelled(struct worker *w)
{
	struct visit *v = w->w_shared;

	while (!ustack_cancelled())
		TEST_EQUAL(test_give_way(), 0);
	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, USCHED_NEVER), -ECANCELED);
	w->w_count = 1;
}

struct starter {
	struct visit  t_visit;
	struct worker t_worker;
	void         *t_sched;
};

static void start_and_cancel(void *arg)
{
	struct starter *t = arg;

	start_worker(&t->t_worker, t->t_sched, false, 0, find_cancelled, &t->t_visit);
	TEST_EQUAL(ustack_cancel(t->t_worker.w_thread), 0);
}

static void cancel_new(void *s, const struct point *o, bool by_thread)
{
	static struct starter t;
	struct ustack *u;

	t = (struct starter){ { .v_place = make_place(s), .v_point = o }, .t_sched = s };
	if (by_thread) {
		assert_int_equal(over->o_start(s, start_and_cancel, &t, &u), 0);
		assert_int_equal(ustack_join(u, NULL, USCHED_NEVER), 0);
	} else {
		start_and_cancel(&t);
	}
	while (!t.t_worker.w_ended)
		sched_yield();
	while (ustack_cancel(t.t_worker.w_thread) == 0)
		sched_yield();
	assert_int_equal(ustack_cancel(t.t_worker.w_thread), -ESRCH);
	end_worker(&t.t_worker);
	assert_int_equal(t.t_worker.w_count, 1);
	check_place(t.t_visit.v_place);
	free_place(t.t_visit.v_place);
}

TEST_CASE(test_cancel_new, each_point, cancel_new)

/* ---- After the grant ---- */

/* On one processor the cancel comes after the grant and before the waiter runs. */
static void grant_and_cancel(void *arg)
{
	struct starter *t = arg;

	release_place(t->t_visit.v_point, t->t_visit.v_place);
	TEST_EQUAL(ustack_cancel(t->t_worker.w_thread), 0);
}

static void be_granted(struct worker *w)
{
	struct visit *v = w->w_shared;

	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, v->v_deadline), 0);
	while (!ustack_cancelled())
		TEST_EQUAL(test_give_way(), 0);
	if (v->v_point->o_done)
		v->v_point->o_done(v->v_place);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
}

/* A thread owns what the tester of a place has, and releases it. */
static void own_place(void *arg)
{
	struct starter *t = arg;
	struct place *p = t->t_visit.v_place;

	TEST_EQUAL(usync_mutex_lock(&p->p_mutex, USCHED_NEVER), 0);
	TEST_EQUAL(usync_rwlock_write(&p->p_read, USCHED_NEVER), 0);
	t->t_visit.v_step = 1;
	while (t->t_visit.v_step == 1)
		TEST_EQUAL(test_give_way(), 0);
	grant_and_cancel(t);
	if (p->p_mutex.m_owner)
		usync_mutex_unlock(&p->p_mutex);
}

static void cancel_granted(void *s, const struct point *o, bool deadline)
{
	static struct starter t;
	struct ustack *owner;

	if (o->o_ends == NONE || is_join(o))
		return;
	t = (struct starter){ { .v_place = make_place(s), .v_point = o }, .t_sched = s };
	t.t_visit.v_deadline = deadline ? usync_after(1000 * USYNC_SECOND) : USCHED_NEVER;
	assert_int_equal(usync_mutex_unlock(&t.t_visit.v_place->p_mutex), 0);
	assert_int_equal(usync_rwlock_unlock(&t.t_visit.v_place->p_read), 0);
	assert_int_equal(over->o_start(s, own_place, &t, &owner), 0);
	await_count(&t.t_visit.v_step, 1);
	start_worker(&t.t_worker, s, false, 0, be_granted, &t.t_visit);
	await_waiting(&t.t_worker);
	t.t_visit.v_step = 2;
	assert_int_equal(ustack_join(owner, NULL, USCHED_NEVER), 0);
	end_worker(&t.t_worker);
	free_place(t.t_visit.v_place);
}

TEST_CASE(test_cancel_granted, each_point_single, cancel_granted)

/* ---- Without a wait ---- */

enum { SPELL = 1000000 };               /* ns: BUDGET_SPELL */

/* A cancelled thread gets what is free. */
static void have_it_all(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t value = 0;
	int64_t began = usync_after(0);
	int rc;

	while (!ustack_cancelled()) {
		began = usync_after(0);
		TEST_EQUAL(test_give_way(), 0);
	}
	TEST_EQUAL(usync_mutex_lock(&p->p_with, USCHED_NEVER), 0);
	TEST_EQUAL(usync_cond_wait(&p->p_cond, &p->p_with, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(usync_mutex_unlock(&p->p_with), 0);
	TEST_EQUAL(usync_rwlock_read(&p->p_write, USCHED_NEVER), 0);
	TEST_EQUAL(usync_rwlock_unlock(&p->p_write), 0);
	TEST_EQUAL(usync_sem_post(&p->p_sem), 0);
	TEST_EQUAL(usync_sem_wait(&p->p_sem, USCHED_NEVER), 0);
	TEST_EQUAL(usync_group_done(&p->p_group), 0);
	TEST_EQUAL(usync_group_wait(&p->p_group, USCHED_NEVER), 0);
	TEST_EQUAL(usync_chan_send(p->p_empty, &value, USCHED_NEVER), 0);
	rc = usync_chan_recv(p->p_full, &value, USCHED_NEVER);
	if (usync_after(0) - began >= SPELL && rc == -ECANCELED)
		/* On a slow machine the spell was over, which ends a call of a
		   cancelled thread: budget.h. */
		rc = usync_chan_recv(p->p_full, &value, USCHED_NEVER);
	TEST_EQUAL(rc, 0);
	TEST_EQUAL(value, FILL);
	w->w_count = 1;
}

/* A thread cancels itself: it is cancelled at once, or after its next block. */
static void cancel_itself(struct worker *w)
{
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	TEST_EQUAL(ustack_cancel(w->w_thread), 0);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(ustack_cancel(w->w_thread), 0);
	TEST_EQUAL(ustack_cancelled(), 1);
}

static void cancel_without_wait(void *s)
{
	struct place *p = make_place(s);
	struct worker w;

	start_worker(&w, s, false, 0, cancel_itself, NULL);
	end_worker(&w);
	start_worker(&w, s, false, 0, have_it_all, p);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	end_worker(&w);
	assert_int_equal(w.w_count, 1);
	free_place(p);
}

TEST(test_cancel_without_wait)
{
	each_scheduler(cancel_without_wait);
	assert_int_equal(ustack_cancelled(), 0);        /* a native thread never is */
}

/* ---- Native threads ---- */

/* `w_count' is 1 after the wait, if that was no cancellation point. */
static void wait_natively(struct worker *w)
{
	struct visit *v = w->w_shared;
	const struct point *o = v->v_point;
	int before, rc;

	if (v->v_step == 1)
		pthread_cancel(pthread_self());
	rc = o->o_wait(w, v->v_place, v->v_deadline);
	if (rc == 0 && o->o_done)
		o->o_done(v->v_place);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	TEST_EQUAL(before, PTHREAD_CANCEL_ENABLE);
	TEST_EQUAL(rc, o->o_ends == NONE ? -ETIMEDOUT : 0);
	w->w_count = 1;
}

static void cancel_native(void *s, const struct point *o, bool pending)
{
	struct visit v = { .v_place = make_place(s), .v_point = o, .v_step = pending };
	struct worker w;

	if (over->o_procs || !is_join(o)) {     /* a user's join is the user's */
		v.v_deadline = o->o_ends == NONE ? usync_after(2 * MILLISECOND)
						 : usync_after(1000 * USYNC_SECOND);
		start_worker(&w, s, true, 0, wait_natively, &v);
		if (o->o_ends != NONE)
			await_visit(&w, o);
		if (!pending)
			pthread_cancel(w.w_native);
		nanosleep(&(struct timespec){ 0, 200000 }, NULL);
		if (o->o_ends != NONE)
			release_place(o, v.v_place);
		end_worker(&w);
		assert_int_equal(w.w_count, 1);
	}
	free_place(v.v_place);
}

TEST_CASE(test_cancel_native, each_point, cancel_native)

/* Wakes a processor that sleeps; joins and destroys. All that with a cancel pending. */
static struct usync_sem called;

static void await_call(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sem_wait(&called, usync_after(1000 * USYNC_SECOND)), 0);
}

static void *do_all_cancelled(void *s)
{
	static const struct timespec t = { 0, MILLISECOND };
	struct ustack *u;
	int before;

	for (int i = 0; i < 3; i++) {
		TEST_EQUAL(over->o_start(s, await_call, NULL, &u), 0);
		nanosleep(&t, NULL);
		if (i == 2)
			pthread_cancel(pthread_self());
		TEST_EQUAL(usync_sem_post(&called), 0);
		TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	}
	TEST_EQUAL(over->o_start(s, await_call, NULL, &u), 0);
	TEST_EQUAL(ustack_detach(u), 0);
	TEST_EQUAL(usync_sem_post(&called), 0);
	TEST_EQUAL(over->o_destroy(s), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	TEST_EQUAL(before, PTHREAD_CANCEL_ENABLE);
	return s;
}

static void destroy_cancelled(const struct uprocs_conf *conf)
{
	void *s = make_scheduler(conf), *done;
	pthread_t native;

	assert_int_equal(pthread_create(&native, NULL, do_all_cancelled, s), 0);
	assert_int_equal(pthread_join(native, &done), 0);
	assert_ptr_equal(done, s);
}

TEST(test_cancel_caller)
{
	if (over->o_procs)
		each_conf(destroy_cancelled);
}

int main(void)
{
	return over_all(OVER_ALL);
}
