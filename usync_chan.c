/* SPDX-License-Identifier: MIT */
/*
 * usync_chan.c: channels, and select.
 *
 * A select has a place for each case, and send and receive have one: a node with room for
 * a value behind it, since others may not write to the stack of a blocked thread:
 *
 * 	uwait_room():  | place | value ... | place | value ... |
 *
 * A sender puts its value into the place before it waits; a receiver finds its value
 * there. A partner that claims a waiter through one of its places does that case, sets
 * p_closed to the outcome, and finishes the waiter with the index of the case.
 *
 * Send and receive are most of the waits, so they have frames of their own, small ones.
 *
 * A select with descriptors is another one. It has its places from the beginning, since a
 * descriptor's place keeps the generation that the whole call uses. That place is a
 * poll's in the queue of the descriptor: its grant transfers nothing, and all cases are
 * tried again. Grants of channels are numbered beyond those of descriptors.
 *
 * 	c_senders    wait only if the buffer is full
 * 	c_receivers  wait only if it is empty
 */
#include "usync.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private/budget.h"
#include "private/check.h"
#include "private/select.h"

enum {
	CASES_MAX   = 65536,
	BUSY        = SELECT_BUSY,      /* a case has to wait */
	TIRED       = SELECT_TIRED,     /* others have to run first */
	MIXED,                          /* there are descriptors */
	PLACE_ALIGN = 8,                /* bytes; values are copied, so they need none */
};

#define CHAN_MAX ((size_t)1 << 30)      /* bytes */

struct usync_chan {
	size_t             c_size;      /* bytes of a value: constant */
	size_t             c_capacity;  /* values: constant */
	struct uwait_lock  c_lock;      /* of all that follows */
	bool               c_closed;
	bool               c_far;       /* the last grant went to another processor, and
					   no wait has lingered since */
	struct budget      c_budgets[2];        /* by enum usync_op */
	size_t             c_count;     /* values in c_buffer */
	size_t             c_first;     /* the oldest */
	struct uwait_queue c_senders;
	struct uwait_queue c_receivers;
	char               c_buffer[];
};

/* After the grant the channel may be gone, so all that is needed then is here. */
struct place {
	struct uwait_place p_base;      /* first */
	const void        *p_chan;      /* for reports; NULL: a descriptor's */
	uint32_t           p_size;      /* bytes of the value */
	uint16_t           p_case;
	bool               p_sends  : 1;
	bool               p_last   : 1;
	uint8_t            p_closed;    /* the outcome: 1: nothing was transferred */
	char               p_value[];
};

/* The value of a descriptor's place. */
struct descriptor {
	int      d_fd;
	uint32_t d_generation;
};

_Static_assert((int)USYNC_BUDGET == BUDGET_MAX, "calls of a channel");
_Static_assert(sizeof(struct place) % PLACE_ALIGN == 0, "values follow at once");

/* unet.c's, if that is linked. */
extern __typeof__(unet__select) unet__select __attribute__((weak));

/* Not inlined, so that its frame is small. */
#define APART __attribute__((noinline))

APART static int select_one(struct usync_chan *c, enum usync_op op, void *value,
			    int64_t deadline, const void *where, int rc);
static int  try_case(struct usync_chan *c, enum usync_op op, void *value, bool counts);
APART static int give_way(int64_t deadline);
static bool blocks(struct usync_chan *c, enum usync_op op);
static int  try_send(struct usync_chan *c, const void *value, struct place **peer);
static int  try_recv(struct usync_chan *c, void *value, struct place **peer);
APART static int wait_one(struct uwaiter *w, struct usync_chan *c, void *value);
static int  end_one(const struct place *p, void *value);
APART static int block_one(struct uwaiter *w, struct usync_chan *c, void *value);
static int  wait_any(struct usync_case *cases, size_t n, int64_t deadline,
		     const void *where);
static inline void note(struct uwaiter *w, struct place *p, const void *where)
	__attribute__((always_inline));
static void tell_channels(const struct uwaiter *w, struct ustack_why *why);
static int  try_all(struct usync_case *cases, size_t n, bool counts, int *done);
static int  wait_all(struct uwaiter *w, struct usync_case *cases, size_t n);
static void fill_place(struct uwaiter *w, struct place *p, const struct usync_chan *c,
		       enum usync_op op, const void *value);
static void fill_places(struct uwaiter *w, const struct usync_case *cases, size_t n);
static bool push_all(struct uwaiter *w, struct usync_case *cases, size_t n);
static void remove_all(struct uwaiter *w, struct usync_case *cases, size_t n, int except);
static inline bool could(const struct usync_case *k, const struct uwaiter *w)
	__attribute__((always_inline));
static struct place *first_place(const struct uwaiter *w);
static struct place *next_place(struct place *p);
static size_t place_size(size_t size);
static struct uwait_queue *queue_of(struct usync_chan *c, enum usync_op op);
static void finish(struct place *p);
static char *slot(struct usync_chan *c, size_t i);
static void copy(void *to, const void *from, size_t size);

APART static int select_further(struct usync_case *cases, size_t n, int64_t deadline,
				const void *where, int busy, int *done);
static bool is_descriptor(const struct usync_case *k);
APART static int select_mixed(struct usync_case *cases, size_t n, int64_t deadline,
			      const void *where, size_t first);
static int  begin_mixed(struct uwaiter **w, const struct usync_case *cases, size_t n);
static int  fill_mixed(struct uwaiter *w, const struct usync_case *cases, size_t n);
static int  try_mixed(struct uwaiter *w, struct usync_case *cases, size_t first,
		      int64_t deadline, bool counts, int *done);
static int  try_place(struct place *p, struct usync_case *k, int64_t deadline,
		      bool counts);
static int  wait_mixed(struct usync_case *cases, int64_t deadline, const void *where);
static int  push_mixed(struct uwaiter *w, const struct usync_case *cases);
static int  push_chan(const struct usync_case *k, struct place *p);
static void remove_mixed(struct uwaiter *w, const struct usync_case *cases, int claimed);
static int  end_mixed(const struct uwaiter *w, struct usync_case *cases, int rc);
static struct descriptor *descriptor_of(struct place *p);

#define CHANNEL(how)    { .k_name = "channel", .k_how = how, .k_tell = tell_channels }
#define DESCRIPTOR(how) { .k_name = "descriptor", .k_how = how, .k_number = true, \
			  .k_tell = tell_channels }

/*
 * The kinds of waits, by the first case and whether there are others. Readers from
 * outside of the process call nothing, so name, object and way are right without k_tell.
 */
static const struct uwait_kind channels[2][2] = {
	{ CHANNEL(" to receive"), CHANNEL(" to receive, or others") },
	{ CHANNEL(" to send"), CHANNEL(" to send, or others") },
};
static const struct uwait_kind descriptors[2][2] = {
	{ DESCRIPTOR(" to read"), DESCRIPTOR(" to read, or others") },
	{ DESCRIPTOR(" to write"), DESCRIPTOR(" to write, or others") },
};
static const struct uwait_kind none = { .k_name = "no channel" };

int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c)
{
	struct usync_chan *new;

	*c = NULL;
	if (size > CHAN_MAX || capacity > CHAN_MAX
	    || (size && capacity > CHAN_MAX / size))
		return -EINVAL;
	new = calloc(1, sizeof *new + size * capacity);
	if (!new)
		return -ENOMEM;
	new->c_size = size;
	new->c_capacity = capacity;
	*c = new;
	return 0;
}

void usync_chan_destroy(struct usync_chan *c)
{
	free(c);
}

/* The receiver may follow it. Not inlined: the frame of the caller stays small. */
APART static void check_value(const struct usync_chan *c, const void *value,
			      const char *call)
{
	void *pointer;

	check(c->c_size ? value : NULL, BUFFER, call);
	if (!CHECKING || c->c_size != sizeof pointer)
		return;
	memcpy(&pointer, value, sizeof pointer);
	check(pointer, VALUE, call);
}

UWAIT_CALL int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline)
{
	void *from = (void *)(uintptr_t)value;          /* a sender only reads it */
	int rc;

	check_value(c, value, __func__);
	rc = try_case(c, USYNC_SEND, from, deadline != 0);
	return rc <= 0 ? rc : select_one(c, USYNC_SEND, from, deadline,
					 __builtin_return_address(0), rc);
}

UWAIT_CALL int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline)
{
	int rc;

	check(c->c_size ? value : NULL, BUFFER, __func__);
	rc = try_case(c, USYNC_RECV, value, true);
	return rc <= 0 ? rc : select_one(c, USYNC_RECV, value, deadline,
					 __builtin_return_address(0), rc);
}

/* rc: of the first attempt, BUSY or TIRED. */
static int select_one(struct usync_chan *c, enum usync_op op, void *value,
		      int64_t deadline, const void *where, int rc)
{
	struct uwaiter *w;
	struct place *p;

	if (rc == TIRED) {
		if (give_way(deadline))
			return -ECANCELED;
		rc = try_case(c, op, value, false);
		if (rc != BUSY)
			return rc;
	}
	uwait_unlock(&c->c_lock);
	w = uwait_prepare_lean(deadline, false);
	rc = uwait_error(w);
	if (rc)
		return rc;
	p = uwait_room(w, place_size(c->c_size));
	if (!p)
		return -ENOMEM;
	fill_place(w, p, c, op, value);
	p->p_case = 0;
	p->p_last = true;
	note(w, p, where);
	return wait_one(w, c, value);
}

/*
 * The waiter's one place says what it wants to do. Between processors the partner is
 * likely to come at once: then neither of them needs mail, nor a block. A wait that may
 * not block leaves the budget alone.
 */
static int wait_one(struct uwaiter *w, struct usync_chan *c, void *value)
{
	struct place *p = first_place(w);
	enum usync_op op = p->p_sends ? USYNC_SEND : USYNC_RECV;
	int rc = try_case(c, op, value, false);
	bool far;

	if (rc != BUSY)
		return rc;
	far = c->c_far;
	if (far) {
		c->c_far = false;
		uwait_begin_awake(w);
	} else {
		budget_renew(&c->c_budgets[op]);
		uwait_begin(w);
	}
	uwait_push(queue_of(c, op), &p->p_base.p_node);
	uwait_unlock(&c->c_lock);
	if (far && uwait_linger(w))
		return end_one(p, value);
	return block_one(w, c, value);
}

static int block_one(struct uwaiter *w, struct usync_chan *c, void *value)
{
	int rc = uwait_block(w);
	struct place *p = first_place(w);

	if (rc < 0) {
		uwait_lock(&c->c_lock);
		uwait_remove(queue_of(c, p->p_sends ? USYNC_SEND : USYNC_RECV),
			     &p->p_base.p_node);
		uwait_unlock(&c->c_lock);
		return rc;
	}
	return end_one(p, value);
}

static int end_one(const struct place *p, void *value)
{
	if (p->p_closed)
		return -EPIPE;
	if (!p->p_sends)
		copy(value, p->p_value, p->p_size);
	return 0;
}

int usync_chan_close(struct usync_chan *c)
{
	struct uwait_queue *queues[] = { &c->c_senders, &c->c_receivers };
	struct uwait_node *list = NULL, **end = &list, *n;
	struct uwait_place *p;
	int rc = 0;

	uwait_lock(&c->c_lock);
	if (c->c_closed)
		rc = -EPIPE;
	c->c_closed = true;
	for (int i = 0; i < 2; i++)
		while ((p = uwait_pop_place(queues[i]))) {
			((struct place *)(void *)p)->p_closed = 1;
			p->p_node.n_next = NULL;
			*end = &p->p_node;
			end = &p->p_node.n_next;
		}
	uwait_unlock(&c->c_lock);
	while ((n = list)) {
		list = n->n_next;
		finish((struct place *)(void *)n);
	}
	return rc;
}

size_t usync_chan_count(struct usync_chan *c)
{
	size_t count;

	uwait_lock(&c->c_lock);
	count = c->c_count;
	uwait_unlock(&c->c_lock);
	return count;
}

static void check_cases(const struct usync_case *cases, size_t n)
{
	check(n ? cases : NULL, BUFFER, "usync_select");
	for (size_t i = 0; i < n; i++)
		if (cases[i].s_chan && cases[i].s_op == USYNC_SEND)
			check_value(cases[i].s_chan, cases[i].s_value, "usync_select");
		else if (cases[i].s_chan && cases[i].s_chan->c_size)
			check(cases[i].s_value, BUFFER, "usync_select");
}

static bool may_send(const struct usync_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cases[i].s_chan && cases[i].s_op == USYNC_SEND)
			return true;
	return false;
}

UWAIT_CALL int usync_select(struct usync_case *cases, size_t n, int64_t deadline)
{
	int busy, rc;

	if (n > CASES_MAX)
		return -EINVAL;
	check_cases(cases, n);
	busy = try_all(cases, n, deadline != 0 || !may_send(cases, n), &rc);
	if (busy > BUSY)
		busy = select_further(cases, n, deadline, __builtin_return_address(0),
				      busy, &rc);
	return busy ? wait_any(cases, n, deadline, __builtin_return_address(0)) : rc;
}

/* Others have to run first, or there are descriptors. 0: *done is the result; BUSY. */
static int select_further(struct usync_case *cases, size_t n, int64_t deadline,
			  const void *where, int busy, int *done)
{
	if (busy == TIRED) {
		*done = give_way(deadline);
		busy = *done ? 0 : try_all(cases, n, false, done);
	}
	if (busy == MIXED) {
		*done = select_mixed(cases, n, deadline, where, (size_t)*done);
		busy = 0;
	}
	return busy;
}

static int wait_any(struct usync_case *cases, size_t n, int64_t deadline,
		    const void *where)
{
	struct uwaiter *w;
	size_t size = 0;
	int rc;

	for (size_t i = 0; i < n; i++)
		if (cases[i].s_chan && __builtin_add_overflow(
				size, place_size(cases[i].s_chan->c_size), &size))
			return -ENOMEM;
	do {
		w = uwait_prepare_lean(deadline, false);
		rc = uwait_error(w);
		if (rc)
			return rc;
		if (size > 0 && !uwait_room(w, size))
			return -ENOMEM;
		fill_places(w, cases, n);
		note(w, size > 0 ? first_place(w) : NULL, where);
		rc = wait_all(w, cases, n);
	} while (rc == -EAGAIN && try_all(cases, n, false, &rc));
	return rc;
}

/*
 * Does a case that can be done at once. The clock's last digits choose which is tried
 * first, and that one counts the call. 0: *done is the result; BUSY; TIRED; MIXED: the
 * turn of *done has come, a descriptor's.
 */
static int try_all(struct usync_case *cases, size_t n, bool counts, int *done)
{
	size_t first = n > 1 ? (size_t)uevents_now() % n : 0;

	for (size_t i = 0; i < n; i++) {
		struct usync_case *k = &cases[(first + i) % n];
		int rc;

		if (!k->s_chan) {
			if (!is_descriptor(k))
				continue;
			*done = (int)(k - cases);
			return MIXED;
		}
		rc = try_case(k->s_chan, k->s_op, k->s_value, counts);
		if (rc == TIRED)
			return TIRED;
		if (rc != BUSY) {
			k->s_rc = rc;
			*done = (int)(k - cases);
			return 0;
		}
		counts = false;
		uwait_unlock(&k->s_chan->c_lock);
	}
	return BUSY;
}

/*
 * Threads that never have to wait yield all the same. The result of a cancel, if the call
 * may wait; other errors do not matter, since no wait is needed.
 */
static int give_way(int64_t deadline)
{
	return budget_yield() == -ECANCELED && deadline > 0 ? -ECANCELED : 0;
}

/* Under c_lock: it has to wait, and without a partner elsewhere that may come at once. */
static bool blocks(struct usync_chan *c, enum usync_op op)
{
	size_t limit = op == USYNC_SEND ? c->c_capacity : 0;

	return !c->c_closed && !c->c_far && c->c_count == limit
		&& !queue_of(c, op == USYNC_SEND ? USYNC_RECV : USYNC_SEND)->q_first;
}

/*
 * 0; -EPIPE; BUSY: it has to wait, and c_lock is held. counts: it is the first attempt of
 * a call; then also TIRED, without an attempt.
 */
static int try_case(struct usync_chan *c, enum usync_op op, void *value, bool counts)
{
	struct budget *b = &c->c_budgets[op];
	struct place *peer = NULL;
	int rc;

	uwait_lock(&c->c_lock);
	if (counts && budget_counts(b) && (b->b_calls >= BUDGET_MAX || !blocks(c, op))
	    && usched__tires(b)) {
		uwait_unlock(&c->c_lock);
		return TIRED;
	}
	rc = op == USYNC_SEND ? try_send(c, value, &peer) : try_recv(c, value, &peer);
	if (rc == BUSY)
		return BUSY;
	if (peer && !c->c_far)
		c->c_far = uwait_is_far(peer->p_base.p_waiter);
	uwait_unlock(&c->c_lock);
	if (peer)
		finish(peer);
	return rc;
}

/* Under c_lock. *peer is to be finished after the unlock. */
static int try_send(struct usync_chan *c, const void *value, struct place **peer)
{
	if (c->c_closed)
		return -EPIPE;
	*peer = (struct place *)(void *)uwait_pop_place(&c->c_receivers);
	if (*peer)
		copy((*peer)->p_value, value, c->c_size);
	else if (c->c_count == c->c_capacity)
		return BUSY;
	else
		copy(slot(c, c->c_count++), value, c->c_size);
	return 0;
}

static int try_recv(struct usync_chan *c, void *value, struct place **peer)
{
	bool kept = c->c_count > 0;

	if (kept) {
		copy(value, slot(c, 0), c->c_size);
		c->c_first = (c->c_first + 1) % c->c_capacity;
		c->c_count--;
	}
	*peer = (struct place *)(void *)uwait_pop_place(&c->c_senders);
	if (*peer)
		copy(kept ? slot(c, c->c_count++) : value, (*peer)->p_value, c->c_size);
	else if (!kept)
		return c->c_closed ? -EPIPE : BUSY;
	return 0;
}

/* The index of the case that a partner did; -EAGAIN: one can be done now; an error. */
static int wait_all(struct uwaiter *w, struct usync_case *cases, size_t n)
{
	struct place *p = first_place(w);
	struct usync_case *k;
	int rc;

	rc = push_all(w, cases, n) || !uwait_withdraw(w) ? uwait_block(w) : -EAGAIN;
	remove_all(w, cases, n, rc);
	if (rc < 0)
		return rc;
	k = &cases[rc];
	while (p->p_case != (size_t)rc)
		p = next_place(p);
	k->s_rc = p->p_closed ? -EPIPE : 0;
	if (k->s_op == USYNC_RECV && !p->p_closed)
		copy(k->s_value, p->p_value, p->p_size);
	return rc;
}

static void fill_places(struct uwaiter *w, const struct usync_case *cases, size_t n)
{
	struct place *p = first_place(w), *last = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!cases[i].s_chan)
			continue;
		last = p;
		fill_place(w, p, cases[i].s_chan, cases[i].s_op, cases[i].s_value);
		p->p_case = (uint16_t)i;
		p->p_last = false;
		p = next_place(p);
	}
	if (last)
		last->p_last = true;
}

static void fill_place(struct uwaiter *w, struct place *p, const struct usync_chan *c,
		       enum usync_op op, const void *value)
{
	p->p_base.p_waiter = w;
	p->p_base.p_node.n_prev = NULL;
	p->p_chan = c;
	p->p_size = (uint32_t)c->c_size;
	p->p_sends = op == USYNC_SEND;
	p->p_closed = 0;
	if (op == USYNC_SEND)
		copy(p->p_value, value, p->p_size);
}

/* For reports. p: the first place, or NULL. */
static void note(struct uwaiter *w, struct place *p, const void *where)
{
	if (!p)
		uwait_note(w, &none, NULL, where);
	else if (p->p_chan)
		uwait_note(w, &channels[p->p_sends][!p->p_last], p->p_chan, where);
	else
		uwait_note(w, &descriptors[p->p_sends][!p->p_last],
			   (const void *)(intptr_t)descriptor_of(p)->d_fd, where);
}

/* Tells of as many cases as there is room for. */
static void tell_channels(const struct uwaiter *w, struct ustack_why *why)
{
	static const char *const ways[2][2] = { { " to receive", " to send" },
						{ " to read", " to write" } };
	struct place *p = first_place(w);
	size_t n = 0, room = sizeof why->y_more;

	why->y_how = ways[!p->p_chan][p->p_sends];
	while (!p->p_last && n < room) {
		p = next_place(p);
		n += p->p_chan
			? (size_t)snprintf(why->y_more + n, room - n, " or channel %p%s",
					   p->p_chan, ways[0][p->p_sends])
			: (size_t)snprintf(why->y_more + n, room - n,
					   " or descriptor %d%s",
					   descriptor_of(p)->d_fd, ways[1][p->p_sends]);
	}
}

/*
 * From the first push on, partners may claim the waiter. False: a case can be done at
 * once, so not all are pushed.
 */
static bool push_all(struct uwaiter *w, struct usync_case *cases, size_t n)
{
	struct place *p = first_place(w);
	bool pushed = true, begun = false;

	for (size_t i = 0; i < n && pushed; i++) {
		if (!cases[i].s_chan)
			continue;
		uwait_lock(&cases[i].s_chan->c_lock);
		if (!begun)
			uwait_begin(w);
		begun = true;
		pushed = !could(&cases[i], w);
		if (pushed)
			uwait_push(queue_of(cases[i].s_chan, cases[i].s_op),
				   &p->p_base.p_node);
		uwait_unlock(&cases[i].s_chan->c_lock);
		p = next_place(p);
	}
	if (!begun)  /* no channel: only the deadline ends it */
		uwait_begin(w);
	return pushed;
}

/* Takes all nodes out of their queues; a partner has taken out that of its case. */
static void remove_all(struct uwaiter *w, struct usync_case *cases, size_t n, int claimed)
{
	struct place *p = first_place(w);

	for (size_t i = 0; i < n; i++) {
		if (!cases[i].s_chan)
			continue;
		if ((int)i != claimed) {
			uwait_lock(&cases[i].s_chan->c_lock);
			uwait_remove(queue_of(cases[i].s_chan, cases[i].s_op),
				     &p->p_base.p_node);
			uwait_unlock(&cases[i].s_chan->c_lock);
		}
		p = next_place(p);
	}
}

/*
 * Whether a partner other than `w', or the buffer, has what the case needs. Under c_lock.
 */
static inline bool could(const struct usync_case *k, const struct uwaiter *w)
{
	const struct usync_chan *c = k->s_chan;
	const struct uwait_node *n;

	if (c->c_closed || c->c_count != (k->s_op == USYNC_SEND ? c->c_capacity : 0))
		return true;
	n = k->s_op == USYNC_SEND ? c->c_receivers.q_first : c->c_senders.q_first;
	while (n && ((const struct uwait_place *)(const void *)n)->p_waiter == w)
		n = n->n_next;
	return n != NULL;
}

/* NULL: there is none, since no case has a channel. */
static struct place *first_place(const struct uwaiter *w)
{
	return w->w_more ? (struct place *)(void *)(w->w_more + 1) : NULL;
}

static struct place *next_place(struct place *p)
{
	return (struct place *)(void *)((char *)p + place_size(p->p_size));
}

/* Bytes of a place for a value of `size' bytes. */
static size_t place_size(size_t size)
{
	size += sizeof(struct place) + PLACE_ALIGN - 1;
	return size / PLACE_ALIGN * PLACE_ALIGN;
}

static struct uwait_queue *queue_of(struct usync_chan *c, enum usync_op op)
{
	return op == USYNC_SEND ? &c->c_senders : &c->c_receivers;
}

static void finish(struct place *p)
{
	uwait_finish(p->p_base.p_waiter, (int)p->p_case);
}

/* The i-th place of the buffer. */
static char *slot(struct usync_chan *c, size_t i)
{
	return c->c_buffer + (c->c_first + i) % c->c_capacity * c->c_size;
}

static void copy(void *to, const void *from, size_t size)
{
	if (size > 0)                           /* 0: they may be NULL */
		memcpy(to, from, size);
}

/* Select with descriptors. */

static bool is_descriptor(const struct usync_case *k)
{
	return k->s_op >= USYNC_READABLE && k->s_fd >= 0;
}

/* first: the case to try first; those before it had to wait. */
static int select_mixed(struct usync_case *cases, size_t n, int64_t deadline,
			const void *where, size_t first)
{
	bool waited = false, counts = deadline != 0 || !may_send(cases, n);
	struct uwaiter *w = NULL;
	int busy, rc = begin_mixed(&w, cases, n);

	if (rc)
		return rc;
	busy = try_mixed(w, cases, first, deadline, counts, &rc);
	if (busy == TIRED) {
		rc = give_way(deadline);
		busy = rc ? 0 : try_mixed(w, cases, first, deadline, false, &rc);
	}
	while (busy) {
		rc = waited && deadline != USCHED_NEVER && uevents_now() >= deadline
			? -ETIMEDOUT : wait_mixed(cases, deadline, where);
		waited = true;
		first = (size_t)uevents_now() % n;
		busy = rc == -EAGAIN
			&& try_mixed(w, cases, first, deadline, false, &rc);
	}
	return rc;
}

static int begin_mixed(struct uwaiter **w, const struct usync_case *cases, size_t n)
{
	size_t size = 0;

	if (!&unet__select)
		return -ENOTSUP;
	if (n > CASES_MAX - SELECT_RESULTS)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		size_t value = cases[i].s_chan ? cases[i].s_chan->c_size
			: sizeof(struct descriptor);

		if (__builtin_add_overflow(size, place_size(value), &size))
			return -ENOMEM;
	}
	*w = uwait_self();
	return *w && uwait_room(*w, size) ? fill_mixed(*w, cases, n) : -ENOMEM;
}

static int fill_mixed(struct uwaiter *w, const struct usync_case *cases, size_t n)
{
	struct place *p = first_place(w), *last = NULL;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct usync_case *k = &cases[i];

		if (!k->s_chan && !is_descriptor(k))
			continue;
		last = p;
		if (k->s_chan) {
			fill_place(w, p, k->s_chan, k->s_op, k->s_value);
		} else {
			*p = (struct place){
				.p_base.p_waiter = w,
				.p_sends = k->s_op == USYNC_WRITABLE,
				.p_size = sizeof(struct descriptor),
			};
			descriptor_of(p)->d_fd = k->s_fd;
			rc = unet__select.s_begin(k->s_fd,
						  &descriptor_of(p)->d_generation);
		}
		p->p_case = (uint16_t)(i + SELECT_RESULTS);
		p->p_last = false;
		p = next_place(p);
	}
	last->p_last = true;
	return rc;
}

/* As try_all(), of the places from that of `first' on. */
static int try_mixed(struct uwaiter *w, struct usync_case *cases, size_t first,
		     int64_t deadline, bool counts, int *done)
{
	struct place *p = first_place(w), *begin;

	while (!p->p_last && p->p_case < first + SELECT_RESULTS)
		p = next_place(p);
	begin = p;
	do {
		struct usync_case *k = &cases[p->p_case - SELECT_RESULTS];
		int rc = try_place(p, k, deadline, counts);

		if (rc == TIRED)
			return TIRED;
		if (rc != BUSY) {
			*done = (int)(k - cases);
			if (rc == 0 || k->s_chan || rc == -EBADF)
				k->s_rc = rc;
			else
				*done = rc;
			return 0;
		}
		counts = false;
		p = p->p_last ? first_place(w) : next_place(p);
	} while (p != begin);
	return BUSY;
}

static int try_place(struct place *p, struct usync_case *k, int64_t deadline,
		     bool counts)
{
	const struct descriptor *d = descriptor_of(p);
	int rc;

	if (!k->s_chan)
		return p->p_closed ? -EBADF
			: unet__select.s_try(p->p_base.p_waiter, d->d_fd, p->p_sends,
					     d->d_generation, deadline, counts);
	rc = try_case(k->s_chan, k->s_op, k->s_value, counts);
	if (rc == BUSY)
		uwait_unlock(&k->s_chan->c_lock);
	return rc;
}

/* The index of the case that was done; -EAGAIN: all are to be tried; an error. */
static int wait_mixed(struct usync_case *cases, int64_t deadline, const void *where)
{
	struct uwaiter *w = uwait_prepare_lean(deadline, true);
	struct uevents *e;
	int rc = uwait_error(w);

	if (rc == 0)
		rc = uwait_events(w, &e);       /* made before the wait can be granted */
	if (rc)
		return rc;
	note(w, first_place(w), where);
	uwait_begin(w);
	rc = push_mixed(w, cases);
	if (rc && uwait_withdraw(w)) {
		remove_mixed(w, cases, rc);
		return rc;
	}
	rc = uwait_block(w);
	remove_mixed(w, cases, rc);
	return end_mixed(w, cases, rc);
}

/* 0; -EAGAIN: a case can be done at once, so not all are pushed; an error. */
static int push_mixed(struct uwaiter *w, const struct usync_case *cases)
{
	struct place *p = first_place(w);

	for (;; p = next_place(p)) {
		const struct usync_case *k = &cases[p->p_case - SELECT_RESULTS];
		const struct descriptor *d = descriptor_of(p);
		int rc = k->s_chan ? push_chan(k, p)
			: unet__select.s_enter(&p->p_base, d->d_fd, p->p_sends,
					       d->d_generation);

		if (rc == -EBADF) {
			p->p_closed = 1;
			rc = -EAGAIN;
		}
		if (rc || p->p_last)
			return rc;
	}
}

static int push_chan(const struct usync_case *k, struct place *p)
{
	bool done;

	uwait_lock(&k->s_chan->c_lock);
	done = could(k, p->p_base.p_waiter);
	if (!done)
		uwait_push(queue_of(k->s_chan, k->s_op), &p->p_base.p_node);
	uwait_unlock(&k->s_chan->c_lock);
	return done ? -EAGAIN : 0;
}

/* A channel that was granted may be gone. */
static void remove_mixed(struct uwaiter *w, const struct usync_case *cases, int claimed)
{
	struct place *p = first_place(w);

	for (;; p = next_place(p)) {
		const struct usync_case *k = &cases[p->p_case - SELECT_RESULTS];

		if (!k->s_chan) {
			unet__select.s_leave(&p->p_base, descriptor_of(p)->d_fd,
					     p->p_sends);
		} else if (p->p_case != claimed) {
			uwait_lock(&k->s_chan->c_lock);
			uwait_remove(queue_of(k->s_chan, k->s_op), &p->p_base.p_node);
			uwait_unlock(&k->s_chan->c_lock);
		}
		if (p->p_last)
			return;
	}
}

/* rc: the result of the grant. */
static int end_mixed(const struct uwaiter *w, struct usync_case *cases, int rc)
{
	struct place *p = first_place(w);
	struct usync_case *k;

	if (rc == SELECT_READY)
		return -EAGAIN;
	if (rc < 0)
		return rc;
	while (rc == SELECT_CLOSED
	       ? p->p_chan || !unet__select.s_is_closed(descriptor_of(p)->d_fd,
							descriptor_of(p)->d_generation)
	       : p->p_case != rc)
		p = next_place(p);
	k = &cases[p->p_case - SELECT_RESULTS];
	k->s_rc = rc == SELECT_CLOSED ? -EBADF : end_one(p, k->s_value);
	return (int)(k - cases);
}

static struct descriptor *descriptor_of(struct place *p)
{
	return (struct descriptor *)(void *)p->p_value;
}
