/* SPDX-License-Identifier: MIT */
/*
 * poller.h: the poller, which asks the system which descriptors are ready. Private to
 * uevents.c, which calls these functions, and to uevents_epoll.c, which defines them by
 * epoll(7). A struct events has one poller at most. Times are in ns. Errors are negative.
 */
#ifndef USCHED_POLLER_H
#define USCHED_POLLER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	POLLER_BATCH = 64,              /* events of one sleep: few enough to stay in
					   the cache until their threads run */
};

#define POLLER_PRIVATE __attribute__((visibility("hidden")))

struct poller;
struct uinterest;

/* Makes a poller with its descriptors. If `rung', the first sleep ends at once. */
POLLER_PRIVATE int uevents__poller_open(struct poller **p, bool rung);

/* Closes the descriptors. Makes no other system call, since the parent may use them. */
POLLER_PRIVATE void uevents__poller_close(struct poller *p);

/* Reports that the program has closed or replaced a descriptor of a poller. Aborts. */
POLLER_PRIVATE void uevents__lost(int fd) __attribute__((noreturn));

/* These are uevents_add(), uevents__again() and uevents_remove() for a poller. */
POLLER_PRIVATE int uevents__poller_add(struct poller *p, int fd, unsigned ways,
				       struct uinterest *i);
POLLER_PRIVATE int uevents__poller_again(struct poller *p, int fd, unsigned ways,
					 struct uinterest *i);
POLLER_PRIVATE void uevents__poller_remove(struct poller *p, int fd);

/* Interrupts a sleep, as uevents_interrupt() does. Any native thread may call this. */
POLLER_PRIVATE void uevents__poller_interrupt(struct poller *p);

/*
 * Sleeps for `left' ns at most, or without limit if `forever'. Returns how many
 * descriptors were found ready, POLLER_BATCH at most; or -1 if a signal came.
 */
POLLER_PRIVATE int uevents__poller_sleep(struct poller *p, bool forever, int64_t left);

/* Calls in_ready for the n descriptors that the last sleep has found. */
POLLER_PRIVATE void uevents__poller_tell(struct poller *p, int n);

/*
 * Returns a descriptor that becomes readable when a sleep would end. Unless `when' is 0,
 * it also becomes readable when the time `when' has come. Returns -ENOTSUP in a
 * simulation; or another error.
 */
POLLER_PRIVATE int uevents__poller_expose(struct poller *p, int64_t when);

#endif /* USCHED_POLLER_H */
