/* SPDX-License-Identifier: MIT */
/*
 * sync.h: the tests of sync.h and uwait.h that all schedulers run. To be included once by
 * a test program that defines
 *
 *   SCHED                          rr, ll or foreign
 *   START(s, func, arg, thread)    starts a thread on the next processor in turn
 *   PROCESSORS                     as many as the scheduler can have, 4 at most
 *
 * Who does something is a worker: a thread or a native thread. A place is an object of
 * each kind, in a state in which the wait of each kind, a point, has to wait. So whatever
 * holds for all waits is tested with all of them. Storms are about what must be
 * conserved, whoever is granted, late, or cancelled.
 */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../uconf.h"
#include "../usync.h"

#define JOIN_NAMES(a, b) a##b
#define NAME(a, b)       JOIN_NAMES(a, b)
#define S(name)          NAME(SCHED, _##name)

typedef struct SCHED sched;

enum { MILLISECOND = 1000000 };         /* ns */

static void log_line(const char *line)
{
	(void)line;
}

static sched *make(const struct usched_conf *conf)
{
	struct usched_conf c = *conf;
	sched *s = NULL;

	c.c_log = log_line;
	assert_int_equal(S(create)(&c, &s), 0);
	return s;
}

/* With few and many processors and stacks: with few, frames move while threads wait. */
static void each_conf(void (*test)(const struct usched_conf *conf))
{
	static const unsigned processors[] = { 1, 2, 4 };
	static const unsigned stacks[] = { USCHED_NATIVE, 1, 0 };
	size_t kinds = test_has_stacks() ? 3 : 1;

	for (size_t p = 0; p < 3 && processors[p] <= PROCESSORS; p++)
		for (size_t k = 0; k < kinds; k++) {
			struct usched_conf conf = {
				.c_processors = processors[p],
				.c_stacks     = stacks[k],
			};

			test(&conf);
		}
}

static uint32_t first_seed(void)
{
	const char *s = getenv("USCHED_TEST_SEED");
	unsigned long n = s ? strtoul(s, NULL, 10) : 1;

	return test_seed = n ? (uint32_t)n : 1;
}

/* ---- Workers ---- */

struct worker {
	sched          *w_sched;
	struct ustack  *w_thread;               /* NULL: a native thread */
	pthread_t       w_native;
	void          (*w_func)(struct worker *w);
	void           *w_shared;
	size_t          w_index;
	uint32_t        w_seed;
	int             w_rc;
	size_t          w_count;
	struct uwaiter *_Atomic w_waiter;
	atomic_bool     w_ended;
};

static void run_worker(void *arg)
{
	struct worker *w = arg;

	w->w_waiter = uwait_self();
	TEST_TRUE(w->w_waiter);
	w->w_func(w);
	w->w_ended = true;
}

static void *run_native(void *arg)
{
	struct worker *w = arg;

	run_worker(w);
	S(release)(w->w_sched);
	return NULL;
}

static void start_worker(struct worker *w, sched *s, bool native, size_t index,
			 void (*func)(struct worker *w), void *shared)
{
	*w = (struct worker){
		.w_sched = s, .w_func = func, .w_shared = shared, .w_index = index,
		.w_seed = (test_seed ? test_seed : 1) * 977 + (uint32_t)index * 31 + 1,
	};
	if (native) {
		S(hold)(s);
		TEST_EQUAL(pthread_create(&w->w_native, NULL, run_native, w), 0);
	} else {
		TEST_EQUAL(START(s, run_worker, w, &w->w_thread), 0);
	}
}

static void end_worker(struct worker *w)
{
	if (w->w_thread)
		TEST_EQUAL(ustack_join(w->w_thread, USCHED_NEVER), 0);
	else
		TEST_EQUAL(pthread_join(w->w_native, NULL), 0);
	TEST_TRUE(w->w_ended);
}

/* Whether it waits; the state of one that does not is 0. Not for one that may end. */
static bool waits(struct worker *w)
{
	struct uwaiter *waiter = w->w_waiter;

	TEST_TRUE(!w->w_ended);
	return waiter && __atomic_load_n(&waiter->w_state, __ATOMIC_SEQ_CST) != 0;
}

static void await_waiting(struct worker *w)
{
	while (!waits(w))
		sched_yield();
}

static void await_count(atomic_size_t *count, size_t value)
{
	while (*count < value)
		sched_yield();
}

static uint32_t any(struct worker *w, uint32_t n)
{
	return test_random(&w->w_seed) % n;
}

/* One that is never, is over, or comes soon. */
static int64_t any_deadline(struct worker *w)
{
	switch (any(w, 8)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
	case 3:
		return USCHED_NEVER;
	default:
		return usync_after((int64_t)any(w, 60000));
	}
}

static void pause_worker(struct worker *w)
{
	switch (any(w, 4)) {
	case 0:
		TEST_TRUE(test_give_way() != -ENOMEM);  /* it may be cancelled */
		break;
	case 1:
		for (volatile uint32_t i = any(w, 500); i > 0; i--)
			;
		break;
	default:
		break;
	}
}

/* ---- Places ---- */

enum { QUEUE = 12, FILL = 1000 };

struct place {
	sched              *p_sched;
	struct usync_mutex  p_mutex;            /* the tester's */
	struct usync_rwlock p_read;             /* the tester's, to write */
	struct usync_rwlock p_write;            /* the tester's, to read */
	struct usync_mutex  p_with;             /* p_cond's; free */
	struct usync_cond   p_cond;
	struct usync_sem    p_sem;
	struct usync_group  p_group;            /* one thing is not done */
	struct usync_chan  *p_direct;           /* without capacity */
	struct usync_chan  *p_empty;
	struct usync_chan  *p_full;             /* FILL is in it */
	struct ustack      *p_thread;           /* until a post of p_stop */
	struct usync_sem    p_stop;
	size_t              p_released;
	atomic_size_t       p_reached;          /* waits that returned 0, and whose */
	size_t              p_who[QUEUE];
};

static void wait_for_stop(void *arg)
{
	struct place *p = arg;

	TEST_EQUAL(usync_sem_wait(&p->p_stop, USCHED_NEVER), 0);
}

static struct place *make_place(sched *s)
{
	struct place *p = calloc(1, sizeof *p);
	size_t fill = FILL;

	TEST_TRUE(p);
	p->p_sched = s;
	TEST_EQUAL(usync_mutex_lock(&p->p_mutex, 0), 0);
	TEST_EQUAL(usync_rwlock_write(&p->p_read, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&p->p_write, 0), 0);
	TEST_EQUAL(usync_group_add(&p->p_group, 1), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 0, &p->p_direct), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 3, &p->p_empty), 0);
	TEST_EQUAL(usync_chan_create(sizeof fill, 1, &p->p_full), 0);
	TEST_EQUAL(usync_chan_send(p->p_full, &fill, 0), 0);
	TEST_EQUAL(START(s, wait_for_stop, p, &p->p_thread), 0);
	return p;
}

/* A wait that had no success has left nothing behind. */
static void check_place(struct place *p)
{
	size_t value = 1;

	TEST_TRUE(!p->p_mutex.m_queue.q_first && !p->p_mutex.m_queue.q_last);
	TEST_TRUE(!p->p_read.r_queue.q_first && !p->p_read.r_queue.q_last);
	TEST_TRUE(!p->p_write.r_queue.q_first && !p->p_write.r_queue.q_last);
	TEST_TRUE(!p->p_cond.c_queue.q_first && !p->p_cond.c_queue.q_last);
	TEST_TRUE(!p->p_sem.s_queue.q_first && !p->p_sem.s_queue.q_last);
	TEST_TRUE(!p->p_group.g_queue.q_first && !p->p_group.g_queue.q_last);
	TEST_EQUAL(p->p_with.m_owner, 0);
	TEST_EQUAL(p->p_read.r_readers, 0);
	TEST_EQUAL(p->p_write.r_readers, 1);
	TEST_EQUAL(p->p_write.r_owner, 0);
	TEST_EQUAL(p->p_sem.s_count, 0);
	TEST_EQUAL(p->p_group.g_count, 1);
	TEST_EQUAL(usync_chan_count(p->p_direct), 0);
	TEST_EQUAL(usync_chan_count(p->p_empty), 0);
	TEST_EQUAL(usync_chan_count(p->p_full), 1);
	TEST_EQUAL(usync_chan_recv(p->p_direct, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_send(p->p_direct, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_recv(p->p_empty, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_chan_send(p->p_full, &value, 0), -ETIMEDOUT);
	TEST_EQUAL(value, 1);
}

static void free_place(struct place *p)
{
	if (p->p_thread) {
		TEST_EQUAL(usync_sem_post(&p->p_stop), 0);
		TEST_EQUAL(ustack_join(p->p_thread, USCHED_NEVER), 0);
	}
	usync_chan_destroy(p->p_direct);
	usync_chan_destroy(p->p_empty);
	usync_chan_destroy(p->p_full);
	free(p);
}

/* How many waits one release ends. */
enum ends { ONE, CHAIN, ALL, NONE };

/* One way to wait. */
struct point {
	const char *o_name;
	enum ends   o_ends;
	int       (*o_wait)(struct worker *w, struct place *p, int64_t deadline);
	void      (*o_done)(struct place *p);           /* by who waited; or NULL */
	void      (*o_release)(struct place *p);        /* by the tester */
};

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

/* Whatever it returns, the mutex is the caller's. */
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

/* Who is the n-th to receive gets n. */
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

static void recv_direct_now(struct place *p)
{
	TEST_EQUAL(receive(p->p_direct, p->p_released, 0), 0);
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

/* In the first channel of a select it is queued when await_waiting() says that it waits. */
static int select_recv(struct worker *w, struct place *p, int64_t deadline)
{
	size_t first = SIZE_MAX, second = SIZE_MAX, full = w->w_index;
	struct usync_case cases[] = {
		{ NULL, USYNC_RECV, NULL, 1 },
		{ p->p_empty, USYNC_RECV, &first, 1 },
		{ p->p_full, USYNC_SEND, &full, 1 },
		{ p->p_direct, USYNC_RECV, &second, 1 },
	};
	int rc = usync_select(cases, 4, deadline);

	TEST_EQUAL(first, rc == 1 ? w->w_index : SIZE_MAX);
	TEST_EQUAL(second, SIZE_MAX);
	if (rc == 1)
		TEST_EQUAL(cases[1].s_rc, 0);
	return rc == 1 ? 0 : rc;
}

static int select_send(struct worker *w, struct place *p, int64_t deadline)
{
	size_t value = w->w_index, none = SIZE_MAX;
	struct usync_case cases[] = {
		{ p->p_direct, USYNC_SEND, &value, 1 },
		{ p->p_empty, USYNC_RECV, &none, 1 },
		{ p->p_full, USYNC_SEND, &value, 1 },
		{ NULL, USYNC_SEND, NULL, 1 },
	};
	int rc = usync_select(cases, 4, deadline);

	TEST_EQUAL(none, SIZE_MAX);
	TEST_EQUAL(value, w->w_index);
	if (rc == 0)
		TEST_EQUAL(cases[0].s_rc, 0);
	return rc;
}

static int select_nothing(struct worker *w, struct place *p, int64_t deadline)
{
	struct usync_case nothing = { NULL, USYNC_SEND, NULL, 0 };

	(void)p;
	return usync_select(&nothing, w->w_index % 2, deadline);
}

/* As if the time that comes were a failure. */
static int wait_time(struct worker *w, struct place *p, int64_t deadline)
{
	int rc = usync_sleep_until(deadline);

	(void)w;
	(void)p;
	return rc == 0 ? -ETIMEDOUT : rc;
}

static int wait_join(struct worker *w, struct place *p, int64_t deadline)
{
	int rc = ustack_join(p->p_thread, deadline);

	(void)w;
	if (rc == 0)
		p->p_thread = NULL;
	return rc;
}

static void release_join(struct place *p)
{
	TEST_EQUAL(usync_sem_post(&p->p_stop), 0);
}

static const struct point points[] = {
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
	{ "join",           ONE,   wait_join,      NULL, release_join },
};

enum { POINTS = sizeof points / sizeof *points, JOIN = POINTS - 1 };

/* The join of a thread does not wait with a waiter: nobody knows when it has begun. */
static bool is_join(const struct point *o)
{
	return o == &points[JOIN];
}

/* What a worker does at a point of a place. */
struct visit {
	struct place       *v_place;
	const struct point *v_point;
	int64_t             v_deadline;
	atomic_size_t       v_step;             /* how far the worker is */
};

static void release_place(const struct point *o, struct place *p)
{
	o->o_release(p);
	p->p_released++;
}

/* Until a worker waits, or is about to in a join. */
static void await_visit(struct worker *w, const struct point *o)
{
	if (!is_join(o)) {
		await_waiting(w);
		return;
	}
	while (!w->w_waiter)
		sched_yield();
	nanosleep(&(struct timespec){ 0, MILLISECOND }, NULL);
}

static void each_point(const struct usched_conf *conf, bool native,
		       void (*test)(sched *s, const struct point *o, bool native))
{
	sched *s = make(conf);

	for (size_t i = 0; i < POINTS; i++)
		test(s, &points[i], native);
	assert_int_equal(S(destroy)(s), 0);
}

/* ---- What holds for each wait: deadlines ---- */

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

static void late(sched *s, const struct point *o, bool native)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	start_worker(&w, s, native, 0, be_late, &v);
	end_worker(&w);
	check_place(v.v_place);
	free_place(v.v_place);
}

static void late_points(const struct usched_conf *conf)
{
	each_point(conf, false, late);
	each_point(conf, true, late);
}

static void test_deadlines(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(late_points);
}

/* ---- What holds for each wait: order ---- */

static void wait_in_turn(struct worker *w)
{
	struct visit *v = w->w_shared;
	struct place *p = v->v_place;

	TEST_EQUAL(v->v_point->o_wait(w, p, v->v_deadline), 0);
	if (v->v_point->o_ends != ALL)
		p->p_who[p->p_reached] = w->w_index;
	p->p_reached++;
	if (v->v_point->o_done)
		v->v_point->o_done(p);
}

/* Threads and native threads in one queue; who came first goes on first. */
static void in_turn(sched *s, const struct point *o, bool deadlines)
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
		assert_true(o->o_ends == ALL || v.v_place->p_who[i] == i);
	}
	assert_int_equal(v.v_place->p_reached, n);
	assert_int_equal(v.v_place->p_mutex.m_owner > 1, o->o_wait != wait_mutex);
	free_place(v.v_place);
}

static void turns(const struct usched_conf *conf)
{
	each_point(conf, false, in_turn);
	each_point(conf, true, in_turn);
}

static void test_order(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(turns);
}

/*
 * Those in the middle, at both ends, or all give up; the others go on in their order.
 * The place where they wait is left as if they had never come.
 */
struct doubt {
	struct visit d_visit;                   /* first */
	unsigned     d_who;                     /* a bit for each who gives up */
};

static void wait_or_give_up(struct worker *w)
{
	struct doubt *d = w->w_shared;
	struct visit *v = &d->d_visit;
	size_t before = 0;

	for (size_t i = 0; i < w->w_index; i++)
		before += !(d->d_who >> i & 1);
	if (d->d_who >> w->w_index & 1) {
		w->w_index += 100;              /* must never be seen */
		TEST_EQUAL(v->v_point->o_wait(w, v->v_place, USCHED_NEVER), -ECANCELED);
	} else {
		w->w_index = before;
		wait_in_turn(w);
	}
}

static void give_up(sched *s, const struct point *o, unsigned who)
{
	struct doubt d = { { .v_place = make_place(s), .v_point = o,
			     .v_deadline = USCHED_NEVER }, who };
	struct place *p = d.d_visit.v_place;
	struct worker w[4];
	size_t left = 0;

	for (size_t i = 0; i < 4; i++) {
		start_worker(&w[i], s, false, i, wait_or_give_up, &d);
		await_waiting(&w[i]);
		left += !(who >> i & 1);
	}
	for (size_t i = 0; i < 4; i++) {
		size_t k = (i + who) % 4;

		if (who >> k & 1) {
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
		if (!(who >> i & 1))
			end_worker(&w[i]);
	for (size_t i = 0; i < left && o->o_ends != ALL; i++)
		assert_int_equal(p->p_who[i], i);
	if (left == 0)
		check_place(p);
	free_place(p);
}

static void give_ups(const struct usched_conf *conf)
{
	sched *s = make(conf);

	for (size_t i = 0; i < JOIN; i++)
		for (unsigned who = 0; who < 16 && points[i].o_ends != NONE; who++)
			give_up(s, &points[i], who);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_give_up(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(give_ups);
}

/* ---- What holds for each wait: cancel ---- */

static void wait_for_sem(void *arg)
{
	TEST_EQUAL(usync_sem_wait(arg, USCHED_NEVER), 0);
}

/* Until all that was sent to the dispatcher of `u' before has arrived there. */
static void settle(sched *s, const struct ustack *u)
{
	static struct usync_sem sem;
	struct ustack *helpers[64];
	size_t n = 0;

	do {
		TEST_TRUE(n < 64);
		TEST_EQUAL(START(s, wait_for_sem, &sem, &helpers[n]), 0);
	} while (ustack_sched(helpers[n++]) != ustack_sched(u));
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(usync_sem_post(&sem), 0);
	while (n > 0)
		TEST_EQUAL(ustack_join(helpers[--n], USCHED_NEVER), 0);
}

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

static void cancel_blocked(sched *s, const struct point *o, bool deadline)
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
		settle(s, w.w_thread);          /* it is shielded, and stays */
		release_place(o, v.v_place);
	}
	end_worker(&w);
	free_place(v.v_place);
}

static void cancel_points(const struct usched_conf *conf)
{
	each_point(conf, false, cancel_blocked);
	each_point(conf, true, cancel_blocked);
}

static void test_cancel(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(cancel_points);
}

/* Cancelled before it ran: it runs, and cannot wait. */
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
	sched        *t_sched;
};

static void start_and_cancel(void *arg)
{
	struct starter *t = arg;

	start_worker(&t->t_worker, t->t_sched, false, 0, find_cancelled, &t->t_visit);
	TEST_EQUAL(ustack_cancel(t->t_worker.w_thread), 0);
}

static void cancel_new(sched *s, const struct point *o, bool by_thread)
{
	static struct starter t;
	struct ustack *u;

	t = (struct starter){ { .v_place = make_place(s), .v_point = o }, .t_sched = s };
	if (by_thread) {
		assert_int_equal(START(s, start_and_cancel, &t, &u), 0);
		assert_int_equal(ustack_join(u, USCHED_NEVER), 0);
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

static void cancel_news(const struct usched_conf *conf)
{
	each_point(conf, false, cancel_new);
	each_point(conf, true, cancel_new);
}

static void test_cancel_new(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(cancel_news);
}

/* On one processor: granted and then cancelled, before it runs. The grant counts. */
static void grant_and_cancel(void *arg)
{
	struct starter *t = arg;

	release_place(t->t_visit.v_point, t->t_visit.v_place);
	TEST_EQUAL(ustack_cancel(t->t_worker.w_thread), 0);
}

static void be_granted(struct worker *w)
{
	struct visit *v = w->w_shared;

	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, USCHED_NEVER), 0);
	while (!ustack_cancelled())
		TEST_EQUAL(test_give_way(), 0);
	if (v->v_point->o_done)
		v->v_point->o_done(v->v_place);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
}

/* What the tester of a place has, and its thread will release. */
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

static void cancel_granted(sched *s, const struct point *o, bool unused)
{
	static struct starter t;
	struct ustack *owner;

	(void)unused;
	if (o->o_ends == NONE || is_join(o))
		return;
	t = (struct starter){ { .v_place = make_place(s), .v_point = o }, .t_sched = s };
	assert_int_equal(usync_mutex_unlock(&t.t_visit.v_place->p_mutex), 0);
	assert_int_equal(usync_rwlock_unlock(&t.t_visit.v_place->p_read), 0);
	assert_int_equal(START(s, own_place, &t, &owner), 0);
	await_count(&t.t_visit.v_step, 1);
	start_worker(&t.t_worker, s, false, 0, be_granted, &t.t_visit);
	await_waiting(&t.t_worker);
	t.t_visit.v_step = 2;
	assert_int_equal(ustack_join(owner, USCHED_NEVER), 0);
	end_worker(&t.t_worker);
	free_place(t.t_visit.v_place);
}

static void cancel_granteds(const struct usched_conf *conf)
{
	if (conf->c_processors == 1)
		each_point(conf, false, cancel_granted);
}

static void test_cancel_granted(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(cancel_granteds);
}

/* Who is cancelled and need not wait gets what it wants. */
static void have_it_all(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t value = 0;

	while (!ustack_cancelled())
		TEST_EQUAL(test_give_way(), 0);
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
	TEST_EQUAL(usync_chan_recv(p->p_full, &value, USCHED_NEVER), 0);
	TEST_EQUAL(value, FILL);
	w->w_count = 1;
}

/* Or who cancels itself: at once, or as soon as somebody else has run. */
static void cancel_itself(struct worker *w)
{
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
	TEST_EQUAL(ustack_cancel(w->w_thread), 0);
	TEST_EQUAL(usync_sleep_until(USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(ustack_cancel(w->w_thread), 0);
	TEST_EQUAL(ustack_cancelled(), 1);
}

static void cancel_without_wait(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct place *p = make_place(s);
	struct worker w;

	start_worker(&w, s, false, 0, cancel_itself, NULL);
	end_worker(&w);
	start_worker(&w, s, false, 0, have_it_all, p);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	end_worker(&w);
	assert_int_equal(w.w_count, 1);
	free_place(p);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_cancel_without_wait(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(cancel_without_wait);
	assert_int_equal(ustack_cancelled(), 0);         /* a native thread never is */
}

/* ---- Each object ---- */

/* In a thread, or in the tester: whatever needs nobody else. */
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
	TEST_EQUAL(p->p_write.r_readers, 2);
	TEST_EQUAL(usync_rwlock_unlock(&p->p_write), 0);
	usync_cond_signal(&p->p_cond);                  /* for nobody, and not kept */
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
	lock.r_readers = UINT32_MAX - 1;
	TEST_EQUAL(usync_rwlock_read(&lock, 0), 0);
	TEST_EQUAL(usync_rwlock_read(&lock, 0), -EOVERFLOW);
	TEST_EQUAL(lock.r_readers, UINT32_MAX);
	p->p_sem.s_count = UINT32_MAX - 1;
	TEST_EQUAL(usync_sem_post(&p->p_sem), 0);
	TEST_EQUAL(usync_sem_post(&p->p_sem), -EOVERFLOW);
	TEST_EQUAL(usync_sem_wait(&p->p_sem, 0), 0);
	TEST_EQUAL(p->p_sem.s_count, UINT32_MAX - 1);
	p->p_sem.s_count = 0;
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

static void errors(const struct usched_conf *conf)
{
	sched *s = make(conf);
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
	assert_int_equal(S(destroy)(s), 0);
}

static void test_errors(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(errors);
}

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

static void sleeping(const struct usched_conf *conf)
{
	struct sleeps sleeps = { .s_start = usync_after(0) };
	struct worker w[8];
	sched *s = make(conf);

	for (size_t i = 0; i < 8; i++)
		start_worker(&w[i], s, i == 5, i * 3 % 8, sleep_some_time, &sleeps);
	for (size_t i = 0; i < 8; i++)
		end_worker(&w[i]);
	assert_int_equal(sleeps.s_awake, 8);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_sleep(void **state)
{
	(void)state;
	test_timeout(60);
	assert_true(usync_after(0) >= uevents_now() - USYNC_SECOND);
	assert_true(usync_after(5 * USYNC_SECOND) >= uevents_now() + 4 * USYNC_SECOND);
	assert_true(usync_after(-5) <= uevents_now());
	assert_true(usync_after(INT64_MAX) == USCHED_NEVER);
	each_conf(sleeping);
}

/* A thread that only yields does not keep out one whose time has come. */
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

static void yielding(const struct usched_conf *conf)
{
	struct usync_sem stop = { 0 };
	struct worker w[2];
	sched *s;

	if (conf->c_processors > 1)
		return;
	s = make(conf);
	start_worker(&w[0], s, false, 0, yield_until_stopped, &stop);
	start_worker(&w[1], s, false, 1, sleep_and_stop, &stop);
	end_worker(&w[0]);
	end_worker(&w[1]);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_yield(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(yielding);
}

/* Handed over, not opened: who comes meanwhile does not get it. */
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

static void hand_over(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct relay r = { 0 };
	struct worker w[2];

	assert_int_equal(usync_mutex_lock(&r.r_mutex, 0), 0);
	for (size_t i = 0; i < 2; i++) {
		start_worker(&w[i], s, false, i, hold_mutex, &r);
		await_waiting(&w[i]);
	}
	for (size_t i = 0; i < 2; i++) {
		if (i == 0)
			assert_int_equal(usync_mutex_unlock(&r.r_mutex), 0);
		assert_int_equal(usync_mutex_unlock(&r.r_mutex), -EPERM);
		assert_int_equal(usync_mutex_lock(&r.r_mutex, 0), -ETIMEDOUT);
		await_count(&r.r_had, i + 1);
		assert_int_equal(usync_mutex_lock(&r.r_mutex, 0), -ETIMEDOUT);
		assert_int_equal(usync_sem_post(&r.r_let_go), 0);
		await_count(&r.r_had, i == 0 ? 2 : 0);
	}
	for (size_t i = 0; i < 2; i++)
		end_worker(&w[i]);
	assert_int_equal(usync_mutex_lock(&r.r_mutex, 0), 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_hand_over(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(hand_over);
}

/* Signalled, and then cancelled while it takes the mutex again: that it gets. */
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

static void relock(const struct usched_conf *conf)
{
	sched *s = make(conf);
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
	assert_int_equal(S(destroy)(s), 0);
}

static void test_relock(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(relock);
}

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
		TEST_EQUAL(r->r_lock.r_readers, 0);
		r->r_had += 100;
		TEST_EQUAL(usync_rwlock_unlock(&r->r_lock), 0);
	}
}

/*
 * The tester and one thread read together; a writer waits, and readers behind it. When
 * the writer has its turn they come after it, and when it gives up they come at once.
 */
enum { HAS_TURN, IS_CANCELLED, IS_LATE };

static void queue_behind(sched *s, struct relay *r, struct worker *w, int mode)
{
	assert_int_equal(usync_rwlock_read(&r->r_lock, 0), 0);
	start_worker(&w[0], s, false, 0, hold_read, r);
	await_count(&r->r_had, 1);
	start_worker(&w[1], s, false, 1, want_write, r);
	if (mode != IS_LATE)                    /* else it may be over already */
		await_waiting(&w[1]);
	for (size_t i = 2; i < 4; i++) {
		start_worker(&w[i], s, i == 2, i, hold_read, r);
		await_waiting(&w[i]);
	}
	if (mode != IS_LATE)
		assert_int_equal(usync_rwlock_read(&r->r_lock, 0), -ETIMEDOUT);
}

static void read_behind(const struct usched_conf *conf, int mode)
{
	struct relay r = { .r_deadline = USCHED_NEVER };
	size_t had = mode == HAS_TURN ? 103 : 3;
	sched *s = make(conf);
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
	assert_int_equal(r.r_lock.r_readers, mode != HAS_TURN);
	assert_int_equal(r.r_lock.r_owner, 0);
	assert_int_equal(S(destroy)(s), 0);
}

static void readers_behind(const struct usched_conf *conf)
{
	for (int mode = HAS_TURN; mode <= IS_LATE; mode++)
		read_behind(conf, mode);
}

static void test_rwlock(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(readers_behind);
}

/* ---- Channels ---- */

static const size_t sizes[] = { 0, 1, 8, 100, 4000 };

enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 4000 };

/* A value that tells which it is, as far as it has room, all over. */
static void write_value(unsigned char *value, size_t size, uint32_t id)
{
	for (size_t i = 0; i < size; i++)
		value[i] = (unsigned char)((id >> i % 4 * 8) + i / 4);
}

static uint32_t read_value(const unsigned char *value, size_t size)
{
	uint32_t id = 0;

	for (size_t i = 0; i < size; i++) {
		if (i < 4)
			id |= (uint32_t)value[i] << i * 8;
		TEST_EQUAL(value[i], (unsigned char)((id >> i % 4 * 8) + i / 4));
	}
	return id;
}

static int send_value(struct usync_chan *c, size_t size, uint32_t id, int64_t deadline)
{
	unsigned char value[LARGEST];

	write_value(value, size, id);
	return usync_chan_send(c, size > 0 ? value : NULL, deadline);
}

static int recv_value(struct usync_chan *c, size_t size, uint32_t *id, int64_t deadline)
{
	unsigned char value[LARGEST + 16];
	int rc;

	memset(value, 0x77, sizeof value);
	rc = usync_chan_recv(c, size > 0 ? value : NULL, deadline);
	for (size_t i = rc ? 0 : size; i < sizeof value; i++)
		TEST_EQUAL(value[i], 0x77);
	if (rc == 0)
		*id = read_value(value, size);
	return rc;
}

/* Round the end of the buffer, several times, with any number in it. */
static void fill_and_empty(size_t size, size_t capacity)
{
	struct usync_chan *c;
	uint32_t in = 0, out = 0, id;

	TEST_EQUAL(usync_chan_create(size, capacity, &c), 0);
	for (size_t n = 0; n < 5 * capacity; n++) {
		size_t more = n % (capacity + 1);

		if (more < in - out)
			more = in - out;
		while (in - out < more)
			TEST_EQUAL(send_value(c, size, in++, 0), 0);
		TEST_EQUAL(usync_chan_count(c), more);
		if (more == capacity)
			TEST_EQUAL(send_value(c, size, in, 0), -ETIMEDOUT);
		for (size_t i = 0; i < more - more / 3; i++, out++) {
			TEST_EQUAL(recv_value(c, size, &id, 0), 0);
			if (size >= 4)
				TEST_EQUAL(id, out);
		}
	}
	TEST_EQUAL(usync_chan_close(c), 0);
	TEST_EQUAL(usync_chan_close(c), -EPIPE);
	TEST_EQUAL(send_value(c, size, in, USCHED_NEVER), -EPIPE);
	for (; out < in; out++)
		TEST_EQUAL(recv_value(c, size, &id, USCHED_NEVER), 0);
	TEST_EQUAL(recv_value(c, size, &id, USCHED_NEVER), -EPIPE);
	TEST_EQUAL(usync_chan_count(c), 0);
	usync_chan_destroy(c);
}

static void fill_all(struct worker *w)
{
	(void)w;
	for (size_t i = 0; i < SIZES; i++)
		for (size_t capacity = 1; capacity < 6; capacity++)
			fill_and_empty(sizes[i], capacity);
}

static void buffers(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct worker w[2];

	for (size_t i = 0; i < 2; i++)
		start_worker(&w[i], s, i > 0, i, fill_all, NULL);
	for (size_t i = 0; i < 2; i++)
		end_worker(&w[i]);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_buffers(void **state)
{
	const size_t gib = (size_t)1 << 30;
	struct usync_chan *c = NULL;

	(void)state;
	test_timeout(60);
	assert_int_equal(usync_chan_create(gib + 1, 0, &c), -EINVAL);
	assert_int_equal(usync_chan_create(0, gib + 1, &c), -EINVAL);
	assert_int_equal(usync_chan_create(gib / 2, 3, &c), -EINVAL);
	assert_int_equal(usync_chan_create(SIZE_MAX, SIZE_MAX, &c), -EINVAL);
	assert_null(c);
	each_conf(buffers);
}

/* One after the other through a channel: in order, while both ends wait at times. */
enum { STREAM = 2000 };

struct stream {
	struct usync_chan *s_chan;
	size_t             s_size;
	size_t             s_count;
};

static void send_stream(struct worker *w)
{
	struct stream *s = w->w_shared;

	for (uint32_t i = 0; i < s->s_count; i++)
		TEST_EQUAL(send_value(s->s_chan, s->s_size, i, USCHED_NEVER), 0);
	TEST_EQUAL(usync_chan_close(s->s_chan), 0);
}

static void recv_stream(struct worker *w)
{
	struct stream *s = w->w_shared;
	uint32_t id = 0;
	int rc;

	while ((rc = recv_value(s->s_chan, s->s_size, &id, USCHED_NEVER)) == 0) {
		if (s->s_size >= 4)
			TEST_EQUAL(id, w->w_count);
		w->w_count++;
	}
	TEST_EQUAL(rc, -EPIPE);
}

static void streams(const struct usched_conf *conf)
{
	sched *s = make(conf);

	for (size_t i = 0; i < SIZES * 3 * 3; i++) {
		struct stream stream = {
			.s_size = sizes[i / 9], .s_count = test_scale(STREAM, 100) / 8,
		};
		struct worker w[2];

		assert_int_equal(usync_chan_create(stream.s_size, i % 3 * 2, &stream.s_chan), 0);
		start_worker(&w[0], s, i / 3 % 3 == 1, 0, send_stream, &stream);
		start_worker(&w[1], s, i / 3 % 3 == 2, 1, recv_stream, &stream);
		end_worker(&w[0]);
		end_worker(&w[1]);
		assert_int_equal(w[1].w_count, stream.s_count);
		usync_chan_destroy(stream.s_chan);
	}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_streams(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(streams);
}

/* Closed while they wait: who sends has not sent, who receives has not received. */
static void find_closed(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t value = 5, same = 5;
	struct usync_case cases[] = {
		{ p->p_full, USYNC_SEND, &same, 1 },
		{ p->p_empty, USYNC_RECV, &value, 1 },
	};

	switch (w->w_index % 4) {
	case 0:
		TEST_EQUAL(usync_chan_send(p->p_full, &value, USCHED_NEVER), -EPIPE);
		break;
	case 1:
		TEST_EQUAL(usync_chan_recv(p->p_empty, &value, USCHED_NEVER), -EPIPE);
		break;
	case 2:
		w->w_rc = usync_select(cases, 2, USCHED_NEVER);
		TEST_TRUE(w->w_rc >= 0);
		TEST_EQUAL(cases[w->w_rc].s_rc, -EPIPE);
		break;
	default:
		TEST_EQUAL(usync_chan_recv(p->p_direct, &value, USCHED_NEVER), -EPIPE);
		break;
	}
	TEST_EQUAL(value, 5);
}

static void closing(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct place *p = make_place(s);
	struct worker w[QUEUE];
	size_t value = 0;

	for (size_t i = 0; i < QUEUE; i++) {
		start_worker(&w[i], s, i > 7, i, find_closed, p);
		await_waiting(&w[i]);
	}
	assert_int_equal(usync_chan_close(p->p_full), 0);
	assert_int_equal(usync_chan_close(p->p_empty), 0);
	assert_int_equal(usync_chan_close(p->p_direct), 0);
	for (size_t i = 0; i < QUEUE; i++)
		end_worker(&w[i]);
	assert_int_equal(w[2].w_rc, 0);         /* the first that was closed */
	assert_int_equal(usync_chan_count(p->p_full), 1);
	assert_int_equal(usync_chan_recv(p->p_full, &value, 0), 0);
	assert_int_equal(value, FILL);
	assert_int_equal(usync_chan_recv(p->p_full, &value, 0), -EPIPE);
	assert_int_equal(usync_chan_send(p->p_direct, &value, 0), -EPIPE);
	free_place(p);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_close(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(closing);
}

/* A select does not meet itself, and one with all cases ready takes each now and then. */
static void select_alone(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t in = 1, out = 2, seen[4] = { 0 };
	struct usync_case same[] = {
		{ p->p_direct, USYNC_SEND, &in, 1 }, { p->p_direct, USYNC_RECV, &out, 1 },
		{ p->p_direct, USYNC_SEND, &in, 1 }, { p->p_direct, USYNC_RECV, &out, 1 },
	};
	struct usync_case ready[] = {
		{ p->p_empty, USYNC_SEND, &in, 1 }, { p->p_full, USYNC_RECV, &out, 1 },
		{ p->p_empty, USYNC_SEND, &in, 1 }, { p->p_full, USYNC_RECV, &out, 1 },
	};

	TEST_EQUAL(usync_select(same, 4, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_select(same, 4, usync_after(MILLISECOND)), -ETIMEDOUT);
	TEST_EQUAL(in * 10 + out, 12);
	TEST_EQUAL(usync_select(ready, 65537, 0), -EINVAL);
	TEST_EQUAL(usync_select(NULL, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(usync_select(NULL, 0, usync_after(1000)), -ETIMEDOUT);
	for (int i = 0; i < 100000 && (i < 100 || !seen[0] || !seen[1] || !seen[2]
				       || !seen[3]); i++) {
		int rc = usync_select(ready, 4, 0);

		TEST_TRUE(rc >= 0 && rc < 4);
		TEST_EQUAL(ready[rc].s_rc, 0);
		seen[rc]++;
		TEST_EQUAL(rc % 2 ? usync_chan_send(p->p_full, &out, 0)
			   : usync_chan_recv(p->p_empty, &out, 0), 0);
		out = FILL;
	}
	TEST_TRUE(seen[0] && seen[1] && seen[2] && seen[3]);
	w->w_count++;
}

/* Two that could meet in either way meet once. */
static void select_each_other(struct worker *w)
{
	struct place *p = w->w_shared;
	size_t in = w->w_index, out = 99;
	struct usync_case cases[] = {
		{ p->p_direct, USYNC_SEND, &in, 1 }, { p->p_direct, USYNC_RECV, &out, 1 },
	};

	w->w_rc = usync_select(cases, 2, USCHED_NEVER);
	TEST_TRUE(w->w_rc == 0 || w->w_rc == 1);
	TEST_EQUAL(out, w->w_rc == 1 ? 1 - w->w_index : 99);
	TEST_EQUAL(cases[w->w_rc].s_rc, 0);
}

static void selects(const struct usched_conf *conf)
{
	sched *s = make(conf);
	struct place *p = make_place(s);
	struct worker w[2];

	for (int native = 0; native < 2; native++) {
		start_worker(&w[0], s, native, 0, select_alone, p);
		end_worker(&w[0]);
		assert_int_equal(w[0].w_count, 1);
		check_place(p);
	}
	for (size_t i = 0; i < test_scale(200, 20); i++) {
		for (size_t k = 0; k < 2; k++)
			start_worker(&w[k], s, i % 4 == k + 1, k, select_each_other, p);
		for (size_t k = 0; k < 2; k++)
			end_worker(&w[k]);
		assert_int_equal(w[0].w_rc + w[1].w_rc, 1);
	}
	check_place(p);
	free_place(p);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_select(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(selects);
}

/* ---- Storms ---- */

enum { STORM_THREADS = 40, STORM_NATIVES = 3, STORMERS = STORM_THREADS + STORM_NATIVES,
       SEATS = 3, MOST_CANCELS = 3 };

struct storm {
	int               (*s_step)(struct storm *s, struct worker *w, int64_t deadline);
	sched              *s_sched;
	size_t              s_rounds;
	bool                s_cancels;
	struct usync_mutex  s_mutex;
	struct usync_rwlock s_lock;
	struct usync_cond   s_cond;
	struct usync_sem    s_sem;
	size_t              s_count;            /* by who has s_mutex or s_lock */
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

/* A semaphore made of a mutex and a condition: a signal that is lost stops it. */
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

static void cancel_some(struct storm *s)
{
	uint32_t seed = test_seed * 7 + 1;

	for (size_t i = 0; i < STORM_THREADS; i++) {
		uint32_t who = test_random(&seed) % STORM_THREADS;
		int rc = ustack_cancel(s->s_workers[who].w_thread);

		TEST_TRUE(rc == 0 || rc == -ESRCH);
		nanosleep(&(struct timespec){ 0, test_random(&seed) % 200000 }, NULL);
	}
}

static void run_storm(struct storm *s)
{
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&s->s_workers[i], s->s_sched, i >= STORM_THREADS, i,
			     take_steps, s);
	if (s->s_cancels)
		cancel_some(s);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&s->s_workers[i]);
	TEST_EQUAL(s->s_inside, 0);
	TEST_TRUE(!s->s_mutex.m_queue.q_first && s->s_mutex.m_owner == 0);
	TEST_TRUE(!s->s_lock.r_queue.q_first && s->s_lock.r_owner == 0);
	TEST_TRUE(!s->s_sem.s_queue.q_first && !s->s_cond.c_queue.q_first);
	TEST_EQUAL(s->s_lock.r_readers, 0);
	TEST_EQUAL(s->s_sem.s_count, SEATS);
	TEST_EQUAL(s->s_seats, SEATS);
}

static int (*const steps[])(struct storm *s, struct worker *w, int64_t deadline) = {
	step_mutex, step_rwlock, step_sem, step_cond,
};

static void storms(const struct usched_conf *conf)
{
	static struct storm storm;
	sched *s = make(conf);

	for (size_t i = 0; i < 4; i++)
		for (int cancels = 0; cancels < 2; cancels++) {
			storm = (struct storm){
				.s_step = steps[i], .s_sched = s, .s_cancels = cancels,
				.s_rounds = test_scale(300, 5),
				.s_sem = { .s_count = SEATS }, .s_seats = SEATS,
			};
			run_storm(&storm);
			assert_true(i != 0 || storm.s_count == storm.s_done);
			assert_true(storm.s_done + storm.s_failed >= STORMERS * 5
				    || cancels);
		}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_storms(void **state)
{
	(void)state;
	test_timeout(120);
	first_seed();
	each_conf(storms);
	test_seed = 0;
}

/*
 * Senders and receivers, through several channels, alone and with select, with deadlines
 * and cancels: what was sent is received once, and what was not, never.
 */
enum { CHANS = 3, IDS = 1 << 16 };

struct traffic {
	struct usync_chan *t_chans[CHANS];
	size_t             t_size;
	size_t             t_values;            /* for each sender */
	atomic_uint        t_next;
	atomic_uchar       t_sent[IDS];
	atomic_uchar       t_received[IDS];
	atomic_size_t      t_senders;
	struct worker      t_workers[STORMERS];
};

static uint32_t key_of(const struct traffic *t, uint32_t id)
{
	return t->t_size == 0 ? 0 : t->t_size == 1 ? id & 255 : id % IDS;
}

static int send_somewhere(struct traffic *t, struct worker *w, uint32_t id,
			  int64_t deadline)
{
	unsigned char value[2][LARGEST];
	uint32_t first = any(w, CHANS);
	struct usync_case cases[] = {
		{ t->t_chans[first], USYNC_SEND, value[0], 1 },
		{ t->t_chans[(first + any(w, CHANS)) % CHANS], USYNC_SEND, value[1], 1 },
	};
	int rc;

	write_value(value[0], t->t_size, id);
	write_value(value[1], t->t_size, id);
	if (any(w, 2))
		return usync_chan_send(t->t_chans[first], value[0], deadline);
	rc = usync_select(cases, 2, deadline);
	return rc < 0 ? rc : cases[rc].s_rc;
}

static void send_traffic(struct worker *w)
{
	struct traffic *t = w->w_shared;

	for (size_t i = 0; i < t->t_values; i++) {
		uint32_t id = t->t_next++;
		int rc;

		do
			rc = send_somewhere(t, w, id, any_deadline(w));
		while (rc == -ETIMEDOUT);
		TEST_TRUE(rc == 0 || rc == -ECANCELED);
		if (rc == 0)
			t->t_sent[key_of(t, id)]++;
		else if (w->w_count++ > MOST_CANCELS)
			break;
	}
	if (--t->t_senders == 0)
		for (size_t i = 0; i < CHANS; i++)
			TEST_EQUAL(usync_chan_close(t->t_chans[i]), 0);
}

static int recv_somewhere(struct traffic *t, struct worker *w, struct usync_chan **open,
			  int64_t deadline)
{
	unsigned char value[CHANS][LARGEST];
	struct usync_case cases[CHANS];
	int rc;

	for (size_t i = 0; i < CHANS; i++)
		cases[i] = (struct usync_case){ open[i], USYNC_RECV, value[i], 1 };
	rc = usync_select(cases, CHANS, deadline);
	if (rc < 0)
		return rc;
	TEST_TRUE(open[rc]);
	if (cases[rc].s_rc == 0) {
		t->t_received[key_of(t, read_value(value[rc], t->t_size))]++;
		w->w_count++;
	} else {
		TEST_EQUAL(cases[rc].s_rc, -EPIPE);
		open[rc] = NULL;
	}
	return 0;
}

/* Those that are cancelled go; the first does not, so that something is received. */
static void recv_traffic(struct worker *w)
{
	struct traffic *t = w->w_shared;
	struct usync_chan *open[CHANS];
	int rc = 0;

	ustack_shield(w->w_index == 0);
	memcpy(open, t->t_chans, sizeof open);
	while (rc != -ECANCELED && (open[0] || open[1] || open[2])) {
		rc = recv_somewhere(t, w, open, any_deadline(w));
		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
	}
	ustack_shield(0);
}

static void run_traffic(struct traffic *t, sched *s, bool cancels)
{
	uint32_t seed = test_seed + 5;

	t->t_senders = STORMERS / 2;
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&t->t_workers[i], s, i >= STORM_THREADS, i,
			     i % 2 ? send_traffic : recv_traffic, t);
	for (size_t i = 0; i < STORM_THREADS && cancels; i++) {
		ustack_cancel(t->t_workers[test_random(&seed) % STORM_THREADS].w_thread);
		nanosleep(&(struct timespec){ 0, test_random(&seed) % 100000 }, NULL);
	}
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&t->t_workers[i]);
	for (size_t i = 0; i < CHANS; i++)
		TEST_EQUAL(usync_chan_count(t->t_chans[i]), 0);
	for (size_t i = 0; i < IDS; i++)
		TEST_EQUAL(t->t_sent[i], t->t_received[i]);
}

static void traffic(const struct usched_conf *conf)
{
	static struct traffic t;
	sched *s = make(conf);

	for (size_t i = 0; i < SIZES * 2; i++) {
		memset(&t, 0, sizeof t);
		t.t_size = sizes[i / 2];
		t.t_values = test_scale(60, 3);
		for (size_t k = 0; k < CHANS; k++)
			TEST_EQUAL(usync_chan_create(t.t_size, k, &t.t_chans[k]), 0);
		run_traffic(&t, s, i % 2);
		assert_true(i % 2 || t.t_next == STORMERS / 2 * t.t_values);
		for (size_t k = 0; k < CHANS; k++)
			usync_chan_destroy(t.t_chans[k]);
	}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_traffic(void **state)
{
	(void)state;
	test_timeout(120);
	first_seed();
	each_conf(traffic);
	test_seed = 0;
}

/*
 * Everybody sends to and receives from everybody, in one select, on channels without
 * capacity: each has sent as often as somebody has received.
 */
struct market {
	struct usync_chan *m_chans[CHANS];
	atomic_size_t      m_sent, m_received, m_sums[2];
	size_t             m_rounds;
	struct worker      m_workers[STORMERS];
};

static void trade(struct worker *w)
{
	struct market *m = w->w_shared;

	for (size_t i = 0; i < m->m_rounds; i++) {
		size_t in = w->w_index * 1000 + i, out[2];
		struct usync_case cases[] = {
			{ m->m_chans[any(w, CHANS)], USYNC_SEND, &in, 1 },
			{ m->m_chans[any(w, CHANS)], USYNC_RECV, &out[0], 1 },
			{ m->m_chans[any(w, CHANS)], USYNC_SEND, &in, 1 },
			{ any(w, 2) ? m->m_chans[any(w, CHANS)] : NULL,
			  USYNC_RECV, &out[1], 1 },
		};
		int rc = usync_select(cases, 1 + any(w, 4),
				      usync_after((int64_t)any(w, 100000)));

		if (rc < 0) {
			TEST_TRUE(rc == -ETIMEDOUT || rc == -ECANCELED);
			continue;
		}
		TEST_EQUAL(cases[rc].s_rc, 0);
		*(rc % 2 ? &m->m_received : &m->m_sent) += 1;
		m->m_sums[rc % 2] += rc % 2 ? out[rc / 2] : in;
	}
}

static void trading(const struct usched_conf *conf)
{
	static struct market m;
	sched *s = make(conf);

	memset(&m, 0, sizeof m);
	m.m_rounds = test_scale(300, 10);
	for (size_t i = 0; i < CHANS; i++)
		assert_int_equal(usync_chan_create(sizeof(size_t), 0, &m.m_chans[i]), 0);
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&m.m_workers[i], s, i >= STORM_THREADS, i, trade, &m);
	ustack_cancel(m.m_workers[0].w_thread);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&m.m_workers[i]);
	assert_int_equal(m.m_sent, m.m_received);
	assert_int_equal(m.m_sums[0], m.m_sums[1]);
	for (size_t i = 0; i < CHANS; i++) {
		assert_int_equal(usync_chan_close(m.m_chans[i]), 0);
		usync_chan_destroy(m.m_chans[i]);
	}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_trade(void **state)
{
	(void)state;
	test_timeout(120);
	first_seed();
	each_conf(trading);
	test_seed = 0;
}

/* ---- Beside other uses of wake ---- */

struct tally {
	struct usync_mutex t_mutex;
	struct usync_sem   t_sem;
	struct usync_chan *t_chan;
	struct ustack     *t_thread;            /* whose tokens are counted */
	sched             *t_sched;
	size_t             t_wakes;             /* for each who wakes it */
	atomic_bool        t_stop;
	struct worker      t_workers[4];
};

static void sleep_a_little(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

/* Waits in every way, and only then takes its tokens: one more than it gets at first. */
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
		TEST_EQUAL(START(t->t_sched, sleep_a_little, NULL, &u), 0);
		while (ustack_join(u, usync_after((int64_t)any(w, 30000))))
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

static void tokens(const struct usched_conf *conf)
{
	static struct tally t;
	sched *s = make(conf);

	t = (struct tally){ .t_sched = s, .t_wakes = test_scale(500, 10) };
	assert_int_equal(usync_chan_create(sizeof(size_t), 0, &t.t_chan), 0);
	start_worker(&t.t_workers[0], s, false, 0, count_tokens, &t);
	t.t_thread = t.t_workers[0].w_thread;
	for (size_t i = 1; i < 4; i++)
		start_worker(&t.t_workers[i], s, i == 2, i, wake_and_grant, &t);
	for (size_t i = 1; i < 4; i++)
		end_worker(&t.t_workers[i]);
	t.t_stop = true;
	assert_int_equal(ustack_join(t.t_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(t.t_workers[0].w_count, 3 * t.t_wakes);
	assert_int_equal(ustack_wake(t.t_thread), 0);
	end_worker(&t.t_workers[0]);
	usync_chan_destroy(t.t_chan);
	assert_int_equal(S(destroy)(s), 0);
}

static void test_tokens(void **state)
{
	(void)state;
	test_timeout(60);
	first_seed();
	each_conf(tokens);
	test_seed = 0;
}

/*
 * Granted on another processor or by a native thread, each ends at once, with a token
 * that it never takes: who granted does not touch it any more.
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

static void end_at_once(const struct usched_conf *conf)
{
	struct swarm swarm = { .s_sem = { 0 } };
	struct worker w[2];
	sched *s = make(conf);

	for (size_t round = 0; round < test_scale(60, 4); round++) {
		for (size_t i = 0; i < MAYFLIES; i++)
			assert_int_equal(START(s, wait_for_sem, &swarm.s_sem,
					       &swarm.s_threads[i]), 0);
		for (size_t i = 0; i < 2; i++)
			start_worker(&w[i], s, i == round % 2, i, post_and_wake, &swarm);
		for (size_t i = 0; i < 2; i++)
			end_worker(&w[i]);
		for (size_t i = 0; i < MAYFLIES; i++)
			assert_int_equal(ustack_join(swarm.s_threads[i], USCHED_NEVER), 0);
		assert_int_equal(swarm.s_sem.s_count, MAYFLIES);
		swarm.s_sem.s_count = 0;
	}
	assert_int_equal(S(destroy)(s), 0);
}

static void test_end_at_once(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(end_at_once);
}

/* ---- Deadlock ---- */

static void wait_at_point(struct worker *w)
{
	struct visit *v = w->w_shared;

	w->w_rc = v->v_point->o_wait(w, v->v_place, v->v_deadline);
	if (w->w_rc == 0 && v->v_point->o_done)
		v->v_point->o_done(v->v_place);
}

/* For ever is a deadlock, wherever it is; until then is none. */
static void find_deadlock(sched *s, const struct point *o, bool deadline)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	v.v_deadline = deadline ? usync_after(MILLISECOND) : USCHED_NEVER;
	start_worker(&w, s, false, 0, wait_at_point, &v);
	if (!deadline && !is_join(o)) {
		assert_int_equal(ustack_join(w.w_thread, USCHED_NEVER), -EDEADLK);
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

static void deadlocks(const struct usched_conf *conf)
{
	each_point(conf, false, find_deadlock);
	each_point(conf, true, find_deadlock);
}

static void test_deadlock(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(deadlocks);
}

/* ---- Join ---- */

struct ending {
	sched           *e_sched;
	struct usync_sem e_sem;
	struct usync_sem e_detached;
	struct ustack   *e_thread;
};

static void start_ending(struct ending *e)
{
	TEST_EQUAL(START(e->e_sched, wait_for_sem, &e->e_sem, &e->e_thread), 0);
}

static void join_in_all_ways(struct worker *w)
{
	struct ending *e = w->w_shared;

	for (int i = 0; i < 2; i++) {
		start_ending(e);
		TEST_EQUAL(ustack_join(e->e_thread, 0), -ETIMEDOUT);
		TEST_EQUAL(ustack_join(e->e_thread, usync_after(MILLISECOND)), -ETIMEDOUT);
		TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
		if (i == 0)
			TEST_EQUAL(ustack_join(e->e_thread, USCHED_NEVER), 0);
		else
			TEST_EQUAL(ustack_join(e->e_thread,
					      usync_after(1000 * USYNC_SECOND)), 0);
	}
	for (int64_t deadline = 0; deadline < 2; deadline++) {
		start_ending(e);
		TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
		while (ustack_join(e->e_thread, deadline) == -ETIMEDOUT)
			TEST_EQUAL(test_give_way(), 0);
	}
	TEST_EQUAL(START(e->e_sched, wait_for_sem, &e->e_detached, &e->e_thread), 0);
	TEST_EQUAL(ustack_detach(e->e_thread), 0);
	TEST_EQUAL(ustack_join(e->e_thread, 0), -EINVAL);
	TEST_EQUAL(ustack_join(e->e_thread, USCHED_NEVER), -EINVAL);
	TEST_EQUAL(usync_sem_post(&e->e_detached), 0);
	if (w->w_thread)
		TEST_EQUAL(ustack_join(w->w_thread, USCHED_NEVER), -EDEADLK);
	w->w_count = 1;
}

/* The tester tries, too, to see whether somebody joins. */
static int join_for_ever(struct ustack *u)
{
	int rc;

	while ((rc = ustack_join(u, USCHED_NEVER)) == -EINVAL)
		TEST_EQUAL(test_give_way(), 0);
	return rc;
}

static void join_only(struct worker *w)
{
	struct ending *e = w->w_shared;

	w->w_rc = join_for_ever(e->e_thread);
}

/* This is no deadlock, for the tester comes back. */
static void await_joiner(struct ending *e)
{
	int rc;

	S(hold)(e->e_sched);
	while ((rc = ustack_join(e->e_thread, 0)) == -ETIMEDOUT)
		sched_yield();
	TEST_EQUAL(rc, -EINVAL);
	S(release)(e->e_sched);
}

static void joins(const struct usched_conf *conf)
{
	struct ending e = { .e_sched = make(conf) };
	struct worker w;

	for (int native = 0; native < 2; native++) {
		start_worker(&w, e.e_sched, native, 0, join_in_all_ways, &e);
		end_worker(&w);
		assert_int_equal(w.w_count, 1);
		start_ending(&e);
		start_worker(&w, e.e_sched, native, 0, join_only, &e);
		await_joiner(&e);
		assert_int_equal(ustack_detach(e.e_thread), -EINVAL);
		assert_int_equal(usync_sem_post(&e.e_sem), 0);
		end_worker(&w);
		assert_int_equal(w.w_rc, 0);
	}
	assert_int_equal(S(destroy)(e.e_sched), 0);
}

/* Cancelled while it joins; and then it can still join who has ended already. */
static void join_cancelled(struct worker *w)
{
	struct ending *e = w->w_shared;

	TEST_EQUAL(join_for_ever(e->e_thread), -ECANCELED);
	TEST_EQUAL(ustack_join(e->e_thread, USCHED_NEVER), -ECANCELED);
	TEST_EQUAL(ustack_shield(1), 0);
	TEST_EQUAL(usync_sem_post(&e->e_sem), 0);
	TEST_EQUAL(ustack_join(e->e_thread, USCHED_NEVER), 0);
	w->w_count = 1;
}

static void cancel_joins(const struct usched_conf *conf)
{
	struct ending e = { .e_sched = make(conf) };
	struct worker w;

	start_ending(&e);
	start_worker(&w, e.e_sched, false, 0, join_cancelled, &e);
	await_joiner(&e);
	assert_int_equal(ustack_cancel(w.w_thread), 0);
	end_worker(&w);
	assert_int_equal(w.w_count, 1);
	assert_int_equal(S(destroy)(e.e_sched), 0);
}

static void test_join(void **state)
{
	(void)state;
	test_timeout(60);
	each_conf(joins);
	each_conf(cancel_joins);
}

/* A native thread that joins until a deadline comes back: nobody is stuck meanwhile. */
static void join_and_come_back(const struct usched_conf *conf)
{
	struct ending e = { .e_sched = make(conf) };

	start_ending(&e);
	assert_int_equal(ustack_join(e.e_thread, 0), -ETIMEDOUT);
	assert_int_equal(ustack_join(e.e_thread, usync_after(MILLISECOND)), -ETIMEDOUT);
	assert_int_equal(ustack_join(e.e_thread, USCHED_NEVER), -EDEADLK);
	assert_int_equal(usync_sem_post(&e.e_sem), 0);
	assert_int_equal(ustack_join(e.e_thread, usync_after(1000 * USYNC_SECOND)), 0);
	assert_int_equal(S(destroy)(e.e_sched), 0);
}

static void test_join_and_come_back(void **state)
{
	(void)state;
	test_timeout(20);
	each_conf(join_and_come_back);
}

/* Ends that come with deadlines and cancels: each thread is joined once, and freed. */
static void end_soon(void *arg)
{
	int64_t n = (int64_t)(uintptr_t)arg;

	if (n % 3)
		TEST_EQUAL(usync_sleep_until(usync_after(n * 7919 % 50000)), 0);
}

static void join_soon(struct worker *w)
{
	struct storm *s = w->w_shared;
	int rc;

	for (size_t i = 0; i < s->s_rounds; i++) {
		void *when = (void *)(uintptr_t)any(w, 1000);
		struct ustack *u;

		TEST_EQUAL(START(s->s_sched, end_soon, when, &u), 0);
		while ((rc = ustack_join(u, any_deadline(w)))) {
			TEST_TRUE(rc == -ETIMEDOUT || rc == -ECANCELED);
			if (rc == -ECANCELED)
				ustack_shield(1);
		}
		ustack_shield(0);
		s->s_done++;
	}
}

static void join_storm(const struct usched_conf *conf)
{
	static struct storm s;

	s = (struct storm){ .s_sched = make(conf), .s_rounds = test_scale(40, 4) };
	for (size_t i = 0; i < STORMERS; i++)
		start_worker(&s.s_workers[i], s.s_sched, i >= STORM_THREADS, i,
			     join_soon, &s);
	cancel_some(&s);
	for (size_t i = 0; i < STORMERS; i++)
		end_worker(&s.s_workers[i]);
	assert_int_equal(s.s_done, STORMERS * s.s_rounds);
	assert_int_equal(S(destroy)(s.s_sched), 0);
}

static void test_join_storm(void **state)
{
	(void)state;
	test_timeout(60);
	first_seed();
	each_conf(join_storm);
	test_seed = 0;
}

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

/* A value is the address of the count of those like it. */
static void destroy_value(void *value)
{
	atomic_size_t *destroyed = value;

	++*destroyed;
}

/* It runs in the thread, can wait, and sets its value again each time. */
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

static void each_has_its_own(const struct usched_conf *conf)
{
	struct owner owners[8] = { 0 };
	struct worker w[8];
	sched *s = make(conf);

	for (size_t i = 0; i < 8; i++)
		start_worker(&w[i], s, i % 3 == 2, i, own_values, owners);
	for (size_t i = 0; i < 8; i++) {
		end_worker(&w[i]);
		for (size_t k = 0; k < KEYS; k++)
			assert_int_equal(owners[i].o_destroyed[k], k != 3);
		assert_int_equal(owners[i].o_rounds, 4);
		assert_int_equal(owners[i].o_late, 1);
	}
	assert_int_equal(S(destroy)(s), 0);
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

/* Aborted, also with the timer of an earlier wait still armed. */
static void lose_values(const struct usched_conf *conf)
{
	struct owner owner = { 0 };
	struct worker w;
	sched *s = make(conf);

	never = (struct usync_sem){ 0 };        /* who was aborted is still in it */
	start_worker(&w, s, false, 0, own_and_stay, &owner);
	assert_int_equal(S(destroy)(s), -EDEADLK);
	assert_int_equal(w.w_count, 1);
	for (size_t k = 0; k < KEYS; k++)
		assert_int_equal(owner.o_destroyed[k], 0);
	assert_int_equal(owner.o_rounds, 0);
}

static void test_keys(void **state)
{
	(void)state;
	test_timeout(60);
	for (size_t i = 0; i < KEYS; i++)
		keys[i].k_destroy = destroy_value;
	each_conf(each_has_its_own);
	each_conf(lose_values);
}

#define SYNC_TESTS                                              \
	cmocka_unit_test(test_deadlines),                       \
	cmocka_unit_test(test_order),                           \
	cmocka_unit_test(test_give_up),                         \
	cmocka_unit_test(test_cancel),                          \
	cmocka_unit_test(test_cancel_new),                      \
	cmocka_unit_test(test_cancel_granted),                  \
	cmocka_unit_test(test_cancel_without_wait),             \
	cmocka_unit_test(test_errors),                          \
	cmocka_unit_test(test_sleep),                           \
	cmocka_unit_test(test_yield),                           \
	cmocka_unit_test(test_hand_over),                       \
	cmocka_unit_test(test_relock),                          \
	cmocka_unit_test(test_rwlock),                          \
	cmocka_unit_test(test_buffers),                         \
	cmocka_unit_test(test_streams),                         \
	cmocka_unit_test(test_close),                           \
	cmocka_unit_test(test_select),                          \
	cmocka_unit_test(test_storms),                          \
	cmocka_unit_test(test_traffic),                         \
	cmocka_unit_test(test_trade),                           \
	cmocka_unit_test(test_tokens),                          \
	cmocka_unit_test(test_end_at_once),                     \
	cmocka_unit_test(test_deadlock),                        \
	cmocka_unit_test(test_join),                            \
	cmocka_unit_test(test_join_and_come_back),              \
	cmocka_unit_test(test_join_storm),                      \
	cmocka_unit_test(test_keys)
