/* SPDX-License-Identifier: MIT */
/*
 * test_sync_wait.c: what holds for each wait of usync.h: deadlines, the order of waiters,
 * deadlocks, and memory.
 */
#include "../help/place.h"

#include <errno.h>

#include "../help/foreign.h"

/* ---- Deadlines ---- */

static void be_late(struct worker *w)
{
	struct visit *v = w->w_shared;
	int64_t soon;

	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, 0), -ETIMEDOUT);
	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, 1), -ETIMEDOUT);
	for (int i = 0; i < 3; i++) {
		soon = usync_after(i * MILLISECOND / 4);
		TEST_EQUAL(v->v_point->o_wait(w, v->v_place, soon), -ETIMEDOUT);
		TEST_TRUE(uevents_now() >= soon);
		TEST_EQUAL(ustack_cancelled(), 0);
	}
}

static void late(void *s, const struct point *o, bool native)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	start_worker(&w, s, native, 0, be_late, &v);
	end_worker(&w);
	check_place(v.v_place);
	free_place(v.v_place);
}

TEST_CASE(test_deadlines, each_point, late)

/* ---- Order ---- */

static void wait_in_turn(struct worker *w)
{
	struct visit *v = w->w_shared;
	struct place *p = v->v_place;

	TEST_EQUAL(v->v_point->o_wait(w, p, v->v_deadline), 0);
	if (v->v_point->o_ends != ALL)
		p->p_order[p->p_reached] = w->w_index;
	p->p_reached++;
	if (v->v_point->o_done)
		v->v_point->o_done(p);
}

/* Threads and native threads are in one queue. They go on in the order they came. */
static void in_turn(void *s, const struct point *o, bool deadlines)
{
	struct visit v = { .v_point = o, .v_deadline = USCHED_NEVER };
	struct worker w[QUEUE];
	size_t n = is_join(o) ? 1 : QUEUE;

	if (o->o_ends == NONE)
		return;
	if (deadlines)
		v.v_deadline = usync_after(1000 * USYNC_SECOND);
	v.v_place = make_place(s);
	for (size_t i = 0; i < n; i++) {
		start_worker(&w[i], s, i % 4 == 2, i, wait_in_turn, &v);
		await_visit(&w[i], o);
	}
	for (size_t i = 0; i < n; i++) {
		assert_true(o->o_ends != ONE || v.v_place->p_reached == i);
		if (i == 0 || o->o_ends == ONE)
			release_place(o, v.v_place);
		await_count(&v.v_place->p_reached, i + 1);
	}
	for (size_t i = 0; i < n; i++) {
		end_worker(&w[i]);
		assert_true(o->o_ends == ALL || v.v_place->p_order[i] == i);
	}
	assert_int_equal(v.v_place->p_reached, n);
	assert_int_equal(v.v_place->p_mutex.m_owner > 1, o != &points[MUTEX]);
	free_place(v.v_place);
}

TEST_CASE(test_order, each_point, in_turn)

/*
 * Of four waiters any set gives up. The others go on in their order. When all give up,
 * the place is unchanged.
 */
struct doubt {
	struct visit d_visit;                   /* first */
	unsigned     d_quit;                    /* a bit for each that gives up */
};

static void wait_or_give_up(struct worker *w)
{
	struct doubt *d = w->w_shared;
	struct visit *v = &d->d_visit;
	size_t before = 0;

	for (size_t i = 0; i < w->w_index; i++)
		before += !(d->d_quit >> i & 1);
	if (d->d_quit >> w->w_index & 1) {
		w->w_index += 100;              /* must never be seen */
		TEST_EQUAL(v->v_point->o_wait(w, v->v_place, USCHED_NEVER), -ECANCELED);
	} else {
		w->w_index = before;
		wait_in_turn(w);
	}
}

static void give_up(void *s, const struct point *o, unsigned quit)
{
	struct doubt d = { { .v_place = make_place(s), .v_point = o,
			     .v_deadline = USCHED_NEVER }, quit };
	struct place *p = d.d_visit.v_place;
	struct worker w[4];
	size_t left = 0;

	for (size_t i = 0; i < 4; i++) {
		start_worker(&w[i], s, false, i, wait_or_give_up, &d);
		await_visit(&w[i], o);
		left += !(quit >> i & 1);
	}
	for (size_t i = 0; i < 4; i++) {
		size_t k = (i + quit) % 4;

		if (quit >> k & 1) {
			assert_int_equal(ustack_cancel(w[k].w_thread), 0);
			end_worker(&w[k]);
		}
	}
	for (size_t i = 0; i < left; i++) {
		assert_true(o->o_ends != ONE || p->p_reached == i);
		if (i == 0 || o->o_ends == ONE)
			release_place(o, p);
		await_count(&p->p_reached, i + 1);
	}
	for (size_t i = 0; i < 4; i++)
		if (!(quit >> i & 1))
			end_worker(&w[i]);
	for (size_t i = 0; i < left && o->o_ends != ALL; i++)
		assert_int_equal(p->p_order[i], i);
	if (left == 0)
		check_place(p);
	free_place(p);
}

static void give_ups(void *s)
{
	for (size_t i = 0; i < JOIN; i++)
		for (unsigned quit = 0; quit < 16 && points[i].o_ends != NONE; quit++)
			give_up(s, &points[i], quit);
}

TEST_CASE(test_give_up, each_scheduler, give_ups)

/* ---- Deadlock ---- */

static void wait_at_point(struct worker *w)
{
	struct visit *v = w->w_shared;

	w->w_rc = v->v_point->o_wait(w, v->v_place, v->v_deadline);
	if (w->w_rc == 0 && v->v_point->o_done)
		v->v_point->o_done(v->v_place);
}

/* A wait without a deadline is a deadlock; with one it is none. */
static void find_deadlock(void *s, const struct point *o, bool deadline)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	v.v_deadline = deadline ? usync_after(MILLISECOND) : USCHED_NEVER;
	start_worker(&w, s, false, 0, wait_at_point, &v);
	if (!deadline && !is_join(o)) {
		assert_int_equal(ustack_join(w.w_thread, NULL, USCHED_NEVER), -EDEADLK);
		assert_true(waits(&w));
		if (o->o_ends == NONE)
			assert_int_equal(ustack_cancel(w.w_thread), 0);
		else
			release_place(o, v.v_place);
	} else if (!deadline) {
		await_visit(&w, o);
		release_place(o, v.v_place);
	}
	end_worker(&w);
	assert_int_equal(w.w_rc, deadline ? -ETIMEDOUT
			 : o->o_ends == NONE ? -ECANCELED : 0);
	free_place(v.v_place);
}

TEST_CASE(test_deadlock, each_point, find_deadlock)

/* ---- Memory ---- */

/*
 * A wait reserves its image before it is in a queue, so a block never finds the image too
 * small. The join of foreign.h reserves for itself.
 */
static void count_images(struct worker *w)
{
	struct visit *v = w->w_shared;

	TEST_EQUAL(foreign_thread(w->w_thread)->t_allocs, 1);   /* of the waiter */
	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, v->v_deadline), -ETIMEDOUT);
	TEST_TRUE(foreign_thread(w->w_thread)->t_allocs <= 2);
}

static void reserve(void *s, const struct point *o, bool past)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	v.v_deadline = past ? 1 : usync_after(1000);
	start_worker(&w, s, false, 0, is_join(o) ? be_late : count_images, &v);
	end_worker(&w);
	free_place(v.v_place);
}

TEST_OVER(OVER_FOREIGN, test_reserve)
{
	if (test_is_stressed())
		skip();
	each_point(reserve);
}

int main(void)
{
	return over_all(OVER_ALL);
}
