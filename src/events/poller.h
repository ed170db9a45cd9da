/* SPDX-License-Identifier: MIT */
/*
 * poller.h: which call of the system finds descriptors that are ready. Private to
 * uevents.c, which calls it, and to the two files that have it. Each is empty unless it
 * is chosen when the library is built:
 *
 *   uevents_epoll.c   epoll(7), of Linux
 *   uevents_kqueue.c  kqueue(2), with -DUSCHED_KQUEUE: for the BSDs and macOS
 *
 * Each struct events has a poller at most. It tells of descriptors, and is interrupted.
 * Times are in ns. Errors are negative.
 */
#ifndef USCHED_POLLER_H
#define USCHED_POLLER_H

#include <stdbool.h>
#include <stdint.h>

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

#endif /* USCHED_POLLER_H */
