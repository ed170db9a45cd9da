/* SPDX-License-Identifier: MIT */
/*
 * uevents_poll.c: the poller over poll(2), for any POSIX system: src/events/poller.h.
 *
 * poll(2) has no edges, and the system keeps no set. So the poller has an array of the
 * descriptors that threads wait for, p_fds, and what it has told of a descriptor it looks
 * for no more: uevents_add() enters it again before the next wait. A look takes time for
 * each descriptor in the array. Deadlines are rounded up to milliseconds.
 *
 * Level against edge: where a descriptor is ready and a call says EAGAIN all the same,
 * each wait ends at once, and the thread tries again. So only that is looked for which
 * ends the wait.
 *
 * poll(2) has the array while p_asleep is set, so the array is changed only while it is
 * not. Another native thread that is to change it rings the bell and waits; then the
 * owner does not sleep again before that is done. The system keeps files open that a
 * poll(2) looks at. So a close first takes the number out of all pollers.
 *
 * 	p_fds        bell  7  4  9           p_places[4] = 2, the place of descriptor 4
 * 	p_interests    -   i  i  i           0: it is not in the array
 *
 * The bell is a pipe. p_rung is set while there is a byte in it, so it is never full.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pipe2(), POLLRDHUP */
#endif
#include "poller.h"

#ifdef USCHED_POLL

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cancel.h"
#include "../../uevents.h"

struct found_events {
	struct uinterest *f_interest;
	int               f_fd;
	unsigned          f_ready;
};

/* By p_lock, except for the bell, and p_found, which is the owner's. */
struct poller {
	int                p_bell[2];
	bool               p_rung;      /* atomic */
	bool               p_asleep;
	unsigned           p_changers;  /* native threads that wait until it is not */
	pthread_mutex_t    p_lock;
	pthread_cond_t     p_change;    /* of p_asleep, p_changers */
	size_t             p_n;
	size_t             p_room;
	size_t             p_next;      /* the place where the next look begins */
	size_t             p_numbers;
	struct pollfd     *p_fds;
	struct uinterest **p_interests;
	size_t            *p_places;
	struct found_events p_found[POLLER_BATCH];
};

enum {
	FIRST_ROOM  = 32,               /* descriptors, at first */
	ERROR_PAUSE = 10,               /* ms: after an error of poll(2) */
};

static const struct { unsigned w_way; short w_polled; } ways_of[] = {
	{ UEVENTS_INPUT,    POLLIN | POLLRDNORM },
	{ UEVENTS_URGENT,   POLLPRI | POLLRDBAND },
	{ UEVENTS_OUTPUT,   POLLOUT | POLLWRNORM },
#ifdef POLLRDHUP
	{ UEVENTS_PEER_END, POLLRDHUP },
#endif
	{ UEVENTS_ERROR,    POLLERR | POLLNVAL },
	{ UEVENTS_HANGUP,   POLLHUP | POLLNVAL },
};

enum { WAYS = sizeof ways_of / sizeof *ways_of };

void uevents__poller_close(struct poller *p)
{
	for (int i = 0; i < 2; i++)
		if (p->p_bell[i] >= 0)
			close_deferred(uevents__disown(p->p_bell[i]));
	pthread_cond_destroy(&p->p_change);
	pthread_mutex_destroy(&p->p_lock);
	free(p->p_fds);
	free(p->p_interests);
	free(p->p_places);
	free(p);
}

/* NULL: as it was. What is new is 0. */
static void *grown(void *array, size_t from, size_t to, size_t size)
{
	void *now = realloc(array, to * size);

	if (now)
		memset((char *)now + from * size, 0, (to - from) * size);
	return now;
}

/* For one more descriptor, and this number. 0, -ENOMEM. */
static int make_slots(struct poller *p, size_t number)
{
	size_t room = p->p_room ? 2 * p->p_room : FIRST_ROOM, numbers = p->p_numbers;
	void *now;

	if (number >= numbers) {
		numbers = number < FIRST_ROOM ? FIRST_ROOM : 2 * number;
		now = grown(p->p_places, p->p_numbers, numbers, sizeof *p->p_places);
		if (!now)
			return -ENOMEM;
		p->p_places = (size_t *)now;
		p->p_numbers = numbers;
	}
	if (p->p_n < p->p_room)
		return 0;
	now = grown(p->p_interests, p->p_n, room, sizeof *p->p_interests);
	if (!now)
		return -ENOMEM;
	p->p_interests = (struct uinterest **)now;
	now = grown(p->p_fds, p->p_n, room, sizeof *p->p_fds);
	if (!now)
		return -ENOMEM;
	p->p_fds = (struct pollfd *)now;
	p->p_room = room;
	return 0;
}

void uevents__poller_interrupt(struct poller *p)
{
	if (__atomic_exchange_n(&p->p_rung, true, __ATOMIC_ACQ_REL))
		return;
	while (write(p->p_bell[1], "", 1) < 0 && errno != EAGAIN)
		if (errno != EINTR)
			uevents__lost(p->p_bell[1]);
}

int uevents__poller_open(struct poller **made, bool rung)
{
	struct poller *p = (struct poller *)calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -ENOMEM;
	p->p_bell[0] = p->p_bell[1] = -1;
	pthread_mutex_init(&p->p_lock, NULL);
	pthread_cond_init(&p->p_change, NULL);
	rc = make_slots(p, 0);
	if (rc == 0 && pipe2(p->p_bell, O_CLOEXEC | O_NONBLOCK))
		rc = -errno;
	if (rc) {
		uevents__poller_close(p);
		return rc;
	}
	for (int i = 0; i < 2; i++)
		p->p_bell[i] = uevents__own(p->p_bell[i]);
	p->p_fds[0] = (struct pollfd){ .fd = p->p_bell[0], .events = POLLIN };
	p->p_n = 1;
	if (rung)
		uevents__poller_interrupt(p);
	*made = p;
	return 0;
}

static void look_for(struct pollfd *one, int polled)
{
	one->events = (short)(one->events | polled);
}

/* Under p_lock, which is released meanwhile: until poll(2) does not have the array. */
static void await_wake(struct poller *p)
{
	int before;

	if (!p->p_asleep)
		return;
	before = defer_cancel();
	p->p_changers++;
	while (p->p_asleep) {
		uevents__poller_interrupt(p);
		pthread_cond_wait(&p->p_change, &p->p_lock);
	}
	if (--p->p_changers == 0)
		pthread_cond_broadcast(&p->p_change);
	allow_cancel(before);
}

/* 0: it is not in the array. */
static size_t place_of(const struct poller *p, int fd)
{
	return fd >= 0 && (size_t)fd < p->p_numbers ? p->p_places[fd] : 0;
}

/* What is not open is found to be so by poll(2). */
int uevents__poller_add(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	size_t place;
	int rc = fd < 0 ? -EBADF : 0;

	if (rc)
		return rc;
	pthread_mutex_lock(&p->p_lock);
	await_wake(p);
	place = place_of(p, fd);
	rc = place > 0 ? -EEXIST : make_slots(p, (size_t)fd);
	if (rc == 0) {
		place = p->p_places[fd] = p->p_n++;
		p->p_fds[place] = (struct pollfd){ .fd = fd };
	}
	if (rc == 0 || rc == -EEXIST) {
		p->p_interests[place] = i;
		for (int k = 0; k < WAYS; k++)
			if (ways & ways_of[k].w_way)
				look_for(&p->p_fds[place], ways_of[k].w_polled);
	}
	pthread_mutex_unlock(&p->p_lock);
	return rc;
}

/* It goes by numbers. */
int uevents__poller_again(struct poller *p, int fd, unsigned ways, struct uinterest *i)
{
	return uevents__poller_add(p, fd, ways, i);
}

/* The last takes its place. */
static void take_out(struct poller *p, size_t place)
{
	size_t last = --p->p_n;

	p->p_places[p->p_fds[place].fd] = 0;
	if (place == last)
		return;
	p->p_fds[place] = p->p_fds[last];
	p->p_interests[place] = p->p_interests[last];
	p->p_places[p->p_fds[place].fd] = place;
}

void uevents__poller_remove(struct poller *p, int fd)
{
	size_t place;

	pthread_mutex_lock(&p->p_lock);
	if (place_of(p, fd) > 0)
		await_wake(p);
	place = place_of(p, fd);
	if (place > 0)
		take_out(p, place);
	pthread_mutex_unlock(&p->p_lock);
}

static void fall_asleep(struct poller *p)
{
	pthread_mutex_lock(&p->p_lock);
	while (p->p_changers > 0)
		pthread_cond_wait(&p->p_change, &p->p_lock);
	p->p_asleep = true;
	pthread_mutex_unlock(&p->p_lock);
}

/* A ring until p_rung is cleared writes nothing, and has this sleep end, too. */
static void silence(struct poller *p)
{
	char bytes[8];

	while (read(p->p_bell[0], bytes, sizeof bytes) < 0 && errno == EINTR)
		;
	(void)__atomic_exchange_n(&p->p_rung, false, __ATOMIC_ACQ_REL);
}

/* Errors and the end are told whatever is looked for, so after them nothing is. */
static void tell_found(struct poller *p, struct found_events *f, size_t place)
{
	struct pollfd *one = &p->p_fds[place];
	int told = 0;

	f->f_interest = p->p_interests[place];
	f->f_ready = 0;
	for (int k = 0; k < WAYS; k++) {
		if (one->revents & ways_of[k].w_polled) {
			f->f_ready |= ways_of[k].w_way;
			told |= ways_of[k].w_polled;
		}
	}
	one->events = (short)(one->events & ~told);
	if (!one->events || f->f_ready & (UEVENTS_ERROR | UEVENTS_HANGUP))
		take_out(p, place);
}

/* Of the n that poll(2) has found, to p_found: others are found next time. */
static int take_ready(struct poller *p, int n)
{
	size_t places[POLLER_BATCH];
	int taken = 0;

	for (size_t i = 1; i < p->p_n && taken < n && taken < POLLER_BATCH; i++) {
		if (p->p_next < 1 || p->p_next >= p->p_n)
			p->p_next = 1;
		if (p->p_fds[p->p_next].revents)
			places[taken++] = p->p_next;
		p->p_next++;
	}
	for (int i = 0; i < taken; i++)
		p->p_found[i].f_fd = p->p_fds[places[i]].fd;
	for (int i = 0; i < taken; i++)
		tell_found(p, &p->p_found[i], place_of(p, p->p_found[i].f_fd));
	return taken;
}

int uevents__poller_sleep(struct poller *p, bool forever, int64_t left)
{
	int ms = poller_milli(forever, left), n;
	bool rings;

	fall_asleep(p);
	n = poll(p->p_fds, p->p_n, ms);
	rings = n > 0 && p->p_fds[0].revents;
	if (rings && p->p_fds[0].revents & POLLNVAL)
		uevents__lost(p->p_bell[0]);
	if (n < 0 && errno != EINTR) {          /* no memory: for the bell there is */
		n = poll(p->p_fds, 1, ms < 0 || ms > ERROR_PAUSE ? ERROR_PAUSE : ms);
		rings = n > 0;
		n = 0;
	}
	if (rings)
		silence(p);
	pthread_mutex_lock(&p->p_lock);
	p->p_asleep = false;
	if (p->p_changers > 0)
		pthread_cond_broadcast(&p->p_change);
	if (n > 0)
		n = take_ready(p, n - rings);
	pthread_mutex_unlock(&p->p_lock);
	return n;
}

void uevents__poller_tell(struct poller *p, int n)
{
	for (int i = 0; i < n; i++) {
		struct uinterest *interest = p->p_found[i].f_interest;

		interest->i_ready(interest, p->p_found[i].f_ready);
	}
}

/* There is no descriptor that stands for all others. */
int uevents__poller_expose(struct poller *p, int64_t when)
{
	(void)p;
	(void)when;
	return -ENOTSUP;
}

#endif /* USCHED_POLL */
