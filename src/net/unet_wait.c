/* SPDX-License-Identifier: MIT */
/*
 * unet_wait.c: how calls on descriptors wait. If a call finds its descriptor not ready,
 * it blocks in net_block() of src/net/net.h. net_block() calls unet__begin_wait() to
 * enter the queue, and unet__end_wait() after the wait. Events call unet__ready(). The
 * invariants are in src/net/net.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* POLLRDHUP, nanosleep() */
#endif
#include <sched.h>
#include <time.h>

#include "../../arch/arch.h"
#include "../wait/wait.h"
#include "net.h"

static bool *doubted;                           /* atomic: `found' of unet__doubt() */

/* The kinds of waits by direction, for reports. */
static const struct uwait_kind descriptor_waits[] = {
	[NET_IN]  = { .kd_name = "descriptor", .kd_how = " to read", .kd_number = true },
	[NET_OUT] = { .kd_name = "descriptor", .kd_how = " to write", .kd_number = true },
};

enum {
	ENDS    = UEVENTS_HANGUP | UEVENTS_ERROR,
	LASTING = UEVENTS_PEER_END | UEVENTS_URGENT | ENDS,
	INPUTS  = UEVENTS_INPUT | LASTING,
	OUTPUTS = UEVENTS_OUTPUT | ENDS,
};

static inline struct uwait_node *marked(struct net_place *p)
{
	return (struct uwait_node *)(void *)((char *)p + 1);
}

/*
 * Queues are changed under d_lock. A queue is a pointer to its first node, whose n_prev
 * points to the last node. A pointer with bit 0 set points to a struct net_place, the
 * node of a poll or a select. A pointer without that bit points to the w_node of a call.
 */
static inline bool is_marked(const struct uwait_node *n)
{
	return (uintptr_t)n & 1;
}

static inline struct uwait_node *plain(struct uwait_node *n)
{
	return is_marked(n) ? (struct uwait_node *)(void *)((char *)n - 1) : n;
}

static inline struct uwaiter *node_waiter(struct uwait_node *n)
{
	return is_marked(n) ? ((struct uwait_place *)(void *)plain(n))->wp_waiter
			    : uwait_of(n);
}

static inline bool is_lined(const struct descriptor *d)
{
	return __atomic_load_n(&d->d_writing, __ATOMIC_RELAXED) == NET_LINED;
}

APART static void push_beside(struct uwait_node **first, struct uwait_node *n,
			      bool in_front)
{
	struct uwait_node *next = *first;

	plain(n)->n_prev = plain(next)->n_prev;
	plain(next)->n_prev = n;
	if (in_front) {
		plain(n)->n_next = next;
		*first = n;
	} else {
		plain(plain(n)->n_prev)->n_next = n;
	}
}

static inline void push_node(struct uwait_node **first, struct uwait_node *n,
			     bool in_front)
{
	plain(n)->n_next = NULL;
	plain(n)->n_prev = n;
	if (*first)
		push_beside(first, n, in_front);
	else
		*first = n;
}

/* Takes n out of the queue, if n is in the queue. */
static void pull_node(struct uwait_node **first, struct uwait_node *n)
{
	struct uwait_node *next = plain(n)->n_next, *prev = plain(n)->n_prev;

	if (!prev)
		return;
	plain(n)->n_prev = NULL;
	if (n == *first)
		*first = next;
	else
		plain(prev)->n_next = next;
	if (next)
		plain(next)->n_prev = prev;
	else if (*first)
		plain(*first)->n_prev = prev;
}

/* Frees d_writing if it is reserved. Called under d_lock, when no thread waits to write
   or has the turn to write. */
static void end_line(struct descriptor *d)
{
	uint8_t lined = NET_LINED;

	__atomic_compare_exchange_n(&d->d_writing, &lined, NET_FREE, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static void add_told(struct told *told, struct uwait_node *n)
{
	plain(n)->n_next = told->to_others;
	told->to_others = n;
}

/* Finishes the claimed waits. to_taker gets to_result, the other waiters get `result'. */
void unet__tell(const struct told *told, int result)
{
	struct uwait_node *n = told->to_others, *next;

	for (; n; n = next) {
		next = plain(n)->n_next;
		uwait_finish(node_waiter(n), result);
	}
	if (told->to_taker)
		uwait_finish(told->to_taker, told->to_result);
}

void unet__doubt(bool *found)
{
	__atomic_store_n(&doubted, found, __ATOMIC_RELAXED);
}

/* Waiting. */

/*
 * Takes out of the queue the first call, and the polls before it that want these events.
 * If `polls' is set, takes out all polls that want these events, and no call. Adds the
 * polls that it claims to *told. Returns the claimed call, or NULL. Called under d_lock.
 */
static struct uwait_node *pop_waiters(struct descriptor *d, int direction,
				      unsigned events, bool polls, struct told *told)
{
	struct uwait_node *n = d->d_first[direction], *next;

	for (; n; n = next) {
		next = plain(n)->n_next;
		if (!is_marked(n) ? polls : !(events & (ENDS
				| ((struct net_place *)(void *)plain(n))->np_ways)))
			continue;
		pull_node(&d->d_first[direction], n);
		if (!uwait_claim(node_waiter(n)))
			continue;
		if (!is_marked(n))
			break;
		add_told(told, n);
	}
	return n;
}

/* Claims polls and the first call. The call gets the turn if it writes or if more waiters
   follow. Called under d_lock. */
static void wake_first(struct descriptor *d, int direction, unsigned events,
		       struct told *told)
{
	struct uwait_node *n = pop_waiters(d, direction, events, false, told);

	if (n && (direction == NET_OUT || d->d_first[direction])) {
		d->d_turns[direction] = NET_GIVEN;
		set_ready(d, direction, false);
		told->to_result = NET_READY_TURN;
	} else if (n) {
		told->to_result = NET_READY;
	} else if (direction == NET_OUT) {
		end_line(d);
	}
	told->to_taker = n ? uwait_of(n) : NULL;
}

/* Records that the descriptor is ready, and claims waiters. Called under d_lock. */
static void now_ready(struct descriptor *d, int direction, unsigned events,
		      struct told *told)
{
	unsigned turn = d->d_turns[direction];

	if (turn == NET_GIVEN)
		return;                         /* the thread with the turn will try */
	set_ready(d, direction, true);
	if (turn == NET_NO_TURN && d->d_first[direction])
		wake_first(d, direction, events, told);
}

/*
 * Drops the registration with the dispatcher that got the event, unless d_serial names
 * the dispatcher. If the registration stayed, each event would wake a processor that no
 * longer uses the descriptor. A native thread keeps the registration, since it polls only
 * during waits. Called under d_lock. Not called during a close, since then another file
 * may have the number.
 */
static inline void unwatch(struct descriptor *d)
{
	struct uevents *e = usched__here()->s_events;

	if (e && d->d_serial[NET_IN] != e->e_serial
	    && d->d_serial[NET_OUT] != e->e_serial)
		uevents_remove(e, d->d_fd);
}

/* Handles an event that may concern more than one waiter. Releases d_lock. */
APART static void ready_for_all(struct descriptor *d, unsigned events)
{
	struct told readers = { 0 }, writers = { 0 };

	if (events & LASTING) {                 /* these end every poll */
		__atomic_store_n(&d->d_lasting, 1, __ATOMIC_RELAXED);
		pop_waiters(d, NET_IN, events, true, &readers);
		pop_waiters(d, NET_OUT, events, true, &writers);
	}
	if (events & INPUTS)
		now_ready(d, NET_IN, events, &readers);
	if (events & OUTPUTS)
		now_ready(d, NET_OUT, events, &writers);
	if (!d->d_first[NET_IN] && !d->d_first[NET_OUT] && !is_new(d))
		unwatch(d);
	uwait_unlock(&d->d_lock);
	unet__tell(&readers, NET_READY);
	unet__tell(&writers, NET_READY);
}

/* Handles an event. Is in_ready of struct uinterest. Is called on the native thread that
   got the event. */
void unet__ready(struct uinterest *interest, unsigned events)
{
	struct descriptor *d = (struct descriptor *)(void *)interest;
	struct uwait_node *n;
	struct uwaiter *w = NULL;

	uwait_lock(&d->d_lock);
	n = d->d_first[NET_IN];
	if (events & LASTING || d->d_turns[NET_IN] | d->d_turns[NET_OUT]
	    || d->d_first[NET_OUT] || (n && (is_marked(n) || n->n_next))) {
		ready_for_all(d, events);
		return;
	}
	if (events & UEVENTS_INPUT) {
		set_ready(d, NET_IN, true);
		if (n && uwait_claim(uwait_of(n))) {
			w = uwait_of(n);
			n->n_prev = NULL;
			d->d_first[NET_IN] = n = NULL;
		}
	}
	if (events & UEVENTS_OUTPUT)
		set_ready(d, NET_OUT, true);
	if (!n && !is_new(d))
		unwatch(d);
	uwait_unlock(&d->d_lock);
	if (w)
		uwait_finish(w, NET_READY);
}

/* If an error is pending, recv(2) is not called, since it would take the error from the
   next call. */
bool unet__is_shut(int fd)
{
	struct pollfd one = { fd, POLLRDHUP, 0 };

	return poll(&one, 1, 0) > 0 && one.revents & POLLRDHUP && !(one.revents & POLLERR)
		&& recv(fd, &one, 0, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* Returns the result of a call that got EAGAIN: o_shut if the input was shut down,
   otherwise -EAGAIN. On datagram sockets and UNIX listeners, non-blocking calls get
   EAGAIN even after the shutdown. Blocking calls would return o_shut. */
APART ssize_t unet__if_shut(const struct descriptor *d, const struct op *o)
{
	struct msghdr *m = o->o_message;

	if (!unet__is_shut(d->d_fd))
		return -EAGAIN;
	if (m)
		m->msg_namelen = 0, m->msg_controllen = 0, m->msg_flags = 0;
	return o->o_shut;
}

ssize_t unet__step(attempt *call, struct descriptor *d, int direction,
		   const struct op *o, int64_t deadline, struct turn *t)
{
	return net_step(call, d, direction, o, deadline, t);
}

/* Takes d_writing as soon as no other native thread is in a system call that writes.
   Returns false if d_writing is reserved because threads wait to write. */
bool unet__await_write(struct descriptor *d)
{
	uint8_t now = NET_FREE;

	while (!__atomic_compare_exchange_n(&d->d_writing, &now, NET_BUSY, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		if (now == NET_LINED)
			return false;
		sched_yield();
		now = NET_FREE;
	}
	return true;
}

/* Takes the turn to write, unless the file was closed. The caller has d_writing. */
void unet__take_turn(struct descriptor *d, struct turn *t)
{
	if (t->tu_turn)
		return;
	uwait_lock(&d->d_lock);
	if (generation_of(d) == t->tu_generation) {
		__atomic_store_n(&d->d_writing, NET_LINED, __ATOMIC_RELEASE);
		d->d_turns[NET_OUT] = NET_RUNNING;
		t->tu_turn = true;
	}
	uwait_unlock(&d->d_lock);
}

/* Called under d_lock when a turn or a wait has ended. If `is_useful', gives the turn
   to the next waiter. */
static void pass_turn(struct descriptor *d, int direction, bool is_useful,
		      struct told *told)
{
	if (d->d_turns[direction] != NET_NO_TURN)
		return;
	if (d->d_first[direction] && is_useful)
		wake_first(d, direction, way_of(direction), told);
	else if (direction == NET_OUT && !d->d_first[direction])
		end_line(d);
}

/* Ends the turn of a call, unless n is NET_WAITS. If the descriptor is still ready, the
   next waiter gets the turn. Returns n. */
ssize_t unet__end_turn(struct descriptor *d, int direction, struct turn *t, ssize_t n)
{
	struct told told = { 0 };

	if (n == NET_WAITS)
		return n;
	t->tu_turn = false;
	uwait_lock(&d->d_lock);
	if (generation_of(d) == t->tu_generation) {
		d->d_turns[direction] = NET_NO_TURN;
		pass_turn(d, direction, is_ready(d, direction), &told);
	}
	uwait_unlock(&d->d_lock);
	unet__tell(&told, NET_READY);
	return n;
}

/*
 * Registers a descriptor again, before a wait, under d_lock. If another file has the
 * number now, makes that file non-blocking and sets d_ready, so that a call tries first.
 */
static int register_again(struct uevents *e, struct descriptor *d)
{
	bool all = d->d_serial[NET_OUT] == e->e_serial;
	int rc = uevents__again(e, d->d_fd, way_of(all ? NET_OUT : NET_IN),
				&d->d_interest);

	if (rc)
		return rc;
	__atomic_store_n(doubted, true, __ATOMIC_RELAXED);
	rc = unet__set_nonblocking(d->d_fd);
	__atomic_store_n(&d->d_kind, (uint8_t)unet__kind_of(d->d_fd), __ATOMIC_RELEASE);
	set_ready(d, NET_IN, true);
	set_ready(d, NET_OUT, true);
	return rc < 0 ? rc : 0;
}

/* Registers the descriptor, but not after a close: d_serial is then for the next file. */
APART static int add_to(struct uevents *e, struct descriptor *d, int direction,
			uint32_t generation)
{
	int rc = 0;

	uwait_lock(&d->d_lock);
	if (!d->d_interest.in_ready)            /* the first wait */
		d->d_interest.in_ready = unet__ready;
	if (generation_of(d) != generation)
		rc = -EBADF;
	else if (__atomic_load_n(&doubted, __ATOMIC_RELAXED)
		 && (d->d_serial[direction] == e->e_serial
		     || d->d_serial[NET_OUT] == e->e_serial))
		rc = register_again(e, d);
	else if (direction == NET_OUT)
		rc = uevents_add(e, d->d_fd, way_of(NET_OUT), &d->d_interest);
	else if (d->d_serial[NET_OUT] != e->e_serial) /* not registered yet */
		rc = uevents__again(e, d->d_fd, way_of(NET_IN), &d->d_interest);
	if ((rc == 0 || rc == -EEXIST) && get_kind(d) != NET_CLOSING)
		__atomic_store_n(&d->d_serial[direction], e->e_serial, __ATOMIC_RELEASE);
	uwait_unlock(&d->d_lock);
	return rc == -EEXIST ? 0 : rc;
}

/* Registers the descriptor for edges, once with each dispatcher or native thread. */
static inline int add_interest(struct descriptor *d, int direction,
			       uint32_t generation, struct uwaiter *w)
{
	struct uevents *e;
	int rc = uwait__events(w, &e);

	unet__check_file(d, generation);
	if (rc)
		return rc;
	if (!__atomic_load_n(&doubted, __ATOMIC_RELAXED)
	    && __atomic_load_n(&d->d_serial[direction], __ATOMIC_ACQUIRE) == e->e_serial)
		return 0;
	return add_to(e, d, direction, generation);
}

/* Returns whether d_ready is 0, unless a system call in progress may have cleared d_ready
   for a moment. Called under d_lock. */
static inline bool is_unready(const struct descriptor *d, int direction)
{
	uint32_t before = __atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE);

	return !is_ready(d, direction) && !(before & NET_INSIDE)
		&& __atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE) == before;
}

/* Returns NET_WAITS if a call is to enter the queue. Otherwise the call is to try again:
   returns NET_READY_TURN if the call has the turn, or NET_READY. Called under d_lock. */
APART static int may_wait(struct descriptor *d, int direction, const struct turn *t)
{
	uint8_t now = NET_FREE;

	if (t->tu_turn)
		return is_unready(d, direction) ? NET_WAITS : NET_READY_TURN;
	if (d->d_turns[direction] != NET_NO_TURN || (direction == NET_OUT && is_lined(d)))
		return NET_WAITS;
	if (!is_unready(d, direction))
		return NET_READY;
	if (direction == NET_OUT
	    && !__atomic_compare_exchange_n(&d->d_writing, &now, NET_LINED, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return NET_READY;
	return NET_WAITS;
}

/*
 * Enters the queue. Returns NET_WAITS if the caller must block. If the descriptor may be
 * ready, returns NET_READY_TURN if the call still has the turn, or NET_READY, which is 0.
 * Otherwise returns an error.
 */
int unet__begin_wait(struct descriptor *d, int direction, struct turn *t)
{
	struct uwaiter *w = t->tu_waiter;
	int rc = add_interest(d, direction, t->tu_generation, w);

	if (rc)
		return rc;
	uwait_lock(&d->d_lock);
	if (generation_of(d) != t->tu_generation)
		rc = -EBADF;
	else if (direction == NET_OUT || d->d_turns[NET_IN] | d->d_turns[NET_OUT])
		rc = may_wait(d, direction, t);
	else
		rc = is_unready(d, NET_IN) ? NET_WAITS : NET_READY;
	if (rc == NET_WAITS) {
		uwait_note(w, &descriptor_waits[direction], (void *)(intptr_t)d->d_fd,
			   __builtin_return_address(0));
		uwait_begin(w);
		push_node(&d->d_first[direction], &w->w_node, t->tu_turn);
		/* A new spell (budget.h) begins, even if the thread never switches. */
		usched__here()->s_spell.sp_switches = 0;
		if (t->tu_turn)
			d->d_turns[direction] = NET_NO_TURN;
		t->tu_turn = false;
	}
	uwait_unlock(&d->d_lock);
	return rc;
}

/*
 * Ends a wait. `rc' is its result, and is not NET_READY. Is also called if a call with
 * the turn does not have to wait. Then `rc' is the result of unet__begin_wait(). Returns
 * 0 if the call has the turn; -EBADF if the descriptor was closed; or `rc'.
 */
int unet__end_wait(struct descriptor *d, int direction, int rc, struct turn *t)
{
	struct uwaiter *w = uwait_self();
	struct told told = { 0 };

	if (rc == NET_CLOSED)
		return -EBADF;
	uwait_lock(&d->d_lock);
	if (generation_of(d) != t->tu_generation) {
		t->tu_turn = false;
	} else if (rc == NET_READY_TURN) {
		t->tu_turn = true;
		d->d_turns[direction] = NET_RUNNING;
		/* Without this the next step would not make the system call. */
		set_ready(d, direction, true);
	} else {
		if (t->tu_turn)
			d->d_turns[direction] = NET_NO_TURN;
		else
			pull_node(&d->d_first[direction], &w->w_node);
		pass_turn(d, direction, t->tu_turn && is_ready(d, direction), &told);
		t->tu_turn = false;
	}
	uwait_unlock(&d->d_lock);
	unet__tell(&told, NET_READY);
	return rc == NET_READY_TURN ? 0 : rc;
}

/*
 * Registers the descriptor, and puts the place of a poll or a select into the queue. Such
 * waits take no turn. If d_ready does not cover the events in np_ways, `looks' is set,
 * and the caller looks afterwards.
 * Returns 0; -EAGAIN if the descriptor may be ready; -EBADF after a close; or an error.
 */
int unet__join(struct net_place *p, bool looks)
{
	struct descriptor *d = p->np_entry;
	int direction = direction_of(p);
	int rc = add_interest(d, direction, p->np_generation, p->np_base.wp_waiter);

	if (rc && rc != -EPERM)                 /* a file is always ready */
		return rc;
	uwait_lock(&d->d_lock);
	if (generation_of(d) != p->np_generation)
		rc = -EBADF;
	else if (!looks && d->d_turns[direction] == NET_NO_TURN
		 && !(direction == NET_OUT && is_lined(d)) && !is_unready(d, direction))
		rc = -EAGAIN;
	else
		rc = 0;
	if (rc == 0) {
		push_node(&d->d_first[direction], marked(p), false);
		usched__here()->s_spell.sp_switches = 0;
	}
	uwait_unlock(&d->d_lock);
	return rc;
}

/* Takes the place out of the queue, if the place is in the queue. */
void unet__leave(struct net_place *p)
{
	struct descriptor *d = p->np_entry;
	struct told told = { 0 };

	uwait_lock(&d->d_lock);
	pull_node(&d->d_first[direction_of(p)], marked(p));
	pass_turn(d, direction_of(p), false, &told);
	uwait_unlock(&d->d_lock);
	unet__tell(&told, NET_READY);
}

/* Claims all waiters of both directions, and frees a reserved d_writing. Called under
   d_lock. */
void unet__release(struct descriptor *d, struct told *told)
{
	struct uwait_node *n;

	for (int i = NET_IN; i <= NET_OUT; i++)
		while ((n = pop_waiters(d, i, ~0u, false, told)))
			add_told(told, n);
	end_line(d);
}

/* Sleeps for NET_RETRY, at most until the deadline. Returns -ETIMEDOUT if the deadline
   has come. */
int unet__pause(const struct uwait_kind *kind, int fd, int64_t deadline)
{
	int64_t until = usync_after(NET_RETRY);
	struct timespec t = { 0, NET_RETRY };
	struct uwaiter *w;
	int before;

	if (deadline <= 0 || until - NET_RETRY >= deadline)
		return -ETIMEDOUT;
	if (ustack_self()) {
		w = uwait_prepare(until < deadline ? until : deadline, false);
		if (uwait_error(w))
			return uwait_error(w);
		uwait_note(w, kind, (void *)(intptr_t)fd, __builtin_return_address(0));
		uwait_begin(w);
		return uwait_block(w);
	}
	before = defer_cancel();
	nanosleep(&t, NULL);
	allow_cancel(before);
	return 0;
}
