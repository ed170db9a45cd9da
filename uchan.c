/* SPDX-License-Identifier: MIT */
/*
 * uchan.c: channels, and select.
 *
 * Send and receive are a select of one case. A waiter has a node for each case, with room
 * for a value behind it, since others may not write to the stack of a blocked thread:
 *
 * 	w_room:  | node | value ... | node | value ... |
 *
 * A sender puts its value into the node before it waits; a receiver finds its value
 * there. A partner that claims a waiter through one of its nodes does that case, sets
 * n_tag to the outcome, and finishes the waiter with the index of the case.
 *
 * 	c_senders    wait only if the buffer is full
 * 	c_receivers  wait only if it is empty
 */
#include "usync.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "private/check.h"

enum {
	CASES_MAX   = 65536,
	PLACE_ALIGN = 16,               /* bytes */
};

#define CHAN_MAX ((size_t)1 << 30)      /* bytes */

struct usync_chan {
	size_t             c_size;      /* bytes of a value: constant */
	size_t             c_capacity;  /* values: constant */
	struct uwait_lock  c_lock;      /* of all that follows */
	bool               c_closed;
	size_t             c_count;     /* values in c_buffer */
	size_t             c_first;     /* the oldest */
	struct uwait_queue c_senders;
	struct uwait_queue c_receivers;
	char               c_buffer[];
};

/* After the grant the channel may be gone, so all that is needed then is here. */
struct place {
	struct uwait_node p_node;       /* first */
	const void       *p_chan;       /* for reports */
	uint32_t          p_size;       /* bytes of the value */
	uint16_t          p_case;
	uint8_t           p_sends;
	uint8_t           p_last;
	_Alignas(PLACE_ALIGN) char p_value[];
};

static int  select_one(struct usync_chan *c, enum usync_op op, void *value,
		       int64_t deadline, const void *where);
static int  wait_any(struct usync_case *cases, size_t n, int64_t deadline,
		     const void *where);
static void tell_channels(const struct uwaiter *w, struct ustack_why *why);
static bool try_all(struct usync_case *cases, size_t n, int *done);
static bool try_send(struct usync_case *k, struct uwait_node **peer);
static bool try_recv(struct usync_case *k, struct uwait_node **peer);
static int  wait_all(struct uwaiter *w, struct usync_case *cases, size_t n);
static void fill_places(struct uwaiter *w, const struct usync_case *cases, size_t n);
static bool push_all(struct uwaiter *w, struct usync_case *cases, size_t n);
static void remove_all(struct uwaiter *w, struct usync_case *cases, size_t n, int except);
static bool could(const struct usync_case *k, const struct uwaiter *w);
static struct place *next_place(struct place *p);
static size_t place_size(size_t size);
static struct uwait_queue *queue_of(const struct usync_case *k);
static void finish(struct uwait_node *n);
static char *slot(struct usync_chan *c, size_t i);
static void copy(void *to, const void *from, size_t size);

/* n_tag: the outcome of the case. */
enum { DONE, CLOSED };

static const struct uwait_kind channels = { "no channel", tell_channels };

int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c)
{
	struct usync_chan *new;

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

UWAIT_CALL int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline)
{
	check(c->c_size ? value : NULL, BUFFER, __func__);
	/* A sender only reads it. */
	return select_one(c, USYNC_SEND, (void *)(uintptr_t)value, deadline,
			  __builtin_return_address(0));
}

UWAIT_CALL int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline)
{
	check(c->c_size ? value : NULL, BUFFER, __func__);
	return select_one(c, USYNC_RECV, value, deadline, __builtin_return_address(0));
}

static int select_one(struct usync_chan *c, enum usync_op op, void *value,
		      int64_t deadline, const void *where)
{
	struct usync_case one = { .s_chan = c, .s_op = op, .s_value = value };
	int rc;

	if (!try_all(&one, 1, &rc))
		rc = wait_any(&one, 1, deadline, where);
	return rc < 0 ? rc : one.s_rc;
}

int usync_chan_close(struct usync_chan *c)
{
	struct uwait_queue *queues[] = { &c->c_senders, &c->c_receivers };
	struct uwait_node *list = NULL, **end = &list, *n;
	int rc = 0;

	uwait_lock(&c->c_lock);
	if (c->c_closed)
		rc = -EPIPE;
	c->c_closed = true;
	for (int i = 0; i < 2; i++)
		while ((n = uwait_pop(queues[i]))) {
			n->n_tag = CLOSED;
			n->n_next = NULL;
			*end = n;
			end = &n->n_next;
		}
	uwait_unlock(&c->c_lock);
	while ((n = list)) {
		list = n->n_next;
		finish(n);
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
		if (cases[i].s_chan && cases[i].s_chan->c_size)
			check(cases[i].s_value, BUFFER, "usync_select");
}

UWAIT_CALL int usync_select(struct usync_case *cases, size_t n, int64_t deadline)
{
	int rc;

	if (n > CASES_MAX)
		return -EINVAL;
	check_cases(cases, n);
	return try_all(cases, n, &rc) ? rc
		: wait_any(cases, n, deadline, __builtin_return_address(0));
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
		rc = uwait_prepare(&w, deadline);
		if (rc)
			return rc;
		if (size > 0 && !uwait_room(w, size))
			return -ENOMEM;
		uwait_note(w, &channels, size > 0 ? w->w_room : NULL, where);
		rc = wait_all(w, cases, n);
	} while (rc == -EAGAIN && !try_all(cases, n, &rc));
	return rc;
}

/*
 * Does a case that can be done at once. The clock's last digits choose which is tried
 * first.
 */
static bool try_all(struct usync_case *cases, size_t n, int *done)
{
	size_t first = n > 1 ? (size_t)uevents_now() % n : 0;

	for (size_t i = 0; i < n; i++) {
		struct usync_case *k = &cases[(first + i) % n];
		struct uwait_node *peer = NULL;
		bool tried;

		if (!k->s_chan)
			continue;
		uwait_lock(&k->s_chan->c_lock);
		tried = k->s_op == USYNC_SEND ? try_send(k, &peer) : try_recv(k, &peer);
		uwait_unlock(&k->s_chan->c_lock);
		if (peer)
			finish(peer);
		if (tried) {
			*done = (int)(k - cases);
			return true;
		}
	}
	return false;
}

/* Under c_lock. *peer is to be finished after the unlock. */
static bool try_send(struct usync_case *k, struct uwait_node **peer)
{
	struct usync_chan *c = k->s_chan;

	k->s_rc = c->c_closed ? -EPIPE : 0;
	if (c->c_closed)
		return true;
	*peer = uwait_pop(&c->c_receivers);
	if (*peer) {
		(*peer)->n_tag = DONE;
		copy(((struct place *)(void *)*peer)->p_value, k->s_value, c->c_size);
		return true;
	}
	if (c->c_count == c->c_capacity)
		return false;
	copy(slot(c, c->c_count++), k->s_value, c->c_size);
	return true;
}

static bool try_recv(struct usync_case *k, struct uwait_node **peer)
{
	struct usync_chan *c = k->s_chan;
	bool kept = c->c_count > 0;

	k->s_rc = 0;
	if (kept) {
		copy(k->s_value, slot(c, 0), c->c_size);
		c->c_first = (c->c_first + 1) % c->c_capacity;
		c->c_count--;
	}
	*peer = uwait_pop(&c->c_senders);
	if (*peer) {
		(*peer)->n_tag = DONE;
		copy(kept ? slot(c, c->c_count++) : k->s_value,
		     ((struct place *)(void *)*peer)->p_value, c->c_size);
		return true;
	}
	if (!kept && c->c_closed)
		k->s_rc = -EPIPE;
	return kept || c->c_closed;
}

/* The index of the case that a partner did; -EAGAIN: one can be done now; an error. */
static int wait_all(struct uwaiter *w, struct usync_case *cases, size_t n)
{
	struct place *p = w->w_room;
	struct usync_case *k;
	int rc;

	fill_places(w, cases, n);
	rc = push_all(w, cases, n) || !uwait_withdraw(w) ? uwait_block(w) : -EAGAIN;
	remove_all(w, cases, n, rc);
	if (rc < 0)
		return rc;
	k = &cases[rc];
	while (p->p_case != (size_t)rc)
		p = next_place(p);
	k->s_rc = p->p_node.n_tag == DONE ? 0 : -EPIPE;
	if (k->s_op == USYNC_RECV && p->p_node.n_tag == DONE)
		copy(k->s_value, p->p_value, p->p_size);
	return rc;
}

static void fill_places(struct uwaiter *w, const struct usync_case *cases, size_t n)
{
	struct place *p = w->w_room, *last = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!cases[i].s_chan)
			continue;
		last = p;
		p->p_node.n_waiter = w;
		p->p_node.n_prev = NULL;
		p->p_chan = cases[i].s_chan;
		p->p_case = (uint16_t)i;
		p->p_size = (uint32_t)cases[i].s_chan->c_size;
		p->p_sends = cases[i].s_op == USYNC_SEND;
		p->p_last = 0;
		if (cases[i].s_op == USYNC_SEND)
			copy(p->p_value, cases[i].s_value, p->p_size);
		p = next_place(p);
	}
	if (last)
		last->p_last = 1;
}

/* Moves as many values as there is room for. */
static void tell_channels(const struct uwaiter *w, struct ustack_why *why)
{
	struct place *p = w->w_room;
	size_t n = 0, room = sizeof why->y_what;

	for (; w->w_object && p && n < room; p = p->p_last ? NULL : next_place(p))
		n += (size_t)snprintf(why->y_what + n, room - n, "%schannel %p to %s",
				      n ? " or " : "", p->p_chan,
				      p->p_sends ? "send" : "receive");
}

/*
 * From the first push on, partners may claim the waiter. False: a case can be done at
 * once, so not all are pushed.
 */
static bool push_all(struct uwaiter *w, struct usync_case *cases, size_t n)
{
	struct place *p = w->w_room;
	bool pushed = true;

	for (size_t i = 0; i < n && pushed; i++) {
		if (!cases[i].s_chan)
			continue;
		uwait_lock(&cases[i].s_chan->c_lock);
		if (p == w->w_room)
			uwait_begin(w);
		pushed = !could(&cases[i], w);
		if (pushed)
			uwait_push(queue_of(&cases[i]), &p->p_node);
		uwait_unlock(&cases[i].s_chan->c_lock);
		p = next_place(p);
	}
	if (p == w->w_room)  /* no channel: only the deadline ends it */
		uwait_begin(w);
	return pushed;
}

/* Takes all nodes out of their queues; a partner has taken out that of its case. */
static void remove_all(struct uwaiter *w, struct usync_case *cases, size_t n, int claimed)
{
	struct place *p = w->w_room;

	for (size_t i = 0; i < n; i++) {
		if (!cases[i].s_chan)
			continue;
		if ((int)i != claimed) {
			uwait_lock(&cases[i].s_chan->c_lock);
			uwait_remove(queue_of(&cases[i]), &p->p_node);
			uwait_unlock(&cases[i].s_chan->c_lock);
		}
		p = next_place(p);
	}
}

/*
 * Whether a partner other than `w', or the buffer, has what the case needs. Under c_lock.
 */
static bool could(const struct usync_case *k, const struct uwaiter *w)
{
	const struct usync_chan *c = k->s_chan;
	const struct uwait_node *n;

	if (c->c_closed || c->c_count != (k->s_op == USYNC_SEND ? c->c_capacity : 0))
		return true;
	n = k->s_op == USYNC_SEND ? c->c_receivers.q_first : c->c_senders.q_first;
	while (n && n->n_waiter == w)
		n = n->n_next;
	return n != NULL;
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

static struct uwait_queue *queue_of(const struct usync_case *k)
{
	return k->s_op == USYNC_SEND ? &k->s_chan->c_senders : &k->s_chan->c_receivers;
}

static void finish(struct uwait_node *n)
{
	uwait_finish(n->n_waiter, (int)((struct place *)(void *)n)->p_case);
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
