/* SPDX-License-Identifier: MIT */
/*
 * uwait.c: waiters. A waiter has these states (in wait.h: WAIT_IDLE and so on). An arrow
 * has the call that changes the state; below is who makes the call:
 *
 *	IDLE --uwait_begin()--> WAITING --uwait_claim()--> WAKING --uwait_finish()--> IDLE
 *	       the waiter        |   ^   one granter                that granter
 *	                        LOOKED   describe()
 *
 * If there may be no need to block, the waiter is AWAKE first, and looks at w_state:
 *
 *	IDLE --uwait__begin_awake()--> AWAKE --claim--> GIVING --finish--> IDLE
 *	                              AWAKE --uwait__linger()--> WAITING
 *
 * The thread of a waiter goes on, and may end, only when w_state is IDLE: from then on no
 * other thread uses the waiter.
 *
 * Invariants
 *  - A waiter is granted under the lock of a queue that has the waiter. A deadline or a
 *    cancel grants the waiter on the waiter's native thread. So no grant is for a wait
 *    that is over.
 *  - A grant sends one wake. If another wake has ended the block, the thread blocks again
 *    and later gives back the token of that wake. So a program may use wakes, too. If a
 *    thread has no memory to block, and is granted all the same, no block takes the wake
 *    of the grant. Then w_owed counts the wake for the next wait.
 *  - No wake is sent to a waiter that was AWAKE when claimed, since its thread does not
 *    block. Cancels and timers are taken in only by dispatches, so none comes while a
 *    waiter is AWAKE.
 *  - Most of the memory of a blocked thread is its frames. So, if possible, callers end
 *    in a jump to this file, and keep little during the block. The unusual cases are in
 *    settle_wait(), which is also reached by a jump.
 *  - An object may be freed once a wait for it was granted. So while describe() reads the
 *    object the state is LOOKED, and a claim waits until the state is WAITING again.
 *  - In a join with a deadline the scheduler blocks the thread, and w_state stays IDLE.
 *    The timer, a cancel and the end of a scope end the join by s_interrupt;
 *    uwait__end_of() and w_late tell these causes apart.
 */
#define USCHED_INLINE_SWITCH    /* so functions that wait are not inlined: uswitch.h */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "../core/core.h"
#include "../base/check.h"
#include "wait.h"

enum {
	ALIGN = 8,                      /* bytes: rooms are multiples of this */
	FEW   = 8,                      /* waiters among which a simulation chooses */
	ROUNDS = 4,                     /* rounds of destructors of keys, as POSIX asks */
};

void uwait_remove(struct uwait_queue *q, struct uwait_node *n)
{
	struct uwait_node *prev = n->n_prev == n ? NULL : n->n_prev;

	if (!n->n_prev)
		return;
	if (prev)
		prev->n_next = n->n_next;
	else
		q->q_first = n->n_next;
	if (n->n_next)
		n->n_next->n_prev = prev ? prev : n->n_next;
	else
		q->q_last = prev;
	n->n_prev = NULL;
}

/* Returns the result of a wait that is over. `q' is the queue in which uwait_queue_up()
   has put `w', or NULL. After an error takes `w' out of `q'. */
int uwait__outcome(struct uwaiter *w, struct uwait_lock *lock, struct uwait_queue *q)
{
	const struct uwait_kind *kind = w->w_kind;

	if (q && w->w_result < 0) {
		uwait_lock(lock);
		uwait_remove(q, &w->w_node);
		uwait_unlock(lock);
		if (kind && kind->kd_left)
			kind->kd_left(w->w_object);
	}
	if (q && w->w_result > 0 && kind && kind->kd_again)
		return kind->kd_again(w, w->w_object);
	return w->w_result;
}

/* Returns the result of a wait whose deadline has come. */
int uwait__late(const struct uwaiter *w)
{
	return w->w_kind && w->w_kind->kd_sleeps && !w->w_clipped ? 0 : -ETIMEDOUT;
}

static struct uwaiter *waiter_of(struct ustack_attachment *l)
{
	return (struct uwaiter *)(void *)l;
}

/* Calls the destructors of keys. A destructor may set new values, which are put first in
   the list, so the next round finds them. */
static void destroy_values(struct uwaiter *w)
{
	bool more = true;

	for (int round = 0; more && round < ROUNDS; round++) {
		more = false;
		for (struct uwait_value *v = w->w_more->mr_values; v; v = v->vl_next) {
			void *value = v->vl_value;

			v->vl_value = NULL;
			if (!value || !v->vl_destroy)
				continue;
			more = true;
			v->vl_destroy(value);
		}
	}
}

static void end_waiter(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	uwait__leave_scopes(w);
	if (w->w_more)
		destroy_values(w);
}

static int error_of(const struct ustack_attachment *l)
{
	return uwait__end_of((const struct uwaiter *)(const void *)l);
}

static int is_cancelled(const struct ustack_attachment *l)
{
	return ((const struct uwaiter *)(const void *)l)->w_cancelled;
}

bool uwait_claim(struct uwaiter *w)
{
	uint8_t state = WAIT_WAITING;
	unsigned spins = 0;

	while (!__atomic_compare_exchange_n(&w->w_state, &state,
					    state == WAIT_WAITING ? WAIT_WAKING
								  : WAIT_GIVING,
					    0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		if (state == WAIT_LOOKED) {
			relax(&spins);
			state = WAIT_WAITING;
		} else if (state != WAIT_WAITING && state != WAIT_AWAKE) {
			return false;
		}
	}
	return true;
}

void uwait_finish(struct uwaiter *w, int result)
{
	struct uwait_native *n = native_of(w);

	w->w_result = result;
	if (!w->w_outside) {
		if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) == WAIT_WAKING)
			ustack_wake(w->w_thread);
		__atomic_store_n(&w->w_state, WAIT_IDLE, __ATOMIC_RELEASE);
		return;
	}
	pthread_mutex_lock(&n->wn_lock);
	__atomic_store_n(&w->w_state, WAIT_IDLE, __ATOMIC_RELEASE);
	if (n->wn_polls)
		n->wn_events->e_interrupt(n->wn_events);
	else
		pthread_cond_signal(&n->wn_granted);
	pthread_mutex_unlock(&n->wn_lock);
}

static void cancel_waiter(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	if (!w->w_cancelled && w->w_more)
		w->w_more->mr_when = uevents_now();
	w->w_cancelled = true;
	if (!w->w_shield && !w->w_joins && uwait_claim(w))
		uwait_finish(w, -ECANCELED);
}

static void disarm(struct uwaiter *w)
{
	struct uevents *e = usched__of(w->w_thread)->s_events;

	if (w->w_expiry.x_prev)
		e->e_disarm(e, &w->w_expiry);
}

/*
 * Called when the thread is to leave this dispatcher. Disarms the timer, and no longer
 * counts a wait that was granted but is not over yet. Returns 1; 0: the thread still
 * waits, and nothing was done.
 */
static int move_on(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);

	if (w->w_joins || __atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE)
		return 0;
	disarm(w);
	uncount(w);
	return 1;
}

void uwait__free_more(struct uwaiter *w)
{
	struct uwait_value *v = w->w_more ? w->w_more->mr_values : NULL, *next;

	for (; v; v = next) {
		next = v->vl_next;
		free(v);
	}
	free(w->w_more);
}

static void free_waiter(struct ustack_attachment *l)
{
	struct uwaiter *w = waiter_of(l);
	struct usched *s = usched__of(w->w_thread);

	uncount(w);                             /* the thread was aborted in the wait */
	uwait__leave_scopes(w);
	disarm(w);
	if (w->w_more && w->w_more->mr_inside)
		s->s_coroutines->cc_abandon(w->w_more->mr_inside, w->w_thread);
	uwait__free_more(w);
	s->s_calls.s_free(s, w->w_thread, w, w->w_size);
}

/* Describes the wait, unless this is a join: the scheduler describes joins. */
static void describe(struct ustack_attachment *l, struct ustack_why *why)
{
	struct uwaiter *w = waiter_of(l);
	const struct uwait_kind *kind = w->w_kind;
	uint8_t state = WAIT_WAITING;

	if (w->w_joins)
		return;
	if (!__atomic_compare_exchange_n(&w->w_state, &state, WAIT_LOOKED, 0,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		why->wy_woken = state == WAIT_WAKING || state == WAIT_GIVING;
		return;
	}
	why->wy_where = w->w_where;
	why->wy_kind = "a grant";
	if (kind) {
		why->wy_kind = kind->kd_name;
		why->wy_how = kind->kd_how ? kind->kd_how : "";
		why->wy_object = w->w_object;
		why->wy_number = kind->kd_number;
		if (kind->kd_sleeps && !kind->kd_number && w->w_deadline != USCHED_NEVER)
			why->wy_kind = "a time";
	}
	if (kind && kind->kd_tell)
		kind->kd_tell(w, why);
	__atomic_store_n(&w->w_state, WAIT_WAITING, __ATOMIC_RELEASE);
}

/* Not static: other files know by its address that an attachment is a waiter. */
const struct ustack_attachment_ops uwait__ops = {
	.ao_end = end_waiter, .ao_error = error_of, .ao_cancelled = is_cancelled,
	.ao_cancel = cancel_waiter, .ao_leave = move_on,
	.ao_free = free_waiter, .ao_describe = describe,
};

/* Makes a waiter. Its memory is from s_alloc, and goes back to the system. */
static struct uwaiter *new_waiter(void)
{
	struct ustack *u = ustack_self();
	struct usched *s = usched__of(u);
	size_t size = sizeof(struct uwaiter);
	struct uwaiter *w = (struct uwaiter *)s->s_calls.s_alloc(s, u, &size);

	if (!w)
		return NULL;
	memset(w, 0, sizeof *w);
	w->w_attachment.a_ops = &uwait__ops;
	w->w_thread = u;
	w->w_size = (uint32_t)size;
	w->w_cancelled = u->u_cancelled;
	usched__attach(&w->w_attachment);
	return w;
}

struct uwaiter *uwait_self(void)
{
	struct ustack *u = ustack_self();

	if (!u)
		return uwait__native();
	return u->u_attached ? waiter_of(u->u_attachment) : new_waiter();
}

/* Returns the spell of the running thread (budget.h). After a switch this is a new spell.
   NULL: no thread runs. */
static struct usched_spell *spell_now(void)
{
	struct usched *s = usched__here();
	struct usched_spell *l = &s->s_spell;

	if (!s->s_current)
		return NULL;
	if (l->sp_switches != (uint32_t)s->s_stats.st_switches) {
		l->sp_switches = (uint32_t)s->s_stats.st_switches;
		l->sp_calls = 0;
		l->sp_since = 0;
	}
	return l;
}

/* Looks at the clock. Returns the ns since the last look in this spell; 0: this is the
   first look; BUDGET_SPELL_OVER: the thread has to yield. */
static int32_t look_at_clock(struct usched_spell *l)
{
	int64_t now = uevents_now(), gap = l->sp_since ? now - l->sp_looked : 0;

	l->sp_looked = now;
	if (gap == 0)
		l->sp_since = now;
	return now - l->sp_since < BUDGET_SPELL ? (int32_t)gap : BUDGET_SPELL_OVER;
}

APART static bool look_tired(struct usched_spell *l)
{
	if (l->sp_calls > BUDGET_CALLS_MAX)
		l->sp_calls = BUDGET_CALLS_MAX;
	return look_at_clock(l) == BUDGET_SPELL_OVER || l->sp_calls == BUDGET_CALLS_MAX;
}

BY_THREADS bool usched__is_tired(void)
{
	struct usched_spell *l = spell_now();

	return l && ++l->sp_calls > BUDGET_CALLS_FREE && look_tired(l);
}

BY_THREADS bool usched__is_over(void)
{
	struct usched_spell *l = spell_now();
	int32_t gap = look_at_clock(l);

	l->sp_left = gap > BUDGET_LOCKS_LONG ? 0 : BUDGET_LOCKS - 1;
	return gap == BUDGET_SPELL_OVER;
}

int usched__yield_tired(int64_t deadline)
{
	struct usched_spell *l;
	int rc, before;

	if (SIMULATED && !sim__tires())
		return deadline > 0 ? usched__error(usched__current->s_current) : 0;
	rc = ustack_yield();
	if (rc == -ECANCELED && (before = ustack_shield(1)) >= 0) {
		ustack_yield();
		ustack_shield(before);
	}
	l = spell_now();
	if (l) {
		l->sp_calls = BUDGET_CALLS_FREE;
		l->sp_left = 0;
		l->sp_since = l->sp_looked = uevents_now();
	}
	return rc == -ECANCELED && deadline > 0 ? rc : 0;
}

BY_THREADS bool usched__tires(struct budget *b)
{
	struct usched_spell *l = spell_now();
	int32_t gap = l ? look_at_clock(l) : 0;
	unsigned calls = b->bu_calls, pace = b->bu_pace ? b->bu_pace : 1;
	unsigned passed = calls - b->bu_looked;

	if (gap > BUDGET_PACE_LONG)
		pace = 1;
	else if (gap > 0 && (unsigned)gap * pace < BUDGET_PACE_SHORT * passed
		 && pace < BUDGET_PACE_MAX)
		pace *= 2;
	b->bu_pace = (uint8_t)pace;
	b->bu_looked = (uint8_t)calls;
	calls += gap == 0 ? 1 : pace;           /* 0: a first look, which has no gap */
	b->bu_next = (uint8_t)(calls < BUDGET_MAX ? calls : BUDGET_MAX);
	if (gap != BUDGET_SPELL_OVER && b->bu_calls < BUDGET_MAX)
		return false;
	budget_renew(b);
	b->bu_calls = gap == BUDGET_SPELL_OVER; /* counts the call that yields */
	return true;
}

BY_THREADS uintptr_t uwait_name(void)
{
	struct ustack *u = usched__current->s_current;

	if (CHECKING || !u
	    || !(__atomic_load_n(&u->u_mail, __ATOMIC_RELAXED) & USTACK_KNOWN))
		u = ustack_self();
	return u ? (uintptr_t)u : (uintptr_t)pthread_self();
}

#ifdef USCHED_CHECK
enum {
	CLOCK_STEP = 1000000000,        /* ns: more than a step of a coarse clock */
	IDIOM      = 1000,              /* ns: a deadline below this means the past */
};

static int64_t began;                   /* ns: no deadline of the program is earlier */

__attribute__((constructor)) static void note_beginning(void)
{
	began = uevents_now() - CLOCK_STEP;
}

void uwait__check_deadline(int64_t deadline)
{
	static bool told;
	const struct ustack *u = usched__here()->s_current;

	if (deadline < IDIOM || deadline >= began
	    || __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	fprintf(stderr, "usched: ");
	if (u && OBSERVER(ob_introduce))
		OBSERVER(ob_introduce)(u);
	else
		fprintf(stderr, "a native thread");
	fprintf(stderr, " waits until %" PRId64 " ns, which was before the program "
		"began: deadlines are times of CLOCK_MONOTONIC, as usync_after() gives "
		"them\n", deadline);
}
#endif

static struct uwaiter *no_waiter(int rc)
{
	return (struct uwaiter *)(intptr_t)rc;
}

struct uwaiter *uwait_prepare(int64_t deadline, bool outside)
{
	struct uevents *e;
	struct uwaiter *w;
	int rc;

	uwait__check_deadline(deadline);
	if (deadline <= 0)
		return no_waiter(-ETIMEDOUT);
	w = uwait_self();
	if (!w)
		return no_waiter(-ENOMEM);
	w->w_deadline = deadline;
	w->w_kind = NULL;
	w->w_counts = false;
	w->w_clipped = false;
	if (w->w_outside) {
		native_of(w)->wn_polls = false;
		rc = w->w_scoped ? uwait__look_around(w) : 0;
		return rc ? no_waiter(rc) : w;
	}
	if (w->w_thread->u_cancelled) {
		rc = uwait__look_around(w);
		if (rc)
			return no_waiter(rc);
		deadline = w->w_deadline;
	}
	if (!outside && deadline == USCHED_NEVER)
		return w;
	rc = uevents_of(usched__of(w->w_thread), &e);
	if (rc)
		return no_waiter(rc);
	w->w_counts = true;
	return w;
}

int uwait__events(struct uwaiter *w, struct uevents **e)
{
	struct uwait_native *n = native_of(w);
	int rc = 0;

	if (!w->w_outside) {
		*e = usched__of(w->w_thread)->s_events;
		return 0;
	}
	if (!n->wn_events)
		rc = uevents_create(&n->wn_events);
	/* Only the first call in a wait writes wn_polls: a granter may read wn_polls as
	   soon as a node is queued. */
	if (rc == 0 && !n->wn_polls)
		n->wn_polls = true;
	*e = n->wn_events;
	return rc;
}

void uwait_begin(struct uwaiter *w)
{
	/* Granters take the queue's lock. Threads that end scopes do not, so they need
	   the release. */
	__atomic_store_n(&w->w_state, WAIT_WAITING, __ATOMIC_RELEASE);
}

void uwait__begin_awake(struct uwaiter *w)
{
	__atomic_store_n(&w->w_state, w->w_outside ? WAIT_WAITING : WAIT_AWAKE,
			 __ATOMIC_RELEASE);
}

bool uwait__linger(struct uwaiter *w)
{
	uint8_t state = WAIT_AWAKE;
	unsigned spins = 0;
	struct usched *s;

	if (w->w_outside)
		return false;
	s = usched__of(w->w_thread);
	if ((!s->s_linger || !s->s_linger(s, &w->w_state, WAIT_AWAKE))
	    && __atomic_compare_exchange_n(&w->w_state, &state, WAIT_WAITING, 0,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE)
		relax(&spins);
	return true;
}

void *uwait_room(struct uwaiter *w, size_t size)
{
	struct uwait_more *more = w->w_more;
	bool first = !more;

	if (more && size <= more->mr_size)
		return more + 1;
	if (size > SIZE_MAX - ALIGN - sizeof *more)
		return NULL;
	size = (size + ALIGN - 1) / ALIGN * ALIGN;
	more = (struct uwait_more *)realloc(more, sizeof *more + size);
	if (!more)
		return NULL;
	if (first)
		memset(more, 0, sizeof *more);
	more->mr_size = size;
	w->w_more = more;
	return more + 1;
}

static void arm(struct uwaiter *w);

static void expired(struct uexpiry *x)
{
	struct uwaiter *w = (struct uwaiter *)(void *)
		((char *)x - offsetof(struct uwaiter, w_expiry));
	struct usched *s = usched__of(w->w_thread);

	if (!w->w_joins && __atomic_load_n(&w->w_state, __ATOMIC_RELAXED) != WAIT_WAITING)
		return;
	if (w->w_deadline > x->x_when) {
		arm(w);                         /* an earlier wait armed the timer */
	} else if (w->w_joins) {
		w->w_late = true;
		s->s_calls.s_interrupt(s, w->w_thread);
	} else if (uwait_claim(w)) {
		uwait_finish(w, uwait__late(w));
	}
}

/* Arms the timer for the deadline. If the timer is armed for an earlier time, expired()
   arms it anew. */
static void arm(struct uwaiter *w)
{
	struct uevents *e = usched__of(w->w_thread)->s_events;
	struct uexpiry *x = &w->w_expiry;

	if (w->w_deadline == USCHED_NEVER || (x->x_prev && x->x_when <= w->w_deadline))
		return;
	disarm(w);
	x->x_when = w->w_deadline;
	e->e_arm(e, x, expired);
}

/* Called before a block. If w_counts, arms the timer, and counts the wait
   (uevents_count()). If a scope of `w' has ended, ends the wait. */
APART void uwait__expect(struct uwaiter *w)
{
	if (w->w_counts) {
		arm(w);
		w->w_counted = true;
		uevents_count(usched__of(w->w_thread)->s_events, 1);
	}
	if (w->w_scoped && !w->w_joins)
		uwait__look_back(w);
}

bool uwait_withdraw(struct uwaiter *w)
{
	uint8_t state = WAIT_WAITING;

	return __atomic_compare_exchange_n(&w->w_state, &state, WAIT_IDLE, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Ends a wait after its first block has returned `rc', in all but the usual case. */
APART static int settle_wait(struct uwaiter *w, int rc, struct uwait_lock *lock,
			     struct uwait_queue *q)
{
	int blocks = -(int)w->w_owed;
	unsigned spins = 0;

	for (;; rc = ustack_wait()) {
		blocks += !rc;
		/* Errors come only if no image or too small an image was reserved: R4. */
		if (rc && uwait_withdraw(w)) {
			w->w_result = rc;
			blocks++;               /* no wake will come for this block */
		}
		if (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_WAITING)
			break;
	}
	uncount(w);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE)
		relax(&spins);
	for (; blocks > 1; blocks--)
		ustack_wake(w->w_thread);
	w->w_owed = (uint8_t)(1 - blocks < UINT8_MAX ? 1 - blocks : UINT8_MAX);
	return uwait__outcome(w, lock, q);
}

/* Blocks until the wait is over. In most cases the only wake is that of the granter. */
__attribute__((always_inline))
static inline int block_waiter(struct uwaiter *w, struct uwait_lock *lock,
			       struct uwait_queue *q)
{
	int rc;

	if (w->w_outside)
		return uwait__block_natively(w, lock, q);
	if (w->w_counts || w->w_scoped)
		uwait__expect(w);
	rc = ustack_wait();
	if (rc || w->w_owed || __atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != WAIT_IDLE
	    || (lock ? w->w_result != 0 : w->w_result < 0))
		return settle_wait(w, rc, lock, q);
	uncount(w);
	return w->w_result;
}

UWAIT_CALL int uwait_block(struct uwaiter *w)
{
	if (!w->w_kind)
		w->w_where = __builtin_return_address(0);
	return block_waiter(w, NULL, NULL);
}

void uwait_push(struct uwait_queue *q, struct uwait_node *n)
{
	n->n_next = NULL;
	n->n_prev = q->q_last ? q->q_last : n;
	if (q->q_last)
		q->q_last->n_next = n;
	else
		q->q_first = n;
	q->q_last = n;
}

UWAIT_CALL int uwait_queue_up(struct uwaiter *w, struct uwait_lock *lock,
			      struct uwait_queue *q)
{
	if (!w->w_kind)
		w->w_where = __builtin_return_address(0);
	uwait_begin(w);
	uwait_push(q, &w->w_node);
	uwait_unlock(lock);
	return block_waiter(w, lock, q);
}

UWAIT_CALL int uwait__queue_first(struct uwaiter *w, struct uwait_lock *lock,
				 struct uwait_queue *q)
{
	struct uwait_node *n = &w->w_node;

	uwait_begin(w);
	n->n_next = q->q_first;
	n->n_prev = n;
	if (q->q_first)
		q->q_first->n_prev = n;
	else
		q->q_last = n;
	q->q_first = n;
	uwait_unlock(lock);
	return block_waiter(w, lock, q);
}

int ustack_shield(int on)
{
	struct uwaiter *w = uwait_self();
	struct uwait_member *m;
	int before;

	if (!w)
		return -ENOMEM;
	before = w->w_shield;
	for (m = w->w_scoped ? w->w_more->mr_inner : NULL; m; m = m->wm_outer) {
		uwait_lock(&m->wm_scope->ws_lock);
		m->wm_shield = on;
		uwait_unlock(&m->wm_scope->ws_lock);
	}
	w->w_shield = on;
	return before;
}

void uwait__uncancel(void)
{
	struct ustack *u = ustack_self();
	struct uwaiter *w = u ? uwait__attached(u) : NULL;

	if (w)
		w->w_cancelled = false;
	if (u)
		u->u_cancelled = w && w->w_scoped;
}

bool uwait__is_far(const struct uwaiter *w)
{
	return __atomic_load_n(&w->w_state, __ATOMIC_RELAXED) == WAIT_GIVING
		|| w->w_outside || usched__of(w->w_thread) != usched__here();
}

/* Returns the first node; in a simulation of POSIX threads one of the first FEW. */
static struct uwait_node *first_of(const struct uwait_queue *q)
{
	struct uwait_node *n = q->q_first;
	size_t count = 0;

	if (!SIMULATED)
		return n;
	for (; n && count < FEW; n = n->n_next)
		count++;
	n = q->q_first;
	for (count = count > 1 ? sim__woken(count) : 0; count > 0; count--)
		n = n->n_next;
	return n;
}

struct uwaiter *uwait_pop(struct uwait_queue *q)
{
	struct uwait_node *n;

	do {
		n = first_of(q);
		if (!n)
			return NULL;
		uwait_remove(q, n);
	} while (!uwait_claim(uwait_of(n)));
	return uwait_of(n);
}

struct uwait_place *uwait__pop_place(struct uwait_queue *q)
{
	struct uwait_place *p;

	do {
		p = (struct uwait_place *)(void *)q->q_first;
		if (!p)
			return NULL;
		uwait_remove(q, &p->wp_node);
	} while (!uwait_claim(p->wp_waiter));
	return p;
}

void uwait_lock_slow(struct uwait_lock *l)
{
	unsigned spins = 0;

	do {
		while (__atomic_load_n(&l->wl_held, __ATOMIC_RELAXED))
			relax(&spins);
	} while (__atomic_exchange_n(&l->wl_held, 1, __ATOMIC_ACQUIRE));
}
