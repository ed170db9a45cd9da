/* SPDX-License-Identifier: MIT */
/*
 * chan.h: channels, the places of threads that wait for them, and results of selects.
 * Private to usync_chan.c, usync_select.c and unet*.c.
 *
 * A place is a node for a queue, with room for a value behind the node. Partners write
 * the value there, since they may not write to the stack of a blocked thread. A send or a
 * receive has one place. A select has one place for each case:
 *
 * 	uwait_room():  | place | value ... | place | value ... |
 *
 * A sender puts its value into the place before it waits; a receiver finds its value in
 * the place after the wait. A partner that claims a waiter through a place transfers the
 * value of that case, or sets cp_closed when the channel is closed. Then the partner
 * finishes the waiter with SELECT_RESULTS plus the index of the case.
 *
 * 	ch_senders    wait only if the buffer is full
 * 	ch_receivers  wait only if the buffer is empty
 */
#ifndef USCHED_CHAN_H
#define USCHED_CHAN_H

#include <stdbool.h>
#include <string.h>

#include "../../usync.h"
#include "../wait/budget.h"

#define CHAN_PRIVATE __attribute__((visibility("hidden")))

/* Bytes. Values need no alignment, since they are copied. */
enum { CHAN_PLACE_ALIGN = 8 };

/* Results of an attempt that are neither 0 nor errors. */
enum {
	SELECT_BUSY  = 1,               /* the case has to wait */
	SELECT_TIRED = 2,               /* other threads have to run first */
};

/* If a channel ends a wait by case i, the result is SELECT_RESULTS + i. If a descriptor
   does, the result is less: see net.h. */
enum { SELECT_RESULTS = 2 };

struct usync_chan {
	size_t             ch_size;     /* bytes of a value: constant */
	size_t             ch_capacity; /* values: constant */
	struct uwait_lock  ch_lock;     /* protects all members below */
	bool               ch_closed;
	bool               ch_far;      /* a grant went to another processor, and no wait
					   has lingered since: uwait__linger() */
	struct budget      ch_budgets[2];       /* one for each enum usync_op */
	size_t             ch_count;    /* values in ch_buffer */
	size_t             ch_first;    /* index of the oldest value in ch_buffer */
	struct uwait_queue ch_senders;
	struct uwait_queue ch_receivers;
	char               ch_buffer[];
};

/* A place has all that its waiter needs after the grant, when the channel may be gone. */
struct chan_place {
	struct uwait_place cp_base;     /* first */
	const void        *cp_chan;     /* NULL: the case is for a descriptor */
	uint32_t           cp_size;     /* bytes of cp_value */
	uint16_t           cp_case;     /* index of the case in the select, or 0 */
	bool               cp_sends  : 1;
	bool               cp_last   : 1;       /* no place follows in the room */
	uint8_t            cp_closed;   /* 1: closed, so no value was transferred */
	char               cp_value[];
};

_Static_assert(sizeof(struct chan_place) % CHAN_PLACE_ALIGN == 0,
	       "values follow at once");

static inline void copy_value(void *to, const void *from, size_t size)
{
	/* `to' and `from' may be NULL if the size is 0. */
	if (size > 0)
		memcpy(to, from, size);
}

/* Returns the bytes of a place for a value of `size' bytes. */
static inline size_t place_size(size_t size)
{
	size += sizeof(struct chan_place) + CHAN_PLACE_ALIGN - 1;
	return size / CHAN_PLACE_ALIGN * CHAN_PLACE_ALIGN;
}

static inline struct uwait_queue *queue_of(struct usync_chan *c, enum usync_op op)
{
	return op == USYNC_SEND ? &c->ch_senders : &c->ch_receivers;
}

/* Returns the first place in the room of a waiter. There is at least one place. */
static inline struct chan_place *first_place(const struct uwaiter *w)
{
	return (struct chan_place *)(void *)(w->w_more + 1);
}

static inline void fill_place(struct uwaiter *w, struct chan_place *p,
			      const struct usync_chan *c, enum usync_op op,
			      const void *value)
{
	p->cp_base.wp_waiter = w;
	p->cp_base.wp_node.n_prev = NULL;
	p->cp_chan = c;
	p->cp_size = (uint32_t)c->ch_size;
	p->cp_sends = op == USYNC_SEND;
	p->cp_closed = 0;
	if (op == USYNC_SEND)
		copy_value(p->cp_value, value, p->cp_size);
}

/* In debug builds, checks a value before it is sent: a pointer in the value must not
   point to a stack, since the receiver may follow the pointer. */
CHAN_PRIVATE void usync__check_value(const struct usync_chan *c, const void *value,
				     const char *call, const void *where);

/*
 * Sends or receives, if that needs no wait. If `counts', the budget counts the call; only
 * the first attempt of a call sets `counts'.
 * Returns 0; -EPIPE: the channel is closed; SELECT_BUSY: the call has to wait, and
 * ch_lock is held; SELECT_TIRED, only if `counts': the thread must yield, and nothing was
 * tried.
 */
CHAN_PRIVATE int usync__try(struct usync_chan *c, enum usync_op op, void *value,
			    bool counts);

/* Ends a wait that was granted through `p', and copies a received value to *value.
   Returns 0; -EPIPE: the channel was closed. */
CHAN_PRIVATE int usync__end(const struct chan_place *p, void *value);

#endif /* USCHED_CHAN_H */
