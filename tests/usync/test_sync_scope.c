/* SPDX-License-Identifier: MIT */
/*
 * test_sync_scope.c: scopes. What ends in them, what does not, and what is left
 * afterwards: every way to wait, of threads and native threads; scopes within scopes;
 * threads that are started in one; cancels against grants, ends and moves.
 */
#include "../help/place.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../src/wait/wait.h"
#include "../../unet.h"
#include "../../uoffload.h"

#define HOUR (3600 * USYNC_SECOND)

static struct usync_scope *make_scope(struct usync_scope *parent, int64_t deadline)
{
	struct usync_scope_how how = { .sh_parent = parent };
	struct usync_scope *c;

	TEST_EQUAL(usync_scope_create(&how, &c, deadline), 0);
	return c;
}

/* ---- Each wait ---- */

/* A worker in a scope at a point of a place. */
struct stay {
	struct visit        s_visit;
	struct usync_scope *s_scope;
	int                 s_error;
};

/* Errors while it is in the scope; as ever afterwards. */
static void stay(struct worker *w)
{
	struct stay *y = w->w_shared;
	struct visit *v = &y->s_visit;
	const struct point *o = v->v_point;

	TEST_EQUAL(usync_scope_enter(y->s_scope), 0);
	if (y->s_error == -ECANCELED)
		TEST_EQUAL(usync_scope_error(y->s_scope), 0);
	TEST_EQUAL(o->o_wait(w, v->v_place, v->v_deadline), y->s_error);
	TEST_EQUAL(usync_scope_error(y->s_scope), y->s_error);
	TEST_EQUAL(ustack_cancelled(), 0);
	TEST_EQUAL(o->o_wait(w, v->v_place, USCHED_NEVER), y->s_error);
	TEST_EQUAL(o->o_wait(w, v->v_place, usync_after(HOUR)), y->s_error);
	if (w->w_thread)
		TEST_EQUAL(ustack_yield(), y->s_error);
	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(o->o_wait(w, v->v_place, usync_after(1000)), -ETIMEDOUT);
	TEST_EQUAL(ustack_shield(0), 1);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), y->s_error);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(o->o_wait(w, v->v_place, usync_after(1000)), -ETIMEDOUT);
	v->v_step = 1;
	while (v->v_step == 1)
		test_give_way();
	if (o->o_ends != NONE) {
		TEST_EQUAL(o->o_wait(w, v->v_place, USCHED_NEVER), 0);
		if (o->o_done)
			o->o_done(v->v_place);
	}
}

/* A native thread's join ends with the thread only, as usync.h says. */
static bool has_no_end(const struct point *o, bool native)
{
	return native && is_join(o);
}

static void cancel_blocked(void *s, const struct point *o, bool native)
{
	struct stay y = { { .v_place = make_place(s), .v_point = o,
			    .v_deadline = USCHED_NEVER }, .s_error = -ECANCELED };
	struct worker w;

	if (has_no_end(o, native)) {
		free_place(y.s_visit.v_place);
		return;
	}
	y.s_scope = make_scope(NULL, native ? usync_after(HOUR) : USCHED_NEVER);
	start_worker(&w, s, native, 0, stay, &y);
	await_visit(&w, o);
	usync_scope_cancel(y.s_scope, -ECANCELED);
	usync_scope_cancel(y.s_scope, -ECANCELED);
	await_count(&y.s_visit.v_step, 1);
	check_place(y.s_visit.v_place);
	y.s_visit.v_step = 2;
	if (o->o_ends != NONE) {
		await_visit(&w, o);
		usync_scope_cancel(y.s_scope, -EIO);    /* late: it has left */
		release_place(o, y.s_visit.v_place);
	}
	end_worker(&w);
	usync_scope_release(y.s_scope);
	free_place(y.s_visit.v_place);
}

TEST_CASE(test_cancel, each_point, cancel_blocked)

/* The scope's deadline comes, whatever the wait's is. */
static void time_out_blocked(void *s, const struct point *o, bool native)
{
	struct stay y = { { .v_place = make_place(s), .v_point = o,
			    .v_deadline = usync_after(HOUR) }, .s_error = -ETIMEDOUT };
	struct usync_scope *outer = make_scope(NULL, usync_after(5 * MILLISECOND));
	struct worker w;

	if (!has_no_end(o, native)) {
		y.s_scope = make_scope(outer, USCHED_NEVER);
		start_worker(&w, s, native, 0, stay, &y);
		await_count(&y.s_visit.v_step, 1);
		check_place(y.s_visit.v_place);
		y.s_visit.v_step = 2;
		usync_scope_cancel(y.s_scope, -ECANCELED);
		TEST_EQUAL(usync_scope_error(y.s_scope), -ETIMEDOUT);
		if (o->o_ends != NONE) {
			await_visit(&w, o);
			release_place(o, y.s_visit.v_place);
		}
		end_worker(&w);
		usync_scope_release(y.s_scope);
	}
	usync_scope_release(outer);
	free_place(y.s_visit.v_place);
}

TEST_CASE(test_deadline, each_point, time_out_blocked)

/* ---- Scopes within scopes ---- */

static void in_several(struct worker *w)
{
	struct usync_scope *outer = make_scope(NULL, usync_after(HOUR));
	struct usync_scope *inner = make_scope(outer, USCHED_NEVER);
	struct usync_scope *apart = make_scope(NULL, USCHED_NEVER);
	struct usync_scope *late;

	(void)w;
	TEST_EQUAL(usync_scope_leave(), -EPERM);
	TEST_EQUAL(usync_scope_enter(outer), 0);
	TEST_EQUAL(usync_scope_enter(apart), 0);
	TEST_EQUAL(usync_scope_enter(inner), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	usync_scope_cancel(inner, -ECANCELED);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), -ECANCELED);
	TEST_EQUAL(usync_scope_error(outer), 0);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	usync_scope_cancel(outer, -EPROTO);
	usync_scope_cancel(outer, -EIO);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), -ECANCELED);
	TEST_EQUAL(usync_scope_error(outer), -EPROTO);
	TEST_EQUAL(usync_scope_error(apart), 0);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(ustack_yield(), -ECANCELED);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(usync_scope_leave(), -EPERM);
	TEST_EQUAL(ustack_yield(), 0);
	late = make_scope(outer, USCHED_NEVER);
	TEST_EQUAL(usync_scope_error(late), -ECANCELED);
	usync_scope_release(outer);             /* `inner' and `late' hold it */
	usync_scope_release(late);
	usync_scope_release(inner);
	usync_scope_release(apart);
}

/* The earliest cause is what is told, and a thread's own cancel outlasts scopes. */
static void by_time(struct worker *w)
{
	struct usync_scope *soon = make_scope(NULL, usync_after(MILLISECOND));
	struct usync_scope *first = make_scope(NULL, USCHED_NEVER);

	TEST_EQUAL(usync_scope_enter(soon), 0);
	TEST_EQUAL(usync_scope_enter(first), 0);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ETIMEDOUT);
	usync_scope_cancel(first, -ECANCELED);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ETIMEDOUT);
	TEST_EQUAL(ustack_cancel(w->w_thread), 0);
	TEST_EQUAL(ustack_cancelled(), 1);
	TEST_EQUAL(ustack_yield(), -ETIMEDOUT);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(ustack_yield(), -ECANCELED);
	usync_scope_release(soon);
	soon = make_scope(NULL, usync_after(1));
	TEST_EQUAL(usync_scope_enter(soon), 0);
	TEST_EQUAL(ustack_yield(), -ECANCELED); /* it was cancelled before */
	usync_scope_release(soon);              /* the thread ends in it */
	usync_scope_release(first);
}

static void nested(void *s)
{
	static void (*const funcs[])(struct worker *w) = { in_several, by_time };
	static struct worker w;

	for (size_t i = 0; i < 2; i++) {
		start_worker(&w, s, false, 0, funcs[i], NULL);
		end_worker(&w);
	}
}

TEST_CASE(test_nested, each_scheduler, nested)

/* ---- At the last moment ---- */

static struct usync_scope *ending;
static void (*arm)(struct uevents *e, struct uexpiry *x, uexpired_fn *expired);

/* In place of e_arm: a join is about to begin. */
static void cancel_and_arm(struct uevents *e, struct uexpiry *x, uexpired_fn *expired)
{
	usync_scope_cancel(ending, -ECANCELED);
	arm(e, x, expired);
}

static void begin_join(struct worker *w)
{
	static struct usync_sem sem;
	struct uevents *e;
	struct ustack *u;
	int rc;

	TEST_EQUAL(over->o_start(w->w_sched, wait_for_sem, &sem, &u), 0);
	TEST_TRUE(ustack_stay(1) >= 0);
	TEST_EQUAL(uevents_of(usched__here(), &e), 0);
	arm = e->e_arm;
	e->e_arm = cancel_and_arm;
	rc = ustack_join(u, NULL, usync_after(HOUR));
	e->e_arm = arm;
	TEST_EQUAL(rc, -ECANCELED);
	TEST_EQUAL(usync_sem_post(&sem), 0);
	TEST_EQUAL(ustack_detach(u), 0);
}

static struct usched_calls calls_before;

static void *cancel_ending(void *unused)
{
	usync_scope_cancel(ending, -ECANCELED);
	return unused;
}

/* In place of s_join: the interrupt is mail, and there before it. */
static int cancel_and_join(struct usched *s, struct ustack *u, void **value,
			   int64_t deadline)
{
	pthread_t native;

	TEST_EQUAL(pthread_create(&native, NULL, cancel_ending, NULL), 0);
	TEST_EQUAL(pthread_join(native, NULL), 0);
	return calls_before.s_join(s, u, value, deadline);
}

/* While it waits for a time there is no deadlock, which would end the join, too. */
static void wait_for_a_time(void *sem)
{
	int rc = usync_sem_wait(sem, usync_after(1000 * USYNC_SECOND));

	TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
}

static void begin_join_later(struct worker *w)
{
	static struct usync_sem sem;
	struct usched *mine = usched__here(), *its;
	struct ustack *u;
	int rc;

	TEST_EQUAL(over->o_start(w->w_sched, wait_for_a_time, &sem, &u), 0);
	TEST_TRUE(ustack_stay(1) >= 0);
	its = ustack_sched(u);
	calls_before = mine->s_calls;
	mine->s_calls.s_join = cancel_and_join;
	its->s_calls.s_join = cancel_and_join;          /* of one scheduler */
	rc = ustack_join(u, NULL, USCHED_NEVER);
	mine->s_calls.s_join = its->s_calls.s_join = calls_before.s_join;
	TEST_EQUAL(rc, -ECANCELED);
	TEST_EQUAL(usync_sem_post(&sem), 0);
	TEST_EQUAL(ustack_detach(u), 0);
}

/* The scope ends after the wait was prepared, before it has begun. */
static void begin_late(struct worker *w)
{
	struct uwaiter *waiter;

	(void)w;
	waiter = uwait_prepare(USCHED_NEVER, false);
	TEST_EQUAL(uwait_error(waiter), 0);
	usync_scope_cancel(ending, -ECANCELED);
	uwait_begin(waiter);
	TEST_EQUAL(uwait_block(waiter), -ECANCELED);
}

#ifndef USCHED_SIM      /* whose shared library exports no private calls */
/* Or while a partner only may end it. */
static void begin_awake(struct worker *w)
{
	struct uwaiter *waiter;

	(void)w;
	waiter = uwait_prepare(USCHED_NEVER, false);
	TEST_EQUAL(uwait_error(waiter), 0);
	uwait__begin_awake(waiter);
	usync_scope_cancel(ending, -ECANCELED);
	TEST_TRUE(!uwait__linger(waiter));
	TEST_EQUAL(uwait_block(waiter), -ECANCELED);
}
#endif

static void (*const beginnings[])(struct worker *w) = {
	begin_join, begin_join_later, begin_late,
#ifndef USCHED_SIM
	begin_awake,
#endif
};

static void begin(struct worker *w)
{
	TEST_EQUAL(usync_scope_enter(ending), 0);
	beginnings[w->w_index](w);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(ustack_yield(), 0);
}

static void begin_each(void *s)
{
	static struct worker w;

	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
		ending = make_scope(NULL, USCHED_NEVER);
		start_worker(&w, s, false, i, begin, NULL);
		while (!w.w_ended)              /* s_join may be another one */
			sched_yield();
		end_worker(&w);
		usync_scope_release(ending);
	}
}

TEST_CASE(test_begin, each_scheduler, begin_each)

/* ---- Shields ---- */

static void be_shielded(struct worker *w)
{
	struct usync_sem *sem = w->w_shared;

	if (w->w_index == 0)
		TEST_EQUAL(usync_scope_enter(ending), 0);
	TEST_EQUAL(ustack_shield(1), 0);
	if (w->w_index == 1)
		TEST_EQUAL(usync_scope_enter(ending), 0);
	TEST_EQUAL(usync_sem_wait(sem, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_shield(0), 1);
	TEST_EQUAL(usync_sem_wait(sem, USCHED_NEVER), -ECANCELED);
}

static void shield_each(void *s)
{
	static struct usync_sem sem;
	static struct worker w;

	for (size_t i = 0; i < 2; i++) {
		ending = make_scope(NULL, USCHED_NEVER);
		start_worker(&w, s, false, i, be_shielded, &sem);
		await_waiting(&w);
		usync_scope_cancel(ending, -ECANCELED);
		settle(s, w.w_thread);
		TEST_TRUE(waits(&w));
		TEST_EQUAL(usync_sem_post(&sem), 0);
		end_worker(&w);
		usync_scope_release(ending);
	}
}

TEST_CASE(test_shield, each_scheduler, shield_each)

/* ---- Arguments ---- */

TEST(bad_arguments)
{
	struct usync_scope *c = NULL;

	assert_int_equal(usync_scope_create(NULL, &c, 0), -ETIMEDOUT);
	assert_int_equal(usync_scope_create(NULL, &c, -1), -ETIMEDOUT);
	assert_null(c);
	c = make_scope(NULL, USCHED_NEVER);
	assert_int_equal(usync_scope_start(c, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(ustack_start(NULL, NULL, NULL), -EPERM);
	assert_int_equal(usync_scope_leave(), -EPERM);
	assert_int_equal(usync_scope_wait(c, 0), 0);
	usync_scope_release(c);
}

/* A tree that is as deep as memory allows is no recursion. */
TEST(test_deep)
{
	enum { DEEP = 100000 };
	size_t n = test_scale(DEEP, 100);
	struct usync_scope *top = make_scope(NULL, USCHED_NEVER), *c = top, *inner;

	for (size_t i = 0; i < n; i++) {
		inner = make_scope(c, USCHED_NEVER);
		if (c != top)
			usync_scope_release(c);
		c = inner;
	}
	usync_scope_cancel(top, -ECANCELED);
	assert_int_equal(usync_scope_error(c), -ECANCELED);
	usync_scope_release(top);
	usync_scope_release(c);
}

/* ---- Threads that are started in a scope ---- */

enum { CREW = 20 };

static atomic_size_t crew_done;

/* One fails; the others would wait for ever. */
static int do_part(void *arg)
{
	intptr_t i = (intptr_t)arg;
	int rc;

	if (i == CREW / 2) {
		TEST_EQUAL(ustack_yield(), 0);
		return -EPROTO;
	}
	if (i == 0)
		return 1;                       /* no error */
	rc = usync_sleep_until(USCHED_NEVER);
	TEST_EQUAL(rc, -ECANCELED);
	crew_done++;
	return rc;
}

static void lead(struct worker *w)
{
	struct usync_scope *c = make_scope(NULL, USCHED_NEVER);

	(void)w;
	crew_done = 0;
	for (intptr_t i = 0; i < CREW; i++)
		TEST_EQUAL(usync_scope_start(c, do_part, (void *)i, NULL), 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_error(c), -EPROTO);
	TEST_EQUAL(crew_done, CREW - 2);
	TEST_EQUAL(usync_scope_start(c, do_part, (void *)1, NULL), 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(crew_done, CREW - 1);        /* it found the end */
	TEST_EQUAL(usync_scope_error(c), -EPROTO);
	usync_scope_release(c);
	c = make_scope(NULL, USCHED_NEVER);
	TEST_EQUAL(usync_scope_start(c, do_part, (void *)1, NULL), 0);
	TEST_EQUAL(usync_scope_wait(c, usync_after(1000)), -ETIMEDOUT);
	usync_scope_cancel(c, 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_error(c), -ECANCELED);
	usync_scope_release(c);
}

static void crews(void *s)
{
	static struct worker w;

	start_worker(&w, s, false, 0, lead, NULL);
	end_worker(&w);
}

TEST_CASE(test_crew, each_scheduler, crews)

/* A thread of a scope does not wait for itself, wherever it is meanwhile. */
static int wait_for_own(void *scope)
{
	struct usync_scope *inner = make_scope(scope, USCHED_NEVER);
	struct ustack *t;

	TEST_EQUAL(usync_scope_enter(inner), 0);
	TEST_EQUAL(usync_scope_wait(scope, USCHED_NEVER), -EDEADLK);
	TEST_EQUAL(usync_scope_wait(scope, 0), -EDEADLK);
	TEST_EQUAL(usync_scope_start(inner, do_part, (void *)0, &t), 0);
	TEST_EQUAL(usync_scope_wait(inner, USCHED_NEVER), 0);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_leave(), 0);
	usync_scope_release(inner);
	return usync_scope_wait(scope, USCHED_NEVER);
}

static void lead_own(struct worker *w)
{
	struct usync_scope *c = make_scope(NULL, USCHED_NEVER);
	int rc;

	(void)w;
	TEST_EQUAL(usync_scope_enter(c), 0);    /* by itself: it is none of them */
	TEST_EQUAL(usync_scope_start(c, wait_for_own, c, NULL), 0);
	rc = usync_scope_wait(c, USCHED_NEVER);
	TEST_TRUE(rc == -ECANCELED || rc == 0); /* 0: the thread had ended before */
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_error(c), -EDEADLK);
	usync_scope_release(c);
}

static void own_scopes(void *s)
{
	static struct worker w;

	start_worker(&w, s, false, 0, lead_own, NULL);
	end_worker(&w);
}

TEST_CASE(test_own_scope, each_scheduler, own_scopes)

/* No more than the limit run at a time; after the first error none is started. */
enum { LIMIT = 3 };

static struct {
	atomic_size_t l_running, l_most, l_done;
	atomic_bool   l_fails;
} limited;

static int be_one_of_few(void *unused)
{
	size_t running = ++limited.l_running, most = limited.l_most;
	int rc;

	(void)unused;
	while (running > most
	       && !atomic_compare_exchange_weak(&limited.l_most, &most, running))
		;
	rc = usync_sleep_until(usync_after(MILLISECOND / 10));
	limited.l_running--;
	limited.l_done++;
	return rc ? rc : limited.l_fails ? -EPROTO : 0;
}

/* By a thread, or by a native thread outside of the scheduler. */
static void start_few(struct worker *w)
{
	struct usync_scope_how how = {
		.sh_on = uprocs_sched(w->w_sched), .sh_limit = LIMIT,
	};
	struct usync_scope *c;
	size_t started = 0;

	limited.l_most = limited.l_done = 0;
	limited.l_fails = false;
	TEST_EQUAL(usync_scope_create(&how, &c, USCHED_NEVER), 0);
	for (size_t i = 0; i < 4 * LIMIT; i++)
		TEST_EQUAL(usync_scope_start(c, be_one_of_few, NULL, NULL), 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(limited.l_done, 4 * LIMIT);
	TEST_EQUAL(usync_scope_error(c), 0);
	limited.l_done = 0;
	limited.l_fails = true;
	while (usync_scope_start(c, be_one_of_few, NULL, NULL) == 0)
		TEST_TRUE(++started < 1000);
	TEST_EQUAL(usync_scope_start(c, be_one_of_few, NULL, NULL), -EPROTO);
	TEST_EQUAL(usync_scope_start(c, be_one_of_few, NULL, NULL), -EPROTO);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	TEST_EQUAL(limited.l_done, started);
	TEST_TRUE(limited.l_most <= LIMIT);
	usync_scope_release(c);
}

/* The deadline of the scope ends a start that waits, and a cancel of the caller. */
static int sleep_shielded(void *sem)
{
	TEST_EQUAL(ustack_shield(1), 0);
	return usync_sem_wait(sem, USCHED_NEVER);
}

static void start_late(struct worker *w)
{
	struct usync_scope_how how = { .sh_on = uprocs_sched(w->w_sched), .sh_limit = 1 };
	static struct usync_sem sem;
	struct usync_scope *c;

	TEST_EQUAL(usync_scope_create(&how, &c, usync_after(5 * MILLISECOND)), 0);
	TEST_EQUAL(usync_scope_start(c, sleep_shielded, &sem, NULL), 0);
	TEST_EQUAL(usync_scope_start(c, sleep_shielded, &sem, NULL), -ETIMEDOUT);
	TEST_EQUAL(usync_sem_post(&sem), 0);
	TEST_EQUAL(usync_scope_wait(c, USCHED_NEVER), 0);
	usync_scope_release(c);
}

static void limits(void *s)
{
	static struct worker w;

	for (int native = 0; native < 2; native++) {
		start_worker(&w, s, native, 0, start_few, NULL);
		end_worker(&w);
		start_worker(&w, s, native, 0, start_late, NULL);
		end_worker(&w);
	}
}

TEST_CASE(test_limit, each_scheduler, limits)

/* ---- Descriptors, and jobs elsewhere ---- */

static atomic_size_t job_step;

/* Until it is told to end. */
static void run_job(void *unused)
{
	(void)unused;
	job_step = 1;
	while (job_step != 2)
		sched_yield();
	job_step = 3;
}

static void outside(struct worker *w)
{
	struct usync_scope *c = w->w_shared;
	int fds[2];
	char byte;

	TEST_EQUAL(usync_scope_enter(c), 0);
	TEST_EQUAL(uoffload(run_job, NULL, NULL, 0, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(usync_scope_leave(), 0);
	job_step = 2;
	while (job_step != 3)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	TEST_EQUAL(usync_scope_enter(c), 0);
	TEST_EQUAL(unet_read(fds[0], &byte, 1, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(unet_write(fds[1], "x", 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_read(fds[0], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(byte, 'x');
	TEST_EQUAL(unet_close(fds[0]), 0);
	TEST_EQUAL(unet_close(fds[1]), 0);
}

static void elsewhere(void *s)
{
	struct usync_scope *c = make_scope(NULL, USCHED_NEVER);
	static struct worker w;

	job_step = 0;
	start_worker(&w, s, false, 0, outside, c);
	await_count(&job_step, 1);
	await_waiting(&w);
	usync_scope_cancel(c, -ECANCELED);
	end_worker(&w);
	usync_scope_release(c);
	uoffload_drain(USCHED_NEVER);                       /* no native thread is left */
}

TEST_CASE(test_outside, each_scheduler, elsewhere)

/* ---- Against all else ---- */

enum { SCOPES = 6, SEATS = 3 };

/* Scopes that are cancelled at random times, each replaced then. */
static struct storm {
	pthread_mutex_t     s_native;
	struct usync_scope *s_scopes[SCOPES];
	struct worker       s_workers[STORMERS];
	struct usync_sem    s_seats, s_gate;
	struct usync_mutex  s_mutex;
	struct usync_chan  *s_chan;
	atomic_size_t       s_sent, s_received, s_ended, s_inside;
	atomic_bool         s_over;
	size_t              s_rounds;
} storm;

/*
 * Holds the scope of a place, which then has `next', unless that is NULL. No thread
 * switches with the native lock held. In a simulation that is one of usync.h.
 */
static struct usync_scope *take_scope(size_t place, struct usync_scope *next)
{
	struct usync_scope *c, *before = NULL;

	pthread_mutex_lock(&storm.s_native);
	c = usync_scope_hold(storm.s_scopes[place]);
	if (next) {
		before = c;
		storm.s_scopes[place] = next;
	}
	pthread_mutex_unlock(&storm.s_native);
	usync_scope_release(before);
	return c;
}

/* Held. A worker may replace it meanwhile, by a scope that may be in another one. */
static struct usync_scope *any_scope(struct worker *w, bool replace)
{
	size_t place = any(w, SCOPES), other = place + 1 + any(w, SCOPES - 1);
	struct usync_scope *parent = NULL, *next = NULL, *c;
	int shield = ustack_shield(1);

	if (replace) {
		parent = any(w, 2) ? take_scope(other % SCOPES, NULL) : NULL;
		next = make_scope(parent, any(w, 4) ? USCHED_NEVER : usync_after(100000));
	}
	c = take_scope(place, next);
	usync_scope_release(parent);
	ustack_shield(shield);
	return c;
}

/* What is granted is had, and what is not is not. */
static int wait_somewhere(struct worker *w)
{
	struct ustack *u;
	uint32_t value;
	bool early;
	int rc;

	switch (any(w, 5)) {
	case 0:
		rc = usync_sem_wait(&storm.s_seats, USCHED_NEVER);
		if (rc == 0) {
			TEST_TRUE(storm.s_inside++ < SEATS);
			pause_worker(w);
			storm.s_inside--;
			TEST_EQUAL(usync_sem_post(&storm.s_seats), 0);
		}
		return rc;
	case 1:
		rc = usync_mutex_lock(&storm.s_mutex, USCHED_NEVER);
		if (rc == 0) {
			pause_worker(w);
			TEST_EQUAL(usync_mutex_unlock(&storm.s_mutex), 0);
		}
		return rc;
	case 2:
		value = 1;
		rc = usync_chan_send(storm.s_chan, &value, USCHED_NEVER);
		storm.s_sent += rc == 0;
		return rc;
	case 3:
		rc = usync_chan_recv(storm.s_chan, &value, usync_after(100000));
		storm.s_received += rc == 0;
		return rc;
	default:
		if (!w->w_thread)
			return 0;
		TEST_EQUAL(over->o_start(w->w_sched, wait_for_sem, &storm.s_gate, &u), 0);
		early = any(w, 2);
		if (early)
			TEST_EQUAL(usync_sem_post(&storm.s_gate), 0);
		rc = ustack_join(u, NULL, early ? USCHED_NEVER : usync_after(100000));
		if (rc)
			TEST_EQUAL(ustack_detach(u), 0);
		if (!early)
			TEST_EQUAL(usync_sem_post(&storm.s_gate), 0);
		return rc;
	}
}

static void go_through(struct worker *w)
{
	struct usync_scope *c;
	size_t in;
	int rc;

	for (size_t i = 0; i < storm.s_rounds; i++) {
		in = 1 + any(w, 3);
		for (size_t n = 0; n < in; n++) {
			c = any_scope(w, false);
			TEST_EQUAL(usync_scope_enter(c), 0);
			usync_scope_release(c);
		}
		rc = wait_somewhere(w);
		TEST_TRUE(rc == 0 || rc == -ECANCELED || rc == -ETIMEDOUT);
		storm.s_ended += rc == -ECANCELED;
		while (in-- > 0)
			TEST_EQUAL(usync_scope_leave(), 0);
		c = any_scope(w, true);
		usync_scope_cancel(c, -ECANCELED);
		usync_scope_release(c);
	}
}

/* Takes what is left over, so that senders end. */
static void take_rest(struct worker *w)
{
	uint32_t value;

	(void)w;
	while (usync_chan_recv(storm.s_chan, &value, USCHED_NEVER) == 0)
		storm.s_received++;
}

static void storms(void *s)
{
	static struct worker rest;

	storm = (struct storm){ .s_native = PTHREAD_MUTEX_INITIALIZER,
				.s_rounds = test_scale(200, 5),
				.s_seats = { .sm_count = SEATS } };
	TEST_EQUAL(usync_chan_create(sizeof(uint32_t), 1, &storm.s_chan), 0);
	for (size_t i = 0; i < SCOPES; i++)
		storm.s_scopes[i] = make_scope(NULL, USCHED_NEVER);
	start_worker(&rest, s, false, STORMERS, take_rest, NULL);
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&storm.s_workers[i], s, i >= STORM_THREADS, i, go_through,
			     NULL);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&storm.s_workers[i]);
	TEST_EQUAL(usync_chan_close(storm.s_chan), 0);
	end_worker(&rest);
	TEST_EQUAL(storm.s_sent, storm.s_received);
	TEST_TRUE(storm.s_ended > 0);
	for (size_t i = 0; i < SCOPES; i++)
		usync_scope_release(storm.s_scopes[i]);
	usync_chan_destroy(storm.s_chan);
}

TEST_CASE(test_storm, each_scheduler, storms)

int main(void)
{
	return over_all(OVER_PROCS);
}
