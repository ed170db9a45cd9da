/* SPDX-License-Identifier: MIT */
/*
 * unet_poll.c: waits until one descriptor, or one of several, is ready. Also tries the
 * descriptors of a select for usync_select.c.
 *
 * A poll of several descriptors calls poll(2) for all. If none is ready, the poll enters
 * the queue of each, and the first event ends the wait. The room of the waiter holds a
 * struct net_place for each queue. Places of numbers that are to be ignored, or that only
 * poll(2) knows, have no entry.
 *
 * A poll moves no bytes, so it takes no turn. An event that ends the waits of polls also
 * ends the wait of the first call behind them. If poll(2) finds no input, d_ready stays
 * 0, as after a read with EAGAIN. So until the next edge, calls and polls wait without a
 * system call. Events that d_ready does not cover, such as urgent data, may come before
 * the poll enters the queues. So a poll for such events calls poll(2) once more
 * afterwards.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* POLLRDHUP */
#endif
#include "../base/check.h"
#include "net.h"

enum { POLL_MAX = 65536 };

/* What a poll of several descriptors waits for, in reports. */
static const struct uwait_kind poll_kind = { .kd_name = "one of several descriptors" };

static ssize_t try_poll(const struct descriptor *d, const struct op *o)
{
	struct pollfd one = { d->d_fd, (short)o->o_flags, 0 };
	ssize_t n = result(poll(&one, 1, 0));

	if (n <= 0)
		return n < 0 ? n : -EAGAIN;
	return one.revents & POLLNVAL ? -EBADF : 0;
}

APART static int poll_step(struct descriptor *d, int direction, int64_t deadline,
			   struct turn *t)
{
	static const struct op ways[] = { [NET_IN]  = { .o_flags = POLLIN },
					  [NET_OUT] = { .o_flags = POLLOUT } };

	return (int)unet__step(try_poll, d, direction, &ways[direction], deadline, t);
}

/* Waits for one descriptor. Inlined for each direction, because idle threads block here,
   and the copies have smaller frames. */
__attribute__((always_inline))
static inline int wait_for(int fd, int direction, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	int rc = net_begin(fd, &d, &t);

	if (rc)
		return rc;
	rc = poll_step(d, direction, deadline, &t);
	while (rc == NET_WAITS) {
		rc = net_block(&t, d, direction, deadline);
		if (rc == 0 && t.tu_turn)
			rc = (int)end_step(d, direction, &t,
					   poll_step(d, direction, deadline, &t));
	}
	return rc;
}

/* One descriptor. */

int unet_wait(int fd, short events, int64_t deadline)
{
	switch (events) {
	case POLLIN:
		return wait_for(fd, NET_IN, deadline);
	case POLLOUT:
		return wait_for(fd, NET_OUT, deadline);
	default:
		return -EINVAL;
	}
}

/* Several descriptors. */

/* Returns whether a poll waits in the queue of this direction. Errors and hang-ups end
   the waits in both queues. So a poll for nothing else waits in the queue of NET_IN. */
static bool wants(const struct pollfd *one, int direction)
{
	const int out = POLLOUT | POLLWRNORM | POLLWRBAND;
	const int both = POLLERR | POLLHUP | POLLNVAL;

	if (direction == NET_OUT)
		return one->events & out;
	return one->events & ~(out | both) || !(one->events & out);
}

/* Returns whether `events' ask for this direction. If so, revents tell whether the
   direction is ready. */
static bool asks(const struct pollfd *one, int direction)
{
	return one->events & (direction == NET_OUT ? POLLOUT | POLLWRNORM
			      : POLLIN | POLLRDNORM);
}

/* Returns the events of this direction to wait for. Any other event would end the wait in
   vain. */
static inline unsigned ways_in(int events, int direction)
{
	if (direction == NET_OUT)
		return UEVENTS_OUTPUT;
	return (events & (POLLIN | POLLRDNORM) ? UEVENTS_INPUT : 0u)
		| (events & (POLLPRI | POLLRDBAND) ? UEVENTS_URGENT : 0u)
		| (events & POLLRDHUP ? UEVENTS_PEER_END : 0u);
}

/* Makes the places, which begin at *p and end before *end. Notes generations, and adopts
   open descriptors. poll(2) reports all others. */
static int poll_begin(const struct pollfd *fds, size_t n, struct net_place **p,
		      struct net_place **end)
{
	struct uwaiter *w = uwait_self();
	size_t places = 0;

	for (size_t i = 0; i < n; i++)
		places += (size_t)wants(&fds[i], NET_IN) + wants(&fds[i], NET_OUT);
	*end = *p = w ? (struct net_place *)uwait_room(w, places * sizeof **p) : NULL;
	if (!w || (!*p && n > 0))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct net_place place = { .np_base = { .wp_waiter = w },
					   .np_index = (uint16_t)i };

		if (fds[i].fd >= 0 && net_find(fds[i].fd, &place.np_entry) == -ENOMEM)
			return -ENOMEM;
		if (place.np_entry) {
			place.np_generation = generation_of(place.np_entry);
			if (is_new(place.np_entry))
				unet__adopt(place.np_entry, place.np_generation);
		}
		for (int way = NET_IN; way <= NET_OUT; way++)
			if (wants(&fds[i], way)) {
				place.np_ways = (uint16_t)ways_in(fds[i].events, way);
				*(*end)++ = place;
			}
	}
	return 0;
}

/*
 * Returns whether this place needs no poll(2) while d_ready is 0. That holds only for the
 * input of sockets and pipes. A signalfd, for example, shows the signals of the native
 * thread that looks. As to output, poll(2) may find nothing although a write would fail
 * at once, for example on a listener.
 */
static bool is_told(const struct net_place *p, const struct pollfd *fds)
{
	const int known = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	const struct pollfd *one = &fds[p->np_index];

	return direction_of(p) == NET_IN && !is_new(p->np_entry)
		&& get_kind(p->np_entry) != NET_OTHER
		&& !(one->events & ~known) && asks(one, NET_IN);
}

static bool is_closed(const struct net_place *p)
{
	return p->np_entry && generation_of(p->np_entry) != p->np_generation;
}

/* Returns whether d_ready alone, without poll(2), shows that no descriptor is ready. */
static bool none_ready(const struct pollfd *fds, const struct net_place *p,
		       const struct net_place *end)
{
	while (p < end && p->np_entry && !is_closed(p) && is_told(p, fds)
	       && !is_ready(p->np_entry, NET_IN))
		p++;
	return p == end;
}

/* Enters a descriptor before poll(2), and clears d_ready. Returns false if it was closed.
 */
static bool poll_inside(const struct net_place *p, const struct pollfd *fds)
{
	if (p->np_entry && !net_enter(p->np_entry, p->np_generation))
		return false;
	if (p->np_entry && asks(&fds[p->np_index], direction_of(p)))
		set_ready(p->np_entry, direction_of(p), false);
	return true;
}

/* Reports only descriptors that were closed. The next call reports the rest. */
static int poll_closed(struct pollfd *fds, size_t n, const struct net_place *p,
		       const struct net_place *end)
{
	int found = 0;

	for (size_t i = 0; i < n; i++)
		fds[i].revents = 0;
	for (; p < end; p++)
		if (is_closed(p)) {
			found += !fds[p->np_index].revents;
			fds[p->np_index].revents = POLLNVAL;
		}
	return found;
}

/* Leaves a descriptor after poll(2). Sets d_ready first, because other threads trust a
   d_ready of 0 once d_inside counts no system call. */
static void poll_outside(const struct net_place *p, bool may_be_ready)
{
	struct descriptor *d = p->np_entry;

	for (int way = NET_IN; d && may_be_ready && way <= NET_OUT; way++)
		set_ready(d, way, true);
	if (d)
		net_leave(d);
}

/*
 * Calls poll(2). Returns the number of descriptors with revents, or an error. All
 * descriptors are entered, and d_ready is cleared, before the system call. If one was
 * closed, poll(2) is not called, since another file may have the number.
 */
static int poll_once(struct pollfd *fds, size_t n, const struct net_place *p,
		     const struct net_place *end)
{
	int found, before = defer_cancel();
	const struct net_place *inside = p;
	bool known;

	while (inside < end && poll_inside(inside, fds))
		inside++;
	do
		found = inside < end ? poll_closed(fds, n, p, end)
			: (int)result(poll(fds, n, 0));
	while (found == -EINTR);
	known = inside == end && found >= 0;
	for (; p < inside; p++)
		poll_outside(p, !known || fds[p->np_index].revents);
	allow_cancel(before);
	return found;
}

/* Enters the queues. Then calls poll(2) if events that d_ready does not cover may have
   come before. Returns 0; -EAGAIN if a descriptor is ready; -EBADF if one was closed; or
   an error. */
static int poll_enter(struct pollfd *fds, size_t n, struct net_place *p,
		      const struct net_place *end)
{
	int before = defer_cancel(), rc = 0;
	bool looks = false;

	for (; p < end && rc == 0; p++) {
		bool asked = asks(&fds[p->np_index], direction_of(p));

		if (p->np_entry)
			rc = unet__join(p, !asked);
		looks |= !asked;
	}
	if (rc == 0 && looks && poll(fds, n, 0))
		rc = -EAGAIN;
	allow_cancel(before);
	return rc;
}

/* Waits for all descriptors. Returns 0 if a descriptor may be ready, or an error. */
static int poll_wait(struct pollfd *fds, size_t n, struct net_place *p,
		     const struct net_place *end, int64_t deadline)
{
	struct uwaiter *w = uwait_prepare(deadline, true);
	int rc = uwait_error(w);

	if (rc)
		return rc;
	uwait_note(w, &poll_kind, NULL, __builtin_return_address(0));
	uwait_begin(w);
	rc = poll_enter(fds, n, p, end);
	if (rc == 0 || !uwait_withdraw(w))
		rc = uwait_block(w);
	for (; p < end; p++)
		if (p->np_entry)
			unet__leave(p);
	return rc < 0 && rc != -EAGAIN && rc != -EBADF ? rc : 0;
}

int unet_poll(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct net_place *places, *end;
	int rc;

	check(n ? fds : NULL, CHECK_BUFFER, __func__);
	if (n > POLL_MAX)
		return -EINVAL;
	rc = poll_begin(fds, n, &places, &end);
	if (rc)
		return rc;
	rc = budget_give_way(deadline);
	while (rc == 0) {
		if (deadline <= 0 || !none_ready(fds, places, end))
			rc = poll_once(fds, n, places, end);
		if (rc == 0)
			rc = poll_wait(fds, n, places, end, deadline);
		if (rc == -ETIMEDOUT && deadline > 0)
			/* The next round looks for the last time. */
			rc = 0, deadline = 0;
	}
	/* Sets d_ready where the poll has waited, unless is_told() holds. */
	for (const struct net_place *p = places; p < end; p++)
		if (p->np_entry
		    && ((rc < 0 && rc != -ETIMEDOUT) || !is_told(p, fds)))
			set_ready(p->np_entry, direction_of(p), true);
	return rc;
}

/* Select. */

int unet__try_case(const struct net_place *p, int64_t deadline, bool counts)
{
	/* Because a waiter is given, the step neither counts a call nor yields. */
	struct turn t = { p->np_base.wp_waiter, p->np_generation, false };
	int direction = direction_of(p), rc;

	if (is_closed(p))
		return -EBADF;
	if (counts && (direction == NET_IN || deadline != 0) && usched__is_tired())
		return SELECT_TIRED;
	rc = poll_step(p->np_entry, direction, deadline, &t);
	return rc == NET_WAITS ? SELECT_BUSY : rc;
}
