/* SPDX-License-Identifier: MIT */
/*
 * unet_poll.c: waits until one descriptor, or one of several, is ready. Also tries the
 * descriptors of a select for usync_select.c.
 *
 * A poll of several descriptors calls poll(2) for all. If none is ready, the poll enters
 * the queue of each, and the first event ends the wait. The room of the waiter holds the
 * generation of each descriptor, and then a struct net_place for each queue.
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
#include "../base/cancel.h"
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

__attribute__((noinline))
static int poll_step(struct descriptor *d, int direction, int64_t deadline,
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

/* Returns the entry; or NULL if the number is to be ignored or poll(2) reports it. */
static struct descriptor *polled(const struct pollfd *one)
{
	struct descriptor *d = NULL;

	if (one->fd >= 0)
		net_find(one->fd, &d);
	return d;
}

/* Notes generations, and adopts open descriptors. poll(2) reports all others. */
static int poll_begin(const struct pollfd *fds, size_t n, uint32_t *generations,
		      int64_t deadline)
{
	for (size_t i = 0; i < n; i++) {
		struct descriptor *d;
		int none = fds[i].fd < 0 ? -EBADF : net_find(fds[i].fd, &d);

		if (none == -ENOMEM)
			return none;
		if (none)
			continue;
		generations[i] = generation_of(d);
		if (is_new(d))
			unet__adopt(d, generations[i]);
	}
	return budget_give_way(deadline);
}

/*
 * Returns whether this direction needs no poll(2) while d_ready is 0. That holds only for
 * the input of sockets and pipes. A signalfd, for example, shows the signals of the
 * native thread that looks. As to output, poll(2) may find nothing although a write would
 * fail at once, for example on a listener.
 */
static bool is_told(const struct descriptor *d, const struct pollfd *one, int direction)
{
	const int known = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;

	return direction == NET_IN && !is_new(d) && get_kind(d) != NET_OTHER
		&& !(one->events & ~known) && asks(one, NET_IN);
}

/* Returns whether d_ready alone, without poll(2), shows that no descriptor is ready. */
static bool none_ready(const struct pollfd *fds, size_t n, const uint32_t *generations)
{
	for (size_t i = 0; i < n; i++) {
		const struct descriptor *d = polled(&fds[i]);

		if (d && generation_of(d) != generations[i])
			return false;
		for (int way = NET_IN; way <= NET_OUT; way++)
			if (wants(&fds[i], way)
			    && (!d || !is_told(d, &fds[i], way) || is_ready(d, way)))
				return false;
	}
	return true;
}

/* Enters a descriptor before poll(2), and clears d_ready. Returns false if it was closed.
 */
static bool poll_inside(const struct pollfd *one, uint32_t generation)
{
	struct descriptor *d = polled(one);

	if (d && !net_enter(d, generation))
		return false;
	for (int way = NET_IN; d && way <= NET_OUT; way++)
		if (asks(one, way))
			set_ready(d, way, false);
	return true;
}

/* Reports only descriptors that were closed. The next call reports the rest. */
static int poll_closed(struct pollfd *fds, size_t n, const uint32_t *generations)
{
	int found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct descriptor *d = polled(&fds[i]);

		fds[i].revents = d && generation_of(d) != generations[i] ? POLLNVAL : 0;
		found += fds[i].revents != 0;
	}
	return found;
}

/* Leaves a descriptor after poll(2). Sets d_ready first, because other threads trust a
   d_ready of 0 once d_inside counts no system call. */
static void poll_outside(const struct pollfd *one, bool may_be_ready)
{
	struct descriptor *d = polled(one);

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
static int poll_once(struct pollfd *fds, size_t n, const uint32_t *generations)
{
	int found, before = defer_cancel();
	size_t inside = 0;
	bool known;

	while (inside < n && poll_inside(&fds[inside], generations[inside]))
		inside++;
	do
		found = inside < n ? poll_closed(fds, n, generations)
			: (int)result(poll(fds, n, 0));
	while (found == -EINTR);
	known = inside == n && found >= 0;
	for (size_t i = 0; i < inside; i++)
		poll_outside(&fds[i], !known || fds[i].revents);
	allow_cancel(before);
	return found;
}

/* At the end of a poll, sets d_ready for each direction that the poll has waited for,
   unless is_told() holds. If not `is_known', sets d_ready for all directions. */
static void poll_end(const struct pollfd *fds, size_t n, bool is_known)
{
	for (size_t i = 0; i < n; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = NET_IN; d && way <= NET_OUT; way++)
			if (!is_known || (wants(&fds[i], way)
					  && !is_told(d, &fds[i], way)))
				set_ready(d, way, true);
	}
}

/* Returns the offset of the places in the room. They are behind the generations. */
static size_t places_at(size_t n)
{
	return (n * sizeof(uint32_t) + NET_LINE - 1) / NET_LINE * NET_LINE;
}

static void *poll_room(struct uwaiter *w, const struct pollfd *fds, size_t n,
		       int64_t deadline)
{
	size_t places = 0;

	for (size_t i = 0; i < n && deadline > 0; i++)
		places += (size_t)wants(&fds[i], NET_IN) + wants(&fds[i], NET_OUT);
	return uwait_room(w, places_at(n) + places * sizeof(struct net_place));
}

/* Returns the events to wait for. Any other event would end the wait in vain. */
static inline unsigned ways_in(int events)
{
	return (events & (POLLIN | POLLRDNORM) ? UEVENTS_INPUT : 0u)
		| (events & (POLLPRI | POLLRDBAND) ? UEVENTS_URGENT : 0u)
		| (events & (POLLOUT | POLLWRNORM | POLLWRBAND) ? UEVENTS_OUTPUT : 0u)
		| (events & POLLRDHUP ? UEVENTS_PEER_END : 0u);
}

/* Calls poll(2), since events that d_ready does not cover may have come before the queues
   were entered. Returns -EAGAIN if poll(2) finds any event, or 0. */
static int look_again(struct pollfd *fds, size_t n)
{
	int before = defer_cancel(), found = poll(fds, n, 0);

	allow_cancel(before);
	return found ? -EAGAIN : 0;
}

/* Enters the queues. Returns 0; -EAGAIN if a descriptor is ready; -EBADF if one was
   closed; or an error. */
static int poll_enter(struct uwaiter *w, struct pollfd *fds, size_t n,
		      const uint32_t *generations, struct net_place **end)
{
	bool looks = false;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = NET_IN; way <= NET_OUT && rc == 0; way++) {
			if (!wants(&fds[i], way))
				continue;
			**end = (struct net_place){ .np_base = { .wp_waiter = w } };
			if (d)
				rc = unet__join(*end, d, way, ways_in(fds[i].events),
						!asks(&fds[i], way),
						generations[i]);
			looks |= !asks(&fds[i], way);
			++*end;
		}
	}
	return rc == 0 && looks ? look_again(fds, n) : rc;
}

/* Leaves the queues of the places before `end'. */
static void poll_leave(struct pollfd *fds, size_t n, struct net_place *place,
		       const struct net_place *end)
{
	for (size_t i = 0; i < n; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = NET_IN; way <= NET_OUT; way++) {
			if (!wants(&fds[i], way))
				continue;
			if (d && place < end)
				unet__leave(place, d, way);
			place++;
		}
	}
}

/* Waits for all descriptors. Returns 0 if a descriptor may be ready, or an error. */
static int poll_wait(struct pollfd *fds, size_t n, const uint32_t *generations,
		       int64_t deadline)
{
	struct net_place *places, *end;
	struct uwaiter *w = uwait_prepare(deadline, true);
	int rc = uwait_error(w);

	if (rc)
		return rc;
	uwait_note(w, &poll_kind, NULL, __builtin_return_address(0));
	uwait_begin(w);
	places = (struct net_place *)(void *)((char *)uwait_room(w, 0) + places_at(n));
	end = places;
	rc = poll_enter(w, fds, n, generations, &end);
	if (rc == 0 || !uwait_withdraw(w))
		rc = uwait_block(w);
	poll_leave(fds, n, places, end);
	return rc < 0 && rc != -EAGAIN && rc != -EBADF ? rc : 0;
}

int unet_poll(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct uwaiter *w;
	uint32_t *generations;
	int rc;

	check(n ? fds : NULL, CHECK_BUFFER, __func__);
	if (n > POLL_MAX)
		return -EINVAL;
	w = uwait_self();
	if (!w)
		return -ENOMEM;
	generations = (uint32_t *)poll_room(w, fds, n, deadline);
	if (!generations && n > 0)
		return -ENOMEM;
	rc = poll_begin(fds, n, generations, deadline);
	while (rc == 0) {
		if (deadline <= 0 || !none_ready(fds, n, generations))
			rc = poll_once(fds, n, generations);
		if (rc == 0)
			rc = poll_wait(fds, n, generations, deadline);
		if (rc == -ETIMEDOUT && deadline > 0)
			/* The next round looks for the last time. */
			rc = 0, deadline = 0;
	}
	poll_end(fds, n, rc > 0 || rc == -ETIMEDOUT);
	return rc;
}

/* Select. */

int unet__try_case(struct uwaiter *w, struct descriptor *d, int direction,
		   uint32_t generation, int64_t deadline, bool counts)
{
	/* Because a waiter is given, the step neither counts a call nor yields. */
	struct turn t = { w, generation, false };
	int rc;

	if (generation_of(d) != generation)
		return -EBADF;
	if (counts && (direction == NET_IN || deadline != 0) && usched__is_tired())
		return SELECT_TIRED;
	rc = poll_step(d, direction, deadline, &t);
	return rc == NET_WAITS ? SELECT_BUSY : rc;
}
