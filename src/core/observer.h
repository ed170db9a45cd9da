/* SPDX-License-Identifier: MIT */
/*
 * observer.h: observers of the dispatcher, in one table. Private.
 *
 * A member is NULL until an observer stores a function there, for good, before the
 * observed threads begin. So no file of the dispatcher refers to a file above.
 */
#ifndef USCHED_OBSERVER_H
#define USCHED_OBSERVER_H

#include "../../usched.h"

/* Whether this build of the library looks for mistakes of the program. */
#ifdef USCHED_CHECK
enum { IS_CHECKED = 1 };
#else
enum { IS_CHECKED = 0 };
#endif

struct usched_observer {
	/* `call', which no preemptible region may contain, was called. In builds with
	   USCHED_CHECK; upreempt_region.c's. */
	void (*ob_called)(const char *call);

	/* Writes to standard error which thread `u' is. In builds with USCHED_CHECK;
	   uproc.c's. */
	void (*ob_introduce)(const struct ustack *u);

	/* ustack_check(), of the running thread of `s', which has an s_slice: yields if
	   that is over, and returns what ustack_check() returns. upreempt.c's. */
	int (*ob_give_way)(struct usched *s);

	/* Called before the running thread of `s' blocks. While the member is not NULL,
	   all switches go the long way. debug/ulocks.c's, which may be preloaded. */
	void (*ob_blocks)(const struct usched *s);
};

extern struct usched_observer usched__observer;

/* The function of the table, or NULL. */
#define OBSERVER(function) __atomic_load_n(&usched__observer.function, __ATOMIC_RELAXED)

#ifdef USCHED_CHECK
#define CALLED(call) (OBSERVER(ob_called) ? OBSERVER(ob_called)(call) : (void)0)
#else
#define CALLED(call) ((void)0)
#endif

#endif /* USCHED_OBSERVER_H */
