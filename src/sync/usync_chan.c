/* SPDX-License-Identifier: MIT */
/*
 * usync_chan.c: channels, as chan.h draws them. Most waits are sends and receives, so
 * functions that wait are not inlined into others, and have small frames.
 */
#include <stdlib.h>

#include "chan.h"
#include "../base/check.h"
#include "../wait/wait.h"

#define CHAN_MAX ((size_t)1 << 30)      /* the most bytes, or values, of a buffer */

_Static_assert((int)USYNC_BUDGET == BUDGET_MAX, "calls of a channel");

static const struct uwait_kind channel_waits[] = {
	[USYNC_RECV] = { .kd_name = "channel", .kd_how = " to receive" },
	[USYNC_SEND] = { .kd_name = "channel", .kd_how = " to send" },
};

/* Returns the address in the buffer of value `i', counted from the oldest value. */
static char *slot(struct usync_chan *c, size_t i)
{
	return c->ch_buffer + (c->ch_first + i) % c->ch_capacity * c->ch_size;
}

static void finish_place(struct chan_place *p)
{
	uwait_finish(p->cp_base.wp_waiter, p->cp_case + SELECT_RESULTS);
}

int usync_chan_create(size_t size, size_t capacity, struct usync_chan **c)
{
	struct usync_chan *made;

	*c = NULL;
	if (size > CHAN_MAX || capacity > CHAN_MAX
	    || (size && capacity > CHAN_MAX / size))
		return -EINVAL;
	made = (struct usync_chan *)calloc(1, sizeof *made + size * capacity);
	if (!made)
		return -ENOMEM;
	made->ch_size = size;
	made->ch_capacity = capacity;
	*c = made;
	return 0;
}

void usync_chan_destroy(struct usync_chan *c)
{
	free(c);
}

void usync__check_value(const struct usync_chan *c, const void *value,
			const char *call, const void *where)
{
	void *pointer;

	check(c, CHECK_OBJECT, call);
	check(c->ch_size ? value : NULL, CHECK_BUFFER, call);
	check_inside(value, c->ch_size, call, where);
	if (!CHECKING || c->ch_size != sizeof pointer)
		return;
	memcpy(&pointer, value, sizeof pointer);
	check(pointer, CHECK_VALUE, call);
}

/* Sends if possible, under ch_lock. Sets *peer to the place of a receiver that has got
   the value, or to NULL. After the unlock the caller finishes that receiver. */
static int try_send(struct usync_chan *c, const void *value, struct chan_place **peer)
{
	if (c->ch_closed)
		return -EPIPE;
	*peer = (struct chan_place *)(void *)uwait__pop_place(&c->ch_receivers);
	if (*peer)
		copy_value((*peer)->cp_value, value, c->ch_size);
	else if (c->ch_count == c->ch_capacity)
		return SELECT_BUSY;
	else
		copy_value(slot(c, c->ch_count++), value, c->ch_size);
	return 0;
}

static int try_recv(struct usync_chan *c, void *value, struct chan_place **peer)
{
	bool kept = c->ch_count > 0;

	if (kept) {
		copy_value(value, slot(c, 0), c->ch_size);
		c->ch_first = (c->ch_first + 1) % c->ch_capacity;
		c->ch_count--;
	}
	*peer = (struct chan_place *)(void *)uwait__pop_place(&c->ch_senders);
	if (*peer)
		copy_value(kept ? slot(c, c->ch_count++) : value, (*peer)->cp_value,
			   c->ch_size);
	else if (!kept)
		return c->ch_closed ? -EPIPE : SELECT_BUSY;
	return 0;
}

/* Returns whether `op' has to wait, and no partner on another processor is likely to
   come soon. */
static bool blocks(struct usync_chan *c, enum usync_op op)
{
	size_t limit = op == USYNC_SEND ? c->ch_capacity : 0;

	return !c->ch_closed && !c->ch_far && c->ch_count == limit
		&& !queue_of(c, op == USYNC_SEND ? USYNC_RECV : USYNC_SEND)->q_first;
}

int usync__try(struct usync_chan *c, enum usync_op op, void *value, bool counts)
{
	struct budget *b = &c->ch_budgets[op];
	struct chan_place *peer = NULL;
	int rc;

	uwait_lock(&c->ch_lock);
	if (counts && budget_counts(b) && (b->bu_calls >= BUDGET_MAX || !blocks(c, op))
	    && usched__tires(b)) {
		uwait_unlock(&c->ch_lock);
		return SELECT_TIRED;
	}
	rc = op == USYNC_SEND ? try_send(c, value, &peer) : try_recv(c, value, &peer);
	if (rc == SELECT_BUSY)
		return SELECT_BUSY;
	if (peer && !c->ch_far)
		c->ch_far = uwait__is_far(peer->cp_base.wp_waiter);
	uwait_unlock(&c->ch_lock);
	if (peer)
		finish_place(peer);
	return rc;
}

int usync__end(const struct chan_place *p, void *value)
{
	if (p->cp_closed)
		return -EPIPE;
	if (!p->cp_sends)
		copy_value(value, p->cp_value, p->cp_size);
	return 0;
}

APART static int block_one(struct uwaiter *w, struct usync_chan *c, void *value)
{
	int rc = uwait_block(w);
	struct chan_place *p = first_place(w);

	if (rc < 0) {
		uwait_lock(&c->ch_lock);
		uwait_remove(queue_of(c, p->cp_sends ? USYNC_SEND : USYNC_RECV),
			     &p->cp_base.wp_node);
		uwait_unlock(&c->ch_lock);
		return rc;
	}
	return usync__end(p, value);
}

/*
 * Waits with one place, whose cp_sends says whether `w' sends or receives. If ch_far is
 * set, a partner on another processor is likely to come soon: then the waiter first
 * lingers, and needs neither mail nor a block if the partner comes meanwhile. A wait that
 * lingers does not renew the budget.
 */
APART static int wait_one(struct uwaiter *w, struct usync_chan *c, void *value)
{
	struct chan_place *p = first_place(w);
	enum usync_op op = p->cp_sends ? USYNC_SEND : USYNC_RECV;
	int rc = usync__try(c, op, value, false);
	bool far;

	if (rc != SELECT_BUSY)
		return rc;
	far = c->ch_far;
	if (far) {
		c->ch_far = false;
		uwait__begin_awake(w);
	} else {
		budget_renew(&c->ch_budgets[op]);
		uwait_begin(w);
	}
	uwait_push(queue_of(c, op), &p->cp_base.wp_node);
	uwait_unlock(&c->ch_lock);
	if (far && uwait__linger(w))
		return usync__end(p, value);
	return block_one(w, c, value);
}

/* Does the rest of a call. `rc' is the result of the first usync__try(): SELECT_TIRED, or
   SELECT_BUSY, and then the caller holds ch_lock. */
APART static int select_one(struct usync_chan *c, enum usync_op op, void *value,
		      int64_t deadline, const void *where, int rc)
{
	struct uwaiter *w;
	struct chan_place *p;

	if (rc == SELECT_TIRED) {
		if (usched__yield_tired(deadline))
			return -ECANCELED;
		rc = usync__try(c, op, value, false);
		if (rc != SELECT_BUSY)
			return rc;
	}
	uwait_unlock(&c->ch_lock);
	w = uwait_prepare(deadline, false);
	rc = uwait_error(w);
	if (rc)
		return rc;
	p = (struct chan_place *)uwait_room(w, place_size(c->ch_size));
	if (!p)
		return -ENOMEM;
	fill_place(w, p, c, op, value);
	p->cp_case = 0;
	p->cp_last = true;
	uwait_note(w, &channel_waits[op], c, where);
	return wait_one(w, c, value);
}

UWAIT_CALL int usync_chan_send(struct usync_chan *c, const void *value, int64_t deadline)
{
	void *from = (void *)(uintptr_t)value;          /* a send only reads *from */
	int rc;

	usync__check_value(c, value, __func__, __builtin_return_address(0));
	rc = usync__try(c, USYNC_SEND, from, deadline != 0);
	return rc <= 0 ? rc : select_one(c, USYNC_SEND, from, deadline,
					 __builtin_return_address(0), rc);
}

UWAIT_CALL int usync_chan_recv(struct usync_chan *c, void *value, int64_t deadline)
{
	int rc;

	check(c, CHECK_OBJECT, __func__);
	check(c->ch_size ? value : NULL, CHECK_BUFFER, __func__);
	rc = usync__try(c, USYNC_RECV, value, true);
	return rc <= 0 ? rc : select_one(c, USYNC_RECV, value, deadline,
					 __builtin_return_address(0), rc);
}

int usync_chan_close(struct usync_chan *c)
{
	struct uwait_queue *queues[] = { &c->ch_senders, &c->ch_receivers };
	struct uwait_queue popped = { NULL, NULL };
	struct uwait_place *p;
	int rc = 0;

	check(c, CHECK_OBJECT, __func__);
	uwait_lock(&c->ch_lock);
	if (c->ch_closed)
		rc = -EPIPE;
	c->ch_closed = true;
	for (int i = 0; i < 2; i++)
		while ((p = uwait__pop_place(queues[i]))) {
			((struct chan_place *)(void *)p)->cp_closed = 1;
			uwait_push(&popped, &p->wp_node);
		}
	uwait_unlock(&c->ch_lock);
	while ((p = (struct uwait_place *)(void *)popped.q_first)) {
		uwait_remove(&popped, &p->wp_node);
		finish_place((struct chan_place *)(void *)p);
	}
	return rc;
}
