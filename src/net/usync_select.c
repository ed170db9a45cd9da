/* SPDX-License-Identifier: MIT */
/*
 * usync_select.c: select, over channels and descriptors. Places are described in
 * src/sync/chan.h.
 *
 * If the case of a channel can be done at once, no places are made. Otherwise each case
 * gets a place before a descriptor is tried, since the place of a descriptor keeps the
 * generation that the whole call uses. In the queue of the descriptor is the place of a
 * poll, which is the value of that place: a grant transfers nothing, and afterwards all
 * cases are tried again.
 */
#include <stdio.h>

#include "../base/check.h"
#include "../wait/wait.h"
#include "net.h"

enum {
	CASES_MAX = 65536,
	MIXED     = SELECT_TIRED + 1,   /* a result: the next case is for a descriptor */
};

/* Returns what the place of a descriptor holds, where that of a channel has a value. */
static struct net_place *descriptor_of(struct chan_place *p)
{
	return (struct net_place *)(void *)p->cp_value;
}

static struct chan_place *place_behind(struct chan_place *p)
{
	return (struct chan_place *)(void *)((char *)p + place_size(p->cp_size));
}

/* Returns the place after `p', or NULL. */
static struct chan_place *next_place(struct chan_place *p)
{
	return p->cp_last ? NULL : place_behind(p);
}

/* Describes as many cases as fit in a report. Is kd_tell of the kinds below. */
static void tell_channels(const struct uwaiter *w, struct ustack_why *why)
{
	static const char *const ways[2][2] = { { " to receive", " to send" },
						{ " to read", " to write" } };
	struct chan_place *p = first_place(w);
	size_t n = 0, room = sizeof why->wy_more;

	why->wy_how = ways[!p->cp_chan][p->cp_sends];
	while (n < room && (p = next_place(p)))
		n += p->cp_chan
			? (size_t)snprintf(why->wy_more + n, room - n, " or channel %p%s",
					   p->cp_chan, ways[0][p->cp_sends])
			: (size_t)snprintf(why->wy_more + n, room - n,
					   " or descriptor %d%s",
					   descriptor_of(p)->np_entry->d_fd,
					   ways[1][p->cp_sends]);
}

#define CHANNEL(how)    { .kd_name = "channel", .kd_how = how, .kd_tell = tell_channels }
#define DESCRIPTOR(how) { .kd_name = "descriptor", .kd_how = how, \
			  .kd_tell = tell_channels, .kd_number = true }

/*
 * The kinds of waits. The indices are whether the first case is for a descriptor, its
 * direction, and whether there are other cases. A reader outside of the process cannot
 * call kd_tell, and sees name, object and way of the first case.
 */
static const struct uwait_kind kinds[2][2][2] = {
	{ { CHANNEL(" to receive"), CHANNEL(" to receive, or others") },
	  { CHANNEL(" to send"), CHANNEL(" to send, or others") } },
	{ { DESCRIPTOR(" to read"), DESCRIPTOR(" to read, or others") },
	  { DESCRIPTOR(" to write"), DESCRIPTOR(" to write, or others") } },
};
static const struct uwait_kind no_case = { .kd_name = "no channel" };

/* Notes the wait for reports; `p' is the first place, or NULL. */
static void note(struct uwaiter *w, struct chan_place *p, const void *where)
{
	const void *object = !p ? NULL : p->cp_chan ? p->cp_chan
		: (const void *)(intptr_t)descriptor_of(p)->np_entry->d_fd;

	uwait_note(w, p ? &kinds[!p->cp_chan][p->cp_sends][!p->cp_last] : &no_case,
		   object, where);
}

static void check_cases(const struct usync_case *cases, size_t n, const void *where)
{
	check(n ? cases : NULL, CHECK_BUFFER, "usync_select");
	for (size_t i = 0; i < n; i++)
		if (cases[i].cs_chan && cases[i].cs_op == USYNC_SEND)
			usync__check_value(cases[i].cs_chan, cases[i].cs_value,
					   "usync_select", where);
		else if (cases[i].cs_chan && cases[i].cs_chan->ch_size)
			check(cases[i].cs_value, CHECK_BUFFER, "usync_select");
}

static bool may_send(const struct usync_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (cases[i].cs_chan && cases[i].cs_op == USYNC_SEND)
			return true;
	return false;
}

/* Select with descriptors. */

static bool is_descriptor(const struct usync_case *k)
{
	return k->cs_op >= USYNC_READABLE && k->cs_fd >= 0;
}

/*
 * Returns the number of the case to try first, below n. It is taken at random from the
 * clock, or chosen by the simulation. A loop may take the same time each round, so the
 * time is multiplied, by 2^64 divided by the golden ratio: Knuth, "The Art of Computer
 * Programming", volume 3, section 6.4.
 */
static inline size_t any(size_t n)
{
	if (SIMULATED)
		return sim__choose("the first case", n);
	return (uint32_t)((uint64_t)uevents_now() * 0x9e3779b97f4a7c15 >> 32) % n;
}

/*
 * Does a case that can be done at once. If `counts' is set, the call counts for the
 * budget, once, when the first case is tried. Returns 0 if case *done was done;
 * SELECT_BUSY if all cases have to wait; SELECT_TIRED if the thread has to yield first;
 * MIXED if the next case to try, *done, is for a descriptor.
 */
static int try_all(struct usync_case *cases, size_t n, bool counts, int *done)
{
	size_t first = n > 1 ? any(n) : 0;

	for (size_t i = 0; i < n; i++) {
		struct usync_case *k = &cases[(first + i) % n];
		int rc;

		if (!k->cs_chan) {
			if (!is_descriptor(k))
				continue;
			*done = (int)(k - cases);
			return MIXED;
		}
		rc = usync__try(k->cs_chan, k->cs_op, k->cs_value, counts);
		if (rc == SELECT_TIRED)
			return SELECT_TIRED;
		if (rc != SELECT_BUSY) {
			k->cs_rc = rc;
			*done = (int)(k - cases);
			return 0;
		}
		counts = false;
		uwait_unlock(&k->cs_chan->ch_lock);
	}
	return SELECT_BUSY;
}

/* Returns the number of bytes of all places, or SIZE_MAX on overflow. */
static size_t places_size(const struct usync_case *cases, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++) {
		size_t value = cases[i].cs_chan ? cases[i].cs_chan->ch_size
			: sizeof(struct net_place);

		if ((cases[i].cs_chan || is_descriptor(&cases[i]))
		    && __builtin_add_overflow(size, place_size(value), &size))
			return SIZE_MAX;
	}
	return size;
}

static int fill_descriptor(struct uwaiter *w, struct chan_place *p,
			   const struct usync_case *k)
{
	struct net_place *c = descriptor_of(p);
	bool sends = k->cs_op == USYNC_WRITABLE;
	int rc;

	*p = (struct chan_place){ .cp_size = sizeof *c, .cp_sends = sends };
	*c = (struct net_place){ .np_base = { .wp_waiter = w },
				 .np_ways = (uint16_t)way_of(sends) };
	rc = net_find(k->cs_fd, &c->np_entry);
	c->np_generation = c->np_entry ? generation_of(c->np_entry) : 0;
	return rc == -ENOMEM ? rc : 0;          /* try_place() will return -EBADF */
}

/* Makes a place for each case with a channel or a descriptor. Sets *first to the first
   place, or to NULL if there is none. Returns 0 or -ENOMEM. */
static int make_places(const struct usync_case *cases, size_t n,
		       struct chan_place **first)
{
	struct chan_place *p, *last = NULL;
	struct uwaiter *w = uwait_self();
	size_t size = places_size(cases, n);
	int rc = 0;

	*first = NULL;
	if (!w || (size > 0 && !uwait_room(w, size)))
		return -ENOMEM;
	if (size == 0)
		return 0;
	p = *first = first_place(w);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct usync_case *k = &cases[i];

		if (!k->cs_chan && !is_descriptor(k))
			continue;
		last = p;
		if (k->cs_chan)
			fill_place(w, p, k->cs_chan, k->cs_op, k->cs_value);
		else
			rc = fill_descriptor(w, p, k);
		p->cp_case = (uint16_t)i;
		p->cp_last = false;
		p = place_behind(p);
	}
	last->cp_last = true;
	return rc;
}

static int try_place(struct chan_place *p, struct usync_case *k, int64_t deadline,
		     bool counts)
{
	const struct net_place *d = descriptor_of(p);
	int rc;

	if (!k->cs_chan)
		return d->np_entry ? unet__try_case(d, deadline, counts) : -EBADF;
	rc = usync__try(k->cs_chan, k->cs_op, k->cs_value, counts);
	if (rc == SELECT_BUSY)
		uwait_unlock(&k->cs_chan->ch_lock);
	return rc;
}

/* Does what try_all() does, but with places, and begins at the case `from'. */
static int try_places(struct chan_place *first, struct usync_case *cases, size_t from,
		      int64_t deadline, bool counts, int *done)
{
	struct chan_place *p = first, *begin;

	while (!p->cp_last && p->cp_case < from)
		p = next_place(p);
	begin = p;
	do {
		struct usync_case *k = &cases[p->cp_case];
		int rc = try_place(p, k, deadline, counts);

		if (rc == SELECT_TIRED)
			return SELECT_TIRED;
		if (rc != SELECT_BUSY) {
			*done = (int)(k - cases);
			if (rc == 0 || k->cs_chan || rc == -EBADF)
				k->cs_rc = rc;
			else
				*done = rc;
			return 0;
		}
		counts = false;
		p = p->cp_last ? first : next_place(p);
	} while (p != begin);
	return SELECT_BUSY;
}

/* Returns whether the case need not wait: the buffer or a partner other than `w' can do
   the case, or the channel was closed, so that the case fails. Called under ch_lock. */
static inline bool could(const struct usync_case *k, const struct uwaiter *w)
{
	const struct usync_chan *c = k->cs_chan;
	const struct uwait_node *n;

	if (c->ch_closed || c->ch_count != (k->cs_op == USYNC_SEND ? c->ch_capacity : 0))
		return true;
	n = k->cs_op == USYNC_SEND ? c->ch_receivers.q_first : c->ch_senders.q_first;
	while (n && ((const struct uwait_place *)(const void *)n)->wp_waiter == w)
		n = n->n_next;
	return n != NULL;
}

static int push_chan(const struct usync_case *k, struct chan_place *p)
{
	bool done;

	uwait_lock(&k->cs_chan->ch_lock);
	done = could(k, p->cp_base.wp_waiter);
	if (!done)
		uwait_push(queue_of(k->cs_chan, k->cs_op), &p->cp_base.wp_node);
	uwait_unlock(&k->cs_chan->ch_lock);
	return done ? -EAGAIN : 0;
}

/*
 * Puts all places into their queues. From the first push on, partners may claim the
 * waiter. Returns 0; -EAGAIN if a case can be done at once, and so some places were not
 * pushed; or an error.
 */
static int push_all(struct chan_place *p, const struct usync_case *cases)
{
	int rc = 0;

	for (; p && rc == 0; p = next_place(p))
		rc = p->cp_chan ? push_chan(&cases[p->cp_case], p)
			: unet__join(descriptor_of(p), false);
	/* try_places() will find the closed descriptor. */
	return rc == -EBADF ? -EAGAIN : rc;
}

/* Takes all nodes out of their queues, except the node of the case that a partner has
   done. The partner has taken out that node, and the channel of that case may be gone. */
static void remove_all(struct chan_place *p, const struct usync_case *cases, int result)
{
	for (; p; p = next_place(p)) {
		const struct usync_case *k = &cases[p->cp_case];

		if (!k->cs_chan) {
			unet__leave(descriptor_of(p));
		} else if (p->cp_case + SELECT_RESULTS != result) {
			uwait_lock(&k->cs_chan->ch_lock);
			uwait_remove(queue_of(k->cs_chan, k->cs_op),
				     &p->cp_base.wp_node);
			uwait_unlock(&k->cs_chan->ch_lock);
		}
	}
}

/* If the case of a channel was granted, returns its index. If a descriptor is ready or
   was closed, returns -EAGAIN: all cases are to be tried again. */
static int end_select(struct chan_place *p, struct usync_case *cases, int result)
{
	struct usync_case *k;

	if (result < SELECT_RESULTS)
		return -EAGAIN;
	k = &cases[result - SELECT_RESULTS];
	while (p->cp_case + SELECT_RESULTS != result)
		p = next_place(p);
	k->cs_rc = usync__end(p, k->cs_value);
	return (int)(k - cases);
}

/* Waits. Returns the index of a case that was done; -EAGAIN if all cases are to be tried
   again; or an error. */
static int wait_any(struct chan_place *first, struct usync_case *cases, int64_t deadline,
		    bool mixed, const void *where)
{
	struct uwaiter *w = uwait_prepare(deadline, mixed);
	struct uevents *e;
	int rc = uwait_error(w);

	if (rc == 0 && mixed)
		/* A grant needs the events, so the events are made first. */
		rc = uwait__events(w, &e);
	if (rc)
		return rc;
	note(w, first, where);
	uwait_begin(w);
	rc = push_all(first, cases);
	if (rc == 0 || !uwait_withdraw(w)) {
		rc = uwait_block(w);
		remove_all(first, cases, rc);
		return rc < 0 ? rc : end_select(first, cases, rc);
	}
	remove_all(first, cases, rc);
	return rc;
}

/* Selects with places. If `mixed' is set, some cases are for descriptors, and the cases
   from `from' on were not tried yet. */
static int select_places(struct usync_case *cases, size_t n, int64_t deadline,
			 const void *where, bool mixed, size_t from)
{
	bool waited = false, counts = deadline != 0 || !may_send(cases, n);
	struct chan_place *first;
	int busy = SELECT_BUSY, rc = make_places(cases, n, &first);

	if (rc)
		return rc;
	if (mixed)
		busy = try_places(first, cases, from, deadline, counts, &rc);
	if (busy == SELECT_TIRED) {
		rc = usched__yield_tired(deadline);
		busy = rc ? 0 : try_places(first, cases, from, deadline, false, &rc);
	}
	while (busy) {
		rc = waited && deadline != USCHED_NEVER && uevents_now() >= deadline
			? -ETIMEDOUT : wait_any(first, cases, deadline, mixed, where);
		waited = true;
		busy = rc == -EAGAIN
			&& try_places(first, cases, any(n), deadline, false, &rc);
	}
	return rc;
}

UWAIT_CALL int usync_select(struct usync_case *cases, size_t n, int64_t deadline)
{
	int busy, rc;

	if (n > CASES_MAX)
		return -EINVAL;
	check_cases(cases, n, __builtin_return_address(0));
	busy = try_all(cases, n, deadline != 0 || !may_send(cases, n), &rc);
	if (busy == SELECT_TIRED) {
		rc = usched__yield_tired(deadline);
		busy = rc ? 0 : try_all(cases, n, false, &rc);
	}
	if (busy == SELECT_BUSY && deadline <= 0)
		return -ETIMEDOUT;
	return busy ? select_places(cases, n, deadline, __builtin_return_address(0),
				    busy == MIXED, (size_t)rc) : rc;
}
