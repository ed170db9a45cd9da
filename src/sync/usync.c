/* SPDX-License-Identifier: MIT */
/*
 * usync.c: mutexes, reader-writer locks, conditions, semaphores, groups, keys. Channels
 * are in usync_chan.c.
 *
 * Each object is a spin lock, a few words of state, and a queue of waiters. The thread
 * that releases an object changes the state for the first waiter. An unlock, for example,
 * makes the waiter the owner of the mutex. So a thread that wakes up does not try again.
 * The exception is a mutex whose waiter is on another processor: see "Mutex" below. The
 * order of a release is always
 *
 * 	lock; pop the first waiter that can be claimed; give; unlock; finish
 *
 * uwait_finish() comes last, since the waiter may free the object.
 *
 * A call that finds the object busy ends with
 *
 * 	rc = uwait_queue_up(w, lock, queue);    unlocks, blocks
 *
 * After an error uwait_queue_up() takes the waiter out of the queue, and kd_left looks
 * whether the next waiter can go on. So a wait may fail for lack of memory.
 */
#include "../../usync.h"

#include <stdio.h>
#include <stdlib.h>

#include "../wait/budget.h"
#include "../wait/wait.h"
#include "../base/check.h"
#include "../core/core.h"

enum {
	AGAIN       = 1,                /* result of a wait that again() goes on with */
	BUSY        = 1,                /* result of take(): the call has to wait */
	MUTEX_LOOKS = 4,                /* times that m_owner is read before a wait */
	MUTEX_GAP   = 1000,             /* ns between two of these reads */
};

/* Bits of m_owner. In a name they are 0. Code that reads a kd_held object masks them. */
#define WAITED   ((uintptr_t)1)
#define WOKEN    ((uintptr_t)2)
#define BITS     (WAITED | WOKEN)
#define KEPT     ((uintptr_t)4)

_Static_assert(offsetof(struct usync_mutex, m_owner) == 0
	       && offsetof(struct usync_rwlock, rw_owner) == 0, "see kd_held");

/* The functions tell_*() are the kd_tell of kinds: they describe waits for reports. If
   the object's lock is taken, members that are not atomic are left out. */

static void tell_mutex(const struct uwaiter *w, struct ustack_why *why)
{
	const struct usync_mutex *m = (const struct usync_mutex *)w->w_object;

	uintptr_t holder = __atomic_load_n(&m->m_owner, __ATOMIC_RELAXED) & ~BITS;

	why->wy_holder = holder != KEPT ? holder : 0;
}

/* Takes `m' for the waiter that was woken, if `m' is free or kept for that waiter.
   Returns whether the waiter now has `m'. */
static inline bool arrive(struct usync_mutex *m, uintptr_t *owner, uintptr_t self)
{
	while (!(*owner & ~(BITS | KEPT)))
		if (__atomic_compare_exchange_n(&m->m_owner, owner,
						self | (*owner & WAITED), 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			m->m_passed = 0;
			return true;
		}
	return false;
}

/* Spins for MUTEX_GAP between two reads of m_owner. Each read takes the cache line from
   the owner. */
static void pass_time(void)
{
	int64_t end = uevents_now() + MUTEX_GAP;

	while (uevents_now() < end)
		;
}

/* The kd_again of a mutex: takes the mutex for `w', which was woken as the first waiter,
   or waits once more. */
static int again(struct uwaiter *w, const void *object)
{
	struct usync_mutex *m = (struct usync_mutex *)(uintptr_t)object;
	uintptr_t owner;
	int rc;

	for (int i = 0; i < MUTEX_LOOKS; i++) {
		owner = __atomic_load_n(&m->m_owner, __ATOMIC_RELAXED);
		if (arrive(m, &owner, w->w_name))
			return 0;
		pass_time();
	}
	uwait_lock(&m->m_lock);
	owner = __atomic_load_n(&m->m_owner, __ATOMIC_RELAXED);
	do
		if (arrive(m, &owner, w->w_name)) {
			uwait_unlock(&m->m_lock);
			return 0;
		}
	while (!__atomic_compare_exchange_n(&m->m_owner, &owner,
					    (owner | WAITED) & ~WOKEN, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	rc = w->w_outside ? 0 : usched__error(w->w_thread);
	if (rc) {
		uwait_unlock(&m->m_lock);
		return rc;
	}
	w->w_tag = true;
	return uwait__queue_first(w, &m->m_lock, &m->m_queue);
}

static void tell_rwlock(const struct uwaiter *w, struct ustack_why *why)
{
	struct usync_rwlock *l = (struct usync_rwlock *)(uintptr_t)w->w_object;
	uint32_t readers;

	why->wy_how = w->w_tag ? " to write" : " to read";
	if (!uwait_try_lock(&l->rw_lock))
		return;
	readers = l->rw_readers;
	why->wy_holder = l->rw_owner;
	uwait_unlock(&l->rw_lock);
	if (readers > 0)
		snprintf(why->wy_more, sizeof why->wy_more, ", readers: %lu",
			 (unsigned long)readers);
}

/* Gives `l', if possible, to the first writer, or to the readers before the first writer.
   Returns the queue of these waiters, for finish_all(). */
static struct uwait_queue admit(struct usync_rwlock *l)
{
	struct uwait_queue admitted = { NULL, NULL };
	struct uwait_node *n;

	while (!l->rw_owner && (n = l->rw_queue.q_first)
	       && !(uwait_of(n)->w_tag && l->rw_readers > 0)
	       && l->rw_readers < UINT32_MAX) {
		uwait_remove(&l->rw_queue, n);
		if (!uwait_claim(uwait_of(n)))
			continue;
		if (uwait_of(n)->w_tag)
			l->rw_owner = uwait_of(n)->w_name;
		else
			l->rw_readers++;
		uwait_push(&admitted, n);
	}
	return admitted;
}

/* Finishes all waiters of `q'. Needs no lock, since only the caller uses `q'. */
static void finish_all(struct uwait_queue *q)
{
	struct uwait_node *n;

	while ((n = q->q_first)) {
		uwait_remove(q, n);
		uwait_finish(uwait_of(n), 0);
	}
}

/* The kd_left of a reader-writer lock: after a writer has given up, admits the readers
   behind that writer. */
static void readmit(const void *object)
{
	struct usync_rwlock *l = (struct usync_rwlock *)(uintptr_t)object;
	struct uwait_queue admitted;

	uwait_lock(&l->rw_lock);
	admitted = admit(l);
	uwait_unlock(&l->rw_lock);
	finish_all(&admitted);
}

static void tell_group(const struct uwaiter *w, struct ustack_why *why)
{
	struct usync_group *g = (struct usync_group *)(uintptr_t)w->w_object;
	uint32_t count;

	if (!uwait_try_lock(&g->g_lock))
		return;
	count = g->g_count;
	uwait_unlock(&g->g_lock);
	snprintf(why->wy_more, sizeof why->wy_more, ", not done: %lu",
		 (unsigned long)count);
}

static const struct uwait_kind
	mutex      = { .kd_name = "mutex", .kd_tell = tell_mutex,
		   .kd_again = again, .kd_held = true },
	rwlock = { .kd_name = "reader-writer lock", .kd_tell = tell_rwlock,
		   .kd_left = readmit, .kd_held = true },
	cond       = { .kd_name = "condition" },
	sem        = { .kd_name = "semaphore" },
	group_wait = { .kd_name = "group", .kd_tell = tell_group },
	scope_wait = { .kd_name = "scope", .kd_tell = tell_group },
	never_wait = { .kd_name = "a time that never comes", .kd_sleeps = true };

int64_t usync_after(int64_t ns)
{
	int64_t now = ns < USYNC_SECOND ? uevents_now() : uevents_next_tick();

	if (ns <= 0)
		return now;
	return ns < USCHED_NEVER - now ? now + ns : USCHED_NEVER;
}

UWAIT_CALL int usync_sleep_until(int64_t deadline)
{
	struct uwaiter *w = uwait_prepare(deadline > 0 ? deadline : 1, false);
	int rc = uwait_error(w);

	if (rc)
		return rc;
	if (SIMULATED)
		sim__sleeps(deadline);
	uwait_note(w, &never_wait, NULL, __builtin_return_address(0));
	uwait_begin(w);
	return uwait_block(w);
}

/* Takes `m' if `owner', the value of m_owner, says that `m' is free. Returns whether the
   caller now has `m'. */
static inline bool overtake(struct usync_mutex *m, uintptr_t owner, uintptr_t self)
{
	while (!(owner & ~BITS))
		if (__atomic_compare_exchange_n(&m->m_owner, &owner, self | owner, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Tries MUTEX_LOOKS times to take `m', whose owner may be on another processor. Returns
   whether the caller now has `m'. */
APART static bool look_longer(struct usync_mutex *m, uintptr_t self)
{
	for (int i = 0; i < MUTEX_LOOKS; i++) {
		pass_time();
		if (overtake(m, __atomic_load_n(&m->m_owner, __ATOMIC_RELAXED), self))
			return true;
	}
	__atomic_store_n(&m->m_far, 0, __ATOMIC_RELAXED);
	return false;
}

/* Takes `m', or waits for `m'. Inlined, so that usync_cond_wait() has a small frame. */
__attribute__((always_inline))
static inline int mutex_wait(struct uwaiter *w, struct usync_mutex *m)
{
	uintptr_t owner, next;

	uwait_lock(&m->m_lock);
	owner = __atomic_load_n(&m->m_owner, __ATOMIC_RELAXED);
	do
		next = owner & ~BITS ? owner | WAITED : owner | w->w_name;
	while (!__atomic_compare_exchange_n(&m->m_owner, &owner, next, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	if (owner & ~BITS) {
		w->w_tag = false;
		return uwait_queue_up(w, &m->m_lock, &m->m_queue);
	}
	uwait_unlock(&m->m_lock);
	return 0;
}

/*
 * Mutex. m_owner is the name of the owner or 0, plus bits. Threads change m_owner by
 * compare-and-swap; the owner may also store a value under m_lock. WAITED is set only
 * under m_lock.
 *
 *	name            held
 *	name | WAITED   held, there are waiters
 *	WOKEN           free; the first waiter was woken, and is in no queue
 *	name | WOKEN    held by a thread that overtook the woken waiter
 *	KEPT            kept for the woken waiter, after USYNC_OVERTAKES overtakes
 *
 * WAITED may be set in each state. If the first waiter is on the caller's processor, an
 * unlock hands the mutex to the waiter, since the waiter cannot run before a thread there
 * blocks. A waiter on another processor is woken with AGAIN, and again() tries to take
 * the mutex. If the mutex is not free then, the waiter waits once more, first in the
 * queue and with w_tag set, so that the next unlock hands over the mutex.
 */

/* Takes `m' if `m' is free. Returns 0; -EDEADLK: the caller has `m'; -ETIMEDOUT: `m' is
   not free. */
static inline int take_mutex(struct usync_mutex *m, uintptr_t self)
{
	uintptr_t owner = 0;

	if (__atomic_compare_exchange_n(&m->m_owner, &owner, self, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED) || overtake(m, owner, self))
		return 0;
	return (owner & ~BITS) == self ? -EDEADLK : -ETIMEDOUT;
}

int usync__mutex_try(struct usync_mutex *m)
{
	return take_mutex(m, uwait_name());
}

UWAIT_CALL int usync_mutex_lock(struct usync_mutex *m, int64_t deadline)
{
	uintptr_t self = uwait_name();
	struct uwaiter *w;
	int rc;

	check(m, CHECK_OBJECT, __func__);
	budget_rest();
	rc = take_mutex(m, self);
	if (rc != -ETIMEDOUT)
		return rc;
	if (__atomic_load_n(&m->m_far, __ATOMIC_RELAXED) && deadline > 0
	    && look_longer(m, self))
		return 0;
	w = uwait_prepare(deadline, false);
	rc = uwait_error(w);
	if (rc)
		return rc;
	uwait_note(w, &mutex, m, __builtin_return_address(0));
	return mutex_wait(w, m);
}

/* Hands `m' to the first waiter, or frees `m' and wakes a waiter on another processor.
   Returns false if no thread waits: the caller still has `m', and WAITED is clear. */
static bool pass_mutex(struct usync_mutex *m, uintptr_t self)
{
	struct uwaiter *w;
	uintptr_t owner;
	bool far;

	uwait_lock(&m->m_lock);
	w = uwait_pop(&m->m_queue);
	far = w && !w->w_tag && uwait__is_far(w);
	owner = !w ? self : far ? WOKEN : w->w_name;
	if (w)
		m->m_passed = far;
	if (far)
		__atomic_store_n(&m->m_far, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&m->m_owner, owner | (m->m_queue.q_first ? WAITED : 0),
			 __ATOMIC_RELEASE);
	uwait_unlock(&m->m_lock);
	if (w)
		uwait_finish(w, far ? AGAIN : 0);
	return w;
}

APART static int unlock_waited(struct usync_mutex *m, uintptr_t self, uintptr_t owner)
{
	uintptr_t next;

	do {
		if ((owner & ~BITS) != self)
			return -EPERM;
		if ((owner & BITS) == WAITED) {
			if (pass_mutex(m, self))
				return 0;
			owner = self;
		}
		next = owner & BITS;
		if (next & WOKEN && m->m_passed++ >= USYNC_OVERTAKES)
			next = KEPT | (owner & WAITED);
	} while (!__atomic_compare_exchange_n(&m->m_owner, &owner, next, 0,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	return 0;
}

/*
 * A waiter that gave up may leave WAITED set. The unlock then clears WAITED first. The
 * last access is the one that unlocks the mutex, since another thread may then free the
 * mutex.
 */
int usync_mutex_unlock(struct usync_mutex *m)
{
	uintptr_t self = uwait_name(), owner = self;

	check(m, CHECK_OBJECT, __func__);
	if (__atomic_compare_exchange_n(&m->m_owner, &owner, 0, 0, __ATOMIC_RELEASE,
					__ATOMIC_RELAXED))
		return 0;
	return unlock_waited(m, self, owner);
}

/*
 * Calls take(object, how) under the lock, and waits in the queue if take() returns BUSY.
 * The thread that ends the wait takes the object for the waiter. `how' is true for a
 * writer, and is in w_tag during the wait. Inlined, so that the wait is in the frame of
 * the public call.
 */
__attribute__((always_inline))
static inline int take_or_wait(void *object, struct uwait_lock *lock,
			       struct uwait_queue *q, int (*take)(void *object, bool how),
			       bool how, const struct uwait_kind *kind, const void *where,
			       int64_t deadline)
{
	struct uwaiter *w;
	int rc;

	budget_rest();
	uwait_lock(lock);
	rc = take(object, how);
	uwait_unlock(lock);
	if (rc != BUSY)
		return rc;
	w = uwait_prepare(deadline, false);
	rc = uwait_error(w);
	if (rc)
		return rc;
	w->w_tag = how;
	uwait_note(w, kind, object, where);
	uwait_lock(lock);
	rc = take(object, how);
	if (rc == BUSY)
		return uwait_queue_up(w, lock, q);
	uwait_unlock(lock);
	return rc;
}

/* The take() of a reader-writer lock, to read or to write. */
static int take_rwlock(void *object, bool write)
{
	struct usync_rwlock *l = (struct usync_rwlock *)object;

	if (l->rw_owner || l->rw_queue.q_first)
		return l->rw_owner == uwait_name() ? -EDEADLK : BUSY;
	if (write && l->rw_readers > 0)
		return BUSY;
	if (!write && l->rw_readers == UINT32_MAX)
		return -EOVERFLOW;
	if (write)
		l->rw_owner = uwait_name();
	else
		l->rw_readers++;
	return 0;
}

static int lock_rwlock(struct usync_rwlock *l, bool write, int64_t deadline,
		       const void *where)
{
	return take_or_wait(l, &l->rw_lock, &l->rw_queue, take_rwlock, write, &rwlock,
			    where, deadline);
}

/* Reader-writer lock. All members are under rw_lock. The w_tag of a writer is true. */

UWAIT_CALL int usync_rwlock_read(struct usync_rwlock *l, int64_t deadline)
{
	check(l, CHECK_OBJECT, __func__);
	return lock_rwlock(l, false, deadline, __builtin_return_address(0));
}

UWAIT_CALL int usync_rwlock_write(struct usync_rwlock *l, int64_t deadline)
{
	check(l, CHECK_OBJECT, __func__);
	return lock_rwlock(l, true, deadline, __builtin_return_address(0));
}

int usync_rwlock_unlock(struct usync_rwlock *l)
{
	struct uwait_queue admitted;

	check(l, CHECK_OBJECT, __func__);
	uwait_lock(&l->rw_lock);
	if (l->rw_owner ? l->rw_owner != uwait_name() : l->rw_readers == 0) {
		uwait_unlock(&l->rw_lock);
		return -EPERM;
	}
	if (l->rw_owner)
		l->rw_owner = 0;
	else
		l->rw_readers--;
	admitted = admit(l);
	uwait_unlock(&l->rw_lock);
	finish_all(&admitted);
	return 0;
}

/* Claims all waiters of `q', and returns a queue of them for finish_all(). */
static struct uwait_queue pop_all(struct uwait_queue *q)
{
	struct uwait_queue popped = { NULL, NULL };
	struct uwaiter *w;

	while ((w = uwait_pop(q)))
		uwait_push(&popped, &w->w_node);
	return popped;
}

/*
 * Waits for `c', and then takes `m' in any case. The second wait is not deeper than the
 * first: both are in uwait_queue_up(), called from here. So the image that is reserved
 * before the unlock is enough for both.
 */
APART static int cond_wait(struct uwaiter *w, struct usync_cond *c, struct usync_mutex *m)
{
	int rc = w->w_outside ? 0 : usched__reserve(), shield;
	uintptr_t owner = 0;

	if (rc)
		return rc;
	uwait_lock(&c->cv_lock);
	usync_mutex_unlock(m);
	rc = uwait_queue_up(w, &c->cv_lock, &c->cv_queue);
	if (__atomic_compare_exchange_n(&m->m_owner, &owner, w->w_name, 0,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return rc;
	shield = ustack_shield(1);
	w->w_deadline = USCHED_NEVER;
	w->w_counts = false;
	uwait_note(w, &mutex, m, w->w_where);
	while (mutex_wait(w, m))
		;
	ustack_shield(shield);
	return rc;
}

/* Condition. */

UWAIT_CALL int usync_cond_wait(struct usync_cond *c, struct usync_mutex *m,
			       int64_t deadline)
{
	struct uwaiter *w;
	int rc;

	check(c, CHECK_OBJECT, __func__);
	check(m, CHECK_OBJECT, __func__);
	if ((__atomic_load_n(&m->m_owner, __ATOMIC_RELAXED) & ~BITS) != uwait_name())
		return -EPERM;
	w = uwait_prepare(deadline, false);
	rc = uwait_error(w);
	if (rc)
		return rc;
	uwait_note(w, &cond, c, __builtin_return_address(0));
	return cond_wait(w, c, m);
}

void usync_cond_signal(struct usync_cond *c)
{
	struct uwaiter *w;

	check(c, CHECK_OBJECT, __func__);
	uwait_lock(&c->cv_lock);
	w = uwait_pop(&c->cv_queue);
	uwait_unlock(&c->cv_lock);
	if (w)
		uwait_finish(w, 0);
}

void usync_cond_broadcast(struct usync_cond *c)
{
	struct uwait_queue list;

	check(c, CHECK_OBJECT, __func__);
	uwait_lock(&c->cv_lock);
	list = pop_all(&c->cv_queue);
	uwait_unlock(&c->cv_lock);
	finish_all(&list);
}

/* Semaphore. While there are waiters the count is 0. */

static int take_sem(void *object, bool unused)
{
	struct usync_sem *s = (struct usync_sem *)object;

	(void)unused;
	if (s->sm_count == 0)
		return BUSY;
	s->sm_count--;
	return 0;
}

UWAIT_CALL int usync_sem_wait(struct usync_sem *s, int64_t deadline)
{
	check(s, CHECK_OBJECT, __func__);
	return take_or_wait(s, &s->sm_lock, &s->sm_queue, take_sem, false, &sem,
			    __builtin_return_address(0), deadline);
}

int usync_sem_post(struct usync_sem *s)
{
	struct uwaiter *w;
	int rc = 0;

	check(s, CHECK_OBJECT, __func__);
	uwait_lock(&s->sm_lock);
	w = uwait_pop(&s->sm_queue);
	if (!w && s->sm_count == UINT32_MAX)
		rc = -EOVERFLOW;
	else if (!w)
		s->sm_count++;
	uwait_unlock(&s->sm_lock);
	if (w)
		uwait_finish(w, 0);
	return rc;
}

/* Group. */

int usync_group_add(struct usync_group *g, uint32_t n)
{
	int rc = 0;

	check(g, CHECK_OBJECT, __func__);
	uwait_lock(&g->g_lock);
	if (n > UINT32_MAX - g->g_count)
		rc = -EOVERFLOW;
	else
		g->g_count += n;
	uwait_unlock(&g->g_lock);
	return rc;
}

int usync_group_done(struct usync_group *g)
{
	struct uwait_queue list = { NULL, NULL };
	int rc = 0;

	check(g, CHECK_OBJECT, __func__);
	uwait_lock(&g->g_lock);
	if (g->g_count == 0)
		rc = -EINVAL;
	else if (--g->g_count == 0)
		list = pop_all(&g->g_queue);
	uwait_unlock(&g->g_lock);
	finish_all(&list);
	return rc;
}

static int look_at_group(void *object, bool unused)
{
	(void)unused;
	return ((struct usync_group *)object)->g_count > 0 ? BUSY : 0;
}

UWAIT_CALL int usync_group_wait(struct usync_group *g, int64_t deadline)
{
	check(g, CHECK_OBJECT, __func__);
	return take_or_wait(g, &g->g_lock, &g->g_queue, look_at_group, false,
			    &group_wait, __builtin_return_address(0), deadline);
}

UWAIT_CALL int usync__scope_wait(struct usync_group *g, const void *where,
				 int64_t deadline)
{
	return take_or_wait(g, &g->g_lock, &g->g_queue, look_at_group, false,
			    &scope_wait, where, deadline);
}

/* Keys. The values of a thread are in a list, since a thread has few. */

static struct uwait_value *find_value(const struct uwaiter *w,
				      const struct usync_key *key)
{
	struct uwait_value *v = w && w->w_more ? w->w_more->mr_values : NULL;

	while (v && v->vl_key != key)
		v = v->vl_next;
	return v;
}

int usync_key_set(const struct usync_key *key, void *value)
{
	struct uwaiter *w = uwait_self();
	struct uwait_value *v = find_value(w, key);

	check(key, CHECK_OBJECT, __func__);
	if (!v && w && !value)
		return 0;
	if (!v) {
		if (!w || (!w->w_more && !uwait_room(w, 0)))
			return -ENOMEM;
		v = (struct uwait_value *)malloc(sizeof *v);
		if (!v)
			return -ENOMEM;
		v->vl_next = w->w_more->mr_values;
		v->vl_key = key;
		v->vl_destroy = key->ky_destroy;
		w->w_more->mr_values = v;
	}
	v->vl_value = value;
	return 0;
}

void *usync__key_of(const struct ustack *u, const struct usync_key *key)
{
	const struct uwait_value *v = find_value(uwait__attached(u), key);

	return v ? v->vl_value : NULL;
}

void *usync_key_get(const struct usync_key *key)
{
	const struct uwait_value *v = find_value(uwait_self(), key);

	check(key, CHECK_OBJECT, __func__);
	return v ? v->vl_value : NULL;
}
