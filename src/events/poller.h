/* SPDX-License-Identifier: MIT */
/*
 * poller.h: which call of the system finds descriptors that are ready. Private to
 * uevents.c, which calls it, and to the three files that have it. Each is empty unless it
 * is chosen when the library is built:
 *
 *   uevents_epoll.c   epoll(7)
 *   uevents_kqueue.c  kqueue(2), with -DUSCHED_KQUEUE: for the BSDs and macOS
 *   uevents_poll.c    poll(2), with -DUSCHED_POLL: for any POSIX system
 *
 * Each struct events has a poller at most. It tells of descriptors, and is interrupted.
 * Times are in ns. Errors are negative.
 */
#ifndef USCHED_POLLER_H
#define USCHED_POLLER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether what i_ready tells ends the registration for that: it is made again before each
 * wait, and uevents_closing() ends it before each close(2).
 */
#ifdef USCHED_POLL
enum { POLLER_ONCE = 1 };
#else
enum { POLLER_ONCE = 0 };
#endif

/* The library's own descriptors can have another number: not a stand-in for kqueue(2). */
#ifdef USCHED_KQUEUE
enum { POLLER_MOVES = 0 };
#else
enum { POLLER_MOVES = 1 };
#endif

enum {
	POLLER_BATCH = 64,              /* events taken at a time: when their threads run,
					   what they touch is still in the cache */
};

#define POLLER_PRIVATE __attribute__((visibility("hidden")))

struct poller;
struct uinterest;

/* Makes one with its descriptors. rung: it is interrupted. */
POLLER_PRIVATE int uevents__poller_open(struct poller **p, bool rung);

/* Closes its descriptors, and does nothing else to them: a parent may have them. */
POLLER_PRIVATE void uevents__poller_close(struct poller *p);

/* Tells that a descriptor of a poller is not what it was, and aborts. */
POLLER_PRIVATE void uevents__lost(int fd) __attribute__((noreturn));

/* As uevents_add(), uevents__again() and uevents_remove(). */
POLLER_PRIVATE int uevents__poller_add(struct poller *p, int fd, unsigned ways,
				       struct uinterest *i);
POLLER_PRIVATE int uevents__poller_again(struct poller *p, int fd, unsigned ways,
					 struct uinterest *i);
POLLER_PRIVATE void uevents__poller_remove(struct poller *p, int fd);

/* As uevents_interrupt(). From any native thread. */
POLLER_PRIVATE void uevents__poller_interrupt(struct poller *p);

/*
 * Sleeps for that time, at most. Returns how many were found, POLLER_BATCH at most; -1: a
 * signal came.
 */
POLLER_PRIVATE int uevents__poller_sleep(struct poller *p, bool forever, int64_t left);

/* Calls i_ready of the n that were found. */
POLLER_PRIVATE void uevents__poller_tell(struct poller *p, int n);

/*
 * Returns a descriptor that is readable when there is something to find, or the time has
 * come; 0: no time. -ENOTSUP: the system has no such thing.
 */
POLLER_PRIVATE int uevents__poller_expose(struct poller *p, int64_t when);

/* For poll(2) and its like: not earlier. */
static inline int poller_milli(bool forever, int64_t left)
{
	const int64_t milli = 1000000;          /* ns */

	left = (left + milli - 1) / milli;
	return forever ? -1 : left > INT32_MAX ? INT32_MAX : (int)left;
}

#endif /* USCHED_POLLER_H */
