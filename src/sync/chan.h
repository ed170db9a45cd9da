/* SPDX-License-Identifier: MIT */
/*
 * chan.h: channels, and the places of threads that wait for them. Private to usync_chan.c
 * and usync_select.c.
 *
 * A select has a place for each case, and send and receive have one: a node with room for
 * a value behind it, since others may not write to the stack of a blocked thread:
 *
 * 	uwait_room():  | place | value ... | place | value ... |
 *
 * A sender puts its value into the place before it waits; a receiver finds its value
 * there. A partner that claims a waiter through one of its places does that case, sets
 * p_closed to the outcome, and finishes the waiter with the index of the case, counted
 * from SELECT_RESULTS.
 *
 * 	c_senders    wait only if the buffer is full
 * 	c_receivers  wait only if it is empty
 */
#ifndef USCHED_CHAN_H
#define USCHED_CHAN_H

#include <stdbool.h>
#include <string.h>

#include "../../usync.h"
#include "../wait/budget.h"
#include "select.h"

#define CHAN_PRIVATE __attribute__((visibility("hidden")))

enum { CHAN_PLACE_ALIGN = 8 };  /* bytes; values are copied, so they need none */

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
struct chan_place {
	struct net_place   p_place;     /* first */
	_Alignas(8) const void *p_chan; /* for reports; NULL: a descriptor's. Aligned so
					   that values follow on 32 bits, too */
	uint32_t           p_size;      /* bytes of the value */
	uint16_t           p_case;
	bool               p_sends  : 1;
	bool               p_last   : 1;
	uint8_t            p_closed;    /* the outcome: 1: nothing was transferred */
	char               p_value[];
};

_Static_assert(sizeof(struct chan_place) % CHAN_PLACE_ALIGN == 0,
	       "values follow at once");

static inline void copy_value(void *to, const void *from, size_t size)
{
	if (size > 0)                           /* 0: they may be NULL */
		memcpy(to, from, size);
}

/* Bytes of a place for a value of `size' bytes. */
static inline size_t place_size(size_t size)
{
	size += sizeof(struct chan_place) + CHAN_PLACE_ALIGN - 1;
	return size / CHAN_PLACE_ALIGN * CHAN_PLACE_ALIGN;
}

static inline struct uwait_queue *queue_of(struct usync_chan *c, enum usync_op op)
{
	return op == USYNC_SEND ? &c->c_senders : &c->c_receivers;
}

/* The waiter has one. */
static inline struct chan_place *first_place(const struct uwaiter *w)
{
	return (struct chan_place *)(void *)(w->w_more + 1);
}

static inline void fill_place(struct uwaiter *w, struct chan_place *p,
			      const struct usync_chan *c, enum usync_op op,
			      const void *value)
{
	p->p_place.p_base.p_waiter = w;
	p->p_place.p_base.p_node.n_prev = NULL;
	p->p_chan = c;
	p->p_size = (uint32_t)c->c_size;
	p->p_sends = op == USYNC_SEND;
	p->p_closed = 0;
	if (op == USYNC_SEND)
		copy_value(p->p_value, value, p->p_size);
}

/* The receiver may follow a pointer that is sent. */
CHAN_PRIVATE void usync__check_value(const struct usync_chan *c, const void *value,
				     const char *call, const void *where);

/*
 * 0; -EPIPE; SELECT_BUSY: it has to wait, and c_lock is held. counts: it is the first
 * attempt of a call; then also SELECT_TIRED, without an attempt.
 */
CHAN_PRIVATE int usync__try(struct usync_chan *c, enum usync_op op, void *value,
			    bool counts);

/* After a grant: the outcome, and the value of a receiver. */
CHAN_PRIVATE int usync__end(const struct chan_place *p, void *value);

#endif /* USCHED_CHAN_H */
