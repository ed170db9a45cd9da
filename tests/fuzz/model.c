/* SPDX-License-Identifier: MIT */
/*
 * model.c: the model of api.c, and the calls about what sync.h has. What a call does is
 * foretold as far as it depends on calls before; where it also depends on whether a
 * deadline or a cancel came first, the waiter knows: it was claimed by one of these.
 */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	WAITING = 1,                    /* w_state, as in uwait.c */
	TICKETS = 4096,                 /* values sent through a channel, at most */
	LONG    = 41,                   /* 2^41 ns are longer than any deadline */
	OFFERED = 1, SENT = 2, RECEIVED = 4,
};

struct thread threads[THREADS + 1];
unsigned      held, reports;

static struct mutex {
	struct usync_mutex usync;
	struct thread     *owner;
} mutexes[OBJECTS];

static struct rwlock {
	struct usync_rwlock usync;
	struct thread      *writer;
	unsigned            readers;
} rwlocks[OBJECTS];

static struct usync_cond conds[OBJECTS];

static struct counter {                 /* a semaphore or a group */
	struct usync_sem   sem;
	struct usync_group group;
	uint32_t           count;
} sems[OBJECTS], groups[OBJECTS];

struct value {
	unsigned ticket;
	uint8_t  rest[36];
};

static struct channel {
	struct usync_chan *usync;
	size_t             size, capacity;
	bool               closed;
	unsigned           tickets, sent, received;
	uint8_t            ticket[TICKETS];
} channels[CHANNELS] = {
	{ .size = sizeof(unsigned) },
	{ .size = sizeof(unsigned), .capacity = 1 },
	{ .size = sizeof(struct value), .capacity = 3 },
};

static uint64_t waits;                  /* that began */
static unsigned ended, destroyed;       /* threads with a value for the first key; it */

/* ---- rr and ll as one ---- */

static struct uprocs *rr;
static struct uprocs *ll;

/* The caller's; outside of threads the next one. */
static struct ll_group *group(void)
{
	struct ll_group *mine = ll_group(ll, USCHED_BESIDE);

	return mine ? mine : ll_group(ll, 0);
}

#define BOTH(result, name, parameters, rr_call, ll_call)        \
	static result rr_##name##_it parameters { rr_call; }    \
	static result ll_##name##_it parameters { ll_call; }

BOTH(int, create, (const struct uprocs_conf *c), return rr_create(c, &rr),
     return ll_create(c, &ll))
BOTH(int, destroy, (void), return uprocs_destroy(rr, USCHED_NEVER),
     return uprocs_destroy(ll, USCHED_NEVER))
BOTH(int, start, (void (*f)(void *), void *a, struct ustack **t),
     return rr_start(rr, f, a, t), return ll_start(group(), f, a, t))
BOTH(void, hold, (void), uprocs_hold(rr, 1), uprocs_hold(ll, 1))
BOTH(void, release, (void), uprocs_hold(rr, 0), uprocs_hold(ll, 0))
BOTH(int, run, (void), return uprocs_run(rr), return uprocs_run(ll))
BOTH(void, stats, (struct usched_stats *out), uprocs_stats(rr, out), uprocs_stats(ll,
										  out))

const struct kind kinds[2] = {
	{ rr_create_it, rr_destroy_it, rr_start_it, rr_hold_it, rr_release_it, rr_run_it,
	  rr_stats_it },
	{ ll_create_it, ll_destroy_it, ll_start_it, ll_hold_it, ll_release_it, ll_run_it,
	  ll_stats_it },
};

const struct kind *sched;

/* ---- Waiting ---- */

static void destroy_value(void *value)
{
	struct thread *t = value;

	CHECK(t >= threads && t < native);
	destroyed++;
}

const struct usync_key keys[KEYS] = { { destroy_value }, { NULL } };

int64_t model_deadline(struct thread *me)
{
	unsigned kind = fuzz_take(3);

	if (kind == 0 || me == native)
		return 0;
	return kind == 1 ? USCHED_NEVER : fuzz_now + ((int64_t)1 << fuzz_take(LONG));
}

void model_want(struct thread *me, enum wait wait, void *object, int64_t deadline)
{
	me->wait = wait;
	me->object = object;
	me->deadline = deadline;
	me->since = ++waits;
	me->granted = false;
	me->reports = reports;
	me->waiter = wait == COND || wait == SEM || wait == GROUP ? uwait_self() : NULL;
}

bool model_error(const struct thread *me, int rc)
{
	return (rc == -ETIMEDOUT && me->deadline <= fuzz_now)
		|| (rc == -ECANCELED && me->cancelled && !me->shielded);
}

static bool is_in(const struct usync_cond *c, const struct thread *t)
{
	const struct uwait_node *n = c->cv_queue.q_first;

	while (n && n != &t->waiter->w_node)
		n = n->n_next;
	return n && t->waiter->w_state == WAITING;
}

/* The thread that waits longest for that, unclaimed; or NULL. */
static struct thread *first(enum wait wait, const void *object)
{
	struct thread *found = NULL;

	for (struct thread *t = threads; t < native; t++)
		if (t->state == LIVE && t->wait == wait && t->object == object
		    && !t->granted
		    && (wait == COND ? is_in(object, t) : t->waiter->w_state == WAITING)
		    && (!found || t->since < found->since))
			found = t;
	return found;
}

static bool any_waits(enum wait wait, const void *object)
{
	for (struct thread *t = threads; t < native; t++)
		if (t->state == LIVE && t->wait == wait && t->object == object)
			return true;
	return false;
}

static unsigned live(void)
{
	unsigned n = 0;

	for (struct thread *t = threads; t < native; t++)
		n += t->state == LIVE;
	return n;
}

/* ---- Mutexes, conditions ---- */

static void own(struct thread *me, struct mutex *m)
{
	CHECK(!m->owner);
	m->owner = me;
	me->wait = NOTHING;
}

void model_lock(struct thread *me)
{
	struct mutex *m = &mutexes[fuzz_take(OBJECTS)];
	bool mine = m->owner == me;
	int rc;

	model_want(me, LOCK, m, model_deadline(me));
	rc = usync_mutex_lock(&m->usync, me->deadline);
	me->wait = NOTHING;
	if (rc == 0)
		own(me, m);
	else
		CHECK(mine ? rc == -EDEADLK : model_error(me, rc));
}

static void unlock(struct thread *me, struct mutex *m)
{
	bool mine = m->owner == me;

	if (mine)
		m->owner = NULL;
	CHECK(usync_mutex_unlock(&m->usync) == (mine ? 0 : -EPERM));
}

void model_unlock(struct thread *me)
{
	unlock(me, &mutexes[fuzz_take(OBJECTS)]);
}

void model_cond_wait(struct thread *me)
{
	struct usync_cond *c = &conds[fuzz_take(OBJECTS)];
	struct mutex *m = &mutexes[fuzz_take(OBJECTS)];
	bool mine = m->owner == me;
	int rc;

	model_want(me, COND, c, model_deadline(me));
	me->mutex = m;
	if (mine && me->deadline > 0 && !(me->cancelled && !me->shielded))
		m->owner = NULL;
	rc = usync_cond_wait(c, &m->usync, me->deadline);
	me->wait = NOTHING;
	if (!mine)
		CHECK(rc == -EPERM);
	else if (m->owner != me)
		own(me, m);
	if (mine)
		CHECK(rc == 0 ? me->granted : !me->granted && model_error(me, rc));
}

static void signal_one(struct usync_cond *c)
{
	struct thread *t = first(COND, c);

	if (t)
		t->granted = true;
	usync_cond_signal(c);
}

static void broadcast(struct usync_cond *c)
{
	struct thread *t;

	while ((t = first(COND, c)))
		t->granted = true;
	usync_cond_broadcast(c);
}

void model_signal(struct thread *me)
{
	struct usync_cond *c = &conds[fuzz_take(OBJECTS)];

	(void)me;
	if (fuzz_take(2))
		signal_one(c);
	else
		broadcast(c);
}

/* ---- Reader-writer locks ---- */

void model_rwlock(struct thread *me)
{
	unsigned i = fuzz_take(OBJECTS);
	struct rwlock *l = &rwlocks[i];
	bool write = fuzz_take(2), mine = l->writer == me;
	int rc;

	model_want(me, write ? WRITE : READ, l, model_deadline(me));
	rc = write ? usync_rwlock_write(&l->usync, me->deadline)
		   : usync_rwlock_read(&l->usync, me->deadline);
	me->wait = NOTHING;
	if (rc) {
		CHECK(mine ? rc == -EDEADLK : model_error(me, rc));
		return;
	}
	CHECK(!l->writer && (!write || l->readers == 0));
	if (write) {
		l->writer = me;
	} else {
		l->readers++;
		me->reads[i]++;
	}
}

static void release_rwlock(struct thread *me, unsigned i)
{
	struct rwlock *l = &rwlocks[i];

	if (l->writer == me) {
		l->writer = NULL;
	} else {
		l->readers--;
		me->reads[i]--;
	}
	CHECK(usync_rwlock_unlock(&l->usync) == 0);
}

/* Readers of a lock are not known one by one. */
void model_rwunlock(struct thread *me)
{
	unsigned i = fuzz_take(OBJECTS);
	struct rwlock *l = &rwlocks[i];

	if (l->writer == me || me->reads[i] > 0)
		release_rwlock(me, i);
	else if (l->writer)
		CHECK(usync_rwlock_unlock(&l->usync) == -EPERM);
}

/* ---- Semaphores, groups ---- */

static void waited(struct thread *me, bool there, int rc)
{
	me->wait = NOTHING;
	CHECK(rc == 0 ? there != me->granted
		      : !there && !me->granted && model_error(me, rc));
}

void model_sem_wait(struct thread *me)
{
	struct counter *s = &sems[fuzz_take(OBJECTS)];
	bool there = s->count > 0;

	model_want(me, SEM, s, model_deadline(me));
	s->count -= there;
	waited(me, there, usync_sem_wait(&s->sem, me->deadline));
}

static void post(struct counter *s)
{
	struct thread *t = first(SEM, s);

	if (t)
		t->granted = true;
	else
		s->count++;
	CHECK(usync_sem_post(&s->sem) == 0);
}

void model_sem_post(struct thread *me)
{
	(void)me;
	post(&sems[fuzz_take(OBJECTS)]);
}

void model_group_wait(struct thread *me)
{
	struct counter *g = &groups[fuzz_take(OBJECTS)];
	bool there = g->count == 0;

	model_want(me, GROUP, g, model_deadline(me));
	waited(me, there, usync_group_wait(&g->group, me->deadline));
}

void model_group_add(struct thread *me)
{
	struct counter *g = &groups[fuzz_take(OBJECTS)];
	uint32_t n = fuzz_take(3);

	(void)me;
	g->count += n;
	CHECK(usync_group_add(&g->group, n) == 0);
}

static void done(struct counter *g)
{
	struct thread *t;
	bool any = g->count > 0;

	g->count -= any;
	while (any && g->count == 0 && (t = first(GROUP, g)))
		t->granted = true;
	CHECK(usync_group_done(&g->group) == (any ? 0 : -EINVAL));
}

void model_group_done(struct thread *me)
{
	(void)me;
	done(&groups[fuzz_take(OBJECTS)]);
}

/* ---- Channels ---- */

/* A value that was not there before, which says so in each byte. */
static struct value offer(struct channel *c)
{
	struct value v = { .ticket = ++c->tickets };

	memset(v.rest, (int)v.ticket, sizeof v.rest);
	c->ticket[v.ticket] = OFFERED;
	return v;
}

static void receive(struct channel *c, const struct value *v, unsigned *last)
{
	CHECK(v->ticket > *last && v->ticket <= c->tickets);
	CHECK((c->ticket[v->ticket] & (OFFERED | RECEIVED)) == OFFERED);
	for (size_t i = 0; c->size == sizeof *v && i < sizeof v->rest; i++)
		CHECK(v->rest[i] == (uint8_t)v->ticket);
	c->ticket[v->ticket] |= RECEIVED;
	c->received++;
	*last = v->ticket;
}

static struct channel *channel_of(const struct usync_case *k)
{
	struct channel *c = channels;

	while (c->usync != k->cs_chan)
		c++;
	return c;
}

static void case_done(struct thread *me, const struct usync_case *k, bool happened)
{
	struct channel *c = channel_of(k);
	struct value *v = k->cs_value;

	if (happened && k->cs_rc)
		CHECK(k->cs_rc == -EPIPE && c->closed);
	if (k->cs_op == USYNC_RECV && happened && k->cs_rc == 0)
		receive(c, v, &me->last[c - channels]);
	if (k->cs_op == USYNC_RECV)
		return;
	if (happened && k->cs_rc == 0) {
		c->ticket[v->ticket] |= SENT;
		c->sent++;
	} else {
		CHECK(c->ticket[v->ticket] == OFFERED);
	}
}

/* The first case alone, by what is for one. */
static int single(struct usync_case *k, int64_t deadline)
{
	int rc = k->cs_op == USYNC_SEND
		 ? usync_chan_send(k->cs_chan, k->cs_value, deadline)
		 : usync_chan_recv(k->cs_chan, k->cs_value, deadline);

	k->cs_rc = rc;
	return rc == -EPIPE ? 0 : rc;
}

void model_select(struct thread *me)
{
	size_t count = 1 + fuzz_take(CASES);
	struct usync_case cases[CASES];
	struct value values[CASES];
	int rc;

	for (size_t i = 0; i < count; i++) {
		struct channel *c = &channels[fuzz_take(CHANNELS)];
		bool send = fuzz_take(2) && c->tickets < TICKETS - 1;

		cases[i] = (struct usync_case){
			.cs_chan = c->usync, .cs_value = &values[i],
			.cs_op = send ? USYNC_SEND : USYNC_RECV,
		};
		if (send)
			values[i] = offer(c);
	}
	memcpy(me->cases, cases, sizeof cases[0] * count);
	me->count = count;
	model_want(me, SELECT, NULL, model_deadline(me));
	rc = count == 1 ? single(cases, me->deadline)
			: usync_select(cases, count, me->deadline);
	me->wait = NOTHING;
	CHECK(rc >= 0 ? rc < (int)count : model_error(me, rc));
	for (size_t i = 0; i < count; i++)
		case_done(me, &cases[i], (int)i == rc);
}

static void close_channel(struct channel *c)
{
	CHECK(usync_chan_close(c->usync) == (c->closed ? -EPIPE : 0));
	c->closed = true;
}

void model_close(struct thread *me)
{
	(void)me;
	close_channel(&channels[fuzz_take(CHANNELS)]);
}

/* ---- Threads that may wait ---- */

static bool has_case(const struct thread *t, const struct usync_chan *c, enum usync_op op)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->cases[i].cs_chan == c && t->cases[i].cs_op == op)
			return t->state == LIVE && t->wait == SELECT;
	return false;
}

/* Whether a case of `me' could be done now. */
static bool case_ready(const struct thread *me, const struct usync_case *k)
{
	const struct channel *c = channel_of(k);
	bool send = k->cs_op == USYNC_SEND;

	for (struct thread *t = threads; t < native; t++)
		if (t != me && has_case(t, k->cs_chan, send ? USYNC_RECV : USYNC_SEND))
			return true;
	return c->closed || c->sent - c->received != (send ? c->capacity : 0);
}

static bool select_ready(const struct thread *me)
{
	for (size_t i = 0; i < me->count; i++)
		if (case_ready(me, &me->cases[i]))
			return true;
	return false;
}

/* Has had its signal, or its time is up: it waits for the mutex, however long. */
static bool has_returned(const struct thread *t)
{
	return t->wait == COND && (t->granted || !is_in(t->object, t));
}

/* What it waits for is not there. */
static bool must_wait(const struct thread *t)
{
	const struct thread *other = t->object;
	const struct mutex *m = t->object;
	const struct rwlock *l = t->object;

	switch (t->wait) {
	case TOKEN:     return t->tokens == 0;
	case JOIN:      return other->state == LIVE;
	case LOCK:      return m->owner;
	case READ:      return l->writer || any_waits(WRITE, l);
	case WRITE:     return l->writer || l->readers > 0;
	case COND:      return !has_returned(t) || t->mutex->owner;
	case SEM: case GROUP: return !t->granted;
	case SELECT:    return !select_ready(t);
	case SLEEP:     return true;
	default:        return false;
	}
}

static bool may_wait(const struct thread *t, int64_t then)
{
	bool ends = t->wait != TOKEN && !has_returned(t);

	if (ends && (t->deadline <= then || (t->cancelled && !t->shielded)))
		return false;
	return must_wait(t);
}

static void check_objects(void)
{
	for (int i = 0; i < OBJECTS; i++) {
		CHECK(!mutexes[i].owner == !mutexes[i].usync.m_owner);
		CHECK(!rwlocks[i].writer == !rwlocks[i].usync.rw_owner);
		CHECK(rwlocks[i].readers == rwlocks[i].usync.rw_readers);
		CHECK(sems[i].count == sems[i].sem.sm_count);
		CHECK(groups[i].count == groups[i].group.g_count);
	}
}

void model_quiet(int64_t then)
{
	for (struct thread *t = threads; t < native; t++)
		CHECK(t->state != LIVE || may_wait(t, then));
	check_objects();
}

/* A deadlock is one: no thread has a deadline, and all are counted. */
void model_log(const char *line)
{
	unsigned n;

	if (sscanf(line, "usched: deadlock: %*[^:]: %u", &n) != 1)
		return;
	reports++;
	CHECK(n == live());
	for (struct thread *t = threads; t < native; t++)
		CHECK(t->state != LIVE || t->wait == TOKEN || has_returned(t)
		      || t->deadline == USCHED_NEVER);
	model_quiet(fuzz_now);
}

/* A native thread that had held the scheduler would now wake a thread. */
bool model_endless(void)
{
	if (held == 0)
		return false;
	held--;
	sched->k_release();
	return true;
}

/* ---- From beginning to end ---- */

void model_begin(const struct uprocs_conf *conf, unsigned kind)
{
	fuzz_now = USYNC_SECOND;
	memset(threads, 0, sizeof threads);
	memset(mutexes, 0, sizeof mutexes);
	memset(rwlocks, 0, sizeof rwlocks);
	memset(conds, 0, sizeof conds);
	memset(sems, 0, sizeof sems);
	memset(groups, 0, sizeof groups);
	for (struct channel *c = channels; c < channels + CHANNELS; c++) {
		c->closed = false;
		c->tickets = c->sent = c->received = 0;
		CHECK(usync_chan_create(c->size, c->capacity, &c->usync) == 0);
	}
	held = reports = ended = destroyed = 0;
	sched = &kinds[kind];
	CHECK(sched->k_create(conf) == 0);
}

static void release_all(struct thread *me)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (mutexes[i].owner == me)
			unlock(me, &mutexes[i]);
		while (rwlocks[i].writer == me || me->reads[i] > 0)
			release_rwlock(me, i);
	}
}

void model_leave(struct thread *me)
{
	release_all(me);
	ended += me->value[0] != NULL;
	me->state = me->detached ? FREE : ENDED;
}

void model_free_all(void)
{
	release_all(native);
	for (struct thread *t = threads; t < native; t++)
		if (t->state == LIVE) {
			t->tokens++;
			CHECK(ustack_wake(t->handle) == 0);
			t->cancelled = true;
			CHECK(ustack_cancel(t->handle) == 0);
		}
	for (int i = 0; i < OBJECTS; i++) {
		while (first(SEM, &sems[i]))
			post(&sems[i]);
		while (groups[i].count > 0)
			done(&groups[i]);
		broadcast(&conds[i]);
	}
	for (struct channel *c = channels; c < channels + CHANNELS; c++)
		close_channel(c);
	fuzz_now += (int64_t)1 << LONG;
}

/* Values that were sent and not received are still there, in order. */
static void empty(struct channel *c)
{
	struct value v;
	unsigned last = 0;

	while (usync_chan_recv(c->usync, &v, 0) == 0)
		receive(c, &v, &last);
	for (unsigned i = 1; i <= c->tickets; i++)
		CHECK(c->ticket[i] == OFFERED
		      || c->ticket[i] == (OFFERED | SENT | RECEIVED));
}

void model_end(void)
{
	struct usched_stats stats;

	while (held > 0) {
		held--;
		sched->k_release();
	}
	if (live() > 0)
		return;
	sched->k_stats(&stats);
	CHECK(stats.st_images == 0 && stats.st_image_bytes == 0);
	CHECK(destroyed == ended);
	for (struct channel *c = channels; c < channels + CHANNELS; c++)
		empty(c);
}

void model_destroy(void)
{
	int rc = sched->k_destroy();

	CHECK(rc == (live() > 0 ? -EDEADLK : 0));
	for (struct channel *c = channels; c < channels + CHANNELS; c++)
		usync_chan_destroy(c->usync);
}
